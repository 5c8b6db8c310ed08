//! Pairs are counted exactly, on both engines, and their rates are those of scikit-learn, which `tests/golden/threshold.py`
//! recorded.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::common::{Set, engines, exact_unit_rows, open, rng, tied_unit_rows, to_f64};
use nearfar::{
    Dataset, Engine, EngineKind, Error, PairRates, Rate, Room, Run, Threshold, ThresholdConfig,
    ThresholdSpec, find_threshold,
};
use serde::Deserialize;

/// Width of a bin of similarities.
const BIN: f64 = 0.00002;

fn find(
    engine: &Engine,
    fit: &Set,
    test: Option<&Set>,
    config: ThresholdConfig,
) -> nearfar::Result<Threshold> {
    pollster::block_on(find_threshold(
        engine,
        fit.rows(),
        test.map(Set::rows),
        &config,
    ))
}

fn at_rate(rate: f64) -> ThresholdConfig {
    ThresholdConfig {
        false_match_rate: Some(rate),
        queries: 0,
        ..ThresholdConfig::default()
    }
}

/// Random rows in f64, with a label each.
struct Drawn {
    values: Vec<f64>,
    labels: Vec<u32>,
    dim: usize,
}

impl Drawn {
    fn new(values: &[f32], dim: usize, classes: u32, seed: u64) -> Self {
        let labels = crate::common::labels(&mut rng(seed), values.len() / dim, classes);
        Self {
            values: to_f64(values),
            labels,
            dim,
        }
    }

    fn set(&self) -> Set {
        Set::new(&self.values, self.labels.iter(), self.dim)
    }

    /// Similarity of every pair with a row in `asking`, in f64, and if it is of one class.
    fn pairs(&self, asking: &[usize]) -> Vec<(f64, bool)> {
        let rows: Vec<&[f64]> = self.values.chunks_exact(self.dim).collect();
        let mut pairs = Vec::new();
        for i in 0..rows.len() {
            for j in 0..i {
                if asking.contains(&i) || asking.contains(&j) {
                    let s = nearfar::reference::dot(rows[i], rows[j])
                        / (crate::common::norm(rows[i]) * crate::common::norm(rows[j]));
                    pairs.push((s, self.labels[i] == self.labels[j]));
                }
            }
        }
        pairs
    }
}

/// Pairs of two classes at or above a similarity, and pairs of one class below it.
fn errors(pairs: &[(f64, bool)], at: f64) -> [u64; 2] {
    let count = |which: &dyn Fn(f64, bool) -> bool| {
        pairs.iter().filter(|(s, same)| which(*s, *same)).count() as u64
    };
    [
        count(&|s, same| !same && s >= at),
        count(&|s, same| same && s < at),
    ]
}

fn counts(pairs: &[(f64, bool)]) -> [u64; 2] {
    let same = pairs.iter().filter(|(_, same)| *same).count();
    [same as u64, (pairs.len() - same) as u64]
}

#[test]
fn counts_equal_a_double_loop_where_similarities_are_exact() {
    // One row more than a block of references, a tile's rows, and few; similarities lie on 65 edges.
    for (rows, tied) in [(5, false), (129, true), (700, false)] {
        let values = match tied {
            true => tied_unit_rows(&mut rng(1), rows),
            false => exact_unit_rows(&mut rng(2), rows),
        };
        let (fit, test) = (Drawn::new(&values, 64, 3, 3), Drawn::new(&values, 64, 3, 4));
        let all: Vec<usize> = (0..rows).collect();
        let (fitted, tested) = (fit.pairs(&all), test.pairs(&all));
        for engine in engines() {
            let found = find(&engine, &fit.set(), Some(&test.set()), at_rate(0.1)).expect("finds");
            let PairRates {
                same_pairs,
                different_pairs,
                false_matches,
                false_non_matches,
                ..
            } = found.report.fit;
            assert_eq!([same_pairs, different_pairs], counts(&fitted));
            let at = found.report.threshold;
            assert_eq!([false_matches, false_non_matches], errors(&fitted, at));
            assert!(false_matches as f64 <= 0.1 * different_pairs as f64);
            // A lower threshold would let in too many, if any is lower.
            let [more, _] = errors(&fitted, at - BIN);
            assert!(
                at == -1.0 || more as f64 > 0.1 * different_pairs as f64,
                "{at}"
            );
            let [same, different] = counts(&tested).map(|count| count as f64);
            let mut lines = 0;
            for (at, of_fit, of_test) in found.lines() {
                let [let_in, missed] = errors(&tested, at);
                assert_eq!(
                    of_test,
                    Some([let_in as f64 / different, missed as f64 / same]),
                    "{at}"
                );
                let [let_in, missed] = errors(&fitted, at);
                assert_eq!(
                    of_fit,
                    [
                        let_in as f64 / different_pairs as f64,
                        missed as f64 / same_pairs as f64
                    ]
                );
                lines += 1;
            }
            // Every similarity is a step.
            let mut steps: Vec<i64> = fitted.iter().map(|(s, _)| (s * 1e6) as i64).collect();
            steps.sort_unstable();
            steps.dedup();
            assert!(
                lines >= steps.len(),
                "{lines} lines, {} similarities",
                steps.len()
            );
        }
    }
}

