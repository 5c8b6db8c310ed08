//! The head as a folder that `SentenceTransformer(path)` opens: a Dense module for each layer, with a
//! `LayerNorm` where it has one, then Normalize. Batch norm is folded into the layer before it.
//!
//! A chain has no way round its modules. With a skip, each hidden module therefore carries the input along, as outputs of its own:
//! `x = act(x) - act(-x)` for ReLU, and for GELU too, where `x P(x) + x P(-x) = x`. No layer norm can stand among them.
//!
//! The module names are those that every version of the library knows.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::head::{self, Head};
use super::{TakenFile, pretty};
use crate::base::error::{Error, Result};
use crate::cpu::{Distance, Norm};
use crate::model::layer_weights::{LayerWeights, NormWeights};

/// The folder's name among the files of a run.
pub(super) const FOLDER: &str = "sentence-transformers";

/// The most modules before the last: three for each of six hidden layers, and the output.
const MOST_MODULES: usize = 19;

/// No activation.
const IDENTITY: &str = "torch.nn.modules.linear.Identity";

const README: &str = "\
# A head trained with Nearfar

It takes vectors, not text: put it behind the model whose vectors it was trained on, or use it alone.

```python
import torch
from sentence_transformers import SentenceTransformer

head = SentenceTransformer(\"sentence-transformers\")
rows = torch.randn(10, head[0].in_features)  # your vectors, as they were in the training file
embeddings = head({\"sentence_embedding\": rows})[\"sentence_embedding\"]  # of unit length

# Behind a model of text:
# model = SentenceTransformer(modules=[*SentenceTransformer(\"..\"), *head])
```
";

/// The files of a head, in a folder of their own.
///
/// # Errors
/// [`Error::Config`] for a layer norm beside a skip, which no chain of modules makes.
pub(super) fn files(head: &Head, distance: Distance) -> Result<Vec<TakenFile>> {
    if head.skip().is_some() && head.norm() == Norm::LayerNorm {
        return Err(Error::Config(
            "sentence-transformers: no chain of its modules carries the input of a skip past a layer norm: take head.onnx or \
             head.safetensors, or train with layers.norm none or batch-norm"
                .to_owned(),
        ));
    }
    let mut files = vec![file("README.md", README.to_owned().into_bytes())];
    let (mut modules, last) = (Vec::new(), head.layers.len().saturating_sub(1));
    let mut module = |kind: &str| {
        let idx = modules.len();
        let path = format!("{idx}_{kind}");
        modules.push(json!({
            "idx": idx,
            "name": idx.to_string(),
            "path": path,
            "type": format!("sentence_transformers.models.{kind}"),
        }));
        path
    };
    let carried = carrying(head);
    for (place, layer) in carried.as_ref().unwrap_or(&head.layers).iter().enumerate() {
        let activation = match place == last {
            true => IDENTITY.to_owned(),
            false => format!("torch.nn.modules.activation.{}", layer.activation.class()),
        };
        match layer.norm.as_ref().map(|norm| (norm, &norm.running)) {
            None => files.extend(dense(&module("Dense"), layer, &activation)),
            Some((norm, Some([means, variances]))) => {
                let folded = folded(layer, norm, means, variances);
                files.extend(dense(&module("Dense"), &folded, &activation));
            }
            Some((norm, None)) => {
                files.extend(dense(&module("Dense"), layer, IDENTITY));
                files.extend(layer_norm(&module("LayerNorm"), norm));
                // No module is an activation alone.
                let identity = identity(norm.weight.len());
                files.extend(dense(&module("Dense"), &identity, &activation));
            }
        }
    }
    let path = module("Normalize");
    files.push(file(&format!("{path}/config.json"), pretty(&json!({}))));
    files.push(file("modules.json", pretty(&json!(modules))));
    let similarity = match distance {
        Distance::Cosine => "cosine",
        Distance::L2 => "euclidean",
    };
    let config = json!({ "model_type": "SentenceTransformer", "similarity_fn_name": similarity });
    files.push(file("config_sentence_transformers.json", pretty(&config)));
    Ok(files)
}

