//! [`Miner`]: the rule that chooses which triplets count in the loss. One rule a file.

mod batch_easy_hard;
mod batch_hard;
mod distance_weighted;
mod facenet_semihard;
mod multi_similarity;
mod pair_margin;
mod triplet_margin;

use serde::{Deserialize, Serialize};

pub use batch_easy_hard::{BatchEasyHardMiner, Strategy};
pub use batch_hard::BatchHardMiner;
pub use distance_weighted::DistanceWeightedMiner;
pub use facenet_semihard::FacenetSemihardMiner;
pub use multi_similarity::MultiSimilarityMiner;
pub use pair_margin::PairMarginMiner;
pub use triplet_margin::{TripletMarginMiner, TypeOfTriplets};

use crate::base::error::Result;
use crate::cpu::Distance;
use crate::kernels::row_loss::PairTotal;
use crate::kernels::select::Selection;
use crate::kernels::triplet_margin::{Kind, Total};
use crate::rules::arguments::{self, Facts};

/// A miner and its arguments; names and arguments are PML's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case")]
pub enum Miner {
    /// No miner: the loss sees every valid triplet.
    None,
    /// See [`TripletMarginMiner`].
    TripletMargin(TripletMarginMiner),
    /// See [`BatchHardMiner`].
    BatchHard(BatchHardMiner),
    /// See [`BatchEasyHardMiner`].
    BatchEasyHard(BatchEasyHardMiner),
    /// See [`MultiSimilarityMiner`].
    MultiSimilarity(MultiSimilarityMiner),
    /// See [`PairMarginMiner`].
    PairMargin(PairMarginMiner),
    /// See [`FacenetSemihardMiner`].
    FacenetSemihard(FacenetSemihardMiner),
    /// See [`DistanceWeightedMiner`].
    DistanceWeighted(DistanceWeightedMiner),
}

impl Miner {
    /// The names in settings, each with its name in lists.
    pub const ALL: [(&str, &str); 8] = [
        ("triplet-margin", "triplet margin"),
        ("batch-hard", "batch hard"),
        ("batch-easy-hard", "batch easy, hard"),
        ("multi-similarity", "multi-similarity"),
        ("pair-margin", "pair margin"),
        ("facenet-semihard", "FaceNet: one negative"),
        ("distance-weighted", "distance weighted: drawn"),
        ("none", "no miner: every triplet"),
    ];

    /// The miner after a change of its distance from `from` to `to`: margins at the default of the one go to that of the other.
    #[must_use]
    pub(crate) fn following(self, from: Distance, to: Distance) -> Self {
        match self {
            Self::PairMargin(miner) if miner == PairMarginMiner::of(from) => {
                Self::PairMargin(PairMarginMiner::of(to))
            }
            miner => miner,
        }
    }

    /// Tells if it keeps all triplets in a band of `s_ap - s_an`.
    pub fn is_band(&self) -> bool {
        matches!(self, Self::None | Self::TripletMargin(_))
    }

    /// Tells if it draws triplets at random: their number is known only after the draws.
    pub fn draws(&self) -> bool {
        matches!(self, Self::DistanceWeighted(_))
    }

    /// Tells if it gives pairs: (anchor, positive) and (anchor, negative), apart from each other.
    pub fn gives_pairs(&self) -> bool {
        match self {
            Self::None
            | Self::TripletMargin(_)
            | Self::FacenetSemihard(_)
            | Self::DistanceWeighted(_) => false,
            Self::BatchHard(_)
            | Self::BatchEasyHard(_)
            | Self::MultiSimilarity(_)
            | Self::PairMargin(_) => true,
        }
    }

    /// The band of triplets that the kernel keeps, and its margin; every triplet that [`Miner::selection`] leaves, if the miner has
    /// no band.
    pub(crate) fn band(&self) -> (Kind, f32) {
        match self {
            Self::TripletMargin(miner) => miner.band(),
            _ => (Kind::Unmined, 0.0),
        }
    }

    /// The rule for the positives and negatives of each anchor that are kept, and for the triplets of them.
    pub(crate) fn selection(&self, distance: Distance) -> Selection {
        match self {
            Self::None | Self::TripletMargin(_) => Selection::all(distance),
            Self::BatchHard(miner) => miner.selection(distance),
            Self::BatchEasyHard(miner) => miner.selection(distance),
            Self::MultiSimilarity(miner) => miner.selection(distance),
            Self::PairMargin(miner) => miner.selection(distance),
            Self::FacenetSemihard(miner) => miner.selection(distance),
            Self::DistanceWeighted(miner) => miner.selection(distance),
        }
    }

