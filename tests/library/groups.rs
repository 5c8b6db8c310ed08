//! Rows of one group (a donor, a camera, a document) are no neighbours of each other: scores across groups equal those of a double
//! loop, a split by group keeps groups whole, and both predict the scores of rows of new groups.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::{engines, exact_unit_rows, labels, open, rng, tied_unit_rows};
use nearfar::{
    Dataset, Embedder, Engine, EngineKind, Labelled, Metrics, Progress, Retrieval, RowSource, Rows,
    Run, RunReport, Side, Sides, Split, Survey, ThresholdConfig, TrainConfig, evaluate,
    evaluate_across, find_threshold_across, search_across,
};
use rand::RngExt as _;

/// Rows with a class and a group each.
#[derive(Clone)]
struct Grouped {
    values: Vec<f32>,
    dim: usize,
    labels: Vec<String>,
    groups: Vec<String>,
}

fn texts(numbers: &[u32]) -> Vec<String> {
    numbers.iter().map(u32::to_string).collect()
}

impl Grouped {
    fn drawn(values: Vec<f32>, classes: u32, groups: u32, seed: u64) -> Self {
        let (dim, mut rng) = (64, rng(seed));
        let rows = values.len() / dim;
        Self {
            values,
            dim,
            labels: texts(&labels(&mut rng, rows, classes)),
            groups: texts(&labels(&mut rng, rows, groups)),
        }
    }

    fn source(&self) -> RowSource {
        RowSource::Memory {
            values: self.values.clone(),
            dim: self.dim,
        }
    }

    fn row(&self, row: usize) -> &[f32] {
        &self.values[row * self.dim..][..self.dim]
    }

    /// Ranks of the positives of each query that has one: by similarity, then by row; rows of its own group are left out.
    fn ranks(&self, references: &Self) -> Vec<Vec<u64>> {
        let mut all = Vec::new();
        for query in 0..self.labels.len() {
            let others = (0..references.labels.len())
                .filter(|other| references.groups[*other] != self.groups[query]);
            let mut others: Vec<(f64, usize)> = others
                .map(|other| {
                    let pairs = self.row(query).iter().zip(references.row(other));
                    let s: f64 = pairs.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
                    (s, other)
                })
                .collect();
            others.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            let ranks = (1..).zip(&others).filter_map(|(rank, (_, other))| {
                (references.labels[*other] == self.labels[query]).then_some(rank)
            });
            let ranks: Vec<u64> = ranks.collect();
            if !ranks.is_empty() {
                all.push(ranks);
            }
        }
        all
    }

    fn score(&self, references: Option<&Self>, engine: &Engine) -> nearfar::Result<Retrieval> {
        let (own, known) = (self.source(), references.map(Self::source));
        let rows = Rows {
            rows: &own,
            labels: &self.labels,
        };
        let known = known.as_ref().zip(references).map(|(known, references)| {
            let rows = Rows {
                rows: known,
                labels: &references.labels,
            };
            (rows, &references.groups[..])
        });
        let found = evaluate_across(engine, rows, &self.groups, known, &[1, 5], |_, _| {});
        pollster::block_on(found)
    }
}

/// Precision@1, MAP@R and MAP of these ranks.
fn means(ranks: &[Vec<u64>]) -> [f64; 3] {
    let mut sums = [0.0; 3];
    for ranks in ranks {
        let r = ranks.len() as f64;
        sums[0] += f64::from(u8::from(ranks[0] == 1));
        for (hits, rank) in (1u32..).zip(ranks) {
            let precision = f64::from(hits) / *rank as f64;
            sums[1] += if *rank <= ranks.len() as u64 {
                precision / r
            } else {
                0.0
            };
            sums[2] += precision / r;
        }
    }
    sums.map(|sum| sum / ranks.len() as f64)
}

fn assert_means(what: &str, found: &Metrics, ranks: &[Vec<u64>]) {
    let actual = [
        found.precision_at_1,
        found.mean_average_precision_at_r,
        found.mean_average_precision,
    ];
    for (actual, expected) in actual.into_iter().zip(means(ranks)) {
        assert!(
            (actual - expected).abs() < 1e-9,
            "{what}: {actual}, expected {expected}"
        );
    }
    assert_eq!(found.queries, ranks.len() as u64, "{what}");
}

