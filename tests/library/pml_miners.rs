//! Miners, and the loss over the pairs that they keep, equal pytorch-metric-learning's on 300 sets of rows each, which
//! `tests/golden/miners.py` recorded.

use crate::common::engines;
use nearfar::{Distance, Engine, Mined, Miner, Pairs, RowSource, Rows, TrainConfig, Wanted, mine};
use serde::Deserialize;

/// The miners in the order of a case's runs.
const MINERS: [&str; 6] = [
    "triplet-margin",
    "none",
    "batch-hard",
    "batch-easy-hard",
    "multi-similarity",
    "pair-margin",
];

const DIGITS: &str = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

#[derive(Clone, Deserialize)]
struct Case {
    distance: Distance,
    dim: usize,
    rows: String,
    labels: String,
    known: Option<String>,
    known_labels: Option<String>,
    runs: Vec<Run>,
}

/// A run in the format of the script.
#[derive(Clone, Deserialize)]
#[serde(untagged)]
enum Run {
    Short(Arguments, Settings, Kept, u64, u64, f64, f64, f64),
    Whole(Arguments, Settings, Kept, u64, u64, f64, f64, f64, Vec<f64>),
}

type Arguments = String;
type Settings = (f64, u32, u32);
type Kept = Option<[String; 2]>;

/// Results of PML for a case.
struct Expected {
    kept: Option<[String; 2]>,
    mined: u64,
    active: u64,
    loss: f64,
    length: f64,
    weighed: f64,
    gradient: Option<Vec<f64>>,
}

impl Run {
    fn take(self) -> (Arguments, Settings, Expected) {
        let (short, gradient) = match self {
            Self::Short(a, s, k, m, c, l, n, w) => ((a, s, k, m, c, l, n, w), None),
            Self::Whole(a, s, k, m, c, l, n, w, g) => ((a, s, k, m, c, l, n, w), Some(g)),
        };
        let (arguments, settings, kept, mined, active, loss, length, weighed) = short;
        let expected = Expected {
            kept,
            mined,
            active,
            loss,
            length,
            weighed,
            gradient,
        };
        (arguments, settings, expected)
    }
}

fn cases() -> Vec<Case> {
    serde_json::from_str(include_str!("../golden/miners.json")).expect("the script wrote it")
}

fn digits(text: &str) -> impl Iterator<Item = usize> {
    text.chars()
        .map(|digit| DIGITS.find(digit).expect("a digit"))
}

/// Rows with their labels.
struct Set(RowSource, Vec<String>);

impl Set {
    fn new(rows: &str, labels: &str, dim: usize) -> Self {
        let values = digits(rows).map(|digit| digit as f32 - 30.0).collect();
        let labels = labels.chars().map(String::from).collect();
        Self(RowSource::Memory { values, dim }, labels)
    }

    fn rows(&self) -> Rows<'_> {
        Rows {
            rows: &self.0,
            labels: &self.1,
        }
    }
}

/// Pairs in the format of the script.
fn written(pairs: &Pairs, anchors: usize) -> [String; 2] {
    let of = |firsts: &[u32], others: &[u32]| {
        assert_eq!(firsts.len(), others.len());
        assert!(firsts.is_sorted(), "anchors ascend");
        let digit = |other: &u32| char::from(DIGITS.as_bytes()[*other as usize]);
        let of_anchor = |anchor: usize| -> String {
            let own = firsts.iter().zip(others);
            own.filter(|(first, _)| **first as usize == anchor)
                .map(|(_, other)| digit(other))
                .collect()
        };
        (0..anchors).map(of_anchor).collect::<Vec<_>>().join(".")
    };
    [of(&pairs.a1, &pairs.p), of(&pairs.a2, &pairs.n)]
}

fn settings(name: &str, arguments: &str, loss: Settings) -> TrainConfig {
    let mut sets = vec![
        format!("miner.name={name}"),
        format!("loss.margin={}", loss.0),
        format!("loss.swap={}", loss.1 == 1),
        format!("loss.smooth_loss={}", loss.2 == 1),
    ];
    sets.extend(
        arguments
            .split_whitespace()
            .map(|set| format!("miner.{set}")),
    );
    let config = sets.iter().fold(TrainConfig::default(), |config, set| {
        config.with_set(set).expect("sets")
    });
    config.check().expect("in range");
    config
}

fn run(
    engine: &Engine,
    anchors: &Set,
    known: Option<&Set>,
    miner: &Miner,
    distance: Distance,
    wanted: Wanted<'_>,
) -> Mined {
    let known = known.map(Set::rows);
    pollster::block_on(mine(
        engine,
        anchors.rows(),
        known,
        miner,
        distance,
        wanted,
        |_, _| {},
    ))
    .expect("fits")
}

/// The weighted sum of a gradient that the script records.
fn weighed(gradient: &[f32]) -> f64 {
    let terms = gradient.iter().zip((0..7).cycle());
    terms
        .map(|(g, k)| f64::from(*g) * (f64::from(k) - 3.0))
        .sum()
}