/// The layers of a head with a skip, without norms: hidden ones carry the input along, behind their own outputs. `None` of a head
/// without a skip.
fn carrying(head: &Head) -> Option<Vec<LayerWeights>> {
    let skip = head.skip()?;
    let (inputs, last) = (head.inputs(), head.layers.len() - 1);
    let carry = |(place, layer): (usize, &LayerWeights)| {
        let layer = match layer.norm.as_ref().map(|norm| (norm, &norm.running)) {
            Some((norm, Some([means, variances]))) => folded(layer, norm, means, variances),
            _ => layer.clone(),
        };
        let [outputs, own] = layer.shape;
        let taken = own + if place > 0 { 2 * inputs } else { 0 };
        let mut rows: Vec<Vec<f32>> = layer
            .weight
            .chunks_exact(own)
            .map(<[f32]>::to_vec)
            .collect();
        let mut bias = layer.bias.clone();
        if place < last {
            // The input, then the input turned round: of the rows, or of the two parts of them that come along.
            rows.extend((0..2 * inputs).map(|i| {
                let (column, sign) = (i % inputs, if i < inputs { 1.0 } else { -1.0 });
                let mut row = vec![0.0; taken];
                let first = if place > 0 { own } else { 0 };
                row[first + column] = sign;
                if place > 0 {
                    row[first + inputs + column] = -sign;
                }
                row
            }));
            bias.resize(outputs + 2 * inputs, 0.0);
        } else {
            for (row, skip) in rows.iter_mut().zip(skip.chunks_exact(inputs)) {
                row.extend(skip);
                row.extend(skip.iter().map(|weight| -weight));
            }
        }
        for row in &mut rows {
            row.resize(taken, 0.0);
        }
        LayerWeights {
            shape: [rows.len(), taken],
            weight: rows.concat(),
            bias,
            norm: None,
            skip: None,
            ..layer
        }
    };
    Some(head.layers.iter().enumerate().map(carry).collect())
}

/// The files of a Dense module: a linear layer and what follows it.
fn dense(path: &str, layer: &LayerWeights, activation: &str) -> [TakenFile; 2] {
    let config = json!({
        "in_features": layer.shape[1],
        "out_features": layer.shape[0],
        "bias": true,
        "activation_function": activation,
    });
    let tensors = [
        ("linear.weight", &layer.shape[..], &layer.weight[..]),
        ("linear.bias", &layer.shape[..1], &layer.bias[..]),
    ];
    [config_file(path, &config), weights_file(path, &tensors)]
}

/// The files of a `LayerNorm` module.
fn layer_norm(path: &str, norm: &NormWeights) -> [TakenFile; 2] {
    let dimension = norm.weight.len();
    let tensors = [
        ("norm.weight", &[dimension][..], &norm.weight[..]),
        ("norm.bias", &[dimension], &norm.bias[..]),
    ];
    let config = json!({ "dimension": dimension });
    [config_file(path, &config), weights_file(path, &tensors)]
}

/// A layer that gives its inputs.
fn identity(width: usize) -> LayerWeights {
    let mut weight = vec![0.0; width * width];
    for at in weight.iter_mut().step_by(width + 1) {
        *at = 1.0;
    }
    LayerWeights {
        shape: [width; 2],
        weight,
        bias: vec![0.0; width],
        ..LayerWeights::default()
    }
}

/// A layer and the batch norm after it, which is a linear map of each output once it is trained.
fn folded(
    layer: &LayerWeights,
    norm: &NormWeights,
    means: &[f32],
    variances: &[f32],
) -> LayerWeights {
    let mut folded = layer.clone();
    for o in 0..layer.shape[0] {
        let gain = f64::from(norm.weight[o]) / (f64::from(variances[o]) + 1e-5).sqrt();
        for weight in &mut folded.weight[o * layer.shape[1]..][..layer.shape[1]] {
            *weight = (f64::from(*weight) * gain) as f32;
        }
        let centred = f64::from(layer.bias[o]) - f64::from(means[o]);
        folded.bias[o] = (centred * gain + f64::from(norm.bias[o])) as f32;
    }
    folded
}

fn config_file(path: &str, config: &Value) -> TakenFile {
    file(&format!("{path}/config.json"), pretty(config))
}

fn weights_file(path: &str, tensors: &[(&str, &[usize], &[f32])]) -> TakenFile {
    let tensors = tensors
        .iter()
        .map(|(name, shape, values)| ((*name).to_owned(), shape.to_vec(), *values));
    let format = BTreeMap::from([("format", "pt".to_owned())]);
    file(
        &format!("{path}/model.safetensors"),
        head::write(tensors, &format),
    )
}

