//! Losses of pairs equal pytorch-metric-learning's, value and gradient, on 24 sets of rows each, which `tests/golden/losses.py`
//! recorded; and on 12 more, with the triplet margin loss, for miners that choose triplets one by one (`chosen.py`).

use crate::common::{Set, engines, norm};
use nearfar::reference::{self, PairOfAnchor, PairsOfAnchor};
use nearfar::{Distance, Engine, Loss, TrainConfig, Wanted, mine};
use serde::Deserialize;

/// A case in the format of the script.
#[derive(Clone, Debug, Deserialize)]
struct Case {
    loss: Loss,
    miner: String,
    /// Seed of the miner's draws.
    #[serde(default)]
    seed: u64,
    distance: Distance,
    dim: usize,
    labels: Vec<u32>,
    rows: Vec<f64>,
    reference_labels: Option<Vec<u32>>,
    references: Option<Vec<f64>>,
    positives: Vec<usize>,
    negatives: Vec<usize>,
    value: f64,
    gradient: Vec<f64>,
}

/// Cases with miners that choose triplets one by one: facenet-semihard, and distance-weighted, which draws them.
fn chosen() -> Vec<Case> {
    let mut cases: serde_json::Value =
        serde_json::from_str(include_str!("../golden/chosen.json")).expect("a script wrote it");
    serde_json::from_value(cases["pairs"].take()).expect("cases")
}

/// Cases of seven losses, of NCA and `LiftedStructure`, which another script recorded, and of losses of pairs with triplets that
/// are chosen one by one.
fn cases() -> Vec<Case> {
    let read = |text: &str| -> Vec<serde_json::Value> {
        serde_json::from_str(text).expect("a script wrote it")
    };
    let mut cases = read(include_str!("../golden/losses.json"));
    let others = read(include_str!("../golden/more_losses.json"));
    let fixed = |case: &serde_json::Value| case["loss"].get("learn_beta").is_none();
    cases.extend(others.into_iter().filter(fixed));
    let cases = cases.into_iter().map(serde_json::from_value);
    let mut cases: Vec<Case> = cases.collect::<Result<_, _>>().expect("a case");
    cases.extend(chosen().into_iter().filter(|case| case.loss.is_of_pairs()));
    cases
}

/// Compares value and gradient with a case: the value within 1e-5, relative if it is above 1; the gradient within 1e-4 of its
/// length.
fn check(case: &Case, value: f64, gradient: &[f64]) -> Result<(), String> {
    let off: Vec<f64> = gradient
        .iter()
        .zip(&case.gradient)
        .map(|(found, expected)| found - expected)
        .collect();
    let near = (value - case.value).abs() <= 1e-5 * case.value.abs().max(1.0);
    // If gradients of a few rows cancel, only rounding remains.
    if near && norm(&off) <= 1e-4 * norm(&case.gradient) + 1e-6 {
        return Ok(());
    }
    Err(format!(
        "{:?} {} {:?} of {} rows: {value}, expected {}; gradient off by {} of {}",
        case.loss,
        case.miner,
        case.distance,
        case.labels.len(),
        case.value,
        norm(&off),
        norm(&case.gradient),
    ))
}

fn on(engine: &Engine, case: &Case) -> Result<(), String> {
    let config = TrainConfig::default();
    let config = config.with_set(&format!("miner.name={}", case.miner));
    let mut miner = config.expect("a miner").miner;
    if let nearfar::Miner::PairMargin(pairs) = &mut miner {
        (pairs.pos_margin, pairs.neg_margin) = (0.8, 0.2);
    }
    if let nearfar::Miner::DistanceWeighted(drawing) = &mut miner {
        drawing.seed = case.seed;
    }
    let anchors = Set::new(&case.rows, case.labels.iter(), case.dim);
    let known = case.references.as_ref().zip(case.reference_labels.as_ref());
    let known = known.map(|(rows, labels)| Set::new(rows, labels.iter(), case.dim));
    let mined = pollster::block_on(mine(
        engine,
        anchors.rows(),
        known.as_ref().map(Set::rows),
        &miner,
        case.distance,
        Wanted::Gradient(&case.loss),
        |_, _| {},
    ))
    .expect("fits");
    let counts = |numbers: &[usize]| numbers.chunks(3).map(|pair| pair[2] as u64).sum::<u64>();
    let expected = if !case.loss.is_of_pairs() {
        counts(&case.positives)
    } else if matches!(
        case.loss,
        Loss::Contrastive(_) | Loss::Margin(_) | Loss::NtXent(_) | Loss::LiftedStructure(_)
    ) {
        counts(&case.positives) + counts(&case.negatives)
    } else {
        (case.positives.len() + case.negatives.len()) as u64 / 3
    };
    if mined.mining.mined != expected {
        return Err(format!("{case:?}: {:?}, expected {expected}", mined.mining));
    }
    let gradient: Vec<f64> = mined.gradient.iter().map(|g| f64::from(*g)).collect();
    check(case, mined.loss, &gradient)
}

