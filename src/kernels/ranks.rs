//! Where the positives of each row stand among all references: the pass that metrics are read off.

use bytemuck::{Pod, Zeroable};

use super::{Access, Kernel, index, vec4s};
use crate::cpu;
use crate::engine::{Commands, DeviceVec};

/// The text that this kernel and `triplet_margin` share.
pub(super) const SOURCE: &str = include_str!("../../shaders/ranks.wgsl");

/// References that one workgroup looks at, one per invocation.
pub const SEGMENT: usize = 256;
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

/// What the pass needs to know of an anchor or query.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Row {
    /// Its class.
    pub label: u32,
    /// Its own id: the reference with this id is itself. [`NO_ID`] where it is no reference.
    pub id: u32,
    /// Where its thresholds begin: the sum of `positives` of the rows of the block before it.
    pub offset: u32,
    /// How many references have its label and another id.
    pub positives: u32,
}

/// The id of no reference.
pub const NO_ID: u32 = u32::MAX;

/// The rows that one pass ranks, and against how many references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The first row, in the anchors.
    pub first_row: usize,
    /// How many rows.
    pub rows: usize,
    /// Where they begin in `batch`.
    pub batch: usize,
    /// How many references.
    pub references: usize,
    /// Floats from one row of anchors or references to the next.
    pub stride: usize,
}

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

impl Block {
    pub(super) fn params(&self) -> Params {
        Params {
            first_row: index(self.first_row),
            rows: index(self.rows),
            batch: index(self.batch),
            references: index(self.references),
            stride: vec4s(self.stride),
            segments: index(self.references.div_ceil(SEGMENT)),
            ..Params::default()
        }
    }

    /// Workgroups for every eight rows and every segment.
    pub(super) fn tiles(&self) -> u64 {
        (self.rows.div_ceil(OWNERS) * self.references.div_ceil(SEGMENT)) as u64
    }
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
            let params = block.params();
            gpu.dispatch(&SORT_THRESHOLDS, &params, &buffers, block.rows as u64);
            gpu.dispatch(&GAPS, &params, &buffers, block.tiles());
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            let Scratch { thresholds, books } = scratch;
            let (thresholds, books) = (thresholds.slice_mut(), books.slice_mut());
            cpu::ranks::sort_thresholds(block, inputs, thresholds, books);
            cpu::ranks::gaps(block, inputs, thresholds, books);
        }
    }
}
