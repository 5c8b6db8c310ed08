//! The gradient of the whole model, from the features through layers, unit length, memory, miner and loss, agrees with
//! central differences of the f64 reference.

use std::cell::RefCell;
use std::rc::Rc;

use crate::common::{engines, rng, to_f64};
use half::f16;
use nearfar::kernels::gemm::Layer;
use nearfar::kernels::select::Selection;
use nearfar::kernels::stored::Precision;
use nearfar::kernels::stride;
use nearfar::kernels::triplet_loss::Weighing;
use nearfar::kernels::triplet_margin::{Kind, Rule};
use nearfar::{
    Activation, Dataset, Engine, Labelled, LayerWeights, Standardize, TrainConfig, Trainer,
    reference,
};
use rand::RngExt as _;

const ROWS: usize = 24;
const FEATURES: usize = 6;
const BATCH: usize = 8;

struct Case {
    sets: &'static [&'static str],
    kind: Kind,
    memory: usize,
}

impl Case {
    /// Weighing of a row's triplets, if the loss computes them one by one.
    fn by_rows(&self, rule: Rule) -> Option<Weighing> {
        let [swap, smooth] =
            ["loss.swap=true", "loss.smooth_loss=true"].map(|set| self.sets.contains(&set));
        (swap || smooth).then_some(Weighing {
            rule,
            swap,
            one_negative: false,
            smooth,
        })
    }
}

/// Loss and active triplets of every kept pair of every row.
fn row_losses(
    weighing: &Weighing,
    anchors: &[f64],
    anchor_tags: &[[u32; 2]],
    references: &[f64],
    tags: &[[u32; 2]],
) -> (f64, u64) {
    let (mut loss, mut active) = (0.0, 0);
    let selection = Selection::all(weighing.rule.distance);
    let s = |a: &[f64], b: usize| reference::dot(a, &references[b * 4..][..4]);
    for (anchor, tag) in anchors.chunks(4).zip(anchor_tags) {
        let values: Vec<f64> = (0..tags.len()).map(|place| s(anchor, place)).collect();
        let kept = reference::select(&selection, &values, tags, *tag);
        let weighed = reference::weigh(weighing, &values, &kept, |p, n| {
            s(&references[p * 4..][..4], n)
        });
        loss += weighed.loss;
        active += weighed.counts[3];
    }
    (loss / active.max(1) as f64, active)
}

