//! The triplets that are drawn: the rows of similarities come from the engine, the draws are taken here, in f64 and with
//! `libm`, so that engines whose similarities are equal draw the same.

use std::ops::Range;

use rand::RngExt as _;

use super::Outlet;
use super::mined::Mined;
use crate::base::error::Result;
use crate::base::rng::{self, Rng};
use crate::kernels::similarities::width;
use crate::rules::miners::DistanceWeightedMiner;
use crate::search::evaluation::Rows;

/// What is drawn and not yet handed on.
struct Draws {
    rng: Rng,
    triplets: Vec<[u32; 3]>,
    /// The weights of a row, each with those before it.
    sums: Vec<f64>,
}

impl Mined<'_> {
    /// Hands on what the miner draws. Every row is looked at twice: weights are relative to the largest of all.
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

    /// The similarities of one anchor of the block, after everybody else had their turn.
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
