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
    /// [`Error::NoDirection`] with the first that has none.
    pub fn check(&self) -> Result<()> {
        (1..)
            .zip(self.rows())
            .try_for_each(|(number, row)| check_direction(row, number))
    }
}

/// Checks that a row that was divided by its length came to length 1: rows of no length stay zero, those whose length is
/// not finite come to zero or to no numbers.
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
