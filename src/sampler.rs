//! [`Sampler`]: which rows make a batch. Takes the training rows of a split, gives row numbers.

use rand::seq::SliceRandom as _;

use crate::config::TrainConfig;
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::rng::{self, Rng};

/// An endless stream of batches, the same for the same seed everywhere.
#[derive(Debug)]
pub(crate) struct Sampler {
    batch_size: usize,
    order: Order,
    rng: Rng,
}

#[derive(Debug)]
enum Order {
    /// Every row once an epoch, in random order; what is less than a batch at the end is dropped.
    Shuffled { rows: Vec<u32>, next: usize },
    /// PML's `MPerClassSampler`: classes in random order, `m` rows of each, batches independent of each other.
    PerClass { classes: Vec<Vec<u32>>, m: usize },
}

impl Sampler {
    /// Samples from `rows` of the data set.
    ///
    /// # Errors
    /// [`Error::Config`] when a batch needs more rows or classes than there are.
    pub(crate) fn new(dataset: &Dataset, rows: &[u32], config: &TrainConfig) -> Result<Self> {
        let batch_size = config.batch_size;
        let order = match batch_size.checked_div(config.m_per_class) {
            None => {
                if rows.len() < batch_size {
                    return Err(Error::Config(format!(
                        "batch_size is {batch_size}, and there are {} training rows: lower it",
                        rows.len()
                    )));
                }
                Order::Shuffled {
                    rows: rows.to_vec(),
                    next: rows.len(),
                }
            }
            Some(needed) => {
                let mut classes = vec![Vec::new(); dataset.class_names.len()];
                for row in rows {
                    classes[dataset.labels[*row as usize] as usize].push(*row);
                }
                classes.retain(|rows| !rows.is_empty());
                if classes.len() < needed {
                    return Err(Error::Config(format!(
                        "batch_size / m_per_class asks for {needed} classes a batch, and there are {} to train on: \
                     lower batch_size or raise m_per_class",
                        classes.len()
                    )));
                }
                Order::PerClass {
                    classes,
                    m: config.m_per_class,
                }
            }
        };
        Ok(Self {
            batch_size,
            order,
            rng: rng::stream(config.seed, "batches"),
        })
    }

    /// Appends the rows of the next batch.
    pub(crate) fn next_batch(&mut self, batch: &mut Vec<u32>) {
        let rng = &mut self.rng;
        match &mut self.order {
            Order::Shuffled { rows, next } => {
                if rows.len() - *next < self.batch_size {
                    rows.shuffle(rng);
                    *next = 0;
                }
                batch.extend(&rows[*next..*next + self.batch_size]);
                *next += self.batch_size;
            }
            Order::PerClass { classes, m } => {
                let (chosen, _) = classes.partial_shuffle(rng, self.batch_size / *m);
                for rows in chosen {
                    if rows.len() >= *m {
                        batch.extend(&*rows.partial_shuffle(rng, *m).0);
                    } else {
                        batch.extend((0..*m).map(|_| rows[rng::below(rng, rows.len())]));
                    }
                }
            }
        }
    }

