//! Peak arithmetic of the device, of which shares are taken.

use super::{Line, Measured, repeat};
use crate::base::error::Result;
use crate::base::ledger::Purpose;
use crate::base::plan::MemoryPlan;
use crate::engine::Engine;
use crate::kernels::peaks::{OPERATIONS_PER_FLOAT, multiply_add};

/// Floats of the smallest piece of work: 10^9 operations, which a processor takes some milliseconds for.
const FLOATS: usize = 1 << 18;
/// The most times [`FLOATS`] in a dispatch: a million invocations fill any GPU.
const MOST: u32 = 16;

/// Times a loop of multiply-adds of 20 ms or more. Returns a line, and operations per second, by the device's clock if it has one.
///
/// # Errors
/// As [`Engine::workspace`].
pub async fn measure(engine: &Engine) -> Result<(Line, f64)> {
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
