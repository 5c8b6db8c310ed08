//! PML's `MarginLoss`: positives on the near side of a boundary, negatives on its far side.

use serde::{Deserialize, Serialize};

use super::terms::{Formula, Terms, side};
use crate::cpu::Distance;
use crate::kernels::row_loss::Form;
use crate::rules::arguments::{Argument, Part};

/// `max(0, d_ap - beta + margin) + max(0, beta - d_an + margin)` of every triplet, over the number of both terms that are above
/// zero (Wu et al. 2017). By similarity the signs turn. One boundary for all classes; if it is learned, `nu * beta` is added.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MarginLoss {
    /// Distance that each pair has to keep from the boundary, on its own side of it.
    pub margin: f64,
    /// The boundary between positives and negatives: a distance, or a similarity if rows are compared by similarity.
    pub beta: f64,
    /// Learns the boundary with the head, from `beta` on. In `mine` it stays at `beta`.
    pub learn_beta: bool,
    /// Learning rate of the boundary.
    pub beta_lr: f64,
    /// Weight of the boundary itself in the loss, if it is learned: above 0 it is pulled down.
    pub nu: f64,
}

impl Part for MarginLoss {
    const PML: &str = "MarginLoss";
    const ARGUMENTS: &[Argument<Self>] = &[
        Argument::margin("margin", |loss| loss.margin),
        Argument::margin("beta", |loss| loss.beta),
        Argument::lr("beta_lr", |loss| loss.beta_lr),
        Argument::between("nu", [-1e4, 1e4], |loss| loss.nu),
    ];
}

impl Default for MarginLoss {
    /// A boundary for similarities. By distance the default is PML's, 1.2 (`Loss::following`).
    fn default() -> Self {
        Self {
            margin: 0.2,
            beta: 0.5,
            learn_beta: false,
            beta_lr: 1e-3,
            nu: 0.0,
        }
    }
}

impl MarginLoss {
    /// Slope of the loss by the boundary as a value, apart from its pairs.
    pub(super) fn pull(&self, distance: Distance) -> f64 {
        match self.learn_beta {
            true => side(distance, self.nu),
            false => 0.0,
        }
    }
}

impl Formula for MarginLoss {
    fn terms(&self, distance: Distance) -> Option<Terms> {
        let beta = side(distance, self.beta);
        Some(Terms {
            form: Form::Margin,
            scales: [self.pull(distance), 0.0],
            margins: [beta + self.margin, beta - self.margin],
            proxies: None,
        })
    }
}
