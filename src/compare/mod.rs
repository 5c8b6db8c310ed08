//! [`Comparison`]: the leaderboard. Takes a [`Contest`], trains its entries one after the other, a slice of work at a time, and
//! gives a [`CompareReport`] at any moment.
//!
//! Raw features, the linear map and every entry are scored by the same validation rows, so that they are compared query by query,
//! as [`judge`] describes. The test side is scored once, at the end, for the best row alone. Seeds are taken in turn: the first of
//! every entry, then the second, and folds one after the other, so that a comparison which is stopped is still fair.

pub(crate) mod recipes;

mod contest;
mod fit;
mod folds;
mod forecast;
mod judge;
mod race;
mod report;
mod row;
mod rungs;
mod search;
mod timed;

use std::collections::VecDeque;
use std::rc::Rc;

use web_time::Instant;

pub use contest::{CompareConfig, Contest, Preset};
use folds::Judged;
pub use forecast::CompareForecast;
use report::TestScore;
pub use report::{CompareReport, CompareRow, RowKind, Standing};

use crate::base::error::{Error, Result};
use crate::base::forecast::Rate;
use crate::base::order;
use crate::data::{Dataset, Side, Sides};
use crate::engine::Engine;
use crate::rules::config::{InitialWeights, TrainConfig};
use crate::train::trainer::{Encoder, Trainer};
use judge::Queries;
use row::{Row, Scored};
use rungs::Rung;
use timed::Timed;

/// Result of a slice of work.
#[derive(Clone, Debug, PartialEq)]
pub enum CompareProgress {
    /// Raw features and the linear map were scored.
    Baselines,
    /// A run started, or took steps.
    Steps,
    /// A run is over.
    Run {
        /// The entry.
        name: String,
        /// Its seed.
        seed: u64,
        /// Its steps.
        steps: u64,
        /// Its score on the validation side; `None` if it broke off.
        precision_at_1: Option<f64>,
    },
    /// The better half of the entries goes on.
    Halved {
        /// Number of entries that are left.
        left: usize,
        /// Steps after which they were judged; the most, if entries differ.
        steps: u64,
    },
    /// A fold is scored, and counts.
    Fold {
        /// Number of folds that are scored.
        scored: usize,
        /// Rows that a race goes on without.
        excluded: Vec<String>,
    },
    /// The test side was scored for the best row: the comparison is over.
    Finished,
}

/// A unit of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Job {
    Baselines(usize),
    /// A run of the row: the first fold with every seed in turn, then the second ..
    Run {
        row: usize,
        pass: usize,
        steps: u64,
    },
    /// Drops the worse half.
    Halve,
    /// Counts the results of a fold.
    Count,
    Test,
}

/// A run in progress.
#[derive(Debug)]
struct Training {
    trainer: Trainer,
    elapsed_ms: f64,
}

/// A comparison in progress.
#[derive(Debug)]
pub struct Comparison {
    engine: Engine,
    dataset: Rc<Dataset>,
    contest: Contest,
    rows: Vec<Row>,
    /// The sides of each fold; none if the settings say the sides.
    folds: Vec<Sides>,
    /// The queries that the baselines answered so far.
    judged: Judged,
    queries: Queries,
    /// Number of folds whose results count.
    folds_scored: usize,
    jobs: VecDeque<Job>,
    training: Option<Training>,
    /// Number of rungs that are over.
    rung: usize,
    /// Runs done and in all; `steps` has the same for steps.
    runs: [u64; 2],
    steps: [u64; 2],
    elapsed_ms: f64,
    peak_bytes: u64,
    test: Option<TestScore>,
    timed: Timed,
    finished: bool,
}

impl Comparison {
    /// Prepares a comparison; nothing is computed yet.
    ///
    /// # Errors
    /// As [`Contest::plan`]: a comparison that does not fit the engine's budget is refused before anything starts.
    pub fn new(engine: Engine, dataset: Rc<Dataset>, contest: Contest) -> Result<Self> {
        let forecast = contest.plan(&engine.room(), &dataset, &Rate::default())?;
        let (suited, folds) = (dataset.default_config(), contest.fold_sides(&dataset)?);
        let mut rows = vec![
            Row::baseline(RowKind::Raw),
            Row::baseline(RowKind::LinearMap),
        ];
        let entries = contest.entries.iter();
        rows.extend(entries.map(|entry| Row::head(entry, &suited)));
        let mut comparison = Self {
            engine,
            dataset,
            rows,
            jobs: VecDeque::from([Job::Baselines(0)]),
            folds,
            judged: Judged::default(),
            queries: Queries::default(),
            folds_scored: 0,
            training: None,
            rung: 0,
            runs: [0, forecast.runs],
            steps: [0, forecast.steps],
            elapsed_ms: 0.0,
            peak_bytes: 0,
            test: None,
            timed: Timed::default(),
            finished: false,
            contest,
        };
        comparison.add_rung();
        Ok(comparison)
    }

