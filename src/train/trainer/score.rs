//! Scoring: embeddings of a side, ranked by the evaluator.

use std::rc::Rc;

use serde::{Deserialize, Serialize};

use super::Trainer;
use crate::base::error::Result;
use crate::base::forecast::Rate;
use crate::base::plan::MemoryPlan;
use crate::base::working::Task;
use crate::data::{Dataset, Side};
use crate::engine::pace::{Fetch, Slices};
use crate::judge::diagnostics::{self, Diagnostics};
use crate::kernels::stored::Precision;
use crate::kernels::{optimizer, stride};
use crate::model::embeddings::Embeddings;
use crate::model::unit_rows::UnitRows;
use crate::search::evaluation::{EvaluationSpec, Queries, Ranking};
use crate::search::metrics::{Judged, Metrics, Retrieval, RetrievalSum};
use crate::search::rows::{self, Classes};

/// Scores of an evaluation while training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Steps done.
    pub step: u64,
    /// Scores of as many training rows as validation has (whole classes if the split holds classes out).
    pub train: Option<Metrics>,
    /// Scores of the validation side.
    pub validation: Option<Metrics>,
    /// Distribution of the embeddings and movement of the head.
    pub diagnostics: Diagnostics,
}

/// An evaluation whose results are being read back.
pub(super) struct Scoring {
    rankings: Vec<Option<Ranking>>,
    embedded: Fetch<f32>,
    /// Number of the requested rows, which come first in `embedded`.
    rows: usize,
    squares: Fetch<f32>,
    drifted: Fetch<f32>,
    moved: Option<Fetch<f32>>,
}

/// A complete evaluation, with the embeddings that were asked for; [`Trainer::see_scored`] returns them.
#[derive(Debug)]
pub(crate) struct Scored {
    evaluation: Evaluation,
    embeddings: Embeddings,
    /// [`Trainer::drifted`] after this evaluation.
    drifted: [f64; 2],
}

/// The encoder of features into the rows that are ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoder {
    /// Identity: the features as the head sees them, scaled or not.
    Raw,
    /// The model in training.
    Head,
    /// The linear baseline.
    Linear,
}

/// Sides of an evaluation while training, in their order, with their progress messages.
const EVALUATED: [(Side, &str); 2] = [
    (Side::Train, "scoring training rows"),
    (Side::Validation, "scoring the validation rows"),
];

impl Encoder {
    /// Progress message while a side is scored through the encoder.
    pub(super) fn scoring(self, side: Side) -> String {
        let encoder = match self {
            Self::Raw => "raw features",
            Self::Linear => "linear map",
            Self::Head => "head",
        };
        format!("scoring the {} rows: {encoder}", side.name())
    }
}

impl Trainer {
    /// Scores the validation side, and as many training rows beside it.
    ///
    /// # Errors
    /// [`crate::Error::Device`], and [`crate::Error::Stopped`] between slices.
    pub async fn evaluate(&mut self) -> Result<Evaluation> {
        self.evaluate_and_embed(&[]).await.map(|(scored, _)| scored)
    }

    /// Scores as [`Trainer::evaluate`] does, and returns the unit embeddings of these rows too: waits once for both.
    ///
    /// # Errors
    /// As [`Trainer::evaluate`].
    pub async fn evaluate_and_embed(&mut self, rows: &[u32]) -> Result<(Evaluation, Embeddings)> {
        let (engine, mut pace) = (self.engine.clone(), self.evaluation_pace);
        let mut slices = Slices::new(&engine, &mut pace);
        let scoring = self.score_among(&mut slices, rows).await?;
        slices.collect().await?;
        let scored = self.read_scored(&mut slices, scoring);
        self.evaluation_pace = pace;
        Ok(self.see_scored(scored))
    }

