//! [`DeviceVec`] and [`Commands`]: data in the memory of an engine and work on it, of one of two kinds.

use bytemuck::Pod;

use crate::engine::gpu::{self, GpuCommands, GpuVec};
use crate::engine::host::CpuVec;

/// A vector of `T` in the memory of an engine; it holds its share of the budget.
#[derive(Debug)]
pub enum DeviceVec<T> {
    /// On a GPU.
    Gpu(GpuVec<T>),
    /// In the memory of this process.
    Cpu(CpuVec<T>),
}

/// The work of one submit. On the CPU each call runs at once.
#[derive(Debug)]
pub enum Commands {
    /// Recorded until [`crate::Engine::submit`].
    Gpu(Box<GpuCommands>),
    /// Done when the call returns; counts the kernels called.
    Cpu(u32),
}

/// The buffers of one phase, exactly those of its plan.
#[derive(Debug)]
pub struct Workspace(pub(super) Vec<(&'static str, DeviceVec<u8>)>);

impl Workspace {
    /// Takes a buffer out of the workspace.
    ///
    /// # Panics
    /// If the plan has no such buffer, or it was taken before.
    pub fn take<T: Pod>(&mut self, label: &str) -> DeviceVec<T> {
        let place = self.0.iter().position(|(own, _)| *own == label);
        let place = place.unwrap_or_else(|| panic!("the plan has no buffer \"{label}\" left"));
        match self.0.swap_remove(place).1 {
            DeviceVec::Gpu(vec) => DeviceVec::Gpu(vec.cast()),
            DeviceVec::Cpu(vec) => DeviceVec::Cpu(vec.cast()),
        }
    }
}

impl Commands {
    /// Writes `elements` into `target`, after what was recorded before.
    pub fn upload<T: Pod>(&mut self, target: &mut DeviceVec<T>, first: u64, elements: &[T]) {
        match (self, target) {
            (Self::Gpu(commands), DeviceVec::Gpu(vec)) => commands.upload(vec, first, elements),
            (_, target) => {
                target.slice_mut()[first as usize..][..elements.len()].copy_from_slice(elements);
            }
        }
    }

    /// Counts a kernel that ran on the CPU by itself.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn count(&mut self) {
        if let Self::Cpu(calls) = self {
            *calls += 1;
        }
    }

    /// Bytes that can still be uploaded.
    pub(crate) fn room(&self) -> u64 {
        match self {
            Self::Gpu(commands) => commands.room(),
            Self::Cpu(_) => gpu::STAGING_BYTES,
        }
    }

    /// Copies `count` elements of `source`, from `first` on, to `target` from element `to` on.
    pub(crate) fn copy<T: Pod>(
        &mut self,
        source: &DeviceVec<T>,
        first: u64,
        count: u64,
        target: &mut DeviceVec<T>,
        to: u64,
    ) {
        match (self, source, target) {
            (Self::Gpu(commands), DeviceVec::Gpu(source), DeviceVec::Gpu(target)) => {
                commands.copy(source, first, count, target, to);
            }
            (_, source, target) => {
                let elements = &source.slice()[first as usize..][..count as usize];
                target.slice_mut()[to as usize..][..elements.len()].copy_from_slice(elements);
            }
        }
    }

    /// Copies `count` elements of `source`, from `first` on, to byte `at` of the bytes that [`crate::Engine::fetched`] returns; on the CPU
    /// returns their bytes at once.
    pub(crate) fn fetch<T: Pod>(
        &mut self,
        source: &DeviceVec<T>,
        first: u64,
        count: u64,
        at: u64,
    ) -> Option<Vec<u8>> {
        match (self, source) {
            (Self::Gpu(commands), DeviceVec::Gpu(source)) => {
                commands.fetch(source, first, count, at);
                None
            }
            (_, source) => {
                let elements = &source.slice()[first as usize..][..count as usize];
                Some(bytemuck::cast_slice(elements).to_vec())
            }
        }
    }

    /// Kernels run so far.
    pub fn dispatches(&self) -> u32 {
        match self {
            Self::Gpu(commands) => commands.dispatches(),
            Self::Cpu(calls) => *calls,
        }
    }
}

impl<T: Pod> DeviceVec<T> {
    /// Number of elements.
    pub fn len(&self) -> u64 {
        match self {
            Self::Gpu(vec) => vec.len(),
            Self::Cpu(vec) => vec.as_slice().len() as u64,
        }
    }

    /// Tells if it has no elements; no planned buffer is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements of a CPU vector.
    pub(crate) fn slice(&self) -> &[T] {
        match self {
            Self::Cpu(vec) => vec.as_slice(),
            Self::Gpu(_) => panic!("a kernel's vectors all belong to one engine"),
        }
    }

    /// The elements of a CPU vector, to write.
    pub(crate) fn slice_mut(&mut self) -> &mut [T] {
        match self {
            Self::Cpu(vec) => vec.as_mut_slice(),
            Self::Gpu(_) => panic!("a kernel's vectors all belong to one engine"),
        }
    }

    /// The buffer of a GPU vector, as an argument of a dispatch.
    pub(crate) fn binding(&self) -> gpu::Binding<'_> {
        match self {
            Self::Gpu(vec) => vec.binding(),
            Self::Cpu(_) => panic!("a kernel's vectors all belong to one engine"),
        }
    }
}
