//! One anchor of a step: what miners keep of it and how strongly each reference pulls equal pytorch-metric-learning's, which
//! `tests/golden/anchors.py` recorded, and `nearfar mine`'s list; after a step the picture is that of the changed head.

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::common::engines;
use nearfar::{
    AnchorAsked, AnchorKind, AnchorReference, Dataset, Engine, Labelled, LayerWeights, ListingSpec,
    OneAnchor, RowSource, Rows, TrainConfig, Trainer, list,
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Golden {
    dim: usize,
    batch: usize,
    labels: Vec<u32>,
    rows: Vec<f32>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    sets: String,
    /// PML's triplets, or its pairs; nothing of no miner.
    kept: Vec<Vec<u32>>,
    slopes: Vec<f64>,
}

fn golden() -> Golden {
    serde_json::from_str(include_str!("../golden/anchors.json")).expect("the script wrote it")
}

/// Everything that is listed of an anchor.
fn whole(anchor: usize, positive: Option<u32>) -> AnchorAsked {
    AnchorAsked {
        anchor: Some(anchor),
        positive,
        alone: false,
        most: usize::MAX,
    }
}

impl Golden {
    /// A trainer after batches of these rows, through a head that leaves them as they are; a step changes next to nothing.
    async fn stepped(&self, engine: Engine, sets: &str, batches: &[usize]) -> Trainer {
        let dataset = Dataset::new(Labelled {
            values: self.rows.clone(),
            dim: self.dim,
            labels: self.labels.iter().map(u32::to_string).collect(),
            ..Labelled::default()
        });
        let mut config = TrainConfig {
            standardize: nearfar::Standardize::Off,
            test_fraction: 0.0,
            validation_fraction: 0.0,
            hidden_layers: Vec::new(),
            embedding_size: self.dim,
            batch_size: self.batch,
            ..TrainConfig::default()
        };
        let own = ["sampler=shuffled", "optimizer.lr=1e-30"];
        for set in own.into_iter().chain(sets.split_whitespace()) {
            config = config.with_set(set).expect("sets");
        }
        let dataset = Rc::new(dataset.expect("three classes"));
        let mut trainer = Trainer::new(engine, dataset, config).await.expect("fits");
        let eye = |i: usize| f32::from(i.is_multiple_of(self.dim + 1));
        let identity = LayerWeights {
            index: 0,
            shape: [self.dim, self.dim],
            weight: (0..self.dim * self.dim).map(eye).collect(),
            bias: vec![0.0; self.dim],
            ..LayerWeights::default()
        };
        for batch in batches {
            let first = (batch * self.batch) as u32;
            let rows: Vec<u32> = (first..first + self.batch as u32).collect();
            let weights = std::slice::from_ref(&identity);
            trainer.set_weights(weights).await.expect("takes them");
            trainer.step_on(&rows).await.expect("steps");
        }
        trainer
    }

    async fn of(&self, engine: Engine, case: &Case) -> Trainer {
        let memory = !case.sets.ends_with("memory_size=0");
        let batches: &[usize] = if memory { &[0, 1, 2] } else { &[2] };
        self.stepped(engine, &case.sets, batches).await
    }
}

impl Case {
    /// References that PML keeps with an anchor, each with its number of triplets or 1; with a positive, the negatives kept with it.
    fn expect(&self, anchor: u32, reference: &AnchorReference) -> u32 {
        let place = reference.place;
        let count = |anchors: &[u32], others: &[u32]| {
            let pairs = anchors.iter().zip(others);
            pairs.filter(|(a, o)| (**a, **o) == (anchor, place)).count() as u32
        };
        match &self.kept[..] {
            [] => 1,
            [a, p, n] if self.is_of_pairs() => (count(a, p) + count(a, n)).min(1),
            [a, p, n] => count(a, p) + count(a, n),
            [a, p, b, n] => count(a, p) + count(b, n),
            kept => panic!("{} lists", kept.len()),
        }
    }

    fn with(&self, anchor: u32, positive: u32) -> BTreeSet<u32> {
        match &self.kept[..] {
            [a, p, n] => {
                let triplets = a.iter().zip(p).zip(n);
                let own = triplets.filter(|((a, p), _)| (**a, **p) == (anchor, positive));
                own.map(|(_, n)| *n).collect()
            }
            [a, p, b, n] => {
                let is_kept = a.iter().zip(p).any(|(a, p)| (*a, *p) == (anchor, positive));
                let own = b.iter().zip(n).filter(|(b, _)| is_kept && **b == anchor);
                own.map(|(_, n)| *n).collect()
            }
            kept => panic!("{} lists", kept.len()),
        }
    }

    /// A miner of pairs, which PML's batch-hard gives as triplets.
    fn is_of_pairs(&self) -> bool {
        self.sets.contains("miner=batch-hard")
    }
}

async fn look(trainer: &mut Trainer, asked: &AnchorAsked) -> OneAnchor {
    let found = trainer.anchor(asked).await.expect("looks");
    found.expect("a step was taken")
}

/// Checks the counts and sums over all references, before and after, against a list of them all.
fn check_sums(seen: &OneAnchor) {
    for side in [0, 1] {
        let mut kinds = [[0; 2]; 3];
        let mut slopes = [0.0f32; 2];
        for other in &seen.listed {
            let stand = other.stands[side];
            slopes[usize::from(!other.positive)] += stand.slope.abs();
            if !other.positive {
                let [all, with] = &mut kinds[stand.kind as usize];
                (*all, *with) = (*all + 1, *with + usize::from(stand.with));
            }
        }
        assert_eq!(seen.kinds[side], kinds);
        for (sum, expected) in seen.slopes[side].iter().zip(slopes) {
            assert!((sum - expected).abs() <= 1e-5 * expected, "{sum}");
        }
    }
}

/// Compares a look at an anchor with the case, before and after a step that changed next to nothing.
fn compare(case: &Case, seen: &OneAnchor) {
    let anchor = seen.anchor as u32;
    let references = case.slopes.len() / 8;
    assert_eq!(seen.listed.len() + 1, references, "all but the anchor");
    check_sums(seen);
    let largest = case.slopes.iter().fold(0.0f64, |all, s| all.max(s.abs()));
    for reference in &seen.listed {
        for (side, stand) in reference.stands.iter().enumerate() {
            let what = || format!("{}, {anchor}, {side}: {reference:?}", case.sets);
            assert_eq!(stand.kept, case.expect(anchor, reference), "{}", what());
            let expected = case.slopes[seen.anchor * references + reference.place as usize];
            let off = (f64::from(stand.slope) - expected).abs();
            assert!(off <= 1e-4 * largest, "{expected}: {}", what());
        }
    }
    if let (Some(positive), false) = (seen.positive, case.kept.is_empty()) {
        let expected = case.with(anchor, seen.listed[positive].place);
        for side in [0, 1] {
            let with = seen.listed.iter().filter(|other| other.stands[side].with);
            let with: BTreeSet<u32> = with.map(|other| other.place).collect();
            assert_eq!(with, expected, "{}, {anchor}, {positive}", case.sets);
        }
    }
}

#[test]
fn what_is_kept_and_how_strongly_it_pulls_equal_pml() {
    let golden = golden();
    for (number, mut engine) in engines().into_iter().enumerate() {
        for (i, case) in golden.cases.iter().enumerate() {
            engine = pollster::block_on(async {
                let mut trainer = golden.of(engine, case).await;
                // An adapter in software is slow: two anchors of each case there.
                let anchors = (0..golden.batch).filter(|a| number > 0 || a % 4 == i % 4);
                for anchor in anchors {
                    let seen = look(&mut trainer, &whole(anchor, None)).await;
                    compare(case, &seen);
                }
                trainer.into_engine()
            });
            pollster::block_on(engine.settle()).expect("settles");
        }
    }
}

#[test]
fn the_triplets_of_each_positive_equal_pml_and_the_list_of_mine() {
    let golden = golden();
    let is_looked_at = |case: &&Case| case.sets.contains("loss=triplet-margin loss.margin=0.3");
    for mut engine in engines() {
        for case in golden.cases.iter().filter(is_looked_at) {
            if case.kept.is_empty() {
                continue;
            }
            engine = pollster::block_on(async {
                let mut trainer = golden.of(engine, case).await;
                let mut listed = BTreeSet::new();
                for anchor in 0..golden.batch {
                    let first = look(&mut trainer, &whole(anchor, None)).await;
                    let positives = first.listed.iter().filter(|other| other.positive);
                    for positive in positives.map(|other| other.place) {
                        let seen = look(&mut trainer, &whole(anchor, Some(positive))).await;
                        let chosen = seen.positive.map(|at| seen.listed[at].place);
                        assert_eq!(chosen, Some(positive));
                        compare(case, &seen);
                        let with = seen.listed.iter().filter(|other| other.stands[0].with);
                        listed.extend(with.map(|other| [anchor as u32, positive, other.place]));
                    }
                }
                if case.kept.len() == 3 && case.sets.ends_with("memory_size=0") {
                    assert_eq!(listed, golden.mined(&trainer).await, "{}", case.sets);
                }
                trainer.into_engine()
            });
            pollster::block_on(engine.settle()).expect("settles");
        }
    }
}

impl Golden {
    /// Triplets of the last batch, as `nearfar mine --out` lists them.
    async fn mined(&self, trainer: &Trainer) -> BTreeSet<[u32; 3]> {
        let first = self.labels.len() - self.batch;
        let rows = RowSource::Memory {
            values: self.rows[first * self.dim..].to_vec(),
            dim: self.dim,
        };
        let labels: Vec<String> = self.labels[first..].iter().map(u32::to_string).collect();
        let rows = Rows {
            rows: &rows,
            labels: &labels,
        };
        let mut listed = BTreeSet::new();
        let config = trainer.config();
        if config.miner.gives_pairs() {
            // Every positive that is kept makes a triplet with every negative.
            let (engine, wanted) = (trainer.engine(), nearfar::Wanted::Pairs);
            let (miner, distance) = (&config.miner, config.distance);
            let mined = nearfar::mine(engine, rows, None, miner, distance, wanted, |_, _| {});
            let pairs = mined.await.expect("mines").pairs;
            for (a, p) in pairs.a1.iter().zip(&pairs.p) {
                let own = pairs.a2.iter().zip(&pairs.n).filter(|(b, _)| *b == a);
                listed.extend(own.map(|(_, n)| [*a, *p, *n]));
            }
            return listed;
        }
        let sink = |triplets: &[[u32; 3]]| {
            listed.extend(triplets);
            Ok(())
        };
        list(
            trainer.engine(),
            rows,
            None,
            &config.miner,
            config.distance,
            ListingSpec::WINDOW_BYTES,
            sink,
        )
        .await
        .expect("lists");
        listed
    }
}

/// Sum of the kept triplets over all anchors, and the slopes of the triplet loss with a margin of 0.3 by loops over them.
async fn check_chosen(trainer: &mut Trainer, batch: usize, mined: u64) {
    let mut triplets = Vec::new();
    let mut looks = Vec::new();
    for anchor in 0..batch {
        let first = look(trainer, &whole(anchor, None)).await;
        let positives = first.listed.iter().filter(|other| other.positive);
        let positives: Vec<u32> = positives.map(|other| other.place).collect();
        let mut once = 0;
        for positive in positives {
            let seen = look(trainer, &whole(anchor, Some(positive))).await;
            let value = |place: u32| {
                let other = seen.listed.iter().find(|other| other.place == place);
                other.expect("is listed").stands[0].value
            };
            let with = seen.listed.iter().filter(|other| other.stands[0].with);
            let with: Vec<u32> = with.map(|other| other.place).collect();
            let kept = seen.listed[seen.positive.expect("chosen")].stands[0].kept;
            assert_eq!(kept > 0, !with.is_empty());
            assert!(kept as usize >= with.len());
            once += with.len() as u64;
            for n in with {
                triplets.push((anchor, positive, n, value(positive) - value(n)));
            }
        }
        looks.push((first, once));
    }
    let kept = |seen: &OneAnchor, positive: bool| -> u64 {
        let side = seen
            .listed
            .iter()
            .filter(|other| other.positive == positive);
        side.map(|other| u64::from(other.stands[0].kept)).sum()
    };
    let all: u64 = looks.iter().map(|(seen, _)| kept(seen, true)).sum();
    assert_eq!(all, mined);
    for (seen, once) in &looks {
        assert_eq!(kept(seen, true), kept(seen, false));
        // Of FaceNet's negatives no triplet comes twice, and the loss follows from them.
        if kept(seen, true) != *once {
            continue;
        }
        let active = triplets.iter().filter(|t| t.3 < 0.3).count() as f32;
        if all != triplets.len() as u64 {
            continue;
        }
        for other in &seen.listed {
            let own = triplets.iter().filter(|(a, p, n, gap)| {
                *a == seen.anchor && [*p, *n].contains(&other.place) && *gap < 0.3
            });
            let sign = if other.positive { -1.0 } else { 1.0 };
            let slope = sign * own.count() as f32 / active;
            assert!((other.stands[0].slope - slope).abs() < 1e-6, "{other:?}");
        }
    }
}

#[test]
fn miners_that_choose_one_by_one_keep_what_the_step_mined() {
    let golden = golden();
    for memory in [0, 20] {
        for miner in ["facenet-semihard", "distance-weighted"] {
            for engine in engines() {
                let sets = format!(
                    "miner={miner} loss=triplet-margin loss.margin=0.3 memory_size={memory}"
                );
                pollster::block_on(async {
                    let mut trainer = golden.stepped(engine, &sets, &[0, 1]).await;
                    let rows: Vec<u32> = (16..24).collect();
                    let report = trainer.step_on(&rows).await.expect("steps");
                    assert!(report.mining.mined > 0);
                    check_chosen(&mut trainer, golden.batch, report.mining.mined).await;
                });
            }
        }
    }
}

const MEMORY: &str = "miner=triplet-margin loss=triplet-margin loss.margin=0.3 memory_size=20";

#[test]
fn stored_rows_have_their_age_and_the_batch_alone_is_as_without_a_memory() {
    let golden = golden();
    for engine in engines() {
        pollster::block_on(async {
            let mut trainer = golden.stepped(engine, MEMORY, &[0, 1, 2]).await;
            let seen = look(&mut trainer, &whole(3, None)).await;
            assert_eq!((seen.step, seen.alone), (3, false));
            let same = (4..24).filter(|row| golden.labels[*row] == golden.labels[19]);
            let same = same.count();
            assert_eq!(seen.references, [same - 1, 20 - same]);
            assert_eq!(seen.batch, (16..24).collect::<Vec<u32>>());
            let mut ages: Vec<(u32, u32)> = seen
                .listed
                .iter()
                .map(|other| (other.row, other.age.expect("is stored")))
                .collect();
            ages.sort_unstable();
            // The queue began anew: of the first batch the last four rows are left.
            let expected = (4..24).filter(|row| *row != 19);
            assert!(
                ages.iter()
                    .copied()
                    .eq(expected.map(|row| (row, 2 - row / 8)))
            );
            let alone = AnchorAsked {
                alone: true,
                ..whole(3, None)
            };
            let alone = look(&mut trainer, &alone).await;
            let engine = trainer.into_engine();
            engine.settle().await.expect("settles");
            let without = MEMORY.replace("memory_size=20", "memory_size=0");
            let mut trainer = golden.stepped(engine, &without, &[2]).await;
            let mut plain = look(&mut trainer, &whole(3, None)).await;
            plain.step = 3;
            assert_eq!(alone, plain);
        });
    }
}

#[test]
fn after_a_step_the_rows_stand_where_the_next_step_finds_them() {
    let golden = golden();
    for engine in engines() {
        pollster::block_on(async {
            let sets = "miner=triplet-margin loss=triplet-margin optimizer.lr=0.01 memory_size=0";
            let mut trainer = golden.stepped(engine, sets, &[2]).await;
            let first = look(&mut trainer, &whole(1, None)).await;
            let rows: Vec<u32> = (16..24).collect();
            trainer.step_on(&rows).await.expect("steps");
            let second = look(&mut trainer, &whole(1, None)).await;
            let values = |seen: &OneAnchor, side: usize| {
                let listed = seen.listed.iter();
                let mut values: Vec<(u32, f32)> = listed
                    .map(|other| (other.row, other.stands[side].value))
                    .collect();
                values.sort_by_key(|(row, _)| *row);
                values
            };
            let (after, next) = (values(&first, 1), values(&second, 0));
            for ((row, after), (_, next)) in after.iter().zip(&next) {
                assert!((after - next).abs() < 1e-6, "{row}: {after} and {next}");
            }
            assert_ne!(values(&first, 0), after, "the step moved them");
        });
    }
}

#[test]
fn a_list_that_is_cut_keeps_the_heaviest_triplet_and_kinds_follow_the_band() {
    let golden = golden();
    for engine in engines() {
        pollster::block_on(async {
            let sets = MEMORY.replace("triplet-margin ", "triplet-margin miner.margin=0.4 ");
            let mut trainer = golden.stepped(engine, &sets, &[0, 1, 2]).await;
            for anchor in 0..golden.batch {
                let all = look(&mut trainer, &whole(anchor, None)).await;
                let few = AnchorAsked {
                    most: 5,
                    ..whole(anchor, None)
                };
                let few = look(&mut trainer, &few).await;
                assert_eq!((few.listed.len(), few.references), (5, all.references));
                assert_eq!((few.kept, all.margins[1]), (all.kept, Some(0.3)));
                let places: BTreeSet<u32> = few.listed.iter().map(|other| other.place).collect();
                assert_eq!(places.len(), 5, "none comes twice");
                assert_eq!((few.kinds, few.slopes), (all.kinds, all.slopes));
                let Some((positive, negative)) = all.positive.zip(all.negative[0]) else {
                    continue;
                };
                let marked = |seen: &OneAnchor| {
                    let at = [seen.positive, seen.negative[0]];
                    at.map(|at| seen.listed[at.expect("is listed")].place)
                };
                assert_eq!(marked(&few), marked(&all));
                let stands = |at: usize| all.listed[at].stands[0];
                // The heaviest pair, and of equals the largest violation.
                let heavier = |other: &AnchorReference| {
                    other.positive && other.stands[0].slope < stands(positive).slope
                };
                assert!(!all.listed.iter().any(heavier));
                assert!(stands(negative).with);
                for other in all.listed.iter().filter(|other| !other.positive) {
                    let (s_ap, s_an) = (stands(positive).value, other.stands[0].value);
                    let kind = match s_ap - s_an {
                        gap if gap > all.margins[0].expect("a band") => AnchorKind::Easy,
                        gap if gap > 0.0 => AnchorKind::Semihard,
                        _ => AnchorKind::Hard,
                    };
                    assert_eq!(other.stands[0].kind, kind);
                    assert_eq!(other.stands[0].with, kind == AnchorKind::Semihard);
                }
            }
        });
    }
}

#[test]
fn an_anchor_that_is_not_named_is_the_first_of_which_a_negative_is_kept() {
    let golden = golden();
    // A band so narrow that most anchors have nothing in it.
    let narrow = MEMORY.replace("triplet-margin ", "triplet-margin miner.margin=0.02 ");
    let others = ["miner=pair-margin loss=lifted-structure memory_size=0"];
    for sets in [narrow.as_str()].into_iter().chain(others) {
        for engine in engines() {
            pollster::block_on(async {
                let mut trainer = golden.stepped(engine, sets, &[0, 1, 2]).await;
                let mut expected = None;
                for anchor in (0..golden.batch).rev() {
                    let seen = look(&mut trainer, &whole(anchor, None)).await;
                    expected = Some(seen).filter(|seen| seen.kept[0][1] > 0).or(expected);
                }
                let asked = AnchorAsked {
                    anchor: None,
                    ..whole(0, None)
                };
                let found = look(&mut trainer, &asked).await;
                assert_eq!(found, expected.expect("one keeps a negative"), "{sets}");
            });
        }
    }
}

#[test]
fn a_look_takes_its_plan_and_gives_it_back() {
    let golden = golden();
    let others = ["miner=pair-margin loss=lifted-structure memory_size=0"];
    for sets in [MEMORY].into_iter().chain(others) {
        for engine in engines() {
            pollster::block_on(async {
                let mut trainer = golden.stepped(engine, sets, &[0]).await;
                trainer.engine().settle().await.expect("settles");
                let live = trainer.engine().ledger().live_bytes();
                trainer.engine().ledger().restart_peak();
                let planned = trainer.plan_anchor(false).expect("plans");
                let asked = AnchorAsked {
                    anchor: None,
                    ..whole(0, None)
                };
                look(&mut trainer, &asked).await;
                trainer.engine().settle().await.expect("settles");
                let ledger = trainer.engine().ledger();
                assert_eq!(ledger.peak_bytes() - live, planned);
                assert_eq!(ledger.live_bytes(), live);
            });
        }
    }
}

#[test]
fn what_cannot_be_shown_is_refused_in_a_sentence() {
    let golden = golden();
    let [_, engine] = engines();
    pollster::block_on(async {
        let mut trainer = golden.stepped(engine, MEMORY, &[]).await;
        assert_eq!(trainer.anchor(&whole(0, None)).await.expect("none"), None);
        let engine = trainer.into_engine();
        engine.settle().await.expect("settles");
        let mut trainer = golden.stepped(engine, MEMORY, &[0]).await;
        let refused = trainer.anchor(&whole(8, None)).await.expect_err("refused");
        assert_eq!(
            refused.to_string(),
            "anchor 8 was asked for, and the batch has 8 rows: ask for 0 to 7"
        );
        let engine = trainer.into_engine();
        engine.settle().await.expect("settles");
        let mut trainer = golden.stepped(engine, "loss=arc-face", &[0]).await;
        let refused = trainer.anchor(&whole(0, None)).await.expect_err("refused");
        assert!(refused.to_string().contains("compares rows with proxies"));
    });
}
