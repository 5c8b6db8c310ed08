//! The optimizer's state on an engine, and the scalars of each step.

use crate::base::error::Result;
use crate::base::ledger::Purpose;
use crate::base::plan::MemoryPlan;
use crate::engine::checkpoint::{ArrayReader, ArrayWriter};
use crate::engine::pace::Slices;
use crate::engine::{DeviceVec, Engine, Workspace};
use crate::kernels::optimizer::{AdamStep, Moments};
use crate::rules::config::{Adam, Optimizer};

/// Labels of learned parameters and of their first and second moments: of their buffers, and in a checkpoint.
#[derive(Debug)]
pub(crate) struct Labels(pub(crate) [&'static str; 3]);

/// Labels of the head's.
pub(crate) const HEAD: Labels = Labels([
    "model.parameters",
    "optimizer.first_moment",
    "optimizer.second_moment",
]);

const BETA1: f64 = 0.9;
const BETA2: f64 = 0.999;
const EPS: f64 = 1e-8;

impl Labels {
    /// Adds the moments of `floats` parameters to a plan.
    pub(crate) fn plan(&self, plan: MemoryPlan, floats: u64) -> MemoryPlan {
        let [_, first, second] = self.0;
        plan.with::<f32>(Purpose::Optimizer, first, floats)
            .with::<f32>(Purpose::Optimizer, second, floats)
    }

    /// Takes the moments, zero, from the workspace.
    pub(crate) fn moments(&self, workspace: &mut Workspace) -> Moments {
        let [_, first, second] = self.0;
        Moments {
            first: workspace.take(first),
            second: workspace.take(second),
        }
    }

    /// Saves the first `floats` parameters and their moments.
    ///
    /// # Errors
    /// As [`ArrayWriter::vector`].
    pub(crate) async fn save(
        &self,
        slices: &mut Slices<'_>,
        arrays: &mut ArrayWriter,
        parameters: &DeviceVec<f32>,
        Moments { first, second }: &Moments,
        floats: usize,
    ) -> Result<()> {
        for (label, vector) in self.0.into_iter().zip([parameters, first, second]) {
            arrays.vector(label, slices, vector, floats).await?;
        }
        Ok(())
    }

    /// Replaces the first `floats` parameters and their moments by saved ones.
    ///
    /// # Errors
    /// As [`ArrayReader::vector`].
    pub(crate) async fn restore(
        &self,
        engine: &Engine,
        arrays: &ArrayReader<'_>,
        parameters: &mut DeviceVec<f32>,
        Moments { first, second }: &mut Moments,
        floats: usize,
    ) -> Result<()> {
        for (label, vector) in self.0.into_iter().zip([parameters, first, second]) {
            arrays.vector(label, engine, vector, floats).await?;
        }
        Ok(())
    }
}

impl Optimizer {
    /// The learning rate.
    pub fn lr(&self) -> f64 {
        let Self::Adam(adam) = self;
        adam.lr
    }

    /// The scalars of a step, counted from 1, bias corrections in f64 as torch computes them.
    pub(crate) fn step(&self, step: u64) -> AdamStep {
        self.step_at(self.lr(), step)
    }

    /// The scalars of a step, counted from 1, for parameters with a learning rate of their own.
    pub(crate) fn step_at(&self, lr: f64, step: u64) -> AdamStep {
        let Self::Adam(Adam { weight_decay, .. }) = self;
        let t = step as f64;
        let correction = |beta: f64| 1.0 - libm::pow(beta, t);
        AdamStep {
            step_size: (lr / correction(BETA1)) as f32,
            sqrt_correction2: correction(BETA2).sqrt() as f32,
            beta1: BETA1 as f32,
            gain1: (1.0 - BETA1) as f32,
            beta2: BETA2 as f32,
            gain2: (1.0 - BETA2) as f32,
            eps: EPS as f32,
            weight_decay: *weight_decay as f32,
        }
    }
}
