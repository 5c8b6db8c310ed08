//! [`Sampler`]: the rule that chooses the rows of a batch. One rule a file, with PML's arguments.
//!
//! Each file holds the arguments of a sampler, if it has any, and its [`Draw`], which takes the training rows by class and gives
//! row numbers, batch after batch.

mod class_balanced;
mod hierarchical;
mod m_per_class;
mod m_per_class_epoch;
mod saved;
mod shuffled;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use class_balanced::ClassBalancedSampler;
pub use hierarchical::HierarchicalSampler;
pub use m_per_class::MPerClassSampler;
pub use m_per_class_epoch::MPerClassEpochSampler;
pub(crate) use saved::Saved;
pub use shuffled::ShuffledSampler;

use crate::base::error::{Error, Result};
use crate::base::rng::{self, Rng};
use crate::rules::arguments::Part as _;
use class_balanced::ClassBalanced;
use hierarchical::Hierarchical;
use m_per_class::MPerClass;
use m_per_class_epoch::MPerClassEpoch;
use shuffled::Shuffled;

/// A sampler and its arguments; names and arguments are PML's, if PML has them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case")]
pub enum Sampler {
    /// See [`ShuffledSampler`].
    Shuffled(ShuffledSampler),
    /// See [`MPerClassSampler`].
    MPerClass(MPerClassSampler),
    /// See [`MPerClassEpochSampler`].
    MPerClassEpoch(MPerClassEpochSampler),
    /// See [`ClassBalancedSampler`].
    ClassBalanced(ClassBalancedSampler),
    /// See [`HierarchicalSampler`].
    Hierarchical(HierarchicalSampler),
}

/// The rows of each class, none of them empty.
pub(crate) type Classes = Vec<Vec<u32>>;

/// The classes of a super-class, by number, and the rows of each; none of them empty.
pub(crate) type SuperClass = Vec<(u32, Vec<u32>)>;

/// An endless source of batches; the same random numbers give the same batches.
pub(crate) trait Draw: fmt::Debug {
    /// Appends the rows of the next batch.
    fn next_batch(&mut self, rng: &mut Rng, batch: &mut Vec<u32>);

    /// An upper bound of the rows of one class among any `window` consecutive rows, wherever they begin and whatever the random
    /// numbers are; a row that comes twice counts twice.
    fn most_of_a_class(&self, window: usize) -> usize;

    /// Appends the state from which, with the random numbers, the next batches follow: orders and places.
    fn save(&self, numbers: &mut Vec<u32>);

    /// Restores that state; `None` if it cannot be one of this sampler with these rows.
    fn restore(&mut self, saved: &mut Saved<'_>) -> Option<()>;
}

impl Sampler {
    /// The names in settings, each with its name in lists.
    pub const ALL: [(&str, &str); 5] = [
        ("shuffled", "shuffled rows"),
        ("m-per-class", "m rows per class"),
        ("m-per-class-epoch", "m rows per class, every row"),
        ("class-balanced", "classes equally often"),
        ("hierarchical", "classes of few super-classes"),
    ];

