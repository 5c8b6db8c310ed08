//! [`Survey`] of rows before they are compared by their directions or trained on. One pass over them, on the host.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::base::error::Result;
use crate::base::order;
use crate::base::quote::{listed, quoted};
use crate::base::working::Working;
use crate::data::column_spread::{self, Column};
use crate::data::copies::nearly_equal_rows;
use crate::data::{RowSource, Sides};

/// Rows that are read at once.
const CHUNK_ROWS: usize = 1024;

/// Distance of the rows from zero at most, in units of their own spread, before 32-bit similarities lose the differences between
/// rows: those are then 1e-4 of a similarity, and 1e-7 of it is rounded. At 100, 1 to 7 of 100 rows get another nearest row than in
/// 64 bits (8 to 512 columns); at 300, 8 to 50.
const MOST_OFFSET: f64 = 100.0;

/// Rows among which equal ones are looked for: more would take more than 64 MiB.
const MOST_HASHED: usize = 4 << 20;

/// Ratio of the columns' spreads above which a report mentions it.
const MOST_SPREADS: f64 = 100.0;

/// Findings of a pass over rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Survey {
    /// Number of rows.
    pub rows: u64,
    /// Rows whose every value is 0.
    pub zero_rows: u64,
    /// The first of them, counted from 0; 0 without any.
    pub first_zero: u64,
    /// Rows that are not zero and so short that their similarities come out too small.
    pub short_rows: u64,
    /// The first of them, counted from 0; 0 without any.
    pub first_short: u64,
    /// The root of the mean squared distance of a row from the mean row.
    pub spread: f64,
    /// Length of the mean row over the spread, the root of the mean squared distance to it; 0 if all rows are equal.
    pub offset: f64,
    /// Columns that hold one value in all rows, or whose differences are smaller than 32-bit numbers can tell beside the column's
    /// own size or the other columns; counted from 0.
    pub constant_columns: Vec<u32>,
    /// Two standard deviations of the other columns, with the column of each: a tenth of the columns vary less than the first, and
    /// a tenth more than the second.
    pub spreads: Option<[(f64, u32); 2]>,
    /// Rows that are equal to an earlier one, each with the first such row; both counted from 0. Of the first 4,194,304 rows.
    pub equal_rows: Vec<[u32; 2]>,
    /// Pairs of rows that are nearly equal, equal ones included, the later row first; counted from 0. Only from
    /// [`Survey::of_data`], if the data is in memory and has 16 columns that differ.
    pub nearly_equal_rows: Vec<[u32; 2]>,
}

/// The length by which a shorter row is divided, as PyTorch's `normalize` does.
const LEAST_LENGTH: f64 = 1e-12;

/// Tells if a row is shorter than the least length that it is divided by.
fn is_short(row: &[f32]) -> bool {
    let square = |value: &f32| f64::from(*value).powi(2);
    row.iter()
        .all(|value| f64::from(value.abs()) < LEAST_LENGTH)
        && row.iter().map(square).sum::<f64>().sqrt() < LEAST_LENGTH
}

impl Survey {
    /// Looks at every row; `say` hears how many are done.
    ///
    /// # Errors
    /// As [`RowSource::read`].
    pub async fn of(rows: &RowSource, say: impl Fn(Working)) -> Result<Self> {
        Self::look(rows, false, &say).await
    }

    /// Looks at rows that are to be trained on: for rows that are nearly equal too.
    ///
    /// # Errors
    /// As [`RowSource::read`].
    pub async fn of_data(rows: &RowSource, say: impl Fn(Working)) -> Result<Self> {
        Self::look(rows, true, &say).await
    }

    /// Counts a row without a length, or with too short a one.
    fn see_length(&mut self, number: u64, row: &[f32]) {
        let (first, count) = if row.iter().all(|value| *value == 0.0) {
            (&mut self.first_zero, &mut self.zero_rows)
        } else if is_short(row) {
            (&mut self.first_short, &mut self.short_rows)
        } else {
            return;
        };
        if *count == 0 {
            *first = number;
        }
        *count += 1;
    }

