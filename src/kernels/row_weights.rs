//! Weights of a batch's rows in a loss that looks at all rows: the number of times that the miner keeps each row, as in PML's
//! `convert_to_weights`.

use bytemuck::{Pod, Zeroable};

use super::ranks::Block;
use super::row_loss::slices;
use super::select::Kept;
use super::similarities::width;
use super::{Kernel, READ, READ_WRITE, groups_for, index, wgsl::wgsl};
use crate::cpu;
use crate::engine::{Commands, DeviceVec};

/// One invocation per row.
pub static FIND: Kernel = Kernel {
    name: "row_weights.find",
    source: wgsl!("row_weights.wgsl"),
    entry: "find",
    bindings: &[READ, READ, READ, READ, READ_WRITE],
    workgroup_size: 64,
    workgroup_bytes: 0,
    any_size: false,
};

/// One workgroup.
pub static SCALE: Kernel = Kernel {
    name: "row_weights.scale",
    entry: "scale",
    bindings: &[READ, READ_WRITE],
    workgroup_size: 256,
    workgroup_bytes: 4 * 256,
    ..FIND
};

#[repr(C)]
#[derive(Clone, Copy, Default, Pod, Zeroable)]
struct Params {
    rows: u32,
    width: u32,
    first: u32,
    own: u32,
    mined: u32,
    count: u32,
}

/// Counts each row of a block of anchors, `first` the first of them in the batch, in the references that the miner keeps: as an
/// anchor, and with `own`, if the block is the batch and the references are too, also as a positive or a negative. `times`: the
/// triplets with each kept pair, of which each has three rows; without it, pairs are counted.
///
/// # Shapes
/// `found`: `[batch]`, written from `first` on
pub fn find(
    commands: &mut Commands,
    block: &Block,
    own: bool,
    kept: &Kept,
    times: Option<&DeviceVec<u32>>,
    first: usize,
    found: &mut DeviceVec<u32>,
) {
    let width = width(block.references);
    match commands {
        Commands::Gpu(gpu) => {
            let params = Params {
                rows: index(block.rows),
                width: index(width),
                first: index(first),
                own: u32::from(own),
                mined: u32::from(times.is_some()),
                count: 0,
            };
            let buffers = [
                kept.values.binding(),
                kept.places.binding(),
                kept.counts.binding(),
                times.unwrap_or(&kept.places).binding(),
                found.binding(),
            ];
            gpu.dispatch(&FIND, &params, &buffers, groups_for(&FIND, block.rows));
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            let (mined, kept) = (times.is_some(), slices(kept, times, None));
            let found = &mut found.slice_mut()[first..];
            cpu::row_weights::find(block, width, own, mined, kept, found);
        }
    }
}

/// Writes the weight of each of `count` rows: its count over the largest; 1 for all if all are 0.
///
/// # Shapes
/// `found`, `weights`: `[count]`
pub fn scale(
    commands: &mut Commands,
    count: usize,
    found: &DeviceVec<u32>,
    weights: &mut DeviceVec<f32>,
) {
    match commands {
        Commands::Gpu(gpu) => {
            let params = Params {
                count: index(count),
                ..Params::default()
            };
            let buffers = [found.binding(), weights.binding()];
            gpu.dispatch(&SCALE, &params, &buffers, 1);
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            cpu::row_weights::scale(&found.slice()[..count], weights.slice_mut());
        }
    }
}
