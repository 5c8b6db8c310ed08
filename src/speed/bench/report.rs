//! [`Report`]: the measurements, as the table shows them and as JSON.

use serde::Serialize;

use super::measured::Counts;
use super::{Measured, Shape};
use crate::base::error::{Error, Result};
use crate::engine::Engine;
use crate::engine::device::DeviceInfo;
use crate::engine::gpu::KernelTime;

/// The device and the lines.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The device.
    #[serde(flatten)]
    pub device: DeviceInfo,
    /// The shaders ran without wgpu's runtime checks.
    pub trusted: bool,
    /// The measured peak of the device's arithmetic, in 10^9 operations per second: shares are taken of this.
    pub peak_gflops: f64,
    /// The measurements, in order.
    pub lines: Vec<Line>,
}

/// One line of the table.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Line {
    /// Name of the work that was timed.
    pub name: String,
    /// Its sizes, if it is one of a sweep.
    #[serde(flatten)]
    pub shape: Option<Shape>,
    /// The median of the repetitions, in milliseconds.
    pub median_ms: f64,
    /// The 10th percentile of the repetitions, in milliseconds.
    pub p10_ms: f64,
    /// The 90th percentile of the repetitions, in milliseconds.
    pub p90_ms: f64,
    /// Number of repetitions.
    pub repetitions: usize,
    /// The time of the work on the device, in milliseconds, if that has timestamps: submits from their first dispatch to the end of
    /// their last. Measured apart, as it costs wall-clock time.
    pub device_ms: Option<f64>,
    /// The kernels that ran on the device in that time, those that took longest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kernels: Vec<KernelTime>,
    /// Floating-point operations of the work, in 10^9 per second, padding and everything else left out.
    pub gflops: Option<f64>,
    /// Share of the measured peak, by wall clock.
    pub share_of_peak: Option<f64>,
    /// Share of the measured peak, by the time on the device.
    pub device_share_of_peak: Option<f64>,
    /// Device memory beside the references that stay on the device.
    pub scratch_bytes: Option<u64>,
    /// Dispatches of one repetition, or calls of kernels on the CPU.
    pub dispatches: Option<u64>,
    /// Submits of one repetition.
    pub submits: Option<u64>,
    /// Waits for the device in one repetition: maps, and awaited submits.
    pub waits: Option<u64>,
    /// Bytes that one repetition carried to the device, the parameters of dispatches included; none on the CPU.
    pub uploaded_bytes: Option<u64>,
    /// Bytes that one repetition read back; none on the CPU.
    pub fetched_bytes: Option<u64>,
    /// The most device memory in use meanwhile.
    pub memory_bytes: u64,
    /// The time as a rate, such as queries per second.
    pub rate: String,
    /// Bytes that PML's two ways to list the triplets would allocate, by the estimate of `pml_bytes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pml_bytes: Option<[u64; 2]>,
    /// Neighbours of the first queries, if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<Found>,
}

/// Neighbours as a search gave them.
#[derive(Clone, Debug, Serialize)]
pub struct Found {
    /// The references' numbers, `[queries, k]`.
    pub ids: Vec<u32>,
    /// Their similarities, `[queries, k]`.
    pub similarities: Vec<f32>,
}

impl Report {
    /// A report without lines.
    pub fn new(device: &DeviceInfo) -> Self {
        Self {
            device: device.clone(),
            trusted: false,
            peak_gflops: 0.0,
            lines: Vec::new(),
        }
    }
}

impl Line {
    /// A line of the measurements and counts, with everything else left open.
    pub fn new(name: String, measured: &Measured) -> Self {
        let Counts {
            dispatches,
            submits,
            waits,
            uploaded_bytes,
            fetched_bytes,
        } = measured.counts;
        Self {
            dispatches: Some(dispatches),
            submits: Some(submits),
            waits: Some(waits),
            uploaded_bytes: Some(uploaded_bytes),
            fetched_bytes: Some(fetched_bytes),
            kernels: { measured.device.as_ref() }
                .map_or_else(Vec::new, |device| device.kernels.clone()),
            ..Self::without_counts(name, measured)
        }
    }

    /// A line without counts, for work of which several runs share a submit.
    pub(super) fn without_counts(name: String, measured: &Measured) -> Self {
        let Measured {
            times,
            device,
            memory_bytes,
            ..
        } = measured;
        Self {
            name,
            median_ms: times.ms(0.5),
            p10_ms: times.ms(0.1),
            p90_ms: times.ms(0.9),
            repetitions: times.count(),
            device_ms: device.as_ref().map(|device| device.elapsed_ms),
            memory_bytes: *memory_bytes,
            ..Self::default()
        }
    }

    /// Message once the line is done.
    pub fn said(&self) -> String {
        let Self {
            name, median_ms, ..
        } = self;
        let device = self.device_ms.map_or_else(String::new, |device_ms| {
            format!(", {device_ms:.3} ms on the device")
        });
        format!("{name}: {median_ms:.3} ms{device}")
    }

    /// The line with its rate and shares, for so many floating-point operations a repetition on a device that does `peak` per
    /// second.
    #[must_use]
    pub fn of_arithmetic(self, operations: f64, peak: f64) -> Self {
        let per_second = |ms: f64| operations / (ms / 1e3);
        let by_the_wall = per_second(self.median_ms);
        Self {
            gflops: Some(by_the_wall / 1e9),
            share_of_peak: Some(by_the_wall / peak),
            device_share_of_peak: self.device_ms.map(|ms| per_second(ms) / peak),
            ..self
        }
    }
}

/// Refuses a wrong result: the speed of a wrong kernel means nothing.
///
/// # Errors
/// [`Error::Device`], unless it `holds`.
pub fn check(engine: &Engine, what: &str, holds: bool) -> Result<()> {
    let adapter = &engine.info().adapter;
    let wrong = || {
        format!("{what} on {adapter} differs from the f64 reference: what is wrong is not timed")
    };
    holds.then_some(()).ok_or_else(|| Error::Device(wrong()))
}
