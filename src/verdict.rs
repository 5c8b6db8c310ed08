//! What a run was good for, in one plain sentence.

use crate::config::Split;
use crate::metrics::{Metrics, Scores};

/// A change of MAP@R that is worth a word.
const MAP_CHANGE: f64 = 0.02;

/// Compares the head with the raw features on the test side, or on the validation side where nothing is tested.
pub(crate) fn verdict(split: &Split, head: &Scores, raw: &Scores) -> String {
    let unseen = match split {
        Split::ByClass | Split::ByClassShuffled => "classes it never saw",
        Split::Random | Split::Column(_) => "rows it never saw",
    };
    match (head.test.zip(raw.test), head.validation.zip(raw.validation)) {
        (Some((head, raw)), _) => compare(unseen, &head, &raw),
        (None, Some((head, raw))) => {
            format!("{} (validation: nothing was kept for a test)", compare(unseen, &head, &raw))
        }
        (None, None) => {
            "Nothing to judge by: no held-out row has another row of its class. Raise test_fraction.".to_owned()
        }
    }
}

fn compare(unseen: &str, head: &Metrics, raw: &Metrics) -> String {
    let (p, q) = (head.precision_at_1, raw.precision_at_1);
    let (m, n) = (
        head.mean_average_precision_at_r,
        raw.mean_average_precision_at_r,
    );
    // Two standard errors of the difference.
    let noise = 2.0 * head.standard_error.hypot(raw.standard_error);
    if p > q + noise {
        format!("{p:.2} on {unseen}; raw features give {q:.2}")
    } else if p < q - noise {
        format!(
            "Worse than no training: {p:.2} on {unseen}, where raw features give {q:.2}. Do not use this head."
        )
    } else if m > n + MAP_CHANGE {
        format!(
            "{p:.2} on {unseen}, like raw features ({q:.2}), but whole classes stand together: MAP@R {m:.2} against {n:.2}"
        )
    } else if m < n - MAP_CHANGE {
        format!(
            "{p:.2} on {unseen}, like raw features ({q:.2}), and MAP@R falls from {n:.2} to {m:.2}. Do not use this head."
        )
    } else {
        format!("{p:.2} on {unseen}, no better than raw features ({q:.2})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scores(precision_at_1: f64, mean_average_precision_at_r: f64) -> Scores {
        Scores {
            test: Some(Metrics {
                precision_at_1,
                mean_average_precision_at_r,
                standard_error: 0.01,
                queries: 1000,
                ..Metrics::default()
            }),
            ..Scores::default()
        }
    }

    #[test]
    fn the_sentence_says_better_worse_or_neither() {
        let say = |head, raw| verdict(&Split::ByClass, &head, &raw);
        assert_eq!(
            say(scores(0.9, 0.5), scores(0.13, 0.1)),
            "0.90 on classes it never saw; raw features give 0.13"
        );
        assert!(
            say(scores(0.93, 0.3), scores(0.99, 0.6)).starts_with("Worse than no training: 0.93")
        );
        assert!(say(scores(0.98, 0.93), scores(0.98, 0.54)).contains("MAP@R 0.93 against 0.54"));
        assert!(say(scores(0.98, 0.3), scores(0.98, 0.54)).contains("Do not use this head"));
        assert!(say(scores(0.98, 0.54), scores(0.98, 0.54)).contains("no better than raw"));
        assert!(say(Scores::default(), Scores::default()).starts_with("Nothing to judge by"));
    }

    #[test]
    fn rows_of_known_classes_are_called_rows() {
        let say = verdict(&Split::Random, &scores(0.9, 0.5), &scores(0.13, 0.1));
        assert_eq!(say, "0.90 on rows it never saw; raw features give 0.13");
    }

    #[test]
    fn without_a_test_side_validation_is_judged_and_said_so() {
        let validation = |p| Scores {
            validation: scores(p, 0.5).test,
            ..Scores::default()
        };
        let say = verdict(&Split::Random, &validation(0.9), &validation(0.1));
        assert!(
            say.ends_with("(validation: nothing was kept for a test)"),
            "{say}"
        );
    }
}
