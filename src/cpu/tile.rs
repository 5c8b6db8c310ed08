//! Similarities of a panel of rows to references, and the one order in which references are nearer.

use std::array;

use pulp::{Arch, Simd, WithSimd};

use super::parallel::rows_of_a_part;
use super::{SEGMENT, wide};

/// Rows of a panel: each has a SIMD lane of its own.
pub(super) const PANEL: usize = 32;

/// Components of a partial sum, as in the shader: a long sum rounds less like this.
pub(super) const BLOCK: usize = 32;
/// References that a panel meets at once: their sums, two vectors each, stay in registers.
pub(super) const STEP: usize = 6;

/// The inner product, from sixteen partial sums.
#[inline(always)]
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut parts = [0.0; 16];
    for (a, b) in a.chunks(16).zip(b.chunks(16)) {
        for ((part, a), b) in parts.iter_mut().zip(a).zip(b) {
            *part += a * b;
        }
    }
    parts.iter().sum()
}

/// A panel of rows, [`PANEL`] at most, transposed: component by component, once for many references.
pub(super) fn lanes(rows: &[f32], stride: usize) -> Vec<[f32; PANEL]> {
    let mut lanes = vec![[0.0; PANEL]; stride];
    turn(rows, &mut lanes);
    lanes
}

/// Writes every row of a panel to a lane of its own.
pub(super) fn turn(rows: &[f32], lanes: &mut [[f32; PANEL]]) {
    for (lane, row) in rows.chunks_exact(lanes.len()).enumerate() {
        for (lanes, value) in lanes.iter_mut().zip(row) {
            lanes[lane] = *value;
        }
    }
}

/// Number of references that stay in the cache while a few panels meet them, [`SEGMENT`] at most.
pub(super) fn references_at_once(stride: usize) -> usize {
    const FLOATS: usize = 1 << 16;
    (FLOATS / stride.max(1) / STEP * STEP).clamp(4 * STEP, SEGMENT)
}

/// Number of panels that meet the same references one after the other, at most: their lanes stay in the cache, too.
pub(super) fn panels_at_once(stride: usize) -> usize {
    const FLOATS: usize = 1 << 17;
    const MOST: usize = 8;
    (FLOATS / PANEL / stride.max(1)).clamp(1, MOST)
}

/// Rows of a part, `panels` panels at most, so that all cores are done at about the same time.
pub(super) fn rows_at_once(rows: usize, operations: usize, panels: usize) -> usize {
    let of_a_core = rows_of_a_part(rows, operations, rows.max(1));
    #[cfg(any(not(target_arch = "wasm32"), feature = "threads"))]
    if of_a_core > PANEL && of_a_core < rows {
        let (cores, all) = (rows.div_ceil(of_a_core), rows.div_ceil(PANEL));
        // Panels of the core that has most, if a part that is not full is the last to be taken; then the number of parts.
        let cost = |panels: &usize| {
            let (full, rest) = (all / panels, all % panels);
            let most = match full.is_multiple_of(cores) {
                true => full / cores * panels + rest,
                false => full.div_ceil(cores) * panels,
            };
            (most, all.div_ceil(*panels))
        };
        return PANEL * (1..=panels).min_by_key(cost).unwrap_or(1);
    }
    match of_a_core.div_ceil(of_a_core.div_ceil(panels * PANEL)) {
        few if few <= PANEL => few,
        many => many.next_multiple_of(PANEL),
    }
}

/// Multiplies a panel of rows with references: `s[i][row] = <lanes[..][row], references[places[i]]>`.
///
/// Each is a sum of partial sums of [`BLOCK`] components, both ascending, whatever the other lanes and places hold: equal rows give
/// equal bits in every lane and place.
pub(super) fn similarities(
    lanes: &[[f32; PANEL]],
    references: &[f32],
    places: &[usize],
    s: &mut [[f32; PANEL]],
) {
    Arch::new().dispatch(Similarities {
        lanes,
        references,
        places,
        s,
    });
}

struct Similarities<'a> {
    lanes: &'a [[f32; PANEL]],
    references: &'a [f32],
    places: &'a [usize],
    s: &'a mut [[f32; PANEL]],
}

impl WithSimd for Similarities<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let stride = self.lanes.len();
        for (places, s) in self.places.chunks(STEP).zip(self.s.chunks_mut(STEP)) {
            // A step that is not full repeats its last reference.
            let references: [&[f32]; STEP] = array::from_fn(|i| {
                let place = places[i.min(places.len() - 1)];
                &self.references[place * stride..][..stride]
            });
            for v in (0..PANEL / S::F32_LANES).step_by(2) {
                let mut totals = [[simd.splat_f32s(0.0); 2]; STEP];
                for (block, lanes) in self.lanes.chunks(BLOCK).enumerate() {
                    let first = block * BLOCK;
                    let terms = references.map(|reference| &reference[first..][..lanes.len()]);
                    let sums = sums(simd, lanes, v, |i, k| terms[i][k]);
                    add(simd, &mut totals, sums, first == 0);
                }
                for (s, totals) in s.iter_mut().zip(totals) {
                    S::as_mut_simd_f32s(s).0[v..v + 2].copy_from_slice(&totals);
                }
            }
        }
    }
}

