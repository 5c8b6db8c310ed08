use nearfar::kernels::ranks::{Inputs, SEGMENT};
use nearfar::kernels::select::{Keep, Selection, Side};
use nearfar::kernels::similarities::width;
use nearfar::kernels::triplet_loss::{
    Weighing, count, drawn_loss, swapped_loss, triplet_loss, window,
};
use nearfar::kernels::triplet_margin::{Kind, Rule, TERMS, Total};
use nearfar::{Distance, Engine, reference};
use rand::RngExt as _;

use super::common::{assert_close, engines, output, read, rng, to_f64, vector};
use super::select::{Case, DISTANCES};

const KINDS: [Kind; 5] = [
    Kind::All,
    Kind::Easy,
    Kind::Semihard,
    Kind::Hard,
    Kind::Unmined,
];

const COUNTED: [Total; 4] = [Total::Within, Total::Hard, Total::Mined, Total::Active];

fn between(case: &Case) -> impl Fn(usize, usize) -> f64 {
    let references = to_f64(&case.references);
    move |p, n| reference::dot(&references[p * 64..][..64], &references[n * 64..][..64])
}

/// Compares with a loop over every triplet; similarities must be exact in f32.
fn compare(engine: &Engine, case: &Case, selection: &Selection, weighing: &Weighing) {
    let what = format!("{selection:?} {weighing:?} on {}", engine.info().engine);
    let block = case.block();
    let width = width(block.references);
    let mut selected = case.selected(engine, selection);
    let mut terms = output(engine, block.rows * block.references.div_ceil(SEGMENT));
    let mut commands = engine.commands();
    triplet_loss(
        &mut commands,
        &block,
        weighing,
        (&selected.references).into(),
        &mut selected.kept,
        &mut terms,
        3,
        &mut selected.report,
    );
    engine.submit(commands);
    let weights = read(engine, &selected.kept.weights, block.rows * width);
    let report = read(engine, &selected.report, 3 + TERMS + block.rows);
    let (mut counts, mut between_references) = ([0; 4], vec![0.0; block.references * width]);
    for (row, kept) in case.expected(selection).iter().enumerate() {
        let values = case.values(row, selection.distance);
        let expected = reference::weigh(weighing, &values, kept, between(case));
        for (count, more) in counts.iter_mut().zip(expected.counts) {
            *count += more;
        }
        let loss = f32::from_bits(report[3 + TERMS + row]);
        // Losses and weights are sums of a few thousand terms near 1 at most, each rounded to 6e-8.
        assert_close(&what, &[loss], &[expected.loss], 3e-6);
        let weights = &weights[row * width..][..block.references];
        assert_close(&what, weights, &expected.weights, 3e-6);
        if !weighing.smooth && !weighing.swap && weighing.rule.distance == Distance::Cosine {
            assert_eq!(to_f64(weights), expected.weights, "whole numbers: {what}");
        }
        for (p, n, weight) in expected.swapped {
            between_references[p * width + n] += weight;
        }
    }
    let found = COUNTED.map(|total| total.read(&report[3..]));
    assert_eq!(found, counts, "{what}");
    if weighing.swap {
        compare_swapped(engine, case, weighing, selected, &between_references, &what);
    }
}

/// Compares the gradient that swap adds to the similarities of the references, as many references at a time as the block has rows.
fn compare_swapped(
    engine: &Engine,
    case: &Case,
    weighing: &Weighing,
    mut selected: super::select::Selected,
    expected: &[f64],
    what: &str,
) {
    let block = case.block();
    let width = width(block.references);
    for first in (0..block.references).step_by(block.rows) {
        let rows = block.rows.min(block.references - first);
        let mut commands = engine.commands();
        let inputs = Inputs {
            anchors: &selected.anchors,
            references: (&selected.references).into(),
            batch: &selected.batch,
            tags: &selected.tags,
        };
        let kept = &mut selected.kept;
        swapped_loss(&mut commands, &block, weighing, first, rows, inputs, kept);
        engine.submit(commands);
        let weights = read(engine, &kept.weights, rows * width);
        assert_close(
            what,
            &weights,
            &expected[first * width..][..rows * width],
            3e-6,
        );
    }
}

fn weighings(distance: Distance) -> Vec<Weighing> {
    let mut all = Vec::new();
    for kind in KINDS {
        for (swap, one_negative, smooth) in [
            (false, false, false),
            (true, false, false),
            (false, false, true),
            (true, false, true),
            (false, true, false),
            (false, true, true),
        ] {
            // Similarities are multiples of 1/32: margins on one, and between two.
            for (miner_margin, loss_margin) in [(0.25, 0.25), (0.125, 0.3), (-0.0625, 0.0)] {
                all.push(Weighing {
                    rule: Rule {
                        distance,
                        kind,
                        miner_margin,
                        loss_margin,
                    },
                    swap,
                    one_negative,
                    smooth,
                });
            }
        }
    }
    all
}

