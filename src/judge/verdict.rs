//! Verdict on a run, in a few plain sentences: the head compared with the raw features and with a linear map, at the nearest row
//! and at whole groups, over the same queries.

use serde::{Deserialize, Serialize};

use crate::base::student::upper_quantile;
use crate::judge::linear::LinearOutputs;
use crate::rules::config::{InitialWeights, Split, TrainConfig};
use crate::search::metrics::{Judged, Metrics, QueryScore};

/// Standard errors beyond which a difference at the nearest row is clear. Rows that are each other's nearest count twice, and there
/// are two baselines: 2 would be too few.
const CLEAR_NEAREST: f64 = 2.5;
/// Standard errors beyond which a difference at whole groups is clear. Each row counts as a query and as a reference of others
/// there: about 1.4 times as many.
const CLEAR_GROUPS: f64 = 3.5;
/// Number of held-out classes from which on classes are the sample, not rows.
const MANY_CLASSES: usize = 20;

impl Judged {
    /// Precision@1 of rows in random order, and the number of its standard errors that this one lies above it.
    fn above_chance(&self) -> (f64, f64) {
        let rows = (self.metrics.queries + self.metrics.lone_queries) as f64;
        let of_class = |class: &[QueryScore]| class.len() as f64 * (class.len() as f64 - 1.0);
        // Queries stand class by class.
        let classes = self.queries.chunk_by(|a, b| a.class == b.class);
        let pairs: f64 = classes.map(of_class).sum();
        let chance = pairs / (rows * (rows - 1.0));
        let error = (chance * (1.0 - chance) / self.metrics.queries as f64).sqrt();
        let above = self.metrics.precision_at_1 - chance;
        (chance, above / error.max(f64::MIN_POSITIVE))
    }
}

/// The head compared with one baseline, over the same queries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// Name of the baseline.
    pub with: String,
    /// Gain in precision@1.
    pub nearest: Gain,
    /// Gain in MAP@R.
    pub groups: Gain,
    /// Queries whose nearest row is right by the head alone.
    pub head_alone: u64,
    /// Queries whose nearest row is right by the baseline alone.
    pub other_alone: u64,
}

/// Gain of the head over a baseline, from paired differences of queries.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gain {
    /// Score of the baseline.
    pub other: f64,
    /// Score of the head less that of the baseline.
    pub gain: f64,
    /// Lower bound of the gain over other rows, or over other classes if classes are held out.
    pub low: f64,
    /// Upper bound of the gain. A gain is clear if both bounds have one sign.
    pub high: f64,
}

/// Scores for a verdict.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    /// The trained head.
    pub(crate) head: Judged,
    /// The features as the head sees them.
    pub(crate) raw: Judged,
    /// The linear baseline and its outputs, if there is one.
    pub(crate) linear: Option<(Judged, LinearOutputs)>,
    /// The scores are of the test side; else of the validation side.
    pub(crate) tested: bool,
}

/// Verdict on a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdict {
    /// The verdict in sentences.
    pub(crate) text: String,
    /// The verdict in numbers: comparison with raw features, and with the linear map if there is one.
    pub(crate) compared: Vec<Compared>,
    /// The advice is to take the linear map, which does better.
    pub(crate) prefers_linear: bool,
}