const CASES: [Case; 26] = [
    Case {
        sets: &["hidden_layers=[]"],
        kind: Kind::Semihard,
        memory: 16,
    },
    Case {
        sets: &["hidden_layers=[7]", "miner.type_of_triplets=all"],
        kind: Kind::All,
        memory: 16,
    },
    Case {
        sets: &["hidden_layers=[7,5]", "miner.type_of_triplets=hard"],
        kind: Kind::Hard,
        memory: 16,
    },
    Case {
        sets: &["hidden_layers=[7,6,5,9]", "miner.name=none"],
        kind: Kind::Unmined,
        memory: 16,
    },
    Case {
        sets: &["hidden_layers=[7]"],
        kind: Kind::Semihard,
        memory: 0,
    },
    Case {
        sets: &["hidden_layers=[9,8]", "miner.type_of_triplets=all"],
        kind: Kind::All,
        memory: 0,
    },
    Case {
        // A linear head, and a step that moves rows well away from their copies: the root of what rounding leaves of
        // 2 - 2 s is rough where rows nearly coincide.
        sets: &[
            "hidden_layers=[]",
            "distance=l2",
            "loss.margin=0.2",
            "optimizer.lr=0.1",
        ],
        kind: Kind::Semihard,
        memory: 16,
    },
    Case {
        sets: &[
            "hidden_layers=[]",
            "distance=l2",
            "loss.margin=0.2",
            "miner.name=none",
        ],
        kind: Kind::Unmined,
        memory: 0,
    },
    // Triplets that are computed one by one.
    Case {
        sets: &[
            "hidden_layers=[7]",
            "miner.name=none",
            "loss.smooth_loss=true",
        ],
        kind: Kind::Unmined,
        memory: 16,
    },
    Case {
        sets: &["hidden_layers=[7]", "loss.smooth_loss=true"],
        kind: Kind::Semihard,
        memory: 0,
    },
    Case {
        sets: &["hidden_layers=[]", "miner.name=none", "loss.swap=true"],
        kind: Kind::Unmined,
        memory: 16,
    },
    Case {
        sets: &[
            "hidden_layers=[]",
            "miner.name=none",
            "loss.swap=true",
            "loss.smooth_loss=true",
        ],
        kind: Kind::Unmined,
        memory: 0,
    },
    // Outputs that a step drops; the stored rows have those of their own step.
    Case {
        sets: &["hidden_layers=[16,13]", "dropout=0.4", "miner.name=none"],
        kind: Kind::Unmined,
        memory: 16,
    },
    Case {
        sets: &["hidden_layers=[40]", "dropout=0.2", "miner.name=none"],
        kind: Kind::Unmined,
        memory: 0,
    },
    Case {
        sets: &[
            "hidden_layers=[7,6,5]",
            "layers.activation=gelu",
            "miner.name=none",
        ],
        kind: Kind::Unmined,
        memory: 16,
    },
    Case {
        sets: &[
            "hidden_layers=[16,13]",
            "layers.activation=gelu",
            "dropout=0.4",
            "miner.name=none",
        ],
        kind: Kind::Unmined,
        memory: 0,
    },
    Case {
        sets: &[
            "hidden_layers=[7,6]",
            "layers.norm=layer-norm",
            "miner.name=none",
        ],
        kind: Kind::Unmined,
        memory: 16,
    },
    Case {
        sets: &[
            "hidden_layers=[16,13]",
            "layers.norm=layer-norm",
            "layers.activation=gelu",
            "dropout=0.4",
            "miner.name=none",
        ],
        kind: Kind::Unmined,
        memory: 0,
    },
    Case {
        sets: &[
            "hidden_layers=[7,6]",
            "layers.norm=batch-norm",
            "miner.name=none",
        ],
        kind: Kind::Unmined,
        memory: 16,
    },
    Case {
        sets: &[
            "hidden_layers=[16,13]",
            "layers.norm=batch-norm",
            "layers.activation=gelu",
            "dropout=0.4",
            "miner.name=none",
        ],
        kind: Kind::Unmined,
        memory: 0,
    },
    Case {
        sets: &["hidden_layers=[7,6]", "layers.skip=true", "miner.name=none"],
        kind: Kind::Unmined,
        memory: 16,
    },
    Case {
        sets: &[
            "hidden_layers=[16]",
            "layers.skip=true",
            "layers.norm=batch-norm",
            "layers.activation=gelu",
            "dropout=0.4",
            "miner.name=none",
        ],
        kind: Kind::Unmined,
        memory: 0,
    },
    // Hidden activations that are rounded as they are stored.
    Case {
        sets: &[
            "hidden_layers=[7,6,5]",
            "activation_precision=f16",
            "miner.name=none",
        ],
        kind: Kind::Unmined,
        memory: 16,
    },
    Case {
        sets: &[
            "hidden_layers=[16,13]",
            "activation_precision=f16",
            "layers.activation=gelu",
            "dropout=0.4",
            "miner.name=none",
        ],
        kind: Kind::Unmined,
        memory: 0,
    },
    Case {
        sets: &[
            "hidden_layers=[16,13]",
            "activation_precision=f16",
            "layers.norm=layer-norm",
            "layers.activation=gelu",
            "miner.name=none",
        ],
        kind: Kind::Unmined,
        memory: 16,
    },
    Case {
        sets: &[
            "hidden_layers=[7,6]",
            "activation_precision=f16",
            "layers.norm=batch-norm",
            "layers.skip=true",
            "miner.name=none",
        ],
        kind: Kind::Unmined,
        memory: 0,
    },
];

/// What rounding to half precision adds to the activations of each place of a pass over rows.
type Rounding = Vec<Vec<f64>>;

/// Rounds the activations of a place; once that was done, adds what it added then: a gradient passes the rounding as it is.
fn round(values: &mut [f64], place: usize, rounding: &mut Rounding) {
    if rounding.len() == place {
        let added = values.iter().map(|v| f16::from_f64(*v).to_f64() - v);
        rounding.push(added.collect());
    }
    for (value, added) in values.iter_mut().zip(&rounding[place]) {
        *value += added;
    }
}

