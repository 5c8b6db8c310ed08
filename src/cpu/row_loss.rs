//! Losses of rows of similarities: each row reduced to a few numbers, then dL/ds of every pair that is kept.

use super::parallel::{map, rows_of_a_part};
use super::ranks::Block;
use super::triplet_margin::{Rule, add_total, read_total};
use crate::distance::Distance;

/// What a row of similarities costs, as a function of the values `v` of its kept positives and negatives: similarities, or
/// minus distances. The slopes are `dL/dv`. One loss a case, here and in `row_loss.wgsl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Form {
    /// `max(0, margin_p - v)` and `max(0, v - margin_n)`, each side averaged over its pairs above zero.
    Contrastive = 0,
    /// The same, both sides averaged together.
    Margin = 1,
    /// `log(1 + sum exp(scale_p (margin_p - v))) / scale_p`, and `log(1 + sum exp(scale_n (v - margin_n))) / scale_n`.
    MultiSimilarity = 2,
    /// `log(1 + exp(A - scale_p v))` of each positive, with `A` the log-sum-exp of `scale_p v` over the negatives.
    NtXent = 3,
    /// The log-sum-exp of `scale_p v` over both sides, less its mean over the positives.
    SupCon = 4,
    /// `log(1 + exp(A_p + A_n))`, log-sum-exps of `-scale_p max(0, 1 + margin_n - v) (v - margin_p)` and of
    /// `scale_p max(0, v + margin_n) (v - margin_n)`, whose factors `max(..)` are constants.
    Circle = 5,
    /// `max(0, A_p + A_n)`, log-sum-exps of `margin_p - v` and of `v - margin_n`; of an empty side 0.
    GeneralizedLifted = 6,
    /// `log(1 + exp(A_n - A_p))`, log-sum-exps of `scale_n v` and of `scale_p (v - margin_p)`: the cross-entropy of the
    /// positives among all.
    Softmax = 7,
    /// The same, with `scale_p cos(acos(v) + margin_p)` for the positives.
    ArcFace = 8,
    /// `A_p` and `A_n`, log-sum-exps of 0 with `scale_p (margin_p - v)`, and of 0 with `scale_n (v - margin_n)`; the first
    /// averaged over rows with a positive, the second over all.
    ProxyAnchor = 9,
    /// `max(0, margin_p - v + A)^2 / 2` of each positive, with `A` the log-sum-exp of `v - margin_n` over the negatives of both
    /// rows of the pair.
    Lifted = 10,
}

/// How the values of a row with the centres of one class become one value of that class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Centers {
    /// References that stand for one class, next to each other; 1: each reference stands for itself.
    pub per_class: usize,
    /// The class has the mean of their values, weighted by `softmax(gamma v)`; 0: the largest of them.
    pub gamma: f32,
}

impl Centers {
    /// Each reference stands for itself.
    pub const ONE: Self = Self {
        per_class: 1,
        gamma: 0.0,
    };

    /// Replaces the values of a class's references by the one of the class; `shares`: how much it grows with each of them.
    fn pool(&self, values: &mut [f32], shares: &mut [f32]) {
        // The first of equal ones.
        let best =
            (1..values.len()).fold(0, |best, i| if values[i] > values[best] { i } else { best });
        let top = values[best];
        if self.gamma == 0.0 {
            values.fill(top);
            shares.fill(0.0);
            shares[best] = 1.0;
            return;
        }
        let (mut sum, mut weighted) = (0.0, 0.0);
        for (value, share) in values.iter().zip(&mut *shares) {
            *share = (self.gamma * (value - top)).exp();
            sum += *share;
            weighted += *share * value;
        }
        let mean = weighted / sum;
        for (value, share) in values.iter_mut().zip(shares) {
            *share = *share / sum * (1.0 + self.gamma * (*value - mean));
            *value = mean;
        }
    }
}

/// How often a kept pair counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Times {
    /// Once.
    Once = 0,
    /// In as many triplets as a miner of triplets keeps with it; where that is none, not at all.
    Mined = 1,
    /// As often as the other side has kept pairs: in every triplet of the row.
    Crossed = 2,
}

