//! PML's `TripletMarginLoss`: the mean of `max(0, s_an - s_ap + margin)` over those above zero.

use serde::{Deserialize, Serialize};

use crate::distance::Distance;
use crate::kernels::triplet_margin::{Rule, TERMS};
use crate::miners::{Miner, MiningCounts};

/// The hinge on `s_an - s_ap + margin`, averaged over the triplets where it is above zero (`AvgNonZeroReducer`).
///
/// No active triplet gives a loss of 0 and no gradient.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TripletMarginLoss {
    /// By how much a positive must be nearer than a negative, a difference of cosines or distances. A triplet just there
    /// has no loss.
    pub margin: f64,
}

impl Default for TripletMarginLoss {
    /// A margin of 0.2, where PML's default is 0.05.
    fn default() -> Self {
        Self { margin: 0.2 }
    }
}

impl TripletMarginLoss {
    /// What the kernel mines and differentiates.
    pub(crate) fn rule(&self, miner: &Miner, distance: Distance) -> Rule {
        let (kind, miner_margin) = miner.band();
        Rule {
            kind,
            distance,
            miner_margin,
            loss_margin: self.margin as f32,
        }
    }

    /// The mean over the active triplets, from the sum of their `s_an - s_ap`.
    pub(crate) fn mean(&self, sum: f64, active: u64) -> f64 {
        if active == 0 {
            0.0
        } else {
            sum / active as f64 + self.margin
        }
    }

    /// The loss and the counts of a step, off its report: the rows' terms are the sum over active triplets of
    /// `s_an - s_ap`.
    pub(crate) fn read(&self, report: &[u32], anchors: usize) -> (f64, MiningCounts) {
        let counts = MiningCounts::read(report, anchors);
        let terms = &report[TERMS..TERMS + anchors];
        let sum: f64 = terms
            .iter()
            .map(|bits| f64::from(f32::from_bits(*bits)))
            .sum();
        (self.mean(sum, counts.active), counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::triplet_margin::Total;

    #[test]
    fn without_an_active_triplet_the_loss_is_zero() {
        let report = vec![0; TERMS + 2];
        let (loss, counts) = TripletMarginLoss::default().read(&report, 2);
        assert_eq!((loss, counts.anchors, counts.valid), (0.0, 2, 0));
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
        let (loss, counts) = TripletMarginLoss { margin: 0.25 }.read(&report, 2);
        assert_eq!(loss, 0.375);
        assert_eq!((counts.easy, counts.semihard, counts.hard), (3, 4, 3));
    }
}
