//! Losses with proxies equal pytorch-metric-learning's, value and both gradients, on 24 sets of rows each, which
//! `tests/golden/proxies.py` recorded: 16 without a miner, and 8 whose rows a miner weighs. 18 more are weighed by a miner that
//! chooses triplets one by one (`chosen.py`).

use std::rc::Rc;

use crate::common::{Set, engines, norm};
use nearfar::reference;
use nearfar::{
    Dataset, Distance, Engine, Labelled, LayerWeights, Loss, Miner, TrainConfig, Trainer, Wanted,
    mine,
};
use serde::Deserialize;

/// The losses of the script.
const LOSSES: [&str; 7] = [
    "ProxyAnchor",
    "ProxyNca",
    "NormalizedSoftmax",
    "ArcFace",
    "CosFace",
    "SubCenterArcFace",
    "SoftTriple",
];

/// A case in the format of the script.
#[derive(Clone, Debug, Deserialize)]
struct Case {
    loss: Loss,
    miner: String,
    /// Weight of each row, from how often the miner finds it.
    weights: Option<Vec<f64>>,
    distance: Distance,
    classes: usize,
    dim: usize,
    labels: Vec<usize>,
    rows: Vec<f64>,
    proxies: Vec<f64>,
    value: f64,
    gradient: Vec<f64>,
    proxy_gradient: Vec<f64>,
}

fn cases() -> Vec<Case> {
    let read = |text: &str| -> serde_json::Value {
        serde_json::from_str(text).expect("the script wrote it")
    };
    let all = read(include_str!("../golden/proxies.json"));
    let chosen = read(include_str!("../golden/chosen.json"))["proxies"].take();
    let cases = [all, chosen].into_iter().flat_map(|cases| {
        let cases: Vec<Case> = serde_json::from_value(cases).expect("cases");
        cases
    });
    let all: Vec<Case> = cases.collect();
    assert_eq!(all.len(), LOSSES.len() * 24 + 18);
    all
}

impl Case {
    fn per_class(&self) -> usize {
        self.proxies.len() / self.dim / self.classes
    }
}

/// Compares value and gradients with a case: the value within 1e-5, relative if it is above 1; each gradient within 1e-4 of its
/// length.
fn check(case: &Case, value: f64, gradients: [&[f64]; 2]) -> Result<(), String> {
    let mut wrong = Vec::new();
    if (value - case.value).abs() > 1e-5 * case.value.abs().max(1.0) {
        wrong.push(format!("value {value}, expected {}", case.value));
    }
    let expected = [&case.gradient, &case.proxy_gradient];
    for ((found, expected), of) in gradients.into_iter().zip(expected).zip(["rows", "proxies"]) {
        assert_eq!(found.len(), expected.len(), "{of}");
        let off: Vec<f64> = found
            .iter()
            .zip(expected)
            .map(|(found, expected)| found - expected)
            .collect();
        // If gradients cancel, only rounding remains.
        if norm(&off) > 1e-4 * norm(expected) + 1e-6 {
            wrong.push(format!(
                "gradient of {of} off by {} of {}",
                norm(&off),
                norm(expected)
            ));
        }
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "{:?} {:?} miner {}: {}",
            case.loss,
            case.distance,
            case.miner,
            wrong.join("; ")
        )),
    }
}

fn on(engine: &Engine, case: &Case) -> Result<(), String> {
    let rows = Set::new(&case.rows, case.labels.iter().copied(), case.dim);
    let each = case.per_class();
    let labels = (0..case.classes * each).map(|proxy| proxy / each);
    let proxies = Set::new(&case.proxies, labels, case.dim);
    let turned = matches!(case.loss, Loss::ProxyAnchor(_));
    let (anchors, references) = match turned {
        true => (&proxies, &rows),
        false => (&rows, &proxies),
    };
    let mined = pollster::block_on(mine(
        engine,
        anchors.rows(),
        Some(references.rows()),
        &Miner::None,
        case.distance,
        Wanted::Gradient(&case.loss),
        |_, _| {},
    ))
    .expect("fits");
    let [anchors, references] = [&mined.gradient, &mined.reference_gradient]
        .map(|gradient| gradient.iter().map(|g| f64::from(*g)).collect::<Vec<f64>>());
    let gradients = match turned {
        true => [&references[..], &anchors],
        false => [&anchors[..], &references],
    };
    check(case, mined.loss, gradients)
}

