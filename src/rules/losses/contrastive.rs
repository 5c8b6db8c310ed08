//! PML's `ContrastiveLoss`: the amounts by which positives fall short of a margin, and negatives exceed one.

use serde::{Deserialize, Serialize};

use super::terms::{Formula, Terms, side};
use crate::cpu::Distance;
use crate::kernels::row_loss::Form;
use crate::rules::arguments::{Argument, Part};

/// `max(0, pos_margin - s_ap)` of every positive pair plus `max(0, s_an - neg_margin)` of every negative pair, each side
/// averaged over its pairs above zero. By distance `max(0, d_ap - pos_margin)` and `max(0, neg_margin - d_an)`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ContrastiveLoss {
    /// Similarity that a positive has to reach; by distance, the one that it may have.
    pub pos_margin: f64,
    /// Similarity that a negative may have; by distance, the one that it has to reach.
    pub neg_margin: f64,
}

impl Part for ContrastiveLoss {
    const PML: &str = "ContrastiveLoss";
    const ARGUMENTS: &[Argument<Self>] = &[
        Argument::margin("pos_margin", |loss| loss.pos_margin),
        Argument::margin("neg_margin", |loss| loss.neg_margin),
    ];
}

impl Default for ContrastiveLoss {
    /// 1 and 0 suit cosine similarities. By distance the default is PML's, 0 and 1 (`Loss::following`).
    fn default() -> Self {
        Self {
            pos_margin: 1.0,
            neg_margin: 0.0,
        }
    }
}

impl Formula for ContrastiveLoss {
    fn terms(&self, distance: Distance) -> Option<Terms> {
        Some(Terms {
            form: Form::Contrastive,
            scales: [1.0; 2],
            margins: [self.pos_margin, self.neg_margin].map(|margin| side(distance, margin)),
            proxies: None,
        })
    }
}
