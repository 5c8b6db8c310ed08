//! Rows as f16, two numbers in a word; what is nearest among them, and the same scored again in f32.

use std::ops::Range;

use half::f16;
use half::slice::HalfFloatSliceExt as _;

use super::knn::{Asked, NOTHING, Search, keep, search as search_rows};
use super::parallel::{map, rows_of_a_part};
use super::tile::{PANEL, similarities};

/// What numbers are multiplied by before they become f16: those of unit rows stay below the largest, and those from 2^-29 on
/// are normal.
const SCALE: f32 = 32768.0;
/// The least normal f16: what is below becomes 0.
const LEAST_NORMAL: f32 = 1.0 / 16384.0;

/// Packs each row, and raises `measured` to the largest squared error and the largest squared length of any, as bits of f32.
///
/// # Shapes
/// `rows`: `[count, stride]` · `packed`: `[count, stride / 2]`
pub fn pack(rows: &[f32], stride: usize, packed: &mut [u32], measured: &mut [u32]) {
    let count = rows.len() / stride.max(1);
    let most = rows_of_a_part(count, 16 * rows.len(), count.max(1));
    let parts = rows.chunks(most * stride);
    let parts = parts.zip(packed.chunks_mut(most * stride / 2));
    let largest = map(parts.collect(), |(rows, packed)| {
        let rows = rows.chunks_exact(stride);
        let rows = rows.zip(packed.chunks_exact_mut(stride / 2));
        rows.fold([0.0f64; 2], |[error, length], (row, packed)| {
            let (of_error, of_length) = pack_row(row, packed);
            [error.max(of_error), length.max(of_length)]
        })
    });
    for largest in largest {
        for (measured, largest) in measured.iter_mut().zip(largest) {
            *measured = (*measured).max((largest as f32).next_up().to_bits());
        }
    }
}

/// Packs a row; gives the squares of its error and of its length.
fn pack_row(row: &[f32], packed: &mut [u32]) -> (f64, f64) {
    let (mut error, mut length) = (0.0, 0.0);
    for (packed, two) in packed.iter_mut().zip(row.chunks_exact(2)) {
        *packed = 0;
        for (i, value) in two.iter().enumerate() {
            let scaled = value * SCALE;
            let half = match scaled.abs() >= LEAST_NORMAL {
                true => f16::from_f32(scaled),
                false => f16::ZERO,
            };
            *packed |= u32::from(half.to_bits()) << (16 * i);
            let off = f64::from(*value) - f64::from(half.to_f32() / SCALE);
            error += off * off;
            length += f64::from(*value) * f64::from(*value);
        }
    }
    (error, length)
}

/// The numbers that stand in these words.
pub fn open(packed: &[u32], opened: &mut [f32]) {
    let halves: &[u16] = bytemuck::cast_slice(packed);
    let halves: &[f16] = half::slice::HalfBitsSliceExt::reinterpret_cast(halves);
    halves.convert_to_f32_slice(opened);
    for value in opened {
        *value /= SCALE;
    }
}

/// Lets every query look at the packed references of these visits, as [`search_rows`] does at rows in f32.
pub fn search(
    search: &Search,
    visits: Range<usize>,
    queries: &[f32],
    packed: &[u32],
    asked: &[Asked],
    kept: &mut [[u32; 2]],
    survivors: &mut [[u32; 2]],
) {
    const FLOATS: usize = 1 << 18;
    let stride = search.stride;
    let all = search.visits() as u64;
    let start = |visit: usize| (visit as u64 * search.references as u64 / all) as usize;
    let places = start(visits.start)..start(visits.end);
    let step = (FLOATS / stride.max(1)).clamp(1, places.len().max(1));
    let mut opened = vec![0.0; step * stride];
    for first in places.clone().step_by(step) {
        let count = step.min(places.end - first);
        let opened = &mut opened[..count * stride];
        open(&packed[first * stride / 2..][..count * stride / 2], opened);
        let piece = Search {
            references: count,
            first_id: search.first_id + first as u32,
            ..*search
        };
        let visits = 0..piece.visits();
        search_rows(&piece, visits, queries, opened, asked, kept, survivors);
    }
}

/// Scores the candidates of each query again, with the bits that [`search_rows`] gives, and finds the `k` nearest of them.
///
/// # Shapes
/// `candidates`: `[rows, search.k]`, nearest first · `found`: `[rows, k]` · `judged`: `[rows]`, the similarity of the farthest
/// candidate as it was, and the squared length of the query, as bits
pub fn rescore(
    search: &Search,
    k: usize,
    queries: &[f32],
    references: &[f32],
    candidates: &[[u32; 2]],
    found: &mut [[u32; 2]],
    judged: &mut [[u32; 2]],
) {
    let Search {
        rows,
        stride,
        k: all,
        ..
    } = *search;
    let queries = queries[..rows * stride].chunks_exact(stride);
    let found = found[..rows * k].chunks_exact_mut(k);
    let parts = queries
        .zip(candidates.chunks_exact(all))
        .zip(found.zip(judged));
    let parts =
        parts.map(|((query, candidates), (found, judged))| (query, candidates, found, judged));
    map(parts.collect(), |(query, candidates, found, judged)| {
        let mut survivors = Vec::with_capacity(all);
        let mut lanes = vec![[0.0; PANEL]; stride];
        let mut s = [[0.0; PANEL]];
        // References take the lanes: the same products in the same order as where queries do.
        for some in candidates.chunks(PANEL) {
            for (lane, [_, id]) in some.iter().enumerate() {
                let row = references.chunks_exact(stride).nth(*id as usize);
                for (lanes, value) in lanes.iter_mut().zip(row.into_iter().flatten()) {
                    lanes[lane] = *value;
                }
            }
            similarities(&lanes, query, &[0], &mut s);
            let scored = some.iter().zip(s[0]);
            survivors.extend(
                scored.map(|([_, id], s)| match (*id as usize) < search.references {
                    true => [s.to_bits(), *id],
                    false => NOTHING,
                }),
            );
        }
        found.fill(NOTHING);
        keep(found, &mut survivors);
        let squares: f64 = query.iter().map(|value| f64::from(*value).powi(2)).sum();
        *judged = [candidates[all - 1][0], (squares as f32).next_up().to_bits()];
    });
}