#[test]
fn scores_across_groups_equal_a_double_loop_with_ties_and_where_rows_stream() {
    let mut engines = engines().to_vec();
    // A budget so small that references are streamed a few at a time, and positives in parts.
    let little = [(EngineKind::Gpu, 2480 << 10), (EngineKind::Cpu, 100 << 10)];
    engines.extend(little.map(|(kind, budget)| open(kind, budget)));
    for (rows, classes, groups) in [(40, 3, 2), (300, 2, 7), (600, 5, 90), (500, 40, 3)] {
        for tied in [false, true] {
            let values = match tied {
                true => tied_unit_rows(&mut rng(3), rows),
                false => exact_unit_rows(&mut rng(4), rows),
            };
            let all = Grouped::drawn(values, classes, groups, 5);
            let others = Grouped::drawn(exact_unit_rows(&mut rng(6), 200), classes, groups, 7);
            let (own, apart) = (all.ranks(&all), all.ranks(&others));
            for engine in &engines {
                let what = format!("{rows} rows, tied: {tied}, {}", engine.info().engine);
                let found = all.score(None, engine).expect("scores");
                assert_means(&what, &found.metrics, &own);
                let lone = (rows - own.len()) as u64;
                assert_eq!(found.metrics.lone_queries, lone, "{what}");
                let found = all.score(Some(&others), engine).expect("scores");
                assert_means(&what, &found.metrics, &apart);
            }
        }
    }
}

#[test]
fn groups_of_one_row_change_nothing_and_one_group_alone_is_refused() {
    let mut all = Grouped::drawn(exact_unit_rows(&mut rng(1), 200), 4, 2, 2);
    all.groups = (0..200).map(|row| row.to_string()).collect();
    let source = all.source();
    let rows = Rows {
        rows: &source,
        labels: &all.labels,
    };
    for engine in engines() {
        let plain = evaluate(&engine, rows, None, &[1, 5], |_, _| {});
        let plain = pollster::block_on(plain).expect("scores");
        let found = all.score(None, &engine).expect("scores");
        assert_eq!(found.recall_at, plain.recall_at);
        assert_eq!(found.over_classes, plain.over_classes);
        // The standard error is that of rows that are both queries and references.
        let errors = [found, plain].map(|found| found.metrics.standard_error);
        assert!((errors[0] / errors[1] - (2.0 * 200.0 / 199f64).sqrt()).abs() < 1e-9);
    }
    all.groups = vec!["one".to_owned(); 200];
    let [_, engine] = engines();
    let error = all.score(None, &engine).expect_err("refused").to_string();
    assert_eq!(
        error,
        "all rows are of the group \"one\": across groups no row has a neighbour"
    );
    all.groups.pop();
    let error = all.score(None, &engine).expect_err("refused").to_string();
    assert_eq!(error, "199 groups for 200 rows: there must be one a row");
}

#[test]
fn a_class_in_one_group_only_has_lone_queries() {
    let mut all = Grouped::drawn(exact_unit_rows(&mut rng(1), 90), 3, 4, 2);
    for row in 0..all.labels.len() {
        if all.labels[row] == "1" {
            all.groups[row] = "0".to_owned();
        }
    }
    let lone = all.labels.iter().filter(|label| *label == "1").count();
    for engine in engines() {
        let found = all.score(None, &engine).expect("scores");
        assert_eq!(found.metrics.lone_queries, lone as u64);
        assert_eq!(found.metrics.queries, 90 - lone as u64);
    }
}

