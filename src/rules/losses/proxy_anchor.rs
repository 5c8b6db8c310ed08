//! PML's `ProxyAnchorLoss`: each class's proxy is an anchor, and the rows of the batch are its positives and negatives.

use serde::{Deserialize, Serialize};

use super::terms::{Formula, PROXY_LR, ProxyStart, ProxyTerms, Terms};
use crate::cpu::Distance;
use crate::kernels::row_loss::Form;
use crate::rules::arguments::{Argument, Part};

/// `log(1 + sum over rows of the class e^(-alpha (s - margin)))`, averaged over the proxies with such rows, plus `log(1 + sum
/// over other rows e^(alpha (s + margin)))`, averaged over all proxies. `s` is the similarity of a row with the proxy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProxyAnchorLoss {
    /// Similarity that rows of the class have to exceed; the other rows have to stay below minus this.
    pub margin: f64,
    /// The factor of all similarities: the larger, the more the worst rows count alone.
    pub alpha: f64,
    /// Learning rate of the proxies.
    pub proxy_lr: f64,
}

impl Part for ProxyAnchorLoss {
    const PML: &str = "ProxyAnchorLoss";
    const ARGUMENTS: &[Argument<Self>] = &[
        Argument::margin("margin", |loss| loss.margin),
        Argument::scale("alpha", |loss| loss.alpha),
        Argument::lr("proxy_lr", |loss| loss.proxy_lr),
    ];
}

impl Default for ProxyAnchorLoss {
    fn default() -> Self {
        Self {
            margin: 0.1,
            alpha: 32.0,
            proxy_lr: PROXY_LR,
        }
    }
}

impl Formula for ProxyAnchorLoss {
    fn terms(&self, _: Distance) -> Option<Terms> {
        Some(Terms {
            form: Form::ProxyAnchor,
            scales: [self.alpha; 2],
            margins: [self.margin, -self.margin],
            proxies: Some(ProxyTerms {
                per_class: 1,
                gamma: 0.0,
                are_rows: true,
                lr: self.proxy_lr,
                start: ProxyStart::KaimingNormal,
            }),
        })
    }
}
