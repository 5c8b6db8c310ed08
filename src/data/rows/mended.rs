//! Rows in memory, NaN for a cell without a number, become rows without NaN, as [`Missing`] says.

use super::aside::set_aside;
use super::missing::{columns_note, filled_note, is_missing_label, rows_note};
use super::{Labelled, Missing};
use crate::base::error::Result;

impl Missing {
    /// Leaves no NaN in the values, and says in the notes what was done.
    ///
    /// # Errors
    /// [`crate::Error::Cells`] when nothing is left.
    pub(crate) fn apply(self, rows: &mut Labelled) -> Result<()> {
        let is_finite = rows.values.iter().all(|value| value.is_finite());
        match self {
            Self::DropRows => drop_rows(rows),
            _ if is_finite => return Ok(()),
            Self::DropColumns => drop_columns(rows),
            Self::Median => fill(rows),
            Self::Refuse => return Ok(()),
        }
        if rows.values.is_empty() {
            return Err(self.nothing_left(&rows.name));
        }
        Ok(())
    }
}

/// Fills each cell without a finite number with the number given for its column, in rows of `dim` values.
pub(crate) fn fill_in(values: &mut [f32], dim: usize, filled: &[(usize, f32)]) {
    for (column, number) in filled {
        for value in values.iter_mut().skip(*column).step_by(dim) {
            if !value.is_finite() {
                *value = *number;
            }
        }
    }
}

fn drop_rows(rows: &mut Labelled) {
    let dim = rows.dim.max(1);
    let labels = rows.labels.iter();
    let labelled: Vec<bool> = labels.map(|label| !is_missing_label(label)).collect();
    let finite = rows.values.chunks_exact(dim);
    let finite = finite.map(|row| row.iter().all(|value| value.is_finite()));
    let keep = labelled.iter().zip(finite);
    let keep: Vec<bool> = keep.map(|(label, row)| *label && row).collect();
    let left_out = keep.iter().filter(|keep| !**keep).count();
    if left_out == 0 {
        return;
    }
    rows.notes.push(rows_note(left_out, keep.len()));
    set_aside(rows, &labelled);
    keep_rows(rows, &keep);
}

/// Leaves out the rows for which `keep`, by row, is false.
pub(super) fn keep_rows(rows: &mut Labelled, keep: &[bool]) {
    let (dim, mut kept) = (rows.dim.max(1), 0);
    for row in (0..keep.len()).filter(|row| keep[*row]) {
        rows.values
            .copy_within(row * dim..(row + 1) * dim, kept * dim);
        kept += 1;
    }
    rows.values.truncate(kept * dim);
    rows.left_out.leave_out(keep);
    rows.labels.retain(keep);
    for (_, cells) in rows.columns.iter_mut().chain(&mut rows.ids) {
        cells.retain(keep);
    }
}

fn drop_columns(rows: &mut Labelled) {
    let mut keep = vec![true; rows.dim];
    for row in rows.values.chunks_exact(rows.dim) {
        for (keep, value) in keep.iter_mut().zip(row) {
            *keep &= value.is_finite();
        }
    }
    let left_out: Vec<usize> = (0..rows.dim).filter(|at| !keep[*at]).collect();
    let note = columns_note(&left_out, &rows.feature_names);
    rows.notes.push(note);
    let dim = rows.dim;
    for values in [&mut rows.values, &mut rows.aside.values] {
        let mut column = 0..;
        values.retain(|_| column.next().is_some_and(|at: usize| keep[at % dim]));
    }
    let mut kept = keep.iter();
    rows.feature_names
        .retain(|_| kept.next().is_none_or(|keep| *keep));
    rows.dim = keep.iter().filter(|keep| **keep).count();
}

fn fill(rows: &mut Labelled) {
    let dim = rows.dim;
    let mut filled = 0;
    let mut column = Vec::new();
    for at in 0..dim {
        let cells = || rows.values.iter().skip(at).step_by(dim);
        if cells().all(|value| value.is_finite()) {
            continue;
        }
        column.clear();
        column.extend(cells().filter(|value| value.is_finite()));
        filled += (rows.values.len() / dim - column.len()) as u64;
        rows.filled.push((at, median(&mut column)));
    }
    fill_in(&mut rows.values, dim, &rows.filled);
    fill_in(&mut rows.aside.values, dim, &rows.filled);
    rows.notes.push(filled_note(filled));
}

