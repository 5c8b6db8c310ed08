//! [`Engine`]: runs the kernels, on a GPU or on the CPU, behind one interface.
//!
//! A [`Workspace`] holds the buffers of a phase, [`Commands`] collect the work of one submit, and [`Engine::read`] is the only way
//! to read results. The same code runs natively and in a browser.

pub(crate) mod checkpoint;
mod commands;
pub(crate) mod device;
pub mod gpu;
pub(crate) mod host;
pub(crate) mod pace;
pub(crate) mod tensor_file;

use std::borrow::Cow;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::base::error::{Error, Result};
use crate::base::ledger::{Bytes, MemoryLedger};
use crate::base::plan::{MemoryPlan, Room};
use crate::base::working::{Listener, Task, Working};
use crate::engine::device::{DeviceInfo, EngineChoice, EngineKind, Reason, TileShape};
use crate::engine::gpu::{Adapter, DeviceTime, Gpu, Kernel};
use crate::engine::host::CpuVec;
use bytemuck::Pod;
use web_time::{Duration, Instant};

pub(crate) use commands::Workspace;
pub use commands::{Commands, DeviceVec};

/// A device, the account of its memory, and the flag that stops it. A clone is the same engine.
#[derive(Clone, Debug)]
pub struct Engine {
    backend: Backend,
    ledger: MemoryLedger,
    info: DeviceInfo,
    reason: Reason,
    stop: Arc<AtomicBool>,
    listener: Listener,
    counts: Rc<Counts>,
}

/// Counts of an engine's work so far, and its measured speed.
#[derive(Debug, Default)]
struct Counts {
    dispatches: Cell<u64>,
    /// On the CPU; a GPU counts its own.
    submits: Cell<u64>,
    operations_per_ms: Cell<Option<f64>>,
    /// Work is cut by that speed, whatever time it then takes.
    pace_is_held: Cell<bool>,
}

/// A moment from which the work of an engine is timed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    started: Instant,
    waits: u64,
}

#[derive(Clone, Debug)]
enum Backend {
    Gpu(Rc<Gpu>),
    Cpu,
}

/// Submits that may be in flight at once: enough that a GPU never waits for the next one, few enough that a stop comes soon.
const IN_FLIGHT: u32 = 3;

impl Engine {
    /// Opens an engine whose memory stays within `budget_bytes`.
    ///
    /// # Errors
    /// [`Error::Device`] if a GPU is asked for and there is none; [`Error::Refused`] if the budget is too small for the few fixed
    /// buffers of a GPU.
    pub async fn open(choice: &EngineChoice, budget_bytes: u64) -> Result<Self> {
        let ledger = MemoryLedger::new(budget_bytes);
        let gpu = match choice.kind {
            Some(EngineKind::Cpu) => Err(Reason::AskedFor),
            _ => open_gpu(choice, &ledger).await?,
        };
        let (backend, info, reason) = match gpu {
            Ok(gpu) => {
                let info = gpu.info().clone();
                let reason = match choice.asks_for_gpu() {
                    true => Reason::AskedFor,
                    false => Reason::Hardware,
                };
                (Backend::Gpu(Rc::new(gpu)), info, reason)
            }
            Err(reason) => {
                #[cfg(not(target_arch = "wasm32"))]
                crate::engine::host::start_threads();
                (Backend::Cpu, cpu_info(), reason)
            }
        };
        Ok(Self {
            backend,
            ledger,
            info,
            reason,
            stop: Arc::default(),
            listener: Listener::default(),
            counts: Rc::default(),
        })
    }

    /// Lists the adapters of this machine, best first, and the CPU engine last.
    pub async fn devices() -> Vec<DeviceInfo> {
        let mut devices = gpu::devices().await;
        devices.push(cpu_info());
        devices
    }

    /// The device of the engine.
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// The reason for that device.
    pub fn reason(&self) -> &Reason {
        &self.reason
    }

    /// The account of the engine's memory.
    pub fn ledger(&self) -> &MemoryLedger {
        &self.ledger
    }

    /// Memory that a plan may take now.
    pub fn room(&self) -> Room {
        Room {
            free_bytes: self.ledger.free_bytes(),
            budget_bytes: self.ledger.budget_bytes(),
            max_buffer_bytes: self.info.max_buffer_bytes,
        }
    }