#[test]
fn losses_of_pairs_equal_pml_on_both_engines() {
    let cases = cases();
    assert_eq!(cases.len(), 9 * 24 + 8 * 12);
    all_are_equal(&cases);
}

#[test]
fn the_triplet_margin_loss_of_chosen_triplets_equals_pml_on_both_engines() {
    let mut cases = chosen();
    cases.retain(|case| !case.loss.is_of_pairs());
    assert_eq!(cases.len(), 12);
    all_are_equal(&cases);
}

/// Results with another seed, another miner or another loss must differ from PML's for the case.
#[test]
fn planted_faults_of_chosen_triplets_are_rejected() {
    let [_, engine] = engines();
    type Fault = fn(&mut Case);
    let faults: [(&str, Fault, usize); 4] = [
        ("another seed", |case| case.seed ^= 1, 50),
        ("every triplet", |case| case.miner = "none".to_owned(), 85),
        (
            "the hardest for one that is drawn",
            |case| case.miner = "batch-hard".to_owned(),
            85,
        ),
        ("a row that is wrong", |case| case.rows[0] += 0.5, 85),
    ];
    for (what, fault, least) in faults {
        let rejected = chosen().into_iter().filter_map(|mut case| {
            fault(&mut case);
            on(&engine, &case).err()
        });
        let rejected = rejected.count();
        assert!(rejected >= least, "{what}: {rejected}");
    }
}

fn all_are_equal(cases: &[Case]) {
    for engine in engines() {
        let wrong: Vec<String> = cases
            .iter()
            .filter_map(|case| on(&engine, case).err())
            .collect();
        assert!(
            wrong.is_empty(),
            "{} of {} on {}:\n{}",
            wrong.len(),
            cases.len(),
            engine.info().engine,
            wrong.join("\n")
        );
    }
}

/// A fault that is planted in the pairs before the reference computes.
type Fault = fn(&Case, &mut Vec<PairsOfAnchor>);

/// Loss of a case by the reference, for rows of any length; weights are held constant at `held`.
fn by_reference(case: &Case, rows: &[f64], held: &[f64], fault: Option<Fault>) -> f64 {
    let unit = |rows: &[f64]| reference::normalize(rows, case.dim);
    let (rows, held) = (unit(rows), unit(held));
    let (known, held_known) = match &case.references {
        None => (rows.clone(), held.clone()),
        Some(references) => (unit(references), unit(references)),
    };
    let of = |rows: &[f64], row: usize| rows[row * case.dim..][..case.dim].to_vec();
    let mut anchors = vec![PairsOfAnchor::default(); case.labels.len()];
    for (side, pairs) in [&case.positives, &case.negatives].into_iter().enumerate() {
        for pair in pairs.chunks(3) {
            let similarity = reference::dot(&of(&rows, pair[0]), &of(&known, pair[1]));
            let held = reference::dot(&of(&held, pair[0]), &of(&held_known, pair[1]));
            anchors[pair[0]][side].push(PairOfAnchor {
                similarity,
                held,
                times: pair[2] as f64,
                other: case.references.is_none().then_some(pair[1]),
            });
        }
    }
    if let Some(fault) = fault {
        fault(case, &mut anchors);
    }
    reference::pair_loss(&case.loss, case.distance, &anchors)
}

/// Value and central differences of the reference.
fn differentiated(case: &Case, held: bool, fault: Option<Fault>) -> (f64, Vec<f64>) {
    const STEP: f64 = 1e-6;
    let value = by_reference(case, &case.rows, &case.rows, fault);
    let moved = |at: usize, by: f64| {
        let mut rows = case.rows.clone();
        rows[at] += by;
        let held = if held { &case.rows } else { &rows };
        by_reference(case, &rows, held, fault)
    };
    let gradient = (0..case.rows.len())
        .map(|at| (moved(at, STEP) - moved(at, -STEP)) / (2.0 * STEP))
        .collect();
    (value, gradient)
}

#[test]
fn the_reference_and_its_central_differences_equal_pml() {
    for case in cases() {
        let (value, gradient) = differentiated(&case, true, None);
        check(&case, value, &gradient).expect("equals PML");
        assert!((value - case.value).abs() < 1e-9 * case.value.abs().max(1.0));
    }
}

