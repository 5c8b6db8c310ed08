//! [`GpuVec`]: a typed buffer that holds its own reservation in the ledger.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::rc::Rc;

use bytemuck::Pod;

use crate::base::ledger::Reservation;

/// Buffers given up that the device may still use; shared by a device and its buffers.
#[derive(Clone, Debug, Default)]
pub(super) struct Returned(Rc<RefCell<Vec<(wgpu::Buffer, Reservation)>>>);

impl Returned {
    pub(super) fn take(&self) -> Vec<(wgpu::Buffer, Reservation)> {
        self.0.take()
    }
}

/// A buffer of `T` on the device. Dropping it hands the memory back at the device's next idle moment.
#[derive(Debug)]
pub struct GpuVec<T> {
    buffer: wgpu::Buffer,
    reservation: Option<Reservation>,
    returned: Returned,
    id: u64,
    label: &'static str,
    element: PhantomData<T>,
}

thread_local! {
    static NEXT_ID: Cell<u64> = const { Cell::new(1) };
}

impl<T: Pod> GpuVec<T> {
    /// Creates a buffer as large as its reservation.
    pub(super) fn new(
        device: &wgpu::Device,
        returned: &Returned,
        reservation: Reservation,
        label: &'static str,
        usage: wgpu::BufferUsages,
    ) -> Self {
        let buffer = device.create_buffer(&wgpu::BufferDescriptor {
            label: Some(label),
            size: reservation.bytes(),
            usage,
            mapped_at_creation: false,
        });
        Self {
            buffer,
            reservation: Some(reservation),
            returned: returned.clone(),
            id: NEXT_ID.replace(NEXT_ID.get() + 1),
            label,
            element: PhantomData,
        }
    }

    /// Converts the buffer to elements of another type.
    pub fn cast<U: Pod>(mut self) -> GpuVec<U> {
        GpuVec {
            buffer: self.buffer.clone(),
            reservation: self.reservation.take(),
            returned: self.returned.clone(),
            id: self.id,
            label: self.label,
            element: PhantomData,
        }
    }

    /// Number of elements.
    pub(crate) fn len(&self) -> u64 {
        self.buffer.size() / size_of::<T>() as u64
    }

    pub(super) fn raw(&self) -> &wgpu::Buffer {
        &self.buffer
    }

    /// The buffer as an argument of a dispatch.
    pub fn binding(&self) -> Binding<'_> {
        Binding {
            buffer: &self.buffer,
            id: self.id,
            label: self.label,
        }
    }
}

impl<T> Drop for GpuVec<T> {
    fn drop(&mut self) {
        if let Some(mut reservation) = self.reservation.take() {
            reservation.begin_return();
            self.returned
                .0
                .borrow_mut()
                .push((self.buffer.clone(), reservation));
        }
    }
}

/// A buffer as an argument of a dispatch; `id` tells buffers apart without comparing handles.
#[derive(Clone, Copy, Debug)]
pub struct Binding<'a> {
    pub(super) buffer: &'a wgpu::Buffer,
    pub(super) id: u64,
    pub(super) label: &'static str,
}