    async fn look(rows: &RowSource, for_copies: bool, say: &dyn Fn(Working)) -> Result<Self> {
        let (count, dim) = (rows.rows(), rows.dim());
        let mut survey = Self {
            rows: count as u64,
            ..Self::default()
        };
        let mut values = Vec::new();
        let mut columns = vec![Column::default(); dim];
        let mut hashes: Vec<(u64, u32)> = Vec::new();
        for start in (0..count).step_by(CHUNK_ROWS) {
            let numbers: Vec<u32> = (start as u32..)
                .take(CHUNK_ROWS.min(count - start))
                .collect();
            values.clear();
            rows.read(&numbers, &mut values).await?;
            for (number, row) in (start as u64..).zip(values.chunks_exact(dim.max(1))) {
                survey.see_length(number, row);
                if (number as usize) < MOST_HASHED {
                    hashes.push((hash_of(row), number as u32));
                }
                let values = columns.iter_mut().zip(row);
                values.for_each(|(column, value)| column.add(*value));
            }
            say(Working {
                what: "looking at the rows".to_owned(),
                unit: "rows".to_owned(),
                done: (start + numbers.len()) as u64,
                total: count as u64,
            });
        }
        let (mut mean, mut spread) = (0.0, 0.0);
        let mut spreads: Vec<(f64, u32)> = Vec::new();
        let constant = column_spread::constant(columns.iter().map(|c| (c.spread(), c.reach())));
        if let (true, RowSource::Memory { values, .. }) = (for_copies, rows) {
            survey.nearly_equal_rows = nearly_equal_rows(values, &columns, &constant);
        }
        for (at, (column, is_constant)) in (0..).zip(columns.iter().zip(constant)) {
            mean += column.mean().powi(2);
            spread += column.spread().powi(2);
            if is_constant {
                survey.constant_columns.push(at);
            } else {
                spreads.push((column.spread(), at));
            }
        }
        order::sort_by(&mut spreads, |a, b| a.0.total_cmp(&b.0));
        let tenth = spreads.len().saturating_sub(1) / 10;
        survey.spreads = spreads
            .get(tenth)
            .map(|least| [*least, spreads[spreads.len() - 1 - tenth]]);
        survey.equal_rows = equal_rows(hashes);
        survey.spread = spread.sqrt();
        if spread > 0.0 {
            survey.offset = (mean / spread).sqrt();
        }
        Ok(survey)
    }

    /// Warnings about comparing such rows, in sentences.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings: Vec<String> = self.zero_rows_warning().into_iter().collect();
        if self.short_rows > 0 {
            warnings.push(format!(
                "{} of {} rows {} shorter than 1e-12 (the first is row {}, counted from 0), and {} similarities come out too small: \
                 multiply all rows by the same large number first",
                self.short_rows,
                self.rows,
                if self.short_rows == 1 { "is" } else { "are" },
                self.first_short,
                if self.short_rows == 1 { "its" } else { "their" },
            ));
        }
        if self.offset > MOST_OFFSET {
            warnings.push(format!(
                "the mean row is {:.0} times as long as rows differ from it: their cosine similarities differ by less than \
                 32-bit numbers can tell: subtract the mean of each column first",
                self.offset
            ));
        }
        warnings
    }

    /// Other findings about features of these names (or without names), in sentences; none of them forbids to train.
    pub fn findings(&self, names: &[String]) -> Vec<String> {
        let name = |column: u32| column_spread::name(names, column as usize);
        let mut findings = Vec::new();
        if !self.constant_columns.is_empty() {
            let constant: Vec<String> = self.constant_columns.iter().map(|at| name(*at)).collect();
            let count = constant.len();
            let s = if count == 1 {
                " never changes"
            } else {
                "s never change"
            };
            findings.push(format!(
                "{count} column{s}, as far as 32-bit numbers tell, so that no row is told from another by {}: {}",
                if count == 1 { "it" } else { "them" },
                listed(constant.iter().map(String::as_str))
            ));
        }
        if let Some([least, most]) = self.spreads
            && most.0 > MOST_SPREADS * least.0
        {
            findings.push(format!(
                "the columns have different scales: standard deviations go from {} ({}) to {} ({}); a run looks at that when it \
                 starts, and scales columns that differ much",
                short(least.0),
                quoted(&name(least.1)),
                short(most.0),
                quoted(&name(most.1))
            ));
        }
        if let Some([row, first]) = self.equal_rows.first() {
            let count = self.equal_rows.len();
            findings.push(match count {
                1 => format!("row {row}, counted from 0, is equal to row {first}"),
                _ => format!(
                    "{count} rows are equal to an earlier one (the first is row {row}, counted from 0, equal to row {first})"
                ),
            });
        }
        let is_equal = |row: u32| {
            let equal = &self.equal_rows;
            equal.binary_search_by_key(&row, |[row, _]| *row).is_ok()
        };
        let near = self
            .nearly_equal_rows
            .iter()
            .filter(|[row, _]| !is_equal(*row));
        let mut near: Vec<[u32; 2]> = near.copied().collect();
        near.dedup_by_key(|[row, _]| *row);
        if let [[row, first], ..] = near[..] {
            findings.push(match near.len() {
                1 => format!("row {row}, counted from 0, is nearly equal to row {first}"),
                count => format!(
                    "{count} rows are nearly equal to an earlier one (the first is row {row}, counted from 0, nearly equal to row {first})"
                ),
            });
        }
        findings
    }

    /// The validation and test rows that are equal to a training row, or nearly so; ascending.
    pub fn copies(&self, sides: &Sides) -> Vec<u32> {
        let mut side = vec![0u8; self.rows as usize];
        for (mark, rows) in [(1, &sides.train), (2, &sides.validation), (4, &sides.test)] {
            for row in rows {
                side[*row as usize] = mark;
            }
        }
        // Sides of each group of equal rows as bits, stored at its first row.
        let mut groups = side.clone();
        for [row, first] in &self.equal_rows {
            groups[*first as usize] |= side[*row as usize];
        }
        let mut first_of: Vec<u32> = (0..self.rows as u32).collect();
        for [row, first] in &self.equal_rows {
            first_of[*row as usize] = *first;
        }
        let mut near_training = vec![false; side.len()];
        for [row, other] in &self.nearly_equal_rows {
            near_training[*row as usize] |= side[*other as usize] == 1;
            near_training[*other as usize] |= side[*row as usize] == 1;
        }
        let is_copy = |row: &u32| {
            let row = *row as usize;
            side[row] > 1 && (near_training[row] || groups[first_of[row] as usize] & 1 == 1)
        };
        (0..self.rows as u32).filter(is_copy).collect()
    }

    /// Sentence about scored rows that are copies of training rows, if there are any.
    pub fn leak_warning(&self, sides: &Sides) -> Option<String> {
        let nearly = match self.nearly_equal_rows.is_empty() {
            true => "",
            false => ", or nearly so",
        };
        let rows = match self.copies(sides).len() {
            0 => return None,
            1 => {
                format!("1 row of the validation and test sides is equal to a training row{nearly}")
            }
            count => format!(
                "{count} rows of the validation and test sides are equal to training rows{nearly}"
            ),
        };
        Some(format!(
            "{rows}: they were learned before they are scored, and the scores are too good: drop such rows first"
        ))
    }

    /// Sentence about zero rows, if there are any.
    pub fn zero_rows_warning(&self) -> Option<String> {
        let Self {
            rows,
            zero_rows,
            first_zero,
            ..
        } = *self;
        let are = if zero_rows == 1 { "is" } else { "are" };
        (zero_rows > 0).then(|| {
            format!(
                "{zero_rows} of {rows} rows {are} zero (the first is row {first_zero}, counted from 0): a zero row has no direction, and its \
                 cosine similarity to every row is 0: leave such rows out"
            )
        })
    }
}