fn dataset() -> Rc<Dataset> {
    let mut rng = rng(11);
    let labels: Vec<u32> = (0..ROWS as u32).map(|row| row % 3).collect();
    let values = (0..ROWS * FEATURES)
        .map(|_| rng.random_range(-1.0..1.0))
        .collect();
    let labelled = Labelled {
        name: "random".to_owned(),
        values,
        dim: FEATURES,
        labels: labels.iter().map(u32::to_string).collect(),
        ..Labelled::default()
    };
    Rc::new(Dataset::new(labelled).expect("several classes"))
}

/// Layers without padding, and all weights in one vector.
fn flatten(weights: &[LayerWeights]) -> (Vec<Layer>, Vec<f64>) {
    let (mut layers, mut flat) = (Vec::new(), Vec::new());
    for (i, layer) in weights.iter().enumerate() {
        layers.push(Layer {
            inputs: layer.shape[1],
            outputs: layer.shape[0],
            weights: flat.len(),
            relu: false,
            of_relu: i > 0,
            adds: false,
        });
        flat.extend(to_f64(&layer.weight));
        flat.extend(to_f64(&layer.bias));
        if let Some(norm) = &layer.norm {
            flat.extend(to_f64(&norm.weight));
            flat.extend(to_f64(&norm.bias));
        }
        flat.extend(to_f64(layer.skip.as_deref().unwrap_or_default()));
    }
    (layers, flat)
}

