//! What the kernels must compute, as nested loops in f64: obviously right, and shared by no engine.
//!
//! For tests and for the bench, which checks before it times. Rows here are dense: `[rows, dim]`, no padding.

use crate::kernels::gemm::Layer;
use crate::kernels::triplet_margin::{Kind, Rule};

/// The inner product.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Rows over their lengths; zero rows stay zero.
pub fn normalize(rows: &[f64], dim: usize) -> Vec<f64> {
    let unit = |row: &[f64]| {
        let norm = dot(row, row).sqrt().max(1e-12);
        row.iter().map(|value| value / norm).collect::<Vec<_>>()
    };
    rows.chunks(dim).flat_map(unit).collect()
}

/// A stack of linear layers, applied to rows of the first one's input width, padding included.
pub fn mlp(layers: &[Layer], parameters: &[f64], rows: &[f64]) -> Vec<f64> {
    let mut values = rows.to_vec();
    for layer in layers {
        let mut next = Vec::new();
        for row in values.chunks(layer.inputs) {
            for o in 0..layer.outputs {
                let weights = &parameters[layer.weights + o * layer.inputs..][..layer.inputs];
                let y = dot(row, weights) + parameters[layer.bias() + o];
                next.push(if layer.relu { y.max(0.0) } else { y });
            }
        }
        values = next;
    }
    values
}

/// What a set of triplets amounts to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mining {
    /// Triplets with a positive and a negative.
    pub valid: u64,
    /// Of those, `tm > margin`.
    pub easy: u64,
    /// `0 < tm <= margin`.
    pub semihard: u64,
    /// `tm <= margin` and `tm <= 0`.
    pub hard: u64,
    /// Kept by the miner.
    pub mined: u64,
    /// Of those, with a loss.
    pub active: u64,
    /// Mean over the active triplets; 0 without any.
    pub loss: f64,
    /// `d loss / d anchor`, `[anchors, dim]`.
    pub anchor_gradient: Vec<f64>,
    /// `d loss / d reference`, `[references, dim]`.
    pub reference_gradient: Vec<f64>,
}

/// Every pair of an anchor and a reference but itself, by similarity: `[positives, negatives]` of each of `bins` over
/// [-1, 1]. A bin holds its lower bound, the last 1 as well. Tags are `[label, id]`.
pub fn pairs(
    anchors: &[f64],
    anchor_tags: &[[u32; 2]],
    references: &[f64],
    reference_tags: &[[u32; 2]],
    dim: usize,
    bins: usize,
) -> [Vec<u64>; 2] {
    let mut counts = [vec![0; bins], vec![0; bins]];
    for (anchor, [label, id]) in anchors.chunks(dim).zip(anchor_tags) {
        for (reference, [other, other_id]) in references.chunks(dim).zip(reference_tags) {
            let along = (dot(anchor, reference) + 1.0) / 2.0 * bins as f64;
            let bin = (along.max(0.0) as usize).min(bins - 1);
            if label != other {
                counts[1][bin] += 1;
            } else if id != other_id {
                counts[0][bin] += 1;
            }
        }
    }
    counts
}

/// `[farthest positive, nearest negative]` of each anchor, similarity and id; of equals the smaller id. Tags are
/// `[label, id]`.
pub fn hardest(
    anchors: &[f64],
    anchor_tags: &[[u32; 2]],
    references: &[f64],
    reference_tags: &[[u32; 2]],
    dim: usize,
) -> Vec<[Option<(f64, u32)>; 2]> {
    let mut all = Vec::new();
    for (anchor, [label, id]) in anchors.chunks(dim).zip(anchor_tags) {
        let mut hardest = [None; 2];
        for (reference, [other, other_id]) in references.chunks(dim).zip(reference_tags) {
            let (s, negative) = (dot(anchor, reference), label != other);
            if !negative && id == other_id {
                continue;
            }
            let slot = &mut hardest[usize::from(negative)];
            let harder = slot.is_none_or(|(known, known_id)| match negative {
                _ if s == known => *other_id < known_id,
                true => s > known,
                false => s < known,
            });
            if harder {
                *slot = Some((s, *other_id));
            }
        }
        all.push(hardest);
    }
    all
}

