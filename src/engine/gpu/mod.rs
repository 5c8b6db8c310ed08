//! [`Gpu`]: a device, its queue and limits, and all data transfer to and from it.
//!
//! Contains no algorithm; the only part of the crate that names `wgpu`. Buffers are [`GpuVec`]s, compute work is a [`Kernel`]
//! dispatched through [`GpuCommands`].

mod adapter;
mod commands;
mod failure;
mod kernel;
mod timer;
mod trusted;
mod vec;
mod wait;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bytemuck::Pod;
use futures_channel::oneshot;

pub use adapter::{Adapter, connections, devices};
pub use commands::{Dispatch, GpuCommands};
pub use kernel::{Access, Kernel, NARROW};
pub use timer::{DeviceTime, KernelTime};
pub use vec::{Binding, GpuVec};

use crate::base::error::{Error, Result};
use crate::base::ledger::{MemoryLedger, Purpose, Reservation};
use crate::engine::device::{DeviceInfo, EngineChoice, TileShape};
use failure::Failure;
use kernel::Pipelines;
use trusted::Checks;

/// Parameter blocks that one submit can carry; each dispatch takes one.
pub const PARAMS_SLOTS: u32 = 512;
/// Bytes of a parameter block: the alignment that a dynamic uniform offset needs everywhere.
const PARAMS_BYTES: u32 = 256;
/// Bytes that one submit can carry to the device besides its parameters, and that one read returns.
pub const STAGING_BYTES: u64 = 1 << 20;

/// The most bytes of a piece of a large upload; in a browser, what is copied for it stays with the page for good.
const MOST_PIECE_BYTES: u64 = if cfg!(target_arch = "wasm32") {
    2 << 20
} else {
    8 << 20
};

/// Bytes of a piece of a large upload within this budget. The driver holds copies of two at most, in the memory of the host: a
/// sixteenth of the budget, or what it holds of small submits.
fn piece_bytes(budget_bytes: u64) -> u64 {
    ((budget_bytes / 32) & !0xffff).clamp(STAGING_BYTES, MOST_PIECE_BYTES)
}

/// A device with its queue, its pipelines, and small fixed buffers for parameters, uploads and reads.
#[derive(Debug)]
pub struct Gpu {
    device: wgpu::Device,
    queue: wgpu::Queue,
    info: DeviceInfo,
    pipelines: Pipelines,
    params: GpuVec<u8>,
    upload: GpuVec<u8>,
    readback: GpuVec<u8>,
    /// Bytes of a piece of a large upload.
    piece_bytes: u64,
    /// A piece was written since the last submit.
    unsent: Cell<bool>,
    returned: vec::Returned,
    failure: Failure,
    /// Every dispatch is waited for, natively.
    synchronous: bool,
    submits: Cell<u64>,
    /// Bytes that submits carried to the device, and that reads brought back.
    uploaded: Cell<u64>,
    fetched: Cell<u64>,
    waits: wait::Waits,
    timer: RefCell<Option<timer::Timer>>,
    /// Requests for memory before one is refused; `true` if all after it are refused, too. Set by a test alone.
    refusal: Cell<Option<(u64, bool)>>,
    /// Submits before the device is lost. Set by a test alone.
    loss: Cell<Option<u64>>,
}

impl Gpu {
    /// Opens an adapter; `choice` says how shaders are compiled and how work is cut.
    ///
    /// # Errors
    /// [`Error::Device`] if it gives no device; [`Error::Refused`] if the budget does not hold the 2.1 MiB of fixed buffers.
    pub async fn open(
        adapter: Adapter,
        choice: &EngineChoice,
        ledger: &MemoryLedger,
    ) -> Result<Self> {
        let (device, queue) = adapter.device().await?;
        let failure = Failure::watch(&device, ledger);
        let returned = vec::Returned::default();
        let fixed = |purpose, label, bytes, usage| {
            let reservation =
                ledger
                    .reserve(purpose, label, bytes)
                    .map_err(|over| Error::Refused {
                        over,
                        how: "raise the budget".to_owned(),
                        fits: Vec::new(),
                    })?;
            Ok::<_, Error>(GpuVec::new(&device, &returned, reservation, label, usage))
        };
        use wgpu::BufferUsages as Usage;
        let params_bytes = u64::from(PARAMS_SLOTS * PARAMS_BYTES);
        let params = fixed(
            Purpose::Uniforms,
            "gpu.params",
            params_bytes,
            Usage::UNIFORM | Usage::COPY_DST,
        )?;
        let upload = fixed(
            Purpose::Staging,
            "gpu.upload",
            STAGING_BYTES + params_bytes,
            Usage::COPY_SRC | Usage::COPY_DST,
        )?;
        let readback = fixed(
            Purpose::Staging,
            "gpu.readback",
            STAGING_BYTES,
            Usage::MAP_READ | Usage::COPY_DST,
        )?;
        let info = DeviceInfo {
            shape: choice.shape,
            ..adapter.info()
        };
        let shape = choice.shape.unwrap_or(TileShape::of_device(&info));
        let gpu = Self {
            info,
            pipelines: Pipelines::new(Checks::of(choice), shape),
            device,
            queue,
            params,
            upload,
            readback,
            piece_bytes: piece_bytes(ledger.budget_bytes()),
            unsent: Cell::new(false),
            returned,
            failure,
            synchronous: choice.synchronous && !cfg!(target_arch = "wasm32"),
            submits: Cell::new(0),
            uploaded: Cell::new(0),
            fetched: Cell::new(0),
            waits: wait::Waits::default(),
            timer: RefCell::default(),
            refusal: Cell::default(),
            loss: Cell::default(),
        };
        gpu.measure_round_trip().await?;
        // An adapter may give a device that is lost already.
        gpu.check()?;
        Ok(gpu)
    }

