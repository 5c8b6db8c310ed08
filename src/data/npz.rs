//! NPZ: named NPY arrays in a ZIP archive, stored or deflated, as `np.savez` writes them.
//!
//! No memory is allocated by the claim of a header alone: the size of an array must be the size that the archive states for its
//! member, no more than deflate can make of the member's bytes, and the size that it then inflates to.

mod writer;

use std::io::{Cursor, Error as IoError, Read as _};

use zip::result::ZipError;
use zip::{CompressionMethod, ZipArchive};

use super::NamedFile;
use super::arrays::{Array, Held, full_name};
use super::format::{MAX_FREE_BYTES, MAX_RATIO};
use super::npy::{self, Header};
use crate::base::error::{Error, Result};
use crate::base::ledger::Bytes;

pub(crate) use writer::NpyElement;
pub use writer::NpzWriter;

/// Bytes that deflate makes of a byte at most.
const MAX_DEFLATE_RATIO: u64 = 1032;
/// Bytes of an array's start that hold nearly every header.
const SHORT_START_BYTES: u64 = 512;
/// The archive with the arrays.
#[derive(Debug)]
pub(super) struct Archive<'a> {
    name: &'a str,
    zip: ZipArchive<Cursor<&'a [u8]>>,
}

/// Reads the archive's directory, and the header of each array.
///
/// # Errors
/// [`Error::Data`] for a file that is no ZIP archive, is cut short, encrypted or damaged, or names an array twice.
pub(super) fn open(file: &NamedFile) -> Result<(Held<'_>, Vec<Array>)> {
    let name = file.name.as_str();
    let refuse = |problem: &str| Err(Error::Data(format!("{name}: {problem}")));
    let zip = ZipArchive::new(Cursor::new(&file.bytes[..]));
    let zip = zip.map_err(|error| not_opened(file, &error))?;
    if zip.has_duplicate_names() {
        return refuse("two members have the same name: save each array under its own");
    }
    let (mut archive, mut arrays) = (Archive { name, zip }, Vec::new());
    for member in 0..archive.zip.len() {
        arrays.extend(archive.array(member, file.bytes.len() as u64)?);
    }
    if arrays.is_empty() {
        return refuse(
            "a ZIP archive without NPY members: `np.savez(path, X=x, y=y)` writes one that has them",
        );
    }
    Ok((Held::Npz(archive), arrays))
}

impl Archive<'_> {
    /// Reads a member's header; other members than NPY files are passed over.
    fn array(&mut self, member: usize, file_bytes: u64) -> Result<Option<Array>> {
        let entry = self.zip.by_index_data(member);
        let entry = entry.map_err(|error| npy::damaged_data(self.name, &io_error(error)))?;
        let member_name = entry
            .name()
            .map_err(|error| npy::damaged_data(self.name, &io_error(error)))?;
        let Some(name) = member_name.strip_suffix(".npy").map(str::to_owned) else {
            return Ok(None);
        };
        let full = full_name(self.name, &name);
        let refuse = |problem: &str| Err(Error::Data(format!("{full}: {problem}")));
        let (bytes, packed) = (entry.size(), entry.compressed_size());
        if entry.encrypted() {
            return refuse("encrypted: save the file without a password");
        }
        let possible = match entry.compression() {
            CompressionMethod::Stored => packed == bytes,
            CompressionMethod::Deflated => bytes / MAX_DEFLATE_RATIO <= packed,
            _ => {
                return refuse(
                    "compressed in a way that is not read: `np.savez` or `np.savez_compressed` writes what is",
                );
            }
        };
        if !possible || packed > file_bytes {
            return refuse(&format!(
                "{packed} bytes in the archive are said to be {bytes}: the file is damaged"
            ));
        }
        let mut start = Vec::new();
        let entry = self.zip.by_index(member);
        let mut entry = entry.map_err(|error| npy::damaged_data(&full, &io_error(error)))?;
        // Most headers are short, and an archive may have many.
        for most in [SHORT_START_BYTES, npy::MAX_START_BYTES] {
            let left = most - start.len() as u64;
            entry
                .by_ref()
                .take(left)
                .read_to_end(&mut start)
                .map_err(|error| npy::damaged_data(&full, &error))?;
            if npy::read_shape(&full, &start).is_ok() {
                break;
            }
        }
        let header = npy::read_header(&full, &start, bytes);
        Ok(Some(Array {
            name,
            place: member,
            shape: npy::read_shape(&full, &start)?,
            packed,
            bytes,
            header: header.map_err(|error| error.to_string()),
        }))
    }

    /// Inflates an array as it is read.
    pub(super) fn read<T>(
        &mut self,
        full: &str,
        array: &Array,
        header: &Header,
        read: impl FnOnce(&mut dyn std::io::Read) -> Result<T>,
    ) -> Result<T> {
        // The larger of its bytes and of the floats that they become.
        let held = array.bytes.max(4 * array.shape.iter().product::<u64>());
        if held > MAX_FREE_BYTES && held / MAX_RATIO > array.packed {
            return Err(Error::Data(format!(
                "{full}: {} in the archive would inflate to {}, as no measured data does: if it is meant, save it \
                 uncompressed, with `np.savez`",
                Bytes(array.packed),
                Bytes(held)
            )));
        }
        let items = self.zip.by_index(array.place);
        let mut items = items.map_err(|error| npy::damaged_data(full, &io_error(error)))?;
        std::io::copy(
            &mut items.by_ref().take(header.data() as u64),
            &mut std::io::sink(),
        )
        .map_err(|error| npy::damaged_data(full, &error))?;
        read(&mut items)
    }
}

