//! Waiting for the device, as rarely and as briefly as a browser allows.
//!
//! Firefox checks for finished work ten times a second, and whenever more is submitted: a wait there takes up to 100 ms, whatever
//! the GPU did meanwhile. Once a wait was that long, empty submits make the browser check sooner.

use std::cell::Cell;
use std::future::{Future as _, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

use futures_channel::oneshot;
use web_time::{Duration, Instant};

use super::Gpu;
use crate::base::error::Result;

/// An answer that is late by more than this may have waited for the browser to check.
const SELDOM: Duration = Duration::from_millis(50);
/// Shortest time between two checks.
const SHORTEST_LOOK: Duration = Duration::from_millis(3);
/// Longest time between two checks; the browser's own is 100 ms.
const LONGEST_LOOK: Duration = Duration::from_millis(50);
/// From half of the expected time on, the browser is made to check again after each such part of the wait so far. The time of a
/// wait counts as the time of its work: if checks began when work should be done, work would never be found done sooner.
const PARTS: u32 = 16;

/// Submits in flight, and the cost of waits.
#[derive(Debug)]
pub(super) struct Waits {
    count: Cell<u64>,
    /// Submits since the last wait.
    in_flight: Cell<u32>,
    /// Bytes of large uploads since the last wait.
    carried: Cell<u64>,
    /// The shortest wait so far: the cost of a wait that has nothing to wait for.
    round_trip: Cell<Duration>,
    /// Time by which the submits in flight should be done.
    due: Cell<Option<Instant>>,
    /// The browser checks so seldom that it has to be made to.
    looks_seldom: Cell<bool>,
}

impl Default for Waits {
    fn default() -> Self {
        Self {
            count: Cell::new(0),
            in_flight: Cell::new(0),
            carried: Cell::new(0),
            round_trip: Cell::new(Duration::MAX),
            due: Cell::new(None),
            looks_seldom: Cell::new(false),
        }
    }
}

impl Waits {
    pub(super) fn sent(&self) {
        self.in_flight.set(self.in_flight.get() + 1);
    }

    pub(super) fn carry(&self, bytes: u64) {
        self.carried.set(self.carried.get() + bytes);
    }

    /// Bytes of large uploads that nobody has waited for yet.
    pub(super) fn carried(&self) -> u64 {
        self.carried.get()
    }
}

impl Gpu {
    /// Waits so far: maps, and awaited submits.
    pub fn waits(&self) -> u64 {
        self.waits.count.get()
    }

    /// Submits that nobody has waited for yet.
    pub fn in_flight(&self) -> u32 {
        self.waits.in_flight.get()
    }

    /// Cost of a wait that has nothing to wait for.
    pub fn round_trip(&self) -> Duration {
        self.waits.round_trip.get()
    }

    /// Sets the time by which the submits in flight should be done.
    pub fn expect(&self, due: Instant) {
        self.waits.due.set(Some(due));
    }

    /// Measures an empty round trip; nothing must be in flight.
    pub(super) async fn measure_round_trip(&self) -> Result<()> {
        // The first may come just before the browser checks, the second starts just after that.
        for _ in 0..2 {
            // Without a submit there would be nothing to wait for.
            let mut encoder = self.device.create_command_encoder(&Default::default());
            encoder.clear_buffer(self.upload.raw(), 0, Some(4));
            self.send([encoder.finish()]);
            self.wait_until_done().await?;
        }
        Ok(())
    }

    pub(super) async fn wait_until_done(&self) -> Result<()> {
        let (done, idle) = oneshot::channel();
        self.queue.on_submitted_work_done(move || {
            done.send(()).ok();
        });
        self.wait_for(idle).await.map(drop)
    }

    /// Waits for an answer to everything in flight; `None` if the device is gone.
    pub(super) async fn wait_for<T>(&self, answer: oneshot::Receiver<T>) -> Result<Option<T>> {
        let started = Instant::now();
        self.poll()?;
        let answer = self.answered(answer).await;
        let waits = &self.waits;
        waits.count.set(waits.count.get() + 1);
        waits.in_flight.set(0);
        waits.carried.set(0);
        let late = waits.due.take().unwrap_or(started).elapsed();
        if cfg!(target_arch = "wasm32") && late > SELDOM {
            waits.looks_seldom.set(true);
        }
        let shortest = waits.round_trip.get().min(started.elapsed());
        waits.round_trip.set(shortest);
        Ok(answer)
    }

    pub(super) async fn answered<T>(&self, mut answer: oneshot::Receiver<T>) -> Option<T> {
        if !self.waits.looks_seldom.get() {
            return answer.await.ok();
        }
        let started = Instant::now();
        let until_due = |due: Instant| due.saturating_duration_since(started);
        let mut pause = self.waits.due.get().map_or(Duration::ZERO, until_due) / 2;
        loop {
            let mut timer = pin!(after(pause.max(SHORTEST_LOOK)));
            let answered = poll_fn(|cx| {
                if let Poll::Ready(answer) = Pin::new(&mut answer).poll(cx) {
                    return Poll::Ready(Some(answer.ok()));
                }
                timer.as_mut().poll(cx).map(|()| None)
            });
            if let Some(answer) = answered.await {
                return answer;
            }
            self.queue.submit([]);
            self.submits.set(self.submits.get() + 1);
            pause = (started.elapsed() / PARTS).min(LONGEST_LOOK);
        }
    }
}

/// Returns after this time.
#[cfg(target_arch = "wasm32")]
async fn after(pause: Duration) {
    use wasm_bindgen::JsCast as _;

    let pause_ms = pause.as_secs_f64() * 1e3;
    let timer = js_sys::Promise::new(&mut |resolve, _reject| {
        // The page and its worker have different types of global, and both have timers.
        let set = js_sys::Reflect::get(&js_sys::global(), &"setTimeout".into());
        if let Ok(Ok(set)) = set.map(|set| set.dyn_into::<js_sys::Function>()) {
            set.call2(&js_sys::global(), &resolve, &pause_ms.into())
                .ok();
        }
    });
    wasm_bindgen_futures::JsFuture::from(timer).await.ok();
}

/// Natively there are no checks: `poll` blocks until the work is done.
#[cfg(not(target_arch = "wasm32"))]
async fn after(_pause: Duration) {}
