//! [`RowSource`]: rows of features, in memory or in an open file, read a few at a time.

mod blob;
mod layout;
mod mended;
#[cfg(not(target_arch = "wasm32"))]
mod npy_rows;
mod open;

#[cfg(target_arch = "wasm32")]
pub use blob::BlobRows;
#[cfg(not(target_arch = "wasm32"))]
pub use npy_rows::NpyRows;

use crate::base::error::{Error, Result};
#[cfg(not(target_arch = "wasm32"))]
use crate::cpu::parallel::map;
#[cfg(not(target_arch = "wasm32"))]
use crate::data::rows::values::check_squares;
use layout::Cells;

/// Dense rows of features, in memory or in an open file.
#[derive(Debug)]
pub enum RowSource {
    /// All rows, `[rows, dim]`.
    Memory {
        /// The values.
        values: Vec<f32>,
        /// Columns.
        dim: usize,
    },
    /// No rows, only their number, for plans of memory and time.
    Imagined {
        /// Number of rows.
        rows: usize,
        /// Columns.
        dim: usize,
    },
    /// An NPY file, read as needed.
    #[cfg(not(target_arch = "wasm32"))]
    Npy(NpyRows),
    /// Rows of a program around the library, such as an array of another language, read as needed: no copy of all is made.
    #[cfg(not(target_arch = "wasm32"))]
    Held(Box<dyn HeldRows>),
    /// An NPY file that a browser was given, read as needed.
    #[cfg(target_arch = "wasm32")]
    Blob(BlobRows),
}

/// Rows that a program around the library holds.
#[cfg(not(target_arch = "wasm32"))]
pub trait HeldRows: std::fmt::Debug + Send + Sync {
    /// Number of rows.
    fn rows(&self) -> usize;

    /// Columns of a row.
    fn dim(&self) -> usize;

    /// Appends these rows to `values`.
    ///
    /// # Errors
    /// [`Error::Data`] for a value that is not finite.
    fn read(&self, rows: &[u32], values: &mut Vec<f32>) -> Result<()>;

    /// Many rows are to be read at once, by one thread: each read costs more than its rows.
    fn reads_at_once(&self) -> bool {
        false
    }
}

/// Bytes from which on a page leaves the features of an NPY file in it: a browser's tab can hold little.
pub const STREAM_FROM_BYTES: u64 = 256 << 20;

/// Floats that a core takes at once: they stay in its cache between reading and writing.
#[cfg(not(target_arch = "wasm32"))]
const PART_FLOATS: usize = 1 << 14;

impl RowSource {
    /// Tells if features of a file of this name and size are read as needed: an NPY of `from_bytes` or more.
    pub fn streams(name: &str, bytes: u64, from_bytes: u64) -> bool {
        name.to_ascii_lowercase().ends_with(".npy") && bytes >= from_bytes
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        match self {
            Self::Memory { values, dim } => values.len().checked_div(*dim).unwrap_or(0),
            Self::Imagined { rows, .. } => *rows,
            #[cfg(not(target_arch = "wasm32"))]
            Self::Npy(file) => file.layout().rows(),
            #[cfg(not(target_arch = "wasm32"))]
            Self::Held(held) => held.rows(),
            #[cfg(target_arch = "wasm32")]
            Self::Blob(file) => file.layout().rows(),
        }
    }

    /// Columns of a row.
    pub fn dim(&self) -> usize {
        match self {
            Self::Memory { dim, .. } | Self::Imagined { dim, .. } => *dim,
            #[cfg(not(target_arch = "wasm32"))]
            Self::Npy(file) => file.layout().dim(),
            #[cfg(not(target_arch = "wasm32"))]
            Self::Held(held) => held.dim(),
            #[cfg(target_arch = "wasm32")]
            Self::Blob(file) => file.layout().dim(),
        }
    }

