//! The mining phase against the loops, in f64, and against its own plan.

use crate::common::{assert_close, engines, exact_unit_rows, open, random_rows, rng, to_f64};
use nearfar::kernels::triplet_margin::{Kind, Rule};
use nearfar::{
    Distance, Engine, EngineKind, ListingSpec, Loss, Mined, Miner, MiningMethod, MiningSpec, Pairs,
    Rate, RowSource, Rows, TrainConfig, TripletMarginLoss, Wanted, list, mine, reference,
};
use rand::RngExt as _;

const KINDS: [(&str, Kind); 5] = [
    ("all", Kind::All),
    ("easy", Kind::Easy),
    ("semihard", Kind::Semihard),
    ("hard", Kind::Hard),
    ("none", Kind::Unmined),
];

/// Rows of any length with a label each.
struct Set {
    rows: RowSource,
    values: Vec<f64>,
    labels: Vec<String>,
    dim: usize,
}

impl Set {
    fn new(values: Vec<f32>, dim: usize, labels: impl Iterator<Item = u32>) -> Self {
        Self {
            values: to_f64(&values),
            labels: labels.map(|label| label.to_string()).collect(),
            rows: RowSource::Memory { values, dim },
            dim,
        }
    }

    fn rows(&self) -> Rows<'_> {
        Rows {
            rows: &self.rows,
            labels: &self.labels,
        }
    }

    fn tags(&self, first_id: u32) -> Vec<[u32; 2]> {
        let labels = self
            .labels
            .iter()
            .map(|label| label.parse().expect("a number"));
        labels
            .zip(first_id..)
            .map(|(label, id)| [label, id])
            .collect()
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

fn run(
    engine: &Engine,
    anchors: &Set,
    references: Option<&Set>,
    miner: &Miner,
    distance: Distance,
    loss: &Loss,
) -> Mined {
    let references = references.map(Set::rows);
    pollster::block_on(mine(
        engine,
        anchors.rows(),
        references,
        miner,
        distance,
        Wanted::Gradient(loss),
        |_, _| {},
    ))
    .expect("fits")
}

/// Counts, loss, and its gradient with respect to rows of any length, by loops.
fn expected(anchors: &Set, references: Option<&Set>, rule: &Rule) -> (reference::Mining, Vec<f64>) {
    let dim = anchors.dim;
    let known = references.unwrap_or(anchors);
    let (unit, unit_known) = (
        reference::normalize(&anchors.values, dim),
        reference::normalize(&known.values, dim),
    );
    let first_id = if references.is_some() { 1 << 30 } else { 0 };
    let found = reference::triplet_margin(
        &unit,
        &anchors.tags(first_id),
        &unit_known,
        &known.tags(0),
        dim,
        rule,
    );
    let mut gradient = found.anchor_gradient.clone();
    if references.is_none() {
        for (gradient, share) in gradient.iter_mut().zip(&found.reference_gradient) {
            *gradient += share;
        }
    }
    for (i, gradient) in gradient.chunks_mut(dim).enumerate() {
        let row = &anchors.values[i * dim..][..dim];
        let (unit, length) = (&unit[i * dim..][..dim], reference::dot(row, row).sqrt());
        let along = reference::dot(gradient, unit);
        for (gradient, unit) in gradient.iter_mut().zip(unit) {
            *gradient = (*gradient - unit * along) / length;
        }
    }
    (found, gradient)
}

fn compare(mined: &Mined, expected: &(reference::Mining, Vec<f64>), what: &str) {
    let (found, gradient) = expected;
    let counts = &mined.mining;
    assert_eq!(
        [
            counts.valid,
            counts.easy,
            counts.semihard,
            counts.hard,
            counts.mined,
            counts.active
        ],
        [
            found.valid,
            found.easy,
            found.semihard,
            found.hard,
            found.mined,
            found.active
        ],
        "{what}"
    );
    assert!(
        (mined.loss - found.loss).abs() < 1e-5,
        "{what}: {} {}",
        mined.loss,
        found.loss
    );
    assert_close(what, &mined.gradient, gradient, 1e-5);
}

#[test]
fn counts_loss_and_gradient_are_those_of_the_loops_on_data_full_of_ties() {
    let mut rng = rng(31);
    let mut set = |count: usize, classes: u32| {
        let values = exact_unit_rows(&mut rng, count);
        let labels: Vec<u32> = (0..count).map(|_| rng.random_range(0..classes)).collect();
        Set::new(values, 64, labels.into_iter())
    };
    // Classes that only one side has, and one that holds everything.
    let cases = [
        (set(70, 5), Some(set(300, 4))),
        (set(90, 7), None),
        (set(20, 1), None),
    ];
    for engine in engines() {
        for (anchors, references) in &cases {
            for (name, kind) in KINDS {
                // Multiples of 1/32 are met exactly: both bounds are on the data.
                let (miner, margin) = (miner(name, 0.25), 0.125);
                for distance in [Distance::Cosine, Distance::L2] {
                    let rule = Rule {
                        distance,
                        kind,
                        miner_margin: if name == "none" { 0.0 } else { 0.25 },
                        loss_margin: margin,
                    };
                    let loss = Loss::TripletMargin(TripletMarginLoss {
                        margin: 0.125,
                        ..TripletMarginLoss::default()
                    });
                    let references = references.as_ref();
                    let mined = run(&engine, anchors, references, &miner, distance, &loss);
                    compare(&mined, &expected(anchors, references, &rule), name);
                }
            }
        }
    }
}

#[test]
fn a_budget_changes_no_byte_and_what_was_planned_is_held() {
    let mut rng = rng(32);
    let (count, dim) = (500, 30);
    let values: Vec<f32> = random_rows(&mut rng, count, 32)
        .chunks(32)
        .flat_map(|row| {
            row[..dim]
                .iter()
                .map(|value| 3.0 * value)
                .collect::<Vec<_>>()
        })
        .collect();
    let set = Set::new(values, dim, (0..count as u32).map(|i| i % 9));
    let others = Set::new(
        random_rows(&mut rng, 3000, dim),
        32,
        (0..3000).map(|i| i % 7),
    );
    let anchors = Set::new(random_rows(&mut rng, 200, dim), 32, (0..200).map(|i| i % 8));
    let (miner, loss) = (miner("semihard", 0.2), Loss::default());
    let cases = [
        (&set, None, Distance::Cosine),
        (&set, None, Distance::L2),
        (&anchors, Some(&others), Distance::Cosine),
        (&anchors, Some(&others), Distance::L2),
    ];
    let budgets = [3 << 20, 4 << 20, 64 << 20];
    let engines = [EngineKind::Cpu, EngineKind::Gpu]
        .map(|kind| (kind, budgets.map(|budget| open(kind, budget))));
    for (anchors, references, distance) in cases {
        let rule = Rule {
            distance,
            kind: Kind::Semihard,
            miner_margin: 0.2,
            loss_margin: 0.2,
        };
        let expected = expected(anchors, references, &rule);
        for (kind, engines) in &engines {
            let mut outcomes: Vec<Mined> = Vec::new();
            for engine in engines {
                pollster::block_on(engine.settle()).expect("is idle");
                engine.ledger().restart_peak();
                let budget = engine.ledger().budget_bytes();
                let known = references.unwrap_or(anchors);
                let spec = MiningSpec {
                    own: references.is_none(),
                    gradient: true,
                    ..MiningSpec::of_names(&known.labels, anchors.dim, anchors.labels.len())
                };
                let plan = spec.plan(&engine.room(), &Rate::default()).expect("fits");
                let before = engine.ledger().live_bytes();
                outcomes.push(run(engine, anchors, references, &miner, distance, &loss));
                let peak = engine.ledger().peak_bytes() - before;
                assert_eq!(peak, plan.memory.total_bytes(), "{kind:?} {budget}");
            }
            for mined in &outcomes {
                assert!(
                    *mined == outcomes[0],
                    "{kind:?}: the budget changes the outcome"
                );
            }
            let mined = &outcomes[0];
            assert!((mined.loss - expected.0.loss).abs() < 1e-5);
            assert_close("the gradient", &mined.gradient, &expected.1, 1e-5);
        }
    }
}

/// A miner and a loss by their settings.
fn settings(sets: &[&str]) -> TrainConfig {
    let set = |config: TrainConfig, set: &&str| config.with_set(set).expect("sets");
    sets.iter().fold(TrainConfig::default(), set)
}

#[test]
fn by_rows_a_budget_changes_no_byte_and_the_plan_names_the_path() {
    let mut rng = rng(34);
    let dim = 28;
    let mut set = |count: usize, classes: u32| {
        let values = random_rows(&mut rng, count, dim);
        Set::new(values, dim, (0..count as u32).map(|i| i % classes))
    };
    let (anchors, known) = (set(150, 8), set(700, 7));
    let engines_of = [(EngineKind::Cpu, 1 << 20), (EngineKind::Gpu, 3 << 20)]
        .map(|(kind, least)| (kind, [least, 64 << 20].map(|budget| open(kind, budget))));
    for sets in [
        &["miner.name=batch-hard"][..],
        &["miner.name=batch-easy-hard", "miner.neg_strategy=all"],
        &["miner.name=multi-similarity", "loss.smooth_loss=true"],
        &["miner.name=facenet-semihard"],
        &["miner.name=facenet-semihard", "loss.smooth_loss=true"],
        &["loss.swap=true"],
        &["loss.name=contrastive"],
        &[
            "loss.name=margin",
            "miner.name=none",
            "distance=l2",
            "loss.beta=1.1",
        ],
        &["loss.name=nt-xent", "miner.name=none"],
        &["loss.name=circle", "miner.name=multi-similarity"],
        &[
            "loss.swap=true",
            "distance=l2",
            "miner.type_of_triplets=all",
        ],
    ] {
        let config = settings(sets);
        for references in [None, Some(&known)] {
            let mut engines: Vec<Mined> = Vec::new();
            for (kind, budgets) in &engines_of {
                let mut outcomes: Vec<Mined> = Vec::new();
                let mut blocks = Vec::new();
                for engine in budgets {
                    pollster::block_on(engine.settle()).expect("is idle");
                    engine.ledger().restart_peak();
                    let budget = engine.ledger().budget_bytes();
                    let from = references.unwrap_or(&anchors);
                    let spec = MiningSpec {
                        own: references.is_none(),
                        gradient: true,
                        ..MiningSpec::of_names(&from.labels, dim, anchors.labels.len())
                    }
                    .mined_by(&config.miner, Some(&config.loss));
                    let plan = spec.plan(&engine.room(), &Rate::default()).expect("fits");
                    assert_eq!(plan.path, Some(MiningMethod::Rows), "{sets:?}");
                    blocks.push(plan.block_queries);
                    let before = engine.ledger().live_bytes();
                    let mined = run(
                        engine,
                        &anchors,
                        references,
                        &config.miner,
                        config.distance,
                        &config.loss,
                    );
                    outcomes.push(mined);
                    let peak = engine.ledger().peak_bytes() - before;
                    assert_eq!(peak, plan.memory.total_bytes(), "{kind:?} {budget}");
                }
                assert!(outcomes[0] == outcomes[1], "{kind:?} {sets:?}");
                // Anchors that are each other's references go eight at a time.
                assert!(references.is_none() || blocks[0] < blocks[1], "{blocks:?}");
                engines.push(outcomes.swap_remove(0));
            }
            let (cpu, gpu) = (&engines[0], &engines[1]);
            assert_eq!(cpu.mining, gpu.mining, "{sets:?}");
            assert!(cpu.mining.active > 0 && (cpu.loss - gpu.loss).abs() < 1e-5);
            assert_close("gradient", &cpu.gradient, &to_f64(&gpu.gradient), 1e-5);
        }
    }
}

/// Draws may differ between engines if similarities differ in their last bits: each engine is checked by itself.
#[test]
fn by_drawn_triplets_a_budget_changes_no_byte_and_both_engines_come_near_each_other() {
    let mut rng = rng(37);
    let dim = 12;
    let mut set = |count: usize, classes: u32| {
        let values = random_rows(&mut rng, count, dim);
        Set::new(values, dim, (0..count as u32).map(|i| i % classes))
    };
    let (anchors, known) = (set(150, 8), set(1300, 7));
    for sets in [
        &["loss.margin=0.3"][..],
        &["loss.smooth_loss=true", "distance=l2"],
        &["loss.name=margin"],
        &["loss.name=sup-con"],
    ] {
        let config = settings(&[&["miner.name=distance-weighted"], sets].concat());
        for references in [None, Some(&known)] {
            let mut losses = Vec::new();
            for (kind, least) in [(EngineKind::Cpu, 1 << 20), (EngineKind::Gpu, 3 << 20)] {
                let mut outcomes: Vec<Mined> = Vec::new();
                for budget in [least, 64 << 20] {
                    let engine = open(kind, budget);
                    let from = references.unwrap_or(&anchors);
                    let spec = MiningSpec {
                        own: references.is_none(),
                        gradient: true,
                        ..MiningSpec::of_names(&from.labels, dim, anchors.labels.len())
                    }
                    .mined_by(&config.miner, Some(&config.loss));
                    let plan = spec.plan(&engine.room(), &Rate::default()).expect("fits");
                    let before = engine.ledger().live_bytes();
                    let (miner, distance) = (&config.miner, config.distance);
                    let mined = run(&engine, &anchors, references, miner, distance, &config.loss);
                    outcomes.push(mined);
                    let peak = engine.ledger().peak_bytes() - before;
                    assert_eq!(peak, plan.memory.total_bytes(), "{kind:?} {budget}");
                }
                assert!(outcomes[0] == outcomes[1], "{kind:?} {sets:?}");
                assert!(outcomes[0].mining.active > 500, "{:?}", outcomes[0].mining);
                losses.push(outcomes[0].loss);
            }
            assert!((losses[0] - losses[1]).abs() < 1e-3, "{sets:?}: {losses:?}");
        }
    }
}

#[test]
fn what_facenets_miner_counts_and_costs_is_what_it_lists() {
    let mut rng = rng(35);
    let mut set = |count: usize, classes: u32| {
        let values = exact_unit_rows(&mut rng, count);
        let labels: Vec<u32> = (0..count).map(|_| rng.random_range(0..classes)).collect();
        Set::new(values, 64, labels.into_iter())
    };
    let cases = [
        (set(70, 5), Some(set(300, 4))),
        (set(90, 7), None),
        (set(20, 1), None),
    ];
    for engine in engines() {
        for (anchors, references) in &cases {
            let known = references.as_ref().unwrap_or(anchors);
            for (distance, smooth) in [
                ("cosine", "false"),
                ("cosine", "true"),
                ("l2", "false"),
                ("l2", "true"),
            ] {
                let sets = [
                    "miner.name=facenet-semihard",
                    "loss.margin=0.125",
                    &format!("distance={distance}"),
                    &format!("loss.smooth_loss={smooth}"),
                ];
                let config = settings(&sets);
                let (miner, distance) = (&config.miner, config.distance);
                let references = references.as_ref();
                let mined = run(&engine, anchors, references, miner, distance, &config.loss);
                let mut triplets = Vec::new();
                let sink = |window: &[[u32; 3]]| {
                    triplets.extend_from_slice(window);
                    Ok(())
                };
                let listing = list(
                    &engine,
                    anchors.rows(),
                    references.map(Set::rows),
                    miner,
                    distance,
                    ListingSpec::WINDOW_BYTES,
                    sink,
                );
                pollster::block_on(listing).expect("fits");
                let row = |set: &'_ Set, i: u32| set.values[i as usize * 64..][..64].to_vec();
                let value = |a: u32, i: u32| {
                    let s = reference::dot(&row(anchors, a), &row(known, i));
                    reference::value(distance, s)
                };
                let costs = triplets.iter().map(|[a, p, n]| {
                    let x = 0.125 - (value(*a, *p) - value(*a, *n));
                    if smooth == "true" {
                        x.exp().ln_1p()
                    } else {
                        x.max(0.0)
                    }
                });
                let active: Vec<f64> = costs.filter(|cost| *cost > 0.0).collect();
                let loss = active.iter().sum::<f64>() / active.len().max(1) as f64;
                let counts = mined.mining;
                assert_eq!(counts.mined, triplets.len() as u64, "{sets:?}");
                assert_eq!(counts.active, active.len() as u64, "{sets:?}");
                assert!((mined.loss - loss).abs() < 1e-5, "{sets:?}: {}", mined.loss);
            }
        }
    }
}

#[test]
fn facenets_miner_gives_no_pairs_and_takes_no_swap() {
    let engine = open(EngineKind::Cpu, 64 << 20);
    let set = Set::new(
        exact_unit_rows(&mut rng(36), 30),
        64,
        (0..30).map(|i| i % 3),
    );
    let config = settings(&["miner.name=facenet-semihard", "loss.swap=true"]);
    let mined = |wanted| {
        let (miner, distance) = (&config.miner, config.distance);
        pollster::block_on(mine(
            &engine,
            set.rows(),
            None,
            miner,
            distance,
            wanted,
            |_, _| {},
        ))
    };
    let counted = mined(Wanted::Pairs).expect("fits");
    assert_eq!(
        (counted.mining.mined, counted.pairs),
        (270, Pairs::default())
    );
    for wanted in [Wanted::Loss(&config.loss), Wanted::Gradient(&config.loss)] {
        let refused = mined(wanted).expect_err("is refused").to_string();
        assert!(refused.starts_with("loss.swap is true"), "{refused}");
    }
}

#[test]
fn more_than_rows_can_look_at_is_refused_with_the_numbers() {
    let room = open(EngineKind::Cpu, 256 << 20).room();
    let plan = |references: usize, dim: usize, sets: &[&str]| {
        let config = settings(sets);
        let spec = MiningSpec {
            references,
            ..MiningSpec::of_names(&["a".to_owned()], dim, 1)
        };
        let spec = spec.mined_by(&config.miner, Some(&config.loss));
        let refused = spec.plan(&room, &Rate::default()).expect_err("is refused");
        refused.to_string()
    };
    let many = plan((1 << 20) + 1, 4, &["miner.name=batch-hard"]);
    assert!(
        many.contains("1048576") && many.contains("1048577"),
        "{many}"
    );
    let drawn = MiningSpec {
        positives: 16_384,
        references: 20_000,
        ..MiningSpec::of_names(&["a".to_owned()], 4, 1)
    };
    let config = settings(&["miner.name=distance-weighted"]);
    let drawn = drawn.mined_by(&config.miner, Some(&config.loss));
    let drawn = drawn.plan(&room, &Rate::default()).expect_err("is refused");
    let drawn = drawn.to_string();
    assert!(
        drawn.contains("draws 16384 triplets of an anchor at most") && drawn.contains("16385"),
        "{drawn}"
    );
    let wide = plan(10, 4096, &["loss.swap=true"]);
    assert!(
        wide.contains("2048 columns") && wide.contains("4096"),
        "{wide}"
    );
}

/// 1,000 x 31,623 x 31,623: PML would read all of these triplets, and list a quarter.
#[test]
fn a_million_million_are_counted_within_64_mib_of_scratch() {
    const LEVELS: usize = 65;
    let mut rng = rng(33);
    let mut set = |count: usize| {
        let values = exact_unit_rows(&mut rng, count);
        let labels: Vec<u32> = (0..count).map(|_| rng.random_range(0..2)).collect();
        Set::new(values, 64, labels.into_iter())
    };
    // Of the second each anchor alone has more triplets than an i32 counts.
    for (anchors, references) in [(1000, 31_623), (100, 92_682)] {
        count_triplets(&set(anchors), &set(references), LEVELS);
    }
}

/// Counts the triplets of exact rows, and compares with a count by similarity.
fn count_triplets(anchors: &Set, references: &Set, levels: usize) {
    let engine = open(EngineKind::Cpu, 256 << 20);
    let mined = pollster::block_on(mine(
        &engine,
        anchors.rows(),
        Some(references.rows()),
        &miner("semihard", 0.25),
        Distance::Cosine,
        Wanted::Counts,
        |_, _| {},
    ))
    .expect("fits");
    let bank = references.labels.len() as u64 * (4 * 64 + 8);
    assert!(engine.ledger().peak_bytes() <= bank + 16 + (64 << 20));

    // Similarities are multiples of 1/32: how many references of each class stand at each.
    let signs = |set: &Set| -> Vec<u64> {
        let bits = |row: &[f64]| {
            row.iter()
                .fold(0, |bits, v| bits << 1 | u64::from(*v > 0.0))
        };
        set.values.chunks(64).map(bits).collect()
    };
    let (mut easy, mut semihard, mut hard) = (0u64, 0u64, 0u64);
    let known = signs(references);
    for (anchor, label) in signs(anchors).iter().zip(&anchors.labels) {
        let mut at = [vec![0u64; levels], vec![0u64; levels]];
        for (reference, other) in known.iter().zip(&references.labels) {
            let same = 64 - (anchor ^ reference).count_ones() as usize;
            at[usize::from(label == other)][same] += 1;
        }
        for (p, positives) in at[1].iter().enumerate() {
            for (n, negatives) in at[0].iter().enumerate() {
                let kind = match p.cast_signed() - n.cast_signed() {
                    ..=0 => &mut hard,
                    1..=8 => &mut semihard,
                    _ => &mut easy,
                };
                *kind += positives * negatives;
            }
        }
    }
    let counts = mined.mining;
    assert_eq!(
        [counts.easy, counts.semihard, counts.hard],
        [easy, semihard, hard]
    );
    assert_eq!(
        (counts.valid, counts.mined),
        (easy + semihard + hard, semihard)
    );
    assert!(counts.valid > 1 << 37);
}

#[test]
fn what_does_not_fit_or_match_is_refused_before_anything_runs() {
    let engine = open(EngineKind::Cpu, 64 << 10);
    let set = Set::new(exact_unit_rows(&mut rng(1), 300), 64, 0..300);
    let mined = |anchors: Rows<'_>| {
        let result = pollster::block_on(mine(
            &engine,
            anchors,
            None,
            &Miner::default(),
            Distance::Cosine,
            Wanted::Counts,
            |_, _| {},
        ));
        result.expect_err("is refused").to_string()
    };
    let refused = mined(set.rows());
    assert!(
        refused.contains("64 KiB") && refused.contains("raise the budget"),
        "{refused}"
    );
    let short = mined(Rows {
        rows: &set.rows,
        labels: &set.labels[1..],
    });
    assert!(short.contains("299 labels for 300 rows"), "{short}");
}
