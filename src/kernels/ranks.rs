//! Where the positives of each row stand among all references: the pass that metrics are read off.

use bytemuck::{Pod, Zeroable};

use super::{Access, Kernel, index, vec4s};
use crate::cpu;
pub use crate::cpu::SEGMENT;
pub use crate::cpu::ranks::{Block, NO_ID, Row};
use crate::engine::{Commands, DeviceVec};

/// The text that this kernel and `triplet_margin` share.
pub(super) const SOURCE: &str = include_str!("../../shaders/ranks.wgsl");

/// Rows that one workgroup serves; the shader's `OWNERS`.
pub const OWNERS: usize = 8;

/// One workgroup a row.
pub static SORT_THRESHOLDS: Kernel = Kernel {
    name: "ranks.sort_thresholds",
    source: SOURCE,
    entry: "sort_thresholds",
    bindings: &[
        Access::Read,
        Access::Read,
        Access::Read,
        Access::Read,
        Access::ReadWrite,
        Access::ReadWrite,
    ],
    workgroup_size: SEGMENT as u32,
    workgroup_bytes: 4,
};

/// One workgroup per [`OWNERS`] rows and [`SEGMENT`] references.
pub static GAPS: Kernel = Kernel {
    name: "ranks.gaps",
    source: SOURCE,
    entry: "gaps",
    bindings: &[
        Access::Read,
        Access::Read,
        Access::Read,
        Access::Read,
        Access::Read,
        Access::ReadWrite,
    ],
    workgroup_size: SEGMENT as u32,
    workgroup_bytes: 0,
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
    /// One count more than thresholds for each row.
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
    pub(super) segments: u32,
    pub(super) capacity: u32,
    pub(super) report: u32,
    pub(super) kind: u32,
    pub(super) miner_margin: f32,
    pub(super) loss_margin: f32,
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
        segments: index(block.references.div_ceil(SEGMENT)),
        ..Params::default()
    }
}

/// Workgroups for every eight rows and every segment.
pub(super) fn tiles(block: &Block) -> u64 {
    (block.rows.div_ceil(OWNERS) * block.references.div_ceil(SEGMENT)) as u64
}

/// Counts for every row of the block how many negatives lie in each gap between its positives.
///
/// Nearer is: larger similarity, then smaller id. Afterwards `books[offset + i + g]` of the block's `i`-th row, for
/// `0 < g <= positives`, is the number of negatives that are nearer than the `g` farthest positives and not nearer than
/// the others; the count of the lowest gap is what is left of the row's negatives.
pub fn gaps(commands: &mut Commands, block: &Block, inputs: Inputs<'_>, scratch: &mut Scratch) {
    match commands {
        Commands::Gpu(gpu) => {
            let buffers = [
                inputs.anchors.binding(),
                inputs.references.binding(),
                inputs.batch.binding(),
                inputs.tags.binding(),
                scratch.thresholds.binding(),
                scratch.books.binding(),
            ];
            let params = params(block);
            gpu.dispatch(&SORT_THRESHOLDS, &params, &buffers, block.rows as u64);
            gpu.dispatch(&GAPS, &params, &buffers, tiles(block));
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            let Scratch { thresholds, books } = scratch;
            let (thresholds, books) = (thresholds.slice_mut(), books.slice_mut());
            let inputs = inputs.slices();
            cpu::ranks::sort_thresholds(block, inputs, thresholds, books);
            cpu::ranks::gaps(block, inputs, thresholds, books);
        }
    }
}
