//! Time of a search: its rungs are sized by the speed that is predicted, then by the speed that is measured, so that it ends in time.

use std::collections::VecDeque;

use super::contest::Contest;
use super::rungs::{self, Rung};
use super::search::Search;
use super::{CompareProgress, Comparison, Job};
use crate::compare::recipes::Recipe;
use crate::rules::config::InitialWeights;

/// Milliseconds that a predicted one may take, before any run was timed.
const SLOWER: f64 = 1.25;
/// Part of the time left that is planned for.
const PLANNED: f64 = 0.9;
/// The most seeds of the last rung.
const MOST_SEEDS: usize = 3;

/// Times of a search's runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Timed {
    /// Predicted and measured milliseconds of the runs that are over.
    predicted_ms: f64,
    measured_ms: f64,
    /// A short run, whose score does not count, that measures the speed: to be done, going on, or done.
    pilot: Pilot,
    /// Parts that were cut, in sentences.
    pub(super) cut: Vec<String>,
}

/// State of the run that measures the speed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Pilot {
    #[default]
    Due,
    Runs,
    Done,
}

/// Part of the first rung's steps that the pilot takes.
const PILOT: f64 = 0.5;

impl Timed {
    /// Measured milliseconds of a predicted one.
    fn ratio(&self) -> f64 {
        match self.predicted_ms > 0.0 {
            true => self.measured_ms / self.predicted_ms,
            false => SLOWER,
        }
    }

    /// Takes in a run that is over.
    fn see(&mut self, predicted_ms: f64, measured_ms: f64) {
        self.predicted_ms += predicted_ms;
        self.measured_ms += measured_ms;
    }
}

/// Predicted milliseconds of a run of an entry with these costs.
fn run_ms([start, step]: [f64; 2], steps: u64) -> f64 {
    start + step * steps as f64
}

impl Contest {
    /// Predicted milliseconds of rungs from one on, which these entries enter, with `scale` times their steps and `seeds` in the last.
    fn rungs_ms(
        &self,
        search: &Search,
        first: usize,
        going: &[usize],
        scale: f64,
        seeds: usize,
    ) -> f64 {
        let last = self.rungs.len() - 1;
        let rungs = self.rungs.iter().enumerate().skip(first);
        let ms = rungs.map(|(at, rung)| {
            let share = base_share(at, last) * scale;
            let of_entry = |entry: &usize| {
                let full = self.entries[*entry].config.steps;
                run_ms(search.costs[*entry], rungs::steps(full, share))
            };
            let all: f64 = going.iter().map(of_entry).sum();
            // Which entries go on is not known: as costly ones as there are on average.
            let part = rung.entries.min(going.len()) as f64 / going.len().max(1) as f64;
            all * part * if at == last { seeds as f64 } else { 1.0 }
        });
        ms.sum()
    }

    /// Seconds that a search needs, as predicted, to train its last entries in full with so many seeds; `None` if it is no search.
    pub fn seconds_for(&self, seeds: usize) -> Option<u64> {
        let all: Vec<usize> = (0..self.entries.len()).collect();
        let ms = self.rungs_ms(self.search.as_ref()?, 0, &all, 1.0, seeds);
        Some((SLOWER / PLANNED * ms / 1e3).ceil() as u64)
    }
}

impl Comparison {
    fn search(&self) -> Option<&Search> {
        self.contest.search.as_ref()
    }

    /// Predicted milliseconds of a job's run; `None` for other jobs, and in a comparison that is no search.
    fn predicted(&self, job: Job) -> Option<f64> {
        let Job::Run { row, steps, .. } = job else {
            return None;
        };
        let costs = self.search()?.costs.get(row - 2)?;
        Some(run_ms(*costs, steps))
    }

    /// Takes in the time of a job that is over.
    pub(super) fn see_time(&mut self, job: Job, measured_ms: f64) {
        if let (Some(predicted_ms), Job::Run { row, .. }) = (self.predicted(job), job)
            && self.is_plain(row - 2)
        {
            self.timed.see(predicted_ms, measured_ms);
        }
    }

    /// Tells if the time of an entry's run is that of its steps: none goes into fitting a linear map to start from.
    fn is_plain(&self, entry: usize) -> bool {
        self.contest.entries[entry].config.initial_weights == InitialWeights::Random
    }

