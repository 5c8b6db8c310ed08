//! Memory that PyTorch Metric Learning would take for the same step: the line that the memory plot draws beside ours.

/// Bytes that PML allocates to enumerate the triplets of a step, an estimate: the first of `pml_paths` below 2^31 - 1 cells, and
/// the second, as in PML 2.5, from there on.
pub fn pml_bytes(anchors: u64, references: u64, triplets: u64) -> u64 {
    const INT_MAX: u64 = (1 << 31) - 1;
    let [vectorized, loop_over_anchors] = pml_paths(anchors, references, triplets);
    if cells(anchors, references) < INT_MAX {
        vectorized
    } else {
        loop_over_anchors
    }
}

/// Bytes that each of PML's two ways allocates: a byte for every (anchor, reference, reference) and three 64-bit indices a triplet
/// (`get_all_triplets_indices_vectorized`); or the indices of a loop over anchors and their concatenation.
///
/// `triplets` are those that PML sees: the anchor's own copy in a memory is a positive there until it is removed after
/// mining.
pub(crate) fn pml_paths(anchors: u64, references: u64, triplets: u64) -> [u64; 2] {
    let indices = 24u64.saturating_mul(triplets);
    [
        cells(anchors, references).saturating_add(indices),
        indices.saturating_mul(2),
    ]
}

fn cells(anchors: u64, references: u64) -> u64 {
    anchors
        .saturating_mul(references)
        .saturating_mul(references)
}

/// Peak bytes that PML takes to draw triplets by weight: for every cell of anchors and references distances, logarithms and weights;
/// or while the draws of a class go on, what is left of these, and the weights of the negatives of each draw, three times. `weighed`:
/// draws of the class that has most times their negatives.
pub(crate) fn pml_drawn_bytes(anchors: u64, references: u64, draws: u64, weighed: u64) -> u64 {
    let cells = anchors.saturating_mul(references);
    let drawing = 22u64
        .saturating_mul(cells)
        .saturating_add(12u64.saturating_mul(weighed))
        .saturating_add(24u64.saturating_mul(draws));
    drawing.max(36u64.saturating_mul(cells))
}

/// Peak bytes of what PML does with all triplets, above what is there before: measured with PML 2.9 and torch 2.15 on a CPU, to
/// within a few per cent (`tests/golden/doctor.py`). `mined`: triplets that the miner keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TripletPeaks {
    /// The list of all triplets.
    pub(crate) listed: u64,
    /// `TripletMarginMiner`: the indices of all triplets, three floats each and a mask; then three indices of those that are kept.
    pub(crate) miner: u64,
    /// `remove_self_comparisons`: each kept triplet beside each row of the batch, a byte each.
    pub(crate) own_copies: u64,
    /// `TripletMarginLoss` of `mined` triplets, forward and backward.
    pub(crate) loss: u64,
}

impl TripletPeaks {
    pub(crate) fn new(anchors: u64, references: u64, triplets: u64, mined: u64) -> Self {
        let listed = pml_bytes(anchors, references, triplets);
        let compared = 37u64
            .saturating_mul(triplets)
            .saturating_add(32u64.saturating_mul(mined));
        Self {
            listed,
            miner: listed.max(compared),
            own_copies: mined.saturating_mul(anchors.saturating_add(25)),
            loss: 53u64.saturating_mul(mined),
        }
    }
}

/// Peak bytes of PML's join of pairs on their anchors, `convert_to_triplets`: a byte for every positive pair beside every negative
/// pair, and two indices a triplet.
pub(crate) fn pml_joined_peak(positives: u64, negatives: u64, triplets: u64) -> u64 {
    let cells = positives.saturating_mul(negatives);
    cells
        .saturating_add(16u64.saturating_mul(triplets))
        .max(53u64.saturating_mul(triplets))
}

/// Peak bytes that PML takes for every cell of anchors and references, forward and backward, of a loss of pairs; of a miner. `alone`:
/// the references are the batch itself, not a memory.
pub(crate) fn pml_bytes_of_cell(class: &str, alone: bool) -> u64 {
    match class {
        "CircleLoss" => 62,
        "MultiSimilarityLoss" | "GeneralizedLiftedStructureLoss" => 52,
        "SupConLoss" => 46,
        // Without a memory it lists no pairs.
        "NCALoss" if alone => 17,
        "NCALoss" => 56,
        "MultiSimilarityMiner" => 72,
        "BatchEasyHardMiner" | "BatchHardMiner" => 30,
        "PairMarginMiner" => 27,
        _ => 33,
    }
}

/// Peak bytes that PML takes for every positive pair beside every negative pair, or beside every reference (`AngularLoss`); 0 for
/// a loss that does not set them against each other.
pub(crate) fn pml_bytes_of_two_pairs(class: &str) -> u64 {
    match class {
        "NTXentLoss" => 17,
        "TupletMarginLoss" => 18,
        "LiftedStructureLoss" => 22,
        "AngularLoss" => 20,
        _ => 0,
    }
}

/// Peak bytes of an `AccuracyCalculator` with `k` neighbours of each query: of its search with faiss, which also leaves out the
/// query itself if `own`; and of the metrics, where those are means of precisions at every rank (`averaged`).
pub(crate) fn pml_ranking_peak(queries: u64, k: u64, own: bool, averaged: bool) -> u64 {
    let found = |bytes: u64, k: u64| bytes.saturating_mul(queries.saturating_mul(k));
    let search = match own {
        true => found(42, k.saturating_add(1)),
        false => found(20, k),
    };
    match averaged {
        true => search.max(found(63, k)),
        false => search,
    }
}

/// Peak bytes of a loss with proxies above its weights: the logits and what comes of them (`logits` floats a cell), or the gradient
/// of the weights and of their lengths.
pub(crate) fn pml_head_peak(class: &str, rows: u64, proxies: u64, dim: u64) -> u64 {
    let (logits, weights) = match class {
        "ProxyAnchorLoss" => (109, 61),
        "ProxyNCALoss" => (52, 68),
        "NormalizedSoftmaxLoss" => (32, 61),
        "SubCenterArcFaceLoss" => (24, 50),
        "SoftTripleLoss" => (41, 51),
        _ => (44, 57),
    };
    let of_weights = 4u64.saturating_mul(dim.saturating_mul(proxies));
    let of_logits = 4u64.saturating_mul(rows.saturating_mul(proxies));
    let forward = of_weights.saturating_add(of_logits.saturating_mul(logits) / 10);
    forward.max(of_weights.saturating_mul(weights) / 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_for_pml_follows_its_two_code_paths() {
        // The shapes that PML's own release note names, and the first one past its switch.
        assert_eq!(
            pml_bytes(21, 10_000, 20_790_000),
            2_100_000_000 + 24 * 20_790_000
        );
        assert_eq!(pml_bytes(22, 10_000, 20_790_000), 48 * 20_790_000);
    }
}
