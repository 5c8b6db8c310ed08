//! Rows of a dataset, unpacked a window at a time.

use std::io::{Error as IoError, Read};

use hdf5_pure::Dataset;

use super::tree::Tree;
use super::{MAX_CHUNK_BYTES, damaged};
use crate::base::error::{Error, Result};
use crate::base::quote::cut;
use crate::base::working::Working;
use crate::data::files::named_file::damaged_data;
use crate::data::files::npy::{Header, shape_text};

/// Bytes of a window: the rows that are unpacked at once.
pub(super) const WINDOW_BYTES: u64 = 4 << 20;

/// Reads the elements of a dataset of numbers, one after the other.
pub(super) struct Numbers<'a> {
    full: &'a str,
    header: Header,
    pub(super) rows: Rows<'a>,
    item: Vec<u8>,
}

impl<'a> Numbers<'a> {
    pub(super) fn new(tree: &Tree, full: &'a str, dataset: &'a Dataset) -> Result<Self> {
        let shape = dataset.shape();
        let shape = shape.map_err(|error| Error::Data(format!("{full}: {}", damaged(&error))))?;
        let header = tree.header(dataset, &shape);
        let header = header.map_err(|problem| Error::Data(format!("{full}: {problem}")))?;
        Ok(Self {
            full,
            item: vec![0; header.item_bytes()],
            header,
            rows: Rows::new(full, dataset)?,
        })
    }

    /// The next element, as an integer and as f32; none at the end.
    pub(super) fn next(&mut self) -> Result<Option<(i64, f32)>> {
        if self.rows.is_over() {
            return Ok(None);
        }
        let read = self.rows.read_exact(&mut self.item);
        read.map_err(|error| damaged_data(self.full, &error))?;
        let (header, item) = (&self.header, &self.item[..]);
        Ok(Some((header.integer(item), header.number(item))))
    }
}

/// The elements of a dataset in the order of its rows, unpacked a window at a time.
pub(super) struct Rows<'a> {
    full: &'a str,
    dataset: &'a Dataset,
    row: u64,
    rows: u64,
    /// Rows of a window.
    step: u64,
    window: Vec<u8>,
    at: usize,
    /// Word for its rows, and the listener that hears of the progress.
    heard: Option<(&'static str, &'a dyn Fn(Working))>,
}

impl<'a> Rows<'a> {
    pub(super) fn new(full: &'a str, dataset: &'a Dataset) -> Result<Self> {
        let failed = |error: hdf5_pure::Error| Error::Data(format!("{full}: {}", damaged(&error)));
        let shape = dataset.shape().map_err(failed)?;
        let rows = shape.first().copied().unwrap_or(1);
        let sides = shape.iter().skip(1).product::<u64>();
        let row_bytes = dataset.element_size().map_err(failed)?;
        let row_bytes = row_bytes.saturating_mul(sides).max(1);
        let mut step = (WINDOW_BYTES / row_bytes).max(1);
        if let Some(chunk) = dataset.chunk_shape().map_err(failed)? {
            // The reader trusts that chunks lie in the dataset.
            for stored in dataset.chunks().map_err(failed)? {
                if stored.offset.len() != shape.len()
                    || stored
                        .offset
                        .iter()
                        .zip(&shape)
                        .any(|(at, side)| at >= side)
                {
                    return Err(Error::Data(format!(
                        "{full}: a chunk lies outside of the shape {}: the file is damaged",
                        shape_text(&shape)
                    )));
                }
            }
            // A chunk is unpacked only once if windows hold whole chunks.
            let chunk = chunk.first().copied().unwrap_or(1).max(1);
            let most = MAX_CHUNK_BYTES / row_bytes / chunk * chunk;
            if most > 0 {
                step = step.next_multiple_of(chunk).min(most);
            }
        }
        Ok(Self {
            full,
            dataset,
            row: 0,
            rows,
            step,
            window: Vec::new(),
            at: 0,
            heard: None,
        })
    }

    /// Tells `say` of each window read.
    pub(super) fn heard(self, unit: &'static str, say: &'a dyn Fn(Working)) -> Self {
        Self {
            heard: Some((unit, say)),
            ..self
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.at == self.window.len() && self.row >= self.rows
    }
}

impl Read for Rows<'_> {
    fn read(&mut self, part: &mut [u8]) -> std::io::Result<usize> {
        if self.at == self.window.len() && self.row < self.rows {
            let step = self.step.min(self.rows - self.row);
            self.window = Vec::new();
            let window = self.dataset.read_raw_rows(self.row, step);
            self.window = window.map_err(|error| IoError::other(cut(&error.to_string())))?;
            self.row += step;
            self.at = 0;
            if let Some((unit, say)) = self.heard {
                say(Working {
                    what: format!("reading {}", self.full),
                    unit: unit.to_owned(),
                    done: self.row,
                    total: self.rows,
                });
            }
        }
        let left = &self.window[self.at..];
        let count = left.len().min(part.len());
        part[..count].copy_from_slice(&left[..count]);
        self.at += count;
        Ok(count)
    }
}
