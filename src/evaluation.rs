//! [`Evaluator`]: the evaluation phase. Takes unit rows with labels, gives [`Metrics`] by ranking every query's
//! positives among all references, block by block, in memory that its plan fixes.

use std::collections::HashMap;

use rand::seq::SliceRandom as _;
use web_time::Instant;

use crate::dataset::Labelled;
use crate::engine::{DeviceVec, Engine, Workspace};
use crate::error::{Error, Result};
use crate::features::pad;
use crate::kernels::ranks::{self, Block, Inputs, NO_ID, Row, Scratch};
use crate::kernels::{self, gather, normalize, stride};
use crate::ledger::Purpose;
use crate::metrics::{Metrics, MetricsSum};
use crate::pace::Pace;
use crate::plan::MemoryPlan;
use crate::rng;

/// The most queries of a block.
const BLOCK_QUERIES: usize = 1024;
/// Thresholds that a block has room for, unless one query alone has more.
const BLOCK_THRESHOLDS: usize = 1 << 20;
/// Rows that are normalized at once on their way in.
pub(crate) const TILE_ROWS: usize = 256;

/// What an evaluation has to have room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EvaluationSize {
    /// References of the largest side.
    pub(crate) references: usize,
    /// Columns of the widest rows.
    pub(crate) dim: usize,
    /// Queries at most.
    pub(crate) queries: usize,
    /// Positives of one query at most.
    pub(crate) positives: usize,
}

impl EvaluationSize {
    /// The size for a set of labels, evaluated against itself or by other queries.
    pub(crate) fn of(labels: &[u32], dim: usize, queries: usize) -> Self {
        Self {
            references: labels.len(),
            dim,
            queries,
            positives: class_counts(labels).into_iter().max().unwrap_or(0) as usize,
        }
    }

    /// The size that has room for both.
    pub(crate) fn max(self, other: Self) -> Self {
        Self {
            references: self.references.max(other.references),
            dim: self.dim.max(other.dim),
            queries: self.queries.max(other.queries),
            positives: self.positives.max(other.positives),
        }
    }

    fn block_queries(&self) -> usize {
        self.queries.clamp(1, BLOCK_QUERIES)
    }

    fn block_thresholds(&self) -> usize {
        self.positives
            .saturating_mul(self.block_queries())
            .min(BLOCK_THRESHOLDS)
            .max(self.positives)
            .max(1)
    }
}

/// Scores embeddings: every row a query, against `references`, or against each other with the row itself left out.
///
/// # Errors
/// [`Error::Data`] when dimensions differ or no query has a positive; [`Error::Refused`] when the references do not fit
/// the engine's budget.
pub async fn evaluate(
    engine: &Engine,
    queries: &Labelled,
    references: Option<&Labelled>,
) -> Result<Metrics> {
    let known = references.unwrap_or(queries);
    if known.dim != queries.dim {
        return Err(Error::Data(format!(
            "references have {} dimensions, embeddings {}: they must be as many",
            known.dim, queries.dim
        )));
    }
    let mut classes = HashMap::new();
    let reference_labels = numbered(&mut classes, &known.labels);
    let query_labels = numbered(&mut classes, &queries.labels);
    let size = EvaluationSize::of(&reference_labels, known.dim, queries.labels.len());
    let plan = Evaluator::plan(MemoryPlan::default(), &size);
    engine.prepare(&kernels::ALL).await?;
    let advice = "raise the budget or evaluate against fewer references";
    let mut workspace = engine.workspace("evaluation", &plan, advice).await?;
    let mut evaluator = Evaluator::new(&mut workspace, size);
    evaluator.load(engine, &known.values, known.dim).await?;
    let own: Vec<u32> = (0..query_labels.len() as u32).collect();
    let asked = match references {
        None => Queries::Own(&own),
        Some(_) => Queries::Apart {
            rows: &queries.values,
            labels: &query_labels,
        },
    };
    let metrics = evaluator
        .score(engine, &reference_labels, known.dim, asked)
        .await?;
    metrics.ok_or_else(|| {
        Error::Data(
            "no query has another row of its label: there is nothing to retrieve".to_owned(),
        )
    })
}

/// Gives every new name the next number.
fn numbered<'a>(classes: &mut HashMap<&'a str, u32>, names: &'a [String]) -> Vec<u32> {
    let mut number = |name: &'a String| {
        let next = classes.len() as u32;
        *classes.entry(name.as_str()).or_insert(next)
    };
    names.iter().map(&mut number).collect()
}

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Queries<'a> {
    /// References, by number: each leaves itself out.
    Own(&'a [u32]),
    /// Rows of their own, dense `[labels, dim]`, of any length.
    Apart {
        /// The rows.
        rows: &'a [f32],
        /// The class of each, in the references' classes.
        labels: &'a [u32],
    },
}

