//! Rows of a matrix, copied from or to places given by number.

/// Copies row `rows[i]` of `features` to row `i` of `batch`; rows have `stride` floats.
pub fn gather(features: &[f32], rows: &[u32], stride: usize, batch: &mut [f32]) {
    for (to, row) in batch.chunks_exact_mut(stride).zip(rows) {
        to.copy_from_slice(&features[*row as usize * stride..][..stride]);
    }
}

/// Copies row `i` of `rows` to row `places[i]` of `to`; rows have `stride` floats.
pub fn scatter(rows: &[f32], places: &[u32], stride: usize, to: &mut [f32]) {
    for (row, place) in rows.chunks_exact(stride).zip(places) {
        to[*place as usize * stride..][..stride].copy_from_slice(row);
    }
}
