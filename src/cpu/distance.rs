//! [`Distance`]: comparison of two unit rows, as a value of their similarity. Margins are differences of such values.

use serde::{Deserialize, Serialize};

/// Measure by which rows are compared. Both measures are larger for nearer rows, so that `s_ap - s_an` has the same sign in both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u32)]
pub enum Distance {
    /// PML's `CosineSimilarity`: the inner product of unit rows, larger is nearer.
    #[default]
    Cosine = 0,
    /// PML's `LpDistance` with its defaults, on unit rows: minus their Euclidean distance.
    L2 = 1,
}

impl Distance {
    /// The names in settings, each with its name in words.
    pub const ALL: [(&str, &str); 2] = [("cosine", "cosine similarity"), ("l2", "L2 distance")];

    /// Value of a similarity: itself, or minus the distance of two unit rows. Ascends with the similarity.
    ///
    /// A distance has the rounding error of its similarity, 1e-7, divided by the distance: that of rows that nearly coincide is
    /// large, as it is in torch's `cdist`.
    pub fn value(self, s: f32) -> f32 {
        match self {
            Self::Cosine => s,
            Self::L2 => -(2.0 - 2.0 * s).max(0.0).sqrt(),
        }
    }

    /// Converts a value of this distance into one of another.
    pub fn turned(self, value: f32, into: Self) -> f32 {
        match (self, into) {
            (Self::Cosine, Self::L2) => into.value(value),
            (Self::L2, Self::Cosine) => 1.0 - value * value / 2.0,
            _ => value,
        }
    }

    /// `d value / d s`; 0 if rows coincide, as in torch.
    pub fn slope(self, s: f32) -> f32 {
        match self {
            Self::Cosine => 1.0,
            Self::L2 if s < 1.0 => 1.0 / -self.value(s),
            Self::L2 => 0.0,
        }
    }

    /// `d value / d s` from the value in place of the similarity.
    #[inline(always)]
    pub fn slope_at(self, value: f32) -> f32 {
        match self {
            Self::Cosine => 1.0,
            Self::L2 if value < 0.0 => -1.0 / value,
            Self::L2 => 0.0,
        }
    }

    /// The least and the largest value between two bounds of PML, which are similarities or distances.
    pub fn range(self, [low, high]: [f64; 2]) -> [f32; 2] {
        match self {
            Self::Cosine => [low as f32, high as f32],
            Self::L2 => [-high as f32, -low as f32],
        }
    }
}
