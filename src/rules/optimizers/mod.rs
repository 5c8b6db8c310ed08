//! [`Optimizer`]: the rule by which learned parameters follow their gradients. One rule a file, with torch's arguments.

mod adam;
mod adam_w;
mod sgd;

use serde::{Deserialize, Serialize};

pub use adam::Adam;
pub use adam_w::AdamW;
pub use sgd::Sgd;

use crate::base::error::{Error, Result};
use crate::rules::arguments::{self, Facts};

/// An optimizer and its arguments; names and arguments are torch's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case")]
pub enum Optimizer {
    /// See [`Adam`].
    Adam(Adam),
    /// See [`AdamW`].
    #[serde(rename = "adamw")]
    AdamW(AdamW),
    /// See [`Sgd`].
    Sgd(Sgd),
}

impl Optimizer {
    /// The names in settings, each with its name in lists.
    pub const ALL: [(&str, &str); 3] = [
        ("adam", "Adam"),
        ("adamw", "AdamW: decoupled weight decay"),
        ("sgd", "SGD: momentum, Nesterov"),
    ];

    fn own(&self) -> &dyn Facts {
        match self {
            Self::Adam(adam) => adam,
            Self::AdamW(adam) => adam,
            Self::Sgd(sgd) => sgd,
        }
    }

    /// The learning rate of the head, before its schedule.
    pub fn lr(&self) -> f64 {
        match self {
            Self::Adam(adam) => adam.lr,
            Self::AdamW(adam) => adam.lr,
            Self::Sgd(sgd) => sgd.lr,
        }
    }

    /// Its class in torch.
    pub(crate) fn class(&self) -> &'static str {
        self.own().pml().unwrap_or_default()
    }

    /// Checks every argument against its range.
    ///
    /// # Errors
    /// [`Error::Config`] for the first that is out of it, with the range, and for Nesterov's momentum without momentum.
    pub(crate) fn check(&self) -> Result<()> {
        arguments::check("optimizer", self.own())?;
        match self {
            Self::Sgd(sgd) if sgd.nesterov && sgd.momentum == 0.0 => Err(Error::Config(
                "optimizer.nesterov is true: it needs a momentum, so set optimizer.momentum above 0, such as 0.9".to_owned(),
            )),
            _ => Ok(()),
        }
    }
}

impl Default for Optimizer {
    fn default() -> Self {
        Self::Adam(Adam::default())
    }
}
