//! PML's `BatchHardMiner`: of each anchor the farthest positive and the nearest negative (Hermans et al. 2017).

use serde::{Deserialize, Serialize};

use crate::cpu::Distance;
use crate::kernels::select::{Keep, Selection, Side};
use crate::rules::arguments::Part;

/// Keeps one triplet of each anchor that has both: its farthest positive and its nearest negative, of equal ones the
/// first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchHardMiner {}

impl Part for BatchHardMiner {
    const PML: &str = "BatchHardMiner";
}

impl BatchHardMiner {
    pub(super) fn selection(&self, distance: Distance) -> Selection {
        let hard = Side {
            keep: Keep::Hard,
            ..Side::ALL
        };
        Selection {
            positives: hard,
            negatives: hard,
            ..Selection::all(distance)
        }
    }
}
