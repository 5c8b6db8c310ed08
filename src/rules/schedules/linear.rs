//! torch's `LinearLR`: a warm-up.

use serde::{Deserialize, Serialize};

use super::Rates;
use crate::rules::arguments::{Argument, Part};

/// Multiplies the learning rate by a factor that goes from `start_factor` to `end_factor` in `total_iters` steps, and stays there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LinearLr {
    /// Factor of the first step.
    pub start_factor: f64,
    /// Factor after `total_iters` steps.
    pub end_factor: f64,
    /// Steps of the way from one factor to the other.
    pub total_iters: u64,
}

impl Part for LinearLr {
    const PML: &str = "torch.optim.lr_scheduler.LinearLR";
    const ARGUMENTS: &[Argument<Self>] = &[
        Argument::above("start_factor", [0.0, 1.0], |schedule| schedule.start_factor),
        Argument::between("end_factor", [0.0, 1.0], |schedule| schedule.end_factor),
        Argument::between("total_iters", [1.0, 1e7], |schedule| {
            schedule.total_iters as f64
        }),
    ];
}

impl Default for LinearLr {
    fn default() -> Self {
        Self {
            start_factor: 1.0 / 3.0,
            end_factor: 1.0,
            total_iters: 5,
        }
    }
}

impl Rates for LinearLr {
    fn lr(&self, lr: f64, done: u64, _steps: u64) -> f64 {
        let part = done.min(self.total_iters) as f64 / self.total_iters as f64;
        lr * (self.start_factor + (self.end_factor - self.start_factor) * part)
    }
}
