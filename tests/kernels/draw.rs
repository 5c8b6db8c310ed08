use nearfar::kernels::draw::{Drawing, Draws, count, draw};
use nearfar::kernels::ranks::{Block, Inputs, NO_ID};
use nearfar::kernels::select::Selection;
use nearfar::kernels::similarities::width;
use nearfar::{Distance, DistanceWeightedMiner, Engine, reference};

use super::common::{engines, labels, output, random_rows, read, rng, to_f64};
use super::select::{Case, DISTANCES, Selected};

/// Anchors and references on a sphere of few dimensions, the other columns zero: distances of all lengths.
fn spread(seed: u64, rows: usize, m: usize, classes: u32, dim: usize) -> Case {
    let mut rng = rng(seed);
    let raw = random_rows(&mut rng, m, dim.next_multiple_of(4));
    let mut references = vec![0.0; m * 64];
    let of_a_row = dim.next_multiple_of(4);
    for (row, raw) in references.chunks_mut(64).zip(raw.chunks(of_a_row)) {
        let unit = reference::normalize(&to_f64(&raw[..dim]), dim);
        for (value, unit) in row.iter_mut().zip(unit) {
            *value = unit as f32;
        }
    }
    let tags: Vec<[u32; 2]> = labels(&mut rng, m, classes)
        .into_iter()
        .zip(5 * m as u32..)
        .map(|(label, id)| [label, id])
        .collect();
    Case {
        anchors: references[(m - rows) * 64..].to_vec(),
        anchor_tags: tags[m - rows..].to_vec(),
        references,
        tags,
    }
}

/// The case with anchors that are no references.
fn apart(mut case: Case) -> Case {
    for tag in &mut case.anchor_tags {
        tag[1] = NO_ID;
    }
    case.tags.truncate(case.tags.len() - case.anchor_tags.len());
    case.references.truncate(case.tags.len() * 64);
    case
}

fn draws(case: &Case, distance: Distance, dim: usize, key: [u32; 2]) -> Draws {
    let rows = case.rows();
    let positives = rows[1..].iter().map(|row| row.positives as usize).max();
    Draws {
        drawing: Drawing {
            cutoff: 0.5,
            nonzero_loss_cutoff: 1.4,
            seed: 0x1234_5678_9abc,
        },
        distance,
        dim,
        key,
        anchor: 0,
        places: positives.unwrap_or(0) + 2,
    }
}

/// Draws of an engine: the list of each row, and the values that they were drawn by.
struct Drawn {
    lists: Vec<Vec<[usize; 2]>>,
    values: Vec<f32>,
    times: Vec<u32>,
}

/// Draws for rows `first..first + rows` of the case; checks that the buffer of sums is cleared afterwards.
fn drawn(engine: &Engine, case: &Case, draws: &Draws, first: usize, rows: usize) -> Drawn {
    let part = Case {
        anchors: case.anchors[first * 64..][..rows * 64].to_vec(),
        anchor_tags: case.anchor_tags[first..][..rows].to_vec(),
        references: case.references.clone(),
        tags: case.tags.clone(),
    };
    let block: Block = part.block();
    let width = width(block.references);
    let Selected {
        anchors,
        references,
        batch,
        tags,
        mut kept,
        ..
    } = part.selected(engine, &Selection::all(draws.distance));
    let inputs = Inputs {
        anchors: &anchors,
        references: (&references).into(),
        batch: &batch,
        tags: &tags,
    };
    let draws = Draws {
        anchor: first,
        ..*draws
    };
    let mut list = output::<[u32; 2]>(engine, rows * draws.places);
    let mut times = output::<u32>(engine, rows * width);
    let mut commands = engine.commands();
    draw(&mut commands, &block, &draws, inputs, &mut kept, &mut list);
    count(&mut commands, &block, &draws, &list, &mut times);
    engine.submit(commands);
    let sums = read(engine, &kept.weights, rows * width);
    assert!(sums.iter().all(|sum| *sum == 0.0), "sums are left");
    let values = read(engine, &kept.values, rows * width);
    let times = read(engine, &times, rows * width);
    let of_rows = |all: &[f32]| -> Vec<f32> {
        let rows = all.chunks(width).map(|row| &row[..block.references]);
        rows.flatten().copied().collect()
    };
    let times = times.chunks(width).map(|row| &row[..block.references]);
    let list = read(engine, &list, rows * draws.places);
    let lists = list.chunks(draws.places).map(|list| {
        let own = &list[1..][..list[0][0] as usize];
        own.iter().map(|t| t.map(|place| place as usize)).collect()
    });
    Drawn {
        lists: lists.collect(),
        values: of_rows(&values),
        times: times.flatten().copied().collect(),
    }
}

