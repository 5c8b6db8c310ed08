//! Losses of rows of similarities: each row reduced to a few numbers, then dL/ds of every pair that is kept.
//!
//! Natively the arithmetic is inlined into the functions that choose the instructions. WebAssembly has one set of instructions:
//! there it is compiled once, as functions of its own.

use pulp::{Arch, Simd, WithSimd};

use super::SEGMENT;
use super::exp::{exp, sigmoid};
use super::parallel::{map, rows_of_a_part};
use super::ranks::Block;
use super::similarities::NONE;
use super::triplet_margin::{Rule, add_total, read_total};
use crate::Distance;

/// Loss of a row of similarities, as a function of the values `v` of its kept positives and negatives: similarities, or minus
/// distances. The slopes are `dL/dv`. Each variant is one loss, here and in `row_loss.wgsl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Form {
    /// `max(0, margin_p - v)` and `max(0, v - margin_n)`, each side averaged over its pairs above zero.
    Contrastive = 0,
    /// `max(0, margin_p - v)` and `max(0, v - margin_n)`, averaged over the pairs above zero of both sides together.
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
    /// [`Form::Softmax`] with `scale_p cos(acos(v) + margin_p)` as the exponents of the positives.
    ArcFace = 8,
    /// `A_p` and `A_n`, log-sum-exps of 0 with `scale_p (margin_p - v)`, and of 0 with `scale_n (v - margin_n)`; the first
    /// averaged over rows with a positive, the second over all.
    ProxyAnchor = 9,
    /// `max(0, margin_p - v + A)^2 / 2` of each positive, with `A` the log-sum-exp of `v - margin_n` over the negatives of both
    /// rows of the pair.
    Lifted = 10,
}

/// Pooling of a row's values with the centres of one class into one value of that class.
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

    /// Tells if a reference is the first of its class.
    fn leads(&self, place: usize) -> bool {
        self.per_class == 1 || place.is_multiple_of(self.per_class)
    }

    /// Replaces the values of a class's references by the value of the class. `shares` gets the slope of that value by each of
    /// them.
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

/// Number of times that a kept pair counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Times {
    /// Once.
    Once = 0,
    /// Once for each triplet that the miner keeps with the pair; not at all if it keeps none.
    Mined = 1,
    /// Once for each kept pair of the row's other side: for every triplet of the row with this pair.
    Crossed = 2,
}

/// Further input of a loss, in a buffer of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Given {
    /// None.
    #[default]
    Nothing = 0,
    /// The weight of each row of the batch: a factor of the row's loss, or in [`Form::ProxyAnchor`], less 1, a part of its exponents.
    Weights = 1,
    /// One number, the learned shift of both margins.
    Boundary = 2,
}

/// A loss of rows, as the kernels take it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowCost {
    /// Distance by which rows are compared.
    pub distance: Distance,
    /// The formula.
    pub form: Form,
    /// Factors of the positives' and of the negatives' values in exponents. [`Form::Margin`] has no exponents: there, the slope of
    /// the loss by the boundary apart from its pairs, and 0.
    pub scales: [f32; 2],
    /// Margins of both sides, as values.
    pub margins: [f32; 2],
    /// Number of times that a pair counts.
    pub times: Times,
    /// The band of triplets that is mined, for [`Times::Mined`].
    pub mined: Rule,
    /// Number of references that stand for one class, and their pooling.
    pub centers: Centers,
    /// Further input of the loss.
    pub given: Given,
}

/// Counts of pairs in a step's report, each a u64 in two words, in place of the triplet counts of [`super::triplet_margin::Total`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairTotal {
    /// Pairs of an anchor and a positive, or of an anchor and a negative, before mining.
    Valid = 0,
    /// Positive pairs that are kept, as often as they count.
    Positives = 2,
    /// Negative pairs that are kept, as often as they count.
    Negatives = 4,
    /// Kept positive pairs with a loss above zero, as often as they count. A loss of whole rows: the pairs of rows with a loss
    /// above zero.
    ActivePositives = 6,
    /// Kept negative pairs with a loss above zero, counted as the positive ones.
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

/// Log-sum-exp over no pairs, in a row's numbers.
const EMPTY: f32 = -1e30;

/// Numbers that a row is reduced to.
pub const ROW_NUMBERS: usize = 8;