    /// Milliseconds of rungs from the current one on, with `scale` times their steps and `seeds` in the last.
    fn rungs_ms(&self, search: &Search, scale: f64, seeds: usize) -> f64 {
        let going = (2..self.rows.len()).filter(|row| self.rows[*row].goes_on());
        let going: Vec<usize> = going.map(|row| row - 2).collect();
        self.contest
            .rungs_ms(search, self.rung, &going, scale, seeds)
    }

    /// Sizes the rungs that are left so that they end in time, and the runs of the current one with them.
    pub(super) fn size_rungs(&mut self) {
        let Some(search) = self.search() else {
            return;
        };
        let left_ms = (search.limit_ms - self.elapsed_ms) * PLANNED / self.timed.ratio().max(1e-6);
        let fits = |scale: f64, seeds: usize| self.rungs_ms(search, scale, seeds) <= left_ms;
        let most = MOST_SEEDS.min(self.contest.seeds.len());
        let seeds = (1..=most).rev().find(|seeds| fits(1.0, *seeds));
        let scale = match seeds {
            Some(_) => 1.0,
            None => {
                let (mut low, mut high) = (0.0, 1.0);
                for _ in 0..30 {
                    let middle = 0.5 * (low + high);
                    match fits(middle, 1) {
                        true => low = middle,
                        false => high = middle,
                    }
                }
                low
            }
        };
        let last = self.contest.rungs.len() - 1;
        for (at, rung) in self.contest.rungs.iter_mut().enumerate().skip(self.rung) {
            *rung = Rung {
                share: base_share(at, last) * scale,
                seeds: if at == last { seeds.unwrap_or(1) } else { 1 },
                ..*rung
            };
        }
        match self.timed.pilot {
            Pilot::Due => self.begin_pilot(),
            Pilot::Runs | Pilot::Done => self.renew_rung(),
        }
    }

    /// Replaces the runs of the first rung by a short one of the cheapest candidate: the forecast may be far off on a device that was
    /// not timed.
    fn begin_pilot(&mut self) {
        let (Some(search), rung) = (self.search(), self.contest.rungs[0]) else {
            return;
        };
        let costs = search.costs.iter().enumerate();
        let costs = costs.filter(|(entry, _)| self.is_plain(*entry));
        let cheapest = costs.min_by(|a, b| a.1[1].total_cmp(&b.1[1]));
        let entry = cheapest.map_or(0, |(entry, _)| entry);
        let full = self.contest.entries[entry].config.steps;
        self.timed.pilot = Pilot::Runs;
        self.jobs = VecDeque::from([Job::Run {
            row: entry + 2,
            pass: 0,
            steps: rungs::steps(full, PILOT * rung.share),
        }]);
    }

    /// Ends the pilot if this job was it; its score does not count.
    pub(super) fn end_pilot(&mut self, job: Job, progress: &CompareProgress) -> bool {
        let ends = self.timed.pilot == Pilot::Runs && *progress != CompareProgress::Steps;
        if let Job::Run { row, .. } = job
            && ends
        {
            self.timed.pilot = Pilot::Done;
            self.rows[row].scores.clear();
            self.rows[row].found.hits.clear();
            self.runs[0] -= 1;
        }
        ends
    }

    /// Seeds that entries were trained with in the last rung so far.
    pub(super) fn seeds(&self) -> &[u64] {
        match self.search() {
            Some(_) => &self.contest.seeds[..self.contest.rungs[self.rung].seeds],
            None => &self.contest.seeds,
        }
    }

    /// Replaces the runs of the current rung, of which none has begun, by those of its size now.
    fn renew_rung(&mut self) {
        self.jobs.retain(|job| matches!(job, Job::Baselines(_)));
        self.add_rung();
        let (runs, steps) = self.jobs.iter().fold((0, 0), |(runs, sum), job| match job {
            Job::Run { steps, .. } => (runs + 1, sum + steps),
            _ => (runs, sum),
        });
        let later = self.contest.rungs.iter().skip(self.rung + 1);
        let full = self.contest.entries.iter().map(|entry| entry.config.steps);
        let full = full.max().unwrap_or(0);
        let (mut all_runs, mut all_steps) = (self.runs[0] + runs, self.steps[0] + steps);
        for rung in later {
            let of_rung = (rung.entries * rung.seeds) as u64;
            all_runs += of_rung;
            all_steps += of_rung * rungs::steps(full, rung.share);
        }
        (self.runs[1], self.steps[1]) = (all_runs, all_steps);
    }

