//! PML's `HierarchicalSampler`: batches whose classes are of the same few super-classes, so that negatives are alike.

use rand::seq::SliceRandom as _;
use serde::{Deserialize, Serialize};

use super::{Classes, Draw, Saved, SuperClass, batches_touched, check_that, draw_of_class, saved};
use crate::base::error::{Error, Result};
use crate::base::rng::Rng;
use crate::rules::arguments::Part;

/// The most batches of an epoch, whose tuples are all listed.
const MOST_BATCHES: usize = 1 << 22;

/// Draws batches of `super_classes_per_batch` super-classes, the same share of rows of each, `samples_per_class` rows a class.
///
/// An epoch takes each tuple of super-classes `batches_per_super_tuple` times, in random order. Of each super-class in a batch
/// classes are drawn at random, all different while there are any left; a super-class with too few of them takes them again, with
/// further rows. The rows of a class are different if it has as many as are drawn; of a smaller one each row is any of its rows.
/// (PML leaves such a batch short. It also knows `samples_per_class="all"`, whose batches differ in size: not here.)
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HierarchicalSampler {
    /// The text column with the super-class of each row. PML takes the number of a column.
    pub outer_label: String,
    /// Rows of each class, at least 1 and a divisor of `batch_size / super_classes_per_batch`. PML has no default.
    pub samples_per_class: usize,
    /// Super-classes of a batch, at least 1 and a divisor of `batch_size`.
    pub super_classes_per_batch: usize,
    /// Batches of each tuple of super-classes in an epoch, 1 to 1000.
    pub batches_per_super_tuple: usize,
}

impl Part for HierarchicalSampler {
    const PML: &str = "HierarchicalSampler";
}

impl Default for HierarchicalSampler {
    fn default() -> Self {
        Self {
            outer_label: String::new(),
            samples_per_class: 4,
            super_classes_per_batch: 2,
            batches_per_super_tuple: 4,
        }
    }
}

impl HierarchicalSampler {
    pub(super) fn check(&self, batch_size: usize) -> Result<()> {
        let super_classes = self.super_classes_per_batch;
        check_that(
            super_classes >= 1 && batch_size.is_multiple_of(super_classes),
            "super_classes_per_batch",
            super_classes,
            || format!("at least 1 and a divisor of batch_size, {batch_size}"),
        )?;
        let share = batch_size / super_classes;
        check_that(
            self.samples_per_class >= 1 && share.is_multiple_of(self.samples_per_class),
            "samples_per_class",
            self.samples_per_class,
            || {
                format!(
                    "at least 1 and a divisor of batch_size / sampler.super_classes_per_batch, {share}"
                )
            },
        )?;
        check_that(
            (1..=1000).contains(&self.batches_per_super_tuple),
            "batches_per_super_tuple",
            self.batches_per_super_tuple,
            || "between 1 and 1000".to_owned(),
        )
    }
}

/// The batches of a [`HierarchicalSampler`].
#[derive(Debug)]
pub(crate) struct Hierarchical {
    /// The classes of each super-class.
    supers: Vec<Classes>,
    /// Super-classes of a tuple, tuple after tuple.
    tuples: Vec<u32>,
    /// The tuples of the epoch, and the place of the one that comes next.
    order: Vec<u32>,
    next: usize,
    super_classes: usize,
    samples: usize,
    batch_size: usize,
    /// The most rows of one class in a batch.
    most: usize,
}