/// Number of draws, and of those that differ from draws by f64 weights of the engine's own similarities.
fn differences(case: &Case, draws: &Draws, found: &Drawn) -> (usize, usize) {
    let values = to_f64(&found.values);
    let rows = case.anchor_tags.iter().zip(values.chunks(case.tags.len()));
    let (mut all, mut wrong) = (0, 0);
    for (anchor, ((tag, values), list)) in rows.zip(&found.lists).enumerate() {
        let expected = reference::draw(draws, anchor, *tag, &case.tags, values);
        all += expected.len().max(list.len());
        wrong += expected.len().abs_diff(list.len());
        wrong += expected.iter().zip(list).filter(|(a, b)| a != b).count();
    }
    (all, wrong)
}

#[test]
fn draws_are_those_by_weights_of_f64_but_for_one_in_ten_thousand_at_most() {
    let cases = [
        (spread(1, 1, 1, 1, 8), 8),
        (spread(2, 3, 3, 2, 8), 8),
        (spread(3, 40, 255, 3, 8), 8),
        (spread(4, 40, 257, 4, 3), 3),
        (apart(spread(5, 40, 700, 5, 16)), 16),
        (spread(6, 30, 2300, 2, 8), 8),
        (spread(7, 30, 2300, 3, 64), 64),
        (spread(8, 9, 40, 30, 2), 2),
    ];
    for engine in engines() {
        for distance in DISTANCES {
            let (mut all, mut wrong) = (0, 0);
            for (case, dim) in &cases {
                let draws = draws(case, distance, *dim, [7, 11]);
                let found = drawn(&engine, case, &draws, 0, case.anchor_tags.len());
                let (own, off) = differences(case, &draws, &found);
                (all, wrong) = (all + own, wrong + off);
                let of_rows = found.times.chunks(case.tags.len());
                for ((list, tag), times) in found.lists.iter().zip(&case.anchor_tags).zip(of_rows) {
                    assert_eq!(times, reference::times(list, case.tags.len()));
                    for [p, n] in list {
                        assert!(case.tags[*p][0] == tag[0] && case.tags[*p][1] != tag[1]);
                        assert!(case.tags[*n][0] != tag[0]);
                    }
                }
            }
            let on = &engine.info().engine;
            println!("{on} {distance:?}: {wrong} of {all} differ");
            assert!(
                all > 60_000 && wrong * 10_000 <= 2 * all,
                "{wrong} of {all}"
            );
        }
    }
}

#[test]
fn planted_faults_are_told_from_the_draws() {
    let case = spread(9, 40, 600, 4, 8);
    for engine in engines() {
        let right = draws(&case, Distance::Cosine, 8, [3, 5]);
        let wrong = |fault: Draws| {
            let found = drawn(&engine, &case, &fault, 0, 40);
            let (all, wrong) = differences(&case, &right, &found);
            wrong as f64 / all as f64
        };
        assert!(wrong(right) < 1e-3);
        let drawing = |change: fn(&mut Drawing)| {
            let mut fault = right;
            change(&mut fault.drawing);
            fault
        };
        for (what, fault) in [
            ("another dimension", Draws { dim: 9, ..right }),
            ("another cutoff", drawing(|drawing| drawing.cutoff = 0.55)),
            (
                "another second cutoff",
                drawing(|drawing| drawing.nonzero_loss_cutoff = 1.38),
            ),
            ("another seed", drawing(|drawing| drawing.seed += 1)),
            (
                "another step",
                Draws {
                    key: [3, 6],
                    ..right
                },
            ),
        ] {
            let found = wrong(fault);
            assert!(found > 0.004, "{what}: {found}");
        }
    }
}

#[test]
fn how_anchors_are_cut_into_blocks_changes_no_draw() {
    let case = spread(10, 12, 300, 3, 8);
    for engine in engines() {
        let draws = draws(&case, Distance::Cosine, 8, [1, 2]);
        let whole = drawn(&engine, &case, &draws, 0, 12).lists;
        for cut in [1, 5] {
            let mut parts = Vec::new();
            for first in (0..12).step_by(cut) {
                let rows = cut.min(12 - first);
                parts.extend(drawn(&engine, &case, &draws, first, rows).lists);
            }
            assert_eq!(parts, whole);
        }
        let next = Draws {
            key: [1, 3],
            ..draws
        };
        assert_ne!(drawn(&engine, &case, &next, 0, 12).lists, whole);
        assert_ne!(whole[0], whole[1]);
    }
}

