//! Triplets of a batch: counted, differentiated and listed.

use super::rows::{dot, value};
use crate::cpu::Distance;
use crate::kernels::triplet_loss::Weighing;
use crate::kernels::triplet_margin::{Kind, Rule};

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

impl Mining {
    /// Sums over the active triplets as their mean.
    fn averaged(mut self) -> Self {
        let active = self.active.max(1) as f64;
        self.loss /= active;
        let of_references = &mut self.reference_gradient;
        for gradient in self.anchor_gradient.iter_mut().chain(of_references) {
            *gradient /= active;
        }
        self
    }
}

/// Tells if a triplet of margin `tm = v_ap - v_an` is within the miner's margin, is hard, and is kept.
fn judged(rule: &Rule, tm: f64) -> [bool; 3] {
    let within = tm <= f64::from(rule.miner_margin);
    let hard = within && tm <= 0.0;
    let mined = match rule.kind {
        Kind::All => within,
        Kind::Easy => !within,
        Kind::Semihard => within && !hard,
        Kind::Hard => hard,
        Kind::Unmined => true,
    };
    [within, hard, mined]
}

type Map = fn(f64) -> f64;

/// Value by which rows of a similarity are compared, not rounded as [`value`] is, as a loss is differentiated; and its slope.
fn exact(distance: Distance) -> (Map, Map) {
    match distance {
        Distance::Cosine => (|s| s, |_| 1.0),
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
    }
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
    let (value, slope) = exact(rule.distance);
    let loss_margin = f64::from(rule.loss_margin);
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
                let [within, hard, mined] = judged(rule, tm);
                mining.valid += 1;
                mining.easy += u64::from(!within);
                mining.hard += u64::from(hard);
                mining.semihard += u64::from(within && !hard);
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
    mining.averaged()
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
                let [.., keeps] = judged(rule, tm);
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
        let [within, hard, mined] = judged(&weighing.rule, tm);
        let v_pn = value(weighing.rule.distance, between(*p, *n));
        let swapped = match values[*n].total_cmp(&v_pn) {
            _ if !weighing.swap => 0.0,
            std::cmp::Ordering::Less => 1.0,
            std::cmp::Ordering::Equal => 0.5,
            std::cmp::Ordering::Greater => 0.0,
        };
        let v_n = if swapped > 0.0 { v_pn } else { values[*n] };
        let x = f64::from(weighing.rule.loss_margin) - (values[*p] - v_n);
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
