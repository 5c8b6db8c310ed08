//! [`CpuVec`]: a vector of this process that holds its own reservation in the ledger.

use std::marker::PhantomData;

use bytemuck::Pod;

use crate::base::error::Result;
use crate::base::ledger::Reservation;
use crate::base::memory::zeros;

/// Unit in which the memory is allocated: as large and as aligned as any element.
type Unit = u128;

/// A vector of `T` in the memory of this process. Dropping it gives the memory back at once.
#[derive(Debug)]
pub struct CpuVec<T> {
    units: Vec<Unit>,
    reservation: Reservation,
    element: PhantomData<T>,
}

impl CpuVec<u8> {
    /// Allocates the reserved bytes, zeroed; `phase` is the phase that needs them.
    ///
    /// # Errors
    /// [`crate::Error::NoMemory`] if the system has less.
    pub(crate) fn allocate(phase: &str, reservation: Reservation) -> Result<Self> {
        let units = reservation.bytes().div_ceil(size_of::<Unit>() as u64);
        Ok(Self {
            units: zeros(units, &format!("\"{phase}\""))?,
            reservation,
            element: PhantomData,
        })
    }

    /// Converts the memory to elements of another type.
    pub(crate) fn cast<T: Pod>(self) -> CpuVec<T> {
        CpuVec {
            units: self.units,
            reservation: self.reservation,
            element: PhantomData,
        }
    }
}

impl<T: Pod> CpuVec<T> {
    /// Bytes of all whole elements.
    fn bytes(&self) -> usize {
        let bytes = self.reservation.bytes() as usize;
        bytes - bytes % size_of::<T>()
    }

    pub(crate) fn as_slice(&self) -> &[T] {
        let bytes: &[u8] = bytemuck::cast_slice(&self.units);
        bytemuck::cast_slice(&bytes[..self.bytes()])
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [T] {
        let count = self.bytes();
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut self.units);
        bytemuck::cast_slice_mut(&mut bytes[..count])
    }
}
