//! Contents of the cross-batch memory, read back for export.

use super::Trainer;
use crate::base::error::Result;
use crate::kernels::stride;
use crate::model::embeddings::Embeddings;

/// The rows of the memory, in the order of its slots.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoredMemory {
    /// Embeddings at the time of storing.
    pub embeddings: Embeddings,
    /// Class of each row.
    pub labels: Vec<u32>,
    /// Number in the data of each row.
    pub rows: Vec<u32>,
    /// Age of each row in steps; 0 for rows of the last step.
    pub ages: Vec<u32>,
    /// Slot of the next row, under PML's name.
    pub queue_idx: usize,
}

impl Trainer {
    /// Reads the memory back. A run without one returns the last batch.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device).
    pub async fn stored_memory(&self) -> Result<StoredMemory> {
        let (memory, dim) = (&self.memory, self.model.embedding_size());
        let floats = memory.len() * stride(dim);
        let padded = memory.read(&self.engine, floats).await?;
        let rows = padded.chunks_exact(stride(dim));
        Ok(StoredMemory {
            embeddings: Embeddings {
                values: rows.flat_map(|row| &row[..dim]).copied().collect(),
                dim,
            },
            labels: memory.labels().to_vec(),
            rows: memory.rows().to_vec(),
            ages: memory.ages(),
            queue_idx: memory.cursor(),
        })
    }
}
