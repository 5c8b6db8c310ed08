//! NPZ: named NPY arrays in a ZIP archive, stored or deflated, as `np.savez` writes them. Takes features and labels from
//! one file; which arrays they are is told from their shapes, or chosen.
//!
//! Nothing is allocated on the word of a header alone: what an array needs must be what the archive says that its member
//! holds, no more than deflate can make of the member's bytes, and what it then inflates to.

#[cfg(not(target_arch = "wasm32"))]
mod writer;

use std::io::{Cursor, Error as IoError, Read as _};

use zip::result::ZipError;
use zip::{CompressionMethod, ZipArchive};

use super::npy::{self, Header, Matrix, shape_text};
use super::{Choice, Labelled, NamedFile, labelled};
use crate::error::{Error, Result};
use crate::ledger::Bytes;
use crate::quote::{LISTED, plain, quoted};

#[cfg(not(target_arch = "wasm32"))]
pub use writer::{NpyElement, NpzWriter};

/// What deflate makes of a byte at most.
const MAX_DEFLATE_RATIO: u64 = 1032;
/// Bytes of an array's start that hold nearly every header.
const SHORT_START_BYTES: u64 = 512;
/// What an array may inflate to whatever its bytes in the archive are.
const MAX_FREE_BYTES: u64 = 256 << 20;
/// What a byte in the archive may inflate to beyond that: deflate makes 1,032 of a zero, and rarely 100 of what was measured.
const MAX_RATIO: u64 = 256;

/// An archive whose arrays are known by name and shape, and not yet read.
#[derive(Debug)]
pub(super) struct Npz<'a> {
    name: &'a str,
    zip: ZipArchive<Cursor<&'a [u8]>>,
    arrays: Vec<Array>,
}

#[derive(Debug)]
struct Array {
    /// Without the member's `.npy`, as NumPy gives it.
    name: String,
    member: usize,
    shape: Vec<u64>,
    /// What it takes in the archive, and inflated.
    packed: u64,
    bytes: u64,
    /// What the elements are, or why they are not read.
    header: Result<Header, String>,
}

