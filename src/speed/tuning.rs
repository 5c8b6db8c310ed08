//! [`tune`]: finds the fastest shape of tiles of this GPU by timing a search with each. Changes no bit of a result.

use web_time::{Duration, Instant};

use crate::base::error::{Error, Result};
use crate::base::ledger::Purpose;
use crate::base::plan::MemoryPlan;
use crate::engine::Engine;
use crate::engine::device::TileShape;
use crate::kernels::knn::{self, Asked, Inputs, Scratch, Search, VISIT};

/// Shortest time of a search that counts, unless the limit is reached.
const LEAST: Duration = Duration::from_millis(10);
/// Time after which the last search counts, however short it was.
const LIMIT: Duration = Duration::from_millis(50);
/// Queries of a search: at first as many as fill a tile, so that a slow GPU finishes them soon, too.
const FEWEST: usize = 64;
const QUERIES: usize = 1024;
/// The most searches of a submit.
const MOST: usize = 64;
const REFERENCES: usize = 4 * VISIT;
const DIM: usize = 128;
const K: usize = 10;

/// Result of a tuning.
#[derive(Clone, Debug, PartialEq)]
pub struct Tuning {
    /// The fastest shape.
    pub shape: TileShape,
    /// Time of a search of 1,024 queries with each shape, in milliseconds.
    pub times_ms: Vec<(TileShape, f64)>,
}

/// Times the search of 64 to 1,024 queries, as many as take long enough, in 4,096 references of 128 numbers with each shape: about
/// 0.1 s in all.
///
/// Takes 12 MiB, which are given back; `None` on the CPU, which has no shapes, and if they do not fit the budget.
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
    let mut times_ms = Vec::new();
    for shape in TileShape::ALL {
        let inputs = Inputs {
            queries: &rows,
            references: &references,
            asked: &asked,
        };
        // Queries of a submit, in searches of `QUERIES` at most; the first submit compiles the kernels, and its time does not
        // count.
        let mut submitted = FEWEST;
        let mut compiled_at = None;
        let took = loop {
            let search = Search {
                first_row: 0,
                rows: submitted.min(QUERIES),
                references: REFERENCES,
                stride: DIM,
                k: K,
                first_id: 0,
            };
            let clock = engine.clock();
            let mut commands = engine.commands();
            for _ in 0..submitted / search.rows {
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
            let Some(compiled_at) = compiled_at else {
                compiled_at = Some(Instant::now());
                continue;
            };
            let enough = worked >= LEAST || Instant::now() - compiled_at >= LIMIT;
            if enough || submitted == QUERIES * MOST {
                break worked.as_secs_f64() * (QUERIES as f64 / submitted as f64);
            }
            submitted *= 4;
        };
        times_ms.push((shape, took * 1e3));
    }
    drop((rows, references, asked, scratch));
    engine.settle().await?;
    let fastest = times_ms.iter().min_by(|a, b| a.1.total_cmp(&b.1));
    Ok(fastest.map(|(shape, _)| Tuning {
        shape: *shape,
        times_ms: times_ms.clone(),
    }))
}
