//! Files on the disk: a [`NamedFile`] that is read whole, or one that is read part by part. The kind of the file is checked before it is opened, and no more is read than its length. An
//! endless file, such as a device, is refused; a pipe is read to its end, up to a bound.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::Path;

use super::NamedFile;
use super::packed::{claimed_bytes, inflate};
use crate::base::error::{Error, Result};
use crate::base::quote::plain;

/// Bytes that are read of a pipe at most: its length is not known.
const MAX_PIPE_BYTES: u64 = 256 << 20;
/// Bytes that are held at once of a file that is read part by part.
const PART_BYTES: usize = 1 << 20;

/// A file that was opened.
#[derive(Debug)]
pub(crate) enum Opened {
    /// A file on the disk, and its length.
    Disk(File, u64),
    /// A pipe from another program, or a file of unknown length.
    Pipe(File),
}

/// Opens a file that has an end: no folder, and no device.
///
/// # Errors
/// [`Error::Data`] when it is not there, may not be read, or is a folder or a device.
pub(crate) fn open(path: &Path) -> Result<Opened> {
    let name = shown(path);
    let refuse = |problem: String| Error::Data(format!("{name}: {problem}"));
    let failed = |error: std::io::Error| refuse(reason(&error));
    let about = std::fs::metadata(path).map_err(failed)?;
    if about.is_dir() {
        return Err(refuse(
            "a folder, expected a file: name one that is in it".to_owned(),
        ));
    }
    if !about.is_file() && !is_pipe(&about) {
        return Err(refuse("a device, expected a file".to_owned()));
    }
    let file = File::open(path).map_err(failed)?;
    let about = file.metadata().map_err(failed)?;
    // Files that the system generates on reading have the length 0.
    if about.is_file() && about.len() > 0 {
        return Ok(Opened::Disk(file, about.len()));
    }
    Ok(Opened::Pipe(file))
}

#[cfg(unix)]
fn is_pipe(about: &std::fs::Metadata) -> bool {
    std::os::unix::fs::FileTypeExt::is_fifo(&about.file_type())
}

#[cfg(not(unix))]
fn is_pipe(_about: &std::fs::Metadata) -> bool {
    false
}

/// A path as a message shows it.
pub(crate) fn shown(path: &Path) -> String {
    plain(path.display().to_string().chars())
}

/// The system's reason for a failure, without its number.
pub(super) fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next();
    text.unwrap_or_default().to_owned()
}

/// Error about a file that the system could not read.
pub(super) fn unreadable(name: &str, error: &std::io::Error) -> Error {
    Error::Data(format!("{name}: {}", reason(error)))
}

/// Error about a file that had another length when it was opened.
fn changed(name: &str, length: u64, came: u64) -> Error {
    Error::Io {
        what: format!("{name}: the file changed while it was read"),
        source: std::io::Error::other(format!("it had {length} bytes, and {came} came")),
    }
}

/// Passes an open file of `bytes` bytes to `take`, unpacked and part by part, each time with the approximate length of the whole.
///
/// # Errors
/// Errors of `take`; [`Error::Data`] when the file cannot be read or unpacked, [`Error::Io`] when it changes meanwhile.
pub(super) fn parts(
    name: &str,
    mut file: File,
    bytes: u64,
    mut take: impl FnMut(u64, &[u8]) -> Result<()>,
) -> Result<()> {
    if NamedFile::is_packed(name) {
        let likely = claimed_bytes(name, &mut file, bytes)?.unwrap_or(bytes);
        return inflate(name, file, bytes, |part| take(likely, part));
    }
    // One byte more than expected shows that the file grew.
    let (mut file, mut came) = (file.take(bytes + 1), 0);
    let mut part = vec![0; PART_BYTES];
    loop {
        match file.read(&mut part) {
            Ok(0) if came == bytes => return Ok(()),
            Ok(0) => return Err(changed(name, bytes, came)),
            Ok(count) => {
                came += count as u64;
                if came > bytes {
                    return Err(changed(name, bytes, came));
                }
                take(bytes, &part[..count])?;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(unreadable(name, &error)),
        }
    }
}

impl NamedFile {
    /// Reads a file whole.
    ///
    /// # Errors
    /// [`Error::Data`] when it is not there, may not be read, is a folder or a device, or a pipe that gives too much;
    /// [`Error::Io`] when it changes while it is read.
    pub fn read(path: &Path) -> Result<Self> {
        Self::whole(shown(path), open(path)?)
    }

    /// Reads an opened file to its end.
    pub(crate) fn whole(name: String, opened: Opened) -> Result<Self> {
        let (file, length) = match opened {
            Opened::Disk(file, packed) if Self::is_packed(&name) => {
                return Self::inflated(name, file, packed);
            }
            Opened::Disk(file, length) => (file, Some(length)),
            Opened::Pipe(file) => (file, None),
        };
        let refuse = |problem: &str| Error::Data(format!("{name}: {problem}"));
        let most = length.unwrap_or(MAX_PIPE_BYTES);
        let mut bytes = Vec::new();
        usize::try_from(length.unwrap_or(0))
            .ok()
            .and_then(|length| bytes.try_reserve_exact(length).ok())
            .ok_or_else(|| refuse("the file is larger than fits the memory here"))?;
        // One byte more than expected shows that the file grew.
        let read = file.take(most + 1).read_to_end(&mut bytes);
        read.map_err(|error| refuse(&reason(&error)))?;
        match length {
            Some(length) if length != bytes.len() as u64 => {
                Err(changed(&name, length, bytes.len() as u64))
            }
            None if bytes.len() as u64 > most => Err(refuse(
                "more than 256 MiB from a pipe: write it to a file and name that",
            )),
            _ => Self { name, bytes }.unpacked(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn what_has_no_end_is_refused_before_a_byte_is_read() {
        let refusal = |path: &str| {
            let error = NamedFile::read(Path::new(path)).expect_err("refused");
            assert_eq!(error.exit_code(), 2);
            error.to_string()
        };
        assert_eq!(refusal("/dev/zero"), "/dev/zero: a device, expected a file");
        assert_eq!(
            refusal("/"),
            "/: a folder, expected a file: name one that is in it"
        );
        assert_eq!(
            refusal("/a\n\x1b[31m"),
            "/a\\n\\u{1b}[31m: No such file or directory"
        );
    }
}
