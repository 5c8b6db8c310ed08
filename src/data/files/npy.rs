//! NPY, versions 1 to 3: matrices of numbers, labels as integers or strings; a file, or a member of an NPZ.
//!
//! Everything that the header claims is checked against the length of the file before a byte is allocated for it, and
//! object arrays are refused: they are Python pickles. Format: `numpy.lib.format`.

mod write;

use std::io::Read;

use super::NamedFile;
#[cfg(not(target_arch = "wasm32"))]
use super::disk;
#[cfg(any(not(target_arch = "wasm32"), feature = "hdf5"))]
use super::foreign;
use super::named_file::damaged_data;
use crate::base::error::{Error, Result};
use crate::base::quote::{cut, quoted};
use crate::data::Texts;
use crate::data::rows::missing;
use crate::data::rows::texts::Gathered;

pub(crate) use write::NpyElement;
pub(crate) use write::array_header;
#[cfg(not(target_arch = "wasm32"))]
pub use write::triplets_header;
pub use write::{matrix_header, write_matrix};

const MAGIC: &[u8] = b"\x93NUMPY";
/// NumPy itself refuses headers above 10,000 bytes.
const MAX_HEADER_BYTES: usize = 64 << 10;

/// Elements are read through a buffer of about this size.
const BUFFER_BYTES: usize = 64 << 10;

/// Bytes from the start of a file that hold any header.
pub(crate) const MAX_START_BYTES: u64 = MAX_HEADER_BYTES as u64 + 12;

/// A matrix of numbers, row-major.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Matrix {
    pub(crate) columns: usize,
    pub(crate) values: Vec<f32>,
}

/// Type of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Float,
    /// bfloat16: the upper half of a 32-bit float.
    Brain,
    Signed,
    Unsigned,
    /// UTF-32.
    Text,
    /// Latin-1, in practice ASCII.
    Bytes,
}

/// Header of a file: type, shape and place of the elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    kind: Kind,
    big_endian: bool,
    item_bytes: usize,
    fortran_order: bool,
    shape: Vec<u64>,
    /// Byte at which the elements begin.
    data: usize,
}

/// Reads a matrix `[rows, columns]`, or `[rows]` as one column, of floats or integers.
///
/// # Errors
/// [`Error::Data`] for anything else, and for a file that is longer or shorter than its header says.
pub(crate) fn read_matrix(file: &NamedFile) -> Result<Matrix> {
    let header = read_header(&file.name, &file.bytes, file.bytes.len() as u64)?;
    header.read_matrix(&file.name, &file.bytes[header.data..])
}

/// Reads one label a row, as text: integers, strings or booleans. `check` gets their number before they are read.
///
/// # Errors
/// As [`read_matrix`]; floats are no labels.
pub(crate) fn read_labels(
    file: &NamedFile,
    check: impl FnOnce(usize) -> Result<()>,
) -> Result<Texts> {
    let header = read_header(&file.name, &file.bytes, file.bytes.len() as u64)?;
    check(header.label_count(&file.name)?)?;
    header.read_labels(&file.name, &file.bytes[header.data..])
}

/// Header text of a file that begins with `start`, and the byte at which the elements begin.
fn header_text<'a>(name: &str, start: &'a [u8]) -> Result<(&'a str, usize)> {
    let refuse = |problem: &str| Error::Data(format!("{name}: {problem}"));
    if start.is_empty() {
        return Err(refuse("the file is empty"));
    }
    let rest = start.strip_prefix(MAGIC).ok_or_else(|| {
        // Not in the page's own core, which opens only arrays that stay on the disk.
        #[cfg(any(not(target_arch = "wasm32"), feature = "hdf5"))]
        if let Some(error) = foreign::refusal(name, start) {
            return error;
        }
        refuse("not an NPY file, which `np.save(path, x)` writes")
    })?;
    let (size_bytes, rest) = match rest {
        [1, _, rest @ ..] => (2, rest),
        [2 | 3, _, rest @ ..] => (4, rest),
        [version, ..] => return Err(refuse(&format!("NPY version {version} is not read"))),
        [] => return Err(refuse("the file is cut short")),
    };
    let cut_short = || refuse("the file is cut short in its header");
    let (size, rest) = rest.split_at_checked(size_bytes).ok_or_else(cut_short)?;
    let size = size
        .iter()
        .rev()
        .fold(0, |size, byte| size << 8 | usize::from(*byte));
    if size > MAX_HEADER_BYTES {
        return Err(refuse(&format!(
            "a header of {size} bytes: not an NPY file that NumPy wrote"
        )));
    }
    let text = rest.get(..size).ok_or_else(cut_short)?;
    let text = std::str::from_utf8(text).map_err(|_| refuse("the header is not text"))?;
    Ok((text, MAGIC.len() + 2 + size_bytes + size))
}

