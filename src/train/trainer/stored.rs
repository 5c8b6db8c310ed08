//! What the cross-batch memory holds, read back: part of what a run leaves.

use super::Trainer;
use crate::base::error::Result;
use crate::kernels::stride;
use crate::model::embeddings::Embeddings;

/// The rows of the memory, in the order of its slots.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoredMemory {
    /// As they were embedded when they came.
    pub embeddings: Embeddings,
    /// The class of each.
    pub labels: Vec<u32>,
    /// The row of the data that each is.
    pub rows: Vec<u32>,
    /// How many steps ago each came; 0 for those of the last step.
    pub ages: Vec<u32>,
    /// The slot that the next row goes to, PML's name.
    pub queue_idx: usize,
}

impl Trainer {
    /// Reads the memory back. Without one it is the last batch.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device).
    pub async fn stored_memory(&self) -> Result<StoredMemory> {
        let (memory, dim) = (&self.memory, self.model.embedding_size());
        let count = (memory.len() * stride(dim)) as u64;
        let padded = self.engine.read(&memory.bank.rows, 0, count).await?;
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