    /// Runs the next slice of work, of at most `at_most` steps. Between slices a browser has its turn.
    ///
    /// After [`Error::Stopped`] it can be called again: the interrupted work continues.
    ///
    /// # Errors
    /// As [`Trainer::new`], [`Trainer::advance`] and [`Trainer::evaluate`]. A run whose embeddings are not finite is no error: its
    /// row records that, and the others go on.
    pub async fn next(&mut self, at_most: u64) -> Result<CompareProgress> {
        self.engine.breathe().await?;
        let started = Instant::now();
        let progress = self.slice(at_most).await;
        let elapsed_ms = started.elapsed().as_secs_f64() * 1e3;
        self.elapsed_ms += elapsed_ms;
        self.peak_bytes = self.peak_bytes.max(self.engine.ledger().peak_bytes());
        progress
    }

    async fn slice(&mut self, at_most: u64) -> Result<CompareProgress> {
        let Some(job) = self.jobs.front().copied() else {
            return Ok(CompareProgress::Finished);
        };
        if self.is_late(job) {
            self.cut_short();
            return Ok(CompareProgress::Finished);
        }
        let progress = match job {
            Job::Baselines(fold) => self.score_baselines(fold).await?,
            Job::Halve => self.halve(),
            Job::Count => self.count_fold(),
            Job::Test if self.contest.search.is_some() => {
                self.end_search();
                CompareProgress::Finished
            }
            Job::Test => self.score_test().await?,
            Job::Run { row, pass, steps } => {
                let progress = self.run(row, pass, steps, at_most).await?;
                if progress == CompareProgress::Steps {
                    return Ok(progress);
                }
                progress
            }
        };
        // These have replaced the jobs.
        if !matches!(job, Job::Halve | Job::Count) {
            self.jobs.pop_front();
        }
        let was_pilot = self.end_pilot(job, &progress);
        if matches!(job, Job::Baselines(_) | Job::Halve) || was_pilot {
            self.size_rungs();
        }
        Ok(if was_pilot {
            CompareProgress::Steps
        } else {
            progress
        })
    }

    /// Appends the runs of the next rung, and the job that follows them.
    fn add_rung(&mut self) {
        let Rung { seeds, share, .. } = self.contest.rungs[self.rung];
        let is_last = self.rung + 1 == self.contest.rungs.len();
        // Before the last rung one fold has to do.
        let folds = if is_last { self.folds.len() } else { 0 };
        for pass in 0..seeds * folds.max(1) {
            let (fold, is_first) = (pass / seeds, pass % seeds == 0);
            if fold > 0 && is_first {
                self.jobs.push_back(Job::Baselines(fold));
            }
            for (row, of_row) in self.rows.iter_mut().enumerate() {
                let goes_on = of_row.goes_on();
                if let Some(config) = of_row.config.as_ref().filter(|_| goes_on) {
                    let steps = rungs::steps(config.steps, share);
                    of_row.full = if is_last { steps } else { config.steps };
                    self.jobs.push_back(Job::Run { row, pass, steps });
                }
            }
            if folds > 0 && (pass + 1) % seeds == 0 {
                self.jobs.push_back(Job::Count);
            }
        }
        self.jobs
            .push_back(if is_last { Job::Test } else { Job::Halve });
    }

    /// Seeds of each entry in this rung.
    fn seeds_of_rung(&self) -> usize {
        self.contest.rungs[self.rung].seeds.max(1)
    }

    /// Tells if the runs of this rung are on folds, which count when all rows are scored by them.
    fn is_folded(&self) -> bool {
        !self.folds.is_empty() && self.rung + 1 == self.contest.rungs.len()
    }