    /// Names, limits and features of the device.
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// Creates a storage buffer for each reservation; after `Ok` the device has really handed out the memory of all.
    ///
    /// # Errors
    /// [`Error::Device`] if the driver has no memory, although the budget had.
    pub async fn allocate(
        &self,
        reservations: Vec<(&'static str, Reservation)>,
    ) -> Result<Vec<GpuVec<u8>>> {
        use wgpu::BufferUsages as Usage;
        let memory = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let validation = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let mut encoder = self.device.create_command_encoder(&Default::default());
        if let Some((more, for_good)) = self.refusal.get() {
            self.refusal
                .set(Some((more.saturating_sub(1), for_good)).filter(|_| more > 0 || for_good));
            if more == 0 {
                // No device has a buffer of so many bytes.
                let _ = self.device.create_buffer(&wgpu::BufferDescriptor {
                    label: Some("refused"),
                    size: u64::MAX >> 1,
                    usage: wgpu::BufferUsages::STORAGE,
                    mapped_at_creation: false,
                });
            }
        }
        let usage = Usage::STORAGE | Usage::COPY_SRC | Usage::COPY_DST;
        let buffers: Vec<_> = reservations
            .into_iter()
            .map(|(label, reservation)| {
                let buffer =
                    GpuVec::<u8>::new(&self.device, &self.returned, reservation, label, usage);
                // Drivers hand out memory on first use; a failure must come now, not in the middle of the work.
                encoder.clear_buffer(buffer.raw(), 0, None);
                buffer
            })
            .collect();
        self.send([encoder.finish()]);
        let (validation, memory) = (validation.pop(), memory.pop());
        if let Some(error) = validation.await.or(memory.await) {
            let error = failure::plain(&error.to_string());
            return Err(Error::Device(format!(
                "the device could not provide the memory that the budget allows ({error}): lower the budget"
            )));
        }
        self.idle().await?;
        Ok(buffers)
    }

    /// The names of the kernels that are compiled.
    pub fn compiled(&self) -> Vec<&'static str> {
        self.pipelines.names()
    }

    /// Compiles the kernels that are not compiled yet.
    ///
    /// # Errors
    /// [`Error::Device`] with the compiler's message.
    pub async fn prepare(&self, kernels: impl IntoIterator<Item = &'static Kernel>) -> Result<()> {
        for kernel in kernels {
            let scope = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
            self.pipelines
                .get(&self.device, kernel, self.pipelines.shape);
            if let Some(error) = scope.pop().await {
                let name = kernel.name;
                return Err(Error::Device(format!(
                    "the kernel {name} does not compile: {error}"
                )));
            }
        }
        self.check()
    }

    /// Starts a list of commands; [`Gpu::submit`] runs it.
    pub fn commands(self: &Rc<Self>) -> GpuCommands {
        GpuCommands::new(self)
    }

    /// Sends the commands to the device, and the data that they carry in one write.
    pub fn submit(&self, commands: GpuCommands) {
        commands.submit();
    }

    /// Sends the piece that no submit has taken along yet.
    fn flush(&self) {
        if self.unsent.get() {
            self.send([]);
        }
    }

    /// Sends command buffers to the device.
    fn send(&self, buffers: impl IntoIterator<Item = wgpu::CommandBuffer>) {
        if let Some(more) = self.loss.get() {
            self.loss.set(more.checked_sub(1));
            if more == 0 {
                self.device.destroy();
            }
        }
        self.queue.submit(buffers);
        self.unsent.set(false);
        self.submits.set(self.submits.get() + 1);
        self.waits.sent();
    }

    /// Bytes of a piece of a large upload: [`STAGING_BYTES`] at least, more if the budget has room for two.
    pub fn piece_bytes(&self) -> u64 {
        self.piece_bytes
    }

    /// Sends `elements`, a piece at most, to `target` from element `first` on, after all that was submitted.
    ///
    /// # Errors
    /// As [`Gpu::idle`]: a third piece waits until the first two have arrived.
    pub async fn send_piece<T: Pod>(
        &self,
        target: &GpuVec<T>,
        first: u64,
        elements: &[T],
    ) -> Result<()> {
        let bytes: &[u8] = bytemuck::cast_slice(elements);
        let size = bytes.len() as u64;
        // A piece is sent with the next submit, whatever that is.
        self.flush();
        if self.waits.carried() + size > 2 * self.piece_bytes {
            self.idle().await?;
        }
        self.queue
            .write_buffer(target.raw(), first * size_of::<T>() as u64, bytes);
        self.unsent.set(true);
        self.waits.carry(size);
        self.uploaded.set(self.uploaded.get() + size);
        Ok(())
    }

