//! The first numbers of rows of unit length, brought to unit length anew, and gradients from there back to the whole rows.

use super::stored::{Rows, RowsMut};
use super::tile::dot;

/// Writes the first `dim` numbers of each of `count` rows, over their length, to `truncated`, and the lengths to `norms` if given.
/// Whole rows have `stride` floats, truncated ones `narrow`.
pub fn truncate(
    rows: Rows<'_>,
    count: usize,
    [stride, narrow, dim]: [usize; 3],
    mut truncated: RowsMut<'_>,
    mut norms: Option<&mut [f32]>,
) {
    let mut row = vec![0.0; narrow];
    for i in 0..count {
        rows.copy(i * stride, &mut row);
        row[dim..].fill(0.0);
        let norm = dot(&row, &row).sqrt();
        for value in &mut row {
            *value /= norm.max(1e-12);
        }
        truncated.store(i * narrow, &row);
        if let Some(norms) = &mut norms {
            norms[i] = norm;
        }
    }
}

/// `whole = factor gradient` in the numbers that truncated rows have, and 0 beyond; with `onto` added to what is there.
pub fn widen(
    gradient: &[f32],
    count: usize,
    [stride, narrow]: [usize; 2],
    factor: f32,
    onto: bool,
    whole: &mut [f32],
) {
    let rows = gradient.chunks_exact(narrow);
    for (whole, gradient) in whole.chunks_exact_mut(stride).zip(rows).take(count) {
        if !onto {
            whole.fill(0.0);
        }
        for (whole, gradient) in whole.iter_mut().zip(gradient) {
            *whole = factor.mul_add(*gradient, *whole);
        }
    }
}
