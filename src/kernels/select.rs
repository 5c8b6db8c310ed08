//! Selection of the references of a row that a miner keeps, from all their similarities at once: `BatchHardMiner`,
//! `BatchEasyHardMiner`, `MultiSimilarityMiner` and `PairMarginMiner`; or of all references.

use bytemuck::{Pod, Zeroable};

use super::ranks::{Inputs, SEGMENT};
use super::similarities::width;
use super::{Kernel, READ, READ_WRITE, index, wgsl::wgsl, workgroups_for};
use crate::cpu;
pub use crate::cpu::select::{Choice, Counted, Keep, Selection, Side};
use crate::engine::{Commands, DeviceVec};
use crate::kernels::ranks::Block;

/// One workgroup a row.
pub static KEEP: Kernel = Kernel {
    name: "select.keep",
    source: wgsl!("select.wgsl"),
    entry: "keep",
    bindings: &[
        READ, READ, READ_WRITE, READ_WRITE, READ_WRITE, READ_WRITE, READ_WRITE,
    ],
    workgroup_size: SEGMENT as u32,
    workgroup_bytes: (32 + 8) * SEGMENT as u32 + (32 + 8) * SEGMENT as u32 / 16 + 32,
    any_size: true,
};

/// References that a miner keeps of each row of a block; `width` is [`width`] of the references.
#[derive(Debug)]
pub struct Kept {
    /// `[rows, width]`: before, every similarity (or minus the distance); after, only those of kept references, and
    /// [`super::similarities::NONE`] elsewhere.
    pub values: DeviceVec<f32>,
    /// `[rows, width]`: numbers of kept references: positives from the front, negatives from the back, both ascending.
    pub places: DeviceVec<u32>,
    /// `[rows]`: number of kept positives, and of kept negatives.
    pub counts: DeviceVec<[u32; 2]>,
    /// `[rows, width]`: dL/ds of each reference; zero here, [`super::triplet_loss`] fills it.
    pub weights: DeviceVec<f32>,
}

#[repr(C)]
#[derive(Clone, Copy, Default, Pod, Zeroable)]
struct Params {
    rows: u32,
    batch: u32,
    references: u32,
    width: u32,
    report: u32,
    positives: u32,
    negatives: u32,
    epsilon: f32,
    ranges: [f32; 4],
    counted: u32,
    distance: u32,
    shown: u32,
    unused: u32,
}

/// Keeps the positives and negatives of every row of the block that the miner chooses by `kept.values`; adds the number of triplets
/// or pairs before the choice to the step's report, as `counted` says.
///
/// The row's own stored copy, the reference with its id, is neither a positive nor a negative.
#[expect(clippy::too_many_arguments, reason = "what a kernel reads and writes")]
pub fn select(
    commands: &mut Commands,
    block: &Block,
    selection: &Selection,
    inputs: Inputs<'_>,
    kept: &mut Kept,
    counted: Counted,
    report_first: usize,
    report: &mut DeviceVec<u32>,
) {
    let width = width(block.references);
    match commands {
        Commands::Gpu(gpu) => {
            let params = Params {
                counted: counted as u32,
                report: index(report_first),
                ..params(block, selection)
            };
            // Each looks at its references five times at most, and the last time at each by itself.
            let shape = workgroups_for(gpu, block.references, 3);
            gpu.dispatch_in(
                shape,
                &KEEP,
                &params,
                &[
                    inputs.batch.binding(),
                    inputs.tags.binding(),
                    kept.values.binding(),
                    kept.places.binding(),
                    kept.counts.binding(),
                    kept.weights.binding(),
                    report.binding(),
                ],
                block.rows as u64,
            );
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            let report = &mut report.slice_mut()[report_first..];
            let (batch, tags) = (inputs.batch.slice(), inputs.tags.slice());
            let kept = cpu::select::Kept {
                values: kept.values.slice_mut(),
                places: kept.places.slice_mut(),
                counts: kept.counts.slice_mut(),
                weights: kept.weights.slice_mut(),
            };
            cpu::select::select(block, width, selection, batch, tags, kept, counted, report);
        }
    }
}

fn params(block: &Block, selection: &Selection) -> Params {
    let Selection {
        positives,
        negatives,
        ..
    } = selection;
    let ([p_low, p_high], [n_low, n_high]) = (positives.range, negatives.range);
    Params {
        rows: index(block.rows),
        batch: index(block.batch),
        references: index(block.references),
        width: index(width(block.references)),
        positives: positives.keep as u32,
        negatives: negatives.keep as u32,
        epsilon: selection.epsilon,
        ranges: [p_low, p_high, n_low, n_high],
        distance: selection.distance as u32,
        shown: selection.shown as u32,
        ..Params::default()
    }
}
