//! The recipe of a run as a PyTorch script: the same loss, miner, sampler and memory in PML, plain or under `torchrun`.
//!
//! The template `train.py` in this folder has gaps, `@NAME@`, which are filled from the settings here. Settings have PML's names,
//! so that most arguments are copied.

use serde_json::{Map, Value};

use super::results::{DATA, Results, data_name};
use super::text::python;
use crate::base::error::{Error, Result};
use crate::cpu::{Distance, Norm, Precision};
use crate::model::scaling::ScalingKind;
use crate::rules::config::{InitialWeights, TrainConfig};
use crate::rules::losses::Loss;
use crate::rules::miners::Miner;
use crate::rules::optimizers::Optimizer;
use crate::rules::samplers::Sampler;
use crate::rules::schedules::Schedule;
use crate::run::RunReport;

const TEMPLATE: &str = include_str!("train.py");

/// The script of a run.
///
/// # Errors
/// [`Error::Config`] for a setting that PML has no counterpart for.
pub(super) fn script(results: &Results) -> Result<Vec<u8>> {
    let (report, config) = (&results.report, &results.report.config);
    check(config)?;
    let data = match results.data {
        Some(_) => DATA,
        None => data_name(report),
    };
    let label = match results.data {
        Some(_) => Some("y"),
        None => report.data.label_column.as_deref(),
    };
    let outer = match &config.sampler {
        Sampler::Hierarchical(sampler) => Some(&sampler.outer_label),
        _ => None,
    };
    let scaling = match report.data.scaling {
        ScalingKind::None => Value::Null,
        kind => serde_json::to_value(kind).unwrap_or_default(),
    };
    let gaps = [
        ("DATA", python(data)),
        ("LABELS", literal(&serde_json::json!(label))),
        ("GROUP", literal(&serde_json::json!(config.group))),
        ("HIDDEN", python(&config.hidden_layers)),
        ("EMBEDDING", python(config.embedding_size)),
        ("ACTIVATION", config.layers.activation.class().to_owned()),
        ("NORM", norm(config.layers.norm)),
        (
            "SKIP",
            literal(&(config.layers.skip && !config.hidden_layers.is_empty()).into()),
        ),
        ("SIZES", sizes(config)),
        ("DROPOUT", python(config.dropout)),
        ("SEED", python(config.seed)),
        ("STEPS", python(config.steps)),
        ("BATCH", python(config.batch_size)),
        ("EARLY_STOP", early_stop(report)),
        ("LR", python(config.optimizer.lr())),
        ("LOSS_GROUP", literal(&loss_group(&config.loss))),
        ("CLIP", python(config.clip_grad_norm)),
        ("OPTIMIZER", optimizer(&config.optimizer)),
        ("SCHEDULE", schedule(&config.schedule)),
        ("MEMORY", python(config.memory())),
        ("MEMORY_START", python(config.memory_start_step)),
        ("MEMORY_IS_HALF", is_half(config.precision_of_memory())),
        ("SCALING", literal(&scaling)),
        ("FEATURES_ARE_HALF", is_half(config.feature_precision)),
        (
            "ACTIVATIONS_ARE_HALF",
            is_half(config.precision_of_activations()),
        ),
        ("CENTER_GRADIENT", literal(&config.center_gradient.into())),
        (
            "DECIMAL",
            literal(&serde_json::json!(report.data.marks.decimal)),
        ),
        (
            "THOUSANDS",
            literal(&serde_json::json!(report.data.marks.thousands)),
        ),
        ("ON", literal(&serde_json::json!(report.data.on))),
        (
            "LEFT_OUT",
            literal(&serde_json::json!(report.data.left_out)),
        ),
        ("MISSING", literal(&serde_json::json!(report.data.missing))),
        (
            "FROM_LDA",
            literal(&(config.initial_weights == InitialWeights::Lda).into()),
        ),
        ("LOSS_NOTE", note(loss_note(config))),
        ("LOSS", loss(config)),
        ("MINER_NOTE", note(miner_note(config))),
        ("MINER", miner(config)),
        ("SAMPLER_NOTE", note(sampler_note(&config.sampler))),
        ("SAMPLER", sampler(config)),
        ("OUTER", literal(&serde_json::json!(outer))),
    ];
    // The template is read once, so that a gap's name within a filled-in value is left alone.
    let mut parts = TEMPLATE.split('@');
    let mut text = parts.next().unwrap_or_default().to_owned();
    while let Some(part) = parts.next() {
        match gaps.iter().find(|(name, _)| *name == part) {
            Some((_, value)) => {
                text.push_str(value);
                text.push_str(parts.next().unwrap_or_default());
            }
            // A matrix product, or a decorator.
            None => {
                text.push('@');
                text.push_str(part);
            }
        }
    }
    Ok(text.into_bytes())
}

