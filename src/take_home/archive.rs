//! Files in one ZIP archive, uncompressed: weights and embeddings would not get smaller, and every archive of the same files has
//! the same bytes. [`SavedArchive`] reads them back.

use std::cell::RefCell;
use std::fmt::Display;
use std::io::{Cursor, Read, Seek, SeekFrom, Write as _};

use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use super::results::HEAD;
use super::{CHECKPOINT, TakenFile};
use crate::base::error::{Error, Result};
use crate::base::memory::reserve;
use crate::base::quote::said;
use crate::data::NamedFile;

/// The largest ratio of a file's size to its packed size in an archive, beyond [`SMALL_BYTES`]. Our own files are uncompressed, and
/// another program does not pack them smaller than that.
const MOST_PACKED: u64 = 20;
const SMALL_BYTES: u64 = 4 << 20;

/// The archive of these files.
///
/// # Errors
/// [`Error::Io`] if they are more than an archive can hold.
pub fn archive(files: &[TakenFile]) -> Result<Vec<u8>> {
    let mut archive = NewArchive::new();
    files.iter().try_for_each(|file| archive.add(file))?;
    archive.finish()
}

/// An archive in the making.
pub(super) struct NewArchive(ZipWriter<Cursor<Vec<u8>>>);

fn failed(error: ZipError) -> Error {
    Error::Io {
        what: "writing the ZIP archive".to_owned(),
        source: error.into(),
    }
}

impl NewArchive {
    /// An archive without files.
    pub(super) fn new() -> Self {
        Self(ZipWriter::new(Cursor::new(Vec::new())))
    }

    /// Adds a file.
    ///
    /// # Errors
    /// As [`archive()`].
    pub(super) fn add(&mut self, file: &TakenFile) -> Result<()> {
        let large = file.bytes.len() as u64 >= u64::from(u32::MAX);
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .large_file(large);
        let begun = self.0.start_file(file.path.as_str(), options);
        begun.map_err(failed)?;
        let written = self.0.write_all(&file.bytes);
        written.map_err(|source| failed(source.into()))
    }

    /// Bytes of the complete archive.
    ///
    /// # Errors
    /// As [`archive()`].
    pub(super) fn finish(self) -> Result<Vec<u8>> {
        Ok(self.0.finish().map_err(failed)?.into_inner())
    }
}

/// An open ZIP archive of a run's files.
#[derive(Debug)]
pub struct SavedArchive<R> {
    name: String,
    /// Prefix of the names of its files: nothing, or the folder that was packed.
    folder: String,
    /// Size of the archive: the packed size that a file in it claims is not trusted beyond this.
    bytes: u64,
    zip: RefCell<ZipArchive<R>>,
}

impl<R: Read + Seek> SavedArchive<R> {
    /// Opens an archive of this name.
    ///
    /// # Errors
    /// [`Error::Data`] for bytes that are no archive, or a damaged one.
    pub fn open(name: String, mut file: R) -> Result<Self> {
        let opened = file.seek(SeekFrom::End(0)).map_err(ZipError::from);
        match opened.and_then(|bytes| Ok((bytes, ZipArchive::new(file)?))) {
            Ok((bytes, zip)) => Ok(Self {
                name,
                folder: folder_in(&zip),
                bytes,
                zip: RefCell::new(zip),
            }),
            Err(error) => Err(Error::Data(format!(
                "{name}: neither a folder that `nearfar train --out` wrote nor a ZIP archive of one: {}",
                said(error)
            ))),
        }
    }

    /// Name of the archive.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Content of a file; `None` if there is no such file.
    ///
    /// # Errors
    /// [`Error::Data`] if it cannot be read or claims more than its bytes can be, [`Error::NoMemory`].
    pub fn read(&self, file: &str) -> Result<Option<Vec<u8>>> {
        let damaged =
            |why: &dyn Display| Error::Data(format!("{}: {file}: {}", self.name, said(why)));
        let mut zip = self.zip.borrow_mut();
        let mut member = match zip.by_name(&format!("{}{file}", self.folder)) {
            Ok(member) => member,
            Err(ZipError::FileNotFound) => return Ok(None),
            Err(error) => return Err(damaged(&error)),
        };
        let (packed, size) = (member.compressed_size().min(self.bytes), member.size());
        if size
            > packed
                .saturating_mul(MOST_PACKED)
                .saturating_add(SMALL_BYTES)
        {
            return Err(damaged(&format_args!(
                "it claims {size} bytes in {packed}: no file of a run gets that small"
            )));
        }
        let mut bytes = Vec::new();
        reserve(&mut bytes, size, file)?;
        let read = member.by_ref().take(size).read_to_end(&mut bytes);
        read.map_err(|error| damaged(&error))?;
        Ok(Some(bytes))
    }
}

/// Folder of an archive that holds a run, with a slash at its end; empty if the files are not in one.
fn folder_in<R: Read + Seek>(zip: &ZipArchive<R>) -> String {
    let names = zip.file_names().filter_map(Result::ok);
    let names: Vec<_> = names.collect();
    let folders = names.iter().filter_map(|name| {
        let folder = name
            .strip_suffix(HEAD)
            .or_else(|| name.strip_suffix(CHECKPOINT))?;
        (folder.is_empty() || folder.ends_with('/')).then_some(folder)
    });
    let outermost = folders.min_by_key(|folder| folder.len());
    outermost.unwrap_or_default().to_owned()
}

/// Checkpoint of a saved run: the file itself, or the one in it if the file is an archive.
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
