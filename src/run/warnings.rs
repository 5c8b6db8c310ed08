//! [`Warning`]: raised if nothing is learned, or less than it seems, with the likely cause and the settings that mend it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::data::survey::Survey;
use crate::data::{Dataset, Sides};
use crate::judge::diagnostics::{COLLAPSED, Diagnostics};
use crate::judge::linear::Unfit;
use crate::judge::verdict::Verdict;
use crate::rules::config::{Standardize, TrainConfig};
use crate::rules::losses::Loss;
use crate::rules::miners::{Miner, TypeOfTriplets};
use crate::rules::optimizers::Optimizer;
use crate::search::metrics::Metrics;
use crate::train::trainer::{Evaluation, StepReport};

/// Steps without an active triplet before a warning.
const QUIET_STEPS: u64 = 20;
/// Margin, that of the default, from which on a head that leaves no triplet active has learned: a larger one was tried on nine runs
/// of real tables, and gained nothing.
const WIDE: f64 = 0.2;
/// Length of the mean row over the spread, from which on it is named as the cause of a collapse. A choice, not a measurement.
const FAR: f64 = 2.0;
/// Spread below which the constants that a first layer starts with outweigh the differences between rows.
const SHORT: f64 = 0.3;
/// Learning rate of Adam from which on it is named as the cause of a collapse. A choice, not a measurement.
const FAST: f64 = 3e-3;
/// Learning rate that is offered instead.
const USUAL: f64 = 1e-3;
/// Mean similarity so near 1 that 32-bit similarities, of which the next below 1 is 1 - 6e-8, cannot tell many rows apart.
const TOO_NEAR: f64 = 1.0 - 1e-4;

/// A likely problem of a run, and its remedy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// The problem, in sentences.
    pub text: String,
    /// Settings that mend it, `key=value` each, all of them together; empty if no setting does.
    pub sets: Vec<String>,
    /// Text of the button that makes these settings; empty if there are none.
    pub button: String,
}

impl Warning {
    fn new(text: String) -> Self {
        Self {
            text,
            sets: Vec::new(),
            button: String::new(),
        }
    }

    fn mended_by(self, button: impl Into<String>, sets: &[String]) -> Self {
        Self {
            sets: sets.to_vec(),
            button: button.into(),
            ..self
        }
    }
}

impl fmt::Display for Warning {
    /// Writes the sentences, then the settings to change.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        match &self.sets[..] {
            [] => Ok(()),
            sets => write!(f, " To mend it: {}.", sets.join(", ")),
        }
    }
}

/// Warnings of a run, each once.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Warnings {
    said: Vec<Warning>,
    /// Number of warnings, at the end of `said`, that are about the whole run.
    #[serde(default)]
    of_end: usize,
    quiet_steps: u64,
    quiet_said: bool,
    drift_said: bool,
    collapse_said: bool,
    #[serde(default)]
    too_near_said: bool,
    /// [`Survey::offset`] and [`Survey::spread`], if there was a survey.
    #[serde(default)]
    lies: Option<[f64; 2]>,
    /// Valid and active triplets or pairs since the last evaluation; the step of that evaluation is in `evaluated`.
    seen: [u64; 2],
    evaluated: u64,
}

/// Mean cosine of the steps' common push with its running average, above which embeddings drift: runs that learn stay below 0.45.
const DRIFTS: f64 = 0.5;
/// Share of active triplets or pairs below which a run learns whatever its push.
const DRIFTS_FROM_SHARE: f64 = 0.05;

impl Warnings {
    /// Warnings before the first step.
    pub(crate) fn before(dataset: &Dataset, sides: &Sides, config: &TrainConfig) -> Self {
        let mut said: Vec<Warning> = nothing_to_learn(config).into_iter().collect();
        let mut sizes = vec![0u32; dataset.class_names.len()];
        for row in &sides.train {
            sizes[dataset.labels[*row as usize] as usize] += 1;
        }
        let mut lone = dataset
            .class_names
            .iter()
            .zip(&sizes)
            .filter(|(_, size)| **size == 1);
        if let Some((name, _)) = lone.next() {
            let class = match lone.count() {
                0 => format!("Class \"{name}\" has"),
                1 => format!("Class \"{name}\" and one more have"),
                more => format!("Class \"{name}\" and {more} more have"),
            };
            said.push(Warning::new(format!(
                "{class} only one training row: no other row is of its class, so it is never a positive, only a negative."
            )));
        }
        said.extend(left_aside(config));
        let rows = sides.train.len();
        if config.memory() > rows {
            let warning = Warning::new(format!(
                "The memory holds {} rows and only {rows} rows train: the same row is in it more than once, and an older \
                 copy of a row is too easy a positive.",
                config.memory_size
            ));
            said.push(if rows >= config.batch_size {
                warning.mended_by(format!("Use {rows} rows"), &[format!("memory_size={rows}")])
            } else {
                warning
            });
        }
        Self {
            said,
            ..Self::default()
        }
    }