/// Compares the head with raw features, and with the linear baseline if there is one.
pub(crate) fn verdict(config: &TrainConfig, trial: Option<&Trial>) -> Verdict {
    let Some(trial) = trial else {
        let text = "Nothing to judge by: no held-out row has another row of its class. Where classes have several rows, raise test_fraction; \
                    where each has a single row, there is nothing to learn from: bring more rows of a class.";
        return Verdict {
            text: text.to_owned(),
            ..Verdict::default()
        };
    };
    let by_class = matches!(config.split, Split::ByClass | Split::ByClassShuffled);
    let raw = Standing::of(&trial.head, &trial.raw, by_class);
    let linear = trial.linear.as_ref().map(|(linear, outputs)| {
        let beats_raw = Standing::of(linear, &trial.raw, by_class).wins();
        let name = format!("a linear map (LDA, {outputs})");
        (Standing::of(&trial.head, linear, by_class), name, beats_raw)
    });
    let standings = || std::iter::once(&raw).chain(linear.iter().map(|(standing, ..)| standing));
    // As few digits as show the differences that are stated.
    let digits = if standings().any(Standing::hides_in_two_digits) {
        3
    } else {
        2
    };
    let on = judged_on(config, trial, by_class);
    let Metrics {
        precision_at_1: p,
        mean_average_precision_at_r: m,
        ..
    } = trial.head.metrics;
    let named: Vec<(&str, &Standing)> = std::iter::once(("raw features", &raw))
        .chain(
            linear
                .iter()
                .map(|(linear, name, _)| (name.as_str(), linear)),
        )
        .collect();
    let beside = |names: [&str; 2], measure: fn(&Standing) -> (f64, Is)| {
        let measured = standings().map(measure);
        in_words(names.into_iter().zip(measured), digits)
    };
    let whole_name = linear.as_ref().map_or("", |(_, name, _)| name);
    let nearest = beside(["raw features", whole_name], |standing| {
        (standing.baseline[0], standing.nearest)
    });
    let groups = beside(["raw features", "the linear map"], |standing| {
        (standing.baseline[1], standing.groups)
    });
    let linear = linear
        .as_ref()
        .map(|(standing, _, beats_raw)| (standing, *beats_raw));
    let advice = advice_on(trial, &raw, linear);
    let prefers_linear = advice == LINEAR_IS_BETTER;
    let advice = match config.initial_weights {
        InitialWeights::Lda => advice.replace(OR_START_FROM_IT, ""),
        InitialWeights::Random => advice,
    };
    let (rival, name) = match linear {
        Some((standing, true)) => (standing, "the linear map, which is simpler"),
        _ => (&raw, "the raw features, which need no head"),
    };
    let little = match rival.largest_gain(digits) {
        Some(gain) if gain < SMALL && advice.starts_with("Keep this head") => {
            format!(" The gain is small: {gain:.digits$} over {name}.")
        }
        _ => String::new(),
    };
    let text = format!(
        "{advice}{little} On {on} the nearest row is right for {p:.digits$} (precision@1): {nearest}. Whole groups score {m:.digits$} \
         (MAP@R): {groups}."
    );
    let compared = named.iter().map(|(name, standing)| standing.compared(name));
    Verdict {
        compared: compared.collect(),
        prefers_linear: prefers_linear && config.initial_weights == InitialWeights::Random,
        text,
    }
}

/// The scored rows, in words.
fn judged_on(config: &TrainConfig, trial: &Trial, by_class: bool) -> String {
    let rows = match (trial.tested, by_class) {
        (true, true) => "rows of classes it never saw",
        (true, false) if config.split == Split::ByGroup => "rows of groups it never saw",
        (true, false) => "rows it never saw",
        (false, _) => "validation rows (nothing was kept for a test)",
    };
    let across = match config.group {
        Some(_) => ", each among those of other groups,",
        None => ",",
    };
    format!("{rows}{across}")
}

/// The baselines in words: name and score of each, and their difference from the head.
fn in_words<'a>(each: impl Iterator<Item = (&'a str, (f64, Is))>, digits: usize) -> String {
    let each = each.map(|(name, (value, is))| (format!("{name} {value:.digits$}"), is));
    match &each.collect::<Vec<_>>()[..] {
        [(raw, Is::Alike), (linear, Is::Alike)] => {
            format!("{raw} and {linear}, no clear difference from either")
        }
        [(raw, a), (linear, b)] if a == b => {
            format!("{raw} and {linear}, both {}", a.of_the_other())
        }
        each => {
            let each = each
                .iter()
                .map(|(value, is)| format!("{value}, {}", is.of_the_other()));
            each.collect::<Vec<_>>().join("; ")
        }
    }
}

/// The advice, or a note that there are too few rows to give one.
fn advice_on(trial: &Trial, raw: &Standing, linear: Option<(&Standing, bool)>) -> String {
    let scored = trial.head.queries.len();
    let is_few = scored < FEW;
    let (chance, errors) = trial.head.above_chance();
    match advice(raw, linear) {
        _ if errors <= 1.0 || errors <= CLEAR_NEAREST && !is_few => format!(
            "Do not ship this head: its nearest row is right no more often than by chance ({chance:.2})."
        ),
        advice if errors <= CLEAR_NEAREST && !advice.starts_with("Do not ship") => format!(
            "Too few rows to tell this head from chance: only {scored} were scored, and {chance:.2} of them would be right by \
             chance. Bring more rows."
        ),
        NO_GAIN if raw.units > 0 && raw.units < FEW_GROUPS => format!(
            "Too few groups to tell: the {scored} rows are of {}, and rows of one group count together. Bring rows of more groups.",
            counted(raw.units)
        ),
        NO_GAIN if is_few => format!(
            "Too few rows to tell: only {scored} were scored. Compare settings with several seeds, or bring more rows."
        ),
        advice => solved(advice, raw).to_owned(),
    }
}

