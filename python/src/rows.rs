//! Rows and labels of Python's arrays, read where they lie.

use half::{bf16, f16};
use nearfar::{Error, HeldRows, Result, RowSource};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Rows of a call.
#[derive(Debug, FromPyObject)]
pub(crate) enum Array {
    /// An array: address of the first value, type of a value, rows, columns, bytes from a row to the next and from a column to the next.
    /// Python keeps it alive and unchanged until the call returns.
    Here(usize, String, usize, usize, isize, isize),
    /// Rows that other processes hold: their number, columns, and a function that takes row numbers, as bytes of u32, and returns their
    /// values, as bytes of f32.
    Elsewhere(usize, usize, Py<PyAny>),
}

/// Rows that other processes hold.
#[derive(Debug)]
struct Fetched {
    rows: usize,
    dim: usize,
    fetch: Py<PyAny>,
}

impl HeldRows for Fetched {
    fn rows(&self) -> usize {
        self.rows
    }

    fn dim(&self) -> usize {
        self.dim
    }

    fn read(&self, rows: &[u32], values: &mut Vec<f32>) -> Result<()> {
        let numbers: Vec<u8> = rows.iter().flat_map(|row| row.to_ne_bytes()).collect();
        let bytes = Python::attach(|py| {
            let fetched = self.fetch.call1(py, (PyBytes::new(py, &numbers),))?;
            fetched.extract::<Vec<u8>>(py)
        });
        let bytes = bytes.map_err(|error| Error::Device(error.to_string()))?;
        let floats = bytes.chunks_exact(4);
        values.extend(
            floats.map(|float| f32::from_ne_bytes([float[0], float[1], float[2], float[3]])),
        );
        Ok(())
    }

    fn reads_at_once(&self) -> bool {
        true
    }
}

/// Type of a value.
#[derive(Clone, Copy, Debug)]
enum Kind {
    F32,
    F64,
    F16,
    Bf16,
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
}

#[derive(Clone, Copy, Debug)]
struct Borrowed {
    address: usize,
    kind: Kind,
    rows: usize,
    dim: usize,
    row_bytes: isize,
    column_bytes: isize,
}

impl Array {
    /// The rows, to read as they are needed.
    ///
    /// # Errors
    /// [`Error::Data`] for values of another type, and more rows than 32 bits number.
    pub(crate) fn source(self) -> Result<RowSource> {
        let (address, kind, rows, dim, row_bytes, column_bytes) = match self {
            Self::Here(address, kind, rows, dim, row, column) => {
                (address, kind, rows, dim, row, column)
            }
            Self::Elsewhere(rows, dim, fetch) => {
                return Ok(RowSource::Held(Box::new(Fetched { rows, dim, fetch })));
            }
        };
        let kind = match &kind[..] {
            "float32" => Kind::F32,
            "float64" => Kind::F64,
            "float16" => Kind::F16,
            "bfloat16" => Kind::Bf16,
            "int8" => Kind::I8,
            "uint8" | "bool" => Kind::U8,
            "int16" => Kind::I16,
            "uint16" => Kind::U16,
            "int32" => Kind::I32,
            "uint32" => Kind::U32,
            "int64" => Kind::I64,
            "uint64" => Kind::U64,
            other => {
                return Err(Error::Data(format!(
                    "rows of {other}: give floats or integers"
                )));
            }
        };
        Ok(RowSource::Held(Box::new(Borrowed {
            address,
            kind,
            rows,
            dim,
            row_bytes,
            column_bytes,
        })))
    }
}

impl Borrowed {
    /// Appends a row's values, each as `cast` makes of it.
    #[expect(
        unsafe_code,
        reason = "the array is Python's: its own description says where values lie"
    )]
    fn append<T: Copy>(&self, row: u32, values: &mut Vec<f32>, cast: impl Fn(T) -> f32) {
        assert!((row as usize) < self.rows, "row {row} of {}", self.rows);
        let first = self
            .address
            .wrapping_add_signed(row as isize * self.row_bytes);
        let at = |column: usize| first.wrapping_add_signed(column as isize * self.column_bytes);
        if self.column_bytes == size_of::<T>() as isize && first.is_multiple_of(align_of::<T>()) {
            // SAFETY: the row's values follow each other, aligned, within the array that Python described, and Python holds it until the
            // call returns.
            let row = unsafe { std::slice::from_raw_parts(first as *const T, self.dim) };
            return values.extend(row.iter().map(|value| cast(*value)));
        }
        // SAFETY: `row` and `column` are within the array that Python described, and Python holds it until the call returns. Values
        // need not be aligned.
        let value = |column: usize| unsafe { (at(column) as *const T).read_unaligned() };
        values.extend((0..self.dim).map(|column| cast(value(column))));
    }
}

