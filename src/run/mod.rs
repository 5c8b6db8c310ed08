//! [`Run`]: a training run from its baseline to its verdict, one slice of work at a time.
//!
//! The command line and the page's worker both drive it; the result is the report that `--json` prints.

pub(crate) mod warnings;

mod best;
mod history;
mod maps;
mod report;
mod saved;
mod sound;
mod suspects;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::rc::Rc;

pub use report::{Baseline, DataReport, MemoryReport, RunReport};
pub use saved::{Checkpoint, Origin};

use best::{BestStep, better_by};
use history::Thinned;

use serde::{Deserialize, Serialize};
use web_time::Instant;

use crate::base::error::{Error, Result};
use crate::base::forecast::{Forecast, Rate};
use crate::data::survey::Survey;
use crate::data::{Dataset, Side};
use crate::engine::Engine;
use crate::engine::device::DeviceInfo;
use crate::judge::verdict::{Compared, Trial, verdict};
use crate::map::Map;
use crate::map::projection::{Axes, Plane};
use crate::model::embeddings::Embeddings;
use crate::rules::config::TrainConfig;
use crate::run::warnings::{Warning, Warnings};
use crate::search::metrics::{Judged, Metrics, Scores};
use crate::search::threshold::Threshold;
use crate::train::trainer::{
    AnchorAsked, Encoder, Evaluation, Neighbourhood, OneAnchor, Scored, StepReport, Trainer,
};

/// A run in progress.
#[derive(Debug)]
pub struct Run {
    trainer: Trainer,
    history: Thinned<StepReport>,
    evaluations: Thinned<Evaluation>,
    baseline: Option<Baseline>,
    head: Option<Scores>,
    /// The best validation, if the settings keep it.
    best: Option<BestStep>,
    verdict: Option<String>,
    compared: Vec<Compared>,
    warnings: Warnings,
    /// Scored rows that are equal or nearly equal to a training row; ascending.
    copies: Vec<u32>,
    axes: Axes,
    elapsed_ms: f64,
    /// Maps are drawn; `placed` has the embeddings for one that came with the evaluation at a step.
    watched: bool,
    placed: Option<(u64, Embeddings)>,
    /// Side that was chosen for maps.
    shown: Option<Side>,
    /// The next evaluation, if it came with the steps before it.
    ahead: Option<Scored>,
    /// The last map.
    map: Option<Map>,
    /// The plane of that map.
    plane: Option<Plane>,
    /// Fingerprint of the data, once a checkpoint needed it.
    data_mark: OnceCell<saved::Data>,
    /// Engine and adapter of a restored run that has done no work here yet.
    ran_on: Option<(String, String)>,
    /// Memory at the end of the run: what is asked of it after that is not its own.
    ended: Option<MemoryReport>,
}

/// Result of a slice of work.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
pub enum Progress {
    /// Steps were taken.
    Steps(Vec<StepReport>),
    /// The validation side was scored; the first time by the baselines too.
    Evaluated(Evaluation),
    /// The test side was scored: the run is over.
    Finished,
}

/// Scores of one side's embeddings, every row a query.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FullEvaluation {
    /// The side.
    pub side: Side,
    /// Steps that the head had done.
    pub step: u64,
    /// Means over its rows.
    pub metrics: Metrics,
    /// Recall@k by k: the part of the rows with one of their class among the nearest k.
    pub recall_at: BTreeMap<u64, f64>,
}

/// The k of recall@k of a full evaluation; recall@1 is precision@1.
const RECALL_AT: [u64; 4] = [2, 4, 8, 16];

impl Run {
    /// Prepares a run.
    ///
    /// # Errors
    /// As [`Trainer::new`].
    pub async fn new(engine: Engine, dataset: Rc<Dataset>, config: TrainConfig) -> Result<Self> {
        let trainer = Trainer::new(engine, dataset, config).await?;
        let warnings = Warnings::before(trainer.dataset(), trainer.sides(), trainer.config());
        let mut history = Thinned::default();
        history.make_room(trainer.config().steps)?;
        Ok(Self {
            history,
            warnings,
            copies: Vec::new(),
            ..Self::of(trainer)
        })
    }