/// Groups below which a difference that is not clear says nothing.
const FEW_GROUPS: usize = 6;

/// A number of groups in words.
fn counted(groups: usize) -> String {
    match groups {
        1 => "one group".to_owned(),
        more => format!("{more} groups"),
    }
}

/// Precision@1 and MAP@R of raw features from which on there is next to nothing left to learn.
const SOLVED: [f64; 2] = [0.99, 0.95];

/// The advice, unless the raw features have nearly all that it could be about.
fn solved<'a>(advice: &'a str, raw: &Standing) -> &'a str {
    let has = |i: usize| raw.baseline[i] >= SOLVED[i];
    match advice {
        _ if !has(0) || advice.starts_with("Do not ship") => advice,
        _ if has(1) => {
            "Already solved: the raw features have nearly every row's class, at the nearest row and in whole groups. No head is needed."
        }
        "Keep this head if you need whole groups." => {
            "Already solved for the nearest row, by the raw features. Keep this head if you need whole groups."
        }
        _ => advice,
    }
}

/// Gain below which it is called small, even if it is clear.
const SMALL: f64 = 0.03;

/// Advice for a head that a linear map outdoes.
const LINEAR_IS_BETTER: &str = "Do not ship this head: a linear map does better. Take that, or start from it (hidden_layers [], initial_weights lda).";

/// The part of it that is no advice for a head that started there.
const OR_START_FROM_IT: &str = ", or start from it (hidden_layers [], initial_weights lda)";

/// Advice for a head without clear difference from the raw features.
const NO_GAIN: &str = "No clear gain over the raw features: the training was not worth it.";

/// Number of rows below which a gain of a tenth cannot be clear.
const FEW: usize = 100;

/// Advice on the use of the head.
fn advice(raw: &Standing, linear: Option<(&Standing, bool)>) -> &'static str {
    if let Some((linear, true)) = linear
        && !linear.wins()
    {
        return match (linear.nearest, linear.groups) {
            (Is::Alike, Is::Alike) => {
                "No clear gain over a linear map, which is simpler: take that."
            }
            (Is::Better, Is::Worse) => {
                "Keep this head if the nearest row is what you need; for whole groups take the linear map."
            }
            (Is::Worse, Is::Better) => {
                "Keep this head if you need whole groups; for the nearest row take the linear map."
            }
            _ => LINEAR_IS_BETTER,
        };
    }
    // A linear map may do still better than the head where the head beats the raw features.
    let beside_linear = linear.map(|(linear, _)| (linear.nearest, linear.groups));
    match (raw.nearest, raw.groups, beside_linear) {
        (Is::Worse, Is::Better, Some((_, Is::Worse))) => {
            return "Do not ship this head: for the nearest row the raw features do better, for whole groups a linear map.";
        }
        (Is::Alike, Is::Better, Some((_, Is::Worse))) => {
            return "Do not ship this head: the raw features do as well for the nearest row, and a linear map better for whole groups.";
        }
        (Is::Better, Is::Worse, Some((Is::Worse, _))) => {
            return "Do not ship this head: for the nearest row a linear map does better, for whole groups the raw features.";
        }
        _ => {}
    }
    if let (Is::Alike, Is::Better, Some(Is::Alike)) = (
        raw.nearest,
        raw.groups,
        linear.map(|(linear, _)| linear.groups),
    ) {
        return "Keep this head if you need both the nearest row and whole groups: the raw features do as well at the one, a \
                linear map at the other.";
    }
    match (raw.nearest, raw.groups) {
        (Is::Better, Is::Better | Is::Alike) => "Keep this head.",
        (Is::Alike, Is::Better) => "Keep this head if you need whole groups.",
        (Is::Better, Is::Worse) => {
            "Keep this head if the nearest row is what you need; for whole groups the raw features do better."
        }
        (Is::Worse, Is::Better) => {
            "Keep this head if you need whole groups; for the nearest row the raw features do better."
        }
        (Is::Alike, Is::Alike) => NO_GAIN,
        (Is::Worse, _) | (_, Is::Worse) => {
            "Do not ship this head: the raw features do better. Try more rows or fewer steps."
        }
    }
}

