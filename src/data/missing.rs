//! [`Missing`]: treatment of cells that hold no number, as chosen. Takes rows with NaN for such cells, gives rows without NaN.

use serde::{Deserialize, Serialize};

use super::Labelled;
use super::labelled::is_missing;
use crate::base::error::{Error, Result};
use crate::base::quote::listed;

/// Treatment of cells that are empty, not finite, or no number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Missing {
    /// The file is refused, with the first such cell.
    #[default]
    Refuse,
    /// Rows with such a cell are left out, and rows without a label.
    DropRows,
    /// Columns with such a cell are left out.
    DropColumns,
    /// Such a cell gets the median of the numbers in its column.
    Median,
}

impl Missing {
    /// All treatments, with the names that settings use and a description.
    pub const ALL: [(&'static str, Self, &'static str); 4] = [
        ("refuse", Self::Refuse, "refuse the file"),
        ("drop-rows", Self::DropRows, "leave such rows out"),
        ("drop-columns", Self::DropColumns, "leave such columns out"),
        ("median", Self::Median, "fill with the median of the column"),
    ];

    /// Advice on such cells, for the end of a refusal.
    pub(super) const ADVICE: &str = "choose what becomes of such cells";

    /// The treatment of this name.
    ///
    /// # Errors
    /// [`Error::Config`] with the names there are.
    pub fn named(name: &str) -> Result<Self> {
        let found = Self::ALL.iter().find(|(known, ..)| *known == name);
        found.map(|(_, policy, _)| *policy).ok_or_else(|| {
            let known = Self::ALL.map(|(name, ..)| name);
            Error::Config(format!("missing: expected {}", known.join(", ")))
        })
    }

    /// Leaves no NaN in the values, and says in the notes what was done.
    ///
    /// # Errors
    /// [`Error::Cells`] when nothing is left.
    pub(super) fn apply(self, rows: &mut Labelled) -> Result<()> {
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

    /// Error that every row or column was left out.
    pub(super) fn nothing_left(self, name: &str) -> Error {
        let what = match self {
            Self::DropColumns => "column",
            _ => "row",
        };
        Error::Cells(format!(
            "{name}: every {what} holds a cell without a number, and nothing is left of the features: choose otherwise what becomes of such \
             cells"
        ))
    }
}

/// Fills each cell without a finite number with the number given for its column, in rows of `dim` values.
pub(super) fn fill_in(values: &mut [f32], dim: usize, filled: &[(usize, f32)]) {
    for (column, number) in filled {
        for value in values.iter_mut().skip(*column).step_by(dim) {
            if !value.is_finite() {
                *value = *number;
            }
        }
    }
}

/// Note on rows that were left out, `left_out` of `rows`.
pub(super) fn rows_note(left_out: usize, rows: usize) -> String {
    format!(
        "left out {left_out} of {rows} rows, in which a cell holds no number or the label is missing"
    )
}

/// Note on columns that were left out; some may have no names.
pub(super) fn columns_note(left_out: &[usize], names: &[String]) -> String {
    let name = |column: &usize| match names.get(*column) {
        Some(name) => name.clone(),
        None => format!("column {}", column + 1),
    };
    let names: Vec<String> = left_out.iter().map(name).collect();
    let names = listed(names.iter().map(String::as_str));
    format!("left out, as a cell holds no number: {names}")
}

/// Note on cells that were filled.
pub(super) fn filled_note(cells: u64) -> String {
    let cells = match cells {
        1 => "1 cell that holds".to_owned(),
        _ => format!("{cells} cells that hold"),
    };
    format!("filled {cells} no number with the median of the column")
}

fn drop_rows(rows: &mut Labelled) {
    let dim = rows.dim.max(1);
    let labels = rows.labels.iter().map(|label| !is_missing(label));
    let finite = rows.values.chunks_exact(dim);
    let finite = finite.map(|row| row.iter().all(|value| value.is_finite()));
    let keep: Vec<bool> = labels
        .zip(finite)
        .map(|(label, row)| label && row)
        .collect();
    let left_out = keep.iter().filter(|keep| !**keep).count();
    if left_out == 0 {
        return;
    }
    rows.notes.push(rows_note(left_out, keep.len()));
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
    for (_, cells) in &mut rows.columns {
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
    let mut column = 0..;
    let dim = rows.dim;
    rows.values
        .retain(|_| column.next().is_some_and(|at: usize| keep[at % dim]));
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
        let columns = applied(Missing::DropColumns);
        assert_eq!(
            (columns.dim, columns.feature_names),
            (1, vec!["b".to_owned()])
        );
        assert_eq!(columns.values, [2.0, 5.0, 9.0, 8.0]);
        assert_eq!(
            columns.notes,
            ["left out, as a cell holds no number: \"a\", \"c\""]
        );
        let filled = applied(Missing::Median);
        let expected = [1.0, 2.0, 3.0, 7.0, 5.0, 6.0, 7.0, 9.0, 4.0, 9.0, 8.0, 4.0];
        assert_eq!(filled.values, expected);
        assert_eq!(filled.filled, [(0, 7.0), (2, 4.0)]);
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
