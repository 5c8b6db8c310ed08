//! The similarities of a few rows to all references.

use super::SEGMENT;
use super::parallel::{map, rows_of_a_part};
use super::ranks::Block;
use super::stored::Rows;
use super::tile::{PANEL, lanes, similarities as of_places};
use crate::Distance;

/// Value without a similarity: below every other.
pub const NONE: f32 = -3.0;

/// Computes the values of the block's similarities by `distance`, `width` floats a row; [`NONE`] after the references.
pub fn similarities(
    block: &Block,
    width: usize,
    distance: Distance,
    anchors: &[f32],
    references: Rows<'_>,
    similarities: &mut [f32],
) {
    let stride = block.stride;
    let most = rows_of_a_part(block.rows, block.operations(), PANEL);
    let anchors = &anchors[block.first_row * stride..][..block.rows * stride];
    let panels = anchors
        .chunks(most * stride)
        .zip(similarities[..block.rows * width].chunks_mut(most * width));
    map(panels.collect(), |(anchors, similarities)| {
        let lanes = lanes(anchors, stride);
        let (mut s, mut buffer) = ([[0.0; PANEL]; SEGMENT], Vec::new());
        let mut places = Vec::with_capacity(SEGMENT);
        for first in (0..block.references).step_by(SEGMENT) {
            places.clear();
            places.extend(0..SEGMENT.min(block.references - first));
            let floats = places.len() * stride;
            let references = references.some(first * stride, floats, &mut buffer);
            of_places(&lanes, references, &places, &mut s);
            for (lane, row) in similarities.chunks_exact_mut(width).enumerate() {
                for (value, s) in row[first..].iter_mut().zip(&s[..places.len()]) {
                    *value = distance.value(s[lane]);
                }
            }
        }
        for row in similarities.chunks_exact_mut(width) {
            row[block.references..].fill(NONE);
        }
    });
}
