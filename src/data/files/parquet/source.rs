//! Sources of a Parquet file's bytes: memory, the disk, or a browser's file that was given.

use bytes::Bytes;

#[cfg(target_arch = "wasm32")]
use super::super::blob_now::BlobNow;

/// A file that is read as needed.
#[derive(Debug)]
pub(super) enum Source {
    Memory(Bytes),
    #[cfg(not(target_arch = "wasm32"))]
    Disk(std::fs::File, u64),
    #[cfg(target_arch = "wasm32")]
    Blob(BlobNow),
}

impl Source {
    /// Bytes of the file.
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            #[cfg(not(target_arch = "wasm32"))]
            Self::Disk(_, bytes) => *bytes,
            #[cfg(target_arch = "wasm32")]
            Self::Blob(blob) => blob.len(),
        }
    }

    /// `count` bytes from `offset` on; none if the file does not have them or cannot be read.
    pub(super) fn read(&self, offset: u64, count: usize) -> Option<Bytes> {
        let end = offset.checked_add(count as u64)?;
        if end > self.len() {
            return None;
        }
        match self {
            Self::Memory(bytes) => Some(bytes.slice(offset as usize..end as usize)),
            #[cfg(not(target_arch = "wasm32"))]
            Self::Disk(file, _) => {
                use std::io::{Read as _, Seek as _, SeekFrom};

                let (mut file, mut part) = (file, vec![0; count]);
                file.seek(SeekFrom::Start(offset)).ok()?;
                file.read_exact(&mut part).ok()?;
                Some(part.into())
            }
            #[cfg(target_arch = "wasm32")]
            Self::Blob(blob) => {
                let mut part = vec![0; count];
                blob.fetch(offset, &mut part).then(|| part.into())
            }
        }
    }
}
