//! The part of a batch's gradient that moves all of its rows in one direction: its mean.

use super::SEGMENT;

/// Columns that are added up together.
const COLUMNS: usize = 64;

/// Writes the mean of the gradient's rows to the first row of `state`, adds its cosine with the running average, the second row, to
/// `sums[0]` and 1 to `sums[1]`, and updates the average by a tenth.
pub fn measure(gradient: &[f32], stride: usize, state: &mut [f32], sums: &mut [f32]) {
    let (mean, average) = state.split_at_mut(stride);
    mean.fill(0.0);
    for (first, mean) in (0..).step_by(COLUMNS).zip(mean.chunks_mut(COLUMNS)) {
        for segment in gradient.chunks(SEGMENT * stride) {
            let mut sums = [0.0; COLUMNS];
            for row in segment.chunks_exact(stride) {
                sums.iter_mut()
                    .zip(&row[first..])
                    .for_each(|(sum, g)| *sum += g);
            }
            mean.iter_mut()
                .zip(sums)
                .for_each(|(mean, sum)| *mean += sum);
        }
    }
    let rows = (gradient.len() / stride) as f32;
    let (mut product, mut own, mut before) = (0.0, 0.0, 0.0);
    for (mean, average) in mean.iter_mut().zip(average) {
        *mean /= rows;
        product += *mean * *average;
        own += *mean * *mean;
        before += *average * *average;
        *average = 0.9 * *average + 0.1 * *mean;
    }
    let lengths = own.sqrt() * before.sqrt();
    if lengths > 0.0 {
        sums[0] += product / lengths;
        sums[1] += 1.0;
    }
}
