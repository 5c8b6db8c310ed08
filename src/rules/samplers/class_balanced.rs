//! Classes equally often, however many rows they have.

use rand::seq::SliceRandom as _;
use serde::{Deserialize, Serialize};

use super::{Classes, Draw, Saved, saved};
use crate::base::rng::{self, Rng};
use crate::rules::arguments::Part;

/// Draws a class at random for each row of a batch, then a row of it: every class is as frequent as every other.
///
/// The rows of a class come in random order, each once before any comes again. A small class so repeats its rows more often
/// than a large one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassBalancedSampler {}

impl Part for ClassBalancedSampler {
    const PML: &str = "";
}

/// The batches of a [`ClassBalancedSampler`].
#[derive(Debug)]
pub(crate) struct ClassBalanced {
    /// The rows of each class, and the place of the one that comes next.
    classes: Vec<(Vec<u32>, usize)>,
    batch_size: usize,
}

impl ClassBalanced {
    /// Draws from these classes.
    pub(crate) fn new(classes: Classes, batch_size: usize) -> Self {
        let at_the_end = |rows: Vec<u32>| {
            let next = rows.len();
            (rows, next)
        };
        Self {
            classes: classes.into_iter().map(at_the_end).collect(),
            batch_size,
        }
    }
}

impl Draw for ClassBalanced {
    fn next_batch(&mut self, rng: &mut Rng, batch: &mut Vec<u32>) {
        for _ in 0..self.batch_size {
            let class = rng::below(rng, self.classes.len());
            let (rows, next) = &mut self.classes[class];
            if *next == rows.len() {
                rows.shuffle(rng);
                *next = 0;
            }
            batch.push(rows[*next]);
            *next += 1;
        }
    }

    /// The whole window: chance may give one class again and again.
    fn most_of_a_class(&self, window: usize) -> usize {
        window
    }

    fn save(&self, numbers: &mut Vec<u32>) {
        saved::save(self.classes.iter().map(|(rows, _)| rows), numbers);
        numbers.extend(self.classes.iter().map(|(_, next)| *next as u32));
    }

    fn restore(&mut self, saved: &mut Saved<'_>) -> Option<()> {
        let classes: Classes = self.classes.iter().map(|(rows, _)| rows.clone()).collect();
        let orders = saved.orders_of(&classes)?;
        let placed = orders.into_iter().map(|rows| {
            let next = saved.place(rows.len())?;
            Some((rows, next))
        });
        self.classes = placed.collect::<Option<_>>()?;
        Some(())
    }
}
