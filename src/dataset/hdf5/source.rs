//! Where an HDF5 file is read from while it is open: from the disk, or in a browser from the file that was given.

use hdf5_pure::File;
#[cfg(target_arch = "wasm32")]
use hdf5_pure::{FormatError, Source};

use super::{Hdf5File, access};
use crate::error::{Error, Result};

#[cfg(not(target_arch = "wasm32"))]
impl Hdf5File {
    /// Opens a file on the disk, of which as little is read as is needed; what comes through a pipe is read whole.
    ///
    /// # Errors
    /// [`Error::Data`] when it is not there, is no HDF5 file, is cut short or damaged.
    pub fn open(path: &std::path::Path) -> Result<Self> {
        use super::super::named_file::{self, Opened};
        use super::super::{NamedFile, foreign};
        use std::io::{Read as _, Seek as _};

        let name = named_file::shown(path);
        let failed =
            |error: std::io::Error| Error::Data(format!("{name}: {}", named_file::reason(&error)));
        match named_file::open(path)? {
            pipe @ Opened::Pipe(_) => Self::of(NamedFile::whole(name, pipe)?),
            Opened::Disk(mut file, _) => {
                let mut start = Vec::new();
                (&file).take(512).read_to_end(&mut start).map_err(failed)?;
                file.rewind().map_err(failed)?;
                let source = hdf5_pure::ReadSeekSource::new(file);
                Self::opened(name.clone(), foreign::refusal(&name, &start), || {
                    File::from_source_with_options(
                        source.map_err(hdf5_pure::Error::Format)?,
                        access(),
                    )
                })
            }
        }
    }
}

/// Bytes that are fetched at once, and how many such blocks are kept: the tree is read in small pieces.
#[cfg(target_arch = "wasm32")]
const BLOCK_BYTES: u64 = 64 << 10;
#[cfg(target_arch = "wasm32")]
const BLOCKS: usize = 32;

#[cfg(target_arch = "wasm32")]
impl Hdf5File {
    /// Opens a file that a browser was given; only in a worker, where a file can be read without waiting.
    ///
    /// # Errors
    /// [`Error::Data`] when it cannot be read, is no HDF5 file, is cut short or damaged.
    pub fn of_blob(name: String, blob: web_sys::Blob) -> Result<Self> {
        let reader = web_sys::FileReaderSync::new();
        let reader =
            reader.map_err(|_| Error::Data(format!("{name}: a page's worker reads such files")))?;
        let source = BlobSource(send_wrapper::SendWrapper::new(Blocks {
            bytes: blob.size() as u64,
            blob,
            reader,
            held: std::cell::RefCell::default(),
        }));
        Self::opened(name, None, || {
            File::from_source_with_options(source, access())
        })
    }
}

/// A browser's file. A worker has one thread: nothing is sent from it.
#[cfg(target_arch = "wasm32")]
struct BlobSource(send_wrapper::SendWrapper<Blocks>);

#[cfg(target_arch = "wasm32")]
struct Blocks {
    blob: web_sys::Blob,
    reader: web_sys::FileReaderSync,
    bytes: u64,
    /// Blocks by their number, the last used at the end.
    held: std::cell::RefCell<Vec<(u64, Vec<u8>)>>,
}

#[cfg(target_arch = "wasm32")]
impl Blocks {
    fn fetch(&self, offset: u64, part: &mut [u8]) -> Result<(), FormatError> {
        let failed = |_| FormatError::Source("the file cannot be read any more".to_owned());
        let end = offset + part.len() as u64;
        let slice = self.blob.slice_with_f64_and_f64(offset as f64, end as f64);
        let buffer = self.reader.read_as_array_buffer(&slice.map_err(failed)?);
        let array = js_sys::Uint8Array::new(&buffer.map_err(failed)?.into());
        if array.length() as usize != part.len() {
            return Err(failed(wasm_bindgen::JsValue::NULL));
        }
        array.copy_to(part);
        Ok(())
    }
}

#[cfg(target_arch = "wasm32")]
impl Source for BlobSource {
    fn len(&self) -> u64 {
        self.0.bytes
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
            return self.0.fetch(offset, part);
        }
        let (mut at, mut held) = (offset, self.0.held.borrow_mut());
        let mut part = part;
        while !part.is_empty() {
            let block = at / BLOCK_BYTES;
            let first = block * BLOCK_BYTES;
            let place = held.iter().position(|(held, _)| *held == block);
            let (block, content) = match place {
                Some(place) => held.remove(place),
                None => {
                    let mut content = vec![0; (self.len() - first).min(BLOCK_BYTES) as usize];
                    self.0.fetch(first, &mut content)?;
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