    /// Uses this shape of tiles for many rows from now on, unless another was asked for.
    #[must_use]
    pub fn with_tuned_shape(mut self, shape: TileShape) -> Self {
        self.info.tuned = Some(shape);
        self
    }

    /// Uses another flag to stop the work, for a caller that needs the flag before the engine is open.
    #[must_use]
    pub fn with_stop_flag(mut self, stop: Arc<AtomicBool>) -> Self {
        self.stop = stop;
        self
    }

    /// Reports progress of long work other than training steps to `heard`, a few times a second.
    #[must_use]
    pub fn with_listener(mut self, heard: impl FnMut(Working) + 'static) -> Self {
        self.listener = Listener::new(heard);
        self
    }

    /// Reports to the listener that `done` units of a task are done.
    pub(crate) fn tell(&self, task: &Task, done: u64) {
        self.listener.tell(task, done);
    }

    /// Reports progress of work that is no task of the engine to the listener.
    pub(crate) fn hear(&self, working: Working) {
        self.listener.hear(working);
    }

    /// The flag that makes the next [`Engine::breathe`] stop the work.
    pub fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// Creates all buffers of a phase, zeroed: all of its memory is handed out when this returns.
    ///
    /// # Errors
    /// Those of [`MemoryPlan::fits`], with `how` as the advice; if the system refuses memory that the budget allows,
    /// [`Error::Device`] from a GPU and [`Error::NoMemory`] from the CPU.
    pub async fn workspace(&self, phase: &str, plan: &MemoryPlan, how: &str) -> Result<Workspace> {
        self.settle().await?;
        plan.fits(phase, &self.room(), how)?;
        let reservations: Vec<_> = plan
            .buffers()
            .iter()
            .map(|buffer| {
                let reservation = self
                    .ledger
                    .reserve(buffer.purpose, buffer.label, buffer.bytes);
                (buffer.label, reservation.expect("the whole plan fits"))
            })
            .collect();
        let labels = plan.buffers().iter().map(|buffer| buffer.label);
        let vectors: Vec<DeviceVec<u8>> = match &self.backend {
            Backend::Gpu(gpu) => gpu
                .allocate(reservations)
                .await?
                .into_iter()
                .map(DeviceVec::Gpu)
                .collect(),
            Backend::Cpu => reservations
                .into_iter()
                .map(|(_, reservation)| CpuVec::allocate(phase, reservation).map(DeviceVec::Cpu))
                .collect::<Result<_>>()
                // If one buffer is refused, the whole plan is.
                .map_err(|_| Error::NoMemory {
                    what: format!("\"{phase}\""),
                    bytes: Bytes(plan.total_bytes()),
                })?,
        };
        Ok(Workspace(labels.zip(vectors).collect()))
    }

    /// Compiles kernels ahead of their first use.
    ///
    /// # Errors
    /// [`Error::Device`] with the compiler's message.
    pub async fn prepare(&self, kernels: impl IntoIterator<Item = &'static Kernel>) -> Result<()> {
        match &self.backend {
            Backend::Gpu(gpu) => gpu.prepare(kernels).await,
            Backend::Cpu => Ok(()),
        }
    }

