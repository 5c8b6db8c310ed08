//! Epochs of shuffled rows, as torch's `DataLoader(shuffle=True, drop_last=True)` gives them.

use rand::seq::SliceRandom as _;
use serde::{Deserialize, Serialize};

use super::{Classes, Draw, Saved};
use crate::base::error::{Error, Result};
use crate::base::rng::Rng;
use crate::rules::arguments::Part;

/// Draws the rows in a new random order each epoch, no row twice; the last ones, which do not fill a batch, are left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShuffledSampler {}

impl Part for ShuffledSampler {
    const PML: &str = "";
}

/// The batches of a [`ShuffledSampler`].
#[derive(Debug)]
pub(crate) struct Shuffled {
    rows: Vec<u32>,
    next: usize,
    batch_size: usize,
    /// Rows of the largest class.
    largest: usize,
}

impl Shuffled {
    /// Draws from these rows, which are those of the classes.
    ///
    /// # Errors
    /// [`Error::Config`] for fewer rows than a batch has.
    pub(crate) fn new(rows: &[u32], classes: &Classes, batch_size: usize) -> Result<Self> {
        if rows.len() < batch_size {
            return Err(Error::Config(format!(
                "batch_size is {batch_size}, and there are {} training rows: lower it",
                rows.len()
            )));
        }
        Ok(Self {
            rows: rows.to_vec(),
            next: rows.len(),
            batch_size,
            largest: classes.iter().map(Vec::len).max().unwrap_or(0),
        })
    }
}

impl Draw for Shuffled {
    fn next_batch(&mut self, rng: &mut Rng, batch: &mut Vec<u32>) {
        if self.rows.len() - self.next < self.batch_size {
            self.rows.shuffle(rng);
            self.next = 0;
        }
        batch.extend(&self.rows[self.next..self.next + self.batch_size]);
        self.next += self.batch_size;
    }

    fn most_of_a_class(&self, window: usize) -> usize {
        let epoch = self.rows.len() / self.batch_size * self.batch_size;
        // In each epoch that the window touches, each row of the class once.
        (self.largest * (window.div_ceil(epoch) + 1)).min(window)
    }

    fn save(&self, numbers: &mut Vec<u32>) {
        numbers.push(self.next as u32);
        numbers.extend(&self.rows);
    }

    fn restore(&mut self, saved: &mut Saved<'_>) -> Option<()> {
        self.next = saved.place(self.rows.len())?;
        self.rows = saved.order_of(&self.rows)?;
        Some(())
    }
}
