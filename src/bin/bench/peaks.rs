//! What the device can do at most: the denominators.

use nearfar::kernels::peaks::{OPERATIONS_PER_FLOAT, copy, fill, multiply_add};
use nearfar::{Engine, MemoryPlan, Purpose, Result};

use crate::report::{Report, Times, check};

/// Operations per second, as measured.
pub(crate) struct Peaks {
    pub(crate) arithmetic: f64,
}

const FLOATS: usize = 16 << 20;
const ARITHMETIC_FLOATS: usize = 1 << 18;

pub(crate) async fn measure(engine: &Engine, report: &mut Report) -> Result<Peaks> {
    let plan = MemoryPlan::default()
        .with::<f32>(Purpose::Activations, "peaks.source", FLOATS as u64)
        .with::<f32>(Purpose::Activations, "peaks.output", FLOATS as u64);
    let mut workspace = engine.workspace("peaks", &plan, "raise --budget").await?;
    let (mut source, mut output) = (
        workspace.take("peaks.source"),
        workspace.take("peaks.output"),
    );
    let memory = engine.ledger().live_bytes();

    let arithmetic = Times::of(async || {
        let mut commands = engine.commands();
        multiply_add(&mut commands, ARITHMETIC_FLOATS, 0.999, &mut output);
        engine.submit(commands);
        engine.settle().await
    })
    .await?;
    let operations = (ARITHMETIC_FLOATS as u64 * OPERATIONS_PER_FLOAT) as f64;
    let per_second = operations / arithmetic.median_seconds();
    let rate = format!("{:.1} GFLOP/s", per_second / 1e9);
    report.add(arithmetic.line("peak: multiply-add".to_owned(), rate, None, memory));

    let bytes = (4 * FLOATS) as f64;
    let filled = Times::of(async || {
        let mut commands = engine.commands();
        fill(&mut commands, FLOATS, 1.5, &mut source);
        engine.submit(commands);
        engine.settle().await
    })
    .await?;
    let rate = format!("{:.1} GB/s written", bytes / filled.median_seconds() / 1e9);
    report.add(filled.line("peak: fill 64 MiB".to_owned(), rate, None, memory));

    let copied = Times::of(async || {
        let mut commands = engine.commands();
        copy(&mut commands, FLOATS, &source, &mut output);
        engine.submit(commands);
        engine.settle().await
    })
    .await?;
    let rate = format!(
        "{:.1} GB/s read and written",
        2.0 * bytes / copied.median_seconds() / 1e9
    );
    let ends = [
        engine.read(&output, 0, 4).await?,
        engine.read(&output, FLOATS as u64 - 4, 4).await?,
    ];
    check("copy", ends.concat() == [1.5; 8]);
    report.add(copied.line("peak: copy 64 MiB".to_owned(), rate, None, memory));
    Ok(Peaks {
        arithmetic: per_second,
    })
}