/// The buffers of the phase.
#[derive(Debug)]
pub(crate) struct Evaluator {
    references: DeviceVec<f32>,
    tags: DeviceVec<[u32; 2]>,
    queries: DeviceVec<f32>,
    incoming: DeviceVec<f32>,
    numbers: DeviceVec<u32>,
    batch: DeviceVec<Row>,
    scratch: Scratch,
    size: EvaluationSize,
    pace: Pace,
}

impl Evaluator {
    pub(crate) fn plan(plan: MemoryPlan, size: &EvaluationSize) -> MemoryPlan {
        let stride = stride(size.dim) as u64;
        let (queries, thresholds) = (size.block_queries() as u64, size.block_thresholds() as u64);
        plan.with::<f32>(
            Purpose::Neighbours,
            "evaluate.references",
            size.references as u64 * stride,
        )
        .with::<[u32; 2]>(Purpose::Neighbours, "evaluate.tags", size.references as u64)
        .with::<f32>(Purpose::Neighbours, "evaluate.queries", queries * stride)
        .with::<f32>(
            Purpose::Staging,
            "evaluate.incoming",
            TILE_ROWS as u64 * stride,
        )
        .with::<u32>(Purpose::Staging, "evaluate.numbers", queries)
        .with::<Row>(Purpose::Ranks, "evaluate.rows", queries)
        .with::<[u32; 2]>(Purpose::Ranks, "evaluate.thresholds", thresholds)
        .with::<u32>(Purpose::Ranks, "evaluate.books", thresholds + queries)
    }

    pub(crate) fn new(workspace: &mut Workspace, size: EvaluationSize) -> Self {
        Self {
            references: workspace.take("evaluate.references"),
            tags: workspace.take("evaluate.tags"),
            queries: workspace.take("evaluate.queries"),
            incoming: workspace.take("evaluate.incoming"),
            numbers: workspace.take("evaluate.numbers"),
            batch: workspace.take("evaluate.rows"),
            scratch: Scratch {
                thresholds: workspace.take("evaluate.thresholds"),
                books: workspace.take("evaluate.books"),
            },
            size,
            pace: Pace::default(),
        }
    }

    /// Where unit rows are written before [`Evaluator::score`], `[references, stride]`.
    pub(crate) fn references_mut(&mut self) -> &mut DeviceVec<f32> {
        &mut self.references
    }

    /// The unit rows, `[references, stride]`.
    pub(crate) fn references(&self) -> &DeviceVec<f32> {
        &self.references
    }

    /// Normalizes dense rows and makes them the references.
    ///
    /// # Errors
    /// As [`Engine::upload`].
    pub(crate) async fn load(&mut self, engine: &Engine, rows: &[f32], dim: usize) -> Result<()> {
        let incoming = &mut self.incoming;
        bring_in(engine, rows, dim, incoming, &mut self.references).await
    }

    /// Ranks each query's positives among the references, whose classes are `labels`; `None` if all queries are lone.
    ///
    /// # Errors
    /// As [`Engine::read`] and [`Engine::breathe`].
    pub(crate) async fn score(
        &mut self,
        engine: &Engine,
        labels: &[u32],
        dim: usize,
        queries: Queries<'_>,
    ) -> Result<Option<Metrics>> {
        let stride = stride(dim);
        let tags: Vec<[u32; 2]> = labels
            .iter()
            .zip(0..)
            .map(|(label, id)| [*label, id])
            .collect();
        engine.upload(&mut self.tags, 0, &tags).await?;
        let counts = class_counts(labels);
        let mut sum = MetricsSum::default();
        let asked = match queries {
            Queries::Own(numbers) => numbers.len(),
            Queries::Apart { labels, .. } => labels.len(),
        };
        let mut rows = Vec::new();
        for query in 0..asked {
            let (label, id) = match queries {
                Queries::Own(numbers) => (labels[numbers[query] as usize], numbers[query]),
                Queries::Apart { labels, .. } => (labels[query], NO_ID),
            };
            let same = counts.get(label as usize).copied().unwrap_or(0);
            match same - u32::from(id != NO_ID) {
                0 => sum.add_lone(),
                positives => rows.push((
                    query,
                    Row {
                        label,
                        id,
                        offset: 0,
                        positives,
                    },
                )),
            }
        }
        let operations = 2.0 * (labels.len() * stride) as f64;
        let mut rest = &rows[..];
        while !rest.is_empty() {
            engine.breathe().await?;
            let most = self.pace.units(operations, self.size.block_queries());
            let (block, thresholds) = self.next_block(rest, most);
            rest = &rest[block.len()..];
            let started = Instant::now();
            let numbers: Vec<usize> = block.iter().map(|(query, _)| *query).collect();
            self.fetch(engine, dim, queries, &numbers).await?;
            let batch: Vec<Row> = block.into_iter().map(|(_, row)| row).collect();
            let mut commands = engine.commands();
            commands.upload(&mut self.batch, 0, &batch);
            let block = Block {
                first_row: 0,
                rows: batch.len(),
                batch: 0,
                references: labels.len(),
                stride,
            };
            let inputs = Inputs {
                anchors: &self.queries,
                references: &self.references,
                batch: &self.batch,
                tags: &self.tags,
            };
            ranks::gaps(&mut commands, &block, inputs, &mut self.scratch);
            engine.submit(commands);
            let count = (thresholds + batch.len()) as u64;
            let books = engine.read(&self.scratch.books, 0, count).await?;
            for (i, row) in batch.iter().enumerate() {
                sum.add(&books[row.offset as usize + i..][..=row.positives as usize]);
            }
            self.pace
                .record(operations * batch.len() as f64, started.elapsed());
        }
        Ok(sum.finish())
    }