/// Row reduced to the loss of its pairs and the numbers that their slopes need.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Reduced {
    /// Loss of its positives, and of its negatives; the first has all of it if the formula does not separate them.
    costs: [f32; 2],
    /// Log-sum-exps of both sides; of [`Form::SupCon`] the one over both.
    logs: [f32; 2],
    /// The sum over positives of their softmax weights in [`Form::NtXent`], a factor of all slopes elsewhere.
    factor: f32,
    /// Number of pairs of each side, each as often as it counts.
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

/// A number for each pair of a segment.
type Numbers = [f32; SEGMENT];

/// Partial sums, each with a SIMD lane of its own.
const LANES: usize = 16;

/// Pairs of one side of a row, a segment of places at most. A place that does not count has a `times` of 0, whatever its value.
struct Pairs {
    positive: bool,
    /// Whole vectors of places.
    count: usize,
    /// Values: similarities, or minus distances.
    v: Numbers,
    /// Number of times that each counts.
    times: Numbers,
    /// Addend of each exponent.
    added: Numbers,
}

impl Pairs {
    fn new(positive: bool) -> Self {
        Self {
            positive,
            count: 0,
            v: [NONE; SEGMENT],
            times: [0.0; SEGMENT],
            added: [0.0; SEGMENT],
        }
    }

    /// Sets the number of places; those that fill up the last vector do not count.
    #[cfg_attr(not(target_arch = "wasm32"), inline(always))]
    fn fill_up(&mut self, count: usize) {
        self.count = count.next_multiple_of(LANES);
        self.v[count..self.count].fill(NONE);
        self.times[count..self.count].fill(0.0);
    }

    /// Computes a number for each pair from its value.
    #[inline(always)]
    fn each(&self, numbers: &mut Numbers, of: impl Fn(f32) -> f32) {
        for (number, v) in numbers[..self.count].iter_mut().zip(&self.v) {
            *number = of(*v);
        }
    }

    /// Computes a number for each pair from its value, its exponent and the number of times that it counts.
    #[inline(always)]
    fn each_of(&self, x: &Numbers, numbers: &mut Numbers, of: impl Fn(f32, f32, f32) -> f32) {
        let pairs = self.v.iter().zip(x).zip(&self.times);
        for (number, ((v, x), times)) in numbers[..self.count].iter_mut().zip(pairs) {
            *number = of(*v, *x, *times);
        }
    }

    /// Sums `of(number)` over the pairs, each as often as it counts.
    #[inline(always)]
    fn sum(&self, numbers: &Numbers, of: impl Fn(f32) -> f32) -> f64 {
        let mut parts = [0.0; LANES];
        let numbers = numbers[..self.count].chunks_exact(LANES);
        let times = self.times[..self.count].chunks_exact(LANES);
        for (numbers, times) in numbers.zip(times) {
            for ((part, number), times) in parts.iter_mut().zip(numbers).zip(times) {
                *part += times * of(*number);
            }
        }
        parts.into_iter().map(f64::from).sum()
    }

    /// The largest of the numbers of pairs that count.
    #[cfg_attr(not(target_arch = "wasm32"), inline(always))]
    fn largest(&self, numbers: &Numbers) -> f32 {
        let mut tops = [f32::MIN; LANES];
        let numbers = numbers[..self.count].chunks_exact(LANES);
        let times = self.times[..self.count].chunks_exact(LANES);
        for (numbers, times) in numbers.zip(times) {
            for ((top, number), times) in tops.iter_mut().zip(numbers).zip(times) {
                let number = if *times > 0.0 { *number } else { f32::MIN };
                *top = if number > *top { number } else { *top };
            }
        }
        tops.into_iter().fold(f32::MIN, f32::max)
    }
}

impl RowCost {
    /// Tells if a pair counts once, however many triplets contain it: the losses that PML computes with masks.
    pub fn is_of_masks(&self) -> bool {
        match self.form {
            Form::Contrastive | Form::Margin | Form::NtXent | Form::Lifted => false,
            Form::MultiSimilarity
            | Form::SupCon
            | Form::Circle
            | Form::GeneralizedLifted
            | Form::Softmax
            | Form::ArcFace
            | Form::ProxyAnchor => true,
        }
    }

    /// The loss with its margins shifted by the learned boundary.
    fn moved(&self, given: &[f32]) -> Self {
        let by = match self.given {
            Given::Boundary => given[0],
            _ => 0.0,
        };
        Self {
            margins: self.margins.map(|margin| margin + by),
            ..*self
        }
    }

    /// Loss of the boundary of [`Form::Margin`] by itself; 0 if no positive pair is kept.
    fn of_the_boundary(&self, totals: &[u32]) -> f32 {
        match self.form {
            Form::Margin if PairTotal::Positives.read(totals) > 0 => {
                self.scales[0] * 0.5 * (self.margins[0] + self.margins[1])
            }
            _ => 0.0,
        }
    }

