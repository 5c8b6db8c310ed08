//! [`Loss`]: the number that training makes small, computed from the mined triplets. One formula a file.

mod triplet_margin;

use serde::{Deserialize, Serialize};

pub use triplet_margin::TripletMarginLoss;

use crate::distance::Distance;
use crate::error::{Error, Result};
use crate::forecast::Path;
use crate::kernels::select::{Keep, Selection};
use crate::kernels::triplet_margin::Rule;
use crate::kernels::weigh::Weighing;
use crate::miners::Miner;

/// A loss and its arguments; names and arguments are PML's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case")]
pub enum Loss {
    /// See [`TripletMarginLoss`].
    TripletMargin(TripletMarginLoss),
}

impl Loss {
    /// The names in settings, with the class each one is in PML.
    pub const ALL: [(&str, &str); 1] = [("triplet-margin", "TripletMarginLoss")];

    /// Checks that the loss can be computed from what the miner keeps.
    ///
    /// # Errors
    /// [`Error::Config`] for `swap` where each positive meets one negative.
    pub(crate) fn check_takes(&self, miner: &Miner) -> Result<()> {
        let Self::TripletMargin(loss) = self;
        match miner {
            Miner::FacenetSemihard(_) if loss.swap => Err(Error::Config(
                "loss.swap is true: `facenet-semihard` chooses each positive's one negative by the anchor alone, so leave \
                 swap out or use another miner"
                    .to_owned(),
            )),
            _ => Ok(()),
        }
    }
}

impl Default for Loss {
    fn default() -> Self {
        Self::TripletMargin(TripletMarginLoss::default())
    }
}

/// Arguments of the kernels for a miner and a loss: which of the two ways they take, and with what margins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum MiningRule {
    /// On [`Path::Ranks`].
    Ranks(Rule),
    /// On [`Path::Rows`].
    Rows(RowRule),
}

/// Positives and negatives that are kept of a row, and the loss of their triplets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RowRule {
    pub(crate) selection: Selection,
    pub(crate) weighing: Weighing,
}

impl MiningRule {
    /// The rule of a miner and a loss. Without a loss no triplet is active.
    pub(crate) fn new(miner: &Miner, loss: Option<&Loss>, distance: Distance) -> Self {
        let (kind, miner_margin) = miner.band();
        let (loss_margin, swap, smooth) = match loss {
            None => (f32::MIN, false, false),
            Some(Loss::TripletMargin(loss)) => (loss.margin as f32, loss.swap, loss.smooth_loss),
        };
        let rule = Rule {
            distance,
            kind,
            miner_margin,
            loss_margin,
        };
        if miner.is_band() && !swap && !smooth {
            return Self::Ranks(rule);
        }
        Self::Rows(RowRule {
            selection: miner.selection(distance),
            weighing: Weighing {
                rule,
                swap,
                one_negative: matches!(miner, Miner::FacenetSemihard(_)),
                smooth,
            },
        })
    }

    /// The way that triplets are mined.
    pub(crate) fn path(&self) -> Path {
        match self {
            Self::Ranks(_) => Path::Ranks,
            Self::Rows(_) => Path::Rows,
        }
    }

    /// Whether `swap` asks for similarities between positives and negatives.
    pub(crate) fn swap(&self) -> bool {
        matches!(self, Self::Rows(rule) if rule.weighing.swap)
    }

    /// Triplets of an anchor that are computed one by one, at most; 0 on [`Path::Ranks`], which computes none.
    pub(crate) fn looked_at(&self, positives: u64, negatives: u64) -> u64 {
        let Self::Rows(rule) = self else {
            return 0;
        };
        let most = |keep: Keep, all: u64| match keep {
            Keep::All | Keep::Close => all,
            Keep::Hard | Keep::Semihard | Keep::Easy => all.min(1),
        };
        let positives = most(rule.selection.positives.keep, positives);
        positives.saturating_mul(most(rule.selection.negatives.keep, negatives))
    }
}
