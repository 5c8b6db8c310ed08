//! PML's `ArcFaceLoss`: a classifier with an angular margin between a row's own class and the others.

use serde::{Deserialize, Serialize};

use super::terms::{Formula, PROXY_LR, ProxyStart, ProxyTerms, Terms};
use crate::cpu::Distance;
use crate::kernels::row_loss::Form;
use crate::rules::arguments::{Argument, Part};

/// The cross-entropy of `scale s_c` over classes `c`, averaged over rows; `s_c` is a row's similarity with the proxy of class `c`,
/// and that of its own class, `cos(theta)`, is replaced by `cos(theta + margin)`, or by `cos(theta) - margin sin(margin)` if the
/// angle would pass a half turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ArcFaceLoss {
    /// Degrees that are added to the angle between a row and its own proxy.
    pub margin: f64,
    /// The factor of all similarities.
    pub scale: f64,
    /// Learning rate of the proxies.
    pub proxy_lr: f64,
}

impl Part for ArcFaceLoss {
    const PML: &str = "ArcFaceLoss";
    const ARGUMENTS: &[Argument<Self>] = &[
        Argument::between("margin", [0.0, 90.0], |loss| loss.margin),
        Argument::scale("scale", |loss| loss.scale),
        Argument::lr("proxy_lr", |loss| loss.proxy_lr),
    ];
}

impl Default for ArcFaceLoss {
    fn default() -> Self {
        Self {
            margin: 28.6,
            scale: 64.0,
            proxy_lr: PROXY_LR,
        }
    }
}

impl Formula for ArcFaceLoss {
    fn terms(&self, _: Distance) -> Option<Terms> {
        Some(Terms {
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
        })
    }
}
