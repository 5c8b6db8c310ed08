//! [`Side`]: labelled rows; rows of signs if results must equal the reference's.

use super::rows;
use crate::data::RowSource;
use crate::search::rows::Rows;

/// Queries or references of an evaluation, anchors or references of a mining.
pub(super) struct Side {
    pub(super) rows: RowSource,
    /// `[class, id]` of each row.
    pub(super) tags: Vec<[u32; 2]>,
    labels: Vec<String>,
}

impl Side {
    /// Rows of signs, each with a class and an id of its own.
    pub(super) fn signs(stream: u32, count: usize, dim: usize, classes: usize) -> Self {
        Self::new(stream, rows::signs(stream, count, dim), dim, classes)
    }

    /// Rows in any direction, each with a class and an id of its own.
    pub(super) fn uniform(stream: u32, count: usize, dim: usize, classes: usize) -> Self {
        Self::new(stream, rows::uniform(stream, count, dim), dim, classes)
    }

    fn new(stream: u32, values: Vec<f32>, dim: usize, classes: usize) -> Self {
        let labels = rows::labels(stream, values.len() / dim, classes);
        Self {
            rows: RowSource::Memory { values, dim },
            labels: labels.iter().map(u32::to_string).collect(),
            tags: labels
                .into_iter()
                .zip(stream << 30..)
                .map(|(label, id)| [label, id])
                .collect(),
        }
    }

    pub(super) fn rows(&self) -> Rows<'_> {
        Rows {
            rows: &self.rows,
            labels: &self.labels,
        }
    }

    /// The values, `[rows, dim]`.
    pub(super) fn exact(&self) -> Vec<f64> {
        let values = self.rows.in_memory().unwrap_or_default();
        values.iter().map(|value| f64::from(*value)).collect()
    }
}
