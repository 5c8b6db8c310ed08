//! PML's `SubCenterArcFaceLoss`: `ArcFace` with several proxies for each class, of which the nearest counts.

use serde::{Deserialize, Serialize};

use super::terms::{Formula, PROXY_LR_OF_SEVERAL, ProxyStart, ProxyTerms, Terms};
use crate::cpu::Distance;
use crate::kernels::row_loss::Form;
use crate::rules::arguments::{Argument, Part};

/// [`super::ArcFaceLoss`] with `sub_centers` proxies a class; a row's similarity with the class is that with the nearest of them: a
/// class may have several clusters, and noisy rows get one of their own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SubCenterArcFaceLoss {
    /// Degrees that are added to the angle between a row and its own proxy.
    pub margin: f64,
    /// The factor of all similarities.
    pub scale: f64,
    /// Proxies of each class.
    pub sub_centers: usize,
    /// Learning rate of the proxies.
    pub proxy_lr: f64,
}

impl Part for SubCenterArcFaceLoss {
    const PML: &str = "SubCenterArcFaceLoss";
    const ARGUMENTS: &[Argument<Self>] = &[
        Argument::between("margin", [0.0, 90.0], |loss| loss.margin),
        Argument::scale("scale", |loss| loss.scale),
        Argument::per_class("sub_centers", |loss| loss.sub_centers as f64),
        Argument::lr("proxy_lr", |loss| loss.proxy_lr),
    ];
}

impl Default for SubCenterArcFaceLoss {
    fn default() -> Self {
        Self {
            margin: 28.6,
            scale: 64.0,
            sub_centers: 3,
            proxy_lr: PROXY_LR_OF_SEVERAL,
        }
    }
}

impl Formula for SubCenterArcFaceLoss {
    fn terms(&self, _: Distance) -> Option<Terms> {
        Some(Terms {
            form: Form::ArcFace,
            scales: [self.scale; 2],
            margins: [self.margin.to_radians(), 0.0],
            proxies: Some(ProxyTerms {
                per_class: self.sub_centers,
                gamma: 0.0,
                are_rows: false,
                lr: self.proxy_lr,
                start: ProxyStart::Normal,
            }),
        })
    }
}
