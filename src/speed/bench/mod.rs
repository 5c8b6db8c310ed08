//! Times of searches, evaluations and mining: [`run`] measures a [`Sweep`] of sizes and gives a [`Report`].
//!
//! The `bench` binary and the page (`?bench=`) run this same code, so that a browser's results can be compared with those of the
//! machine. Every size is compared with the f64 reference before it is timed.

mod evaluate;
mod knn;
mod measured;
mod mining;
mod pass;
mod peak;
mod report;
mod rows;
mod side;
mod sweep;
mod times;

pub use measured::Measured;
pub use pass::{Pass, measure as measure_pass};
pub use peak::{measure_bandwidth, measure_peak};
pub use report::{Line, Report, check};
pub use sweep::{Shape, Sweep, Work};

use crate::base::error::Result;
use crate::cpu::Distance;
use crate::engine::Engine;
use crate::engine::device::EngineChoice;
use crate::kernels::triplet_margin::{Kind, Rule};
use crate::speed::device_speed::self_test;
use crate::speed::tuning::tune;

/// The triplets whose mining is measured, and their loss.
pub const RULE: Rule = Rule {
    distance: Distance::Cosine,
    kind: Kind::Semihard,
    miner_margin: 0.2,
    loss_margin: 0.2,
};

/// Opens an engine whose speed is measured; a hardware GPU gets the fastest shape of tiles.
///
/// # Errors
/// As [`Engine::open`].
pub async fn open(choice: &EngineChoice, budget_bytes: u64) -> Result<Engine> {
    let mut engine = Engine::open(choice, budget_bytes).await?;
    self_test(&engine).await?;
    // In a browser nobody tunes yet.
    if cfg!(not(target_arch = "wasm32"))
        && !engine.info().software
        && choice.shape.is_none()
        && let Some(tuned) = tune(&engine).await?
    {
        engine = engine.with_tuned_shape(tuned.shape);
    }
    engine.ledger().restart_peak();
    Ok(engine)
}

/// Measures every size of the sweep, one after the other; `heard` gets each line as it is done.
///
/// # Errors
/// The refusal of a size, before any is measured; [`Error::Device`](crate::Error::Device) if a result is wrong.
pub async fn run(engine: &Engine, sweep: &Sweep, mut heard: impl FnMut(&Line)) -> Result<Report> {
    let shapes = sweep.shapes();
    for shape in &shapes {
        shape.plan(engine)?;
    }
    let mut report = Report::new(engine.info());
    let (line, peak) = measure_peak(engine).await?;
    heard(&line);
    report.peak_gflops = peak / 1e9;
    for shape in shapes {
        // The peak of memory counts this size alone.
        engine.settle().await?;
        engine.ledger().restart_peak();
        let line = measure(engine, &shape, sweep.answers, peak).await?;
        heard(&line);
        report.lines.push(line);
    }
    Ok(report)
}

/// Measures one size. `answers` is the number of queries whose neighbours the line holds; the line's share is taken of `peak`,
/// operations per second.
///
/// # Errors
/// As [`run`].
pub async fn measure(engine: &Engine, shape: &Shape, answers: usize, peak: f64) -> Result<Line> {
    let forecast = shape.plan(engine)?;
    let mut line = match shape.work {
        Work::Knn { k } => knn::measure(engine, shape, k, answers).await?,
        Work::Evaluate { classes } => evaluate::measure(engine, shape, classes).await?,
        Work::Mining { asked, classes } => mining::measure(engine, shape, asked, classes).await?,
    };
    line.shape = Some(*shape);
    line.scratch_bytes = Some(forecast.memory.total_bytes() - shape.resident_bytes(&forecast));
    Ok(line.of_arithmetic(shape.operations(), peak))
}
