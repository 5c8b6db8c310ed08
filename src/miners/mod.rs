//! [`Miner`]: which triplets of a batch and the memory the loss gets to see. One rule a file.

mod distance_weighted;
mod facenet_semihard;
mod triplet_margin;

use serde::{Deserialize, Serialize};

pub use distance_weighted::DistanceWeightedMiner;
pub use facenet_semihard::FacenetSemihardMiner;
pub use triplet_margin::{TripletMarginMiner, TypeOfTriplets};

use crate::error::{Error, Result};
use crate::kernels::triplet_margin::{Kind, Total};

/// A miner and its arguments; names and arguments are PML's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case")]
pub enum Miner {
    /// No miner: the loss sees every valid triplet.
    None,
    /// See [`TripletMarginMiner`].
    TripletMargin(TripletMarginMiner),
    /// See [`FacenetSemihardMiner`].
    FacenetSemihard(FacenetSemihardMiner),
    /// See [`DistanceWeightedMiner`].
    DistanceWeighted(DistanceWeightedMiner),
}

impl Miner {
    /// The names in settings, with the class each one is in PML.
    pub const ALL: [(&str, &str); 2] = [
        ("triplet-margin", "TripletMarginMiner"),
        ("none", "none: every triplet"),
    ];

    /// The same of those that give a list, which no loss takes yet.
    pub const LISTS: [(&str, &str); 2] = [
        ("facenet-semihard", "FaceNet's one negative"),
        ("distance-weighted", "DistanceWeightedMiner"),
    ];

    /// Checks that the miner keeps a band of triplets: what can be counted, and trained with, without a list.
    ///
    /// # Errors
    /// [`Error::Config`] for one that gives a list.
    pub fn check_is_a_band(&self) -> Result<()> {
        let name = match self {
            Self::None | Self::TripletMargin(_) => return Ok(()),
            Self::FacenetSemihard(_) => "facenet-semihard",
            Self::DistanceWeighted(_) => "distance-weighted",
        };
        Err(Error::Config(format!(
            "miner.name: `{name}` gives a list of triplets, which `nearfar mine --out FILE.npy` writes: no loss takes it yet"
        )))
    }

    /// The band of triplets that the kernel keeps, and its margin; every triplet where the miner has none.
    pub(crate) fn band(&self) -> (Kind, f32) {
        match self {
            Self::None | Self::FacenetSemihard(_) | Self::DistanceWeighted(_) => {
                (Kind::Unmined, 0.0)
            }
            Self::TripletMargin(miner) => miner.band(),
        }
    }
}

impl Default for Miner {
    fn default() -> Self {
        Self::TripletMargin(TripletMarginMiner::default())
    }
}

/// How many triplets of each kind a step saw; easy, semihard and hard add up to valid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MiningCounts {
    /// Rows of the batch.
    pub anchors: u64,
    /// Triplets with a positive and a negative; the anchor's own copy in the memory is no positive.
    pub valid: u64,
    /// `s_ap - s_an > margin`.
    pub easy: u64,
    /// `0 < s_ap - s_an <= margin`.
    pub semihard: u64,
    /// `s_ap - s_an <= 0`, within the margin.
    pub hard: u64,
    /// What the miner keeps.
    pub mined: u64,
    /// Of those, with a loss above zero.
    pub active: u64,
}

impl MiningCounts {
    /// Reads the counts off a report of the kernel.
    pub(crate) fn read(report: &[u32], anchors: usize) -> Self {
        let read = |total: Total| total.read(report);
        let (valid, within, hard) = (read(Total::Valid), read(Total::Within), read(Total::Hard));
        Self {
            anchors: anchors as u64,
            valid,
            easy: valid - within,
            semihard: within - hard,
            hard,
            mined: read(Total::Mined),
            active: read(Total::Active),
        }
    }
}
