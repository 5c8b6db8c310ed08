//! [`CpuVec`]: a vector of this process that holds its own reservation in the ledger.

use bytemuck::Pod;

use crate::ledger::Reservation;

/// A vector of `T` in the memory of this process. Dropping it gives the memory back at once.
#[derive(Debug)]
pub struct CpuVec<T> {
    elements: Vec<T>,
    reservation: Reservation,
}

impl CpuVec<u8> {
    /// A vector whose memory is reserved and comes with [`CpuVec::allocate`], once its element type is known.
    pub(crate) fn unallocated(reservation: Reservation) -> Self {
        Self {
            elements: Vec::new(),
            reservation,
        }
    }

    /// Takes the memory, zeroed.
    pub(crate) fn allocate<T: Pod>(self) -> CpuVec<T> {
        let count = self.reservation.bytes() / size_of::<T>() as u64;
        CpuVec {
            elements: vec![T::zeroed(); count as usize],
            reservation: self.reservation,
        }
    }
}

impl<T: Pod> CpuVec<T> {
    pub(crate) fn as_slice(&self) -> &[T] {
        &self.elements
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [T] {
        &mut self.elements
    }
}
