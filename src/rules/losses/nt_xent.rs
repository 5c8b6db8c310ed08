//! PML's `NTXentLoss`, also called `InfoNCE`: each positive has to stand out among the anchor's negatives.

use serde::{Deserialize, Serialize};

use super::terms::{Formula, Terms};
use crate::cpu::Distance;
use crate::kernels::row_loss::Form;
use crate::rules::arguments::{Argument, Part};

/// `-log(e^(s_ap / t) / (e^(s_ap / t) + sum e^(s_an / t)))` of every positive pair, averaged over them: the anchor's other
/// positives are not in the denominator. By distance `s` is minus the distance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NtXentLoss {
    /// The temperature `t`: the smaller, the more the nearest negatives count alone.
    pub temperature: f64,
}

impl Part for NtXentLoss {
    const PML: &str = "NTXentLoss";
    const ARGUMENTS: &[Argument<Self>] = &[Argument::temperature("temperature", |loss| {
        loss.temperature
    })];
}

impl Default for NtXentLoss {
    fn default() -> Self {
        Self { temperature: 0.07 }
    }
}

impl Formula for NtXentLoss {
    fn terms(&self, _: Distance) -> Option<Terms> {
        Some(Terms {
            form: Form::NtXent,
            scales: [1.0 / self.temperature; 2],
            margins: [0.0; 2],
            proxies: None,
        })
    }
}