    /// The names of the kernels that are compiled so far, in no order.
    pub fn compiled(&self) -> Vec<&'static str> {
        match &self.backend {
            Backend::Gpu(gpu) => gpu.compiled(),
            Backend::Cpu => Vec::new(),
        }
    }

    /// Starts a list of commands.
    pub fn commands(&self) -> Commands {
        match &self.backend {
            Backend::Gpu(gpu) => Commands::Gpu(Box::new(gpu.commands())),
            Backend::Cpu => Commands::Cpu(0),
        }
    }

    /// Runs the commands; results are there after the next [`Engine::read`] or [`Engine::settle`].
    pub fn submit(&self, commands: Commands) {
        let Counts {
            dispatches,
            submits,
            ..
        } = &*self.counts;
        dispatches.set(dispatches.get() + u64::from(commands.dispatches()));
        match (&self.backend, commands) {
            (Backend::Gpu(gpu), Commands::Gpu(commands)) => gpu.submit(*commands),
            _ => submits.set(submits.get() + 1),
        }
    }

    /// Writes `elements` into `target` from element `first` on, in as many submits as it takes.
    ///
    /// # Errors
    /// As [`Engine::settle`].
    pub async fn upload<T: Pod>(
        &self,
        target: &mut DeviceVec<T>,
        first: u64,
        elements: &[T],
    ) -> Result<()> {
        let piece_bytes = self.piece_bytes();
        let chunk = (piece_bytes / size_of::<T>() as u64) as usize;
        for (index, part) in elements.chunks(chunk).enumerate() {
            let first = first + (index * chunk) as u64;
            match (&self.backend, &*target) {
                (Backend::Gpu(gpu), DeviceVec::Gpu(target)) if self.sends_alone(part) => {
                    gpu.send_piece(target, first, part).await?;
                }
                _ => {
                    let mut commands = self.commands();
                    commands.upload(target, first, part);
                    self.submit(commands);
                    self.keep_up().await?;
                }
            }
        }
        Ok(())
    }

    /// Tells if elements are sent in pieces of their own: a list of commands does not carry so many.
    pub(crate) fn sends_alone<T>(&self, elements: &[T]) -> bool {
        let most = gpu::STAGING_BYTES;
        size_of_val(elements) as u64 > most && self.piece_bytes() > most
    }

    /// Bytes that are sent at once of a large upload.
    pub(crate) fn piece_bytes(&self) -> u64 {
        match &self.backend {
            Backend::Gpu(gpu) => gpu.piece_bytes(),
            Backend::Cpu => gpu::STAGING_BYTES,
        }
    }

    /// Waits if [`IN_FLIGHT`] submits are in flight: a driver keeps a copy of the data that each of them carries.
    pub(crate) async fn keep_up(&self) -> Result<()> {
        if self.in_flight() >= IN_FLIGHT {
            self.settle().await?;
        }
        Ok(())
    }

    /// Reads `count` elements from element `first` on, after everything submitted so far.
    ///
    /// # Errors
    /// [`Error::Device`] when the device was lost or reported an error.
    pub async fn read<T: Pod>(
        &self,
        source: &DeviceVec<T>,
        first: u64,
        count: u64,
    ) -> Result<Vec<T>> {
        match (&self.backend, source) {
            (Backend::Gpu(gpu), DeviceVec::Gpu(vec)) => gpu.read(vec, first, count).await,
            _ => Ok(source.slice()[first as usize..(first + count) as usize].to_vec()),
        }
    }

    /// [`Engine::read`] without a copy if the vector is in the memory of this process.
    ///
    /// # Errors
    /// As [`Engine::read`].
    pub async fn view<'a, T: Pod>(
        &self,
        source: &'a DeviceVec<T>,
        first: u64,
        count: u64,
    ) -> Result<Cow<'a, [T]>> {
        match source {
            DeviceVec::Gpu(_) => self.read(source, first, count).await.map(Cow::Owned),
            DeviceVec::Cpu(vec) => {
                let elements = &vec.as_slice()[first as usize..(first + count) as usize];
                Ok(Cow::Borrowed(elements))
            }
        }
    }

    /// Waits for the device and returns the first `bytes` that [`Commands::fetch`] copied; none on the CPU.
    ///
    /// # Errors
    /// As [`Engine::read`].
    pub(crate) async fn fetched(&self, bytes: u64) -> Result<Vec<u8>> {
        match &self.backend {
            Backend::Gpu(gpu) => gpu.fetched(bytes).await,
            Backend::Cpu => Ok(Vec::new()),
        }
    }

    /// Cost of a wait for the device that has nothing to wait for; none on the CPU.
    pub(crate) fn round_trip(&self) -> Duration {
        match &self.backend {
            Backend::Gpu(gpu) => gpu.round_trip(),
            Backend::Cpu => Duration::ZERO,
        }
    }

    /// Waits until nothing is in flight and the memory of buffers that were given up is back with the system.
    ///
    /// # Errors
    /// [`Error::Device`] when the device was lost or reported an error.
    pub async fn settle(&self) -> Result<()> {
        match &self.backend {
            Backend::Gpu(gpu) => gpu.idle().await,
            Backend::Cpu => Ok(()),
        }
    }

    /// Yields to the event loop of a browser, then checks the stop flag. Nothing else yields.
    ///
    /// # Errors
    /// [`Error::Stopped`] once the flag is set.
    pub async fn breathe(&self) -> Result<()> {
        macrotask().await;
        if self.stop.load(Ordering::Relaxed) {
            Err(Error::Stopped)
        } else {
            Ok(())
        }
    }

    /// Kernels run so far; a call of a fused CPU kernel counts once.
    pub fn dispatches(&self) -> u64 {
        self.counts.dispatches.get()
    }

    /// Submits so far; on the CPU, lists of commands, each of which would be a submit on a GPU.
    pub fn submits(&self) -> u64 {
        match &self.backend {
            Backend::Gpu(gpu) => gpu.submits(),
            Backend::Cpu => self.counts.submits.get(),
        }
    }

    /// Number of waits for the device so far, for its results or its work to be done; 0 on the CPU.
    pub fn waits(&self) -> u64 {
        match &self.backend {
            Backend::Gpu(gpu) => gpu.waits(),
            Backend::Cpu => 0,
        }
    }

    /// Bytes that submits carried to the device so far, and bytes that reads brought back; none on the CPU.
    pub fn moved_bytes(&self) -> [u64; 2] {
        match &self.backend {
            Backend::Gpu(gpu) => gpu.moved_bytes(),
            Backend::Cpu => [0, 0],
        }
    }

    /// Times every dispatch on the device from here on, each as a pass of its own. Returns false if that cannot be: on the CPU, on
    /// devices without timestamps, and if the budget has no 512 KiB for them.
    pub fn start_timer(&self) -> bool {
        match &self.backend {
            Backend::Gpu(gpu) => gpu.start_timer(&self.ledger),
            Backend::Cpu => false,
        }
    }

    /// Ends the timing and returns the device's times; `None` if no timer was on.
    ///
    /// # Errors
    /// As [`Engine::read`].
    pub async fn stop_timer(&self) -> Result<Option<DeviceTime>> {
        match &self.backend {
            Backend::Gpu(gpu) => gpu.stop_timer().await,
            Backend::Cpu => Ok(None),
        }
    }

    /// Slices of work that may be in flight at once: a GPU gets its next one before the last is done.
    pub(crate) fn slices_ahead(&self) -> u32 {
        match &self.backend {
            Backend::Gpu(_) => IN_FLIGHT,
            Backend::Cpu => 1,
        }
    }

    /// Submits that nobody has waited for yet; none on the CPU.
    pub(crate) fn in_flight(&self) -> u32 {
        match &self.backend {
            Backend::Gpu(gpu) => gpu.in_flight(),
            Backend::Cpu => 0,
        }
    }

    /// Sets the time by which the submits in flight should be done, `more` from now.
    pub(crate) fn expect(&self, more: Duration) {
        if let Backend::Gpu(gpu) = &self.backend {
            gpu.expect(Instant::now() + more);
        }
    }

    /// Starts a clock for the work.
    pub(crate) fn clock(&self) -> Clock {
        Clock {
            started: Instant::now(),
            waits: self.waits(),
        }
    }

    /// Time of the work since then, without the cost of waits that have nothing to wait for.
    pub(crate) fn worked(&self, since: Clock) -> Duration {
        let elapsed = since.started.elapsed();
        match &self.backend {
            Backend::Gpu(gpu) => {
                let waits = (gpu.waits() - since.waits).min(u64::from(u32::MAX)) as u32;
                let without = elapsed.saturating_sub(gpu.round_trip().saturating_mul(waits));
                // A tenth of the time at least: clocks of browsers are coarse.
                without.max(elapsed / 10)
            }
            Backend::Cpu => elapsed,
        }
    }

    /// Floating-point operations per millisecond, if they were measured.
    pub(crate) fn operations_per_ms(&self) -> Option<f64> {
        self.counts.operations_per_ms.get()
    }

    /// Sets the speed of the engine, by which its first slices of work are cut.
    pub(crate) fn note_operations_per_ms(&self, measured: f64) {
        self.counts.operations_per_ms.set(Some(measured));
    }

    /// Cuts work for this speed from now on, whatever the real speed is, so that a test can count the submits of such an engine.
    #[doc(hidden)]
    pub fn hold_pace(&self, operations_per_ms: f64) {
        self.note_operations_per_ms(operations_per_ms);
        self.counts.pace_is_held.set(true);
    }

    /// Tells if work is cut by the speed that was set, whatever time it takes.
    pub(crate) fn pace_is_held(&self) -> bool {
        self.counts.pace_is_held.get()
    }

    /// Bytes of each buffer by label as the GPU's driver counts them; a test compares the ledger with them.
    #[doc(hidden)]
    pub fn driver_allocations(&self) -> Option<Vec<(String, u64)>> {
        match &self.backend {
            Backend::Gpu(gpu) => gpu.allocations(),
            Backend::Cpu => None,
        }
    }

    /// Makes a GPU refuse memory after `after` more requests, once or from then on (`for_good`), so that a test can see the effect.
    #[doc(hidden)]
    pub fn refuse_memory(&self, after: Option<u64>, for_good: bool) {
        if let Backend::Gpu(gpu) = &self.backend {
            gpu.refuse(after, for_good);
        }
    }

    /// Makes the dispatch on a GPU after `after` more fail, so that a test can see the effect.
    #[doc(hidden)]
    pub fn fail_dispatch(&self, after: u64) {
        if let Backend::Gpu(gpu) = &self.backend {
            gpu.fail_dispatch(after);
        }
    }

    /// Loses the device on purpose after `after` more submits, so that a test can see the effect.
    #[doc(hidden)]
    pub fn lose_device(&self, after: u64) {
        if let Backend::Gpu(gpu) = &self.backend {
            gpu.lose(after);
        }
    }
}

