//! PML's `NCALoss`: neighbourhood components analysis, from the probability that a row drawn by nearness has the anchor's class.

use serde::{Deserialize, Serialize};

use super::terms::{Formula, Terms};
use crate::cpu::Distance;
use crate::kernels::row_loss::Form;
use crate::rules::arguments::{Argument, Part};

/// `-log(sum over positives e^(k s_ap) / sum over all others e^(k s_aj))` of every row with a positive, averaged over them. By
/// distance `s` is minus the distance. PML's own default, squared distance, is this by cosine with twice its `softmax_scale`.
/// With a memory a row's own stored copy is left out; PML counts it as a positive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NcaLoss {
    /// The factor `k`: the larger, the more the nearest rows count alone.
    pub softmax_scale: f64,
}

impl Part for NcaLoss {
    const PML: &str = "NCALoss";
    const ARGUMENTS: &[Argument<Self>] =
        &[Argument::scale("softmax_scale", |loss| loss.softmax_scale)];
}

impl Default for NcaLoss {
    /// PML's default of 1 suits rows of any length; similarities of unit rows differ by 2 at most.
    fn default() -> Self {
        Self {
            softmax_scale: 16.0,
        }
    }
}

impl Formula for NcaLoss {
    fn terms(&self, _: Distance) -> Option<Terms> {
        Some(Terms {
            form: Form::Softmax,
            scales: [self.softmax_scale; 2],
            margins: [0.0; 2],
            proxies: None,
        })
    }
}
