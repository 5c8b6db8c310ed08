//! The head as a folder that `SentenceTransformer(path)` opens: a Dense module for each layer, then Normalize.
//!
//! The module names are those that every version of the library knows.

use std::collections::BTreeMap;

use serde_json::json;

use super::head::{self, Head};
use super::{TakenFile, pretty};
use crate::cpu::Distance;

/// The folder's name among the files of a run.
pub(super) const FOLDER: &str = "sentence-transformers";

/// The most layers of a head.
const MOST_LAYERS: usize = 7;

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
pub(super) fn files(head: &Head, distance: Distance) -> Vec<TakenFile> {
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
    for (place, layer) in head.layers.iter().enumerate() {
        let path = module("Dense");
        let activation = match place == last {
            true => "torch.nn.modules.linear.Identity".to_owned(),
            false => format!("torch.nn.modules.activation.{}", layer.activation.class()),
        };
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
        let tensors = tensors
            .into_iter()
            .map(|(name, shape, values)| (name.to_owned(), shape.to_vec(), values));
        let format = BTreeMap::from([("format", "pt".to_owned())]);
        files.push(file(&format!("{path}/config.json"), pretty(&config)));
        files.push(file(
            &format!("{path}/model.safetensors"),
            head::write(tensors, &format),
        ));
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
    files
}

/// The names that files of any head can have.
pub(super) fn names() -> Vec<String> {
    let layers = (0..MOST_LAYERS).flat_map(|i| {
        [
            format!("{i}_Dense/config.json"),
            format!("{i}_Dense/model.safetensors"),
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
    use super::super::head::tests::small;
    use super::*;

    #[test]
    fn each_layer_is_a_dense_module_and_the_last_one_normalizes() {
        let files = files(&small(), Distance::Cosine);
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
        assert!(files.iter().all(|file| names.contains(&file.path)));
    }
}
