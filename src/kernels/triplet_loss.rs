//! Triplet loss over the positives and negatives that [`super::select`] kept, one triplet at a time: `TripletMarginLoss` with
//! `swap` and `smooth_loss`, or with one negative for each positive.

use bytemuck::{Pod, Zeroable};

use super::ranks::{Block, Inputs, SEGMENT};
use super::select::Kept;
use super::similarities::width;
use super::stored::{Rows, Stored};
use super::{
    Kernel, MOST_STEPS, READ, READ_WRITE, groups_for, index, vec4s, wgsl::wgsl, window_in,
};
use crate::cpu;
pub use crate::cpu::triplet_loss::Weighing;
use crate::engine::device::TileShape;
use crate::engine::{Commands, DeviceVec};
use crate::kernels::triplet_margin::TERMS;

/// One workgroup per row and [`SEGMENT`] kept references.
pub static SLOPES: Kernel = Kernel {
    name: "triplet_loss.slopes",
    source: wgsl!("stored_f32.wgsl", "triplet_loss.wgsl"),
    entry: "slopes",
    bindings: &[READ, READ, READ, READ, READ_WRITE, READ_WRITE, READ_WRITE],
    workgroup_size: SEGMENT as u32,
    workgroup_bytes: 4 * SEGMENT as u32 + 16,
    any_size: false,
};

/// [`SLOPES`] over references in half precision.
pub static SLOPES_F16: Kernel = Kernel {
    name: "triplet_loss.slopes_f16",
    source: wgsl!("stored_f16.wgsl", "triplet_loss.wgsl"),
    ..SLOPES
};

/// One workgroup per row and [`SEGMENT`] kept references, before [`SLOPES`].
pub static CHOOSE: Kernel = Kernel {
    name: "triplet_loss.choose",
    entry: "choose",
    ..SWAPPED
};

/// One workgroup a row, after [`CHOOSE`].
pub static COUNT: Kernel = Kernel {
    name: "triplet_loss.count",
    entry: "count",
    bindings: &[READ_WRITE, READ, READ, READ, READ_WRITE],
    ..SWAPPED
};

/// One workgroup per row and [`SEGMENT`] triplets of a list.
pub static DRAWN: Kernel = Kernel {
    name: "triplet_loss.drawn",
    entry: "drawn",
    ..SLOPES
};

/// One workgroup per row and [`SEGMENT`] kept references, after [`SLOPES`].
pub static SETTLE: Kernel = Kernel {
    name: "triplet_loss.settle",
    entry: "settle",
    ..SWAPPED
};

/// One invocation a row.
pub static TOTAL: Kernel = Kernel {
    name: "triplet_loss.total",
    entry: "total",
    workgroup_bytes: 0,
    ..SLOPES
};

/// One invocation per pair of references.
pub static SWAPPED: Kernel = Kernel {
    name: "triplet_loss.swapped",
    entry: "swapped",
    bindings: &[READ, READ, READ, READ, READ_WRITE],
    workgroup_bytes: 0,
    ..SLOPES
};

#[repr(C)]
#[derive(Clone, Copy, Default, Pod, Zeroable)]
struct Params {
    rows: u32,
    references: u32,
    width: u32,
    stride: u32,
    segments: u32,
    first: u32,
    end: u32,
    report: u32,
    losses: u32,
    kind: u32,
    distance: u32,
    swap: u32,
    one_negative: u32,
    smooth_loss: u32,
    list: u32,
    batch: u32,
    anchors: u32,
    miner_margin: f32,
    loss_margin: f32,
}

/// Length of the longest window: references of the other side, in whole segments, with which a reference is compared in one dispatch.
pub fn window(stride: usize, swap: bool) -> usize {
    let steps = if swap { stride.div_ceil(32) + 1 } else { 1 };
    (MOST_STEPS / steps / SEGMENT).max(1) * SEGMENT
}

/// The most windows of so many references, whatever the device.
pub fn windows(stride: usize, references: usize, swap: bool) -> usize {
    references.div_ceil(window_on(TileShape::Tile, stride, references, swap))
}

