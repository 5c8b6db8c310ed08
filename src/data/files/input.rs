//! [`Input`]: a file of rows or of labels before it is read. Takes its content or its path, gives a table, arrays, or the matrix or
//! labels of an NPY. Of a file on the disk no more is held than its format needs.

use std::borrow::Cow;
#[cfg(not(target_arch = "wasm32"))]
use std::{
    fs::File,
    io::{Read as _, Seek as _},
    path::Path,
};

#[cfg(any(feature = "hdf5", feature = "parquet", not(target_arch = "wasm32")))]
use super::Format;
#[cfg(feature = "hdf5")]
use super::Hdf5File;
#[cfg(feature = "parquet")]
use super::ParquetFile;
use super::arrays::Arrays;
#[cfg(not(target_arch = "wasm32"))]
use super::disk::{self, Opened};
use super::{NamedFile, Table, TableReader, foreign, npy};
#[cfg(all(feature = "parquet", not(target_arch = "wasm32")))]
use crate::base::error::Error;
use crate::base::error::Result;
use crate::base::working::Working;
use crate::data::{Choice, Texts};

/// Bytes of a text that a reader gets at once: it copies the first of them.
const PART_BYTES: usize = 1 << 20;

/// A file that is about to be read.
#[derive(Debug)]
pub(crate) enum Input<'a> {
    /// A file with its content, unpacked.
    Whole(Cow<'a, NamedFile>),
    /// An open file on the disk, with its length; a packed one is a table.
    #[cfg(not(target_arch = "wasm32"))]
    Disk {
        name: String,
        file: File,
        bytes: u64,
    },
    /// Parquet files that are one table.
    #[cfg(all(feature = "parquet", not(target_arch = "wasm32")))]
    Shards(Box<ParquetFile>),
}

impl<'a> From<&'a NamedFile> for Input<'a> {
    fn from(file: &'a NamedFile) -> Self {
        Self::Whole(Cow::Borrowed(file))
    }
}

