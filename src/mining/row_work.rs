//! What becomes of the pairs that a miner keeps? [`RowWork`], by the rule of a run.

use crate::kernels::row_loss::Multiplicity;
use crate::kernels::select::{Choice, Selection};
use crate::rules::mining_rule::{Cost, MiningRule};

/// Use of the kept pairs in a pass by rows: it decides which buffers there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowWork {
    /// A loss over all their triplets.
    #[default]
    Triplets,
    /// A loss over triplets that are drawn.
    DrawnTriplets,
    /// A loss over pairs: each row is reduced, then every pair gets its slope.
    Pairs,
    /// A loss over pairs; a pair's weight is the number of triplets that contain it.
    PairsOfTriplets,
    /// A loss over pairs; a pair's weight is the number of mined triplets that contain it.
    MinedPairs,
    /// A loss over pairs; a pair's weight is the number of drawn triplets that contain it.
    DrawnPairs,
}

impl RowWork {
    /// Use of the kept pairs under the rule of a run.
    pub(crate) fn of(rule: &MiningRule) -> Self {
        let MiningRule::Rows(rule) = rule else {
            return Self::Triplets;
        };
        let own = match &rule.cost {
            Cost::Triplets(_) => None,
            Cost::Pairs(cost) => Some((cost.times, &rule.selection)),
        };
        let weighs = rule.rows_mined.as_ref();
        let weighs = weighs.map(|mined| (mined.cost.times, &mined.selection));
        let draws = |selection: &Selection| matches!(selection.choice, Choice::Drawn(_));
        let mined = weighs.filter(|(times, _)| *times == Multiplicity::Mined);
        match mined.or(own) {
            None if draws(&rule.selection) => Self::DrawnTriplets,
            None => Self::Triplets,
            Some((Multiplicity::Once, _)) => Self::Pairs,
            Some((Multiplicity::Crossed, _)) => Self::PairsOfTriplets,
            Some((Multiplicity::Mined, selection)) if draws(selection) => Self::DrawnPairs,
            Some((Multiplicity::Mined, _)) => Self::MinedPairs,
        }
    }

    /// Tells if triplets are computed one by one.
    pub(super) fn is_of_triplets(self) -> bool {
        matches!(self, Self::Triplets | Self::DrawnTriplets)
    }

    /// Tells if the mined triplets that contain each pair are counted.
    pub(super) fn counts_pairs(self) -> bool {
        matches!(self, Self::MinedPairs | Self::DrawnPairs)
    }

    /// Tells if triplets are drawn.
    pub(crate) fn draws(self) -> bool {
        matches!(self, Self::DrawnTriplets | Self::DrawnPairs)
    }
}
