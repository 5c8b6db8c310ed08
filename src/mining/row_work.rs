//! What becomes of the pairs that a miner keeps? [`RowWork`], by the rule of a run.

use crate::base::error::{Error, Result};
use crate::kernels::MOST_STEPS;
use crate::kernels::row_loss::Multiplicity;
use crate::kernels::select::{Choice, Selection};
use crate::kernels::triplet_loss;
use crate::rules::mining_rule::{Cost, MiningRule};

/// The most references of a row.
const MOST_REFERENCES: usize = 1 << 20;
/// The most references if triplets of a row are counted: half of them times the other half stays below 2^32.
const MOST_OF_TRIPLETS: usize = (1 << 17) - 1;
/// The most triplets that are drawn for a row: each is compared with all references in one loop.
const MOST_DRAWN: usize = MOST_STEPS;
/// The most windows of references that a row is compared with.
const MOST_WINDOWS: usize = 64;

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

    /// Checks that a row can be compared with this many references of this many columns.
    ///
    /// # Errors
    /// [`Error::Config`], with the numbers.
    pub(crate) fn check(self, dim: usize, references: usize, swap: bool) -> Result<()> {
        let most = match self {
            Self::Triplets => MOST_REFERENCES.min(triplet_loss::window(dim, swap) * MOST_WINDOWS),
            Self::Pairs | Self::DrawnTriplets | Self::DrawnPairs => MOST_REFERENCES,
            Self::PairsOfTriplets | Self::MinedPairs => MOST_OF_TRIPLETS,
        };
        if references > most {
            let how = if swap { " and swap" } else { "" };
            return Err(Error::Config(format!(
                "this miner and loss{how} look at {most} references of {dim} columns at most, here are {references}: use \
                 fewer, or the triplet-margin miner with the plain loss, which counts any number"
            )));
        }
        if swap && dim > 2048 {
            return Err(Error::Config(format!(
                "swap compares references of 2048 columns at most, these have {dim}: use fewer, or leave swap out"
            )));
        }
        Ok(())
    }

    /// Checks that as many triplets can be drawn for a row as its class has references.
    ///
    /// # Errors
    /// [`Error::Config`], with the numbers.
    pub(crate) fn check_draws(self, positives: usize) -> Result<()> {
        let draws = positives + 1;
        if self.draws() && draws > MOST_DRAWN {
            return Err(Error::Config(format!(
                "miner.name: `distance-weighted` draws {MOST_DRAWN} triplets of an anchor at most, one for each reference of its class, \
                 and there may be {draws} here: use fewer rows of a class, a smaller memory_size or batch_size, or another miner"
            )));
        }
        Ok(())
    }
}