    /// Tells if the weights of references are added to the exponents.
    fn adds_weights(&self) -> bool {
        self.given == Given::Weights && self.form == Form::ProxyAnchor
    }

    /// Number of times that each pair of a row counts, `None` if they differ; and the most that a pair may count. `others`: kept
    /// pairs of the other side.
    fn times_of(&self, others: &[u32]) -> (Option<f32>, f32) {
        let most = if self.is_of_masks() { 1.0 } else { f32::MAX };
        let each = match self.times {
            Times::Once => Some(1.0),
            Times::Crossed => Some(most.min(others.len() as f32)),
            Times::Mined => None,
        };
        (each, most)
    }

    /// Amount by which a pair misses its margin; 0 if it meets it.
    #[inline(always)]
    fn hinge(&self, positive: bool, v: f32) -> f32 {
        if positive {
            (self.margins[0] - v).max(0.0)
        } else {
            (v - self.margins[1]).max(0.0)
        }
    }

    /// The constant factor of a pair in [`Form::Circle`].
    #[inline(always)]
    fn relaxed(&self, positive: bool, v: f32) -> f32 {
        if positive {
            (1.0 + self.margins[1] - v).max(0.0)
        } else {
            (v + self.margins[1]).max(0.0)
        }
    }

    /// Computes the exponents of the pairs.
    #[cfg_attr(not(target_arch = "wasm32"), inline(always))]
    fn exponents(&self, pairs: &Pairs, x: &mut Numbers) {
        let ([scale_p, scale_n], [margin_p, margin_n]) = (self.scales, self.margins);
        match (self.form, pairs.positive) {
            (Form::Contrastive | Form::Margin, _) => {}
            (Form::MultiSimilarity | Form::ProxyAnchor, true) => {
                pairs.each(x, |v| scale_p * (margin_p - v));
            }
            (Form::MultiSimilarity | Form::ProxyAnchor, false) => {
                pairs.each(x, |v| scale_n * (v - margin_n));
            }
            (Form::NtXent | Form::SupCon, _) => pairs.each(x, |v| scale_p * v),
            (Form::Circle, true) => {
                pairs.each(x, |v| -scale_p * self.relaxed(true, v) * (v - margin_p));
            }
            (Form::Circle, false) => {
                pairs.each(x, |v| scale_p * self.relaxed(false, v) * (v - margin_n));
            }
            (Form::GeneralizedLifted | Form::Lifted, true) => pairs.each(x, |v| margin_p - v),
            (Form::GeneralizedLifted | Form::Lifted, false) => pairs.each(x, |v| v - margin_n),
            (Form::Softmax, true) => pairs.each(x, |v| scale_p * (v - margin_p)),
            (Form::ArcFace, true) => {
                let wider = Wider::by(margin_p);
                pairs.each(x, |v| scale_p * wider.than(v).0);
            }
            (Form::Softmax | Form::ArcFace, false) => pairs.each(x, |v| scale_n * v),
        }
        if self.adds_weights() {
            for (x, added) in x.iter_mut().zip(&pairs.added) {
                *x += added;
            }
        }
    }

    /// Log-sum-exp over the negatives of both rows of a positive pair in [`Form::Lifted`], and the amount by which the pair then
    /// misses its margin. `own`, `other`: the log-sum-exp of each row, [`EMPTY`] without negatives.
    fn lifted(&self, v: f32, own: f32, other: f32) -> (f64, f32) {
        let log = log_add(f64::from(own), f64::from(other));
        let log = if log <= f64::from(EMPTY) { 0.0 } else { log };
        (log, (f64::from(self.margins[0] - v) + log).max(0.0) as f32)
    }

    /// Tells if a row with a positive counts even if its loss is 0.
    fn counts_positives(&self) -> bool {
        matches!(self.form, Form::Softmax | Form::ArcFace | Form::ProxyAnchor)
    }

