//! [`Pace`]: amount of work in a slice of about 50 ms, learnt from the slices before; [`Slices`]: work that is recorded and sent to
//! an engine in such slices.
//!
//! Watchdogs end long submits, and a stop must come soon: so work is cut by predicted time. A wait is expensive in some browsers:
//! so a GPU is given a few slices before they are waited for together. The pace changes the time at which results come, never the
//! results.

use std::marker::PhantomData;

use bytemuck::Pod;
use web_time::{Duration, Instant};

use crate::base::error::Result;
use crate::base::working::Task;
use crate::engine::gpu::{PARAMS_SLOTS, STAGING_BYTES};
use crate::engine::{Clock, Commands, DeviceVec, Engine};

/// Target time of a slice of work.
const TARGET_MS: f64 = 50.0;
/// The first guess, in operations per millisecond: a slow software adapter.
const FIRST_PER_MS: f64 = 5e5;
/// Part of the operations per millisecond that were measured with one kernel that is expected of any other at first.
const EXPECTED: f64 = 0.25;

/// Floating-point operations per millisecond, as measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    per_ms: f64,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            per_ms: FIRST_PER_MS,
        }
    }
}

impl Pace {
    /// A first guess, from the measured speed of the engine if there is one.
    pub(crate) fn of(engine: &Engine) -> Self {
        let first = match engine.info().engine.as_str() {
            #[cfg(not(target_arch = "wasm32"))]
            "cpu" => crate::cpu::parallel::operations_per_ms(),
            _ => FIRST_PER_MS,
        };
        let expected = engine
            .operations_per_ms()
            .map_or(first, |measured| EXPECTED * measured);
        Self {
            per_ms: expected.max(1.0),
        }
    }

    /// Units of work in a slice: at least one, at most `most`.
    pub(crate) fn units(&self, operations_per_unit: f64, most: usize) -> usize {
        self.units_ahead(operations_per_unit, 1, most)
    }

    /// Units of work in `slices` slices: at least one, at most `most`.
    pub(crate) fn units_ahead(&self, operations_per_unit: f64, slices: u32, most: usize) -> usize {
        let units = f64::from(slices) * self.slice() / operations_per_unit.max(1.0);
        (units as usize).clamp(1, most.max(1))
    }

    /// Floating-point operations of a slice.
    pub(crate) fn slice(&self) -> f64 {
        TARGET_MS * self.per_ms
    }

    /// Number of rows and of references whose pairs make a slice.
    pub(crate) fn pairs(&self, operations: f64, rows: usize, references: usize) -> (usize, usize) {
        const FEWEST_ROWS: usize = 8;
        const FEWEST_REFERENCES: usize = 1024;
        let most = rows.saturating_mul(references);
        let pairs = self.units(operations, most);
        if pairs >= rows.saturating_mul(FEWEST_REFERENCES) {
            return (rows, (pairs / rows).min(references).max(1));
        }
        let most = (pairs / FEWEST_REFERENCES / FEWEST_ROWS * FEWEST_ROWS).max(FEWEST_ROWS);
        // In even parts: a few rows left over would take a pass over all references of their own.
        let even = rows.div_ceil(rows.div_ceil(most).max(1));
        let rows_at_once = even.next_multiple_of(FEWEST_ROWS);
        (rows_at_once.min(rows), FEWEST_REFERENCES.min(references))
    }

    /// Learns from work that was waited for. A higher speed is followed by a factor of two at a time. A lower speed is followed in
    /// proportion to the length of the work, up to a slice, because short work is mostly the round trip.
    pub(crate) fn record(&mut self, operations: f64, elapsed: Duration) {
        let elapsed_ms = (elapsed.as_secs_f64() * 1e3).max(1e-3);
        let measured = (operations / elapsed_ms).max(1.0);
        self.per_ms = if measured >= self.per_ms {
            measured.min(2.0 * self.per_ms)
        } else {
            let weight = (elapsed_ms / TARGET_MS).min(1.0);
            measured
                .max(self.per_ms * measured / (weight * self.per_ms + (1.0 - weight) * measured))
        };
    }

