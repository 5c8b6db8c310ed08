//! [`Measured`]: time of work, by wall clock and on the device, and the bytes that it transfers.

use web_time::Duration;

use super::times::{SHORTEST, Times};
use crate::base::error::Result;
use crate::engine::gpu::{DeviceTime, KernelTime};
use crate::engine::{Commands, Engine};

/// Shortest time of work that gives a peak: the cost of a submit and a wait is small against it.
const LONG: Duration = Duration::from_millis(20);
/// Dispatches of a submit, when many of one kind are sent.
const AT_ONCE: u32 = 256;
/// The most times that work is timed on the device, and the time that this may take, about.
const MOST_ON_DEVICE: u32 = 5;
const ON_DEVICE_MS: f64 = 1000.0;

/// Times and counts of some work.
#[derive(Clone, Debug)]
pub struct Measured {
    pub(super) times: Times,
    pub(super) counts: Counts,
    /// Time of one run of the work on the device, if that has timestamps.
    pub(super) device: Option<DeviceTime>,
    /// The most memory that was in use.
    pub(super) memory_bytes: u64,
}

/// Counts of an engine's work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Counts {
    pub(super) dispatches: u64,
    pub(super) submits: u64,
    pub(super) waits: u64,
    pub(super) uploaded_bytes: u64,
    pub(super) fetched_bytes: u64,
}

impl Counts {
    fn of(engine: &Engine) -> Self {
        let [uploaded_bytes, fetched_bytes] = engine.moved_bytes();
        Self {
            dispatches: engine.dispatches(),
            submits: engine.submits(),
            waits: engine.waits(),
            uploaded_bytes,
            fetched_bytes,
        }
    }

    /// Counts since `before`, divided by the number of runs.
    fn since(self, before: Self, runs: u64) -> Self {
        let each = |now: u64, before: u64| (now - before) / runs;
        Self {
            dispatches: each(self.dispatches, before.dispatches),
            submits: each(self.submits, before.submits),
            waits: each(self.waits, before.waits),
            uploaded_bytes: each(self.uploaded_bytes, before.uploaded_bytes),
            fetched_bytes: each(self.fetched_bytes, before.fetched_bytes),
        }
    }
}

impl Measured {
    /// Repeats the work, once to warm up, then as [`Measured::warm`].
    ///
    /// # Errors
    /// Those of the work.
    pub async fn of(engine: &Engine, mut work: impl AsyncFnMut() -> Result<()>) -> Result<Self> {
        work().await?;
        Self::warm(engine, work).await
    }

    /// Repeats work that has been done before: first by wall clock, then a few times more with a timer on the device, which would
    /// lengthen the first.
    ///
    /// # Errors
    /// Those of the work.
    pub async fn warm(engine: &Engine, mut work: impl AsyncFnMut() -> Result<()>) -> Result<Self> {
        Self::repeated(engine, SHORTEST, async |times| {
            for _ in 0..times {
                work().await?;
            }
            Ok(())
        })
        .await
    }

    /// Repeats work whose argument is the number of times to do it before a wait: so many that they take 20 ms or more.
    ///
    /// # Errors
    /// Those of the work.
    pub(super) async fn long(
        engine: &Engine,
        mut work: impl AsyncFnMut(u32) -> Result<()>,
    ) -> Result<Self> {
        work(1).await?;
        Self::repeated(engine, LONG, work).await
    }

    async fn repeated(
        engine: &Engine,
        shortest: Duration,
        mut work: impl AsyncFnMut(u32) -> Result<()>,
    ) -> Result<Self> {
        let before = Counts::of(engine);
        let times = Times::of(shortest, &mut work).await?;
        let counts = Counts::of(engine).since(before, times.runs());
        let memory_bytes = engine.ledger().peak_bytes();
        let device = on_device(engine, &times, &mut work).await?;
        Ok(Self {
            times,
            counts,
            device,
            memory_bytes,
        })
    }

    /// Seconds of the work: their mean on the device if it was timed there, else their median by wall clock.
    pub fn device_seconds(&self) -> f64 {
        let device = self.device.as_ref().map(|device| device.elapsed_ms / 1e3);
        device.unwrap_or(self.median_seconds())
    }

    /// The median in seconds, by wall clock.
    pub fn median_seconds(&self) -> f64 {
        self.times.ms(0.5) / 1e3
    }
}

/// Sends `times` dispatches of one kind, and waits for all of them together.
///
/// # Errors
/// As [`Engine::settle`].
pub(super) async fn repeat(
    engine: &Engine,
    times: u32,
    mut record: impl FnMut(&mut Commands),
) -> Result<()> {
    let mut left = times;
    while left > 0 {
        let now = left.min(AT_ONCE);
        let mut commands = engine.commands();
        for _ in 0..now {
            record(&mut commands);
        }
        engine.submit(commands);
        left -= now;
    }
    engine.settle().await
}

/// The mean time of a few runs of the work on the device; `None` if that has no timestamps, or not of all dispatches.
async fn on_device(
    engine: &Engine,
    times: &Times,
    mut work: impl AsyncFnMut(u32) -> Result<()>,
) -> Result<Option<DeviceTime>> {
    let each = times.each();
    let repetition_ms = times.ms(0.5) * f64::from(each);
    let repetitions = ((ON_DEVICE_MS / repetition_ms) as u32).clamp(1, MOST_ON_DEVICE);
    engine.settle().await?;
    if !engine.start_timer() {
        return Ok(None);
    }
    for _ in 0..repetitions {
        work(each).await?;
    }
    let timed = engine.stop_timer().await?;
    // The memory of the timer is given back.
    engine.settle().await?;
    let runs = f64::from(repetitions * each);
    Ok(timed.filter(|timed| timed.untimed == 0).map(|timed| {
        let kernel = |kernel: KernelTime| KernelTime {
            dispatches: kernel.dispatches / u64::from(repetitions * each),
            elapsed_ms: kernel.elapsed_ms / runs,
            ..kernel
        };
        DeviceTime {
            elapsed_ms: timed.elapsed_ms / runs,
            kernels: timed.kernels.into_iter().map(kernel).collect(),
            untimed: 0,
        }
    }))
}
