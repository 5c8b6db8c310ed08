//! [`RowCost`]: the losses of rows that there are, how often a pair counts in them, and what a batch's counts divide.

use crate::Distance;
use crate::triplet_margin::{Rule, add_total, read_total};

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
    pub(super) fn leads(&self, place: usize) -> bool {
        self.per_class == 1 || place.is_multiple_of(self.per_class)
    }

    /// Replaces the values of a class's references by the value of the class. `shares` gets the slope of that value by each of
    /// them.
    pub(super) fn pool(&self, values: &mut [f32], shares: &mut [f32]) {
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
pub enum Multiplicity {
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
pub enum ExtraInput {
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
    pub times: Multiplicity,
    /// The band of triplets that is mined, for [`Multiplicity::Mined`].
    pub mined: Rule,
    /// Number of references that stand for one class, and their pooling.
    pub centers: Centers,
    /// Further input of the loss.
    pub given: ExtraInput,
}

/// Counts of pairs in a step's report, each a u64 in two words, in place of the triplet counts of [`crate::triplet_margin::Total`].
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

    pub(super) fn add(self, report: &mut [u32], value: u64) {
        add_total(report, self as usize, value);
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
    pub(super) fn moved(&self, given: &[f32]) -> Self {
        let by = match self.given {
            ExtraInput::Boundary => given[0],
            _ => 0.0,
        };
        Self {
            margins: self.margins.map(|margin| margin + by),
            ..*self
        }
    }

    /// Loss of the boundary of [`Form::Margin`] by itself; 0 if no positive pair is kept.
    pub(super) fn of_the_boundary(&self, totals: &[u32]) -> f32 {
        match self.form {
            Form::Margin if PairTotal::Positives.read(totals) > 0 => {
                self.scales[0] * 0.5 * (self.margins[0] + self.margins[1])
            }
            _ => 0.0,
        }
    }

    /// Tells if the weights of references are added to the exponents.
    pub(super) fn adds_weights(&self) -> bool {
        self.given == ExtraInput::Weights && self.form == Form::ProxyAnchor
    }

    /// Number of times that each pair of a row counts, `None` if they differ; and the most that a pair may count. `others`: kept
    /// pairs of the other side.
    pub(super) fn times_of(&self, others: &[u32]) -> (Option<f32>, f32) {
        let most = if self.is_of_masks() { 1.0 } else { f32::MAX };
        let each = match self.times {
            Multiplicity::Once => Some(1.0),
            Multiplicity::Crossed => Some(most.min(others.len() as f32)),
            Multiplicity::Mined => None,
        };
        (each, most)
    }

    /// Tells if a row with a positive counts even if its loss is 0.
    pub(super) fn counts_positives(&self) -> bool {
        matches!(self.form, Form::Softmax | Form::ArcFace | Form::ProxyAnchor)
    }

    /// Divisors of the positives' and the negatives' part of the loss, from the counts of the whole batch.
    pub(super) fn divisors(&self, anchors: usize, report: &[u32]) -> [f32; 2] {
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
