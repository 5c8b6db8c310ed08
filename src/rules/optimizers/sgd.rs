//! torch's `SGD`: plain steps against the gradient, or against its running sum.

use serde::{Deserialize, Serialize};

use crate::rules::arguments::{Argument, Part};

/// Moves by the gradient times the learning rate; with momentum by `b = momentum b + gradient`, and with Nesterov's by
/// `gradient + momentum b`. torch's dampening is 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sgd {
    /// Learning rate of the head; that of proxies and of a learned boundary is the loss's.
    pub lr: f64,
    /// Part of the running sum that the next step keeps; 0 holds no sum, and takes no memory for one.
    pub momentum: f64,
    /// Looks ahead by one step of the momentum, which must be above 0.
    pub nesterov: bool,
    /// L2 penalty, added to the gradient.
    pub weight_decay: f64,
}

impl Part for Sgd {
    const PML: &str = "torch.optim.SGD";
    const ARGUMENTS: &[Argument<Self>] = &[
        Argument::above("lr", [0.0, 10.0], |sgd| sgd.lr),
        Argument::between("momentum", [0.0, 1.0], |sgd| sgd.momentum),
        Argument::between("weight_decay", [0.0, 1.0], |sgd| sgd.weight_decay),
    ];
}

impl Default for Sgd {
    fn default() -> Self {
        Self {
            lr: 1e-3,
            momentum: 0.0,
            nesterov: false,
            weight_decay: 0.0,
        }
    }
}