    /// The most rows of one class among any `window` rows in a row, where no class has more than `class_size`.
    pub(crate) fn most_of_a_class(&self, class_size: usize, window: usize) -> usize {
        let most = match &self.order {
            Order::Shuffled { rows, .. } => {
                let epoch = rows.len() / self.batch_size * self.batch_size;
                class_size * (window.div_ceil(epoch) + 1)
            }
            Order::PerClass { m, .. } => m * (window.div_ceil(self.batch_size) + 1),
        };
        most.min(window)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    fn sampler(assignments: &[&str]) -> (Dataset, Sampler) {
        let dataset = Dataset::sample("digits", 0).expect("is there");
        let config = assignments
            .iter()
            .fold(TrainConfig::default(), |config, set| {
                config.with_set(set).expect("sets")
            });
        let rows: Vec<u32> = (0..1797).collect();
        let sampler = Sampler::new(&dataset, &rows, &config).expect("fits");
        (dataset, sampler)
    }

    #[test]
    fn an_epoch_of_shuffled_batches_holds_no_row_twice() {
        let (_, mut sampler) = sampler(&["batch_size=64"]);
        let mut rows = Vec::new();
        for _ in 0..28 {
            sampler.next_batch(&mut rows);
        }
        assert_eq!(rows.iter().collect::<BTreeSet<_>>().len(), 28 * 64);
        let first = rows[..64].to_vec();
        rows.clear();
        sampler.next_batch(&mut rows);
        assert_ne!(rows, first, "the next epoch has another order");
    }

    #[test]
    fn m_per_class_batches_hold_m_different_rows_of_each_class() {
        let (dataset, mut sampler) = sampler(&["batch_size=20", "m_per_class=5"]);
        for _ in 0..50 {
            let mut rows = Vec::new();
            sampler.next_batch(&mut rows);
            assert_eq!(rows.iter().collect::<BTreeSet<_>>().len(), 20);
            let mut counts = BTreeMap::new();
            for row in rows {
                *counts.entry(dataset.labels[row as usize]).or_insert(0) += 1;
            }
            assert_eq!(counts.into_values().collect::<Vec<_>>(), [5; 4]);
        }
    }

    #[test]
    fn a_class_with_fewer_than_m_rows_repeats_them() {
        let dataset = Dataset::sample("digits", 0).expect("is there");
        let zeros: Vec<u32> = (0..1797)
            .filter(|row| dataset.labels[*row as usize] == 0)
            .take(2)
            .collect();
        let ones: Vec<u32> = (0..1797)
            .filter(|row| dataset.labels[*row as usize] == 1)
            .take(2)
            .collect();
        let config = TrainConfig {
            batch_size: 8,
            m_per_class: 4,
            ..TrainConfig::default()
        };
        let rows = [zeros, ones].concat();
        let mut sampler = Sampler::new(&dataset, &rows, &config).expect("fits");
        let mut batch = Vec::new();
        sampler.next_batch(&mut batch);
        assert_eq!(batch.len(), 8);
        assert!(batch.iter().all(|row| rows.contains(row)));
    }

    #[test]
    fn batches_that_cannot_be_filled_are_refused_with_the_numbers() {
        let dataset = Dataset::sample("digits", 0).expect("is there");
        let refuse = |rows: u32, sets: [&str; 2]| {
            let config = sets.iter().fold(TrainConfig::default(), |config, set| {
                config.with_set(set).expect("sets")
            });
            let rows: Vec<u32> = (0..rows).collect();
            Sampler::new(&dataset, &rows, &config)
                .expect_err("refused")
                .to_string()
        };
        assert_eq!(
            refuse(20, ["batch_size=32", "m_per_class=0"]),
            "batch_size is 32, and there are 20 training rows: lower it"
        );
        assert!(refuse(1797, ["batch_size=44", "m_per_class=4"]).contains("asks for 11 classes"));
    }

    #[test]
    fn no_window_holds_more_of_a_class_than_was_promised() {
        for sets in [&["batch_size=64"][..], &["batch_size=60", "m_per_class=20"]] {
            let (dataset, mut sampler) = sampler(sets);
            let class_size = dataset.class_sizes().into_iter().max().unwrap_or(0) as usize;
            let mut rows = Vec::new();
            for _ in 0..100 {
                sampler.next_batch(&mut rows);
            }
            for window in [60, 500, 2500] {
                let promised = sampler.most_of_a_class(class_size, window);
                for part in rows.windows(window).step_by(7) {
                    let mut counts = [0; 10];
                    part.iter()
                        .for_each(|row| counts[dataset.labels[*row as usize] as usize] += 1);
                    assert!(counts.into_iter().all(|count| count <= promised));
                }
            }
        }
    }
}
