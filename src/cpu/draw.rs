//! Triplets drawn at random: for each anchor as many as its class has references, the positive uniformly, the negative by
//! weight. PML's `DistanceWeightedMiner` (Wu et al. 2017).

use super::exp::{exp, ln};
use super::parallel::{map, rows_of_a_part};
use super::ranks::{Block, Row};
use super::{SEGMENT, wide};
use crate::Distance;

/// Weights of negatives: one over the density of their distance on the sphere.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drawing {
    /// The least distance: smaller ones count as this one.
    pub cutoff: f32,
    /// The distance from which on negatives are never drawn.
    pub nonzero_loss_cutoff: f32,
    /// Seeds the draws beside [`Draws::key`].
    pub seed: u64,
}

/// Seeds and weights of the draws of a block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Draws {
    /// Weights of negatives, and the miner's seed.
    pub drawing: Drawing,
    /// Distance in which the values come.
    pub distance: Distance,
    /// Embedding size.
    pub dim: usize,
    /// Seeds the draws of a step.
    pub key: [u32; 2],
    /// Number of the block's first anchor in the batch.
    pub anchor: usize,
    /// Places for each anchor in the list: the most draws of an anchor, and one for their number.
    pub places: usize,
}

/// Logarithm of a weight of 0.
const LOWEST: f32 = -3.4e38;
/// Weights below `exp` of this times the row's largest count as 0.
const FAINT: f32 = -64.0;
/// The least square of a distance.
const LEAST_SQUARE: f32 = 1e-30;

impl Draws {
    /// The words that seed a block's draws: those of the step with those of the miner.
    pub fn seeds(&self) -> [u32; 2] {
        let [low, high] = [self.drawing.seed as u32, (self.drawing.seed >> 32) as u32];
        [self.key[0] ^ low, self.key[1] ^ high]
    }

    /// Least and largest square of a distance: smaller ones count as the first, and from the second on none is drawn.
    pub fn squares(&self) -> [f32; 2] {
        let Drawing {
            cutoff,
            nonzero_loss_cutoff,
            ..
        } = self.drawing;
        [
            (cutoff * cutoff).max(LEAST_SQUARE),
            nonzero_loss_cutoff * nonzero_loss_cutoff,
        ]
    }

    /// Factors of `ln(D^2)` and of `ln(1 - D^2 / 4)` in the logarithm of a weight.
    pub fn factors(&self) -> [f32; 2] {
        let dim = self.dim as f32;
        [(2.0 - dim) / 2.0, (3.0 - dim) / 2.0]
    }

    /// Writes the logarithms of the weights of these values, up to a constant; [`LOWEST`] for one that is never drawn.
    #[inline(always)]
    fn log_weights(&self, values: &[f32], logs: &mut [f32]) {
        let ([least, most], [near, far]) = (self.squares(), self.factors());
        let of_cosine = self.distance == Distance::Cosine;
        for (log, v) in logs.iter_mut().zip(values) {
            let square = if of_cosine { 2.0 - 2.0 * v } else { v * v };
            let square = if square > least { square } else { least };
            let rest = 1.0 - 0.25 * square;
            let weighs = (square < most) & (rest > 0.0);
            // For a weight of 0, any numbers that have logarithms.
            let (square, rest) = if weighs { (square, rest) } else { (1.0, 1.0) };
            let own = near * ln(square) + far * ln(rest);
            *log = if weighs { own } else { LOWEST };
        }
    }
}

