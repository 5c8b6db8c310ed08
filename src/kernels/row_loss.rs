//! Losses of rows of similarities, to which every pair of an anchor adds at once: pair losses and log-sum-exps.
//!
//! First [`reduce`] for every block of a batch, then [`slopes`]: the divisors of a loss are counted over the whole batch.

use bytemuck::{Pod, Zeroable};

use super::ranks::SEGMENT;
use super::select::Kept;
use super::similarities::width;
use super::{Kernel, MOST_STEPS, READ, READ_WRITE, groups_for, index, wgsl::wgsl, window_in};
use crate::cpu;
pub use crate::cpu::row_loss::{
    Centers, ExtraInput, Form, Multiplicity, PairTotal, ROW_NUMBERS, RowCost,
};
use crate::engine::device::TileShape;
use crate::engine::{Commands, DeviceVec};
use crate::kernels::ranks::{Block, Row};
use crate::kernels::triplet_margin::TERMS;

/// One workgroup per row and [`SEGMENT`] kept references.
pub static COUNT: Kernel = Kernel {
    name: "row_loss.count",
    source: wgsl!("row_loss.wgsl"),
    entry: "count",
    bindings: &[READ, READ, READ, READ_WRITE],
    workgroup_size: SEGMENT as u32,
    workgroup_bytes: 0,
    any_size: false,
};

/// One invocation per row and class.
pub static POOL: Kernel = Kernel {
    name: "row_loss.pool",
    entry: "pool",
    bindings: &[READ_WRITE, READ_WRITE],
    workgroup_size: 64,
    ..COUNT
};

/// One workgroup a row.
pub static REDUCE: Kernel = Kernel {
    name: "row_loss.reduce",
    entry: "reduce",
    bindings: &[READ, READ, READ, READ, READ_WRITE, READ_WRITE, READ],
    workgroup_bytes: 2 * 16 * SEGMENT as u32,
    ..COUNT
};

/// [`REDUCE`] with 64 invocations, for rows of `FEW_REFERENCES` at most.
pub static REDUCE_FEW: Kernel = Kernel {
    name: "row_loss.reduce_few",
    workgroup_size: 64,
    workgroup_bytes: 2 * 16 * 64,
    ..REDUCE
};

/// The most references of a row for which a small workgroup is enough.
const FEW_REFERENCES: usize = 16_384;

/// One workgroup a row.
pub static SETTLE: Kernel = Kernel {
    name: "row_loss.settle",
    entry: "settle",
    bindings: &[READ, READ, READ, READ, READ_WRITE, READ_WRITE, READ, READ],
    ..REDUCE_FEW
};

/// One workgroup per row and [`SEGMENT`] kept references.
pub static SLOPES: Kernel = Kernel {
    name: "row_loss.slopes",
    entry: "slopes",
    bindings: &[READ, READ, READ, READ, READ, READ_WRITE, READ, READ_WRITE],
    ..COUNT
};

/// One invocation.
pub static LEARN: Kernel = Kernel {
    name: "row_loss.learn",
    entry: "learn",
    bindings: &[READ_WRITE, READ_WRITE],
    workgroup_size: 1,
    ..COUNT
};

#[repr(C)]
#[derive(Clone, Copy, Default, Pod, Zeroable)]
struct Params {
    rows: u32,
    width: u32,
    segments: u32,
    reduced: u32,
    report: u32,
    losses: u32,
    anchors: u32,
    form: u32,
    times: u32,
    distance: u32,
    kind: u32,
    miner_margin: f32,
    first: u32,
    end: u32,
    scales: [f32; 2],
    margins: [f32; 2],
    centers: u32,
    gamma: f32,
    classes: u32,
    own: u32,
    given: u32,
    onto: u32,
}

/// The most references of the other side that [`COUNT`] looks at in one dispatch.
const WINDOW: usize = MOST_STEPS / SEGMENT * SEGMENT;

/// References of the other side that [`COUNT`] looks at in one dispatch: 128 windows at most on hardware.
fn window(shape: TileShape, references: usize) -> usize {
    window_in(shape, references, 1, 128, WINDOW)
}

/// Replaces `kept.values` by the values of their classes if several references stand for one class, and writes to `kept.weights`
/// the slope of the class's value by the reference's.
pub fn pool(commands: &mut Commands, block: &Block, cost: &RowCost, kept: &mut Kept) {
    if cost.centers.per_class == 1 {
        return;
    }
    match commands {
        Commands::Gpu(gpu) => {
            let classes = block.references / cost.centers.per_class;
            let params = Params {
                classes: index(classes),
                ..params(block, cost)
            };
            let buffers = [kept.values.binding(), kept.weights.binding()];
            gpu.dispatch(
                &POOL,
                &params,
                &buffers,
                groups_for(&POOL, block.rows * classes),
            );
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            let (values, weights) = (kept.values.slice_mut(), kept.weights.slice_mut());
            let width = width(block.references);
            cpu::row_loss::pool(block, width, &cost.centers, values, weights);
        }
    }
}