impl<'a> Npz<'a> {
    /// Reads the archive's directory, and of each array the header.
    ///
    /// # Errors
    /// [`Error::Data`] for a file that is no ZIP archive, is cut short, encrypted or damaged, or names an array twice.
    pub(super) fn open(file: &'a NamedFile) -> Result<Self> {
        let name = file.name.as_str();
        let zip = ZipArchive::new(Cursor::new(&file.bytes[..]))
            .map_err(|error| not_opened(file, &error))?;
        let mut npz = Self {
            name,
            zip,
            arrays: Vec::new(),
        };
        if npz.zip.has_duplicate_names() {
            return Err(npz.refuse("two members have the same name: save each array under its own"));
        }
        for member in 0..npz.zip.len() {
            let array = npz.array(member, file.bytes.len() as u64)?;
            npz.arrays.extend(array);
        }
        if npz.arrays.is_empty() {
            return Err(npz.refuse(
                "a ZIP archive without NPY members: `np.savez(path, X=x, y=y)` writes one that has them",
            ));
        }
        Ok(npz)
    }

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
        let full = self.full_name(&name);
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
            member,
            shape: npy::read_shape(&full, &start)?,
            packed,
            bytes,
            header: header.map_err(|error| error.to_string()),
        }))
    }

    /// The matrix that is the features: the one that was chosen or the only one there is, of `rows` where that is known.
    fn features(&self, chosen: Option<&str>, rows: Option<u64>) -> Result<usize> {
        if let Some(name) = chosen {
            return self.find(name);
        }
        let found = self.all(|array| {
            array.shape.len() == 2 && array.header.as_ref().map_or(true, Header::is_number)
        });
        let found = self.prefer(found, |array| {
            rows.is_none_or(|rows| array.shape[0] == rows)
        });
        let found = self.prefer(found, |array| !array.is_column());
        self.only(
            &found,
            "features",
            "an array of numbers for the features, (rows, features),",
        )
    }

    /// The array that holds the labels of `rows` rows: the one that was chosen, or the only one of this length.
    fn labels(&self, chosen: Option<&str>, rows: u64) -> Result<usize> {
        if let Some(name) = chosen {
            return self.find(name);
        }
        let fits = |array: &Array| array.shape[..] == [rows];
        let found = self.all(|array| fits(array) || (array.is_column() && array.shape[0] == rows));
        let found = self.prefer(found, |array| {
            array.header.as_ref().map_or(true, Header::is_label)
        });
        let found = self.prefer(found, fits);
        self.only(
            &found,
            "labels",
            &format!("an array for the labels, ({rows},),"),
        )
    }

    fn all(&self, fits: impl Fn(&Array) -> bool) -> Vec<usize> {
        let all = 0..self.arrays.len();
        all.filter(|at| fits(&self.arrays[*at])).collect()
    }

    /// Those of several that are `better`, if any is.
    fn prefer(&self, found: Vec<usize>, better: impl Fn(&Array) -> bool) -> Vec<usize> {
        let best: Vec<usize> = found
            .iter()
            .copied()
            .filter(|at| better(&self.arrays[*at]))
            .collect();
        if best.is_empty() { found } else { best }
    }

    fn only(&self, found: &[usize], role: &str, wanted: &str) -> Result<usize> {
        match found {
            [at] => Ok(*at),
            [] => {
                let all: Vec<usize> = (0..self.arrays.len()).collect();
                Err(self.refuse(&format!(
                    "{wanted} is missing: the arrays are {}",
                    self.list(&all)
                )))
            }
            [first, ..] => Err(self.refuse(&format!(
                "several arrays can be the {role}, {}: choose one after a colon, as in {}",
                self.list(found),
                self.full_name(&self.arrays[*first].name)
            ))),
        }
    }

    fn find(&self, name: &str) -> Result<usize> {
        let bare = name.strip_suffix(".npy").unwrap_or(name);
        let named = |name: &str| self.arrays.iter().position(|array| array.name == name);
        named(name).or_else(|| named(bare)).ok_or_else(|| {
            let all: Vec<usize> = (0..self.arrays.len()).collect();
            self.refuse(&format!(
                "there is no array {}: the arrays are {}",
                quoted(name),
                self.list(&all)
            ))
        })
    }

    /// Arrays with their shapes.
    fn list(&self, arrays: &[usize]) -> String {
        let mut list: Vec<String> = arrays
            .iter()
            .map(|at| &self.arrays[*at])
            .map(|array| format!("{} {}", quoted(&array.name), shape_text(&array.shape)))
            .collect();
        if list.len() > LISTED {
            let more = list.split_off(LISTED).len();
            list.push(format!("and {more} more"));
        }
        list.join(", ")
    }

    fn read_matrix(&mut self, at: usize) -> Result<Matrix> {
        self.read(at, |header, name, items| header.read_matrix(name, items))
    }

    fn read_labels(&mut self, at: usize) -> Result<Vec<String>> {
        self.read(at, |header, name, items| header.read_labels(name, items))
    }

    fn row_count(&self, at: usize) -> Result<usize> {
        let (header, full) = self.header(at)?;
        Ok(header.matrix_shape(&full)?.0)
    }

    fn label_count(&self, at: usize) -> Result<usize> {
        let (header, full) = self.header(at)?;
        header.label_count(&full)
    }

    /// What the elements of an array are, and its name as the command line takes it.
    fn header(&self, at: usize) -> Result<(&Header, String)> {
        let array = &self.arrays[at];
        let header = array.header.as_ref();
        let header = header.map_err(|problem| Error::Data(problem.clone()))?;
        Ok((header, self.full_name(&array.name)))
    }

    /// Inflates an array as it is read.
    fn read<T>(
        &mut self,
        at: usize,
        read: impl FnOnce(&Header, &str, &mut dyn std::io::Read) -> Result<T>,
    ) -> Result<T> {
        let array = &self.arrays[at];
        let full = self.full_name(&array.name);
        let header = array.header.as_ref();
        let header = header.map_err(|problem| Error::Data(problem.clone()))?;
        // As bytes, and as the floats that they become.
        let held = array.bytes.max(4 * array.shape.iter().product::<u64>());
        if held > MAX_FREE_BYTES && held / MAX_RATIO > array.packed {
            return Err(Error::Data(format!(
                "{full}: {} in the archive would inflate to {}, as no measured data does: if it is meant, save it \
                 uncompressed, with `np.savez`",
                Bytes(array.packed),
                Bytes(held)
            )));
        }
        let items = self.zip.by_index(array.member);
        let mut items = items.map_err(|error| npy::damaged_data(&full, &io_error(error)))?;
        std::io::copy(
            &mut items.by_ref().take(header.data() as u64),
            &mut std::io::sink(),
        )
        .map_err(|error| npy::damaged_data(&full, &error))?;
        read(header, &full, &mut items)
    }

    /// An array's name as the command line takes it.
    fn full_name(&self, array: &str) -> String {
        format!("{}:{}", self.name, plain(array.chars()))
    }

    fn refuse(&self, problem: &str) -> Error {
        Error::Data(format!("{}: {problem}", self.name))
    }
}