    /// Tells if an evaluation is short enough to be sent after steps that are still in flight.
    pub(super) fn scores_are_short(&self) -> bool {
        let operations = [Side::Train, Side::Validation].map(|side| {
            let (rows, queries) = self.rows_and_queries(side);
            let (labels, cut) = (self.dataset.labels_of(&rows), self.evaluator.cut());
            let sizes = &self.setup.sizes;
            sizes
                .scoring(&labels, queries.len(), cut, &Rate::default())
                .operations
        });
        operations.iter().sum::<f64>() <= self.evaluation_pace.slice()
    }

    /// Sends an evaluation, and the unit embeddings of these rows, among other work; the results are still to be collected.
    pub(super) async fn score_among(
        &mut self,
        slices: &mut Slices<'_>,
        rows: &[u32],
    ) -> Result<Scoring> {
        let mut rankings = Vec::with_capacity(EVALUATED.len());
        for (side, what) in EVALUATED {
            let (rows, queries) = self.rows_and_queries(side);
            let sum = RetrievalSum::default();
            rankings.push(
                self.rank(
                    slices,
                    what,
                    Encoder::Head,
                    &rows,
                    &queries,
                    sum,
                    &mut |_, _| {},
                )
                .await?,
            );
        }
        let train = &self.setup.sides.train;
        let looked_at = rows::choose(train.len(), diagnostics::ROWS, self.config.data_seed());
        let looked_at = looked_at.iter().map(|i| train[*i as usize]);
        // Together with the requested rows: each call may be a submit of its own.
        let all: Vec<u32> = rows.iter().copied().chain(looked_at).collect();
        let dataset = Rc::clone(&self.dataset);
        let embedded = self.embed_among(slices, &dataset, &all).await?;
        let train = &mut self.train;
        slices.reserve(1).await?;
        optimizer::squares(
            slices.commands(),
            self.model.parameter_count(),
            &train.gradients.parameters,
            &mut train.squares,
        );
        let squares = slices
            .fetch(&train.squares, 0, optimizer::PARTS as u64)
            .await?;
        let drifted = slices.fetch(&train.drift.sums, 0, 2).await?;
        let moved = match &train.boundary {
            Some(boundary) => Some(slices.fetch(&boundary.moved, 0, 1).await?),
            None => None,
        };
        Ok(Scoring {
            rankings,
            embedded,
            rows: rows.len(),
            squares,
            drifted,
            moved,
        })
    }

    /// Results of an evaluation that was collected.
    pub(super) fn read_scored(&self, slices: &mut Slices<'_>, scoring: Scoring) -> Scored {
        let mut metrics = scoring.rankings.into_iter().map(|ranking| {
            let retrieval = ranking?.sum(slices).finish(&|_| String::new());
            retrieval.map(|retrieval| retrieval.metrics)
        });
        let (train, validation) = (metrics.next().flatten(), metrics.next().flatten());
        drop(metrics);
        let mut embeddings = self.unpadded(slices.take(scoring.embedded));
        let looked_at = Embeddings {
            values: embeddings.values.split_off(scoring.rows * embeddings.dim),
            dim: embeddings.dim,
        };
        let squares: f64 = slices
            .take(scoring.squares)
            .into_iter()
            .map(f64::from)
            .sum();
        let drifted = slices.take(scoring.drifted);
        let drifted = [f64::from(drifted[0]), f64::from(drifted[1])];
        let [pushes, steps] = [0, 1].map(|i| drifted[i] - self.drifted[i]);
        let diagnostics = Diagnostics {
            push: (steps > 0.0).then(|| pushes / steps),
            gradient_norm: (self.step > 0).then(|| squares.sqrt()),
            classes_seen: self.classes_seen(),
            boundary: scoring.moved.and_then(|moved| {
                let moved = f64::from(slices.take(moved)[0]);
                self.config.loss.boundary(moved, self.config.distance)
            }),
            ..Diagnostics::of(&looked_at)
        };
        let evaluation = Evaluation {
            step: self.step,
            train,
            validation,
            diagnostics,
        };
        Scored {
            evaluation,
            embeddings,
            drifted,
        }
    }

