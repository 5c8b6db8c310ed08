//! PML's `CosFaceLoss`: a classifier with a margin of similarity between a row's own class and the others.

use serde::{Deserialize, Serialize};

use super::terms::{Formula, PROXY_LR, ProxyStart, ProxyTerms, Terms};
use crate::cpu::Distance;
use crate::kernels::row_loss::Form;
use crate::rules::arguments::{Argument, Part};

/// `-log(e^(scale (s_y - margin)) / (e^(scale (s_y - margin)) + sum over other classes e^(scale s_c)))` of every row, averaged;
/// `s_c` is its similarity with the proxy of class `c`, and `y` its own class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CosFaceLoss {
    /// Margin that is subtracted from a row's similarity with its own proxy.
    pub margin: f64,
    /// The factor of all similarities.
    pub scale: f64,
    /// Learning rate of the proxies.
    pub proxy_lr: f64,
}

impl Part for CosFaceLoss {
    const PML: &str = "CosFaceLoss";
    const ARGUMENTS: &[Argument<Self>] = &[
        Argument::margin("margin", |loss| loss.margin),
        Argument::scale("scale", |loss| loss.scale),
        Argument::lr("proxy_lr", |loss| loss.proxy_lr),
    ];
}

impl Default for CosFaceLoss {
    fn default() -> Self {
        Self {
            margin: 0.35,
            scale: 64.0,
            proxy_lr: PROXY_LR,
        }
    }
}

impl Formula for CosFaceLoss {
    fn terms(&self, _: Distance) -> Option<Terms> {
        Some(Terms {
            form: Form::Softmax,
            scales: [self.scale; 2],
            margins: [self.margin, 0.0],
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