fn close(distance: Distance) -> Selection {
    let side = Side {
        keep: Keep::Close,
        ..Side::ALL
    };
    Selection {
        positives: side,
        negatives: side,
        epsilon: 0.0625,
        ..Selection::all(distance)
    }
}

#[test]
fn counts_losses_and_weights_equal_the_loops_on_data_full_of_ties() {
    for engine in engines() {
        for (seed, (rows, m, classes)) in [(1, 1, 1), (2, 3, 2), (7, 40, 3)].into_iter().enumerate()
        {
            for distance in DISTANCES {
                for weighing in weighings(distance) {
                    let memory = Case::memory(seed as u64, rows, m, classes);
                    compare(&engine, &memory, &Selection::all(distance), &weighing);
                    let apart = Case::apart(seed as u64, rows, m, classes);
                    compare(&engine, &apart, &close(distance), &weighing);
                }
            }
        }
    }
}

#[test]
fn rows_of_several_segments_are_added_up() {
    for engine in engines() {
        for distance in DISTANCES {
            let case = Case::memory(5, 3, 700, 2);
            for weighing in weighings(distance).iter().step_by(5) {
                compare(&engine, &case, &Selection::all(distance), weighing);
            }
        }
    }
}

#[test]
fn one_negative_is_chosen_among_several_windows() {
    let window = window(64, false);
    let mut case = Case::memory(8, 1, 2 * window + 300, 2);
    let [label, id] = case.anchor_tags[0];
    let positives = [5, window + 9];
    for (place, tag) in case.tags.iter_mut().enumerate() {
        let positive = positives.contains(&place) || tag[1] == id;
        tag[0] = if positive { label } else { label + 1 };
    }
    // Rows that differ from the anchor in so many signs: of equals the first, whatever window it stands in.
    let signs = |case: &mut Case, place: usize, flipped: usize| {
        for column in 0..64 {
            let sign = if column < flipped { -1.0 } else { 1.0 };
            case.references[place * 64 + column] = sign * case.anchors[column];
        }
    };
    for (place, flipped) in [
        (positives[0], 8),
        (positives[1], 0),
        (7, 0),
        (window - 1, 10),
        (2 * window + 30, 9),
        (2 * window + 31, 9),
        (window + 40, 2),
        (window + 41, 64),
        (2 * window + 41, 64),
    ] {
        signs(&mut case, place, flipped);
    }
    for engine in engines() {
        for distance in DISTANCES {
            let weighing = Weighing {
                rule: Rule {
                    distance,
                    kind: Kind::Unmined,
                    miner_margin: 0.0,
                    loss_margin: 4.0,
                },
                swap: false,
                one_negative: true,
                smooth: false,
            };
            // The first positive in the middle; and as far as any: then the farthest of all is its negative.
            for flipped in [8, 64] {
                signs(&mut case, positives[0], flipped);
                compare(&engine, &case, &Selection::all(distance), &weighing);
            }
        }
    }
}

#[test]
fn a_side_longer_than_a_window_is_met_window_by_window() {
    // One positive that meets two windows of negatives, and negatives that meet one positive.
    let mut case = Case::memory(6, 1, window(64, true) + 300, 2);
    let label = case.anchor_tags[0][0];
    for (place, tag) in case.tags.iter_mut().enumerate().skip(2) {
        if place + 1 < window(64, true) + 300 {
            tag[0] = label + 1;
        }
    }
    case.tags[1][0] = label;
    for engine in engines() {
        let weighing = Weighing {
            rule: Rule {
                distance: Distance::Cosine,
                kind: Kind::Unmined,
                miner_margin: 0.0,
                loss_margin: 4.0,
            },
            swap: false,
            one_negative: false,
            smooth: false,
        };
        compare(&engine, &case, &Selection::all(Distance::Cosine), &weighing);
        let swapped = Weighing {
            swap: true,
            ..weighing
        };
        let width = width(case.tags.len());
        assert!(width > window(64, true));
        let (whole, windowed) = (
            losses(&engine, &case, &weighing),
            losses(&engine, &case, &swapped),
        );
        // The similarity that swap takes instead is never smaller than the original.
        assert!(windowed >= whole, "{windowed} {whole}");
    }
}

/// Sum of the first row's losses.
fn losses(engine: &Engine, case: &Case, weighing: &Weighing) -> f32 {
    let block = case.block();
    let mut selected = case.selected(engine, &Selection::all(weighing.rule.distance));
    let mut terms = output(engine, block.rows * block.references.div_ceil(SEGMENT));
    let mut commands = engine.commands();
    triplet_loss(
        &mut commands,
        &block,
        weighing,
        (&selected.references).into(),
        &mut selected.kept,
        &mut terms,
        3,
        &mut selected.report,
    );
    engine.submit(commands);
    let report = read(engine, &selected.report, 3 + TERMS + block.rows);
    let [positives, negatives] = case.expected(&Selection::all(weighing.rule.distance))[0].clone();
    let values = case.values(0, weighing.rule.distance);
    let kept = [positives, negatives];
    let expected = reference::weigh(weighing, &values, &kept, between(case));
    let found = f32::from_bits(report[3 + TERMS]);
    // Thousands of terms near 4.
    assert_close("loss", &[found], &[expected.loss], 1e-5);
    let weights = read(engine, &selected.kept.weights, block.references);
    assert_close("weights", &weights, &expected.weights, 1e-5);
    found
}