/// A size in few characters.
fn short(size: f64) -> String {
    match size {
        _ if (0.1..1e6).contains(&size) => format!("{:.*}", usize::from(size < 100.0) + 1, size),
        _ => format!("{size:.1e}"),
    }
}

/// Hash of a row: equal rows have the same one. Different rows hardly ever do: among 2 million rows one such pair is expected in
/// 1e7 cases.
fn hash_of(row: &[f32]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for value in row {
        // 0 and -0 are one value.
        (value + 0.0).to_bits().hash(&mut hasher);
    }
    hasher.finish()
}

/// Rows with the hash of an earlier row, ascending, each with the first such row.
fn equal_rows(mut hashes: Vec<(u64, u32)>) -> Vec<[u32; 2]> {
    order::sort_by(&mut hashes, Ord::cmp);
    let groups = hashes.chunk_by(|(hash, _), (next, _)| hash == next);
    let rest = groups.flat_map(|group| group[1..].iter().map(|(_, row)| [*row, group[0].1]));
    let mut rows: Vec<[u32; 2]> = rest.collect();
    order::sort_by(&mut rows, Ord::cmp);
    rows
}

#[cfg(test)]
mod tests {
    use rand::RngExt as _;

    use super::*;
    use crate::base::rng;

    fn survey(rows: &[[f32; 2]]) -> Survey {
        let rows = RowSource::Memory {
            values: rows.concat(),
            dim: 2,
        };
        pollster::block_on(Survey::of(&rows, |_| ())).expect("is read")
    }

    #[test]
    fn zero_rows_are_counted_and_the_first_is_named() {
        let mut rows = vec![[1.0, 2.0]; 3000];
        (rows[1500], rows[2999]) = ([0.0, -0.0], [0.0; 2]);
        let found = survey(&rows);
        assert_eq!((found.zero_rows, found.first_zero), (2, 1500));
        assert!(
            found.warnings()[0]
                .starts_with("2 of 3000 rows are zero (the first is row 1500, counted from 0)")
        );
        assert!(survey(&rows[..1500]).warnings().is_empty());
    }

