//! [`Schedule`]: learning rates along the steps of a run. One schedule a file, with the arguments of `torch.optim.lr_scheduler`.
//!
//! Every group of parameters (head, proxies, boundary) follows the schedule from its own learning rate.

mod constant;
mod cosine_annealing;
mod linear;
mod one_cycle;
mod step;

use serde::{Deserialize, Serialize};

pub use constant::Constant;
pub use cosine_annealing::CosineAnnealingLr;
pub use linear::LinearLr;
pub use one_cycle::OneCycleLr;
pub use step::StepLr;

use crate::base::error::{Error, Result};
use crate::rules::arguments::{self, Facts};

/// A schedule and its arguments; names and arguments are torch's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case")]
pub enum Schedule {
    /// See [`Constant`].
    Constant(Constant),
    /// See [`CosineAnnealingLr`].
    CosineAnnealing(CosineAnnealingLr),
    /// See [`OneCycleLr`].
    OneCycle(OneCycleLr),
    /// See [`LinearLr`].
    Linear(LinearLr),
    /// See [`StepLr`].
    Step(StepLr),
}

/// A schedule with arguments of its own.
trait Rates: Facts {
    /// The learning rate after `done` of the run's `steps`, for parameters whose own is `lr`.
    fn lr(&self, lr: f64, done: u64, steps: u64) -> f64;

    /// The momentum after `done` of the run's `steps`, if the schedule sets it.
    fn momentum(&self, _done: u64, _steps: u64) -> Option<f64> {
        None
    }
}

impl Schedule {
    /// The names in settings, each with its name in lists.
    pub const ALL: [(&str, &str); 5] = [
        ("constant", "constant"),
        ("cosine-annealing", "cosine: down to the last step"),
        ("one-cycle", "one cycle: up, then down"),
        ("linear", "linear warm-up"),
        ("step", "steps down"),
    ];

    fn own(&self) -> &dyn Rates {
        match self {
            Self::Constant(schedule) => schedule,
            Self::CosineAnnealing(schedule) => schedule,
            Self::OneCycle(schedule) => schedule,
            Self::Linear(schedule) => schedule,
            Self::Step(schedule) => schedule,
        }
    }

    /// Its class in torch; empty if there is none.
    pub(crate) fn class(&self) -> &'static str {
        self.own().pml().unwrap_or_default()
    }

    /// The learning rate of step `step`, counted from 1, of a run's `steps`, for parameters whose own is `lr`.
    pub(crate) fn lr(&self, lr: f64, step: u64, steps: u64) -> f64 {
        self.own().lr(lr, step - 1, steps)
    }

    /// The momentum of step `step`, counted from 1, if the schedule sets it: that of SGD, or Adam's first beta.
    pub(crate) fn momentum(&self, step: u64, steps: u64) -> Option<f64> {
        self.own().momentum(step - 1, steps)
    }

    /// Tells if the rates depend on the number of steps of the run, so that a finished run has no next step.
    pub(crate) fn ends_with_the_run(&self) -> bool {
        matches!(self, Self::CosineAnnealing(_) | Self::OneCycle(_))
    }

    /// Checks every argument against its range, for a run of `steps` steps.
    ///
    /// # Errors
    /// [`Error::Config`] for the first that is out of it, with the range.
    pub(crate) fn check(&self, steps: u64) -> Result<()> {
        arguments::check("schedule", self.own())?;
        match self {
            // torch divides by the length of the rise, which is then 0.
            Self::OneCycle(cycle) if cycle.rise(steps) == 0.0 => Err(Error::Config(format!(
                "schedule.pct_start is {} of {steps} steps: the rate would rise in no step, so raise it or set it to 0",
                cycle.pct_start
            ))),
            _ => Ok(()),
        }
    }
}

impl Default for Schedule {
    fn default() -> Self {
        Self::Constant(Constant {})
    }
}
