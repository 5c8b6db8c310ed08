//! Lists of triplets `[anchor, positive, negative]` in lexicographic order: all valid ones, or those in a band of
//! `s_ap - s_an`, a window of the list at a time.
//!
//! Two passes: count the triplets of each cell (one pair with a stretch of references), then write each cell's at the place that
//! the prefix sum of the counts gives. So the list is the same on any engine, however the work is cut.

use std::ops::Range;

use bytemuck::{Pod, Zeroable, cast_slice, cast_slice_mut};

use super::similarities::width;
use super::{Kernel, READ, READ_WRITE, groups_for, index, wgsl::wgsl};
use crate::cpu;
pub use crate::cpu::triplets::{Band, Batch, CELL, NO_PLACE, Row};
use crate::engine::{Commands, DeviceVec};

const SOURCE: &[&str] = wgsl!("triplets.wgsl");

/// The most references that [`facenet`] takes: software adapters end an invocation's loops after some 65,000 steps, without an
/// error.
pub const FACENET_MOST: usize = 30_000 * WORKGROUP_SIZE as usize;

/// Invocations of a workgroup: each has 32 references of a cell.
const WORKGROUP_SIZE: u32 = CELL as u32 / 32;

/// Triplets that one invocation writes or sums up; the shader's `RUN`.
const RUN: usize = 32;

/// One invocation per 32 triplets.
pub static VALID: Kernel = Kernel {
    name: "triplets.valid",
    source: SOURCE,
    entry: "valid",
    bindings: &[READ, READ, READ_WRITE],
    workgroup_size: WORKGROUP_SIZE,
    workgroup_bytes: 0,
    any_size: false,
};

/// One workgroup a cell.
pub static COUNT: Kernel = Kernel {
    name: "triplets.count",
    entry: "count",
    bindings: &[READ, READ, READ, READ, READ_WRITE],
    workgroup_bytes: 4 * WORKGROUP_SIZE,
    ..VALID
};

/// One workgroup a cell.
pub static WRITE: Kernel = Kernel {
    name: "triplets.write",
    entry: "write",
    bindings: &[READ, READ, READ, READ, READ, READ_WRITE],
    ..COUNT
};

/// One workgroup a pair.
pub static FACENET: Kernel = Kernel {
    name: "triplets.facenet",
    entry: "facenet",
    workgroup_bytes: 16 * WORKGROUP_SIZE,
    ..WRITE
};

/// One invocation per 32 triplets.
pub static CHECKSUM: Kernel = Kernel {
    name: "triplets.checksum",
    entry: "checksum",
    bindings: &[READ, READ_WRITE],
    ..VALID
};

#[repr(C)]
#[derive(Clone, Copy, Default, Pod, Zeroable)]
struct Params {
    width: u32,
    rows: u32,
    references: u32,
    first_pair: u32,
    first_cell: u32,
    items: u32,
    low: f32,
    high: f32,
    begin: [u32; 2],
    first: u32,
    room: u32,
}

/// Inputs of [`count`] and [`write()`].
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// The anchors of the block, in order; `offset` is the number of (anchor, positive) pairs before.
    pub rows: &'a DeviceVec<Row>,
    /// References by class, each class ascending.
    pub members: &'a DeviceVec<u32>,
    /// The class of each reference.
    pub labels: &'a DeviceVec<u32>,
    /// `[rows, width(references)]`, as [`super::similarities`] leaves them.
    pub similarities: &'a DeviceVec<f32>,
}

impl<'a> Inputs<'a> {
    fn slices(self) -> cpu::triplets::Slices<'a> {
        cpu::triplets::Slices {
            rows: self.rows.slice(),
            members: self.members.slice(),
            labels: self.labels.slice(),
            similarities: self.similarities.slice(),
        }
    }
}

fn params(batch: &Batch, cells: &Range<usize>) -> Params {
    Params {
        rows: index(batch.rows),
        references: index(batch.references),
        width: index(width(batch.references)),
        first_pair: index(batch.first_pair),
        first_cell: index(cells.start),
        items: index(cells.len()),
        low: batch.band.low,
        high: batch.band.high,
        ..Params::default()
    }
}

/// Counts the triplets that are kept in each of these cells of the batch.
///
/// # Shapes
/// `counts`: `[cells of the batch]`
pub fn count(
    commands: &mut Commands,
    batch: &Batch,
    cells: Range<usize>,
    inputs: Inputs<'_>,
    counts: &mut DeviceVec<u32>,
) {
    match commands {
        Commands::Gpu(gpu) => gpu.dispatch(
            &COUNT,
            &params(batch, &cells),
            &[
                inputs.rows.binding(),
                inputs.members.binding(),
                inputs.labels.binding(),
                inputs.similarities.binding(),
                counts.binding(),
            ],
            cells.len() as u64,
        ),
        Commands::Cpu(calls) => {
            *calls += 1;
            let (width, counts) = (width(batch.references), counts.slice_mut());
            cpu::triplets::count(batch, width, cells, inputs.slices(), counts);
        }
    }
}

