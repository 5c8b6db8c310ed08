//! HDF5: datasets in a tree, and AnnData, the tree in which scanpy keeps single cells. Takes an open file, lists its arrays and
//! hands out their elements.
//!
//! A file is read as needed, a window of rows at a time. The size that a dataset claims is checked first: against the length of the
//! file if its elements are stored as they are, else against the compression that measured data can reach.

mod anndata;
mod read;
mod source;
mod tree;
mod windows;
#[cfg(not(target_arch = "wasm32"))]
mod written;

use hdf5_pure::{ChunkCacheConfig, File, FileAccessProperties, FormatError, MetadataCacheConfig};

use super::array::Array;
use super::guarded::guarded;
use super::{NamedFile, foreign};
use crate::base::error::{Error, Result};
use crate::base::quote::cut;

pub(super) use anndata::by_name;
pub(super) use tree::Tree;
#[cfg(not(target_arch = "wasm32"))]
pub use written::add_embeddings;

/// The largest chunk that is unpacked; h5py makes them of 1 MiB at most.
const MAX_CHUNK_BYTES: u64 = 16 << 20;
/// Bytes that a dataset may unpack to for any size of its file, and for each byte of the file if that is more.
const MAX_FREE_BYTES: u64 = 64 << 20;
const MAX_RATIO: u64 = 1024;
/// An open HDF5 file, read as needed.
#[derive(Debug)]
pub struct Hdf5File {
    name: String,
    file: File,
}

impl Hdf5File {
    /// Opens a file whose content is in memory.
    ///
    /// # Errors
    /// [`Error::Data`] when it is no HDF5 file, is cut short or damaged.
    pub fn of(file: NamedFile) -> Result<Self> {
        if file.bytes.is_empty() {
            return Err(Error::Data(format!("{}: the file is empty", file.name)));
        }
        let NamedFile { name, bytes } = file;
        let refusal = foreign::refusal(&name, &bytes);
        Self::opened(name, refusal, || {
            File::from_bytes_with_options(bytes, access())
        })
    }

    fn opened(
        name: String,
        refusal: Option<Error>,
        open: impl FnOnce() -> Result<File, hdf5_pure::Error>,
    ) -> Result<Self> {
        let file = guarded(&name, || {
            open().map_err(|error| match error {
                hdf5_pure::Error::Format(FormatError::SignatureNotFound) => {
                    refusal.unwrap_or_else(|| {
                        Error::Data(format!(
                            "{name}: not an HDF5 file, as h5py and anndata write them"
                        ))
                    })
                }
                error => Error::Data(format!("{name}: {}", damaged(&error))),
            })
        })?;
        Ok(Self { name, file })
    }

    /// Name of the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Lists the arrays.
    pub(super) fn list(&self) -> Result<(Tree, Vec<Array>)> {
        let mut tree = Tree::new(self.file.file_size());
        let arrays = guarded(&self.name, || {
            let arrays = tree.list(&self.name, &self.file.root());
            arrays.map_err(|error| Error::Data(format!("{}: {}", self.name, damaged(&error))))
        })?;
        if arrays.is_empty() {
            return Err(Error::Data(format!(
                "{}: there is no array in it",
                self.name
            )));
        }
        Ok((tree, arrays))
    }
}

/// Caches of a file: small ones.
fn access() -> FileAccessProperties {
    FileAccessProperties::new()
        .with_chunk_cache(ChunkCacheConfig::new())
        .with_metadata_cache(MetadataCacheConfig::new(1 << 20))
}

/// Message about a file that cannot be read further.
fn damaged(error: &hdf5_pure::Error) -> String {
    let why = cut(&error.to_string());
    if let hdf5_pure::Error::Format(
        FormatError::InvalidLayoutVersion(_) | FormatError::UnsupportedVersion(_),
    ) = error
    {
        return format!(
            "written in a form of HDF5 that is not read ({why}): save it again, with h5py's libver=(\"v110\", \"v110\")"
        );
    }
    format!("the file is cut short or damaged ({why}): copy or save it again")
}