/// Dispatches of [`pool`], [`count`], [`reduce`] and [`slopes`] of a block.
pub fn dispatches(references: usize, cost: &RowCost) -> usize {
    let counts = match cost.times {
        // On hardware there are more.
        Multiplicity::Mined => references.div_ceil(window(TileShape::Tile, references)),
        Multiplicity::Once | Multiplicity::Crossed => 0,
    };
    let pool = usize::from(cost.centers.per_class > 1);
    2 + counts + pool
}

/// Counts the triplets of the miner's band with each kept pair; does nothing unless the loss counts pairs by [`Multiplicity::Mined`].
///
/// # Shapes
/// `times`: `[rows, width]`, written for kept pairs alone
pub fn count(
    commands: &mut Commands,
    block: &Block,
    cost: &RowCost,
    kept: &Kept,
    times: &mut DeviceVec<u32>,
) {
    if cost.times != Multiplicity::Mined {
        return;
    }
    match commands {
        Commands::Gpu(gpu) => {
            let window = window(gpu.shape(), block.references);
            for from in (0..block.references).step_by(window) {
                let params = Params {
                    first: index(from),
                    end: index(from + window),
                    ..params(block, cost)
                };
                let buffers = [
                    kept.values.binding(),
                    kept.places.binding(),
                    kept.counts.binding(),
                    times.binding(),
                ];
                gpu.dispatch(&COUNT, &params, &buffers, groups(block));
            }
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            let (kept, mined) = (slices(kept, None, None), &cost.mined);
            let width = width(block.references);
            cpu::row_loss::count(block, width, mined, kept, times.slice_mut());
        }
    }
}

/// Writes the numbers of every row of the block, and adds the block's counts to the step's report: [`PairTotal`].
///
/// # Shapes
/// `reduced`: `[anchors of the batch, ROW_NUMBERS]`, written from row `first` on
#[expect(clippy::too_many_arguments, reason = "what a kernel reads and writes")]
pub fn reduce(
    commands: &mut Commands,
    block: &Block,
    cost: &RowCost,
    kept: &Kept,
    times: Option<&DeviceVec<u32>>,
    given: Option<&DeviceVec<f32>>,
    first: usize,
    reduced: &mut DeviceVec<f32>,
    report_first: usize,
    report: &mut DeviceVec<u32>,
) {
    match commands {
        Commands::Gpu(gpu) => {
            let params = Params {
                reduced: index(first),
                report: index(report_first),
                ..params(block, cost)
            };
            let buffers = [
                kept.values.binding(),
                kept.places.binding(),
                kept.counts.binding(),
                times.unwrap_or(&kept.places).binding(),
                reduced.binding(),
                report.binding(),
                given.unwrap_or(&kept.values).binding(),
            ];
            let few = block.references <= FEW_REFERENCES;
            let kernel = if few { &REDUCE_FEW } else { &REDUCE };
            gpu.dispatch(kernel, &params, &buffers, block.rows as u64);
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            let (reduced, report) = (reduced.slice_mut(), report.slice_mut());
            let (width, kept) = (width(block.references), slices(kept, times, given));
            let report = &mut report[report_first..];
            cpu::row_loss::reduce(block, width, cost, kept, first, reduced, report);
        }
    }
}

/// Computes the loss of the block's positive pairs in [`Form::Lifted`], after all rows of the batch are reduced. `own`: the
/// references are the batch itself, and the block is all of it.
#[expect(clippy::too_many_arguments, reason = "what a kernel reads and writes")]
pub fn settle(
    commands: &mut Commands,
    block: &Block,
    cost: &RowCost,
    own: bool,
    kept: &Kept,
    times: Option<&DeviceVec<u32>>,
    given: Option<&DeviceVec<f32>>,
    batch: &DeviceVec<Row>,
    first: usize,
    reduced: &mut DeviceVec<f32>,
    report_first: usize,
    report: &mut DeviceVec<u32>,
) {
    match commands {
        Commands::Gpu(gpu) => {
            let params = Params {
                reduced: index(first),
                report: index(report_first),
                own: u32::from(own),
                first: index(block.batch),
                ..params(block, cost)
            };
            let buffers = [
                kept.values.binding(),
                kept.places.binding(),
                kept.counts.binding(),
                times.unwrap_or(&kept.places).binding(),
                reduced.binding(),
                report.binding(),
                given.unwrap_or(&kept.values).binding(),
                batch.binding(),
            ];
            gpu.dispatch(&SETTLE, &params, &buffers, block.rows as u64);
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            let (width, kept) = (width(block.references), slices(kept, times, given));
            let report = &mut report.slice_mut()[report_first..];
            let reduced = reduced.slice_mut();
            cpu::row_loss::settle(block, width, cost, own, kept, first, reduced, report);
        }
    }
}

