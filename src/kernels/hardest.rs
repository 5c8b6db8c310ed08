//! The hardest triplet of each row of a batch: its farthest positive and its nearest negative.

use super::ranks::{Block, Inputs, SEGMENT, params, similarity_steps};
use super::{Kernel, READ, READ_WRITE, wgsl::wgsl, workgroups_for};
use crate::cpu;
pub use crate::cpu::hardest::{CHUNK, Hardest};
use crate::engine::{Commands, DeviceVec};

const SOURCE: &[&str] = wgsl!("stored_f32.wgsl", "ranks.wgsl", "tile.wgsl", "hardest.wgsl");
const SOURCE_F16: &[&str] = wgsl!("stored_f16.wgsl", "ranks.wgsl", "tile.wgsl", "hardest.wgsl");

/// One workgroup per row and chunk of [`CHUNK`] references.
pub static PICK: Kernel = Kernel {
    name: "hardest.pick",
    source: SOURCE,
    entry: "pick",
    bindings: &[READ, READ, READ, READ, READ_WRITE],
    workgroup_size: SEGMENT as u32,
    workgroup_bytes: 16 * SEGMENT as u32,
    any_size: true,
};

/// [`PICK`] over rows in half precision.
pub static PICK_F16: Kernel = Kernel {
    name: "hardest.pick_f16",
    source: SOURCE_F16,
    ..PICK
};

/// Length of `found` for this many rows and references.
pub fn places(rows: usize, references: usize) -> u64 {
    rows as u64 * references.div_ceil(CHUNK) as u64
}

/// Farthest positive and nearest negative of every row of the block, in each chunk of the references. Ties go to the smaller
/// id.
///
/// # Shapes
/// `found`: `[chunks, rows]`, [`places`] of them
pub fn pick(
    commands: &mut Commands,
    block: &Block,
    inputs: Inputs<'_>,
    found: &mut DeviceVec<Hardest>,
) {
    match commands {
        Commands::Gpu(gpu) => {
            let steps = similarity_steps(block.stride);
            let shape = workgroups_for(gpu, block.references.min(CHUNK), steps);
            gpu.dispatch_in(
                shape,
                inputs.references.choose(&PICK, &PICK_F16),
                &params(block),
                &[
                    inputs.anchors.binding(),
                    inputs.references.binding(),
                    inputs.batch.binding(),
                    inputs.tags.binding(),
                    found.binding(),
                ],
                places(block.rows, block.references),
            );
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            cpu::hardest::pick(block, inputs.slices(), found.slice_mut());
        }
    }
}