/// A loss of rows, as the kernels take it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowCost {
    /// How rows are compared.
    pub distance: Distance,
    /// The formula.
    pub form: Form,
    /// Factors of the positives' and of the negatives' values in exponents.
    pub scales: [f32; 2],
    /// Margins of both sides, as values.
    pub margins: [f32; 2],
    /// How often a pair counts.
    pub times: Times,
    /// The band of triplets that is mined, for [`Times::Mined`].
    pub mined: Rule,
    /// How many references stand for one class.
    pub centers: Centers,
}

/// Counts in a step's report, u64s in two words each: where [`super::triplet_margin::Total`] has those of triplets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairTotal {
    /// Pairs of an anchor and a positive, or of an anchor and a negative, before mining.
    Valid = 0,
    /// Positive pairs that are kept, as often as they count.
    Positives = 2,
    /// Negative pairs that are kept, likewise.
    Negatives = 4,
    /// Kept positive pairs with a loss above zero, as often as they count: of a loss of whole rows, those of rows with one.
    ActivePositives = 6,
    /// Kept negative pairs with a loss above zero, likewise.
    ActiveNegatives = 8,
    /// Rows with a loss above zero; of [`Form::Softmax`], [`Form::ArcFace`] and [`Form::ProxyAnchor`] those with a positive.
    Rows = 10,
}

impl PairTotal {
    /// Reads the count off a step's report.
    pub fn read(self, report: &[u32]) -> u64 {
        read_total(report, self as usize)
    }

    fn add(self, report: &mut [u32], value: u64) {
        add_total(report, self as usize, value);
    }
}

/// Stands for the log-sum-exp of nothing in a row's numbers.
const EMPTY: f32 = -1e30;

/// Numbers that a row is reduced to.
pub const ROW_NUMBERS: usize = 8;

/// A row reduced: what its pairs cost, and what their slopes need.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Reduced {
    /// What its positives cost, and its negatives; all of it in the first where the formula does not part them.
    costs: [f32; 2],
    /// Log-sum-exps of both sides; of [`Form::SupCon`] the one over both.
    logs: [f32; 2],
    /// The sum over positives of their softmax weights in [`Form::NtXent`], a factor of all slopes elsewhere.
    factor: f32,
    /// How many pairs count: each pair once where the formula looks at a matrix.
    counts: [f32; 2],
}

impl Reduced {
    fn write(&self, to: &mut [f32]) {
        let Self {
            costs: [p, n],
            logs: [log_p, log_n],
            factor,
            counts: [positives, negatives],
        } = *self;
        to.copy_from_slice(&[p, n, log_p, log_n, factor, positives, negatives, 0.0]);
    }

    fn read(from: &[f32]) -> Self {
        Self {
            costs: [from[0], from[1]],
            logs: [from[2], from[3]],
            factor: from[4],
            counts: [from[5], from[6]],
        }
    }
}

/// `log(exp(a) + exp(b))`.
fn log_add(a: f64, b: f64) -> f64 {
    let top = a.max(b);
    if top == f64::NEG_INFINITY {
        return top;
    }
    top + ((a - top).exp() + (b - top).exp()).ln()
}

/// `log(1 + exp(x))`.
fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

impl RowCost {
    /// Whether a pair counts once however many triplets it stands in, as where PML writes masks.
    pub(crate) fn is_of_masks(&self) -> bool {
        !matches!(
            self.form,
            Form::Contrastive | Form::Margin | Form::NtXent | Form::Lifted
        )
    }

    /// By how much a pair misses its margin; 0 where it meets it.
    fn hinge(&self, positive: bool, v: f32) -> f32 {
        if positive {
            (self.margins[0] - v).max(0.0)
        } else {
            (v - self.margins[1]).max(0.0)
        }
    }

    /// The constant factor of a pair in [`Form::Circle`].
    fn relaxed(&self, positive: bool, v: f32) -> f32 {
        if positive {
            (1.0 + self.margins[1] - v).max(0.0)
        } else {
            (v + self.margins[1]).max(0.0)
        }
    }

