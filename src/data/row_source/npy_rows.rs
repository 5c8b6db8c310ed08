//! [`NpyRows`]: an open NPY file, whose rows are read as needed. A browser's file is `BlobRows` in `blob.rs`.

use std::fs::File;
use std::io::BufReader;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use super::layout::Layout;
use crate::base::error::Result;
#[cfg(unix)]
use crate::data::rows::values::all_are_small;

/// Bytes that are read ahead, and at once at most.
const READ_BYTES: usize = 1 << 20;
/// Bytes from which on rows are read directly, without reading ahead.
#[cfg(unix)]
const MANY_BYTES: usize = 1 << 14;

/// An open NPY file of numbers, rows contiguous.
#[derive(Debug)]
pub struct NpyRows {
    layout: Layout,
    #[cfg(unix)]
    file: Arc<File>,
    /// The file with a buffer of what was read ahead, for scattered rows.
    ahead: Mutex<BufReader<Arc<File>>>,
}

impl NpyRows {
    pub(super) fn new(layout: Layout, file: File) -> Self {
        let file = Arc::new(file);
        Self {
            layout,
            ahead: BufReader::with_capacity(READ_BYTES, Arc::clone(&file)).into(),
            #[cfg(unix)]
            file,
        }
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
        if let Some(first) = rows.first()
            && self.layout.is_plain()
        {
            use std::os::unix::fs::FileExt as _;

            let start = self.layout.bytes(*first..*first).start;
            let read = self.file.read_exact_at(bytemuck::cast_slice_mut(to), start);
            return read.is_ok() && all_are_small(to, self.layout.dim());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::RowSource;

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
