//! Rows of a matrix, copied by number, as they are or with every column scaled; or to where numbers say.

/// Copies row `rows[i]` of `features` to row `i` of `batch`; rows have `stride` floats.
pub fn gather(features: &[f32], rows: &[u32], stride: usize, batch: &mut [f32]) {
    for (to, row) in batch.chunks_exact_mut(stride).zip(rows) {
        to.copy_from_slice(&features[*row as usize * stride..][..stride]);
    }
}

/// The same with `scaling`, `[2, stride]`: every value less its column's shift, times its column's scale.
pub fn gather_scaled(
    features: &[f32],
    rows: &[u32],
    scaling: &[f32],
    stride: usize,
    batch: &mut [f32],
) {
    let (shift, scale) = scaling.split_at(stride);
    for (to, row) in batch.chunks_exact_mut(stride).zip(rows) {
        let from = &features[*row as usize * stride..][..stride];
        for (((to, value), shift), scale) in to.iter_mut().zip(from).zip(shift).zip(scale) {
            *to = (value - shift) * scale;
        }
    }
}

/// Copies row `i` of `rows` to row `places[i]` of `to`; rows have `stride` floats.
pub fn scatter(rows: &[f32], places: &[u32], stride: usize, to: &mut [f32]) {
    for (row, place) in rows.chunks_exact(stride).zip(places) {
        to[*place as usize * stride..][..stride].copy_from_slice(row);
    }
}
