//! [`Reduced`]: the numbers to which a row is reduced, from sums over its pairs.

use pulp::{Arch, Simd, WithSimd};

use super::exponents::{EMPTY, log_add};
use super::form::{ExtraInput, Form, PairTotal, RowCost};
use super::pairs::{Pairs, Slices};
use crate::SEGMENT;
use crate::exp::{exp, sigmoid};
use crate::parallel::{map, rows_of_a_part};
use crate::ranks::Block;

/// Numbers that a row is reduced to.
pub const ROW_NUMBERS: usize = 8;

/// Row reduced to the loss of its pairs and the numbers that their slopes need.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Reduced {
    /// Loss of its positives, and of its negatives; the first has all of it if the formula does not separate them.
    pub(super) costs: [f32; 2],
    /// Log-sum-exps of both sides; of [`Form::SupCon`] the one over both.
    pub(super) logs: [f32; 2],
    /// The sum over positives of their softmax weights in [`Form::NtXent`], a factor of all slopes elsewhere.
    pub(super) factor: f32,
    /// Number of pairs of each side, each as often as it counts.
    pub(super) counts: [f32; 2],
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

    pub(super) fn read(from: &[f32]) -> Self {
        Self {
            costs: [from[0], from[1]],
            logs: [from[2], from[3]],
            factor: from[4],
            counts: [from[5], from[6]],
        }
    }
}

/// `log(1 + exp(x))`.
fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
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
        let mut counted = [0u64; COUNTED.len()];
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
            if cost.given == ExtraInput::Weights && !cost.adds_weights() {
                numbers.weigh(inputs.given[first_anchor + row]);
            }
            numbers.write(reduced);
            let counts = numbers.counted(cost, &sides);
            for (sum, count) in counted.iter_mut().zip(counts) {
                *sum += count;
            }
        }
        counted
    });
    for counted in counted {
        for (total, count) in COUNTED.into_iter().zip(counted) {
            total.add(report, count);
        }
    }
}

/// Counts to which every row adds.
const COUNTED: [PairTotal; 5] = [
    PairTotal::Positives,
    PairTotal::Negatives,
    PairTotal::ActivePositives,
    PairTotal::ActiveNegatives,
    PairTotal::Rows,
];

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

    /// Addends of the counts of a report, in the order of [`COUNTED`].
    fn counted(&self, cost: &RowCost, sides: &[Sums; 2]) -> [u64; COUNTED.len()] {
        let of = |count: fn(&Sums) -> f64| sides.each_ref().map(|side| count(side) as u64);
        let all = of(|side| side.count);
        let has_a_loss = self.costs[0] + self.costs[1] > 0.0;
        let active = match cost.form {
            Form::Contrastive | Form::Margin => of(|side| side.above),
            _ if has_a_loss => all,
            _ => [0; 2],
        };
        let counts_row = match cost.counts_positives() {
            true => all[0] > 0,
            false => has_a_loss,
        };
        [all[0], all[1], active[0], active[1], u64::from(counts_row)]
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