async fn check(engine: Engine, case: &Case) {
    let on = engine.info().engine.clone();
    let data = dataset();
    let mut config = TrainConfig {
        test_fraction: 0.0,
        validation_fraction: 0.0,
        embedding_size: 4,
        batch_size: BATCH,
        memory_size: case.memory,
        // The reference takes unscaled rows.
        standardize: Standardize::Off,
        ..TrainConfig::default()
    };
    for set in case.sets {
        config = config.with_set(set).expect("sets");
    }
    let mut trainer = Trainer::new(engine, Rc::clone(&data), config)
        .await
        .expect("fits");
    let first: Vec<u32> = (0..BATCH as u32).collect();
    let second: Vec<u32> = (BATCH as u32 - 2..2 * BATCH as u32 - 2).collect();
    let before = trainer.weights().await.expect("reads");
    trainer.step_on(&first).await.expect("steps");
    let weights = trainer.weights().await.expect("reads");
    let report = trainer.step_on(&second).await.expect("steps");
    let gradients = trainer.gradients().await.expect("reads");

    let features = to_f64(data.features.in_memory().expect("in memory"));
    let halves = trainer.config().activation_precision == Precision::F16;
    let embed = |rows: &[u32],
                 weights: &[LayerWeights],
                 flat: Option<&[f64]>,
                 step: u64,
                 rounding: &mut Rounding| {
        let (layers, own) = flatten(weights);
        let mut rows: Vec<f64> = rows
            .iter()
            .flat_map(|row| &features[*row as usize * FEATURES..][..FEATURES])
            .copied()
            .collect();
        let (input, flat) = (rows.clone(), flat.unwrap_or(&own));
        for (i, layer) in layers.iter().enumerate() {
            rows = reference::mlp(std::slice::from_ref(layer), flat, &rows);
            let is_hidden = i + 1 < layers.len();
            let plain = weights[i].norm.is_none() && weights[i].activation == Activation::Relu;
            if halves && is_hidden && !plain {
                round(&mut rows, 2 * i, rounding);
            } else if halves && is_hidden {
                rounding.resize(rounding.len().max(2 * i + 1), Vec::new());
            }
            if let Some(norm) = &weights[i].norm {
                let width = layer.outputs;
                let [gain, shift] = [0, width].map(|at| &flat[layer.end() + at..][..width]);
                rows = match norm.running {
                    None => reference::layer_norm(&rows, gain, shift),
                    Some(_) => {
                        let moments = reference::column_moments(&rows, width);
                        reference::batch_norm(&rows, gain, shift, &moments)
                    }
                };
            }
            if is_hidden {
                let activated = |x: f64| match weights[i].activation {
                    Activation::Relu => x.max(0.0),
                    Activation::Gelu => reference::gelu(x),
                };
                rows.iter_mut().for_each(|x| *x = activated(*x));
            }
            if weights[i].skip.is_some() {
                let skip = flat[layer.end()..].chunks_exact(FEATURES);
                let skip: Vec<&[f64]> = skip.collect();
                let inputs = input.chunks_exact(FEATURES);
                let sums = inputs.flat_map(|x| skip.iter().map(|row| reference::dot(row, x)));
                rows.iter_mut().zip(sums).for_each(|(y, sum)| *y += sum);
            }
            if let Some(dropped) = trainer.dropped(i, step) {
                for (place, value) in rows.iter_mut().enumerate() {
                    let (row, column) = (place / layer.outputs, place % layer.outputs);
                    let draw = dropped.draw((row * stride(layer.outputs) + column) as u32);
                    let rate = f64::from(dropped.rate);
                    let keeps = f64::from(draw) >= rate * 2f64.powi(32);
                    *value *= if keeps { 1.0 / (1.0 - rate) } else { 0.0 };
                }
            }
            if halves && is_hidden {
                round(&mut rows, 2 * i + 1, rounding);
            }
        }
        reference::normalize(&rows, 4)
    };
    let tags = |rows: &[u32], first_id: u32| -> Vec<[u32; 2]> {
        rows.iter()
            .zip(first_id..)
            .map(|(row, id)| [data.labels[*row as usize], id])
            .collect()
    };
    let rule = Rule {
        distance: trainer.config().distance,
        kind: case.kind,
        miner_margin: 0.2,
        loss_margin: 0.2,
    };
    // The memory: the first batch as it was embedded then, and the second as it is now; both constants.
    let stored = [
        embed(&first, &before, None, 1, &mut Vec::new()),
        embed(&second, &weights, None, 2, &mut Vec::new()),
    ]
    .concat();
    let stored_tags = [tags(&first, 0), tags(&second, BATCH as u32)].concat();
    let anchor_tags = tags(&second, BATCH as u32);
    // Noted by the first pass.
    let rounding: RefCell<Rounding> = RefCell::default();
    let loss = |flat: Option<&[f64]>| {
        let anchors = embed(&second, &weights, flat, 2, &mut rounding.borrow_mut());
        let (references, tags) = match case.memory {
            0 => (&anchors, &anchor_tags),
            _ => (&stored, &stored_tags),
        };
        if let Some(weighing) = case.by_rows(rule) {
            return row_losses(&weighing, &anchors, &anchor_tags, references, tags);
        }
        let mining = reference::triplet_margin(&anchors, &anchor_tags, references, tags, 4, &rule);
        (mining.loss, mining.active)
    };
    let (expected, active) = loss(None);
    assert_eq!(report.mining.active, active, "{:?} on {on}", case.sets);
    assert!(active > 0, "the case has something to differentiate");
    assert!(
        (report.loss - expected).abs() < 1e-5,
        "{:?} on {on}",
        case.sets
    );

    let (_, flat) = flatten(&weights);
    let (_, actual) = flatten(&gradients);
    let mut compared = 0;
    for i in 0..flat.len() {
        let mut moved = flat.clone();
        let h = 1e-5;
        moved[i] += h;
        let up = loss(Some(&moved));
        moved[i] -= 2.0 * h;
        let down = loss(Some(&moved));
        // A kink lies between: there is no slope to compare.
        if up.1 != active || down.1 != active {
            continue;
        }
        compared += 1;
        let slope = (up.0 - down.0) / (2.0 * h);
        assert!(
            (actual[i] - slope).abs() < 1e-4 * slope.abs().max(0.1),
            "{:?} on {on}: parameter {i}: {}, expected {slope}",
            case.sets,
            actual[i]
        );
    }
    assert!(
        compared > flat.len() * 9 / 10,
        "{compared} of {} compared",
        flat.len()
    );
}

#[test]
fn gradients_are_the_slopes_of_the_loss() {
    for case in &CASES {
        for engine in engines() {
            pollster::block_on(check(engine, case));
        }
    }
}