    /// What stands in the exponent of a pair.
    fn exponent(&self, positive: bool, v: f32) -> f64 {
        let ([scale_p, scale_n], [margin_p, margin_n]) = (self.scales, self.margins);
        f64::from(match (self.form, positive) {
            (Form::Contrastive | Form::Margin, _) => 0.0,
            (Form::MultiSimilarity, true) => scale_p * (margin_p - v),
            (Form::MultiSimilarity, false) => scale_n * (v - margin_n),
            (Form::NtXent | Form::SupCon, _) => scale_p * v,
            (Form::Circle, true) => -scale_p * self.relaxed(true, v) * (v - margin_p),
            (Form::Circle, false) => scale_p * self.relaxed(false, v) * (v - margin_n),
            (Form::GeneralizedLifted | Form::Lifted, true) => margin_p - v,
            (Form::GeneralizedLifted | Form::Lifted, false) => v - margin_n,
            (Form::Softmax, true) => scale_p * (v - margin_p),
            (Form::ArcFace, true) => scale_p * widened(v, margin_p).0,
            (Form::Softmax | Form::ArcFace, false) => scale_n * v,
            (Form::ProxyAnchor, true) => scale_p * (margin_p - v),
            (Form::ProxyAnchor, false) => scale_n * (v - margin_n),
        })
    }

    /// Of a positive pair in [`Form::Lifted`]: the log-sum-exp over the negatives of both rows, and by how much the pair misses
    /// its margin with that. Log-sum-exps of no negative are [`EMPTY`].
    fn lifted(&self, v: f32, own: f32, other: f32) -> (f64, f32) {
        let log = log_add(f64::from(own), f64::from(other));
        let log = if log <= f64::from(EMPTY) { 0.0 } else { log };
        (log, (f64::from(self.margins[0] - v) + log).max(0.0) as f32)
    }

    /// Whether a row without a loss counts where it has a positive.
    fn counts_positives(&self) -> bool {
        matches!(self.form, Form::Softmax | Form::ArcFace | Form::ProxyAnchor)
    }

    /// `dL/dv` of a pair, from its row and the divisors of the batch.
    /// `other`: the log-sum-exp over the negatives of the pair's other row, for [`Form::Lifted`].
    fn slope(&self, pair: &Pair, row: &Reduced, other: f32, divisors: [f32; 2]) -> f32 {
        let Pair {
            positive, v, times, ..
        } = *pair;
        let sign = if positive { -1.0 } else { 1.0 };
        let side = usize::from(!positive);
        let share = |log: f32| (self.exponent(positive, v) - f64::from(log)).exp() as f32;
        let slope = match self.form {
            Form::Contrastive | Form::Margin => {
                sign * times * f32::from(self.hinge(positive, v) > 0.0)
            }
            Form::MultiSimilarity => sign * share(row.logs[side]),
            Form::NtXent if row.counts[1] == 0.0 => 0.0,
            Form::NtXent if positive => {
                let behind = f64::from(row.logs[1]) - self.exponent(true, v);
                -times * self.scales[0] * sigmoid(behind) as f32
            }
            Form::NtXent => times * self.scales[0] * row.factor * share(row.logs[1]),
            // Nothing of a row without a loss: its logs may be far from its exponents.
            Form::SupCon
            | Form::Circle
            | Form::GeneralizedLifted
            | Form::Softmax
            | Form::ArcFace
                if row.factor == 0.0 =>
            {
                0.0
            }
            Form::SupCon => {
                let own = if positive { 1.0 / row.counts[0] } else { 0.0 };
                row.factor * self.scales[0] * (share(row.logs[0]) - own)
            }
            Form::Circle => {
                let relaxed = self.relaxed(positive, v);
                sign * row.factor * share(row.logs[side]) * self.scales[0] * relaxed
            }
            Form::GeneralizedLifted => sign * row.factor * share(row.logs[side]),
            Form::ProxyAnchor => sign * self.scales[side] * share(row.logs[side]),
            Form::Lifted if positive => -times * self.lifted(v, row.logs[1], other).1,
            Form::Lifted if row.factor == 0.0 => 0.0,
            Form::Lifted => times * row.factor * share(row.logs[1]),
            Form::Softmax | Form::ArcFace => {
                let along = match (self.form, positive) {
                    (Form::ArcFace, true) => widened(v, self.margins[0]).1,
                    _ => 1.0,
                };
                sign * row.factor * share(row.logs[side]) * self.scales[side] * along
            }
        };
        over(slope, divisors[side])
    }