#[test]
fn counts_of_any_rows_are_those_of_f64_but_for_what_f32_cannot_tell() {
    let mut draw = rng(7);
    let values = crate::common::random_rows(&mut draw, 600, 12);
    let rows = Drawn::new(&values, 12, 5, 8);
    let all: Vec<usize> = (0..600).collect();
    let pairs = rows.pairs(&all);
    for engine in engines() {
        let found = find(&engine, &rows.set(), None, at_rate(0.01)).expect("finds");
        let [same, different] = counts(&pairs).map(|count| count as f64);
        for (at, [let_in, missed], _) in found.lines().step_by(97) {
            // A similarity within 1e-6 of an edge may be counted on either side of it.
            let (below, above) = (errors(&pairs, at - 1e-6), errors(&pairs, at + 1e-6));
            let let_in = (let_in * different).round() as u64;
            let missed = (missed * same).round() as u64;
            assert!(
                (above[0]..=below[0]).contains(&let_in),
                "{at}: {let_in}, {above:?} {below:?}"
            );
            assert!(
                (below[1]..=above[1]).contains(&missed),
                "{at}: {missed}, {above:?} {below:?}"
            );
        }
    }
}

#[test]
fn a_sample_of_rows_is_paired_with_all_others_each_pair_once() {
    let values = exact_unit_rows(&mut rng(5), 300);
    let rows = Drawn::new(&values, 64, 4, 6);
    for engine in engines() {
        let config = ThresholdConfig {
            queries: 40,
            ..at_rate(0.05)
        };
        let found = find(&engine, &rows.set(), None, config)
            .expect("finds")
            .report;
        // 40 x 39 / 2 among themselves, 40 x 260 with the others.
        assert_eq!(
            found.fit.same_pairs + found.fit.different_pairs,
            780 + 10_400
        );
        assert_eq!((found.fit.queries, found.fit.rows), (40, 300));
        assert!(
            found
                .notes
                .iter()
                .any(|note| note.starts_with("A sample: 40 of the 300 rows")),
            "{:?}",
            found.notes
        );
        let whole = find(&engine, &rows.set(), None, at_rate(0.05))
            .expect("finds")
            .report;
        assert!((whole.fit.area_under_curve - found.fit.area_under_curve).abs() < 0.05);
    }
}

#[test]
fn the_cut_changes_no_count_and_stays_within_the_budget() {
    let values = exact_unit_rows(&mut rng(9), 900);
    let (fit, test) = (
        Drawn::new(&values, 64, 30, 1),
        Drawn::new(&values, 64, 30, 2),
    );
    for kind in [EngineKind::Gpu, EngineKind::Cpu] {
        let find_in = |budget: u64| {
            let engine = open(kind, budget);
            let found = find(&engine, &fit.set(), Some(&test.set()), at_rate(0.01)).expect("finds");
            let (peak, live) = (engine.ledger().peak_bytes(), engine.ledger().live_bytes());
            assert!(peak <= budget, "{peak} of {budget}");
            (found.report, peak, live)
        };
        let (whole, most, _) = find_in(256 << 20);
        // Below a plan that has all rows at once.
        let base = {
            let engine = open(kind, 256 << 20);
            engine.ledger().live_bytes()
        };
        let (cut, peak, live) = find_in(base + (200 << 10));
        assert_eq!(cut, whole);
        assert!(peak < most, "{peak}, {most}");
        assert!(live <= base, "what it held is given back: {live}, {base}");
    }
}

