//! PML's `TripletMarginMiner`: all triplets whose `s_ap - s_an` lies in a band.

use serde::{Deserialize, Serialize};

use crate::kernels::triplet_margin::Kind;
use crate::rules::arguments::{Argument, Part};

/// Keeps every triplet whose `s_ap - s_an` lies in a band; bounds are inclusive above, as in PML.
///
/// `semihard` is the whole band `0 < s_ap - s_an <= margin`, not FaceNet's one negative per positive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TripletMarginMiner {
    /// The upper bound of the band, a difference of cosines or distances.
    pub margin: f64,
    /// The part of the band that is kept.
    pub type_of_triplets: TypeOfTriplets,
}

/// Band of triplets that is kept; `tm` is `s_ap - s_an`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TypeOfTriplets {
    /// `tm <= margin`.
    All,
    /// `tm > margin`.
    Easy,
    /// `0 < tm <= margin`.
    Semihard,
    /// `tm <= margin` and `tm <= 0`.
    Hard,
}

impl TypeOfTriplets {
    /// The names in settings, each with its name in lists.
    pub const ALL: [(&str, &str); 4] = [
        ("semihard", "semi-hard"),
        ("all", "all within the margin"),
        ("hard", "hard"),
        ("easy", "easy"),
    ];
}

impl Part for TripletMarginMiner {
    const PML: &str = "TripletMarginMiner";
    const ARGUMENTS: &[Argument<Self>] = &[Argument::margin("margin", |miner| miner.margin)];
}

impl Default for TripletMarginMiner {
    fn default() -> Self {
        Self {
            margin: 0.2,
            type_of_triplets: TypeOfTriplets::Semihard,
        }
    }
}

impl TripletMarginMiner {
    pub(super) fn band(&self) -> (Kind, f32) {
        let kind = match self.type_of_triplets {
            TypeOfTriplets::All => Kind::All,
            TypeOfTriplets::Easy => Kind::Easy,
            TypeOfTriplets::Semihard => Kind::Semihard,
            TypeOfTriplets::Hard => Kind::Hard,
        };
        (kind, self.margin as f32)
    }
}
