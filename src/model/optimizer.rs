//! The optimizer's state on an engine, the scalars of each step, and clipping of gradients by their norm.

use crate::base::error::Result;
use crate::base::ledger::Purpose;
use crate::base::plan::MemoryPlan;
use crate::engine::checkpoint::{ArrayReader, ArrayWriter};
use crate::engine::pace::Slices;
use crate::engine::{Commands, DeviceVec, Engine, Workspace};
use crate::kernels::optimizer::{self, Moments, OptimizerStep, SEGMENT};
use crate::rules::config::TrainConfig;
use crate::rules::optimizers::{Adam, AdamW, Optimizer, Sgd};
use crate::rules::schedules::Schedule;

/// Labels of learned parameters and of their first and second moments, as far as the optimizer has some: of their buffers, and in a
/// checkpoint.
#[derive(Debug)]
pub(crate) struct Labels(pub(crate) [&'static str; 3]);

/// Labels of the head's.
pub(crate) const HEAD: Labels = Labels([
    "model.parameters",
    "optimizer.first_moment",
    "optimizer.second_moment",
]);

impl Labels {
    /// Adds the moments of `floats` parameters to a plan, `moments` of each.
    pub(crate) fn plan(&self, plan: MemoryPlan, floats: u64, moments: usize) -> MemoryPlan {
        let labels = self.0[1..=moments].iter();
        labels.fold(plan, |plan, label| {
            plan.with::<f32>(Purpose::Optimizer, label, floats)
        })
    }

    /// Takes the moments, zero, from the workspace, `moments` of each parameter.
    pub(crate) fn moments(&self, workspace: &mut Workspace, moments: usize) -> Moments {
        let [_, first, second] = self.0;
        match moments {
            0 => Moments::None,
            1 => Moments::First(workspace.take(first)),
            _ => Moments::Both([first, second].map(|label| workspace.take(label))),
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
        moments: &Moments,
        floats: usize,
    ) -> Result<()> {
        let all = std::iter::once(parameters).chain(moments.vectors());
        for (label, vector) in self.0.into_iter().zip(all) {
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
        moments: &mut Moments,
        floats: usize,
    ) -> Result<()> {
        let all = std::iter::once(parameters).chain(moments.vectors_mut());
        for (label, vector) in self.0.into_iter().zip(all) {
            arrays.vector(label, engine, vector, floats).await?;
        }
        Ok(())
    }
}

/// The optimizer in one step of a run, with its schedule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule<'a> {
    optimizer: &'a Optimizer,
    schedule: &'a Schedule,
    steps: u64,
    /// The step, counted from 1.
    step: u64,
}

/// What the optimizer of a run holds beside the parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Held {
    /// Values that it remembers of each parameter.
    pub(crate) moments: usize,
    /// The longest gradient; 0 for no clipping.
    max_norm: f64,
}

impl Held {
    /// That of these settings.
    pub(crate) fn of(config: &TrainConfig) -> Self {
        let moments = match &config.optimizer {
            Optimizer::Adam(_) | Optimizer::AdamW(_) => 2,
            // One cycle gives SGD a momentum, as torch's does.
            Optimizer::Sgd(sgd) => {
                let cycled = config.schedule.momentum(1, config.steps);
                usize::from(sgd.momentum > 0.0 || cycled.is_some())
            }
        };
        Self {
            moments,
            max_norm: config.clip_grad_norm,
        }
    }
}

impl<'a> Rule<'a> {
    /// The optimizer of a run in step `step`, counted from 1.
    pub(crate) fn new(config: &'a TrainConfig, step: u64) -> Self {
        Self {
            optimizer: &config.optimizer,
            schedule: &config.schedule,
            steps: config.steps,
            step,
        }
    }

    /// The scalars of the step for the head.
    pub(crate) fn of_the_head(&self) -> OptimizerStep {
        self.of(self.optimizer.lr())
    }

    /// The scalars of the step for parameters with a learning rate of their own, before the schedule.
    pub(crate) fn of(&self, lr: f64) -> OptimizerStep {
        let lr = self.schedule.lr(lr, self.step, self.steps);
        match self.optimizer {
            Optimizer::Adam(Adam {
                betas,
                eps,
                weight_decay,
                ..
            }) => OptimizerStep {
                weight_decay: *weight_decay as f32,
                ..self.adam(lr, *betas, *eps)
            },
            Optimizer::AdamW(AdamW {
                betas,
                eps,
                weight_decay,
                ..
            }) => OptimizerStep {
                shrink: (1.0 - lr * weight_decay) as f32,
                ..self.adam(lr, *betas, *eps)
            },
            Optimizer::Sgd(Sgd {
                momentum,
                nesterov,
                weight_decay,
                ..
            }) => OptimizerStep {
                step_size: lr as f32,
                beta1: self.momentum().unwrap_or(*momentum) as f32,
                weight_decay: *weight_decay as f32,
                nesterov: u32::from(*nesterov),
                ..self.adam(lr, [0.0; 2], 0.0)
            },
        }
    }

    /// The scalars of the step for parameters that no weight decay pulls to zero.
    pub(crate) fn without_decay(&self, lr: f64) -> OptimizerStep {
        OptimizerStep {
            weight_decay: 0.0,
            shrink: 1.0,
            ..self.of(lr)
        }
    }

    /// Momentum that the schedule sets.
    fn momentum(&self) -> Option<f64> {
        self.schedule.momentum(self.step, self.steps)
    }

    /// Adam's scalars without weight decay, bias corrections in f64 as torch computes them.
    fn adam(&self, lr: f64, [beta1, beta2]: [f64; 2], eps: f64) -> OptimizerStep {
        let beta1 = self.momentum().unwrap_or(beta1);
        let correction = |beta: f64| 1.0 - libm::pow(beta, self.step as f64);
        OptimizerStep {
            step_size: (lr / correction(beta1)) as f32,
            sqrt_correction2: correction(beta2).sqrt() as f32,
            beta1: beta1 as f32,
            gain1: (1.0 - beta1) as f32,
            beta2: beta2 as f32,
            gain2: (1.0 - beta2) as f32,
            eps: eps as f32,
            weight_decay: 0.0,
            shrink: 1.0,
            nesterov: 0,
        }
    }
}

const CLIP: &str = "optimizer.clip";

/// Clipping of the gradients of all learned parameters by their norm together.
#[derive(Debug)]
pub(crate) struct Clipping {
    max_norm: f32,
    /// The factor, and the sums of squares of segments.
    sums: DeviceVec<f32>,
}

impl Clipping {
    /// Adds the sums to a plan for groups of so many parameters, if gradients are clipped.
    pub(crate) fn plan(
        plan: MemoryPlan,
        held: &Held,
        groups: impl IntoIterator<Item = u64>,
    ) -> MemoryPlan {
        if held.max_norm == 0.0 {
            return plan;
        }
        let groups = groups.into_iter();
        let segments: u64 = groups.map(|floats| floats.div_ceil(SEGMENT as u64)).sum();
        plan.with::<f32>(Purpose::Optimizer, CLIP, 1 + segments)
    }

    /// Takes the sums from the workspace, if gradients are clipped.
    pub(crate) fn new(workspace: &mut Workspace, held: &Held) -> Option<Self> {
        (held.max_norm > 0.0).then(|| Self {
            max_norm: held.max_norm as f32,
            sums: workspace.take(CLIP),
        })
    }

    /// Measures gradients, the first `count` of each vector, and returns the factor that clips them.
    pub(crate) fn measure<'a>(
        &mut self,
        commands: &mut Commands,
        gradients: impl IntoIterator<Item = (&'a DeviceVec<f32>, usize)>,
    ) -> &DeviceVec<f32> {
        let mut segments = 0;
        for (gradients, count) in gradients {
            optimizer::segments(commands, count, gradients, 1 + segments, &mut self.sums);
            segments += count.div_ceil(SEGMENT);
        }
        optimizer::clip(commands, self.max_norm, segments, &mut self.sums);
        &self.sums
    }
}
