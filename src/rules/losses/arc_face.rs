//! PML's `ArcFaceLoss`: a classifier whose rows have to beat the other classes by a margin of angle.

use serde::{Deserialize, Serialize};

use super::{ProxyStart, ProxyTerms, Terms};
use crate::kernels::row_loss::Form;

/// The cross-entropy of `scale s_c` over classes `c`, averaged over rows, where `s_c` is a row's similarity with the proxy of
/// class `c`, and that of its own class, `cos(theta)`, is replaced by `cos(theta + margin)`: by `cos(theta) - margin
/// sin(margin)` where the angle would pass a half turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ArcFaceLoss {
    /// What the angle to the own proxy is widened by, in degrees.
    pub margin: f64,
    /// The factor of all similarities.
    pub scale: f64,
    /// Learning rate of the proxies.
    pub proxy_lr: f64,
}

impl Default for ArcFaceLoss {
    fn default() -> Self {
        Self {
            margin: 28.6,
            scale: 64.0,
            proxy_lr: super::PROXY_LR,
        }
    }
}

impl ArcFaceLoss {
    pub(super) fn terms(&self) -> Terms {
        Terms {
            form: Form::ArcFace,
            scales: [self.scale; 2],
            margins: [self.margin.to_radians(), 0.0],
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