    /// A trainer for the next job, on a fold if there are any; the memory of the one before was freed.
    async fn trainer(
        &self,
        config: TrainConfig,
        starts_at_random: bool,
        fold: Option<usize>,
    ) -> Result<Trainer> {
        self.engine.settle().await?;
        self.engine.ledger().restart_peak();
        let (engine, dataset) = (self.engine.clone(), Rc::clone(&self.dataset));
        let trainer = match fold.and_then(|fold| self.folds.get(fold)) {
            Some(sides) => Trainer::on(engine, dataset, config, sides.clone()).await?,
            None => Trainer::at_random(engine, dataset, config).await?,
        };
        match starts_at_random {
            true => Ok(trainer),
            false => trainer.with_first_weights().await,
        }
    }

    /// Starts a run: its trainer is there, and no step was taken.
    async fn start(&mut self, row: usize, pass: usize, steps: u64) -> Result<CompareProgress> {
        let started = Instant::now();
        let mut config = with_steps(&self.contest.entries[row - 2].config, steps);
        let fold = pass / self.seeds_of_rung();
        config.seed = self.seed_of(pass);
        let trainer = match self.trainer(config, false, Some(fold)).await {
            // What one candidate of a search cannot do, such as starting from a linear map, others can.
            Err(error @ (Error::Config(_) | Error::Data(_))) if self.contest.search.is_some() => {
                return Ok(self.end_run(row, pass, steps, Some(&error)));
            }
            trainer => trainer?,
        };
        self.training = Some(Training {
            trainer,
            elapsed_ms: started.elapsed().as_secs_f64() * 1e3,
        });
        Ok(CompareProgress::Steps)
    }

    /// Takes steps of a run, or scores it after its last step.
    async fn run(
        &mut self,
        row: usize,
        pass: usize,
        steps: u64,
        at_most: u64,
    ) -> Result<CompareProgress> {
        let started = Instant::now();
        let Some(training) = &mut self.training else {
            return self.start(row, pass, steps).await;
        };
        let trainer = &mut training.trainer;
        let left = steps - trainer.step();
        let advanced = match left {
            0 => Ok(Vec::new()),
            left => trainer.advance(at_most.min(left)).await,
        };
        match advanced {
            Ok(reports) if left > 0 => {
                self.steps[0] += reports.len() as u64;
                training.elapsed_ms += started.elapsed().as_secs_f64() * 1e3;
                return Ok(CompareProgress::Steps);
            }
            Ok(_) => {
                let scored = trainer.score_each(Encoder::Head, Side::Validation).await?;
                let scored = scored.ok_or_else(nothing_to_rank)?;
                let (metrics, queries) = (scored.metrics, scored.queries);
                let weights = match pass {
                    0 if self.folds.is_empty() => Some(trainer.weights().await?),
                    _ => None,
                };
                let elapsed_ms = training.elapsed_ms + started.elapsed().as_secs_f64() * 1e3;
                let scored = Scored::new(&metrics, &queries, elapsed_ms);
                match self.is_folded() {
                    true => self.rows[row].take_of_fold(scored),
                    false => self.rows[row].take(scored),
                }
                self.rows[row].head = weights.or(self.rows[row].head.take());
            }
            Err(error @ Error::NotFinite { .. }) => {
                self.steps[0] += left;
                return Ok(self.end_run(row, pass, steps, Some(&error)));
            }
            Err(error) => return Err(error),
        }
        Ok(self.end_run(row, pass, steps, None))
    }

    /// Ends a run that is scored, or that broke off with an error.
    fn end_run(
        &mut self,
        row: usize,
        pass: usize,
        steps: u64,
        error: Option<&Error>,
    ) -> CompareProgress {
        if let Some(error) = error {
            self.steps[0] += self.give_up(row, error);
        }
        let ms = self.rows[row].latest.map(|score| score.elapsed_ms);
        if let (Some(ms), None) = (ms, error) {
            self.see_time(Job::Run { row, pass, steps }, ms);
        }
        self.runs[0] += 1;
        let peak_bytes = self.engine.ledger().peak_bytes();
        let of_row = &mut self.rows[row];
        of_row.steps = steps;
        of_row.peak_bytes = of_row.peak_bytes.max(peak_bytes);
        let last = of_row.latest.filter(|_| of_row.error.is_none());
        let precision_at_1 = last.map(|score| score.precision_at_1);
        let name = of_row.name.clone();
        self.training = None;
        CompareProgress::Run {
            name,
            seed: self.seed_of(pass),
            steps,
            precision_at_1,
        }
    }

    /// Drops a row that broke off; returns the number of steps that it does not take.
    fn give_up(&mut self, row: usize, error: &Error) -> u64 {
        self.rows[row].fail(error.to_string());
        self.skip_runs(row)
    }

