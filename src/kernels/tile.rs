//! Two ways to cut the product of a block's rows with the references into workgroups; both give the same bits.

use super::Kernel;
use crate::engine::device::DeviceInfo;
pub use crate::engine::device::TileShape as Shape;

/// Bytes of workgroup memory that [`Shape::Tile`] takes.
pub(super) const WORKGROUP_BYTES: u32 = 12 << 10;

/// Invocations of a workgroup, in both shapes.
pub(super) const WORKGROUP_SIZE: u32 = 256;

/// Fewer rows than this never fill a tile.
const MANY_ROWS: usize = 64;

impl Shape {
    /// The shape that suits a device and a number of rows.
    pub fn of(info: &DeviceInfo, rows: usize) -> Self {
        let suits = match info.tuned {
            _ if rows < MANY_ROWS => Self::Strip,
            Some(tuned) => tuned,
            None => Self::of_device(info),
        };
        info.shape.unwrap_or(suits)
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