    /// Records an evaluation as made: the next one reports the movement of the embeddings since.
    pub(crate) fn see_scored(&mut self, scored: Scored) -> (Evaluation, Embeddings) {
        self.drifted = scored.drifted;
        (scored.evaluation, scored.embeddings)
    }

    /// Rows that a side is ranked among while training, and the places there of its queries.
    pub(super) fn rows_and_queries(&self, side: Side) -> (Vec<u32>, Vec<u32>) {
        let rows = match side {
            Side::Train => &self.setup.probe,
            Side::Validation => &self.setup.watched,
            Side::Test => &self.setup.sides.test,
        };
        let (most, seed) = (self.config.evaluate_queries, self.config.data_seed());
        self.setup.searched(side, rows, most, seed)
    }

    /// Rows that all rows of a side are ranked among, and the places there of `most` queries; 0 is all.
    pub(super) fn all_and_queries(&self, side: Side, most: usize) -> (Vec<u32>, Vec<u32>) {
        let rows = self.setup.sides.of(side);
        self.setup
            .searched(side, rows, most, self.config.data_seed())
    }

    /// Sets the number of rows that are scored at the end of a run; 0 is all.
    pub(crate) fn set_test_queries(&mut self, queries: usize) {
        self.config.test_queries = queries;
    }

    /// Sets the number of steps of the run.
    pub(crate) fn set_steps(&mut self, steps: u64) {
        self.config.steps = steps;
    }

    /// Scores one side by an encoder for the end of a run: a seeded choice of [`crate::TrainConfig::test_queries`] rows, each against
    /// all others, with the score of each query. The queries of all encoders are the same, in the same order. `None` if there is no
    /// such encoder.
    ///
    /// # Errors
    /// As [`Trainer::evaluate`].
    pub(crate) async fn score_each(
        &mut self,
        encoder: Encoder,
        side: Side,
    ) -> Result<Option<Judged>> {
        if encoder == Encoder::Linear {
            self.fit_linear().await?;
        }
        let (rows, queries) = self.all_and_queries(side, self.config.test_queries);
        let each = RetrievalSum::default().keep_queries();
        let what = encoder.scoring(side);
        let sum = self
            .ranked(&what, encoder, &rows, &queries, each, &mut |_, _| {})
            .await?;
        Ok(sum.and_then(|mut sum| {
            let queries = sum.take_queries();
            let retrieval = sum.finish(&|_| String::new())?;
            Some(Judged {
                metrics: retrieval.metrics,
                over_classes: retrieval.over_classes,
                queries,
            })
        }))
    }

    /// Means of the head's scores over the queries of [`Trainer::score_each`], with rows of a row's own group among its
    /// neighbours; `None` if rows have no groups.
    ///
    /// # Errors
    /// As [`Trainer::evaluate`].
    pub(crate) async fn score_own_group(&mut self, side: Side) -> Result<Option<Metrics>> {
        if self.config.group.is_none() {
            return Ok(None);
        }
        let (rows, queries) = self.all_and_queries(side, self.config.test_queries);
        let what = format!("{}, own group too", Encoder::Head.scoring(side));
        let sum = RetrievalSum::default().with_own_group();
        let sum = self
            .ranked(&what, Encoder::Head, &rows, &queries, sum, &mut |_, _| {})
            .await?;
        let retrieval = sum.and_then(|sum| sum.finish(&|_| String::new()));
        Ok(retrieval.map(|retrieval| retrieval.metrics))
    }

    /// Means of the head's scores over the queries of [`Trainer::score_each`], by features in single precision; `None` if those are
    /// what the run holds.
    ///
    /// # Errors
    /// As [`Trainer::evaluate`].
    pub(crate) async fn score_unrounded(&mut self, side: Side) -> Result<Option<Metrics>> {
        if self.setup.sizes.features == Precision::F32 {
            return Ok(None);
        }
        let (rows, queries) = self.all_and_queries(side, self.config.test_queries);
        let what = format!("{}, features in f32", Encoder::Head.scoring(side));
        self.features.unrounded = true;
        let scored = self
            .score_queries(&what, Encoder::Head, &rows, &queries)
            .await;
        self.features.unrounded = false;
        scored
    }

