//! [`tune`]: which shape of tiles this GPU is fastest with, found by timing a search with each. Changes no bit of a result.

use web_time::{Duration, Instant};

use crate::device::TileShape;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::kernels::knn::{self, Asked, Inputs, Scratch, Search, VISIT};
use crate::ledger::Purpose;
use crate::plan::MemoryPlan;

/// Work that is timed takes this long, unless it is the first.
const LEAST: Duration = Duration::from_millis(10);
/// After so long the last time counts.
const LIMIT: Duration = Duration::from_millis(50);
/// Searches of a submit at most, as a power of two.
const MOST: u32 = 6;
const QUERIES: usize = 1024;
const REFERENCES: usize = 4 * VISIT;
const DIM: usize = 128;
const K: usize = 10;

/// What a tuning found.
#[derive(Clone, Debug, PartialEq)]
pub struct Tuning {
    /// The fastest shape.
    pub shape: TileShape,
    /// What a search took with each, in milliseconds.
    pub times_ms: Vec<(TileShape, f64)>,
}

/// Times the search of 1,024 queries in 4,096 references of 128 numbers with each shape, for about 0.1 s in all.
///
/// Takes 12 MiB, which are given back; nothing on the CPU, where there are no shapes, and where they do not fit the budget.
///
/// # Errors
/// [`Error::Device`].
pub async fn tune(engine: &Engine) -> Result<Option<Tuning>> {
    if engine.info().engine != "gpu" {
        return Ok(None);
    }
    let queries = QUERIES as u64;
    let plan = MemoryPlan::default()
        .with::<f32>(Purpose::Activations, "tune.queries", queries * DIM as u64)
        .with::<f32>(
            Purpose::Dataset,
            "tune.references",
            (REFERENCES * DIM) as u64,
        )
        .with::<Asked>(Purpose::Ranks, "tune.asked", queries)
        .with::<[u32; 2]>(Purpose::Ranks, "tune.kept", queries * K as u64)
        .with::<[u32; 2]>(Purpose::Ranks, "tune.survivors", queries * VISIT as u64)
        .with::<u32>(Purpose::Ranks, "tune.counts", queries);
    let mut workspace = match engine.workspace("tuning", &plan, "raise the budget").await {
        Err(Error::Refused { .. } | Error::TooLarge { .. }) => return Ok(None),
        workspace => workspace?,
    };
    let mut rows = workspace.take::<f32>("tune.queries");
    let mut references = workspace.take::<f32>("tune.references");
    let mut asked = workspace.take::<Asked>("tune.asked");
    let mut scratch = Scratch {
        kept: workspace.take("tune.kept"),
        survivors: workspace.take("tune.survivors"),
        counts: workspace.take("tune.counts"),
    };
    // Any rows will do that are not all the same.
    let values = |count: usize| -> Vec<f32> {
        let value = |i: usize| ((i * 7919 % 1009) as f32 - 504.0) / 504.0 / 11.3;
        (0..count * DIM).map(value).collect()
    };
    engine.upload(&mut rows, 0, &values(QUERIES)).await?;
    engine
        .upload(&mut references, 0, &values(REFERENCES))
        .await?;
    engine
        .upload(&mut asked, 0, &vec![Asked::first(u32::MAX); QUERIES])
        .await?;
    let search = Search {
        first_row: 0,
        rows: QUERIES,
        references: REFERENCES,
        stride: DIM,
        k: K,
        first_id: 0,
    };
    let mut times_ms = Vec::new();
    for shape in TileShape::ALL {
        let inputs = Inputs {
            queries: &rows,
            references: &references,
            asked: &asked,
        };
        let started = Instant::now();
        let mut times = 0;
        let took = loop {
            let clock = engine.clock();
            let mut commands = engine.commands();
            for _ in 0..1 << times {
                knn::clear(&mut commands, &search, inputs, &mut scratch);
                let mut done = 0;
                while done < search.visits() {
                    let together =
                        knn::visits_together(&search, shape, done).min(search.visits() - done);
                    let visits = done..done + together;
                    done = visits.end;
                    knn::search(&mut commands, &search, visits, shape, inputs, &mut scratch);
                }
            }
            engine.submit(commands);
            engine.settle().await?;
            let worked = engine.worked(clock);
            // The first time the kernels are compiled.
            if times > 0 && (worked >= LEAST || started.elapsed() >= LIMIT || times == MOST) {
                break worked / (1 << times);
            }
            times += 1;
        };
        times_ms.push((shape, took.as_secs_f64() * 1e3));
    }
    drop((rows, references, asked, scratch));
    engine.settle().await?;
    let fastest = times_ms.iter().min_by(|a, b| a.1.total_cmp(&b.1));
    Ok(fastest.map(|(shape, _)| Tuning {
        shape: *shape,
        times_ms: times_ms.clone(),
    }))
}