/// Reads only the shape, of an array of any type.
pub(crate) fn read_shape(name: &str, start: &[u8]) -> Result<Vec<u64>> {
    let shape = parse_shape(header_text(name, start)?.0);
    shape.map_err(|problem| Error::Data(format!("{name}: {problem}")))
}

/// Reads the header of a file of `length` bytes, of which `start` holds the first [`MAX_START_BYTES`] at least.
pub(crate) fn read_header(name: &str, start: &[u8], length: u64) -> Result<Header> {
    let refuse = |problem: &str| Error::Data(format!("{name}: {problem}"));
    let (text, data) = header_text(name, start)?;
    let header = parse(text, data).map_err(|problem| refuse(&problem))?;
    let bytes = header
        .shape
        .iter()
        .try_fold(header.item_bytes as u64, |bytes, side| {
            bytes.checked_mul(*side)
        })
        .filter(|bytes| bytes.checked_add(data as u64).is_some());
    let shape = shape_text(&header.shape);
    match bytes {
        Some(bytes) if bytes + data as u64 == length => Ok(header),
        Some(bytes) => Err(refuse(&format!(
            "the shape {shape} needs {bytes} bytes of data, the file has {}: it is cut short or damaged",
            length.saturating_sub(data as u64)
        ))),
        None => Err(refuse(&format!(
            "the shape {shape} is larger than any file: the header is damaged"
        ))),
    }
}

/// Reads the header of an NPY file of so many bytes; the elements come next.
///
/// # Errors
/// As [`read_header`], and when the file cannot be read.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn open_header(name: &str, file: &mut std::fs::File, bytes: u64) -> Result<Header> {
    use std::io::Seek as _;

    let failed = |error| disk::unreadable(name, &error);
    let mut start = Vec::new();
    file.take(MAX_START_BYTES)
        .read_to_end(&mut start)
        .map_err(failed)?;
    let header = read_header(name, &start, bytes)?;
    let place = std::io::SeekFrom::Start(header.data() as u64);
    file.seek(place).map_err(failed)?;
    Ok(header)
}

fn damaged() -> String {
    "the header is damaged".to_owned()
}

/// The text after a key of the header's Python dictionary.
fn after<'a>(text: &'a str, key: &str) -> Result<&'a str, String> {
    let quoted = [format!("'{key}'"), format!("\"{key}\"")];
    let found = quoted.iter().find_map(|key| text.split_once(key.as_str()));
    let rest = found.and_then(|(_, rest)| rest.trim_start().strip_prefix(':'));
    rest.map(str::trim_start)
        .ok_or_else(|| format!("the header has no '{key}'"))
}

/// Parses the header's Python dictionary: three known keys, values without nesting.
fn parse(text: &str, data: usize) -> Result<Header, String> {
    let descr = after(text, "descr")?;
    if descr.starts_with('[') {
        return Err("a structured array: save the features as one plain array".to_owned());
    }
    let quote = descr
        .chars()
        .next()
        .filter(|c| "'\"".contains(*c))
        .ok_or_else(damaged)?;
    let descr = descr[1..].split(quote).next().ok_or_else(damaged)?;
    let fortran_order = match after(text, "fortran_order")? {
        value if value.starts_with("True") => true,
        value if value.starts_with("False") => false,
        _ => return Err(damaged()),
    };
    let shape = parse_shape(text)?;
    let (kind, big_endian, item_bytes) = element(descr)?;
    Ok(Header {
        kind,
        big_endian,
        item_bytes,
        fortran_order,
        shape,
        data,
    })
}

