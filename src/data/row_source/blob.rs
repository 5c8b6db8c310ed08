//! `BlobRows`: the rows of an NPY file that a browser was given. It stays on the disk; a few slices of it are in memory.
//!
//! The core holds the `Blob` itself: it runs in the worker that got the file. If the worker read for it, requests and answers would
//! only lead to the same call.

use std::ops::Range;

/// Bytes of a slice at most, unless one row has more.
const SLICE_BYTES: u64 = 1 << 20;
/// Bytes between two rows up to which one slice for both costs less than two.
const GAP_BYTES: u64 = 32 << 10;

/// Row ranges of the slices to fetch for these ascending rows of `row_bytes` bytes each: near rows share a slice.
#[cfg_attr(
    not(target_arch = "wasm32"),
    allow(dead_code, reason = "only a browser slices")
)]
fn slices(rows: &[u32], row_bytes: u64) -> Vec<Range<u32>> {
    let mut slices: Vec<Range<u32>> = Vec::new();
    for row in rows {
        match slices.last_mut() {
            Some(last)
                if u64::from(row.saturating_sub(last.end)) * row_bytes <= GAP_BYTES
                    && u64::from(row + 1 - last.start) * row_bytes <= SLICE_BYTES =>
            {
                last.end = last.end.max(row + 1);
            }
            _ => slices.push(*row..row + 1),
        }
    }
    slices
}

#[cfg(target_arch = "wasm32")]
pub use browser::BlobRows;

#[cfg(target_arch = "wasm32")]
mod browser {
    use std::cell::RefCell;

    use js_sys::{Array, ArrayBuffer, Promise, Uint8Array};
    use wasm_bindgen::{JsCast as _, JsValue};
    use wasm_bindgen_futures::JsFuture;
    use web_sys::Blob;

    use super::{Range, SLICE_BYTES, slices};
    use crate::base::error::{Error, Result};
    use crate::base::order;
    use crate::data::files::npy;
    use crate::data::row_source::layout::Layout;

    /// Slices that are read at the same time.
    const AT_ONCE: usize = 64;

    /// Rows that were read, and their bytes.
    #[derive(Debug, Default)]
    struct Block {
        rows: Range<u32>,
        bytes: Vec<u8>,
    }

    /// An NPY file of numbers, rows contiguous, read as needed.
    #[derive(Debug)]
    pub struct BlobRows {
        layout: Layout,
        blob: Blob,
        /// Rows that were read ahead.
        ahead: RefCell<Block>,
    }

    impl BlobRows {
        /// Reads the header, and checks it against the length of the file.
        ///
        /// # Errors
        /// [`Error::Data`] when it cannot be read or holds no such matrix.
        pub async fn open(name: String, blob: Blob) -> Result<Self> {
            let bytes = blob.size();
            let start = read(&blob, 0.0, bytes.min(npy::MAX_START_BYTES as f64));
            let start = match start {
                Ok(start) => JsFuture::from(start).await,
                Err(why) => Err(why),
            };
            let start = start.map_err(|why| {
                Error::Data(format!("{name}: the file cannot be read: {}", said(&why)))
            })?;
            let start = Uint8Array::new(&start).to_vec();
            Ok(Self {
                layout: Layout::new(name, &start, bytes as u64)?,
                blob,
                ahead: RefCell::default(),
            })
        }

        pub(in super::super) fn layout(&self) -> &Layout {
            &self.layout
        }

        pub(in super::super) fn layout_mut(&mut self) -> &mut Layout {
            &mut self.layout
        }