    /// Adds warnings from a survey of the rows.
    pub(crate) fn see_survey(&mut self, survey: &Survey, sides: &Sides) {
        self.lies = Some([survey.offset, survey.spread]);
        let found = [survey.zero_rows_warning(), survey.leak_warning(sides)];
        self.said
            .extend(found.into_iter().flatten().map(Warning::new));
    }

    /// Adds a warning with the reason for the missing linear baseline.
    pub(crate) fn see_no_linear(&mut self, unfit: &Unfit) {
        self.said.push(Warning::new(format!(
            "The head is compared with raw features only, not with a linear map (LDA): {unfit}."
        )));
    }

    /// Adds warnings from a step.
    pub(crate) fn see(&mut self, report: &StepReport, config: &TrainConfig) {
        // The counts may come from a file.
        self.seen[0] = self.seen[0].saturating_add(report.mining.valid);
        self.seen[1] = self.seen[1].saturating_add(report.mining.active);
        if report.mining.active > 0 {
            self.quiet_steps = 0;
            return;
        }
        self.quiet_steps = self.quiet_steps.saturating_add(1);
        if self.quiet_steps >= QUIET_STEPS && !self.quiet_said {
            self.quiet_said = true;
            self.said.extend(nothing_active(report, config));
        }
    }

    /// Adds warnings from the statistics of embeddings and gradient.
    pub(crate) fn see_diagnostics(&mut self, step: u64, found: &Diagnostics, config: &TrainConfig) {
        let [valid, active] = std::mem::take(&mut self.seen);
        let share = active as f64 / valid.max(1) as f64;
        let first = std::mem::replace(&mut self.evaluated, step).saturating_add(1);
        let drifts = found.push.is_some_and(|push| push > DRIFTS) && share > DRIFTS_FROM_SHARE;
        let mends = !config.center_gradient && config.batch_size > 1;
        if drifts && mends && !self.drift_said && step >= LEAST_STEPS {
            self.drift_said = true;
            self.said
                .push(drift(first, step, found.push.unwrap_or(0.0)));
        }
        if step >= LEAST_STEPS && found.mean_similarity > COLLAPSED && !self.collapse_said {
            self.collapse_said = true;
            self.said.push(collapse(step, found, config, self.lies));
        }
        if step >= LEAST_STEPS && found.mean_similarity > TOO_NEAR && !self.too_near_said {
            self.too_near_said = true;
            self.said.push(Warning::new(format!(
                "Scores from step {step} on are rough: the embeddings lie so near to each other (mean similarity {:.6}) that 32-bit \
                 similarities tell many of them apart no more. The same rows score higher in 64 bits.",
                found.mean_similarity
            )));
        }
    }

    /// Adds warnings about the whole run: from its curve and from the verdict.
    pub(crate) fn see_end(
        &mut self,
        evaluations: &[Evaluation],
        verdict: &Verdict,
        config: &TrainConfig,
    ) {
        let before = self.said.len();
        self.said.extend(steps_to_try(evaluations, config));
        self.said.extend(by_heart(evaluations).map(Warning::new));
        if verdict.prefers_linear {
            let text = "The linear map does better than this head. A linear head that starts from it begins with what it has.";
            let sets = ["hidden_layers=[]", "initial_weights=lda"].map(str::to_owned);
            let warning = Warning::new(text.to_owned());
            self.said
                .push(warning.mended_by("Start from the linear map", &sets));
        }
        self.of_end = self.said.len() - before;
    }

    /// Removes the warnings about the whole run: it goes on.
    pub(crate) fn forget_end(&mut self) {
        let of_end = std::mem::take(&mut self.of_end);
        self.said.truncate(self.said.len().saturating_sub(of_end));
    }