/// Type, byte order (true for big-endian) and size of the elements that `descr` names.
fn element(descr: &str) -> Result<(Kind, bool, usize), String> {
    let (order, letter, size) = match descr.as_bytes() {
        [order @ (b'<' | b'>' | b'|' | b'='), letter, size @ ..] => (*order, *letter, size),
        _ => return Err(format!("elements of type '{}' are not read", cut(descr))),
    };
    if letter == b'O' {
        return Err(
            "an array of Python objects (a pickle), which is never loaded: save it as numbers or text, \
             `np.save(path, y.astype(str))`"
                .to_owned(),
        );
    }
    if let b'M' | b'm' = letter {
        let what = match letter {
            b'M' => "dates (datetime64)",
            _ => "durations (timedelta64)",
        };
        return Err(format!(
            "{what}, which are not read: as labels save them as text, `np.save(path, y.astype(str))`; as features as numbers, \
             `np.save(path, x.astype(\"int64\").astype(\"float32\"))`"
        ));
    }
    let size: usize = std::str::from_utf8(size)
        .ok()
        .and_then(|size| size.parse().ok())
        .ok_or_else(damaged)?;
    let (kind, item_bytes) = match (letter, size) {
        (b'f', 2 | 4 | 8) => (Kind::Float, size),
        (b'i', 1 | 2 | 4 | 8) => (Kind::Signed, size),
        (b'u', 1 | 2 | 4 | 8) | (b'b', 1) => (Kind::Unsigned, size),
        (b'U', 1..=4096) => (Kind::Text, 4 * size),
        (b'S', 1..=4096) => (Kind::Bytes, size),
        _ => {
            return Err(format!(
                "elements of type '{}' are not read: save them as float32",
                cut(descr)
            ));
        }
    };
    Ok((kind, order == b'>', item_bytes))
}

fn parse_shape(text: &str) -> Result<Vec<u64>, String> {
    let shape = after(text, "shape")?
        .strip_prefix('(')
        .and_then(|rest| rest.split_once(')'))
        .ok_or_else(damaged)?
        .0;
    let sides = shape
        .split(',')
        .map(str::trim)
        .filter(|side| !side.is_empty());
    let shape = sides.map(|side| {
        side.trim_end_matches('L')
            .parse::<u64>()
            .map_err(|_| damaged())
    });
    let shape: Vec<u64> = shape.collect::<Result<_, _>>()?;
    if shape.len() > 32 {
        return Err(damaged());
    }
    Ok(shape)
}

impl Header {
    /// Header of little-endian elements without a file header, row-major.
    pub(super) fn plain(kind: Kind, item_bytes: usize, shape: &[u64]) -> Self {
        Self {
            kind,
            big_endian: false,
            item_bytes,
            fortran_order: false,
            shape: shape.to_vec(),
            data: 0,
        }
    }

    /// Sets the byte order of the elements.
    #[cfg(feature = "hdf5")]
    pub(super) fn ordered(self, big_endian: bool) -> Self {
        Self { big_endian, ..self }
    }

    /// Rows and columns of a matrix of numbers.
    pub(crate) fn matrix_shape(&self, name: &str) -> Result<(usize, usize)> {
        if !self.is_number() {
            return Err(Error::Data(format!(
                "{name}: text, expected numbers as features"
            )));
        }
        match self.shape[..] {
            [0] | [0, _] | [_, 0] => Err(Error::Data(format!(
                "{name}: the shape is {}: there is nothing in it",
                shape_text(&self.shape)
            ))),
            [rows] | [rows, _] if rows > u64::from(u32::MAX) => Err(Error::Data(format!(
                "{name}: {rows} rows, and 4294967295 are the most: save them as several files"
            ))),
            [rows] => Ok((self.side(name, rows)?, 1)),
            [rows, columns] => Ok((self.side(name, rows)?, self.side(name, columns)?)),
            _ => Err(Error::Data(format!(
                "{name}: the shape is {}, expected (rows, features): `x.reshape(len(x), -1)` makes it so",
                shape_text(&self.shape)
            ))),
        }
    }

