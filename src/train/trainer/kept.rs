//! The weights that did best on the validation rows: they are kept beside the weights in training, and the two are swapped at the
//! end of a run.

use serde::{Deserialize, Serialize};

use super::Trainer;
use crate::base::error::Result;
use crate::base::plan::MemoryPlan;
use crate::engine::{DeviceVec, Workspace};
use crate::model::architecture::Architecture;

const WEIGHTS: &str = "model.kept";

/// The weights of an earlier step.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) weights: DeviceVec<f32>,
    pub(super) state: KeptState,
}

/// State of the kept weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KeptState {
    /// Step of the kept weights; `None` while none are kept.
    step: Option<u64>,
    /// The model has the kept weights now, and those of the last step are stored in their place.
    in_use: bool,
}

impl KeptState {
    /// Tells if there are kept weights.
    pub(super) fn is_some(self) -> bool {
        self.step.is_some()
    }
}

impl Kept {
    pub(super) fn plan(plan: MemoryPlan, architecture: &Architecture) -> MemoryPlan {
        architecture.plan(plan, WEIGHTS)
    }

    pub(super) fn new(workspace: &mut Workspace) -> Self {
        Self {
            weights: workspace.take(WEIGHTS),
            state: KeptState::default(),
        }
    }
}

impl Trainer {
    /// Keeps the current weights, in place of those that were kept.
    pub(crate) fn keep_weights(&mut self) {
        let count = self.model.state_count() as u64;
        let mut commands = self.engine.commands();
        commands.copy(self.model.padded(), 0, count, &mut self.kept.weights, 0);
        self.engine.submit(commands);
        self.kept.state.step = Some(self.step);
    }

    /// The step whose weights are kept.
    pub(crate) fn kept_step(&self) -> Option<u64> {
        self.kept.state.step
    }

    /// Tells if the model has the kept weights, not those of the last step.
    pub(crate) fn uses_kept(&self) -> bool {
        self.kept.state.in_use
    }

    /// Gives the model the kept weights if `kept`, else those of the last step.
    ///
    /// # Errors
    /// [`crate::Error::Device`].
    pub(crate) async fn use_kept(&mut self, kept: bool) -> Result<()> {
        if kept == self.uses_kept() {
            return Ok(());
        }
        let count = self.model.state_count() as u64;
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
