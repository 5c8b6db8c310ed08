//! Sources of an open HDF5 file: the disk, or in a browser the file that was given.

use hdf5_pure::File;
#[cfg(target_arch = "wasm32")]
use hdf5_pure::{FormatError, Source};
#[cfg(target_arch = "wasm32")]
use std::sync::PoisonError;

#[cfg(target_arch = "wasm32")]
use super::super::blob_now::BlobNow;
use super::{Hdf5File, access};
use crate::base::error::Result;

#[cfg(not(target_arch = "wasm32"))]
impl Hdf5File {
    /// Opens a file on the disk, of which only the needed parts are read; a pipe is read whole.
    ///
    /// # Errors
    /// [`crate::Error::Data`] when it is not there, is no HDF5 file, is cut short or damaged.
    pub fn open(path: &std::path::Path) -> Result<Self> {
        use super::super::NamedFile;
        use super::super::disk::{self, Opened};

        let name = disk::shown(path);
        match disk::open(path)? {
            pipe @ Opened::Pipe(_) => Self::of(NamedFile::whole(name, pipe)?),
            Opened::Disk(file, _) => Self::of_disk(name, file),
        }
    }

    /// Takes a file that is open.
    pub(crate) fn of_disk(name: String, mut file: std::fs::File) -> Result<Self> {
        use super::super::{disk, foreign};
        use std::io::{Read as _, Seek as _};

        let failed = |error| disk::unreadable(&name, &error);
        let mut start = Vec::new();
        let read = (&file).take(foreign::START_BYTES).read_to_end(&mut start);
        read.and_then(|_| file.rewind()).map_err(failed)?;
        let source = hdf5_pure::ReadSeekSource::new(file);
        Self::opened(name.clone(), foreign::refusal(&name, &start), || {
            File::from_source_with_options(source.map_err(hdf5_pure::Error::Format)?, access())
        })
    }
}

/// Bytes of a block that is fetched at once, and number of blocks that are kept: the tree is read in small pieces.
#[cfg(target_arch = "wasm32")]
const BLOCK_BYTES: u64 = 64 << 10;
#[cfg(target_arch = "wasm32")]
const BLOCKS: usize = 32;

#[cfg(target_arch = "wasm32")]
impl Hdf5File {
    /// Opens a file that a browser was given; only a worker can, as it reads a file synchronously.
    ///
    /// # Errors
    /// [`crate::Error::Data`] when it cannot be read, is no HDF5 file, is cut short or damaged.
    pub fn of_blob(name: String, blob: web_sys::Blob) -> Result<Self> {
        let source = BlobSource {
            blob: BlobNow::new(&name, blob)?,
            held: std::sync::Mutex::default(),
        };
        Self::opened(name, None, || {
            File::from_source_with_options(source, access())
        })
    }
}

/// A browser's file, and the blocks that were fetched of it.
#[cfg(target_arch = "wasm32")]
struct BlobSource {
    blob: BlobNow,
    /// Blocks by their number, the last used at the end.
    held: std::sync::Mutex<Vec<(u64, Vec<u8>)>>,
}

#[cfg(target_arch = "wasm32")]
impl BlobSource {
    fn fetch(&self, offset: u64, part: &mut [u8]) -> Result<(), FormatError> {
        let failed = || FormatError::Source("the file cannot be read any more".to_owned());
        self.blob
            .fetch(offset, part)
            .then_some(())
            .ok_or_else(failed)
    }
}

#[cfg(target_arch = "wasm32")]
impl Source for BlobSource {
    fn len(&self) -> u64 {
        self.blob.len()
    }

    fn read_at(&self, offset: u64, part: &mut [u8]) -> Result<(), FormatError> {
        let length = part.len() as u64;
        let end = offset
            .checked_add(length)
            .ok_or(FormatError::OffsetOverflow { offset, length })?;
        if end > self.len() {
            return Err(FormatError::UnexpectedEof {
                expected: end as usize,
                available: self.len() as usize,
            });
        }
        if length >= BLOCK_BYTES {
            return self.fetch(offset, part);
        }
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let mut at = offset;
        let mut part = part;
        while !part.is_empty() {
            let block = at / BLOCK_BYTES;
            let first = block * BLOCK_BYTES;
            let place = held.iter().position(|(held, _)| *held == block);
            let (block, content) = match place {
                Some(place) => held.remove(place),
                None => {
                    let mut content = vec![0; (self.len() - first).min(BLOCK_BYTES) as usize];
                    self.fetch(first, &mut content)?;
                    (block, content)
                }
            };
            let from = (at - first) as usize;
            let count = (content.len() - from).min(part.len());
            let (now, later) = part.split_at_mut(count);
            now.copy_from_slice(&content[from..from + count]);
            (part, at) = (later, at + count as u64);
            if held.len() >= BLOCKS {
                held.remove(0);
            }
            held.push((block, content));
        }
        Ok(())
    }
}