    /// As many of the next queries as fit, at most `most` but one at least, with their places; and their thresholds.
    fn next_block(&self, rest: &[(usize, Row)], most: usize) -> (Vec<(usize, Row)>, usize) {
        let mut block = Vec::new();
        let mut thresholds = 0;
        for (query, row) in rest.iter().take(most) {
            let after = thresholds + row.positives as usize;
            if after > self.size.block_thresholds() {
                break;
            }
            let offset = thresholds as u32;
            block.push((*query, Row { offset, ..*row }));
            thresholds = after;
        }
        (block, thresholds)
    }

    /// Makes these queries the anchors of the next pass.
    async fn fetch(
        &mut self,
        engine: &Engine,
        dim: usize,
        queries: Queries<'_>,
        asked: &[usize],
    ) -> Result<()> {
        match queries {
            Queries::Own(numbers) => {
                let numbers: Vec<u32> = asked.iter().map(|query| numbers[*query]).collect();
                let mut commands = engine.commands();
                commands.upload(&mut self.numbers, 0, &numbers);
                let (references, numbers, count) = (&self.references, &self.numbers, numbers.len());
                let to = &mut self.queries;
                gather::gather(
                    &mut commands,
                    references,
                    numbers,
                    0,
                    count,
                    stride(dim),
                    to,
                );
                engine.submit(commands);
                Ok(())
            }
            Queries::Apart { rows, .. } => {
                let rows: Vec<f32> = asked
                    .iter()
                    .flat_map(|query| &rows[query * dim..][..dim])
                    .copied()
                    .collect();
                bring_in(engine, &rows, dim, &mut self.incoming, &mut self.queries).await
            }
        }
    }
}

/// Pads and normalizes dense rows into `unit`, tile by tile.
async fn bring_in(
    engine: &Engine,
    rows: &[f32],
    dim: usize,
    incoming: &mut DeviceVec<f32>,
    unit: &mut DeviceVec<f32>,
) -> Result<()> {
    let stride = stride(dim);
    for (tile, rows) in rows.chunks(TILE_ROWS * dim).enumerate() {
        let count = rows.len() / dim;
        engine.upload(incoming, 0, &pad(rows, dim)).await?;
        let mut commands = engine.commands();
        normalize::normalize(
            &mut commands,
            count,
            stride,
            incoming,
            tile * TILE_ROWS,
            unit,
        );
        engine.submit(commands);
        engine.breathe().await?;
    }
    Ok(())
}

/// A seeded choice of `most` of `count` rows, ascending; all of them where `most` is 0 or more than there are.
pub(crate) fn choose(count: usize, most: usize, seed: u64) -> Vec<u32> {
    let mut rows: Vec<u32> = (0..count as u32).collect();
    if most > 0 && most < count {
        rows.shuffle(&mut rng::stream(seed, "queries"));
        rows.truncate(most);
        rows.sort_unstable();
    }
    rows
}

fn class_counts(labels: &[u32]) -> Vec<u32> {
    let mut counts = vec![0; labels.iter().max().map_or(0, |most| *most as usize + 1)];
    for label in labels {
        counts[*label as usize] += 1;
    }
    counts
}
