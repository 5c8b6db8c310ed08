//! `sample:mirrored`: 650 classes of 10 rows whose measurements come with a random sign, as of objects seen from either
//! side. No linear map can undo that; a network with a hidden layer can.
//!
//! A row is 12 dimensions of its class, 8 of them with their sign drawn row by row, 8 dimensions of noise as large as the
//! classes and 4 of less, all rotated at random.

use super::rotation::{rotate, rotation};
use crate::base::rng::{self, Rng};
use crate::data::{Dataset, RowSource};
use crate::rules::config::{Split, TrainConfig};
use crate::rules::optimizers::{Adam, Optimizer};

pub(super) const NAME: &str = "sample:mirrored";

const CLASSES: usize = 650;
/// The last 150 of the 650 classes.
const TEST_FRACTION: f64 = 0.23;
const ROWS_PER_CLASS: usize = 10;
const DIM: usize = 24;
const SHAPE: Shape = Shape {
    signal: 12,
    signed: 4,
    loud: 8,
    spread: 0.25,
};

/// Kinds of a row's dimensions before they are rotated; dimensions beyond these are quiet noise.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Dimensions that tell classes apart.
    pub(super) signal: usize,
    /// The first of them, whose sign is the class's own; the sign of the others is drawn for each row.
    pub(super) signed: usize,
    /// Dimensions of noise as large as the classes.
    pub(super) loud: usize,
    /// Standard deviation of the rows of a class, in each dimension of the signal.
    pub(super) spread: f64,
}

impl Shape {
    /// The centre of a class.
    pub(super) fn centre(&self, rng: &mut Rng) -> Vec<f64> {
        (0..self.signal).map(|_| rng::normal(rng)).collect()
    }

    /// A row of the class with this centre.
    pub(super) fn row<const DIM: usize>(&self, centre: &[f64], rng: &mut Rng) -> [f64; DIM] {
        std::array::from_fn(|i| match i {
            i if i < self.signed => centre[i] + self.spread * rng::normal(rng),
            i if i < self.signal => {
                let value = centre[i] + self.spread * rng::normal(rng);
                [value, -value][rng::below(rng, 2)]
            }
            i if i < self.signal + self.loud => rng::normal(rng),
            _ => 0.2 * rng::normal(rng),
        })
    }
}

/// Makes the sample of a seed.
pub(super) fn generate(seed: u64) -> Dataset {
    let mut rng = rng::stream(seed, "mirrored");
    let columns = rotation::<DIM>(&mut rng);
    let mut features = Vec::with_capacity(CLASSES * ROWS_PER_CLASS * DIM);
    let mut labels = Vec::new();
    for class in 0..CLASSES {
        let centre = SHAPE.centre(&mut rng);
        for _ in 0..ROWS_PER_CLASS {
            let row = SHAPE.row::<DIM>(&centre, &mut rng);
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
        labels,
        class_names: (0..CLASSES).map(|class| class.to_string()).collect(),
        notes: vec!["generated from the seed".to_owned()],
        ..Dataset::empty()
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
