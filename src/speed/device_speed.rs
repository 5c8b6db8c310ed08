//! [`self_test`]: speed of an engine, in one number that a person can compare. Changes no result.

use serde::{Deserialize, Serialize};
use web_time::{Duration, Instant};

use crate::base::error::{Error, Result};
use crate::base::ledger::Purpose;
use crate::base::plan::MemoryPlan;
use crate::cpu::Distance;
use crate::engine::Engine;
use crate::kernels;
use crate::kernels::ranks::Block;
use crate::kernels::similarities::{self, similarities, width};
use crate::kernels::tile::Shape;

/// The longest time of the test.
const LIMIT: Duration = Duration::from_millis(200);
/// Time of its last and longest piece of work, about: a submit well below the limit of a watchdog.
const TARGET: Duration = Duration::from_millis(60);
const FEWEST_ROWS: usize = 8;
const MOST_ROWS: usize = 1024;
const REFERENCES: usize = 4096;
const DIM: usize = 64;
/// The most times that [`MOST_ROWS`] rows are done in one submit.
const MOST_TIMES: usize = 64;
/// The largest factor from one piece of work to the next: few pieces, as each costs a wait.
const MOST_GROWTH: f64 = 16.0;

/// Result of a self-test.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SelfTest {
    /// Floating-point operations of similarities, in 10^9 per second.
    pub gflops: f64,
    /// Time of the test, in milliseconds.
    pub elapsed_ms: f64,
}

/// Times the similarities of more and more rows to 4,096 references of 64 numbers, for about 200 ms at most.
///
/// The last and longest piece of work counts, without the cost of an empty wait. Tells the engine its speed, so that work is cut
/// well from the start. Takes 17 MiB, which are given back; `None` if they do not fit the engine's budget.
///
/// # Errors
/// [`Error::Device`].
pub async fn self_test(engine: &Engine) -> Result<Option<SelfTest>> {
    let mut workspace = match engine
        .workspace("the self-test", &plan(), "raise the budget")
        .await
    {
        Err(Error::Refused { .. } | Error::TooLarge { .. }) => return Ok(None),
        workspace => workspace?,
    };
    let rows = workspace.take("self_test.rows");
    let references = workspace.take("self_test.references");
    let mut output = workspace.take("self_test.similarities");
    let timed = [similarities::STRIP.name, similarities::TILE.name];
    let used = kernels::used_on(engine.info()).filter(|kernel| timed.contains(&kernel.name));
    engine.prepare(used).await?;
    let started = Instant::now();
    let mut work = FEWEST_ROWS;
    let gflops = loop {
        let (count, times) = (work.min(MOST_ROWS), (work / MOST_ROWS).max(1));
        let block = Block {
            first_row: 0,
            rows: count,
            batch: 0,
            first_reference: 0,
            references: REFERENCES,
            stride: DIM,
        };
        let shape = Shape::of(engine.info(), count);
        let clock = engine.clock();
        let mut commands = engine.commands();
        for _ in 0..times {
            similarities(
                &mut commands,
                &block,
                shape,
                Distance::Cosine,
                &rows,
                (&references).into(),
                &mut output,
            );
        }
        engine.submit(commands);
        engine.settle().await?;
        let seconds = engine.worked(clock).as_secs_f64().max(1e-6);
        let growth = (TARGET.as_secs_f64() / seconds).min(MOST_GROWTH);
        // Twice the work or more, if there is time for it.
        if growth < 2.0 || times == MOST_TIMES || started.elapsed() + TARGET > LIMIT {
            let operations = 2.0 * (times * count) as f64 * (REFERENCES * DIM) as f64;
            break operations / seconds / 1e9;
        }
        let power = (work as f64 * growth).log2() as u32;
        work = (1 << power).min(MOST_TIMES * MOST_ROWS);
    };
    engine.note_operations_per_ms(gflops * 1e6);
    let elapsed_ms = started.elapsed().as_secs_f64() * 1e3;
    drop((rows, references, output));
    engine.settle().await?;
    Ok(Some(SelfTest { gflops, elapsed_ms }))
}

fn plan() -> MemoryPlan {
    let floats = |count: usize| (count * DIM) as u64;
    MemoryPlan::default()
        .with::<f32>(Purpose::Activations, "self_test.rows", floats(MOST_ROWS))
        .with::<f32>(Purpose::Dataset, "self_test.references", floats(REFERENCES))
        .with::<f32>(
            Purpose::Similarities,
            "self_test.similarities",
            (MOST_ROWS * width(REFERENCES)) as u64,
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::device::{EngineChoice, EngineKind};
    use crate::engine::pace::Pace;

    #[test]
    fn the_first_slice_is_cut_by_what_was_measured() {
        for kind in [EngineKind::Cpu, EngineKind::Gpu] {
            let choice = EngineChoice {
                kind: Some(kind),
                ..EngineChoice::default()
            };
            pollster::block_on(async {
                let engine = Engine::open(&choice, 64 << 20).await.expect("opens");
                let (first, least) = (Pace::of(&engine).slice(), Pace::default().slice());
                match kind {
                    EngineKind::Cpu => assert!(first > least),
                    EngineKind::Gpu => assert_eq!(first, least),
                }
                let tested = self_test(&engine).await.expect("runs").expect("fits");
                // 50 ms of a quarter of it: other kernels are slower.
                let expected = 50.0 * 0.25 * tested.gflops * 1e6;
                let slice = Pace::of(&engine).slice();
                assert!((slice / expected - 1.0).abs() < 1e-9, "{slice}, {expected}");
            });
        }
    }
}
