//! [`Timer`]: time of each dispatch on the device, by its timestamps. Off but for the bench.
//!
//! While it is on, every dispatch is a pass of its own, as WebGPU writes timestamps at the begin and end of passes. Browsers round
//! them: Chromium to 0.1 ms, unless it was started for developers.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use futures_channel::oneshot;
use serde::Serialize;

use super::{Gpu, GpuVec, PARAMS_SLOTS};
use crate::base::error::{Error, Result};
use crate::base::ledger::{MemoryLedger, Purpose};

/// The timer is compiled in: the page, which never starts it, is smaller without.
pub(super) const TIMES: bool = cfg!(feature = "timer");
/// Bytes of timestamps that are kept until they are read.
const KEPT_BYTES: u64 = 256 << 10;
/// Bytes of the two timestamps of a dispatch.
const DISPATCH_BYTES: usize = 16;

/// Times of a device while a timer was on.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DeviceTime {
    /// Time from the first dispatch of a submit to the end of its last, summed over submits, in milliseconds: the gaps between
    /// submits are left out.
    pub elapsed_ms: f64,
    /// The dispatches of each kernel, those that took longest first.
    pub kernels: Vec<KernelTime>,
    /// Dispatches that were not timed, as there was no room for their timestamps before the next wait.
    pub untimed: u64,
}

/// Time of a kernel's dispatches on the device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KernelTime {
    /// Its name, `file.entry`.
    pub kernel: &'static str,
    /// Number of dispatches.
    pub dispatches: u64,
    /// Their time together, in milliseconds.
    pub elapsed_ms: f64,
}

/// The timestamps on their way, and the sums of those that have arrived.
#[derive(Debug)]
pub(super) struct Timer {
    queries: wgpu::QuerySet,
    resolved: GpuVec<u8>,
    readback: GpuVec<u8>,
    /// The first byte of each submit's timestamps on their way, and the kernels of its dispatches.
    under_way: RefCell<Vec<(u64, Vec<&'static str>)>>,
    used: Cell<u64>,
    sums: RefCell<Sums>,
}

/// Ticks of the device's clock.
#[derive(Debug, Default)]
struct Sums {
    elapsed: u64,
    kernels: BTreeMap<&'static str, (u64, u64)>,
    untimed: u64,
}

impl Timer {
    pub(super) fn queries(&self) -> wgpu::QuerySet {
        self.queries.clone()
    }

    /// Keeps the timestamps of a submit whose dispatches were of these kernels.
    pub(super) fn keep(&self, encoder: &mut wgpu::CommandEncoder, kernels: Vec<&'static str>) {
        let bytes = (kernels.len() * DISPATCH_BYTES) as u64;
        let at = self.used.get();
        if bytes == 0 || at + bytes > KEPT_BYTES {
            self.sums.borrow_mut().untimed += kernels.len() as u64;
            return;
        }
        let (resolved, readback) = (self.resolved.raw(), self.readback.raw());
        let queries = 0..2 * kernels.len() as u32;
        encoder.resolve_query_set(&self.queries, queries, resolved, at);
        encoder.copy_buffer_to_buffer(resolved, at, readback, at, bytes);
        let next = (at + bytes).next_multiple_of(wgpu::QUERY_RESOLVE_BUFFER_ALIGNMENT);
        self.used.set(next);
        self.under_way.borrow_mut().push((at, kernels));
    }
}

impl Sums {
    /// Adds a submit: the begin and end of each of its dispatches.
    fn add(&mut self, kernels: &[&'static str], ticks: &[u64]) {
        let (mut first, mut last) = (u64::MAX, 0);
        for (kernel, span) in kernels.iter().zip(ticks.chunks_exact(2)) {
            let (begin, end) = (span[0], span[1].max(span[0]));
            (first, last) = (first.min(begin), last.max(end));
            let (dispatches, ticks) = self.kernels.entry(kernel).or_default();
            *dispatches += 1;
            *ticks += end - begin;
        }
        self.elapsed += last.saturating_sub(first);
    }

    /// Converts the sums to milliseconds; a tick takes `tick_ns` nanoseconds.
    fn times(self, tick_ns: f64) -> DeviceTime {
        let ms = |ticks: u64| ticks as f64 * tick_ns / 1e6;
        let kernel = |(kernel, (dispatches, ticks))| KernelTime {
            kernel,
            dispatches,
            elapsed_ms: ms(ticks),
        };
        let mut kernels: Vec<_> = self.kernels.into_iter().map(kernel).collect();
        kernels.sort_by(|a, b| b.elapsed_ms.total_cmp(&a.elapsed_ms));
        DeviceTime {
            elapsed_ms: ms(self.elapsed),
            kernels,
            untimed: self.untimed,
        }
    }
}

impl Gpu {
    /// Times every dispatch from here on. Returns false if the device has no timestamps, or the budget no 512 KiB for them.
    pub fn start_timer(&self, ledger: &MemoryLedger) -> bool {
        use wgpu::BufferUsages as Usage;
        if !TIMES
            || !self
                .device
                .features()
                .contains(wgpu::Features::TIMESTAMP_QUERY)
        {
            return false;
        }
        let fixed = |label, usage| {
            let reservation = ledger.reserve(Purpose::Staging, label, KEPT_BYTES).ok()?;
            let returned = &self.returned;
            Some(GpuVec::new(
                &self.device,
                returned,
                reservation,
                label,
                usage,
            ))
        };
        let (Some(resolved), Some(readback)) = (
            fixed(
                "gpu.timestamps",
                Usage::QUERY_RESOLVE | Usage::COPY_SRC | Usage::COPY_DST,
            ),
            fixed("gpu.timestamps_read", Usage::MAP_READ | Usage::COPY_DST),
        ) else {
            return false;
        };
        let queries = self.device.create_query_set(&wgpu::QuerySetDescriptor {
            label: Some("gpu.timestamps"),
            ty: wgpu::QueryType::Timestamp,
            count: 2 * PARAMS_SLOTS,
        });
        self.timer.replace(Some(Timer {
            queries,
            resolved,
            readback,
            under_way: RefCell::default(),
            used: Cell::new(0),
            sums: RefCell::default(),
        }));
        true
    }