/// Writes the kept triplets of these cells that have a number in `window`, counted from the batch's first.
///
/// # Shapes
/// `offsets`: `[cells of the batch + 1]`, the prefix sum of their counts · `triplets`: `[window, 3]`
pub fn write(
    commands: &mut Commands,
    batch: &Batch,
    cells: Range<usize>,
    window: Range<u32>,
    inputs: Inputs<'_>,
    offsets: &DeviceVec<u32>,
    triplets: &mut DeviceVec<u32>,
) {
    match commands {
        Commands::Gpu(gpu) => {
            let params = Params {
                first: window.start,
                room: window.end - window.start,
                ..params(batch, &cells)
            };
            gpu.dispatch(
                &WRITE,
                &params,
                &[
                    inputs.rows.binding(),
                    inputs.members.binding(),
                    inputs.labels.binding(),
                    inputs.similarities.binding(),
                    offsets.binding(),
                    triplets.binding(),
                ],
                cells.len() as u64,
            );
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            let width = width(batch.references);
            let triplets = &mut triplets.slice_mut()[..3 * window.len()];
            cpu::triplets::write(
                batch,
                width,
                cells,
                window,
                inputs.slices(),
                offsets.slice(),
                cast_slice_mut(triplets),
            );
        }
    }
}

/// Writes FaceNet's triplet of each of these (anchor, positive) pairs of the block, from the window's triplet `first` on. Its
/// negative is the nearest that is strictly farther than the positive, or else the farthest of all; of equals the first. `unused`
/// is not read: it fills a binding.
///
/// # Shapes
/// `triplets`: `[window, 3]`
#[expect(clippy::too_many_arguments, reason = "what a kernel reads and writes")]
pub fn facenet(
    commands: &mut Commands,
    rows: usize,
    references: usize,
    pairs: Range<usize>,
    first: usize,
    inputs: Inputs<'_>,
    unused: &DeviceVec<u32>,
    triplets: &mut DeviceVec<u32>,
) {
    match commands {
        Commands::Gpu(gpu) => {
            let params = Params {
                rows: index(rows),
                references: index(references),
                width: index(width(references)),
                first_pair: index(pairs.start),
                items: index(pairs.len()),
                first: index(first),
                ..Params::default()
            };
            gpu.dispatch(
                &FACENET,
                &params,
                &[
                    inputs.rows.binding(),
                    inputs.members.binding(),
                    inputs.labels.binding(),
                    inputs.similarities.binding(),
                    unused.binding(),
                    triplets.binding(),
                ],
                pairs.len() as u64,
            );
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            let triplets = &mut triplets.slice_mut()[3 * first..][..3 * pairs.len()];
            let (width, triplets) = (width(references), cast_slice_mut(triplets));
            let inputs = inputs.slices();
            cpu::triplets::facenet(rows, references, width, pairs.start, inputs, triplets);
        }
    }
}

/// Writes the valid triplets of `rows` that have these numbers in the window.
///
/// The list goes on at positive `begin[0]` and negative `begin[1]` of the first row, counted among its own positives and negatives.
/// Every row must have a triplet.
///
/// # Shapes
/// `members`: `[references]`, by class, each class ascending · `triplets`: `[window, 3]`
#[expect(clippy::too_many_arguments, reason = "what a kernel reads and writes")]
pub fn valid(
    commands: &mut Commands,
    references: usize,
    begin: [u32; 2],
    numbers: Range<usize>,
    count: usize,
    rows: &DeviceVec<Row>,
    members: &DeviceVec<u32>,
    triplets: &mut DeviceVec<u32>,
) {
    match commands {
        Commands::Gpu(gpu) => {
            let params = Params {
                rows: index(count),
                references: index(references),
                items: index(numbers.len()),
                begin,
                first: index(numbers.start),
                ..Params::default()
            };
            gpu.dispatch(
                &VALID,
                &params,
                &[rows.binding(), members.binding(), triplets.binding()],
                groups_for(&VALID, numbers.len().div_ceil(RUN)),
            );
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            let (rows, members) = (&rows.slice()[..count], members.slice());
            let triplets = &mut triplets.slice_mut()[3 * numbers.start..3 * numbers.end];
            let triplets = cast_slice_mut(triplets);
            cpu::triplets::valid(references, begin, numbers.start, rows, members, triplets);
        }
    }
}

/// Adds to `total` the checksum of the window's first `count` triplets and their places in the list, modulo 2^32. The window begins
/// at triplet `first` of the list.
///
/// # Shapes
/// `triplets`: `[window, 3]` · `total`: `[1]`
pub fn checksum(
    commands: &mut Commands,
    first: u64,
    count: usize,
    triplets: &DeviceVec<u32>,
    total: &mut DeviceVec<u32>,
) {
    let first = first as u32;
    match commands {
        Commands::Gpu(gpu) => {
            let params = Params {
                items: index(count),
                first,
                ..Params::default()
            };
            gpu.dispatch(
                &CHECKSUM,
                &params,
                &[triplets.binding(), total.binding()],
                groups_for(&CHECKSUM, count.div_ceil(RUN)),
            );
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            let triplets = cast_slice(&triplets.slice()[..3 * count]);
            let total = &mut total.slice_mut()[0];
            *total = total.wrapping_add(cpu::triplets::checksum(first, triplets));
        }
    }
}