/// Opens the GPU that is asked for, or else a hardware GPU that gives a device; or returns the reason for the CPU.
async fn open_gpu(choice: &EngineChoice, ledger: &MemoryLedger) -> Result<Result<Gpu, Reason>> {
    let asked_for = choice.asks_for_gpu();
    if let (Some(why), false) = (&choice.failed_gpu, asked_for) {
        return Ok(Err(Reason::NoDevice(why.clone())));
    }
    let adapter = match Adapter::find(choice.adapter.as_deref()).await {
        Err(Error::Device(_)) if !asked_for => return Ok(Err(Reason::NoGpu)),
        adapter => adapter?,
    };
    let info = adapter.info();
    // Checked before the GPU takes a part of the budget.
    if info.software && !asked_for {
        return Ok(Err(Reason::OnlySoftware(info.adapter)));
    }
    match Gpu::open(adapter, choice, ledger).await {
        Err(Error::Device(why)) if !asked_for => Ok(Err(Reason::NoDevice(why))),
        opened => opened.map(Ok),
    }
}

fn cpu_info() -> DeviceInfo {
    DeviceInfo {
        engine: "cpu".to_owned(),
        adapter: format!("CPU ({})", std::env::consts::ARCH),
        backend: "cpu".to_owned(),
        driver: String::new(),
        software: false,
        max_buffer_bytes: (usize::MAX >> 1) as u64,
        workgroup_bytes: 0,
        workgroup_size: 1,
        features: Vec::new(),
        shape: None,
        tuned: None,
        pci_address: String::new(),
    }
}

/// Returns after a turn of the event loop: a message to itself is the quickest macrotask.
#[cfg(target_arch = "wasm32")]
async fn macrotask() {
    let Ok(channel) = web_sys::MessageChannel::new() else {
        return;
    };
    let turn = js_sys::Promise::new(&mut |resolve, _reject| {
        channel.port1().set_onmessage(Some(&resolve));
        channel
            .port2()
            .post_message(&wasm_bindgen::JsValue::NULL)
            .ok();
    });
    wasm_bindgen_futures::JsFuture::from(turn).await.ok();
    // A port that listens is never collected; closing one closes both.
    channel.port1().close();
}

/// Natively nothing else shares the thread.
#[cfg(not(target_arch = "wasm32"))]
async fn macrotask() {}
