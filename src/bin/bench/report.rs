//! Timing, and the table that comes of it.

use std::time::{Duration, Instant};

use nearfar::{Bytes, DeviceInfo, Result};
use serde::Serialize;

/// One line of the table.
#[derive(Debug, Serialize)]
pub(crate) struct Line {
    /// What was timed.
    pub(crate) name: String,
    /// The median of the repetitions, in milliseconds.
    pub(crate) median_ms: f64,
    /// One in ten took at most this.
    pub(crate) p10_ms: f64,
    /// Nine in ten took at most this.
    pub(crate) p90_ms: f64,
    /// What the time means.
    pub(crate) rate: String,
    /// Of the measured peak, where it is a matter of arithmetic.
    pub(crate) share_of_peak: Option<f64>,
    /// Device memory in use meanwhile.
    pub(crate) memory_bytes: u64,
}

/// The device and the lines.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    #[serde(flatten)]
    device: DeviceInfo,
    /// Whether the shaders ran without wgpu's runtime checks.
    trusted: bool,
    lines: Vec<Line>,
}

/// Times of several repetitions, ascending.
pub(crate) struct Times(Vec<Duration>);

impl Times {
    /// Repeats the work, once to warm up, then until a second or fifty repetitions have passed, five at least; of work
    /// that takes seconds, two will do.
    pub(crate) async fn of(mut work: impl AsyncFnMut() -> Result<()>) -> Result<Self> {
        work().await?;
        let mut times = Vec::new();
        let started = Instant::now();
        let least = |elapsed: Duration| {
            if elapsed < Duration::from_secs(10) {
                5
            } else {
                2
            }
        };
        while times.len() < least(started.elapsed())
            || (times.len() < 50 && started.elapsed() < Duration::from_secs(1))
        {
            let began = Instant::now();
            work().await?;
            times.push(began.elapsed());
        }
        times.sort_unstable();
        Ok(Self(times))
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn median_seconds(&self) -> f64 {
        self.at(0.5).as_secs_f64()
    }

    fn at(&self, part: f64) -> Duration {
        self.0[((self.0.len() - 1) as f64 * part).round() as usize]
    }

    /// A line of the table.
    pub(crate) fn line(
        &self,
        name: String,
        rate: String,
        share_of_peak: Option<f64>,
        memory_bytes: u64,
    ) -> Line {
        let ms = |part| self.at(part).as_secs_f64() * 1e3;
        Line {
            name,
            median_ms: ms(0.5),
            p10_ms: ms(0.1),
            p90_ms: ms(0.9),
            rate,
            share_of_peak,
            memory_bytes,
        }
    }
}

impl Report {
    pub(crate) fn new(device: &DeviceInfo, trusted: bool) -> Self {
        Self {
            device: device.clone(),
            trusted,
            lines: Vec::new(),
        }
    }

    /// Adds a line, and says on standard error that it is done.
    pub(crate) fn add(&mut self, line: Line) {
        eprintln!("{}: {:.3} ms", line.name, line.median_ms);
        self.lines.push(line);
    }

    pub(crate) fn print(&self, json: bool) {
        if json {
            println!(
                "{}",
                serde_json::to_string(self).expect("a report is plain data")
            );
            return;
        }
        let software = if self.device.software {
            ", a software adapter: ratios only"
        } else {
            ""
        };
        let DeviceInfo {
            engine,
            adapter,
            backend,
            ..
        } = &self.device;
        let shaders = match (engine.as_str(), self.trusted) {
            ("cpu", _) => "",
            (_, true) => "; shaders without runtime checks",
            (_, false) => "; shaders with runtime checks",
        };
        println!(
            "{engine} engine on {adapter} ({backend}{software}){shaders}; every result was checked first"
        );
        println!(
            "{:<46} {:>10} {:>9} {:>9} {:>9} {:>10}  rate",
            "", "median ms", "p10", "p90", "of peak", "memory"
        );
        for line in &self.lines {
            let share = line
                .share_of_peak
                .map_or_else(String::new, |share| format!("{:.0} %", 100.0 * share));
            println!(
                "{:<46} {:>10.3} {:>9.3} {:>9.3} {:>9} {:>10}  {}",
                line.name,
                line.median_ms,
                line.p10_ms,
                line.p90_ms,
                share,
                Bytes(line.memory_bytes).to_string(),
                line.rate
            );
        }
    }
}

/// Stops the bench where a result is wrong: a wrong kernel has no speed.
pub(crate) fn check(what: &str, holds: bool) {
    assert!(
        holds,
        "{what} differs from the f64 reference: nothing is timed"
    );
}
