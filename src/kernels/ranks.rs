//! Where the positives of each row stand among all references: the pass that metrics are read off.

use std::ops::Range;

use bytemuck::{Pod, Zeroable};

use super::tile::{self, Shape};
use super::{Access, Kernel, index, vec4s};
use crate::cpu;
pub use crate::cpu::SEGMENT;
pub use crate::cpu::ranks::{Block, NO_ID, Row};
use crate::engine::{Commands, DeviceVec};
use crate::gpu::Binding;

const SOURCE: &str = concat!(
    include_str!("../../shaders/ranks.wgsl"),
    include_str!("../../shaders/tile.wgsl")
);

/// One workgroup a row.
pub static CLEAR: Kernel = Kernel {
    name: "ranks.clear",
    source: SOURCE,
    entry: "clear",
    bindings: &[
        Access::Read,
        Access::Read,
        Access::Read,
        Access::Read,
        Access::ReadWrite,
        Access::ReadWrite,
    ],
    workgroup_size: SEGMENT as u32,
    workgroup_bytes: 0,
};

/// One workgroup a row.
pub static FIND: Kernel = Kernel {
    name: "ranks.find",
    entry: "find",
    ..CLEAR
};

/// One workgroup a row.
pub static ORDER: Kernel = Kernel {
    name: "ranks.order",
    entry: "order",
    ..CLEAR
};

/// One workgroup a row.
pub static SORT_THRESHOLDS: Kernel = Kernel {
    name: "ranks.sort_thresholds",
    entry: "sort_thresholds",
    ..CLEAR
};

/// As [`Shape::Strip`] has it.
pub static STRIP: Kernel = Kernel {
    name: "ranks.strip",
    entry: "strip",
    bindings: &[
        Access::Read,
        Access::Read,
        Access::Read,
        Access::Read,
        Access::Read,
        Access::ReadWrite,
    ],
    ..CLEAR
};

/// As [`Shape::Tile`] has it.
pub static TILE: Kernel = Kernel {
    name: "ranks.tile",
    entry: "tile",
    workgroup_bytes: tile::WORKGROUP_BYTES,
    ..STRIP
};

/// What the pass reads.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// Unit rows `[_, stride]`.
    pub anchors: &'a DeviceVec<f32>,
    /// Unit rows `[references, stride]`.
    pub references: &'a DeviceVec<f32>,
    /// Label, id and place of each anchor.
    pub batch: &'a DeviceVec<Row>,
    /// `[label, id]` of each reference.
    pub tags: &'a DeviceVec<[u32; 2]>,
}

/// What the pass writes on the way.
#[derive(Debug)]
pub struct Scratch {
    /// `[similarity's bits, id]` of every positive of the block's rows, the farthest of a row first.
    pub thresholds: DeviceVec<[u32; 2]>,
    /// One count more than positives for each row.
    pub books: DeviceVec<u32>,
}

/// The uniform of this kernel and of `triplet_margin`.
#[repr(C)]
#[derive(Clone, Copy, Default, Pod, Zeroable)]
pub(super) struct Params {
    pub(super) first_row: u32,
    pub(super) rows: u32,
    pub(super) batch: u32,
    pub(super) references: u32,
    pub(super) stride: u32,
    pub(super) first_reference: u32,
    pub(super) from_id: u32,
    pub(super) to_id: u32,
    pub(super) segments: u32,
    pub(super) capacity: u32,
    pub(super) report: u32,
    pub(super) pairs: u32,
    pub(super) kind: u32,
    pub(super) miner_margin: f32,
    pub(super) loss_margin: f32,
    pub(super) distance: u32,
}

impl<'a> Inputs<'a> {
    /// The same for the CPU side.
    pub(super) fn slices(&self) -> cpu::ranks::Slices<'a> {
        cpu::ranks::Slices {
            anchors: self.anchors.slice(),
            references: self.references.slice(),
            batch: self.batch.slice(),
            tags: self.tags.slice(),
        }
    }
}

