//! Threshold of similarity at which two rows are of the same class. Takes unit rows with labels, counts their pairs by similarity,
//! chooses on one side the lowest threshold that lets in a given part of the pairs of different classes, and reports its rates on
//! another.
//!
//! The words are those of ISO/IEC 19795-1 and NIST: the **false match rate** (FMR) is the part of the pairs of different classes at
//! or above the threshold, the **false non-match rate** (FNMR) the part of the pairs of the same class below it.

mod counter;
mod counts;
mod words;

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

pub use counter::ThresholdSpec;
pub(crate) use counter::{Counted, PairCounter};
use counts::{EDGES, bin, edge, f1};

use crate::base::error::{Error, Result};
use crate::base::interval::interval;
use crate::data::classes;
use crate::data::groups;
use crate::engine::Engine;
use crate::engine::pace::{Pace, Slices};
use crate::model::metric::Form;
use crate::model::unit_rows::UnitRows;
use crate::search::rows::{Classes, Rows, choose};

/// False match rates to choose from if none is asked for: the lowest that lets in as many pairs as the rule of 30 needs.
const RATES: [f64; 3] = [0.001, 0.01, 0.1];

/// Pairs in error that a measured rate needs, to be within 30 % of the true one in 9 of 10 samples (Doddington and others 2000, the
/// rule of 30).
const ENOUGH: f64 = 30.0;

/// Edges from one point of a [`Curve`] to the next: 0.005.
const STEP: usize = 250;

/// Settings of a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThresholdConfig {
    /// The part of the pairs of different classes that may be let in on the side that is fitted; without it 0.001, or 0.01 or 0.1
    /// if fewer than 30 pairs would be.
    pub false_match_rate: Option<f64>,
    /// Rows of a side that are queries, a seeded choice: each is paired with all other rows of the side. 0 is all.
    pub queries: usize,
    /// Seed of the choice of queries.
    pub seed: u64,
}

impl Default for ThresholdConfig {
    fn default() -> Self {
        Self {
            false_match_rate: None,
            queries: 10_000,
            seed: 0,
        }
    }
}

impl ThresholdConfig {
    /// Checks the rate.
    ///
    /// # Errors
    /// [`Error::Config`] with the range.
    pub fn check(&self) -> Result<()> {
        match self.false_match_rate {
            Some(rate) if !(rate > 0.0 && rate < 1.0) => Err(Error::Config(format!(
                "the false match rate is {rate}: it must be above 0 and below 1"
            ))),
            _ => Ok(()),
        }
    }
}

/// Rates of a threshold on the pairs of one side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PairRates {
    /// Rows of the side.
    pub rows: u64,
    /// Rows that were queries.
    pub queries: u64,
    /// Classes that have a row.
    pub classes: u64,
    /// Pairs of the same class.
    pub same_pairs: u64,
    /// Pairs of different classes.
    pub different_pairs: u64,
    /// Pairs of different classes at or above the threshold.
    pub false_matches: u64,
    /// Pairs of the same class below the threshold.
    pub false_non_matches: u64,
    /// The part of the pairs of different classes at or above the threshold (FMR).
    pub false_match_rate: f64,
    /// The part of the pairs of the same class below it (FNMR).
    pub false_non_match_rate: f64,
    /// 95 % interval of the false match rate for other rows; `None` on the side that was fitted.
    pub false_match_interval: Option<[f64; 2]>,
    /// 95 % interval of the false non-match rate for other rows; `None` on the side that was fitted.
    pub false_non_match_interval: Option<[f64; 2]>,
    /// Rate at the similarity at which both rates are equal (EER).
    pub equal_error_rate: f64,
    /// Similarity at which both rates are equal.
    pub equal_error_threshold: f64,
    /// F1 of the pairs at or above the threshold, taken for pairs of the same class.
    pub f1: f64,
    /// The best F1 that a threshold has.
    pub best_f1: f64,
    /// The lowest similarity that has it.
    pub best_f1_threshold: f64,
    /// Probability that a pair of the same class is more similar than one of different classes (AUC); ties count half.
    pub area_under_curve: f64,
}

