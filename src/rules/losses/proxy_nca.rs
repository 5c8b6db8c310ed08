//! PML's `ProxyNCALoss`: NCA with one learned proxy for each class.

use serde::{Deserialize, Serialize};

use super::terms::{Formula, PROXY_LR, ProxyStart, ProxyTerms, Terms};
use crate::cpu::Distance;
use crate::kernels::row_loss::Form;
use crate::rules::arguments::{Argument, Part};

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

impl Part for ProxyNcaLoss {
    const PML: &str = "ProxyNCALoss";
    const ARGUMENTS: &[Argument<Self>] = &[
        Argument::scale("softmax_scale", |loss| loss.softmax_scale),
        Argument::lr("proxy_lr", |loss| loss.proxy_lr),
    ];
}

impl Default for ProxyNcaLoss {
    /// PML's default of 1 suits rows of any length; similarities of unit rows differ by 2 at most.
    fn default() -> Self {
        Self {
            softmax_scale: 16.0,
            proxy_lr: PROXY_LR,
        }
    }
}

impl Formula for ProxyNcaLoss {
    fn terms(&self, _: Distance) -> Option<Terms> {
        Some(Terms {
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
        })
    }
}