impl Array {
    /// Whether it is a column of what may be labels rather than a matrix: integers or text, `(rows, 1)`.
    fn is_column(&self) -> bool {
        matches!(self.shape[..], [_, 1]) && self.header.as_ref().is_ok_and(Header::is_label)
    }
}

/// Reads features and labels from one file.
///
/// # Errors
/// [`Error::Data`] when the file is damaged, and when it does not say by itself which arrays they are.
pub(super) fn read_labelled(file: &NamedFile, choice: Choice<'_>) -> Result<Labelled> {
    let mut npz = Npz::open(file)?;
    let labels = choice.labels.map(|name| npz.find(name)).transpose()?;
    let rows = labels.and_then(|at| npz.arrays[at].shape.first().copied());
    let features = npz.features(choice.features, rows)?;
    let rows = npz.arrays[features].shape.first().copied().unwrap_or(0);
    let labels = match labels {
        Some(labels) => labels,
        None => npz.labels(None, rows)?,
    };
    let (rows, count) = (npz.row_count(features)?, npz.label_count(labels)?);
    labelled::check_counts(&file.name, rows, &file.name, count)?;
    let matrix = npz.read_matrix(features)?;
    let label = npz.arrays[labels].name.clone();
    Ok(Labelled {
        name: file.name.clone(),
        values: matrix.values,
        dim: matrix.columns,
        labels: npz.read_labels(labels)?,
        notes: notes(&npz, &[("features", features), ("label", labels)]),
        label_column: Some(label),
        ..Labelled::default()
    })
}

/// Reads features alone, and says what was taken.
///
/// # Errors
/// As [`read_labelled`].
pub(super) fn read_features(
    file: &NamedFile,
    chosen: Option<&str>,
) -> Result<(Matrix, Vec<String>)> {
    let mut npz = Npz::open(file)?;
    let features = npz.features(chosen, None)?;
    let matrix = npz.read_matrix(features)?;
    Ok((matrix, notes(&npz, &[("features", features)])))
}

/// Reads the labels of so many rows alone, and says what was taken; `check` sees how many there are before they are read.
///
/// # Errors
/// As [`read_labelled`].
pub(super) fn read_labels(
    file: &NamedFile,
    chosen: Option<&str>,
    rows: usize,
    check: impl FnOnce(usize) -> Result<()>,
) -> Result<labelled::Labels> {
    let mut npz = Npz::open(file)?;
    let at = npz.labels(chosen, rows as u64)?;
    check(npz.label_count(at)?)?;
    Ok(labelled::Labels {
        labels: npz.read_labels(at)?,
        column: Some(npz.arrays[at].name.clone()),
        notes: notes(&npz, &[("label", at)]),
    })
}

/// The arrays that can be labels.
pub(super) fn label_arrays(file: &NamedFile) -> Vec<String> {
    let arrays = Npz::open(file).map_or_else(|_| Vec::new(), |npz| npz.arrays);
    let labels = arrays.into_iter().filter(|array| {
        let is_label = array.header.as_ref().is_ok_and(Header::is_label);
        is_label && (array.shape.len() == 1 || array.is_column())
    });
    labels.map(|array| array.name).collect()
}

/// What was taken from a file, and what was not.
fn notes(npz: &Npz<'_>, taken: &[(&str, usize)]) -> Vec<String> {
    let mut notes: Vec<String> = taken
        .iter()
        .map(|(role, at)| format!("{role} = {}", npz.list(&[*at])))
        .collect();
    let left: Vec<usize> = (0..npz.arrays.len())
        .filter(|at| taken.iter().all(|(_, taken)| taken != at))
        .collect();
    if !left.is_empty() {
        notes.push(format!("left out: {}", npz.list(&left)));
    }
    notes
}

/// The error behind an archive's, without the crate's words around it.
fn io_error(error: ZipError) -> IoError {
    match error {
        ZipError::Io(error) => error,
        other => other.into(),
    }
}

/// Why a file was not opened, told from its first bytes: an archive's directory is its end.
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
        read_labelled(file, Choice::default())
    }

    #[test]
    fn stored_and_deflated_members_are_read_by_their_shapes() {
        for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
            let rows = read(&pair(method)).expect("reads");
            assert_eq!(
                (rows.dim, &rows.labels[..]),
                (2, &["7", "8", "7"].map(str::to_owned)[..])
            );
            assert_eq!(rows.values, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
            assert_eq!(label_arrays(&pair(method)), ["y"]);
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
                    // What is read is what was saved, but for the names, dates and flags around it.
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
        assert_eq!((rows.values, &rows.labels[2][..]), (vec![0.0; 3], "3"));
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
