//! [`Head`]: trained layers and the columns that they take, as a safetensors file with the names of torch's
//! `Sequential(Linear, ReLU, ..)`. Another activation than ReLU stands in its metadata, as does a norm; a skip is `skip.weight`.

use std::collections::BTreeMap;

use safetensors::{Dtype, SafeTensors};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::base::error::{Error, Result};
use crate::base::quote::{quoted, said};
use crate::cpu::{Activation, Distance, Norm};
use crate::data::NamedFile;
use crate::engine::tensor_file::header;
use crate::model::embedder::Embedder;
use crate::model::layer_weights::{LayerWeights, NormWeights};
use crate::rules::config::Layers;

/// Metadata key of the names of the features, a JSON list.
const FEATURES: &str = "features";
/// Metadata key of the activation, as in settings; ReLU if there is none.
const ACTIVATION: &str = "activation";
/// Metadata key of the norm, as in settings.
const NORM: &str = "norm";
/// End of the name of an array that torch writes beside batch norm, and that no embedding depends on.
const TRACKED: &str = ".num_batches_tracked";
/// Name of the map of the input that is added to the output.
const SKIP: &str = "skip.weight";
/// Metadata key of the values that are filled in, a JSON list of pairs.
const FILLED: &str = "filled";

/// Layers that take rows as they are in the file, and the names of the columns that they take.
#[derive(Clone, Debug, PartialEq)]
pub struct Head {
    /// The layers, first to last, with their activation between them; each takes the output of the one before.
    pub layers: Vec<LayerWeights>,
    /// Names of the columns, if they have names.
    pub features: Vec<String>,
    /// Columns in which a cell without a number is filled, counted from 0, and the value: the median of the training file.
    pub filled: Vec<(usize, f32)>,
}

impl Head {
    /// Columns of a row.
    pub fn inputs(&self) -> usize {
        self.layers.first().map_or(0, |layer| layer.shape[1])
    }

    /// Dimensions of an embedding.
    pub fn dimensions(&self) -> usize {
        self.layers.last().map_or(0, |layer| layer.shape[0])
    }

    /// Function after each hidden layer.
    pub(super) fn activation(&self) -> Activation {
        let first = self.layers.first().map(|layer| layer.activation);
        first.unwrap_or_default()
    }

    /// Norm of each hidden layer.
    pub(super) fn norm(&self) -> Norm {
        let first = self.layers.first().and_then(|layer| layer.norm.as_ref());
        first.map_or(Norm::None, NormWeights::norm)
    }

    /// Linear map of the input that is added to the output of the last layer, `[dimensions, inputs]`, if it has one.
    pub(super) fn skip(&self) -> Option<&[f32]> {
        self.layers.last().and_then(|layer| layer.skip.as_deref())
    }

