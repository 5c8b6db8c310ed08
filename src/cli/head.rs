//! The trained head as a safetensors file, tensors named as in torch's `Sequential(Linear, ReLU, ..)`.

use nearfar::{Embedder, Error, LayerWeights, NamedFile, Result};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

/// The file's name in a folder of results.
pub(super) const FILE: &str = "head.safetensors";

/// The name of the linear baseline's file there: a head of one layer.
pub(super) const LINEAR_FILE: &str = "linear.safetensors";

/// Where the file's metadata holds the names of the features, as a JSON list.
const FEATURES: &str = "features";

/// The file of a head that was trained on features of these names, where they have names.
pub(super) fn to_bytes(head: &[LayerWeights], features: &[String]) -> Vec<u8> {
    let bytes = |values: &[f32]| {
        values
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect::<Vec<u8>>()
    };
    let tensors: Vec<(String, Vec<usize>, Vec<u8>)> = head
        .iter()
        .flat_map(|layer| {
            let [outputs, inputs] = layer.shape;
            [
                (
                    format!("{}.weight", layer.index),
                    vec![outputs, inputs],
                    bytes(&layer.weight),
                ),
                (
                    format!("{}.bias", layer.index),
                    vec![outputs],
                    bytes(&layer.bias),
                ),
            ]
        })
        .collect();
    let views = tensors.iter().map(|(name, shape, data)| {
        let view = TensorView::new(Dtype::F32, shape.clone(), data);
        (name, view.expect("shape and bytes agree"))
    });
    let format = ("format".to_owned(), "pt".to_owned());
    let names = (!features.is_empty()).then(|| {
        let names = serde_json::json!(features).to_string();
        (FEATURES.to_owned(), names)
    });
    let metadata = std::iter::once(format).chain(names).collect();
    safetensors::serialize(views, Some(metadata)).expect("names and sizes are sound")
}

/// Reads a head, and the names of its features where they have names.
///
/// # Errors
/// [`Error::Data`] when the file is damaged, holds other tensors than linear layers that follow each other, or weights as
/// [`Embedder::check`] refuses them.
pub(super) fn from_file(file: &NamedFile) -> Result<(Vec<LayerWeights>, Vec<String>)> {
    let refuse = |problem: String| Error::Data(format!("{}: {problem}", file.name));
    let tensors = SafeTensors::deserialize(&file.bytes)
        .map_err(|error| refuse(format!("not a safetensors file: {error}")))?;
    let mut head: Vec<LayerWeights> = Vec::new();
    while head.len() * 2 < tensors.len() {
        let index = 2 * head.len();
        let tensor = |kind: &str| {
            let name = format!("{index}.{kind}");
            let tensor = tensors.tensor(&name).map_err(|_| {
                refuse(format!(
                    "there is no tensor \"{name}\": a head is linear layers named as in torch's Sequential, 0.weight, 0.bias, \
                     2.weight, .."
                ))
            })?;
            if tensor.dtype() != Dtype::F32 {
                return Err(refuse(format!(
                    "\"{name}\" is {:?}, expected F32: save the head as float32",
                    tensor.dtype()
                )));
            }
            let values = tensor.data().chunks_exact(4);
            let values: Vec<f32> = values
                .map(|bytes| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
                .collect();
            Ok((tensor.shape().to_vec(), values))
        };
        let ((shape, weight), (bias_shape, bias)) = (tensor("weight")?, tensor("bias")?);
        let follows = |inputs| {
            head.last()
                .is_none_or(|layer: &LayerWeights| layer.shape[0] == inputs)
        };
        match (&shape[..], &bias_shape[..]) {
            (&[outputs, inputs], &[biases]) if outputs == biases && follows(inputs) => {
                head.push(LayerWeights {
                    index,
                    shape: [outputs, inputs],
                    weight,
                    bias,
                });
            }
            _ => {
                let taken = head.last().map_or_else(String::new, |layer| {
                    format!(" after a layer of {} outputs", layer.shape[0])
                });
                return Err(refuse(format!(
                    "\"{index}.weight\" and \"{index}.bias\" have the shapes {shape:?} and {bias_shape:?}{taken}, expected \
                     [outputs, inputs] and [outputs]"
                )));
            }
        }
    }
    Embedder::check(&head).map_err(|error| refuse(error.to_string()))?;
    let (_, metadata) = SafeTensors::read_metadata(&file.bytes)
        .map_err(|error| refuse(format!("not a safetensors file: {error}")))?;
    let names = metadata.metadata().as_ref().and_then(|m| m.get(FEATURES));
    let features: Vec<String> = names
        .map_or(Ok(Vec::new()), |names| serde_json::from_str(names))
        .map_err(|error| {
            refuse(format!(
                "its metadata \"{FEATURES}\" is not a list of names: {error}"
            ))
        })?;
    if !features.is_empty() && features.len() != head[0].shape[1] {
        return Err(refuse(format!(
            "its metadata names {} features, and its first layer takes {}",
            features.len(),
            head[0].shape[1]
        )));
    }
    Ok((head, features))
}
