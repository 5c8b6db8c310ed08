//! Output of `train --out`: a folder, or the ZIP archive of it.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use nearfar::{Error, HISTORY, Head, Marks, NamedFile, Result, Results, SavedArchive};
use serde::Deserialize;

use super::{files, io};

/// Name of the head's file.
pub(super) const HEAD: &str = "head.safetensors";

/// Files of a run.
pub(super) enum Saved {
    /// In a folder.
    Folder(PathBuf),
    /// In an archive.
    Archive(SavedArchive<File>),
}

impl Saved {
    /// Opens a folder or an archive; any other path is taken for a folder without files.
    ///
    /// # Errors
    /// As [`SavedArchive::open`].
    pub(super) fn open(path: &Path) -> Result<Self> {
        if !path.is_file() {
            return Ok(Self::Folder(path.to_owned()));
        }
        let name = path.display().to_string();
        let file = File::open(path).map_err(io(name.clone()))?;
        SavedArchive::open(name, file).map(Self::Archive)
    }

    /// Content of one of the files; `None` if there is no such file.
    ///
    /// # Errors
    /// [`Error::Io`] and [`Error::Data`] if it cannot be read.
    pub(super) fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let folder = match self {
            Self::Folder(folder) => folder,
            Self::Archive(archive) => return archive.read(name),
        };
        let path = folder.join(name);
        let missing =
            std::fs::metadata(&path).is_err_and(|error| error.kind() == ErrorKind::NotFound);
        if missing {
            return Ok(None);
        }
        files::read(&path).map(|file| Some(file.bytes))
    }

    /// Everything that it holds of a run.
    ///
    /// # Errors
    /// As [`Results::read`].
    pub(super) fn results(&self) -> Result<Results> {
        let name = match self {
            Self::Folder(path) => path.display().to_string(),
            Self::Archive(archive) => archive.name().to_owned(),
        };
        Results::read(&name, |name| self.read(name))
    }
}

/// Number format of a run's data, from its folder or archive; the default for a head alone.
pub(super) fn marks(model: &Path) -> Marks {
    /// The part of a history that is read.
    #[derive(Default, Deserialize)]
    struct History {
        data: Data,
    }
    #[derive(Default, Deserialize)]
    struct Data {
        #[serde(default)]
        marks: Marks,
    }
    let history = Saved::open(model).and_then(|saved| saved.read(HISTORY));
    let history = history.ok().flatten();
    let history = history.and_then(|bytes| serde_json::from_slice::<History>(&bytes).ok());
    history.unwrap_or_default().data.marks
}

/// Reads a head: a safetensors file, or the head in a run's folder or archive.
///
/// # Errors
/// [`Error::Io`] if there is none; as [`Head::from_safetensors`].
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