    /// Tells if the next job of a search would end too late.
    pub(super) fn is_late(&self, job: Job) -> bool {
        let Some(search) = self.search() else {
            return false;
        };
        let left_ms = search.limit_ms - self.elapsed_ms;
        let needs_ms = match (&self.training, self.predicted(job)) {
            (None, Some(ms)) => ms * self.timed.ratio(),
            _ => 0.0,
        };
        left_ms <= needs_ms && !matches!(job, Job::Halve)
    }

    /// Ends a search before its runs are done: what is scored so far is ranked.
    pub(super) fn cut_short(&mut self) {
        let names: Vec<&str> = self
            .jobs
            .iter()
            .filter_map(|job| match job {
                Job::Run { row, pass: 0, .. } => Some(&self.rows[*row].name[..]),
                _ => None,
            })
            .collect();
        let limited = self.search().is_some_and(|search| search.limit_ms > 0.0);
        if !names.is_empty() && limited {
            let rung = self.rung + 1;
            self.timed.cut.push(format!(
                "the time was over in round {rung}, before {}",
                names.join(", ")
            ));
        }
        let scored = self
            .rows
            .iter()
            .skip(2)
            .any(|row| row.goes_on() && !row.scores.is_empty());
        if !scored {
            self.rows.iter_mut().for_each(super::Row::step_back);
        }
        self.jobs.clear();
        self.training = None;
        self.end_search();
    }

    /// Ends a search: says what of it was cut.
    pub(super) fn end_search(&mut self) {
        self.finished = true;
        self.steps[0] = self.steps[1];
        let Some(search) = self.search() else {
            return;
        };
        let left_out = search
            .left_out
            .iter()
            .map(|(name, why)| format!("{name} is left out: {why}"));
        let mut cut: Vec<String> = left_out.collect();
        let full = self
            .contest
            .entries
            .iter()
            .map(|entry| entry.config.steps)
            .max()
            .unwrap_or(0);
        let last = self.contest.rungs.len() - 1;
        let rungs = self.contest.rungs.iter().enumerate().take(self.rung + 1);
        let short = rungs.filter(|(at, rung)| rung.share < base_share(*at, last));
        let short = short.map(|(at, rung)| {
            let wanted = rungs::steps(full, base_share(at, last));
            format!(
                "round {} had {} steps of {wanted}",
                at + 1,
                rungs::steps(full, rung.share)
            )
        });
        if self.elapsed_ms > 0.0 {
            let before = cut.len();
            cut.extend(short);
            let is_cut = cut.len() > before;
            cut.extend(self.still_learn().filter(|_| is_cut));
        }
        cut.append(&mut self.timed.cut);
        self.timed.cut = cut;
    }

    /// The entries that still learned when they were judged, in a sentence.
    fn still_learn(&self) -> Option<String> {
        let rising = self.rows.iter().filter(|row| row.is_ranked());
        let rising = rising.filter_map(|row| {
            let [before, now] = row.rise()?;
            Some(format!("{} ({before:.3}, then {now:.3})", row.name))
        });
        let rising: Vec<String> = rising.collect();
        (!rising.is_empty()).then(|| {
            format!(
                "still learning when the time was over: {}; more seconds may change the choice",
                rising.join(", ")
            )
        })
    }

    /// The entry that a search chooses: the best head so far; without any, the recipe for data of this shape, or else the first.
    pub fn chosen(&self) -> &str {
        let mut best = self.order().into_iter().filter(|row| *row >= 2);
        if let Some(row) = best.next() {
            return &self.rows[row].name;
        }
        let proposed = Recipe::proposed(&self.dataset.name, self.dataset.shape()).name;
        let rows = self.rows.iter().skip(2).filter(|row| row.error.is_none());
        let known = rows.clone().find(|row| row.name == proposed);
        known.or(rows.clone().next()).map_or("", |row| &row.name)
    }
}

/// Part of an entry's steps in rung `at` if nothing is cut.
fn base_share(at: usize, last: usize) -> f64 {
    rungs::timed_share(last - at)
}
