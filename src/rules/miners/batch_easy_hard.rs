//! PML's `BatchEasyHardMiner`: of each anchor one positive and one negative, easy or hard (Xuan et al. 2020).

use serde::{Deserialize, Serialize};

use crate::base::error::{Error, Result};
use crate::cpu::Distance;
use crate::kernels::select::{Keep, Selection, Side};
use crate::rules::arguments::Part;

/// Keeps one positive and one negative of each anchor, each by its own strategy, or all of one of the two; of equals the
/// first.
///
/// If each side keeps one, an anchor that lacks either keeps neither. The anchor's own stored copy is no positive here. PML removes
/// it from a memory after mining, so that its "easy" positives, always those copies, leave no pair.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BatchEasyHardMiner {
    /// Rule for the positive that is kept.
    pub pos_strategy: Strategy,
    /// Rule for the negative that is kept.
    pub neg_strategy: Strategy,
    /// Allowed range of the positive's similarity (of its distance, with `l2`), both bounds inclusive. Without effect for
    /// `all`.
    pub allowed_pos_range: Option<[f64; 2]>,
    /// Allowed range of the negative's similarity or distance, as for the positive's.
    pub allowed_neg_range: Option<[f64; 2]>,
}

/// Rule that keeps one of an anchor's positives, or of its negatives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Strategy {
    /// The farthest positive, the nearest negative.
    Hard,
    /// The farthest positive nearer than the chosen negative, the nearest negative farther than the chosen positive; one
    /// at the same distance is neither.
    Semihard,
    /// The nearest positive, the farthest negative.
    Easy,
    /// All of them.
    All,
}

impl Strategy {
    /// The names in settings, each with its name in lists.
    pub const ALL: [(&str, &str); 4] = [
        ("easy", "easy"),
        ("semihard", "semi-hard"),
        ("hard", "hard"),
        ("all", "all"),
    ];

    fn side(self, range: Option<[f64; 2]>, distance: Distance) -> Side {
        let keep = match self {
            Self::All => return Side::ALL,
            Self::Hard => Keep::Hard,
            Self::Semihard => Keep::Semihard,
            Self::Easy => Keep::Easy,
        };
        Side {
            keep,
            range: range.map_or(Side::ALL.range, |range| distance.range(range)),
        }
    }
}

impl Part for BatchEasyHardMiner {
    const PML: &str = "BatchEasyHardMiner";
}

impl Default for BatchEasyHardMiner {
    fn default() -> Self {
        Self {
            pos_strategy: Strategy::Easy,
            neg_strategy: Strategy::Semihard,
            allowed_pos_range: None,
            allowed_neg_range: None,
        }
    }
}

impl BatchEasyHardMiner {
    pub(super) fn selection(&self, distance: Distance) -> Selection {
        Selection {
            positives: self.pos_strategy.side(self.allowed_pos_range, distance),
            negatives: self.neg_strategy.side(self.allowed_neg_range, distance),
            ..Selection::all(distance)
        }
    }

    /// Refuses strategies that PML refuses, and ranges that hold nothing.
    pub(super) fn check(&self) -> Result<()> {
        let strategies = [self.pos_strategy, self.neg_strategy];
        let semihard = strategies.contains(&Strategy::Semihard);
        if strategies == [Strategy::Semihard; 2] || semihard && strategies.contains(&Strategy::All)
        {
            let refused = "miner.pos_strategy and miner.neg_strategy cannot both be semihard, nor one of them semihard and \
                           the other all: each semihard needs the one that the other side keeps";
            return Err(Error::Config(refused.to_owned()));
        }
        for (key, range) in [
            ("allowed_pos_range", self.allowed_pos_range),
            ("allowed_neg_range", self.allowed_neg_range),
        ] {
            let holds = |[low, high]: [f64; 2]| -4.0 <= low && low <= high && high <= 4.0;
            if let Some(range) = range.filter(|range| !holds(*range)) {
                return Err(Error::Config(format!(
                    "miner.{key} is {range:?}: it must be two bounds between -4 and 4, the lower one first"
                )));
            }
        }
        Ok(())
    }
}