/// The class of a norm; `None` if there is none.
fn norm(norm: Norm) -> String {
    match norm {
        Norm::None => "None".to_owned(),
        norm => format!("torch.nn.{}", norm.class()),
    }
}

/// Sizes that embeddings are truncated to, each with the weight of its loss; the whole one alone without such a loss.
fn sizes(config: &TrainConfig) -> String {
    let levels = config.matryoshka.levels().into_iter();
    let mut sizes: Vec<_> = levels.map(|level| (level.dim, level.weight)).collect();
    if sizes.is_empty() {
        sizes.push((config.embedding_size, 1.0));
    }
    python(sizes)
}

/// Refuses settings that PML has no counterpart for.
pub(super) fn check(config: &TrainConfig) -> Result<()> {
    if !config.matryoshka.dims.is_empty() && config.loss.learns_proxies() {
        return Err(Error::Config(
            "torchrun: PML's losses with proxies have none that are truncated with the embeddings (matryoshka.dims): no script is \
             written for this run; train with a loss without proxies for one"
                .to_owned(),
        ));
    }
    let is_mined = config.miner != Miner::None && is_mined(config);
    let (what, name) = if config.loss.pml().is_none() {
        ("loss", named(&config.loss))
    } else if is_mined && config.miner.pml().is_none() {
        ("miner", named(&config.miner))
    } else {
        return Ok(());
    };
    Err(Error::Config(format!(
        "torchrun: PML has no {what} like `{name}`: no script is written for this run; train with another {what} for one"
    )))
}

/// The name of a part of the settings.
fn named(part: &impl serde::Serialize) -> String {
    let part = serde_json::to_value(part).unwrap_or_default();
    part["name"].as_str().unwrap_or_default().to_owned()
}

/// A JSON value as Python writes it.
fn literal(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        value => value.to_string(),
    }
}

/// Tells in Python if it is half precision.
fn is_half(precision: Precision) -> String {
    literal(&(precision == Precision::F16).into())
}

/// A comment at the start of a function's body; empty if `None`. Never text from outside.
fn note(text: Option<&str>) -> String {
    text.map_or_else(String::new, |text| format!("    # {text}\n"))
}

/// `module.Class(arguments)`; an argument without a name stands for itself.
fn call(class: &str, arguments: impl IntoIterator<Item = (String, String)>) -> String {
    let arguments = arguments.into_iter();
    let arguments: Vec<String> = arguments
        .map(|(name, value)| match name.is_empty() {
            true => value,
            false => format!("{name}={value}"),
        })
        .collect();
    format!("{class}({})", arguments.join(", "))
}

/// Comment on the steps of a run whose best step was kept: the script keeps the last.
fn early_stop(report: &RunReport) -> String {
    let step = report.best.map(|best| best.step);
    step.map_or_else(String::new, |step| {
        format!(
            "# The run kept its best step by validation rows (early_stop), step {step}. This script scores no validation rows: it takes all\n\
             # STEPS and keeps the last. --steps {step} ends at that step.\n"
        )
    })
}

fn distance(distance: Distance) -> (String, String) {
    let class = match distance {
        Distance::Cosine => "distances.CosineSimilarity()",
        Distance::L2 => "distances.LpDistance()",
    };
    ("distance".to_owned(), class.to_owned())
}

