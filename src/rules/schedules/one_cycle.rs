//! torch's `OneCycleLR` (Smith and Topin 2018).

use std::f64::consts::PI;

use serde::{Deserialize, Serialize};

use super::Rates;
use crate::rules::arguments::{Argument, Part};

/// Raises the learning rate from `lr / div_factor` to its own value, torch's `max_lr`, in the first `pct_start` of the run's steps,
/// and lowers it to `lr / div_factor / final_div_factor` in the last one, both along half a cosine. The momentum (Adam's first
/// beta) goes the other way, from `max_momentum` to `base_momentum` and back, if `cycle_momentum`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OneCycleLr {
    /// Part of the steps in which the rate rises.
    pub pct_start: f64,
    /// Quotient of the highest rate and the first.
    pub div_factor: f64,
    /// Quotient of the first rate and the last.
    pub final_div_factor: f64,
    /// Sets the momentum, too; that of the optimizer is then not used.
    pub cycle_momentum: bool,
    /// Momentum at the highest rate.
    pub base_momentum: f64,
    /// Momentum in the first and in the last step.
    pub max_momentum: f64,
}

impl Part for OneCycleLr {
    const PML: &str = "torch.optim.lr_scheduler.OneCycleLR";
    const ARGUMENTS: &[Argument<Self>] = &[
        Argument::between("pct_start", [0.0, 1.0], |cycle| cycle.pct_start),
        Argument::between("div_factor", [1.0, 1e6], |cycle| cycle.div_factor),
        Argument::between("final_div_factor", [1.0, 1e9], |cycle| {
            cycle.final_div_factor
        }),
        Argument::between("base_momentum", [0.0, 0.999_999], |cycle| {
            cycle.base_momentum
        }),
        Argument::between("max_momentum", [0.0, 0.999_999], |cycle| cycle.max_momentum),
    ];
}

impl Default for OneCycleLr {
    fn default() -> Self {
        Self {
            pct_start: 0.3,
            div_factor: 25.0,
            final_div_factor: 1e4,
            cycle_momentum: true,
            base_momentum: 0.85,
            max_momentum: 0.95,
        }
    }
}

impl OneCycleLr {
    /// The number of done steps at which the rate is highest; a fraction, and below 0 for a run that only falls.
    pub(super) fn rise(&self, steps: u64) -> f64 {
        self.pct_start * steps as f64 - 1.0
    }

    /// A value that is `first` before any step, `middle` at the highest rate, and `last` in the last step.
    fn between(&self, [first, middle, last]: [f64; 3], done: u64, steps: u64) -> f64 {
        let (rise, end) = (self.rise(steps), (steps - 1) as f64);
        let done = (done as f64).min(end);
        let anneal =
            |from: f64, to: f64, part: f64| to + (from - to) / 2.0 * (1.0 + libm::cos(PI * part));
        match done <= rise {
            true => anneal(first, middle, done / rise),
            false => anneal(middle, last, (done - rise) / (end - rise)),
        }
    }
}

impl Rates for OneCycleLr {
    fn lr(&self, lr: f64, done: u64, steps: u64) -> f64 {
        let first = lr / self.div_factor;
        self.between([first, lr, first / self.final_div_factor], done, steps)
    }

    fn momentum(&self, done: u64, steps: u64) -> Option<f64> {
        let (base, max) = (self.base_momentum, self.max_momentum);
        self.cycle_momentum
            .then(|| self.between([max, base, max], done, steps))
    }
}
