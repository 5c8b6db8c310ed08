//! PML's `LiftedStructureLoss`: a positive pair against the negatives of both its rows.

use serde::{Deserialize, Serialize};

use super::terms::{Formula, Terms, side};
use crate::cpu::Distance;
use crate::kernels::row_loss::Form;
use crate::rules::arguments::{Argument, Part};

/// Half the square of `max(0, d_ap - pos_margin + log(sum over negatives n of a or p of e^(neg_margin - d_.n)))`, averaged over
/// positive pairs (Song et al. 2016). By similarity the signs turn. With a memory the negatives are those of `a` alone: a stored
/// row has none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LiftedStructureLoss {
    /// Similarity that a positive has to reach; by distance, the one that it may have.
    pub pos_margin: f64,
    /// Similarity that a negative may have; by distance, the one that it has to reach.
    pub neg_margin: f64,
}

impl Part for LiftedStructureLoss {
    const PML: &str = "LiftedStructureLoss";
    const ARGUMENTS: &[Argument<Self>] = &[
        Argument::margin("pos_margin", |loss| loss.pos_margin),
        Argument::margin("neg_margin", |loss| loss.neg_margin),
    ];
}

impl Default for LiftedStructureLoss {
    /// 1 and 0 suit cosine similarities. By distance the default is PML's, 0 and 1 (`Loss::following`).
    fn default() -> Self {
        Self {
            pos_margin: 1.0,
            neg_margin: 0.0,
        }
    }
}

impl Formula for LiftedStructureLoss {
    fn terms(&self, distance: Distance) -> Option<Terms> {
        Some(Terms {
            form: Form::Lifted,
            scales: [1.0; 2],
            margins: [self.pos_margin, self.neg_margin].map(|margin| side(distance, margin)),
            proxies: None,
        })
    }
}
