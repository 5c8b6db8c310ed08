//! [`Reading`] of a column of a row group, some rows at a time.

use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::Result;

use super::super::table::Cell;
use super::columns::{Column, Kind};

/// A value of a column.
#[derive(Clone, Copy, Debug)]
enum Value {
    Missing,
    Truth(bool),
    Integer(i64),
    Float(f32),
    Double(f64),
    /// A text, by its index in `texts`.
    Text(usize),
}

/// Reason why a column cannot be read further.
#[derive(Debug)]
pub(super) enum Problem {
    Reader(parquet::errors::ParquetError),
    /// The column has fewer rows than its row group.
    Ends,
    /// A text in this row is not UTF-8.
    NotText(usize),
    /// The list in this row has this many numbers, not `dim`.
    Length(usize, usize),
}

impl From<parquet::errors::ParquetError> for Problem {
    fn from(error: parquet::errors::ParquetError) -> Self {
        Self::Reader(error)
    }
}

/// Reader of a column of a row group; holds the rows read last.
pub(super) struct Reading<'a> {
    column: &'a Column,
    reader: ColumnReader,
    /// Numbers of each of its lists.
    dim: usize,
    definitions: Vec<i16>,
    repetitions: Vec<i16>,
    values: Vec<Value>,
    texts: Vec<ByteArray>,
    /// For lists: the numbers of all elements, and `[rows, dim]` of them, NaN for missing lists.
    elements: Vec<f32>,
    vectors: Vec<f32>,
}

impl<'a> Reading<'a> {
    pub(super) fn new(column: &'a Column, reader: ColumnReader, dim: usize) -> Self {
        Self {
            column,
            reader,
            dim,
            definitions: Vec::new(),
            repetitions: Vec::new(),
            values: Vec::new(),
            texts: Vec::new(),
            elements: Vec::new(),
            vectors: Vec::new(),
        }
    }

