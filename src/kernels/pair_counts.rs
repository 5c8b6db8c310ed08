//! Histogram of a step's pairs by similarity: positives and negatives.

use bytemuck::{Pod, Zeroable};

use super::similarities::width;
use super::{Kernel, READ, READ_WRITE, index, wgsl::wgsl, workgroups_for};
use crate::cpu;
use crate::cpu::Distance;
pub use crate::cpu::pair_counts::{BINS, PAIRS, read_pairs};
use crate::engine::{Commands, DeviceVec};
use crate::kernels::ranks::{Block, Inputs};

/// One workgroup a row.
pub static COUNT: Kernel = Kernel {
    name: "pair_counts.count",
    source: wgsl!("pair_counts.wgsl"),
    entry: "count",
    bindings: &[READ, READ, READ, READ_WRITE],
    workgroup_size: 256,
    workgroup_bytes: 8 * BINS as u32,
    any_size: true,
};

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    rows: u32,
    batch: u32,
    references: u32,
    width: u32,
    distance: u32,
    report: u32,
}

/// Adds the pairs of the block's rows and all references, a row's own copy left out, to the counts that begin at `first` in the
/// report, as [`read_pairs`] reads them. `values` are of `distance`.
///
/// # Shapes
/// `values`: `[rows, width(references)]` · `report`: `[first + PAIRS]`
pub fn count_pairs(
    commands: &mut Commands,
    block: &Block,
    distance: Distance,
    inputs: Inputs<'_>,
    values: &DeviceVec<f32>,
    first: usize,
    report: &mut DeviceVec<u32>,
) {
    let width = width(block.references);
    match commands {
        Commands::Gpu(gpu) => {
            let params = Params {
                rows: index(block.rows),
                batch: index(block.batch),
                references: index(block.references),
                width: index(width),
                distance: distance as u32,
                report: index(first),
            };
            let buffers = [
                inputs.batch.binding(),
                inputs.tags.binding(),
                values.binding(),
                report.binding(),
            ];
            let shape = workgroups_for(gpu, block.references, 1);
            gpu.dispatch_in(shape, &COUNT, &params, &buffers, block.rows as u64);
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            let (batch, tags) = (inputs.batch.slice(), inputs.tags.slice());
            let (values, words) = (values.slice(), &mut report.slice_mut()[first..]);
            cpu::pair_counts::count_pairs(block, width, distance, batch, tags, values, words);
        }
    }
}
