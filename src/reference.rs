//! Reference results of the kernels, computed by nested loops in f64: obviously right, and shared by no engine.
//!
//! For tests and for the bench, which checks before it times. Rows here are dense: `[rows, dim]`, no padding.

use crate::cpu::Distance;
use crate::kernels::draw::Draws;
use crate::kernels::gemm::Layer;
use crate::kernels::ranks::SEGMENT;
use crate::kernels::select::{Keep, Selection};
use crate::kernels::triplet_margin::{Kind, Rule};
use crate::kernels::weigh::Weighing;
use crate::rules::losses::Loss;

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

/// Counts, loss and gradients of a set of triplets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mining {
    /// Triplets with a positive and a negative.
    pub valid: u64,
    /// Valid triplets with `tm > margin`.
    pub easy: u64,
    /// Valid triplets with `0 < tm <= margin`.
    pub semihard: u64,
    /// Valid triplets with `tm <= margin` and `tm <= 0`.
    pub hard: u64,
    /// Triplets that the miner keeps.
    pub mined: u64,
    /// Mined triplets with a loss above zero.
    pub active: u64,
    /// Mean loss of the active triplets; 0 without any.
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
    type Map = fn(f64) -> f64;
    let (value, slope): (Map, Map) = match rule.distance {
        Distance::Cosine => (|s| s, |_| 1.0),
        // Not rounded as `value` is: a loss is differentiated.
        Distance::L2 => (
            |s| -(2.0 - 2.0 * s).max(0.0).sqrt(),
            |s| {
                if s < 1.0 {
                    1.0 / (2.0 - 2.0 * s).sqrt()
                } else {
                    0.0
                }
            },
        ),
    };
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
        let mut weights = vec![0.0; reference_tags.len()];
        for (p, [p_label, p_id]) in reference_tags.iter().enumerate() {
            if p_label != label || p_id == id {
                continue;
            }
            for (n, [n_label, _]) in reference_tags.iter().enumerate() {
                if n_label == label {
                    continue;
                }
                let tm = value(similarities[p]) - value(similarities[n]);
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
                    weights[n] += slope(similarities[n]);
                    weights[p] -= slope(similarities[p]);
                }
            }
        }
        for (r, weight) in weights.into_iter().enumerate() {
            for k in 0..dim {
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

/// Every triplet that a miner keeps, `[anchor, positive, negative]` by place, one after the other. Tags are `[label, id]`.
pub fn triplets(
    anchors: &[f64],
    anchor_tags: &[[u32; 2]],
    references: &[f64],
    reference_tags: &[[u32; 2]],
    dim: usize,
    rule: &Rule,
) -> Vec<[u32; 3]> {
    let margin = f64::from(rule.miner_margin);
    let mut kept = Vec::new();
    for (a, (anchor, [label, id])) in anchors.chunks(dim).zip(anchor_tags).enumerate() {
        let of = |row| value(rule.distance, dot(anchor, row));
        let values: Vec<f64> = references.chunks(dim).map(of).collect();
        for (p, [p_label, p_id]) in reference_tags.iter().enumerate() {
            if p_label != label || p_id == id {
                continue;
            }
            for (n, [n_label, _]) in reference_tags.iter().enumerate() {
                if n_label == label {
                    continue;
                }
                let tm = values[p] - values[n];
                let keeps = match rule.kind {
                    Kind::All => tm <= margin,
                    Kind::Easy => tm > margin,
                    Kind::Semihard => tm > 0.0 && tm <= margin,
                    Kind::Hard => tm <= 0.0 && tm <= margin,
                    Kind::Unmined => true,
                };
                if keeps {
                    kept.push([a, p, n].map(|place| place as u32));
                }
            }
        }
    }
    kept
}

/// FaceNet's triplets by place, `[anchor, positive, negative]`: of an anchor's negatives the nearest that is strictly
/// farther than the positive, or else the farthest; of equals the first. Tags are `[label, id]`.
pub fn facenet_semihard(
    anchors: &[f64],
    anchor_tags: &[[u32; 2]],
    references: &[f64],
    reference_tags: &[[u32; 2]],
    dim: usize,
) -> Vec<[u32; 3]> {
    let mut chosen = Vec::new();
    for (a, (anchor, [label, id])) in anchors.chunks(dim).zip(anchor_tags).enumerate() {
        let similarities: Vec<f64> = references.chunks(dim).map(|row| dot(anchor, row)).collect();
        for (p, [p_label, p_id]) in reference_tags.iter().enumerate() {
            if p_label != label || p_id == id {
                continue;
            }
            let negatives = (0..reference_tags.len()).filter(|n| reference_tags[*n][0] != *label);
            let negatives: Vec<usize> = negatives.collect();
            if let Some(n) = one_negative(p, &negatives, &similarities) {
                chosen.push([a, p, n].map(|place| place as u32));
            }
        }
    }
    chosen
}

/// Place of the nearest negative that is strictly farther than the positive, or else of the farthest; of equals the first.
pub fn one_negative(positive: usize, negatives: &[usize], values: &[f64]) -> Option<usize> {
    let (mut beyond, mut farthest): (Option<usize>, Option<usize>) = (None, None);
    for n in negatives {
        let v = values[*n];
        if v < values[positive] && beyond.is_none_or(|best| v > values[best]) {
            beyond = Some(*n);
        }
        if farthest.is_none_or(|best| v < values[best]) {
            farthest = Some(*n);
        }
    }
    beyond.or(farthest)
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

/// Value by which rows of this similarity are compared: itself, or minus the Euclidean distance of unit rows.
pub fn value(distance: Distance, s: f64) -> f64 {
    match distance {
        Distance::Cosine => s,
        // Rounded as the engines round it: values that are equal there are equal here.
        Distance::L2 => f64::from(-(2.0 - 2.0 * s).max(0.0).sqrt() as f32),
    }
}

/// Places of the kept positives and of the kept negatives of a row with these values and tags `[label, id]`.
pub fn select(
    selection: &Selection,
    values: &[f64],
    tags: &[[u32; 2]],
    [label, id]: [u32; 2],
) -> [Vec<usize>; 2] {
    let side = |same: bool| -> Vec<usize> {
        let others = (0..tags.len()).filter(|i| tags[*i][1] != id);
        others.filter(|i| (tags[*i][0] == label) == same).collect()
    };
    let (positives, negatives) = (side(true), side(false));
    let in_range = |places: &[usize], range: [f32; 2]| -> Vec<usize> {
        let [low, high] = range.map(f64::from);
        let held = places.iter().copied();
        held.filter(|i| low <= values[*i] && values[*i] <= high)
            .collect()
    };
    let inner_p = in_range(&positives, selection.positives.range);
    let inner_n = in_range(&negatives, selection.negatives.range);
    // The first of the farthest, the first of the nearest.
    let farthest = |places: &[usize]| {
        let by_value = |a: &usize, b: &usize| values[*a].total_cmp(&values[*b]).then(a.cmp(b));
        places.iter().copied().min_by(by_value)
    };
    let nearest = |places: &[usize]| {
        let by_value = |a: &usize, b: &usize| values[*b].total_cmp(&values[*a]).then(a.cmp(b));
        places.iter().copied().min_by(by_value)
    };
    let (p_keep, n_keep) = (selection.positives.keep, selection.negatives.keep);
    let epsilon = f64::from(selection.epsilon);
    let one_positive = |than: Option<usize>| match p_keep {
        Keep::Easy => nearest(&inner_p),
        Keep::Hard => farthest(&inner_p),
        _ => than.and_then(|n| {
            let nearer = inner_p.iter().copied().filter(|p| values[*p] > values[n]);
            farthest(&nearer.collect::<Vec<_>>())
        }),
    };
    let one_negative = |than: Option<usize>| match n_keep {
        Keep::Easy => farthest(&inner_n),
        Keep::Hard => nearest(&inner_n),
        _ => than.and_then(|p| {
            let farther = inner_n.iter().copied().filter(|n| values[*n] < values[p]);
            nearest(&farther.collect::<Vec<_>>())
        }),
    };
    let (mut positive, mut negative) = (None, None);
    match (p_keep, n_keep) {
        (Keep::Close, Keep::Close) => {
            let (Some(p), Some(n)) = (farthest(&positives), nearest(&negatives)) else {
                return [Vec::new(), Vec::new()];
            };
            let near = |p_place: &usize| values[*p_place] - epsilon < values[n];
            let far = |n_place: &usize| values[*n_place] + epsilon > values[p];
            return [
                positives.into_iter().filter(near).collect(),
                negatives.into_iter().filter(far).collect(),
            ];
        }
        (Keep::All, Keep::All) => {}
        (Keep::All, _) => negative = one_negative(None),
        (_, Keep::All) => positive = one_positive(None),
        (Keep::Semihard, _) => {
            negative = one_negative(None);
            positive = one_positive(negative);
        }
        _ => {
            positive = one_positive(None);
            negative = one_negative(positive);
        }
    }
    let both = p_keep != Keep::All && n_keep != Keep::All;
    if both && (positive.is_none() || negative.is_none()) {
        return [Vec::new(), Vec::new()];
    }
    let list = |keep: Keep, all: Vec<usize>, one: Option<usize>| match keep {
        Keep::All => all,
        _ => one.into_iter().collect(),
    };
    [
        list(p_keep, inner_p, positive),
        list(n_keep, inner_n, negative),
    ]
}

/// Counts, loss and derivatives of the triplets of one row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Weighed {
    /// Within the miner's margin, hard, mined, active.
    pub counts: [u64; 4],
    /// The sum of the losses.
    pub loss: f64,
    /// Its derivative by each similarity of the row.
    pub weights: Vec<f64>,
    /// Its derivative by the similarity of each positive to each negative, `(p, n, derivative)`.
    pub swapped: Vec<(usize, usize, f64)>,
}

/// Weighs every triplet of one row's kept positives and negatives; `between` is the similarity of two references.
pub fn weigh(
    weighing: &Weighing,
    values: &[f64],
    [positives, negatives]: &[Vec<usize>; 2],
    between: impl Fn(usize, usize) -> f64,
) -> Weighed {
    let of_positive = |p: &usize| {
        let p = *p;
        let chosen = one_negative(p, negatives, values);
        let met = negatives.iter().copied();
        met.filter(move |n| !weighing.one_negative || Some(*n) == chosen)
            .map(move |n| [p, n])
    };
    let triplets: Vec<[usize; 2]> = positives.iter().flat_map(of_positive).collect();
    weigh_triplets(weighing, values, &triplets, between)
}

/// Weighs triplets of one row one by one, each a positive and a negative.
pub fn weigh_triplets(
    weighing: &Weighing,
    values: &[f64],
    triplets: &[[usize; 2]],
    between: impl Fn(usize, usize) -> f64,
) -> Weighed {
    let Rule {
        kind,
        miner_margin,
        loss_margin,
        ..
    } = weighing.rule;
    let slope = |v: f64| match weighing.rule.distance {
        Distance::Cosine => 1.0,
        Distance::L2 if v == 0.0 => 0.0,
        Distance::L2 => -1.0 / v,
    };
    let mut weighed = Weighed {
        weights: vec![0.0; values.len()],
        ..Weighed::default()
    };
    for [p, n] in triplets {
        let tm = values[*p] - values[*n];
        let within = tm <= f64::from(miner_margin);
        let hard = within && tm <= 0.0;
        let mined = match kind {
            Kind::All => within,
            Kind::Easy => !within,
            Kind::Semihard => within && !hard,
            Kind::Hard => hard,
            Kind::Unmined => true,
        };
        let v_pn = value(weighing.rule.distance, between(*p, *n));
        let swapped = match values[*n].total_cmp(&v_pn) {
            _ if !weighing.swap => 0.0,
            std::cmp::Ordering::Less => 1.0,
            std::cmp::Ordering::Equal => 0.5,
            std::cmp::Ordering::Greater => 0.0,
        };
        let v_n = if swapped > 0.0 { v_pn } else { values[*n] };
        let x = f64::from(loss_margin) - (values[*p] - v_n);
        let active = mined && (weighing.smooth || x > 0.0);
        for (count, holds) in weighed.counts.iter_mut().zip([within, hard, mined, active]) {
            *count += u64::from(holds);
        }
        if active {
            let (loss, by_x) = if weighing.smooth {
                (x.exp().ln_1p(), 1.0 / (1.0 + (-x).exp()))
            } else {
                (x, 1.0)
            };
            weighed.loss += loss;
            weighed.weights[*p] -= by_x * slope(values[*p]);
            weighed.weights[*n] += by_x * (1.0 - swapped) * slope(values[*n]);
            if swapped > 0.0 {
                weighed.swapped.push((*p, *n, by_x * swapped * slope(v_pn)));
            }
        }
    }
    weighed
}

/// Counts a row's triplets with each of `references` references.
pub fn times(triplets: &[[usize; 2]], references: usize) -> Vec<u32> {
    let mut times = vec![0; references];
    for place in triplets.as_flattened() {
        times[*place] += 1;
    }
    times
}

/// Triplets that are drawn of one row, positive and negative of each, by weights in f64: `anchor` is the row's place in the batch.
pub fn draw(
    draws: &Draws,
    anchor: usize,
    [label, id]: [u32; 2],
    tags: &[[u32; 2]],
    values: &[f64],
) -> Vec<[usize; 2]> {
    let of_class = |i: &usize| tags[*i][0] == label;
    let members = (0..tags.len()).filter(of_class);
    let positives: Vec<usize> = members.clone().filter(|i| tags[*i][1] != id).collect();
    let dim = draws.dim as f64;
    let [cutoff, limit] = [draws.drawing.cutoff, draws.drawing.nonzero_loss_cutoff].map(f64::from);
    let log_weight = |i: usize| {
        let far = match draws.distance {
            Distance::Cosine => (2.0 - 2.0 * values[i]).max(0.0).sqrt(),
            Distance::L2 => -values[i],
        };
        let far = far.max(cutoff);
        let log = (2.0 - dim) * far.ln() - (dim - 3.0) / 2.0 * (1.0 - far * far / 4.0).ln();
        (!of_class(&i) && far < limit && log.is_finite()).then_some(log)
    };
    let logs: Vec<Option<f64>> = (0..tags.len()).map(log_weight).collect();
    let Some(top) = logs.iter().flatten().copied().reduce(f64::max) else {
        return Vec::new();
    };
    if positives.is_empty() {
        return Vec::new();
    }
    let weight = |log: &Option<f64>| log.map_or(0.0, |log| (log - top).exp());
    let weights: Vec<f64> = logs.iter().map(weight).collect();
    let share = tags.len().div_ceil(SEGMENT);
    let shares: Vec<f64> = weights.chunks(share).map(|w| w.iter().sum()).collect();
    // The first place at which the running sum of weights exceeds `part` of their total.
    let pick = |part: f64, weights: &[f64]| {
        let at = part * weights.iter().sum::<f64>();
        let mut sum = 0.0;
        let upto = weights.iter().map(|weight| {
            sum += weight;
            sum
        });
        upto.take_while(|sum| *sum <= at).count()
    };
    let [low, high] = draws.seeds();
    let draw = |number: usize| {
        let parts = hash([low, high, anchor as u32, number as u32]);
        let [x, y, z, _] = parts.map(|bits| f64::from(bits >> 8) / 16_777_216.0);
        let first = share * pick(y, &shares);
        let own = &weights[first..tags.len().min(first + share)];
        let positive = positives[(x * positives.len() as f64) as usize];
        [positive, first + pick(z, own)]
    };
    (0..members.count()).map(draw).collect()
}

/// `pcg4d` of Jarzynski and Olano.
fn hash(v: [u32; 4]) -> [u32; 4] {
    let mut v = v.map(|v| v.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
    let mix = |v: &mut [u32; 4]| {
        for [to, a, b] in [[0, 1, 3], [1, 2, 0], [2, 0, 1], [3, 1, 2]] {
            v[to] = v[to].wrapping_add(v[a].wrapping_mul(v[b]));
        }
    };
    mix(&mut v);
    v = v.map(|v| v ^ v >> 16);
    mix(&mut v);
    v
}

/// A pair of an anchor, as a loss of pairs sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairOfAnchor {
    /// Similarity of the two unit rows.
    pub similarity: f64,
    /// Similarity that gives the weights that a loss holds constant; to differentiate, leave it as it is.
    pub held: f64,
    /// Number of times that the pair counts.
    pub times: f64,
    /// Number of the other row among the anchors, if the references are the anchors themselves.
    pub other: Option<usize>,
}

/// The positives and the negatives of an anchor.
pub type PairsOfAnchor = [Vec<PairOfAnchor>; 2];

/// A loss of pairs, as its paper or PML writes it: in distances or similarities, one anchor after the other.
///
/// # Panics
/// For a loss of triplets, and for one with proxies, which [`proxy_loss`] computes.
pub fn pair_loss(loss: &Loss, distance: Distance, anchors: &[PairsOfAnchor]) -> f64 {
    let by = By(distance);
    let rows = |of: &dyn Fn(&PairsOfAnchor) -> f64| -> Vec<(f64, f64)> {
        anchors.iter().map(|sides| (of(sides), 1.0)).collect()
    };
    match loss {
        Loss::TripletMargin(_) => panic!("a loss of triplets"),
        Loss::Contrastive(loss) => {
            let positives = by.hinges(anchors, 0, &|d| by.farther(d, loss.pos_margin));
            let negatives = by.hinges(anchors, 1, &|d| by.farther(loss.neg_margin, d));
            mean(&positives, &above_zero) + mean(&negatives, &above_zero)
        }
        Loss::Margin(loss) => {
            let positive = |d: f64| by.farther(d, loss.beta) + loss.margin;
            let negative = |d: f64| by.farther(loss.beta, d) + loss.margin;
            let mut terms = by.hinges(anchors, 0, &positive);
            terms.extend(by.hinges(anchors, 1, &negative));
            mean(&terms, &above_zero)
        }
        Loss::MultiSimilarity(loss) => {
            let soft = |side: &[PairOfAnchor], scale: f64, of: &dyn Fn(f64) -> f64| {
                let mut exponents = by.of_side(side, &|d| scale * of(d));
                exponents.push(0.0);
                log_sum(exponents) / scale
            };
            let of = |[positives, negatives]: &PairsOfAnchor| {
                soft(positives, loss.alpha, &|d| by.farther(d, loss.base))
                    + soft(negatives, loss.beta, &|d| by.farther(loss.base, d))
            };
            mean(&rows(&of), &every)
        }
        Loss::NtXent(loss) => by.nt_xent(anchors, loss.temperature),
        Loss::SupCon(loss) => {
            if anchors.iter().all(|[_, negatives]| negatives.is_empty()) {
                return 0.0;
            }
            mean(
                &rows(&|sides| by.sup_con(sides, loss.temperature)),
                &above_zero,
            )
        }
        Loss::Circle(loss) => mean(
            &rows(&|sides| circle(sides, loss.m, loss.gamma)),
            &above_zero,
        ),
        Loss::GeneralizedLiftedStructure(loss) => {
            let of = |[positives, negatives]: &PairsOfAnchor| {
                let positives = by.of_side(positives, &|d| by.farther(d, loss.pos_margin));
                let negatives = by.of_side(negatives, &|d| by.farther(loss.neg_margin, d));
                relu(log_sum(positives) + log_sum(negatives))
            };
            mean(&rows(&of), &every)
        }
        Loss::LiftedStructure(loss) => {
            by.lifted_structure(anchors, [loss.pos_margin, loss.neg_margin])
        }
        Loss::Nca(loss) => {
            let exponent = |pair: &PairOfAnchor| loss.softmax_scale * by.nearness(pair);
            let of = |[positives, negatives]: &PairsOfAnchor| {
                let all = positives.iter().chain(negatives).map(exponent).collect();
                log_sum(all) - log_sum(positives.iter().map(exponent).collect())
            };
            let rows = anchors
                .iter()
                .filter(|[positives, _]| !positives.is_empty());
            let terms: Vec<_> = rows.map(|sides| (of(sides), 1.0)).collect();
            mean(&terms, &every)
        }
        loss => panic!("{loss:?} learns proxies"),
    }
}

/// Measure that PML compares by: similarity or distance.
#[derive(Clone, Copy)]
struct By(Distance);

impl By {
    fn value(self, similarity: f64) -> f64 {
        match self.0 {
            Distance::Cosine => similarity,
            Distance::L2 => (2.0 - 2.0 * similarity).max(0.0).sqrt(),
        }
    }

    /// Amount by which `a` is farther than `b`.
    fn farther(self, a: f64, b: f64) -> f64 {
        match self.0 {
            Distance::Cosine => b - a,
            Distance::L2 => a - b,
        }
    }

    fn nearness(self, pair: &PairOfAnchor) -> f64 {
        self.farther(0.0, self.value(pair.similarity))
    }

    fn of_side(self, side: &[PairOfAnchor], of: &dyn Fn(f64) -> f64) -> Vec<f64> {
        let values = side.iter().map(|pair| self.value(pair.similarity));
        values.map(of).collect()
    }

    /// The part of `of` above zero for each pair of a side, and the number of times that the pair counts.
    fn hinges(
        self,
        anchors: &[PairsOfAnchor],
        side: usize,
        of: &dyn Fn(f64) -> f64,
    ) -> Vec<(f64, f64)> {
        let pairs = anchors.iter().flat_map(|sides| &sides[side]);
        let hinge = |pair: &PairOfAnchor| relu(of(self.value(pair.similarity)));
        pairs.map(|pair| (hinge(pair), pair.times)).collect()
    }

    fn nt_xent(self, anchors: &[PairsOfAnchor], temperature: f64) -> f64 {
        let mut terms = Vec::new();
        for [positives, negatives] in anchors {
            for positive in positives {
                let own = self.nearness(positive) / temperature;
                let others = negatives.iter().map(|negative| {
                    let x = self.nearness(negative) / temperature;
                    negative.times * (x - own).exp()
                });
                terms.push((others.sum::<f64>().ln_1p(), positive.times));
            }
        }
        mean(&terms, &every)
    }

    fn sup_con(self, [positives, negatives]: &PairsOfAnchor, temperature: f64) -> f64 {
        let exponent = |pair: &PairOfAnchor| self.nearness(pair) / temperature;
        let all = log_sum(positives.iter().chain(negatives).map(exponent).collect());
        let sum: f64 = positives.iter().map(exponent).sum();
        if positives.is_empty() {
            0.0
        } else {
            all - sum / positives.len() as f64
        }
    }

    fn lifted_structure(
        self,
        anchors: &[PairsOfAnchor],
        [pos_margin, neg_margin]: [f64; 2],
    ) -> f64 {
        if anchors.iter().all(|[_, negatives]| negatives.is_empty()) {
            return 0.0;
        }
        let mut terms = Vec::new();
        for (anchor, [positives, _]) in anchors.iter().enumerate() {
            for positive in positives {
                let both = std::iter::once(anchor).chain(positive.other);
                let negatives = both.flat_map(|row| &anchors[row][1]);
                let sum: f64 = negatives
                    .map(|n| n.times * self.farther(neg_margin, self.value(n.similarity)).exp())
                    .sum();
                let log = if sum > 0.0 { sum.ln() } else { 0.0 };
                let value = self.value(positive.similarity);
                let lost = relu(self.farther(value, pos_margin) + log);
                terms.push((lost * lost / 2.0, positive.times));
            }
        }
        mean(&terms, &every)
    }
}

fn circle([positives, negatives]: &PairsOfAnchor, m: f64, gamma: f64) -> f64 {
    if positives.is_empty() || negatives.is_empty() {
        return 0.0;
    }
    let of_positive =
        |pair: &PairOfAnchor| -gamma * relu(1.0 + m - pair.held) * (pair.similarity - (1.0 - m));
    let of_negative = |pair: &PairOfAnchor| gamma * relu(pair.held + m) * (pair.similarity - m);
    let positives = log_sum(positives.iter().map(of_positive).collect());
    let negatives = log_sum(negatives.iter().map(of_negative).collect());
    softplus(positives + negatives)
}

fn relu(x: f64) -> f64 {
    x.max(0.0)
}

fn softplus(x: f64) -> f64 {
    relu(x) + (-x.abs()).exp().ln_1p()
}

/// Log-sum-exp; 0 without exponents.
fn log_sum(exponents: Vec<f64>) -> f64 {
    let top = exponents.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = exponents.iter().map(|x| (x - top).exp()).sum();
    if exponents.is_empty() {
        0.0
    } else {
        top + sum.ln()
    }
}

/// Mean of the `(term, times)` whose term is `counted`, each as often as `times`.
fn mean(terms: &[(f64, f64)], counted: &dyn Fn(f64) -> bool) -> f64 {
    let counted = terms.iter().filter(|(term, _)| counted(*term));
    let (sum, times) = counted.fold((0.0, 0.0), |(sum, all), (term, times)| {
        (sum + term * times, all + times)
    });
    if times == 0.0 { 0.0 } else { sum / times }
}

fn above_zero(term: f64) -> bool {
    term > 0.0
}

fn every(_: f64) -> bool {
    true
}

/// A loss with proxies, as PML writes it: `similarities[row][class]` are those of a row with the proxies of a class. `held`: the
/// similarities at the point of a derivative; they choose the nearest proxy. `weights`: factor of each row's loss, or in proxy
/// anchor, less 1, a part of its exponents.
///
/// # Panics
/// For a loss without proxies.
pub fn proxy_loss(
    loss: &Loss,
    distance: Distance,
    similarities: &[Vec<Vec<f64>>],
    held: &[Vec<Vec<f64>>],
    labels: &[usize],
    weights: &[f64],
) -> f64 {
    let cross_entropy = |logits: &[f64], label: usize| {
        let top = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = logits.iter().map(|x| (x - top).exp()).sum();
        top + sum.ln() - logits[label]
    };
    let arc_face = |cosine: f64, degrees: f64| {
        let (theta, margin) = (cosine.acos(), degrees.to_radians());
        if theta <= std::f64::consts::PI - margin {
            (theta + margin).cos()
        } else {
            cosine - margin * margin.sin()
        }
    };
    let nearest = |row: usize, class: usize| {
        let held = &held[row][class];
        let best = (0..held.len()).fold(0, |best, i| if held[i] > held[best] { i } else { best });
        similarities[row][class][best]
    };
    let logits = |row: usize, of: &dyn Fn(usize, bool) -> f64| -> f64 {
        let classes = 0..similarities[row].len();
        let logits: Vec<f64> = classes
            .map(|class| of(class, class == labels[row]))
            .collect();
        cross_entropy(&logits, labels[row])
    };
    let only = |row: usize, class: usize| match distance {
        Distance::Cosine => similarities[row][class][0],
        Distance::L2 => -(2.0 - 2.0 * similarities[row][class][0]).max(0.0).sqrt(),
    };
    let of_row = |row: usize| match loss {
        Loss::ProxyNca(loss) => logits(row, &|class, _| loss.softmax_scale * only(row, class)),
        Loss::NormalizedSoftmax(loss) => {
            logits(row, &|class, _| only(row, class) / loss.temperature)
        }
        Loss::CosFace(loss) => logits(row, &|class, own| {
            loss.scale * (only(row, class) - if own { loss.margin } else { 0.0 })
        }),
        Loss::ArcFace(loss) => logits(row, &|class, own| match own {
            true => loss.scale * arc_face(only(row, class), loss.margin),
            false => loss.scale * only(row, class),
        }),
        Loss::SubCenterArcFace(loss) => logits(row, &|class, own| match own {
            true => loss.scale * arc_face(nearest(row, class), loss.margin),
            false => loss.scale * nearest(row, class),
        }),
        Loss::SoftTriple(loss) => logits(row, &|class, own| {
            let of_class = &similarities[row][class];
            let weights: Vec<f64> = of_class.iter().map(|s| (s / loss.gamma).exp()).collect();
            let products = weights.iter().zip(of_class).map(|(weight, s)| weight * s);
            let s = products.sum::<f64>() / weights.iter().sum::<f64>();
            loss.la * (s - if own { loss.margin } else { 0.0 })
        }),
        loss => panic!("{loss:?} is no sum over rows of a loss with proxies"),
    };
    let Loss::ProxyAnchor(loss) = loss else {
        let rows = (0..labels.len()).map(|row| weights[row] * of_row(row));
        return rows.sum::<f64>() / labels.len() as f64;
    };
    let classes = similarities[0].len();
    let (mut with_rows, mut positives, mut negatives) = (0, 0.0, 0.0);
    for class in 0..classes {
        let sum = |own: bool, of: &dyn Fn(f64) -> f64| -> f64 {
            let side = (0..labels.len()).filter(|row| (labels[*row] == class) == own);
            let terms = side.map(|row| (of(only(row, class)) + weights[row] - 1.0).exp());
            terms.sum::<f64>().ln_1p()
        };
        with_rows += usize::from(labels.contains(&class));
        positives += sum(true, &|s| -loss.alpha * (s - loss.margin));
        negatives += sum(false, &|s| loss.alpha * (s + loss.margin));
    }
    positives / with_rows as f64 + negatives / classes as f64
}
