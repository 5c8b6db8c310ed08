//! A [`RowSource`] of a file: an NPY whose rows stay in it, or an array of features that is read whole.

#[cfg(not(target_arch = "wasm32"))]
use std::path::Path;

#[cfg(not(target_arch = "wasm32"))]
use super::NpyRows;
use super::RowSource;
#[cfg(not(target_arch = "wasm32"))]
use super::layout::Layout;
use crate::base::error::Result;
#[cfg(feature = "hdf5")]
use crate::data::Hdf5File;
use crate::data::files::arrays::{Arrays, read_features};
#[cfg(not(target_arch = "wasm32"))]
use crate::data::files::disk::{self, Opened};
use crate::data::files::input::Input;
#[cfg(not(target_arch = "wasm32"))]
use crate::data::files::npy;
use crate::data::rows::mended::fill_in;
use crate::data::rows::values::check_values;
use crate::data::{Choice, Labelled, NamedFile};

impl RowSource {
    /// Reads the features of a file of arrays, NPZ, safetensors or HDF5: the array of this name, or the only possible one. Also
    /// returns notes on what was taken.
    ///
    /// # Errors
    /// [`crate::Error::Data`] with the file, the array, and what to do.
    pub fn from_arrays(file: &NamedFile, array: Option<&str>) -> Result<(Self, Vec<String>)> {
        Input::from(file).arrays(|arrays| Self::of_arrays(arrays, array, &[]))
    }

    /// Reads the features of a file of arrays on the disk, with cells without a number filled in the columns `filled`.
    ///
    /// # Errors
    /// As [`RowSource::from_arrays`] and [`NamedFile::read`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open_arrays(
        path: &Path,
        array: Option<&str>,
        filled: &[(usize, f32)],
    ) -> Result<(Self, Vec<String>)> {
        Input::open(path)?.arrays(|arrays| Self::of_arrays(arrays, array, filled))
    }

    /// Reads the features of arrays that are listed, with cells without a number filled in the columns `filled`.
    pub(super) fn of_arrays(
        arrays: Arrays<'_>,
        array: Option<&str>,
        filled: &[(usize, f32)],
    ) -> Result<(Self, Vec<String>)> {
        let name = arrays.name().to_owned();
        let choice = Choice {
            features: array,
            ..Choice::default()
        };
        let (matrix, _, notes) = read_features(arrays, choice, &|_| ())?;
        let (mut values, dim) = (matrix.values, matrix.columns);
        fill_in(&mut values, dim, filled);
        check_values(&name, &values, dim, 0)?;
        Ok((Self::Memory { values, dim }, notes))
    }
}

#[cfg(feature = "hdf5")]
impl Hdf5File {
    /// Reads features alone, as [`RowSource::from_arrays`] does.
    ///
    /// # Errors
    /// As [`Hdf5File::labelled`].
    pub fn features(&self, array: Option<&str>) -> Result<(RowSource, Vec<String>)> {
        RowSource::of_arrays(Arrays::of(self)?, array, &[])
    }
}

impl Labelled {
    /// The rows and their labels, without the rest.
    pub fn into_rows(self) -> (RowSource, Vec<String>) {
        let rows = RowSource::Memory {
            values: self.values,
            dim: self.dim,
        };
        (rows, self.labels.iter().map(str::to_owned).collect())
    }
}

#[cfg(not(target_arch = "wasm32"))]
impl NpyRows {
    /// Opens a file and checks its header against its length. Rows are read as needed; but a pipe, and a file whose columns are
    /// contiguous (Fortran order), is read whole.
    ///
    /// # Errors
    /// [`crate::Error::Data`] when it cannot be opened or holds no such matrix.
    pub fn open(path: &Path) -> Result<RowSource> {
        let name = disk::shown(path);
        let (mut file, length) = match disk::open(path)? {
            Opened::Disk(file, length) => (file, length),
            pipe @ Opened::Pipe(_) => {
                let file = NamedFile::whole(name, pipe)?;
                return whole(&file.name, npy::read_matrix(&file)?);
            }
        };
        let header = npy::open_header(&name, &mut file, length)?;
        if header.by_columns() {
            return whole(&name, header.read_matrix(&name, file)?);
        }
        let layout = Layout::of(name, header)?;
        Ok(RowSource::Npy(Self::new(layout, file)))
    }
}

/// A matrix in memory, its values checked.
#[cfg(not(target_arch = "wasm32"))]
fn whole(name: &str, matrix: npy::Matrix) -> Result<RowSource> {
    let (values, dim) = (matrix.values, matrix.columns);
    check_values(name, &values, dim, 0)?;
    Ok(RowSource::Memory { values, dim })
}
