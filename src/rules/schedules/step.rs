//! torch's `StepLR`.

use serde::{Deserialize, Serialize};

use super::Rates;
use crate::rules::arguments::{Argument, Part};

/// Multiplies the learning rate by `gamma` after every `step_size` steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StepLr {
    /// Steps from one change to the next. torch has no default.
    pub step_size: u64,
    /// Factor of each change.
    pub gamma: f64,
}

impl Part for StepLr {
    const PML: &str = "torch.optim.lr_scheduler.StepLR";
    const ARGUMENTS: &[Argument<Self>] = &[
        Argument::between("step_size", [1.0, 1e7], |schedule| {
            schedule.step_size as f64
        }),
        Argument::above("gamma", [0.0, 1.0], |schedule| schedule.gamma),
    ];
}

impl Default for StepLr {
    fn default() -> Self {
        Self {
            step_size: 100,
            gamma: 0.1,
        }
    }
}

impl Rates for StepLr {
    fn lr(&self, lr: f64, done: u64, _steps: u64) -> f64 {
        lr * libm::pow(self.gamma, (done / self.step_size) as f64)
    }
}
