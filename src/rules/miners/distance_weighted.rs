//! PML's `DistanceWeightedMiner` (Wu et al. 2017): negatives drawn so that their distances come out spread evenly.

use serde::{Deserialize, Serialize};

use crate::cpu::Distance;
use crate::kernels::draw::Drawing;
use crate::kernels::select::{Choice, Selection};
use crate::rules::arguments::{Argument, Part};

/// Draws triplets at random, for each anchor as many as its class has references. The positive is drawn uniformly; the
/// negative with a weight of one over the density of its distance on the sphere. Both may come again.
///
/// Lists take weights in f64, relative to the largest of all rows, as PML does for rows of f64. A loss takes them in f32 on the
/// device, relative to the row's own largest, so that the weights of a row never vanish beside another row's. A probability then
/// has a relative error of about 1e-6 for each dimension: about one draw of 50,000 differs from the draw by weights of f64.
/// References that weigh less than e^-64 of the row's largest are never drawn.
///
/// Draws follow from the run's seed, `seed`, the step, and the anchor's place in the batch. An anchor without a positive, or
/// without a negative nearer than the second cutoff, draws none. With a memory PML draws the anchor's own copy as a positive too,
/// and drops those triplets; here another positive is drawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DistanceWeightedMiner {
    /// The least distance: smaller ones count as this one.
    pub cutoff: f64,
    /// The distance from which on negatives are never drawn.
    pub nonzero_loss_cutoff: f64,
    /// Seeds the draws; PML has no such argument.
    pub seed: u64,
}

impl Part for DistanceWeightedMiner {
    const PML: &str = "DistanceWeightedMiner";
    // It draws by L2 distances, whatever the loss compares by.
    const PML_TAKES_DISTANCE: bool = false;
    const ARGUMENTS: &[Argument<Self>] = &[
        Argument::above("cutoff", [0.0, 2.0], |miner| miner.cutoff),
        Argument::above("nonzero_loss_cutoff", [0.0, 2.0], |miner| {
            miner.nonzero_loss_cutoff
        }),
    ];
}

impl Default for DistanceWeightedMiner {
    fn default() -> Self {
        Self {
            cutoff: 0.5,
            nonzero_loss_cutoff: 1.4,
            seed: 0,
        }
    }
}

impl DistanceWeightedMiner {
    pub(super) fn selection(&self, distance: Distance) -> Selection {
        Selection {
            choice: Choice::Drawn(Drawing {
                cutoff: self.cutoff as f32,
                nonzero_loss_cutoff: self.nonzero_loss_cutoff as f32,
                seed: self.seed,
            }),
            ..Selection::all(distance)
        }
    }

    /// The largest finite logarithm of a weight in an anchor's row. References of its own class count as 0, as in PML. The weights
    /// of a list are taken relative to the largest of its rows.
    pub fn largest(&self, dim: usize, label: u32, similarities: &[f32], labels: &[u32]) -> f64 {
        let logarithms = similarities.iter().zip(labels).map(|(s, other)| {
            let log = self.log_weight(dim, self.distance(*s));
            if *other == label { log * 0.0 } else { log }
        });
        let finite = logarithms.filter(|log| log.is_finite());
        finite.fold(f64::NEG_INFINITY, f64::max)
    }

    /// The weights of an anchor's references, not yet normalized; 0 for those that are never drawn.
    pub fn weights(
        &self,
        dim: usize,
        label: u32,
        similarities: &[f32],
        labels: &[u32],
        largest: f64,
    ) -> impl Iterator<Item = f64> {
        similarities.iter().zip(labels).map(move |(s, other)| {
            let distance = self.distance(*s);
            let log = self.log_weight(dim, distance);
            if *other == label || distance >= self.nonzero_loss_cutoff || !log.is_finite() {
                0.0
            } else {
                libm::exp(log - largest)
            }
        })
    }

    /// Distance of unit rows of this similarity, `cutoff` at least.
    fn distance(&self, s: f32) -> f64 {
        (2.0 - 2.0 * f64::from(s)).max(0.0).sqrt().max(self.cutoff)
    }

    /// Minus the logarithm of the density of distances on the sphere, but for a constant.
    fn log_weight(&self, dim: usize, distance: f64) -> f64 {
        let dim = dim as f64;
        let rest = 1.0 - 0.25 * distance * distance;
        (2.0 - dim) * libm::log(distance) - (dim - 3.0) / 2.0 * libm::log(rest)
    }
}
