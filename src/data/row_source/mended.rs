//! Treatment of cells without a number in rows that stay in their file. The file is read through once, or, for medians,
//! twice more for each group of columns; then each row is mended as it is read.

use super::RowSource;
use super::layout::{Cells, Mend};
use crate::base::error::Result;
use crate::base::working::Working;
use crate::data::rows::missing::{self, is_missing_label};
use crate::data::{Labels, LeftOut, Missing};

/// Bytes of the rows that are read at once.
const WINDOW_BYTES: usize = 1 << 20;
/// Values of a 16-bit half of a number, of which each is counted.
const HALVES: usize = 1 << 16;
/// Columns whose numbers are counted at once: 32 MiB of counts.
const COUNTED_COLUMNS: usize = 64;

impl Labels {
    /// Keeps the rows for which `keep` is true.
    fn retain(&mut self, keep: &[bool]) {
        self.labels.retain(keep);
        for (_, cells) in &mut self.columns {
            cells.retain(keep);
        }
    }
}

impl RowSource {
    /// Treats cells without a number in the rows of a file, as [`Missing`] does with rows in memory, and missing labels. Adds notes
    /// on that, and returns the columns that are filled, each with the value. `say` hears of the progress.
    ///
    /// # Errors
    /// [`crate::Error::Cells`] when nothing is left; [`crate::Error::Data`] when the file cannot be read.
    pub(crate) async fn mend(
        &mut self,
        name: &str,
        policy: Missing,
        labels: &mut Labels,
        say: &dyn Fn(Working),
    ) -> Result<(Vec<(usize, f32)>, LeftOut)> {
        let (mut filled, mut left_out) = (Vec::new(), LeftOut::default());
        if policy == Missing::Refuse {
            self.see_cells(Cells::Refused);
            return Ok((filled, left_out));
        }
        self.see_cells(Cells::Kept);
        let (rows, dim) = (self.rows(), self.dim());
        let (missing, keep) = self.holes(labels, say).await?;
        let is_hole = |column: &usize| missing[*column] > 0;
        let mut mend = Mend::default();
        match policy {
            Missing::DropRows if keep.contains(&false) => {
                let left = (0..).zip(&keep).filter(|(_, keep)| **keep);
                let left: Vec<u32> = left.map(|(row, _)| row).collect();
                labels
                    .notes
                    .push(missing::rows_note(rows - left.len(), rows));
                left_out.leave_out(&keep);
                labels.retain(&keep);
                mend.rows = Some(left);
            }
            Missing::DropColumns if missing.iter().any(|missing| *missing > 0) => {
                let (left_out, left): (Vec<usize>, _) = (0..dim).partition(is_hole);
                labels.notes.push(missing::columns_note(&left_out, &[]));
                mend.columns = Some(left);
            }
            Missing::Median if missing.iter().any(|missing| *missing > 0) => {
                let holes: Vec<usize> = (0..dim).filter(is_hole).collect();
                for holes in holes.chunks(COUNTED_COLUMNS) {
                    let medians = self.medians(holes, say).await?;
                    filled.extend(holes.iter().copied().zip(medians));
                }
                mend.fill.clone_from(&filled);
                labels
                    .notes
                    .push(missing::filled_note(missing.iter().sum()));
            }
            _ => {}
        }
        self.see_cells(Cells::Mended(mend));
        match self.rows().min(self.dim()) {
            0 => Err(policy.nothing_left(name)),
            _ => Ok((filled, left_out)),
        }
    }

    /// Fills cells without a number of these columns in the rows of a file from now on.
    pub fn fill(&mut self, filled: &[(usize, f32)]) {
        self.see_cells(Cells::Mended(Mend {
            fill: filled.to_vec(),
            ..Mend::default()
        }));
    }

    /// Passes every row and its number to `see`; `say` hears of the progress, described by `what`.
    async fn each_row(
        &self,
        what: &str,
        say: &dyn Fn(Working),
        mut see: impl FnMut(usize, &[f32]),
    ) -> Result<()> {
        let step = (WINDOW_BYTES / size_of::<f32>() / self.dim()).max(1);
        let mut values = Vec::new();
        for first in (0..self.rows()).step_by(step) {
            let last = self.rows().min(first + step);
            let rows: Vec<u32> = (first as u32..last as u32).collect();
            values.clear();
            self.read(&rows, &mut values).await?;
            let rows = values.chunks_exact(self.dim()).zip(first..);
            rows.for_each(|(values, row)| see(row, values));
            say(Working {
                what: what.to_owned(),
                unit: "rows".to_owned(),
                done: last as u64,
                total: self.rows() as u64,
            });
        }
        Ok(())
    }

    /// Number of cells without a number in each column; and for each row if it has none, and a label.
    async fn holes(&self, labels: &Labels, say: &dyn Fn(Working)) -> Result<(Vec<u64>, Vec<bool>)> {
        let labelled = labels.labels.iter().map(|label| !is_missing_label(label));
        let mut keep: Vec<bool> = labelled.collect();
        let mut missing = vec![0; self.dim()];
        self.each_row("looking for cells without a number", say, |row, values| {
            for (missing, value) in missing.iter_mut().zip(values) {
                *missing += u64::from(!value.is_finite());
            }
            keep[row] &= values.iter().all(|value| value.is_finite());
        })
        .await?;
        Ok((missing, keep))
    }

