//! The hardest triplets of the last step, for a click on a point of the mining plot.

use serde::{Deserialize, Serialize};

use super::{LastStep, Trainer};
use crate::base::error::Result;
use crate::base::order;
use crate::engine::Commands;
use crate::kernels::hardest::{self, Hardest};
use crate::kernels::ranks::{Block, Inputs, NO_ID};
use crate::kernels::stride;

/// Triplets of a step, the most violated first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HardestTriplets {
    /// Step of the triplets.
    pub step: u64,
    /// At most one triplet of each anchor: its farthest positive with its nearest negative.
    pub triplets: Vec<HardTriplet>,
}

/// A triplet as numbers of the data's rows, with the similarities at the beginning of the step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HardTriplet {
    /// Row of the anchor, of the batch.
    pub anchor: u32,
    /// Row of the positive, of the memory; the anchor's own row if an older copy of it is the farthest.
    pub positive: u32,
    /// Row of the negative, of the memory.
    pub negative: u32,
    /// Class of anchor and positive.
    pub class: String,
    /// Class of the negative.
    pub negative_class: String,
    /// Similarity of anchor and positive.
    pub s_ap: f32,
    /// Similarity of anchor and negative: the triplet is the harder, the more this exceeds `s_ap`.
    pub s_an: f32,
}

impl Trainer {
    /// From now on the hardest triplets of the last step of an advance come with its reports, every few steps and after the last of
    /// all steps that were asked for. [`Trainer::hardest`] then returns only these and no longer waits.
    pub fn pick_hardest(&mut self) {
        self.picks = true;
    }

    /// Records the search of a step for its hardest triplets, and returns the number of places to read.
    pub(super) fn pick(&mut self, commands: &mut Commands, step: LastStep) -> u64 {
        let LastStep {
            first,
            references,
            alone,
            ..
        } = step;
        let rows = self.setup.sizes.batch;
        let block = Block {
            first_row: 0,
            rows,
            batch: first,
            first_reference: 0,
            references,
            stride: stride(self.model.embedding_size()),
        };
        let inputs = Inputs {
            anchors: &self.train.embedded.unit,
            references: self.memory.references(alone, &self.train.embedded.unit),
            batch: &self.train.batch,
            tags: &self.memory.bank.tags,
        };
        hardest::pick(commands, &block, inputs, &mut self.train.hardest);
        hardest::places(rows, references)
    }

    /// Picks the `count` hardest triplets of the last step: of each anchor its farthest positive with its nearest negative, in
    /// descending order of `s_an - s_ap`. Ties go by the order in which their rows were stored. `None` before the first step, or
    /// after [`Trainer::reset_memory`] until the next.
    ///
    /// # Errors
    /// [`crate::Error::Device`].
    pub async fn hardest(&mut self, count: usize) -> Result<Option<HardestTriplets>> {
        let Some(last @ LastStep { slots, .. }) = self.last else {
            return Ok(None);
        };
        let rows = self.setup.sizes.batch;
        let found = match self.picked.take() {
            Some(found) => found,
            None if self.picks => return Ok(None),
            None => {
                let mut commands = self.engine.commands();
                let places = self.pick(&mut commands, last);
                self.engine.submit(commands);
                self.engine.read(&self.train.hardest, 0, places).await?
            }
        };
        let mut triplets: Vec<([u32; 3], [f32; 2])> = (0..rows)
            .filter_map(|i| {
                let chunks = found.iter().skip(i).step_by(rows);
                let Hardest { positive, negative } =
                    chunks.fold(Hardest::NONE, |all, chunk| all.harder(*chunk));
                let there = positive[1] != NO_ID && negative[1] != NO_ID;
                let ids = [slots.first_id + i as u32, positive[1], negative[1]];
                there.then(|| (ids, [positive[0], negative[0]].map(f32::from_bits)))
            })
            .collect();
        order::sort_by(&mut triplets, |(ids, s), (other_ids, other)| {
            let tm = |[s_ap, s_an]: &[f32; 2]| s_ap - s_an;
            tm(s).total_cmp(&tm(other)).then(ids.cmp(other_ids))
        });
        let triplet = |(ids, [s_ap, s_an]): &([u32; 3], [f32; 2])| {
            let [anchor, positive, negative] = ids.map(|id| self.memory.row(id));
            let class = |row: u32| {
                let label = self.dataset.labels[row as usize];
                self.dataset.class_names[label as usize].clone()
            };
            HardTriplet {
                anchor,
                positive,
                negative,
                class: class(anchor),
                negative_class: class(negative),
                s_ap: *s_ap,
                s_an: *s_an,
            }
        };
        Ok(Some(HardestTriplets {
            step: self.step,
            triplets: triplets.iter().take(count).map(triplet).collect(),
        }))
    }
}
