//! FaceNet's semi-hard negative (Schroff et al. 2015), as `tensorflow-addons` and `sentence-transformers` choose it. PML has
//! no such miner: its `semihard` is a band of all triplets.

use serde::{Deserialize, Serialize};

use crate::cpu::Distance;
use crate::kernels::select::{Choice, Selection};
use crate::rules::arguments::Part;

/// Chooses one negative for every anchor and positive: the nearest that is strictly farther than the positive, or the farthest of
/// all if there is none; of equals the first reference. It has no arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FacenetSemihardMiner {}

impl Part for FacenetSemihardMiner {
    const PML: &str = "";
}

impl FacenetSemihardMiner {
    pub(super) fn selection(&self, distance: Distance) -> Selection {
        Selection {
            choice: Choice::OneNegative,
            ..Selection::all(distance)
        }
    }
}