    pub(crate) fn said(&self) -> &[Warning] {
        &self.said
    }
}

/// Advice to take more steps, if the validation scores still rise. Fewer steps need no advice: the best step is kept.
fn steps_to_try(evaluations: &[Evaluation], config: &TrainConfig) -> Option<Warning> {
    let scores: Vec<(u64, Metrics)> = evaluations
        .iter()
        .filter_map(|evaluation| Some((evaluation.step, evaluation.validation?)))
        .collect();
    let (last_step, last) = *scores.last()?;
    let of = |metrics: &Metrics| metrics.precision_at_1;
    let steps = config.steps;
    if last_step < steps {
        // The run stopped early.
        return None;
    }
    let (earlier_step, earlier) = *scores
        .iter()
        .rev()
        .find(|(step, _)| 3 * step <= 2 * last_step)?;
    let rose = of(&last) - of(&earlier);
    let more = steps.saturating_mul(2);
    if earlier_step > 0
        && of(&last) < ENOUGH
        && rose > RISES * last.standard_error.max(earlier.standard_error)
    {
        let text = format!(
            "Validation precision@1 was still rising: {:.2} after {earlier_step} steps, {:.2} after {last_step}. \
             More steps may do better.",
            of(&earlier),
            of(&last)
        );
        let warning = Warning::new(text);
        return Some(warning.mended_by(format!("Use {more} steps"), &[format!("steps={more}")]));
    }
    None
}

/// Sentence on the step from which on the scores of training rows rose alone, if they end far above those of validation rows.
fn by_heart(evaluations: &[Evaluation]) -> Option<String> {
    let both = |evaluation: &Evaluation| Some((evaluation.train?, evaluation.validation?));
    let scored = evaluations
        .iter()
        .filter_map(|evaluation| Some((evaluation.step, both(evaluation)?)));
    let of = |metrics: &Metrics| metrics.precision_at_1;
    let (_, (train, validation)) = scored.clone().next_back()?;
    let better =
        |best: (u64, f64, f64), next: (u64, (Metrics, Metrics))| match of(&next.1.1) > best.1 {
            true => (next.0, of(&next.1.1), of(&next.1.0)),
            false => best,
        };
    let (step, best, at_best) = scored.fold((0, -1.0, 0.0), better);
    let rose = of(&train) - at_best;
    let error = train.standard_error.hypot(validation.standard_error);
    let above = of(&train) - of(&validation);
    let parts = above > FAR_ABOVE.max(SURE * error) && rose > RISES * train.standard_error;
    parts.then(|| {
        format!(
            "Validation precision@1 was best at step {step} ({best:.2}) while that of training rows went on from {at_best:.2} to {:.2}: \
             the head learned its training rows by heart. More rows help, or a head that can learn less (fewer \
             hidden units, dropout).",
            of(&train)
        )
    })
}

/// Standard errors that the scores of training rows must end above those of validation rows.
const SURE: f64 = 3.0;

/// How far precision@1 of training rows must end above that of validation rows for a word about it.
const FAR_ABOVE: f64 = 0.15;

/// Precision@1 from which on more steps are not advised.
const ENOUGH: f64 = 0.95;

/// Standard errors by which validation scores must rise for the advice: they are of the same rows, so fewer would do.
const RISES: f64 = 2.0;

/// Steps before which a run is too young for a trend.
const LEAST_STEPS: u64 = 60;

/// Warning of a drift: all embeddings are pushed the same way.
fn drift(first: u64, last: u64, push: f64) -> Warning {
    Warning::new(format!(
        "The embeddings drift: steps {first} to {last} pushed all of them the same way (cosine {push:.2} with the steps before; runs \
         that learn stay below 0.45). That moves them away from the stored ones, which lag behind, and tells no class from another. \
         The likely reason: a memory together with several rows of a class in a batch, whose positives are fresh and whose \
         negatives are old."
    ))
    .mended_by(
        "Centre the gradient".to_owned(),
        &["center_gradient=true".to_owned()],
    )
}