#[test]
fn the_nearest_rows_of_other_groups_equal_a_double_loop() {
    let all = Grouped::drawn(exact_unit_rows(&mut rng(1), 120), 3, 7, 2);
    let others = Grouped::drawn(tied_unit_rows(&mut rng(3), 90), 3, 7, 4);
    for (references, k) in [(None, 5), (Some(&others), 9)] {
        let known = references.unwrap_or(&all);
        let (own, source) = (all.source(), known.source());
        for engine in engines() {
            let apart = references.map(|known| (&source, &known.groups[..]));
            let found = search_across(&engine, (&own, &all.groups), apart, k, |_, _| {});
            let found = pollster::block_on(found).expect("finds");
            for query in 0..120 {
                let others =
                    (0..known.labels.len()).filter(|at| known.groups[*at] != all.groups[query]);
                let mut others: Vec<(f64, usize)> = others
                    .map(|at| {
                        let pairs = all.row(query).iter().zip(known.row(at));
                        (pairs.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum(), at)
                    })
                    .collect();
                others.sort_by(|a: &(f64, usize), b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
                let ids: Vec<u32> = others[..k].iter().map(|(_, at)| *at as u32).collect();
                assert_eq!(
                    found.ids[query * k..][..k],
                    ids,
                    "{}, row {query}",
                    engine.info().engine
                );
            }
        }
    }
    let (own, [_, engine]) = (all.source(), engines());
    let few = search_across(&engine, (&own, &all.groups), None, 115, |_, _| {});
    let refused = pollster::block_on(few).expect_err("refused").to_string();
    assert!(
        refused.starts_with("k is 115: outside of the group \"0\" there are "),
        "{refused}"
    );
}

#[test]
fn pairs_within_a_group_are_not_counted_for_a_threshold() {
    let all = Grouped::drawn(exact_unit_rows(&mut rng(1), 150), 4, 6, 2);
    let source = all.source();
    let rows = Rows {
        rows: &source,
        labels: &all.labels,
    };
    let config = ThresholdConfig {
        false_match_rate: Some(0.1),
        ..ThresholdConfig::default()
    };
    for (queries, engine) in [0, 40].into_iter().flat_map(|q| engines().map(|e| (q, e))) {
        let config = ThresholdConfig { queries, ..config };
        let side = (rows, &all.groups[..]);
        let found = find_threshold_across(&engine, side, Some(side), &config);
        let report = pollster::block_on(found).expect("finds").report;
        if queries == 0 {
            let mut pairs = [0; 2];
            for i in 0..150 {
                for j in 0..i {
                    let same = all.labels[i] == all.labels[j];
                    let apart = all.groups[i] != all.groups[j];
                    pairs[usize::from(same)] += u64::from(apart);
                }
            }
            assert_eq!([report.fit.different_pairs, report.fit.same_pairs], pairs);
        }
        let tested = report.test.expect("was tested");
        assert_eq!(tested.same_pairs, report.fit.same_pairs);
        let [low, high] = tested.false_match_interval.expect("six groups");
        assert!((low..high).contains(&tested.false_match_rate), "{tested:?}");
    }
}

/// Cells of some kinds from some donors: the effect of a donor on each kind is larger than the difference between kinds.
struct World {
    kinds: usize,
    dim: usize,
    rng: crate::common::Rng,
    middles: Vec<Vec<f64>>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut world = Self {
            kinds: 4,
            dim: 8,
            rng: rng(seed),
            middles: Vec::new(),
        };
        world.middles = (0..world.kinds).map(|_| world.point(1.5)).collect();
        world
    }

    /// Approximately normal numbers: sums of twelve uniform ones.
    fn point(&mut self, spread: f64) -> Vec<f64> {
        let rng = &mut self.rng;
        let mut value = || (0..12).map(|_| rng.random_range(-0.5..0.5)).sum::<f64>() * spread;
        (0..self.dim).map(|_| value()).collect()
    }

    fn donors(&mut self, donors: usize, of_a_kind: usize) -> Labelled {
        let mut rows = Vec::new();
        for donor in 0..donors {
            let shift = self.point(1.5);
            for kind in 0..self.kinds {
                let own = self.point(1.2);
                for _ in 0..of_a_kind {
                    let noise = self.point(0.4);
                    let value = |i: usize| self.middles[kind][i] + shift[i] + own[i] + noise[i];
                    let values: Vec<f32> = (0..self.dim).map(|i| value(i) as f32).collect();
                    rows.push((kind, donor, values));
                }
            }
        }
        let text = |prefix: &str, numbers: Vec<usize>| -> Vec<String> {
            numbers
                .iter()
                .map(|number| format!("{prefix}{number}"))
                .collect()
        };
        let kinds = text("kind", rows.iter().map(|(kind, ..)| *kind).collect());
        let donors = text("donor", rows.iter().map(|(_, donor, _)| *donor).collect());
        Labelled {
            values: rows.into_iter().flat_map(|(.., values)| values).collect(),
            dim: self.dim,
            labels: kinds.iter().collect(),
            columns: vec![("donor".to_owned(), donors.iter().collect())],
            ..Labelled::default()
        }
    }
}

fn run(rows: Labelled, sets: &[&str]) -> (Run, RunReport) {
    let dataset = Dataset::new(rows).expect("two kinds");
    let start = dataset.default_config();
    let sets = sets
        .iter()
        .chain(&["steps=60", "evaluate_every=60", "hidden_layers=[32]"]);
    let config = sets.fold(start, |config, set| config.with_set(set).expect("sets"));
    let engine = open(EngineKind::Cpu, 256 << 20);
    pollster::block_on(async {
        let mut run = Run::new(engine, dataset.into(), config)
            .await
            .expect("starts");
        while run.next(u64::MAX).await.expect("runs") != Progress::Finished {}
        let report = run.report();
        (run, report)
    })
}

