//! The search of [`knn`] in two steps, natively only: all references as f16, then f32 for the few candidates that are left.
//!
//! Numbers are multiplied in f32 and summed in f32: only the references are rounded, and take half the bytes. What an adapter's
//! matrix units could do with f16 is not used: their rounding is documented by nobody, and nothing here could test it.

use std::ops::Range;

use super::knn::{self, Asked, Scratch, Search};
use super::tile::{self, Shape};
use super::{Access, Kernel, wgsl::wgsl};
use crate::cpu;
use crate::device::DeviceInfo;
use crate::engine::{Commands, DeviceVec};

const SOURCE: &[&str] = wgsl!("knn.wgsl", "packed.wgsl", "tile.wgsl");

/// One workgroup a row.
pub static PACK: Kernel = Kernel {
    name: "packed.pack",
    source: SOURCE,
    entry: "pack",
    bindings: &[Access::Read, Access::ReadWrite, Access::ReadWrite],
    workgroup_size: 64,
    workgroup_bytes: 8 * 64,
    any_size: false,
};

/// As [`Shape::Strip`] has it.
pub static STRIP: Kernel = Kernel {
    name: "packed.strip",
    source: SOURCE,
    ..knn::STRIP
};

/// As [`Shape::Tile`] has it.
pub static TILE: Kernel = Kernel {
    name: "packed.tile",
    entry: "tile",
    workgroup_bytes: tile::WORKGROUP_BYTES,
    ..STRIP
};

/// One invocation per query and candidate.
pub static RESCORE: Kernel = Kernel {
    name: "packed.rescore",
    entry: "rescore",
    bindings: &[
        Access::Read,
        Access::Read,
        Access::Read,
        Access::ReadWrite,
        Access::ReadWrite,
        Access::ReadWrite,
    ],
    ..STRIP
};

/// The kernels that a device uses, beside those of [`knn`]: [`super::used_on`] leaves them out, as few searches need them.
pub fn used_on(info: &DeviceInfo) -> impl Iterator<Item = &'static Kernel> + use<> {
    let tile = (!info.software || info.shape == Some(Shape::Tile)).then_some(&TILE);
    [&PACK, &STRIP, &RESCORE].into_iter().chain(tile)
}

/// Floats and what became of them.
#[derive(Debug)]
pub struct Packed {
    /// `[references, stride / 2]`: two numbers in a word, the first in its lower half, each `2^15` times what it was.
    pub halves: DeviceVec<u32>,
    /// `[2]`: the largest squared error and the largest squared length of any row so far, as bits of f32. They are sums in
    /// f32: [`crate::Certificate`] knows how far off. Zero before the first row.
    pub measured: DeviceVec<u32>,
}

/// What becomes of candidates that are scored again.
#[derive(Debug)]
pub struct Rescored {
    /// `[queries, k]`: the nearest of them as `[bits of the similarity, id]`, with the bits and in the order of [`knn::search`].
    pub found: DeviceVec<[u32; 2]>,
    /// `[queries]`: bits of the rounded similarity of the farthest candidate, or 3.0 where some were lost, and of the query's
    /// squared length.
    pub judged: DeviceVec<[u32; 2]>,
}

/// What a look at packed references reads.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// Unit rows of the block's queries `[_, stride]`.
    pub queries: &'a DeviceVec<f32>,
    /// The references.
    pub packed: &'a Packed,
    /// What is known of each query.
    pub asked: &'a DeviceVec<Asked>,
}