/// Arguments of a part of the settings, without its name.
fn arguments(part: &impl serde::Serialize, leave_out: &[&str]) -> Vec<(String, String)> {
    let all = match serde_json::to_value(part) {
        Ok(Value::Object(all)) => all,
        _ => Map::new(),
    };
    let kept = all
        .iter()
        .filter(|(name, _)| *name != "name" && !leave_out.contains(&name.as_str()));
    kept.map(|(name, value)| (name.clone(), literal(value)))
        .collect()
}

fn loss(config: &TrainConfig) -> String {
    let loss = &config.loss;
    let mut all = arguments(loss, &["proxy_lr", "beta_lr"]);
    if loss.learns_proxies() {
        all.push(("num_classes".to_owned(), "classes".to_owned()));
        all.push(("embedding_size".to_owned(), "EMBEDDING".to_owned()));
    }
    if loss.pml_takes_distance() {
        all.push(distance(config.distance));
    }
    call(&format!("losses.{}", loss.pml().unwrap_or_default()), all)
}

/// Group of the loss's own parameters: its learning rate, and no weight decay of a boundary.
fn loss_group(loss: &Loss) -> Value {
    match (loss.proxies(), loss.boundary_lr()) {
        (Some(proxies), _) => serde_json::json!({ "lr": proxies.lr }),
        (None, Some(lr)) => serde_json::json!({ "lr": lr, "weight_decay": 0 }),
        (None, None) => serde_json::json!({}),
    }
}

fn optimizer(optimizer: &Optimizer) -> String {
    let groups = (String::new(), "groups".to_owned());
    let all = [groups].into_iter().chain(arguments(optimizer, &["lr"]));
    call(optimizer.class(), all)
}

/// The schedule over the steps of the run; those that depend on their number get it as torch names it.
fn schedule(schedule: &Schedule) -> String {
    let given = match schedule {
        Schedule::Constant(_) => return "None".to_owned(),
        Schedule::CosineAnnealing(_) => Some(("T_max", "steps")),
        Schedule::OneCycle(_) => Some(("total_steps", "steps")),
        Schedule::Linear(_) | Schedule::Step(_) => None,
    };
    let of_the_run = given.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let rates = "[group[\"lr\"] for group in optimizer.param_groups]".to_owned();
    let rates = matches!(schedule, Schedule::OneCycle(_)).then(|| ("max_lr".to_owned(), rates));
    let all = [(String::new(), "optimizer".to_owned())].into_iter();
    let all = all.chain(rates).chain(of_the_run);
    call(schedule.class(), all.chain(arguments(schedule, &[])))
}

fn loss_note(config: &TrainConfig) -> Option<&'static str> {
    match &config.loss {
        Loss::Nca(_) if config.memory() > 0 => {
            Some("PML counts a row's own copy in the memory as a positive; Nearfar leaves it out.")
        }
        _ => None,
    }
}

/// Tells if a miner chooses the pairs or triplets of the loss, or weighs its rows.
fn is_mined(config: &TrainConfig) -> bool {
    config.loss.is_mined() || config.miner_weights
}

fn miner(config: &TrainConfig) -> String {
    let Some(class) = config.miner.pml().filter(|_| is_mined(config)) else {
        return "None".to_owned();
    };
    let mut all = arguments(&config.miner, &["seed"]);
    if config.miner.pml_takes_distance() {
        all.push(distance(config.chosen_by()));
    }
    call(&format!("miners.{class}"), all)
}

fn miner_note(config: &TrainConfig) -> Option<&'static str> {
    match &config.miner {
        Miner::DistanceWeighted(_) if is_mined(config) && config.memory() > 0 => Some(
            "PML draws a row's own copy in the memory as a positive too, and then leaves it out; Nearfar draws another one.",
        ),
        Miner::BatchEasyHard(_) if is_mined(config) && config.memory() > 0 => Some(
            "PML takes a row's own copy in the memory for its easiest positive, and then leaves it out; Nearfar takes the next one.",
        ),
        _ => None,
    }
}

fn sampler_note(sampler: &Sampler) -> Option<&'static str> {
    match sampler {
        Sampler::MPerClassEpoch(_) => Some(
            "PML has no sampler that draws every row of an epoch with m of a class in each batch: this one draws them at random.",
        ),
        Sampler::Hierarchical(_) => {
            Some("PML leaves batches short where a class has few rows; Nearfar fills them.")
        }
        _ => None,
    }
}