    /// A run without any results yet.
    fn of(trainer: Trainer) -> Self {
        Self {
            trainer,
            history: Thinned::default(),
            evaluations: Thinned::default(),
            baseline: None,
            head: None,
            best: None,
            verdict: None,
            compared: Vec::new(),
            warnings: Warnings::default(),
            copies: Vec::new(),
            axes: Axes::default(),
            elapsed_ms: 0.0,
            watched: false,
            placed: None,
            shown: None,
            ahead: None,
            map: None,
            plane: None,
            data_mark: OnceCell::new(),
            ran_on: None,
            ended: None,
        }
    }

    /// Engine and adapter of the last work.
    fn ran_on(&self) -> (String, String) {
        self.ran_on.clone().unwrap_or_else(|| {
            let device = self.device();
            (device.engine.clone(), device.adapter.clone())
        })
    }

    /// Records the rows that a survey found to be copies of others: the test is scored without them too.
    pub fn see_copies(&mut self, survey: &Survey) {
        self.copies = survey.copies(self.trainer.sides());
    }

    /// Records a survey of the rows of a new run: findings that cast doubt on the scores become warnings.
    pub fn see_survey(&mut self, survey: &Survey) {
        self.see_copies(survey);
        self.warnings.see_survey(survey, self.trainer.sides());
    }

    /// Runs the next slice of work, of at most `at_most` steps. Between slices a browser has its turn.
    ///
    /// # Errors
    /// As [`Trainer::advance`] and [`Trainer::evaluate`].
    pub async fn next(&mut self, at_most: u64) -> Result<Progress> {
        self.trainer.engine().breathe().await?;
        if !self.is_finished() {
            self.ran_on = None;
        }
        let started = Instant::now();
        let progress = self.slice(at_most).await;
        self.elapsed_ms += started.elapsed().as_secs_f64() * 1e3;
        progress
    }

    async fn slice(&mut self, at_most: u64) -> Result<Progress> {
        let step = self.trainer.step();
        let TrainConfig {
            steps,
            evaluate_every,
            ..
        } = *self.trainer.config();
        if self.baseline.is_none() {
            self.baseline = Some(self.first_baseline().await?);
        }
        let evaluated = self
            .evaluations
            .last()
            .is_some_and(|last| last.step == step);
        if !evaluated && (step.is_multiple_of(evaluate_every) || step == steps) {
            let (evaluation, placed) = match self.ahead.take() {
                Some(scored) => self.trainer.see_scored(scored),
                None => {
                    self.trainer
                        .evaluate_and_embed(&self.watched_rows())
                        .await?
                }
            };
            self.placed = self.is_watched().then_some((step, placed));
            let config = self.trainer.config();
            self.warnings
                .see_diagnostics(step, &evaluation.diagnostics, config);
            if self.sees_best(&evaluation) {
                self.trainer.keep_weights();
            }
            let better = better_by(self.trainer.config());
            self.evaluations
                .push_evaluation(evaluation.clone(), evaluate_every, better);
            return Ok(Progress::Evaluated(evaluation));
        }
        if step == steps || self.stops_early() {
            if self.head.is_none() {
                self.finish().await?;
            }
            return Ok(Progress::Finished);
        }
        self.trainer.use_kept(false).await?;
        let boundary = (step / evaluate_every + 1) * evaluate_every;
        let left = boundary.min(steps) - step;
        let scored = at_most >= left && self.trainer.scores_with(left);
        let scored = scored.then(|| self.watched_rows());
        let advanced = self
            .trainer
            .advance_and_score(at_most.min(left), scored.as_deref());
        let (reports, ahead) = advanced.await?;
        self.ahead = ahead;
        for report in &reports {
            self.warnings.see(report, self.trainer.config());
        }
        for report in &reports {
            self.history.push(report.clone());
        }
        Ok(Progress::Steps(reports))
    }

