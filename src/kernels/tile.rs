//! Three ways to cut the product of a block's rows with the references into workgroups; all give the same bits.

use super::Kernel;
use crate::engine::device::DeviceInfo;
pub use crate::engine::device::TileShape as Shape;

/// Bytes of workgroup memory that [`Shape::Tile`] takes.
pub(super) const WORKGROUP_BYTES: u32 = 12 << 10;

/// Invocations of a workgroup, in [`Shape::Strip`] and in [`Shape::Tile`].
pub(super) const WORKGROUP_SIZE: u32 = 256;

/// Bytes of workgroup memory that [`Shape::Quads`] takes.
pub(super) const QUADS_BYTES: u32 = 16 * 16 * (17 + 33);

/// Invocations of a workgroup in [`Shape::Quads`].
pub(super) const QUADS_SIZE: u32 = 128;

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

    /// The kernel of this shape, where there are two.
    pub(super) fn choose(self, strip: &'static Kernel, tile: &'static Kernel) -> &'static Kernel {
        self.of_three([strip, tile, tile])
    }

    /// The kernel of this shape, of those of [`Shape::ALL`].
    pub(super) fn of_three(self, [strip, tile, quads]: [&'static Kernel; 3]) -> &'static Kernel {
        match self {
            Self::Strip => strip,
            Self::Tile => tile,
            Self::Quads => quads,
        }
    }

    /// Workgroups for this many rows and references.
    pub(super) fn groups(self, rows: usize, references: usize) -> u64 {
        let (high, wide) = match self {
            Self::Strip => (8, 4 * WORKGROUP_SIZE as usize),
            Self::Tile | Self::Quads => (64, 128),
        };
        (rows.div_ceil(high) * references.div_ceil(wide)) as u64
    }
}
