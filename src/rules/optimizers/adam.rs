//! torch's `Adam` (Kingma and Ba 2015).

use serde::{Deserialize, Serialize};

use crate::rules::arguments::{Argument, Part};

/// Divides the mean gradient by the root of the mean squared gradient, both with bias correction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Adam {
    /// Learning rate of the head; that of proxies and of a learned boundary is the loss's.
    pub lr: f64,
    /// Decay of the mean gradient and of the mean squared gradient.
    pub betas: [f64; 2],
    /// Added to the root of the mean squared gradient.
    pub eps: f64,
    /// L2 penalty, added to the gradient.
    pub weight_decay: f64,
}

impl Part for Adam {
    const PML: &str = "torch.optim.Adam";
    const ARGUMENTS: &[Argument<Self>] = &[
        Argument::above("lr", [0.0, 10.0], |adam| adam.lr),
        Argument::between("betas", [0.0, 0.999_999], |adam| adam.betas[0]),
        Argument::between("betas", [0.0, 0.999_999], |adam| adam.betas[1]),
        Argument::between("eps", [1e-30, 1.0], |adam| adam.eps),
        Argument::between("weight_decay", [0.0, 1.0], |adam| adam.weight_decay),
    ];
}

impl Default for Adam {
    fn default() -> Self {
        Self {
            lr: 1e-3,
            betas: [0.9, 0.999],
            eps: 1e-8,
            weight_decay: 0.0,
        }
    }
}
