//! Ten training steps on given weights and batches equal those of torch and pytorch-metric-learning, whose run
//! `tests/golden/trace.py` recorded.

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::common::engines;
use nearfar::{
    Dataset, Engine, Labelled, LayerWeights, Optimizer, Schedule, Standardize, TrainConfig, Trainer,
};
use serde::Deserialize;

/// Ten steps of f32 in another order of sums; learning rate 1e-2 moves weights by up to 0.1.
const TOLERANCE: f64 = 1e-4;

#[derive(Clone, Deserialize)]
struct Trace {
    name: String,
    hidden: Vec<usize>,
    embedding: usize,
    batch: usize,
    memory: usize,
    r#type: Option<String>,
    miner: Option<String>,
    #[serde(default)]
    arguments: serde_json::Map<String, serde_json::Value>,
    distance: Option<String>,
    /// The memory's rows are rounded to half precision.
    #[serde(default)]
    half: bool,
    #[serde(default)]
    swap: bool,
    #[serde(default)]
    smooth: bool,
    #[serde(default = "default_margin")]
    miner_margin: f64,
    #[serde(default = "default_margin")]
    loss_margin: f64,
    #[serde(default)]
    weight_decay: f64,
    features: Vec<f32>,
    labels: Vec<u32>,
    start: Vec<Layer>,
    steps: Vec<Step>,
    end: Vec<Layer>,
}

fn default_margin() -> f64 {
    0.2
}

#[derive(Clone, Deserialize)]
struct Layer {
    index: usize,
    shape: [usize; 2],
    weight: Vec<f32>,
    bias: Vec<f32>,
    #[serde(default)]
    norm: Option<Norm>,
    skip: Option<Vec<f32>>,
}

#[derive(Clone, Deserialize)]
struct Norm {
    weight: Vec<f32>,
    bias: Vec<f32>,
    running_mean: Option<Vec<f32>>,
    running_var: Option<Vec<f32>>,
}

#[derive(Clone, Deserialize)]
struct Step {
    rows: Vec<u32>,
    loss: f64,
    mined: Option<u64>,
}

fn traces() -> Vec<Trace> {
    serde_json::from_str(include_str!("../golden/trace.json")).expect("the script wrote it")
}

/// Largest difference of any loss or final weight; an error if anything else differs.
fn difference(engine: Engine, trace: &Trace) -> Result<f64, String> {
    let dataset = Dataset::new(Labelled {
        name: trace.name.clone(),
        values: trace.features.clone(),
        dim: trace.features.len() / trace.labels.len(),
        labels: trace.labels.iter().map(u32::to_string).collect(),
        ..Labelled::default()
    });
    let mut config = TrainConfig {
        test_fraction: 0.0,
        validation_fraction: 0.0,
        hidden_layers: trace.hidden.clone(),
        embedding_size: trace.embedding,
        batch_size: trace.batch,
        memory_size: trace.memory,
        // The script took unscaled rows.
        standardize: Standardize::Off,
        ..TrainConfig::default()
    };
    let mut sets = vec![
        "optimizer.lr=0.01".to_owned(),
        format!("optimizer.weight_decay={}", trace.weight_decay),
        format!("loss.margin={}", trace.loss_margin),
        format!("loss.swap={}", trace.swap),
        format!("loss.smooth_loss={}", trace.smooth),
    ];
    if trace.half {
        sets.push("memory_precision=f16".to_owned());
    }
    if let Some(distance) = &trace.distance {
        sets.push(format!("distance={distance}"));
    }
    if let Some(miner) = &trace.miner {
        sets.push(format!("miner.name={miner}"));
        let arguments = trace.arguments.iter();
        sets.extend(arguments.map(|(key, value)| format!("miner.{key}={value}")));
    }
    match &trace.r#type {
        None if trace.miner.is_some() => {}
        None => sets.push("miner.name=none".to_owned()),
        Some(kind) => {
            sets.push(format!("miner.type_of_triplets={kind}"));
            sets.push(format!("miner.margin={}", trace.miner_margin));
        }
    }
    // Default margins depend on the distance: it is set first.
    sets.sort_by_key(|set| !set.starts_with("distance="));
    for set in sets {
        config = config.with_set(&set).expect("sets");
    }
    pollster::block_on(async {
        let dataset = Rc::new(dataset.expect("several classes"));
        let mut trainer = Trainer::new(engine, dataset, config).await.expect("fits");
        let weights = |layers: &[Layer]| -> Vec<LayerWeights> {
            let one = |layer: &Layer| LayerWeights {
                index: layer.index,
                shape: layer.shape,
                weight: layer.weight.clone(),
                bias: layer.bias.clone(),
                ..LayerWeights::default()
            };
            layers.iter().map(one).collect()
        };
        trainer
            .set_weights(&weights(&trace.start))
            .await
            .expect("takes them");
        let mut worst = 0f64;
        for (i, step) in trace.steps.iter().enumerate() {
            let report = trainer.step_on(&step.rows).await.expect("steps");
            worst = worst.max((report.loss - step.loss).abs());
            if step.mined.is_some_and(|mined| mined != report.mining.mined) {
                return Err(format!(
                    "step {}: {:?}, expected {:?}",
                    i + 1,
                    report.mining,
                    step.mined
                ));
            }
        }
        let end = trainer.weights().await.expect("reads");
        for (actual, expected) in end.iter().zip(weights(&trace.end)) {
            assert_eq!(
                (actual.index, actual.shape),
                (expected.index, expected.shape)
            );
            let pairs = actual.weight.iter().zip(&expected.weight);
            for (a, e) in pairs.chain(actual.bias.iter().zip(&expected.bias)) {
                worst = worst.max(f64::from((a - e).abs()));
            }
        }
        Ok(worst)
    })
}

