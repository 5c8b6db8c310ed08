//! What weights of similarities come to as a gradient of the rows that were compared.

use super::parallel::{map, rows_of_a_part};
use super::ranks::Block;
use super::{SEGMENT, add_scaled};

/// Writes, or adds `onto`, each row's sum of weight times reference.
pub(crate) fn pull(
    block: &Block,
    width: usize,
    onto: bool,
    references: &[f32],
    weights: &[f32],
    gradient: &mut [f32],
) {
    let stride = block.stride;
    let most = rows_of_a_part(block.rows, block.operations(), block.rows);
    let gradient = &mut gradient[block.first_row * stride..][..block.rows * stride];
    let panels = weights[..block.rows * width]
        .chunks(most * width)
        .zip(gradient.chunks_mut(most * stride));
    map(panels.collect(), |(weights, gradient)| {
        let mut part = vec![0.0; stride];
        for (weights, gradient) in weights
            .chunks_exact(width)
            .zip(gradient.chunks_exact_mut(stride))
        {
            if !onto {
                gradient.fill(0.0);
            }
            let segments = weights[..block.references].chunks(SEGMENT);
            for (weights, references) in segments.zip(references.chunks(SEGMENT * stride)) {
                sum(
                    weights.iter().copied().zip(references.chunks_exact(stride)),
                    &mut part,
                );
                add_scaled(gradient, 1.0, &part);
            }
        }
    });
}

/// Writes, or adds `onto`, each reference's sum of weight times row.
pub(crate) fn share(
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

/// `part = sum of weight * row`. A weight of zero pulls nothing, and is passed over.
fn sum<'a>(terms: impl Iterator<Item = (f32, &'a [f32])>, part: &mut [f32]) {
    part.fill(0.0);
    for (weight, row) in terms.filter(|(weight, _)| *weight != 0.0) {
        add_scaled(part, weight, row);
    }
}
