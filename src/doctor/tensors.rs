//! [`tensor`]: shape and bytes of each cause.

use super::calls::Value;
use super::cause::Cause;
use super::facts::{Facts, Size};
use super::row_tensors::{distances, faiss_scratch, ranking, rows_by_dim};
use super::setup::Setup;
use super::shape::Tensor;
use super::step_tensors::{batch_cube, differences, of_step};
use crate::rules::pml::pml_head_peak;

/// The tensor of a cause in this text.
pub(super) fn tensor(cause: Cause, facts: &Facts, setup: &Setup) -> Tensor {
    match cause {
        Cause::Triplets
        | Cause::Joined
        | Cause::PairsByPairs
        | Cause::Angles
        | Cause::Pairs
        | Cause::OwnCopies => of_step(cause, facts, setup),
        Cause::BatchCube => batch_cube(setup),
        Cause::Differences => differences(facts, setup),
        Cause::Ranking => ranking(facts),
        Cause::Distances => distances(facts),
        Cause::FaissScratch => faiss_scratch(facts),
        Cause::FaissIndex | Cause::Embeddings | Cause::Gathered => rows_by_dim(cause, facts),
        Cause::Head | Cause::ClassPairs | Cause::Moments => head(cause, facts, setup),
        Cause::Bank => {
            let memory = facts.size(Size::Memory).unwrap_or(setup.references);
            Tensor::new("the memory's rows").of(&[memory, setup.dim], 4)
        }
        Cause::OneCard => {
            Tensor::new("outputs, labels and loss of the whole batch, gathered on the first card")
        }
        Cause::KeptTuples => {
            let tensor = Tensor::new("three indices of each mined triplet, of all batches so far");
            tensor
                .of(&[setup.triplets(), 3], 8)
                .assuming(setup.assumed())
        }
        Cause::KeptGraph => {
            Tensor::new("the activations of all steps whose loss or embeddings are still held")
        }
        Cause::Activations => {
            Tensor::new("the network's activations of a batch, kept for the backward pass")
        }
        Cause::Validation => {
            Tensor::new("the network's activations in validation, beside what training holds")
        }
        Cause::Fragments => Tensor::new(
            "no tensor in particular: PyTorch's unused memory lies in pieces, none large enough",
        ),
        Cause::OtherProgram => {
            Tensor::new("no tensor in particular: another program holds the card")
        }
        Cause::Host => Tensor::new("memory of the host: the data and the loader's workers"),
    }
}

fn head(cause: Cause, facts: &Facts, setup: &Setup) -> Tensor {
    let classes = facts.size(Size::Classes);
    let centers = match setup.loss.as_str() {
        "SubCenterArcFaceLoss" => facts
            .argument("SubCenterArcFaceLoss", "sub_centers", 9)
            .and_then(Value::number)
            .unwrap_or(3.0) as u64,
        "SoftTripleLoss" => facts
            .argument("SoftTripleLoss", "centers_per_class", 2)
            .and_then(Value::number)
            .unwrap_or(10.0) as u64,
        _ => 1,
    };
    let Some(classes) = classes else {
        let mut tensor = Tensor::new(match cause {
            Cause::Moments => "two moments of Adam for every weight",
            Cause::ClassPairs => "classes x classes of the regularizer",
            _ => "the head's weights, a row for each class, and its logits",
        });
        tensor.shape =
            "classes x dimensions x 4 bytes: paste num_classes and embedding_size".to_owned();
        tensor.bytes = facts.message.asked;
        return tensor;
    };
    let (rows, dim) = (classes.saturating_mul(centers), setup.dim);
    let mut assumed = setup.assumed();
    assumed.retain(|what| what.starts_with("batch"));
    if facts.size(Size::Dim).is_none() {
        assumed.push(format!(
            "embedding_size {dim} is assumed: the text does not say"
        ));
    }
    match cause {
        Cause::ClassPairs => Tensor::new(
            "classes x classes of the regularizer: each class's weights beside each other's",
        )
        .of(&[rows, rows], 4),
        Cause::Moments => {
            assumed.retain(|what| !what.starts_with("batch"));
            let tensor = Tensor::new("a moment of Adam for the head's weights, one of two")
                .of(&[rows, dim], 4);
            let both = tensor.bytes.unwrap_or(0).saturating_mul(2);
            tensor.peak(both).assuming(assumed)
        }
        _ => {
            let weights =
                Tensor::new("the head's weights, a row for each class").of(&[rows, dim], 4);
            let logits =
                Tensor::new("the head's logits: batch x classes").of(&[setup.anchors, rows], 4);
            let larger = if weights.bytes >= logits.bytes {
                weights
            } else {
                logits
            };
            larger
                .peak(pml_head_peak(&setup.loss, setup.anchors, rows, dim))
                .assuming(assumed)
        }
    }
}