/// Checks a case as a training step: rows of a batch go through a head that is the identity, and the gradient of its weights is the
/// product of the rows' gradient with the rows.
fn trained(engine: Engine, case: &Case) -> Result<(), String> {
    let (dim, count) = (case.dim, case.labels.len());
    // A row more of each class, so that all have proxies.
    let labels: Vec<usize> = case.labels.iter().copied().chain(0..case.classes).collect();
    let mut values: Vec<f32> = case.rows.iter().map(|v| *v as f32).collect();
    values.resize(labels.len() * dim, 1.0);
    let dataset = Dataset::new(Labelled {
        values,
        dim,
        labels: labels.iter().map(usize::to_string).collect(),
        ..Labelled::default()
    });
    let mut miner = serde_json::json!({ "name": case.miner });
    if case.miner == "pair-margin" {
        (miner["pos_margin"], miner["neg_margin"]) = (0.8.into(), 0.2.into());
    }
    let config: TrainConfig = serde_json::from_value(serde_json::json!({
        "test_fraction": 0.0,
        "validation_fraction": 0.0,
        "standardize": false,
        "hidden_layers": [],
        "embedding_size": dim,
        "batch_size": count,
        "memory_size": 0,
        "distance": case.distance,
        "miner": miner,
        "miner_weights": case.miner != "none",
        "loss": case.loss,
    }))
    .expect("settings");
    let identity = LayerWeights {
        index: 0,
        shape: [dim, dim],
        weight: (0..dim * dim)
            .map(|at| f32::from(at % (dim + 1) == 0))
            .collect(),
        bias: vec![0.0; dim],
        ..LayerWeights::default()
    };
    let proxies: Vec<f32> = case.proxies.iter().map(|v| *v as f32).collect();
    let (loss, head, proxies) = pollster::block_on(async {
        let dataset = Rc::new(dataset.expect("several classes"));
        let mut trainer = Trainer::new(engine, dataset, config).await.expect("fits");
        trainer.set_weights(&[identity]).await.expect("takes them");
        trainer.set_proxies(&proxies).await.expect("takes them");
        let rows: Vec<u32> = (0..count as u32).collect();
        let report = trainer.step_on(&rows).await.expect("steps");
        let head = trainer.gradients().await.expect("reads");
        let proxies = trainer.proxy_gradients().await.expect("reads");
        (report.loss, head, proxies)
    });
    // Gradient of a set of rows by the head's weights.
    let of_head = |gradient: &[f64]| -> Vec<f64> {
        let mut sums = vec![0.0; dim * dim];
        for (gradient, row) in gradient.chunks(dim).zip(case.rows.chunks(dim)) {
            for (out, g) in gradient.iter().enumerate() {
                for (into, x) in row.iter().enumerate() {
                    sums[out * dim + into] += g * x;
                }
            }
        }
        sums
    };
    let expected = Case {
        gradient: of_head(&case.gradient),
        ..case.clone()
    };
    let wide = |values: &[f32]| values.iter().map(|v| f64::from(*v)).collect::<Vec<f64>>();
    check(&expected, loss, [&wide(&head[0].weight), &wide(&proxies)])
}

