//! The allowed values of each setting, whatever the data is.

use super::{GROUP, InitialWeights, Matryoshka, SCHEMA, Split, TrainConfig};
use crate::base::quote::cut;
use crate::cpu::Norm;

/// A check of a setting: if it holds, the key, the value, and the range in words.
pub(super) type Rule = (bool, &'static str, String, &'static str);

impl TrainConfig {
    /// Checks the settings of the data and its split.
    pub(super) fn of_the_data(&self) -> [Rule; 4] {
        let fraction = 0.0..=1.0;
        [
            (
                self.schema == SCHEMA,
                "schema",
                self.schema.to_string(),
                "1",
            ),
            (
                fraction.contains(&self.test_fraction),
                "test_fraction",
                self.test_fraction.to_string(),
                "between 0 and 1",
            ),
            (
                fraction.contains(&self.validation_fraction),
                "validation_fraction",
                self.validation_fraction.to_string(),
                "between 0 and 1",
            ),
            (
                self.split != Split::ByGroup || self.group.is_some(),
                GROUP,
                "null".to_owned(),
                "the name of a column where split is by-group",
            ),
        ]
    }

    /// Checks the settings of the head.
    pub(super) fn of_the_head(&self) -> [Rule; 8] {
        let Matryoshka { dims, weights } = &self.matryoshka;
        [
            (
                self.matryoshka.is_of(self.embedding_size),
                "matryoshka.dims",
                cut(&format!("{dims:?}")),
                "up to eight different sizes, 2 or more, embedding_size the largest of them: numbers beyond it would learn nothing",
            ),
            (
                self.matryoshka.is_weighed(),
                "matryoshka.weights",
                cut(&format!("{weights:?}")),
                "empty, or a number from 1e-6 to 1e6 for each of matryoshka.dims",
            ),
            (
                self.layers.norm != Norm::BatchNorm || self.batch_size >= 2,
                "layers.norm",
                Norm::BatchNorm.name().to_owned(),
                "none or layer-norm where batch_size is 1: batch norm needs two rows",
            ),
            (
                self.hidden_layers.len() <= 6,
                "hidden_layers",
                cut(&format!("{:?}", self.hidden_layers)),
                "at most six widths",
            ),
            (
                self.hidden_layers
                    .iter()
                    .all(|width| (1..=1 << 16).contains(width)),
                "hidden_layers",
                cut(&format!("{:?}", self.hidden_layers)),
                "widths between 1 and 65536",
            ),
            (
                (0.0..=0.95).contains(&self.dropout),
                "dropout",
                self.dropout.to_string(),
                "between 0 and 0.95",
            ),
            (
                (2..=1 << 16).contains(&self.embedding_size),
                "embedding_size",
                self.embedding_size.to_string(),
                "between 2 and 65536",
            ),
            (
                self.initial_weights == InitialWeights::Random
                    || self.hidden_layers.is_empty()
                    || self.layers.skip,
                "initial_weights",
                "lda".to_owned(),
                "random where there are hidden layers and no skip: set hidden_layers to [], or layers.skip to true",
            ),
        ]
    }

    /// Checks the settings of batches and of mining.
    pub(super) fn of_a_batch(&self) -> [Rule; 4] {
        [
            (
                (2..=1 << 15).contains(&self.batch_size)
                    || self.batch_size == 1 && (self.memory_size > 0 || self.loss.learns_proxies()),
                "batch_size",
                self.batch_size.to_string(),
                "between 2 and 32768, or 1 with a memory",
            ),
            (
                self.memory() == 0 && self.memory_size <= 1 << 24
                    || (self.batch_size..=1 << 24).contains(&self.memory_size),
                "memory_size",
                self.memory_size.to_string(),
                "0, or at least batch_size and at most 16777216",
            ),
            (
                !self.miner_weights || self.takes_row_weights(),
                "miner_weights",
                "true".to_owned(),
                "false, or come with a loss that looks at all rows (nca, or one with proxies), a miner, \
                 and a batch_size of at most 8192",
            ),
            (
                !self.center_gradient || self.batch_size >= 2,
                "center_gradient",
                "true".to_owned(),
                "false where batch_size is 1: the mean of one gradient is that gradient",
            ),
        ]
    }

    /// Checks the settings of the steps.
    pub(super) fn of_the_steps(&self) -> [Rule; 4] {
        [
            (
                (0.0..=1e6).contains(&self.clip_grad_norm),
                "clip_grad_norm",
                self.clip_grad_norm.to_string(),
                "between 0 and 1000000",
            ),
            (
                (1..=10_000_000).contains(&self.steps),
                "steps",
                self.steps.to_string(),
                "between 1 and 10000000",
            ),
            (
                self.evaluate_every >= 1,
                "evaluate_every",
                self.evaluate_every.to_string(),
                "at least 1",
            ),
            (
                self.early_stop.patience <= 1_000_000,
                "early_stop.patience",
                self.early_stop.patience.to_string(),
                "between 0 and 1000000",
            ),
        ]
    }
}
