//! What `train --out` left: a folder, or the ZIP archive of it.

use std::cell::RefCell;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use nearfar::{Error, Head, NamedFile, Result, Results, reserve};
use zip::ZipArchive;
use zip::result::ZipError;

use super::{files, io};

/// The head's name there.
pub(super) const HEAD: &str = "head.safetensors";

/// What deflate makes of a byte at most.
const MAX_DEFLATE_RATIO: u64 = 1032;

/// The files of a run.
pub(super) enum Saved {
    /// In a folder.
    Folder(PathBuf),
    /// In an archive.
    Archive(PathBuf, RefCell<ZipArchive<File>>),
}

impl Saved {
    /// Opens a folder or an archive; what is neither is taken for a folder, which then has no files.
    ///
    /// # Errors
    /// [`Error::Data`] for an archive that is damaged.
    pub(super) fn open(path: &Path) -> Result<Self> {
        if !path.is_file() {
            return Ok(Self::Folder(path.to_owned()));
        }
        let file = File::open(path).map_err(io(path.display().to_string()))?;
        let archive = ZipArchive::new(file).map_err(|error| {
            Error::Data(format!(
                "{}: neither a folder that `nearfar train --out` wrote nor a ZIP archive of one: {error}",
                path.display()
            ))
        })?;
        Ok(Self::Archive(path.to_owned(), RefCell::new(archive)))
    }

    /// The content of one of the files, where it is there.
    ///
    /// # Errors
    /// [`Error::Io`] and [`Error::Data`] where it cannot be read.
    pub(super) fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        match self {
            Self::Folder(folder) => {
                let path = folder.join(name);
                let missing = std::fs::metadata(&path)
                    .is_err_and(|error| error.kind() == ErrorKind::NotFound);
                if missing {
                    return Ok(None);
                }
                files::read(&path).map(|file| Some(file.bytes))
            }
            Self::Archive(path, archive) => {
                let damaged = |why: &dyn std::fmt::Display| {
                    Error::Data(format!("{}: {name}: {why}", path.display()))
                };
                let mut archive = archive.borrow_mut();
                let mut member = match archive.by_name(name) {
                    Ok(member) => member,
                    Err(ZipError::FileNotFound) => return Ok(None),
                    Err(error) => return Err(damaged(&error)),
                };
                let (packed, size) = (member.compressed_size(), member.size());
                if size > packed.saturating_mul(MAX_DEFLATE_RATIO) {
                    return Err(damaged(&"it claims to be larger than its bytes can be"));
                }
                let mut bytes = Vec::new();
                reserve(&mut bytes, size, name)?;
                let read = member.by_ref().take(size).read_to_end(&mut bytes);
                read.map_err(|error| damaged(&error))?;
                Ok(Some(bytes))
            }
        }
    }

    /// Where it is.
    fn path(&self) -> &Path {
        match self {
            Self::Folder(path) | Self::Archive(path, _) => path,
        }
    }

    /// All that it holds of a run.
    ///
    /// # Errors
    /// As [`Results::read`].
    pub(super) fn results(&self) -> Result<Results> {
        let name = self.path().display().to_string();
        Results::read(&name, |name| self.read(name))
    }
}

/// Reads a head: a safetensors file, or that of a run's folder or archive.
///
/// # Errors
/// [`Error::Io`] where there is none; as [`Head::from_safetensors`].
pub(super) fn head(model: &Path) -> Result<Head> {
    if !model.is_file() {
        return Head::from_safetensors(&files::read(&model.join(HEAD))?);
    }
    let file = files::read(model)?;
    if !file.bytes.starts_with(b"PK") {
        return Head::from_safetensors(&file);
    }
    let name = format!("{}/{HEAD}", model.display());
    match Saved::open(model)?.read(HEAD)? {
        Some(bytes) => Head::from_safetensors(&NamedFile { name, bytes }),
        None => Err(Error::Data(format!(
            "{name}: there is no such file in the archive: give one that `nearfar export --format zip` or the page wrote"
        ))),
    }
}
