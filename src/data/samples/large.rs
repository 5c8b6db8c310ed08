//! `sample:large`: 100,000 rows of 30 classes in 50 columns, made as `sample:mirrored` is, for runs of some size.
//!
//! A row is 18 dimensions of its class, 16 of them with their sign drawn row by row, 20 dimensions of noise as large as the
//! classes and 12 of less, all rotated at random. Every class is on every side of the split.

use super::mirrored::Shape;
use super::rotation::{rotate, rotation};
use crate::base::rng;
use crate::data::{Dataset, RowSource};
use crate::rules::config::{Split, TrainConfig};
use crate::rules::optimizers::{Adam, Optimizer};

pub(super) const NAME: &str = "sample:large";

const ROWS: usize = 100_000;
const CLASSES: usize = 30;
const DIM: usize = 50;
const SHAPE: Shape = Shape {
    signal: 18,
    signed: 2,
    loud: 20,
    spread: 0.3,
};

/// Makes the sample of a seed: row after row, the classes in turn.
pub(super) fn generate(seed: u64) -> Dataset {
    let mut rng = rng::stream(seed, "large");
    let columns = rotation::<DIM>(&mut rng);
    let centres: Vec<_> = (0..CLASSES).map(|_| SHAPE.centre(&mut rng)).collect();
    let mut features = Vec::with_capacity(ROWS * DIM);
    for centre in centres.iter().cycle().take(ROWS) {
        let row = SHAPE.row::<DIM>(centre, &mut rng);
        features.extend(rotate(&columns, &row).map(|value| value as f32));
    }
    Dataset {
        name: NAME.to_owned(),
        features: RowSource::Memory {
            values: features,
            dim: DIM,
        },
        labels: (0..CLASSES as u32).cycle().take(ROWS).collect(),
        class_names: (0..CLASSES).map(|class| class.to_string()).collect(),
        notes: vec!["generated from the seed".to_owned()],
        ..Dataset::empty()
    }
}

/// The settings to start from: 20,000 rows are the test.
pub(super) fn config() -> TrainConfig {
    TrainConfig {
        split: Split::Stratified,
        test_fraction: 0.2,
        batch_size: 64,
        optimizer: Optimizer::Adam(Adam {
            lr: 0.003,
            ..Adam::default()
        }),
        steps: 800,
        evaluate_every: 100,
        test_queries: 0,
        validation_fraction: 0.1,
        ..TrainConfig::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FNV-1a of the bytes of all rows.
    fn checksum(dataset: &Dataset) -> u64 {
        let values = dataset.features.in_memory().expect("is in memory");
        let bytes = values.iter().flat_map(|value| value.to_le_bytes());
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
    }

    #[test]
    fn a_seed_gives_the_same_bytes_everywhere_and_another_seed_others() {
        let (own, other) = (generate(0), generate(1));
        assert_eq!((own.rows(), own.features.dim()), (ROWS, DIM));
        assert_eq!(
            own.class_sizes(),
            [[3334; 10], [3333; 10], [3333; 10]].concat()
        );
        assert_eq!(checksum(&own), 0x8fa9_3069_f205_8efd);
        assert_ne!(checksum(&own), checksum(&other));
    }
}