    /// Metadata on the output vectors: that they are to be brought to unit length, their distance, and their dimensions. Never the
    /// names of classes.
    pub(super) fn about(&self, distance: Distance) -> BTreeMap<&'static str, String> {
        let about = [
            ("dimensions", self.dimensions().to_string()),
            ("distance", Distance::ALL[distance as usize].0.to_owned()),
            ("unit_length", "true".to_owned()),
        ];
        about.into()
    }

    /// The head as a safetensors file.
    pub fn to_safetensors(&self, distance: Distance) -> Vec<u8> {
        let mut metadata = self.about(distance);
        metadata.insert("format", "pt".to_owned());
        if !self.features.is_empty() {
            metadata.insert(FEATURES, json!(self.features).to_string());
        }
        if self.activation() != Activation::default() {
            metadata.insert(ACTIVATION, self.activation().name().to_owned());
        }
        if self.norm() != Norm::None {
            metadata.insert(NORM, self.norm().name().to_owned());
        }
        if !self.filled.is_empty() {
            metadata.insert(FILLED, json!(self.filled).to_string());
        }
        let tensors = self.layers.iter().flat_map(|layer| {
            let [outputs, inputs] = layer.shape;
            let index = layer.index;
            let own = [
                (
                    format!("{index}.weight"),
                    vec![outputs, inputs],
                    &layer.weight[..],
                ),
                (format!("{index}.bias"), vec![outputs], &layer.bias[..]),
            ];
            let norm = layer.norm.iter().flat_map(NormWeights::named);
            let norm = norm.map(move |(name, values)| {
                (format!("{}.{name}", index + 1), vec![outputs], &values[..])
            });
            own.into_iter().chain(norm)
        });
        let shape = vec![self.dimensions(), self.inputs()];
        let skip = self.skip().map(|skip| (SKIP.to_owned(), shape, skip));
        write(tensors.chain(skip), &metadata)
    }

    /// Reads a head from a safetensors file.
    ///
    /// # Errors
    /// [`Error::Data`] if the file is damaged, holds other tensors than linear layers that follow each other, or weights that
    /// [`Embedder::check`] refuses.
    pub fn from_safetensors(file: &NamedFile) -> Result<Self> {
        let refuse = |problem: String| Error::Data(format!("{}: {problem}", file.name));
        let damaged = |error| refuse(format!("not a safetensors file: {}", said(error)));
        let tensors = SafeTensors::deserialize(&file.bytes).map_err(damaged)?;
        let (_, metadata) = SafeTensors::read_metadata(&file.bytes).map_err(damaged)?;
        let text = |key| {
            let metadata = metadata.metadata().as_ref();
            metadata.and_then(|metadata| metadata.get(key))
        };
        let parts = Layers {
            activation: choice(text(ACTIVATION), ACTIVATION, &Activation::ALL).map_err(refuse)?,
            norm: choice(text(NORM), NORM, &Norm::ALL).map_err(refuse)?,
            skip: tensors.names().contains(&SKIP),
        };
        let layers = layers(&tensors, parts).map_err(refuse)?;
        Embedder::check(&layers).map_err(|error| refuse(error.to_string()))?;
        let features: Vec<String> = list(text(FEATURES), FEATURES, "names").map_err(refuse)?;
        let inputs = layers[0].shape[1];
        if !features.is_empty() && features.len() != inputs {
            return Err(refuse(format!(
                "its metadata names {} features, and its first layer takes {inputs}",
                features.len()
            )));
        }
        let filled: Vec<(usize, f32)> =
            list(text(FILLED), FILLED, "columns and numbers").map_err(refuse)?;
        if let Some((column, _)) = filled.iter().find(|(column, _)| *column >= inputs) {
            return Err(refuse(format!(
                "its metadata fills column {column}, counted from 0, and its first layer takes {inputs}"
            )));
        }
        Ok(Self {
            layers,
            features,
            filled,
        })
    }
}

/// The list in the text of a metadata key, empty if there is none; the problem if it is no list `of` these.
fn list<T: DeserializeOwned>(text: Option<&String>, key: &str, of: &str) -> Result<Vec<T>, String> {
    text.map_or(Ok(Vec::new()), |text| serde_json::from_str(text))
        .map_err(|error| {
            let error = said(error);
            format!("its metadata \"{key}\" is not a list of {of}: {error}")
        })
}

/// The choice in the text of a metadata key, one of `all`; the default if there is none.
fn choice<T: DeserializeOwned + Default>(
    text: Option<&String>,
    key: &str,
    all: &[(&str, &str)],
) -> Result<T, String> {
    let Some(text) = text else {
        return Ok(T::default());
    };
    serde_json::from_value(text.as_str().into()).map_err(|_| {
        let known: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        format!(
            "its metadata \"{key}\" is {}, expected {}",
            quoted(text),
            known.join(" or ")
        )
    })
}

/// Linear layers that follow each other, with these parts between them, or the first problem.
fn layers(tensors: &SafeTensors<'_>, parts: Layers) -> Result<Vec<LayerWeights>, String> {
    let names = tensors.names();
    let tracked = names.iter().filter(|name| name.ends_with(TRACKED)).count();
    let count = tensors.len() - tracked - usize::from(parts.skip);
    let (mut layers, mut taken): (Vec<LayerWeights>, usize) = (Vec::new(), 0);
    while taken < count {
        let index = match parts.norm {
            Norm::None => 2 * layers.len(),
            Norm::LayerNorm | Norm::BatchNorm => 3 * layers.len(),
        };
        let mut layer = linear(tensors, index, layers.last())?;
        taken += 2;
        if taken < count {
            let outputs = layer.shape[0];
            layer.norm = NormWeights::read(parts.norm, |array| {
                taken += 1;
                column(tensors, &format!("{}.{array}", index + 1), outputs)
            })?;
        }
        layer.activation = parts.activation;
        layers.push(layer);
    }
    if parts.skip {
        add_skip(tensors, &mut layers)?;
    }
    Ok(layers)
}