fn window_on(shape: TileShape, stride: usize, references: usize, swap: bool) -> usize {
    // Without a swap the negatives of positives may be chosen in as many windows before.
    let (steps, windows) = if swap {
        (stride.div_ceil(64), 256)
    } else {
        (1, 128)
    };
    window_in(shape, references, steps, windows, window(stride, swap))
}

/// Writes dL/ds of every kept reference, times the number of active triplets; adds triplet counts and each row's loss sum to the
/// step's report, which must be zero before the step's first block.
///
/// # Shapes
/// `terms`: `[rows, ceil(references / SEGMENT)]`, scratch · `kept.weights`: `[rows, width]`, the result
#[expect(clippy::too_many_arguments, reason = "what a kernel reads and writes")]
pub fn triplet_loss(
    commands: &mut Commands,
    block: &Block,
    weighing: &Weighing,
    references: Stored<'_>,
    kept: &mut Kept,
    terms: &mut DeviceVec<f32>,
    report_first: usize,
    report: &mut DeviceVec<u32>,
) {
    let width = width(block.references);
    match commands {
        Commands::Gpu(gpu) => {
            let params = Params {
                report: index(report_first),
                losses: index(report_first + TERMS + block.first_row),
                ..params(block, weighing)
            };
            let buffers = [
                references.binding(),
                kept.values.binding(),
                kept.places.binding(),
                kept.counts.binding(),
                kept.weights.binding(),
                terms.binding(),
                report.binding(),
            ];
            let segments = block.references.div_ceil(SEGMENT);
            let groups = (block.rows * segments) as u64;
            let window = window_on(gpu.shape(), block.stride, block.references, weighing.swap);
            let windows = (0..block.references).step_by(window).map(|from| Params {
                first: index(from),
                end: index(from + window),
                ..params
            });
            if weighing.one_negative {
                for params in windows.clone() {
                    gpu.dispatch(&CHOOSE, &params, &buffers[..5], groups);
                }
            }
            for params in windows {
                let slopes = references.choose(&SLOPES, &SLOPES_F16);
                gpu.dispatch(slopes, &params, &buffers, groups);
            }
            if weighing.one_negative {
                gpu.dispatch(&SETTLE, &params, &buffers[..5], groups);
            }
            gpu.dispatch(&TOTAL, &params, &buffers, groups_for(&TOTAL, block.rows));
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            let report = &mut report.slice_mut()[report_first..];
            let (report, losses) = report.split_at_mut(TERMS);
            let inputs = cpu::triplet_loss::Slices {
                references: references.slices(),
                values: kept.values.slice(),
                places: kept.places.slice(),
                counts: kept.counts.slice(),
            };
            let losses = &mut losses[block.first_row..];
            let weights = kept.weights.slice_mut();
            cpu::triplet_loss::triplet_loss(
                block, width, weighing, inputs, weights, losses, report,
            );
        }
    }
}

/// Counts the triplets with each reference, if every positive forms a triplet with one negative. `kept.weights` is zero before and
/// afterwards.
///
/// # Shapes
/// `times`: `[rows, width]`
pub fn count(commands: &mut Commands, block: &Block, kept: &mut Kept, times: &mut DeviceVec<u32>) {
    let width = width(block.references);
    match commands {
        Commands::Gpu(gpu) => {
            let params = Params {
                rows: index(block.rows),
                references: index(block.references),
                width: index(width),
                segments: index(block.references.div_ceil(SEGMENT)),
                ..Params::default()
            };
            let groups = block.rows * block.references.div_ceil(SEGMENT);
            let window = window_on(gpu.shape(), block.stride, block.references, false);
            for from in (0..block.references).step_by(window) {
                let params = Params {
                    first: index(from),
                    end: index(from + window),
                    ..params
                };
                let buffers = [
                    kept.values.binding(),
                    kept.values.binding(),
                    kept.places.binding(),
                    kept.counts.binding(),
                    kept.weights.binding(),
                ];
                gpu.dispatch(&CHOOSE, &params, &buffers, groups as u64);
            }
            let buffers = [
                times.binding(),
                kept.values.binding(),
                kept.places.binding(),
                kept.counts.binding(),
                kept.weights.binding(),
            ];
            gpu.dispatch(&COUNT, &params, &buffers, block.rows as u64);
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            let inputs = cpu::triplet_loss::Slices {
                references: Rows::F32(&[]),
                values: kept.values.slice(),
                places: kept.places.slice(),
                counts: kept.counts.slice(),
            };
            cpu::triplet_loss::count(block, width, inputs, times.slice_mut());
        }
    }
}

