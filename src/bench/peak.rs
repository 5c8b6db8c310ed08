//! The arithmetic that the device does at most: what shares are taken of.

use super::{Line, Times};
use crate::engine::Engine;
use crate::error::Result;
use crate::kernels::peaks::{OPERATIONS_PER_FLOAT, multiply_add};
use crate::ledger::Purpose;
use crate::plan::MemoryPlan;

const FLOATS: usize = 1 << 18;

/// Times a loop of multiply-adds: a line, and operations per second.
///
/// # Errors
/// As [`Engine::workspace`].
pub async fn measure(engine: &Engine) -> Result<(Line, f64)> {
    let plan =
        MemoryPlan::default().with::<f32>(Purpose::Activations, "peak.output", FLOATS as u64);
    let mut workspace = engine.workspace("peak", &plan, "raise the budget").await?;
    let mut output = workspace.take("peak.output");
    let times = Times::of(async || {
        let mut commands = engine.commands();
        multiply_add(&mut commands, FLOATS, 0.999, &mut output);
        engine.submit(commands);
        engine.settle().await
    })
    .await?;
    let operations = (FLOATS as u64 * OPERATIONS_PER_FLOAT) as f64;
    let mut line = Line::new("peak: multiply-add".to_owned(), &times);
    line.memory_bytes = engine.ledger().live_bytes();
    Ok((
        line.of_arithmetic(operations, None),
        operations / times.median_seconds(),
    ))
}