/// Comparison of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Is {
    Better,
    Alike,
    Worse,
}

impl Is {
    /// The comparison in words, from the side of the baseline.
    fn of_the_other(self) -> &'static str {
        match self {
            Self::Better => "clearly lower",
            Self::Alike => "no clear difference",
            Self::Worse => "clearly higher",
        }
    }
}

/// Comparison of the head with a baseline.
#[derive(Clone, Debug)]
struct Standing {
    /// Comparison of precision@1.
    nearest: Is,
    /// Comparison of MAP@R.
    groups: Is,
    head: [f64; 2],
    baseline: [f64; 2],
    /// Size of either difference that chance alone explains.
    chance: [f64; 2],
    /// Queries that are right at the nearest row by the head alone, and by the baseline alone.
    alone: [u64; 2],
    /// Groups of the queries; 0 if rows have none.
    units: usize,
}

impl Standing {
    fn of(head: &Judged, baseline: &Judged, by_class: bool) -> Self {
        let values = |judged: &Judged| {
            let metrics = &judged.metrics;
            [metrics.precision_at_1, metrics.mean_average_precision_at_r]
        };
        let pairs = || head.queries.iter().zip(&baseline.queries);
        let hits = pairs().map(|(a, b)| (*a, f64::from(a.hit) - f64::from(b.hit)));
        let precisions = pairs().map(|(a, b)| {
            let difference = a.average_precision_at_r - b.average_precision_at_r;
            (*a, f64::from(difference))
        });
        let alone = [(true, false), (false, true)].map(|(own, other)| {
            let such = pairs().filter(|(a, b)| (a.hit, b.hit) == (own, other));
            such.count() as u64
        });
        let queries = head.queries.len().max(1) as f64;
        let (head, baseline) = (values(head), values(baseline));
        let nearest = Gap::of(hits, by_class, CLEAR_NEAREST);
        let groups = Gap::of(precisions, by_class, CLEAR_GROUPS);
        // A difference that three digits do not show counts as none.
        let shown = |i: usize, is| match format!("{:.3}", head[i]) == format!("{:.3}", baseline[i])
        {
            true => Is::Alike,
            false => is,
        };
        Self {
            nearest: shown(0, nearest.is()),
            groups: shown(1, groups.is()),
            head,
            baseline,
            // No difference of two scores is larger than 1.
            chance: [nearest, groups].map(|gap| (gap.chance / queries).min(1.0)),
            alone,
            units: nearest.groups,
        }
    }

    /// The comparison in numbers.
    fn compared(&self, with: &str) -> Compared {
        let gain = |i: usize| {
            let gain = self.head[i] - self.baseline[i];
            Gain {
                other: self.baseline[i],
                gain,
                low: (gain - self.chance[i]).max(-1.0),
                high: (gain + self.chance[i]).min(1.0),
            }
        };
        Compared {
            with: with.to_owned(),
            nearest: gain(0),
            groups: gain(1),
            head_alone: self.alone[0],
            other_alone: self.alone[1],
        }
    }

    /// The larger of the clear gains, as the difference of the numbers shown with `digits` digits.
    fn largest_gain(&self, digits: usize) -> Option<f64> {
        let unit = 10f64.powi(digits as i32);
        let shown = |value: f64| (value * unit).round();
        let gains = [self.nearest, self.groups].into_iter().enumerate();
        let clear = gains.filter(|(_, is)| *is == Is::Better);
        let gain = clear.map(|(i, _)| (shown(self.head[i]) - shown(self.baseline[i])) / unit);
        gain.reduce(f64::max)
    }

    /// The head is better in one way at least, and worse in none.
    fn wins(&self) -> bool {
        let both = [self.nearest, self.groups];
        both.contains(&Is::Better) && !both.contains(&Is::Worse)
    }

    /// Tells if two digits would show numbers as equal that are said to differ.
    fn hides_in_two_digits(&self) -> bool {
        let two = |value: f64| format!("{value:.2}");
        let values = self.head.iter().zip(&self.baseline);
        [self.nearest, self.groups]
            .iter()
            .zip(values)
            .any(|(is, (a, b))| *is != Is::Alike && two(*a) == two(*b))
    }
}