/// Both rates by similarity, every 0.005 from -1 to 1, the ends included.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// The similarities.
    pub threshold: Vec<f64>,
    /// The false match rate of the side that was fitted.
    pub fit_false_match_rate: Vec<f64>,
    /// The false non-match rate of the side that was fitted.
    pub fit_false_non_match_rate: Vec<f64>,
    /// The false match rate of the side that is reported on; empty without one.
    pub test_false_match_rate: Vec<f64>,
    /// The false non-match rate of the side that is reported on; empty without one.
    pub test_false_non_match_rate: Vec<f64>,
}

/// A threshold and its rates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThresholdReport {
    /// Similarities at or above this mean the same class: a multiple of 0.00002.
    pub threshold: f64,
    /// The false match rate that the threshold was fitted to, or that a chosen one has on the side of the fit, in three digits.
    pub rate: f64,
    /// The side that the threshold was fitted on.
    pub fit: PairRates,
    /// The side that is reported on.
    pub test: Option<PairRates>,
    /// The reported side has none of the classes of the fitted one: then classes are the sample, else rows are.
    pub new_classes: bool,
    /// The rates over all similarities.
    pub curve: Curve,
    /// Meaning of the threshold, in a sentence or two.
    pub sentence: String,
    /// Caveats, in sentences.
    pub notes: Vec<String>,
}

/// A threshold with all counts that it is based on.
#[derive(Clone, Debug)]
pub struct Threshold {
    /// The threshold and its rates.
    pub report: ThresholdReport,
    fit: Counted,
    test: Option<Counted>,
}

impl Threshold {
    /// Both rates of the fit, and of the test, at every similarity at which one of them changes, ascending:
    /// `(threshold, [FMR, FNMR], [FMR, FNMR])`.
    pub fn lines(&self) -> impl Iterator<Item = (f64, [f64; 2], Option<[f64; 2]>)> {
        let mut test = self.test.as_ref().map(|test| test.counts.rates());
        let mut before = None;
        let rates = self.fit.counts.rates().enumerate();
        let lines =
            rates.map(move |(at, fit)| (edge(at), fit, test.as_mut().and_then(Iterator::next)));
        lines.filter(move |(_, fit, test)| before.replace((*fit, *test)) != Some((*fit, *test)))
    }

    /// Makes the report at an edge from the counts of both sides; `rate` is what it was fitted to, if it was.
    fn of(
        at: usize,
        rate: Option<f64>,
        fit: Counted,
        test: Option<Counted>,
        new_classes: bool,
    ) -> Self {
        let mut notes = Vec::new();
        let test = test.filter(|test| match test.check("test") {
            Ok(()) => true,
            Err(why) => {
                notes.push(words::no_report(&why));
                false
            }
        });
        let fitted = PairRates::of(&fit, at);
        let tested = test.as_ref().map(|test| PairRates {
            false_match_interval: rate_interval(test, at, false, new_classes),
            false_non_match_interval: rate_interval(test, at, true, new_classes),
            ..PairRates::of(test, at)
        });
        let mut report = ThresholdReport {
            threshold: edge(at),
            rate: rate.unwrap_or_else(|| three_digits(fitted.false_match_rate)),
            fit: fitted,
            test: tested,
            new_classes,
            curve: Curve::of(&fit, test.as_ref()),
            sentence: String::new(),
            notes,
        };
        report.sentence = words::sentence(&report);
        report.notes.extend(words::notes(&report, rate));
        Self { report, fit, test }
    }
}