/// Difference of a run from PML's, if any.
fn difference(engine: &Engine, name: &str, case: &Case, run_of: Run) -> Result<(), String> {
    let anchors = Set::new(&case.rows, &case.labels, case.dim);
    let known = case.known.as_ref().zip(case.known_labels.as_ref());
    let known = known.map(|(rows, labels)| Set::new(rows, labels, case.dim));
    let (arguments, loss, expected) = run_of.take();
    let config = settings(name, &arguments, loss);
    let mut wrong = Vec::new();
    if let Some(kept) = &expected.kept {
        let mined = run(
            engine,
            &anchors,
            known.as_ref(),
            &config.miner,
            case.distance,
            Wanted::Pairs,
        );
        let found = written(&mined.pairs, case.labels.len());
        if found != *kept {
            wrong.push(format!("{found:?}, expected {kept:?}"));
        }
        if mined.mining.mined != expected.mined {
            wrong.push(format!("{:?}", mined.mining));
        }
    }
    let wanted = Wanted::Gradient(&config.loss);
    let mined = run(
        engine,
        &anchors,
        known.as_ref(),
        &config.miner,
        case.distance,
        wanted,
    );
    let counts = (mined.mining.mined, mined.mining.active);
    if counts != (expected.mined, expected.active) {
        wrong.push(format!(
            "{counts:?}, expected {} {}",
            expected.mined, expected.active
        ));
    }
    let norm = mined.gradient.iter().map(|g| f64::from(*g).powi(2));
    let near = |found: f64, expected: f64, scale: f64| (found - expected).abs() <= scale;
    // If gradients of a few rows cancel, only rounding remains: 1e-6 of a row's own gradient.
    let of_gradient = 1e-4 * expected.length + 1e-6;
    for (what, found, expected, scale) in [
        ("loss", mined.loss, expected.loss, 1e-5),
        (
            "length",
            norm.sum::<f64>().sqrt(),
            expected.length,
            of_gradient,
        ),
        (
            "sum",
            weighed(&mined.gradient),
            expected.weighed,
            10.0 * of_gradient,
        ),
    ] {
        if !near(found, expected, scale) {
            wrong.push(format!("{what} {found}, expected {expected}"));
        }
    }
    for (found, expected) in mined
        .gradient
        .iter()
        .zip(expected.gradient.unwrap_or_default())
    {
        if !near(f64::from(*found), expected, of_gradient) {
            wrong.push(format!("gradient {found}, expected {expected}"));
        }
    }
    if wrong.is_empty() {
        return Ok(());
    }
    Err(format!("{name} {arguments} {loss:?}: {}", wrong.join("; ")))
}

#[test]
fn what_is_kept_and_what_it_costs_equal_pml() {
    let cases = cases();
    assert_eq!(cases.len(), 300);
    for engine in engines() {
        let mut wrong = Vec::new();
        for (number, case) in cases.iter().enumerate() {
            for (name, run_of) in MINERS.into_iter().zip(case.runs.clone()) {
                if let Err(what) = difference(&engine, name, case, run_of) {
                    wrong.push(format!("case {number}: {what}"));
                }
            }
        }
        let on = &engine.info().engine;
        let count = wrong.len();
        wrong.truncate(8);
        assert!(wrong.is_empty(), "{count} on {on}: {wrong:#?}");
    }
}

/// Results of wrong implementations must not pass: each fault is planted in the settings or the rows.
#[test]
fn planted_faults_are_rejected() {
    let cases = cases();
    let [_, engine] = engines();
    type Fault = (&'static str, fn(&mut Case, &mut String, &mut Settings));
    let faults: [Fault; 5] = [
        (
            "a margin of the loss that is off by a thousandth",
            |_, _, loss| loss.0 += 0.001,
        ),
        (
            "the hinge for the smooth loss, and the other way",
            |_, _, loss| loss.2 = 1 - loss.2,
        ),
        ("arguments left at their defaults", |_, arguments, _| {
            arguments.clear();
        }),
        ("a label that is wrong", |case, _, _| {
            case.labels.replace_range(0..1, "Z");
        }),
        ("a row that is wrong", |case, _, _| {
            case.rows = case.rows.chars().rev().collect();
        }),
    ];
    for (what, plant) in faults {
        for (place, name) in MINERS.into_iter().enumerate() {
            if what.starts_with("arguments") && ["none", "batch-hard"].contains(&name) {
                continue;
            }
            let rejected = cases.iter().filter(|case| {
                let mut faulty = (*case).clone();
                let mut run_of = faulty.runs[place].clone();
                match &mut run_of {
                    Run::Short(arguments, loss, ..) | Run::Whole(arguments, loss, ..) => {
                        plant(&mut faulty, arguments, loss);
                    }
                }
                difference(&engine, name, &faulty, run_of).is_err()
            });
            // About a third of the sets have no triplet at all, or none that costs anything.
            let rejected = rejected.count();
            assert!(rejected > 60, "{what}, {name}: {rejected}");
        }
    }
}
