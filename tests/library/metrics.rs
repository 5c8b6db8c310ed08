//! Metrics of raw digits are equal to those of PML's `AccuracyCalculator` on scikit-learn's data.

use std::collections::BTreeMap;

use crate::common::engines;
use nearfar::{
    Dataset, Engine, EngineKind, Error, EvaluationSpec, Labelled, Metrics, Rate, Retrieval, Room,
    Rows, evaluate, evaluate_nearest, reference,
};

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

/// Scores labelled rows against others, or against each other.
fn score(
    engine: &Engine,
    queries: &Labelled,
    references: Option<&Labelled>,
    at: &[u64],
) -> nearfar::Result<Retrieval> {
    let parts = |rows: &Labelled| rows.clone().into_rows();
    let (asking, known) = (parts(queries), references.map(parts));
    let rows = |(rows, labels)| Rows { rows, labels };
    let asking = rows((&asking.0, &asking.1[..]));
    let known = known.as_ref().map(|known| rows((&known.0, &known.1[..])));
    pollster::block_on(evaluate(engine, asking, known, at, |_, _| {}))
}

fn compare(rows: &Labelled, hits: u64, queries: u64, others: [f64; 4]) {
    for engine in engines() {
        let metrics = score(&engine, rows, None, &[]).expect("evaluates").metrics;
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
        let metrics = score(&engine, &queries, Some(&known), &[])
            .expect("evaluates")
            .metrics;
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
    let label = |(row, label)| if row == 3 { "once" } else { label };
    rows.labels = rows.labels.iter().enumerate().map(label).collect();
    let mut lonely = rows.clone();
    lonely.labels = (0..rows.labels.len()).map(|row| row.to_string()).collect();
    for engine in engines() {
        let metrics = score(&engine, &rows, None, &[]).expect("evaluates").metrics;
        assert_eq!(
            (metrics.lone_queries, metrics.queries),
            (1, rows.labels.len() as u64 - 1)
        );
        let error = score(&engine, &lonely, None, &[]).expect_err("refused");
        assert!(
            error
                .to_string()
                .starts_with("no query has another row of its label")
        );
    }
}

/// Rows with many ties: `large` of 400 are of one class, 50 of another, and the rest are of small classes or alone.
fn tied(rows: usize, large: u32) -> Labelled {
    let mut rng = crate::common::rng(rows as u64);
    let values = crate::common::tied_unit_rows(&mut rng, rows);
    let labels = crate::common::labels(&mut rng, rows, 400);
    let name = |label: &u32| match label.checked_sub(large) {
        None => "large".to_owned(),
        Some(0..50) => "middling".to_owned(),
        Some(_) => label.to_string(),
    };
    Labelled {
        values,
        dim: 64,
        labels: labels.iter().map(name).collect(),
        ..Labelled::default()
    }
}

/// Every metric from the ranks of a full sort in f64, implemented a second time.
fn by_full_sort(rows: &Labelled, at: &[u64]) -> Retrieval {
    let number = |label: &str| {
        let place = rows.labels.iter().position(|other| other == label);
        place.expect("is there") as u32
    };
    let tags: Vec<[u32; 2]> = rows
        .labels
        .iter()
        .map(number)
        .zip(0..)
        .map(|(l, id)| [l, id])
        .collect();
    let values = crate::common::to_f64(&rows.values);
    let ranks = reference::ranks(&values, &tags, &values, &tags, 64);
    let scored: Vec<&Vec<u64>> = ranks.iter().filter(|ranks| !ranks.is_empty()).collect();
    let mean = |value: &dyn Fn(&Vec<u64>) -> f64| {
        scored.iter().map(|ranks| value(ranks)).sum::<f64>() / scored.len() as f64
    };
    let average = |ranks: &[u64], most: u64| {
        let hits = (1..).zip(ranks).filter(|(_, rank)| **rank <= most);
        hits.map(|(hit, rank)| f64::from(hit) / *rank as f64)
            .sum::<f64>()
            / ranks.len() as f64
    };
    let within = |ranks: &[u64], k: u64| ranks.iter().filter(|rank| **rank <= k).count() as f64;
    Retrieval {
        metrics: Metrics {
            precision_at_1: mean(&|ranks| within(ranks, 1)),
            r_precision: mean(&|ranks| within(ranks, ranks.len() as u64) / ranks.len() as f64),
            mean_average_precision_at_r: mean(&|ranks| average(ranks, ranks.len() as u64)),
            mean_average_precision: mean(&|ranks| average(ranks, u64::MAX)),
            mean_reciprocal_rank: mean(&|ranks| 1.0 / ranks[0] as f64),
            queries: scored.len() as u64,
            lone_queries: (ranks.len() - scored.len()) as u64,
            standard_error: 0.0,
            interval: None,
        },
        recall_at: at
            .iter()
            .map(|k| (*k, mean(&|ranks| within(ranks, *k).min(1.0))))
            .collect(),
        precision_at: at
            .iter()
            .map(|k| (*k, mean(&|ranks| within(ranks, *k) / *k as f64)))
            .collect(),
        ..Retrieval::default()
    }
}

#[test]
fn every_metric_equals_a_full_sort_on_data_full_of_ties() {
    let (rows, at) = (tied(1500, 150), [1, 2, 10, 1000, 100_000]);
    let expected = by_full_sort(&rows, &at);
    for engine in engines() {
        let actual = score(&engine, &rows, None, &at).expect("evaluates");
        let pairs = [
            (
                actual.metrics.precision_at_1,
                expected.metrics.precision_at_1,
            ),
            (actual.metrics.r_precision, expected.metrics.r_precision),
            (
                actual.metrics.mean_average_precision_at_r,
                expected.metrics.mean_average_precision_at_r,
            ),
            (
                actual.metrics.mean_average_precision,
                expected.metrics.mean_average_precision,
            ),
            (
                actual.metrics.mean_reciprocal_rank,
                expected.metrics.mean_reciprocal_rank,
            ),
        ];
        for (actual, expected) in pairs {
            assert!(
                (actual - expected).abs() < 1e-12,
                "{actual}, expected {expected}"
            );
        }
        assert_eq!(actual.metrics.lone_queries, expected.metrics.lone_queries);
        assert!(actual.metrics.lone_queries > 0, "some rows are alone");
        for (k, expected) in &expected.recall_at {
            assert!(
                (actual.recall_at[k] - expected).abs() < 1e-12,
                "recall at {k}"
            );
        }
        for (k, expected) in &expected.precision_at {
            assert!(
                (actual.precision_at[k] - expected).abs() < 1e-12,
                "precision at {k}"
            );
        }
    }
}

#[test]
fn a_budget_changes_no_bit_even_where_references_stream_and_a_class_goes_in_windows() {
    let rows = tied(420, 320);
    let large = rows.labels.iter().filter(|label| *label == "large").count();
    let spec = EvaluationSpec {
        references: 420,
        dim: 64,
        queries: 420,
        positives: large,
    };
    let mut seen = Vec::new();
    for kind in [EngineKind::Gpu, EngineKind::Cpu] {
        // Beside the fixed buffers of a GPU: blocks of a few queries, then windows of a class, with a chunk at a time.
        for free in [64 << 20, 156 << 10, 70 << 10] {
            let fixed = crate::common::open(kind, 256 << 20).ledger().live_bytes();
            let engine = crate::common::open(kind, fixed + free);
            let room = engine.room();
            let forecast = spec.plan(&room, &Rate::default()).expect("fits");
            seen.push((forecast.resident, forecast.block_queries > 1));
            let retrieval = score(&engine, &rows, None, &[3]).expect("evaluates");
            let all = format!("{retrieval:?}");
            let expected =
                score(&crate::common::open(kind, 256 << 20), &rows, None, &[3]).expect("evaluates");
            assert_eq!(all, format!("{expected:?}"), "{free} bytes free");
            assert!(engine.ledger().peak_bytes() <= fixed + free);
        }
    }
    assert_eq!(
        seen[..3],
        [(true, true), (false, true), (false, false)],
        "the three ways were taken"
    );
}

#[test]
fn sixteen_mib_give_the_bits_of_larger_budgets_for_references_that_do_not_fit_them() {
    let mut rng = crate::common::rng(9);
    let mut rows = |count: usize| Labelled {
        values: crate::common::random_rows(&mut rng, count, 256),
        dim: 256,
        labels: crate::common::labels(&mut rng, count, 100)
            .iter()
            .map(u32::to_string)
            .collect(),
        ..Labelled::default()
    };
    // 19.5 MiB of references.
    let (references, queries) = (rows(20_000), rows(40));
    let labels = references.clone().into_rows().1;
    let spec = EvaluationSpec::of_names(&labels, 256, 40);
    for kind in [EngineKind::Gpu, EngineKind::Cpu] {
        let fixed = crate::common::open(kind, 256 << 20).ledger().live_bytes();
        let [mut ways, mut results] = [Vec::new(), Vec::new()];
        for free in [16 << 20, 64 << 20, 256 << 20] {
            let engine = crate::common::open(kind, fixed + free);
            let forecast = spec.plan(&engine.room(), &Rate::default()).expect("fits");
            ways.push(forecast.resident.to_string());
            let retrieval = score(&engine, &queries, Some(&references), &[3]).expect("evaluates");
            results.push(format!("{retrieval:?}"));
            assert!(engine.ledger().peak_bytes() <= fixed + free);
        }
        assert_eq!(ways, ["false", "true", "true"], "streamed and resident");
        assert_eq!(results[0], results[1], "{kind:?}");
        assert_eq!(results[1], results[2], "{kind:?}");
    }
}

#[test]
fn what_not_even_the_smallest_blocks_fit_is_refused_with_the_numbers() {
    let spec = EvaluationSpec {
        references: 1 << 20,
        dim: 4096,
        queries: 1 << 20,
        positives: 1000,
    };
    let room = Room {
        free_bytes: 1 << 20,
        budget_bytes: 2 << 20,
        max_buffer_bytes: 1 << 27,
    };
    let error = spec.plan(&room, &Rate::default()).expect_err("refused");
    assert!(matches!(error, Error::Refused { .. }), "{error}");
    assert!(
        error
            .to_string()
            .contains("1 MiB of the 2 MiB budget is free"),
        "{error}"
    );
}

/// PML's scores of a case.
#[derive(serde::Deserialize)]
struct Golden {
    name: String,
    dim: usize,
    queries: Vec<f32>,
    query_labels: Vec<u32>,
    references: Option<Vec<f32>>,
    reference_labels: Option<Vec<u32>>,
    whole: BTreeMap<String, f64>,
    max_bin_count: BTreeMap<String, f64>,
    over_classes: BTreeMap<String, f64>,
    per_class: BTreeMap<String, Vec<f64>>,
}

/// The metrics by PML's names.
fn named(metrics: &Metrics) -> BTreeMap<String, f64> {
    let json = serde_json::json!(metrics);
    let value = |name: &&str| (name.to_string(), json[name].as_f64().expect("a number"));
    Metrics::NAMES.iter().map(value).collect()
}

#[test]
fn pml_s_accuracy_calculator_says_the_same_whole_by_class_and_over_classes() {
    let golden: Vec<Golden> =
        serde_json::from_str(include_str!("../golden/metrics.json")).expect("parses");
    for case in golden {
        let labelled = |values: &Vec<f32>, labels: &Vec<u32>| Labelled {
            values: values.clone(),
            dim: case.dim,
            labels: labels.iter().map(u32::to_string).collect(),
            ..Labelled::default()
        };
        let queries = labelled(&case.queries, &case.query_labels);
        let references = case.references.as_ref().zip(case.reference_labels.as_ref());
        let references = references.map(|(values, labels)| labelled(values, labels));
        for engine in engines() {
            let retrieval = score(&engine, &queries, references.as_ref(), &[]).expect("evaluates");
            let near =
                |what: &str, actual: &BTreeMap<String, f64>, expected: &BTreeMap<String, f64>| {
                    for (name, expected) in expected {
                        let off = (actual[name] - expected).abs();
                        assert!(
                            off < 1e-5,
                            "{}, {what}, {name}: {}, PML {expected}",
                            case.name,
                            actual[name]
                        );
                    }
                };
            let whole = named(&retrieval.metrics);
            near("whole", &whole, &case.whole);
            near(
                "over classes",
                &named(&retrieval.over_classes),
                &case.over_classes,
            );
            // With the nearest max_bin_count alone, PML cuts MAP and MRR short; the rest is the same.
            let mut within = case.max_bin_count.clone();
            within.retain(|name, _| {
                !["mean_average_precision", "mean_reciprocal_rank"].contains(&&name[..])
            });
            near("max_bin_count", &whole, &within);
            for (i, class) in retrieval.classes.iter().enumerate() {
                let expected = case
                    .per_class
                    .iter()
                    .map(|(name, values)| (name.clone(), values[i]));
                near(
                    &format!("class {}", class.class),
                    &named(&class.metrics),
                    &expected.collect(),
                );
            }
            assert_eq!(
                retrieval.classes.len(),
                case.per_class["precision_at_1"].len()
            );
        }
    }
}

#[test]
fn the_nearest_alone_tell_what_all_tell_of_them() {
    // 40, 400 and 1,560 positives a query, rows full of ties, more references than are counted at once.
    let count = 2000;
    let name = |row: usize| match row % 50 {
        0 => "few",
        1..=10 => "some",
        _ => "many",
    };
    let labels: Vec<String> = (0..count).map(|row| name(row).to_owned()).collect();
    let mut rng = crate::common::rng(5);
    let values = crate::common::exact_unit_rows(&mut rng, count);
    let rows = nearfar::RowSource::Memory { values, dim: 64 };
    let rows = Rows {
        rows: &rows,
        labels: &labels,
    };
    let at = [1, 10, 100];
    let bits = |retrieval: &Retrieval| {
        let of = |m: &Metrics| {
            let means = [
                m.precision_at_1,
                m.r_precision,
                m.mean_average_precision_at_r,
            ];
            means.map(f64::to_bits)
        };
        let classes: Vec<_> = retrieval.classes.iter().map(|c| of(&c.metrics)).collect();
        let (recall, precision) = (&retrieval.recall_at, &retrieval.precision_at);
        let over = [of(&retrieval.metrics), of(&retrieval.over_classes)];
        (over, classes, recall.clone(), precision.clone())
    };
    // The second streams its references, some thousand at a time.
    for (kind, budget) in [
        (EngineKind::Cpu, 64 << 20),
        (EngineKind::Cpu, 1 << 20),
        (EngineKind::Gpu, 64 << 20),
    ] {
        let engine = crate::common::open(kind, budget);
        let all = pollster::block_on(evaluate(&engine, rows, None, &at, |_, _| {}));
        let near = pollster::block_on(evaluate_nearest(&engine, rows, None, &at, |_, _| {}));
        let (all, near) = (all.expect("evaluates"), near.expect("evaluates"));
        assert_eq!(bits(&near), bits(&all));
        assert!(near.metrics.mean_average_precision.is_nan());
        assert!(near.over_classes.mean_reciprocal_rank.is_nan());
    }
}
