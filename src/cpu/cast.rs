//! Hidden activations of a batch in half precision.

use super::parallel::{map, rows_of_a_part};
use super::stored::pack;

/// From here on values round to infinity.
const OVERFLOW: f32 = 65520.0;
/// Operations of one value, about.
const OPERATIONS: usize = 8;

/// Rounds values to `words`, two in each. One that half precision does not hold sets `status[0]`.
pub fn cast(values: &[f32], words: &mut [u32], status: &mut [u32]) {
    let count = values.len();
    let most = rows_of_a_part(count, OPERATIONS * count, count.max(1)).next_multiple_of(2);
    let parts = words.chunks_mut(most / 2).zip(values.chunks(most));
    let held = map(parts.collect(), |(words, values): (&mut [u32], &[f32])| {
        pack(values, words);
        // Written so that NaN counts as too large.
        values.iter().all(|value| value.abs() < OVERFLOW)
    });
    if held.contains(&false) {
        status[0] = 1;
    }
}