impl Hierarchical {
    /// Draws from these super-classes: of each its classes, by number, and their rows.
    ///
    /// # Errors
    /// [`Error::Config`] for fewer super-classes than a batch has, or too many tuples of them to list.
    pub(crate) fn new(
        supers: Vec<SuperClass>,
        sampler: &HierarchicalSampler,
        batch_size: usize,
    ) -> Result<Self> {
        let super_classes = sampler.super_classes_per_batch;
        if supers.len() < super_classes {
            return Err(Error::Config(format!(
                "sampler.super_classes_per_batch is {super_classes}: the training rows are of {} super-classes, so it must be \
                 at most that",
                supers.len()
            )));
        }
        let times = sampler.batches_per_super_tuple;
        let count = count_tuples(supers.len(), super_classes);
        let Some(batches) = count
            .and_then(|count| count.checked_mul(times))
            .filter(|batches| *batches <= MOST_BATCHES)
        else {
            return Err(Error::Config(format!(
                "sampler.super_classes_per_batch is {super_classes}: {} super-classes have too many tuples of that size for an \
                 epoch of at most {MOST_BATCHES} batches, {times} for each tuple: lower it or \
                 sampler.batches_per_super_tuple",
                supers.len()
            )));
        };
        let groups = batch_size / super_classes / sampler.samples_per_class;
        let most = most_in_a_batch(&supers, super_classes, groups) * sampler.samples_per_class;
        let rows_of = |classes: SuperClass| {
            let rows = classes.into_iter().map(|(_, rows)| rows);
            rows.collect::<Classes>()
        };
        Ok(Self {
            tuples: tuples(supers.len(), super_classes),
            order: (0..batches).map(|batch| (batch / times) as u32).collect(),
            next: batches,
            supers: supers.into_iter().map(rows_of).collect(),
            super_classes,
            samples: sampler.samples_per_class,
            batch_size,
            most,
        })
    }
}

impl Draw for Hierarchical {
    fn next_batch(&mut self, rng: &mut Rng, batch: &mut Vec<u32>) {
        if self.next == self.order.len() {
            self.order.shuffle(rng);
            self.next = 0;
        }
        let start = self.order[self.next] as usize * self.super_classes;
        self.next += 1;
        let groups = self.batch_size / self.super_classes / self.samples;
        for outer in &self.tuples[start..start + self.super_classes] {
            let classes = &mut self.supers[*outer as usize];
            let count = classes.len();
            let (chosen, _) = classes.partial_shuffle(rng, groups);
            for (place, rows) in chosen.iter_mut().enumerate() {
                // The first classes come once more than the others if the groups do not divide.
                let times = groups / count + usize::from(place < groups % count);
                draw_of_class(rows, times * self.samples, rng, batch);
            }
        }
    }

    fn most_of_a_class(&self, window: usize) -> usize {
        (self.most * batches_touched(window, self.batch_size)).min(window)
    }

    fn save(&self, numbers: &mut Vec<u32>) {
        numbers.push(self.next as u32);
        numbers.extend(&self.order);
        for classes in &self.supers {
            saved::save(classes, numbers);
        }
    }

    fn restore(&mut self, saved: &mut Saved<'_>) -> Option<()> {
        self.next = saved.place(self.order.len())?;
        self.order = saved.order_of(&self.order)?;
        for classes in &mut self.supers {
            *classes = saved.orders_of(classes)?;
        }
        Some(())
    }
}

/// The most groups of one class in a batch: it may be a class of several super-classes, each of which brings it.
fn most_in_a_batch(supers: &[SuperClass], super_classes: usize, groups: usize) -> usize {
    let mut times: Vec<(u32, usize)> = Vec::new();
    for classes in supers {
        let most = groups.div_ceil(classes.len());
        times.extend(classes.iter().map(|(class, _)| (*class, most)));
    }
    // By class, the largest number first.
    crate::base::order::sort_by(&mut times, |a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
    let of_class = times.chunk_by(|a, b| a.0 == b.0);
    let of_batch = of_class.map(|times| times.iter().take(super_classes).map(|(_, most)| most));
    of_batch.map(Iterator::sum).max().unwrap_or(0)
}

/// Number of tuples of `size` different things; `None` if it overflows.
fn count_tuples(things: usize, size: usize) -> Option<usize> {
    // After each factor it is a count of tuples itself, so nothing is left over.
    (0..size.min(things - size)).try_fold(1usize, |count, i| {
        Some(count.checked_mul(things - i)? / (i + 1))
    })
}

/// All tuples of `size` different numbers below `things`, one after the other, in ascending order.
fn tuples(things: usize, size: usize) -> Vec<u32> {
    let mut tuple: Vec<usize> = (0..size).collect();
    let mut all = Vec::new();
    loop {
        all.extend(tuple.iter().map(|thing| *thing as u32));
        // The last number that can grow does, and those after it follow it.
        let Some(grows) = (0..size).rfind(|i| tuple[*i] < things - size + i) else {
            return all;
        };
        let first = tuple[grows] + 1;
        (tuple[grows..].iter_mut().zip(first..)).for_each(|(place, thing)| *place = thing);
    }
}
