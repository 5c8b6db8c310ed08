//! [`BestStep`]: the best validation of a run with [`EarlyStop`], and whether the run has waited long enough for a better one.

use serde::{Deserialize, Serialize};

use super::{Run, both};
use crate::base::error::Error;
use crate::rules::config::TrainConfig;
use crate::rules::early_stop::{EarlyStop, StopMetric};
use crate::search::metrics::Metrics;
use crate::train::trainer::Evaluation;

/// The best validation of a run so far, by the metric of its [`EarlyStop`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BestStep {
    /// Score that is compared.
    pub metric: StopMetric,
    /// Step of the best validation; of equal ones the first.
    pub step: u64,
    /// Its score.
    pub value: f64,
    /// Validations since then.
    pub since: u64,
    /// Step at which the run ended, if that is before its last: `patience` validations in a row were no better.
    pub stopped_at: Option<u64>,
}

/// The value of a metric; `None` for no metric.
fn value(metric: StopMetric, metrics: &Metrics) -> Option<f64> {
    Some(match metric {
        StopMetric::None => return None,
        StopMetric::PrecisionAt1 => metrics.precision_at_1,
        StopMetric::RPrecision => metrics.r_precision,
        StopMetric::MeanAveragePrecisionAtR => metrics.mean_average_precision_at_r,
        StopMetric::MeanAveragePrecision => metrics.mean_average_precision,
        StopMetric::MeanReciprocalRank => metrics.mean_reciprocal_rank,
    })
}

impl BestStep {
    /// Takes in the next validation of a run; returns the best one then, if any row was ever validated.
    pub fn after(
        before: Option<Self>,
        evaluation: &Evaluation,
        config: &TrainConfig,
    ) -> Option<Self> {
        let EarlyStop { metric, patience } = config.early_stop;
        let Some(value) = evaluation
            .validation
            .as_ref()
            .and_then(|metrics| value(metric, metrics))
        else {
            return before;
        };
        let step = evaluation.step;
        let best = match before {
            Some(best) if value <= best.value => Self {
                since: best.since + 1,
                ..best
            },
            _ => Self {
                metric,
                step,
                value,
                since: 0,
                stopped_at: None,
            },
        };
        let ends = patience > 0 && best.since >= patience && step < config.steps;
        Some(Self {
            stopped_at: ends.then_some(step),
            ..best
        })
    }

    /// The best validation so far in a few words.
    pub fn words(&self) -> String {
        let Self { step, value, .. } = self;
        format!("best {} {value:.4}, of step {step}", self.metric.words())
    }

    /// The end of a run of `steps` steps in a sentence.
    fn said(&self, steps: u64) -> String {
        let Self { step, value, .. } = *self;
        let metric = self.metric.words();
        let head = match step {
            0 => "step 0, before any training,".to_owned(),
            step => format!("step {step}"),
        };
        match self.stopped_at {
            Some(last) => format!(
                " The run stopped early, at step {last} of {steps}: {} validations in a row had no better {metric} than the {value:.3} of \
                 {head}, whose head this is.",
                self.since
            ),
            None => format!(
                " The head is that of {head} of {steps}: no validation had a better {metric} than its {value:.3}."
            ),
        }
    }
}

/// Compares two evaluations by the score that chooses the best step of such a run.
pub(super) fn better_by(config: &TrainConfig) -> impl Fn(&Evaluation, &Evaluation) -> bool + use<> {
    let metric = config.early_stop.metric;
    let score = move |evaluation: &Evaluation| {
        let metrics = evaluation.validation.as_ref()?;
        Some(value(metric, metrics).unwrap_or_else(|| both(metrics)))
    };
    move |one, other| score(one) > score(other)
}

impl Run {
    /// Takes in an evaluation; tells if no evaluation before did as well on the validation rows.
    pub(super) fn sees_best(&mut self, evaluation: &Evaluation) -> bool {
        let config = self.trainer.config();
        if !config.early_stop.is_on() {
            return self.is_best(evaluation);
        }
        self.best = BestStep::after(self.best, evaluation, config);
        self.best.is_some_and(|best| best.step == evaluation.step)
    }

    /// The best validation so far, if the run keeps it.
    pub fn best(&self) -> Option<BestStep> {
        self.best
    }

    /// Tells if the run has waited for a better validation for as long as it was told to.
    pub(super) fn stops_early(&self) -> bool {
        self.best.is_some_and(|best| best.stopped_at.is_some())
    }

    /// Sentence on the step of the final head; empty if it is the last and was not chosen.
    pub(super) fn head_said(&self) -> String {
        let steps = self.trainer.config().steps;
        match (self.best, self.kept_step()) {
            (Some(best), _) => best.said(steps),
            (None, Some(step)) => format!(
                " The head is that of step {step} of {steps}: on the validation rows it did better than the last."
            ),
            (None, None) => String::new(),
        }
    }

    /// Tells if more steps would change nothing: `early_stop` ended the run, or would have at its last step.
    pub fn is_settled(&self) -> bool {
        let patience = self.trainer.config().early_stop.patience;
        self.best
            .is_some_and(|best| patience > 0 && best.since >= patience)
    }

    /// Refusal of `steps` for a run that is settled.
    pub(super) fn settled(&self, steps: u64) -> Error {
        let patience = self.trainer.config().early_stop.patience;
        Error::Config(format!(
            "steps is {steps}: early_stop ended the run at step {}, after {patience} validations without a better one, so more steps \
             change nothing: start a new run with more patience, or without early_stop",
            self.step()
        ))
    }
}