/// The middle number, or the mean of the two in the middle; 0 if there is no number.
fn median(values: &mut [f32]) -> f32 {
    let middle = values.len() / 2;
    if values.is_empty() {
        return 0.0;
    }
    let (below, upper, _) = values.select_nth_unstable_by(middle, f32::total_cmp);
    let upper = *upper;
    match below.iter().copied().max_by(f32::total_cmp) {
        Some(lower) if values.len().is_multiple_of(2) => lower / 2.0 + upper / 2.0,
        _ => upper,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Aside;

    const NAN: f32 = f32::NAN;

    fn applied(policy: Missing) -> Labelled {
        let mut rows = Labelled {
            name: "x.csv".to_owned(),
            values: vec![
                1.0,
                2.0,
                3.0,
                NAN,
                5.0,
                6.0,
                7.0,
                9.0,
                f32::INFINITY,
                9.0,
                8.0,
                4.0,
            ],
            dim: 3,
            feature_names: ["a", "b", "c"].map(str::to_owned).to_vec(),
            labels: ["u", "v", "", "u"].iter().collect(),
            columns: vec![("side".to_owned(), ["1", "2", "3", "4"].iter().collect())],
            aside: Aside {
                values: vec![1.0, 2.0, NAN],
                rows: vec![4],
            },
            ..Labelled::default()
        };
        policy.apply(&mut rows).expect("something is left");
        rows
    }

    #[test]
    fn each_policy_leaves_finite_rows_and_says_what_it_did() {
        let dropped = applied(Missing::DropRows);
        assert_eq!(dropped.values, [1.0, 2.0, 3.0, 9.0, 8.0, 4.0]);
        assert_eq!(dropped.labels, ["u", "u"][..]);
        assert_eq!(dropped.columns[0].1, ["1", "4"][..]);
        assert!(dropped.notes[0].starts_with("left out 2 of 4 rows"));
        assert_eq!(dropped.aside.rows, [4, 2]);
        let columns = applied(Missing::DropColumns);
        assert_eq!(
            (columns.dim, columns.feature_names),
            (1, vec!["b".to_owned()])
        );
        assert_eq!(columns.values, [2.0, 5.0, 9.0, 8.0]);
        assert_eq!(columns.aside.values, [2.0]);
        assert_eq!(
            columns.notes,
            ["left out, as a cell holds no number: \"a\", \"c\""]
        );
        let filled = applied(Missing::Median);
        let expected = [1.0, 2.0, 3.0, 7.0, 5.0, 6.0, 7.0, 9.0, 4.0, 9.0, 8.0, 4.0];
        assert_eq!(filled.values, expected);
        assert_eq!(filled.filled, [(0, 7.0), (2, 4.0)]);
        assert_eq!(filled.aside.values, [1.0, 2.0, 4.0]);
        assert_eq!(
            filled.notes,
            ["filled 2 cells that hold no number with the median of the column"]
        );
        assert!(applied(Missing::Refuse).values[3].is_nan());
    }

    #[test]
    fn the_median_is_the_middle_or_between_the_two_in_the_middle() {
        assert_eq!(median(&mut [4.0, 1.0, 3.0, 2.0]), 2.5);
        assert_eq!(median(&mut [4.0, 1.0, 3.0]), 3.0);
        assert_eq!(median(&mut [7.0]), 7.0);
        assert_eq!(median(&mut []), 0.0);
        assert_eq!(median(&mut [f32::MAX, f32::MAX]), f32::MAX);
    }

    #[test]
    fn nothing_left_is_refused() {
        let mut rows = Labelled {
            name: "x.csv".to_owned(),
            values: vec![NAN, NAN],
            dim: 1,
            labels: ["u", "v"].iter().collect(),
            ..Labelled::default()
        };
        let error = Missing::DropRows.apply(&mut rows).expect_err("refused");
        assert!(
            error
                .to_string()
                .starts_with("x.csv: every row holds a cell without")
        );
        assert!(Missing::named("mean").is_err());
    }
}
