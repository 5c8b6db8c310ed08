//! PML's `SupConLoss`: an anchor's positives have to share the probability of being picked among all its pairs.

use serde::{Deserialize, Serialize};

use super::terms::{Formula, Terms};
use crate::cpu::Distance;
use crate::kernels::row_loss::Form;
use crate::rules::arguments::{Argument, Part};

/// Minus the mean over an anchor's positives of `log(e^(s_ap / t) / sum e^(s / t))`, the sum over its positives and negatives;
/// averaged over the anchors with a loss above zero (Khosla et al. 2020). By distance `s` is minus the distance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SupConLoss {
    /// The temperature `t`: the smaller, the more the nearest pairs count alone.
    pub temperature: f64,
}

impl Part for SupConLoss {
    const PML: &str = "SupConLoss";
    const ARGUMENTS: &[Argument<Self>] = &[Argument::temperature("temperature", |loss| {
        loss.temperature
    })];
}

impl Default for SupConLoss {
    fn default() -> Self {
        Self { temperature: 0.1 }
    }
}

impl Formula for SupConLoss {
    fn terms(&self, _: Distance) -> Option<Terms> {
        Some(Terms {
            form: Form::SupCon,
            scales: [1.0 / self.temperature; 2],
            margins: [0.0; 2],
            proxies: None,
        })
    }
}
