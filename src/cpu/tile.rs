//! Similarities of a panel of rows to references, and the one order in which references are nearer.

use pulp::{Arch, Simd, WithSimd};

/// Rows of a panel: each has a SIMD lane of its own.
pub(super) const PANEL: usize = 32;

/// Components of a partial sum, as in the shader: a long sum rounds less like this.
pub(super) const BLOCK: usize = 32;
/// References that a panel meets at once: their sums, two vectors each, stay in registers.
pub(super) const STEP: usize = 6;

/// The inner product, from sixteen partial sums.
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut parts = [0.0; 16];
    for (a, b) in a.chunks(16).zip(b.chunks(16)) {
        for ((part, a), b) in parts.iter_mut().zip(a).zip(b) {
            *part += a * b;
        }
    }
    parts.iter().sum()
}

/// Multiplies a panel of rows, [`PANEL`] at most, with references: `s[i][row] = <rows[row], references[places[i]]>`.
///
/// Each is a partial sum for every [`BLOCK`] components, both ascending, whatever stands beside it: equal rows give equal
/// bits in every lane and place.
pub(super) fn similarities(
    rows: &[f32],
    references: &[f32],
    stride: usize,
    places: &[usize],
    s: &mut [[f32; PANEL]],
) {
    Arch::new().dispatch(Similarities {
        rows,
        references,
        stride,
        places,
        s,
    });
}

struct Similarities<'a> {
    rows: &'a [f32],
    references: &'a [f32],
    stride: usize,
    places: &'a [usize],
    s: &'a mut [[f32; PANEL]],
}

impl WithSimd for Similarities<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let mut lanes = [[0.0; PANEL]; BLOCK];
        for first in (0..self.stride).step_by(BLOCK) {
            let width = BLOCK.min(self.stride - first);
            for (lane, row) in self.rows.chunks_exact(self.stride).enumerate() {
                for (lanes, value) in lanes.iter_mut().zip(&row[first..first + width]) {
                    lanes[lane] = *value;
                }
            }
            for (places, s) in self.places.chunks(STEP).zip(self.s.chunks_mut(STEP)) {
                // A step that is not full repeats its last reference.
                let references: [&[f32]; STEP] = std::array::from_fn(|i| {
                    let place = places[i.min(places.len() - 1)];
                    &self.references[place * self.stride + first..][..width]
                });
                let value = |i: usize, k: usize| references[i][k];
                add_block(simd, &lanes[..width], value, s, first == 0);
            }
        }
    }
}

/// Adds one block of terms to `s`, or begins it: `s[i][lane] += sum over k of value(i, k) * lanes[k][lane]`.
///
/// `s` holds [`STEP`] rows at most; `value` is asked for as many in any case.
#[inline(always)]
pub(super) fn add_block<S: Simd>(
    simd: S,
    lanes: &[[f32; PANEL]],
    value: impl Fn(usize, usize) -> f32,
    s: &mut [[f32; PANEL]],
    begins: bool,
) {
    let vectors = PANEL / S::F32_LANES;
    for v in (0..vectors).step_by(2) {
        let mut sums = [[simd.splat_f32s(0.0); 2]; STEP];
        for (k, lanes) in lanes.iter().enumerate() {
            let lanes = S::as_simd_f32s(lanes).0;
            for (i, sums) in sums.iter_mut().enumerate() {
                let value = simd.splat_f32s(value(i, k));
                sums[0] = simd.mul_add_e_f32s(value, lanes[v], sums[0]);
                sums[1] = simd.mul_add_e_f32s(value, lanes[v + 1], sums[1]);
            }
        }
        for (s, sums) in s.iter_mut().zip(sums) {
            let s = &mut S::as_mut_simd_f32s(s).0[v..v + 2];
            if begins {
                s.copy_from_slice(&sums);
            } else {
                s[0] = simd.add_f32s(s[0], sums[0]);
                s[1] = simd.add_f32s(s[1], sums[1]);
            }
        }
    }
}

/// A number that is larger for what is nearer: `[similarity's bits, id]`, of equal similarities the smaller id.
pub(super) fn nearness([bits, id]: [u32; 2]) -> u64 {
    // Both zeros are one; then the bits of a positive float ascend as it does, and those of a negative one descend: the
    // sign turns all of them round, or itself alone. Without a branch, as signs come in no order.
    let bits = (f32::from_bits(bits) + 0.0).to_bits();
    let turned = (bits.cast_signed() >> 31).cast_unsigned() | 1 << 31;
    u64::from(bits ^ turned) << 32 | u64::from(!id)
}

/// The similarity of a [`nearness`].
pub(super) fn similarity(nearness: u64) -> f32 {
    let bits = (nearness >> 32) as u32;
    let turned = match bits >> 31 {
        0 => u32::MAX,
        _ => 1 << 31,
    };
    f32::from_bits(bits ^ turned)
}

/// A number in two words: all sorts here go by it, so that a page compiles one sort.
pub(super) fn words(number: u64) -> [u32; 2] {
    [number as u32, (number >> 32) as u32]
}

/// The number of two words.
pub(super) fn number_in([low, high]: &[u32; 2]) -> u64 {
    u64::from(*low) | u64::from(*high) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearness_ascends_with_the_similarity_and_descends_with_the_id() {
        let ascending = [
            [(-2.0f32).to_bits(), 0],
            [(-1.0f32).to_bits(), 7],
            [(-1.0f32).to_bits(), 6],
            [(-1e-40f32).to_bits(), 0],
            [0.0f32.to_bits(), 2],
            [(-0.0f32).to_bits(), 1],
            [0.0f32.to_bits(), 0],
            [1e-40f32.to_bits(), u32::MAX],
            [1.0f32.to_bits(), 5],
        ];
        assert!(ascending.is_sorted_by(|a, b| nearness(*a) < nearness(*b)));
        for entry in ascending {
            assert_eq!(similarity(nearness(entry)), f32::from_bits(entry[0]));
        }
    }
}