    /// A side of the shape as an index: a member of an NPZ may claim more than 32 bits can.
    fn side(&self, name: &str, side: u64) -> Result<usize> {
        usize::try_from(side).map_err(|_| self.too_large(name))
    }

    fn too_large(&self, name: &str) -> Error {
        Error::Data(format!(
            "{name}: the shape {} is more than fits the memory here",
            shape_text(&self.shape)
        ))
    }

    /// Byte at which the elements begin.
    pub(crate) fn data(&self) -> usize {
        self.data
    }

    /// Tells if the elements can name a class: integers, booleans or text.
    pub(crate) fn is_label(&self) -> bool {
        !matches!(self.kind, Kind::Float | Kind::Brain)
    }

    /// Tells if the elements are numbers.
    pub(crate) fn is_number(&self) -> bool {
        !matches!(self.kind, Kind::Text | Kind::Bytes)
    }

    /// Reads the elements of a matrix, from the first on, from `items`.
    ///
    /// # Errors
    /// [`Error::Data`] for any other array, and when the elements are damaged, fewer or more.
    pub(crate) fn read_matrix(&self, name: &str, items: impl Read) -> Result<Matrix> {
        let (rows, columns) = self.matrix_shape(name)?;
        let mut values = Vec::new();
        let count = rows.checked_mul(columns);
        count
            .and_then(|count| values.try_reserve_exact(count).ok())
            .ok_or_else(|| self.too_large(name))?;
        if !self.by_columns() {
            self.each_item(name, items, |item| {
                values.push(self.number(item));
                Ok(())
            })?;
            return Ok(Matrix { columns, values });
        }
        // Each element is written to its place: no second matrix is held.
        values.resize(rows * columns, 0.0);
        let mut places = (0..columns).flat_map(|column| (column..).step_by(columns).take(rows));
        self.each_item(name, items, |item| {
            if let Some(place) = places.next() {
                values[place] = self.number(item);
            }
            Ok(())
        })?;
        Ok(Matrix { columns, values })
    }

    /// Reads the elements as labels, one a row.
    ///
    /// # Errors
    /// As [`Header::read_matrix`]; floats are no labels.
    pub(crate) fn read_labels(&self, name: &str, items: impl Read) -> Result<Texts> {
        self.label_count(name)?;
        let refuse = |problem: String| Err(Error::Data(format!("{name}: {problem}")));
        let (mut labels, mut row) = (Gathered::default(), 0);
        self.each_item(name, items, |item| {
            row += 1;
            let label = match self.is_label() {
                true => self.text(name, item)?,
                false => match self.double(item) {
                    value if value.is_nan() => {
                        return refuse(format!(
                            "row {row}: the label is NaN, a missing value: {}",
                            missing::advice_on_missing("", false)
                        ));
                    }
                    value if value.fract() == 0.0 => value.to_string(),
                    value => return Err(no_fractions(name, row, value)),
                },
            };
            refuse_missing(name, row, &label, false)?;
            labels.push(&label);
            Ok(())
        })?;
        Ok(labels.finish())
    }

    /// Number of labels, one a row.
    ///
    /// # Errors
    /// [`Error::Data`] for an array of another shape.
    pub(crate) fn label_count(&self, name: &str) -> Result<usize> {
        match self.shape[..] {
            [rows] | [rows, 1] | [1, rows] => self.side(name, rows),
            _ => Err(Error::Data(format!(
                "{name}: labels have the shape {}, expected one a row",
                shape_text(&self.shape)
            ))),
        }
    }

