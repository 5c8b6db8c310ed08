//! PML's `GeneralizedLiftedStructureLoss`: soft maxima of the farthest positive and of the nearest negative.

use serde::{Deserialize, Serialize};

use super::terms::{Formula, Terms, side};
use crate::cpu::Distance;
use crate::kernels::row_loss::Form;
use crate::rules::arguments::{Argument, Part};

/// `max(0, log sum e^(d_ap - pos_margin) + log sum e^(neg_margin - d_an))` of each anchor, an empty side 0, averaged over all
/// anchors (Hermans et al. 2017). By similarity the signs turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GeneralizedLiftedStructureLoss {
    /// Distance (or similarity) that positives are measured from.
    pub pos_margin: f64,
    /// Distance (or similarity) that negatives are measured from.
    pub neg_margin: f64,
}

impl Part for GeneralizedLiftedStructureLoss {
    const PML: &str = "GeneralizedLiftedStructureLoss";
    const ARGUMENTS: &[Argument<Self>] = &[
        Argument::margin("pos_margin", |loss| loss.pos_margin),
        Argument::margin("neg_margin", |loss| loss.neg_margin),
    ];
}

impl Default for GeneralizedLiftedStructureLoss {
    /// 1 and 0 suit cosine similarities. By distance the default is PML's, 0 and 1 (`Loss::following`).
    fn default() -> Self {
        Self {
            pos_margin: 1.0,
            neg_margin: 0.0,
        }
    }
}

impl Formula for GeneralizedLiftedStructureLoss {
    fn terms(&self, distance: Distance) -> Option<Terms> {
        Some(Terms {
            form: Form::GeneralizedLifted,
            scales: [1.0; 2],
            margins: [self.pos_margin, self.neg_margin].map(|margin| side(distance, margin)),
            proxies: None,
        })
    }
}