    /// Tells if no evaluation before did as well on the validation rows.
    fn is_best(&self, evaluation: &Evaluation) -> bool {
        let before = self.evaluations.iter().filter_map(score);
        score(evaluation).is_some_and(|now| before.fold(0.0, f64::max) < now)
    }

    /// Gives the head the weights of the best step, if the settings keep it; else those of an earlier step if they did clearly better
    /// on the validation rows than the last ones. Returns the evaluation of the weights that the head has then.
    async fn take_best(&mut self) -> Result<Option<Evaluation>> {
        let last = self.evaluations.last().cloned();
        let best = self.trainer.kept_step().and_then(|step| {
            let mut all = self.evaluations.iter();
            all.find(|evaluation| evaluation.step == step)
        });
        if let Some(chosen) = self.best {
            let best = best.cloned();
            self.trainer.use_kept(chosen.step < self.step()).await?;
            return Ok(best);
        }
        let scores = |evaluation: &Option<&Evaluation>| evaluation.and_then(|e| e.validation);
        let (Some(now), Some(then)) = (scores(&last.as_ref()), scores(&best)) else {
            return Ok(last);
        };
        if both(&then) <= both(&now) + now.standard_error.max(then.standard_error) {
            return Ok(last);
        }
        let best = best.cloned();
        self.trainer.use_kept(true).await?;
        Ok(best)
    }

    /// Scores the validation side by the baselines.
    async fn first_baseline(&mut self) -> Result<Baseline> {
        let scores = |validation| Scores {
            validation,
            ..Scores::default()
        };
        let raw = scores(self.trainer.score_raw(Side::Validation).await?);
        let linear = scores(self.trainer.score_linear(Side::Validation).await?);
        if let Some(unfit) = self.trainer.no_linear() {
            self.warnings.see_no_linear(unfit);
            return Ok(Baseline {
                raw,
                ..Baseline::default()
            });
        }
        let outputs = self.trainer.linear_outputs();
        Ok(Baseline {
            raw,
            linear: Some(linear),
            linear_dimensions: outputs.map(|outputs| outputs.directions),
            linear_constant: outputs.is_some_and(|outputs| outputs.constant),
        })
    }

    /// Limits the test rows that are scored at the end to `queries`: a seeded sample of them, each against all others. Applies
    /// before the end only, and also if scoring was stopped midway: it begins again.
    pub fn score_fewer(&mut self, queries: usize) {
        let most = self.trainer.config().test_queries;
        if self.head.is_none() && (most == 0 || most > queries) {
            self.trainer.set_test_queries(queries);
        }
    }

    /// Sets the number of steps of the run. A finished run goes on, bit for bit as if it had been given this number from the start,
    /// and the test side is scored again at its new end.
    ///
    /// # Errors
    /// [`Error::Config`] for no more steps than are done, for more than a run can take, and for a schedule that ends with the run.
    pub fn train_to(&mut self, steps: u64) -> Result<()> {
        let done = self.step();
        let asked = TrainConfig {
            steps,
            ..self.trainer.config().clone()
        };
        asked.check()?;
        if steps <= done {
            return Err(Error::Config(format!(
                "steps is {steps}: {done} are done, so it must be more to go on"
            )));
        }
        if self.is_settled() {
            return Err(self.settled(steps));
        }
        let planned = self.trainer.config().steps;
        if asked.schedule.ends_with_the_run() && steps != planned {
            return Err(Error::Config(format!(
                "steps is {steps}: the learning rate was planned to end at step {planned}, so start a new run of {steps} steps, or one \
                 with schedule=constant"
            )));
        }
        self.trainer.set_steps(steps);
        self.warnings.forget_end();
        (self.head, self.verdict, self.ended) = (None, None, None);
        self.compared.clear();
        if let Some(Baseline { raw, linear, .. }) = &mut self.baseline {
            raw.test = None;
            if let Some(linear) = linear {
                linear.test = None;
            }
        }
        Ok(())
    }

