//! Similarities of a block of rows to all references, for miners that need a row of them at once. A block has as many rows
//! as the plan has room for; the whole matrix never exists.

use bytemuck::{Pod, Zeroable};

use super::stored::Stored;
use super::tile::{self, Shape};
use super::{Kernel, READ, READ_WRITE, index, vec4s, wgsl::wgsl};
use crate::cpu;
pub use crate::cpu::Distance;
pub use crate::cpu::similarities::NONE;
use crate::engine::{Commands, DeviceVec};
use crate::kernels::ranks::Block;
use crate::kernels::stride;

const SOURCE: &[&str] = wgsl!("stored_f32.wgsl", "similarities.wgsl", "tile.wgsl");
const SOURCE_F16: &[&str] = wgsl!("stored_f16.wgsl", "similarities.wgsl", "tile.wgsl");

/// Work is cut as in [`Shape::Strip`].
pub static STRIP: Kernel = Kernel {
    name: "similarities.strip",
    source: SOURCE,
    entry: "strip",
    bindings: &[READ, READ, READ_WRITE],
    workgroup_size: tile::WORKGROUP_SIZE,
    workgroup_bytes: 0,
    any_size: false,
};

/// Work is cut as in [`Shape::Tile`].
pub static TILE: Kernel = Kernel {
    name: "similarities.tile",
    entry: "tile",
    workgroup_bytes: tile::WORKGROUP_BYTES,
    ..STRIP
};

/// Work is cut as in [`Shape::Quads`].
pub static QUADS: Kernel = Kernel {
    name: "similarities.quads",
    entry: "quads",
    workgroup_size: tile::QUADS_SIZE,
    workgroup_bytes: tile::QUADS_BYTES,
    ..STRIP
};

/// [`STRIP`] over rows in half precision.
pub static STRIP_F16: Kernel = Kernel {
    name: "similarities.strip_f16",
    source: SOURCE_F16,
    ..STRIP
};

/// [`TILE`] over rows in half precision.
pub static TILE_F16: Kernel = Kernel {
    name: "similarities.tile_f16",
    source: SOURCE_F16,
    ..TILE
};

/// [`QUADS`] over rows in half precision.
pub static QUADS_F16: Kernel = Kernel {
    name: "similarities.quads_f16",
    source: SOURCE_F16,
    ..QUADS
};

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    stride: u32,
    first_row: u32,
    rows: u32,
    references: u32,
    width: u32,
    distance: u32,
}

/// Floats from one row of similarities to the next.
pub fn width(references: usize) -> usize {
    stride(references)
}

/// Cosine similarity, or minus the distance, of the block's rows to its references. [`NONE`] fills each row up to `width`.
///
/// # Shapes
/// `anchors`: `[first_row + rows, stride]` · `references`: `[references, stride]` · `similarities`:
/// `[rows, width(references)]`
pub fn similarities(
    commands: &mut Commands,
    block: &Block,
    shape: Shape,
    distance: Distance,
    anchors: &DeviceVec<f32>,
    references: Stored<'_>,
    similarities: &mut DeviceVec<f32>,
) {
    let width = width(block.references);
    match commands {
        Commands::Gpu(gpu) => {
            let params = Params {
                first_row: index(block.first_row),
                rows: index(block.rows),
                references: index(block.references),
                stride: vec4s(block.stride),
                width: index(width),
                distance: distance as u32,
            };
            gpu.dispatch(
                references.choose(
                    shape.of_three([&STRIP, &TILE, &QUADS]),
                    shape.of_three([&STRIP_F16, &TILE_F16, &QUADS_F16]),
                ),
                &params,
                &[
                    anchors.binding(),
                    references.binding(),
                    similarities.binding(),
                ],
                shape.groups(block.rows, width),
            );
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            let (anchors, references) = (anchors.slice(), references.slices());
            let all = similarities.slice_mut();
            cpu::similarities::similarities(block, width, distance, anchors, references, all);
        }
    }
}