    /// What the positives' and the negatives' part of the loss are divided by, from the whole batch's counts.
    fn divisors(&self, anchors: usize, report: &[u32]) -> [f32; 2] {
        let of = |total: PairTotal| total.read(report) as f32;
        let both = |divisor: f32| [divisor; 2];
        let [positives, negatives] = [
            of(PairTotal::ActivePositives),
            of(PairTotal::ActiveNegatives),
        ];
        match self.form {
            Form::Contrastive => [positives, negatives],
            Form::Margin => both(positives + negatives),
            Form::MultiSimilarity | Form::GeneralizedLifted => both(anchors as f32),
            // PML gives no loss to a batch without a pair of one of the kinds.
            Form::SupCon | Form::Lifted if of(PairTotal::Negatives) == 0.0 => both(0.0),
            Form::NtXent | Form::Lifted => both(of(PairTotal::Positives)),
            Form::SupCon | Form::Circle | Form::Softmax | Form::ArcFace => {
                both(of(PairTotal::Rows))
            }
            Form::ProxyAnchor => [of(PairTotal::Rows), anchors as f32],
        }
    }
}

/// `cos(acos(v) + margin)` of a margin in radians, and its slope; where the angle would pass a half turn, `v - margin
/// sin(margin)`, so that it falls on.
fn widened(v: f32, margin: f32) -> (f32, f32) {
    const NEAREST: f32 = 1.0 - 1e-7;
    let (sin, cos) = margin.sin_cos();
    if v < -cos {
        return (v - margin * sin, 1.0);
    }
    let inside = v.abs() <= NEAREST;
    let v = v.clamp(-NEAREST, NEAREST);
    let height = (1.0 - v * v).sqrt();
    let slope = if inside { cos + v / height * sin } else { 0.0 };
    (v * cos - height * sin, slope)
}

/// 0 where nothing is to be divided by.
fn over(value: f32, divisor: f32) -> f32 {
    if divisor > 0.0 { value / divisor } else { 0.0 }
}

/// What the pass reads of a block: as `kernels::row_loss`.
#[derive(Clone, Copy)]
pub(crate) struct Slices<'a> {
    pub(crate) values: &'a [f32],
    pub(crate) places: &'a [u32],
    pub(crate) counts: &'a [[u32; 2]],
    /// How often each pair counts, for [`Times::Mined`].
    pub(crate) times: &'a [u32],
}

/// A kept pair of a row.
#[derive(Clone, Copy)]
struct Pair {
    place: usize,
    positive: bool,
    v: f32,
    times: f32,
    /// Whether it is the one that its class is counted by.
    leads: bool,
}

impl<'a> Slices<'a> {
    /// The kept positives of a row and its kept negatives, by place.
    fn sides(&self, width: usize, row: usize) -> [&'a [u32]; 2] {
        let places = &self.places[row * width..][..width];
        let [positives, negatives] = self.counts[row].map(|count| count as usize);
        [&places[..positives], &places[width - negatives..]]
    }

    /// The pairs of a row that count: positives first, each side ascending.
    fn pairs(
        self,
        cost: &'a RowCost,
        width: usize,
        row: usize,
    ) -> impl Iterator<Item = Pair> + Clone + 'a {
        let [positives, negatives] = self.sides(width, row);
        let counts = [positives.len(), negatives.len()];
        let positives = positives.iter().map(|place| (place, true));
        let negatives = negatives.iter().rev().map(|place| (place, false));
        let pairs = positives.chain(negatives).map(move |(place, positive)| {
            let (place, at) = (*place as usize, row * width + *place as usize);
            let times = match cost.times {
                Times::Once => 1.0,
                Times::Mined => self.times[at] as f32,
                Times::Crossed => counts[usize::from(positive)] as f32,
            };
            let most = if cost.is_of_masks() { 1.0 } else { f32::MAX };
            Pair {
                place,
                positive,
                v: self.values[at],
                times: times.min(most),
                leads: place % cost.centers.per_class == 0,
            }
        });
        pairs.filter(|pair| pair.times > 0.0)
    }
}

