//! Random rotations, for generated samples.

use crate::base::rng::{self, Rng};

/// A random rotation: the columns of a Gaussian matrix, made orthonormal one after the other.
pub(super) fn rotation<const DIM: usize>(rng: &mut Rng) -> Vec<[f64; DIM]> {
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

/// The coordinates of a row along each column.
pub(super) fn rotate<const DIM: usize>(columns: &[[f64; DIM]], row: &[f64; DIM]) -> [f64; DIM] {
    std::array::from_fn(|i| dot(&columns[i], row))
}

fn dot<const DIM: usize>(a: &[f64; DIM], b: &[f64; DIM]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotations_keep_lengths_and_angles() {
        let columns = rotation::<24>(&mut rng::stream(0, "test"));
        for (i, a) in columns.iter().enumerate() {
            for (j, b) in columns.iter().enumerate() {
                let expected = f64::from(u8::from(i == j));
                assert!((dot(a, b) - expected).abs() < 1e-12);
            }
        }
    }
}
