//! Scoring: embeddings of a side, ranked by the evaluator.

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

/// What takes features to embeddings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Map {
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

    pub(super) async fn score_queries(
        &mut self,
        map: Map,
        rows: &[u32],
        queries: &[u32],
    ) -> Result<Option<Metrics>> {
        if rows.is_empty() {
            return Ok(None);
        }
        let dim = self.embed_on_engine(map, rows).await?;
        let labels = self.dataset.labels_of(rows);
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
            self.embed_on_engine(Map::Head, rows).await?;
            let count = (rows.len() * stride) as u64;
            let padded = self
                .engine
                .read(self.evaluator.references(), 0, count)
                .await?;
            values.extend(padded.chunks_exact(stride).flat_map(|row| &row[..dim]));
        }
        Ok(Embeddings { values, dim })
    }

    /// Embeds rows into the evaluator's references; returns the dimensions of an embedding.
    async fn embed_on_engine(&mut self, map: Map, rows: &[u32]) -> Result<usize> {
        let (model, activations) = match map {
            Map::Head => (&self.model, &mut self.tile),
            Map::Linear => {
                let linear = self.linear.as_mut().expect("a map that was fitted");
                (&linear.model, &mut linear.tile)
            }
        };
        let stride = stride(model.embedding_size());
        for (tile, rows) in rows.chunks(TILE_ROWS).enumerate() {
            let mut commands = self.engine.commands();
            self.features
                .stage(&self.engine, &mut commands, &self.dataset, rows)
                .await?;
            self.features
                .gather(&mut commands, 0, rows.len(), activations.input_mut());
            model.forward(&mut commands, rows.len(), activations);
            normalize::normalize(
                &mut commands,
                rows.len(),
                stride,
                activations.output(),
                tile * TILE_ROWS,
                self.evaluator.references_mut(),
            );
            self.engine.submit(commands);
            self.engine.breathe().await?;
        }
        Ok(model.embedding_size())
    }
}