/// Probability that chance alone takes a difference this many standard errors upwards or more: scipy.stats.norm.sf(2.5) and (3.5).
fn tail(errors: f64) -> f64 {
    if errors == CLEAR_NEAREST {
        0.006_209_665_325_776_13
    } else {
        0.000_232_629_079_035_525
    }
}

/// Sum of paired differences, and the size of it that chance alone explains.
#[derive(Clone, Copy, Debug)]
struct Gap {
    sum: f64,
    chance: f64,
    /// Groups of the queries.
    groups: usize,
}

impl Gap {
    /// Sum of paired differences, one for each query: the chance part is `errors` times the standard error that the sum would have
    /// if there were no difference. If rows have groups, groups are the sample, and the fewer there are, the wider is the chance
    /// part. If whole classes are held out, and many, classes are the sample.
    fn of(
        differences: impl Iterator<Item = (QueryScore, f64)>,
        by_class: bool,
        errors: f64,
    ) -> Self {
        let (mut sum, mut squares) = (0.0, 0.0);
        // By number; `None` if no query is of it.
        let (mut classes, mut groups) = (Vec::new(), Vec::new());
        for (query, difference) in differences {
            sum += difference;
            squares += difference * difference;
            for (sums, unit) in [
                (&mut classes, Some(query.class)),
                (&mut groups, query.group),
            ] {
                let Some(unit) = unit else { continue };
                sums.resize(sums.len().max(unit as usize + 1), None);
                let sum: &mut f64 = sums[unit as usize].get_or_insert(0.0);
                *sum += difference;
            }
        }
        let [classes, groups] = [classes, groups].map(|sums| {
            let sums = sums.into_iter().flatten();
            sums.fold((0, 0.0), |(count, all), sum| (count + 1, all + sum * sum))
        });
        if by_class && classes.0 >= MANY_CLASSES {
            squares = squares.max(classes.1);
        }
        let mut errors = errors;
        if groups.0 > 0 {
            squares = squares.max(groups.1);
            let freedom = (groups.0 - 1) as f64;
            errors = match freedom > 0.0 {
                true => upper_quantile(tail(errors), freedom),
                false => f64::INFINITY,
            };
        }
        Self {
            sum,
            chance: errors * squares.sqrt().max(f64::MIN_POSITIVE),
            groups: groups.0,
        }
    }

