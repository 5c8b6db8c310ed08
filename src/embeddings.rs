//! [`Embeddings`]: rows of unit length on the host.

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
}
