//! Sentences of a threshold report.

use super::{ENOUGH, PairRates, ThresholdReport};
use crate::base::error::Error;

/// A number with its digits in groups of three: "1,234".
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Two digits at least, and none after the point from 10 on.
fn short(value: f64) -> String {
    let text = match value {
        value if value >= 9.95 => grouped(value.round() as u64),
        value => format!("{value:.1}"),
    };
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// Number of pairs that a rate is expressed in: the least power of ten from 1,000 on of which about one is in error.
fn base(rate: f64) -> f64 {
    let mut base = 1000.0;
    while rate * base < 0.95 && base < 1e9 {
        base *= 10.0;
    }
    base
}

/// "of 1,000 pairs of different classes 1.2 are let in (0.8 to 1.9)"; "of the 40 pairs" if fewer were counted.
fn part(rate: f64, interval: Option<[f64; 2]>, pairs: u64, of: &str, done: &str) -> String {
    let high = interval.map_or(rate, |[_, high]| high);
    let base = base(if rate > 0.0 { rate } else { high.max(1e-9) });
    let (base, the) = match pairs as f64 {
        pairs if pairs < base => (pairs, "the "),
        _ => (base, ""),
    };
    let count = match short(rate * base).as_str() {
        "0" => "none is".to_owned(),
        "1" => "1 is".to_owned(),
        more => format!("{more} are"),
    };
    let interval = interval.map_or_else(String::new, |[low, high]| {
        format!(" ({} to {})", short(low * base), short(high * base))
    });
    format!(
        "of {the}{} {of} {count} {done}{interval}",
        grouped(base as u64)
    )
}

/// The threshold, and the pairs that it lets in and misses on the reported side, or on the fitted one if there is no other.
pub(super) fn sentence(report: &ThresholdReport) -> String {
    let (on, side): (&str, &PairRates) = match &report.test {
        Some(test) if report.new_classes => {
            ("On test rows, of classes that the fit never saw", test)
        }
        Some(test) => ("On test rows", test),
        None => ("On the rows that it was fitted on", &report.fit),
    };
    let let_in = part(
        side.false_match_rate,
        side.false_match_interval,
        side.different_pairs,
        "pairs of different classes",
        "let in",
    );
    let missed = part(
        side.false_non_match_rate,
        side.false_non_match_interval,
        side.same_pairs,
        "pairs of the same class",
        "missed",
    );
    format!(
        "Similarity {} and above means the same class. {on}: {let_in}; {missed}.",
        report.threshold
    )
}

/// Reason for a missing report on test rows.
pub(super) fn no_report(why: &Error) -> String {
    format!("Nothing is reported on test rows: {why}.")
}

/// Caveats of a report; `rate` is the false match rate that the threshold was fitted to, if it was not chosen by its similarity.
pub(super) fn notes(report: &ThresholdReport, rate: Option<f64>) -> Vec<String> {
    let ThresholdReport { fit, test, .. } = report;
    let mut notes = Vec::new();
    let let_in = rate.map(|rate| (rate, rate * fit.different_pairs as f64));
    if let Some((rate, let_in)) = let_in.filter(|(_, let_in)| *let_in < ENOUGH) {
        let how = match let_in {
            few if few < 3.0 => "the threshold says next to nothing of that rate",
            _ => "the threshold may be far off",
        };
        notes.push(format!(
            "Few pairs: a false match rate of {rate} is {} of the {} pairs of different classes that the threshold was fitted on. \
             With fewer than 30, {how}: take more rows, or a higher rate.",
            short(let_in),
            grouped(fit.different_pairs)
        ));
    }
    match test {
        None => notes.push(
            "No test rows: the rates are those of the rows that the threshold was fitted on, and those of others are most likely \
             higher."
                .to_owned(),
        ),
        Some(test) => {
            if let (Some([low, _]), Some(rate)) = (test.false_match_interval, rate)
                && low > rate
                && rate > 0.0
            {
                notes.push(format!(
                    "The rate does not hold: the threshold was fitted to a false match rate of {rate}, and on test rows it is {:.2} \
                     times that. Fit on rows that are more like them.",
                    test.false_match_rate / rate
                ));
            }
            if report.new_classes && test.classes < 20 {
                notes.push(format!(
                    "Few classes: the intervals stand on {} classes of the test, each of which counts once.",
                    test.classes
                ));
            }
        }
    }
    for (what, side) in [("fit", Some(fit)), ("test", test.as_ref())] {
        if let Some(side) = side
            && side.queries < side.rows
        {
            notes.push(format!(
                "A sample: {} of the {} rows of the {what} were paired with all others.",
                grouped(side.queries),
                grouped(side.rows)
            ));
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::threshold::Curve;

    fn report(fit: PairRates, test: Option<PairRates>) -> ThresholdReport {
        ThresholdReport {
            threshold: 0.62,
            rate: 0.001,
            fit,
            test,
            new_classes: false,
            curve: Curve::default(),
            sentence: String::new(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn a_threshold_is_said_in_pairs() {
        let fit = PairRates {
            same_pairs: 2000,
            different_pairs: 40_000,
            false_match_rate: 0.001,
            false_non_match_rate: 0.083,
            ..PairRates::default()
        };
        assert_eq!(
            sentence(&report(fit, None)),
            "Similarity 0.62 and above means the same class. On the rows that it was fitted on: of 1,000 pairs of different \
             classes 1 is let in; of 1,000 pairs of the same class 83 are missed."
        );
        let test = PairRates {
            false_match_rate: 0.0,
            false_match_interval: Some([0.0, 0.00012]),
            false_non_match_rate: 0.0104,
            false_non_match_interval: Some([0.008, 0.0131]),
            ..fit
        };
        assert_eq!(
            sentence(&report(fit, Some(test))),
            "Similarity 0.62 and above means the same class. On test rows: of 10,000 pairs of different classes none is let in \
             (0 to 1.2); of 1,000 pairs of the same class 10 are missed (8 to 13)."
        );
    }

    #[test]
    fn of_few_pairs_no_more_are_said_than_were_counted() {
        let fit = PairRates {
            same_pairs: 40,
            different_pairs: 150,
            false_match_rate: 0.1,
            ..PairRates::default()
        };
        let said = sentence(&report(fit, None));
        assert!(
            said.ends_with(
                "of the 150 pairs of different classes 15 are let in; of the 40 pairs of the same class none is missed."
            ),
            "{said}"
        );
    }

    #[test]
    fn rates_that_do_not_hold_and_few_pairs_are_noted() {
        let fit = PairRates {
            different_pairs: 2000,
            rows: 70,
            queries: 70,
            ..PairRates::default()
        };
        let all = notes(&report(fit, None), Some(0.001));
        assert!(
            all[0].starts_with("Few pairs: a false match rate of 0.001 is 2 of the 2,000 pairs"),
            "{all:?}"
        );
        assert!(all[1].starts_with("No test rows: "), "{all:?}");
        let test = PairRates {
            false_match_rate: 0.003,
            false_match_interval: Some([0.002, 0.004]),
            rows: 5000,
            queries: 1000,
            ..fit
        };
        let fit = PairRates {
            different_pairs: 90_000,
            ..fit
        };
        let all = notes(&report(fit, Some(test)), Some(0.001));
        assert_eq!(all.len(), 2, "{all:?}");
        assert!(all[0].contains("it is 3.00 times that"), "{all:?}");
        assert_eq!(
            all[1],
            "A sample: 1,000 of the 5,000 rows of the test were paired with all others."
        );
        // Of a threshold that was fitted to no rate, none can fail to hold.
        let chosen = notes(&report(fit, Some(test)), None);
        assert_eq!(chosen, all[1..]);
    }
}