    /// Computes `dL/ds` of pairs from the numbers of their row. `log_of`: the log-sum-exp over the negatives of the row that is the
    /// pair's reference, for positives in [`Form::Lifted`].
    #[cfg_attr(not(target_arch = "wasm32"), inline(always))]
    fn slopes(
        &self,
        pairs: &Pairs,
        row: &Reduced,
        log_of: &dyn Fn(usize) -> f32,
        divisor: f32,
        slopes: &mut Numbers,
    ) {
        let positive = pairs.positive;
        let side = usize::from(!positive);
        let sign = if positive { -1.0 } else { 1.0 };
        let (log, scale, factor) = (row.logs[side], self.scales[side], row.factor);
        let mut x = [0.0; SEGMENT];
        self.exponents(pairs, &mut x);
        match self.form {
            Form::Contrastive | Form::Margin => pairs.each_of(&x, slopes, |v, _, times| {
                let active = self.hinge(positive, v) > 0.0;
                if active { sign * times } else { 0.0 }
            }),
            Form::MultiSimilarity => pairs.each_of(&x, slopes, |_, x, _| sign * exp(x - log)),
            Form::NtXent if row.counts[1] == 0.0 => slopes.fill(0.0),
            Form::NtXent if positive => {
                let behind = row.logs[1];
                pairs.each_of(&x, slopes, |_, x, times| {
                    -times * scale * sigmoid(behind - x)
                });
            }
            Form::NtXent => {
                let all = self.scales[0] * factor;
                pairs.each_of(&x, slopes, |_, x, times| times * all * exp(x - log));
            }
            // A row without a loss has no slopes: its logs may be far from its exponents.
            Form::SupCon
            | Form::Circle
            | Form::GeneralizedLifted
            | Form::Softmax
            | Form::ArcFace
                if factor == 0.0 =>
            {
                slopes.fill(0.0);
            }
            Form::SupCon => {
                let own = if positive { 1.0 / row.counts[0] } else { 0.0 };
                let (log, all) = (row.logs[0], factor * self.scales[0]);
                pairs.each_of(&x, slopes, |_, x, _| all * (exp(x - log) - own));
            }
            Form::Circle => {
                let all = sign * factor * self.scales[0];
                pairs.each_of(&x, slopes, |v, x, _| {
                    all * exp(x - log) * self.relaxed(positive, v)
                });
            }
            Form::GeneralizedLifted => {
                pairs.each_of(&x, slopes, |_, x, _| sign * factor * exp(x - log));
            }
            Form::ProxyAnchor => {
                pairs.each_of(&x, slopes, |_, x, _| sign * scale * exp(x - log));
            }
            Form::Lifted if positive => {
                for (i, slope) in slopes[..pairs.count].iter_mut().enumerate() {
                    let missed = self.lifted(pairs.v[i], row.logs[1], log_of(i)).1;
                    *slope = -pairs.times[i] * missed;
                }
            }
            Form::Lifted if factor == 0.0 => slopes.fill(0.0),
            Form::Lifted => {
                pairs.each_of(&x, slopes, |_, x, times| times * factor * exp(x - log));
            }
            Form::ArcFace if positive => {
                let wider = Wider::by(self.margins[0]);
                pairs.each_of(&x, slopes, |v, x, _| {
                    sign * factor * exp(x - log) * scale * wider.than(v).1
                });
            }
            Form::Softmax | Form::ArcFace => {
                pairs.each_of(&x, slopes, |_, x, _| sign * factor * exp(x - log) * scale);
            }
        }
        for (slope, v) in slopes[..pairs.count].iter_mut().zip(&pairs.v) {
            *slope = over(*slope, divisor) * self.distance.slope_at(*v);
        }
    }

    /// Divisors of the positives' and the negatives' part of the loss, from the counts of the whole batch.
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

/// Angular margin in radians, with its sine and cosine.
#[derive(Clone, Copy)]
struct Wider {
    margin: f32,
    sin: f32,
    cos: f32,
}

impl Wider {
    fn by(margin: f32) -> Self {
        let angle = f64::from(margin);
        Self {
            margin,
            sin: libm::sin(angle) as f32,
            cos: libm::cos(angle) as f32,
        }
    }