    /// Drops the runs of a row but the one that is the first job; returns the number of steps that it does not take.
    fn skip_runs(&mut self, row: usize) -> u64 {
        let mut skipped = 0;
        let runs = &mut self.runs;
        let mut first = true;
        self.jobs.retain(|job| match job {
            Job::Run { row: of, steps, .. } if *of == row && !std::mem::take(&mut first) => {
                skipped += steps;
                runs[1] -= 1;
                false
            }
            _ => {
                first = false;
                true
            }
        });
        skipped
    }

    /// Drops the worse half of the entries, of equal ones the later; a linear head stays in any case.
    fn halve(&mut self) -> CompareProgress {
        self.rung += 1;
        let left = self.contest.rungs[self.rung].entries;
        let mut order: Vec<usize> = (2..self.rows.len())
            .filter(|row| self.rows[*row].goes_on())
            .collect();
        let linear = self.contest.linear_head().map(|entry| entry + 2);
        order::sort_places(&mut order, &|a, b| {
            let is_other = |row| Some(row) != linear;
            let best_first = self.rows[b].best_first(&self.rows[a]);
            is_other(a).cmp(&is_other(b)).then(best_first)
        });
        let steps = order.iter().map(|row| self.rows[*row].steps).max();
        for (place, row) in order.iter().enumerate() {
            self.rows[*row].end_rung(place < left);
        }
        self.jobs.pop_front();
        self.add_rung();
        CompareProgress::Halved {
            left: left.min(order.len()),
            steps: steps.unwrap_or(0),
        }
    }

    /// Rows that were scored in full, best first.
    fn order(&self) -> Vec<usize> {
        let scored = |row: &usize| self.rows[*row].is_ranked();
        let mut order: Vec<usize> = (0..self.rows.len()).filter(scored).collect();
        order::sort_places(&mut order, &|a, b| self.rows[b].best_first(&self.rows[a]));
        order
    }

    /// Tells if all runs are done and the test side is scored.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// Steps done, and steps in all. If a run breaks off or entries are halved, steps that were skipped count as done.
    pub fn steps(&self) -> [u64; 2] {
        self.steps
    }

    /// Runs done, and runs in all.
    pub fn runs(&self) -> [u64; 2] {
        self.runs
    }

    /// Time of the work so far, without start-up, in milliseconds.
    pub fn elapsed_ms(&self) -> f64 {
        self.elapsed_ms
    }

    /// Entries of the comparison.
    pub fn contest(&self) -> &Contest {
        &self.contest
    }

    /// Engine of the comparison.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Ends the comparison and returns its engine for another.
    pub fn into_engine(self) -> Engine {
        self.engine
    }

    /// The leaderboard so far.
    pub fn report(&self) -> CompareReport {
        let info = self.engine.info();
        let mut report = CompareReport {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            engine: info.engine.clone(),
            adapter: info.adapter.clone(),
            data: self.dataset.name.clone(),
            data_seed: self.contest.base.data_seed(),
            seeds: self.seeds().to_vec(),
            folds: self.folds.len() as u64,
            folds_scored: self.folds_scored as u64,
            queries: self.queries.len() as u64,
            classes: self.queries.classes() as u64,
            new_classes: self.queries.are_new(),
            finished: self.finished,
            runs: self.runs,
            elapsed_ms: self.elapsed_ms,
            peak_bytes: self.peak_bytes,
            budget_bytes: self.engine.ledger().budget_bytes(),
            seconds: self
                .contest
                .search
                .as_ref()
                .map(|search| search.limit_ms / 1e3),
            cut: self.timed.cut.clone(),
            rows: row::ranked(
                &self.rows,
                &self.order(),
                &self.queries,
                self.seeds(),
                self.share(),
            ),
            test: self.test.clone(),
            verdict: String::new(),
        };
        report.verdict = report.say();
        report
    }
}

/// The settings with another number of steps.
fn with_steps(config: &TrainConfig, steps: u64) -> TrainConfig {
    TrainConfig {
        steps,
        ..config.clone()
    }
}

/// Settings for a head that is only scored: its initial weights do not matter.
fn at_random(config: &TrainConfig) -> TrainConfig {
    TrainConfig {
        initial_weights: InitialWeights::Random,
        ..config.clone()
    }
}

fn nothing_to_rank() -> Error {
    Error::Data(
        "no validation row has another of its class there: raise validation_fraction".to_owned(),
    )
}
