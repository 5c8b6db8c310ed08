//! Scoring: the model's embeddings and the raw features of a side, ranked by the evaluator.

use serde::{Deserialize, Serialize};

use super::Trainer;
use crate::dataset::Side;
use crate::embeddings::Embeddings;
use crate::engine::Engine;
use crate::error::Result;
use crate::evaluation::{self, Evaluator, Queries};
use crate::kernels::stride;
use crate::metrics::Metrics;
use crate::unit_rows::{Intake, UnitRows};

/// How well embeddings find their class while training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Steps done.
    pub step: u64,
    /// As many training rows as validation has (whole classes where the split holds classes out).
    pub train: Option<Metrics>,
    /// The validation side.
    pub validation: Option<Metrics>,
}

impl Trainer {
    /// Scores the validation side, and as many training rows beside it.
    ///
    /// # Errors
    /// [`crate::Error::Device`], and [`crate::Error::Stopped`] between slices.
    pub async fn evaluate(&mut self) -> Result<Evaluation> {
        let probe = self.setup.probe.clone();
        let validation = self.setup.sides.validation.clone();
        Ok(Evaluation {
            step: self.step,
            train: self.score(&probe).await?,
            validation: self.score(&validation).await?,
        })
    }

    /// Scores one side in full, every row a query: for the end of a run.
    ///
    /// # Errors
    /// As [`Trainer::evaluate`].
    pub async fn score_all(&mut self, side: Side) -> Result<Option<Metrics>> {
        let rows = self.setup.sides.of(side).to_vec();
        let queries = evaluation::choose(rows.len(), 0, 0);
        self.score_queries(&rows, &queries).await
    }

    /// Scores the raw features of a side, every row a query where `all`, else the seeded choice of an evaluation.
    ///
    /// # Errors
    /// As [`Trainer::evaluate`].
    pub async fn score_raw(&mut self, side: Side, all: bool) -> Result<Option<Metrics>> {
        let rows = self.setup.sides.of(side);
        let most = if all { 0 } else { self.config.evaluate_queries };
        let queries = evaluation::choose(rows.len(), most, self.config.seed);
        let mut raw = UnitRows::Stored {
            rows: &self.dataset.features,
            chosen: Some(rows),
        };
        let (evaluator, intake) = (&mut self.evaluator, &mut self.intake);
        let labels = self.dataset.labels_of(rows);
        rank(&self.engine, evaluator, intake, &labels, &mut raw, &queries).await
    }

    async fn score(&mut self, rows: &[u32]) -> Result<Option<Metrics>> {
        let queries =
            evaluation::choose(rows.len(), self.config.evaluate_queries, self.config.seed);
        self.score_queries(rows, &queries).await
    }

    async fn score_queries(&mut self, rows: &[u32], queries: &[u32]) -> Result<Option<Metrics>> {
        let mut embedded = UnitRows::Embedded {
            features: &mut self.features,
            dataset: &self.dataset,
            model: &self.model,
            tile: &mut self.tile,
            chosen: rows,
        };
        let (evaluator, intake) = (&mut self.evaluator, &mut self.intake);
        let labels = self.dataset.labels_of(rows);
        rank(
            &self.engine,
            evaluator,
            intake,
            &labels,
            &mut embedded,
            queries,
        )
        .await
    }

    /// Unit embeddings of these rows.
    ///
    /// # Errors
    /// As [`Trainer::evaluate`].
    pub async fn embed(&mut self, rows: &[u32]) -> Result<Embeddings> {
        let dim = self.model.embedding_size();
        let mut values = Vec::with_capacity(rows.len() * dim);
        let mut embedded = UnitRows::Embedded {
            features: &mut self.features,
            dataset: &self.dataset,
            model: &self.model,
            tile: &mut self.tile,
            chosen: rows,
        };
        let at_once = self.evaluator.capacity();
        let (engine, unit) = (&self.engine, self.evaluator.references_mut());
        for first in (0..rows.len()).step_by(at_once) {
            let places = first as u32..rows.len().min(first + at_once) as u32;
            let count = (places.len() * stride(dim)) as u64;
            embedded
                .bring(engine, &mut self.intake, places, unit, 0)
                .await?;
            let padded = engine.read(unit, 0, count).await?;
            values.extend(padded.chunks_exact(stride(dim)).flat_map(|row| &row[..dim]));
        }
        Ok(Embeddings { values, dim })
    }
}

/// Ranks these rows among each other.
async fn rank(
    engine: &Engine,
    evaluator: &mut Evaluator,
    intake: &mut Intake,
    labels: &[u32],
    rows: &mut UnitRows<'_>,
    queries: &[u32],
) -> Result<Option<Metrics>> {
    let queries = Queries::Own(queries);
    let mut nobody = |_, _| {};
    let sum = evaluator
        .score(engine, intake, labels, rows, queries, &[], &mut nobody)
        .await?;
    Ok(sum
        .finish(|_| String::new())
        .map(|retrieval| retrieval.metrics))
}
