//! What is read of a run, held to what a run can come to: a checkpoint or a history may be from anywhere, and what it says is shown.

use crate::search::metrics::{Metrics, Scores};
use crate::train::trainer::{Evaluation, StepReport};

use super::RunReport;

/// Milliseconds that a run took at most: three hundred years.
const MOST_MS: f64 = 1e13;

/// A diagnostic at most: the length of a gradient of many 32-bit numbers.
const MOST_NUMBER: f64 = 1e45;

/// A standard error at most; of few groups it is large.
const MOST_ERROR: f64 = 1e3;

/// What is wrong with what a run says, in words after "its".
type Fault = String;

/// Sees that times, steps and scores are such as a run has.
///
/// # Errors
/// What is wrong, in words.
pub(super) fn report(report: &RunReport) -> Result<(), Fault> {
    elapsed(report.elapsed_ms)?;
    let mut before = None;
    for taken in &report.history {
        step(before, taken, report.steps)?;
        before = Some(taken.step);
    }
    evaluations(&report.evaluations, report.steps)?;
    let baseline = &report.baseline;
    let all = [
        report.r#final.as_ref(),
        Some(&baseline.raw),
        baseline.linear.as_ref(),
    ];
    all.into_iter().flatten().try_for_each(scores)
}

/// The same of a time.
pub(super) fn elapsed(ms: f64) -> Result<(), Fault> {
    match (0.0..=MOST_MS).contains(&ms) {
        true => Ok(()),
        false => Err("its time is no time".to_owned()),
    }
}

/// The same of a step, which comes after the step `before`, of a run that did so many.
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

/// The same of its evaluations: one at the start, and one after a step at most.
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

/// The same of the scores of all sides.
pub(super) fn scores(scores: &Scores) -> Result<(), Fault> {
    let Scores {
        train,
        validation,
        test,
        test_own_group,
        test_without_copies,
        test_over_classes,
    } = scores;
    let all = [
        train,
        validation,
        test,
        test_own_group,
        test_without_copies,
        test_over_classes,
    ];
    all.into_iter().flatten().try_for_each(metrics)
}

/// Parts of all queries, each between 0 and 1, of no more queries than a list of rows has.
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
    // Sums are rounded: a mean of ones may be a little more.
    let is_part = |part: f64| (-1e-9..=1.0 + 1e-9).contains(&part);
    let sound = parts.into_iter().chain(ends).all(is_part)
        && (0.0..=MOST_ERROR).contains(&standard_error)
        && queries.max(lone_queries) <= u64::from(u32::MAX);
    match sound {
        true => Ok(()),
        false => Err("its scores are not between 0 and 1".to_owned()),
    }
}
