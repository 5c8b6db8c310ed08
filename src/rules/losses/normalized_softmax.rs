//! PML's `NormalizedSoftmaxLoss`: a classifier on unit rows.

use serde::{Deserialize, Serialize};

use super::{ProxyStart, ProxyTerms, Terms};
use crate::kernels::row_loss::Form;

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

impl Default for NormalizedSoftmaxLoss {
    fn default() -> Self {
        Self {
            temperature: 0.05,
            proxy_lr: super::PROXY_LR,
        }
    }
}

impl NormalizedSoftmaxLoss {
    pub(super) fn terms(&self) -> Terms {
        Terms {
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
        }
    }
}
