//! [`Curves`]: results of a run so far, which the plots draw.

use std::collections::BTreeMap;

use nearfar::{
    Baseline, Compared, DataReport, Evaluation, MemoryAge, MemoryReport, Metrics, PairHistogram,
    Scores, StepReport, TrainConfig, Warning,
};

use crate::history::History;
use crate::protocol::Event;

/// Factor by which earlier steps and milliseconds of the pace shrink at each report: it spans about twenty reports.
const PACE_KEPT: f64 = 0.95;

/// Results of a run so far, which the plots draw.
#[derive(Clone, Debug, Default)]
pub(crate) struct Curves {
    pub(crate) config: TrainConfig,
    pub(crate) data: DataReport,
    pub(crate) history: History,
    /// Similarities of the pairs of the last step.
    pub(crate) pairs: Option<PairHistogram>,
    /// Age of the rows of the memory.
    pub(crate) age: Option<MemoryAge>,
    pub(crate) evaluations: Vec<Evaluation>,
    /// The best validation in words, if the settings keep it.
    pub(crate) best: Option<String>,
    /// Step of the head of a run that is over, if it is not the last.
    pub(crate) kept_step: Option<u64>,
    /// The run stopped early.
    pub(crate) stopped: bool,
    pub(crate) baseline: Baseline,
    pub(crate) scores: Option<Scores>,
    pub(crate) memory: MemoryReport,
    /// Bytes that the triplets or pairs of a step take; 0 if that is not known.
    pub(crate) step_bytes: u64,
    /// Bytes held for each purpose, from the step of an entry until that of the next.
    pub(crate) purposes: Vec<(u64, BTreeMap<String, u64>)>,
    pub(crate) verdict: Option<String>,
    /// The verdict in numbers.
    pub(crate) compared: Vec<Compared>,
    pub(crate) warnings: Vec<Warning>,
    pub(crate) elapsed_ms: f64,
    /// Steps and their milliseconds, in which earlier reports count less and less.
    pub(crate) pace: (f64, f64),
}

impl Curves {
    /// Takes in what came on the way: steps, or scores.
    pub(super) fn take(&mut self, event: Event) {
        match event {
            Event::Steps {
                reports,
                took_ms,
                pairs,
                age,
                warnings,
                memory,
            } => {
                // The steps of a run that was opened took no time here.
                if took_ms > 0.0 {
                    let (steps, ms) = self.pace;
                    self.pace = (
                        PACE_KEPT * steps + reports.len() as f64,
                        PACE_KEPT * ms + took_ms,
                    );
                }
                (self.pairs, self.age, self.warnings) = (pairs, Some(age), warnings);
                reports
                    .into_iter()
                    .for_each(|report| self.history.push(report));
                if memory.by_purpose != self.memory.by_purpose {
                    self.purposes.push((self.step(), memory.by_purpose.clone()));
                }
                self.memory = memory;
            }
            Event::Evaluated {
                evaluation,
                baseline,
                best,
                stopped,
            } => {
                (self.best, self.stopped) = (best, stopped);
                self.evaluations.push(*evaluation);
                self.baseline = *baseline;
            }
            _ => unreachable!("only what a run finds on its way comes here"),
        }
    }

    /// The settings of the run, if there is one.
    pub(super) fn ran(&self) -> Option<&TrainConfig> {
        (self.data.rows > 0).then_some(&self.config)
    }

    /// Steps per second, without scoring between them, and the estimated milliseconds of the steps left (`None` if none is left);
    /// `None` before the first step.
    pub(crate) fn pace(&self) -> Option<(f64, Option<f64>)> {
        let (steps, ms) = self.pace;
        let left = self.config.steps.saturating_sub(self.step());
        let left_ms = (left > 0).then_some(left as f64 * ms / steps);
        (ms > 0.0).then_some((1e3 * steps / ms, left_ms))
    }

    /// Tells if no step is left, as all are done or the run stopped early.
    pub(crate) fn is_done(&self) -> bool {
        self.stopped || self.step() == self.config.steps
    }

    /// Steps done.
    pub(crate) fn step(&self) -> u64 {
        self.history.last().map_or(0, |report| report.step)
    }

    /// Scores that came last: of the test side if that is scored, else of the validation side, else of the training side.
    pub(crate) fn latest(&self) -> Option<Metrics> {
        let test = self.scores.and_then(|scores| scores.test);
        let last = self.evaluations.last();
        test.or(last.and_then(|last| last.validation.or(last.train)))
    }

    /// Precision@1 of [`Curves::latest`].
    pub(crate) fn latest_precision(&self) -> Option<f64> {
        self.latest().map(|metrics| metrics.precision_at_1)
    }

    /// Side of the baselines' scores; empty without any.
    pub(crate) fn baseline_side(&self) -> &'static str {
        match (
            self.scores.and_then(|scores| scores.test),
            self.latest_raw(),
        ) {
            (Some(_), _) => "test",
            (None, Some(_)) => "validation",
            (None, None) => "",
        }
    }

    /// Scores of the raw features: of the test side if that is scored, else of the validation side.
    pub(crate) fn latest_raw(&self) -> Option<Metrics> {
        let raw = &self.baseline.raw;
        match self.scores.and_then(|scores| scores.test) {
            Some(_) => raw.test,
            None => raw.validation,
        }
    }

    /// Tells if there are validation rows; if not, training rows are scored during the run.
    pub(crate) fn steers(&self) -> bool {
        self.data.train == 0 || self.data.validation > 0
    }

    /// Scores of the linear map, of the side of [`Curves::latest_raw`]; `None` if it could not be fitted.
    pub(crate) fn latest_linear(&self) -> Option<Metrics> {
        let linear = self.baseline.linear?;
        match self.scores.and_then(|scores| scores.test) {
            Some(_) => linear.test,
            None => linear.validation,
        }
    }

    /// Side of [`Curves::latest`]; empty before anything was scored.
    pub(crate) fn latest_side(&self) -> &'static str {
        match (
            self.scores.and_then(|scores| scores.test),
            self.evaluations.last(),
        ) {
            (Some(_), _) => "test",
            (None, Some(last)) if last.validation.is_some() => "validation",
            (None, Some(_)) => "training",
            (None, None) => "",
        }
    }

    /// The last report, or that of the step under the pointer.
    pub(crate) fn report_at(&self, step: Option<f64>) -> Option<&StepReport> {
        step.map_or(self.history.last(), |step| self.history.at(step))
    }

    /// The last scores of the validation side (of the training side without one), or those at the step under the pointer.
    pub(crate) fn scores_at(&self, step: Option<f64>) -> Option<Metrics> {
        let last = self.evaluation_at(step);
        last.and_then(|last| last.validation.or(last.train))
    }

    /// The last evaluation, or that at the step under the pointer.
    pub(crate) fn evaluation_at(&self, step: Option<f64>) -> Option<&Evaluation> {
        let until = step.map_or(self.evaluations.len(), |step| {
            self.evaluations
                .partition_point(|evaluation| evaluation.step as f64 <= step)
        });
        self.evaluations[..until].last()
    }
}
