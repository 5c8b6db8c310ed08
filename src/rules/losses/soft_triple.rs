//! PML's `SoftTripleLoss`: a classifier with several proxies for each class, of which the nearest count most.

use serde::{Deserialize, Serialize};

use super::terms::{Formula, PROXY_LR_OF_SEVERAL, ProxyStart, ProxyTerms, Terms};
use crate::cpu::Distance;
use crate::kernels::row_loss::Form;
use crate::rules::arguments::{Argument, Part};

/// The cross-entropy of `la S_c` over classes `c`, averaged over rows, with `margin` taken off that of the own class. `S_c` is the
/// mean of a row's similarities with the `centers_per_class` proxies of the class, weighted by their softmax over `gamma`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SoftTripleLoss {
    /// Proxies of each class.
    pub centers_per_class: usize,
    /// The factor of all similarities.
    pub la: f64,
    /// The temperature of the softmax over the proxies of a class: the smaller, the more the nearest counts alone.
    pub gamma: f64,
    /// Margin that is subtracted from a row's similarity with its own class.
    pub margin: f64,
    /// Learning rate of the proxies.
    pub proxy_lr: f64,
}

impl Part for SoftTripleLoss {
    const PML: &str = "SoftTripleLoss";
    const ARGUMENTS: &[Argument<Self>] = &[
        Argument::per_class("centers_per_class", |loss| loss.centers_per_class as f64),
        Argument::scale("la", |loss| loss.la),
        Argument::temperature("gamma", |loss| loss.gamma),
        Argument::margin("margin", |loss| loss.margin),
        Argument::lr("proxy_lr", |loss| loss.proxy_lr),
    ];
}

impl Default for SoftTripleLoss {
    fn default() -> Self {
        Self {
            centers_per_class: 10,
            la: 20.0,
            gamma: 0.1,
            margin: 0.01,
            proxy_lr: PROXY_LR_OF_SEVERAL,
        }
    }
}

impl Formula for SoftTripleLoss {
    fn terms(&self, _: Distance) -> Option<Terms> {
        Some(Terms {
            form: Form::Softmax,
            scales: [self.la; 2],
            margins: [self.margin, 0.0],
            proxies: Some(ProxyTerms {
                per_class: self.centers_per_class,
                gamma: 1.0 / self.gamma,
                are_rows: false,
                lr: self.proxy_lr,
                start: ProxyStart::KaimingUniform,
            }),
        })
    }
}
