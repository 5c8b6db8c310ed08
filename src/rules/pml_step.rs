//! Peak memory of a training step in PML: of its miner, the comparison with a memory's own copies, or its loss, whichever is most.
//! Measured with PML 2.9 and torch 2.15 on a CPU (`tests/golden/pml_peaks.py`).

use crate::cpu::Distance;
use crate::rules::config::TrainConfig;
use crate::rules::losses::Loss;
use crate::rules::miners::{Miner, TypeOfTriplets};
use crate::rules::pml::{
    TripletPeaks, pml_bytes_of_cell, pml_bytes_of_two_pairs, pml_drawn_bytes, pml_head_peak,
    pml_joined_peak,
};

/// Bytes of the indices of a pair: anchor and other row, of 64 bits each.
const PAIR: u64 = 16;

/// Sizes of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PmlStep {
    /// Rows of the batch.
    pub(crate) anchors: u64,
    /// Rows of the memory; without one, of the batch.
    pub(crate) references: u64,
    /// Proxies, if the loss learns some.
    pub(crate) proxies: u64,
    /// The references are the batch itself.
    pub(crate) alone: bool,
    /// Positive pairs that PML lists: an anchor's own copy in a memory is one until it is removed.
    pub(crate) positives: u64,
    /// Triplets of these.
    pub(crate) triplets: u64,
    /// Negatives of every draw of one class, all together, where triplets are drawn; of the class that has most.
    pub(crate) weighed: u64,
}

impl PmlStep {
    /// Bytes that the step takes at most, above what is there before it. `mined`: triplets that a miner of triplets keeps; if they are
    /// not known, as many as of rows in random directions.
    pub(crate) fn peak(&self, config: &TrainConfig, mined: Option<u64>) -> u64 {
        let loss = &config.loss;
        if loss.proxies().is_some() {
            let class = loss.pml().unwrap_or_default();
            let dim = config.embedding_size as u64;
            return pml_head_peak(class, self.anchors, self.proxies, dim);
        }
        match &config.miner {
            Miner::None => self.unmined(loss),
            Miner::TripletMargin(miner) => {
                let share = || {
                    let [within, hard] = [miner.margin, 0.0].map(|margin| below(margin, config));
                    match miner.type_of_triplets {
                        TypeOfTriplets::All => within,
                        TypeOfTriplets::Easy => 1.0 - within,
                        TypeOfTriplets::Semihard => within - hard,
                        TypeOfTriplets::Hard => hard,
                    }
                };
                let mined = mined.unwrap_or_else(|| part(self.triplets, share()));
                self.of_triplets(loss, mined)
            }
            // One negative of each positive.
            Miner::FacenetSemihard(_) => self.of_triplets(loss, self.positives),
            Miner::DistanceWeighted(_) => {
                pml_drawn_bytes(self.anchors, self.references, self.positives, self.weighed)
            }
            Miner::MultiSimilarity(_) => self.of_pairs(config, [self.positives, self.negatives()]),
            Miner::BatchHard(_) | Miner::BatchEasyHard(_) => {
                self.of_pairs(config, [self.anchors; 2])
            }
            Miner::PairMargin(miner) => {
                // Similarities of rows in random directions, of which one in `dim` is the variance.
                let deviation = (config.embedding_size as f64).sqrt().recip();
                let share = match config.miner_distance.unwrap_or(config.distance) {
                    Distance::Cosine => normal(-miner.neg_margin / deviation),
                    Distance::L2 => {
                        let similarity = 1.0 - miner.neg_margin * miner.neg_margin / 2.0;
                        normal(-similarity / deviation)
                    }
                };
                self.of_pairs(config, [self.positives, part(self.negatives(), share)])
            }
        }
    }

    fn cells(&self) -> u64 {
        self.anchors.saturating_mul(self.references)
    }

    fn negatives(&self) -> u64 {
        let own = if self.alone { self.anchors } else { 0 };
        self.cells()
            .saturating_sub(self.positives)
            .saturating_sub(own)
    }

    /// Positive pairs after the anchors' own copies were removed.
    fn others(&self) -> u64 {
        let own = if self.alone { 0 } else { self.anchors };
        self.positives.saturating_sub(own)
    }

