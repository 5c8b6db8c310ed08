//! Metrics of raw digits equal those that scikit-learn's data and PML's `AccuracyCalculator` gave.

mod common;

use common::engines;
use nearfar::{Dataset, Labelled, Metrics, evaluate};

fn digits(keep: impl Fn(&str) -> bool) -> Labelled {
    let dataset = Dataset::sample("digits", 0).expect("is there");
    let values = dataset.features.in_memory().expect("in memory");
    let names = dataset.label_names();
    let kept: Vec<usize> = (0..dataset.rows())
        .filter(|row| keep(&names[*row]))
        .collect();
    Labelled {
        values: kept
            .iter()
            .flat_map(|row| &values[row * 64..][..64])
            .copied()
            .collect(),
        dim: 64,
        labels: kept.iter().map(|row| names[*row].clone()).collect(),
        ..Labelled::default()
    }
}

fn compare(rows: &Labelled, hits: u64, queries: u64, others: [f64; 4]) {
    for engine in engines() {
        let metrics = pollster::block_on(evaluate(&engine, rows, None)).expect("evaluates");
        let Metrics {
            precision_at_1,
            r_precision,
            mean_average_precision_at_r,
            mean_average_precision,
            mean_reciprocal_rank,
            ..
        } = metrics;
        // The nearest two of every digit differ by 4e-6 at least: f32 must find the same one.
        assert_eq!(metrics.queries, queries);
        assert_eq!(precision_at_1, hits as f64 / queries as f64);
        let actual = [
            r_precision,
            mean_average_precision_at_r,
            mean_average_precision,
            mean_reciprocal_rank,
        ];
        for (actual, expected) in actual.into_iter().zip(others) {
            assert!(
                (actual - expected).abs() < 1e-5,
                "{actual}, expected {expected}"
            );
        }
    }
}

#[test]
fn digits_five_to_nine() {
    let rows = digits(|name| name >= "5");
    compare(&rows, 888, 896, [0.667782, 0.605561, 0.741987, 0.993982]);
}

#[test]
fn all_digits() {
    compare(
        &digits(|_| true),
        1777,
        1797,
        [0.606455, 0.540044, 0.658721, 0.992788],
    );
}

#[test]
fn queries_apart_leave_nothing_out_and_count_labels_that_no_reference_has_as_lone() {
    let known = digits(|name| name <= "4");
    let queries = digits(|name| name <= "5");
    for engine in engines() {
        let metrics =
            pollster::block_on(evaluate(&engine, &queries, Some(&known))).expect("evaluates");
        assert_eq!((metrics.queries, metrics.lone_queries), (901, 182));
        // Every query finds itself first.
        assert_eq!(
            (metrics.precision_at_1, metrics.mean_reciprocal_rank),
            (1.0, 1.0)
        );
        assert!(metrics.r_precision < 1.0);
    }
}

#[test]
fn lone_queries_are_dropped_and_counted_and_alone_refused() {
    let mut rows = digits(|name| name <= "1");
    rows.labels[3] = "once".to_owned();
    let mut lonely = rows.clone();
    lonely.labels = (0..rows.labels.len()).map(|row| row.to_string()).collect();
    for engine in engines() {
        let metrics = pollster::block_on(evaluate(&engine, &rows, None)).expect("evaluates");
        assert_eq!(
            (metrics.lone_queries, metrics.queries),
            (1, rows.labels.len() as u64 - 1)
        );
        let error = pollster::block_on(evaluate(&engine, &lonely, None)).expect_err("refused");
        assert!(
            error
                .to_string()
                .starts_with("no query has another row of its label")
        );
    }
}
