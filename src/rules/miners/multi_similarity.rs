//! PML's `MultiSimilarityMiner`: the positives and negatives of an anchor that come close to each other (Wang et al. 2019).

use serde::{Deserialize, Serialize};

use crate::cpu::Distance;
use crate::kernels::select::{Keep, Selection, Side};
use crate::rules::arguments::{Argument, Part};

/// Keeps positives with `s - epsilon` below the similarity of the nearest negative, and negatives with `s + epsilon` above that
/// of the farthest positive; both strictly.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MultiSimilarityMiner {
    /// The tolerance, a difference of cosines: larger keeps more.
    pub epsilon: f64,
}

impl Part for MultiSimilarityMiner {
    const PML: &str = "MultiSimilarityMiner";
    const ARGUMENTS: &[Argument<Self>] = &[Argument::margin("epsilon", |miner| miner.epsilon)];
}

impl Default for MultiSimilarityMiner {
    fn default() -> Self {
        Self { epsilon: 0.1 }
    }
}

impl MultiSimilarityMiner {
    pub(super) fn selection(&self, distance: Distance) -> Selection {
        let close = Side {
            keep: Keep::Close,
            ..Side::ALL
        };
        Selection {
            positives: close,
            negatives: close,
            epsilon: self.epsilon as f32,
            ..Selection::all(distance)
        }
    }
}
