//! PML's `MPerClassSampler`: batches of a few classes with as many rows of each.

use rand::seq::SliceRandom as _;
use serde::{Deserialize, Serialize};

use super::{Classes, Draw, Saved, batches_touched, check_classes, draw_of_class, saved};
use crate::base::error::Result;
use crate::base::rng::Rng;
use crate::rules::arguments::Part;

/// Draws `batch_size / m` classes at random for each batch, all different, and `m` rows of each.
///
/// The rows of a class are different if it has `m`; of a smaller one each row is any of its rows. Batches do not depend on each
/// other: no epoch promises every row ([`super::MPerClassEpochSampler`] does).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MPerClassSampler {
    /// Rows of each class in a batch, at least 2 and a divisor of `batch_size`. PML has no default.
    pub m: usize,
}

impl Part for MPerClassSampler {
    const PML: &str = "MPerClassSampler";
}

impl Default for MPerClassSampler {
    fn default() -> Self {
        Self { m: 4 }
    }
}

/// The batches of an [`MPerClassSampler`].
#[derive(Debug)]
pub(crate) struct MPerClass {
    classes: Classes,
    m: usize,
    batch_size: usize,
}

impl MPerClass {
    /// Draws from these classes.
    ///
    /// # Errors
    /// [`crate::base::error::Error::Config`] for fewer classes than a batch needs.
    pub(crate) fn new(
        classes: Classes,
        sampler: &MPerClassSampler,
        batch_size: usize,
    ) -> Result<Self> {
        check_classes(&classes, sampler.m, batch_size)?;
        Ok(Self {
            classes,
            m: sampler.m,
            batch_size,
        })
    }
}

impl Draw for MPerClass {
    fn next_batch(&mut self, rng: &mut Rng, batch: &mut Vec<u32>) {
        let (chosen, _) = self.classes.partial_shuffle(rng, self.batch_size / self.m);
        for rows in chosen {
            draw_of_class(rows, self.m, rng, batch);
        }
    }

    fn most_of_a_class(&self, window: usize) -> usize {
        (self.m * batches_touched(window, self.batch_size)).min(window)
    }

    fn save(&self, numbers: &mut Vec<u32>) {
        saved::save(&self.classes, numbers);
    }

    fn restore(&mut self, saved: &mut Saved<'_>) -> Option<()> {
        self.classes = saved.orders_of(&self.classes)?;
        Some(())
    }
}
