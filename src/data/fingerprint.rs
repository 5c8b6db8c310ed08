//! [`Dataset::fingerprint`]: recognizes the data of an earlier run.

use xxhash_rust::xxh3::Xxh3;

use super::Dataset;
use crate::base::error::Result;

/// Bytes of features up to which every row is hashed.
const WHOLE_BYTES: u64 = 256 << 20;
/// Runs of rows that are hashed above that, and rows of each.
const RUNS: usize = 256;
const RUN_ROWS: usize = 64;
/// Rows that are read at once.
const CHUNK_ROWS: usize = 1024;

impl Dataset {
    /// A number that identifies this data: 32 hexadecimal digits, the same for the same rows from whatever source they are read,
    /// and whatever the file is called.
    ///
    /// XXH3 of the numbers of rows and features, all classes and labels, the text columns, the names of the features and their
    /// values. Of features of more than 256 MiB it covers 256 runs of 64 rows, spread evenly from the first row to the last: a file
    /// in which only other rows were changed gets the same number. It is no protection against a data set made on purpose to have
    /// the same number.
    ///
    /// # Errors
    /// An error if the rows cannot be read.
    pub async fn fingerprint(&self) -> Result<String> {
        let mut hash = Xxh3::new();
        let (rows, dim) = (self.rows(), self.features.dim());
        for number in [rows, dim, usize::from(self.joined)] {
            count(&mut hash, number);
        }
        texts(&mut hash, &self.class_names);
        hash.update(bytemuck::cast_slice(&self.labels));
        texts(&mut hash, &self.feature_names);
        count(&mut hash, self.columns.len());
        for (name, values) in &self.columns {
            texts(&mut hash, [name]);
            texts(&mut hash, values.iter());
        }
        let (mut numbers, mut values) = (Vec::new(), Vec::new());
        for (first, rows) in runs(rows, dim) {
            numbers.clear();
            numbers.extend(first as u32..(first + rows) as u32);
            values.clear();
            self.features.read(&numbers, &mut values).await?;
            hash.update(bytemuck::cast_slice(&values));
        }
        Ok(format!("{:032x}", hash.digest128()))
    }
}

fn count(hash: &mut Xxh3, number: usize) {
    hash.update(&(number as u64).to_le_bytes());
}

/// Hashes texts, each with its length before it, so that different lists give different bytes.
fn texts<T: AsRef<str>>(
    hash: &mut Xxh3,
    texts: impl IntoIterator<Item = T, IntoIter: ExactSizeIterator>,
) {
    let texts = texts.into_iter();
    count(hash, texts.len());
    for text in texts {
        let text = text.as_ref();
        count(hash, text.len());
        hash.update(text.as_bytes());
    }
}

/// The runs of rows that are hashed: first row and number of rows of each.
fn runs(rows: usize, dim: usize) -> Vec<(usize, usize)> {
    if 4 * rows as u64 * dim as u64 <= WHOLE_BYTES || rows <= RUNS * RUN_ROWS {
        let firsts = (0..rows).step_by(CHUNK_ROWS);
        return firsts
            .map(|first| (first, CHUNK_ROWS.min(rows - first)))
            .collect();
    }
    let last = (rows - RUN_ROWS) as u64;
    let first = |run: usize| (run as u64 * last / (RUNS as u64 - 1)) as usize;
    (0..RUNS).map(|run| (first(run), RUN_ROWS)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::RowSource;

    fn digits(change: impl FnOnce(&mut Dataset)) -> String {
        let mut dataset = Dataset::sample("digits", 0).expect("is there");
        change(&mut dataset);
        pollster::block_on(dataset.fingerprint()).expect("is read")
    }

    fn value(dataset: &mut Dataset, at: usize) -> &mut f32 {
        match &mut dataset.features {
            RowSource::Memory { values, .. } => &mut values[at],
            _ => panic!("a sample is in memory"),
        }
    }

    #[test]
    fn the_same_data_has_the_same_fingerprint_and_any_change_another() {
        let own = digits(|_| {});
        assert_eq!(own.len(), 32);
        assert_eq!(own, digits(|data| data.name = "moved.npy".to_owned()));
        let others = [
            digits(|data| *value(data, 0) += 1.0),
            digits(|data| *value(data, 64 * 1796 + 63) += 1.0),
            digits(|data| data.labels.swap(0, 1)),
            digits(|data| data.class_names[0].push('!')),
            digits(|data| data.feature_names.push("a".to_owned())),
            digits(|data| data.columns.push(("a".to_owned(), Default::default()))),
            digits(|data| data.joined = true),
        ];
        for (i, other) in others.iter().enumerate() {
            assert!(*other != own && !others[..i].contains(other), "{i}");
        }
    }

    #[test]
    fn of_large_data_runs_are_looked_at_from_the_first_row_to_the_last() {
        let looked = runs(1 << 20, 128);
        assert_eq!((looked.len(), looked[0]), (256, (0, 64)));
        assert_eq!(looked[255], ((1 << 20) - 64, 64));
        assert!(looked.windows(2).all(|pair| pair[0].0 + 64 <= pair[1].0));
        // As few rows as that are all looked at, however wide they are.
        for (rows, dim) in [(0, 4), (1, 4), (2500, 4), (1 << 19, 128), (16_384, 1 << 14)] {
            let whole: usize = runs(rows, dim).iter().map(|(_, rows)| rows).sum();
            assert_eq!(whole, rows);
        }
    }
}
