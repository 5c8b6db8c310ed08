//! The batches of PML's `MPerClassSampler` in epochs that draw every row, which its users ask for (issue 684).

use std::collections::HashSet;

use rand::seq::SliceRandom as _;
use serde::{Deserialize, Serialize};

use super::{Classes, Draw, Saved, batches_touched, check_classes, saved};
use crate::base::error::Result;
use crate::base::rng::Rng;
use crate::rules::arguments::Part;

/// Draws `batch_size / m` groups for each batch, of `m` rows of one class each, so that an epoch draws every row.
///
/// In an epoch each class is shuffled and cut into groups of `m`. A last group that is not full goes on with the class's first
/// rows, so `ceil(rows / m)` groups draw every row once and fewer than `m` again (a class of fewer than `m` rows fills its one
/// group with copies). If the groups of all classes do not fill the last batch, the classes with the fewest groups give one more,
/// cut in the same way. An epoch has the same number of batches each time.
///
/// No class has two groups in a batch, unless it has more groups than an epoch has batches: its groups are then spread over
/// all batches as evenly as can be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MPerClassEpochSampler {
    /// Rows of a group, at least 2 and a divisor of `batch_size`.
    pub m: usize,
}

impl Part for MPerClassEpochSampler {
    /// The nearest: it draws rows at random, in no epochs.
    const PML: &str = "MPerClassSampler";
}

impl Default for MPerClassEpochSampler {
    fn default() -> Self {
        Self { m: 4 }
    }
}

/// The batches of an [`MPerClassEpochSampler`].
#[derive(Debug)]
pub(crate) struct MPerClassEpoch {
    classes: Classes,
    m: usize,
    batch_size: usize,
    /// Batches of an epoch.
    batches: usize,
    /// The rows of the epoch, batch by batch.
    epoch: Vec<u32>,
    /// The batch of the epoch that comes next.
    next: usize,
}

impl MPerClassEpoch {
    /// Draws from these classes.
    ///
    /// # Errors
    /// [`crate::base::error::Error::Config`] for fewer classes than a batch needs.
    pub(crate) fn new(
        classes: Classes,
        sampler: &MPerClassEpochSampler,
        batch_size: usize,
    ) -> Result<Self> {
        let m = sampler.m;
        check_classes(&classes, m, batch_size)?;
        let groups: usize = classes.iter().map(|rows| rows.len().div_ceil(m)).sum();
        let batches = groups.div_ceil(batch_size / m);
        Ok(Self {
            classes,
            m,
            batch_size,
            batches,
            epoch: Vec::new(),
            next: batches,
        })
    }

    /// Groups of each class in an epoch: all that its rows need, and those that fill the last batch.
    fn groups(&self, order: &[usize]) -> Vec<usize> {
        let mut groups: Vec<usize> = self
            .classes
            .iter()
            .map(|rows| rows.len().div_ceil(self.m))
            .collect();
        let places = self.batches * (self.batch_size / self.m);
        let mut missing = places - groups.iter().sum::<usize>();
        let mut fewest_first = order.to_vec();
        crate::base::order::sort_by_key(&mut fewest_first, |class| groups[*class]);
        // There is room: with as many classes as a batch has groups, one group of each in every batch would be enough.
        while missing > 0 {
            for class in &fewest_first {
                if missing > 0 && groups[*class] < self.batches {
                    groups[*class] += 1;
                    missing -= 1;
                }
            }
        }
        groups
    }

    /// Deals the groups of an epoch to its batches: round after round, one to each batch.
    fn shuffle(&mut self, rng: &mut Rng) {
        let mut order: Vec<usize> = (0..self.classes.len()).collect();
        order.shuffle(rng);
        let groups = self.groups(&order);
        let mut deck: Vec<usize> = (0..self.batches).collect();
        deck.shuffle(rng);
        self.epoch.resize(self.batches * self.batch_size, 0);
        let (mut round, mut place) = (0, 0);
        for class in order {
            let rows = &mut self.classes[class];
            rows.shuffle(rng);
            let mut dealt = rows.iter().cycle();
            // Groups that the class has in this round: in the batches that came last.
            let mut own = 0;
            for _ in 0..groups[class] {
                if place == self.batches {
                    // Those batches come last again, so that the class meets the others first.
                    if own < self.batches {
                        let (others, met) = deck.split_at_mut(self.batches - own);
                        others.shuffle(rng);
                        met.shuffle(rng);
                    }
                    (round, place, own) = (round + 1, 0, 0);
                }
                let start = deck[place] * self.batch_size + round * self.m;
                for slot in &mut self.epoch[start..start + self.m] {
                    *slot = *dealt.next().expect("a class has rows");
                }
                place += 1;
                own += 1;
            }
        }
        self.next = 0;
    }
}

impl Draw for MPerClassEpoch {
    fn next_batch(&mut self, rng: &mut Rng, batch: &mut Vec<u32>) {
        if self.next == self.batches {
            self.shuffle(rng);
        }
        let start = self.next * self.batch_size;
        batch.extend(&self.epoch[start..start + self.batch_size]);
        self.next += 1;
    }

    fn most_of_a_class(&self, window: usize) -> usize {
        let largest = self.classes.iter().map(Vec::len).max().unwrap_or(0);
        let needed = largest.div_ceil(self.m);
        // A class that fills the last batch gets one more group than it needs, or else ends at one in every batch.
        let in_an_epoch = (needed + 1).min(needed.max(self.batches));
        let in_a_batch = needed.div_ceil(self.batches);
        let by_batches = in_a_batch * batches_touched(window, self.batch_size);
        let by_epochs = in_an_epoch * (window.div_ceil(self.batches * self.batch_size) + 1);
        (self.m * by_batches.min(by_epochs)).min(window)
    }

    fn save(&self, numbers: &mut Vec<u32>) {
        numbers.push(self.next as u32);
        saved::save(self.classes.iter().chain([&self.epoch]), numbers);
    }

    fn restore(&mut self, saved: &mut Saved<'_>) -> Option<()> {
        self.next = saved.place(self.batches)?;
        self.classes = saved.orders_of(&self.classes)?;
        let dealt = saved.place(self.batches * self.batch_size)?;
        self.epoch = saved.take(dealt)?.to_vec();
        let own: HashSet<&u32> = self.classes.iter().flatten().collect();
        // Before the first batch nothing is dealt.
        let whole = dealt == self.batches * self.batch_size || dealt == 0;
        let comes = self.next == self.batches || dealt > 0;
        (whole && comes && self.epoch.iter().all(|row| own.contains(row))).then_some(())
    }
}