/// How often each kept pair of the block's rows stands in a triplet that the band keeps.
pub(crate) fn count(
    block: &Block,
    width: usize,
    rule: &Rule,
    inputs: Slices<'_>,
    times: &mut [u32],
) {
    let rows = times[..block.rows * width].chunks_exact_mut(width);
    let parts: Vec<_> = rows.enumerate().collect();
    map(parts, |(row, times)| {
        let values = &inputs.values[row * width..][..width];
        let [positives, negatives] = inputs.sides(width, row);
        for p in positives {
            times[*p as usize] = 0;
        }
        for n in negatives {
            let v_an = values[*n as usize];
            let mut met = 0;
            for p in positives {
                let mined = rule.mined(values[*p as usize] - v_an).0;
                times[*p as usize] += u32::from(mined);
                met += u32::from(mined);
            }
            times[*n as usize] = met;
        }
    });
}

/// Values of classes for those of their references, `[rows, width]`, and in the weights how much each grows with those.
pub(crate) fn pool(
    block: &Block,
    width: usize,
    centers: &Centers,
    values: &mut [f32],
    weights: &mut [f32],
) {
    let each = centers.per_class;
    let most = rows_of_a_part(block.rows, 32 * block.rows * block.references, block.rows);
    let parts = values[..block.rows * width]
        .chunks_mut(most * width)
        .zip(weights.chunks_mut(most * width));
    map(parts.collect(), |(values, weights)| {
        let rows = values
            .chunks_exact_mut(width)
            .zip(weights.chunks_exact_mut(width));
        for (values, shares) in rows {
            let classes = values[..block.references].chunks_exact_mut(each);
            for (values, shares) in classes.zip(shares.chunks_exact_mut(each)) {
                centers.pool(values, shares);
            }
        }
    });
}

/// Reduces the block's rows, `[rows, ROW_NUMBERS]`, and adds their counts to the report.
pub(crate) fn reduce(
    block: &Block,
    width: usize,
    cost: &RowCost,
    inputs: Slices<'_>,
    reduced: &mut [f32],
    report: &mut [u32],
) {
    let operations = 64 * block.rows * block.references;
    let most = rows_of_a_part(block.rows, operations, block.rows);
    let rows = reduced[..block.rows * ROW_NUMBERS].chunks_mut(most * ROW_NUMBERS);
    let parts: Vec<_> = (0..block.rows).step_by(most).zip(rows).collect();
    let counted = map(parts, |(first, reduced)| {
        let mut counted = [0u64; 5];
        for (row, reduced) in (first..).zip(reduced.chunks_exact_mut(ROW_NUMBERS)) {
            let pairs = inputs.pairs(cost, width, row).filter(|pair| pair.leads);
            let (row, counted_row) = reduce_row(cost, pairs.clone());
            row.write(reduced);
            let of = |positive: bool, active: bool| -> u64 {
                let side = pairs.clone().filter(|pair| pair.positive == positive);
                let counts = side.filter(|pair| !active || is_active(cost, &row, pair));
                counts.map(|pair| pair.times as u64).sum()
            };
            let counts = [
                of(true, false),
                of(false, false),
                of(true, true),
                of(false, true),
            ];
            for (sum, count) in counted.iter_mut().zip(counts) {
                *sum += count;
            }
            counted[4] += u64::from(counted_row);
        }
        counted
    });
    for counted in counted {
        for (total, count) in [
            PairTotal::Positives,
            PairTotal::Negatives,
            PairTotal::ActivePositives,
            PairTotal::ActiveNegatives,
            PairTotal::Rows,
        ]
        .into_iter()
        .zip(counted)
        {
            total.add(report, count);
        }
    }
}

/// Whether a pair of a row has a loss above zero, or of a whole row's loss a part.
fn is_active(cost: &RowCost, row: &Reduced, pair: &Pair) -> bool {
    match cost.form {
        Form::Contrastive | Form::Margin => cost.hinge(pair.positive, pair.v) > 0.0,
        _ => row.costs[0] + row.costs[1] > 0.0,
    }
}