    /// Its name in settings.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Shuffled(_) => "shuffled",
            Self::MPerClass(_) => "m-per-class",
            Self::MPerClassEpoch(_) => "m-per-class-epoch",
            Self::ClassBalanced(_) => "class-balanced",
            Self::Hierarchical(_) => "hierarchical",
        }
    }

    /// The sampler that `m_per_class=m` stands for: m-per-class with that `m`, or m-per-class-epoch if this is one already; 0
    /// stands for shuffled rows.
    pub(crate) fn with_m_per_class(&self, m: usize) -> Self {
        match self {
            _ if m == 0 => Self::default(),
            Self::MPerClassEpoch(_) => Self::MPerClassEpoch(MPerClassEpochSampler { m }),
            _ => Self::MPerClass(MPerClassSampler { m }),
        }
    }

    /// Rows of a class in a batch, if the sampler fixes their number.
    pub(crate) fn rows_of_class(&self) -> Option<usize> {
        match self {
            Self::Shuffled(_) | Self::ClassBalanced(_) => None,
            Self::MPerClass(sampler) => Some(sampler.m),
            Self::MPerClassEpoch(sampler) => Some(sampler.m),
            Self::Hierarchical(sampler) => Some(sampler.samples_per_class),
        }
    }

    /// Tells if every batch of this size holds rows of one class alone.
    pub(crate) fn draws_one_class(&self, batch_size: usize) -> bool {
        match self {
            Self::MPerClass(MPerClassSampler { m })
            | Self::MPerClassEpoch(MPerClassEpochSampler { m }) => *m == batch_size,
            Self::Hierarchical(sampler) => sampler.samples_per_class == batch_size,
            Self::Shuffled(_) | Self::ClassBalanced(_) => false,
        }
    }

    /// Checks every argument against its range, for batches of this size.
    ///
    /// # Errors
    /// [`Error::Config`] for the first that is out of it, with the range.
    pub(crate) fn check(&self, batch_size: usize) -> Result<()> {
        match self {
            Self::Shuffled(_) | Self::ClassBalanced(_) => Ok(()),
            Self::MPerClass(MPerClassSampler { m })
            | Self::MPerClassEpoch(MPerClassEpochSampler { m }) => {
                let holds = *m >= 2 && batch_size.is_multiple_of(*m);
                check_that(holds, "m", *m, || {
                    format!("at least 2 and a divisor of batch_size, {batch_size}")
                })
            }
            Self::Hierarchical(sampler) => sampler.check(batch_size),
        }
    }

    /// Its class in PML, or the nearest; empty if PML has none.
    pub(crate) fn pml(&self) -> &'static str {
        match self {
            Self::Shuffled(_) => ShuffledSampler::PML,
            Self::MPerClass(_) => MPerClassSampler::PML,
            Self::MPerClassEpoch(_) => MPerClassEpochSampler::PML,
            Self::ClassBalanced(_) => ClassBalancedSampler::PML,
            Self::Hierarchical(_) => HierarchicalSampler::PML,
        }
    }

    /// Its batches of these rows, which are those of the classes; `super_classes` gives those that a text column says.
    ///
    /// # Errors
    /// [`Error::Config`] if a batch needs more rows or classes than there are, or that column is missing.
    pub(crate) fn draw(
        &self,
        rows: &[u32],
        classes: Classes,
        super_classes: impl FnOnce(&str) -> Result<Vec<SuperClass>>,
        batch_size: usize,
    ) -> Result<Box<dyn Draw>> {
        Ok(match self {
            Self::Shuffled(_) => Box::new(Shuffled::new(rows, &classes, batch_size)?),
            Self::MPerClass(sampler) => Box::new(MPerClass::new(classes, sampler, batch_size)?),
            Self::MPerClassEpoch(sampler) => {
                Box::new(MPerClassEpoch::new(classes, sampler, batch_size)?)
            }
            Self::ClassBalanced(_) => Box::new(ClassBalanced::new(classes, batch_size)),
            Self::Hierarchical(sampler) => {
                let supers = super_classes(&sampler.outer_label)?;
                Box::new(Hierarchical::new(supers, sampler, batch_size)?)
            }
        })
    }
}

impl Default for Sampler {
    fn default() -> Self {
        Self::Shuffled(ShuffledSampler {})
    }
}

/// Refuses the value of an argument unless its rule holds.
fn check_that(holds: bool, key: &str, value: usize, rule: impl Fn() -> String) -> Result<()> {
    if holds {
        return Ok(());
    }
    Err(Error::Config(format!(
        "sampler.{key} is {value}: it must be {}",
        rule()
    )))
}

/// Appends `count` rows of a class at random: different ones if it has as many, else each of them any of its rows.
fn draw_of_class(rows: &mut [u32], count: usize, rng: &mut Rng, batch: &mut Vec<u32>) {
    use rand::seq::SliceRandom as _;

    if rows.len() >= count {
        batch.extend(&*rows.partial_shuffle(rng, count).0);
    } else {
        batch.extend((0..count).map(|_| rows[rng::below(rng, rows.len())]));
    }
}

/// Refuses classes that are fewer than a batch of `m` rows of each has.
fn check_classes(classes: &Classes, m: usize, batch_size: usize) -> Result<()> {
    let needed = batch_size / m;
    if classes.len() >= needed {
        return Ok(());
    }
    Err(Error::Config(format!(
        "batch_size / sampler.m asks for {needed} classes a batch, and there are {} to train on: lower batch_size or raise \
         sampler.m",
        classes.len()
    )))
}

/// The most batches that `window` consecutive rows can touch.
fn batches_touched(window: usize, batch_size: usize) -> usize {
    window.div_ceil(batch_size) + 1
}

#[cfg(test)]
mod tests;
