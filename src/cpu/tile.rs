//! Similarities of a row to references, by one chain each, and the one order in which references are nearer.

use std::cmp::Ordering;

/// The inner product, one accumulator, ascending.
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).fold(0.0, |sum, (a, b)| sum + a * b)
}

/// The similarity of one row to each reference, each by [`dot`]'s sums; four at a time, so that their chains overlap.
pub(super) fn similarities_to(anchor: &[f32], references: &[f32], similarities: &mut [f32]) {
    let stride = anchor.len();
    let mut fours = references.chunks_exact(4 * stride);
    let mut out = similarities.chunks_exact_mut(4);
    for (four, out) in fours.by_ref().zip(out.by_ref()) {
        let mut sums = [0.0; 4];
        for (k, a) in anchor.iter().enumerate() {
            for (r, sum) in sums.iter_mut().enumerate() {
                *sum += a * four[r * stride + k];
            }
        }
        out.copy_from_slice(&sums);
    }
    let done = references.len() / stride / 4 * 4;
    let rest = fours.remainder().chunks_exact(stride);
    for (reference, s) in rest.zip(&mut similarities[done..]) {
        *s = dot(anchor, reference);
    }
}

/// Orders `[similarity's bits, id]`: farther first; of equal similarities the larger id is farther.
pub(super) fn nearness(a: [u32; 2], b: [u32; 2]) -> Ordering {
    let (s_a, s_b) = (f32::from_bits(a[0]), f32::from_bits(b[0]));
    s_a.partial_cmp(&s_b)
        .unwrap_or(Ordering::Equal)
        .then(b[1].cmp(&a[1]))
}
