//! PML's `ProxyNCALoss`: NCA with one learned proxy for each class.

use serde::{Deserialize, Serialize};

use super::{ProxyStart, ProxyTerms, Terms};
use crate::kernels::row_loss::Form;

/// `-log(e^(k s_y) / sum over classes e^(k s_c))` of every row, averaged; `s_c` is its similarity with the proxy of class `c`, and
/// `y` its own class. By distance `s` is minus the distance. PML's own default, squared distance, is this by cosine with twice its
/// `softmax_scale`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProxyNcaLoss {
    /// The factor `k`: the larger, the more the nearest proxies count alone.
    pub softmax_scale: f64,
    /// Learning rate of the proxies.
    pub proxy_lr: f64,
}

impl Default for ProxyNcaLoss {
    /// PML's default of 1 suits rows of any length; similarities of unit rows differ by 2 at most.
    fn default() -> Self {
        Self {
            softmax_scale: 16.0,
            proxy_lr: super::PROXY_LR,
        }
    }
}

impl ProxyNcaLoss {
    pub(super) fn terms(&self) -> Terms {
        Terms {
            form: Form::Softmax,
            scales: [self.softmax_scale; 2],
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