    /// The miner of its own file, if there is one.
    fn own(&self) -> Option<&dyn Facts> {
        Some(match self {
            Self::None => return None,
            Self::TripletMargin(miner) => miner,
            Self::BatchHard(miner) => miner,
            Self::BatchEasyHard(miner) => miner,
            Self::MultiSimilarity(miner) => miner,
            Self::PairMargin(miner) => miner,
            Self::FacenetSemihard(miner) => miner,
            Self::DistanceWeighted(miner) => miner,
        })
    }

    /// Its class in PML, if PML has one.
    pub(crate) fn pml(&self) -> Option<&'static str> {
        self.own()?.pml()
    }

    /// Tells if its class in PML is given a distance.
    pub(crate) fn pml_takes_distance(&self) -> bool {
        self.own().is_some_and(Facts::pml_takes_distance)
    }

    /// Checks every argument against its range.
    pub(crate) fn check(&self) -> Result<()> {
        if let Self::BatchEasyHard(miner) = self {
            miner.check()?;
        }
        self.own()
            .map_or(Ok(()), |miner| arguments::check("miner", miner))
    }

    /// Reads the counts off a report of the kernels.
    pub(crate) fn counts(&self, report: &[u32], anchors: usize) -> MiningCounts {
        let counts = MiningCounts::read(report, anchors);
        if self.is_band() {
            return counts;
        }
        // Only kept triplets were looked at.
        MiningCounts {
            easy: counts.mined - counts.semihard - counts.hard,
            ..counts
        }
    }
}

impl Default for Miner {
    fn default() -> Self {
        Self::TripletMargin(TripletMarginMiner::default())
    }
}

/// Unit of a step's counts: triplets or pairs, as the loss needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tuples {
    /// Triplets of an anchor, a positive and a negative.
    #[default]
    Triplets,
    /// Pairs of an anchor and a positive, and of an anchor and a negative.
    Pairs,
}

/// Number of triplets of each kind in a step; of pairs, if its loss looks at pairs.
///
/// With a miner that has a margin, easy, semihard and hard are kinds of all triplets and add up to valid. The other miners
/// have none: the margin counts as 0, no triplet is semihard, and easy and hard are kinds of the mined triplets alone, to
/// which they add up.
///
/// Pairs are valid, mined and active, not easy, semihard or hard. If a miner of triplets keeps them, a pair counts as mined once
/// for every mined triplet that contains it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MiningCounts {
    /// Triplets or pairs.
    #[serde(default)]
    pub of: Tuples,
    /// Rows of the batch, each an anchor.
    pub anchors: u64,
    /// All triplets that there are; the anchor's own copy in the memory is no positive.
    pub valid: u64,
    /// `s_ap - s_an > margin`.
    pub easy: u64,
    /// `0 < s_ap - s_an <= margin`.
    pub semihard: u64,
    /// `s_ap - s_an <= 0`, within the margin.
    pub hard: u64,
    /// Triplets that the miner keeps.
    pub mined: u64,
    /// Mined triplets with a loss above zero.
    pub active: u64,
}

impl MiningCounts {
    /// Reads the counts off a report of the kernel.
    pub(crate) fn read(report: &[u32], anchors: usize) -> Self {
        let read = |total: Total| total.read(report);
        let (valid, within, hard) = (read(Total::Valid), read(Total::Within), read(Total::Hard));
        Self {
            of: Tuples::Triplets,
            anchors: anchors as u64,
            valid,
            easy: valid - within,
            semihard: within - hard,
            hard,
            mined: read(Total::Mined),
            active: read(Total::Active),
        }
    }

    /// Reads the counts of pairs off a report.
    pub(crate) fn of_pairs(report: &[u32], anchors: usize) -> Self {
        let read = |total: PairTotal| total.read(report);
        Self {
            of: Tuples::Pairs,
            anchors: anchors as u64,
            valid: read(PairTotal::Valid),
            mined: read(PairTotal::Positives) + read(PairTotal::Negatives),
            active: read(PairTotal::ActivePositives) + read(PairTotal::ActiveNegatives),
            ..Self::default()
        }
    }
}
