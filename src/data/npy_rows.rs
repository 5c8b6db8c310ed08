//! The rows of an NPY file that is not read whole: [`Layout`], their places in the file and their permitted values, and
//! [`NpyRows`], an open file. A browser's file is `BlobRows` in `blob.rs`.

use std::borrow::Cow;
use std::ops::Range;
#[cfg(not(target_arch = "wasm32"))]
use std::{
    fs::File,
    io::BufReader,
    sync::{Arc, Mutex, PoisonError},
};

use super::mended::{Cells, Mend};
#[cfg(not(target_arch = "wasm32"))]
use super::{
    NamedFile, RowSource,
    named_file::{self, Opened},
};
use super::{labelled, npy};
use crate::base::error::{Error, Result};

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

    fn of(name: String, header: npy::Header) -> Result<Self> {
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
            Cells::Refused => labelled::check_cells,
            _ => labelled::check_values,
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

/// A matrix in memory, its values checked.
#[cfg(not(target_arch = "wasm32"))]
fn whole(name: &str, matrix: npy::Matrix) -> Result<RowSource> {
    let (values, dim) = (matrix.values, matrix.columns);
    labelled::check_values(name, &values, dim, 0)?;
    Ok(RowSource::Memory { values, dim })
}

/// Bytes that are read ahead, and at once at most.
#[cfg(not(target_arch = "wasm32"))]
const READ_BYTES: usize = 1 << 20;
/// Bytes from which on rows are read directly, without reading ahead.
#[cfg(unix)]
const MANY_BYTES: usize = 1 << 14;

/// An open NPY file of numbers, rows contiguous.
#[cfg(not(target_arch = "wasm32"))]
#[derive(Debug)]
pub struct NpyRows {
    layout: Layout,
    #[cfg(unix)]
    file: Arc<File>,
    /// The file with a buffer of what was read ahead, for scattered rows.
    ahead: Mutex<BufReader<Arc<File>>>,
}

#[cfg(not(target_arch = "wasm32"))]
impl NpyRows {
    /// Opens a file and checks its header against its length. Rows are read as needed; but a pipe, and a file whose columns are
    /// contiguous (Fortran order), is read whole.
    ///
    /// # Errors
    /// [`Error::Data`] when it cannot be opened or holds no such matrix.
    pub fn open(path: &std::path::Path) -> Result<RowSource> {
        let name = named_file::shown(path);
        let (mut file, length) = match named_file::open(path)? {
            Opened::Disk(file, length) => (file, length),
            pipe @ Opened::Pipe(_) => {
                let file = NamedFile::whole(name, pipe)?;
                return whole(&file.name, npy::read_matrix(&file)?);
            }
        };
        let header = named_file::npy_header(&name, &mut file, length)?;
        if header.by_columns() {
            return whole(&name, header.read_matrix(&name, file)?);
        }
        let file = Arc::new(file);
        Ok(RowSource::Npy(Self {
            layout: Layout::of(name, header)?,
            ahead: BufReader::with_capacity(READ_BYTES, Arc::clone(&file)).into(),
            #[cfg(unix)]
            file,
        }))
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(super) fn layout_mut(&mut self) -> &mut Layout {
        &mut self.layout
    }

    /// Appends these rows to `values`; those that follow each other are read at once.
    pub(super) fn read(&self, rows: &[u32], values: &mut Vec<f32>) -> Result<()> {
        for run in self
            .layout
            .in_file(rows)
            .chunk_by(|row, next| row + 1 == *next)
        {
            for run in run.chunks((READ_BYTES / self.layout.row_bytes().max(1)).max(1)) {
                match self.items(run[0]..run[0] + run.len() as u32) {
                    Ok(items) => self.take(run, &items, values)?,
                    // One at a time, so that the error names the first row that is not there.
                    Err(_) => run.iter().try_for_each(|row| {
                        let items = self.items(*row..row + 1);
                        let items = items.map_err(|source| match source.kind() {
                            std::io::ErrorKind::UnexpectedEof => {
                                self.layout.changed(*row, "it is shorter now")
                            }
                            _ => self.layout.changed(*row, source.to_string()),
                        })?;
                        self.take(&[*row], &items, values)
                    })?,
                }
            }
        }
        Ok(())
    }

    /// Reads rows that [`NpyRows::follow`] each other directly to `to`, `[rows, dim]`. Returns false, with `to` in any state, if
    /// rows have to be read with [`NpyRows::read`]: they need conversion or repair, or a value may have to be refused.
    pub(super) fn read_straight(&self, rows: &[u32], to: &mut [f32]) -> bool {
        #[cfg(unix)]
        if let (Some(first), None) = (rows.first(), self.layout.mend())
            && self.layout.header.is_plain()
        {
            use std::os::unix::fs::FileExt as _;

            let start = self.layout.bytes(*first..*first).start;
            let read = self.file.read_exact_at(bytemuck::cast_slice_mut(to), start);
            return read.is_ok() && labelled::all_are_small(to, self.layout.dim);
        }
        false
    }

    fn take(&self, rows: &[u32], items: &[u8], values: &mut Vec<f32>) -> Result<()> {
        let mut items = items.chunks_exact(self.layout.row_bytes().max(1));
        rows.iter().try_for_each(|row| {
            let items = items.next().unwrap_or_default();
            self.layout.take(*row, items, values)
        })
    }

    /// Tells if these rows follow each other in the file and several threads may read parts of them at once.
    pub(super) fn follow(&self, rows: &[u32]) -> bool {
        let rows = self.layout.in_file(rows);
        cfg!(unix) && rows.is_sorted_by(|row, next| row + 1 == *next)
    }

    fn items(&self, rows: Range<u32>) -> std::io::Result<Vec<u8>> {
        use std::io::{Read as _, Seek as _};

        let bytes = self.layout.bytes(rows);
        let mut items = vec![0; (bytes.end - bytes.start) as usize];
        // Without a lock: reading at an offset leaves the file's position alone.
        #[cfg(unix)]
        if items.len() >= MANY_BYTES {
            use std::os::unix::fs::FileExt as _;

            self.file.read_exact_at(&mut items, bytes.start)?;
            return Ok(items);
        }
        let mut file = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        // A relative seek keeps what is buffered.
        let position = file.stream_position()?;
        file.seek_relative(bytes.start.wrapping_sub(position).cast_signed())?;
        file.read_exact(&mut items)?;
        Ok(items)
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_cut_short_while_it_is_read_is_said_with_the_row() {
        let path = std::env::temp_dir().join(format!("nearfar-cut-{}.npy", std::process::id()));
        // Larger than what is read ahead.
        let values = vec![1.0; 600_000];
        std::fs::write(&path, crate::data::write_matrix(&values, 2)).expect("writes");
        let rows = NpyRows::open(&path).expect("opens");
        let mut read = Vec::new();
        pollster::block_on(rows.read(&[0], &mut read)).expect("is there");
        let file = std::fs::OpenOptions::new().write(true).open(&path);
        file.and_then(|file| file.set_len(1000)).expect("is cut");
        let error = pollster::block_on(rows.read(&[299_999], &mut read)).expect_err("is gone");
        std::fs::remove_file(&path).ok();
        let message = error.to_string();
        assert!(
            message.ends_with("row 300000: the file changed while it was read: it is shorter now"),
            "{message}"
        );
        assert_eq!(error.exit_code(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn rows_that_follow_each_other_are_read_straight_or_the_long_way_and_are_the_same() {
        let path =
            std::env::temp_dir().join(format!("nearfar-straight-{}.npy", std::process::id()));
        let mut values: Vec<f32> = (0..4000).map(|value| value as f32).collect();
        let read = |values: &[f32], rows: &[u32]| {
            std::fs::write(&path, crate::data::write_matrix(values, 4)).expect("writes");
            let source = NpyRows::open(&path).expect("opens");
            let RowSource::Npy(file) = &source else {
                panic!("an NPY file stays where it is");
            };
            let mut to = vec![-1.0; 4 * rows.len()];
            let straight = file.read_straight(rows, &mut to);
            let through = source.read_to(rows, 4, &mut to, |_| ());
            (straight, through.map(|()| to))
        };
        let rows: Vec<u32> = (7..900).collect();
        let (straight, read_rows) = read(&values, &rows);
        assert!(straight);
        assert_eq!(read_rows.expect("reads"), values[28..3600]);
        values[403] = f32::NAN;
        let (straight, read_rows) = read(&values, &rows);
        std::fs::remove_file(&path).ok();
        assert!(!straight);
        let message = read_rows.expect_err("refused").to_string();
        assert!(message.contains(": row 101, column 4: "), "{message}");
    }

    #[test]
    fn values_that_cannot_be_used_are_said_with_the_file_and_the_place() {
        let path = std::env::temp_dir().join(format!("nearfar-bad-{}.npy", std::process::id()));
        let refusal = |value: f32, row: u32| {
            let mut values = vec![1.0; 30];
            values[17] = value;
            let bytes = crate::data::write_matrix(&values, 3);
            std::fs::write(&path, bytes).expect("writes");
            let rows = NpyRows::open(&path).expect("opens");
            let read = pollster::block_on(rows.read(&[row], &mut Vec::new()));
            let message = read.expect_err("refused").to_string();
            let name = path.display().to_string();
            message.strip_prefix(&name).expect("the file").to_owned()
        };
        assert_eq!(
            refusal(f32::INFINITY, 5),
            ": row 6, column 3: the value is not finite: fill or drop such rows"
        );
        // As of a file that is read whole.
        assert_eq!(
            refusal(-1e20, 5),
            ": row 6, column 3: -1e20 is too large to square: scale the features"
        );
        std::fs::remove_file(&path).ok();
    }
}