    /// The median of the numbers in each of these columns, as [`Missing::Median`] defines it: found by counting the upper halves of
    /// the numbers' bits, then the lower halves of the numbers around the middle.
    async fn medians(&self, columns: &[usize], say: &dyn Fn(Working)) -> Result<Vec<f32>> {
        let mut counts = vec![[0_u32; HALVES]; 2 * columns.len()];
        self.each_row("finding the medians", say, |_, values| {
            for (counts, column) in counts.iter_mut().zip(columns) {
                if let Some(order) = order(values[*column]) {
                    counts[order >> 16] += 1;
                }
            }
        })
        .await?;
        // The two in the middle of an even number of numbers, else one and the same.
        let middles = |count: u32| [count.saturating_sub(1) / 2, count / 2];
        let places = counts[..columns.len()].iter().map(|counts| {
            let count = counts.iter().sum();
            (count, middles(count).map(|rank| nth(counts, rank)))
        });
        let places: Vec<(u32, [(usize, u32); 2])> = places.collect();
        counts.iter_mut().for_each(|counts| counts.fill(0));
        self.each_row("finding the medians", say, |_, values| {
            let counts = counts.chunks_exact_mut(2).zip(&places);
            for ((counts, (_, places)), column) in counts.zip(columns) {
                let Some(order) = order(values[*column]) else {
                    continue;
                };
                for (counts, (upper, _)) in counts.iter_mut().zip(places) {
                    counts[order % HALVES] += u32::from(order >> 16 == *upper);
                }
            }
        })
        .await?;
        let medians = counts.chunks_exact(2).zip(&places);
        let medians = medians.map(|(counts, (count, places))| {
            let number = |at: usize| {
                let (upper, rank) = places[at];
                number(upper << 16 | nth(&counts[at], rank).0)
            };
            match count {
                0 => 0.0,
                count if count % 2 == 1 => number(1),
                _ => number(0) / 2.0 + number(1) / 2.0,
            }
        });
        Ok(medians.collect())
    }
}

/// Index of a finite number among all 32-bit numbers, in the order of [`f32::total_cmp`]; none for others.
fn order(number: f32) -> Option<usize> {
    let bits = number.to_bits();
    let flipped = bits ^ if bits >> 31 == 1 { u32::MAX } else { 1 << 31 };
    number.is_finite().then_some(flipped as usize)
}

/// The number with such an index.
fn number(order: usize) -> f32 {
    let order = order as u32;
    f32::from_bits(order ^ if order >> 31 == 1 { 1 << 31 } else { u32::MAX })
}

