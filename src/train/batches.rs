//! [`Batches`]: the stream of training batches. Takes the training rows of a split, gives row numbers by the run's sampler.

use std::collections::BTreeMap;

use crate::base::error::{Error, Result};
use crate::base::rng::{self, Rng};
use crate::data::Dataset;
use crate::rules::config::TrainConfig;
use crate::rules::samplers::{Classes, Draw, Saved, SuperClass};

/// An endless stream of batches that depends on the seed alone, not on the platform.
#[derive(Debug)]
pub(crate) struct Batches {
    draw: Box<dyn Draw>,
    rng: Rng,
}

impl Batches {
    /// Draws batches from these rows of the data set.
    ///
    /// # Errors
    /// [`Error::Config`] if a batch needs more rows or classes than there are, or a column that is missing.
    pub(crate) fn new(dataset: &Dataset, rows: &[u32], config: &TrainConfig) -> Result<Self> {
        let batch_size = config.batch_size;
        let classes = by_class(dataset, rows);
        let super_classes = |column: &str| by_super_class(dataset, rows, column);
        let sampler = &config.sampler;
        let draw = sampler.draw(rows, classes, super_classes, batch_size)?;
        Ok(Self {
            draw,
            rng: rng::stream(config.seed, "batches"),
        })
    }

    /// Appends the rows of the next batch.
    pub(crate) fn next_batch(&mut self, batch: &mut Vec<u32>) {
        self.draw.next_batch(&mut self.rng, batch);
    }

    /// An upper bound of the rows of one class among any `window` consecutive rows.
    pub(crate) fn most_of_a_class(&self, window: usize) -> usize {
        self.draw.most_of_a_class(window)
    }

    /// State of the random generator and of the sampler, from which all later batches follow.
    pub(crate) fn save(&self) -> (u128, Vec<u32>) {
        let mut numbers = Vec::new();
        self.draw.save(&mut numbers);
        (self.rng.state(), numbers)
    }

    /// Restores a saved state; `None` if it is of another sampler, or of other rows.
    pub(crate) fn restore(&mut self, generator: u128, numbers: &[u32]) -> Option<()> {
        let mut saved = Saved(numbers);
        self.draw.restore(&mut saved)?;
        // States of the generator are odd.
        let whole = saved.0.is_empty() && generator % 2 == 1;
        self.rng = Rng::new(generator);
        whole.then_some(())
    }
}

/// Rows of each class that has any, in label order.
fn by_class(dataset: &Dataset, rows: &[u32]) -> Classes {
    let mut classes = vec![Vec::new(); dataset.class_names.len()];
    for row in rows {
        classes[dataset.labels[*row as usize] as usize].push(*row);
    }
    classes.retain(|rows| !rows.is_empty());
    classes
}

/// Classes of each super-class, both in their order, with the rows of each.
fn by_super_class(dataset: &Dataset, rows: &[u32], column: &str) -> Result<Vec<SuperClass>> {
    let setting = "sampler.outer_label";
    if column.is_empty() {
        return Err(Error::Config(format!(
            "{setting} is empty: it must be the text column that says the super-class of each row; {}",
            dataset.text_columns()
        )));
    }
    let names = dataset.text_column(setting, column)?;
    let mut supers: BTreeMap<&str, BTreeMap<u32, Vec<u32>>> = BTreeMap::new();
    for row in rows {
        let place = *row as usize;
        let classes = supers.entry(&names[place]).or_default();
        let rows = classes.entry(dataset.labels[place]).or_default();
        rows.push(*row);
    }
    let classes = |classes: BTreeMap<_, _>| classes.into_iter().collect();
    Ok(supers.into_values().map(classes).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::rules::samplers::Sampler;

    fn sampler(assignments: &[&str]) -> (Dataset, Batches) {
        let dataset = Dataset::sample("digits", 0).expect("is there");
        let config = assignments
            .iter()
            .fold(TrainConfig::default(), |config, set| {
                config.with_set(set).expect("sets")
            });
        let rows: Vec<u32> = (0..1797).collect();
        let sampler = Batches::new(&dataset, &rows, &config).expect("fits");
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
            sampler: Sampler::default().with_m_per_class(4),
            ..TrainConfig::default()
        };
        let rows = [zeros, ones].concat();
        let mut sampler = Batches::new(&dataset, &rows, &config).expect("fits");
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
            Batches::new(&dataset, &rows, &config)
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
    fn super_classes_come_from_a_text_column() {
        let mut dataset = Dataset::sample("digits", 0).expect("is there");
        let refused = |dataset: &Dataset, column: &str| {
            let config = TrainConfig::default().with_set("sampler=hierarchical");
            let config = config.and_then(|c| c.with_set(&format!("sampler.outer_label={column}")));
            let rows: Vec<u32> = (0..1797).collect();
            Batches::new(dataset, &rows, &config.expect("sets")).map_err(|error| error.to_string())
        };
        assert_eq!(
            refused(&dataset, "shape").expect_err("refused"),
            "sampler.outer_label: there is no text column \"shape\"; there are: none"
        );
        assert_eq!(
            refused(&dataset, "").expect_err("refused"),
            "sampler.outer_label is empty: it must be the text column that says the super-class of each row; there are: none"
        );
        let shape = |label: &u32| {
            if [0, 6, 8, 9].contains(label) {
                "round"
            } else {
                "straight"
            }
        };
        let shapes = dataset.labels.iter().map(|label| shape(label).to_owned());
        dataset.columns.push(("shape".to_owned(), shapes.collect()));
        let mut batches = refused(&dataset, "shape").expect("draws");
        let mut batch = Vec::new();
        batches.next_batch(&mut batch);
        let labels = dataset.labels_of(&batch);
        let round = labels.iter().filter(|label| shape(label) == "round");
        assert_eq!((round.count(), batch.len()), (16, 32));
    }

    #[test]
    fn every_sampler_gives_a_seed_the_same_batches_and_another_seed_others() {
        for name in Sampler::ALL.map(|(name, _)| name) {
            let draw = |seed: u64| {
                let mut dataset = Dataset::sample("digits", 0).expect("is there");
                let halves = dataset.labels.iter().map(|label| (label % 2).to_string());
                dataset.columns.push(("half".to_owned(), halves.collect()));
                let set = |config: TrainConfig, set: &str| config.with_set(set).expect("sets");
                let mut config = set(TrainConfig::default(), &format!("sampler={name}"));
                if name == "hierarchical" {
                    config = set(config, "sampler.outer_label=half");
                }
                config.seed = seed;
                let rows: Vec<u32> = (0..1797).collect();
                let mut batches = Batches::new(&dataset, &rows, &config).expect("draws");
                let mut drawn = Vec::new();
                (0..3).for_each(|_| batches.next_batch(&mut drawn));
                assert_eq!(drawn.len(), 96);
                drawn
            };
            assert_eq!(draw(3), draw(3), "{name}");
            assert_ne!(draw(3), draw(4), "{name}");
        }
    }
}