    /// Means of the head's scores over the queries that are not in `copies`, ascending; `None` if no query is in `copies`.
    ///
    /// # Errors
    /// As [`Trainer::evaluate`].
    pub(crate) async fn score_without(
        &mut self,
        copies: &[u32],
        side: Side,
    ) -> Result<Option<Metrics>> {
        let (rows, mut queries) = self.all_and_queries(side, self.config.test_queries);
        let all = queries.len();
        queries.retain(|place| copies.binary_search(&rows[*place as usize]).is_err());
        if queries.len() == all {
            return Ok(None);
        }
        let what = format!("{}, without copies", Encoder::Head.scoring(side));
        self.score_queries(&what, Encoder::Head, &rows, &queries)
            .await
    }

    /// All scores of a side by the head, with every row a query: recall and precision at each k of `at`, and scores by class.
    /// `progress` receives the number of queries done and the number of all.
    ///
    /// # Errors
    /// As [`Trainer::evaluate`].
    pub async fn score_fully(
        &mut self,
        side: Side,
        at: &[u64],
        mut progress: impl FnMut(u64, u64),
    ) -> Result<Option<Retrieval>> {
        let (rows, queries) = self.all_and_queries(side, 0);
        let sum = RetrievalSum::at(at);
        let sum = self
            .ranked(
                "scoring every row",
                Encoder::Head,
                &rows,
                &queries,
                sum,
                &mut progress,
            )
            .await?;
        let names = &self.dataset.class_names;
        Ok(sum.and_then(|sum| sum.finish(&|class| names[class as usize].clone())))
    }

    /// Means over some queries, ranked among `rows`.
    pub(super) async fn score_queries(
        &mut self,
        what: &str,
        encoder: Encoder,
        rows: &[u32],
        queries: &[u32],
    ) -> Result<Option<Metrics>> {
        let sum = RetrievalSum::default();
        let sum = self
            .ranked(what, encoder, rows, queries, sum, &mut |_, _| {})
            .await?;
        let retrieval = sum.and_then(|sum| sum.finish(&|_| String::new()));
        Ok(retrieval.map(|retrieval| retrieval.metrics))
    }