/// A row's numbers, and whether [`PairTotal::Rows`] counts it.
fn reduce_row(cost: &RowCost, pairs: impl Iterator<Item = Pair> + Clone) -> (Reduced, bool) {
    let side = |positive: bool| pairs.clone().filter(move |pair| pair.positive == positive);
    let exponent = |pair: Pair| cost.exponent(pair.positive, pair.v);
    let log_sum = |positive: bool| {
        let top = side(positive)
            .map(exponent)
            .fold(f64::NEG_INFINITY, f64::max);
        let sum = |pair: Pair| f64::from(pair.times) * (exponent(pair) - top).exp();
        match top == f64::NEG_INFINITY {
            true => top,
            false => top + side(positive).map(sum).sum::<f64>().ln(),
        }
    };
    let times = |positive: bool| {
        side(positive)
            .map(|pair| f64::from(pair.times))
            .sum::<f64>()
    };
    let counts = [times(true), times(false)];
    let mut row = Reduced {
        counts: counts.map(|count| count as f32),
        ..Reduced::default()
    };
    let both = counts[0] > 0.0 && counts[1] > 0.0;
    match cost.form {
        Form::Contrastive | Form::Margin => {
            let hinge =
                |pair: Pair| f64::from(pair.times) * f64::from(cost.hinge(pair.positive, pair.v));
            row.costs = [true, false].map(|positive| side(positive).map(hinge).sum::<f64>() as f32);
        }
        Form::MultiSimilarity => {
            let logs = [true, false].map(|positive| log_add(0.0, log_sum(positive)));
            row.logs = logs.map(|log| log as f32);
            let [scale_p, scale_n] = cost.scales.map(f64::from);
            row.costs[0] = (logs[0] / scale_p + logs[1] / scale_n) as f32;
        }
        Form::NtXent if both => {
            let log = log_sum(false);
            row.logs[1] = log as f32;
            let sum = |of: fn(f64) -> f64| -> f64 {
                let terms = side(true).map(|pair| f64::from(pair.times) * of(log - exponent(pair)));
                terms.sum()
            };
            row.costs[0] = sum(softplus) as f32;
            row.factor = sum(sigmoid) as f32;
        }
        Form::SupCon if counts[0] > 0.0 => {
            let log = log_add(log_sum(true), log_sum(false));
            let mean = side(true).map(exponent).sum::<f64>() / counts[0];
            row.logs[0] = log as f32;
            row.costs[0] = (log - mean) as f32;
            row.factor = f32::from(row.costs[0] > 0.0);
        }
        Form::Circle if both => {
            let logs = [log_sum(true), log_sum(false)];
            row.logs = logs.map(|log| log as f32);
            row.costs[0] = softplus(logs[0] + logs[1]) as f32;
            row.factor = sigmoid(logs[0] + logs[1]) as f32;
        }
        Form::GeneralizedLifted => {
            let logs = [true, false].map(log_sum);
            let logs = logs.map(|log| if log.is_finite() { log } else { 0.0 });
            row.logs = logs.map(|log| log as f32);
            row.costs[0] = (logs[0] + logs[1]).max(0.0) as f32;
            row.factor = f32::from(row.costs[0] > 0.0);
        }
        Form::Softmax | Form::ArcFace if both => {
            let logs = [log_sum(true), log_sum(false)];
            row.logs = logs.map(|log| log as f32);
            row.costs[0] = softplus(logs[1] - logs[0]) as f32;
            row.factor = sigmoid(logs[1] - logs[0]) as f32;
        }
        Form::Lifted => row.logs[1] = (log_sum(false) as f32).max(EMPTY),
        Form::ProxyAnchor => {
            row.logs = [true, false].map(|positive| log_add(0.0, log_sum(positive)) as f32);
            row.costs = row.logs;
        }
        Form::NtXent | Form::SupCon | Form::Circle | Form::Softmax | Form::ArcFace => {}
    }
    let counts = match cost.counts_positives() {
        true => counts[0] > 0.0,
        false => row.costs[0] + row.costs[1] > 0.0,
    };
    (row, counts)
}