#[test]
fn anchors_without_a_positive_or_without_a_negative_that_weighs_draw_none() {
    // The second anchor has no positive; of the others' negatives none is below the second cutoff.
    let mut case = spread(11, 3, 20, 1, 8);
    case.tags[18][0] = 1;
    case.anchor_tags[1][0] = 1;
    for engine in engines() {
        let near = draws(&case, Distance::Cosine, 8, [1, 2]);
        let lengths = |draws: &Draws| -> Vec<usize> {
            let found = drawn(&engine, &case, draws, 0, 3);
            assert_eq!(differences(&case, draws, &found).1, 0);
            found.lists.iter().map(Vec::len).collect()
        };
        let mut wide = near;
        wide.drawing.nonzero_loss_cutoff = 2.0;
        assert_eq!(lengths(&wide), [19, 0, 19]);
        let mut none = near;
        (none.drawing.cutoff, none.drawing.nonzero_loss_cutoff) = (1.0, 1.0);
        assert_eq!(lengths(&none), [0, 0, 0]);
    }
}

/// Chi-square statistic of the counts, standardized: its mean is 0 and its variance 1 if the counts are as expected.
fn chi_square(counts: &[u64], expected: &[f64]) -> f64 {
    let seen = counts.iter().zip(expected).filter(|(_, e)| **e > 0.0);
    let terms: Vec<f64> = seen
        .map(|(count, expected)| (*count as f64 - expected).powi(2) / expected)
        .collect();
    let freedom = terms.len() as f64 - 1.0;
    (terms.iter().sum::<f64>() - freedom) / (2.0 * freedom).sqrt()
}

/// 160,000 draws for one anchor: 40 steps, and as many in each as its class has references.
#[test]
fn negatives_are_drawn_as_often_as_they_weigh_in_f64_and_positives_alike() {
    const CLASS: usize = 4000;
    const OTHERS: usize = 120;
    let mut case = spread(12, 1, CLASS + OTHERS, 1, 8);
    for tag in &mut case.tags[..OTHERS] {
        tag[0] = 1;
    }
    let miner = DistanceWeightedMiner::default();
    for engine in engines() {
        let mut counts = vec![0u64; case.tags.len()];
        let mut values = Vec::new();
        for step in 0..40 {
            let draws = draws(&case, Distance::Cosine, 8, [step, 0]);
            let found = drawn(&engine, &case, &draws, 0, 1);
            for place in found.lists[0].as_flattened() {
                counts[*place] += 1;
            }
            values = found.values;
        }
        let known: Vec<u32> = case.tags.iter().map(|[label, _]| *label).collect();
        let largest = miner.largest(8, 0, &values, &known);
        let weights: Vec<f64> = miner.weights(8, 0, &values, &known, largest).collect();
        let sum: f64 = weights.iter().sum();
        let all = 40.0 * CLASS as f64;
        let expected: Vec<f64> = weights.iter().map(|w| w / sum * all).collect();
        let never = counts.iter().zip(&expected).take(OTHERS);
        assert!(never.into_iter().all(|(c, e)| *e > 0.0 || *c == 0));
        assert!(expected[..OTHERS].iter().filter(|e| **e > 100.0).count() > 20);
        let positives = vec![all / (CLASS - 1) as f64; CLASS - 1];
        for (what, counts, expected) in [
            ("negatives", &counts[..OTHERS], &expected[..OTHERS]),
            ("positives", &counts[OTHERS..][..CLASS - 1], &positives[..]),
        ] {
            let off = chi_square(counts, expected);
            println!("{} {what}: {off:.2}", engine.info().engine);
            assert!(off.abs() < 4.0, "{what}: {off}");
        }
        // Weights that are off by two parts of a hundred would not pass.
        let tilted: Vec<f64> = (0..OTHERS)
            .map(|i| expected[i] * if i % 2 == 0 { 1.02 } else { 0.98 })
            .collect();
        let scale = all / tilted.iter().sum::<f64>();
        let tilted: Vec<f64> = tilted.iter().map(|e| e * scale).collect();
        assert!(chi_square(&counts[..OTHERS], &tilted) > 4.0);
    }
}
