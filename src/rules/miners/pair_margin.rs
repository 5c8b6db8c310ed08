//! PML's `PairMarginMiner`: positives and negatives beyond a margin of their own.

use serde::{Deserialize, Serialize};

use crate::cpu::Distance;
use crate::kernels::select::{Selection, Side};
use crate::rules::arguments::{Argument, Part};

/// Keeps positives that are farther than `pos_margin` and negatives that are nearer than `neg_margin`, both strictly.
///
/// With `l2` the margins are distances; with `cosine` they are similarities, and positives below `pos_margin` and negatives
/// above `neg_margin` are kept. By distance the defaults are PML's, 0.2 and 0.8; by similarity they are the other way round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PairMarginMiner {
    /// The margin of positives: nearer ones are not kept.
    pub pos_margin: f64,
    /// The margin of negatives: farther ones are not kept.
    pub neg_margin: f64,
}

impl Part for PairMarginMiner {
    const PML: &str = "PairMarginMiner";
    const ARGUMENTS: &[Argument<Self>] = &[
        Argument::margin("pos_margin", |miner| miner.pos_margin),
        Argument::margin("neg_margin", |miner| miner.neg_margin),
    ];
}

impl Default for PairMarginMiner {
    fn default() -> Self {
        Self::of(Distance::default())
    }
}

impl PairMarginMiner {
    /// The default for rows that are compared by `distance`.
    pub(super) fn of(distance: Distance) -> Self {
        let [pos_margin, neg_margin] = match distance {
            Distance::Cosine => [0.8, 0.2],
            Distance::L2 => [0.2, 0.8],
        };
        Self {
            pos_margin,
            neg_margin,
        }
    }

    pub(super) fn selection(&self, distance: Distance) -> Selection {
        let value = |margin: f64| distance.range([margin; 2])[0];
        Selection {
            positives: Side {
                range: [f32::MIN, below(value(self.pos_margin))],
                ..Side::ALL
            },
            negatives: Side {
                range: [-below(-value(self.neg_margin)), f32::MAX],
                ..Side::ALL
            },
            ..Selection::all(distance)
        }
    }
}

/// The next f32 below, past those so small that a GPU may take them for zero.
fn below(margin: f32) -> f32 {
    if margin == 0.0 {
        -f32::MIN_POSITIVE
    } else {
        margin.next_down()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_margins_are_strict() {
        for (distance, pos_margin, neg_margin) in
            [(Distance::Cosine, 0.25, 0.0), (Distance::L2, 0.5, 0.75)]
        {
            let miner = PairMarginMiner {
                pos_margin,
                neg_margin,
            };
            let selection = miner.selection(distance);
            let [_, highest] = selection.positives.range;
            let [lowest, _] = selection.negatives.range;
            let value = |margin: f64| distance.range([margin; 2])[0];
            assert!(highest < value(pos_margin) && highest > value(pos_margin) - 1e-6);
            assert!(lowest > value(neg_margin) && lowest < value(neg_margin) + 1e-6);
        }
    }
}