/// The I/O error inside an archive's error, without the crate's words around it.
fn io_error(error: ZipError) -> IoError {
    match error {
        ZipError::Io(error) => error,
        other => other.into(),
    }
}

/// Reason why a file was not opened, told from its first bytes: an archive's directory is at its end.
fn not_opened(file: &NamedFile, error: &ZipError) -> Error {
    let problem = match (&file.bytes[..], error) {
        ([], _) => "the file is empty".to_owned(),
        (_, ZipError::UnsupportedArchive(reason)) => format!("this archive is not read: {reason}"),
        ([b'P', b'K', 3 | 5, 4 | 6, ..], _) => {
            "the ZIP archive is cut short or damaged: copy or save the file again".to_owned()
        }
        _ => "not an NPZ file, the ZIP archive that `np.savez` writes".to_owned(),
    };
    Error::Data(format!("{}: {problem}", file.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::arrays::{Arrays, read_labelled};
    use crate::data::{Choice, Labelled};

    fn npy_file(descr: &str, shape: &[u64], data: &[u8]) -> Vec<u8> {
        [&npy::array_header(descr, shape), data].concat()
    }

    fn zip(members: &[(&str, &[u8])], method: CompressionMethod) -> NamedFile {
        use std::io::Write as _;

        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (name, content) in members {
            let options = zip::write::SimpleFileOptions::default().compression_method(method);
            zip.start_file(*name, options).expect("starts");
            zip.write_all(content).expect("is written");
        }
        NamedFile {
            name: "x.npz".to_owned(),
            bytes: zip.finish().expect("ends").into_inner(),
        }
    }

    fn pair(method: CompressionMethod) -> NamedFile {
        let x = npy_file("|u1", &[3, 2], &[1, 2, 3, 4, 5, 6]);
        let y = npy_file("|u1", &[3], &[7, 8, 7]);
        zip(
            &[("y.npy", &y), ("a/notes.txt", b"?"), ("a/x.npy", &x)],
            method,
        )
    }

    fn read(file: &NamedFile) -> Result<Labelled> {
        read_labelled(Arrays::open(file)?, Choice::default(), &|_| ())
    }

    #[test]
    fn stored_and_deflated_members_are_read_by_their_shapes() {
        for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
            let rows = read(&pair(method)).expect("reads");
            assert_eq!(rows.dim, 2);
            assert_eq!(rows.labels, ["7", "8", "7"][..]);
            assert_eq!(rows.values, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
            assert_eq!(Labelled::label_choices(&pair(method)), ["y"]);
        }
    }

    #[test]
    fn no_damage_goes_further_than_a_refusal() {
        for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
            let whole = pair(method);
            let rows = read(&whole).expect("reads");
            let damaged = |bytes: Vec<u8>| NamedFile {
                name: "x.npz".to_owned(),
                bytes,
            };
            for length in 0..whole.bytes.len() {
                let error = read(&damaged(whole.bytes[..length].to_vec())).expect_err("cut");
                assert!(error.to_string().starts_with("x.npz"), "{error}");
            }
            for at in 0..whole.bytes.len() {
                for change in [1, 0x80, 0xff] {
                    let mut bytes = whole.bytes.clone();
                    bytes[at] ^= change;
                    // The arrays read are those saved, whatever the names, dates and flags around them.
                    if let Ok(read) = read(&damaged(bytes)) {
                        assert_eq!(
                            (read.values, read.labels),
                            (rows.values.clone(), rows.labels.clone())
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn a_lone_column_is_a_matrix_and_beside_a_matrix_a_label() {
        let column = npy_file("|u1", &[3, 1], &[1, 2, 3]);
        let y = npy_file("|u1", &[3], &[7, 8, 7]);
        let x = npy_file("<f4", &[3, 1], &[0; 12]);
        let stored = CompressionMethod::Stored;
        let rows = read(&zip(&[("x.npy", &column), ("y.npy", &y)], stored)).expect("reads");
        assert_eq!((rows.values, rows.labels.len()), (vec![1.0, 2.0, 3.0], 3));
        let rows = read(&zip(&[("x.npy", &x), ("y.npy", &column)], stored)).expect("reads");
        assert_eq!((rows.values, &rows.labels[2]), (vec![0.0; 3], "3"));
    }

    #[test]
    fn long_lists_of_arrays_are_cut() {
        let x = npy_file("|u1", &[1, 1], &[1]);
        let names: Vec<String> = (0..20).map(|i| format!("x{i}.npy")).collect();
        let members: Vec<(&str, &[u8])> = names.iter().map(|name| (&name[..], &x[..])).collect();
        let error = read(&zip(&members, CompressionMethod::Stored)).expect_err("several");
        assert!(
            error
                .to_string()
                .contains("\"x11\" (1, 1), and 8 more: choose one"),
            "{error}"
        );
    }
}
