//! Peaks of the device: arithmetic, of which shares are taken, and memory bandwidth.

use super::measured::repeat;
use super::{Line, Measured, check};
use crate::base::error::Result;
use crate::base::ledger::{Bytes, Purpose};
use crate::base::plan::MemoryPlan;
use crate::engine::Engine;
use crate::kernels::peaks::{OPERATIONS_PER_FLOAT, copy, fill, multiply_add};

/// Floats of the smallest piece of work: 10^9 operations, which a processor takes some milliseconds for.
const FLOATS: usize = 1 << 18;
/// The most times [`FLOATS`] in a dispatch: a million invocations fill any GPU.
const MOST: u32 = 16;
/// The most bytes of a vector whose transfer is timed: more than the cache of any GPU.
const MOST_BYTES: u64 = 128 << 20;

/// Times a loop of multiply-adds of 20 ms or more. Returns a line, and operations per second, by the device's clock if it has one.
///
/// # Errors
/// As [`Engine::workspace`].
pub async fn measure_peak(engine: &Engine) -> Result<(Line, f64)> {
    // A small budget holds fewer at a time.
    let room = engine.ledger().free_bytes() / 2 / (4 * FLOATS as u64);
    let most = MOST.min(1 << room.max(1).ilog2());
    let floats = FLOATS * most as usize;
    let plan =
        MemoryPlan::default().with::<f32>(Purpose::Activations, "peak.output", floats as u64);
    let mut workspace = engine.workspace("peak", &plan, "raise the budget").await?;
    let mut output = workspace.take("peak.output");
    let measured = Measured::long(engine, async |times| {
        // Both are powers of two.
        let at_once = times.min(most);
        repeat(engine, times / at_once, |commands| {
            let floats = FLOATS * at_once as usize;
            multiply_add(commands, floats, 0.999, &mut output);
        })
        .await
    })
    .await?;
    let operations = (FLOATS as u64 * OPERATIONS_PER_FLOAT) as f64;
    let peak = operations / measured.device_seconds();
    let line = Line {
        memory_bytes: engine.ledger().live_bytes(),
        gflops: Some(peak / 1e9),
        ..Line::without_counts("peak: multiply-add".to_owned(), &measured)
    };
    Ok((line, peak))
}

/// Times writing, and reading and writing, 20 ms or more of each.
///
/// # Errors
/// As [`Engine::workspace`]; [`Error::Device`](crate::Error::Device) if a result is wrong.
pub async fn measure_bandwidth(engine: &Engine) -> Result<[Line; 2]> {
    // A small budget holds less.
    let bytes = (engine.ledger().free_bytes() / 4).min(MOST_BYTES) >> 20 << 20;
    let floats = (bytes / 4) as usize;
    let plan = MemoryPlan::default()
        .with::<f32>(Purpose::Activations, "peaks.source", floats as u64)
        .with::<f32>(Purpose::Activations, "peaks.output", floats as u64);
    let mut workspace = engine.workspace("peaks", &plan, "raise --budget").await?;
    let [mut source, mut output] =
        ["peaks.source", "peaks.output"].map(|label| workspace.take(label));
    let filled = Measured::long(engine, async |times| {
        repeat(engine, times, |commands| {
            fill(commands, floats, 1.5, &mut source);
        })
        .await
    })
    .await?;
    let copied = Measured::long(engine, async |times| {
        repeat(engine, times, |commands| {
            copy(commands, floats, &source, &mut output);
        })
        .await
    })
    .await?;
    let ends = [
        engine.read(&output, 0, 4).await?,
        engine.read(&output, floats as u64 - 4, 4).await?,
    ];
    check(engine, "copy", ends.concat() == [1.5; 8])?;
    let line = |name: &str, measured: &Measured, bytes: u64, done: &str| Line {
        rate: format!(
            "{:.1} GB/s {done}",
            bytes as f64 / measured.device_seconds() / 1e9
        ),
        memory_bytes: engine.ledger().live_bytes(),
        ..Line::without_counts(
            format!("peak: {name} {}", Bytes(4 * floats as u64)),
            measured,
        )
    };
    Ok([
        line("fill", &filled, bytes, "written"),
        line("copy", &copied, 2 * bytes, "read and written"),
    ])
}