pub(super) fn params(block: &Block) -> Params {
    Params {
        first_row: index(block.first_row),
        rows: index(block.rows),
        batch: index(block.batch),
        references: index(block.references),
        stride: vec4s(block.stride),
        first_reference: index(block.first_reference),
        to_id: NO_ID,
        segments: index(block.references.div_ceil(SEGMENT)),
        ..Params::default()
    }
}

/// The buffers of every kernel of the pass, in binding order.
pub(super) fn buffers<'a>(inputs: Inputs<'a>, scratch: &'a Scratch) -> [Binding<'a>; 6] {
    [
        inputs.anchors.binding(),
        inputs.references.binding(),
        inputs.batch.binding(),
        inputs.tags.binding(),
        scratch.thresholds.binding(),
        scratch.books.binding(),
    ]
}

/// Empties the books of every row of the block, before the first [`find`].
pub fn clear(commands: &mut Commands, block: &Block, inputs: Inputs<'_>, scratch: &mut Scratch) {
    match commands {
        Commands::Gpu(gpu) => {
            let buffers = buffers(inputs, scratch);
            gpu.dispatch(&CLEAR, &params(block), &buffers, block.rows as u64);
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            cpu::ranks::clear(block, inputs.slices(), scratch.books.slice_mut());
        }
    }
}

/// Adds to the thresholds of every row of the block its positives among these references, those with an id in `ids`.
///
/// The references may be a part of all; a row's `positives` is how many of `ids` there are in all parts together.
pub fn find(
    commands: &mut Commands,
    block: &Block,
    ids: Range<u32>,
    inputs: Inputs<'_>,
    scratch: &mut Scratch,
) {
    match commands {
        Commands::Gpu(gpu) => {
            let params = Params {
                from_id: ids.start,
                to_id: ids.end,
                ..params(block)
            };
            gpu.dispatch(&FIND, &params, &buffers(inputs, scratch), block.rows as u64);
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            let Scratch { thresholds, books } = scratch;
            let (thresholds, books) = (thresholds.slice_mut(), books.slice_mut());
            cpu::ranks::find(block, ids, inputs.slices(), thresholds, books);
        }
    }
}

/// Sorts the thresholds of every row of the block, once all are found.
pub fn order(commands: &mut Commands, block: &Block, inputs: Inputs<'_>, scratch: &mut Scratch) {
    match commands {
        Commands::Gpu(gpu) => {
            let buffers = buffers(inputs, scratch);
            gpu.dispatch(&ORDER, &params(block), &buffers, block.rows as u64);
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            let Scratch { thresholds, books } = scratch;
            let (thresholds, books) = (thresholds.slice_mut(), books.slice_mut());
            cpu::ranks::order(block, inputs.slices(), thresholds, books);
        }
    }
}

/// Counts for every row of the block how many negatives lie in each gap between its sorted positives.
///
/// Nearer is: larger similarity, then smaller id. The references may be a part of all: counts add up. After the last,
/// `books[offset + g]` of a row of the block, for `0 < g <= positives`, is the number of negatives that are
/// nearer than the `g` farthest positives and not nearer than the others; the count of the lowest gap is what is left
/// of the row's negatives.
pub fn gaps(
    commands: &mut Commands,
    block: &Block,
    shape: Shape,
    inputs: Inputs<'_>,
    scratch: &mut Scratch,
) {
    match commands {
        Commands::Gpu(gpu) => {
            let kernel = shape.choose(&STRIP, &TILE);
            let groups = shape.groups(block.rows, block.references);
            gpu.dispatch(kernel, &params(block), &buffers(inputs, scratch), groups);
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            let Scratch { thresholds, books } = scratch;
            let (thresholds, books) = (thresholds.slice_mut(), books.slice_mut());
            cpu::ranks::gaps(block, inputs.slices(), thresholds, books);
        }
    }
}