    /// Sets the treatment of cells of rows in a file.
    fn see_cells(&mut self, cells: Cells) {
        match self {
            Self::Memory { .. } | Self::Imagined { .. } => {}
            #[cfg(not(target_arch = "wasm32"))]
            Self::Npy(file) => file.layout_mut().cells = cells,
            #[cfg(not(target_arch = "wasm32"))]
            Self::Held(_) => {}
            #[cfg(target_arch = "wasm32")]
            Self::Blob(file) => file.layout_mut().cells = cells,
        }
    }

    /// The values, if they are all in memory.
    pub fn in_memory(&self) -> Option<&[f32]> {
        match self {
            Self::Memory { values, .. } => Some(values),
            Self::Imagined { .. } => None,
            #[cfg(not(target_arch = "wasm32"))]
            Self::Npy(_) | Self::Held(_) => None,
            #[cfg(target_arch = "wasm32")]
            Self::Blob(_) => None,
        }
    }

    /// Appends these rows to `values`.
    ///
    /// # Errors
    /// [`Error::Data`] when a file can no longer be read or holds a value that cannot be used.
    pub async fn read(&self, rows: &[u32], values: &mut Vec<f32>) -> Result<()> {
        match self {
            Self::Memory { values: all, dim } => {
                for row in rows {
                    values.extend(&all[*row as usize * dim..][..*dim]);
                }
                Ok(())
            }
            Self::Imagined { .. } => Err(imagined()),
            #[cfg(not(target_arch = "wasm32"))]
            Self::Npy(file) => file.read(rows, values),
            #[cfg(not(target_arch = "wasm32"))]
            Self::Held(held) => held.read(rows, values),
            #[cfg(target_arch = "wasm32")]
            Self::Blob(file) => file.read(rows, values).await,
        }
    }

    /// Writes these rows to `to`, `[rows, stride]`, zeros after each row, on all cores if none waits for another's reads; `then`
    /// gets the part that a core wrote while it is in that core's cache.
    ///
    /// # Errors
    /// As [`RowSource::read`]; [`Error::Data`] for a value that is too large to square.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn read_to(
        &self,
        rows: &[u32],
        stride: usize,
        to: &mut [f32],
        then: impl Fn(&mut [f32]) + Sync + Send,
    ) -> Result<()> {
        let dim = self.dim();
        let read = |rows: &[u32], to: &mut [f32]| {
            let mut dense = Vec::with_capacity(rows.len() * dim);
            pollster::block_on(self.read(rows, &mut dense))?;
            check_squares(rows, &dense, dim)?;
            for (to, row) in to.chunks_exact_mut(stride).zip(dense.chunks_exact(dim)) {
                to[..dim].copy_from_slice(row);
                to[dim..].fill(0.0);
            }
            Ok(())
        };
        let most = (PART_FLOATS / stride).max(1);
        let mut parts = rows.chunks(most).zip(to.chunks_mut(most * stride));
        match self {
            Self::Held(held) if held.reads_at_once() => {
                read(rows, to)?;
                then(to);
                Ok(())
            }
            Self::Npy(file) if !file.follow(rows) => {
                parts.try_for_each(|(rows, to)| read(rows, to))?;
                then(to);
                Ok(())
            }
            _ => {
                let read_and_then = |(rows, to): (&[u32], &mut [f32])| {
                    match self {
                        Self::Npy(file) if dim == stride && file.read_straight(rows, to) => {}
                        _ => read(rows, to)?,
                    }
                    then(to);
                    Ok(())
                };
                map(parts.collect(), read_and_then).into_iter().collect()
            }
        }
    }
}

/// Error about reading imagined rows.
fn imagined() -> Error {
    Error::Data(
        "these rows are only imagined, to plan memory and time with: choose data to train on"
            .to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_npy_file_that_is_large_streams() {
        let large = STREAM_FROM_BYTES;
        assert!(RowSource::streams("a/X.NPY", large, large));
        assert!(!RowSource::streams("x.npy", large - 1, large));
        assert!(!RowSource::streams("x.npz", large, large));
        assert!(!RowSource::streams("npy", large, large));
        assert!(!RowSource::streams("x.npy.gz", large, large));
    }
}