/// [`triplet_loss`] over the triplets of a list alone, each as often as it is listed.
///
/// # Shapes
/// `list`: `[rows, places]`: number of triplets, then the places of positive and negative of each
#[expect(clippy::too_many_arguments, reason = "what a kernel reads and writes")]
pub fn drawn_loss(
    commands: &mut Commands,
    block: &Block,
    weighing: &Weighing,
    places: usize,
    list: &DeviceVec<[u32; 2]>,
    kept: &mut Kept,
    terms: &mut DeviceVec<f32>,
    report_first: usize,
    report: &mut DeviceVec<u32>,
) {
    match commands {
        Commands::Gpu(gpu) => {
            let segments = (places - 1).div_ceil(SEGMENT);
            let params = Params {
                segments: index(segments),
                list: index(places),
                report: index(report_first),
                losses: index(report_first + TERMS + block.first_row),
                ..params(block, weighing)
            };
            let buffers = [
                list.binding(),
                kept.values.binding(),
                kept.places.binding(),
                kept.counts.binding(),
                kept.weights.binding(),
                terms.binding(),
                report.binding(),
            ];
            gpu.dispatch(&DRAWN, &params, &buffers, (block.rows * segments) as u64);
            gpu.dispatch(&TOTAL, &params, &buffers, groups_for(&TOTAL, block.rows));
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            let report = &mut report.slice_mut()[report_first..];
            let (report, losses) = report.split_at_mut(TERMS);
            let losses = &mut losses[block.first_row..];
            let (values, weights) = (kept.values.slice(), kept.weights.slice_mut());
            let (width, list) = (width(block.references), list.slice());
            cpu::triplet_loss::drawn_loss(
                block, width, places, weighing, list, values, weights, losses, report,
            );
        }
    }
}

/// Writes dL/ds of the similarities between references, which `swap` brings in, to `kept.weights`: of `rows` references from
/// `first` on to all others.
///
/// Call it after [`triplet_loss`] on the same block, when its weights are no longer needed.
pub fn swapped_loss(
    commands: &mut Commands,
    block: &Block,
    weighing: &Weighing,
    first: usize,
    rows: usize,
    inputs: Inputs<'_>,
    kept: &mut Kept,
) {
    let width = width(block.references);
    match commands {
        Commands::Gpu(gpu) => {
            let params = Params {
                rows: index(rows),
                first: index(first),
                batch: index(block.batch),
                anchors: index(block.rows),
                ..params(block, weighing)
            };
            gpu.dispatch(
                &SWAPPED,
                &params,
                &[
                    inputs.references.binding(),
                    kept.values.binding(),
                    inputs.batch.binding(),
                    inputs.tags.binding(),
                    kept.weights.binding(),
                ],
                groups_for(&SWAPPED, rows * width),
            );
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            let batch = &inputs.batch.slice()[block.batch..][..block.rows];
            let labels: Vec<u32> = batch.iter().map(|row| row.label).collect();
            let values = &kept.values.slice()[..block.rows * width];
            cpu::triplet_loss::swapped_loss(
                block,
                width,
                weighing,
                first,
                rows,
                inputs.tags.slice(),
                &labels,
                inputs.references.floats().slice(),
                values,
                kept.weights.slice_mut(),
            );
        }
    }
}

fn params(block: &Block, weighing: &Weighing) -> Params {
    Params {
        rows: index(block.rows),
        references: index(block.references),
        width: index(width(block.references)),
        stride: vec4s(block.stride),
        segments: index(block.references.div_ceil(SEGMENT)),
        kind: weighing.rule.kind as u32,
        distance: weighing.rule.distance as u32,
        swap: u32::from(weighing.swap),
        one_negative: u32::from(weighing.one_negative),
        smooth_loss: u32::from(weighing.smooth),
        miner_margin: weighing.rule.miner_margin,
        loss_margin: weighing.rule.loss_margin,
        ..Params::default()
    }
}
