//! Checks of values that were read as a run's: a checkpoint or a history may be from anywhere, and its values are shown.

use crate::search::metrics::{Metrics, Scores};
use crate::train::trainer::{Evaluation, StepReport};

use super::{BestStep, RunReport};

/// The most milliseconds of a run: three hundred years.
const MOST_MS: f64 = 1e13;

/// The largest diagnostic: the length of a gradient of many 32-bit numbers.
const MOST_NUMBER: f64 = 1e45;

/// The largest standard error; with few groups it is large.
const MOST_ERROR: f64 = 1e3;

/// Problem of a run's values, in words after "its".
type Fault = String;

impl RunReport {
    /// Checks that the values are such as a run can have: a report may have been read from anywhere.
    ///
    /// # Errors
    /// The problem, in words after "its".
    pub(crate) fn check(&self) -> Result<(), String> {
        elapsed(self.elapsed_ms)?;
        let mut before = None;
        for taken in &self.history {
            step(before, taken, self.steps)?;
            before = Some(taken.step);
        }
        evaluations(&self.evaluations, self.steps)?;
        self.best.iter().try_for_each(|of| best(of, self.steps))?;
        let baseline = &self.baseline;
        let all = [
            self.r#final.as_ref(),
            Some(&baseline.raw),
            baseline.linear.as_ref(),
        ];
        all.into_iter().flatten().try_for_each(scores)
    }
}

/// Checks that a time is such as a run can have.
pub(super) fn elapsed(ms: f64) -> Result<(), Fault> {
    match (0.0..=MOST_MS).contains(&ms) {
        true => Ok(()),
        false => Err("its time is no time".to_owned()),
    }
}

/// Checks a step, which must come after the step `before`, of a run that did `done` steps.
pub(super) fn step(before: Option<u64>, report: &StepReport, done: u64) -> Result<(), Fault> {
    let step = report.step;
    if step > done || before.unwrap_or(0) >= step {
        return Err(format!(
            "its steps are not in order, or more than the {done} done"
        ));
    }
    match report.loss.is_finite() {
        true => Ok(()),
        false => Err(format!("its loss of step {step} is no number")),
    }
}

/// Checks evaluations: one at the start, and at most one after each step.
pub(super) fn evaluations(evaluations: &[Evaluation], done: u64) -> Result<(), Fault> {
    if !evaluations.is_sorted_by(|a, b| a.step < b.step)
        || evaluations.last().is_some_and(|last| last.step > done)
    {
        return Err(format!(
            "its evaluations are not in order, or after more than the {done} steps done"
        ));
    }
    if done > 0 && evaluations.first().is_none_or(|first| first.step != 0) {
        return Err("its evaluation before the first step is missing".to_owned());
    }
    for evaluation in evaluations {
        let sides = [&evaluation.train, &evaluation.validation];
        sides.into_iter().flatten().try_for_each(metrics)?;
        let seen = &evaluation.diagnostics;
        let numbers = [seen.gradient_norm, seen.push, seen.boundary];
        let numbers = numbers.into_iter().flatten();
        let mut all = numbers.chain([seen.mean_similarity, seen.effective_rank, seen.classes_seen]);
        if all.any(|number| !number.is_finite() || number.abs() > MOST_NUMBER) {
            return Err(format!(
                "its diagnostics of step {} are none",
                evaluation.step
            ));
        }
    }
    Ok(())
}

/// Checks the best validation of a run that did `done` steps.
pub(super) fn best(best: &BestStep, done: u64) -> Result<(), Fault> {
    let steps = [Some(best.step), best.stopped_at];
    let are_done = steps.into_iter().flatten().all(|step| step <= done);
    match are_done && (0.0..=1.0).contains(&best.value) && best.since <= done {
        true => Ok(()),
        false => Err(format!("its best validation is none of its {done} steps")),
    }
}

/// Checks the scores of all sides.
pub(super) fn scores(scores: &Scores) -> Result<(), Fault> {
    let Scores {
        train,
        validation,
        test,
        test_own_group,
        test_without_copies,
        test_over_classes,
        test_unrounded,
    } = scores;
    let all = [
        train,
        validation,
        test,
        test_own_group,
        test_without_copies,
        test_over_classes,
        test_unrounded,
    ];
    all.into_iter().flatten().try_for_each(metrics)
}

/// Checks that scores are parts, each between 0 and 1, and that there are no more queries than a list of rows can have.
fn metrics(metrics: &Metrics) -> Result<(), Fault> {
    let Metrics {
        precision_at_1,
        r_precision,
        mean_average_precision_at_r,
        mean_average_precision,
        mean_reciprocal_rank,
        queries,
        lone_queries,
        standard_error,
        interval,
    } = *metrics;
    let parts = [
        precision_at_1,
        r_precision,
        mean_average_precision_at_r,
        mean_average_precision,
        mean_reciprocal_rank,
    ];
    let ends = interval.into_iter().flatten();
    // Sums are rounded: a mean of ones may be slightly above 1.
    let is_part = |part: f64| (-1e-9..=1.0 + 1e-9).contains(&part);
    let sound = parts.into_iter().chain(ends).all(is_part)
        && (0.0..=MOST_ERROR).contains(&standard_error)
        && queries.max(lone_queries) <= u64::from(u32::MAX);
    match sound {
        true => Ok(()),
        false => Err("its scores are not between 0 and 1".to_owned()),
    }
}