    pub(super) fn column(&self) -> &'a Column {
        self.column
    }

    /// Reads the next rows; they replace those before.
    ///
    /// # Errors
    /// An error if there are fewer rows, or they are damaged.
    pub(super) fn next(&mut self, rows: usize) -> Result<(), Problem> {
        let read = match self.column.element {
            None => self.next_values(rows)?,
            Some(_) => self.next_elements(rows)?,
        };
        if read != rows {
            return Err(Problem::Ends);
        }
        let text = self.texts.iter().position(|text| text.as_utf8().is_err());
        if let Some(text) = text {
            let is_it = |value: &Value| matches!(value, Value::Text(at) if *at == text);
            let row = self.values.iter().position(is_it);
            return Err(Problem::NotText(row.unwrap_or_default()));
        }
        match self.column.element {
            None => Ok(()),
            Some(element) => self.rows_of_lists(element),
        }
    }

    /// The cell of a row that is held.
    pub(super) fn cell(&self, row: usize) -> Cell<'_> {
        match self.values[row] {
            Value::Missing => Cell::Text(""),
            Value::Truth(true) => Cell::Text("true"),
            Value::Truth(false) => Cell::Text("false"),
            Value::Integer(number) => Cell::Integer(number),
            Value::Float(number) => Cell::Number(number),
            Value::Double(number) => Cell::Double(number),
            Value::Text(text) => Cell::Text(self.texts[text].as_utf8().unwrap_or_default()),
        }
    }

    /// A number of the list of a row that is held; NaN if it is missing.
    pub(super) fn number(&self, row: usize, at: usize) -> f32 {
        self.vectors[row * self.dim + at]
    }

    /// Length of the longest list among the next rows.
    pub(super) fn longest(&mut self, rows: usize) -> Result<usize, Problem> {
        self.next_elements(rows)?;
        let element = self.column.element.unwrap_or(0);
        let (mut longest, mut length) = (0, 0);
        for (repetition, definition) in self.repetitions.iter().zip(&self.definitions) {
            if *repetition == 0 {
                length = 0;
            }
            length += usize::from(*definition >= element);
            longest = longest.max(length);
        }
        Ok(longest)
    }

    fn next_values(&mut self, rows: usize) -> Result<usize> {
        let Self {
            definitions,
            repetitions,
            values,
            texts,
            ..
        } = self;
        values.clear();
        texts.clear();
        let levels = Levels {
            definitions,
            repetitions,
            defined: self.column.defined,
        };
        let is_unsigned = self.column.kind == Kind::Unsigned;
        let mut put = |value: Option<Value>| values.push(value.unwrap_or(Value::Missing));
        match &mut self.reader {
            ColumnReader::BoolColumnReader(reader) => {
                each(reader, rows, levels, |value| put(value.map(Value::Truth)))
            }
            ColumnReader::Int32ColumnReader(reader) => each(reader, rows, levels, |value| {
                put(value.map(|value| Value::Integer(integer(value, is_unsigned))));
            }),
            ColumnReader::Int64ColumnReader(reader) => each(reader, rows, levels, |value| {
                put(value.map(|value| match u64::try_from(value) {
                    // Larger than a signed integer: as text its digits tell it from others.
                    Err(_) if is_unsigned => {
                        texts.push((value as u64).to_string().into_bytes().into());
                        Value::Text(texts.len() - 1)
                    }
                    _ => Value::Integer(value),
                }));
            }),
            ColumnReader::FloatColumnReader(reader) => {
                each(reader, rows, levels, |value| put(value.map(Value::Float)))
            }
            ColumnReader::DoubleColumnReader(reader) => {
                each(reader, rows, levels, |value| put(value.map(Value::Double)))
            }
            ColumnReader::FixedLenByteArrayColumnReader(reader) => {
                each(reader, rows, levels, |value| {
                    put(value.map(|value| Value::Float(half(value.data()))));
                })
            }
            ColumnReader::ByteArrayColumnReader(reader) => each(reader, rows, levels, |value| {
                put(value.map(|value| {
                    texts.push(value);
                    Value::Text(texts.len() - 1)
                }));
            }),
            // Neither number nor text: no such column is read.
            ColumnReader::Int96ColumnReader(_) => Ok(0),
        }
    }

    fn next_elements(&mut self, rows: usize) -> Result<usize> {
        let Self {
            definitions,
            repetitions,
            elements,
            ..
        } = self;
        elements.clear();
        let levels = Levels {
            definitions,
            repetitions,
            defined: self.column.defined,
        };
        let is_unsigned = self.column.kind == Kind::Unsigned;
        let mut put = |value: Option<f32>| elements.push(value.unwrap_or(f32::NAN));
        match &mut self.reader {
            ColumnReader::Int32ColumnReader(reader) => each(reader, rows, levels, |value| {
                put(value.map(|value| integer(value, is_unsigned) as f32));
            }),
            ColumnReader::Int64ColumnReader(reader) => each(reader, rows, levels, |value| {
                put(value.map(|value| match is_unsigned {
                    true => value as u64 as f32,
                    false => value as f32,
                }));
            }),
            ColumnReader::FloatColumnReader(reader) => each(reader, rows, levels, put),
            ColumnReader::DoubleColumnReader(reader) => each(reader, rows, levels, |value| {
                put(value.map(|value| value as f32));
            }),
            ColumnReader::FixedLenByteArrayColumnReader(reader) => {
                each(reader, rows, levels, |value| {
                    put(value.map(|value| half(value.data())));
                })
            }
            // No numbers: no such lists are read.
            ColumnReader::BoolColumnReader(_)
            | ColumnReader::ByteArrayColumnReader(_)
            | ColumnReader::Int96ColumnReader(_) => Ok(0),
        }
    }

    /// Lays the elements out as `[rows, dim]`; a list that is missing or empty becomes `dim` missing numbers.
    fn rows_of_lists(&mut self, element: i16) -> Result<(), Problem> {
        self.vectors.clear();
        let (mut at, mut row) = (0, 0);
        while at < self.elements.len() {
            let after = self.repetitions[at + 1..].iter();
            let length = 1 + after.take_while(|repetition| **repetition != 0).count();
            if self.definitions[at] < element {
                let width = self.vectors.len() + self.dim;
                self.vectors.resize(width, f32::NAN);
            } else if length == self.dim {
                self.vectors.extend(&self.elements[at..at + length]);
            } else {
                return Err(Problem::Length(row, length));
            }
            at += length;
            row += 1;
        }
        Ok(())
    }
}

/// The levels of the next rows, and the definition level of values that are not missing.
struct Levels<'a> {
    definitions: &'a mut Vec<i16>,
    repetitions: &'a mut Vec<i16>,
    defined: i16,
}

/// Passes the values of the next rows, or of the elements of their lists, to `take`: none for a missing one. Returns the number of
/// rows.
fn each<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    rows: usize,
    levels: Levels<'_>,
    mut take: impl FnMut(Option<T::T>),
) -> Result<usize> {
    let Levels {
        definitions,
        repetitions,
        defined,
    } = levels;
    definitions.clear();
    repetitions.clear();
    let mut values = Vec::new();
    let read = reader.read_records(rows, Some(definitions), Some(repetitions), &mut values);
    let (records, ..) = read?;
    let mut values = values.into_iter();
    if defined == 0 {
        values.for_each(|value| take(Some(value)));
        return Ok(records);
    }
    for definition in definitions {
        take((*definition == defined).then(|| values.next()).flatten());
    }
    Ok(records)
}

fn integer(value: i32, is_unsigned: bool) -> i64 {
    match is_unsigned {
        true => i64::from(value as u32),
        false => i64::from(value),
    }
}

fn half(bytes: &[u8]) -> f32 {
    let bytes = bytes.first_chunk().copied().unwrap_or_default();
    half::f16::from_le_bytes(bytes).to_f32()
}
