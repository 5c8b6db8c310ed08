//! PML's `MultiSimilarityLoss`: soft maxima of the distances of positives below a similarity, and of negatives above it.

use serde::{Deserialize, Serialize};

use super::terms::{Formula, Terms, side};
use crate::cpu::Distance;
use crate::kernels::row_loss::Form;
use crate::rules::arguments::{Argument, Part};

/// `log(1 + sum exp(alpha (base - s_ap))) / alpha + log(1 + sum exp(beta (s_an - base))) / beta` of each anchor, averaged
/// over all anchors (Wang et al. 2019). By distance the signs turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MultiSimilarityLoss {
    /// Weight of the positives' similarities in the exponent: the larger, the more the farthest counts alone.
    pub alpha: f64,
    /// Weight of the negatives' similarities in the exponent.
    pub beta: f64,
    /// Similarity (or distance) between those of positives and those of negatives.
    pub base: f64,
}

impl Part for MultiSimilarityLoss {
    const PML: &str = "MultiSimilarityLoss";
    const ARGUMENTS: &[Argument<Self>] = &[
        Argument::scale("alpha", |loss| loss.alpha),
        Argument::scale("beta", |loss| loss.beta),
        Argument::margin("base", |loss| loss.base),
    ];
}

impl Default for MultiSimilarityLoss {
    fn default() -> Self {
        Self {
            alpha: 2.0,
            beta: 50.0,
            base: 0.5,
        }
    }
}

impl Formula for MultiSimilarityLoss {
    fn terms(&self, distance: Distance) -> Option<Terms> {
        Some(Terms {
            form: Form::MultiSimilarity,
            scales: [self.alpha, self.beta],
            margins: [side(distance, self.base); 2],
            proxies: None,
        })
    }
}
