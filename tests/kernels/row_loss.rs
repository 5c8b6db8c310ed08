use nearfar::kernels::row_loss::{
    Centers, ExtraInput, Form, Multiplicity, PairTotal, RowCost, count, reduce, slopes,
};
use nearfar::kernels::row_loss::{ROW_NUMBERS, dispatches};
use nearfar::kernels::select::Selection;
use nearfar::kernels::similarities::width;
use nearfar::kernels::triplet_margin::{Kind, Rule, TERMS};
use nearfar::reference::{self, PairOfAnchor, PairsOfAnchor};
use nearfar::{Distance, Engine, Loss, TrainConfig};

use super::common::{engines, output, read};
use super::select::Case;

/// Losses with their kernel parameters; values of the cases are multiples of 1/32, and no margin is one.
fn losses(distance: Distance) -> Vec<(Loss, RowCost)> {
    let sign = match distance {
        Distance::Cosine => 1.0,
        Distance::L2 => -1.0,
    };
    let loss = |sets: &[&str]| {
        let start = TrainConfig::default();
        let set = |config: TrainConfig, set: &&str| config.with_set(set).expect("sets");
        sets.iter().fold(start, set).loss
    };
    let cost = |form, scales, margins| RowCost {
        distance,
        form,
        scales,
        margins,
        centers: Centers::ONE,
        given: ExtraInput::Nothing,
        times: Multiplicity::Once,
        mined: Rule {
            distance,
            kind: Kind::Unmined,
            miner_margin: 0.0,
            loss_margin: 0.0,
        },
    };
    let mut all = vec![
        (
            loss(&[
                "loss.name=contrastive",
                "loss.pos_margin=0.71",
                "loss.neg_margin=0.17",
            ]),
            cost(Form::Contrastive, [1.0; 2], [0.71 * sign, 0.17 * sign]),
        ),
        (
            loss(&["loss.name=margin", "loss.margin=0.11", "loss.beta=0.37"]),
            cost(
                Form::Margin,
                [1.0; 2],
                [0.37 * sign + 0.11, 0.37 * sign - 0.11],
            ),
        ),
        (
            loss(&["loss.name=multi-similarity"]),
            cost(Form::MultiSimilarity, [2.0, 50.0], [0.5 * sign; 2]),
        ),
        (
            loss(&["loss.name=nt-xent"]),
            cost(Form::NtXent, [1.0 / 0.07; 2], [0.0; 2]),
        ),
        (
            loss(&["loss.name=sup-con"]),
            cost(Form::SupCon, [10.0; 2], [0.0; 2]),
        ),
        (
            loss(&["loss.name=generalized-lifted-structure"]),
            cost(Form::GeneralizedLifted, [1.0; 2], [sign, 0.0]),
        ),
    ];
    if distance == Distance::Cosine {
        let circle = cost(Form::Circle, [80.0; 2], [0.6, 0.4]);
        all.push((loss(&["loss.name=circle"]), circle));
    }
    all
}

/// Pairs of every anchor with their weights, and the place of each pair.
fn pairs(case: &Case, cost: &RowCost) -> (Vec<PairsOfAnchor>, Vec<[Vec<usize>; 2]>) {
    let kept = case.expected(&Selection::all(cost.distance));
    let mut anchors = Vec::new();
    for (row, [positives, negatives]) in kept.iter().enumerate() {
        let similarities = case.values(row, Distance::Cosine);
        let values = case.values(row, cost.distance);
        let mined = |p: usize, n: usize| {
            let tm = values[p] - values[n];
            tm > 0.0 && tm <= f64::from(cost.mined.miner_margin)
        };
        let times = |place: usize, positive: bool| -> f64 {
            let others = if positive { negatives } else { positives };
            let met = others.iter().filter(|other| {
                let (p, n) = if positive {
                    (place, **other)
                } else {
                    (**other, place)
                };
                cost.times != Multiplicity::Mined || mined(p, n)
            });
            match cost.times {
                Multiplicity::Once => 1.0,
                _ if cost.is_of_masks() => (met.count() as f64).min(1.0),
                _ => met.count() as f64,
            }
        };
        let side = |places: &[usize], positive: bool| -> Vec<PairOfAnchor> {
            let pair = |place: &usize| PairOfAnchor {
                similarity: similarities[*place],
                held: similarities[*place],
                times: times(*place, positive),
                other: None,
            };
            places.iter().map(pair).collect()
        };
        anchors.push([side(positives, true), side(negatives, false)]);
    }
    (anchors, kept)
}

/// Loss of the pairs with a weight above 0.
fn loss_of(loss: &Loss, distance: Distance, anchors: &[PairsOfAnchor]) -> f64 {
    let counting = |side: &Vec<PairOfAnchor>| -> Vec<PairOfAnchor> {
        side.iter()
            .copied()
            .filter(|pair| pair.times > 0.0)
            .collect()
    };
    let anchors: Vec<PairsOfAnchor> = anchors
        .iter()
        .map(|[positives, negatives]| [counting(positives), counting(negatives)])
        .collect();
    reference::pair_loss(loss, distance, &anchors)
}

