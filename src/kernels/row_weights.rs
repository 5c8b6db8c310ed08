//! How much each row of a batch counts in a loss that looks at all rows: as often as a miner finds it, as PML's
//! `convert_to_weights` has it.

use bytemuck::{Pod, Zeroable};

use super::ranks::Block;
use super::row_loss::slices;
use super::select::Kept;
use super::similarities::width;
use super::{Access, Kernel, groups_for, index, wgsl::wgsl};
use crate::cpu;
use crate::engine::{Commands, DeviceVec};

/// One invocation per row.
pub static FIND: Kernel = Kernel {
    name: "row_weights.find",
    source: wgsl!("row_weights.wgsl"),
    entry: "find",
    bindings: &[
        Access::Read,
        Access::Read,
        Access::Read,
        Access::Read,
        Access::ReadWrite,
    ],
    workgroup_size: 64,
    workgroup_bytes: 0,
    any_size: false,
};

/// One workgroup.
pub static SCALE: Kernel = Kernel {
    name: "row_weights.scale",
    entry: "scale",
    bindings: &[Access::Read, Access::ReadWrite],
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

/// How often each row of a block of anchors, `first` the first of them in the batch, stands in what a miner keeps: as an anchor, and
/// with `own`, where the block is the batch and so are the references, as a positive or a negative too. `times`: of each kept pair
/// the triplets that it stands in, of which each has three rows; without it, pairs are kept.
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

/// The weight of each of `count` rows: how often it was found over the most that any was; 1 of each where none was.
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