/// Packs the rows from `first` on, `count` of them, and measures their errors. Rows are finite, of length 1 at most, about.
///
/// # Shapes
/// `rows`: `[_, stride]`
pub fn pack(
    commands: &mut Commands,
    first: usize,
    count: usize,
    stride: usize,
    rows: &DeviceVec<f32>,
    packed: &mut Packed,
) {
    match commands {
        Commands::Gpu(gpu) => {
            let search = Search {
                first_row: first,
                rows: count,
                references: 0,
                first_id: 0,
                stride,
                k: 1,
            };
            let Packed { halves, measured } = packed;
            let buffers = [rows.binding(), halves.binding(), measured.binding()];
            gpu.dispatch(&PACK, &knn::params(&search), &buffers, count as u64);
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            let rows = &rows.slice()[first * stride..][..count * stride];
            let halves = &mut packed.halves.slice_mut()[first * stride / 2..][..count * stride / 2];
            cpu::packed::pack(rows, stride, halves, packed.measured.slice_mut());
        }
    }
}

/// How many visits may be looked at together after `done` of them: as [`knn::visits_together`] has it for many queries.
pub fn visits_together(search: &Search, done: usize) -> usize {
    knn::visits_together(search, Shape::Strip, done)
}

/// Does what [`knn::search`] does, with the references rounded to f16: `scratch.kept` holds the candidates.
pub fn search(
    commands: &mut Commands,
    search: &Search,
    visits: Range<usize>,
    shape: Shape,
    inputs: Inputs<'_>,
    scratch: &mut Scratch,
) {
    let Inputs {
        queries,
        packed,
        asked,
    } = inputs;
    match commands {
        Commands::Gpu(gpu) => {
            let buffers = [
                queries.binding(),
                packed.halves.binding(),
                asked.binding(),
                scratch.kept.binding(),
                scratch.survivors.binding(),
                scratch.counts.binding(),
            ];
            let (params, references) = knn::params_of(search, &visits);
            let kernel = shape.choose(&STRIP, &TILE);
            let groups = shape.groups(search.rows, references);
            gpu.dispatch(kernel, &params, &buffers, groups);
            knn::keep(gpu, search, shape, &params, &buffers);
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            let (queries, halves) = (queries.slice(), packed.halves.slice());
            let (kept, survivors) = (scratch.kept.slice_mut(), scratch.survivors.slice_mut());
            let asked = asked.slice();
            cpu::packed::search(search, visits, queries, halves, asked, kept, survivors);
        }
    }
}

/// Scores the `search.k` candidates of each query again, in f32, and finds the `k` nearest of them. All references are there,
/// numbered from 0, and `search.first_row` is 0.
pub fn rescore(
    commands: &mut Commands,
    search: &Search,
    k: usize,
    shape: Shape,
    inputs: knn::Inputs<'_>,
    scratch: &mut Scratch,
    rescored: &mut Rescored,
) {
    debug_assert!(search.first_row == 0 && search.first_id == 0, "all at once");
    let knn::Inputs {
        queries,
        references,
        asked,
    } = inputs;
    match commands {
        Commands::Gpu(gpu) => {
            let Rescored { found, judged } = rescored;
            let (survivors, counts) = (&scratch.survivors, &scratch.counts);
            let nearest = Search { k, ..*search };
            let params = knn::params(&nearest);
            let to_found = [
                queries.binding(),
                references.binding(),
                asked.binding(),
                found.binding(),
                survivors.binding(),
                counts.binding(),
            ];
            gpu.dispatch(&knn::CLEAR, &params, &to_found, search.rows as u64);
            let buffers = [
                queries.binding(),
                references.binding(),
                scratch.kept.binding(),
                judged.binding(),
                survivors.binding(),
                counts.binding(),
            ];
            let (all, _) = knn::params_of(search, &(0..search.visits()));
            let groups = (search.rows * search.k).div_ceil(RESCORE.workgroup_size as usize);
            gpu.dispatch(&RESCORE, &all, &buffers, groups as u64);
            knn::keep(gpu, &nearest, shape, &params, &to_found);
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            let Rescored { found, judged } = rescored;
            cpu::packed::rescore(
                search,
                k,
                queries.slice(),
                references.slice(),
                scratch.kept.slice(),
                found.slice_mut(),
                judged.slice_mut(),
            );
        }
    }
}
