//! Losses with proxies equal pytorch-metric-learning's, value and both gradients, on 24 sets of rows each, which
//! `tests/golden/proxies.py` recorded. Sets with a miner, which weighs rows there, are left out: Nearfar's miners have no part in
//! these losses.

mod common;

use common::{Set, engines, norm};
use nearfar::reference;
use nearfar::{Distance, Engine, Loss, Miner, Wanted, mine};
use serde::Deserialize;

/// As the script describes it.
#[derive(Clone, Debug, Deserialize)]
struct Case {
    loss: Loss,
    miner: String,
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
    let all: Vec<Case> =
        serde_json::from_str(include_str!("golden/proxies.json")).expect("the script wrote it");
    let cases: Vec<Case> = all
        .into_iter()
        .filter(|case| case.miner == "none")
        .collect();
    assert_eq!(cases.len(), 7 * 16);
    cases
}

impl Case {
    fn per_class(&self) -> usize {
        self.proxies.len() / self.dim / self.classes
    }
}

/// Whether value and gradients are those of a case: the value within 1e-5, of itself where it is above 1; each gradient within
/// 1e-4 of its length.
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
        // Where gradients cancel, what is left of them is rounding.
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
            "{:?} {:?}: {}",
            case.loss,
            case.distance,
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

#[test]
fn losses_with_proxies_equal_pml_on_both_engines() {
    let cases = cases();
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

/// What goes wrong with a case before the reference sees it.
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
    let value = |case: &Case| {
        reference::proxy_loss(
            &case.loss,
            case.distance,
            &similarities(case),
            &held,
            &case.labels,
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
    let faults: [(&str, Fault, &[&str]); 4] = [
        (
            "a wrong label",
            |case| case.labels[0] = (case.labels[0] + 1) % case.classes,
            &[
                "ProxyAnchor",
                "ProxyNca",
                "NormalizedSoftmax",
                "ArcFace",
                "CosFace",
                "SubCenterArcFace",
                "SoftTriple",
            ],
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
