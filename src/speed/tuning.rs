//! [`tune`]: finds the fastest shape of tiles of this GPU by timing a search with each. Changes no bit of a result.

use web_time::{Duration, Instant};

use crate::base::error::{Error, Result};
use crate::base::ledger::Purpose;
use crate::base::plan::MemoryPlan;
use crate::engine::device::TileShape;
use crate::engine::{Commands, DeviceVec, Engine, Workspace};
use crate::kernels::knn::{self, Inputs, QueryBound, Scratch, Search, VISIT};

/// Shortest time of searches that count, unless the limit is reached; and round trips to the device that they take longer than.
const LEAST: Duration = Duration::from_millis(10);
const ROUND_TRIPS: u32 = 10;
/// Time after which the last searches count, however short they were.
const LIMIT: Duration = Duration::from_millis(50);
/// Times that each shape is measured, in turns; the shortest counts.
const ROUNDS: usize = 3;
/// Part of the usual shape's time that another takes at most to be taken instead.
const CLEARLY: f64 = 0.9;
/// Queries of a search: at first as many as fill a tile, so that a slow GPU finishes them soon, too.
const FEWEST: usize = 64;
const QUERIES: usize = 1024;
/// The most searches of a submit, and the most submits.
const MOST: usize = 64;
const SUBMITS: usize = 64;
const REFERENCES: usize = 4 * VISIT;
const DIM: usize = 128;
const K: usize = 10;

/// Result of a tuning.
#[derive(Clone, Debug, PartialEq)]
pub struct Tuning {
    /// The shape to use: the usual one, unless another is faster by a clear margin.
    pub shape: TileShape,
    /// Time of a search of 1,024 queries with each shape, in milliseconds.
    pub times_ms: Vec<(TileShape, f64)>,
}

/// Times the search of 64 queries or more, as many as take ten round trips to the device, in 4,096 references of 128 numbers with
/// each shape, three times in turns: 0.1 to 0.4 s in all.
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
    let mut queries = [0; TileShape::ALL.len()];
    for (shape, queries) in TileShape::ALL.into_iter().zip(&mut queries) {
        *queries = searched.enough(engine, shape).await?;
    }
    let mut times_ms = TileShape::ALL.map(|shape| (shape, f64::INFINITY)).to_vec();
    for _ in 0..ROUNDS {
        for ((shape, least_ms), queries) in times_ms.iter_mut().zip(queries) {
            let worked = searched.time(engine, *shape, queries).await?;
            let of_all = QUERIES as f64 / queries as f64;
            *least_ms = least_ms.min(worked.as_secs_f64() * 1e3 * of_all);
        }
    }
    drop(searched);
    engine.settle().await?;
    let usual = TileShape::of_device(engine.info());
    Ok(Some(Tuning {
        shape: clearly_fastest(usual, &times_ms),
        times_ms,
    }))
}

/// The fastest shape if it is faster than the usual one by a clear margin, else the usual one.
fn clearly_fastest(usual: TileShape, times_ms: &[(TileShape, f64)]) -> TileShape {
    let of_usual = times_ms.iter().find(|(shape, _)| *shape == usual);
    let most = CLEARLY * of_usual.map_or(f64::INFINITY, |(_, ms)| *ms);
    let faster = times_ms.iter().filter(|(_, ms)| *ms <= most);
    let fastest = faster.min_by(|a, b| a.1.total_cmp(&b.1));
    fastest.map_or(usual, |(shape, _)| *shape)
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

    /// Number of queries whose search in this shape takes long enough to be timed.
    async fn enough(&mut self, engine: &Engine, shape: TileShape) -> Result<usize> {
        // The first search compiles the kernels.
        self.time(engine, shape, FEWEST).await?;
        let least = (ROUND_TRIPS * engine.round_trip()).clamp(LEAST, LIMIT);
        let (started, mut queries) = (Instant::now(), FEWEST);
        loop {
            let worked = self.time(engine, shape, queries).await?;
            let is_most = queries == QUERIES * MOST * SUBMITS;
            if worked >= least || started.elapsed() >= LIMIT || is_most {
                return Ok(queries);
            }
            queries *= 4;
        }
    }

    /// Time of the search of so many queries, in parts of [`QUERIES`] at most.
    async fn time(
        &mut self,
        engine: &Engine,
        shape: TileShape,
        queries: usize,
    ) -> Result<Duration> {
        let clock = engine.clock();
        let rows = queries.min(QUERIES);
        let searches = queries / rows;
        for first in (0..searches).step_by(MOST) {
            let mut commands = engine.commands();
            for _ in first..searches.min(first + MOST) {
                self.search(&mut commands, rows, shape);
            }
            engine.submit(commands);
        }
        engine.settle().await?;
        Ok(engine.worked(clock))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_margin_takes_another_shape_than_the_usual_one() {
        let chosen = |usual, [strip, tile, quads]: [f64; 3]| {
            let times = [
                (TileShape::Strip, strip),
                (TileShape::Tile, tile),
                (TileShape::Quads, quads),
            ];
            clearly_fastest(usual, &times)
        };
        let (strip, tile, quads) = (TileShape::Strip, TileShape::Tile, TileShape::Quads);
        assert_eq!(chosen(tile, [0.95, 1.0, 0.92]), tile);
        assert_eq!(chosen(tile, [0.5, 1.0, 1.0]), strip);
        assert_eq!(chosen(tile, [0.8, 1.0, 0.7]), quads);
        assert_eq!(chosen(strip, [1.0, 0.95, 0.95]), strip);
        assert_eq!(chosen(strip, [1.0, 0.5, 0.6]), tile);
    }
}
