//! [`RowSource`]: where feature rows are read from, a few at a time.

use super::{NamedFile, labelled, npz};
#[cfg(not(target_arch = "wasm32"))]
use crate::error::Error;
use crate::error::Result;

/// Dense rows of features, in memory or in an open file.
#[derive(Debug)]
pub enum RowSource {
    /// All of them, `[rows, dim]`.
    Memory {
        /// The values.
        values: Vec<f32>,
        /// Columns.
        dim: usize,
    },
    /// An NPY file, read where it is asked for.
    #[cfg(not(target_arch = "wasm32"))]
    Npy(NpyRows),
}

impl RowSource {
    /// Reads the features of an NPZ: the array of this name, or the only one that can be; and says what was taken.
    ///
    /// # Errors
    /// [`crate::Error::Data`] with the file, the array, and what to do.
    pub fn from_npz(file: &NamedFile, array: Option<&str>) -> Result<(Self, Vec<String>)> {
        let (matrix, notes) = npz::read_features(file, array)?;
        let (values, dim) = (matrix.values, matrix.columns);
        labelled::check_finite(&file.name, &values, dim)?;
        Ok((Self::Memory { values, dim }, notes))
    }

    /// How many rows.
    pub fn rows(&self) -> usize {
        match self {
            Self::Memory { values, dim } => values.len().checked_div(*dim).unwrap_or(0),
            #[cfg(not(target_arch = "wasm32"))]
            Self::Npy(file) => file.rows,
        }
    }

    /// Columns of a row.
    pub fn dim(&self) -> usize {
        match self {
            Self::Memory { dim, .. } => *dim,
            #[cfg(not(target_arch = "wasm32"))]
            Self::Npy(file) => file.dim,
        }
    }

    /// The values, where they are all in memory.
    pub fn in_memory(&self) -> Option<&[f32]> {
        match self {
            Self::Memory { values, .. } => Some(values),
            #[cfg(not(target_arch = "wasm32"))]
            Self::Npy(_) => None,
        }
    }

    /// Appends these rows to `values`.
    ///
    /// # Errors
    /// [`crate::Error::Data`] when a file can no longer be read or holds a value that is not finite.
    pub async fn read(&self, rows: &[u32], values: &mut Vec<f32>) -> Result<()> {
        match self {
            Self::Memory { values: all, dim } => {
                for row in rows {
                    values.extend(&all[*row as usize * dim..][..*dim]);
                }
                Ok(())
            }
            #[cfg(not(target_arch = "wasm32"))]
            Self::Npy(file) => rows.iter().try_for_each(|row| file.read_row(*row, values)),
        }
    }
}

/// An open NPY file of numbers, rows contiguous.
#[cfg(not(target_arch = "wasm32"))]
#[derive(Debug)]
pub struct NpyRows {
    name: String,
    file: std::cell::RefCell<std::io::BufReader<std::fs::File>>,
    header: super::npy::Header,
    rows: usize,
    dim: usize,
}

#[cfg(not(target_arch = "wasm32"))]
impl NpyRows {
    /// Opens a file and checks its header against its length.
    ///
    /// # Errors
    /// [`Error::Data`] when it cannot be opened or holds no such matrix.
    pub fn open(path: &std::path::Path) -> Result<Self> {
        use std::io::Read as _;

        let name = path.display().to_string();
        let refuse = |error| Error::Data(format!("{name}: {error}"));
        let mut file = std::fs::File::open(path).map_err(refuse)?;
        let length = file.metadata().map_err(refuse)?.len();
        let mut start = Vec::new();
        file.by_ref()
            .take(super::npy::MAX_START_BYTES)
            .read_to_end(&mut start)
            .map_err(refuse)?;
        let header = super::npy::read_header(&name, &start, length)?;
        let (rows, dim) = header.matrix_shape(&name)?;
        if header.fortran_order() && dim > 1 {
            return Err(Error::Data(format!(
                "{name}: columns are contiguous (Fortran order): save it with `np.ascontiguousarray(x)`"
            )));
        }
        Ok(Self {
            name,
            file: std::io::BufReader::with_capacity(1 << 20, file).into(),
            header,
            rows,
            dim,
        })
    }

    fn read_row(&self, row: u32, values: &mut Vec<f32>) -> Result<()> {
        use std::io::{Read as _, Seek as _};

        let bytes = self.dim * self.header.item_bytes();
        let at = self.header.data() as u64 + u64::from(row) * bytes as u64;
        let mut items = vec![0; bytes];
        let mut file = self.file.borrow_mut();
        let position = file.stream_position().unwrap_or(0);
        // A relative seek keeps what is buffered.
        file.seek_relative(at.wrapping_sub(position).cast_signed())
            .and_then(|()| file.read_exact(&mut items))
            .map_err(|source| {
                Error::Data(format!(
                    "{}: row {}: the file changed while it was read ({source})",
                    self.name,
                    row + 1
                ))
            })?;
        let first = values.len();
        values.extend(
            items
                .chunks_exact(self.header.item_bytes())
                .map(|item| self.header.number(item)),
        );
        match values[first..].iter().position(|value| !value.is_finite()) {
            None => Ok(()),
            Some(column) => Err(Error::Data(format!(
                "{}: row {}, column {}: the value is not finite: fill or drop such rows",
                self.name,
                row + 1,
                column + 1
            ))),
        }
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_cut_short_while_it_is_read_is_said_with_the_row() {
        let path = std::env::temp_dir().join(format!("nearfar-cut-{}.npy", std::process::id()));
        // Larger than what is read ahead.
        let values = vec![1.0; 600_000];
        std::fs::write(&path, crate::dataset::write_matrix(&values, 2)).expect("writes");
        let rows = RowSource::Npy(NpyRows::open(&path).expect("opens"));
        let mut read = Vec::new();
        pollster::block_on(rows.read(&[0], &mut read)).expect("is there");
        let file = std::fs::OpenOptions::new().write(true).open(&path);
        file.and_then(|file| file.set_len(1000)).expect("is cut");
        let error = pollster::block_on(rows.read(&[299_999], &mut read)).expect_err("is gone");
        std::fs::remove_file(&path).ok();
        let message = error.to_string();
        assert!(
            message.contains("row 300000: the file changed while it was read"),
            "{message}"
        );
        assert_eq!(error.exit_code(), 2);
    }
}
