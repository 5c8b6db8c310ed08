//! PML's `SubCenterArcFaceLoss`: `ArcFace` with several proxies for each class, of which the nearest counts.

use serde::{Deserialize, Serialize};

use super::{ProxyStart, ProxyTerms, Terms};
use crate::kernels::row_loss::Form;

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

impl Default for SubCenterArcFaceLoss {
    fn default() -> Self {
        Self {
            margin: 28.6,
            scale: 64.0,
            sub_centers: 3,
            proxy_lr: super::PROXY_LR_OF_SEVERAL,
        }
    }
}

impl SubCenterArcFaceLoss {
    pub(super) fn terms(&self) -> Terms {
        Terms {
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
        }
    }
}