    fn predicted(&self, operations: f64) -> Duration {
        Duration::from_secs_f64((operations / self.per_ms / 1e3).clamp(0.0, 10.0))
    }
}

/// The longest time between two reports of a task's progress, while it records work.
const TELL_EVERY: Duration = Duration::from_millis(500);
/// Dispatches after which a slice ends in any case.
const MOST_DISPATCHES: u32 = 400;

/// Work on its way to an engine, a slice at a time, in the order in which it was recorded.
pub(crate) struct Slices<'a> {
    engine: &'a Engine,
    pace: &'a mut Pace,
    commands: Option<Commands>,
    /// Operations of the slice that is being recorded, and of the slices in flight.
    recorded: f64,
    sent: f64,
    /// Started when the first of the slices in flight could be worked on.
    clock: Option<Clock>,
    /// The time since then is that of the operations.
    timed: bool,
    /// A stop ends the work between two slices.
    stops: bool,
    /// Fetched parts on their way, each with the end of its bytes; and all parts, as far as they have arrived.
    fetching: Vec<(usize, u64)>,
    fetched: Vec<Option<Vec<u8>>>,
    /// The task, its operations in all, and those recorded so far.
    task: Option<(Task, f64)>,
    so_far: f64,
    /// Time of the last report to the engine's listener.
    told: Instant,
}

/// A stretch of a vector that is being fetched; [`Slices::take`] returns it after the next [`Slices::collect`].
#[derive(Debug)]
pub(crate) struct Fetch<T>(Vec<usize>, PhantomData<T>);

impl<T> Default for Fetch<T> {
    /// An empty stretch.
    fn default() -> Self {
        Self(Vec::new(), PhantomData)
    }
}

impl<T> Fetch<T> {
    /// Appends the stretch that follows this one.
    pub(crate) fn append(&mut self, next: Self) {
        self.0.extend(next.0);
    }

    /// The stretch as bytes; its elements have four bytes or more.
    pub(crate) fn into_bytes(self) -> Fetch<u8> {
        Fetch(self.0, PhantomData)
    }
}

impl<'a> Slices<'a> {
    pub(crate) fn new(engine: &'a Engine, pace: &'a mut Pace) -> Self {
        Self {
            engine,
            pace,
            commands: None,
            recorded: 0.0,
            sent: 0.0,
            clock: None,
            timed: true,
            stops: true,
            fetching: Vec::new(),
            fetched: Vec::new(),
            task: None,
            so_far: 0.0,
            told: Instant::now(),
        }
    }

    /// Begins this task, of so many operations in all. The engine's listener gets its progress with each slice, and at least every
    /// half second or so, as rows that are read from a file fill a slice slowly.
    pub(crate) fn begin(&mut self, task: Task, operations: f64) {
        (self.task, self.so_far) = (Some((task, operations.max(1.0))), 0.0);
        self.tell();
    }

    /// Reports the task's progress to the engine's listener.
    fn tell(&mut self) {
        if let Some((task, operations)) = &self.task {
            let part = (self.so_far / operations).min(1.0);
            self.engine.tell(task, (part * task.total as f64) as u64);
            self.told = Instant::now();
        }
    }

    /// Work that must not be left half done: a stop waits until it is over.
    pub(crate) fn unstopped(engine: &'a Engine, pace: &'a mut Pace) -> Self {
        Self {
            stops: false,
            ..Self::new(engine, pace)
        }
    }

