//! The optimizer's state on an engine, and the scalars of each step.

use crate::base::ledger::Purpose;
use crate::base::plan::MemoryPlan;
use crate::engine::Workspace;
use crate::kernels::optimizer::{AdamStep, Moments};
use crate::rules::config::{Adam, Optimizer};

const FIRST: &str = "optimizer.first_moment";
const SECOND: &str = "optimizer.second_moment";

const BETA1: f64 = 0.9;
const BETA2: f64 = 0.999;
const EPS: f64 = 1e-8;

/// Adds the optimizer's state for `parameters` floats to a plan.
pub(crate) fn plan(plan: MemoryPlan, parameters: u64) -> MemoryPlan {
    plan.with::<f32>(Purpose::Optimizer, FIRST, parameters)
        .with::<f32>(Purpose::Optimizer, SECOND, parameters)
}

/// Takes the optimizer's state, zero, from the workspace.
pub(crate) fn moments(workspace: &mut Workspace) -> Moments {
    Moments {
        first: workspace.take(FIRST),
        second: workspace.take(SECOND),
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