    /// Scores the test side by the head and by the baselines, and gives the verdict.
    async fn finish(&mut self) -> Result<()> {
        let taken = self.take_best().await?;
        let test = self.trial(Side::Test).await?;
        let metrics = |judged: &Judged| judged.metrics;
        self.head = Some(Scores {
            train: taken.as_ref().and_then(|evaluation| evaluation.train),
            validation: taken.as_ref().and_then(|evaluation| evaluation.validation),
            test: test.as_ref().map(|trial| metrics(&trial.head)),
            test_own_group: self.trainer.score_own_group(Side::Test).await?,
            test_without_copies: self.trainer.score_without(&self.copies, Side::Test).await?,
            test_over_classes: test.as_ref().map(|trial| trial.head.over_classes),
            test_unrounded: self.trainer.score_unrounded(Side::Test).await?,
        });
        if let (Some(Baseline { raw, linear, .. }), Some(trial)) = (&mut self.baseline, &test) {
            raw.test = Some(metrics(&trial.raw));
            if let (Some(scores), Some((linear, _))) = (linear, &trial.linear) {
                scores.test = Some(metrics(linear));
            }
        }
        let trial = match test {
            None => self.trial(Side::Validation).await?,
            test => test,
        };
        let mut verdict = verdict(self.trainer.config(), trial.as_ref());
        if let Some(own) = self.head.and_then(|scores| scores.test_own_group) {
            verdict.text.push_str(&format!(
                " With rows of its own group among them it is right for {:.2}.",
                own.precision_at_1
            ));
        }
        if let Some(other) = self.head.and_then(|scores| scores.test_without_copies) {
            verdict.text.push_str(&format!(
                " Without the rows that are equal to training rows, or nearly so, it is right for {:.2}.",
                other.precision_at_1
            ));
        }
        verdict.text.push_str(&self.head_said());
        self.warnings
            .see_end(&self.evaluations, &verdict, self.trainer.config());
        (self.verdict, self.compared) = (Some(verdict.text), verdict.compared);
        self.ended = Some(self.memory());
        Ok(())
    }

    /// Scores a side by the head and by the baselines; `None` if no row has another of its class.
    async fn trial(&mut self, side: Side) -> Result<Option<Trial>> {
        let mut judged =
            [Encoder::Head, Encoder::Raw, Encoder::Linear].map(|encoder| (encoder, None));
        for (map, judged) in &mut judged {
            let scored = self.trainer.score_each(*map, side).await?;
            *judged = scored;
        }
        let [(_, head), (_, raw), (_, linear)] = judged;
        Ok(head.zip(raw).map(|(head, raw)| Trial {
            head,
            raw,
            linear: linear.zip(self.trainer.linear_outputs()),
            tested: side == Side::Test,
        }))
    }

    /// Sides whose rows may be looked at now: the test side once the run is over.
    fn seen_sides(&self) -> impl Iterator<Item = Side> + use<> {
        let all = [Side::Test, Side::Validation, Side::Train].into_iter();
        all.skip(usize::from(!self.is_finished()))
    }

    /// Side that may be scored now: the test side once the run is over, until then the validation side, or the training side if
    /// there are no validation rows.
    fn side(&self) -> Side {
        let sides = self.trainer.sides();
        self.seen_sides()
            .find(|side| !sides.of(*side).is_empty())
            .unwrap_or(Side::Train)
    }

    /// Finds the rows nearest to a row among its side; `None` for a test row before the run is over.
    ///
    /// # Errors
    /// As [`Trainer::neighbours`].
    pub async fn neighbours(&mut self, row: u32) -> Result<Option<Neighbourhood>> {
        let sides = self.trainer.sides();
        let is_of = |side: &Side| sides.of(*side).binary_search(&row).is_ok();
        match self.seen_sides().find(is_of) {
            Some(side) => self.trainer.neighbours(side, row).await,
            None => Ok(None),
        }
    }

    /// Looks at one anchor of the last step; `None` before the first.
    ///
    /// # Errors
    /// As [`Trainer::anchor`].
    pub async fn anchor(&mut self, asked: &AnchorAsked) -> Result<Option<OneAnchor>> {
        self.trainer.anchor(asked).await
    }

