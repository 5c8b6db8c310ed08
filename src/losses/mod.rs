//! [`Loss`]: what is minimized over the mined triplets. One formula a file.

mod triplet_margin;

use serde::{Deserialize, Serialize};

pub use triplet_margin::TripletMarginLoss;

/// A loss and its arguments; names and arguments are PML's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case")]
pub enum Loss {
    /// See [`TripletMarginLoss`].
    TripletMargin(TripletMarginLoss),
}

impl Loss {
    /// The names in settings, with the class each one is in PML.
    pub const ALL: [(&str, &str); 1] = [("triplet-margin", "TripletMarginLoss")];
}

impl Default for Loss {
    fn default() -> Self {
        Self::TripletMargin(TripletMarginLoss::default())
    }
}
