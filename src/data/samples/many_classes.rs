//! `sample:many-classes`: 650 classes of 10 rows: a batch rarely holds two rows of a class, but a memory does.
//!
//! A row is 16 dimensions of its class, 32 of variation that all classes share, and 16 of noise, rotated, squashed by
//! tanh and rotated again: raw cosine sees mostly the shared part. A head learns to ignore it, and a linear map does so
//! better: what cannot be gained here by a network.

use super::rotation::{rotate, rotation};
use crate::base::rng;
use crate::data::{Dataset, RowSource};
use crate::rules::config::{Split, TrainConfig};

pub(super) const NAME: &str = "sample:many-classes";
/// The last 150 of the 650 classes.
const TEST_FRACTION: f64 = 0.23;

const CLASSES: usize = 650;
const ROWS_PER_CLASS: usize = 10;
const DIM: usize = 64;
const SIGNAL: usize = 16;
const SHARED: usize = 32;

/// Makes the sample of a seed.
pub(super) fn generate(seed: u64) -> Dataset {
    let mut rng = rng::stream(seed, "many-classes");
    let first = rotation::<DIM>(&mut rng);
    let second = rotation::<DIM>(&mut rng);
    let mut features = Vec::with_capacity(CLASSES * ROWS_PER_CLASS * DIM);
    let mut labels = Vec::new();
    for class in 0..CLASSES {
        let centre: [f64; SIGNAL] = std::array::from_fn(|_| rng::normal(&mut rng));
        for _ in 0..ROWS_PER_CLASS {
            let row: [f64; DIM] = std::array::from_fn(|i| match i {
                i if i < SIGNAL => centre[i] + 0.35 * rng::normal(&mut rng),
                i if i < SIGNAL + SHARED => 1.6 * rng::normal(&mut rng),
                _ => 0.2 * rng::normal(&mut rng),
            });
            let squashed = rotate(&first, &row).map(libm::tanh);
            features.extend(rotate(&second, &squashed).map(|value| value as f32));
            labels.push(class as u32);
        }
    }
    Dataset {
        name: NAME.to_owned(),
        features: RowSource::Memory {
            values: features,
            dim: DIM,
        },
        labels,
        class_names: (0..CLASSES).map(|class| class.to_string()).collect(),
        notes: vec![
            "generated from the seed; a linear map (LDA) does better here than a network"
                .to_owned(),
        ],
        ..Dataset::empty()
    }
}

/// The settings to start from.
pub(super) fn config() -> TrainConfig {
    TrainConfig {
        split: Split::ByClass,
        test_fraction: TEST_FRACTION,
        validation_fraction: 0.1,
        ..TrainConfig::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_rows_and_another_seed_others() {
        let rows = |seed| generate(seed).features.in_memory().map(<[f32]>::to_vec);
        assert_eq!(rows(3), rows(3));
        assert_ne!(rows(3), rows(4));
    }
}
