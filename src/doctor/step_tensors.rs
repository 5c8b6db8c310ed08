//! Tensors of a step: of a miner, a loss, and the memory beside them.

use super::cause::Cause;
use super::facts::Facts;
use super::number::close;
use super::setup::Setup;
use super::shape::{Tensor, product};
use crate::rules::pml::{
    TripletPeaks, pml_bytes, pml_bytes_of_cell, pml_bytes_of_two_pairs, pml_joined_peak,
};

/// Tensors of a miner or a loss.
pub(super) fn of_step(cause: Cause, facts: &Facts, setup: &Setup) -> Tensor {
    let [positives, negatives] = setup.pairs();
    let tensor = match cause {
        Cause::Triplets => triplets(facts, setup),
        Cause::Joined => Tensor::new("positive pairs x negative pairs, joined on their anchors")
            .of(&[positives, negatives], 1)
            .peak(pml_joined_peak(positives, negatives, setup.triplets())),
        Cause::PairsByPairs => pairs_by_pairs(facts, setup),
        Cause::Angles => angles(facts, setup),
        Cause::OwnCopies => own_copies(facts, setup),
        _ => match views(facts, setup) {
            // The bytes that were asked for tell all sizes.
            Some(tensor) => return tensor,
            None => pairs(setup),
        },
    };
    tensor.assuming(setup.assumed())
}

/// Triplets that the miner keeps, if it gives any.
fn mined(facts: &Facts, setup: &Setup) -> Option<u64> {
    setup.mines_triplets().then(|| setup.mined(facts))
}

/// All triplets at once, or listed.
fn triplets(facts: &Facts, setup: &Setup) -> Tensor {
    let (b, m) = (setup.anchors, setup.references);
    let triplets = setup.triplets();
    let is_too_large = facts.says(&["int_max"]);
    if setup.miner == "AngularMiner" && !is_too_large {
        let peak = triplets.saturating_mul(24 * setup.dim + 33);
        return Tensor::new(
            "embeddings of every triplet in AngularMiner: triplets x embedding_size",
        )
        .of(&[triplets, setup.dim], 4)
        .peak(peak);
    }
    let peaks = TripletPeaks::new(b, m, triplets, mined(facts, setup).unwrap_or(triplets));
    let peak_with = |loss: u64| match setup.mines_triplets() {
        true => peaks.miner,
        false => loss.max(peaks.loss),
    };
    if is_too_large || b.saturating_mul(m.saturating_mul(m)) < (1 << 31) - 1 {
        return Tensor::new("all triplets at once: labels x references x references")
            .of(&[b, m, m], 1)
            .peak(peak_with(pml_bytes(b, m, triplets)));
    }
    Tensor::new("three indices of every triplet, listed and then joined")
        .of(&[triplets, 3], 8)
        .peak(peak_with(peaks.miner))
}

fn pairs_by_pairs(facts: &Facts, setup: &Setup) -> Tensor {
    let loss = match setup.loss.as_str() {
        "" => "NTXentLoss",
        loss => loss,
    };
    let [positives, negatives] = setup.pairs();
    let (p, n) = mined(facts, setup).map_or((positives, negatives), |mined| (mined, mined));
    let peak = p
        .saturating_mul(n)
        .saturating_mul(pml_bytes_of_two_pairs(loss).max(17));
    Tensor::new(format!("positive pairs x negative pairs of {loss}"))
        .of(&[p, n], 4)
        .peak(peak)
}

fn angles(facts: &Facts, setup: &Setup) -> Tensor {
    let (pairs, m) = (
        mined(facts, setup).unwrap_or(setup.pairs()[0]),
        setup.references,
    );
    let peak = product(&[pairs, m, pml_bytes_of_two_pairs("AngularLoss")]);
    Tensor::new("positive pairs x references of AngularLoss")
        .of(&[pairs, m], 4)
        .peak(peak)
}

fn own_copies(facts: &Facts, setup: &Setup) -> Tensor {
    let (pairs, b) = (
        mined(facts, setup).unwrap_or(setup.pairs()[0]),
        setup.anchors,
    );
    let peak = pairs.saturating_mul(b.saturating_add(25));
    Tensor::new("kept pairs or triplets x batch, to leave out each anchor's own copy")
        .of(&[pairs, b], 1)
        .peak(peak)
}

/// Matrices of a loss of one's own that sees each item in several views, if the bytes that were asked for are theirs.
fn views(facts: &Facts, setup: &Setup) -> Option<Tensor> {
    let (b, asked) = (setup.anchors, facts.message.asked?);
    let squares = |views: &u64| {
        let cells = b.saturating_mul(*views).saturating_pow(2);
        close(cells.saturating_mul(4), asked)
    };
    if setup.banked {
        return None;
    }
    let views = (2..=8).find(squares)?;
    let assumed = format!("{views} views of each item follow from the bytes that were asked for");
    let tensor = Tensor::new("matrices of all views of the batch x all views");
    let tensor = tensor.of(&[b * views, b * views], 4);
    Some(tensor.assuming(vec![assumed]))
}

/// Matrices of batch x references.
fn pairs(setup: &Setup) -> Tensor {
    let (b, m) = (setup.anchors, setup.references);
    let class = match setup.loss.as_str() {
        "" => &setup.miner,
        _ => &setup.loss,
    };
    let of_cell = |class: &str| pml_bytes_of_cell(class, !setup.banked);
    let of_cell = of_cell(class).max(match setup.miner.as_str() {
        "" => 0,
        miner => of_cell(miner),
    });
    let name = format!(
        "matrices of batch x references{}, and the indices of their pairs",
        in_class(class)
    );
    Tensor::new(name)
        .of(&[b, m], 4)
        .peak(product(&[b, m, of_cell]))
}

fn in_class(class: &str) -> String {
    if class.is_empty() {
        String::new()
    } else {
        format!(" in {class}")
    }
}

/// One float for each (anchor, positive, negative).
pub(super) fn batch_cube(setup: &Setup) -> Tensor {
    let (b, m) = (setup.anchors, setup.references);
    Tensor::new("one float for every triplet of the batch, valid or not")
        .of(&[b, m, m], 4)
        .assuming(setup.assumed())
}

pub(super) fn differences(facts: &Facts, setup: &Setup) -> Tensor {
    let tensor = Tensor::new("a difference of every two rows: rows x rows x dimensions");
    if let Some(shape) = facts
        .shapes
        .iter()
        .find(|shape| shape.len() == 3 && shape[0] >= 8 && shape[1] >= 8)
    {
        return tensor.of(shape, 4);
    }
    let (b, m, d) = (setup.anchors, setup.references, setup.dim);
    let peak = product(&[b, m]).saturating_mul(12 * d + 33);
    tensor
        .of(&[b, m, d], 4)
        .peak(peak)
        .assuming(setup.assumed())
}
