//! [`Survey`]: what rows are like before they are compared by their directions. One pass over them, on the host.

use crate::dataset::RowSource;
use crate::error::Result;

/// Rows that are read at once.
const CHUNK_ROWS: usize = 1024;

/// How far from zero rows may lie, in their own spread, before 32-bit similarities lose what tells them apart: their
/// differences are then 1e-4 of a similarity, and 1e-7 of it is rounded. At 100, 1 to 7 of 100 rows get another nearest
/// one than in 64 bits (8 to 512 columns); at 300, 8 to 50.
const MOST_OFFSET: f64 = 100.0;

/// What a look at rows found.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Survey {
    /// How many rows.
    pub rows: u64,
    /// Rows whose every value is 0.
    pub zero_rows: u64,
    /// The first of them, counted from 1; 0 without any.
    pub first_zero: u64,
    /// Length of the mean row over the spread, the root of the mean squared distance to it; 0 where rows are all equal.
    pub offset: f64,
}

impl Survey {
    /// Looks at every row.
    ///
    /// # Errors
    /// What reading them says.
    pub async fn of(rows: &RowSource) -> Result<Self> {
        let (count, dim) = (rows.rows(), rows.dim());
        let mut survey = Self {
            rows: count as u64,
            ..Self::default()
        };
        let mut values = Vec::new();
        let mut first: Vec<f64> = Vec::new();
        // Sums of the distances to the first row: nothing is lost where rows lie far from zero.
        let mut sums = vec![[0.0f64; 2]; dim];
        for start in (0..count).step_by(CHUNK_ROWS) {
            let numbers: Vec<u32> = (start as u32..)
                .take(CHUNK_ROWS.min(count - start))
                .collect();
            values.clear();
            rows.read(&numbers, &mut values).await?;
            for (number, row) in (start as u64 + 1..).zip(values.chunks_exact(dim.max(1))) {
                if first.is_empty() {
                    first.extend(row.iter().map(|value| f64::from(*value)));
                }
                if row.iter().all(|value| *value == 0.0) {
                    survey.zero_rows += 1;
                    if survey.first_zero == 0 {
                        survey.first_zero = number;
                    }
                }
                for ((sums, value), first) in sums.iter_mut().zip(row).zip(&first) {
                    let distance = f64::from(*value) - first;
                    sums[0] += distance;
                    sums[1] += distance * distance;
                }
            }
        }
        let (mut mean, mut spread) = (0.0, 0.0);
        for ([sum, squares], first) in sums.iter().zip(&first) {
            let distance = sum / count as f64;
            mean += (first + distance).powi(2);
            spread += (squares / count as f64 - distance * distance).max(0.0);
        }
        if spread > 0.0 {
            survey.offset = (mean / spread).sqrt();
        }
        Ok(survey)
    }

    /// What to know before such rows are compared, in sentences.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings: Vec<String> = self.zero_rows_warning().into_iter().collect();
        if self.offset > MOST_OFFSET {
            warnings.push(format!(
                "the mean row is {:.0} times as long as rows differ from it: their cosine similarities differ by less than \
                 32-bit numbers can tell: subtract the mean of each column first",
                self.offset
            ));
        }
        warnings
    }

    /// The sentence about zero rows, where there are any.
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
                "{zero_rows} of {rows} rows {are} zero (the first is row {first_zero}): a zero row has no direction, and its \
                 cosine similarity to every row is 0: leave such rows out"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn survey(rows: &[[f32; 2]]) -> Survey {
        let rows = RowSource::Memory {
            values: rows.concat(),
            dim: 2,
        };
        pollster::block_on(Survey::of(&rows)).expect("is read")
    }

    #[test]
    fn zero_rows_are_counted_and_the_first_is_named() {
        let mut rows = vec![[1.0, 2.0]; 3000];
        (rows[1500], rows[2999]) = ([0.0, -0.0], [0.0; 2]);
        let found = survey(&rows);
        assert_eq!((found.zero_rows, found.first_zero), (2, 1501));
        assert!(found.warnings()[0].starts_with("2 of 3000 rows are zero (the first is row 1501)"));
        assert!(survey(&rows[..1500]).warnings().is_empty());
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
