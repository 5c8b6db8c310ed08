//! PML's `ProxyAnchorLoss`: each class's proxy is an anchor, and the rows of the batch are its positives and negatives.

use serde::{Deserialize, Serialize};

use super::{ProxyStart, ProxyTerms, Terms};
use crate::kernels::row_loss::Form;

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

impl Default for ProxyAnchorLoss {
    fn default() -> Self {
        Self {
            margin: 0.1,
            alpha: 32.0,
            proxy_lr: super::PROXY_LR,
        }
    }
}

impl ProxyAnchorLoss {
    pub(super) fn terms(&self) -> Terms {
        Terms {
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
        }
    }
}