fn test_score(report: &RunReport) -> Metrics {
    report
        .r#final
        .and_then(|scores| scores.test)
        .expect("was tested")
}

/// A split that leaves a donor's rows on both sides overestimates by 0.2 and more; whole donors and scores across them predict the
/// scores for new donors, and the interval covers them.
#[test]
fn rows_of_new_donors_score_what_a_run_by_donor_says() {
    const SEEDS: u64 = 50;
    let (mut flattered, mut off, mut covered) = (0.0, 0.0, 0);
    for seed in 0..SEEDS {
        let mut world = World::new(seed);
        let rows = world.donors(24, 6);
        let set = format!("seed={seed}");
        let (_, random) = run(rows.clone(), &[&set]);
        let (mut by_donor, report) = run(rows, &[&set, "group=donor"]);
        let scored = test_score(&report);
        let layers = pollster::block_on(by_donor.trainer().head()).expect("reads");
        // New donors, as many at once as were tested.
        let tested = report.data.test / (world.kinds * 6);
        let mut truth = Vec::new();
        for _ in 0..8 {
            let fresh = world.donors(tested, 6);
            let engine = open(EngineKind::Cpu, 256 << 20);
            let embedder = Embedder::new(engine.clone(), &layers);
            let mut embedder = pollster::block_on(embedder).expect("fits");
            let embedded = pollster::block_on(embedder.embed(&fresh.values)).expect("embeds");
            let fresh = Grouped {
                values: embedded.values,
                dim: embedded.dim,
                labels: fresh.labels.iter().map(str::to_owned).collect(),
                groups: fresh.columns[0].1.iter().map(str::to_owned).collect(),
            };
            truth.push(
                fresh
                    .score(None, &engine)
                    .expect("scores")
                    .metrics
                    .precision_at_1,
            );
        }
        let truth = truth.iter().sum::<f64>() / truth.len() as f64;
        let [low, high] = scored.interval.expect("several donors");
        covered += u64::from((low..=high).contains(&truth));
        flattered += test_score(&random).precision_at_1 - truth;
        off += scored.precision_at_1 - truth;
        let own = report.r#final.and_then(|scores| scores.test_own_group);
        assert!(own.expect("was scored").precision_at_1 > scored.precision_at_1);
    }
    let seeds = SEEDS as f64;
    println!(
        "flattered by {:.3}, off by {:.3}, {covered} of {SEEDS} covered",
        flattered / seeds,
        off / seeds
    );
    assert!(
        flattered / seeds >= 0.2,
        "flattered by {}",
        flattered / seeds
    );
    assert!((off / seeds).abs() < 0.05, "off by {}", off / seeds);
    assert!(10 * covered >= 9 * SEEDS, "covered {covered} of {SEEDS}");
}

#[test]
fn a_split_by_group_keeps_groups_whole_and_classes_about_even() {
    for (groups, seed) in [(3, 0), (4, 0), (5, 1), (12, 2), (60, 3), (60, 4)] {
        let mut world = World::new(seed);
        let dataset = Dataset::new(world.donors(groups, 5)).expect("two kinds");
        let config = TrainConfig {
            seed,
            ..TrainConfig::default()
        };
        let config = config.with_set("group=donor").expect("sets");
        let sides = Sides::new(&dataset, &config).expect("splits");
        let donors = &dataset.columns[0].1;
        let of = |side| -> BTreeSet<&str> {
            sides
                .of(side)
                .iter()
                .map(|row| &donors[*row as usize])
                .collect()
        };
        let [train, validation, test] = [Side::Train, Side::Validation, Side::Test].map(of);
        assert_eq!(
            train.len() + validation.len() + test.len(),
            groups,
            "none is on two sides"
        );
        assert!(
            test.len() >= 2 && (groups == 3 || !validation.is_empty()),
            "{test:?}"
        );
        if groups == 60 {
            assert_eq!((test.len(), validation.len()), (12, 10));
        }
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        for label in dataset.labels_of(sides.of(Side::Test)) {
            *counts.entry(label).or_default() += 1;
        }
        assert_eq!(counts.len(), 4, "each class is tested");
    }
}

