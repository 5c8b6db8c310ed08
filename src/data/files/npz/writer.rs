//! [`NpzWriter`]: writes arrays to an NPZ file as they come, so that no second copy of them is held.

use std::io::{Error as IoError, ErrorKind, Read, Result as IoResult, Seek, SeekFrom, Write};

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::io_error;
use crate::base::error::{Error, Result};
use crate::data::files::npy::{self, NpyElement};

/// An NPZ file under way: members are stored as they are, as `np.savez` does.
pub struct NpzWriter<W: Write + Seek> {
    name: String,
    zip: ZipWriter<UntilItFails<W>>,
}

impl<W: Write + Seek> NpzWriter<W> {
    /// Begins a file that messages call `name`; `out` is at its beginning, and empty.
    pub fn new(name: impl Into<String>, out: W) -> Self {
        Self {
            name: name.into(),
            zip: ZipWriter::new(UntilItFails {
                out,
                failed: false,
                position: 0,
                end: 0,
            }),
        }
    }

    /// Writes an array, row-major; its elements come in parts of any length, one after the other.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be written, or the name was given before.
    ///
    /// # Panics
    /// When the parts together are not what the shape needs.
    pub fn array<T: NpyElement>(
        &mut self,
        name: &str,
        shape: &[usize],
        parts: impl IntoIterator<Item = impl AsRef<[T]>>,
    ) -> Result<()> {
        let sides: Vec<u64> = shape.iter().map(|side| *side as u64).collect();
        let mut left = self.begin::<T>(name, &sides)?;
        for part in parts {
            let part = part.as_ref();
            assert!(
                part.len() as u64 <= left,
                "\"{name}\" is longer than {shape:?}"
            );
            left -= part.len() as u64;
            self.write(bytemuck::cast_slice(part))?;
        }
        assert!(left == 0, "\"{name}\" is shorter than {shape:?}");
        Ok(())
    }

    /// Writes an array, row-major, whose elements are the bytes that `from` gives, in this machine's byte order.
    ///
    /// # Errors
    /// As [`NpzWriter::array`], and when `from` cannot be read.
    ///
    /// # Panics
    /// When it gives more or fewer bytes than the shape needs.
    pub fn array_from<T: NpyElement>(
        &mut self,
        name: &str,
        shape: &[u64],
        mut from: impl Read,
    ) -> Result<()> {
        let bytes = self.begin::<T>(name, shape)? * size_of::<T>() as u64;
        let copied = std::io::copy(&mut from, &mut self.zip);
        let copied = copied.map_err(|error| writing(&self.name, error))?;
        assert_eq!(copied, bytes, "\"{name}\" has the length of {shape:?}");
        Ok(())
    }

    /// Begins a member; returns the number of elements to come.
    fn begin<T: NpyElement>(&mut self, name: &str, shape: &[u64]) -> Result<u64> {
        let header = npy::array_header(T::DESCR, shape);
        let count = shape.iter().product::<u64>();
        let bytes = header.len() as u64 + count * size_of::<T>() as u64;
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .large_file(bytes >= u64::from(u32::MAX));
        let started = self.zip.start_file(format!("{name}.npy"), options);
        started.map_err(|error| writing(&self.name, io_error(error)))?;
        self.write(&header)?;
        Ok(count)
    }

    /// Ends the file and gives back what it was written to.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be written.
    ///
    /// # Panics
    /// When a write failed before.
    pub fn finish(self) -> Result<W> {
        let Self { name, zip } = self;
        let ended = zip
            .finish()
            .map_err(|error| writing(&name, io_error(error)))?;
        assert!(!ended.failed, "a failed write was an error before");
        Ok(ended.out)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.zip.write_all(bytes);
        written.map_err(|error| writing(&self.name, error))
    }
}

fn writing(name: &str, source: IoError) -> Error {
    Error::Io {
        what: format!("writing {name}"),
        source,
    }
}

/// An output that fails once and then only tracks its position: an abandoned [`ZipWriter`] ends its archive when it is dropped, and
/// if it cannot, it complains on standard error in addition to the error that was returned.
struct UntilItFails<W> {
    out: W,
    failed: bool,
    position: u64,
    end: u64,
}

impl<W> UntilItFails<W> {
    fn note<T>(&mut self, done: IoResult<T>) -> IoResult<T> {
        let again = |error: &IoError| error.kind() == ErrorKind::Interrupted;
        self.failed = done.as_ref().is_err_and(|error| !again(error));
        done
    }
}

impl<W: Write> Write for UntilItFails<W> {
    fn write(&mut self, bytes: &[u8]) -> IoResult<usize> {
        let mut written = bytes.len();
        if !self.failed {
            let done = self.out.write(bytes);
            written = self.note(done)?;
        }
        self.position += written as u64;
        self.end = self.end.max(self.position);
        Ok(written)
    }

    fn flush(&mut self) -> IoResult<()> {
        if self.failed {
            return Ok(());
        }
        let done = self.out.flush();
        self.note(done)
    }
}

impl<W: Seek> Seek for UntilItFails<W> {
    fn seek(&mut self, to: SeekFrom) -> IoResult<u64> {
        self.position = if self.failed {
            match to {
                SeekFrom::Start(position) => position,
                SeekFrom::Current(by) => self.position.saturating_add_signed(by),
                SeekFrom::End(by) => self.end.saturating_add_signed(by),
            }
        } else {
            let done = self.out.seek(to);
            self.note(done)?
        };
        Ok(self.position)
    }
}