/// Writes dL/ds of every kept pair of the block to `kept.weights`, and each row's part of the loss to its term of the report.
/// `anchors`: rows of the whole batch, which all are reduced; `own`: the references are the same rows.
#[expect(clippy::too_many_arguments, reason = "what a kernel reads and writes")]
pub fn slopes(
    commands: &mut Commands,
    block: &Block,
    cost: &RowCost,
    anchors: usize,
    own: bool,
    kept: &mut Kept,
    times: Option<&DeviceVec<u32>>,
    given: Option<&DeviceVec<f32>>,
    first: usize,
    reduced: &DeviceVec<f32>,
    report_first: usize,
    report: &mut DeviceVec<u32>,
) {
    match commands {
        Commands::Gpu(gpu) => {
            let params = Params {
                reduced: index(first),
                report: index(report_first),
                losses: index(report_first + TERMS + block.first_row),
                anchors: index(anchors),
                own: u32::from(own),
                ..params(block, cost)
            };
            let buffers = [
                kept.values.binding(),
                kept.places.binding(),
                kept.counts.binding(),
                times.unwrap_or(&kept.places).binding(),
                reduced.binding(),
                report.binding(),
                given.unwrap_or(&kept.values).binding(),
                kept.weights.binding(),
            ];
            gpu.dispatch(&SLOPES, &params, &buffers, groups(block));
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            let reduced = reduced.slice();
            let report = &mut report.slice_mut()[report_first..];
            let (totals, losses) = report.split_at_mut(TERMS);
            let losses = &mut losses[block.first_row..];
            let width = width(block.references);
            let (inputs, weights) = slices_and_weights(kept, times, given);
            cpu::row_loss::slopes(
                block, width, cost, anchors, own, inputs, first, reduced, weights, losses, totals,
            );
        }
    }
}

/// Writes the gradient of the boundary of [`Form::Margin`], from the counts in the step's report, to the first of four floats.
/// `pull`: slope of the loss by the boundary, apart from its pairs. The gradient counts `weight` times, and with `onto` it is added to
/// the one that is there.
pub fn learn(
    commands: &mut Commands,
    pull: f32,
    weight: f32,
    onto: bool,
    report_first: usize,
    report: &mut DeviceVec<u32>,
    gradient: &mut DeviceVec<f32>,
) {
    match commands {
        Commands::Gpu(gpu) => {
            let params = Params {
                report: index(report_first),
                scales: [pull, weight],
                onto: u32::from(onto),
                ..Params::default()
            };
            let buffers = [report.binding(), gradient.binding()];
            gpu.dispatch(&LEARN, &params, &buffers, 1);
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            let report = &report.slice()[report_first..];
            cpu::row_loss::learn(pull, weight, onto, report, gradient.slice_mut());
        }
    }
}

/// The inputs of the CPU side.
pub(super) fn slices<'a>(
    kept: &'a Kept,
    times: Option<&'a DeviceVec<u32>>,
    given: Option<&'a DeviceVec<f32>>,
) -> cpu::row_loss::Slices<'a> {
    cpu::row_loss::Slices {
        values: kept.values.slice(),
        places: kept.places.slice(),
        counts: kept.counts.slice(),
        times: times.map_or(&[], DeviceVec::slice),
        given: given.map_or(&[], DeviceVec::slice),
    }
}

/// The inputs of the CPU side, and the weights that it writes.
fn slices_and_weights<'a>(
    kept: &'a mut Kept,
    times: Option<&'a DeviceVec<u32>>,
    given: Option<&'a DeviceVec<f32>>,
) -> (cpu::row_loss::Slices<'a>, &'a mut [f32]) {
    let inputs = cpu::row_loss::Slices {
        values: kept.values.slice(),
        places: kept.places.slice(),
        counts: kept.counts.slice(),
        times: times.map_or(&[], DeviceVec::slice),
        given: given.map_or(&[], DeviceVec::slice),
    };
    (inputs, kept.weights.slice_mut())
}

/// Workgroups for every row and every segment of kept references.
fn groups(block: &Block) -> u64 {
    (block.rows * block.references.div_ceil(SEGMENT)) as u64
}

fn params(block: &Block, cost: &RowCost) -> Params {
    Params {
        rows: index(block.rows),
        width: index(width(block.references)),
        segments: index(block.references.div_ceil(SEGMENT)),
        form: cost.form as u32,
        times: cost.times as u32,
        distance: cost.distance as u32,
        kind: cost.mined.kind as u32,
        miner_margin: cost.mined.miner_margin,
        scales: cost.scales,
        margins: cost.margins,
        centers: index(cost.centers.per_class),
        gamma: cost.centers.gamma,
        given: cost.given as u32,
        ..Params::default()
    }
}