impl HeldRows for Borrowed {
    fn rows(&self) -> usize {
        self.rows
    }

    fn dim(&self) -> usize {
        self.dim
    }

    fn read(&self, rows: &[u32], values: &mut Vec<f32>) -> Result<()> {
        for row in rows {
            let first = values.len();
            match self.kind {
                Kind::F32 => self.append(*row, values, |v: f32| v),
                Kind::F64 => self.append(*row, values, |v: f64| v as f32),
                Kind::F16 => self.append(*row, values, f16::to_f32),
                Kind::Bf16 => self.append(*row, values, bf16::to_f32),
                Kind::I8 => self.append(*row, values, |v: i8| v.into()),
                Kind::U8 => self.append(*row, values, |v: u8| v.into()),
                Kind::I16 => self.append(*row, values, |v: i16| v.into()),
                Kind::U16 => self.append(*row, values, |v: u16| v.into()),
                Kind::I32 => self.append(*row, values, |v: i32| v as f32),
                Kind::U32 => self.append(*row, values, |v: u32| v as f32),
                Kind::I64 => self.append(*row, values, |v: i64| v as f32),
                Kind::U64 => self.append(*row, values, |v: u64| v as f32),
            }
            if let Some(column) = values[first..].iter().position(|value| !value.is_finite()) {
                return Err(Error::Data(format!(
                    "row {row}, column {column}: {} is not finite in 32 bits: leave the row out, or scale the rows",
                    values[first + column]
                )));
            }
        }
        Ok(())
    }
}

/// Array of numbers of 32 bits without gaps: address and length.
#[derive(Clone, Copy, Debug, FromPyObject)]
pub(crate) struct Numbers(usize, usize);

impl Numbers {
    /// The numbers.
    #[expect(unsafe_code, reason = "the array is Python's")]
    pub(crate) fn read(self) -> Vec<u32> {
        let Self(address, count) = self;
        if count == 0 {
            return Vec::new();
        }
        // SAFETY: Python made this array of as many numbers for this call, aligned, and holds it until the call returns.
        unsafe { std::slice::from_raw_parts(address as *const u32, count) }.to_vec()
    }

    /// The numbers as names of classes.
    pub(crate) fn names(self) -> Vec<String> {
        self.read().iter().map(u32::to_string).collect()
    }
}

/// Array of numbers of 64 bits without gaps: address and length.
#[derive(Clone, Copy, Debug, FromPyObject)]
pub(crate) struct Longs(usize, usize);

impl Longs {
    /// The numbers.
    #[expect(unsafe_code, reason = "the array is Python's")]
    pub(crate) fn read(self) -> Vec<i64> {
        let Self(address, count) = self;
        if count == 0 {
            return Vec::new();
        }
        // SAFETY: Python made this array of as many numbers for this call, aligned, and holds it until the call returns.
        unsafe { std::slice::from_raw_parts(address as *const i64, count) }.to_vec()
    }
}

/// Array that a call fills: address and length in values.
#[derive(Clone, Copy, Debug, FromPyObject)]
pub(crate) struct Room(usize, usize);

impl Room {
    /// Part of an array of 32-bit values: `count` of them, from this one on.
    ///
    /// # Panics
    /// If there are not so many.
    pub(crate) fn part(self, first: usize, count: usize) -> Self {
        let Self(address, all) = self;
        assert!(first + count <= all, "{first} and {count} of {all}");
        Self(address + 4 * first, count)
    }

    /// Copies as many values as the array has.
    ///
    /// # Panics
    /// If there are more or fewer.
    #[expect(unsafe_code, reason = "the array is Python's")]
    pub(crate) fn fill<T: Copy>(self, values: &[T]) {
        let Self(address, count) = self;
        assert_eq!(count, values.len(), "as many values as there is room for");
        // SAFETY: Python made this array of as many values for this call, and holds it until the call returns.
        unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), address as *mut T, count) };
    }
}
