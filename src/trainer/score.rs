//! Scoring: the model's embeddings and the raw features of a side, ranked by the evaluator.

use serde::{Deserialize, Serialize};

use super::Trainer;
use crate::dataset::Side;
use crate::embeddings::Embeddings;
use crate::error::Result;
use crate::evaluation::{self, Queries, TILE_ROWS};
use crate::kernels::{normalize, stride};
use crate::metrics::Metrics;

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
        if rows.is_empty() {
            return Ok(None);
        }
        let most = if all { 0 } else { self.config.evaluate_queries };
        let (mut features, dim) = (Vec::new(), self.dataset.features.dim());
        self.dataset.features.read(rows, &mut features).await?;
        let labels = self.dataset.labels_of(rows);
        let queries = evaluation::choose(rows.len(), most, self.config.seed);
        self.evaluator.load(&self.engine, &features, dim).await?;
        self.evaluator
            .score(&self.engine, &labels, dim, Queries::Own(&queries))
            .await
    }

    async fn score(&mut self, rows: &[u32]) -> Result<Option<Metrics>> {
        let queries =
            evaluation::choose(rows.len(), self.config.evaluate_queries, self.config.seed);
        self.score_queries(rows, &queries).await
    }

    async fn score_queries(&mut self, rows: &[u32], queries: &[u32]) -> Result<Option<Metrics>> {
        if rows.is_empty() {
            return Ok(None);
        }
        self.embed_on_engine(rows).await?;
        let (labels, dim) = (self.dataset.labels_of(rows), self.model.embedding_size());
        self.evaluator
            .score(&self.engine, &labels, dim, Queries::Own(queries))
            .await
    }

    /// Unit embeddings of these rows; as many at once as the largest side has.
    ///
    /// # Errors
    /// As [`Trainer::evaluate`].
    pub async fn embed(&mut self, rows: &[u32]) -> Result<Embeddings> {
        let (dim, stride) = (
            self.model.embedding_size(),
            stride(self.model.embedding_size()),
        );
        let mut values = Vec::with_capacity(rows.len() * dim);
        for rows in rows.chunks(self.setup.sizes.evaluation.references.max(1)) {
            self.embed_on_engine(rows).await?;
            let count = (rows.len() * stride) as u64;
            let padded = self
                .engine
                .read(self.evaluator.references(), 0, count)
                .await?;
            values.extend(padded.chunks_exact(stride).flat_map(|row| &row[..dim]));
        }
        Ok(Embeddings { values, dim })
    }

    /// Embeds rows into the evaluator's references.
    async fn embed_on_engine(&mut self, rows: &[u32]) -> Result<()> {
        let stride = stride(self.model.embedding_size());
        for (tile, rows) in rows.chunks(TILE_ROWS).enumerate() {
            let mut commands = self.engine.commands();
            self.features
                .stage(&self.engine, &mut commands, &self.dataset, rows)
                .await?;
            self.features
                .gather(&mut commands, 0, rows.len(), self.tile.input_mut());
            self.model
                .forward(&mut commands, rows.len(), &mut self.tile);
            normalize::normalize(
                &mut commands,
                rows.len(),
                stride,
                self.tile.output(),
                tile * TILE_ROWS,
                self.evaluator.references_mut(),
            );
            self.engine.submit(commands);
            self.engine.breathe().await?;
        }
        Ok(())
    }
}