#[test]
fn ten_steps_equal_torch_and_pml() {
    for trace in traces() {
        for engine in engines() {
            let on = engine.info().engine.clone();
            let worst = difference(engine, &trace);
            assert!(
                worst.as_ref().is_ok_and(|worst| *worst < TOLERANCE),
                "{} on {on}: {worst:?}",
                trace.name
            );
        }
    }
}

/// Results of wrong implementations must not pass: each fault is planted in the settings or the batches.
#[test]
fn planted_faults_are_rejected() {
    let trace = traces().swap_remove(0);
    type Fault = (&'static str, fn(&mut Trace));
    let faults: [Fault; 9] = [
        ("a margin of the miner that is off by a hundredth", |t| {
            t.miner_margin = 0.21;
        }),
        ("a margin of the loss that is off by a hundredth", |t| {
            t.loss_margin = 0.21;
        }),
        ("all triplets instead of the semihard", |t| {
            t.r#type = Some("all".to_owned());
        }),
        ("a memory of one row more", |t| t.memory += 1),
        ("no memory", |t| t.memory = 0),
        ("a batch that came one step late", |t| {
            t.steps[4].rows = t.steps[3].rows.clone();
        }),
        ("a label that is wrong", |t| t.labels[0] = 1),
        ("a weight that is off", |t| t.start[0].weight[0] += 0.01),
        ("a little weight decay", |t| t.weight_decay = 0.1),
    ];
    for (what, plant) in faults {
        let mut faulty = trace.clone();
        plant(&mut faulty);
        for engine in engines() {
            let worst = difference(engine, &faulty);
            assert!(
                !worst.as_ref().is_ok_and(|worst| *worst < TOLERANCE),
                "{what}: {worst:?}"
            );
        }
    }
}

/// Traces of losses of every other kind, in the format of `tests/golden/proxy_trace.py`.
#[derive(Clone, Deserialize)]
struct Kinds {
    features: Vec<f32>,
    labels: Vec<u32>,
    traces: Vec<Kind>,
}

/// One trace; `loss` and `miner` are as in settings.
#[derive(Clone, Deserialize)]
struct Kind {
    name: String,
    loss: serde_json::Value,
    miner: Option<serde_json::Value>,
    distance: String,
    hidden: Vec<usize>,
    embedding: usize,
    batch: usize,
    memory: usize,
    rate: f64,
    proxy_rate: Option<f64>,
    beta_rate: Option<f64>,
    weighed: bool,
    start: Vec<Layer>,
    proxies_start: Option<Vec<f32>>,
    steps: Vec<Step>,
    end: Vec<Layer>,
    proxies_end: Option<Vec<f32>>,
    beta_end: Option<f64>,
    /// As in settings, without the rate.
    optimizer: Option<serde_json::Value>,
    schedule: Option<serde_json::Value>,
    clip_grad_norm: Option<f64>,
    layers: Option<serde_json::Value>,
    matryoshka: Option<serde_json::Value>,
}

fn kinds() -> Kinds {
    serde_json::from_str(include_str!("../golden/proxy_trace.json")).expect("the script wrote it")
}

/// The largest difference of any loss, final weight, final proxy or the final boundary.
fn difference_of(engine: Engine, all: &Kinds, trace: &Kind) -> f64 {
    let dataset = Dataset::new(Labelled {
        name: trace.name.clone(),
        values: all.features.clone(),
        dim: all.features.len() / all.labels.len(),
        labels: all.labels.iter().map(u32::to_string).collect(),
        ..Labelled::default()
    });
    let mut loss = trace.loss.clone();
    if let Some(rate) = trace.proxy_rate {
        loss["proxy_lr"] = rate.into();
    }
    if let Some(rate) = trace.beta_rate {
        loss["beta_lr"] = rate.into();
    }
    let none = serde_json::json!({ "name": "none" });
    let constant = serde_json::json!({ "name": "constant" });
    let adam = serde_json::json!({ "name": "adam" });
    let mut optimizer = trace.optimizer.clone().unwrap_or(adam);
    optimizer["lr"] = trace.rate.into();
    let config: TrainConfig = serde_json::from_value(serde_json::json!({
        "standardize": false,
        "test_fraction": 0.0,
        "validation_fraction": 0.0,
        "hidden_layers": trace.hidden,
        "layers": trace.layers.clone().unwrap_or_else(|| serde_json::json!({})),
        "matryoshka": trace.matryoshka.clone().unwrap_or_else(|| serde_json::json!({})),
        "embedding_size": trace.embedding,
        "batch_size": trace.batch,
        "memory_size": trace.memory,
        "miner": trace.miner.as_ref().unwrap_or(&none),
        "distance": trace.distance,
        "miner_weights": trace.weighed,
        "loss": loss,
        "optimizer": optimizer,
        "schedule": trace.schedule.as_ref().unwrap_or(&constant),
        "clip_grad_norm": trace.clip_grad_norm.unwrap_or(0.0),
        "steps": trace.steps.len(),
    }))
    .expect("settings");
    let weights = |layers: &[Layer]| -> Vec<LayerWeights> {
        let one = |layer: &Layer| LayerWeights {
            index: layer.index,
            shape: layer.shape,
            weight: layer.weight.clone(),
            bias: layer.bias.clone(),
            skip: layer.skip.clone(),
            ..LayerWeights::default()
        };
        layers.iter().map(one).collect()
    };
    pollster::block_on(async {
        let dataset = Rc::new(dataset.expect("several classes"));
        let mut trainer = Trainer::new(engine, dataset, config).await.expect("fits");
        let mut start = weights(&trace.start);
        let first = trainer.weights().await.expect("reads");
        for ((own, first), given) in start.iter_mut().zip(first).zip(&trace.start) {
            own.norm = first.norm.map(|mut norm| {
                let Some(given) = &given.norm else {
                    return norm;
                };
                norm.weight.clone_from(&given.weight);
                norm.bias.clone_from(&given.bias);
                norm
            });
        }
        trainer.set_weights(&start).await.expect("takes them");
        if let Some(proxies) = &trace.proxies_start {
            trainer.set_proxies(proxies).await.expect("takes them");
        }
        let mut worst = 0f64;
        for step in &trace.steps {
            let report = trainer.step_on(&step.rows).await.expect("steps");
            worst = worst.max((report.loss - step.loss).abs());
            if step.mined.is_some_and(|mined| mined != report.mining.mined) {
                return f64::INFINITY;
            }
        }
        let end = trainer.weights().await.expect("reads");
        let mut ends = end.iter().zip(&trace.end);
        if ends.any(|(found, expected)| found.skip.is_some() != expected.skip.is_some()) {
            return f64::INFINITY;
        }
        let mut far = |found: &[f32], expected: &[f32]| {
            assert_eq!(found.len(), expected.len());
            for (a, e) in found.iter().zip(expected) {
                worst = worst.max(f64::from((a - e).abs()));
            }
        };
        for (found, expected) in end.iter().zip(weights(&trace.end)) {
            far(&found.weight, &expected.weight);
            far(&found.bias, &expected.bias);
            far(
                found.skip.as_deref().unwrap_or_default(),
                expected.skip.as_deref().unwrap_or_default(),
            );
        }
        let norms = end.iter().zip(&trace.end);
        for (found, expected) in norms.filter_map(|(a, b)| a.norm.as_ref().zip(b.norm.as_ref())) {
            far(&found.weight, &expected.weight);
            far(&found.bias, &expected.bias);
            if let (Some([mean, variance]), Some(means)) = (&found.running, &expected.running_mean)
            {
                far(mean, means);
                far(
                    variance,
                    expected.running_var.as_ref().expect("comes with it"),
                );
            }
        }
        let proxies = trainer.proxies().await.expect("reads");
        far(&proxies, trace.proxies_end.as_deref().unwrap_or(&[]));
        let boundary = trainer.boundary().await.expect("reads");
        assert_eq!(boundary.is_some(), trace.beta_end.is_some());
        let moved = boundary
            .zip(trace.beta_end)
            .map(|(found, expected)| found - expected);
        worst.max(moved.unwrap_or(0.0).abs())
    })
}

/// Every trace is followed on both engines.
fn assert_equal(all: &Kinds) {
    for trace in &all.traces {
        for engine in engines() {
            let on = engine.info().engine.clone();
            let worst = difference_of(engine, all, trace);
            println!("{} on {on}: {worst:.1e}", trace.name);
            assert!(worst < TOLERANCE, "{} on {on}: {worst}", trace.name);
        }
    }
}

#[test]
fn ten_steps_with_losses_of_every_kind_equal_torch_and_pml() {
    let all = kinds();
    assert_eq!(all.traces.len(), 16);
    for trace in &all.traces {
        for engine in engines() {
            let on = engine.info().engine.clone();
            let worst = difference_of(engine, &all, trace);
            assert!(worst < TOLERANCE, "{} on {on}: {worst}", trace.name);
        }
    }
}

#[test]
fn planted_faults_in_losses_of_every_kind_are_rejected() {
    /// A fault by name, and a test for the traces in which it has an effect.
    type Fault = (&'static str, fn(&mut Kind), fn(&Kind) -> bool);
    let faults: [Fault; 8] = [
        (
            "a weight that is off",
            |t| t.start[0].weight[0] += 0.01,
            |_| true,
        ),
        (
            "a batch that came one step late",
            |t| t.steps[4].rows = t.steps[3].rows.clone(),
            |_| true,
        ),
        ("another learning rate", |t| t.rate *= 1.1, |_| true),
        (
            "another learning rate of the proxies",
            |t| t.proxy_rate = t.proxy_rate.map(|rate| 1.1 * rate),
            |t| t.proxy_rate.is_some(),
        ),
        (
            "a proxy that is off",
            |t| {
                if let Some(proxies) = &mut t.proxies_start {
                    proxies[0] += 0.01;
                }
            },
            |t| t.proxies_start.is_some(),
        ),
        (
            "weights of rows left out",
            |t| t.weighed = false,
            |t| t.weighed,
        ),
        (
            "another learning rate of the boundary",
            |t| t.beta_rate = t.beta_rate.map(|rate| 1.1 * rate),
            |t| t.beta_rate.is_some(),
        ),
        (
            "a boundary that is not pulled",
            |t| t.loss["nu"] = 0.into(),
            |t| t.loss.get("nu").is_some(),
        ),
    ];
    let all = kinds();
    for trace in &all.traces {
        for (what, plant, _) in faults.iter().filter(|(_, _, of)| of(trace)) {
            let mut faulty = trace.clone();
            plant(&mut faulty);
            let engine = engines().into_iter().last().expect("the CPU engine");
            let worst = difference_of(engine, &all, &faulty);
            assert!(worst >= TOLERANCE, "{}: {what}: {worst}", trace.name);
        }
    }
}

/// Traces of optimizers and schedules, in the same format, by `tests/golden/optimizers.py`.
fn optimizers() -> Kinds {
    serde_json::from_str(include_str!("../golden/optimizers.json")).expect("the script wrote it")
}

#[test]
fn ten_steps_of_every_optimizer_and_schedule_equal_torch() {
    let all = optimizers();
    assert_eq!(all.traces.len(), 20);
    let names = |part: fn(&Kind) -> &Option<serde_json::Value>| -> BTreeSet<String> {
        let named = all.traces.iter().filter_map(|trace| part(trace).as_ref());
        named
            .map(|part| part["name"].as_str().expect("has a name").to_owned())
            .chain(["constant".to_owned()])
            .collect()
    };
    let (optimizers, schedules) = (names(|t| &t.optimizer), names(|t| &t.schedule));
    assert!(
        Optimizer::ALL
            .iter()
            .all(|(name, _)| optimizers.contains(*name))
    );
    assert!(
        Schedule::ALL
            .iter()
            .all(|(name, _)| schedules.contains(*name))
    );
    assert_equal(&all);
}

/// Every argument of every optimizer and schedule counts: each number that is changed by a tenth, and each switch that is turned.
#[test]
fn planted_faults_in_optimizers_and_schedules_are_rejected() {
    let all = optimizers();
    let mut planted = 0;
    for trace in &all.traces {
        let mut faulty = Vec::new();
        for part in ["optimizer", "schedule", "clip_grad_norm"] {
            let mut numbers = serde_json::json!({
                "optimizer": trace.optimizer,
                "schedule": trace.schedule,
                "clip_grad_norm": trace.clip_grad_norm,
            });
            let changed = match &mut numbers[part] {
                serde_json::Value::Object(arguments) => changes(arguments),
                serde_json::Value::Number(number) => {
                    let more = number.as_f64().expect("is a number") * 1.1;
                    vec![(part.to_owned(), more.into())]
                }
                _ => continue,
            };
            for (what, value) in changed {
                let mut trace = trace.clone();
                match part {
                    "optimizer" => trace.optimizer = Some(value),
                    "schedule" => trace.schedule = Some(value),
                    _ => trace.clip_grad_norm = value.as_f64(),
                }
                faulty.push((what, trace));
            }
        }
        for (what, faulty) in faulty {
            let engine = engines().into_iter().last().expect("the CPU engine");
            let worst = difference_of(engine, &all, &faulty);
            assert!(worst >= TOLERANCE, "{}: {what}: {worst}", trace.name);
            planted += 1;
        }
    }
    assert!(planted > 40, "{planted}");
}

/// The part with each of its arguments changed in turn, as far as that has an effect in the trace.
fn changes(
    arguments: &serde_json::Map<String, serde_json::Value>,
) -> Vec<(String, serde_json::Value)> {
    use serde_json::Value;

    let has = |name: &str| arguments.get(name).is_some_and(|value| value == true);
    let mut changed = Vec::new();
    for (key, value) in arguments {
        let other: Value = match (key.as_str(), value) {
            // Far below the root of the second moment, or the last rate of all.
            ("eps", value) if value.as_f64().is_some_and(|eps| eps < 1e-6) => continue,
            ("final_div_factor", value) if value.as_f64().is_some_and(|by| by > 100.0) => continue,
            // A rate that never rises has no first value.
            ("div_factor", _) if arguments["pct_start"] == 0.0 => continue,
            // Not read.
            ("base_momentum" | "max_momentum", _) if !has("cycle_momentum") => continue,
            ("betas", Value::Array(betas)) => {
                let [first, second] = [0, 1].map(|at| betas[at].as_f64().expect("is a number"));
                serde_json::json!([first - 0.05, second - 0.05])
            }
            ("max_momentum", _) => 0.99.into(),
            ("momentum", _) if value == 0.0 => continue,
            (_, Value::Bool(on)) if *on || has("momentum") => (!on).into(),
            (_, Value::Number(number)) if number.is_u64() => {
                (number.as_u64().unwrap_or_default() + 1).into()
            }
            (_, Value::Number(number)) if number.as_f64() != Some(0.0) => {
                (number.as_f64().unwrap_or_default() * 0.9).into()
            }
            _ => continue,
        };
        let mut part = arguments.clone();
        part.insert(key.clone(), other);
        changed.push((key.clone(), Value::Object(part)));
    }
    changed
}

/// Traces of heads with other parts than the default, in the same format, by `tests/golden/layers.py`.
fn layers() -> Kinds {
    serde_json::from_str(include_str!("../golden/layers.json")).expect("the script wrote it")
}

#[test]
fn ten_steps_of_every_part_of_a_head_equal_torch() {
    let all = layers();
    assert_eq!(all.traces.len(), 13);
    assert_equal(&all);
}

#[test]
fn planted_faults_in_the_parts_of_a_head_are_rejected() {
    let all = layers();
    for trace in &all.traces {
        let parts = trace.layers.as_ref().and_then(serde_json::Value::as_object);
        for part in parts.expect("has parts").keys() {
            let mut faulty = trace.clone();
            let parts = faulty.layers.as_mut();
            parts
                .and_then(serde_json::Value::as_object_mut)
                .and_then(|parts| parts.remove(part));
            let engine = engines().into_iter().last().expect("the CPU engine");
            let worst = difference_of(engine, &all, &faulty);
            assert!(
                worst >= TOLERANCE,
                "{}: without {part}: {worst}",
                trace.name
            );
        }
    }
}

/// Traces of losses over embeddings of several sizes, in the same format, by `tests/golden/matryoshka.py`.
fn matryoshka() -> Kinds {
    serde_json::from_str(include_str!("../golden/matryoshka.json")).expect("the script wrote it")
}

#[test]
fn ten_steps_of_losses_of_truncated_embeddings_equal_torch_and_pml() {
    let all = matryoshka();
    assert_eq!(all.traces.len(), 10);
    assert_equal(&all);
}

#[test]
fn planted_faults_in_losses_of_truncated_embeddings_are_rejected() {
    /// A fault by name, and its change of the sizes.
    type Fault = (&'static str, fn(&mut serde_json::Value));
    let faults: [Fault; 4] = [
        ("whole embeddings alone", |sizes| {
            *sizes = serde_json::json!({});
        }),
        ("a size of one more", |sizes| {
            let dims = sizes["dims"].as_array_mut().expect("a list");
            let least = dims
                .iter_mut()
                .min_by_key(|dim| dim.as_u64())
                .expect("some");
            *least = (least.as_u64().unwrap_or_default() + 1).into();
        }),
        ("a size left out", |sizes| {
            let whole = |dim: &serde_json::Value| dim.as_u64() == Some(8);
            let dims = sizes["dims"].as_array_mut().expect("a list");
            dims.retain(whole);
            sizes["weights"] = serde_json::json!([]);
        }),
        ("another weight", |sizes| {
            let count = sizes["dims"].as_array().map_or(0, Vec::len);
            let weights = (0..count).map(|i| 0.3 + i as f64);
            sizes["weights"] = weights.collect::<Vec<f64>>().into();
        }),
    ];
    let all = matryoshka();
    for trace in &all.traces {
        for (what, plant) in &faults {
            let mut faulty = trace.clone();
            plant(faulty.matryoshka.as_mut().expect("has sizes"));
            let engine = engines().into_iter().last().expect("the CPU engine");
            let worst = difference_of(engine, &all, &faulty);
            assert!(worst >= TOLERANCE, "{}: {what}: {worst}", trace.name);
        }
    }
}
