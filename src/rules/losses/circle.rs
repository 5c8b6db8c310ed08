//! PML's `CircleLoss`: pairs far from their optimum weigh more. By cosine similarity alone.

use serde::{Deserialize, Serialize};

use super::terms::{Formula, Terms};
use crate::cpu::Distance;
use crate::kernels::row_loss::Form;
use crate::rules::arguments::{Argument, Part};

/// `log(1 + sum e^(-gamma a_p (s_ap - 1 + m)) sum e^(gamma a_n (s_an - m)))` of each anchor, with the weights
/// `a_p = max(0, 1 + m - s_ap)` and `a_n = max(0, s_an + m)` as constants; averaged over the anchors with a loss above zero (Sun et
/// al. 2020).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CircleLoss {
    /// Tolerance: positives may lie `m` below 1, negatives `m` above 0.
    pub m: f64,
    /// Scale of the exponents: the larger, the more the worst pairs count alone.
    pub gamma: f64,
}

impl Part for CircleLoss {
    const PML: &str = "CircleLoss";
    const ARGUMENTS: &[Argument<Self>] = &[
        Argument::between("m", [-1.0, 1.0], |loss| loss.m),
        Argument::scale("gamma", |loss| loss.gamma),
    ];
}

impl Default for CircleLoss {
    fn default() -> Self {
        Self {
            m: 0.4,
            gamma: 80.0,
        }
    }
}

impl Formula for CircleLoss {
    fn terms(&self, _: Distance) -> Option<Terms> {
        Some(Terms {
            form: Form::Circle,
            scales: [self.gamma; 2],
            margins: [1.0 - self.m, self.m],
            proxies: None,
        })
    }
}
