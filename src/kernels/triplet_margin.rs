//! Every triplet of a batch, counted and differentiated without being stored: `TripletMarginMiner` with
//! `TripletMarginLoss` over cosine similarity.

use super::ranks::{Block, Inputs, Params, SEGMENT, SORT_THRESHOLDS, Scratch, buffers};
use super::{Access, Kernel, index};
use crate::cpu;
pub use crate::cpu::triplet_margin::{BINS, Kind, PAIRS, Rule, STATUS, TERMS, Total, read_pairs};
use crate::engine::{Commands, DeviceVec};

const SOURCE: &str = concat!(
    include_str!("../../shaders/ranks.wgsl"),
    include_str!("../../shaders/tile.wgsl"),
    include_str!("../../shaders/triplet_margin.wgsl")
);

/// In place of a word of the report: pairs are not counted. The shader's `NOWHERE`.
const NOWHERE: u32 = u32::MAX;

/// Rows that one workgroup serves; the shader's `OWNERS`.
pub const OWNERS: usize = 8;

/// One workgroup per [`OWNERS`] rows and segment.
pub static MINE: Kernel = Kernel {
    name: "triplet_margin.mine",
    source: SOURCE,
    entry: "mine",
    bindings: &[
        Access::Read,
        Access::Read,
        Access::Read,
        Access::Read,
        Access::Read,
        Access::ReadWrite,
        Access::ReadWrite,
        Access::ReadWrite,
    ],
    workgroup_size: SEGMENT as u32,
    workgroup_bytes: 8 * 4 * SEGMENT as u32 + 40 + 8 * BINS as u32,
};

/// One workgroup a row.
pub static FINISH: Kernel = Kernel {
    name: "triplet_margin.finish",
    entry: "finish",
    bindings: &[
        Access::ReadWrite,
        Access::Read,
        Access::Read,
        Access::Read,
        Access::Read,
        Access::ReadWrite,
        Access::Read,
        Access::ReadWrite,
    ],
    workgroup_bytes: 0,
    ..MINE
};

/// One workgroup per [`OWNERS`] references.
pub static SHARE_WITH_REFERENCES: Kernel = Kernel {
    name: "triplet_margin.share_with_references",
    entry: "share_with_references",
    bindings: &[
        Access::Read,
        Access::Read,
        Access::Read,
        Access::Read,
        Access::Read,
        Access::ReadWrite,
        Access::Read,
        Access::ReadWrite,
    ],
    workgroup_bytes: 8 * 4 * SEGMENT as u32,
    ..MINE
};

/// What the pass writes on the way, beside [`Scratch`]: each segment's part of the gradient, and behind it of the sum of
/// weights, `[segments, rows of a block, part_stride]`.
pub type Parts = DeviceVec<f32>;

/// Floats of one row's part.
pub fn part_stride(stride: usize) -> usize {
    stride + 4
}

/// Workgroups for every eight rows and every segment.
fn groups(block: &Block) -> u64 {
    (block.rows.div_ceil(OWNERS) * block.references.div_ceil(SEGMENT)) as u64
}

/// Counts the block's triplets into the step's report and computes `active * d loss / d anchor` of its rows.
///
/// What a row's sum over active triplets of `v_an - v_ap` has beside [`Rule::scale`] times `<gradient, anchor>` goes to
/// its term of the report.
///
/// With `capacity` the slots of the memory, a reference's slot is `id % capacity`. The report must be zero before the
/// step's first block. References are constants, unless [`share_with_references`] follows. With `pairs` every anchor and
/// reference is also counted by similarity, from that word of the step's report on, as [`read_pairs`] reads it.
///
/// # Shapes
/// `gradient`: `[first_row + rows, stride]`
#[expect(clippy::too_many_arguments, reason = "what a kernel reads and writes")]
pub fn mine(
    commands: &mut Commands,
    block: &Block,
    rule: &Rule,
    capacity: usize,
    inputs: Inputs<'_>,
    scratch: &mut Scratch,
    parts: &mut Parts,
    gradient: &mut DeviceVec<f32>,
    report_first: usize,
    pairs: Option<usize>,
    report: &mut DeviceVec<u32>,
) {
    match commands {
        Commands::Gpu(gpu) => {
            let params = Params {
                report: index(report_first),
                pairs: pairs.map_or(NOWHERE, |first| index(report_first + first)),
                ..params(block, rule, capacity)
            };
            let ranking = buffers(inputs, scratch);
            gpu.dispatch(&SORT_THRESHOLDS, &params, &ranking, block.rows as u64);
            let [a, r, b, t, s, k] = ranking;
            let mining = [a, r, b, t, s, k, parts.binding(), report.binding()];
            gpu.dispatch(&MINE, &params, &mining, groups(block));
            let terms = report.binding();
            let finishing = [terms, r, b, t, s, k, parts.binding(), gradient.binding()];
            gpu.dispatch(&FINISH, &params, &finishing, block.rows as u64);
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            let Scratch { thresholds, books } = scratch;
            let (thresholds, books) = (thresholds.slice_mut(), books.slice_mut());
            let report = &mut report.slice_mut()[report_first..];
            let gradient = &mut gradient.slice_mut()[block.first_row * block.stride..];
            let parts = parts.slice_mut();
            let inputs = inputs.slices();
            cpu::ranks::sort_thresholds(block, inputs, thresholds, books);
            cpu::triplet_margin::mine(
                block, rule, capacity, inputs, thresholds, books, parts, gradient, pairs, report,
            );
        }
    }
}

/// Adds `active * d loss / d reference` of the block's triplets, for references that are the batch itself.
///
/// Follows [`mine`] on the same block, whose thresholds and books it reads.
pub fn share_with_references(
    commands: &mut Commands,
    block: &Block,
    rule: &Rule,
    inputs: Inputs<'_>,
    scratch: &Scratch,
    parts: &mut Parts,
    gradient: &mut DeviceVec<f32>,
) {
    match commands {
        Commands::Gpu(gpu) => gpu.dispatch(
            &SHARE_WITH_REFERENCES,
            &params(block, rule, block.references),
            &[
                inputs.anchors.binding(),
                inputs.references.binding(),
                inputs.batch.binding(),
                inputs.tags.binding(),
                scratch.thresholds.binding(),
                scratch.books.binding(),
                parts.binding(),
                gradient.binding(),
            ],
            block.references.div_ceil(OWNERS) as u64,
        ),
        Commands::Cpu(calls) => {
            *calls += 1;
            let (thresholds, books) = (scratch.thresholds.slice(), scratch.books.slice());
            let gradient = gradient.slice_mut();
            cpu::triplet_margin::share_with_references(
                block,
                rule,
                inputs.slices(),
                thresholds,
                books,
                gradient,
            );
        }
    }
}

fn params(block: &Block, rule: &Rule, capacity: usize) -> Params {
    Params {
        capacity: index(capacity),
        kind: rule.kind as u32,
        miner_margin: rule.miner_margin,
        loss_margin: rule.loss_margin,
        distance: rule.distance as u32,
        ..super::ranks::params(block)
    }
}
