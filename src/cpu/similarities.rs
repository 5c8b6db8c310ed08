//! The similarities of a few rows to all references.

use super::SEGMENT;
use super::parallel::{map, rows_of_a_part};
use super::ranks::Block;
use super::stored::Rows;
use super::tile::{PANEL, lanes, similarities as of_places};
use crate::Distance;

/// Value without a similarity: below every other.
pub const NONE: f32 = -3.0;

/// Computes the values of the block's similarities by `distance`, `width` floats a row; [`NONE`] after the references. A row that is
/// not computed gets the value of a similarity of 0.
pub fn similarities(
    block: &Block,
    width: usize,
    distance: Distance,
    anchors: &[f32],
    references: Rows<'_>,
    computed: impl Fn(usize) -> bool,
    similarities: &mut [f32],
) {
    let stride = block.stride;
    let units = anchors[block.first_row * stride..].chunks_exact(stride);
    let values = similarities[..block.rows * width].chunks_exact_mut(width);
    let mut rows = Vec::with_capacity(block.rows);
    for (row, (unit, values)) in units.zip(values).enumerate() {
        values[block.references..].fill(NONE);
        if computed(row) {
            rows.push((unit, values));
        } else {
            values[..block.references].fill(distance.value(0.0));
        }
    }
    let met = Block {
        rows: rows.len(),
        ..*block
    };
    let most = rows_of_a_part(rows.len(), met.operations(), PANEL);
    map(rows.chunks_mut(most).collect(), |rows| {
        let units = rows.iter().map(|(unit, _)| *unit).collect::<Vec<_>>();
        let lanes = lanes(&units.concat(), stride);
        let (mut s, mut buffer) = ([[0.0; PANEL]; SEGMENT], Vec::new());
        let mut places = Vec::with_capacity(SEGMENT);
        for first in (0..block.references).step_by(SEGMENT) {
            places.clear();
            places.extend(0..SEGMENT.min(block.references - first));
            let floats = places.len() * stride;
            let references = references.some(first * stride, floats, &mut buffer);
            of_places(&lanes, references, &places, &mut s);
            for (lane, (_, row)) in rows.iter_mut().enumerate() {
                for (value, s) in row[first..].iter_mut().zip(&s[..places.len()]) {
                    *value = distance.value(s[lane]);
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tile::met;

    #[test]
    fn rows_that_are_not_computed_meet_no_reference() {
        let (rows, references, units) = (64, 300, [0.5; 4 * 300]);
        let block = Block {
            first_row: 0,
            rows,
            batch: 0,
            first_reference: 0,
            references,
            stride: 4,
        };
        for (every, panels) in [(1, 2), (2, 1), (64, 1), (65, 0)] {
            let computed = |row: usize| (row + 1).is_multiple_of(every);
            let (known, mut values) = (Rows::F32(&units), vec![f32::NAN; rows * 304]);
            let found = met(|| {
                let distance = Distance::Cosine;
                similarities(&block, 304, distance, &units, known, computed, &mut values);
            });
            assert_eq!(found, panels * references);
            for (row, values) in values.chunks_exact(304).enumerate() {
                let (values, filled) = values.split_at(references);
                let expected = f32::from(computed(row));
                assert!(values.iter().all(|value| *value == expected));
                assert!(filled.iter().all(|value| *value == NONE));
            }
        }
    }
}