/// Reads the map of the input into the last layer.
fn add_skip(tensors: &SafeTensors<'_>, layers: &mut [LayerWeights]) -> Result<(), String> {
    let inputs = layers.first().map_or(0, |first| first.shape[1]);
    let [.., _, last] = layers else {
        return Err(format!(
            "there is a tensor \"{SKIP}\", and fewer than two layers: a map of the input stands beside hidden layers"
        ));
    };
    let (shape, skip) = tensor(tensors, SKIP)?;
    let expected = [last.shape[0], inputs];
    if shape != expected {
        return Err(format!(
            "\"{SKIP}\" has the shape {shape:?}, expected {expected:?}: the outputs of the last layer, and the inputs of the first"
        ));
    }
    last.skip = Some(skip);
    Ok(())
}

/// The linear layer of this index, which follows another one.
fn linear(
    tensors: &SafeTensors<'_>,
    index: usize,
    before: Option<&LayerWeights>,
) -> Result<LayerWeights, String> {
    let (shape, weight) = tensor(tensors, &format!("{index}.weight"))?;
    let (bias_shape, bias) = tensor(tensors, &format!("{index}.bias"))?;
    let before = before.map(|layer| layer.shape[0]);
    match (&shape[..], &bias_shape[..]) {
        (&[outputs, inputs], &[biases])
            if outputs == biases && before.is_none_or(|before| before == inputs) =>
        {
            Ok(LayerWeights {
                index,
                shape: [outputs, inputs],
                weight,
                bias,
                ..LayerWeights::default()
            })
        }
        _ => {
            let taken = before.map_or_else(String::new, |outputs| {
                format!(" after a layer of {outputs} outputs")
            });
            Err(format!(
                "\"{index}.weight\" and \"{index}.bias\" have the shapes {shape:?} and {bias_shape:?}{taken}, expected \
                 [outputs, inputs] and [outputs]"
            ))
        }
    }
}

/// Values of an array of a norm, one for each output.
fn column(tensors: &SafeTensors<'_>, name: &str, outputs: usize) -> Result<Vec<f32>, String> {
    match tensor(tensors, name)? {
        (shape, values) if shape == [outputs] => Ok(values),
        (shape, _) => Err(format!(
            "\"{name}\" has the shape {shape:?}, expected [{outputs}]"
        )),
    }
}

