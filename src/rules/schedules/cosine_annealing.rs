//! torch's `CosineAnnealingLR`, without restarts (Loshchilov and Hutter 2017).

use std::f64::consts::PI;

use serde::{Deserialize, Serialize};

use super::Rates;
use crate::rules::arguments::{Argument, Part};

/// Lowers the learning rate along half a cosine, from its own value to `eta_min` after the last step of the run: torch's `T_max` is
/// the number of steps.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CosineAnnealingLr {
    /// Learning rate at the end, of all groups.
    pub eta_min: f64,
}

impl Part for CosineAnnealingLr {
    const PML: &str = "torch.optim.lr_scheduler.CosineAnnealingLR";
    const ARGUMENTS: &[Argument<Self>] = &[Argument::lr("eta_min", |schedule| schedule.eta_min)];
}

impl Rates for CosineAnnealingLr {
    fn lr(&self, lr: f64, done: u64, steps: u64) -> f64 {
        let turned = PI * done as f64 / steps as f64;
        self.eta_min + (lr - self.eta_min) * (1.0 + libm::cos(turned)) / 2.0
    }
}
