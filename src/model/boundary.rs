//! [`Boundary`]: the boundary between positives and negatives, for losses that learn it with the head.

use crate::base::error::Result;
use crate::base::ledger::Purpose;
use crate::base::plan::MemoryPlan;
use crate::engine::checkpoint::{ArrayReader, ArrayWriter};
use crate::engine::pace::Slices;
use crate::engine::{Commands, DeviceVec, Engine, Workspace};
use crate::kernels::optimizer::{self, Moments};
use crate::kernels::row_loss;
use crate::model::optimizer::Labels;
use crate::rules::config::Optimizer;

const MOVED: &str = "boundary.moved";
const GRADIENT: &str = "boundary.gradient";
const LABELS: Labels = Labels([MOVED, "boundary.first_moment", "boundary.second_moment"]);
/// Floats of each buffer: one value, then padding.
const FLOATS: usize = 4;

/// The boundary of a run and its optimizer's state. Values are similarities, or minus distances.
#[derive(Debug)]
pub(crate) struct Boundary {
    lr: f64,
    /// Constant part of `dL/d(boundary)`, beside the part that comes from pairs.
    pull: f32,
    /// Difference between the boundary and its initial value.
    pub(crate) moved: DeviceVec<f32>,
    gradient: DeviceVec<f32>,
    moments: Moments,
}

impl Boundary {
    /// Adds the buffers to a plan.
    pub(crate) fn plan(plan: MemoryPlan) -> MemoryPlan {
        let plan = plan
            .with::<f32>(Purpose::Weights, MOVED, FLOATS as u64)
            .with::<f32>(Purpose::Gradients, GRADIENT, FLOATS as u64);
        LABELS.plan(plan, FLOATS as u64)
    }

    /// Takes the buffers, zero, from the workspace.
    pub(crate) fn new(workspace: &mut Workspace, lr: f64, pull: f64) -> Self {
        Self {
            lr,
            pull: pull as f32,
            moved: workspace.take(MOVED),
            gradient: workspace.take(GRADIENT),
            moments: LABELS.moments(workspace),
        }
    }

    /// Saves the boundary and its moments.
    ///
    /// # Errors
    /// As [`ArrayWriter::vector`].
    pub(crate) async fn save(
        &self,
        slices: &mut Slices<'_>,
        arrays: &mut ArrayWriter,
    ) -> Result<()> {
        let (moved, moments) = (&self.moved, &self.moments);
        LABELS.save(slices, arrays, moved, moments, FLOATS).await
    }

    /// Replaces the boundary and its moments by saved ones.
    ///
    /// # Errors
    /// As [`ArrayReader::vector`].
    pub(crate) async fn restore(
        &mut self,
        engine: &Engine,
        arrays: &ArrayReader<'_>,
    ) -> Result<()> {
        let (moved, moments) = (&mut self.moved, &mut self.moments);
        LABELS.restore(engine, arrays, moved, moments, FLOATS).await
    }

    /// Takes step `step` of the optimizer, counted from 1, with the boundary's own learning rate and without weight decay, which
    /// would pull it back to its initial value.
    pub(crate) fn learn(
        &mut self,
        commands: &mut Commands,
        rule: &Optimizer,
        step: u64,
        status: &DeviceVec<u32>,
        report_first: usize,
        report: &mut DeviceVec<u32>,
    ) {
        row_loss::learn(
            commands,
            self.pull,
            report_first,
            report,
            &mut self.gradient,
        );
        let mut step = rule.step_at(self.lr, step);
        step.weight_decay = 0.0;
        optimizer::adam(
            commands,
            &step,
            FLOATS,
            &self.gradient,
            &mut self.moved,
            &mut self.moments,
            status,
            report_first,
            report,
        );
    }
}
