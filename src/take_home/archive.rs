//! Files in one ZIP archive, as they are: weights and embeddings do not get smaller, and every archive of the same files has
//! the same bytes. [`SavedArchive`] reads them back.

use std::cell::RefCell;
use std::fmt::Display;
use std::io::{Cursor, Read, Seek, Write as _};

use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use super::{CHECKPOINT, TakenFile};
use crate::dataset::NamedFile;
use crate::error::{Error, Result};
use crate::memory::reserve;
use crate::quote::said;

/// What deflate makes of a byte at most.
const MAX_DEFLATE_RATIO: u64 = 1032;

/// The archive of these files.
///
/// # Errors
/// [`Error::Io`] where they are more than an archive takes.
pub fn archive(files: &[TakenFile]) -> Result<Vec<u8>> {
    let failed = |error: ZipError| Error::Io {
        what: "writing the ZIP archive".to_owned(),
        source: error.into(),
    };
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for file in files {
        let large = file.bytes.len() as u64 >= u64::from(u32::MAX);
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .large_file(large);
        archive
            .start_file(file.path.as_str(), options)
            .map_err(failed)?;
        let written = archive.write_all(&file.bytes);
        written.map_err(|source| failed(source.into()))?;
    }
    Ok(archive.finish().map_err(failed)?.into_inner())
}

/// The ZIP archive of what a run left, open.
#[derive(Debug)]
pub struct SavedArchive<R> {
    name: String,
    zip: RefCell<ZipArchive<R>>,
}

impl<R: Read + Seek> SavedArchive<R> {
    /// Opens an archive of this name.
    ///
    /// # Errors
    /// [`Error::Data`] where it is none, or damaged.
    pub fn open(name: String, file: R) -> Result<Self> {
        match ZipArchive::new(file) {
            Ok(zip) => Ok(Self {
                name,
                zip: RefCell::new(zip),
            }),
            Err(error) => Err(Error::Data(format!(
                "{name}: neither a folder that `nearfar train --out` wrote nor a ZIP archive of one: {}",
                said(error)
            ))),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The content of a file, where it is there.
    ///
    /// # Errors
    /// [`Error::Data`] where it cannot be read or claims more than its bytes can be, [`Error::NoMemory`].
    pub fn read(&self, file: &str) -> Result<Option<Vec<u8>>> {
        let damaged =
            |why: &dyn Display| Error::Data(format!("{}: {file}: {}", self.name, said(why)));
        let mut zip = self.zip.borrow_mut();
        let mut member = match zip.by_name(file) {
            Ok(member) => member,
            Err(ZipError::FileNotFound) => return Ok(None),
            Err(error) => return Err(damaged(&error)),
        };
        let (packed, size) = (member.compressed_size(), member.size());
        if size > packed.saturating_mul(MAX_DEFLATE_RATIO) {
            return Err(damaged(&"it claims to be larger than its bytes can be"));
        }
        let mut bytes = Vec::new();
        reserve(&mut bytes, size, file)?;
        let read = member.by_ref().take(size).read_to_end(&mut bytes);
        read.map_err(|error| damaged(&error))?;
        Ok(Some(bytes))
    }
}

/// The checkpoint of a saved run: the file itself, or the one in the archive that it is.
///
/// # Errors
/// [`Error::Data`] for an archive without one, and as [`SavedArchive::open`].
pub fn saved_run(file: NamedFile) -> Result<Vec<u8>> {
    let NamedFile { name, bytes } = file;
    if !bytes.starts_with(b"PK") {
        return Ok(bytes);
    }
    let checkpoint = SavedArchive::open(name.clone(), Cursor::new(bytes))?.read(CHECKPOINT)?;
    checkpoint.ok_or_else(|| {
        Error::Data(format!(
            "{name}: there is no {CHECKPOINT} in the archive: give one that *Take home* or `nearfar export --format zip` wrote"
        ))
    })
}