impl PairRates {
    fn of(side: &Counted, at: usize) -> Self {
        let [same_pairs, different_pairs] = side.counts.pairs();
        let [false_matches, false_non_matches] = side.counts.errors().nth(at).unwrap_or_default();
        let (equal_error_rate, equal_error_threshold) = side.counts.equal_error();
        let (best_f1, best_f1_threshold) = side.counts.best_f1();
        Self {
            rows: side.labels.len() as u64,
            queries: side.queries as u64,
            classes: side.labels.iter().collect::<HashSet<_>>().len() as u64,
            same_pairs,
            different_pairs,
            false_matches,
            false_non_matches,
            false_match_rate: false_matches as f64 / different_pairs as f64,
            false_non_match_rate: false_non_matches as f64 / same_pairs as f64,
            false_match_interval: None,
            false_non_match_interval: None,
            equal_error_rate,
            equal_error_threshold,
            f1: f1(same_pairs, false_matches, false_non_matches),
            best_f1,
            best_f1_threshold,
            area_under_curve: side.counts.area_under_curve(),
        }
    }
}

/// Interval of the false non-match rate if `same`, else of the false match rate.
fn rate_interval(side: &Counted, at: usize, same: bool, by_class: bool) -> Option<[f64; 2]> {
    let [let_in, missed] = side.counts.errors().nth(at)?;
    let [of_same, of_different] = side.counts.pairs();
    let (errors, pairs) = if same {
        (missed, of_same)
    } else {
        (let_in, of_different)
    };
    match by_class {
        _ if let Some(groups) = &side.groups => {
            interval(errors, pairs, &side.by(groups, same), false)
        }
        true => interval(errors, pairs, &side.by_class(same), same),
        false => interval(errors, pairs, &side.units[usize::from(!same)], false),
    }
}

impl Curve {
    fn of(fit: &Counted, test: Option<&Counted>) -> Self {
        let points = |side: &Counted| -> (Vec<f64>, Vec<f64>) {
            let rates = side.counts.rates().step_by(STEP);
            rates.map(|[let_in, missed]| (let_in, missed)).unzip()
        };
        let (fit_false_match_rate, fit_false_non_match_rate) = points(fit);
        let (test_false_match_rate, test_false_non_match_rate) =
            test.map(points).unwrap_or_default();
        Self {
            threshold: (0..EDGES).step_by(STEP).map(edge).collect(),
            fit_false_match_rate,
            fit_false_non_match_rate,
            test_false_match_rate,
            test_false_non_match_rate,
        }
    }
}

/// Edge and rate: for the rate that is asked for, or for the lowest of [`RATES`] that the number of pairs can tell.
pub(crate) fn fit_edge(fit: &Counted, side: &str, asked: Option<f64>) -> Result<(usize, f64)> {
    fit.check(side)?;
    let [_, different] = fit.counts.pairs();
    let can_tell = |rate: &f64| rate * different as f64 >= ENOUGH;
    let rate = asked.unwrap_or_else(|| RATES.into_iter().find(can_tell).unwrap_or(RATES[2]));
    let at = fit.counts.lowest_edge(rate).ok_or_else(|| {
        Error::Data(format!(
            "no threshold lets in so few: of {different} pairs of different {side} rows {} have a similarity of 1, more than a \
             part of {rate}: are rows listed twice, under different labels?",
            fit.counts.different[EDGES - 1]
        ))
    })?;
    Ok((at, rate))
}

/// Edge of a similarity that a person chose.
pub(crate) fn chosen_edge(fit: &Counted, side: &str, similarity: f64) -> Result<usize> {
    fit.check(side)?;
    // Some edges are a little larger than the f32 nearest to them.
    Ok(bin((similarity + 1e-6) as f32))
}

fn three_digits(rate: f64) -> f64 {
    format!("{rate:.2e}").parse().unwrap_or(rate)
}

/// Makes the report from the counts of both sides.
pub(crate) fn report(
    (at, rate): (usize, Option<f64>),
    fit: Counted,
    test: Option<Counted>,
    new_classes: bool,
) -> Threshold {
    Threshold::of(at, rate, fit, test, new_classes)
}