    /// Waits for the device and reads `count` elements from `first` on.
    ///
    /// # Errors
    /// [`Error::Device`] when the device was lost or reported an error since the last check.
    pub async fn read<T: Pod>(
        self: &Rc<Self>,
        source: &GpuVec<T>,
        first: u64,
        count: u64,
    ) -> Result<Vec<T>> {
        let size = size_of::<T>() as u64;
        let mut elements = Vec::with_capacity(count as usize);
        let (mut at, end) = (first, first + count);
        while at < end {
            let part = (end - at).min(STAGING_BYTES / size);
            let mut commands = self.commands();
            commands.fetch(source, at, part, 0);
            commands.submit();
            let bytes = self.fetched(part * size).await?;
            elements.extend(
                bytes
                    .chunks_exact(size as usize)
                    .map(bytemuck::pod_read_unaligned::<T>),
            );
            at += part;
        }
        Ok(elements)
    }

    /// Waits for the device and returns the first `bytes` that [`GpuCommands::fetch`] copied.
    ///
    /// # Errors
    /// As [`Gpu::read`].
    pub async fn fetched(&self, bytes: u64) -> Result<Vec<u8>> {
        let slice = self.readback.raw().slice(..bytes.next_multiple_of(4));
        let (done, mapped) = oneshot::channel();
        slice.map_async(wgpu::MapMode::Read, move |outcome| {
            done.send(outcome).ok();
        });
        let outcome = self.wait_for(mapped).await?;
        self.check()?;
        let lost = |_| Error::Device("the device did not return its results".to_owned());
        outcome
            .ok_or_else(|| Error::Device("the device is gone".to_owned()))?
            .map_err(|error| {
                Error::Device(format!("the device did not return its results: {error}"))
            })?;
        let view = slice.get_mapped_range().map_err(lost)?;
        let fetched = view[..bytes as usize].to_vec();
        drop(view);
        self.readback.raw().unmap();
        self.fetched.set(self.fetched.get() + bytes);
        #[cfg(feature = "timer")]
        self.keep_room_for_timestamps().await?;
        Ok(fetched)
    }

    /// Waits until the device has nothing left to do, then destroys every buffer given up so far.
    ///
    /// In a browser, dropping a buffer frees nothing, and destroying one in flight frees it late: hence this order.
    ///
    /// # Errors
    /// [`Error::Device`] when the device was lost or reported an error since the last check.
    pub async fn idle(&self) -> Result<()> {
        self.flush();
        let returned = self.returned.take();
        if !returned.is_empty() {
            self.pipelines.forget_bind_groups();
        }
        if self.in_flight() > 0 {
            self.wait_until_done().await?;
            #[cfg(feature = "timer")]
            self.keep_room_for_timestamps().await?;
        }
        for (buffer, reservation) in returned {
            buffer.destroy();
            drop(reservation);
        }
        self.check()
    }

    /// Submits so far.
    pub fn submits(&self) -> u64 {
        self.submits.get()
    }

    /// Bytes that submits carried to the device so far, parameters included, and bytes that reads brought back.
    pub fn moved_bytes(&self) -> [u64; 2] {
        [self.uploaded.get(), self.fetched.get()]
    }

    /// Bytes of each buffer by its label as the driver's allocator counts them; `None` if it does not.
    pub fn allocations(&self) -> Option<Vec<(String, u64)>> {
        let report = self.device.generate_allocator_report()?;
        let buffers = report.allocations.into_iter();
        Some(buffers.map(|buffer| (buffer.name, buffer.size)).collect())
    }

    /// Makes the device refuse memory after `after` more requests, once or from then on (`for_good`): for tests.
    pub fn refuse(&self, after: Option<u64>, for_good: bool) {
        self.refusal.set(after.map(|more| (more, for_good)));
    }

    /// Loses the device on purpose after `after` more submits: for tests.
    pub fn lose(&self, after: u64) {
        match after {
            0 => self.device.destroy(),
            _ => self.loss.set(Some(after)),
        }
    }

    /// Blocks natively until submitted work is done and its callbacks have run; in a browser the event loop does that.
    fn poll(&self) -> Result<()> {
        // wgpu panics inside `poll` if a native driver reports the device as lost.
        let polled = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            self.device.poll(wgpu::PollType::wait_indefinitely())
        }));
        match polled {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(Error::Device(format!(
                "the device does not answer: {error}"
            ))),
            Err(_) => Err(Error::Device("the device was lost".to_owned())),
        }
    }
}

impl Drop for Gpu {
    /// Destroys the device: in a browser nothing else gives its memory back.
    fn drop(&mut self) {
        self.device.destroy();
    }
}
