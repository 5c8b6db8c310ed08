//! Rows in the precision in which they are stored, as kernels take them. Those that read references, or hidden activations, have a
//! variant of their own for half precision: the same text after `stored_f16.wgsl` in place of `stored_f32.wgsl`.

use super::Kernel;
pub use crate::cpu::stored::{Precision, Rows, RowsMut, pack, unpack};
use crate::engine::gpu::Binding;
use crate::engine::{DeviceVec, Workspace};

/// Rows of whole vec4s on the engine.
#[derive(Debug)]
pub enum StoredRows {
    /// A float a component.
    F32(DeviceVec<f32>),
    /// A word two components.
    F16(DeviceVec<u32>),
}

/// [`StoredRows`] that are read.
#[derive(Clone, Copy, Debug)]
pub enum Stored<'a> {
    /// A float a component.
    F32(&'a DeviceVec<f32>),
    /// A word two components.
    F16(&'a DeviceVec<u32>),
}

impl StoredRows {
    /// Takes planned rows from a workspace.
    pub(crate) fn take(workspace: &mut Workspace, precision: Precision, label: &str) -> Self {
        match precision {
            Precision::F32 => Self::F32(workspace.take(label)),
            Precision::F16 => Self::F16(workspace.take(label)),
        }
    }

    /// The rows, to read.
    pub fn read(&self) -> Stored<'_> {
        match self {
            Self::F32(rows) => Stored::F32(rows),
            Self::F16(rows) => Stored::F16(rows),
        }
    }

    /// The rows, to write, which must be floats.
    pub(crate) fn floats_mut(&mut self) -> &mut DeviceVec<f32> {
        match self {
            Self::F32(rows) => rows,
            Self::F16(_) => {
                unreachable!("rows in half precision are stored by `normalize` and `cast`")
            }
        }
    }

    /// The rows on the CPU, to write.
    pub(super) fn slices_mut(&mut self) -> RowsMut<'_> {
        match self {
            Self::F32(rows) => RowsMut::F32(rows.slice_mut()),
            Self::F16(rows) => RowsMut::F16(rows.slice_mut()),
        }
    }
}

impl<'a> Stored<'a> {
    pub(super) fn binding(self) -> Binding<'a> {
        match self {
            Self::F32(rows) => rows.binding(),
            Self::F16(rows) => rows.binding(),
        }
    }

    /// The rows on the CPU.
    pub(super) fn slices(self) -> Rows<'a> {
        match self {
            Self::F32(rows) => Rows::F32(rows.slice()),
            Self::F16(rows) => Rows::F16(rows.slice()),
        }
    }

    /// The rows, which must be floats: so are those that learn.
    ///
    /// # Panics
    /// If they are in half precision.
    pub fn floats(self) -> &'a DeviceVec<f32> {
        match self {
            Self::F32(rows) => rows,
            Self::F16(_) => unreachable!("rows that learn are stored as f32"),
        }
    }

    /// The kernel that reads these rows.
    pub(super) fn choose(
        self,
        of_f32: &'static Kernel,
        of_f16: &'static Kernel,
    ) -> &'static Kernel {
        match self {
            Self::F32(_) => of_f32,
            Self::F16(_) => of_f16,
        }
    }
}

impl<'a> From<&'a DeviceVec<f32>> for Stored<'a> {
    fn from(rows: &'a DeviceVec<f32>) -> Self {
        Self::F32(rows)
    }
}
