//! Contents of the cross-batch memory, read back for export, and the bytes of what is held in half precision.

use super::Trainer;
use crate::base::error::Result;
use crate::kernels::stored::Precision;
use crate::kernels::stride;
use crate::model::activations::{HIDDEN, LINEAR};
use crate::model::embeddings::Embeddings;
use crate::model::{cross_batch_memory, features};

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
    /// Bytes of what the run holds in half precision, and those that it would take as floats, by the setting that asks for it.
    pub(crate) fn halved(&self) -> impl Iterator<Item = (&'static str, [u64; 2])> {
        let (sizes, held) = (&self.setup.sizes, self.engine.ledger().by_label());
        let bytes = |labels: &[&str]| labels.iter().filter_map(|label| held.get(*label)).sum();
        let kept: u64 = [HIDDEN, LINEAR].iter().map(|labels| bytes(labels)).sum();
        // A batch of halved features is brought to floats before it goes through the head.
        let all = [
            ("activation_precision", sizes.activations, [kept, 0]),
            (
                "feature_precision",
                sizes.features,
                [bytes(&[features::ROWS]), bytes(&[features::BATCH])],
            ),
            (
                "memory_precision",
                sizes.precision,
                [bytes(&[cross_batch_memory::ROWS]), 0],
            ),
        ];
        let halved = all.into_iter().filter(|all| all.1 == Precision::F16);
        halved.map(|(setting, _, [halves, beside])| (setting, [halves + beside, 2 * halves]))
    }

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