    /// Passes every element to `take`, in the order of the file.
    pub(super) fn each_item(
        &self,
        name: &str,
        mut items: impl Read,
        mut take: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let damaged = |error| damaged_data(name, &error);
        let mut buffer = vec![0; (BUFFER_BYTES / self.item_bytes).max(1) * self.item_bytes];
        let mut left = self.shape.iter().product::<u64>() * self.item_bytes as u64;
        while left > 0 {
            let bytes = left.min(buffer.len() as u64) as usize;
            let part = &mut buffer[..bytes];
            items.read_exact(part).map_err(damaged)?;
            part.chunks_exact(self.item_bytes).try_for_each(&mut take)?;
            left -= bytes as u64;
        }
        // A reader that verifies its data (a checksum) does so at its end.
        match items.read(&mut [0]).map_err(damaged)? {
            0 => Ok(()),
            _ => Err(Error::Data(format!(
                "{name}: there is more data than the shape {} needs: the file is damaged",
                shape_text(&self.shape)
            ))),
        }
    }

    /// Appends elements as f32.
    pub(crate) fn numbers(&self, items: &[u8], values: &mut Vec<f32>) {
        if (self.kind, self.item_bytes, self.big_endian) == (Kind::Float, 4, false) {
            let (items, _) = items.as_chunks::<4>();
            values.extend(items.iter().map(|item| f32::from_le_bytes(*item)));
        } else {
            let items = items.chunks_exact(self.item_bytes);
            values.extend(items.map(|item| self.number(item)));
        }
    }

    /// Tells if the elements in the file are the bytes that this processor has in memory: little-endian f32.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn is_plain(&self) -> bool {
        cfg!(target_endian = "little")
            && (self.kind, self.item_bytes, self.big_endian) == (Kind::Float, 4, false)
    }

    /// An element as f32.
    pub(super) fn number(&self, item: &[u8]) -> f32 {
        let bits = self.bits(item);
        match (self.kind, self.item_bytes) {
            (Kind::Brain, _) => f32::from_bits((bits as u32) << 16),
            (Kind::Float, 2) => half::f16::from_bits(bits as u16).to_f32(),
            (Kind::Float, 4) => f32::from_bits(bits as u32),
            (Kind::Float, _) => narrow(f64::from_bits(bits)),
            (Kind::Signed, _) => self.signed(bits) as f32,
            _ => bits as f32,
        }
    }

    /// An element as f64, which holds more whole numbers than f32.
    fn double(&self, item: &[u8]) -> f64 {
        match (self.kind, self.item_bytes) {
            (Kind::Float, 8) => f64::from_bits(self.bits(item)),
            _ => f64::from(self.number(item)),
        }
    }

    pub(super) fn text(&self, name: &str, item: &[u8]) -> Result<String> {
        let text: Option<String> = match self.kind {
            Kind::Signed => Some(self.signed(self.bits(item)).to_string()),
            Kind::Text => {
                let code = |unit: &[u8]| char::from_u32(self.bits(unit) as u32);
                item.chunks_exact(4).map(code).collect()
            }
            Kind::Bytes => Some(item.iter().map(|byte| char::from(*byte)).collect()),
            _ => Some(self.bits(item).to_string()),
        };
        let text =
            text.ok_or_else(|| Error::Data(format!("{name}: a label is not Unicode text")))?;
        Ok(text.trim_end_matches('\0').to_owned())
    }

    fn bits(&self, item: &[u8]) -> u64 {
        let join = |bits: u64, byte: &u8| bits << 8 | u64::from(*byte);
        if self.big_endian {
            item.iter().fold(0, join)
        } else {
            item.iter().rev().fold(0, join)
        }
    }

    /// An element as an integer; one above the largest signed 64-bit number is negative.
    #[cfg(feature = "hdf5")]
    pub(super) fn integer(&self, item: &[u8]) -> i64 {
        match self.kind {
            Kind::Signed => self.signed(self.bits(item)),
            _ => self.bits(item).cast_signed(),
        }
    }

    fn signed(&self, bits: u64) -> i64 {
        let unused = 64 - 8 * self.item_bytes as u32;
        (bits << unused).cast_signed() >> unused
    }
}