/// The names that files of any head can have.
pub(super) fn names() -> Vec<String> {
    let layers = (0..MOST_MODULES).flat_map(|i| {
        [
            format!("{i}_Dense/config.json"),
            format!("{i}_Dense/model.safetensors"),
            format!("{i}_LayerNorm/config.json"),
            format!("{i}_LayerNorm/model.safetensors"),
            format!("{}_Normalize/config.json", i + 1),
        ]
    });
    let fixed = [
        "README.md",
        "modules.json",
        "config_sentence_transformers.json",
    ];
    fixed
        .map(str::to_owned)
        .into_iter()
        .chain(layers)
        .map(|name| format!("{FOLDER}/{name}"))
        .collect()
}

fn file(path: &str, bytes: Vec<u8>) -> TakenFile {
    TakenFile {
        path: format!("{FOLDER}/{path}"),
        bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::super::head::tests::{skipping, small, with};
    use super::*;
    use crate::cpu::Activation;

    #[test]
    fn each_layer_is_a_dense_module_and_the_last_one_normalizes() {
        let files = files(&small(), Distance::Cosine).expect("are made");
        let text = |path: &str| {
            let path = format!("{FOLDER}/{path}");
            let file = files.iter().find(|file| file.path == path).expect("there");
            serde_json::from_slice::<serde_json::Value>(&file.bytes).expect("JSON")
        };
        let modules = text("modules.json");
        let paths: Vec<&str> = (0..3)
            .map(|i| modules[i]["path"].as_str().expect("a path"))
            .collect();
        assert_eq!(paths, ["0_Dense", "1_Dense", "2_Normalize"]);
        let dense = text("0_Dense/config.json");
        assert_eq!(
            (&dense["in_features"], &dense["out_features"]),
            (&json!(3), &json!(4))
        );
        let activations = [0, 1].map(|i| {
            let config = text(&format!("{i}_Dense/config.json"));
            config["activation_function"].as_str().map(str::to_owned)
        });
        assert!(
            activations[0]
                .as_deref()
                .is_some_and(|name| name.ends_with("ReLU"))
        );
        assert!(
            activations[1]
                .as_deref()
                .is_some_and(|name| name.ends_with("Identity"))
        );
        let names = names();
        let layer_norm = with(Norm::LayerNorm, Activation::Gelu);
        let of_norm = super::files(&layer_norm, Distance::Cosine).expect("are made");
        let files = [files, of_norm].concat();
        assert!(files.iter().all(|file| names.contains(&file.path)));
    }

    #[test]
    fn hidden_modules_carry_the_input_of_a_skip_and_a_layer_norm_beside_it_is_refused() {
        let head = skipping(Norm::None, Activation::Relu);
        let layers = carrying(&head).expect("has a skip");
        assert_eq!(
            layers.iter().map(|layer| layer.shape).collect::<Vec<_>>(),
            [[10, 3], [2, 10]]
        );
        let through = |layers: &[LayerWeights], x: &[f32]| {
            let (mut rows, mut own) = (x.to_vec(), Vec::new());
            for (place, layer) in layers.iter().enumerate() {
                let weights = layer.weight.chunks_exact(layer.shape[1]);
                let sums = weights.zip(&layer.bias).map(|(weights, bias)| {
                    bias + weights.iter().zip(&rows).map(|(w, x)| w * x).sum::<f32>()
                });
                own = sums.collect();
                if place + 1 < layers.len() {
                    own.iter_mut().for_each(|y| *y = y.max(0.0));
                }
                rows.clone_from(&own);
            }
            own
        };
        let x = [1.5, -2.0, 0.25];
        let skip = head.skip().expect("has one").chunks_exact(3);
        let beside = skip.map(|row| row.iter().zip(&x).map(|(s, x)| s * x).sum::<f32>());
        let sums = through(&head.layers, &x).into_iter().zip(beside);
        let expected: Vec<f32> = sums.map(|(y, s)| y + s).collect();
        assert_eq!(through(&layers, &x), expected);
        let refused = files(&skipping(Norm::LayerNorm, Activation::Relu), Distance::L2);
        assert!(
            refused
                .expect_err("is refused")
                .to_string()
                .contains("take head.onnx")
        );
    }
}