    /// Tells if the sum is clearly above or below zero.
    fn is(self) -> Is {
        match self.sum {
            sum if sum > self.chance => Is::Better,
            sum if sum < -self.chance => Is::Worse,
            _ => Is::Alike,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIXTEEN: LinearOutputs = LinearOutputs {
        directions: 16,
        constant: false,
        shrinkage: Some(0.5),
    };

    /// 1,000 queries of 100 classes; `right` of them are right at the nearest row, and each has this average precision.
    fn judged(right: usize, average_precision: f32) -> Judged {
        let queries: Vec<QueryScore> = (0..1000)
            .map(|i| QueryScore {
                class: i as u32 / 10,
                group: None,
                // Spread over the classes.
                hit: i * 7 % 1000 < right,
                average_precision_at_r: average_precision,
            })
            .collect();
        Judged {
            over_classes: Metrics::default(),
            metrics: Metrics {
                precision_at_1: right as f64 / 1e3,
                mean_average_precision_at_r: f64::from(average_precision),
                queries: 1000,
                ..Metrics::default()
            },
            queries,
        }
    }

    #[test]
    fn few_groups_are_said_to_be_few_and_no_gain_is_more_than_one() {
        let of = |right| {
            let mut judged = judged(right, 0.3);
            let queries = judged.queries.iter_mut().enumerate();
            queries.for_each(|(i, query)| query.group = Some(i as u32 / 400));
            judged
        };
        let trial = Trial {
            head: of(700),
            raw: of(600),
            linear: None,
            tested: true,
        };
        let found = verdict(&by(Split::ByGroup), Some(&trial));
        let text = found.text;
        assert!(
            text.starts_with("Too few groups to tell: the 1000 rows are of 3 groups"),
            "{text}"
        );
        let Gain { low, high, .. } = found.compared[0].nearest;
        assert!(
            (-1.0..0.0).contains(&low) && (0.1..=1.0).contains(&high),
            "{low} {high}"
        );
    }

    fn by(split: Split) -> TrainConfig {
        TrainConfig {
            split,
            ..TrainConfig::default()
        }
    }

    fn is_clear(differences: impl Iterator<Item = (u32, f64)>, by_class: bool, errors: f64) -> Is {
        let of_class = |(class, difference)| {
            let query = QueryScore {
                class,
                group: None,
                hit: false,
                average_precision_at_r: 0.0,
            };
            (query, difference)
        };
        Gap::of(differences.map(of_class), by_class, errors).is()
    }

    #[test]
    fn the_numbers_say_what_the_sentences_say() {
        let judged = |(right, precision)| judged(right, precision);
        let trial = Trial {
            head: judged((900, 0.5)),
            raw: judged((895, 0.4)),
            linear: Some((judged((990, 0.5)), SIXTEEN)),
            tested: true,
        };
        let Verdict {
            compared,
            prefers_linear,
            ..
        } = verdict(&by(Split::ByClass), Some(&trial));
        assert!(prefers_linear, "{compared:?}");
        // A head that started from the linear map is not told to.
        let started = TrainConfig {
            initial_weights: InitialWeights::Lda,
            ..by(Split::ByClass)
        };
        let started = verdict(&started, Some(&trial));
        assert!(!started.prefers_linear);
        assert!(
            (started.text)
                .starts_with("Do not ship this head: a linear map does better. Take that. On")
        );
        let [raw, linear] = &compared[..] else {
            panic!("{compared:?}");
        };
        assert_eq!(
            (&raw.with[..], &linear.with[..]),
            (
                "raw features",
                "a linear map (LDA, 16 outputs, shrinkage 0.50)"
            )
        );
        assert_eq!((raw.head_alone, raw.other_alone), (5, 0));
        assert_eq!((linear.head_alone, linear.other_alone), (0, 90));
        assert!(
            (raw.nearest.gain - 0.005).abs() < 1e-12 && (raw.nearest.other - 0.895).abs() < 1e-12
        );
        // 895 of 1,000: five queries of five classes differ, and chance moves a sum of them by 2.5 times the root of five.
        assert!(
            raw.nearest.low < 0.0
                && (raw.nearest.high - 0.005 - 2.5 * 5f64.sqrt() / 1e3).abs() < 1e-12,
            "{raw:?}"
        );
        assert!(
            raw.groups.low > 0.0 && linear.nearest.high < 0.0,
            "{compared:?}"
        );
        assert!(
            linear.groups.low <= 0.0 && linear.groups.high >= 0.0,
            "{linear:?}"
        );
    }

    fn say(head: (usize, f32), raw: (usize, f32), linear: Option<(usize, f32)>) -> String {
        let judged = |(right, precision)| judged(right, precision);
        let trial = Trial {
            head: judged(head),
            raw: judged(raw),
            linear: linear.map(|linear| (judged(linear), SIXTEEN)),
            tested: true,
        };
        verdict(&by(Split::ByClass), Some(&trial)).text
    }

    #[test]
    fn a_head_that_is_better_than_both_is_kept() {
        assert_eq!(
            say((950, 0.8), (280, 0.11), Some((520, 0.3))),
            "Keep this head. On rows of classes it never saw, the nearest row is right for 0.95 (precision@1): raw \
             features 0.28 and a linear map (LDA, 16 outputs, shrinkage 0.50) 0.52, both clearly lower. Whole groups score 0.80 (MAP@R): \
             raw features 0.11 and the linear map 0.30, both clearly lower."
        );
    }

    #[test]
    fn each_pair_of_standings_has_its_advice() {
        for (raw, advice) in [
            ((800, 0.4), "Keep this head. "),
            ((800, 0.5), "Keep this head. "),
            ((895, 0.4), "Keep this head if you need whole groups. "),
            (
                (800, 0.6),
                "Keep this head if the nearest row is what you need; for whole groups the raw",
            ),
            (
                (990, 0.4),
                "Keep this head if you need whole groups; for the nearest row the raw",
            ),
            ((900, 0.5), "No clear gain over the raw features"),
            (
                (895, 0.6),
                "Do not ship this head: the raw features do better.",
            ),
            (
                (990, 0.5),
                "Do not ship this head: the raw features do better.",
            ),
            (
                (990, 0.6),
                "Do not ship this head: the raw features do better.",
            ),
        ] {
            let text = say((900, 0.5), raw, None);
            assert!(text.starts_with(advice), "{raw:?}: {text}");
        }
    }

    #[test]
    fn a_gain_that_is_clear_and_small_is_said_to_be_small() {
        let said = |raw, linear| {
            let text = say((900, 0.5), raw, linear);
            let (_, after) = text.split_once(" The gain is small: ")?;
            Some(after.split('.').take(2).collect::<Vec<_>>().join("."))
        };
        let linear = "over the linear map, which is simpler";
        assert_eq!(
            said((100, 0.1), Some((890, 0.48))),
            Some(format!("0.02 {linear}"))
        );
        assert_eq!(
            said((898, 0.48), None).as_deref(),
            Some("0.02 over the raw features, which need no head")
        );
        // A map that is worse than raw features is no rival.
        assert_eq!(said((100, 0.1), Some((50, 0.48))), None);
        assert_eq!(said((100, 0.1), Some((860, 0.48))), None);
        // Nothing is gained.
        assert_eq!(said((900, 0.5), None), None);
    }

    #[test]
    fn a_head_that_ties_with_one_at_rows_and_with_the_other_in_groups_is_kept_for_both() {
        let text = say((900, 0.5), (895, 0.4), Some((700, 0.5)));
        assert!(
            text.starts_with("Keep this head if you need both the nearest row and whole groups: "),
            "{text}"
        );
    }

    #[test]
    fn each_number_is_said_to_be_lower_higher_or_neither() {
        let text = say((900, 0.5), (895, 0.4), Some((990, 0.5)));
        assert!(
            text.contains("raw features 0.90, no clear difference; a linear map (LDA, 16 outputs, shrinkage 0.50) 0.99, clearly higher.")
                && text.contains(
                    "raw features 0.40, clearly lower; the linear map 0.50, no clear difference."
                ),
            "{text}"
        );
    }

    #[test]
    fn a_linear_map_that_is_as_good_or_better_is_what_is_recommended() {
        let raw = (130, 0.1);
        let like = say((900, 0.5), raw, Some((900, 0.5)));
        assert!(
            like.starts_with("No clear gain over a linear map, which is simpler: take that."),
            "{like}"
        );
        let worse = say((900, 0.5), raw, Some((990, 0.7)));
        assert!(
            worse.starts_with("Do not ship this head: a linear map does better."),
            "{worse}"
        );
        let groups = say((900, 0.5), raw, Some((990, 0.4)));
        assert!(
            groups.starts_with(
                "Keep this head if you need whole groups; for the nearest row take the linear"
            ),
            "{groups}"
        );
        // A linear map that is worse than raw features is not recommended.
        let bad = say((900, 0.5), (990, 0.7), Some((900, 0.5)));
        assert!(bad.contains("the raw features do better"), "{bad}");
    }

    #[test]
    fn a_head_that_the_raw_features_beat_at_one_and_a_linear_map_at_the_other_is_not_kept() {
        for (raw, linear, advice) in [
            (
                (990, 0.4),
                (895, 0.6),
                "Do not ship this head: for the nearest row the raw features do better, for whole groups a linear map.",
            ),
            (
                (895, 0.4),
                (800, 0.6),
                "Do not ship this head: the raw features do as well for the nearest row, and a linear map better for whole",
            ),
            (
                (800, 0.6),
                (990, 0.4),
                "Do not ship this head: for the nearest row a linear map does better, for whole groups the raw features.",
            ),
            // A linear map that is no better changes nothing.
            (
                (990, 0.4),
                (895, 0.45),
                "Keep this head if you need whole groups; for the nearest row the raw",
            ),
        ] {
            let text = say((900, 0.5), raw, Some(linear));
            assert!(text.starts_with(advice), "{raw:?}, {linear:?}: {text}");
        }
    }

    #[test]
    fn numbers_that_two_digits_would_show_as_equal_get_a_third() {
        let text = say((904, 0.504), (900, 0.5), None);
        assert!(
            text.contains("0.904") && text.contains("raw features 0.500, clearly lower"),
            "{text}"
        );
    }

    #[test]
    fn the_same_difference_is_clear_over_many_queries_and_chance_over_few() {
        let wins = |count: u32| is_clear((0..count).map(|i| (i, 1.0)), false, 2.5);
        assert_eq!((wins(6), wins(7)), (Is::Alike, Is::Better));
        let mixed = |better: u32, worse: u32| {
            let of = |count, value| (0..count).map(move |i| (i, value));
            is_clear(of(better, 1.0).chain(of(worse, -1.0)), false, 2.5)
        };
        assert_eq!(mixed(60, 40), Is::Alike);
        assert_eq!(mixed(63, 37), Is::Better);
        assert_eq!(mixed(37, 63), Is::Worse);
    }

    #[test]
    fn few_rows_tell_nothing_rather_than_that_training_was_not_worth_it() {
        let said = |rows: usize| {
            let few = |right| {
                let mut judged = judged(right, 0.5);
                judged.queries.truncate(rows);
                judged
            };
            let trial = Trial {
                head: few(900),
                raw: few(899),
                linear: None,
                tested: true,
            };
            verdict(&by(Split::Random), Some(&trial)).text
        };
        assert!(said(15).starts_with("Too few rows to tell: only 15 were scored."));
        assert!(said(100).starts_with("No clear gain over the raw features"));
    }

    #[test]
    fn of_held_out_classes_each_counts_once_however_many_rows_it_has() {
        // 40 classes of 100 rows; in 22 all rows are better, in 18 all are worse.
        let rows = || (0..4000u32).map(|i| (i / 100, if i / 100 % 20 < 11 { 1.0 } else { -1.0 }));
        assert_eq!(is_clear(rows(), false, 2.5), Is::Better);
        assert_eq!(is_clear(rows(), true, 2.5), Is::Alike);
    }

    #[test]
    fn a_head_that_finds_no_more_than_chance_is_not_kept_whatever_else_it_is_better_than() {
        let text = say((12, 0.2), (10, 0.001), Some((5, 0.001)));
        assert!(text.starts_with("Do not ship this head: its nearest row is right no more often than by chance (0.01)."), "{text}");
    }

    #[test]
    fn few_rows_do_not_prove_that_a_head_finds_no_more_than_chance() {
        // 40 rows of two classes: chance is 0.49, and 0.64 two of its standard errors above.
        let of_two = |right: usize| {
            let mut judged = judged(0, 0.5);
            judged.queries.truncate(40);
            for (i, query) in judged.queries.iter_mut().enumerate() {
                (query.class, query.hit) = (u32::from(i >= 20), i < right);
            }
            judged.metrics.precision_at_1 = right as f64 / 40.0;
            judged.metrics.queries = 40;
            judged
        };
        let said = |head, raw| {
            let trial = Trial {
                head: of_two(head),
                raw: of_two(raw),
                linear: None,
                tested: true,
            };
            verdict(&by(Split::Random), Some(&trial)).text
        };
        let few = "Too few rows to tell this head from chance: only 40 were scored, and 0.49 of them would be right by chance.";
        assert!(said(25, 23).starts_with(few), "{}", said(25, 23));
        assert!(said(20, 20).contains("no more often than by chance (0.49)"));
        assert!(said(25, 39).starts_with("Do not ship this head: the raw features do better."));
    }

    #[test]
    fn without_anything_scored_it_says_so_and_a_judged_validation_side_is_named() {
        assert!(
            verdict(&by(Split::Random), None)
                .text
                .starts_with("Nothing to judge by")
        );
        let trial = Trial {
            head: judged(900, 0.5),
            raw: judged(100, 0.1),
            linear: None,
            tested: false,
        };
        let text = verdict(&by(Split::Random), Some(&trial)).text;
        assert!(
            text.contains(" On validation rows (nothing was kept for a test), "),
            "{text}"
        );
    }

    #[test]
    fn raw_features_that_have_nearly_all_leave_nothing_to_learn() {
        let said = |raw: (usize, f32), head: (usize, f32)| {
            let trial = Trial {
                head: judged(head.0, head.1),
                raw: judged(raw.0, raw.1),
                linear: None,
                tested: true,
            };
            verdict(&by(Split::Random), Some(&trial)).text
        };
        assert!(said((995, 0.97), (999, 0.99)).starts_with("Already solved: the raw features"));
        assert!(said((992, 0.6), (992, 0.9)).starts_with("Already solved for the nearest row"));
        assert!(said((985, 0.6), (985, 0.9)).starts_with("Keep this head if you need whole"));
        // A head that spoils what was there is still refused, and one that helps at the nearest row is still kept.
        assert!(said((995, 0.97), (900, 0.9)).starts_with("Do not ship"));
        assert!(said((900, 0.97), (999, 0.99)).starts_with("Keep this head"));
    }
}
