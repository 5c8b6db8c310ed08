//! `sample:mirrored`: 650 classes of 10 rows whose measurements come with a random sign, as of objects seen from either
//! side. No linear map can undo that; a network with a hidden layer can.
//!
//! A row is 12 dimensions of its class, 8 of them with their sign drawn row by row, 8 dimensions of noise as large as the
//! classes and 4 of less, all rotated at random.

use super::rotation::{rotate, rotation};
use super::{Dataset, RowSource};
use crate::config::{Adam, Optimizer, Split, TrainConfig};
use crate::rng;

pub(super) const NAME: &str = "sample:mirrored";

const CLASSES: usize = 650;
/// The last 150 of the 650 classes.
const TEST_FRACTION: f64 = 0.23;
const ROWS_PER_CLASS: usize = 10;
const DIM: usize = 24;
/// Dimensions that tell classes apart.
const SIGNAL: usize = 12;
/// Those of them whose sign is the class's own; that of the others is drawn for each row.
const SIGNED: usize = 4;
/// Dimensions of noise as large as the classes.
const LOUD: usize = 8;

/// Makes the sample of a seed.
pub(super) fn generate(seed: u64) -> Dataset {
    let mut rng = rng::stream(seed, "mirrored");
    let columns = rotation::<DIM>(&mut rng);
    let mut features = Vec::with_capacity(CLASSES * ROWS_PER_CLASS * DIM);
    let mut labels = Vec::new();
    for class in 0..CLASSES {
        let centre: [f64; SIGNAL] = std::array::from_fn(|_| rng::normal(&mut rng));
        for _ in 0..ROWS_PER_CLASS {
            let row: [f64; DIM] = std::array::from_fn(|i| match i {
                i if i < SIGNED => centre[i] + 0.25 * rng::normal(&mut rng),
                i if i < SIGNAL => {
                    let value = centre[i] + 0.25 * rng::normal(&mut rng);
                    [value, -value][rng::below(&mut rng, 2)]
                }
                i if i < SIGNAL + LOUD => rng::normal(&mut rng),
                _ => 0.2 * rng::normal(&mut rng),
            });
            features.extend(rotate(&columns, &row).map(|value| value as f32));
            labels.push(class as u32);
        }
    }
    Dataset {
        name: NAME.to_owned(),
        features: RowSource::Memory {
            values: features,
            dim: DIM,
        },
        feature_names: Vec::new(),
        labels,
        class_names: (0..CLASSES).map(|class| class.to_string()).collect(),
        label_column: None,
        columns: Vec::new(),
        joined: false,
        notes: vec!["generated from the seed".to_owned()],
    }
}

/// The settings of the default demo.
pub(super) fn config() -> TrainConfig {
    TrainConfig {
        split: Split::ByClass,
        test_fraction: TEST_FRACTION,
        batch_size: 64,
        optimizer: Optimizer::Adam(Adam {
            lr: 0.002,
            ..Adam::default()
        }),
        steps: 600,
        evaluate_every: 30,
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
