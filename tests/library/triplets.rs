//! Lists of triplets against loops, against PML's lists, and against their own plan.

use std::ops::Range;
use std::sync::atomic::Ordering;

use crate::common::{engines, exact_unit_rows, open, rng, tied_unit_rows, to_f64};
use nearfar::kernels::triplet_margin::{Kind, Rule};
use nearfar::{
    Distance, DistanceWeightedMiner, Engine, EngineKind, Error, FacenetSemihardMiner, ListingSpec,
    Miner, Rate, RowSource, Rows, TrainConfig, Triplets, Wanted, Windows, checksum, list, mine,
    reference,
};
use rand::RngExt as _;

const KINDS: [(&str, Kind); 5] = [
    ("all", Kind::All),
    ("easy", Kind::Easy),
    ("semihard", Kind::Semihard),
    ("hard", Kind::Hard),
    ("none", Kind::Unmined),
];

/// Rows with a label each.
struct Set {
    rows: RowSource,
    values: Vec<f64>,
    numbers: Vec<u32>,
    labels: Vec<String>,
    dim: usize,
}

impl Set {
    fn new(values: Vec<f32>, dim: usize, labels: &[u32]) -> Self {
        Self {
            values: to_f64(&values),
            numbers: labels.to_vec(),
            labels: labels.iter().map(u32::to_string).collect(),
            rows: RowSource::Memory { values, dim },
            dim,
        }
    }

    fn exact(seed: u64, count: usize, classes: u32) -> Self {
        let mut rng = rng(seed);
        let values = if seed.is_multiple_of(2) {
            exact_unit_rows(&mut rng, count)
        } else {
            tied_unit_rows(&mut rng, count)
        };
        let labels: Vec<u32> = (0..count).map(|_| rng.random_range(0..classes)).collect();
        Self::new(values, 64, &labels)
    }

    fn rows(&self) -> Rows<'_> {
        Rows {
            rows: &self.rows,
            labels: &self.labels,
        }
    }

    fn tags(&self, first_id: u32) -> Vec<[u32; 2]> {
        let numbers = self.numbers.iter().copied();
        numbers.zip(first_id..).map(<[u32; 2]>::from).collect()
    }
}

fn miner(name: &str, margin: f64) -> Miner {
    if name == "none" {
        return Miner::None;
    }
    let config = TrainConfig::default();
    let set = config.with_set(&format!("miner.type_of_triplets={name}"));
    let set = set.and_then(|config| config.with_set(&format!("miner.margin={margin}")));
    set.expect("is a setting").miner
}

fn expected(
    anchors: &Set,
    references: Option<&Set>,
    kind: Kind,
    margin: f32,
    distance: Distance,
) -> Vec<[u32; 3]> {
    let known = references.unwrap_or(anchors);
    let first_id = if references.is_some() { 1 << 30 } else { 0 };
    let dim = anchors.dim;
    let (own, unit) = (
        reference::normalize(&anchors.values, dim),
        reference::normalize(&known.values, dim),
    );
    let (tags, own_tags) = (known.tags(0), anchors.tags(first_id));
    let rule = Rule {
        distance,
        kind,
        miner_margin: margin,
        loss_margin: 0.0,
    };
    reference::triplets(&own, &own_tags, &unit, &tags, dim, &rule)
}

/// All windows, one after the other; checks that none is empty or too large.
fn listed(
    engine: &Engine,
    anchors: &Set,
    references: Option<&Set>,
    miner: &Miner,
    distance: Distance,
    window_bytes: u64,
) -> Vec<[u32; 3]> {
    let mut all = Vec::new();
    let count = pollster::block_on(list(
        engine,
        anchors.rows(),
        references.map(Set::rows),
        miner,
        distance,
        window_bytes,
        |window| {
            assert!(!window.is_empty() && window.len() as u64 <= window_bytes / 12);
            all.extend_from_slice(window);
            Ok(())
        },
    ))
    .expect("fits");
    assert_eq!(count, all.len() as u64);
    all
}

