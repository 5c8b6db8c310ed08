//! [`Activation`]: the function after each hidden layer of a head.

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