fn all_are_equal(on: impl Fn(&Engine, &Case) -> Result<(), String>, cases: &[Case]) {
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

#[test]
fn losses_with_proxies_equal_pml_on_both_engines() {
    let mut cases = cases();
    cases.retain(|case| case.miner == "none");
    assert_eq!(cases.len(), LOSSES.len() * 16);
    all_are_equal(on, &cases);
}

#[test]
fn rows_weighed_by_a_miner_and_a_step_on_them_equal_pml_on_both_engines() {
    let cases = cases();
    all_are_equal(|engine, case| trained(engine.clone(), case), &cases);
    // Without their weights the sets of a miner have other results.
    let engine = engines().into_iter().last().expect("the CPU engine");
    let weighed = cases.iter().filter(|case| {
        let weights = case.weights.as_deref().unwrap_or(&[]);
        weights.iter().any(|weight| *weight != 1.0)
    });
    let unweighed = weighed.map(|case| Case {
        miner: "none".to_owned(),
        ..case.clone()
    });
    let results: Vec<_> = unweighed
        .map(|case| trained(engine.clone(), &case))
        .collect();
    assert!(results.len() > LOSSES.len() * 6 && results.iter().all(Result::is_err));
}

/// A fault that is planted in a case before the reference computes.
type Fault = fn(&mut Case);

fn similarities(case: &Case) -> Vec<Vec<Vec<f64>>> {
    let unit = |rows: &[f64]| reference::normalize(rows, case.dim);
    let (rows, proxies) = (unit(&case.rows), unit(&case.proxies));
    let of_row = |row: &[f64]| {
        let cosines: Vec<f64> = proxies
            .chunks(case.dim)
            .map(|proxy| reference::dot(row, proxy))
            .collect();
        cosines
            .chunks(case.per_class())
            .map(<[f64]>::to_vec)
            .collect()
    };
    rows.chunks(case.dim).map(of_row).collect()
}

/// Value and central differences of the reference.
fn differentiated(case: &Case) -> (f64, [Vec<f64>; 2]) {
    const STEP: f64 = 1e-6;
    let held = similarities(case);
    let one = vec![1.0; case.labels.len()];
    let weights = case.weights.as_ref().unwrap_or(&one);
    let value = |case: &Case| {
        reference::proxy_loss(
            &case.loss,
            case.distance,
            &similarities(case),
            &held,
            &case.labels,
            weights,
        )
    };
    let along = |of: fn(&mut Case) -> &mut Vec<f64>, count: usize| -> Vec<f64> {
        let moved = |at: usize, by: f64| {
            let mut case = case.clone();
            of(&mut case)[at] += by;
            value(&case)
        };
        (0..count)
            .map(|at| (moved(at, STEP) - moved(at, -STEP)) / (2.0 * STEP))
            .collect()
    };
    let rows = along(|case| &mut case.rows, case.rows.len());
    let proxies = along(|case| &mut case.proxies, case.proxies.len());
    (value(case), [rows, proxies])
}

#[test]
fn the_reference_and_its_central_differences_equal_pml() {
    for case in cases() {
        let (value, [rows, proxies]) = differentiated(&case);
        check(&case, value, [&rows, &proxies]).expect("equals PML");
        assert!((value - case.value).abs() < 1e-9 * case.value.abs().max(1.0));
    }
}

#[test]
fn the_comparison_rejects_planted_faults() {
    let faults: [(&str, Fault, &[&str]); 5] = [
        ("weights left out", |case| case.weights = None, &LOSSES),
        (
            "a wrong label",
            |case| case.labels[0] = (case.labels[0] + 1) % case.classes,
            &LOSSES,
        ),
        (
            "margin of the own class left out",
            |case| match &mut case.loss {
                Loss::ArcFace(loss) => loss.margin = 0.0,
                Loss::CosFace(loss) => loss.margin = 0.0,
                Loss::SubCenterArcFace(loss) => loss.margin = 0.0,
                Loss::SoftTriple(loss) => loss.margin = 0.0,
                Loss::ProxyAnchor(loss) => loss.margin = 0.0,
                _ => unreachable!("has a margin"),
            },
            &[
                "ProxyAnchor",
                "ArcFace",
                "CosFace",
                "SubCenterArcFace",
                "SoftTriple",
            ],
        ),
        (
            "degrees as radians",
            |case| match &mut case.loss {
                Loss::ArcFace(loss) => loss.margin = loss.margin.to_radians(),
                Loss::SubCenterArcFace(loss) => loss.margin = loss.margin.to_radians(),
                _ => unreachable!("has an angle"),
            },
            &["ArcFace", "SubCenterArcFace"],
        ),
        (
            "centres by turns",
            |case| {
                let (dim, each) = (case.dim, case.per_class());
                let old = case.proxies.clone();
                for proxy in 0..case.classes * each {
                    let from = proxy % case.classes * each + proxy / case.classes;
                    case.proxies[proxy * dim..][..dim].copy_from_slice(&old[from * dim..][..dim]);
                }
            },
            &["SubCenterArcFace", "SoftTriple"],
        ),
    ];
    let cases = cases();
    let name = |case: &Case| {
        format!("{:?}", case.loss)
            .split('(')
            .next()
            .expect("a name")
            .to_owned()
    };
    for (what, fault, of) in faults {
        for loss in of {
            let mut own = cases.iter().filter(|case| name(case) == *loss);
            let rejects = own.any(|case| {
                let mut faulty = case.clone();
                fault(&mut faulty);
                let (value, [rows, proxies]) = differentiated(&faulty);
                check(case, value, [&rows, &proxies]).is_err()
            });
            assert!(rejects, "{what}: {loss}");
        }
    }
}