/// Random triplets of each row, and the buffer with them: some repeat, the last row has none.
fn listed(case: &Case, seed: u64, places: usize) -> (Vec<Vec<[usize; 2]>>, Vec<[u32; 2]>) {
    let mut rng = rng(seed);
    let kept = case.expected(&Selection::all(Distance::Cosine));
    let (mut all, mut list) = (Vec::new(), Vec::new());
    for (row, [positives, negatives]) in kept.iter().enumerate() {
        let none = positives.is_empty() || negatives.is_empty() || row + 1 == kept.len();
        let count = if none { 0 } else { rng.random_range(1..places) };
        let own: Vec<[usize; 2]> = (0..count)
            .map(|_| [positives, negatives].map(|side| side[rng.random_range(0..side.len())]))
            .collect();
        let mut written = vec![[count as u32, 0]];
        written.extend(own.iter().map(|triplet| triplet.map(|place| place as u32)));
        written.resize(places, [0xa5a5_a5a5; 2]);
        list.extend(written);
        all.push(own);
    }
    (all, list)
}

#[test]
fn drawn_triplets_cost_what_the_loops_say_each_as_often_as_it_is_drawn() {
    for engine in engines() {
        for (seed, (rows, m, classes, places)) in [
            (3, 3, 2, 4),
            (7, 40, 3, 30),
            (5, 700, 2, 350),
            (4, 700, 1, 9),
        ]
        .into_iter()
        .enumerate()
        {
            let case = Case::memory(seed as u64, rows, m, classes);
            let (triplets, list) = listed(&case, 40 + seed as u64, places);
            let block = case.block();
            let width = width(m);
            for distance in DISTANCES {
                for weighing in weighings(distance) {
                    if weighing.swap || weighing.one_negative {
                        continue;
                    }
                    let what = format!("{m} {weighing:?} on {}", engine.info().engine);
                    let mut selected = case.selected(&engine, &Selection::all(distance));
                    let list = vector(&engine, &list, 0);
                    let mut terms = output(&engine, block.rows * m.div_ceil(SEGMENT));
                    let mut commands = engine.commands();
                    drawn_loss(
                        &mut commands,
                        &block,
                        &weighing,
                        places,
                        &list,
                        &mut selected.kept,
                        &mut terms,
                        3,
                        &mut selected.report,
                    );
                    engine.submit(commands);
                    let weights = read(&engine, &selected.kept.weights, block.rows * width);
                    let report = read(&engine, &selected.report, 3 + TERMS + block.rows);
                    let mut counts = [0; 4];
                    for (row, own) in triplets.iter().enumerate() {
                        let values = case.values(row, distance);
                        let expected =
                            reference::weigh_triplets(&weighing, &values, own, |_, _| 0.0);
                        for (count, more) in counts.iter_mut().zip(expected.counts) {
                            *count += more;
                        }
                        let loss = f32::from_bits(report[3 + TERMS + row]);
                        assert_close(&what, &[loss], &[expected.loss], 3e-6);
                        let weights = &weights[row * width..][..m];
                        assert_close(&what, weights, &expected.weights, 3e-6);
                    }
                    let found = COUNTED.map(|total| total.read(&report[3..]));
                    assert_eq!(found, counts, "{what}");
                }
            }
        }
    }
}

#[test]
fn one_negative_of_each_positive_is_counted_with_it() {
    for engine in engines() {
        for (seed, (rows, m, classes)) in [(1, 1, 1), (2, 3, 2), (7, 40, 3), (5, 700, 2)]
            .into_iter()
            .enumerate()
        {
            let case = Case::memory(seed as u64, rows, m, classes);
            let (block, width) = (case.block(), width(m));
            for distance in DISTANCES {
                let selection = Selection::all(distance);
                let mut selected = case.selected(&engine, &selection);
                let mut times = output(&engine, rows * width);
                let mut commands = engine.commands();
                count(&mut commands, &block, &mut selected.kept, &mut times);
                engine.submit(commands);
                let times: Vec<u32> = read(&engine, &times, rows * width);
                let left = read(&engine, &selected.kept.weights, rows * width);
                assert!(left.iter().all(|weight| *weight == 0.0));
                for (row, [positives, negatives]) in case.expected(&selection).iter().enumerate() {
                    let values = case.values(row, distance);
                    let of_positive = |p: &usize| {
                        let n = reference::one_negative(*p, negatives, &values)?;
                        Some([*p, n])
                    };
                    let triplets: Vec<[usize; 2]> =
                        positives.iter().filter_map(of_positive).collect();
                    let expected = reference::times(&triplets, m);
                    assert_eq!(times[row * width..][..m], expected);
                }
            }
        }
    }
}