    /// `cos(acos(v) + margin)`, and its slope; `v - margin sin(margin)` if the angle would pass a half turn, so that it goes on
    /// falling.
    #[inline(always)]
    fn than(self, v: f32) -> (f32, f32) {
        const NEAREST: f32 = 1.0 - 1e-7;
        let Self { margin, sin, cos } = self;
        if v < -cos {
            return (v - margin * sin, 1.0);
        }
        let inside = v.abs() <= NEAREST;
        let v = v.clamp(-NEAREST, NEAREST);
        let height = (1.0 - v * v).sqrt();
        let slope = if inside { cos + v / height * sin } else { 0.0 };
        (v * cos - height * sin, slope)
    }
}

/// `value / divisor`; 0 if the divisor is not above 0.
#[inline(always)]
fn over(value: f32, divisor: f32) -> f32 {
    if divisor > 0.0 { value / divisor } else { 0.0 }
}

/// Inputs of a block, as in `kernels::row_loss`.
#[derive(Clone, Copy)]
pub struct Slices<'a> {
    /// `[rows, width]`: similarities of kept references, or minus distances.
    pub values: &'a [f32],
    /// `[rows, width]`: numbers of kept references, positives from the front and negatives from the back.
    pub places: &'a [u32],
    /// `[rows]`: number of kept positives, and of kept negatives.
    pub counts: &'a [[u32; 2]],
    /// Number of times that each pair counts, for [`Times::Mined`].
    pub times: &'a [u32],
    /// Further input of the loss, as [`RowCost::given`] says.
    pub given: &'a [f32],
}

impl<'a> Slices<'a> {
    /// The kept positives of a row and its kept negatives, by place.
    pub(super) fn sides(&self, width: usize, row: usize) -> [&'a [u32]; 2] {
        let places = &self.places[row * width..][..width];
        let [positives, negatives] = self.counts[row].map(|count| count as usize);
        [&places[..positives], &places[width - negatives..]]
    }

    /// Passes the positives of a row to `with`, a segment at a time, with their places. `one_a_class`: only the first of the
    /// references that stand for a class counts.
    #[inline(always)]
    fn positives(
        &self,
        cost: &RowCost,
        width: usize,
        row: usize,
        one_a_class: bool,
        mut with: impl FnMut(&[u32], &Pairs),
    ) {
        let [positives, negatives] = self.sides(width, row);
        let (each, most) = cost.times_of(negatives);
        let values = &self.values[row * width..][..width];
        let mut pairs = Pairs::new(true);
        for places in positives.chunks(SEGMENT) {
            for (i, place) in places.iter().enumerate() {
                let at = *place as usize;
                let times = each.unwrap_or_else(|| self.times[row * width + at] as f32);
                let counts = !one_a_class || cost.centers.leads(at);
                pairs.v[i] = values[at];
                pairs.times[i] = if counts { times.min(most) } else { 0.0 };
                if cost.adds_weights() {
                    pairs.added[i] = self.given[at] - 1.0;
                }
            }
            pairs.fill_up(places.len());
            with(places, &pairs);
        }
    }

    /// Passes the negatives of a row to `with`, a segment of consecutive references at a time, with the place of its first.
    #[inline(always)]
    fn negatives(
        &self,
        cost: &RowCost,
        width: usize,
        row: usize,
        one_a_class: bool,
        mut with: impl FnMut(usize, &Pairs),
    ) {
        let [positives, _] = self.sides(width, row);
        let (each, most) = cost.times_of(positives);
        let values = self.values[row * width..][..width].chunks(SEGMENT);
        let mut left = positives;
        let mut pairs = Pairs::new(false);
        for (first, values) in (0..).step_by(SEGMENT).zip(values) {
            match <&Numbers>::try_from(values) {
                Ok(values) => pairs.v = *values,
                Err(_) => pairs.v[..values.len()].copy_from_slice(values),
            }
            if let Some(each) = each {
                for (times, v) in pairs.times.iter_mut().zip(&pairs.v) {
                    *times = if *v == NONE { 0.0 } else { each };
                }
            } else {
                let mined = &self.times[row * width + first..][..values.len()];
                let pairs = pairs.times.iter_mut().zip(&pairs.v).zip(mined);
                for ((times, v), mined) in pairs {
                    *times = if *v == NONE {
                        0.0
                    } else {
                        (*mined as f32).min(most)
                    };
                }
            }
            let here = left.partition_point(|place| (*place as usize) < first + SEGMENT);
            let (positives, later) = left.split_at(here);
            left = later;
            for place in positives {
                pairs.times[*place as usize - first] = 0.0;
            }
            if cost.adds_weights() {
                for (added, weight) in pairs.added.iter_mut().zip(&self.given[first..]) {
                    *added = weight - 1.0;
                }
            }
            if one_a_class && cost.centers.per_class > 1 {
                for (place, times) in (first..).zip(&mut pairs.times) {
                    *times = if cost.centers.leads(place) {
                        *times
                    } else {
                        0.0
                    };
                }
            }
            pairs.fill_up(values.len());
            with(first, &pairs);
        }
    }
}