    /// Forecasts [`Run::evaluate_all`] for the side that it would score now.
    pub fn plan_evaluate_all(&self, rate: &Rate) -> (Side, Forecast) {
        (self.side(), self.trainer.plan_score(self.side(), rate))
    }

    /// Scores the side that may be scored now, every row a query: the test side only once the run is over, as it must not influence
    /// the run. `None` if no row has another of its class. The run stays as it is.
    ///
    /// # Errors
    /// As [`Trainer::evaluate`].
    pub async fn evaluate_all(
        &mut self,
        progress: impl FnMut(u64, u64),
    ) -> Result<Option<FullEvaluation>> {
        let (side, step) = (self.side(), self.step());
        let scored = self.trainer.score_fully(side, &RECALL_AT, progress).await?;
        Ok(scored.map(|retrieval| FullEvaluation {
            side,
            step,
            metrics: retrieval.metrics,
            recall_at: retrieval.recall_at,
        }))
    }

    /// Finds a threshold on the validation side and reports its rates on the test side: once the run is over, as the test side must
    /// not influence the run. The run stays as it is.
    ///
    /// # Errors
    /// As [`Trainer::find_threshold`]; [`Error::Config`] before the run is over.
    pub async fn find_threshold(&mut self, false_match_rate: Option<f64>) -> Result<Threshold> {
        self.check_over()?;
        self.trainer.find_threshold(false_match_rate).await
    }

    /// Reports the rates of a threshold that a person chose, as [`Run::find_threshold`] does of one that it finds.
    ///
    /// # Errors
    /// As [`Run::find_threshold`].
    pub async fn threshold_at(&mut self, similarity: f64) -> Result<Threshold> {
        self.check_over()?;
        self.trainer.threshold_at(similarity).await
    }

    fn check_over(&self) -> Result<()> {
        match self.is_finished() {
            true => Ok(()),
            false => Err(Error::Config(
                "a threshold is looked for when the run is over: let it finish first".to_owned(),
            )),
        }
    }

    /// The model and the data.
    pub fn trainer(&mut self) -> &mut Trainer {
        &mut self.trainer
    }

    /// Steps done.
    pub fn step(&self) -> u64 {
        self.trainer.step()
    }

    /// Step of the final head, if it is not the last.
    pub fn kept_step(&self) -> Option<u64> {
        let step = self.trainer.kept_step();
        step.filter(|_| self.trainer.uses_kept())
    }

    /// Tells if the test side was scored.
    pub fn is_finished(&self) -> bool {
        self.head.is_some()
    }

    /// Scores of the baselines so far.
    pub fn baseline(&self) -> Baseline {
        self.baseline.unwrap_or_default()
    }

    /// The scores of the trained head, once the run is over.
    pub fn final_scores(&self) -> Option<Scores> {
        self.head
    }

    /// The comparison of head and baselines in words, once the run is over.
    pub fn verdict(&self) -> Option<String> {
        self.verdict.clone()
    }

    /// Comparison of head and baselines in numbers: with raw features, and with the linear map if there is one.
    pub fn compared(&self) -> &[Compared] {
        &self.compared
    }

    /// Likely problems, with their remedies.
    pub fn warnings(&self) -> &[Warning] {
        self.warnings.said()
    }

    /// Time of the work so far, in milliseconds.
    pub fn elapsed_ms(&self) -> f64 {
        self.elapsed_ms
    }

    /// Engine of the run.
    pub fn engine(&self) -> &Engine {
        self.trainer.engine()
    }

    /// Device of the run.
    pub fn device(&self) -> &DeviceInfo {
        self.trainer.engine().info()
    }

    /// Ends the run and returns its engine for another.
    pub fn into_engine(self) -> Engine {
        self.trainer.into_engine()
    }
}

/// Score that the best step is chosen by: [`both`], if there is a validation side.
fn score(evaluation: &Evaluation) -> Option<f64> {
    evaluation.validation.as_ref().map(both)
}

/// Score that the best step is chosen by: the nearest row and whole groups, counted alike.
fn both(metrics: &Metrics) -> f64 {
    metrics.precision_at_1 + metrics.mean_average_precision_at_r
}
