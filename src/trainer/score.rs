//! Scoring: embeddings of a side, ranked by the evaluator.

use serde::{Deserialize, Serialize};

use super::Trainer;
use crate::dataset::Side;
use crate::embeddings::Embeddings;
use crate::error::Result;
use crate::evaluation::{self, Queries};
use crate::kernels::stride;
use crate::metrics::Metrics;
use crate::unit_rows::UnitRows;

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

/// What takes features to what is ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Map {
    /// Nothing: the features as they are.
    Raw,
    /// The model that is trained.
    Head,
    /// The linear baseline.
    Linear,
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
        self.score_queries(Map::Head, &rows, &queries).await
    }

    async fn score(&mut self, rows: &[u32]) -> Result<Option<Metrics>> {
        let queries =
            evaluation::choose(rows.len(), self.config.evaluate_queries, self.config.seed);
        self.score_queries(Map::Head, rows, &queries).await
    }

    /// Ranks rows among each other.
    pub(super) async fn score_queries(
        &mut self,
        map: Map,
        rows: &[u32],
        queries: &[u32],
    ) -> Result<Option<Metrics>> {
        let Self {
            engine,
            dataset,
            features,
            model,
            tile,
            linear,
            evaluator,
            intake,
            ..
        } = self;
        let mut unit = match (map, linear) {
            (Map::Raw, _) => UnitRows::Stored {
                rows: &dataset.features,
                chosen: Some(rows),
            },
            (Map::Linear, Ok(linear)) => UnitRows::Embedded {
                features,
                dataset,
                model: &linear.model,
                tile: &mut linear.tile,
                chosen: rows,
            },
            (Map::Linear, Err(_)) => return Ok(None),
            (Map::Head, _) => UnitRows::Embedded {
                features,
                dataset,
                model,
                tile,
                chosen: rows,
            },
        };
        let (labels, queries) = (dataset.labels_of(rows), Queries::Own(queries));
        let mut nobody = |_, _| {};
        let sum = evaluator
            .score(
                engine,
                intake,
                &labels,
                &mut unit,
                queries,
                &[],
                &mut nobody,
            )
            .await?;
        let retrieval = sum.finish(|_| String::new());
        Ok(retrieval.map(|retrieval| retrieval.metrics))
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