/// Counts, for each kept pair of the block's rows, the triplets with it that the band keeps.
pub fn count(block: &Block, width: usize, rule: &Rule, inputs: Slices<'_>, times: &mut [u32]) {
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

/// Replaces the values of references, `[rows, width]`, by those of their classes, and writes to `weights` the slope of a class's
/// value by each of its references' values.
pub fn pool(
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

/// Reduces the block's rows, in `[anchors, ROW_NUMBERS]` from the first of them on, and adds their counts to the report.
pub fn reduce(
    block: &Block,
    width: usize,
    cost: &RowCost,
    inputs: Slices<'_>,
    first_anchor: usize,
    reduced: &mut [f32],
    report: &mut [u32],
) {
    let cost = &cost.moved(inputs.given);
    let reduced = &mut reduced[first_anchor * ROW_NUMBERS..];
    let operations = 16 * block.rows * block.references;
    let most = rows_of_a_part(block.rows, operations, block.rows);
    let rows = reduced[..block.rows * ROW_NUMBERS].chunks_mut(most * ROW_NUMBERS);
    let parts: Vec<_> = (0..block.rows).step_by(most).zip(rows).collect();
    let counted = map(parts, |(first, reduced)| {
        let mut counted = [0u64; 5];
        for (row, reduced) in (first..).zip(reduced.chunks_exact_mut(ROW_NUMBERS)) {
            let sides = Arch::new().dispatch(SumsOfRow {
                cost,
                inputs,
                width,
                row,
            });
            let mut numbers = Reduced::of(cost, &sides);
            if cost.form == Form::NtXent {
                inputs.positives(cost, width, row, true, |_, pairs| {
                    numbers.add_positives(cost, pairs);
                });
            }
            if cost.given == Given::Weights && !cost.adds_weights() {
                numbers.weigh(inputs.given[first_anchor + row]);
            }
            numbers.write(reduced);
            let of = |count: fn(&Sums) -> f64| sides.each_ref().map(|side| count(side) as u64);
            let all = of(|side| side.count);
            let has_a_loss = numbers.costs[0] + numbers.costs[1] > 0.0;
            let active = match cost.form {
                Form::Contrastive | Form::Margin => of(|side| side.above),
                _ if has_a_loss => all,
                _ => [0; 2],
            };
            let counts_row = match cost.counts_positives() {
                true => all[0] > 0,
                false => has_a_loss,
            };
            let counts = [all[0], all[1], active[0], active[1], u64::from(counts_row)];
            for (sum, count) in counted.iter_mut().zip(counts) {
                *sum += count;
            }
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

/// Sums over the pairs of one side of a row, each as often as it counts.
#[derive(Clone, Copy)]
struct Sums {
    count: f64,
    /// Amount by which they miss their margin, and the number that do.
    hinges: f64,
    above: f64,
    exponents: f64,
    /// The largest exponent, and the sum of `exp(x - top)` over all exponents.
    top: f64,
    below: f64,
}

impl Sums {
    const NONE: Self = Self {
        count: 0.0,
        hinges: 0.0,
        above: 0.0,
        exponents: 0.0,
        top: f64::NEG_INFINITY,
        below: 0.0,
    };

    #[cfg_attr(not(target_arch = "wasm32"), inline(always))]
    fn add(&mut self, cost: &RowCost, pairs: &Pairs) {
        let mut x = [0.0; SEGMENT];
        self.count += pairs.sum(&x, |_| 1.0);
        if matches!(cost.form, Form::Contrastive | Form::Margin) {
            pairs.each(&mut x, |v| cost.hinge(pairs.positive, v));
            self.hinges += pairs.sum(&x, |hinge| hinge);
            self.above += pairs.sum(&x, |hinge| if hinge > 0.0 { 1.0 } else { 0.0 });
            return;
        }
        cost.exponents(pairs, &mut x);
        let top = pairs.largest(&x);
        let below = pairs.sum(&x, |x| exp(x - top));
        let (old, top) = (self.top, f64::from(top));
        self.top = old.max(top);
        self.below = self.below * (old - self.top).exp() + below * (top - self.top).exp();
        if cost.form == Form::SupCon && pairs.positive {
            self.exponents += pairs.sum(&x, |x| x);
        }
    }

    /// Log-sum-exp; minus infinity without pairs.
    fn log(&self) -> f64 {
        self.top + self.below.ln()
    }
}

/// Sums over both sides of a row.
struct SumsOfRow<'a> {
    cost: &'a RowCost,
    inputs: Slices<'a>,
    width: usize,
    row: usize,
}

impl WithSimd for SumsOfRow<'_> {
    type Output = [Sums; 2];

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> [Sums; 2] {
        let Self {
            cost,
            inputs,
            width,
            row,
        } = self;
        let mut sides = [Sums::NONE; 2];
        inputs.positives(cost, width, row, true, |_, pairs| sides[0].add(cost, pairs));
        inputs.negatives(cost, width, row, true, |_, pairs| sides[1].add(cost, pairs));
        sides
    }
}

impl Reduced {
    /// Reduces the sums over both sides of a row; in [`Form::NtXent`] its positives are still to be added.
    fn of(cost: &RowCost, sides: &[Sums; 2]) -> Self {
        let counts = sides.each_ref().map(|side| side.count);
        let logs = sides.each_ref().map(Sums::log);
        let both = counts[0] > 0.0 && counts[1] > 0.0;
        let mut row = Self {
            counts: counts.map(|count| count as f32),
            ..Self::default()
        };
        match cost.form {
            Form::Contrastive | Form::Margin => {
                row.costs = sides.each_ref().map(|side| side.hinges as f32);
            }
            Form::MultiSimilarity => {
                let logs = logs.map(|log| log_add(0.0, log));
                row.logs = logs.map(|log| log as f32);
                let [scale_p, scale_n] = cost.scales.map(f64::from);
                row.costs[0] = (logs[0] / scale_p + logs[1] / scale_n) as f32;
            }
            Form::NtXent if both => row.logs[1] = logs[1] as f32,
            Form::SupCon if counts[0] > 0.0 => {
                let log = log_add(logs[0], logs[1]);
                row.logs[0] = log as f32;
                row.costs[0] = (log - sides[0].exponents / counts[0]) as f32;
                row.factor = f32::from(row.costs[0] > 0.0);
            }
            Form::Circle if both => {
                row.logs = logs.map(|log| log as f32);
                row.costs[0] = softplus(logs[0] + logs[1]) as f32;
                row.factor = sigmoid((logs[0] + logs[1]) as f32);
            }
            Form::GeneralizedLifted => {
                let logs = logs.map(|log| if log.is_finite() { log } else { 0.0 });
                row.logs = logs.map(|log| log as f32);
                row.costs[0] = (logs[0] + logs[1]).max(0.0) as f32;
                row.factor = f32::from(row.costs[0] > 0.0);
            }
            Form::Softmax | Form::ArcFace if both => {
                row.logs = logs.map(|log| log as f32);
                row.costs[0] = softplus(logs[1] - logs[0]) as f32;
                row.factor = sigmoid((logs[1] - logs[0]) as f32);
            }
            Form::Lifted => row.logs[1] = (logs[1] as f32).max(EMPTY),
            Form::ProxyAnchor => {
                row.logs = logs.map(|log| log_add(0.0, log) as f32);
                row.costs = row.logs;
            }
            Form::NtXent | Form::SupCon | Form::Circle | Form::Softmax | Form::ArcFace => {}
        }
        row
    }

    /// Multiplies the row's loss and slopes by its weight.
    fn weigh(&mut self, weight: f32) {
        self.costs = self.costs.map(|cost| weight * cost);
        self.factor *= weight;
    }

    /// Adds the loss of positives in [`Form::NtXent`], and their softmax weights.
    fn add_positives(&mut self, cost: &RowCost, pairs: &Pairs) {
        if self.counts[1] == 0.0 {
            return;
        }
        let (log, mut x) = (self.logs[1], [0.0; SEGMENT]);
        cost.exponents(pairs, &mut x);
        let lost = pairs.sum(&x, |x| softplus(f64::from(log) - f64::from(x)) as f32);
        self.costs[0] += lost as f32;
        self.factor += pairs.sum(&x, |x| sigmoid(log - x)) as f32;
    }
}

/// Computes the loss of the block's positive pairs, and for each row the sum of the weights of its negatives' slopes. All rows of
/// the batch must be reduced. `own`: the references are the batch itself, and `block` is all of it; then a pair also weighs on the
/// row that is its reference.
#[expect(clippy::too_many_arguments, reason = "what a kernel reads and writes")]
pub fn settle(
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
        inputs.positives(cost, width, row, true, |places, pairs| {
            for (i, place) in places.iter().enumerate() {
                let place = *place as usize;
                let other = if own { logs[place] } else { EMPTY };
                let (both, h) = cost.lifted(pairs.v[i], log, other);
                let (times, h) = (f64::from(pairs.times[i]), f64::from(h));
                lost[row] += times * h * h / 2.0;
                weights[row] += times * h * (f64::from(log) - both).exp();
                if own {
                    weights[place] += times * h * (f64::from(other) - both).exp();
                }
                active[0] += if h > 0.0 { times as u64 } else { 0 };
            }
        });
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
            inputs.negatives(cost, width, row, true, |_, pairs| {
                let times = &pairs.times[..pairs.count];
                active[1] += times.iter().map(|times| *times as u64).sum::<u64>();
            });
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

/// Writes dL/ds of the block's pairs, and each row's part of the loss. `weights` are zero before, or come from [`pool`]. `anchors`:
/// number of rows of the whole batch, whose counts are in `totals`; `first`: the block's first row in `reduced`; `own`: the
/// references are the batch's rows.
#[expect(clippy::too_many_arguments, reason = "what a kernel reads and writes")]
pub fn slopes(
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
    let cost = &cost.moved(inputs.given);
    let divisors = cost.divisors(anchors, totals);
    let log_of = |place: u32| match own {
        true if cost.form == Form::Lifted => reduced[place as usize * ROW_NUMBERS + 3],
        _ => EMPTY,
    };
    let operations = 16 * block.rows * block.references;
    let most = rows_of_a_part(block.rows, operations, block.rows);
    let panels = (0..block.rows)
        .step_by(most)
        .zip(weights[..block.rows * width].chunks_mut(most * width))
        .zip(losses[..block.rows].chunks_mut(most));
    map(panels.collect(), |((start, weights), losses)| {
        let rows = (start..).zip(weights.chunks_exact_mut(width)).zip(losses);
        for ((number, weights), loss) in rows {
            let row = Reduced::read(&reduced[(first + number) * ROW_NUMBERS..][..ROW_NUMBERS]);
            Arch::new().dispatch(SlopesOfRow {
                cost,
                inputs,
                width,
                number,
                row: &row,
                log_of,
                divisors,
                weights,
            });
            let parts = row.costs.into_iter().zip(divisors);
            let sum: f32 = parts.map(|(cost, divisor)| over(cost, divisor)).sum();
            let of_the_boundary = match first + number {
                0 => cost.of_the_boundary(totals),
                _ => 0.0,
            };
            *loss = (sum + of_the_boundary).to_bits();
        }
    });
}

/// Writes dL/ds of the pairs of a row.
struct SlopesOfRow<'a, L> {
    cost: &'a RowCost,
    inputs: Slices<'a>,
    width: usize,
    number: usize,
    row: &'a Reduced,
    log_of: L,
    divisors: [f32; 2],
    weights: &'a mut [f32],
}

impl<L: Fn(u32) -> f32> WithSimd for SlopesOfRow<'_, L> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self {
            cost,
            inputs,
            width,
            number,
            row,
            log_of,
            divisors,
            weights,
        } = self;
        let pooled = cost.centers.per_class > 1;
        inputs.positives(cost, width, number, false, |places, pairs| {
            let mut slopes = [0.0; SEGMENT];
            let log_of = |i: usize| places.get(i).map_or(EMPTY, |place| log_of(*place));
            cost.slopes(pairs, row, &log_of, divisors[0], &mut slopes);
            let numbers = slopes.iter().zip(&pairs.times);
            for (place, (slope, times)) in places.iter().zip(numbers) {
                let weight = &mut weights[*place as usize];
                let slope = slope * if pooled { *weight } else { 1.0 };
                *weight = if *times > 0.0 { slope } else { *weight };
            }
        });
        inputs.negatives(cost, width, number, false, |first, pairs| {
            let mut slopes = [0.0; SEGMENT];
            cost.slopes(pairs, row, &|_| EMPTY, divisors[1], &mut slopes);
            let numbers = slopes.iter().zip(&pairs.times);
            for (weight, (slope, times)) in weights[first..].iter_mut().zip(numbers) {
                let slope = slope * if pooled { *weight } else { 1.0 };
                *weight = if *times > 0.0 { slope } else { *weight };
            }
        });
    }
}

/// Writes the gradient of the boundary of [`Form::Margin`]. `pull`: slope of the loss by the boundary, apart from its pairs.
pub fn learn(pull: f32, report: &[u32], gradient: &mut [f32]) {
    let active = [PairTotal::ActivePositives, PairTotal::ActiveNegatives];
    let [positives, negatives] = active.map(|total| total.read(report) as f32);
    let pull = match PairTotal::Positives.read(report) {
        0 => 0.0,
        _ => pull,
    };
    gradient[0] = over(positives - negatives, positives + negatives) + pull;
}
