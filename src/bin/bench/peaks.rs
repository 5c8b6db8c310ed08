//! Peak memory bandwidth of the device: writing, and reading and writing.

use nearfar::bench::{Line, Measured, check, repeat};
use nearfar::kernels::peaks::{copy, fill};
use nearfar::{Bytes, Engine, MemoryPlan, Purpose, Result};

/// The most bytes of a vector: more than the cache of any GPU.
const MOST_BYTES: u64 = 128 << 20;

/// Times 20 ms or more of each.
pub(crate) async fn measure(engine: &Engine) -> Result<[Line; 2]> {
    // A small budget holds less.
    let bytes = (engine.ledger().free_bytes() / 4).min(MOST_BYTES) >> 20 << 20;
    let floats = (bytes / 4) as usize;
    let plan = MemoryPlan::default()
        .with::<f32>(Purpose::Activations, "peaks.source", floats as u64)
        .with::<f32>(Purpose::Activations, "peaks.output", floats as u64);
    let mut workspace = engine.workspace("peaks", &plan, "raise --budget").await?;
    let (mut source, mut output) = (
        workspace.take("peaks.source"),
        workspace.take("peaks.output"),
    );
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
