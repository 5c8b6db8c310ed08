//! PML's `TripletMarginLoss`: the mean of `max(0, s_an - s_ap + margin)` over the triplets with a loss above zero.

use serde::{Deserialize, Serialize};

use super::terms::{Formula, Terms, sum_of_terms};
use crate::base::forecast::MiningMethod;
use crate::cpu::Distance;
use crate::rules::arguments::{Argument, Part};
use crate::rules::miners::MiningCounts;

/// The hinge on `s_an - s_ap + margin`, averaged over the triplets with a loss above zero (`AvgNonZeroReducer`).
///
/// No active triplet gives a loss of 0 and no gradient.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TripletMarginLoss {
    /// The margin: by how much a positive must be nearer than a negative, as a difference of cosines or of distances. At exactly
    /// the margin the loss is 0.
    pub margin: f64,
    /// Compares the negative with the nearer of anchor and positive, instead of always with the anchor.
    pub swap: bool,
    /// Replaces `max(0, x)` by `log(1 + exp(x))`, with `x = s_an - s_ap + margin`: every mined triplet then has a loss above zero.
    pub smooth_loss: bool,
}

impl Part for TripletMarginLoss {
    const PML: &str = "TripletMarginLoss";
    const ARGUMENTS: &[Argument<Self>] = &[Argument::margin("margin", |loss| loss.margin)];
}

impl Default for TripletMarginLoss {
    /// A margin of 0.2 of similarity; PML's default is 0.05. By distance the default is PML's (`Loss::following`).
    fn default() -> Self {
        Self {
            margin: 0.2,
            swap: false,
            smooth_loss: false,
        }
    }
}

impl TripletMarginLoss {
    /// Mean loss of the active triplets, from the sum of their `s_an - s_ap`.
    pub(crate) fn mean(&self, sum: f64, active: u64) -> f64 {
        if active == 0 {
            0.0
        } else {
            sum / active as f64 + self.margin
        }
    }

    /// Loss of a step, from its report. The rows' terms there add up to the sum over active triplets of `v_an - v_ap` on
    /// [`MiningMethod::Ranks`], and of the losses themselves on [`MiningMethod::Rows`].
    pub(crate) fn read(&self, report: &[u32], counts: &MiningCounts, path: MiningMethod) -> f64 {
        let sum = sum_of_terms(report, counts.anchors as usize);
        match path {
            MiningMethod::Ranks => self.mean(sum, counts.active),
            MiningMethod::Rows => sum / counts.active.max(1) as f64,
        }
    }
}

impl Formula for TripletMarginLoss {
    /// None: it is a loss of triplets.
    fn terms(&self, _: Distance) -> Option<Terms> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::triplet_margin::{TERMS, Total};
    use crate::rules::miners::Miner;

    #[test]
    fn without_an_active_triplet_the_loss_is_zero() {
        let report = vec![0; TERMS + 2];
        let counts = Miner::default().counts(&report, 2);
        assert_eq!((counts.anchors, counts.valid), (2, 0));
        for path in [MiningMethod::Ranks, MiningMethod::Rows] {
            let loss = TripletMarginLoss::default().read(&report, &counts, path);
            assert_eq!(loss, 0.0);
        }
    }

    #[test]
    fn the_loss_is_the_mean_term_plus_the_margin() {
        let mut report = vec![0; TERMS + 2];
        Total::Valid.add(&mut report, 10);
        Total::Within.add(&mut report, 7);
        Total::Hard.add(&mut report, 3);
        Total::Active.add(&mut report, 4);
        report[TERMS] = 1.5f32.to_bits();
        report[TERMS + 1] = (-1.0f32).to_bits();
        let counts = Miner::default().counts(&report, 2);
        assert_eq!((counts.easy, counts.semihard, counts.hard), (3, 4, 3));
        let loss = TripletMarginLoss {
            margin: 0.25,
            ..TripletMarginLoss::default()
        };
        assert_eq!(loss.read(&report, &counts, MiningMethod::Ranks), 0.375);
        // Losses need no margin added.
        assert_eq!(loss.read(&report, &counts, MiningMethod::Rows), 0.125);
    }
}
