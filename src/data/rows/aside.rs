//! [`Aside`]: rows of a file without a label. They are no rows of the data: nothing is trained or scored with them, a map shows them.

use serde::{Deserialize, Serialize};

use super::Labelled;
use super::values::all_are_small;

/// The most rows that are set aside, and the most of their features: 16 MiB.
const ROWS: usize = 10_000;
const FEATURES: usize = 1 << 22;

/// Rows without a label; of more than 10,000, or than 16 MiB hold, some at even distances in the file.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Aside {
    /// `[rows, dim]`, finite.
    pub values: Vec<f32>,
    /// Number of each row in the file, counted from 0.
    pub rows: Vec<u32>,
}

/// Copies the rows that are not `labelled`, which are left out next.
pub(super) fn set_aside(rows: &mut Labelled, labelled: &[bool]) {
    let (dim, aside) = (rows.dim.max(1), &mut rows.aside);
    let room = ROWS.min(FEATURES / dim).saturating_sub(aside.rows.len());
    let all = (0..labelled.len()).filter(|row| !labelled[*row]);
    let step = all.clone().count().div_ceil(room.max(1)).max(1);
    let chosen: Vec<usize> = all.step_by(step).take(room).collect();
    for row in &chosen {
        aside.values.extend(&rows.values[row * dim..][..dim]);
    }
    let chosen = chosen.iter().map(|row| *row as u32);
    aside.rows.extend(rows.left_out.numbers(chosen));
}

impl Aside {
    /// Leaves out rows with a cell that holds no number, or one that is too large to compute with.
    pub(in crate::data) fn settle(&mut self, dim: usize) {
        let Self { values, rows } = std::mem::take(self);
        let all = values.chunks_exact(dim.max(1)).zip(rows);
        for (row, number) in all.filter(|(row, _)| all_are_small(row, dim)) {
            self.values.extend(row);
            self.rows.push(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_rows_without_a_label_some_are_set_aside_all_over_the_file() {
        for (count, dim, step) in [(30_000, 1, 2), (15_000, 1, 1), (600, 1 << 14, 2)] {
            let mut rows = Labelled {
                values: (0..count * dim).map(|at| (at / dim) as f32).collect(),
                dim,
                ..Labelled::default()
            };
            let labelled: Vec<bool> = (0..count).map(|row| row % 2 == 0).collect();
            set_aside(&mut rows, &labelled);
            let expected = (1..count as u32).step_by(2 * step);
            assert_eq!(rows.aside.rows, expected.collect::<Vec<_>>());
            let first: Vec<u32> = rows
                .aside
                .values
                .iter()
                .step_by(dim)
                .map(|value| *value as u32)
                .collect();
            assert_eq!(first, rows.aside.rows);
            // There is room for no more than that.
            set_aside(&mut rows, &[false; 20_000][..count.min(20_000)]);
            assert!(rows.aside.rows.len() <= ROWS.min(FEATURES / dim));
        }
    }

    #[test]
    fn rows_that_cannot_be_computed_with_are_not_kept() {
        let mut aside = Aside {
            values: vec![1.0, 2.0, f32::NAN, 3.0, 1e20, 4.0, 5.0, 6.0],
            rows: vec![3, 5, 8, 9],
        };
        aside.settle(2);
        let rows = vec![3, 9];
        let values = vec![1.0, 2.0, 5.0, 6.0];
        assert_eq!(aside, Aside { values, rows });
    }
}