/// Warning of a collapse: all embeddings lie at one point. `lies`: distance of the rows from zero and their spread, if known. Tests
/// show that scaling mends rows far from zero and short rows (`tests/library/defaults.rs`); the other two remedies are untested.
fn collapse(
    step: u64,
    found: &Diagnostics,
    config: &TrainConfig,
    lies: Option<[f64; 2]>,
) -> Warning {
    let lr = config.optimizer.lr();
    let as_they_are = config.standardize == Standardize::Off;
    let [offset, spread] = lies.filter(|_| as_they_are).unwrap_or([0.0, f64::MAX]);
    let hardest = matches!(config.miner, Miner::BatchHard(_))
        || matches!(&config.miner, Miner::TripletMargin(miner) if miner.type_of_triplets == TypeOfTriplets::Hard);
    let scaled = ("Scale the features", vec!["standardize=auto".to_owned()]);
    let (cause, mended) = if offset > FAR {
        let cause = format!(
            "the rows lie far from zero, the mean row is {offset:.1} times as long as rows differ from it, and standardize is false"
        );
        (cause, Some(scaled))
    } else if spread < SHORT {
        let cause = format!(
            "the rows are short, they differ by {spread:.1e} from their mean, so that the constants of the first layer outweigh them, \
             and standardize is false"
        );
        (cause, Some(scaled))
    } else if lr >= FAST && !matches!(config.optimizer, Optimizer::Sgd(_)) {
        let cause = format!("a learning rate of {lr} is too high");
        let sets = vec![format!("optimizer.lr={USUAL}")];
        (cause, Some(("Use a learning rate of 0.001", sets)))
    } else if hardest {
        let cause = "the hardest triplets alone pull all rows together".to_owned();
        let sets = vec![
            "miner.name=triplet-margin".to_owned(),
            "miner.type_of_triplets=semihard".to_owned(),
        ];
        (cause, Some(("Keep semi-hard triplets", sets)))
    } else {
        let cause = "none that the run shows; another loss, or features that tell the classes better, may help";
        (cause.to_owned(), None)
    };
    let warning = Warning::new(format!(
        "The embeddings have collapsed: two training rows have a similarity of {:.3} on average (step {step}), so nearly nothing \
         tells them apart. The likely reason: {cause}.",
        found.mean_similarity
    ));
    match mended {
        Some((button, sets)) => warning.mended_by(button, &sets),
        None => warning,
    }
}

/// Warning of settings that this loss does not use.
fn left_aside(config: &TrainConfig) -> Option<Warning> {
    if config.loss.is_mined() {
        return None;
    }
    let miner = !matches!(config.miner, Miner::None) && !config.miner_weights;
    let (what, sets): (_, &[&str]) = match (miner, config.memory_size > config.memory()) {
        (false, false) => return None,
        (true, false) => ("the miner has no part in it", &["miner.name=none"]),
        (false, true) => ("the memory has no part in it", &["memory_size=0"]),
        (true, true) => (
            "miner and memory have no part in it",
            &["miner.name=none", "memory_size=0"],
        ),
    };
    let how = match config.loss.proxies() {
        Some(_) => {
            "This loss compares each row with learned proxies of the classes, not with other rows"
        }
        None => "This loss looks at every pair of rows",
    };
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    Some(Warning::new(format!("{how}: {what}.")).mended_by("Leave it out".to_owned(), &sets))
}