/// Four numbers of 32 bits from four: `pcg4d` of Jarzynski and Olano, "Hash functions for GPU rendering" (2020).
fn hash(v: [u32; 4]) -> [u32; 4] {
    let [mut x, mut y, mut z, mut w] =
        v.map(|v| v.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
    let mix = |[x, y, z, w]: [&mut u32; 4]| {
        *x = x.wrapping_add(y.wrapping_mul(*w));
        *y = y.wrapping_add(z.wrapping_mul(*x));
        *z = z.wrapping_add(x.wrapping_mul(*y));
        *w = w.wrapping_add(y.wrapping_mul(*z));
    };
    mix([&mut x, &mut y, &mut z, &mut w]);
    for v in [&mut x, &mut y, &mut z, &mut w] {
        *v ^= *v >> 16;
    }
    mix([&mut x, &mut y, &mut z, &mut w]);
    [x, y, z, w]
}

/// A number of [0, 1), from the first 24 bits.
fn unit(bits: u32) -> f32 {
    (bits >> 8) as f32 * (1.0 / 16_777_216.0)
}

/// Inputs of the pass, as in `kernels::draw::draw`.
#[derive(Clone, Copy)]
pub struct Slices<'a> {
    /// Label, id and number of positives of each anchor.
    pub batch: &'a [Row],
    /// `[label, id]` of each reference.
    pub tags: &'a [[u32; 2]],
    /// `[rows, width]`: similarities of all references but the anchor itself, or minus distances.
    pub values: &'a [f32],
    /// `[rows, width]`: numbers of references, positives from the front.
    pub places: &'a [u32],
    /// `[rows]`: number of positives, and of negatives.
    pub counts: &'a [[u32; 2]],
}

/// Lists the drawn triplets: the number of each row's, then the places of positive and negative of each.
///
/// `sums`: `[rows, width]`, scratch; zero afterwards.
pub fn draw(
    block: &Block,
    width: usize,
    draws: &Draws,
    inputs: Slices<'_>,
    sums: &mut [f32],
    drawn: &mut [[u32; 2]],
) {
    let batch = &inputs.batch[block.batch..][..block.rows];
    let operations = 64 * block.rows * block.references;
    let most = rows_of_a_part(block.rows, operations, block.rows);
    let panels = (0..block.rows)
        .step_by(most)
        .zip(sums[..block.rows * width].chunks_mut(most * width))
        .zip(drawn[..block.rows * draws.places].chunks_mut(most * draws.places));
    map(panels.collect(), |((first, sums), drawn)| {
        let rows = (first..).zip(sums.chunks_exact_mut(width));
        for ((row, sums), drawn) in rows.zip(drawn.chunks_exact_mut(draws.places)) {
            let values = &inputs.values[row * width..][..block.references];
            let positives = inputs.counts[row][0] as usize;
            let positives = &inputs.places[row * width..][..positives];
            let tags = &inputs.tags[..block.references];
            let label = batch[row].label;
            let sums = &mut sums[..block.references];
            draw_row(draws, row, label, tags, values, positives, sums, drawn);
            sums.fill(0.0);
        }
    });
}

/// Draws the triplets of one row.
#[expect(clippy::too_many_arguments, reason = "what a kernel reads and writes")]
fn draw_row(
    draws: &Draws,
    row: usize,
    label: u32,
    tags: &[[u32; 2]],
    values: &[f32],
    positives: &[u32],
    sums: &mut [f32],
    drawn: &mut [[u32; 2]],
) {
    drawn[0] = [0; 2];
    if positives.is_empty() {
        return;
    }
    let mut members = 0;
    let top = wide(
        #[inline(always)]
        || {
            draws.log_weights(values, sums);
            for (log, [other, _]) in sums.iter_mut().zip(tags) {
                let own = *other == label;
                members += u32::from(own);
                *log = if own { LOWEST } else { *log };
            }
            let top = sums.iter().fold(LOWEST, |top, log| top.max(*log));
            for log in sums.iter_mut() {
                let below = *log - top;
                let weight = exp(below);
                *log = if below > FAINT { weight } else { 0.0 };
            }
            top
        },
    );
    if top == LOWEST {
        return;
    }
    // Each share of the references is added up by itself, as the shader does.
    let share = sums.len().div_ceil(SEGMENT);
    let (shares, total) = add_up(sums, share);
    let shares = &shares[..sums.len().div_ceil(share)];
    let [low, high] = draws.seeds();
    drawn[0][0] = members;
    let anchor = (draws.anchor + row) as u32;
    for (number, drawn) in (0..members).zip(&mut drawn[1..]) {
        let [x, y, z, _] = hash([low, high, anchor, number]);
        let positive = positives[(unit(x) * positives.len() as f32) as usize];
        let of_shares = unit(y) * total;
        let first = share * shares.partition_point(|upto| *upto <= of_shares);
        let own = &sums[first..sums.len().min(first + share)];
        let of_own = unit(z) * own[own.len() - 1];
        let negative = first + own.partition_point(|upto| *upto <= of_own);
        *drawn = [positive, negative as u32];
    }
}

