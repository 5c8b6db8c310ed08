//! [`Report`]: what was measured, as the table shows it and as JSON.

use serde::Serialize;

use super::{Shape, Times};
use crate::device::DeviceInfo;
use crate::engine::Engine;
use crate::error::{Error, Result};

/// The device and the lines.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What it ran on.
    #[serde(flatten)]
    pub device: DeviceInfo,
    /// Whether the shaders ran without wgpu's runtime checks.
    pub trusted: bool,
    /// The most arithmetic that the device was seen to do: shares are taken of this.
    pub peak_gflops: f64,
    /// What was measured, in order.
    pub lines: Vec<Line>,
}

/// One line of the table.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Line {
    /// What was timed.
    pub name: String,
    /// Its sizes, where it is one of a sweep.
    #[serde(flatten)]
    pub shape: Option<Shape>,
    /// The median of the repetitions, in milliseconds.
    pub median_ms: f64,
    /// One in ten took at most this.
    pub p10_ms: f64,
    /// Nine in ten took at most this.
    pub p90_ms: f64,
    /// How many there were.
    pub repetitions: usize,
    /// Floating-point operations of the work, in 10^9 per second, padding and everything else left out.
    pub gflops: Option<f64>,
    /// Of the measured peak.
    pub share_of_peak: Option<f64>,
    /// Device memory beside the references that stay on the device.
    pub scratch_bytes: Option<u64>,
    /// Submits of one repetition.
    pub submits: Option<u64>,
    /// The most device memory in use meanwhile.
    pub memory_bytes: u64,
    /// What else the time means.
    pub rate: String,
    /// What PML's two ways to list them would allocate for the triplets, in bytes, by the estimate of `pml_bytes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pml_bytes: Option<[u64; 2]>,
    /// Neighbours of the first queries, where they were asked for.
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
    /// A line of times, with everything else left open.
    pub fn new(name: String, times: &Times) -> Self {
        Self {
            name,
            median_ms: times.ms(0.5),
            p10_ms: times.ms(0.1),
            p90_ms: times.ms(0.9),
            repetitions: times.count(),
            ..Self::default()
        }
    }

    /// The same, of so many floating-point operations a repetition on a device that does `peak` per second.
    #[must_use]
    pub fn of_arithmetic(self, operations: f64, peak: Option<f64>) -> Self {
        let per_second = operations / (self.median_ms / 1e3);
        Self {
            gflops: Some(per_second / 1e9),
            share_of_peak: peak.map(|peak| per_second / peak),
            ..self
        }
    }
}

/// Stops where a result is wrong: a wrong kernel has no speed.
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
