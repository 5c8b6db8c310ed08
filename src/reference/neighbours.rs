//! The order of references by nearness: neighbours, ranks and counted pairs.

use super::rows::dot;

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
