//! Losses of rows of similarities: each row reduced to a few numbers, then dL/ds of every pair that is kept.
//!
//! Natively the arithmetic is inlined into the functions that choose the instructions. WebAssembly has one set of instructions:
//! there it is compiled once, as functions of its own.

mod exponents;
mod form;
mod pairs;
mod reduced;
mod slopes;

pub use form::{Centers, ExtraInput, Form, Multiplicity, PairTotal, RowCost};
pub use pairs::Slices;
pub use reduced::{ROW_NUMBERS, reduce};
pub use slopes::{learn, slopes};

use crate::parallel::{map, rows_of_a_part};
use crate::ranks::Block;
use crate::triplet_margin::Rule;
use exponents::EMPTY;

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
