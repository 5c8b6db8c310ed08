//! Scoring of a comparison: the baselines and the test side, on the sides that the settings say, or on folds of all rows that are not
//! tested.
//!
//! Folds are scored with the intervals of [`super::judge`] for the queries of all folds together: for the mean error of the heads of
//! the folds these hold as they do for one head (Bayle et al. 2020, Cross-validation Confidence Intervals for Test Error).

use web_time::Instant;

use super::contest::Contest;
use super::judge::Queries;
use super::report::TestScore;
use super::row::{Row, Scored};
use super::{CompareProgress, Comparison, RowKind, at_random};
use crate::base::error::{Error, Result};
use crate::base::order;
use crate::data::by_class::class_counts;
use crate::data::{Dataset, Side, Sides};
use crate::rules::config::Split;
use crate::search::metrics::QueryScore;
use crate::train::trainer::Encoder;

/// Queries that the baselines answered.
#[derive(Debug, Default)]
pub(super) struct Judged {
    queries: Vec<QueryScore>,
    /// Some are of a class that was trained on.
    known: bool,
}

impl Contest {
    /// The sides of each fold: rows that are tested are in none. Without folds there are no such sides.
    ///
    /// # Errors
    /// As [`Sides::new`]; [`Error::Config`] for fewer classes or groups than folds, where these stay whole.
    pub(super) fn fold_sides(&self, dataset: &Dataset) -> Result<Vec<Sides>> {
        if self.folds == 0 {
            return Ok(Vec::new());
        }
        let Sides {
            train, validation, ..
        } = Sides::new(dataset, &self.base)?;
        let rows = [train, validation].concat();
        let (units, kind) = match self.base.split {
            Split::ByClass | Split::ByClassShuffled => (Some(dataset.labels.clone()), "classes"),
            _ => (dataset.groups(&self.base)?, "groups or rows"),
        };
        let mut used: Vec<u32> = match &units {
            Some(units) => rows.iter().map(|row| units[*row as usize]).collect(),
            None => rows.clone(),
        };
        order::sort_numbers(&mut used);
        used.dedup();
        if used.len() < 2 * self.folds {
            return Err(Error::Config(format!(
                "{} folds need two {kind} each, and {} are not tested: ask for fewer folds",
                self.folds,
                used.len()
            )));
        }
        let seed = self.base.data_seed();
        let folds = Sides::folds(dataset, &rows, units.as_deref(), self.folds, seed);
        Ok(folds)
    }
}

impl Comparison {
    /// Seed of a pass. On folds every run of a row has a seed of its own, counted from the first on, so that the runs of a row differ by
    /// all that luck can do.
    pub(super) fn seed_of(&self, pass: usize) -> u64 {
        self.contest.seeds[0].wrapping_add(pass as u64)
    }

    /// Scores raw features and the linear map.
    pub(super) async fn score_baselines(&mut self, fold: usize) -> Result<CompareProgress> {
        let started = Instant::now();
        let base = at_random(&self.contest.base);
        let mut trainer = self.trainer(base, true, Some(fold)).await?;
        let trained = self.dataset.labels_of(&trainer.sides().train);
        let trained = class_counts(&trained);
        for (row, encoder) in [Encoder::Raw, Encoder::Linear].into_iter().enumerate() {
            let scored = trainer.score_each(encoder, Side::Validation).await?;
            let Some(scored) = scored else {
                // Without a linear map its row has no scores.
                let why = trainer.no_linear().map(ToString::to_string);
                why.into_iter().for_each(|why| self.rows[row].fail(why));
                continue;
            };
            let elapsed_ms = started.elapsed().as_secs_f64() * 1e3;
            if self.rows[row].error.is_none() {
                let found = Scored::new(&scored.metrics, &scored.queries, elapsed_ms);
                self.rows[row].take_of_fold(found);
            }
            if encoder == Encoder::Raw {
                let is_known = |query: &QueryScore| {
                    let rows = trained.get(query.class as usize);
                    rows.is_some_and(|rows| *rows > 0)
                };
                self.judged.known |= scored.queries.iter().any(is_known);
                self.judged.queries.extend(scored.queries);
            }
        }
        if fold == 0 {
            self.count();
        }
        Ok(CompareProgress::Baselines)
    }

    /// Counts what was scored by the queries of one more fold.
    pub(super) fn count(&mut self) {
        self.rows.iter_mut().for_each(Row::count_fold);
        self.queries = Queries::new(&self.judged.queries, !self.judged.known);
    }

    /// Scores the test side by the best row; of folds, after it was trained on the training side.
    pub(super) async fn score_test(&mut self) -> Result<CompareProgress> {
        if let Some(best) = self.order().first().copied() {
            let row = &self.rows[best];
            let (encoder, config) = match row.kind {
                RowKind::Raw => (Encoder::Raw, at_random(&self.contest.base)),
                RowKind::LinearMap => (Encoder::Linear, at_random(&self.contest.base)),
                RowKind::Head => (Encoder::Head, self.contest.entries[best - 2].config.clone()),
            };
            let trains = encoder == Encoder::Head && row.head.is_none();
            let steps = if trains { row.steps } else { 0 };
            let config = if trains { config } else { at_random(&config) };
            let mut trainer = self.trainer(config, !trains, None).await?;
            if let Some(weights) = &row.head {
                trainer.set_weights(weights).await?;
            }
            while trainer.step() < steps {
                self.engine.breathe().await?;
                trainer.advance(steps - trainer.step()).await?;
            }
            let scored = trainer.score_each(encoder, Side::Test).await?;
            self.test = scored.map(|scored| TestScore {
                name: row.name.clone(),
                seed: self.contest.seeds[0],
                metrics: scored.metrics,
            });
        }
        self.steps[0] = self.steps[1];
        self.finished = true;
        Ok(CompareProgress::Finished)
    }
}
