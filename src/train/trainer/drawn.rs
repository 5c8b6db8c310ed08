//! Rows of a step: checks of a batch, its place in the memory, and [`Drawn`], the step that they make.

use super::Trainer;
use crate::base::error::{Error, Result};
use crate::base::forecast::MiningMethod;
use crate::base::order;
use crate::engine::checkpoint::damaged;
use crate::kernels::normalize::Slots;
use crate::kernels::ranks::Row;
use crate::rules::miners::{MiningCounts, Tuples};
use crate::rules::pml_step::PmlStep;

/// Host-side description of a step.
pub(super) struct Drawn {
    pub(super) slots: Slots,
    pub(super) references: usize,
    /// The most positives of one of its rows.
    pub(super) positives: usize,
    /// The references are the batch itself, and get a gradient too.
    pub(super) alone: bool,
    /// The step as PML takes it.
    pub(super) pml: PmlStep,
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
        let pml = PmlStep {
            anchors,
            references,
            proxies: self
                .proxies
                .as_ref()
                .map_or(0, |proxies| proxies.count() as u64),
            alone,
            positives: same.clone().map(|same| same - others).sum(),
            triplets: (same
                .clone()
                .map(|same| (same - others) * (references - same)))
            .sum(),
            weighed: same
                .map(|same| same * (references - same))
                .max()
                .unwrap_or(0),
        };
        Drawn {
            slots,
            references: references as usize,
            positives: positives.unwrap_or(0),
            alone,
            pml,
        }
    }

    /// Bytes that PML would take at the peak of a step, of which this was mined.
    pub(super) fn pml_bytes(&self, drawn: &Drawn, mining: &MiningCounts) -> u64 {
        // A pair of a loss of pairs counts as often as triplets contain it, twice a triplet.
        let mined = match mining.of {
            Tuples::Triplets => mining.mined,
            Tuples::Pairs => mining.mined / 2,
        };
        drawn.pml.peak(&self.config, Some(mined))
    }
}