    /// Each listed pair or triplet beside each row of the batch, to find an anchor's own copy in the memory.
    fn own_copies(&self, listed: u64) -> u64 {
        match self.alone {
            true => 0,
            false => listed.saturating_mul(self.anchors.saturating_add(25)),
        }
    }

    /// A loss of all pairs, or of all triplets: with a memory these are joined from pairs.
    fn unmined(&self, loss: &Loss) -> u64 {
        let pairs = PAIR.saturating_mul(self.cells());
        let own = self.own_copies(self.positives).saturating_add(pairs);
        let own = if self.alone { 0 } else { own };
        if is_of_triplets(loss) {
            let all = TripletPeaks::new(self.anchors, self.references, self.triplets, 0);
            let found = match self.alone {
                true => all.listed,
                false => pml_joined_peak(self.others(), self.negatives(), self.triplets),
            };
            return found.max(own).max(53u64.saturating_mul(self.triplets));
        }
        let cells = self.of_cell(loss).saturating_mul(self.cells());
        own.max(cells)
            .max(of_two(loss, self.others(), self.negatives()))
    }

    /// A miner of triplets, and any loss of what it keeps.
    fn of_triplets(&self, loss: &Loss, mined: u64) -> u64 {
        let all = TripletPeaks::new(self.anchors, self.references, self.triplets, mined);
        let own = self.own_copies(mined);
        // The loss of a batch, beside the miner's indices.
        let cost = 80u64.saturating_mul(mined);
        let cost = if self.alone { cost } else { all.loss };
        all.miner.max(own).max(cost).max(of_two(loss, mined, mined))
    }

    /// A miner that keeps these positive and negative pairs, and any loss of them.
    fn of_pairs(&self, config: &TrainConfig, [positives, negatives]: [u64; 2]) -> u64 {
        let (loss, miner) = (&config.loss, &config.miner);
        let of_cell = pml_bytes_of_cell(miner.pml().unwrap_or_default(), self.alone);
        let mining = of_cell.saturating_mul(self.cells());
        let kept = positives.saturating_add(negatives);
        let own = self
            .own_copies(positives)
            .saturating_add(PAIR.saturating_mul(kept));
        let cost = if is_of_triplets(loss) {
            let of_an_anchor = positives.saturating_mul(negatives) / self.anchors.max(1);
            pml_joined_peak(positives, negatives, of_an_anchor)
        } else {
            let share = kept as f64 / self.cells().max(1) as f64;
            let of_cell = self.of_cell(loss).saturating_mul(self.cells());
            of_two(loss, positives, negatives).max(part(of_cell, share))
        };
        mining.max(own).max(cost)
    }

    /// Peak bytes of a loss of all pairs for each cell of anchors and references.
    fn of_cell(&self, loss: &Loss) -> u64 {
        pml_bytes_of_cell(loss.pml().unwrap_or_default(), self.alone)
    }
}

/// Peak bytes of a loss that sets positive pairs against negative pairs; 0 for others.
fn of_two(loss: &Loss, positives: u64, negatives: u64) -> u64 {
    let bytes = pml_bytes_of_two_pairs(loss.pml().unwrap_or_default());
    bytes.saturating_mul(positives.saturating_mul(negatives))
}

/// PML lists every triplet for its margin loss, too.
fn is_of_triplets(loss: &Loss) -> bool {
    !loss.is_of_pairs() || matches!(loss, Loss::Margin(_))
}

fn part(of: u64, share: f64) -> u64 {
    (of as f64 * share) as u64
}

/// Part of the triplets of rows in random directions with `s_ap - s_an` below a margin.
fn below(margin: f64, config: &TrainConfig) -> f64 {
    let dim = config.embedding_size as f64;
    let deviation = match config.distance {
        Distance::Cosine => (2.0 / dim).sqrt(),
        // Distances near the root of two vary by the similarity over that root.
        Distance::L2 => (1.0 / dim).sqrt(),
    };
    normal(margin / deviation)
}

/// Cumulative distribution of the standard normal.
fn normal(z: f64) -> f64 {
    0.5 * libm::erfc(-z / std::f64::consts::SQRT_2)
}