#[test]
fn what_does_not_fit_is_refused_with_the_numbers_and_the_plan_says_the_same() {
    let values = exact_unit_rows(&mut rng(9), 900);
    let rows = Drawn::new(&values, 64, 30, 1);
    let base = open(EngineKind::Cpu, 1 << 20).ledger().live_bytes();
    let engine = open(EngineKind::Cpu, base + (8 << 10));
    let error = find(&engine, &rows.set(), None, at_rate(0.01)).expect_err("is refused");
    let Error::Refused { over, how, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(
        (over.what.as_str(), over.budget_bytes),
        ("threshold", base + (8 << 10))
    );
    assert!(
        over.needs_bytes > over.free_bytes && how.starts_with("raise the budget to "),
        "{error}"
    );
    let spec = ThresholdSpec::of(&[900], 64, 0);
    let planned = spec
        .plan(&engine.room(), &Rate::default())
        .expect_err("is refused");
    assert_eq!(planned.to_string(), error.to_string());
    // It fits in the budget that the message names.
    let room = Room {
        free_bytes: over.needs_bytes + (1 << 20),
        budget_bytes: over.needs_bytes + (1 << 20),
        max_buffer_bytes: 128 << 20,
    };
    let forecast = spec.plan(&room, &Rate::default()).expect("fits");
    assert!(forecast.memory.total_bytes() <= room.free_bytes);
    assert_eq!(forecast.operations, 2.0 * 64.0 * (900.0 * 899.0 / 2.0));
}

#[derive(Deserialize)]
struct Case {
    name: String,
    dim: usize,
    fit: Side,
    test: Side,
}

#[derive(Deserialize)]
struct Side {
    rows: Vec<f64>,
    labels: Vec<u32>,
    thresholds: Vec<f64>,
    false_match_rate: Vec<f64>,
    false_non_match_rate: Vec<f64>,
    equal_error_rate: f64,
    largest_gap: f64,
    area_under_curve: f64,
    lowest_with_rate: BTreeMap<String, f64>,
}

/// A similarity with both rates.
type Line = (f64, [f64; 2]);

/// Largest distance of the recorded rates from the range of the rates one bin below and one bin above.
fn beside(recorded: &Side, lines: &[Line]) -> f64 {
    let at = |s: f64| {
        lines[lines
            .partition_point(|(edge, _)| *edge <= s)
            .saturating_sub(1)]
        .1
    };
    let each = recorded.thresholds.iter().enumerate().map(|(i, s)| {
        let (low, high) = (at(s - 1.5 * BIN), at(s + 1.5 * BIN));
        let (let_in, missed) = (
            recorded.false_match_rate[i],
            recorded.false_non_match_rate[i],
        );
        let over = |value: f64, from: f64, to: f64| (from - value).max(value - to).max(0.0);
        over(let_in, high[0], low[0]).max(over(missed, low[1], high[1]))
    });
    each.fold(0.0, f64::max)
}

#[test]
fn rates_are_those_of_scikit_learn_within_a_bin() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("../golden/threshold.json"))
        .expect("the script wrote it");
    assert_eq!(cases.len(), 2);
    for case in &cases {
        let set = |side: &Side| Set::new(&side.rows, side.labels.iter(), case.dim);
        let (fit, test) = (set(&case.fit), set(&case.test));
        for engine in engines() {
            for (rate, lowest) in &case.fit.lowest_with_rate {
                let rate: f64 = rate.parse().expect("a number");
                let found = find(&engine, &fit, Some(&test), at_rate(rate)).expect("finds");
                let at = found.report.threshold;
                // It stands at most a bin above the highest pair of two classes that is kept out, so never above the lowest pair
                // that scikit-learn lets in.
                assert!(at <= lowest + 1e-6, "{}: {at}, {lowest}", case.name);
                assert!(found.report.fit.false_match_rate <= rate);
                assert_eq!(found.report.new_classes, case.name == "new classes");
            }
            let found = find(&engine, &fit, Some(&test), at_rate(0.05)).expect("finds");
            let report = &found.report;
            let sides: [(&Side, PairRates, Vec<Line>); 2] = [
                (
                    &case.fit,
                    report.fit,
                    found.lines().map(|(at, fit, _)| (at, fit)).collect(),
                ),
                (
                    &case.test,
                    report.test.expect("there is a test"),
                    found
                        .lines()
                        .map(|(at, _, test)| (at, test.expect("as well")))
                        .collect(),
                ),
            ];
            for (recorded, rates, lines) in &sides {
                assert!((rates.area_under_curve - recorded.area_under_curve).abs() < 1e-4);
                let off = (rates.equal_error_rate - recorded.equal_error_rate).abs();
                assert!(off <= recorded.largest_gap + 1e-3, "{off}");
                assert_eq!(beside(recorded, lines), 0.0, "{}", case.name);
            }
            // The comparison itself works: it finds counts of the other side, swapped rates, and thresholds half a tenth off.
            let (_, _, lines) = &sides[0];
            assert!(beside(&case.test, lines) > 0.02);
            let exchanged: Vec<_> = lines.iter().map(|(at, [a, b])| (*at, [*b, *a])).collect();
            assert!(beside(&case.fit, &exchanged) > 0.5);
            let moved: Vec<_> = lines
                .iter()
                .map(|(at, rates)| (at + 0.05, *rates))
                .collect();
            assert!(beside(&case.fit, &moved) > 0.01);
            // Below instead of at or below: each similarity is a step of its own, so one pair is on the other side.
            let below: Vec<_> = lines.windows(2).map(|two| (two[0].0, two[1].1)).collect();
            assert!(beside(&case.fit, &below) > 0.0);
        }
    }
}

