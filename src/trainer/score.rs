//! Scoring: embeddings of a side, ranked by the evaluator.

use serde::{Deserialize, Serialize};

use super::Trainer;
use crate::dataset::Side;
use crate::embeddings::Embeddings;
use crate::error::Result;
use crate::evaluation::{self, Queries};
use crate::kernels::stride;
use crate::metrics::{Metrics, QueryScore, Retrieval, RetrievalSum};
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
pub(crate) enum Map {
    /// Nothing: the features as the head sees them, scaled or not.
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

    /// Scores one side in full by a map, every row a query, and each query by itself: for the end of a run. The queries of
    /// all maps are the same, in the same order. Nothing where there is no such map.
    ///
    /// # Errors
    /// As [`Trainer::evaluate`].
    pub(crate) async fn score_each(
        &mut self,
        map: Map,
        side: Side,
    ) -> Result<Option<(Metrics, Vec<QueryScore>)>> {
        if map == Map::Linear {
            self.fit_linear().await?;
        }
        let rows = self.setup.sides.of(side).to_vec();
        let queries = evaluation::choose(rows.len(), 0, 0);
        let each = RetrievalSum::default().keep_queries();
        let sum = self
            .rank(map, &rows, &queries, each, &mut |_, _| {})
            .await?;
        Ok(sum.and_then(|mut sum| {
            let queries = sum.take_queries();
            let retrieval = sum.finish(|_| String::new())?;
            Some((retrieval.metrics, queries))
        }))
    }

    /// The same with everything that the ranks say: recall and precision at each k of `at`, and by class.
    /// `progress` hears how many queries of how many are done.
    ///
    /// # Errors
    /// As [`Trainer::evaluate`].
    pub async fn score_fully(
        &mut self,
        side: Side,
        at: &[u64],
        mut progress: impl FnMut(u64, u64),
    ) -> Result<Option<Retrieval>> {
        let rows = self.setup.sides.of(side).to_vec();
        let queries = evaluation::choose(rows.len(), 0, 0);
        let sum = self
            .rank(
                Map::Head,
                &rows,
                &queries,
                RetrievalSum::at(at),
                &mut progress,
            )
            .await?;
        let names = &self.dataset.class_names;
        Ok(sum.and_then(|sum| sum.finish(|class| names[class as usize].clone())))
    }

    async fn score(&mut self, rows: &[u32]) -> Result<Option<Metrics>> {
        let queries =
            evaluation::choose(rows.len(), self.config.evaluate_queries, self.config.seed);
        self.score_queries(Map::Head, rows, &queries).await
    }

    /// The means over some rows, ranked among others.
    pub(super) async fn score_queries(
        &mut self,
        map: Map,
        rows: &[u32],
        queries: &[u32],
    ) -> Result<Option<Metrics>> {
        let sum = RetrievalSum::default();
        let sum = self.rank(map, rows, queries, sum, &mut |_, _| {}).await?;
        let retrieval = sum.and_then(|sum| sum.finish(|_| String::new()));
        Ok(retrieval.map(|retrieval| retrieval.metrics))
    }

    /// Ranks rows among each other; nothing where there is no such map.
    async fn rank(
        &mut self,
        map: Map,
        rows: &[u32],
        queries: &[u32],
        sum: RetrievalSum,
        progress: &mut impl FnMut(u64, u64),
    ) -> Result<Option<RetrievalSum>> {
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
            (Map::Raw, _) => UnitRows::Embedded {
                features,
                dataset,
                model: None,
                tile,
                chosen: rows,
            },
            (Map::Linear, Ok(linear)) => UnitRows::Embedded {
                features,
                dataset,
                model: Some(&linear.model),
                tile: &mut linear.tile,
                chosen: rows,
            },
            (Map::Linear, Err(_)) => return Ok(None),
            (Map::Head, _) => UnitRows::Embedded {
                features,
                dataset,
                model: Some(model),
                tile,
                chosen: rows,
            },
        };
        let (labels, queries) = (dataset.labels_of(rows), Queries::Own(queries));
        evaluator
            .score(engine, intake, &labels, &mut unit, queries, sum, progress)
            .await
            .map(Some)
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
            model: Some(&self.model),
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
