//! Rows of a matrix, copied from or to places given by number.

use super::stored::Rows;

/// Copies row `rows[i]` of `features` to row `i` of `batch` as floats; rows have `stride` of them.
pub fn gather(features: Rows<'_>, rows: &[u32], stride: usize, batch: &mut [f32]) {
    for (to, row) in batch.chunks_exact_mut(stride).zip(rows) {
        features.copy(*row as usize * stride, to);
    }
}

/// Copies row `i` of `rows` to row `places[i]` of `to`; rows have `stride` floats.
pub fn scatter(rows: &[f32], places: &[u32], stride: usize, to: &mut [f32]) {
    for (row, place) in rows.chunks_exact(stride).zip(places) {
        to[*place as usize * stride..][..stride].copy_from_slice(row);
    }
}
