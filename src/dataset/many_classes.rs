//! `sample:many-classes`: 650 classes of 10 rows, where a batch rarely holds two of a class and a memory does.
//!
//! A row is 16 dimensions of its class, 32 of variation that all classes share, and 16 of noise, rotated, squashed by
//! tanh and rotated again: raw cosine sees mostly the shared part, and a small network can learn to ignore it.

use super::{Dataset, RowSource};
use crate::rng::{self, Rng};

pub(super) const NAME: &str = "sample:many-classes";
/// The last 150 of the 650 classes.
pub(super) const TEST_FRACTION: f64 = 0.23;

const CLASSES: usize = 650;
const ROWS_PER_CLASS: usize = 10;
const DIM: usize = 64;
const SIGNAL: usize = 16;
const SHARED: usize = 32;

/// Makes the sample of a seed.
pub(super) fn generate(seed: u64) -> Dataset {
    let mut rng = rng::stream(seed, "many-classes");
    let first = rotation(&mut rng);
    let second = rotation(&mut rng);
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
        feature_names: Vec::new(),
        labels,
        class_names: (0..CLASSES).map(|class| class.to_string()).collect(),
        label_column: None,
        columns: Vec::new(),
        joined: false,
        notes: vec!["generated from the seed".to_owned()],
    }
}

/// A random rotation: the columns of a Gaussian matrix, made orthonormal one after the other.
fn rotation(rng: &mut Rng) -> Vec<[f64; DIM]> {
    let mut columns: Vec<[f64; DIM]> = Vec::new();
    while columns.len() < DIM {
        let mut column: [f64; DIM] = std::array::from_fn(|_| rng::normal(rng));
        for other in &columns {
            let along = dot(other, &column);
            column
                .iter_mut()
                .zip(other)
                .for_each(|(c, o)| *c -= along * o);
        }
        let norm = dot(&column, &column).sqrt();
        columns.push(column.map(|value| value / norm));
    }
    columns
}

fn rotate(columns: &[[f64; DIM]], row: &[f64; DIM]) -> [f64; DIM] {
    std::array::from_fn(|i| dot(&columns[i], row))
}

fn dot(a: &[f64; DIM], b: &[f64; DIM]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotations_keep_lengths_and_angles() {
        let columns = rotation(&mut rng::stream(0, "test"));
        for (i, a) in columns.iter().enumerate() {
            for (j, b) in columns.iter().enumerate() {
                let expected = f64::from(u8::from(i == j));
                assert!((dot(a, b) - expected).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn a_seed_gives_the_same_rows_and_another_seed_others() {
        let rows = |seed| generate(seed).features.in_memory().map(<[f32]>::to_vec);
        assert_eq!(rows(3), rows(3));
        assert_ne!(rows(3), rows(4));
    }
}