/// Compares loss, counts and every `stride`-th slope with the reference and its central differences.
fn compare(engine: &Engine, case: &Case, loss: &Loss, cost: &RowCost, stride: usize) {
    const STEP: f64 = 1e-6;
    let what = format!("{loss:?} {:?} on {}", cost.times, engine.info().engine);
    let block = case.block();
    let width = width(block.references);
    let mut selected = case.selected(engine, &Selection::all(cost.distance));
    let mut times = output(engine, block.rows * width);
    let mut reduced = output(engine, (2 + block.rows) * ROW_NUMBERS);
    let (kept, report) = (&mut selected.kept, &mut selected.report);
    let mut commands = engine.commands();
    count(&mut commands, &block, cost, kept, &mut times);
    let counted = (cost.times == Multiplicity::Mined).then_some(&times);
    reduce(
        &mut commands,
        &block,
        cost,
        kept,
        counted,
        None,
        2,
        &mut reduced,
        3,
        report,
    );
    slopes(
        &mut commands,
        &block,
        cost,
        block.rows,
        false,
        kept,
        counted,
        None,
        2,
        &reduced,
        3,
        report,
    );
    engine.submit(commands);
    let weights = read(engine, &selected.kept.weights, block.rows * width);
    let report = read(engine, &selected.report, 3 + TERMS + block.rows);
    let (mut anchors, places) = pairs(case, cost);

    let expected = loss_of(loss, cost.distance, &anchors);
    let terms = report[3 + TERMS..]
        .iter()
        .map(|bits| f64::from(f32::from_bits(*bits)));
    let found: f64 = terms.sum();
    assert!(
        (found - expected).abs() <= 1e-5 * expected.max(1.0),
        "{what}: {found}, expected {expected}"
    );
    for (side, total) in [PairTotal::Positives, PairTotal::Negatives]
        .into_iter()
        .enumerate()
    {
        let times = anchors
            .iter()
            .flat_map(|sides| &sides[side])
            .map(|pair| pair.times);
        assert_eq!(
            total.read(&report[3..]) as f64,
            times.sum::<f64>(),
            "{what}"
        );
    }
    let mut checked = Vec::new();
    for row in 0..anchors.len() {
        for side in 0..2 {
            for at in (0..anchors[row][side].len()).step_by(stride) {
                let pair = anchors[row][side][at];
                let moved = |by: f64, anchors: &mut Vec<PairsOfAnchor>| {
                    anchors[row][side][at].similarity = pair.similarity + by;
                    let moved = loss_of(loss, cost.distance, anchors);
                    anchors[row][side][at] = pair;
                    moved
                };
                // By distance a pair of equal rows has no slope.
                let differs = cost.distance == Distance::Cosine || pair.similarity < 1.0 - 1e-9;
                let expected = match differs && pair.times > 0.0 {
                    true => (moved(STEP, &mut anchors) - moved(-STEP, &mut anchors)) / (2.0 * STEP),
                    false => 0.0,
                };
                let found = f64::from(weights[row * width + places[row][side][at]]);
                checked.push((found, expected));
            }
        }
    }
    let largest = checked
        .iter()
        .map(|(_, expected)| expected.abs())
        .fold(0.0, f64::max);
    for (found, expected) in checked {
        assert!(
            (found - expected).abs() <= 1e-4 * largest + 1e-7,
            "{what}: a slope of {found}, expected {expected}, the largest {largest}"
        );
    }
}

#[test]
fn losses_and_slopes_of_every_form_equal_the_reference() {
    for engine in engines() {
        for distance in super::select::DISTANCES {
            for (case, stride) in [
                (Case::memory(1, 6, 30, 4), 1),
                (Case::apart(2, 5, 21, 3), 1),
                // A lone class, and only one class.
                (Case::memory(3, 7, 24, 20), 1),
                (Case::memory(4, 4, 9, 1), 1),
                // Several segments of what is kept.
                (Case::memory(5, 3, 700, 5), 67),
            ] {
                for (loss, cost) in losses(distance) {
                    let crossed = matches!(cost.form, Form::Margin);
                    let times = if crossed {
                        Multiplicity::Crossed
                    } else {
                        Multiplicity::Once
                    };
                    compare(&engine, &case, &loss, &RowCost { times, ..cost }, stride);
                    let mined = Rule {
                        kind: Kind::Semihard,
                        miner_margin: 0.3,
                        ..cost.mined
                    };
                    let times = Multiplicity::Mined;
                    let cost = RowCost {
                        times,
                        mined,
                        ..cost
                    };
                    compare(&engine, &case, &loss, &cost, stride);
                }
            }
        }
    }
}

#[test]
fn pairs_are_counted_in_windows_where_a_side_is_long() {
    let (_, cost) = losses(Distance::Cosine).swap_remove(0);
    let cost = RowCost {
        times: Multiplicity::Mined,
        ..cost
    };
    assert!(dispatches(100_000, &cost) > dispatches(10_000, &cost));
}