/// Shape and values of a tensor of f32.
fn tensor(tensors: &SafeTensors<'_>, name: &str) -> Result<(Vec<usize>, Vec<f32>), String> {
    let tensor = tensors.tensor(name).map_err(|_| {
        format!(
            "there is no tensor \"{name}\": a head is linear layers named as in torch's Sequential, 0.weight, 0.bias, 2.weight, .."
        )
    })?;
    if tensor.dtype() != Dtype::F32 {
        return Err(format!(
            "\"{name}\" is {:?}, expected F32: save the head as float32",
            tensor.dtype()
        ));
    }
    let values = tensor.data().chunks_exact(4);
    let values = values.map(|bytes| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
    Ok((tensor.shape().to_vec(), values.collect()))
}

/// A safetensors file of f32 tensors.
pub(super) fn write<'a>(
    tensors: impl Iterator<Item = (String, Vec<usize>, &'a [f32])>,
    metadata: &BTreeMap<&'static str, String>,
) -> Vec<u8> {
    let (mut parts, mut data) = (Vec::new(), Vec::new());
    for (name, shape, values) in tensors {
        data.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        parts.push((name, Dtype::F32, shape, size_of_val(values)));
    }
    let mut bytes = header(&parts, metadata);
    bytes.extend(data);
    bytes
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A head of two layers, from three columns to two dimensions.
    pub(crate) fn small() -> Head {
        let layer = |index, outputs: usize, inputs: usize| LayerWeights {
            index,
            shape: [outputs, inputs],
            weight: (0..outputs * inputs)
                .map(|i| i as f32 / 8.0 - 1.0)
                .collect(),
            bias: vec![0.5; outputs],
            ..LayerWeights::default()
        };
        Head {
            layers: vec![layer(0, 4, 3), layer(2, 2, 4)],
            features: ["=f0", "<b>f1</b>", "f2\n"].map(str::to_owned).into(),
            filled: vec![(1, -0.5)],
        }
    }

    /// The same with parts of its hidden layer.
    pub(crate) fn with(norm: Norm, activation: Activation) -> Head {
        let mut head = small();
        for layer in &mut head.layers {
            layer.activation = activation;
        }
        head.layers[0].norm = NormWeights::initial(norm, 4);
        head.layers[1].index += usize::from(norm != Norm::None);
        head
    }

    #[test]
    fn a_head_with_a_norm_and_another_activation_comes_back() {
        for (norm, activation, tensors) in [
            (Norm::LayerNorm, Activation::Relu, 6),
            (Norm::LayerNorm, Activation::Gelu, 6),
            (Norm::BatchNorm, Activation::Gelu, 8),
            (Norm::None, Activation::Gelu, 4),
        ] {
            let mut head = with(norm, activation);
            if let Some(norm) = &mut head.layers[0].norm {
                norm.weight[1] = 0.25;
                norm.bias[2] = -3.0;
            }
            let bytes = head.to_safetensors(Distance::Cosine);
            let held = SafeTensors::deserialize(&bytes).expect("reads").len();
            assert_eq!(held, tensors);
            let name = "head.safetensors".to_owned();
            let mut file = NamedFile { name, bytes };
            assert_eq!(Head::from_safetensors(&file).expect("reads"), head);
            let Some(norm) = &mut head.layers[0].norm else {
                continue;
            };
            let Some([_, variances]) = &mut norm.running else {
                continue;
            };
            // No training gives a variance below 0.
            variances[3] = -1.0;
            file.bytes = head.to_safetensors(Distance::Cosine);
            let refused = Head::from_safetensors(&file).expect_err("is damaged");
            let part = "\"1.running_var\" holds -1e0 at [3]";
            assert!(refused.to_string().contains(part), "{refused}");
        }
    }

    /// The same with a norm, and with a skip.
    pub(crate) fn skipping(norm: Norm, activation: Activation) -> Head {
        let mut head = with(norm, activation);
        head.layers[1].skip = Some(vec![0.5, -1.0, 2.0, 0.25, 0.0, -0.5]);
        head
    }

    #[test]
    fn a_head_with_a_skip_comes_back_and_a_skip_of_another_shape_is_refused() {
        let head = skipping(Norm::LayerNorm, Activation::Gelu);
        let read = |head: &Head| {
            let (name, bytes) = (
                "head.safetensors".to_owned(),
                head.to_safetensors(Distance::L2),
            );
            Head::from_safetensors(&NamedFile { name, bytes })
        };
        assert_eq!(read(&head).expect("reads"), head);
        for (plant, part) in [
            (
                (|head| head.layers[1].skip = Some(vec![f32::NAN; 6])) as fn(&mut Head),
                "\"skip.weight\" holds NaN at [0, 0]",
            ),
            (
                |head| {
                    head.layers[0] = std::mem::take(&mut head.layers[1]);
                    head.layers.truncate(1);
                    head.layers[0].index = 0;
                    head.layers[0].skip = Some(vec![0.5; 8]);
                },
                "fewer than two layers",
            ),
        ] {
            let mut head = head.clone();
            plant(&mut head);
            let refused = read(&head).expect_err("is damaged").to_string();
            assert!(refused.contains(part), "{refused}");
        }
    }

    #[test]
    fn a_head_comes_back_from_its_file_and_gives_the_same_bytes() {
        let head = small();
        let bytes = head.to_safetensors(Distance::Cosine);
        let file = NamedFile {
            name: "head.safetensors".to_owned(),
            bytes: bytes.clone(),
        };
        let read = Head::from_safetensors(&file).expect("reads");
        assert_eq!(read, head);
        assert_eq!(read.to_safetensors(Distance::Cosine), bytes);
        let (_, metadata) = SafeTensors::read_metadata(&bytes).expect("a header");
        let metadata = metadata.metadata().clone().expect("there is some");
        let mut keys: Vec<&str> = metadata.keys().map(String::as_str).collect();
        keys.sort_unstable();
        assert_eq!(
            keys,
            [
                "dimensions",
                "distance",
                "features",
                "filled",
                "format",
                "unit_length"
            ]
        );
        assert_eq!(
            (&metadata["dimensions"][..], &metadata["distance"][..]),
            ("2", "cosine")
        );
    }
}
