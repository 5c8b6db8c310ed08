//! [`Activation`] and [`Norm`]: what follows the linear map in each hidden layer of a head.

use serde::{Deserialize, Serialize};

/// Function of each output of a hidden layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activation {
    /// `torch.nn.ReLU`: `max(x, 0)`.
    #[default]
    Relu,
    /// `torch.nn.GELU` with the error function: `x P(x)`, with the distribution `P` of the standard normal.
    Gelu,
}

impl Activation {
    /// The names in settings, each with its name in words.
    pub const ALL: [(&str, &str); 2] = [("relu", "ReLU"), ("gelu", "GELU")];

    /// The name in settings.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].0
    }

    /// The class in `torch.nn`, which is its name in words too.
    pub fn class(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

/// Normalization of the outputs of a hidden layer, before its activation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Norm {
    /// None.
    #[default]
    None,
    /// `torch.nn.LayerNorm` with its defaults: over the outputs of each row.
    LayerNorm,
    /// `torch.nn.BatchNorm1d` with its defaults: over the rows of a batch while training, by running means and variances elsewhere.
    BatchNorm,
}

impl Norm {
    /// The names in settings, each with its name in words.
    pub const ALL: [(&str, &str); 3] = [
        ("none", "none"),
        ("layer-norm", "layer norm"),
        ("batch-norm", "batch norm"),
    ];

    /// The name in settings.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].0
    }

    /// The class in `torch.nn`; empty for none.
    pub fn class(self) -> &'static str {
        ["", "LayerNorm", "BatchNorm1d"][self as usize]
    }
}