/// Places of rows in a file that is not read whole.
impl Header {
    /// Bytes of an element.
    pub(crate) fn item_bytes(&self) -> usize {
        self.item_bytes
    }

    /// Tells if columns are contiguous instead of rows, and that makes a difference.
    pub(crate) fn by_columns(&self) -> bool {
        self.fortran_order && !matches!(self.shape[..], [_] | [_, 1])
    }
}

/// Refuses a missing label; `row` counts from 1, and `can_drop` tells if such rows can be left out while reading.
pub(super) fn refuse_missing(name: &str, row: usize, label: &str, can_drop: bool) -> Result<()> {
    if !missing::is_missing_label(label) {
        return Ok(());
    }
    let problem = match label.trim() {
        "" => "empty".to_owned(),
        _ => format!("{}, a missing value", quoted(label)),
    };
    let advice = missing::advice_on_missing(label, can_drop);
    let message = format!("{name}: row {row}: the label is {problem}: {advice}");
    Err(missing::no_label(message, can_drop))
}

fn no_fractions(name: &str, row: usize, value: f64) -> Error {
    Error::Data(format!(
        "{name}: row {row}: the label is {value}, a measurement and no class: give labels of whole numbers or of text"
    ))
}

/// An f64 as f32; one that is too large becomes the largest f32, which is then refused by its size.
fn narrow(value: f64) -> f32 {
    let narrow = value as f32;
    if narrow.is_infinite() && value.is_finite() {
        return f32::MAX.copysign(narrow);
    }
    narrow
}

