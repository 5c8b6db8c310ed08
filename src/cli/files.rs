//! Files in and out: an input that cannot be read is refused, an output is whole or not there.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use nearfar::{Dataset, Error, Labelled, NamedFile, Result};

use super::io;

/// Reads a file whole.
pub(super) fn read(path: &Path) -> Result<NamedFile> {
    let name = path.display().to_string();
    let bytes = std::fs::read(path).map_err(|error| Error::Data(format!("{name}: {error}")))?;
    Ok(NamedFile { name, bytes })
}

/// Whether a file's name ends in a dot and this, in any case.
pub(super) fn has_ending(path: &str, ending: &str) -> bool {
    let own = Path::new(path).extension();
    own.is_some_and(|own| own.eq_ignore_ascii_case(ending))
}

/// Reads labelled rows: a file with its labels, which `labels` names as a file, as `FILE:COLUMN`, or as a column.
pub(super) fn labelled(data: &str, labels: Option<&str>) -> Result<Labelled> {
    let data = read(Path::new(data))?;
    let (file, column) = match labels {
        None => (None, None),
        Some(path) if Path::new(path).exists() => (Some(path), None),
        Some(text) => match text.rsplit_once(':') {
            Some((path, column)) => (Some(path), Some(column)),
            None if ["npy", "csv"].iter().any(|ending| has_ending(text, ending)) => {
                (Some(text), None)
            }
            None => (None, Some(text)),
        },
    };
    let file = file.map(|path| read(Path::new(path))).transpose()?;
    Labelled::read(&data, file.as_ref(), column)
}

/// Reads a data set: a sample, or a file with its labels.
pub(super) fn dataset(data: &str, labels: Option<&str>, seed: u64) -> Result<Dataset> {
    match data.strip_prefix("sample:") {
        Some(sample) => Dataset::sample(sample, seed),
        None => Dataset::new(labelled(data, labels)?),
    }
}

/// A file that takes its name only when it is complete.
pub(super) struct Output {
    path: PathBuf,
    partial: PathBuf,
    file: std::io::BufWriter<std::fs::File>,
}

impl Output {
    pub(super) fn create(path: &Path) -> Result<Self> {
        let mut partial = path.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let file =
            std::fs::File::create(&partial).map_err(io(format!("writing {}", path.display())))?;
        Ok(Self {
            path: path.to_owned(),
            partial,
            file: std::io::BufWriter::new(file),
        })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file
            .write_all(bytes)
            .map_err(io(format!("writing {}", self.path.display())))
    }

    /// Gives the file its name.
    pub(super) fn finish(mut self) -> Result<()> {
        let named = self
            .file
            .flush()
            .and_then(|()| self.file.get_ref().sync_all())
            .and_then(|()| std::fs::rename(&self.partial, &self.path));
        named.map_err(io(format!("writing {}", self.path.display())))
    }
}

impl Drop for Output {
    /// Leaves nothing half-written: after `finish` there is no partial file.
    fn drop(&mut self) {
        std::fs::remove_file(&self.partial).ok();
    }
}

/// Writes a whole file.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut output = Output::create(path)?;
    output.write(bytes)?;
    output.finish()
}