        /// Appends these rows to `values`. If rows go on at the end of the last ones, more are read ahead.
        pub(in super::super) async fn read(
            &self,
            rows: &[u32],
            values: &mut Vec<f32>,
        ) -> Result<()> {
            let rows = &*self.layout.in_file(rows);
            let mut wanted = rows.to_vec();
            order::sort_numbers(&mut wanted);
            wanted.dedup();
            let (Some(first), Some(last)) = (wanted.first(), wanted.last()) else {
                return Ok(());
            };
            let ahead = self.ahead.borrow().rows.clone();
            if ahead.contains(first) && ahead.contains(last) {
                return self.take(rows, &[&self.ahead.borrow()], values);
            }
            let mut slices = slices(&wanted, self.layout.row_bytes() as u64);
            let goes_on = *first <= ahead.end && ahead.end <= *last;
            if let ([slice], true) = (&mut slices[..], goes_on) {
                let most = SLICE_BYTES / self.layout.row_bytes().max(1) as u64;
                let end =
                    (u64::from(slice.start) + most).min(self.layout.rows_in_file() as u64) as u32;
                slice.end = slice.end.max(end);
            }
            let mut blocks = self.fetch(&slices).await?;
            self.take(rows, &blocks.iter().collect::<Vec<_>>(), values)?;
            if goes_on && blocks.len() == 1 {
                *self.ahead.borrow_mut() = blocks.remove(0);
            }
            Ok(())
        }

        /// Reads slices, up to `AT_ONCE` at a time.
        async fn fetch(&self, slices: &[Range<u32>]) -> Result<Vec<Block>> {
            let mut blocks = Vec::with_capacity(slices.len());
            for slices in slices.chunks(AT_ONCE) {
                let changed = |why: JsValue| self.layout.changed(slices[0].start, said(&why));
                let promises = Array::new();
                for rows in slices {
                    let bytes = self.layout.bytes(rows.clone());
                    let bytes = read(&self.blob, bytes.start as f64, bytes.end as f64);
                    promises.push(&bytes.map_err(changed)?.into());
                }
                let buffers = JsFuture::from(Promise::all(&promises)).await;
                let buffers: Array = buffers.map_err(changed)?.unchecked_into();
                for (rows, buffer) in slices.iter().zip(buffers.iter()) {
                    let buffer: ArrayBuffer = buffer.unchecked_into();
                    let bytes = Uint8Array::new(&buffer).to_vec();
                    if bytes.len() != rows.len() * self.layout.row_bytes() {
                        return Err(self.layout.changed(rows.start, "it is shorter"));
                    }
                    let rows = rows.clone();
                    blocks.push(Block { rows, bytes });
                }
            }
            Ok(blocks)
        }

        /// Appends rows to `values`, in their order, from ascending blocks that hold them.
        fn take(&self, rows: &[u32], blocks: &[&Block], values: &mut Vec<f32>) -> Result<()> {
            let row_bytes = self.layout.row_bytes();
            for row in rows {
                let block = blocks[blocks.partition_point(|block| block.rows.end <= *row)];
                let at = (row - block.rows.start) as usize * row_bytes;
                let items = &block.bytes[at..][..row_bytes];
                self.layout.take(*row, items, values)?;
            }
            Ok(())
        }
    }

    /// Starts to read bytes of a file.
    fn read(blob: &Blob, start: f64, end: f64) -> Result<Promise, JsValue> {
        Ok(blob.slice_with_f64_and_f64(start, end)?.array_buffer())
    }

    /// The browser's message about a failure.
    fn said(why: &JsValue) -> String {
        let error: &js_sys::Error = why.unchecked_ref();
        String::from(error.message())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_rows_come_in_one_slice_and_far_ones_apart() {
        let near = (GAP_BYTES / 256) as u32;
        let ends = |rows: &[u32]| {
            let slices = slices(rows, 256).into_iter();
            slices
                .map(|rows| (rows.start, rows.end))
                .collect::<Vec<_>>()
        };
        assert_eq!(ends(&[]), []);
        assert_eq!(ends(&[3, 4, 5]), [(3, 6)]);
        assert_eq!(ends(&[3, 4 + near]), [(3, 5 + near)]);
        assert_eq!(ends(&[3, 5 + near]), [(3, 4), (5 + near, 6 + near)]);
    }

    #[test]
    fn a_slice_is_no_larger_than_it_may_be_unless_one_row_is() {
        let all: Vec<u32> = (0..10_000).collect();
        let slices_of = |row_bytes| slices(&all, row_bytes);
        let rows = (SLICE_BYTES / 4096) as u32;
        let ranges = slices_of(4096);
        assert_eq!(ranges[..2], [0..rows, rows..2 * rows]);
        assert_eq!(ranges.last(), Some(&(9984..10_000)));
        assert_eq!(slices_of(2 * SLICE_BYTES).len(), 10_000);
    }
}