/// A shape as Python writes it.
pub(crate) fn shape_text(shape: &[u64]) -> String {
    let sides: Vec<String> = shape.iter().map(u64::to_string).collect();
    match &sides[..] {
        [side] => format!("({side},)"),
        _ => format!("({})", sides.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, data: &[u8]) -> NamedFile {
        let mut bytes = [MAGIC, &[1, 0], &(header.len() as u16).to_le_bytes()].concat();
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        NamedFile {
            name: "x.npy".to_owned(),
            bytes,
        }
    }

    fn header(descr: &str, fortran: &str, shape: &str) -> String {
        format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}")
    }

    #[test]
    fn what_is_written_is_read() {
        let values = [1.0, -2.5, 3e-9, 4.0, 5.0, 6.0];
        let written = NamedFile {
            name: "x.npy".to_owned(),
            bytes: write_matrix(&values, 2),
        };
        let matrix = read_matrix(&written).expect("reads");
        assert_eq!((matrix.columns, &matrix.values[..]), (2, &values[..]));
        assert_eq!((written.bytes.len() - 24) % 64, 0);
    }

    #[test]
    fn numbers_of_every_width_and_order_are_read() {
        let read = |descr: &str, data: &[u8]| {
            read_matrix(&file(&header(descr, "False", "(1,)"), data))
                .expect("reads")
                .values[0]
        };
        assert_eq!(read("<f8", &(-1.5f64).to_le_bytes()), -1.5);
        assert_eq!(read(">f8", &(-1.5f64).to_be_bytes()), -1.5);
        assert_eq!(read("<f2", &[0x00, 0xc0]), -2.0);
        assert_eq!(read("<i2", &(-300i16).to_le_bytes()), -300.0);
        assert_eq!(read(">i8", &(-300i64).to_be_bytes()), -300.0);
        assert_eq!(read("|u1", &[200]), 200.0);
        assert_eq!(read("|b1", &[1]), 1.0);
        let fortran = file(&header("|u1", "True", "(2, 3)"), &[1, 4, 2, 5, 3, 6]);
        assert_eq!(
            read_matrix(&fortran).expect("reads").values,
            [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
        );
    }

    #[test]
    fn labels_are_integers_or_text() {
        let text: Vec<u8> = "né\0zo\0"
            .chars()
            .flat_map(|c| u32::from(c).to_le_bytes())
            .collect();
        let labels =
            read_labels(&file(&header("<U3", "False", "(2,)"), &text), |_| Ok(())).expect("reads");
        assert_eq!(labels, ["né", "zo"][..]);
        let labels = read_labels(&file(&header("|S2", "False", "(2, 1)"), b"abc\0"), |_| {
            Ok(())
        })
        .expect("reads");
        assert_eq!(labels, ["ab", "c"][..]);
        // A class is one class however it is written.
        let floats = |descr: &str, bytes: &[u8]| {
            read_labels(&file(&header(descr, "False", "(2,)"), bytes), |_| Ok(()))
        };
        let whole = [3.0f64, 16_777_217.0].map(f64::to_le_bytes).concat();
        assert_eq!(floats("<f8", &whole).expect("reads"), ["3", "16777217"][..]);
        let part = [3.0f32, 0.5].map(f32::to_le_bytes).concat();
        let refused = floats("<f4", &part).expect_err("refused").to_string();
        assert!(
            refused.contains("row 2: the label is 0.5, a measurement"),
            "{refused}"
        );
    }

    #[test]
    fn bad_files_are_refused_before_anything_is_allocated() {
        let plain = header("<f4", "False", "(2, 2)");
        let mut long_header = file(&plain, &[0; 16]);
        long_header
            .bytes
            .splice(6..10, [2, 0, 0xff, 0xff, 0xff, 0xff]);
        let mut cut = file(&plain, &[]);
        cut.bytes.truncate(20);
        for (bad, message) in [
            (
                file(&plain, &[0; 15]),
                "needs 16 bytes of data, the file has 15",
            ),
            (
                file(&plain, &[0; 17]),
                "needs 16 bytes of data, the file has 17",
            ),
            (file(&header("|O", "False", "(2,)"), &[0; 16]), "a pickle"),
            (
                file(
                    &header("<f4", "False", "(4294967296, 4294967296)"),
                    &[0; 16],
                ),
                "larger than any file",
            ),
            (
                file(&header("<f4", "False", "(4294967296,)"), &[0; 16]),
                "needs 17179869184 bytes",
            ),
            (
                file(&header("<f4", "False", "(-1,)"), &[0; 16]),
                "the header is damaged",
            ),
            (
                file(&header("<f4", "False", "(2, 2, 2)"), &[0; 32]),
                "expected (rows, features)",
            ),
            (
                file(&header("<c8", "False", "(2,)"), &[0; 16]),
                "'<c8' are not read",
            ),
            (
                file(&header("<M8[ns]", "False", "(2,)"), &[0; 16]),
                "dates (datetime64), which are not read: as labels save them as text",
            ),
            (
                file(&header("<m8[ms]", "False", "(2,)"), &[0; 16]),
                "durations (timedelta64), which are not read",
            ),
            (
                file(
                    "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }",
                    &[0; 8],
                ),
                "structured",
            ),
            (
                file("{'descr': '<f4', 'shape': (2,), }", &[0; 8]),
                "no 'fortran_order'",
            ),
            (file("", &[]), "no 'descr'"),
            (long_header, "a header of 4294967295 bytes"),
            (cut, "cut short in its header"),
            (
                NamedFile {
                    name: "x.npy".to_owned(),
                    bytes: b"PK\x03\x04".to_vec(),
                },
                "a ZIP archive",
            ),
            (
                NamedFile {
                    name: "x.npy".to_owned(),
                    bytes: b"x,label\n".to_vec(),
                },
                "not an NPY file",
            ),
            (
                file(&header("<f4", "False", "(0, 2)"), &[]),
                "the shape is (0, 2): there is nothing in it",
            ),
            (
                file(&header("<f4", "False", "(4000000000, 0)"), &[]),
                "the shape is (4000000000, 0): there is nothing in it",
            ),
            (
                NamedFile {
                    name: "x.npy".to_owned(),
                    bytes: Vec::new(),
                },
                "the file is empty",
            ),
        ] {
            let error = read_matrix(&bad).expect_err(message).to_string();
            assert!(
                error.starts_with("x.npy: ") && error.contains(message),
                "{error}"
            );
        }
    }
}
