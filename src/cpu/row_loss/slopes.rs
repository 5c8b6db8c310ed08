//! Slopes of pairs, `dL/ds`, from the numbers to which their rows are reduced.

use pulp::{Arch, Simd, WithSimd};

use super::exponents::{EMPTY, Wider};
use super::form::{Form, PairTotal, RowCost};
use super::pairs::{Numbers, Pairs, Slices};
use super::reduced::{ROW_NUMBERS, Reduced};
use crate::SEGMENT;
use crate::exp::{exp, sigmoid};
use crate::parallel::{map, rows_of_a_part};
use crate::ranks::Block;

impl RowCost {
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
}

/// `value / divisor`; 0 if the divisor is not above 0.
#[inline(always)]
fn over(value: f32, divisor: f32) -> f32 {
    if divisor > 0.0 { value / divisor } else { 0.0 }
}

/// Writes dL/ds of the block's pairs, and each row's part of the loss. `weights` are zero before, or come from [`super::pool`]. `anchors`:
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
pub fn learn(pull: f32, weight: f32, onto: bool, report: &[u32], gradient: &mut [f32]) {
    let active = [PairTotal::ActivePositives, PairTotal::ActiveNegatives];
    let [positives, negatives] = active.map(|total| total.read(report) as f32);
    let pull = match PairTotal::Positives.read(report) {
        0 => 0.0,
        _ => pull,
    };
    let slope = weight * (over(positives - negatives, positives + negatives) + pull);
    gradient[0] = if onto { gradient[0] + slope } else { slope };
}
