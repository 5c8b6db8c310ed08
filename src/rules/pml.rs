//! Memory that PyTorch Metric Learning would take for the same step: the line that the memory plot draws beside ours.

use crate::rules::losses::Loss;

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

/// Bytes that PML allocates for a loss of pairs, an estimate. For every cell of anchors and references two masks of a byte, the
/// place of its pair (16) and the similarity (4); for `NTXentLoss` also three floats for every combination of a positive pair and a
/// negative pair of the batch.
pub(crate) fn pml_pair_bytes(loss: &Loss, anchors: u64, references: u64, positives: u64) -> u64 {
    let cells = anchors.saturating_mul(references);
    let against_each_other = match loss {
        Loss::NtXent(_) => positives.saturating_mul(cells.saturating_sub(positives)),
        _ => 0,
    };
    let matrices = 22u64.saturating_mul(cells);
    matrices.saturating_add(12u64.saturating_mul(against_each_other))
}

/// Bytes that PML allocates to draw triplets by weight, at least: for every cell of anchors and references a distance, a logarithm
/// and a weight of 4 bytes, for every draw of an anchor of one class a weight of each of its negatives, and three 64-bit indices a
/// draw. `weighed`: draws times negatives of the anchor that has most.
pub(crate) fn pml_drawn_bytes(anchors: u64, references: u64, draws: u64, weighed: u64) -> u64 {
    let matrices = 12u64.saturating_mul(anchors.saturating_mul(references));
    let indices = 24u64.saturating_mul(draws);
    matrices
        .saturating_add(indices)
        .saturating_add(4u64.saturating_mul(weighed))
}

/// Bytes that PML allocates for a loss with proxies, an estimate. For every cell of rows and proxies the similarity, the target's
/// mask, the difference that its margin makes, the logit and its logarithm of a softmax, of 4 bytes each.
pub(crate) fn pml_proxy_bytes(rows: u64, proxies: u64) -> u64 {
    20u64.saturating_mul(rows.saturating_mul(proxies))
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
