//! Gradient of the rows that were compared, from the weights of their similarities.

use pulp::{Arch, Simd, WithSimd};

use super::parallel::{map, rows_of_a_part};
use super::ranks::Block;
use super::stored::{Rows, unpack};
use super::tile::{BLOCK, PANEL, STEP, add_block};
use super::{SEGMENT, add_scaled};

/// Writes, or adds `onto`, each row's sum of weight times reference: a partial sum for every block of references, both ascending.
pub fn anchor_gradient(
    block: &Block,
    width: usize,
    onto: bool,
    references: Rows<'_>,
    weights: &[f32],
    gradient: &mut [f32],
) {
    let stride = block.stride;
    let most = rows_of_a_part(block.rows, block.operations(), SEGMENT);
    let gradient = &mut gradient[block.first_row * stride..][..block.rows * stride];
    let panels = weights[..block.rows * width]
        .chunks(most * width)
        .zip(gradient.chunks_mut(most * stride));
    map(panels.collect(), |(weights, gradient)| {
        Arch::new().dispatch(AnchorGradient {
            references,
            count: block.references,
            stride,
            weights,
            width,
            onto,
            gradient,
        });
    });
}

/// [`anchor_gradient`] for a few rows, [`SEGMENT`] at most.
struct AnchorGradient<'a> {
    references: Rows<'a>,
    /// Number of references.
    count: usize,
    stride: usize,
    weights: &'a [f32],
    width: usize,
    onto: bool,
    gradient: &'a mut [f32],
}

impl WithSimd for AnchorGradient<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (stride, width) = (self.stride, self.width);
        let rows = self.gradient.len() / stride;
        let mut sums = [[0.0; PANEL]; SEGMENT];
        let mut lanes = [[0.0; PANEL]; BLOCK];
        for c in (0..stride).step_by(PANEL) {
            let columns = PANEL.min(stride - c);
            sums[..rows].fill([0.0; PANEL]);
            for first in (0..self.count).step_by(BLOCK) {
                let terms = BLOCK.min(self.count - first);
                self.bring(first * stride + c, columns, &mut lanes[..terms]);
                let lanes = &lanes[..terms];
                let of_row = |row: usize| &self.weights[row * width + first..][..terms];
                for (step, sums) in sums[..rows].chunks_mut(STEP).enumerate() {
                    // A step that is not full repeats its last row.
                    let last = sums.len() - 1;
                    let weights: [&[f32]; STEP] =
                        std::array::from_fn(|i| of_row(step * STEP + i.min(last)));
                    let some = |weights: &[f32]| weights.iter().filter(|w| **w != 0.0).count();
                    let met: usize = weights.iter().map(|weights| some(weights)).sum();
                    // A weight of zero adds nothing: if most are zero, they are passed over, and the bits are the same.
                    if 4 * met >= STEP * terms {
                        add_block(simd, lanes, |i, k| weights[i][k], sums, false);
                    } else if met > 0 {
                        for (weights, sums) in weights.iter().zip(sums) {
                            add_some(simd, lanes, weights, sums);
                        }
                    }
                }
            }
            for (gradient, sums) in self.gradient.chunks_exact_mut(stride).zip(&sums) {
                for (gradient, sum) in gradient[c..c + columns].iter_mut().zip(sums) {
                    *gradient = if self.onto { *gradient + sum } else { *sum };
                }
            }
        }
    }
}

impl AnchorGradient<'_> {
    /// Copies these columns of some references to lanes, from the float `first` of the first of them on.
    #[inline(always)]
    fn bring(&self, first: usize, columns: usize, lanes: &mut [[f32; PANEL]]) {
        for (i, lanes) in lanes.iter_mut().enumerate() {
            let at = first + i * self.stride;
            match self.references {
                Rows::F32(rows) => {
                    let values = &rows[at..at + columns];
                    match <&[f32; PANEL]>::try_from(values) {
                        Ok(values) => *lanes = *values,
                        Err(_) => lanes[..columns].copy_from_slice(values),
                    }
                }
                Rows::F16(words) => {
                    unpack(&words[at / 2..(at + columns) / 2], &mut lanes[..columns]);
                }
            }
        }
    }
}

/// Adds the terms of one row whose weight is not zero: `sums[lane] += sum over k of weights[k] * lanes[k][lane]`.
#[inline(always)]
fn add_some<S: Simd>(simd: S, lanes: &[[f32; PANEL]], weights: &[f32], sums: &mut [f32; PANEL]) {
    let mut part = [0.0; PANEL];
    for (weight, lanes) in weights.iter().zip(lanes) {
        if *weight != 0.0 {
            let weight = simd.splat_f32s(*weight);
            let parts = S::as_mut_simd_f32s(&mut part).0;
            for (part, lanes) in parts.iter_mut().zip(S::as_simd_f32s(lanes).0) {
                *part = simd.mul_add_e_f32s(weight, *lanes, *part);
            }
        }
    }
    for (sum, part) in sums.iter_mut().zip(part) {
        *sum += part;
    }
}

/// Writes, or adds `onto`, each reference's sum of weight times row.
pub fn reference_gradient(
    block: &Block,
    width: usize,
    onto: bool,
    anchors: &[f32],
    weights: &[f32],
    gradient: &mut [f32],
) {
    let stride = block.stride;
    let most = rows_of_a_part(block.references, block.operations(), block.references);
    let rows = &anchors[block.first_row * stride..][..block.rows * stride];
    let weights = &weights[..block.rows * width];
    let panels = (0..block.references)
        .step_by(most)
        .zip(gradient[..block.references * stride].chunks_mut(most * stride));
    map(panels.collect(), |(first, gradient)| {
        let mut part = vec![0.0; stride];
        for (reference, gradient) in (first..).zip(gradient.chunks_exact_mut(stride)) {
            if !onto {
                gradient.fill(0.0);
            }
            let segments = rows.chunks(SEGMENT * stride);
            for (rows, weights) in segments.zip(weights.chunks(SEGMENT * width)) {
                let weights = weights.chunks_exact(width).map(|row| row[reference]);
                sum(weights.zip(rows.chunks_exact(stride)), &mut part);
                add_scaled(gradient, 1.0, &part);
            }
        }
    });
}

/// `part = sum of weight * row`. A weight of zero adds nothing, and is passed over.
fn sum<'a>(terms: impl Iterator<Item = (f32, &'a [f32])>, part: &mut [f32]) {
    part.fill(0.0);
    for (weight, row) in terms.filter(|(weight, _)| *weight != 0.0) {
        add_scaled(part, weight, row);
    }
}
