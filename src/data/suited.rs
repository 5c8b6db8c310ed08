//! [`Shape`] of a table: the traits that decide which settings to start from.

use super::{Dataset, Sides, split};
use crate::rules::config::{Split, TrainConfig};

/// Test queries times test rows that settings start from at most: some 20 s of a scoring on two cores, 40 s in a browser.
const TESTED_PAIRS: u64 = 1_000_000_000;

/// Test queries at least: a precision@1 of 0.9 is then known within 0.0067, one standard error.
const FEWEST_QUERIES: usize = 2_000;
/// Rows of a batch, if there are that many training rows.
const BATCH: usize = 128;
/// Features from which on the network is wide.
const WIDE_FROM: usize = 64;
/// Classes from which on each positive is compared with all other rows of its batch.
const CLASSES_FROM: usize = 4;

/// Kind of a table by its classes and features. `tests/peers/tables.py` compares the settings of each on real tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// More classes than a batch holds two rows of.
    ManyClasses,
    /// Two or three classes. Every batch holds rows of the same class: no memory is needed, and none can go stale.
    TwoOrThreeClasses,
    /// Four classes or more of which a batch holds two rows each: a positive is told from rows of many classes at once.
    FewClasses,
    /// Four classes or more of which a batch holds two rows each, and 64 features or more, as embeddings of sentences and pictures
    /// have: a wide network.
    FewClassesOfManyFeatures,
}

impl Shape {
    /// The settings that suit it, `key=value` each. [`Shape::over`] lowers the batch to the number of training rows.
    pub(crate) const fn sets(self) -> &'static [&'static str] {
        match self {
            Self::ManyClasses => &[
                "loss.name=triplet-margin",
                "miner.name=triplet-margin",
                "memory_size=1024",
                "sampler=shuffled",
            ],
            Self::TwoOrThreeClasses => &[
                "loss.name=triplet-margin",
                "miner.name=triplet-margin",
                "memory_size=0",
                "batch_size=128",
                "sampler=shuffled",
            ],
            Self::FewClasses => &[
                "loss.name=sup-con",
                "miner.name=none",
                "memory_size=0",
                "batch_size=128",
                "sampler=shuffled",
                "hidden_layers=[256]",
                "embedding_size=64",
            ],
            Self::FewClassesOfManyFeatures => &[
                "loss.name=sup-con",
                "miner.name=none",
                "memory_size=0",
                "batch_size=128",
                "sampler=shuffled",
                "hidden_layers=[1024]",
                "embedding_size=128",
            ],
        }
    }

    /// Shape of data with this many classes and features.
    pub fn of(classes: usize, dim: usize) -> Self {
        match dim {
            _ if 2 * classes > BATCH => Self::ManyClasses,
            _ if classes < CLASSES_FROM => Self::TwoOrThreeClasses,
            WIDE_FROM.. => Self::FewClassesOfManyFeatures,
            _ => Self::FewClasses,
        }
    }

    /// `config` overridden by the settings that suit the shape, for `train` training rows. No row is in a batch twice, nor in a
    /// memory.
    pub(crate) fn over(self, config: TrainConfig, train: usize) -> TrainConfig {
        let set = |config: TrainConfig, set: &&str| config.with_set(set);
        let suited = self.sets().iter().try_fold(config, set);
        let mut config = suited.expect("settings that go together");
        let most = train.max(2);
        while config.batch_size > most {
            config.batch_size /= 2;
        }
        config.memory_size = config.memory_size.min(most);
        config
    }
}

impl Dataset {
    /// Shape of this data.
    pub fn shape(&self) -> Shape {
        Shape::of(self.class_names.len(), self.features.dim())
    }

    /// The settings to start from with this data if `splitting` changes the split: batch and memory sizes suit the rows that then
    /// train. The split itself stays as it is by default.
    pub fn default_config_for(&self, splitting: &[String]) -> TrainConfig {
        let mut config = Self::default_config_of(&self.name);
        let tested = (self.rows() as f64 * config.test_fraction) as usize;
        if config.test_queries as u64 * tested as u64 > TESTED_PAIRS {
            // To two digits: a person reads it among the settings.
            let queries = TESTED_PAIRS as usize / tested;
            let unit = 10_usize.pow(queries.max(10).ilog10() - 1);
            config.test_queries = (queries / unit * unit).max(FEWEST_QUERIES);
        }
        if self.joined {
            config.split = Split::Column(split::SIDE_COLUMN.to_owned());
        } else if let Some(column) = self.split_column() {
            config.split = Split::Column(column.to_owned());
        } else if self.few_rows_a_class().is_some() {
            config.split = Split::ByClassShuffled;
        }
        let is_own = !self.name.starts_with("sample:");
        if is_own && let Some(train) = self.rows_to_train(&config, splitting) {
            config = self.shape().over(config, train);
        }
        config
    }

    /// The settings to start from with this data.
    pub fn default_config(&self) -> TrainConfig {
        self.default_config_for(&[])
    }

    /// Number of training rows with `config` and the settings `splitting` over it; with `config` alone if those cannot hold, none
    /// if it cannot either.
    pub fn rows_to_train(&self, config: &TrainConfig, splitting: &[String]) -> Option<usize> {
        let (split, _) = config.with_sets(splitting);
        let sides = Sides::new(self, &split).or_else(|_| Sides::new(self, config));
        sides.ok().map(|sides| sides.train.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Choice, Labelled, NamedFile};

    fn table(name: &str, text: &str) -> Dataset {
        let file = NamedFile {
            name: name.to_owned(),
            bytes: text.as_bytes().to_vec(),
        };
        Labelled::read(&file, None, Choice::default())
            .and_then(Dataset::new)
            .expect("reads")
    }

    #[test]
    fn batch_and_memory_suit_the_rows_that_train() {
        // 4, 38, 115 and 288 of them train; of 100 classes a batch holds no two rows each.
        for (rows, classes, batch, memory) in [
            (6, 3, 4, 0),
            (60, 3, 32, 0),
            (180, 3, 64, 0),
            (450, 5, 128, 0),
            (450, 100, 32, 288),
        ] {
            let lines = (0..rows).map(|row| format!("{},{}\n", row / 2, row % classes));
            let dataset = table(
                "few.csv",
                &format!("a,label\n{}", lines.collect::<String>()),
            );
            let TrainConfig {
                batch_size,
                memory_size,
                ..
            } = dataset.default_config();
            assert_eq!((batch_size, memory_size), (batch, memory), "{rows} rows");
        }
    }

    #[test]
    fn fewer_test_rows_are_scored_where_there_are_very_many() {
        let queries = |rows: usize| {
            let labelled = Labelled {
                values: vec![0.0; rows],
                dim: 1,
                labels: (0..rows).map(|row| ["u", "v"][row % 2]).collect(),
                ..Labelled::default()
            };
            let dataset = Dataset::new(labelled).expect("two classes");
            dataset.default_config().test_queries
        };
        assert_eq!([1_000, 200_000].map(queries), [10_000, 10_000]);
        assert_eq!([600_000, 3_000_000].map(queries), [8_300, 2_000]);
    }
}
