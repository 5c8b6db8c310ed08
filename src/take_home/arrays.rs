//! Arrays for NumPy: the neighbours of a side, the contents of the memory, the side of every row, and the rows of a sample.

use std::io::Cursor;

use super::SideRows;
use crate::base::error::Result;
use crate::data::{NpyElement, NpzWriter, Sides, array_header};
use crate::search::knn::Neighbors;
use crate::train::trainer::StoredMemory;

/// The most neighbours of each row in the file.
pub(super) const NEIGHBOURS: usize = 10;

/// An NPZ file in memory.
struct Npz(NpzWriter<Cursor<Vec<u8>>>);

impl Npz {
    fn new(name: &str) -> Self {
        Self(NpzWriter::new(name, Cursor::new(Vec::new())))
    }

    fn array<T: NpyElement>(&mut self, name: &str, shape: &[usize], values: &[T]) -> Result<()> {
        self.0.array(name, shape, [values])
    }

    fn finish(self) -> Result<Vec<u8>> {
        Ok(self.0.finish()?.into_inner())
    }
}

/// Nearest rows of each row of a side: row numbers of the data, and similarities.
pub(super) fn neighbours(rows: &SideRows, found: &Neighbors) -> Result<Vec<u8>> {
    let number = |place: &u32| rows.rows[*place as usize];
    let ids: Vec<u32> = found.ids.iter().map(number).collect();
    let shape = [rows.rows.len(), found.k];
    let mut file = Npz::new("neighbours.npz");
    file.array("rows", &shape[..1], &rows.rows)?;
    file.array("ids", &shape, &ids)?;
    file.array("similarities", &shape, &found.similarities)?;
    file.finish()
}

/// Contents of the cross-batch memory, in the order of its slots.
pub(super) fn memory(memory: &StoredMemory) -> Result<Vec<u8>> {
    let StoredMemory {
        embeddings,
        labels,
        rows,
        ages,
        queue_idx,
    } = memory;
    let count = labels.len();
    let mut file = Npz::new("memory.npz");
    file.array("embeddings", &[count, embeddings.dim], &embeddings.values)?;
    for (name, numbers) in [("labels", labels), ("rows", rows), ("ages", ages)] {
        file.array(name, &[count], numbers)?;
    }
    file.array("queue_idx", &[1], &[*queue_idx as u32])?;
    file.finish()
}

/// Side of each row of the data, a byte each: 0 is training, 1 validation, 2 test.
pub(super) fn sides(sides: &Sides, rows: usize) -> Vec<u8> {
    let mut bytes = array_header("|u1", &[rows as u64]);
    let begin = bytes.len();
    bytes.resize(begin + rows, 0);
    for (side, of) in [(1, &sides.validation), (2, &sides.test)] {
        for row in of {
            bytes[begin + *row as usize] = side;
        }
    }
    bytes
}

/// Rows of a built-in sample, which has no file, and the number of each row's class.
pub(super) fn data(values: &[f32], dim: usize, labels: &[u32]) -> Result<Vec<u8>> {
    let mut file = Npz::new("nearfar_data.npz");
    file.array("X", &[labels.len(), dim], values)?;
    file.array("y", &[labels.len()], labels)?;
    file.finish()
}
