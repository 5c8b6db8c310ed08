//! What the memory of the device does at most: writing, and reading and writing.

use nearfar::bench::{Line, Times, check};
use nearfar::kernels::peaks::{copy, fill};
use nearfar::{Engine, MemoryPlan, Purpose, Result};

const FLOATS: usize = 16 << 20;

pub(crate) async fn measure(engine: &Engine) -> Result<[Line; 2]> {
    let plan = MemoryPlan::default()
        .with::<f32>(Purpose::Activations, "peaks.source", FLOATS as u64)
        .with::<f32>(Purpose::Activations, "peaks.output", FLOATS as u64);
    let mut workspace = engine.workspace("peaks", &plan, "raise --budget").await?;
    let (mut source, mut output) = (
        workspace.take("peaks.source"),
        workspace.take("peaks.output"),
    );
    let filled = Times::of(async || {
        let mut commands = engine.commands();
        fill(&mut commands, FLOATS, 1.5, &mut source);
        engine.submit(commands);
        engine.settle().await
    })
    .await?;
    let copied = Times::of(async || {
        let mut commands = engine.commands();
        copy(&mut commands, FLOATS, &source, &mut output);
        engine.submit(commands);
        engine.settle().await
    })
    .await?;
    let ends = [
        engine.read(&output, 0, 4).await?,
        engine.read(&output, FLOATS as u64 - 4, 4).await?,
    ];
    check(engine, "copy", ends.concat() == [1.5; 8])?;
    let line = |name: &str, times: &Times, bytes: usize, done: &str| Line {
        rate: format!(
            "{:.1} GB/s {done}",
            bytes as f64 / times.median_seconds() / 1e9
        ),
        memory_bytes: engine.ledger().live_bytes(),
        ..Line::new(format!("peak: {name} 64 MiB"), times)
    };
    Ok([
        line("fill", &filled, 4 * FLOATS, "written"),
        line("copy", &copied, 8 * FLOATS, "read and written"),
    ])
}
