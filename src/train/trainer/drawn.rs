//! Rows of a step: checks of a batch, its place in the memory, and [`Drawn`], the step that they make.

use super::Trainer;
use crate::base::error::{Error, Result};
use crate::base::forecast::MiningMethod;
use crate::base::order;
use crate::engine::checkpoint::damaged;
use crate::kernels::normalize::Slots;
use crate::kernels::ranks::Row;
use crate::rules::losses::Loss;
use crate::rules::pml::{pml_bytes, pml_drawn_bytes, pml_pair_bytes, pml_proxy_bytes};

/// Host-side description of a step.
pub(super) struct Drawn {
    pub(super) slots: Slots,
    pub(super) references: usize,
    /// The most positives of one of its rows.
    pub(super) positives: usize,
    /// The references are the batch itself, and get a gradient too.
    pub(super) alone: bool,
    pub(super) pml_bytes: u64,
}

impl Trainer {
    /// Tells if the references of a step are its batch alone.
    pub(super) fn is_alone(&self, step: u64) -> bool {
        self.config.memory() == 0 || step < self.config.memory_start_step
    }

    /// Tells if this is the first step with the memory, after steps without it.
    pub(super) fn begins(&self, step: u64) -> bool {
        self.config.memory() > 0 && step > 0 && step == self.config.memory_start_step
    }

    /// Part of the training classes of which a row was drawn.
    pub(super) fn classes_seen(&self) -> f64 {
        let mut labels = self.dataset.labels_of(&self.setup.sides.train);
        order::sort_numbers(&mut labels);
        labels.dedup();
        let seen = labels.iter().filter(|label| self.seen[**label as usize]);
        seen.count() as f64 / labels.len().max(1) as f64
    }

    /// Checks that rows given by hand are a batch of this data.
    pub(super) fn check_rows(&self, numbers: &[u32]) -> Result<()> {
        let (batch, rows) = (self.setup.sizes.batch, self.dataset.rows());
        if numbers.len() != batch {
            return Err(Error::Data(format!(
                "{} rows were given for a step, and this run's steps take {batch}: give as many as `batch_size` says",
                numbers.len()
            )));
        }
        match numbers.iter().find(|row| **row as usize >= rows) {
            Some(row) => Err(Error::Data(format!(
                "row {row} was given for a step, and the data has {rows} rows: give numbers from 0 to {}",
                rows - 1
            ))),
            None => Ok(()),
        }
    }

    /// Tells if buffer sizes depend on the number of positives of a row.
    fn holds_positives(&self) -> bool {
        self.rule.path() == MiningMethod::Ranks || self.setup.sizes.work.draws()
    }

    /// Checks that no row of the next step will have more positives than the buffers hold.
    pub(super) fn check_classes(&self, numbers: &[u32]) -> Result<()> {
        if !self.holds_positives() {
            return Ok(());
        }
        let labels = self.dataset.labels_of(numbers);
        let (label, count) = self.memory.most_after(&labels, self.begins(self.step));
        let blocks = self.setup.sizes.blocks(self.is_alone(self.step));
        let most = blocks.positives + 1;
        if count <= most {
            return Ok(());
        }
        let class = &self.dataset.class_names[label as usize];
        Err(Error::Data(format!(
            "with these rows {count} rows of class \"{class}\" are mined together, and this run has room for {most} of a class, \
             the most that its sampler brings together: give rows of more classes, or call `reset_memory` before"
        )))
    }

    /// Checks that no row of a step has more positives than the buffers hold. The sampler promises that of the rows it draws; a
    /// checkpoint may hold any.
    pub(super) fn check_positives(&self, drawn: &Drawn) -> Result<()> {
        let most = self.setup.sizes.blocks(drawn.alone).positives;
        if !self.holds_positives() || drawn.positives <= most {
            return Ok(());
        }
        Err(damaged(format_args!(
            "its memory holds more rows of one class than its sampler draws ({} and one more, {most} at most)",
            drawn.positives
        )))
    }

    /// Reserves the memory's slots for the batch of a step, and adds its rows, as the kernels take them, to `rows`.
    pub(super) fn reserve(&mut self, step: u64, numbers: &[u32], rows: &mut Vec<Row>) -> Drawn {
        let alone = self.is_alone(step);
        if self.begins(step) {
            self.memory.reset(self.config.memory());
        }
        let labels = self.dataset.labels_of(numbers);
        for label in &labels {
            self.seen[*label as usize] = true;
        }
        let slots = self.memory.reserve_slots(&labels, numbers);
        let block_rows = self.setup.sizes.blocks(alone).rows;
        let anchors = self.memory.anchors(&labels, slots, block_rows);
        let positives = anchors.iter().map(|row| row.positives as usize).max();
        rows.extend(anchors);
        let references = self.memory.len() as u64;
        let same = labels.iter().map(|label| self.memory.of_class(*label));
        let others = u64::from(alone);
        let anchors = labels.len() as u64;
        let pml_bytes = if let Some(proxies) = &self.proxies {
            pml_proxy_bytes(anchors, proxies.count() as u64)
        // PML lists every triplet for its margin loss too.
        } else if self.config.loss.is_of_pairs() && !matches!(self.config.loss, Loss::Margin(_)) {
            let positives = same.map(|same| same - others).sum();
            pml_pair_bytes(&self.config.loss, anchors, references, positives)
        } else if self.config.miner.draws() {
            let weighed = same.clone().map(|same| same * (references - same)).max();
            pml_drawn_bytes(anchors, references, same.sum(), weighed.unwrap_or(0))
        } else {
            let triplets = same.map(|same| (same - others) * (references - same));
            pml_bytes(anchors, references, triplets.sum())
        };
        Drawn {
            slots,
            references: references as usize,
            positives: positives.unwrap_or(0),
            alone,
            pml_bytes,
        }
    }
}
