//! [`Embeddings`]: rows of unit length on the host.

use crate::base::error::{Error, Result};

/// `[rows, dim]`, each row of unit length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Embeddings {
    /// Row-major, without padding.
    pub values: Vec<f32>,
    /// Dimensions of a row.
    pub dim: usize,
}

impl Embeddings {
    /// The rows.
    pub fn rows(&self) -> impl Iterator<Item = &[f32]> {
        self.values.chunks_exact(self.dim.max(1))
    }

    /// Checks that every row has a direction.
    ///
    /// # Errors
    /// [`Error::NoDirection`] with the first row that has none.
    pub fn check(&self) -> Result<()> {
        (1..)
            .zip(self.rows())
            .try_for_each(|(number, row)| check_direction(row, number))
    }
}

/// Checks that a normalized row has length 1: rows of zero length stay zero, and rows of infinite or undefined length become zero
/// or not a number.
pub(crate) fn check_direction(row: &[f32], number: u64) -> Result<()> {
    let squares: f32 = row.iter().map(|value| value * value).sum();
    if (0.5..2.0).contains(&squares) {
        return Ok(());
    }
    Err(Error::NoDirection {
        row: number,
        zero: squares.is_finite(),
    })
}
