//! What a run was good for, in a plain sentence or two.

use crate::config::Split;
use crate::metrics::{Metrics, Scores};

/// A change of MAP@R that is worth a word.
const MAP_CHANGE: f64 = 0.02;

/// Compares the head with raw features, and with the linear baseline where there is one: on the test side, or on the
/// validation side where nothing is tested.
pub(crate) fn verdict(
    split: &Split,
    head: &Scores,
    raw: &Scores,
    linear: Option<&Scores>,
) -> String {
    let unseen = match split {
        Split::ByClass | Split::ByClassShuffled => "classes it never saw",
        Split::Random | Split::Column(_) => "rows it never saw",
    };
    let on = |side: fn(&Scores) -> Option<Metrics>| {
        let linear = linear.and_then(side);
        let scores = side(head).zip(side(raw));
        scores.map(|(head, raw)| compare(unseen, &head, &raw, linear.as_ref()))
    };
    match (on(|scores| scores.test), on(|scores| scores.validation)) {
        (Some(text), _) => text,
        (None, Some(text)) => format!("{text} (validation: nothing was kept for a test)"),
        (None, None) => {
            "Nothing to judge by: no held-out row has another row of its class. Raise test_fraction.".to_owned()
        }
    }
}

fn compare(unseen: &str, head: &Metrics, raw: &Metrics, linear: Option<&Metrics>) -> String {
    let raw = Standing::of(head, raw, "raw features");
    let linear = linear.map(|linear| Standing::of(head, linear, "a linear map (LDA)"));
    let error = match head.standard_error {
        0.0 => 0.0,
        // What rounds to nothing is not nothing.
        error => error.max(0.01),
    };
    let (before, colon) = if raw.worse {
        ("Worse than no training: ", ",")
    } else {
        ("", ":")
    };
    let mut text = format!(
        "{before}{:.2} ± {error:.2} on {unseen}{colon} {}",
        head.precision_at_1, raw.text
    );
    if let Some(linear) = &linear {
        let and = match (raw.pays, linear.pays) {
            (true, true) => ",",
            (false, false) => ", and",
            _ => ", but",
        };
        text = format!("{text}{and} {}", linear.text);
    }
    if raw.pays && linear.is_none_or(|linear| linear.pays) {
        text
    } else {
        format!("{text}. Do not ship this head.")
    }
}

/// How the head stands against one baseline.
struct Standing {
    /// The head is better, by more than the noise.
    pays: bool,
    /// The head is worse, by more than the noise.
    worse: bool,
    text: String,
}

impl Standing {
    /// By precision@1; where that is the same, by MAP@R.
    fn of(head: &Metrics, baseline: &Metrics, name: &str) -> Self {
        let (p, q) = (head.precision_at_1, baseline.precision_at_1);
        let (m, n) = (
            head.mean_average_precision_at_r,
            baseline.mean_average_precision_at_r,
        );
        // Two standard errors of the difference.
        let noise = 2.0 * head.standard_error.hypot(baseline.standard_error);
        let (pays, worse, text) = if p > q + noise {
            (true, false, format!("better than {name} by {:.2}", p - q))
        } else if p < q - noise {
            (false, true, format!("worse than {name} by {:.2}", q - p))
        } else if m > n + MAP_CHANGE {
            let text = format!(
                "like {name} at {q:.2}, with whole classes together (MAP@R {m:.2} against {n:.2})"
            );
            (true, false, text)
        } else if m < n - MAP_CHANGE {
            let text =
                format!("like {name} at {q:.2}, with classes apart (MAP@R {m:.2} against {n:.2})");
            (false, false, text)
        } else {
            (false, false, format!("no better than {name} at {q:.2}"))
        };
        Self { pays, worse, text }
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
        let say = |head, raw| verdict(&Split::ByClass, &head, &raw, None);
        assert_eq!(
            say(scores(0.9, 0.5), scores(0.13, 0.1)),
            "0.90 ± 0.01 on classes it never saw: better than raw features by 0.77"
        );
        assert_eq!(
            say(scores(0.93, 0.3), scores(0.99, 0.6)),
            "Worse than no training: 0.93 ± 0.01 on classes it never saw, worse than raw features by 0.06. Do not ship \
             this head."
        );
        assert_eq!(
            say(scores(0.98, 0.93), scores(0.98, 0.54)),
            "0.98 ± 0.01 on classes it never saw: like raw features at 0.98, with whole classes together (MAP@R 0.93 \
             against 0.54)"
        );
        assert_eq!(
            say(scores(0.98, 0.3), scores(0.98, 0.54)),
            "0.98 ± 0.01 on classes it never saw: like raw features at 0.98, with classes apart (MAP@R 0.30 against \
             0.54). Do not ship this head."
        );
        assert_eq!(
            say(scores(0.98, 0.54), scores(0.98, 0.54)),
            "0.98 ± 0.01 on classes it never saw: no better than raw features at 0.98. Do not ship this head."
        );
        assert!(say(Scores::default(), Scores::default()).starts_with("Nothing to judge by"));
    }

