//! [`Shape`] of a table: the traits that decide which settings to start from.

use super::Dataset;
use crate::rules::config::TrainConfig;

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
}
