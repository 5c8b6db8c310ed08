//! [`RowWeights`]: the weight of each row of a batch, from a miner, in a loss over all rows.

use crate::base::ledger::Purpose;
use crate::base::plan::MemoryPlan;
use crate::engine::{Commands, DeviceVec, Workspace};
use crate::kernels::row_weights;

const FOUND: &str = "weights.found";
const WEIGHTS: &str = "weights.rows";

/// The weights of a batch, both `[batch]`.
#[derive(Debug)]
pub(crate) struct RowWeights {
    /// Number of times that the miner finds each row.
    pub(crate) found: DeviceVec<u32>,
    /// `found` divided by its maximum, after [`RowWeights::scale`].
    pub(crate) weights: DeviceVec<f32>,
}

impl RowWeights {
    /// Adds the buffers of a batch to a plan.
    pub(crate) fn plan(plan: MemoryPlan, batch: u64) -> MemoryPlan {
        plan.with::<u32>(Purpose::Triplets, FOUND, batch)
            .with::<f32>(Purpose::Triplets, WEIGHTS, batch)
    }

    /// Takes the buffers from a workspace.
    pub(crate) fn new(workspace: &mut Workspace) -> Self {
        Self {
            found: workspace.take(FOUND),
            weights: workspace.take(WEIGHTS),
        }
    }

    /// Computes the weights of the batch from the counts in `found`.
    pub(crate) fn scale(&mut self, commands: &mut Commands, batch: usize) {
        row_weights::scale(commands, batch, &self.found, &mut self.weights);
    }
}