#[test]
fn the_comparison_rejects_planted_faults() {
    let each_pair_once: Fault = |_, anchors| {
        anchors
            .iter_mut()
            .flatten()
            .flatten()
            .for_each(|pair| pair.times = 1.0);
    };
    let one_negative_less: Fault = |_, anchors| {
        let last = anchors.iter_mut().rev().find(|sides| sides[1].len() > 1);
        last.map(|sides| sides[1].pop());
    };
    let itself_as_a_positive: Fault = |_, anchors| {
        anchors[0][0].push(PairOfAnchor {
            similarity: 1.0,
            held: 1.0,
            times: 1.0,
            other: None,
        });
    };
    let sides_swapped: Fault = |_, anchors| anchors.iter_mut().for_each(|sides| sides.swap(0, 1));
    let faults: [(&str, Option<Fault>, bool, &[&str]); 5] = [
        (
            "each pair once",
            Some(each_pair_once),
            true,
            &["contrastive", "margin", "nt-xent", "lifted-structure"],
        ),
        (
            "a negative left out",
            Some(one_negative_less),
            true,
            &[
                "contrastive",
                "margin",
                "multi-similarity",
                "nt-xent",
                "sup-con",
                "circle",
                "nca",
                "lifted-structure",
            ],
        ),
        (
            "itself as a positive",
            Some(itself_as_a_positive),
            true,
            &[
                "nt-xent",
                "sup-con",
                "circle",
                "generalized-lifted-structure",
                "nca",
            ],
        ),
        (
            "sides swapped",
            Some(sides_swapped),
            true,
            &[
                "contrastive",
                "margin",
                "multi-similarity",
                "nt-xent",
                "sup-con",
                "circle",
                "generalized-lifted-structure",
            ],
        ),
        ("a gradient through the weights", None, false, &["circle"]),
    ];
    let cases = cases();
    let name = |case: &Case| {
        let value = serde_json::to_value(&case.loss).expect("plain data");
        value["name"].as_str().expect("a name").to_owned()
    };
    for (what, fault, held, of) in faults {
        for loss in of {
            let mut own = cases.iter().filter(|case| name(case) == *loss);
            let rejects = own.any(|case| {
                let (value, gradient) = differentiated(case, held, fault);
                check(case, value, &gradient).is_err()
            });
            assert!(rejects, "{what}: {loss}");
        }
    }
}

/// More rows than a usual block of `mine`: positive pairs need both of their rows.
#[test]
fn a_lifted_structure_of_many_rows_has_the_slopes_of_the_reference() {
    const STEP: f64 = 1e-5;
    let (count, dim) = (400, 64);
    let mut rng = crate::common::rng(5);
    let rows = crate::common::to_f64(&crate::common::random_rows(&mut rng, count, dim));
    let labels: Vec<u32> = (0..count as u32).map(|row| row % 40).collect();
    let case = Case {
        loss: TrainConfig::default()
            .with_set("loss.name=lifted-structure")
            .expect("a loss")
            .loss,
        miner: "none".to_owned(),
        seed: 0,
        distance: Distance::Cosine,
        dim,
        rows,
        reference_labels: None,
        references: None,
        positives: pairs(&labels, true),
        negatives: pairs(&labels, false),
        labels,
        value: 0.0,
        gradient: Vec::new(),
    };
    let set = Set::new(&case.rows, case.labels.iter(), dim);
    for engine in engines() {
        let mined = pollster::block_on(mine(
            &engine,
            set.rows(),
            None,
            &nearfar::Miner::None,
            Distance::Cosine,
            Wanted::Gradient(&case.loss),
            |_, _| {},
        ))
        .expect("fits");
        for at in [0, 130 * dim + 7, 399 * dim + 63] {
            let moved = |by: f64| {
                let mut rows = case.rows.clone();
                rows[at] += by;
                by_reference(&case, &rows, &rows, None)
            };
            let slope = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
            let found = f64::from(mined.gradient[at]);
            assert!(
                (found - slope).abs() < 1e-3 * slope.abs() + 1e-7,
                "{at}: {found} {slope}"
            );
        }
    }
}

/// Every pair of one kind, once: `[anchor, other, times]`.
fn pairs(labels: &[u32], positive: bool) -> Vec<usize> {
    let mut all = Vec::new();
    for anchor in 0..labels.len() {
        for other in (0..labels.len()).filter(|other| *other != anchor) {
            if (labels[anchor] == labels[other]) == positive {
                all.extend([anchor, other, 1]);
            }
        }
    }
    all
}
