//! [`tune`]: finds the fastest shape of tiles of this GPU by timing a search with each. Changes no bit of a result.

use web_time::{Duration, Instant};

use crate::base::error::{Error, Result};
use crate::base::ledger::Purpose;
use crate::base::plan::MemoryPlan;
use crate::engine::device::TileShape;
use crate::engine::{Commands, DeviceVec, Engine, Workspace};
use crate::kernels::knn::{self, Inputs, QueryBound, Scratch, Search, VISIT};

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
    let mut workspace = match engine
        .workspace("tuning", &plan(), "raise the budget")
        .await
    {
        Err(Error::Refused { .. } | Error::TooLarge { .. }) => return Ok(None),
        workspace => workspace?,
    };
    let mut searched = Searched::new(engine, &mut workspace).await?;
    let mut times_ms = Vec::new();
    for shape in TileShape::ALL {
        times_ms.push((shape, searched.time(engine, shape).await? * 1e3));
    }
    drop(searched);
    engine.settle().await?;
    let fastest = times_ms.iter().min_by(|a, b| a.1.total_cmp(&b.1));
    Ok(fastest.map(|(shape, _)| Tuning {
        shape: *shape,
        times_ms: times_ms.clone(),
    }))
}

fn plan() -> MemoryPlan {
    let (queries, references) = (QUERIES as u64, REFERENCES as u64);
    MemoryPlan::default()
        .with::<f32>(Purpose::Activations, "tune.queries", queries * DIM as u64)
        .with::<f32>(Purpose::Dataset, "tune.references", references * DIM as u64)
        .with::<QueryBound>(Purpose::Ranks, "tune.asked", queries)
        .with::<[u32; 2]>(Purpose::Ranks, "tune.kept", queries * K as u64)
        .with::<[u32; 2]>(Purpose::Ranks, "tune.survivors", queries * VISIT as u64)
        .with::<u32>(Purpose::Ranks, "tune.counts", queries)
}

/// The rows of the search, and its memory.
struct Searched {
    queries: DeviceVec<f32>,
    references: DeviceVec<f32>,
    asked: DeviceVec<QueryBound>,
    scratch: Scratch,
}

impl Searched {
    async fn new(engine: &Engine, workspace: &mut Workspace) -> Result<Self> {
        let mut searched = Self {
            queries: workspace.take("tune.queries"),
            references: workspace.take("tune.references"),
            asked: workspace.take("tune.asked"),
            scratch: Scratch {
                kept: workspace.take("tune.kept"),
                survivors: workspace.take("tune.survivors"),
                counts: workspace.take("tune.counts"),
            },
        };
        // Any rows will do that are not all the same.
        let values = |count: usize| -> Vec<f32> {
            let value = |i: usize| ((i * 7919 % 1009) as f32 - 504.0) / 504.0 / 11.3;
            (0..count * DIM).map(value).collect()
        };
        let Self {
            queries,
            references,
            asked,
            ..
        } = &mut searched;
        engine.upload(queries, 0, &values(QUERIES)).await?;
        engine.upload(references, 0, &values(REFERENCES)).await?;
        let first = vec![QueryBound::first(u32::MAX); QUERIES];
        engine.upload(asked, 0, &first).await?;
        Ok(searched)
    }

    /// Seconds of a search of all queries.
    async fn time(&mut self, engine: &Engine, shape: TileShape) -> Result<f64> {
        // Queries of a submit, in searches of `QUERIES` at most; the first submit compiles the kernels, and its time does not
        // count.
        let mut submitted = FEWEST;
        let mut compiled_at = None;
        loop {
            let clock = engine.clock();
            let mut commands = engine.commands();
            let rows = submitted.min(QUERIES);
            for _ in 0..submitted / rows {
                self.search(&mut commands, rows, shape);
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
                return Ok(worked.as_secs_f64() * (QUERIES as f64 / submitted as f64));
            }
            submitted *= 4;
        }
    }

    /// Searches the neighbours of the first `rows` queries.
    fn search(&mut self, commands: &mut Commands, rows: usize, shape: TileShape) {
        let search = Search {
            first_row: 0,
            rows,
            references: REFERENCES,
            stride: DIM,
            k: K,
            first_id: 0,
        };
        let inputs = Inputs {
            queries: &self.queries,
            references: &self.references,
            asked: &self.asked,
        };
        knn::clear(commands, &search, inputs, &mut self.scratch);
        let mut done = 0;
        while done < search.visits() {
            let together = knn::visits_together(&search, shape, done).min(search.visits() - done);
            let visits = done..done + together;
            done = visits.end;
            knn::search(commands, &search, visits, shape, inputs, &mut self.scratch);
        }
    }
}