/// The bin that holds the item of this rank, counted from 0, by the count of each bin, and the item's rank within the bin.
fn nth(counts: &[u32], rank: u32) -> (usize, u32) {
    let mut left = rank;
    for (at, count) in counts.iter().enumerate() {
        match left.checked_sub(*count) {
            Some(less) => left = less,
            None => return (at, left),
        }
    }
    (0, 0)
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::*;
    use crate::base::error::Error;
    use crate::data::{Choice, Dataset, Labelled, NamedFile, NpyRows, write_matrix};

    const ROWS: usize = 301;
    /// More than are counted at once.
    const DIM: usize = COUNTED_COLUMNS + 6;

    fn files(values: &[f32], labels: &str) -> [NamedFile; 2] {
        let bytes = write_matrix(values, DIM);
        let [npy, csv] = [("x.npy", bytes), ("y.csv", labels.as_bytes().to_vec())]
            .map(|(name, bytes)| (name.to_owned(), bytes))
            .map(|(name, bytes)| NamedFile { name, bytes });
        [npy, csv]
    }

    /// The data read whole, and the data whose features stay in the file.
    fn both(values: &[f32], labels: &str, missing: Missing) -> [Result<Dataset>; 2] {
        let [npy, csv] = files(values, labels);
        let choice = Choice {
            missing: Some(missing),
            ..Choice::default()
        };
        let whole = Labelled::read(&npy, Some(&csv), choice).and_then(Dataset::new);
        let thread = std::thread::current().id();
        let name = format!("nearfar-mend-{}-{thread:?}.npy", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, &npy.bytes).expect("is written");
        let rows = NpyRows::open(&path).expect("opens");
        let labels = Labelled::read_labels(&csv, choice, "x.npy", rows.rows());
        let streamed = labels.and_then(|labels| {
            let streamed = Dataset::streamed("x.npy".to_owned(), rows, labels, missing, |_| ());
            pollster::block_on(streamed)
        });
        std::fs::remove_file(&path).expect("is removed");
        [whole, streamed]
    }

    fn bits(dataset: &Dataset) -> Vec<u32> {
        let rows: Vec<u32> = (0..dataset.rows() as u32).rev().collect();
        let mut values = Vec::new();
        let read = dataset.features.read(&rows, &mut values);
        pollster::block_on(read).expect("reads");
        values.into_iter().map(f32::to_bits).collect()
    }

    /// Numbers of both signs and many sizes, with holes in two of three columns; column 5 has no number but in one row.
    fn values() -> Vec<f32> {
        let odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
        let value = |at: usize| {
            let (row, column) = (at / DIM, at % DIM);
            let mixed = (at as u32).wrapping_mul(2_654_435_761);
            let number = match mixed >> 29 {
                0 => 0.0,
                1 => -0.0,
                2 => f32::from_bits(mixed & 0x807f_ffff),
                _ => (mixed as f32 - 2e9) * 1e-12_f32.powi((mixed % 2) as i32),
            };
            let is_hole = column % 3 > 0 && mixed.is_multiple_of(13) && row % 7 < 3;
            match is_hole || (column == 5 && row != 8) {
                true => odd[at % 3],
                false => number,
            }
        };
        (0..ROWS * DIM).map(value).collect()
    }

    #[test]
    fn rows_that_stay_in_the_file_are_mended_as_those_in_memory() {
        let mut values = values();
        let mut labels: Vec<String> = (0..ROWS).map(|row| format!("c{}", row % 4)).collect();
        for (missing, column_5) in [
            (Missing::DropColumns, false),
            (Missing::Median, false),
            (Missing::DropRows, true),
        ] {
            if column_5 {
                values
                    .iter_mut()
                    .skip(5)
                    .step_by(DIM)
                    .for_each(|v| *v = 2.5);
                labels[13] = "NA".to_owned();
                labels[15].clear();
            }
            let text = format!("id,label\n{}", lines(&labels));
            let [whole, streamed] = both(&values, &text, missing).map(|read| read.expect("reads"));
            assert!(
                whole.features.in_memory().is_some() && streamed.features.in_memory().is_none()
            );
            assert_eq!(whole.features.dim(), streamed.features.dim(), "{missing:?}");
            assert_eq!(
                whole.features.rows(),
                streamed.features.rows(),
                "{missing:?}"
            );
            assert!(bits(&whole) == bits(&streamed), "{missing:?}");
            assert_eq!(whole.labels, streamed.labels, "{missing:?}");
            assert_eq!(whole.class_names, streamed.class_names);
            assert_eq!((whole.missing, streamed.missing), (missing, missing));
            assert_eq!(whole.filled, streamed.filled);
            assert_eq!(whole.left_out, streamed.left_out);
            assert_eq!(whole.left_out.is_empty(), missing != Missing::DropRows);
            assert_eq!(whole.filled.is_empty(), missing != Missing::Median);
            let [whole, streamed] = [whole, streamed].map(|data| data.notes);
            assert_eq!(whole[..], streamed[..whole.len()], "{missing:?}");
        }
    }

    fn lines(labels: &[String]) -> String {
        let lines = labels.iter().zip(0..);
        lines.map(|(label, id)| format!("{id},{label}\n")).collect()
    }

    #[test]
    fn rows_without_a_hole_are_left_alone_and_nothing_left_is_refused() {
        let labels: Vec<String> = (0..ROWS).map(|row| (row % 2).to_string()).collect();
        let text = format!("id,label\n{}", lines(&labels));
        for (_, missing, _) in Missing::ALL {
            let [whole, streamed] = both(&[0.5; ROWS * DIM], &text, missing);
            assert_eq!(
                bits(&whole.expect("reads")),
                bits(&streamed.expect("reads"))
            );
            let outcome = |read: Result<Dataset>| {
                let read = read.and_then(|data| {
                    let mut values = Vec::new();
                    pollster::block_on(data.features.read(&[0], &mut values))?;
                    Ok(values[0].to_string())
                });
                match read {
                    // If no cells were looked for, the first one is met as its row is read.
                    Err(Error::Cells(_)) if missing == Missing::Refuse => "choose".to_owned(),
                    Err(error) => error.to_string(),
                    Ok(value) => value,
                }
            };
            let [whole, streamed] = both(&[f32::NAN; ROWS * DIM], &text, missing).map(outcome);
            assert_eq!(whole, streamed);
            let expected = match missing {
                Missing::Refuse => "choose",
                Missing::DropRows => "x.npy: every row holds",
                Missing::DropColumns => "x.npy: every column holds",
                Missing::Median => "0",
            };
            assert!(streamed.starts_with(expected), "{streamed}");
        }
    }

    #[test]
    fn numbers_come_back_from_their_order() {
        let numbers = [f32::MIN, -1.0, -1e-45, -0.0, 0.0, 1e-45, 1.0, f32::MAX];
        let places = numbers.map(|number| order(number).expect("is finite"));
        assert!(places.is_sorted());
        assert_eq!(
            places.map(number).map(f32::to_bits),
            numbers.map(f32::to_bits)
        );
        assert_eq!(order(f32::NAN), None);
        assert_eq!(nth(&[2, 0, 3], 3), (2, 1));
    }
}
