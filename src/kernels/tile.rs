//! Two ways to cut the product of a block's rows with the references into workgroups; both give the same bits.

use super::Kernel;
use crate::device::DeviceInfo;

/// Bytes of workgroup memory that [`Shape::Tile`] takes.
pub(super) const WORKGROUP_BYTES: u32 = 12 << 10;

/// Invocations of a workgroup, in both shapes.
pub(super) const WORKGROUP_SIZE: u32 = 256;

/// What one workgroup computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// 8 rows and 4 references an invocation, no barrier: for adapters that pay dearly for barriers, and for few rows.
    Strip,
    /// 64 rows and 128 references a workgroup, through workgroup memory.
    Tile,
}

impl Shape {
    /// Every shape.
    pub const ALL: [Self; 2] = [Self::Strip, Self::Tile];

    /// The shape that suits a device and a number of rows.
    pub fn of(info: &DeviceInfo, rows: usize) -> Self {
        if info.software || rows < 64 {
            Self::Strip
        } else {
            Self::Tile
        }
    }

    /// The kernel of this shape.
    pub(super) fn choose(self, strip: &'static Kernel, tile: &'static Kernel) -> &'static Kernel {
        match self {
            Self::Strip => strip,
            Self::Tile => tile,
        }
    }

    /// Workgroups for this many rows and references.
    pub(super) fn groups(self, rows: usize, references: usize) -> u64 {
        let (high, wide) = match self {
            Self::Strip => (8, 4 * WORKGROUP_SIZE as usize),
            Self::Tile => (64, 128),
        };
        (rows.div_ceil(high) * references.div_ceil(wide)) as u64
    }
}