/// The default batch is no larger than the training side, for any seed of the groups.
#[test]
fn what_trains_by_group_holds_a_batch() {
    for seed in 0..20 {
        let dataset = Dataset::new(World::new(seed).donors(8, 7)).expect("two kinds");
        let given = TrainConfig {
            seed,
            ..TrainConfig::default()
        };
        let given = given.with_set("group=donor").expect("sets");
        let start = dataset.default_config_for(&given.splitting());
        assert_eq!((&start.split, &start.group), (&Split::Random, &None));
        let config = TrainConfig { seed, ..start };
        let config = config.with_set("group=donor").expect("sets");
        let rows = Sides::new(&dataset, &config).expect("splits").train.len();
        assert!(config.batch_size <= rows, "{} of {rows}", config.batch_size);
    }
    // Data that cannot be split by group has the usual sizes.
    let dataset = Dataset::new(World::new(0).donors(8, 7)).expect("two kinds");
    let other = dataset.default_config_for(&["group=nobody".to_owned()]);
    assert_eq!(other, dataset.default_config());
}

#[test]
fn a_group_is_set_beside_its_split_in_any_order() {
    let config = |sets: &[&str]| {
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        let (config, problems) = TrainConfig::default().with_sets(&sets);
        assert!(problems.is_empty(), "{problems:?}");
        String::from(config.split)
    };
    assert_eq!(config(&["group=donor"]), "by-group");
    assert_eq!(config(&["split=random", "group=donor"]), "random");
    assert_eq!(config(&["group=donor", "split=by-class"]), "by-class");
    assert_eq!(config(&["group=2024"]), "by-group");
    assert_eq!(config(&["group=null"]), "random");
    let json = |json: &str| TrainConfig::default().with_json(json).expect("reads").split;
    assert_eq!(String::from(json("{\"group\": \"donor\"}")), "by-group");
    let both = json("{\"split\": \"stratified\", \"group\": \"donor\"}");
    assert_eq!(String::from(both), "stratified");
    // A link that leaves out default values means the same.
    let random = TrainConfig {
        group: Some("donor".to_owned()),
        ..TrainConfig::default()
    };
    let sets = random.differences(&TrainConfig::default());
    let sets: Vec<String> = sets
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    assert_eq!(TrainConfig::default().with_sets(&sets).0, random);
}

/// Noise with labels that are independent of it, and slightly changed copies of rows: only the copies can be learned.
#[test]
fn the_test_is_scored_without_copies_of_training_rows_too() {
    const DIM: usize = 24;
    let mut rng = rng(3);
    let mut number = || rng.random_range(-1.0..1.0_f32);
    let mut values: Vec<f32> = (0..400 * DIM).map(|_| number()).collect();
    let label = |row: usize| ["a", "b", "c", "d"][row * 7 % 11 % 4];
    let mut labels: Vec<&str> = (0..400).map(label).collect();
    for row in 0..200 {
        let copy: Vec<f32> = (0..DIM)
            .map(|at| values[row * DIM + at] + 0.002 * number())
            .collect();
        values.extend(copy);
        labels.push(label(row));
    }
    let scored = |rows: usize| {
        let dataset = Dataset::new(Labelled {
            name: "copies".to_owned(),
            values: values[..rows * DIM].to_vec(),
            dim: DIM,
            labels: labels[..rows].iter().collect(),
            ..Labelled::default()
        });
        let dataset = dataset.expect("classes");
        let config = dataset
            .default_config()
            .with_set("steps=300")
            .expect("sets");
        pollster::block_on(async {
            let survey = Survey::of_data(&dataset.features, |_| ())
                .await
                .expect("is read");
            let sides = Sides::new(&dataset, &config).expect("splits");
            let copies = survey.copies(&sides);
            let tested = sides.test.iter().filter(|row| copies.contains(row)).count();
            let engine = open(EngineKind::Cpu, 256 << 20);
            let mut run = Run::new(engine, dataset.into(), config)
                .await
                .expect("starts");
            run.see_survey(&survey);
            while run.next(u64::MAX).await.expect("runs") != Progress::Finished {}
            (run.report().r#final.expect("is over"), tested as u64)
        })
    };
    let (scores, tested) = scored(600);
    let (all, without) = (
        scores.test.expect("tested"),
        scores.test_without_copies.expect("copies"),
    );
    assert!(tested > 30, "{tested} copies are tested");
    assert_eq!(without.queries, all.queries - tested);
    assert!(
        all.precision_at_1 > without.precision_at_1 + 0.1,
        "{} and {}",
        all.precision_at_1,
        without.precision_at_1
    );
    assert_eq!(scored(400).0.test_without_copies, None);
}
