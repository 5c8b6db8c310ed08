//! The part of a batch's gradient that moves all of its rows in one direction: its mean.

/// Writes the mean of the gradient's rows to the first row of `state`, adds its cosine with the running average, the second row, to
/// `sums[0]` and 1 to `sums[1]`, and updates the average by a tenth.
pub fn measure(gradient: &[f32], stride: usize, state: &mut [f32], sums: &mut [f32]) {
    let (mean, average) = state.split_at_mut(stride);
    mean.fill(0.0);
    for row in gradient.chunks_exact(stride) {
        mean.iter_mut().zip(row).for_each(|(mean, g)| *mean += g);
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
