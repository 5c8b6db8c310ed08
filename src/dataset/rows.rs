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
    /// [`crate::Error::Io`] and [`crate::Error::Data`] when a file can no longer be read or holds a value that is not
    /// finite.
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
            .map_err(|source| Error::Io {
                what: format!(
                    "reading row {} of {}: the file changed while it was read",
                    row + 1,
                    self.name
                ),
                source,
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
