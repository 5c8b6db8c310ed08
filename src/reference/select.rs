//! References of one row that a miner keeps or draws.

use crate::cpu::Distance;
use crate::kernels::draw::Draws;
use crate::kernels::ranks::SEGMENT;
use crate::kernels::select::{Keep, Selection};

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
    let keeps = [selection.positives.keep, selection.negatives.keep];
    if keeps == [Keep::Close; 2] {
        let (Some(p), Some(n)) = (farthest(&positives, values), nearest(&negatives, values)) else {
            return [Vec::new(), Vec::new()];
        };
        let epsilon = f64::from(selection.epsilon);
        let near = |p_place: &usize| values[*p_place] - epsilon < values[n];
        let far = |n_place: &usize| values[*n_place] + epsilon > values[p];
        return [
            positives.into_iter().filter(near).collect(),
            negatives.into_iter().filter(far).collect(),
        ];
    }
    let inner_p = in_range(&positives, selection.positives.range);
    let inner_n = in_range(&negatives, selection.negatives.range);
    let [positive, negative] = one_of_each(keeps, &inner_p, &inner_n, values);
    let both = !keeps.contains(&Keep::All);
    if both && (positive.is_none() || negative.is_none()) {
        return [Vec::new(), Vec::new()];
    }
    let list = |keep: Keep, all: Vec<usize>, one: Option<usize>| match keep {
        Keep::All => all,
        _ => one.into_iter().collect(),
    };
    [
        list(keeps[0], inner_p, positive),
        list(keeps[1], inner_n, negative),
    ]
}

/// The one positive and the one negative that are kept, by the rule of each side; `None` for a side that keeps all.
fn one_of_each(
    [p_keep, n_keep]: [Keep; 2],
    positives: &[usize],
    negatives: &[usize],
    values: &[f64],
) -> [Option<usize>; 2] {
    let one_positive = |than: Option<usize>| match p_keep {
        Keep::Easy => nearest(positives, values),
        Keep::Hard => farthest(positives, values),
        _ => than.and_then(|n| {
            let nearer = positives.iter().copied().filter(|p| values[*p] > values[n]);
            farthest(&nearer.collect::<Vec<_>>(), values)
        }),
    };
    let one_negative = |than: Option<usize>| match n_keep {
        Keep::Easy => farthest(negatives, values),
        Keep::Hard => nearest(negatives, values),
        _ => than.and_then(|p| {
            let farther = negatives.iter().copied().filter(|n| values[*n] < values[p]);
            nearest(&farther.collect::<Vec<_>>(), values)
        }),
    };
    match (p_keep, n_keep) {
        (Keep::All, Keep::All) => [None, None],
        (Keep::All, _) => [None, one_negative(None)],
        (_, Keep::All) => [one_positive(None), None],
        (Keep::Semihard, _) => {
            let negative = one_negative(None);
            [one_positive(negative), negative]
        }
        _ => {
            let positive = one_positive(None);
            [positive, one_negative(positive)]
        }
    }
}

/// The first of the farthest.
fn farthest(places: &[usize], values: &[f64]) -> Option<usize> {
    let by_value = |a: &usize, b: &usize| values[*a].total_cmp(&values[*b]).then(a.cmp(b));
    places.iter().copied().min_by(by_value)
}

/// The first of the nearest.
fn nearest(places: &[usize], values: &[f64]) -> Option<usize> {
    let by_value = |a: &usize, b: &usize| values[*b].total_cmp(&values[*a]).then(a.cmp(b));
    places.iter().copied().min_by(by_value)
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