/// Warning with the reason why no triplet of the last steps was active, as far as a step tells; `None` if the head has learned all
/// that margins as wide as the default's can teach, which is no fault.
fn nothing_active(report: &StepReport, config: &TrainConfig) -> Option<Warning> {
    let mining = &report.mining;
    let (what, loss) = match &config.loss {
        Loss::TripletMargin(loss) => ("triplet", Some(loss)),
        _ => ("pair", None),
    };
    let loss_margin = |margin: f64| format!("loss.margin={}", rounded(margin));
    let (cause, button, sets) = if mining.valid == 0 {
        let cause = if config.sampler.draws_one_class(config.batch_size) {
            "all rows of a batch are of one class, so there is no negative"
        } else if config.memory() == 0 {
            "no two rows of a batch are of one class, so there is no positive"
        } else {
            "no two rows of batch and memory are of one class, so there is no positive"
        };
        let m = rows_per_class(config);
        let button = match m {
            0 => "Draw batches of all classes".to_owned(),
            m => format!("Draw {m} rows per class"),
        };
        (cause, button, vec![format!("m_per_class={m}")])
    } else if mining.mined == 0 {
        match &config.miner {
            Miner::TripletMargin(miner) if mining.easy == mining.valid && miner.margin >= WIDE => {
                return None;
            }
            Miner::TripletMargin(miner) if mining.easy == mining.valid => {
                let margin = rounded((2.0 * miner.margin.max(0.1)).max(WIDE));
                (
                    "in every triplet the positive is nearer than the negative by the whole margin: the head has learned \
                     what this margin can teach, or the margin is too small",
                    format!("Use a margin of {margin}"),
                    std::iter::once(format!("miner.margin={margin}"))
                        .chain(loss.map(|loss| loss_margin(margin.max(loss.margin))))
                        .collect(),
                )
            }
            Miner::TripletMargin(miner) => {
                let (button, kind) = match miner.type_of_triplets {
                    TypeOfTriplets::Semihard => ("Keep hard triplets too", "all"),
                    _ => ("Keep semi-hard triplets", "semihard"),
                };
                (
                    "the miner keeps none of the triplets there are",
                    button.to_owned(),
                    vec![format!("miner.type_of_triplets={kind}")],
                )
            }
            _ => (
                "the miner keeps none of the triplets there are",
                "Use the triplet-margin miner".to_owned(),
                vec!["miner.name=triplet-margin".to_owned()],
            ),
        }
    } else if loss.is_some_and(|loss| loss.margin >= WIDE) {
        return None;
    } else if let Some(loss) = loss {
        let margin = rounded(2.0 * loss.margin.max(0.1));
        (
            "the triplets that the miner keeps meet the loss's margin already",
            format!("Use a loss margin of {margin}"),
            vec![loss_margin(margin)],
        )
    } else {
        let cause = match config.loss.is_mined() {
            true => "the pairs that the miner keeps meet the loss's margins already",
            false => "every row is told from the other classes as well as this loss asks",
        };
        return Some(Warning::new(quiet(what, report.step, cause)));
    };
    Some(Warning::new(quiet(what, report.step, cause)).mended_by(button, &sets))
}

/// Text of the warning of steps without an active triplet or pair.
fn quiet(what: &str, step: u64, cause: &str) -> String {
    format!(
        "No {what} was active in {QUIET_STEPS} steps (up to step {step}), so nothing more is learned. The likely reason: {cause}."
    )
}

/// Rows per class for a batch with several rows of several classes; 0, plain batches, if its size allows none.
fn rows_per_class(config: &TrainConfig) -> usize {
    let size = config.batch_size;
    let fits = |m: &usize| size > *m && size.is_multiple_of(*m);
    [4, 2].into_iter().find(fits).unwrap_or(0)
}

/// A margin rounded to two digits after the point.
fn rounded(margin: f64) -> f64 {
    (100.0 * margin).round() / 100.0
}

