//! [`Layers`]: the parts of a head beside the widths of its layers.

use serde::{Deserialize, Serialize};

use crate::cpu::{Activation, Norm};

/// Parts of a head beside the widths of its layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Layers {
    /// Normalization of each hidden layer, before its activation.
    pub norm: Norm,
    /// Function after each hidden layer.
    pub activation: Activation,
    /// Linear map of the input, without a bias, that is added to the output; of a head with hidden layers.
    pub skip: bool,
}
