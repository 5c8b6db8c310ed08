//! [`Boundary`]: the boundary between positives and negatives, for losses that learn it with the head.

use crate::base::error::Result;
use crate::base::ledger::Purpose;
use crate::base::plan::MemoryPlan;
use crate::engine::checkpoint::{ArrayReader, ArrayWriter};
use crate::engine::pace::Slices;
use crate::engine::{Commands, DeviceVec, Engine, Workspace};
use crate::kernels::optimizer::{self, Moments};
use crate::kernels::row_loss;
use crate::model::optimizer::{Labels, Rule};

const MOVED: &str = "boundary.moved";
const GRADIENT: &str = "boundary.gradient";
const LABELS: Labels = Labels([MOVED, "boundary.first_moment", "boundary.second_moment"]);
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
    /// Floats of each buffer: one value, then padding.
    pub(crate) const FLOATS: usize = 4;

    /// Adds the buffers to a plan, with `moments` values of the optimizer.
    pub(crate) fn plan(plan: MemoryPlan, moments: usize) -> MemoryPlan {
        let plan = plan
            .with::<f32>(Purpose::Weights, MOVED, Self::FLOATS as u64)
            .with::<f32>(Purpose::Gradients, GRADIENT, Self::FLOATS as u64);
        LABELS.plan(plan, Self::FLOATS as u64, moments)
    }

    /// Takes the buffers, zero, from the workspace, with `moments` values of the optimizer.
    pub(crate) fn new(workspace: &mut Workspace, lr: f64, pull: f64, moments: usize) -> Self {
        Self {
            lr,
            pull: pull as f32,
            moved: workspace.take(MOVED),
            gradient: workspace.take(GRADIENT),
            moments: LABELS.moments(workspace, moments),
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
        LABELS
            .save(slices, arrays, moved, moments, Self::FLOATS)
            .await
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
        LABELS
            .restore(engine, arrays, moved, moments, Self::FLOATS)
            .await
    }

    /// Computes the gradient from the counts of the step, `weight` times; with `onto` adds it to the one that is there.
    pub(crate) fn backward(
        &mut self,
        commands: &mut Commands,
        weight: f32,
        onto: bool,
        report_first: usize,
        report: &mut DeviceVec<u32>,
    ) {
        row_loss::learn(
            commands,
            self.pull,
            weight,
            onto,
            report_first,
            report,
            &mut self.gradient,
        );
    }

    /// The gradient, and the number of its floats.
    pub(crate) fn gradient(&self) -> (&DeviceVec<f32>, usize) {
        (&self.gradient, Self::FLOATS)
    }

    /// Takes a step of the optimizer with the boundary's own learning rate and without weight decay, which would pull it back to its
    /// initial value.
    pub(crate) fn learn(
        &mut self,
        commands: &mut Commands,
        rule: &Rule<'_>,
        clip: Option<&DeviceVec<f32>>,
        status: &DeviceVec<u32>,
        report_first: usize,
        report: &mut DeviceVec<u32>,
    ) {
        optimizer::update(
            commands,
            &rule.without_decay(self.lr),
            Self::FLOATS,
            &self.gradient,
            &mut self.moved,
            &mut self.moments,
            clip,
            status,
            report_first,
            report,
        );
    }
}
