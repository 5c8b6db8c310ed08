//! The weights that did best on the validation rows: they are kept beside those that train, and change places with them when a run
//! is over.

use serde::{Deserialize, Serialize};

use super::Trainer;
use crate::base::error::Result;
use crate::base::ledger::Purpose;
use crate::base::plan::MemoryPlan;
use crate::engine::{DeviceVec, Workspace};
use crate::model::embedding_model::EmbeddingModel;

const WEIGHTS: &str = "model.kept";

/// The weights of an earlier step.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) weights: DeviceVec<f32>,
    pub(super) state: KeptState,
}

/// Which weights are where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KeptState {
    /// The step after which the kept ones stood; nothing while none are kept.
    step: Option<u64>,
    /// Whether the model has them now, and those of the last step are kept in their place.
    in_use: bool,
}

impl KeptState {
    /// Whether there are kept weights.
    pub(super) fn is_some(self) -> bool {
        self.step.is_some()
    }
}

impl Kept {
    pub(super) fn plan(plan: MemoryPlan, widths: &[usize]) -> MemoryPlan {
        plan.with::<f32>(
            Purpose::Weights,
            WEIGHTS,
            EmbeddingModel::parameters(widths),
        )
    }

    pub(super) fn new(workspace: &mut Workspace) -> Self {
        Self {
            weights: workspace.take(WEIGHTS),
            state: KeptState::default(),
        }
    }
}

impl Trainer {
    /// Keeps the weights as they are now, in place of those that were kept.
    pub(crate) fn keep_weights(&mut self) {
        let count = self.model.parameter_count() as u64;
        let mut commands = self.engine.commands();
        commands.copy(self.model.padded(), 0, count, &mut self.kept.weights, 0);
        self.engine.submit(commands);
        self.kept.state.step = Some(self.step);
    }

    /// The step whose weights are kept.
    pub(crate) fn kept_step(&self) -> Option<u64> {
        self.kept.state.step
    }

    /// Whether the model has the weights that were kept, not those of the last step.
    pub(crate) fn uses_kept(&self) -> bool {
        self.kept.state.in_use
    }

    /// Gives the model the weights that were kept, or those of the last step back.
    ///
    /// # Errors
    /// [`crate::Error::Device`].
    pub(crate) async fn use_kept(&mut self, kept: bool) -> Result<()> {
        if kept == self.uses_kept() {
            return Ok(());
        }
        let count = self.model.parameter_count() as u64;
        let engine = self.engine.clone();
        let now = engine.read(self.model.padded(), 0, count).await?;
        let other = engine.read(&self.kept.weights, 0, count).await?;
        let model = self.model.parameters_mut();
        engine.upload(model, 0, &other).await?;
        engine.upload(&mut self.kept.weights, 0, &now).await?;
        self.kept.state.in_use = kept;
        Ok(())
    }
}
