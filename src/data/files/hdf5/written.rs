//! Adds embeddings of its cells to an AnnData file, at the place where scanpy looks for them. The rest of the file stays as it is.

use std::path::Path;

use hdf5_pure::{AttrValue, File, StagedGroup};

use super::super::guarded::guarded;
use super::Hdf5File;
use crate::base::error::{Error, Result};
use crate::base::quote::cut;

/// Matrices of the cells.
const MATRICES: &str = "obsm";
/// The name of the embeddings among them.
const NAME: &str = "X_nearfar";

impl Hdf5File {
    /// Checks that it is AnnData of so many cells, to which embeddings can be added.
    ///
    /// # Errors
    /// [`Error::Data`] if it is no AnnData, or has another number of cells.
    pub fn check_cells(&self, rows: usize) -> Result<()> {
        let refuse = |problem: String| Err(Error::Data(format!("{}: {problem}", self.name)));
        match self.list()?.0.cells {
            None => refuse(
                "no AnnData, which has a place for embeddings: write them to an NPY".to_owned(),
            ),
            Some(cells) if cells != rows as u64 => {
                refuse(format!("{cells} cells, and {rows} rows of embeddings"))
            }
            Some(_) => Ok(()),
        }
    }
}

/// Adds embeddings, `[cells, dim]`, to an AnnData file as `obsm["X_nearfar"]`, in the place of those that were there; a message
/// names the file `name`.
///
/// # Errors
/// [`Error::Data`] if the file is in a form that cannot be written to.
pub fn add_embeddings(path: &Path, name: &str, values: &[f32], dim: usize) -> Result<()> {
    guarded(name, || {
        add(path, values, dim).map_err(|error| {
            Error::Data(format!(
                "{name}: embeddings cannot be added to it ({}): write them to an NPY, and in Python: \
                 `adata.obsm[\"{NAME}\"] = numpy.load(\"embeddings.npy\")`",
                cut(&error.to_string())
            ))
        })
    })
}

fn add(path: &Path, values: &[f32], dim: usize) -> Result<(), hdf5_pure::Error> {
    let text = |text: &str| AttrValue::VarLenString(text.to_owned());
    let file = File::open_rw(path)?;
    let root = file.root();
    let matrices = match root.group(MATRICES) {
        Ok(group) => group,
        Err(_) => root.create_group_with(MATRICES, |group: &mut StagedGroup<'_>| {
            group.set_attr("encoding-type", text("dict"));
            group.set_attr("encoding-version", text("0.1.0"));
        })?,
    };
    if matrices.dataset(NAME).is_ok() || matrices.group(NAME).is_ok() {
        matrices.delete(NAME)?;
    }
    let rows = values.len() / dim.max(1);
    matrices.create_dataset(NAME, |matrix| {
        matrix
            .with_f32_data(values)
            .with_shape(&[rows as u64, dim as u64])
            .set_attr("encoding-type", text("array"))
            .set_attr("encoding-version", text("0.2.0"));
    })?;
    file.commit()?;
    file.close()
}