/// Goes over the block's positive pairs, where all rows of the batch are reduced: what they cost, and the sum of weights of the
/// slopes of each row's negatives. `own`: the references are the batch itself, and `block` is all of it; then a pair also
/// weighs on the row that is its reference.
#[expect(clippy::too_many_arguments, reason = "what a kernel reads and writes")]
pub(crate) fn settle(
    block: &Block,
    width: usize,
    cost: &RowCost,
    own: bool,
    inputs: Slices<'_>,
    first: usize,
    reduced: &mut [f32],
    report: &mut [u32],
) {
    let logs: Vec<f32> = reduced
        .chunks_exact(ROW_NUMBERS)
        .map(|row| row[3])
        .collect();
    let (mut lost, mut weights) = (vec![0.0; block.rows], vec![0.0; block.rows]);
    let mut active = [0u64; 3];
    for row in 0..block.rows {
        let log = logs[first + row];
        for pair in inputs.pairs(cost, width, row).filter(|pair| pair.positive) {
            let other = if own { logs[pair.place] } else { EMPTY };
            let (both, h) = cost.lifted(pair.v, log, other);
            let (times, h) = (f64::from(pair.times), f64::from(h));
            lost[row] += times * h * h / 2.0;
            weights[row] += times * h * (f64::from(log) - both).exp();
            if own {
                weights[pair.place] += times * h * (f64::from(other) - both).exp();
            }
            active[0] += if h > 0.0 { pair.times as u64 } else { 0 };
        }
    }
    for (row, (lost, weight)) in lost.into_iter().zip(weights).enumerate() {
        let numbers = &mut reduced[(first + row) * ROW_NUMBERS..][..ROW_NUMBERS];
        numbers[0] = lost as f32;
        numbers[4] = if logs[first + row] > EMPTY {
            weight as f32
        } else {
            0.0
        };
        if numbers[4] > 0.0 {
            let negatives = inputs.pairs(cost, width, row).filter(|pair| !pair.positive);
            active[1] += negatives.map(|pair| pair.times as u64).sum::<u64>();
        }
        active[2] += u64::from(lost > 0.0);
    }
    let totals = [
        PairTotal::ActivePositives,
        PairTotal::ActiveNegatives,
        PairTotal::Rows,
    ];
    for (total, count) in totals.into_iter().zip(active) {
        total.add(report, count);
    }
}

/// Writes dL/ds of the block's pairs, whose weights are zero before or come from [`pool`], and each row's part of the loss. `anchors`: rows of
/// the whole batch, whose counts stand in the report, and which are reduced from the block's `first` on; `own`: the references
/// are the same rows.
#[expect(clippy::too_many_arguments, reason = "what a kernel reads and writes")]
pub(crate) fn slopes(
    block: &Block,
    width: usize,
    cost: &RowCost,
    anchors: usize,
    own: bool,
    inputs: Slices<'_>,
    first: usize,
    reduced: &[f32],
    weights: &mut [f32],
    losses: &mut [u32],
    totals: &[u32],
) {
    let divisors = cost.divisors(anchors, totals);
    let operations = 32 * block.rows * block.references;
    let most = rows_of_a_part(block.rows, operations, block.rows);
    let panels = (0..block.rows)
        .step_by(most)
        .zip(weights[..block.rows * width].chunks_mut(most * width))
        .zip(losses[..block.rows].chunks_mut(most));
    map(panels.collect(), |((start, weights), losses)| {
        let rows = (start..).zip(weights.chunks_exact_mut(width)).zip(losses);
        for ((number, weights), loss) in rows {
            let row = Reduced::read(&reduced[(first + number) * ROW_NUMBERS..][..ROW_NUMBERS]);
            for pair in inputs.pairs(cost, width, number) {
                let other = match cost.form {
                    Form::Lifted if own => reduced[pair.place * ROW_NUMBERS + 3],
                    _ => EMPTY,
                };
                let slope = cost.slope(&pair, &row, other, divisors);
                let weight = &mut weights[pair.place];
                let share = if cost.centers.per_class == 1 {
                    1.0
                } else {
                    *weight
                };
                *weight = slope * share * cost.distance.slope_at(pair.v);
            }
            let parts = row.costs.into_iter().zip(divisors);
            let sum: f32 = parts.map(|(cost, divisor)| over(cost, divisor)).sum();
            *loss = sum.to_bits();
        }
    });
}