/// Turns weights into their running sums within each share of `share` references; gives the running sum over shares, and the total.
fn add_up(weights: &mut [f32], share: usize) -> ([f32; SEGMENT], f32) {
    let mut shares = [0.0; SEGMENT];
    let mut total = 0.0;
    for (upto, sums) in shares.iter_mut().zip(weights.chunks_mut(share)) {
        let mut sum = 0.0;
        for weight in sums {
            sum += *weight;
            *weight = sum;
        }
        total += sum;
        *upto = total;
    }
    (shares, total)
}

/// Counts the drawn triplets with each reference.
///
/// # Shapes
/// `times`: `[rows, width]`
pub fn count(block: &Block, width: usize, places: usize, drawn: &[[u32; 2]], times: &mut [u32]) {
    let rows = times
        .chunks_exact_mut(width)
        .zip(drawn.chunks_exact(places));
    for (times, drawn) in rows.take(block.rows) {
        times[..block.references].fill(0);
        for reference in drawn[1..][..drawn[0][0] as usize].as_flattened() {
            times[*reference as usize] += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The logarithm of a weight in f64, from the distance.
    fn expected(draws: &Draws, distance: f64) -> f64 {
        let dim = draws.dim as f64;
        let distance = distance.max(f64::from(draws.drawing.cutoff));
        let rest = 1.0 - 0.25 * distance * distance;
        (2.0 - dim) * distance.ln() - (dim - 3.0) / 2.0 * rest.ln()
    }

    #[test]
    fn weights_are_those_of_f64_to_a_few_parts_of_ten_million_for_each_dimension() {
        for distance in [Distance::Cosine, Distance::L2] {
            for dim in [2, 3, 8, 64, 512, 4096] {
                let draws = Draws {
                    drawing: Drawing {
                        cutoff: 0.5,
                        nonzero_loss_cutoff: 1.4,
                        seed: 0,
                    },
                    distance,
                    dim,
                    key: [0; 2],
                    anchor: 0,
                    places: 1,
                };
                let values: Vec<f32> = (0..10_000)
                    .map(|i| distance.value(1.0 - i as f32 / 5000.0))
                    .collect();
                let mut logs = vec![0.0; values.len()];
                draws.log_weights(&values, &mut logs);
                let mut worst = 0.0f64;
                for (v, log) in values.iter().zip(&logs) {
                    let far = match distance {
                        Distance::Cosine => (2.0 - 2.0 * f64::from(*v)).max(0.0).sqrt(),
                        Distance::L2 => -f64::from(*v),
                    };
                    if *log == LOWEST {
                        assert!(far > 1.399_999);
                        continue;
                    }
                    assert!(far < 1.400_001);
                    // The absolute error of the logarithm is the relative error of the weight.
                    worst = worst.max((f64::from(*log) - expected(&draws, far)).abs());
                }
                assert!(worst < 3e-7 * dim as f64 + 1e-6, "{dim}: {worst:e}");
            }
        }
    }

    #[test]
    fn numbers_of_draws_that_follow_each_other_are_spread_evenly_and_go_their_own_ways() {
        const CELLS: usize = 16;
        let mut counts = [0u32; CELLS * CELLS * CELLS];
        let cell = |bits: u32| (unit(bits) * CELLS as f32) as usize;
        let mut lags = [0u32; CELLS * CELLS];
        let draws = 1 << 20;
        for key in 0..4 {
            let mut before = 0;
            for number in 0..draws / 4 {
                let [x, y, z, _] = hash([7 * key, key, number % 64, number / 64]);
                counts[(cell(x) * CELLS + cell(y)) * CELLS + cell(z)] += 1;
                lags[before * CELLS + cell(y)] += 1;
                before = cell(y);
            }
        }
        for counts in [&counts[..], &lags] {
            let mean = f64::from(draws) / counts.len() as f64;
            let off = counts.iter().map(|c| (f64::from(*c) - mean).powi(2) / mean);
            let (off, freedom) = (off.sum::<f64>(), counts.len() as f64 - 1.0);
            let off = (off - freedom) / (2.0 * freedom).sqrt();
            assert!(off.abs() < 4.0, "{off}");
        }
        assert_eq!(unit(u32::MAX), 1.0 - 1.0 / 16_777_216.0);
    }
}