    #[test]
    fn a_head_has_to_beat_the_linear_map_too() {
        let say = |linear| {
            let (head, raw) = (scores(0.9, 0.5), scores(0.13, 0.1));
            verdict(&Split::ByClass, &head, &raw, Some(&linear))
        };
        let start = "0.90 ± 0.01 on classes it never saw: better than raw features by 0.77";
        assert_eq!(
            say(scores(0.59, 0.3)),
            format!("{start}, better than a linear map (LDA) by 0.31")
        );
        // Two standard errors of the difference are 0.028.
        for (precision, text) in [
            (0.875, "but no better than a linear map (LDA) at 0.88"),
            (0.925, "but no better than a linear map (LDA) at 0.93"),
            (0.93, "but worse than a linear map (LDA) by 0.03"),
        ] {
            assert_eq!(
                say(scores(precision, 0.5)),
                format!("{start}, {text}. Do not ship this head.")
            );
        }
        assert!(say(scores(0.871, 0.5)).ends_with("better than a linear map (LDA) by 0.03"));
        assert!(say(scores(0.9, 0.4)).ends_with("together (MAP@R 0.50 against 0.40)"));
    }

    #[test]
    fn worse_than_both_is_one_sentence_and_what_to_do() {
        let (head, raw, linear) = (scores(0.5, 0.3), scores(0.99, 0.6), scores(0.6, 0.3));
        assert_eq!(
            verdict(&Split::ByClass, &head, &raw, Some(&linear)),
            "Worse than no training: 0.50 ± 0.01 on classes it never saw, worse than raw features by 0.49, and worse \
             than a linear map (LDA) by 0.10. Do not ship this head."
        );
    }

    #[test]
    fn an_error_that_rounds_to_nothing_is_said_to_be_a_hundredth() {
        let mut head = scores(0.9, 0.5);
        let mut say = |standard_error| {
            let test = head.test.as_mut().expect("is there");
            test.standard_error = standard_error;
            verdict(&Split::Random, &head, &scores(0.13, 0.1), None)
        };
        assert!(say(0.001).starts_with("0.90 ± 0.01 "));
        assert!(say(0.016).starts_with("0.90 ± 0.02 "));
        assert!(say(0.0).starts_with("0.90 ± 0.00 "));
    }

    #[test]
    fn rows_of_known_classes_are_called_rows() {
        let say = verdict(&Split::Random, &scores(0.9, 0.5), &scores(0.13, 0.1), None);
        assert!(
            say.starts_with("0.90 ± 0.01 on rows it never saw: "),
            "{say}"
        );
    }

    #[test]
    fn without_a_test_side_validation_is_judged_and_said_so() {
        let validation = |p| Scores {
            validation: scores(p, 0.5).test,
            ..Scores::default()
        };
        let linear = validation(0.5);
        let say = verdict(
            &Split::Random,
            &validation(0.9),
            &validation(0.1),
            Some(&linear),
        );
        assert!(
            say.contains("better than a linear map (LDA) by 0.40")
                && say.ends_with("(validation: nothing was kept for a test)"),
            "{say}"
        );
    }
}
