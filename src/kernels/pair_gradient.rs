//! Gradients of anchors and references from dL/ds, the weight of each similarity: anchors get `W R`, references `W^T A`.

use bytemuck::{Pod, Zeroable};

use super::ranks::Block;
use super::similarities::width;
use super::stored::Stored;
use super::{Kernel, READ, READ_WRITE, groups_for, index, vec4s, wgsl::wgsl};
use crate::cpu::{self, SEGMENT};
use crate::engine::device::TileShape;
use crate::engine::{Commands, DeviceVec};

/// One invocation per vec4 of a row.
pub static ANCHORS: Kernel = Kernel {
    name: "pair_gradient.anchors",
    source: wgsl!("stored_f32.wgsl", "pair_gradient.wgsl"),
    entry: "anchors",
    bindings: &[READ, READ, READ_WRITE],
    workgroup_size: 64,
    workgroup_bytes: 0,
    any_size: false,
};

/// One workgroup per few vec4s of rows: an invocation a segment of references.
pub static ANCHORS_APART: Kernel = Kernel {
    name: "pair_gradient.anchors_apart",
    entry: "anchors_apart",
    workgroup_size: 256,
    workgroup_bytes: 4096,
    ..ANCHORS
};

/// [`ANCHORS`] over references in half precision.
pub static ANCHORS_F16: Kernel = Kernel {
    name: "pair_gradient.anchors_f16",
    source: wgsl!("stored_f16.wgsl", "pair_gradient.wgsl"),
    ..ANCHORS
};

/// [`ANCHORS_APART`] over references in half precision.
pub static ANCHORS_APART_F16: Kernel = Kernel {
    name: "pair_gradient.anchors_apart_f16",
    source: ANCHORS_F16.source,
    ..ANCHORS_APART
};

/// One invocation per vec4 of a reference.
pub static REFERENCES: Kernel = Kernel {
    name: "pair_gradient.references",
    entry: "references",
    ..ANCHORS
};

/// References of one dispatch: software adapters end a loop at 65,536 steps without an error.
pub const WINDOW: usize = 16_384;

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    stride: u32,
    first_row: u32,
    rows: u32,
    references: u32,
    width: u32,
    first: u32,
    end: u32,
    onto: u32,
    columns: u32,
}

/// Anchor gradients of the block: the sum over references of weight times reference. Written, or added with `onto`.
///
/// # Shapes
/// `weights`: `[rows, width(references)]` · `gradient`: `[first_row + rows, stride]`
pub fn anchor_gradient(
    commands: &mut Commands,
    block: &Block,
    onto: bool,
    references: Stored<'_>,
    weights: &DeviceVec<f32>,
    gradient: &mut DeviceVec<f32>,
) {
    match commands {
        Commands::Gpu(gpu) => {
            let buffers = [references.binding(), weights.binding(), gradient.binding()];
            let vec4s = block.rows * block.stride / 4;
            // One after the other, an invocation takes the segments of its vec4; barriers are slow where a processor emulates a GPU.
            let apart = block.references > SEGMENT && gpu.shape() != TileShape::Strip;
            let (kernel, columns, groups) = match apart {
                true => {
                    let at_once = block.references.min(WINDOW).div_ceil(SEGMENT);
                    let columns = 256 / at_once.next_power_of_two();
                    let kernel = references.choose(&ANCHORS_APART, &ANCHORS_APART_F16);
                    (kernel, columns, vec4s.div_ceil(columns) as u64)
                }
                false => {
                    let kernel = references.choose(&ANCHORS, &ANCHORS_F16);
                    (kernel, 1, groups_for(&ANCHORS, vec4s))
                }
            };
            for from in (0..block.references).step_by(WINDOW) {
                let params = Params {
                    first: index(from),
                    end: index(from + WINDOW),
                    onto: u32::from(onto || from > 0),
                    columns: index(columns),
                    ..params(block)
                };
                gpu.dispatch(kernel, &params, &buffers, groups);
            }
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            let (references, weights) = (references.slices(), weights.slice());
            let width = width(block.references);
            cpu::pair_gradient::anchor_gradient(
                block,
                width,
                onto,
                references,
                weights,
                gradient.slice_mut(),
            );
        }
    }
}

/// Reference gradients: the sum over the block's anchors of weight times anchor. Written, or added with `onto`.
///
/// # Shapes
/// `anchors`: `[first_row + rows, stride]` · `weights`: `[rows, width(references)]` · `gradient`: `[references, stride]`
pub fn reference_gradient(
    commands: &mut Commands,
    block: &Block,
    onto: bool,
    anchors: &DeviceVec<f32>,
    weights: &DeviceVec<f32>,
    gradient: &mut DeviceVec<f32>,
) {
    match commands {
        Commands::Gpu(gpu) => gpu.dispatch(
            &REFERENCES,
            &Params {
                onto: u32::from(onto),
                ..params(block)
            },
            &[anchors.binding(), weights.binding(), gradient.binding()],
            groups_for(&REFERENCES, block.references * block.stride / 4),
        ),
        Commands::Cpu(calls) => {
            *calls += 1;
            let (anchors, weights) = (anchors.slice(), weights.slice());
            let width = width(block.references);
            cpu::pair_gradient::reference_gradient(
                block,
                width,
                onto,
                anchors,
                weights,
                gradient.slice_mut(),
            );
        }
    }
}

fn params(block: &Block) -> Params {
    Params {
        first_row: index(block.first_row),
        rows: index(block.rows),
        references: index(block.references),
        width: index(width(block.references)),
        stride: vec4s(block.stride),
        first: 0,
        end: 0,
        onto: 0,
        columns: 0,
    }
}