/// Warning of settings under which no triplet can be both mined and active.
fn nothing_to_learn(config: &TrainConfig) -> Option<Warning> {
    let loss = config.loss.triplet_margin();
    // The band of `s_ap - s_an` that is mined lies above `low`, and up to `high`.
    let (low, high, what) = match &config.miner {
        Miner::None => (-2.0, 2.0, "without a miner"),
        Miner::BatchHard(_)
        | Miner::BatchEasyHard(_)
        | Miner::MultiSimilarity(_)
        | Miner::PairMargin(_)
        | Miner::FacenetSemihard(_)
        | Miner::DistanceWeighted(_) => (-2.0, 2.0, "with this miner"),
        Miner::TripletMargin(miner) => match miner.type_of_triplets {
            TypeOfTriplets::All => (-2.0, miner.margin, "with all triplets"),
            TypeOfTriplets::Easy => (miner.margin, 2.0, "with easy triplets"),
            TypeOfTriplets::Semihard => (0.0, miner.margin, "with semi-hard triplets"),
            TypeOfTriplets::Hard => (-2.0, miner.margin.min(0.0), "with hard triplets"),
        },
    };
    if low >= high {
        let text = format!(
            "Nothing can be learned: {what} and a miner margin of {high}, no triplet is kept."
        );
        let sets = ["miner.margin=0.2".to_owned()];
        Some(Warning::new(text).mended_by("Use a miner margin of 0.2", &sets))
    } else if let Some(loss) = loss
        && low >= loss.margin
        && !loss.smooth_loss
    {
        let text = format!(
            "Every loss is zero: {what}, the positive is nearer than the negative by more than {low} in each, and the loss \
             asks for {} only.",
            loss.margin
        );
        let margin = rounded(low + 0.2);
        let sets = [format!("loss.margin={margin}")];
        Some(Warning::new(text).mended_by(format!("Use a loss margin of {margin}"), &sets))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Side;
    use crate::rules::miners::MiningCounts;

    /// Scores of 500 rows with this precision@1.
    fn metrics(p: f64) -> Metrics {
        Metrics {
            precision_at_1: p,
            standard_error: (p * (1.0 - p) / 500.0).sqrt(),
            queries: 500,
            ..Metrics::default()
        }
    }

    /// An evaluation with these scores of training rows and of validation rows.
    fn evaluation(step: u64, train: Option<f64>, validation: f64) -> Evaluation {
        Evaluation {
            step,
            train: train.map(metrics),
            validation: Some(metrics(validation)),
            diagnostics: Diagnostics::default(),
        }
    }

    /// The advice for a validation side of 500 rows with these scores.
    fn tried(scores: &[(u64, f64)]) -> Option<Warning> {
        let evaluations = scores.iter().map(|(step, p)| evaluation(*step, None, *p));
        steps_to_try(&evaluations.collect::<Vec<_>>(), &config(&["steps=600"]))
    }

    #[test]
    fn rows_learned_by_heart_are_told_from_where_validation_rose_no_more() {
        let said = |scores: &[(u64, f64, f64)]| {
            let all = scores.iter();
            let all =
                all.map(|(step, train, validation)| evaluation(*step, Some(*train), *validation));
            by_heart(&all.collect::<Vec<_>>())
        };
        let parts = [
            (0, 0.3, 0.3),
            (200, 0.7, 0.6),
            (400, 0.9, 0.58),
            (600, 0.98, 0.59),
        ];
        let text = said(&parts).expect("they part");
        assert!(text.starts_with("Validation precision@1 was best at step 200 (0.60) while that of training rows went on from 0.70 to 0.98"), "{text}");
        // Validation still rises; both end alike; training rows were as good at the best step.
        for none in [
            &[(0, 0.3, 0.3), (200, 0.8, 0.5), (400, 0.98, 0.6)][..],
            &[(0, 0.3, 0.3), (200, 0.9, 0.96), (400, 0.99, 0.95)],
            &[(0, 0.3, 0.3), (200, 0.97, 0.6), (400, 0.98, 0.59)],
        ] {
            assert_eq!(said(none), None);
        }
        let without = [evaluation(0, None, 0.3), evaluation(200, None, 0.6)];
        assert_eq!(by_heart(&without), None);
    }

    #[test]
    fn more_steps_are_named_where_the_score_still_rises() {
        let rising = [(0, 0.3), (200, 0.5), (400, 0.6), (600, 0.7)];
        let warning = tried(&rising).expect("it rises");
        assert!(
            warning
                .text
                .contains("0.60 after 400 steps, 0.70 after 600"),
            "{warning}"
        );
        assert_eq!(warning.sets, ["steps=1200"]);
        // Level, within chance, highest before the end (that step is kept), or worse than at the start.
        for said in [
            &[(0, 0.3), (200, 0.8), (400, 0.75), (600, 0.7)][..],
            &[(0, 0.3), (200, 0.7), (400, 0.72), (600, 0.73)],
            &[(0, 0.3), (200, 0.74), (400, 0.7), (600, 0.71)],
            &[(0, 0.3), (200, 0.7), (500, 0.8), (600, 0.7)],
            &[(0, 0.8), (200, 0.5), (400, 0.4), (600, 0.42)],
            &[(0, 0.3), (400, 0.9), (600, 0.97)],
            &[(600, 0.7)],
            &[],
        ] {
            assert_eq!(tried(said), None, "{said:?}");
        }
    }

    fn config(sets: &[&str]) -> TrainConfig {
        sets.iter().fold(TrainConfig::default(), |config, set| {
            config.with_set(set).expect("sets")
        })
    }

    fn texts(warnings: &Warnings) -> Vec<String> {
        warnings.said().iter().map(ToString::to_string).collect()
    }

    fn before(sets: &[&str]) -> Vec<String> {
        let dataset = Dataset::sample("digits", 0).expect("is there");
        let config = config(sets);
        let sides = Sides::new(&dataset, &config).expect("splits");
        assert_eq!(sides.of(Side::Train).len(), 1150);
        let warnings = Warnings::before(&dataset, &sides, &config);
        for warning in warnings.said() {
            heals(warning, &config);
            let mended = config.with_sets(&warning.sets).0;
            let left = Warnings::before(&dataset, &sides, &mended);
            assert!(!left.said().contains(warning), "{warning}");
        }
        texts(&warnings)
    }

    /// The settings of a warning hold, change something, and have a button.
    fn heals(warning: &Warning, config: &TrainConfig) {
        let (mended, problems) = config.with_sets(&warning.sets);
        assert!(problems.is_empty(), "{warning}: {problems:?}");
        assert!(mended != *config && !warning.button.is_empty(), "{warning}");
    }

    #[test]
    fn settings_under_which_every_loss_is_zero_are_named() {
        assert_eq!(before(&["memory_size=512"]), [""; 0]);
        for sets in [
            &["memory_size=512", "miner.type_of_triplets=easy"][..],
            &["memory_size=512", "loss.margin=0"],
            &["memory_size=512", "miner.name=none", "loss.margin=-2"],
        ] {
            assert!(
                before(sets)[0].starts_with("Every loss is zero"),
                "{sets:?}"
            );
        }
        let warnings = before(&["memory_size=512", "miner.margin=0"]);
        assert!(
            warnings[0].starts_with("Nothing can be learned: with semi-hard triplets"),
            "{warnings:?}"
        );
        let easy = before(&[
            "memory_size=512",
            "miner.type_of_triplets=easy",
            "loss.margin=0.3",
        ]);
        assert_eq!(easy, [""; 0]);
    }

    #[test]
    fn a_memory_larger_than_the_training_rows_is_named() {
        assert_eq!(
            before(&["memory_size=2048"]),
            [
                "The memory holds 2048 rows and only 1150 rows train: the same row is in it more than once, and an older copy \
                 of a row is too easy a positive. To mend it: memory_size=1150."
            ]
        );
    }

    #[test]
    fn a_class_with_one_row_is_named() {
        let mut dataset = Dataset::sample("digits", 0).expect("is there");
        dataset.class_names.push("only once".to_owned());
        dataset.labels[7] = 10;
        let config = config(&[
            "memory_size=512",
            "test_fraction=0",
            "validation_fraction=0",
        ]);
        let sides = Sides::new(&dataset, &config).expect("splits");
        let warnings = texts(&Warnings::before(&dataset, &sides, &config));
        assert!(
            warnings[0].starts_with("Class \"only once\" has only one training row"),
            "{warnings:?}"
        );
    }

    #[test]
    fn twenty_steps_without_an_active_triplet_are_said_once_with_the_cause() {
        let config = config(&["miner.margin=0.1", "loss.margin=0.1"]);
        let step = |step, mining| StepReport {
            step,
            loss: 0.0,
            mining,
            memory_bytes: 0,
            pml_bytes: 0,
        };
        let easy = MiningCounts {
            valid: 10,
            easy: 10,
            ..MiningCounts::default()
        };
        let active = MiningCounts {
            valid: 10,
            active: 1,
            ..MiningCounts::default()
        };
        let mut warnings = Warnings::default();
        for i in 1..20 {
            warnings.see(&step(i, easy), &config);
        }
        warnings.see(&step(20, active), &config);
        assert_eq!(warnings.said(), []);
        for i in 21..100 {
            warnings.see(&step(i, easy), &config);
        }
        assert_eq!(warnings.said().len(), 1);
        let said = texts(&warnings).concat();
        assert!(
            said.contains("up to step 40")
                && said.contains("nearer than the negative by the whole margin"),
            "{said}"
        );
        assert_eq!(
            warnings.said()[0].sets,
            ["miner.margin=0.2", "loss.margin=0.2"]
        );
    }

    #[test]
    fn wider_margins_are_offered_until_they_are_wide() {
        let mut config = config(&["miner.name=none", "loss.margin=0.1"]);
        let mut said = Vec::new();
        for _ in 0..3 {
            let report = StepReport {
                step: 20,
                loss: 0.0,
                mining: MiningCounts {
                    valid: 9,
                    mined: 9,
                    ..MiningCounts::default()
                },
                memory_bytes: 0,
                pml_bytes: 0,
            };
            let said_now = nothing_active(&report, &config);
            let sets = said_now.map_or(Vec::new(), |warning| warning.sets);
            for set in &sets {
                config = config.with_set(set).expect("sets");
            }
            said.push(sets.concat());
        }
        assert_eq!(said, ["loss.margin=0.2", "", ""]);
    }

    #[test]
    fn a_head_that_learned_all_that_the_default_margins_teach_is_no_fault() {
        let report = |easy, mined| StepReport {
            step: 20,
            loss: 0.0,
            mining: MiningCounts {
                valid: 9,
                easy,
                mined,
                ..MiningCounts::default()
            },
            memory_bytes: 0,
            pml_bytes: 0,
        };
        assert_eq!(nothing_active(&report(9, 0), &config(&[])), None);
        let without_miner = config(&["miner.name=none"]);
        assert_eq!(nothing_active(&report(0, 9), &without_miner), None);
    }

    #[test]
    fn a_collapse_names_the_cause_that_the_run_shows_and_no_other() {
        let found = Diagnostics {
            mean_similarity: 0.9973,
            ..Diagnostics::default()
        };
        for (sets, lies, cause, mended) in [
            (
                &["standardize=false"][..],
                Some([4.0, 1.0]),
                "the mean row is 4.0 times as long",
                &["standardize=auto"][..],
            ),
            (
                &["standardize=false"],
                Some([0.1, 1e-5]),
                "they differ by 1.0e-5 from their mean",
                &["standardize=auto"],
            ),
            // Centred rows lie nowhere else.
            (
                &["optimizer.lr=0.03"],
                Some([4.0, 1e-5]),
                "0.03 is too high",
                &["optimizer.lr=0.001"],
            ),
            (
                &["miner.name=batch-hard"],
                None,
                "the hardest triplets alone",
                &[
                    "miner.name=triplet-margin",
                    "miner.type_of_triplets=semihard",
                ],
            ),
            (
                &["standardize=false"],
                Some([1.0, 1.0]),
                "none that the run shows",
                &[],
            ),
            (&[], None, "none that the run shows", &[]),
        ] {
            let config = config(sets);
            let warning = collapse(80, &found, &config, lies);
            assert!(warning.text.contains(cause), "{warning}");
            assert_eq!(warning.sets, mended);
            if !mended.is_empty() {
                heals(&warning, &config);
            }
        }
    }

    #[test]
    fn every_cause_of_quiet_steps_names_settings_that_hold() {
        let counts = |valid, easy, mined| MiningCounts {
            valid,
            easy,
            mined,
            ..MiningCounts::default()
        };
        for (sets, mining, cause, button) in [
            (
                &["memory_size=0", "m_per_class=32"][..],
                counts(0, 0, 0),
                "of one class, so there is no negative",
                "Draw 4 rows per class",
            ),
            (
                &["memory_size=0"],
                counts(0, 0, 0),
                "no two rows of a batch",
                "Draw 4 rows per class",
            ),
            (
                &["memory_size=32"],
                counts(0, 0, 0),
                "no two rows of batch and memory",
                "Draw 4 rows per class",
            ),
            (
                &["miner.margin=0.1", "loss.margin=0.1"],
                counts(9, 9, 0),
                "by the whole margin",
                "Use a margin of 0.2",
            ),
            (
                &["miner.type_of_triplets=hard"],
                counts(9, 3, 0),
                "keeps none",
                "Keep semi-hard triplets",
            ),
            (&[], counts(9, 3, 0), "keeps none", "Keep hard triplets too"),
            (
                &["miner.name=pair-margin"],
                counts(9, 0, 0),
                "keeps none",
                "Use the triplet-margin miner",
            ),
            (
                &["miner.name=none", "loss.margin=0.1"],
                counts(9, 0, 9),
                "meet the loss's margin",
                "Use a loss margin of 0.2",
            ),
        ] {
            let config = config(sets);
            let mut warnings = Warnings::default();
            for step in 1..=20 {
                let report = StepReport {
                    step,
                    loss: 0.0,
                    mining,
                    memory_bytes: 0,
                    pml_bytes: 0,
                };
                warnings.see(&report, &config);
            }
            let [warning] = warnings.said() else {
                panic!("one warning")
            };
            assert!(warning.text.contains(cause), "{warning}");
            assert_eq!(warning.button, button);
            heals(warning, &config);
        }
    }
}