/// The sums over k of `value(i, k) * lanes[k]`, in two vectors of lanes from `v` on.
#[inline(always)]
fn sums<S: Simd>(
    simd: S,
    lanes: &[[f32; PANEL]],
    v: usize,
    value: impl Fn(usize, usize) -> f32,
) -> [[S::f32s; 2]; STEP] {
    let mut sums = [[simd.splat_f32s(0.0); 2]; STEP];
    for (k, lanes) in lanes.iter().enumerate() {
        let lanes = S::as_simd_f32s(lanes).0;
        for (i, sums) in sums.iter_mut().enumerate() {
            let value = simd.splat_f32s(value(i, k));
            sums[0] = simd.mul_add_e_f32s(value, lanes[v], sums[0]);
            sums[1] = simd.mul_add_e_f32s(value, lanes[v + 1], sums[1]);
        }
    }
    sums
}

/// Adds to totals, or begins them.
#[inline(always)]
fn add<S: Simd>(
    simd: S,
    totals: &mut [[S::f32s; 2]; STEP],
    sums: [[S::f32s; 2]; STEP],
    begins: bool,
) {
    if begins {
        *totals = sums;
        return;
    }
    for (totals, sums) in totals.iter_mut().zip(sums) {
        totals[0] = simd.add_f32s(totals[0], sums[0]);
        totals[1] = simd.add_f32s(totals[1], sums[1]);
    }
}

/// Adds one block of terms to `s`, or begins it: `s[i][lane] += sum over k of value(i, k) * lanes[k][lane]`.
///
/// `s` has [`STEP`] rows at most; `value` is called for [`STEP`] rows in any case.
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
        let sums = sums(simd, lanes, v, &value);
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

/// Tells of each reference the rows to which its similarity is at least `from`, a bit each from the lowest on. Without a branch.
pub(super) fn find_near(s: &[[f32; PANEL]], from: &[f32; PANEL], near: &mut [u32]) {
    wide(
        #[inline(always)]
        || {
            for (near, s) in near.iter_mut().zip(s) {
                let lanes = (0..).zip(s.iter().zip(from));
                *near = lanes.fold(0, |near, (lane, (s, from))| {
                    near | u32::from(s >= from) << lane
                });
            }
        },
    );
}

/// Transposes: the similarities of every lane, next to each other.
#[inline(always)]
pub(super) fn columns(s: &[[f32; PANEL]]) -> [[f32; SEGMENT]; PANEL] {
    // In squares of `SIDE` rows and references.
    const SIDE: usize = 4;
    let mut columns = [[0.0; SEGMENT]; PANEL];
    let (squares, rest) = s.as_chunks::<SIDE>();
    for (i, square) in squares.iter().enumerate() {
        for lane in (0..PANEL).step_by(SIDE) {
            let turned: [[f32; SIDE]; SIDE] =
                array::from_fn(|column| array::from_fn(|i| square[i][lane + column]));
            for (column, turned) in columns[lane..].iter_mut().zip(turned) {
                column[i * SIDE..][..SIDE].copy_from_slice(&turned);
            }
        }
    }
    for (i, s) in (squares.len() * SIDE..).zip(rest) {
        for (column, s) in columns.iter_mut().zip(s) {
            column[i] = *s;
        }
    }
    columns
}

/// The lanes whose bits are set.
pub(super) fn lanes_of(mut near: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lane = (near != 0).then_some(near.trailing_zeros() as usize);
        near &= near.wrapping_sub(1);
        lane
    })
}

/// A number that is larger for the nearer of two entries `[similarity's bits, id]`: of equal similarities, for the smaller id.
pub(super) fn nearness([bits, id]: [u32; 2]) -> u64 {
    u64::from(height(f32::from_bits(bits))) << 32 | u64::from(!id)
}

/// A number that ascends with the similarity.
#[inline(always)]
pub(super) fn height(s: f32) -> u32 {
    // Both zeros are one; then the bits of a positive float ascend as it does, and those of a negative one descend: the
    // sign turns all of them round, or itself alone. Without a branch, as signs come in no order.
    let bits = (s + 0.0).to_bits();
    bits ^ ((bits.cast_signed() >> 31).cast_unsigned() | 1 << 31)
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

/// Sorts numbers of two words each.
pub fn sort_numbers(numbers: &mut [[u32; 2]]) {
    numbers.sort_unstable_by_key(number_in);
}

/// The number of two words.
pub(super) fn number_in([low, high]: &[u32; 2]) -> u64 {
    u64::from(*low) | u64::from(*high) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(not(target_arch = "wasm32"))]
    #[test]
    fn the_core_with_most_panels_has_one_more_at_most() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build();
        let at_once = |rows: usize| rows_at_once(rows, usize::MAX / 2, 8);
        let pool = pool.expect("two threads start");
        for rows in [64, 65, 472, 528, 1000, 4096] {
            let most = pool.install(|| at_once(rows));
            assert!(most <= 8 * PANEL, "{rows}");
            // Whoever has less takes the next part.
            let mut cores = [0, 0];
            for first in (0..rows).step_by(most) {
                let less = usize::from(cores[1] < cores[0]);
                cores[less] += most.min(rows - first).div_ceil(PANEL);
            }
            assert!(cores[0].abs_diff(cores[1]) <= 1, "{rows}: {cores:?}");
        }
    }

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