impl Input<'_> {
    /// Opens a file; one from a pipe, and a packed one that is no table of text, are read whole. A folder of Parquet files, and a
    /// pattern of their names such as `part-*.parquet`, are one table.
    ///
    /// # Errors
    /// As [`NamedFile::read`].
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let name = disk::shown(path);
        #[cfg(feature = "parquet")]
        if let Some((title, files)) = super::parquet::shards(path) {
            let files: Result<Vec<ParquetFile>> =
                files.iter().map(|file| ParquetFile::open(file)).collect();
            let shards = ParquetFile::of_shards(crate::base::quote::plain(title.chars()), files?);
            return Ok(Self::Shards(shards.expect("there is a file").into()));
        }
        let is_text = Format::of(&name).is_none_or(Format::is_text);
        Ok(match disk::open(path)? {
            Opened::Disk(file, bytes) if is_text || !NamedFile::is_packed(&name) => {
                Self::Disk { name, file, bytes }
            }
            opened => Self::Whole(Cow::Owned(NamedFile::whole(name, opened)?)),
        })
    }

    /// Name of the file.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Whole(file) => &file.name,
            #[cfg(not(target_arch = "wasm32"))]
            Self::Disk { name, .. } => name,
            #[cfg(all(feature = "parquet", not(target_arch = "wasm32")))]
            Self::Shards(shards) => shards.name(),
        }
    }

    /// Refuses a file of another program, with advice; packed files are not checked.
    ///
    /// # Errors
    /// [`crate::Error::Data`] for such a file, and for one that cannot be read.
    pub(super) fn check(&mut self) -> Result<()> {
        let refusal = match self {
            Self::Whole(file) => foreign::refusal(&file.name, &file.bytes),
            #[cfg(not(target_arch = "wasm32"))]
            Self::Disk { name, .. } if NamedFile::is_packed(name) => None,
            #[cfg(not(target_arch = "wasm32"))]
            Self::Disk { name, file, .. } => {
                let mut start = Vec::new();
                let read = (&*file).take(foreign::START_BYTES).read_to_end(&mut start);
                read.and_then(|_| file.rewind())
                    .map_err(|error| disk::unreadable(name, &error))?;
                foreign::refusal(name, &start)
            }
            #[cfg(all(feature = "parquet", not(target_arch = "wasm32")))]
            Self::Shards(_) => None,
        };
        refusal.map_or(Ok(()), Err)
    }

    /// Reads a table; of text one part is held at a time. `choice` says which column is the label, and which list the features;
    /// `say` hears how much of a file on the disk is done.
    ///
    /// # Errors
    /// As [`TableReader::read`].
    pub(super) fn table(self, choice: Choice<'_>, say: impl Fn(Working)) -> Result<Table> {
        #[cfg(feature = "parquet")]
        if Format::of(self.name()) == Some(Format::Parquet) {
            return self.parquet()?.table(choice, &say);
        }
        #[cfg(all(target_arch = "wasm32", not(feature = "parquet")))]
        let _ = say;
        match self {
            Self::Whole(file) => {
                let mut reader =
                    TableReader::begin(&file.name, file.bytes.len() as u64, choice, &file.bytes)?;
                let mut parts = file.bytes.chunks(PART_BYTES);
                parts.try_for_each(|part| reader.push(part))?;
                reader.finish()
            }
            #[cfg(not(target_arch = "wasm32"))]
            Self::Disk { name, file, bytes } => {
                let (mut reader, mut done) = (None, 0);
                disk::parts(&name, file, bytes, |total, part| {
                    done += part.len() as u64;
                    say(Working {
                        what: format!("reading {name}"),
                        unit: "MiB".to_owned(),
                        done: done.min(total) >> 20,
                        total: total.div_ceil(1 << 20),
                    });
                    let mut reading = match reader.take() {
                        Some(reading) => reading,
                        None => TableReader::begin(&name, total, choice, part)?,
                    };
                    reading.push(part)?;
                    reader = Some(reading);
                    Ok(())
                })?;
                match reader {
                    Some(reader) => reader.finish(),
                    None => TableReader::begin(&name, 0, choice, &[])?.finish(),
                }
            }
            #[cfg(all(feature = "parquet", not(target_arch = "wasm32")))]
            Self::Shards(shards) => shards.table(choice, &say),
        }
    }

    /// Opens a file of Parquet.
    #[cfg(feature = "parquet")]
    pub(super) fn parquet(self) -> Result<ParquetFile> {
        match self {
            Self::Whole(file) => ParquetFile::of(file.into_owned()),
            #[cfg(not(target_arch = "wasm32"))]
            Self::Disk { name, file, bytes } => ParquetFile::of_disk(name, file, bytes),
            #[cfg(not(target_arch = "wasm32"))]
            Self::Shards(shards) => Ok(*shards),
        }
    }

    /// Lists the arrays of a file, and gives them to `read`.
    ///
    /// # Errors
    /// As [`Arrays::open`], and the errors of `read`.
    pub(crate) fn arrays<T>(self, read: impl FnOnce(Arrays<'_>) -> Result<T>) -> Result<T> {
        #[cfg(feature = "hdf5")]
        if Format::of(self.name()) == Some(Format::Hdf5) {
            let file = match self {
                Self::Whole(file) => Hdf5File::of(file.into_owned())?,
                #[cfg(not(target_arch = "wasm32"))]
                Self::Disk { name, file, .. } => Hdf5File::of_disk(name, file)?,
                #[cfg(all(feature = "parquet", not(target_arch = "wasm32")))]
                Self::Shards(shards) => return Err(no_arrays(&shards)),
            };
            return read(Arrays::of(&file)?);
        }
        let file = match self {
            Self::Whole(file) => file,
            #[cfg(not(target_arch = "wasm32"))]
            Self::Disk { name, file, bytes } => {
                Cow::Owned(NamedFile::whole(name, Opened::Disk(file, bytes))?)
            }
            #[cfg(all(feature = "parquet", not(target_arch = "wasm32")))]
            Self::Shards(shards) => return Err(no_arrays(&shards)),
        };
        read(Arrays::open(&file)?)
    }

    /// Reads the matrix of an NPY file.
    ///
    /// # Errors
    /// As [`npy::read_matrix`].
    pub(super) fn matrix(self) -> Result<npy::Matrix> {
        match self {
            Self::Whole(file) => npy::read_matrix(&file),
            #[cfg(not(target_arch = "wasm32"))]
            Self::Disk {
                name,
                mut file,
                bytes,
            } => npy::open_header(&name, &mut file, bytes)?.read_matrix(&name, file),
            #[cfg(all(feature = "parquet", not(target_arch = "wasm32")))]
            Self::Shards(shards) => Err(no_arrays(&shards)),
        }
    }

    /// Reads the labels of an NPY file; `check` sees how many there are before they are read.
    ///
    /// # Errors
    /// As [`npy::read_labels`].
    pub(super) fn labels(self, check: impl FnOnce(usize) -> Result<()>) -> Result<Texts> {
        match self {
            Self::Whole(file) => npy::read_labels(&file, check),
            #[cfg(not(target_arch = "wasm32"))]
            Self::Disk {
                name,
                mut file,
                bytes,
            } => {
                let header = npy::open_header(&name, &mut file, bytes)?;
                check(header.label_count(&name)?)?;
                header.read_labels(&name, file)
            }
            #[cfg(all(feature = "parquet", not(target_arch = "wasm32")))]
            Self::Shards(shards) => Err(no_arrays(&shards)),
        }
    }
}

impl TableReader {
    /// Reads a file whose content is in memory.
    ///
    /// # Errors
    /// As [`TableReader::new`], [`TableReader::push`] and [`TableReader::finish`].
    pub fn read(file: &NamedFile, choice: Choice<'_>) -> Result<Table> {
        Input::from(file).table(choice, |_| ())
    }

    /// Reads a file on the disk; of text, packed or not, one part is held at a time, and `say` hears how much is done.
    ///
    /// # Errors
    /// As [`TableReader::read`] and [`NamedFile::read`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open(
        path: &std::path::Path,
        choice: Choice<'_>,
        say: impl Fn(Working),
    ) -> Result<Table> {
        Input::open(path)?.table(choice, say)
    }
}

/// Refusal of Parquet files if arrays are asked for.
#[cfg(all(feature = "parquet", not(target_arch = "wasm32")))]
fn no_arrays(shards: &ParquetFile) -> Error {
    Error::Data(format!("{}: a table, expected arrays", shards.name()))
}