#[test]
fn windows_of_any_size_are_the_list_of_the_loops_in_its_order() {
    let cases = [
        (Set::exact(1, 60, 5), None),
        (Set::exact(2, 33, 1), None),
        // Classes that only one side has.
        (Set::exact(3, 21, 7), Some(Set::exact(4, 130, 5))),
        (Set::exact(6, 9, 3), Some(Set::exact(5, 1, 1))),
    ];
    for engine in engines() {
        for (anchors, references) in &cases {
            let references = references.as_ref();
            for (name, kind) in KINDS {
                for (margin, distance) in [
                    (0.25f32, Distance::Cosine),
                    (-0.125, Distance::Cosine),
                    (0.25, Distance::L2),
                ] {
                    let miner = miner(name, margin.into());
                    let expected = expected(anchors, references, kind, margin, distance);
                    let odd = 12 * (expected.len() as u64 / 7 + 13) + 5;
                    for bytes in [odd, ListingSpec::WINDOW_BYTES] {
                        let all = listed(&engine, anchors, references, &miner, distance, bytes);
                        assert!(
                            all == expected,
                            "{name} {margin} {distance:?}, {bytes} bytes"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn one_triplet_a_window_is_a_list_as_well() {
    let set = Set::exact(7, 12, 3);
    for engine in engines() {
        for (name, kind) in KINDS {
            let all = listed(
                &engine,
                &set,
                None,
                &miner(name, 0.25),
                Distance::Cosine,
                12,
            );
            assert!(
                all == expected(&set, None, kind, 0.25, Distance::Cosine),
                "{name}"
            );
        }
    }
}

/// Triplets of labels, by loops.
fn loops(anchors: &[u32], references: &[u32], own: bool) -> Vec<[u32; 3]> {
    let mut all = Vec::new();
    for (a, label) in (0..).zip(anchors) {
        for (p, _) in (0u32..)
            .zip(references)
            .filter(|(_, other)| *other == label)
        {
            if own && p == a {
                continue;
            }
            for (n, _) in (0..).zip(references).filter(|(_, other)| *other != label) {
                all.push([a, p, n]);
            }
        }
    }
    all
}

#[test]
fn every_triplet_has_its_number_whatever_the_classes_are() {
    let random = |seed: u64, count: usize, classes: u32| -> Vec<u32> {
        let mut rng = rng(seed);
        (0..count).map(|_| rng.random_range(0..classes)).collect()
    };
    let cases: [(Vec<u32>, Option<Vec<u32>>); 9] = [
        (vec![], None),
        (vec![4], None),
        (vec![2; 9], None),
        ((0..9).collect(), None),
        (random(1, 40, 6), None),
        (vec![], Some(vec![1, 2])),
        (vec![1, 2], Some(vec![])),
        (vec![0, 7, u32::MAX, 1], Some(vec![1, 1, 0, 5, 1])),
        (random(2, 13, 9), Some(random(3, 50, 7))),
    ];
    for (anchors, references) in &cases {
        let known = references.as_ref().unwrap_or(anchors);
        let all = match references {
            None => Triplets::own(anchors),
            Some(references) => Triplets::apart(anchors, references),
        };
        let all = all.expect("few enough");
        let expected = loops(anchors, known, references.is_none());
        assert_eq!(all.len(), expected.len() as u64);
        assert_eq!(all.is_empty(), expected.is_empty());
        assert!(all.iter().eq(expected.iter().copied()));
        assert!(
            (0..all.len())
                .map(|t| all.at(t))
                .eq(expected.iter().copied())
        );
        for engine in engines() {
            pollster::block_on(async {
                let mut windows = Windows::new(&engine, &all, 12 * 101).await.expect("fits");
                let mut rng = rng(9);
                for _ in 0..20 {
                    let start = rng.random_range(0..=all.len());
                    let end = rng.random_range(start..=all.len().min(start + windows.room()));
                    let window = windows.read(start..end).await.expect("lies within");
                    assert!(*window == expected[start as usize..end as usize]);
                }
            });
        }
    }
}

#[test]
fn a_hundred_thousand_classes_and_numbers_past_32_bits() {
    let many: Vec<u32> = (0..300_000u32)
        .map(|row| row.wrapping_mul(7919) % 100_000)
        .collect();
    let all = Triplets::own(&many).expect("few enough");
    let (mut begin, pairs) = (many.len() as u64 * 2 * 299_997 / 3, 2 * 299_997);
    assert_eq!(all.len(), 300_000 * pairs);
    assert!(all.len() > 1 << 37);
    begin += 12_345;
    for engine in engines() {
        pollster::block_on(async {
            let mut windows = Windows::new(&engine, &all, 12 * 50_000)
                .await
                .expect("fits");
            for start in [begin, all.len() - 50_000, (1 << 32) - 77] {
                let window = windows
                    .read(start..start + 50_000)
                    .await
                    .expect("lies within");
                for (t, found) in (start..).zip(window.iter()) {
                    assert_eq!(*found, all.at(t), "{t}");
                    let [a, p, n] = found.map(|place| many[place as usize]);
                    assert!(a == p && a != n && found[0] != found[1]);
                }
                assert!(window.is_sorted_by(|a, b| a < b));
            }
        });
    }
}

#[test]
fn a_window_of_more_anchors_than_go_up_at_once_is_written_in_slices() {
    let anchors: Vec<u32> = (0..20_000).map(|row| row % 3).collect();
    let references = [0, 1, 1];
    let all = Triplets::apart(&anchors, &references).expect("few enough");
    let expected = loops(&anchors, &references, false);
    for engine in engines() {
        pollster::block_on(async {
            let mut windows = Windows::new(&engine, &all, 1 << 20).await.expect("fits");
            let window = windows.read(5..all.len() - 3).await.expect("lies within");
            assert!(*window == expected[5..expected.len() - 3]);
        });
    }
}

#[test]
fn what_lies_past_the_end_or_has_no_room_is_refused() {
    let labels: Vec<u32> = (0..30).map(|row| row % 3).collect();
    let all = Triplets::own(&labels).expect("few enough");
    for engine in engines() {
        pollster::block_on(async {
            let mut windows = Windows::new(&engine, &all, 1200).await.expect("fits");
            let mut refused = async |window: Range<u64>| match windows.read(window).await {
                Err(Error::Config(message)) => message,
                other => panic!("{other:?}"),
            };
            assert_eq!(
                refused(5399..5401).await,
                "the window 5399..5401 of a list of 5400 triplets: it must end at 5400 or before"
            );
            assert!(
                refused(u64::MAX - 1..u64::MAX)
                    .await
                    .contains("must end at 5400")
            );
            let message = refused(0..101).await;
            assert!(
                message.contains("101 triplets: the buffer holds 100"),
                "{message}"
            );
            let none = Windows::new(&engine, &all, 11)
                .await
                .err()
                .expect("is refused");
            assert!(none.to_string().contains("a window of 11 bytes"), "{none}");
        });
    }
}

#[test]
fn a_budget_changes_no_triplet_and_what_was_planned_is_held() {
    let (set, others) = (Set::exact(8, 300, 12), Set::exact(9, 2500, 300));
    let window_bytes = 12 * 20_001;
    let budgets = [4 << 20, 8 << 20, 256 << 20];
    let engines = [EngineKind::Cpu, EngineKind::Gpu]
        .map(|kind| (kind, budgets.map(|budget| open(kind, budget))));
    for (anchors, references) in [(&set, None), (&set, Some(&others))] {
        for name in ["semihard", "none"] {
            let miner = miner(name, 0.03125);
            for (kind, engines) in &engines {
                let mut sums = Vec::new();
                for engine in engines {
                    pollster::block_on(engine.settle()).expect("is idle");
                    engine.ledger().restart_peak();
                    let budget = engine.ledger().budget_bytes();
                    let known = references.unwrap_or(anchors);
                    let spec = ListingSpec {
                        window_bytes,
                        ..ListingSpec::of_names(&known.labels, 64, 300, &miner)
                    };
                    let plan = spec.plan(&engine.room(), &Rate::default()).expect("fits");
                    let before = engine.ledger().live_bytes();
                    let known = references.map(Set::rows);
                    let sum = checksum(
                        engine,
                        anchors.rows(),
                        known,
                        &miner,
                        Distance::Cosine,
                        window_bytes,
                    );
                    sums.push(pollster::block_on(sum).expect("fits"));
                    let peak = engine.ledger().peak_bytes() - before;
                    assert_eq!(peak, plan.memory.total_bytes(), "{kind:?} {budget}");
                }
                assert!(sums.iter().all(|sum| *sum == sums[0]), "{kind:?} {sums:?}");
                assert!(sums[0].0 > 100_000);
            }
        }
    }
}

#[test]
fn both_engines_list_the_same_and_as_many_as_are_counted() {
    let set = Set::exact(10, 300, 5);
    for (name, _) in KINDS {
        let miner = miner(name, 0.125);
        let sums = engines().map(|engine| {
            let sum = checksum(
                &engine,
                set.rows(),
                None,
                &miner,
                Distance::Cosine,
                12 * 99_999,
            );
            let sum = pollster::block_on(sum).expect("fits");
            let counts = mine(
                &engine,
                set.rows(),
                None,
                &miner,
                Distance::Cosine,
                Wanted::Counts,
                |_, _| {},
            );
            let counts = pollster::block_on(counts).expect("fits");
            assert_eq!(sum.0, counts.mining.mined, "{name}");
            sum
        });
        assert_eq!(sums[0], sums[1], "{name}");
    }
}

#[test]
fn memory_does_not_grow_with_the_number_of_triplets() {
    let window_bytes = 12 * 1000;
    let peaks = [50, 5, 2].map(|classes| {
        let labels: Vec<u32> = (0..1000).map(|row| row % classes).collect();
        let set = Set::new(exact_unit_rows(&mut rng(11), 1000), 64, &labels);
        let engine = open(EngineKind::Cpu, 256 << 20);
        let sum = checksum(
            &engine,
            set.rows(),
            None,
            &Miner::None,
            Distance::Cosine,
            window_bytes,
        );
        let (count, _) = pollster::block_on(sum).expect("fits");
        (count, engine.ledger().peak_bytes())
    });
    assert!(peaks[0].0 * 10 < peaks[2].0);
    assert!(peaks.iter().all(|(_, peak)| *peak == peaks[0].1));
}

#[test]
fn a_sink_that_fails_and_a_raised_flag_end_the_list() {
    let set = Set::exact(12, 200, 3);
    for engine in engines() {
        for name in ["all", "none"] {
            let miner = miner(name, 0.25);
            let mut windows = 0;
            let full = list(
                &engine,
                set.rows(),
                None,
                &miner,
                Distance::Cosine,
                1200,
                |_| {
                    windows += 1;
                    match windows {
                        3 => Err(Error::Data("full".to_owned())),
                        _ => Ok(()),
                    }
                },
            );
            let error = pollster::block_on(full).expect_err("is full");
            assert_eq!(error.to_string(), "full");
            assert_eq!(windows, 3);
            let (stop, mut windows) = (engine.stop_flag(), 0);
            let stopped = list(
                &engine,
                set.rows(),
                None,
                &miner,
                Distance::Cosine,
                1200,
                |_| {
                    windows += 1;
                    stop.store(true, Ordering::Relaxed);
                    Ok(())
                },
            );
            let error = pollster::block_on(stopped).expect_err("stops");
            assert!(matches!(error, Error::Stopped));
            assert_eq!(windows, 1);
            engine.stop_flag().store(false, Ordering::Relaxed);
        }
    }
}

#[test]
fn what_does_not_fit_or_match_is_refused_before_anything_runs() {
    let set = Set::exact(14, 300, 5);
    let engine = open(EngineKind::Cpu, 64 << 10);
    let refused = |anchors: Rows<'_>| {
        let miner = Miner::default();
        let none = list(
            &engine,
            anchors,
            None,
            &miner,
            Distance::Cosine,
            1200,
            |_| panic!("nothing is listed"),
        );
        pollster::block_on(none)
            .expect_err("is refused")
            .to_string()
    };
    let message = refused(set.rows());
    assert!(
        message.contains("64 KiB") && message.contains("raise the budget"),
        "{message}"
    );
    let message = refused(Rows {
        rows: &set.rows,
        labels: &set.labels[1..],
    });
    assert!(message.contains("299 labels for 300 rows"), "{message}");
}

/// A case of `golden/triplets.json`.
#[derive(serde::Deserialize)]
struct Golden {
    name: String,
    dim: usize,
    margin: f64,
    labels: Vec<u32>,
    rows: Vec<f32>,
    reference_labels: Option<Vec<u32>>,
    references: Option<Vec<f32>>,
    every: Vec<u32>,
    mined: std::collections::BTreeMap<String, Vec<u32>>,
}

#[test]
fn pml_lists_and_mines_the_same_in_the_same_order() {
    let cases: Vec<Golden> =
        serde_json::from_str(include_str!("../golden/triplets.json")).expect("is whole");
    assert_eq!(cases.len(), 5);
    let engines = engines();
    for case in cases {
        let anchors = Set::new(case.rows, case.dim, &case.labels);
        let references = case.references.zip(case.reference_labels);
        let references = references.map(|(rows, labels)| Set::new(rows, case.dim, &labels));
        let all = case
            .mined
            .into_iter()
            .chain([("none".to_owned(), case.every)]);
        for (name, expected) in all {
            let miner = miner(&name, case.margin);
            for engine in &engines {
                for window_bytes in [12 * 7, 1 << 20] {
                    let found = listed(
                        engine,
                        &anchors,
                        references.as_ref(),
                        &miner,
                        Distance::Cosine,
                        window_bytes,
                    );
                    assert!(found.as_flattened() == expected, "{}: {name}", case.name);
                }
            }
        }
    }
}

#[test]
fn facenets_negative_is_that_of_the_loop_in_three_hundred_cases() {
    let miner = Miner::FacenetSemihard(FacenetSemihardMiner::default());
    let (engines, mut rng) = (engines(), rng(15));
    for case in 0..300 {
        let (count, classes) = (rng.random_range(1..40), rng.random_range(1..6));
        let anchors = Set::exact(2 * case + 1, count, classes);
        let others = Set::exact(case, rng.random_range(1..300), classes + 1);
        let references = (case % 3 != 0).then_some(&others);
        let known = references.unwrap_or(&anchors);
        let first_id = if references.is_some() { 1 << 30 } else { 0 };
        let (tags, own_tags) = (known.tags(0), anchors.tags(first_id));
        let expected = reference::facenet_semihard(
            &reference::normalize(&anchors.values, 64),
            &own_tags,
            &reference::normalize(&known.values, 64),
            &tags,
            64,
        );
        let window_bytes = 12 * rng.random_range(1..60);
        for engine in &engines {
            let found = listed(
                engine,
                &anchors,
                references,
                &miner,
                Distance::Cosine,
                window_bytes,
            );
            assert!(found == expected, "case {case}: {count} of {classes}");
        }
    }
}

/// A case of `golden/distance_weighted.json`.
#[derive(serde::Deserialize)]
struct Weighted {
    name: String,
    dim: usize,
    arguments: serde_json::Value,
    labels: Vec<u32>,
    rows: Vec<f32>,
    reference_labels: Option<Vec<u32>>,
    references: Option<Vec<f32>>,
    weights: Vec<f64>,
}

/// The similarities of every row to all references, one row after the other.
fn similarities(rows: &[f32], references: &[f32], dim: usize) -> Vec<f32> {
    let (rows, references) = (
        reference::normalize(&to_f64(rows), dim),
        reference::normalize(&to_f64(references), dim),
    );
    let dots = rows.chunks(dim).flat_map(|row| {
        references
            .chunks(dim)
            .map(move |other| reference::dot(row, other))
    });
    dots.map(|s| s as f32).collect()
}

/// The weights of every row, each over the sum of its row.
fn weights(
    miner: &DistanceWeightedMiner,
    dim: usize,
    labels: &[u32],
    s: &[f32],
    known: &[u32],
) -> Vec<Vec<f64>> {
    let rows = || labels.iter().zip(s.chunks(known.len()));
    let largest = rows().map(|(label, s)| miner.largest(dim, *label, s, known));
    let largest = largest.fold(f64::NEG_INFINITY, f64::max);
    let row = |(label, s): (&u32, &[f32])| {
        let weights: Vec<f64> = miner.weights(dim, *label, s, known, largest).collect();
        let sum: f64 = weights.iter().sum();
        weights
            .iter()
            .map(|w| if sum > 0.0 { w / sum } else { 0.0 })
            .collect()
    };
    rows().map(row).collect()
}

#[test]
fn negatives_weigh_what_they_weigh_in_pml() {
    let cases: Vec<Weighted> =
        serde_json::from_str(include_str!("../golden/distance_weighted.json")).expect("is whole");
    assert_eq!(cases.len(), 5);
    for case in cases {
        let miner: DistanceWeightedMiner =
            serde_json::from_value(case.arguments).expect("are arguments");
        let known = case.references.as_ref().unwrap_or(&case.rows);
        let known_labels = case.reference_labels.as_ref().unwrap_or(&case.labels);
        let s = similarities(&case.rows, known, case.dim);
        let found = weights(&miner, case.dim, &case.labels, &s, known_labels).concat();
        assert_eq!(found.len(), case.weights.len());
        for (i, (found, expected)) in found.iter().zip(&case.weights).enumerate() {
            assert!(
                (found - expected).abs() < 1e-5,
                "{} {i}: {found} {expected}",
                case.name
            );
        }
    }
}

/// Chi-square statistic of the counts, standardized: its mean is 0 and its variance 1 if the counts are as expected.
fn chi_square(counts: &[u64], expected: &[f64]) -> f64 {
    let seen = counts
        .iter()
        .zip(expected)
        .filter(|(_, expected)| **expected > 0.0);
    let terms: Vec<f64> = seen
        .map(|(count, expected)| (*count as f64 - expected).powi(2) / expected)
        .collect();
    let freedom = terms.len() as f64 - 1.0;
    // The sum has this mean and twice it as its variance.
    (terms.iter().sum::<f64>() - freedom) / (2.0 * freedom).sqrt()
}

#[test]
fn negatives_are_drawn_as_often_as_they_weigh_and_positives_alike() {
    const POSITIVES: usize = 4000;
    let mut rng = rng(16);
    let dim = 4;
    // One anchor: as many draws as it has positives.
    let anchor = Set::new(crate::common::random_rows(&mut rng, 1, dim), dim, &[0]);
    let known = crate::common::random_rows(&mut rng, POSITIVES + 30, dim);
    let labels: Vec<u32> = (0..POSITIVES + 30)
        .map(|row| (row >= POSITIVES).into())
        .collect();
    let known = Set::new(known, dim, &labels);
    let (mut negatives, mut positives) = ([0u64; 30], vec![0u64; POSITIVES]);
    let mut all = Vec::new();
    for seed in 0..5 {
        let miner = DistanceWeightedMiner {
            seed,
            ..DistanceWeightedMiner::default()
        };
        let lists = engines().map(|engine| {
            let miner = Miner::DistanceWeighted(miner.clone());
            [12 * 7, 1 << 20].map(|bytes| {
                listed(
                    &engine,
                    &anchor,
                    Some(&known),
                    &miner,
                    Distance::Cosine,
                    bytes,
                )
            })
        });
        let [list, others @ ..] = lists.as_flattened() else {
            panic!("there are four");
        };
        assert!(
            others.iter().all(|other| other == list),
            "engines or windows"
        );
        assert_eq!(list.len(), POSITIVES);
        for [a, p, n] in list {
            assert_eq!(*a, 0);
            positives[*p as usize] += 1;
            negatives[*n as usize - POSITIVES] += 1;
        }
        all.push(list.clone());
    }
    assert!(all[0] != all[1], "the seed");
    let draws = 5.0 * POSITIVES as f64;
    let miner = DistanceWeightedMiner::default();
    let values = |set: &Set| set.values.iter().map(|v| *v as f32).collect::<Vec<_>>();
    let s = similarities(&values(&anchor), &values(&known), dim);
    let weights = weights(&miner, dim, &[0], &s, &labels).concat();
    let expected: Vec<f64> = weights[POSITIVES..].iter().map(|w| w * draws).collect();
    let never = negatives.iter().zip(&expected).filter(|(_, e)| **e == 0.0);
    assert!(never.map(|(count, _)| count).sum::<u64>() == 0);
    assert!(expected.iter().filter(|e| **e > 20.0).count() > 10);
    for (counts, expected) in [
        (&negatives[..], &expected[..]),
        (&positives[..], &[draws / POSITIVES as f64; POSITIVES][..]),
    ] {
        let off = chi_square(counts, expected);
        assert!(off.abs() < 4.0, "{off}");
    }
}

#[test]
fn anchors_draw_as_many_as_their_class_has_and_those_without_a_weight_none() {
    let set = Set::exact(17, 40, 3);
    let lone = Set::exact(18, 6, 1);
    let far = DistanceWeightedMiner {
        cutoff: 1.0,
        nonzero_loss_cutoff: 1.0,
        seed: 0,
    };
    for budget in [8 << 20, 256 << 20] {
        for kind in [EngineKind::Cpu, EngineKind::Gpu] {
            let engine = open(kind, budget);
            let miner = Miner::DistanceWeighted(DistanceWeightedMiner::default());
            let found = listed(&engine, &set, None, &miner, Distance::Cosine, 12 * 5);
            let mut of_anchor = [0; 40];
            for [a, p, n] in &found {
                let [a, p, n] = [a, p, n].map(|place| *place as usize);
                assert!(a != p && set.numbers[a] == set.numbers[p]);
                assert!(set.numbers[n] != set.numbers[a]);
                of_anchor[a] += 1;
            }
            for (label, drawn) in set.numbers.iter().zip(of_anchor) {
                let class = set.numbers.iter().filter(|other| *other == label).count();
                assert_eq!(drawn, class);
            }
            assert!(found.is_sorted_by_key(|[a, ..]| *a));
            assert!(listed(&engine, &lone, None, &miner, Distance::Cosine, 1200).is_empty());
            let far = Miner::DistanceWeighted(far.clone());
            assert!(listed(&engine, &set, None, &far, Distance::Cosine, 1200).is_empty());
        }
    }
}

#[test]
fn as_many_are_counted_as_are_listed() {
    let set = Set::exact(19, 60, 4);
    let miner = Miner::DistanceWeighted(DistanceWeightedMiner::default());
    for engine in engines() {
        let counts = mine(
            &engine,
            set.rows(),
            None,
            &miner,
            Distance::Cosine,
            Wanted::Counts,
            |_, _| {},
        );
        let counted = pollster::block_on(counts).expect("fits").mining;
        let list = listed(&engine, &set, None, &miner, Distance::Cosine, 1200);
        assert_eq!(counted.mined, list.len() as u64);
        assert!(counted.mined > 500 && counted.valid > counted.mined);
    }
}