#[test]
fn a_report_says_what_it_stands_on() {
    let values = tied_unit_rows(&mut rng(1), 60);
    let one = Drawn {
        labels: vec![1; 60],
        ..Drawn::new(&values, 64, 3, 1)
    };
    let lone = Drawn {
        labels: (0..60).collect(),
        ..Drawn::new(&values, 64, 3, 1)
    };
    let two = Drawn::new(&values, 64, 2, 1);
    let engine = open(EngineKind::Cpu, 64 << 20);
    let refused = |fit: &Drawn, config| {
        find(&engine, &fit.set(), None, config)
            .expect_err("is refused")
            .to_string()
    };
    assert!(refused(&one, at_rate(0.1)).starts_with("all fitted rows are of one class: "));
    assert!(refused(&lone, at_rate(0.1)).starts_with("no two fitted rows are of one class: "));
    for rate in [0.0, 1.0, -0.5, f64::NAN] {
        let message = refused(&two, at_rate(rate));
        assert_eq!(
            message,
            format!("the false match rate is {rate}: it must be above 0 and below 1")
        );
    }
    // Rows that are equal and of two classes: no threshold keeps them apart.
    assert!(refused(&two, at_rate(1e-4)).starts_with("no threshold lets in so few: of "));
    let found = find(&engine, &two.set(), Some(&one.set()), at_rate(0.9))
        .expect("finds")
        .report;
    assert_eq!(found.test, None);
    assert!(
        found.notes[0]
            .starts_with("Nothing is reported on test rows: all test rows are of one class"),
        "{:?}",
        found.notes
    );
}

#[test]
fn a_finished_run_has_a_threshold_fitted_on_validation_and_reported_on_test() {
    for engine in engines() {
        let dataset = Dataset::sample("many-classes", 0).expect("is there");
        let config = [
            "steps=20",
            "batch_size=16",
            "hidden_layers=[32]",
            "memory_size=64",
        ];
        let config = config.iter().fold(dataset.default_config(), |config, set| {
            config.with_set(set).expect("sets")
        });
        pollster::block_on(async {
            let mut run = Run::new(engine, Rc::new(dataset), config)
                .await
                .expect("fits");
            let early = run.find_threshold(None).await.expect_err("it is not over");
            assert!(
                early
                    .to_string()
                    .starts_with("a threshold is looked for when the run is over"),
                "{early}"
            );
            while !run.is_finished() {
                run.next(u64::MAX).await.expect("goes on");
            }
            let held = run.memory().live_bytes;
            let (before, head) = (run.report(), run.trainer().head().await.expect("reads"));
            let report = run.find_threshold(Some(0.01)).await.expect("finds").report;
            assert_eq!(run.memory().live_bytes, held, "what it held is given back");
            assert_eq!(run.trainer().head().await.expect("reads"), head);
            assert_eq!(run.report().evaluations, before.evaluations);
            let test = report.test.expect("there is a test side");
            assert_eq!((report.fit.rows, test.rows), (500, 1500));
            assert!(report.new_classes);
            assert!(report.fit.false_match_rate <= 0.01 && report.fit.false_match_rate > 0.005);
            let at = run
                .threshold_at(report.threshold + 1e-6)
                .await
                .expect("counts")
                .report;
            assert_eq!(
                (at.threshold, at.fit, at.test),
                (report.threshold, report.fit, report.test)
            );
            assert_eq!(at.sentence, report.sentence);
            let best = run
                .threshold_at(report.fit.best_f1_threshold)
                .await
                .expect("counts")
                .report;
            assert_eq!(best.fit.f1, report.fit.best_f1);
            assert!(best.fit.f1 > report.fit.f1);
            // It was fitted to no rate.
            let of_rate = |note: &String| note.contains("rate");
            assert!(!best.notes.iter().any(of_rate), "{:?}", best.notes);
            let [low, high] = test.false_match_interval.expect("many classes");
            assert!(low < test.false_match_rate && test.false_match_rate < high);
            assert!(test.area_under_curve > 0.6, "{test:?}");
            assert!(
                report
                    .sentence
                    .contains("of classes that the fit never saw"),
                "{}",
                report.sentence
            );
        });
    }
}
