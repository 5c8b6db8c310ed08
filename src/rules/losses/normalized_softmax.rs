//! PML's `NormalizedSoftmaxLoss`: a classifier on unit rows.

use serde::{Deserialize, Serialize};

use super::terms::{Formula, PROXY_LR, ProxyStart, ProxyTerms, Terms};
use crate::cpu::Distance;
use crate::kernels::row_loss::Form;
use crate::rules::arguments::{Argument, Part};

/// `-log(e^(s_y / t) / sum over classes e^(s_c / t))` of every row, averaged; `s_c` is its similarity with the proxy of class `c`,
/// and `y` its own class: the cross-entropy of a linear classifier whose weights have unit length.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NormalizedSoftmaxLoss {
    /// The temperature `t`: the smaller, the more the nearest proxies count alone.
    pub temperature: f64,
    /// Learning rate of the proxies.
    pub proxy_lr: f64,
}

impl Part for NormalizedSoftmaxLoss {
    const PML: &str = "NormalizedSoftmaxLoss";
    // It always compares by cosine.
    const PML_TAKES_DISTANCE: bool = false;
    const ARGUMENTS: &[Argument<Self>] = &[
        Argument::temperature("temperature", |loss| loss.temperature),
        Argument::lr("proxy_lr", |loss| loss.proxy_lr),
    ];
}

impl Default for NormalizedSoftmaxLoss {
    fn default() -> Self {
        Self {
            temperature: 0.05,
            proxy_lr: PROXY_LR,
        }
    }
}

impl Formula for NormalizedSoftmaxLoss {
    fn terms(&self, _: Distance) -> Option<Terms> {
        Some(Terms {
            form: Form::Softmax,
            scales: [1.0 / self.temperature; 2],
            margins: [0.0; 2],
            proxies: Some(ProxyTerms {
                per_class: 1,
                gamma: 0.0,
                are_rows: false,
                lr: self.proxy_lr,
                start: ProxyStart::Normal,
            }),
        })
    }
}
