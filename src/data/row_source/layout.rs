//! [`Layout`] of an NPY file that is not read whole: places of its rows, and the treatment of their cells.

use std::borrow::Cow;
use std::ops::Range;

use crate::base::error::{Error, Result};
use crate::data::files::npy;
use crate::data::rows::mended::fill_in;
use crate::data::rows::values::{check_cells, check_values};

/// Places of the rows in an NPY file. For any reader of the bytes, the header and the values are checked here.
#[derive(Debug)]
pub(super) struct Layout {
    name: String,
    header: npy::Header,
    rows: usize,
    dim: usize,
    pub(super) cells: Cells,
}

impl Layout {
    /// Reads the header of a file of `length` bytes that begins with `start`, [`npy::MAX_START_BYTES`] of it or all.
    ///
    /// # Errors
    /// [`Error::Data`] when it holds no matrix of numbers, rows contiguous.
    #[cfg(target_arch = "wasm32")]
    pub(super) fn new(name: String, start: &[u8], length: u64) -> Result<Self> {
        let header = npy::read_header(&name, start, length)?;
        Self::of(name, header)
    }

    pub(super) fn of(name: String, header: npy::Header) -> Result<Self> {
        let (rows, dim) = header.matrix_shape(&name)?;
        if header.by_columns() {
            return Err(Error::Data(format!(
                "{name}: columns are contiguous (Fortran order): save it with `np.ascontiguousarray(x)`"
            )));
        }
        Ok(Self {
            name,
            header,
            rows,
            dim,
            cells: Cells::Final,
        })
    }

    /// Rows of the file.
    #[cfg(target_arch = "wasm32")]
    pub(super) fn rows_in_file(&self) -> usize {
        self.rows
    }

    fn mend(&self) -> Option<&Mend> {
        match &self.cells {
            Cells::Mended(mend) => Some(mend),
            _ => None,
        }
    }

    /// Tells if rows can be read without conversion or repair.
    #[cfg(not(target_arch = "wasm32"))]
    pub(super) fn is_plain(&self) -> bool {
        self.mend().is_none() && self.header.is_plain()
    }

    /// Number of rows of the file that are kept.
    pub(super) fn rows(&self) -> usize {
        let left = self.mend().and_then(|mend| mend.rows.as_ref());
        left.map_or(self.rows, Vec::len)
    }

    /// Number of columns of the file that are kept.
    pub(super) fn dim(&self) -> usize {
        let left = self.mend().and_then(|mend| mend.columns.as_ref());
        left.map_or(self.dim, Vec::len)
    }

    /// Numbers in the file of these kept rows.
    pub(super) fn in_file<'a>(&self, rows: &'a [u32]) -> Cow<'a, [u32]> {
        match self.mend().and_then(|mend| mend.rows.as_ref()) {
            None => Cow::Borrowed(rows),
            Some(left) => rows.iter().map(|row| left[*row as usize]).collect(),
        }
    }

    /// Bytes of a row.
    pub(super) fn row_bytes(&self) -> usize {
        self.dim * self.header.item_bytes()
    }

    /// Byte range of these rows in the file.
    pub(super) fn bytes(&self, rows: Range<u32>) -> Range<u64> {
        let place = |row| self.header.data() as u64 + u64::from(row) * self.row_bytes() as u64;
        place(rows.start)..place(rows.end)
    }

    /// Appends a row, whose bytes are `items`, to `values`.
    ///
    /// # Errors
    /// [`Error::Data`] with the place of a value that cannot be used.
    pub(super) fn take(&self, row: u32, items: &[u8], values: &mut Vec<f32>) -> Result<()> {
        let first = values.len();
        self.header.numbers(items, values);
        match &self.cells {
            Cells::Kept => return Ok(()),
            Cells::Mended(mend) => mend.row(first, values),
            Cells::Final | Cells::Refused => {}
        }
        let check = match self.cells {
            Cells::Refused => check_cells,
            _ => check_values,
        };
        check(&self.name, &values[first..], self.dim(), row as usize)
    }

    /// Error about a row that cannot be read as before: the file changed.
    pub(super) fn changed(&self, row: u32, why: impl Into<String>) -> Error {
        Error::Io {
            what: format!(
                "{}: row {}: the file changed while it was read",
                self.name,
                row + 1
            ),
            source: std::io::Error::other(why.into()),
        }
    }
}

/// Treatment of cells in the rows of a file.
#[derive(Debug)]
pub(super) enum Cells {
    /// A cell without a number is refused, without another choice.
    Final,
    /// A cell without a number is refused, with the choices for it.
    Refused,
    /// All cells are passed on as they are.
    Kept,
    /// Rows are mended.
    Mended(Mend),
}

/// Changes to the rows of a file.
#[derive(Debug, Default)]
pub(super) struct Mend {
    /// Rows that are kept; all if there is no list.
    pub(super) rows: Option<Vec<u32>>,
    /// Columns that are kept; all if there is no list.
    pub(super) columns: Option<Vec<usize>>,
    /// The columns in which cells without a number are filled, each with the value.
    pub(super) fill: Vec<(usize, f32)>,
}

impl Mend {
    /// Mends the last row of `values`, which begins at `first`.
    pub(super) fn row(&self, first: usize, values: &mut Vec<f32>) {
        fill_in(&mut values[first..], usize::MAX, &self.fill);
        if let Some(columns) = &self.columns {
            for (to, column) in columns.iter().enumerate() {
                values[first + to] = values[first + column];
            }
            values.truncate(first + columns.len());
        }
    }
}
