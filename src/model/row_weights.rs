//! [`RowWeights`]: how much each row of a batch counts in a loss that looks at all rows, as a miner says.

use crate::base::ledger::Purpose;
use crate::base::plan::MemoryPlan;
use crate::engine::{Commands, DeviceVec, Workspace};
use crate::kernels::row_weights;

const FOUND: &str = "weights.found";
const WEIGHTS: &str = "weights.rows";

/// The weights of a batch, both `[batch]`.
#[derive(Debug)]
pub(crate) struct RowWeights {
    /// How often the miner finds each row.
    pub(crate) found: DeviceVec<u32>,
    /// The same over the most, after [`RowWeights::scale`].
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

    /// Makes weights of what was found of the batch.
    pub(crate) fn scale(&mut self, commands: &mut Commands, batch: usize) {
        row_weights::scale(commands, batch, &self.found, &mut self.weights);
    }
}
