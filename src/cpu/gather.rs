//! Rows of a matrix, copied by number.

/// Copies row `rows[i]` of `features` to row `i` of `batch`; rows have `stride` floats.
pub(crate) fn gather(features: &[f32], rows: &[u32], stride: usize, batch: &mut [f32]) {
    for (to, row) in batch.chunks_exact_mut(stride).zip(rows) {
        to.copy_from_slice(&features[*row as usize * stride..][..stride]);
    }
}