    #[test]
    fn constant_columns_scales_and_equal_rows_are_found() {
        let mut rows: Vec<[f32; 2]> = (0..2000).map(|row| [7.0, row as f32]).collect();
        rows[1500] = rows[3];
        rows[1999] = rows[3];
        let found = survey(&rows);
        assert_eq!(found.constant_columns, [0]);
        assert_eq!(found.equal_rows, [[1500, 3], [1999, 3]]);
        let names = ["a".to_owned(), "b".to_owned()];
        assert_eq!(
            found.findings(&names),
            [
                "1 column never changes, as far as 32-bit numbers tell, so that no row is told from another by it: \"a\"",
                "2 rows are equal to an earlier one (the first is row 1500, counted from 0, equal to row 3)"
            ]
        );
        let scaled: Vec<[f32; 2]> = (0..9)
            .map(|row| [row as f32, (row * row) as f32 * 1e3])
            .collect();
        let said = survey(&scaled).findings(&[]);
        assert!(
            said[0].contains("from 2.58 (\"feature 1\") to 21468.3"),
            "{said:?}"
        );
        // A run would leave this as it is: one column of a dozen hardly varies.
        let values = (0..120).map(|at| if at % 12 == 0 { 1e-3 } else { 1.0 } * (at / 12) as f32);
        let rows = RowSource::Memory {
            values: values.collect(),
            dim: 12,
        };
        let found_in_one = pollster::block_on(Survey::of(&rows, |_| ())).expect("is read");
        assert_eq!(found_in_one.findings(&[]), Vec::<String>::new());
        let sides = |train: &[u32], test: &[u32]| Sides {
            train: train.to_vec(),
            validation: Vec::new(),
            test: test.to_vec(),
        };
        // Equal among themselves, but never on two sides; then a copy of a training row, whichever comes first.
        assert_eq!(found.leak_warning(&sides(&[5, 6], &[3, 1500, 1999])), None);
        let leaks = |train: &[u32], test: &[u32]| {
            let warning = found.leak_warning(&sides(train, test));
            warning.map(|text| text.split(" of").next().unwrap_or_default().to_owned())
        };
        assert_eq!(leaks(&[3, 5], &[1500, 6]).as_deref(), Some("1 row"));
        assert_eq!(leaks(&[1999], &[3, 1500]).as_deref(), Some("2 rows"));
    }

    #[test]
    fn rows_that_are_nearly_equal_to_training_rows_are_copies() {
        let mut rng = rng::stream(1, "made");
        let mut values: Vec<f32> = (0..60 * 32).map(|_| rng.random()).collect();
        // Rows 50 to 54 are rows 0 to 4 with a little added, and row 55 is row 5.
        for at in 50 * 32..56 * 32 {
            let more = if at < 55 * 32 { 0.002 } else { 0.0 };
            values[at] = values[at - 50 * 32] + more * rng.random::<f32>();
        }
        let rows = RowSource::Memory { values, dim: 32 };
        let found = pollster::block_on(Survey::of_data(&rows, |_| ())).expect("is read");
        let pairs = [[50, 0], [51, 1], [52, 2], [53, 3], [54, 4], [55, 5]];
        assert_eq!(found.nearly_equal_rows, pairs);
        assert_eq!(found.equal_rows, [[55, 5]]);
        let said = "5 rows are nearly equal to an earlier one (the first is row 50, counted from 0, nearly equal to row 0)";
        assert!(
            found.findings(&[]).iter().any(|finding| finding == said),
            "{:?}",
            found.findings(&[])
        );
        // Row 1 is on the same side as its copy, row 2 and its copy change sides.
        let test = vec![1, 2, 50, 51, 55];
        let train = (0..60).filter(|row| !test.contains(row)).collect();
        let sides = Sides {
            train,
            validation: Vec::new(),
            test,
        };
        assert_eq!(found.copies(&sides), [2, 50, 55]);
        let said =
            "3 rows of the validation and test sides are equal to training rows, or nearly so: ";
        assert!(
            found
                .leak_warning(&sides)
                .is_some_and(|text| text.starts_with(said))
        );
    }

    #[test]
    fn the_offset_is_the_length_of_the_mean_over_the_spread() {
        let spread = [[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]];
        assert_eq!(survey(&spread).offset, 0.0);
        let moved = spread.map(|[x, y]| [x + 3e4, y + 4e4]);
        let found = survey(&moved);
        assert!((found.offset - 5e4).abs() < 1e-3, "{}", found.offset);
        assert!(found.warnings()[0].contains("subtract the mean"));
        assert_eq!(
            survey(&[[7.0, 7.0]; 5]).offset,
            0.0,
            "nothing tells them apart"
        );
    }
}