/// Every triplet, one after the other. Tags are `[label, id]`.
pub fn triplet_margin(
    anchors: &[f64],
    anchor_tags: &[[u32; 2]],
    references: &[f64],
    reference_tags: &[[u32; 2]],
    dim: usize,
    rule: &Rule,
) -> Mining {
    let (miner_margin, loss_margin) = (f64::from(rule.miner_margin), f64::from(rule.loss_margin));
    let mut mining = Mining {
        anchor_gradient: vec![0.0; anchors.len()],
        reference_gradient: vec![0.0; references.len()],
        ..Mining::default()
    };
    for (a, [label, id]) in anchor_tags.iter().enumerate() {
        let anchor = &anchors[a * dim..][..dim];
        let similarities: Vec<f64> = references
            .chunks(dim)
            .map(|reference| dot(anchor, reference))
            .collect();
        let mut weights = vec![0i64; reference_tags.len()];
        for (p, [p_label, p_id]) in reference_tags.iter().enumerate() {
            if p_label != label || p_id == id {
                continue;
            }
            for (n, [n_label, _]) in reference_tags.iter().enumerate() {
                if n_label == label {
                    continue;
                }
                let tm = similarities[p] - similarities[n];
                let within = tm <= miner_margin;
                let hard = within && tm <= 0.0;
                mining.valid += 1;
                mining.easy += u64::from(!within);
                mining.hard += u64::from(hard);
                mining.semihard += u64::from(within && !hard);
                let mined = match rule.kind {
                    Kind::All => within,
                    Kind::Easy => !within,
                    Kind::Semihard => within && !hard,
                    Kind::Hard => hard,
                    Kind::Unmined => true,
                };
                mining.mined += u64::from(mined);
                if mined && tm < loss_margin {
                    mining.active += 1;
                    mining.loss += loss_margin - tm;
                    weights[n] += 1;
                    weights[p] -= 1;
                }
            }
        }
        for (r, weight) in weights.into_iter().enumerate() {
            for k in 0..dim {
                let weight = weight as f64;
                mining.anchor_gradient[a * dim + k] += weight * references[r * dim + k];
                mining.reference_gradient[r * dim + k] += weight * anchor[k];
            }
        }
    }
    let active = mining.active.max(1) as f64;
    mining.loss /= active;
    let gradients = mining
        .anchor_gradient
        .iter_mut()
        .chain(&mut mining.reference_gradient);
    for gradient in gradients {
        *gradient /= active;
    }
    mining
}

/// For each query, the ranks of the references of its label, nearest first, from 1 on: similarity down, id up, the
/// reference with the query's own id left out. Tags are `[label, id]`.
pub fn ranks(
    queries: &[f64],
    query_tags: &[[u32; 2]],
    references: &[f64],
    reference_tags: &[[u32; 2]],
    dim: usize,
) -> Vec<Vec<u64>> {
    let rank_of_query = |(query, [label, id]): (&[f64], &[u32; 2])| {
        let mut others: Vec<_> = references
            .chunks(dim)
            .zip(reference_tags)
            .filter(|(_, tag)| tag[1] != *id)
            .map(|(reference, tag)| (dot(query, reference), tag))
            .collect();
        others
            .sort_by(|(s, t), (s_other, t_other)| s_other.total_cmp(s).then(t[1].cmp(&t_other[1])));
        let ranked = (1..).zip(&others);
        ranked
            .filter(|(_, (_, tag))| tag[0] == *label)
            .map(|(rank, _)| rank)
            .collect()
    };
    queries
        .chunks(dim)
        .zip(query_tags)
        .map(rank_of_query)
        .collect()
}

/// For each query, the `k` nearest references as `(id, similarity)`: similarity down, id up, the reference with the
/// query's own id left out. An id is a reference's place.
pub fn neighbours(
    queries: &[f64],
    own_ids: &[u32],
    references: &[f64],
    dim: usize,
    k: usize,
) -> Vec<Vec<(u32, f64)>> {
    let nearest = |(query, own): (&[f64], &u32)| {
        let mut all: Vec<(u32, f64)> = (0..)
            .zip(references.chunks(dim))
            .filter(|(id, _)| id != own)
            .map(|(id, reference)| (id, dot(query, reference)))
            .collect();
        all.sort_by(|(id, s), (other_id, other)| other.total_cmp(s).then(id.cmp(other_id)));
        all.truncate(k);
        all
    };
    queries.chunks(dim).zip(own_ids).map(nearest).collect()
}