    /// The engine that does the work.
    pub(crate) fn engine(&self) -> &'a Engine {
        self.engine
    }

    /// The pace, to cut work by.
    pub(crate) fn pace(&self) -> &Pace {
        self.pace
    }

    /// The commands of the slice.
    pub(crate) fn commands(&mut self) -> &mut Commands {
        let engine = self.engine;
        // The CPU works while commands are recorded, a GPU once they are sent.
        if engine.slices_ahead() == 1 {
            self.clock.get_or_insert_with(|| engine.clock());
        }
        self.commands.get_or_insert_with(|| engine.commands())
    }

    /// Writes `elements` into `target` from element `first` on, in this slice and as many more as it takes.
    ///
    /// # Errors
    /// As [`Slices::recorded`].
    pub(crate) async fn upload<T: Pod>(
        &mut self,
        target: &mut DeviceVec<T>,
        mut first: u64,
        mut elements: &[T],
    ) -> Result<()> {
        if self.engine.sends_alone(elements) {
            self.send();
            let waits = self.engine.waits();
            self.engine.upload(target, first, elements).await?;
            if self.engine.waits() > waits {
                self.waited();
            }
            return Ok(());
        }
        while !elements.is_empty() {
            let room = self.commands().room() as usize / size_of::<T>();
            if room == 0 {
                self.next_slice().await?;
                continue;
            }
            let (part, rest) = elements.split_at(room.min(elements.len()));
            self.commands().upload(target, first, part);
            (first, elements) = (first + part.len() as u64, rest);
        }
        Ok(())
    }

    /// Ends the slice if it cannot carry so many more dispatches.
    ///
    /// # Errors
    /// As [`Slices::recorded`].
    pub(crate) async fn reserve(&mut self, dispatches: u32) -> Result<()> {
        match &self.commands {
            Some(commands) if commands.dispatches() + dispatches > PARAMS_SLOTS => {
                self.next_slice().await
            }
            _ => Ok(()),
        }
    }

    /// Counts work that was recorded; a full slice is sent, and the engine yields.
    ///
    /// # Errors
    /// As [`Engine::settle`] and, unless it is [`Slices::unstopped`], [`Engine::breathe`].
    pub(crate) async fn recorded(&mut self, operations: f64) -> Result<()> {
        self.recorded += operations;
        self.so_far += operations;
        let full = self.recorded >= self.pace.slice()
            || self
                .commands
                .as_ref()
                .is_some_and(|commands| commands.dispatches() >= MOST_DISPATCHES);
        if full {
            self.next_slice().await?;
        } else if self.told.elapsed() >= TELL_EVERY {
            self.tell();
        }
        Ok(())
    }

    /// Sends the recorded work, so that work outside these slices can follow it. Nobody waits for it: it does not count for the
    /// pace.
    pub(crate) fn submit(&mut self) {
        self.send();
        self.timed = false;
        self.waited();
    }

    /// Leaves the time of the work in flight out of the pace: it includes the reading and sending of rows.
    pub(crate) fn leave_untimed(&mut self) {
        self.timed = false;
    }

    /// Bytes that can still be fetched before the next [`Slices::collect`].
    pub(crate) fn room(&self) -> u64 {
        STAGING_BYTES - self.fetching.last().map_or(0, |(_, end)| *end)
    }

    /// Fetches `count` elements of `source`, from `first` on, with their values at this point of the work; collects if there is no
    /// room for them all.
    ///
    /// # Errors
    /// [`crate::Error::Device`].
    pub(crate) async fn fetch<T: Pod>(
        &mut self,
        source: &DeviceVec<T>,
        first: u64,
        count: u64,
    ) -> Result<Fetch<T>> {
        let size = size_of::<T>() as u64;
        let (mut at, end) = (first, first + count);
        let mut parts = Vec::new();
        while at < end {
            // In one part if it fits an empty buffer.
            let bytes = (end - at) * size;
            if self.room() < size || self.room() < bytes && bytes <= STAGING_BYTES - 4 {
                self.collect().await?;
            }
            let part = (end - at).min(self.room() / size);
            let from = STAGING_BYTES - self.room();
            let number = self.fetched.len();
            let there = self.commands().fetch(source, at, part, from);
            self.fetched.push(there);
            let bytes = (part * size).next_multiple_of(4);
            self.fetching.push((number, from + bytes));
            parts.push(number);
            at += part;
        }
        Ok(Fetch(parts, PhantomData))
    }

    /// Sends the recorded work and waits for everything that was fetched.
    ///
    /// # Errors
    /// [`crate::Error::Device`].
    pub(crate) async fn collect(&mut self) -> Result<()> {
        self.send();
        self.expect();
        let bytes = STAGING_BYTES - self.room();
        if bytes == 0 {
            self.engine.settle().await?;
            self.waited();
            return Ok(());
        }
        let arrived = self.engine.fetched(bytes).await?;
        self.waited();
        let mut from = 0;
        for (number, end) in self.fetching.drain(..) {
            if let Some(bytes) = arrived.get(from..end as usize) {
                self.fetched[number] = Some(bytes.to_vec());
            }
            from = end as usize;
        }
        Ok(())
    }

    /// Tells if all of it was collected.
    pub(crate) fn is_there<T>(&self, fetch: &Fetch<T>) -> bool {
        fetch.0.iter().all(|part| self.fetched[*part].is_some())
    }

    /// The fetched elements.
    ///
    /// # Panics
    /// If they were not collected yet.
    pub(crate) fn take<T: Pod>(&mut self, fetch: Fetch<T>) -> Vec<T> {
        let mut elements = Vec::new();
        for part in fetch.0 {
            let bytes = self.fetched[part].take();
            let bytes = bytes.expect("what is fetched is collected before it is taken");
            let part = bytes.chunks_exact(size_of::<T>());
            elements.extend(part.map(bytemuck::pod_read_unaligned::<T>));
        }
        elements
    }

    /// Reads `count` elements of `source`, from `first` on.
    ///
    /// # Errors
    /// [`crate::Error::Device`].
    pub(crate) async fn read<T: Pod>(
        &mut self,
        source: &DeviceVec<T>,
        first: u64,
        count: u64,
    ) -> Result<Vec<T>> {
        let fetch = self.fetch(source, first, count).await?;
        self.collect().await?;
        Ok(self.take(fetch))
    }

    /// Ends the recorded slice: it is sent once not too many are in flight, and the engine yields.
    async fn next_slice(&mut self) -> Result<()> {
        let ahead = self.engine.slices_ahead();
        if self.engine.in_flight() >= ahead {
            self.expect();
            self.engine.settle().await?;
            self.waited();
        }
        self.send();
        if ahead == 1 {
            self.waited();
        }
        self.tell();
        self.breathe().await
    }

    /// Yields and checks the stop flag, unless no stop may come between.
    ///
    /// # Errors
    /// As [`Engine::breathe`].
    pub(crate) async fn breathe(&self) -> Result<()> {
        match self.stops {
            true => self.engine.breathe().await,
            false => Ok(()),
        }
    }

    fn send(&mut self) {
        if let Some(commands) = self.commands.take() {
            self.clock.get_or_insert_with(|| self.engine.clock());
            self.engine.submit(commands);
        }
        self.sent += std::mem::take(&mut self.recorded);
    }

    /// Tells the engine when the work in flight should be done.
    fn expect(&self) {
        if let Some(clock) = self.clock {
            let left = self.pace.predicted(self.sent);
            self.engine
                .expect(left.saturating_sub(self.engine.worked(clock)));
        }
    }

    /// Lets the pace learn from the work in flight, which is done now.
    fn waited(&mut self) {
        let operations = std::mem::take(&mut self.sent);
        let timed = std::mem::replace(&mut self.timed, true);
        if let Some(clock) = self.clock.take()
            && timed
            && operations > 0.0
            && !self.engine.pace_is_held()
        {
            self.pace.record(operations, self.engine.worked(clock));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::device::{EngineChoice, EngineKind};
    use rand::{RngExt as _, SeedableRng as _};

    #[test]
    fn slices_grow_by_two_at_most_and_shrink_as_far_as_work_was_long() {
        let mut pace = Pace::default();
        assert_eq!(pace.units(5e5, 1000), 50);
        pace.record(1e12, Duration::from_millis(1));
        assert_eq!(pace.units(5e5, 1000), 100);
        pace.record(5e6, Duration::from_millis(100));
        assert_eq!(pace.units(5e5, 1000), 5);
        assert_eq!(pace.units(1e30, 1000), 1);
        assert_eq!(pace.units(1.0, 1000), 1000);
        // A tenth of the pace for a hundredth of a slice: short work is mostly the round trip.
        let before = pace.slice();
        pace.record(before / 1e3, Duration::from_micros(500));
        assert!(pace.slice() > 0.9 * before, "{} of {before}", pace.slice());
    }

    #[test]
    fn no_slice_is_long_whatever_the_shape_and_the_device() {
        let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(5);
        let mut between = |low: f64, high: f64| (rng.random_range(low.ln()..high.ln())).exp();
        let mut uncut = 0;
        for case in 0..2000 {
            // From 0.5 GFLOP/s to 50 TFLOP/s, with kernels that make a fifth of it or more, and a third of it once it is hot.
            let speed = between(5e5, 5e10);
            let mut pace = Pace {
                per_ms: if case % 2 == 0 {
                    FIRST_PER_MS
                } else {
                    EXPECTED * speed
                },
            };
            let [rows, references] = [1e6, 1e8].map(|most| between(1.0, most) as usize);
            let operations = 2.0 * between(1.0, 4096.0);
            let mut efficiency = 1.0;
            for slice in 0..60 {
                if slice % 10 == 5 {
                    efficiency = between(0.2, 1.0);
                }
                let heat = if slice < 30 { 1.0 } else { 3.0 };
                let (at_once, of) = pace.pairs(operations, rows, references);
                let done = (at_once * of) as f64 * operations;
                let ms = done * heat / (speed * efficiency);
                let is_least = at_once <= 8 && of <= 1024;
                uncut += usize::from(is_least);
                assert!(
                    ms <= 250.0 || is_least,
                    "{ms} ms: {at_once} of {rows} x {of} of {references}, {operations} each, slice {slice}"
                );
                pace.record(done, Duration::from_secs_f64(ms / 1e3));
            }
        }
        assert!(uncut < 60_000, "{uncut} of 120000 slices could not be cut");
    }

    #[test]
    fn rows_of_a_slice_are_cut_evenly() {
        let pace = Pace::default();
        assert_eq!(pace.pairs(1e3, 8, 5000), (8, 3125));
        // 24 would do, and leave 6.
        assert_eq!(pace.pairs(1e3, 30, 5000), (16, 1024));
        assert_eq!(pace.pairs(1e3, 1000, 500), (24, 500));
    }

    #[test]
    fn what_was_sent_on_its_own_fills_no_later_slice_and_is_not_taken_for_its_work() {
        let choice = EngineChoice {
            kind: Some(EngineKind::Cpu),
            ..EngineChoice::default()
        };
        pollster::block_on(async {
            let engine = Engine::open(&choice, 1 << 20).await.expect("opens");
            let mut pace = Pace::default();
            let slice = pace.slice();
            let mut slices = Slices::new(&engine, &mut pace);
            slices.commands();
            slices.recorded(0.9 * slice).await.expect("goes on");
            slices.submit();
            slices.commands();
            std::thread::sleep(Duration::from_millis(100));
            slices.recorded(slice).await.expect("goes on");
            // A slice in 100 ms or more, not 1.9 of them.
            let learnt = pace.slice();
            assert!(learnt <= 0.5 * slice, "{learnt} of {slice}");
        });
    }
}