/// Finds the threshold on some rows, and reports its rates on others.
///
/// Similarities are counted in bins of 0.00002. They are computed in f32 and come back block by block; the counts, 1.6 MB a side
/// and 16 bytes a row, lie beside the budget, as scores do. The engine's listener receives the number of pairs done.
///
/// # Errors
/// [`Error::Config`] for a rate out of its range; [`Error::Data`] if dimensions differ, if a side has no pairs of both kinds, or if
/// no threshold keeps the rate; [`Error::Refused`] if not even the smallest blocks fit the engine's budget.
pub async fn find_threshold(
    engine: &Engine,
    fit: Rows<'_>,
    test: Option<Rows<'_>>,
    config: &ThresholdConfig,
) -> Result<Threshold> {
    find_across(
        engine,
        [fit, test.unwrap_or(fit)],
        test.is_some(),
        None,
        config,
    )
    .await
}

/// Finds the threshold by pairs of different groups, such as donors, subjects or cameras: `groups` has the group of each row of
/// both sides.
///
/// # Errors
/// As [`find_threshold`]; [`Error::Data`] if a row has no group.
pub async fn find_threshold_across(
    engine: &Engine,
    (fit, fit_groups): (Rows<'_>, &[String]),
    test: Option<(Rows<'_>, &[String])>,
    config: &ThresholdConfig,
) -> Result<Threshold> {
    let (tested, test_groups) = test.unwrap_or((fit, fit_groups));
    for (rows, groups) in [(fit, fit_groups), (tested, test_groups)] {
        groups::check(rows.rows.rows(), groups)?;
    }
    let groups = Some([fit_groups, test_groups]);
    find_across(engine, [fit, tested], test.is_some(), groups, config).await
}

/// Finds the threshold by the pairs of both sides, or of the first alone if not `is_tested`.
async fn find_across(
    engine: &Engine,
    [fit, reported]: [Rows<'_>; 2],
    is_tested: bool,
    groups: Option<[&[String]; 2]>,
    config: &ThresholdConfig,
) -> Result<Threshold> {
    config.check()?;
    reported.check_against(fit)?;
    let sides = [fit.rows.rows(), reported.rows.rows()];
    let spec = ThresholdSpec::of(&sides, fit.rows.dim(), config.queries);
    let mut counter = PairCounter::new(engine, &spec).await?;
    let mut pace = Pace::of(engine);
    let mut slices = Slices::new(engine, &mut pace);
    let mut count = async |side: Rows<'_>, of: usize, what: &str, at: Option<usize>| {
        let labels = numbered(side.labels);
        let groups = groups.map(|groups| numbered(groups[of]));
        let classes = Classes {
            labels: &labels,
            groups: groups.as_deref(),
        };
        let mut rows = UnitRows::Stored {
            rows: side.rows,
            chosen: None,
            form: Form::Unit,
        };
        let asking = choose(labels.len(), config.queries, config.seed);
        counter
            .count(&mut slices, what, classes, &mut rows, &asking, at)
            .await
    };
    let fitted = count(fit, 0, "pairs to fit", None).await?;
    let (at, rate) = fit_edge(&fitted, "fitted", config.false_match_rate)?;
    let rate = Some(rate);
    if !is_tested {
        return Ok(report((at, rate), fitted, None, false));
    }
    let known: HashSet<&String> = fit.labels.iter().collect();
    let new_classes = !reported.labels.iter().any(|label| known.contains(label));
    let tested = count(reported, 1, "pairs of the test", Some(at)).await?;
    Ok(report((at, rate), fitted, Some(tested), new_classes))
}

/// Number of each text among the different ones, in label order.
fn numbered(texts: &[String]) -> Vec<u32> {
    let names = classes(texts);
    let numbers: HashMap<&str, u32> = names.iter().map(String::as_str).zip(0..).collect();
    texts.iter().map(|text| numbers[text.as_str()]).collect()
}