    /// Ends the timing and returns the device's times; `None` if no timer was on.
    ///
    /// # Errors
    /// As [`Gpu::read`].
    pub async fn stop_timer(&self) -> Result<Option<DeviceTime>> {
        self.read_timestamps().await?;
        let Some(timer) = self.timer.take() else {
            return Ok(None);
        };
        let tick_ns = f64::from(self.queue.get_timestamp_period());
        Ok(Some(timer.sums.take().times(tick_ns)))
    }

    /// Reads the timestamps before there is no room for more.
    #[cfg(feature = "timer")]
    pub(super) async fn keep_room_for_timestamps(&self) -> Result<()> {
        let used = self.timer.borrow().as_ref().map(|timer| timer.used.get());
        match used {
            Some(used) if 2 * used > KEPT_BYTES => self.read_timestamps().await,
            _ => Ok(()),
        }
    }

    /// Adds up the timestamps of everything submitted so far.
    async fn read_timestamps(&self) -> Result<()> {
        let (buffer, used) = match &*self.timer.borrow() {
            Some(timer) if timer.used.get() > 0 => (timer.readback.raw().clone(), timer.used.get()),
            _ => return Ok(()),
        };
        let slice = buffer.slice(..used);
        let (done, mapped) = oneshot::channel();
        slice.map_async(wgpu::MapMode::Read, move |outcome| {
            done.send(outcome).ok();
        });
        self.poll()?;
        let outcome = self.answered(mapped).await;
        self.check()?;
        let lost = || Error::Device("the device did not return its timestamps".to_owned());
        outcome.ok_or_else(lost)?.map_err(|_| lost())?;
        let view = slice.get_mapped_range().map_err(|_| lost())?;
        if let Some(timer) = &*self.timer.borrow() {
            for (at, kernels) in timer.under_way.take() {
                let bytes = &view[at as usize..][..kernels.len() * DISPATCH_BYTES];
                let ticks: Vec<u64> = bytes
                    .chunks_exact(8)
                    .map(bytemuck::pod_read_unaligned)
                    .collect();
                timer.sums.borrow_mut().add(&kernels, &ticks);
            }
            timer.used.set(0);
        }
        drop(view);
        buffer.unmap();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dispatches_are_summed_by_kernel_and_submits_from_their_first_to_their_last() {
        let mut sums = Sums::default();
        // The second dispatch begins before the first ends; a clock that goes back is no time.
        sums.add(&["a", "b"], &[1000, 3000, 2000, 4000]);
        sums.add(&["a", "a"], &[9000, 9500, 9700, 9600]);
        let kernel = |kernel, dispatches, elapsed_ms| KernelTime {
            kernel,
            dispatches,
            elapsed_ms,
        };
        let expected = DeviceTime {
            elapsed_ms: 2.0 * (3000.0 + 700.0) / 1e6,
            kernels: vec![
                kernel("a", 3, 2.0 * 2500.0 / 1e6),
                kernel("b", 1, 2.0 * 2000.0 / 1e6),
            ],
            untimed: 0,
        };
        assert_eq!(sums.times(2.0), expected);
    }
}
