//! Triplets that are drawn: the rows of similarities come from the engine, the draws are taken here, in f64 and with `libm`, so
//! that engines with equal similarities draw equal triplets.

use std::ops::Range;

use rand::RngExt as _;

use super::Outlet;
use super::mined::Mined;
use crate::base::error::Result;
use crate::base::rng::{self, Rng};
use crate::kernels::similarities::width;
use crate::rules::miners::DistanceWeightedMiner;
use crate::search::rows::Rows;

/// Drawn triplets that are not yet handed on, and the state of the draws.
struct Draws {
    rng: Rng,
    triplets: Vec<[u32; 3]>,
    /// Cumulative weights of a row.
    sums: Vec<f64>,
}

impl Mined<'_> {
    /// Hands on the triplets that the miner draws. Takes two passes over the rows: weights are relative to the largest of all.
    pub(super) async fn draw<F: FnMut(&[[u32; 3]]) -> Result<()>>(
        &mut self,
        miner: &DistanceWeightedMiner,
        dim: usize,
        anchors: Rows<'_>,
        labels: &[u32],
        outlet: &mut Outlet<F>,
    ) -> Result<(u64, u32)> {
        let total = anchors.labels.len();
        let mut largest = f64::NEG_INFINITY;
        let mut done = 0;
        while done < total {
            let (block, _) = self.next_block(anchors, done).await?;
            done = block.end;
            for anchor in block.clone() {
                let row = self.all().row(anchor);
                let s = self.row(&block, anchor, labels.len()).await?;
                largest = largest.max(miner.largest(dim, row.label, &s, labels));
            }
        }
        let mut draws = Draws {
            rng: rng::stream(miner.seed, "distance-weighted"),
            triplets: Vec::new(),
            sums: Vec::new(),
        };
        done = 0;
        while done < total {
            let (block, _) = self.next_block(anchors, done).await?;
            done = block.end;
            for anchor in block.clone() {
                let row = self.all().row(anchor);
                if row.positives() == 0 {
                    continue;
                }
                let s = self.row(&block, anchor, labels.len()).await?;
                let mut sum = 0.0;
                draws.sums.clear();
                let weights = miner.weights(dim, row.label, &s, labels, largest);
                draws.sums.extend(weights.map(|weight| {
                    sum += weight;
                    sum
                }));
                // As in PML: an anchor without a weight is left out.
                if sum > 0.0 {
                    for _ in 0..row.members {
                        let j = rng::below(&mut draws.rng, row.positives() as usize) as u32;
                        let at = draws.rng.random::<f64>() * sum;
                        let negative = draws.sums.partition_point(|before| *before <= at) as u32;
                        let positive = self.all().members()[row.first as usize + row.place(j)];
                        draws.triplets.push([anchor as u32, positive, negative]);
                        if draws.triplets.len() == self.room() {
                            self.hand_on_host(&mut draws.triplets, outlet).await?;
                        }
                    }
                }
            }
        }
        self.hand_on_host(&mut draws.triplets, outlet).await?;
        self.end().await
    }

    /// Similarities of one anchor of the block; yields to other work first.
    async fn row(
        &self,
        block: &Range<usize>,
        anchor: usize,
        references: usize,
    ) -> Result<std::borrow::Cow<'_, [f32]>> {
        self.breathe().await?;
        let first = (anchor - block.start) * width(references);
        self.view_similarities(first as u64, references as u64)
            .await
    }
}
