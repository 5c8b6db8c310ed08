//! Pairs of rows that are nearly equal: a picture saved twice, a text with a word changed. Takes the values of all rows.
//!
//! Random columns of each row are summed, several times, and the sums are rounded. Nearly equal rows mostly have the same rounded
//! sums, and only rows with the same ones are compared.

use rand::RngExt as _;

use crate::base::order;
use crate::base::rng;
use crate::data::column_spread::Column;

/// Columns at least: among few, rows are as near as this to each other by chance.
const FEWEST_COLUMNS: usize = 16;
/// Rows at most: more would take seconds, and are not searched.
const MOST_ROWS: usize = 1 << 18;
/// Distance of nearly equal rows at most, relative to the mean distance of two rows, in columns scaled to spread 1.
const NEAR: f64 = 0.05;
/// Sums of columns in one hash, columns of each sum, and number of hashes tried.
const SUMS: usize = 12;
const COLUMNS: usize = 16;
const TIMES: usize = 8;
/// Rows that a row is compared with among those with the same sums: the next ones only.
const COMPARED: usize = 64;
/// Pairs that are kept at most.
const MOST_PAIRS: usize = 1 << 20;

/// Pairs of rows that are nearly equal, the later one first; both counted from 0, ascending. `columns` are those of `values`,
/// `[rows, columns]`.
///
/// Finds nearly every pair whose values differ by a hundredth of their columns' spreads, and no pair that is farther apart than
/// [`NEAR`].
pub(crate) fn nearly_equal_rows(
    values: &[f32],
    columns: &[Column],
    constant: &[bool],
) -> Vec<[u32; 2]> {
    let dim = columns.len();
    let rows = values.len() / dim.max(1);
    let told: Vec<(usize, f32)> = (0..dim)
        .filter(|at| !constant[*at])
        .map(|at| (at, (1.0 / columns[at].spread()) as f32))
        .collect();
    if told.len() < FEWEST_COLUMNS || rows > MOST_ROWS {
        return Vec::new();
    }
    let row = |at: u32| &values[at as usize * dim..][..dim];
    let most = (NEAR * NEAR * 2.0 * told.len() as f64) as f32;
    let is_near = |a: u32, b: u32| {
        let (a, b) = (row(a), row(b));
        let mut sum = 0.0;
        // Most pairs are told apart by their first columns.
        told.chunks(COLUMNS).all(|told| {
            let squares = told
                .iter()
                .map(|(at, scale)| ((a[*at] - b[*at]) * scale).powi(2));
            sum += squares.sum::<f32>();
            sum <= most
        })
    };
    let mut rng = rng::stream(0, "copies");
    let mut pairs = Vec::new();
    let mut hashes: Vec<(u64, u32)> = Vec::with_capacity(rows);
    for _ in 0..TIMES {
        // Each sum has spread 1, and is rounded to whole numbers after a random shift.
        let sums: [(f32, [(usize, f32); COLUMNS]); SUMS] = std::array::from_fn(|_| {
            let summed = std::array::from_fn(|_| {
                let (at, scale) = told[rng::below(&mut rng, told.len())];
                let sign = if rng.random() { 1.0 } else { -1.0 };
                (at, sign * scale / (COLUMNS as f32).sqrt())
            });
            (rng.random(), summed)
        });
        hashes.clear();
        for at in 0..rows as u32 {
            let row = row(at);
            let mut hash = 0_u64;
            for (place, summed) in &sums {
                let sum: f32 = summed.iter().map(|(at, scale)| row[*at] * scale).sum();
                let rounded = (sum + place).floor() as i64 as u64;
                hash = (hash ^ rounded)
                    .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                    .rotate_left(23);
            }
            hashes.push((hash, at));
        }
        order::sort_by(&mut hashes, Ord::cmp);
        for shared in hashes.chunk_by(|(hash, _), (next, _)| hash == next) {
            for (at, (_, first)) in shared.iter().enumerate() {
                for (_, row) in shared[at + 1..].iter().take(COMPARED) {
                    if pairs.len() < MOST_PAIRS && is_near(*first, *row) {
                        pairs.push([*row, *first]);
                    }
                }
            }
        }
    }
    order::sort_by(&mut pairs, Ord::cmp);
    pairs.dedup();
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::column_spread;

    /// Rows around centres, and after them copies of some, each value moved by so much of its column's spread.
    fn rows_with_copies(
        rows: usize,
        dim: usize,
        centres: usize,
        copied: usize,
        moved: f64,
    ) -> Vec<f32> {
        let mut rng = rng::stream(7, "made");
        let mut normal = || rng::normal(&mut rng);
        let units: Vec<f64> = (0..dim)
            .map(|at| 10.0_f64.powi(at as i32 % 7 - 3))
            .collect();
        let centres: Vec<Vec<f64>> = (0..centres)
            .map(|_| (0..dim).map(|_| normal()).collect())
            .collect();
        let mut made: Vec<Vec<f64>> = Vec::new();
        for at in 0..rows {
            let centre = &centres[at % centres.len()];
            made.push(centre.iter().map(|value| value + 0.5 * normal()).collect());
        }
        for at in 0..copied {
            let copy = made[3 * at]
                .iter()
                .map(|value| value + moved * normal())
                .collect();
            made.push(copy);
        }
        let values = made.iter().flat_map(|row| {
            row.iter()
                .zip(&units)
                .map(|(value, unit)| (value * unit) as f32)
        });
        values.collect()
    }

    fn found(values: &[f32], dim: usize) -> Vec<[u32; 2]> {
        let mut all = vec![Column::default(); dim];
        for row in values.chunks_exact(dim) {
            all.iter_mut()
                .zip(row)
                .for_each(|(column, value)| column.add(*value));
        }
        let constant: Vec<bool> =
            column_spread::constant(all.iter().map(|c| (c.spread(), c.reach())))
                .into_iter()
                .collect();
        nearly_equal_rows(values, &all, &constant)
    }

    /// Nearly equal rows found by a comparison of every row with every other, in 64 bits.
    fn by_all_pairs(values: &[f32], dim: usize) -> Vec<[u32; 2]> {
        let rows: Vec<&[f32]> = values.chunks_exact(dim).collect();
        let mean =
            |at: usize| rows.iter().map(|row| f64::from(row[at])).sum::<f64>() / rows.len() as f64;
        let spread = |at: usize| {
            let mean = mean(at);
            let squares = rows.iter().map(|row| (f64::from(row[at]) - mean).powi(2));
            (squares.sum::<f64>() / rows.len() as f64).sqrt()
        };
        let spreads: Vec<f64> = (0..dim).map(spread).collect();
        let apart = |a: usize, b: usize| {
            let columns = rows[a].iter().zip(rows[b]).zip(&spreads);
            columns
                .map(|((a, b), spread)| (f64::from(a - b) / spread).powi(2))
                .sum::<f64>()
        };
        let most = NEAR * NEAR * 2.0 * dim as f64;
        let mut pairs = Vec::new();
        for row in 0..rows.len() {
            pairs.extend(
                (0..row)
                    .filter(|other| apart(row, *other) <= most)
                    .map(|other| [row as u32, other as u32]),
            );
        }
        pairs
    }

    #[test]
    fn copies_are_found_as_all_pairs_have_them_and_other_rows_are_none() {
        for (dim, centres, moved) in [
            (16, 4, 0.01),
            (64, 8, 0.01),
            (384, 20, 0.01),
            (40, 1, 0.0),
            (384, 20, 0.03),
        ] {
            let values = rows_with_copies(900, dim, centres, 100, moved);
            let (found, expected) = (found(&values, dim), by_all_pairs(&values, dim));
            assert_eq!(
                expected.len(),
                100,
                "{dim} columns: the copies alone are near"
            );
            assert!(found.iter().all(|pair| expected.contains(pair)));
            let least = if moved < 0.02 { 98 } else { 80 };
            assert!(
                found.len() >= least,
                "{dim} columns, {moved}: {} of 100 found",
                found.len()
            );
        }
        for (dim, moved) in [(64, 0.3), (8, 0.01)] {
            assert_eq!(
                found(&rows_with_copies(900, dim, 4, 100, moved), dim),
                Vec::<[u32; 2]>::new()
            );
        }
    }
}