    /// Ranks rows among each other and waits for the result; `None` if there is no such encoder.
    async fn ranked(
        &mut self,
        what: &str,
        encoder: Encoder,
        rows: &[u32],
        queries: &[u32],
        sum: RetrievalSum,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Option<RetrievalSum>> {
        let (engine, mut pace) = (self.engine.clone(), self.evaluation_pace);
        let mut slices = Slices::new(&engine, &mut pace);
        let ranking = self
            .rank(&mut slices, what, encoder, rows, queries, sum, progress)
            .await?;
        slices.collect().await?;
        let sum = ranking.map(|ranking| ranking.sum(&mut slices));
        self.evaluation_pace = pace;
        Ok(sum)
    }

    /// Ranks rows as [`Trainer::ranked`] does, among other work; the last results are still to be collected.
    #[expect(
        clippy::too_many_arguments,
        reason = "what is ranked, by whom, and who listens"
    )]
    pub(super) async fn rank(
        &mut self,
        slices: &mut Slices<'_>,
        what: &str,
        encoder: Encoder,
        rows: &[u32],
        queries: &[u32],
        sum: RetrievalSum,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Option<Ranking>> {
        let Self {
            dataset,
            features,
            model,
            tile,
            linear,
            evaluator,
            setup,
            ..
        } = self;
        let (model, tile) = match (encoder, linear) {
            (Encoder::Raw, _) => (None, tile),
            (Encoder::Linear, Ok(linear)) => (Some(&linear.model), &mut linear.tile),
            (Encoder::Linear, Err(_)) => return Ok(None),
            (Encoder::Head, _) => (Some(&*model), tile),
        };
        let mut unit = UnitRows::Embedded {
            features,
            dataset,
            model,
            tile,
            chosen: rows,
        };
        let labels = dataset.labels_of(rows);
        let groups = setup.groups_of(rows).filter(|_| sum.is_across());
        let classes = Classes {
            labels: &labels,
            groups: groups.as_deref(),
        };
        let spec = EvaluationSpec::of(&labels, unit.dim(), queries.len());
        let forecast = spec.forecast(evaluator.cut(), MemoryPlan::default(), &Rate::default());
        let brought = forecast.passes as f64 * labels.len() as f64;
        // Queries of a block are also compared with the references of their classes, once more.
        let blocks = (queries.len() as u64)
            .div_ceil(forecast.block_queries)
            .max(1);
        let looked = forecast.operations * (1.0 + 1.0 / blocks as f64);
        let task = Task {
            what: what.to_owned(),
            unit: "queries",
            total: queries.len() as u64,
        };
        slices.begin(task, looked + brought * unit.operations());
        let queries = Queries::Own(queries);
        evaluator
            .score(slices, classes, &mut unit, queries, sum, progress)
            .await
            .map(Some)
    }

    /// Unit embeddings of these rows.
    ///
    /// # Errors
    /// As [`Trainer::evaluate`].
    pub async fn embed(&mut self, rows: &[u32]) -> Result<Embeddings> {
        self.embed_of(&Rc::clone(&self.dataset), rows).await
    }

    /// Unit embeddings of the rows without a label.
    ///
    /// # Errors
    /// As [`Trainer::evaluate`].
    pub(crate) async fn embed_aside(&mut self) -> Result<Embeddings> {
        let aside = self.dataset.of_aside();
        let rows: Vec<u32> = (0..aside.features.rows() as u32).collect();
        // Rows that are stored on the engine are those of the data.
        self.features.unrounded = true;
        let embedded = self.embed_of(&aside, &rows).await;
        self.features.unrounded = false;
        embedded
    }

    async fn embed_of(&mut self, dataset: &Dataset, rows: &[u32]) -> Result<Embeddings> {
        let (engine, mut pace) = (self.engine.clone(), self.evaluation_pace);
        let mut slices = Slices::new(&engine, &mut pace);
        let task = Task {
            what: "computing embeddings".to_owned(),
            unit: "rows",
            total: rows.len() as u64,
        };
        slices.begin(
            task,
            (rows.len() * self.model.parameter_count()) as f64 * 2.0,
        );
        let embedded = self.embed_among(&mut slices, dataset, rows).await?;
        slices.collect().await?;
        Ok(self.unpadded(slices.take(embedded)))
    }

    /// Starts to read the unit embeddings of these rows back, `[rows, stride]`.
    async fn embed_among(
        &mut self,
        slices: &mut Slices<'_>,
        dataset: &Dataset,
        rows: &[u32],
    ) -> Result<Fetch<f32>> {
        let stride = stride(self.model.embedding_size());
        let mut embedded = UnitRows::Embedded {
            features: &mut self.features,
            dataset,
            model: Some(&self.model),
            tile: &mut self.tile,
            chosen: rows,
        };
        let at_once = self.evaluator.capacity();
        let unit = self.evaluator.references_mut();
        let mut fetched = Fetch::default();
        for first in (0..rows.len()).step_by(at_once) {
            let places = first as u32..rows.len().min(first + at_once) as u32;
            let count = (places.len() * stride) as u64;
            embedded.bring_among(slices, places, unit, 0).await?;
            fetched.append(slices.fetch(unit, 0, count).await?);
        }
        Ok(fetched)
    }

    fn unpadded(&self, padded: Vec<f32>) -> Embeddings {
        let dim = self.model.embedding_size();
        let rows = padded.chunks_exact(stride(dim));
        let mut values = Vec::with_capacity(rows.len() * dim);
        rows.for_each(|row| values.extend_from_slice(&row[..dim]));
        Embeddings { values, dim }
    }
}