/// Body of the function that draws batches.
fn sampler(config: &TrainConfig) -> String {
    let class = format!("samplers.{}", config.sampler.pml());
    let body = match &config.sampler {
        Sampler::Shuffled(_) => {
            "while True:\n    order = torch.randperm(len(labels))\n    yield from order[: len(order) // BATCH * BATCH].split(BATCH)"
                .to_owned()
        }
        Sampler::MPerClass(_) | Sampler::MPerClassEpoch(_) => {
            let m = arguments(&config.sampler, &[]);
            let m = m.first().map_or("2", |(_, m)| m.as_str());
            format!(
                "sampler = {class}(labels, {m}, BATCH, length_before_new_iter=max(len(labels), BATCH))\nwhile True:\n    yield from (batch for batch in torch.tensor(list(sampler)).split(BATCH) if len(batch) == BATCH)"
            )
        }
        Sampler::ClassBalanced(_) => {
            "weights = torch.from_numpy(1 / np.bincount(labels)[labels])\nwhile True:\n    yield torch.multinomial(weights, BATCH, replacement=True)"
                .to_owned()
        }
        Sampler::Hierarchical(_) => {
            let all = call(&class, {
                let mut all = vec![
                    ("labels".to_owned(), "both".to_owned()),
                    ("batch_size".to_owned(), "BATCH".to_owned()),
                ];
                all.extend(arguments(&config.sampler, &["outer_label"]));
                all
            });
            format!(
                "both = np.stack([labels, np.unique(outer, return_inverse=True)[1]], axis=1)\nsampler = {all}\nwhile True:\n    yield from (torch.tensor(batch) for batch in sampler if len(batch) == BATCH)"
            )
        }
    };
    let lines: Vec<String> = body.lines().map(|line| format!("    {line}")).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::small;
    use super::*;

    fn with(sets: &[&str]) -> Result<String> {
        let mut results = small();
        for set in sets {
            results.report.config = results.report.config.with_set(set).expect("sets");
        }
        results.report.config.check().expect("in range");
        script(&results).map(|bytes| String::from_utf8(bytes).expect("text"))
    }

    #[test]
    fn a_script_has_the_settings_and_no_gaps() {
        let text = with(&["miner_distance=cosine"]).expect("is written");
        for part in [
            "HIDDEN, EMBEDDING, DROPOUT = [256], 64, 0.0",
            "return losses.TripletMarginLoss(margin=0.2, smooth_loss=False, swap=False, distance=distances.CosineSimilarity())",
            "return miners.TripletMarginMiner(margin=0.2, type_of_triplets=\"semihard\", distance=distances.CosineSimilarity())",
            "MEMORY, MEMORY_START, MEMORY_IS_HALF = 1024, 0, False",
            "@torch.no_grad()",
            "unit[rows] @ unit.T",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        let gap =
            |word: &str| word.len() > 1 && word.chars().all(|c| c.is_ascii_uppercase() || c == '_');
        let left: Vec<&str> = text.split('@').filter(|word| gap(word)).collect();
        assert_eq!(left, [""; 0]);
    }

    #[test]
    fn every_loss_miner_and_sampler_has_its_class_or_a_sentence() {
        for (name, _) in Loss::ALL {
            let text = with(&["miner=none", &format!("loss={name}")]);
            let loss = TrainConfig::default().with_set(&format!("loss={name}"));
            let Some(class) = loss.expect("is listed").loss.pml() else {
                let error = text.expect_err("PML has none").to_string();
                assert!(error.contains("PML has no loss"), "{error}");
                continue;
            };
            let call = format!("    return losses.{class}(");
            assert!(text.expect("is written").contains(&call), "{name}");
        }
        for (name, _) in Miner::ALL {
            let text = with(&[&format!("miner={name}")]);
            let miner = TrainConfig::default().with_set(&format!("miner={name}"));
            match name {
                // Its distance and its seed cannot be chosen in PML.
                "distance-weighted" => assert!(text.expect("is written").contains(
                    "    return miners.DistanceWeightedMiner(cutoff=0.5, nonzero_loss_cutoff=1.4)\n"
                )),
                "none" => assert!(
                    text.expect("is written")
                        .contains("def make_miner():\n    return None")
                ),
                _ => match miner.expect("is listed").miner.pml() {
                    Some(class) => {
                        let call = format!("    return miners.{class}(");
                        assert!(text.expect("is written").contains(&call), "{name}");
                    }
                    None => {
                        let error = text.expect_err("PML has none").to_string();
                        assert!(error.contains("PML has no miner"), "{error}");
                    }
                },
            }
        }
        for (name, _) in Sampler::ALL {
            let text = with(&[&format!("sampler={name}")]).expect("is written");
            assert!(
                text.contains("    while True:\n") && text.contains("\n        yield "),
                "{name}"
            );
        }
    }

    #[test]
    fn every_optimizer_and_schedule_is_torchs_with_its_arguments() {
        let of = |sets: &[&str]| with(sets).expect("is written");
        for (sets, part) in [
            (
                &[][..],
                "    return torch.optim.Adam(groups, betas=[0.9,0.999], eps=1e-8, weight_decay=0.0)\n",
            ),
            (
                &["optimizer=adamw"],
                "    return torch.optim.AdamW(groups, betas=[0.9,0.999], eps=1e-8, weight_decay=0.01)\n",
            ),
            (
                &[
                    "optimizer=sgd",
                    "optimizer.momentum=0.9",
                    "optimizer.nesterov=true",
                ],
                "    return torch.optim.SGD(groups, momentum=0.9, nesterov=True, weight_decay=0.0)\n",
            ),
            (
                &[],
                "def make_schedule(optimizer, steps):\n    return None\n",
            ),
            (
                &["schedule=cosine-annealing"],
                "    return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps, eta_min=0.0)\n",
            ),
            (
                &["schedule=one-cycle"],
                "    return torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=[group[\"lr\"] for group in \
                 optimizer.param_groups], total_steps=steps, base_momentum=0.85, cycle_momentum=True, div_factor=25.0, \
                 final_div_factor=10000.0, max_momentum=0.95, pct_start=0.3)\n",
            ),
            (
                &["schedule=linear"],
                "LinearLR(optimizer, end_factor=1.0, start_factor=0.3333333333333333, total_iters=5)\n",
            ),
            (
                &["schedule=step"],
                "StepLR(optimizer, gamma=0.1, step_size=100)\n",
            ),
            (
                &["memory_precision=f16"],
                "MEMORY, MEMORY_START, MEMORY_IS_HALF = 1024, 0, True\n",
            ),
            (&["feature_precision=f16"], "FEATURES_ARE_HALF = True\n"),
            (
                &["activation_precision=f16"],
                "ACTIVATIONS_ARE_HALF = True\n",
            ),
            (
                &["activation_precision=f16", "hidden_layers=[]"],
                "ACTIVATIONS_ARE_HALF = False\n",
            ),
            (
                &["memory_precision=f16", "memory_size=0"],
                "MEMORY, MEMORY_START, MEMORY_IS_HALF = 0, 0, False\n",
            ),
            (
                &["clip_grad_norm=0.5"],
                "LR, LOSS_GROUP, CLIP = 0.001, {}, 0.5\n",
            ),
            (
                &["loss=proxy-anchor", "loss.proxy_lr=0.25"],
                "LR, LOSS_GROUP, CLIP = 0.001, {\"lr\":0.25}, 0.0\n",
            ),
            (
                &["loss=margin", "loss.learn_beta=true", "miner=none"],
                "LR, LOSS_GROUP, CLIP = 0.001, {\"lr\":0.001,\"weight_decay\":0}, 0.0\n",
            ),
        ] {
            let text = of(sets);
            assert!(text.contains(part), "{sets:?}: {part}\n{text}");
        }
    }

    #[test]
    fn names_stay_text() {
        let mut results = small();
        let name = "a\"); import os  # \n'''@LOSS@.csv";
        results.report.data.name = name.to_owned();
        let text = String::from_utf8(script(&results).expect("is written")).expect("text");
        assert!(text.contains(&format!("DATA, LABELS = {}, ", python(name))));
        assert!(!text.contains("\n'''@"), "the line ends within the literal");
    }
}
