//! [`Diagnostics`]: statistics of the embeddings and the gradient, beside a run's scores: if the head still tells rows apart, the
//! number of directions that embeddings spread in, the movement of the head, and the part of the classes that it has seen.

use nalgebra::DMatrix;
use serde::{Deserialize, Serialize};

use crate::model::embeddings::Embeddings;

/// The most training rows for these statistics.
pub(crate) const ROWS: usize = 256;
/// Mean similarity above which embeddings count as collapsed: two rows then lie 8 degrees apart on average. Heads of losses of
/// angles learn at 0.98; heads whose embeddings a far too high learning rate has thrown together lie above 0.999.
pub(crate) const COLLAPSED: f64 = 0.99;

/// Distribution of the embeddings of some training rows, and movement of the head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Diagnostics {
    /// Mean cosine similarity of two different rows: 1 if all lie at one point, near 0 if they fill the sphere.
    pub mean_similarity: f64,
    /// Effective rank of the embeddings about their mean: the number of directions that they spread in, up to their dimensions. The
    /// exponential of the entropy of the covariance's eigenvalues, each over their sum (Roy and Vetterli 2007).
    pub effective_rank: f64,
    /// Length of the gradient of all weights of the head in the last step; `None` before the first.
    pub gradient_norm: Option<f64>,
    /// Steadiness of the common push on all embeddings since the last evaluation: the mean cosine of the batch's mean gradient, at
    /// the unit embeddings, with its running average before the step. `None` without a memory.
    pub push: Option<f64>,
    /// Part of the training classes of which a row was drawn so far.
    pub classes_seen: f64,
    /// Boundary between positives and negatives, if the loss learns it: a similarity or a distance.
    #[serde(default)]
    pub boundary: Option<f64>,
}

impl Diagnostics {
    /// Statistics of two or more unit embeddings; the other fields are left at their defaults.
    pub(crate) fn of(embeddings: &Embeddings) -> Self {
        let dim = embeddings.dim;
        let count = embeddings.rows().count();
        if count < 2 {
            return Self::default();
        }
        let values: Vec<f64> = embeddings
            .values
            .iter()
            .map(|value| f64::from(*value))
            .collect();
        let mut rows = DMatrix::from_row_slice(count, dim, &values);
        let sum = rows.row_sum();
        let (total, own) = (sum.norm_squared(), rows.norm_squared());
        let others = count as f64 * (count as f64 - 1.0);
        let mean = sum / count as f64;
        for mut row in rows.row_iter_mut() {
            row -= &mean;
        }
        // `rows * rows^T` and `rows^T * rows` have the same eigenvalues above zero.
        let products = match dim < count {
            true => rows.tr_mul(&rows),
            false => &rows * rows.transpose(),
        };
        let eigenvalues = products.symmetric_eigenvalues();
        let all: f64 = eigenvalues.iter().map(|value| value.max(0.0)).sum();
        let parts = eigenvalues
            .iter()
            .map(|value| value / all)
            .filter(|part| *part > 0.0);
        let entropy: f64 = -parts.map(|part| part * libm::log(part)).sum::<f64>();
        Self {
            mean_similarity: (total - own) / others,
            effective_rank: if all > 1e-12 { libm::exp(entropy) } else { 0.0 },
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rows: &[&[f32]]) -> Diagnostics {
        Diagnostics::of(&Embeddings {
            values: rows.concat(),
            dim: rows[0].len(),
        })
    }

    #[test]
    fn rows_at_one_point_have_similarity_one_and_no_direction() {
        let found = of(&[&[0.6, 0.8, 0.0], &[0.6, 0.8, 0.0], &[0.6, 0.8, 0.0]]);
        assert!((found.mean_similarity - 1.0).abs() < 1e-6, "{found:?}");
        assert!(found.effective_rank < 1e-6, "{found:?}");
    }

    #[test]
    fn rows_along_both_ways_of_each_axis_spread_in_as_many_directions_whichever_side_is_longer() {
        let axes = |dim: usize, used: usize| -> Vec<Vec<f32>> {
            let row = |i: usize| {
                let mut row = vec![0.0; dim];
                row[i / 2] = if i.is_multiple_of(2) { 1.0 } else { -1.0 };
                row
            };
            (0..2 * used).map(row).collect()
        };
        for (dim, used) in [(3, 3), (4, 2), (30, 5), (9, 9)] {
            let rows = axes(dim, used);
            let rows: Vec<&[f32]> = rows.iter().map(Vec::as_slice).collect();
            let found = of(&rows);
            assert!(
                (found.effective_rank - used as f64).abs() < 1e-6,
                "{found:?}"
            );
            // The similarity of a row is -1 with its opposite, and 0 with all others.
            let expected = -1.0 / (2 * used - 1) as f64;
            assert!((found.mean_similarity - expected).abs() < 1e-6, "{found:?}");
        }
    }

    #[test]
    fn one_direction_that_dominates_counts_for_little_more_than_one() {
        // Variances 9 and 1: the entropy of 0.9 and 0.1.
        let found = of(&[&[3.0, 0.0], &[-3.0, 0.0], &[0.0, 1.0], &[0.0, -1.0]]);
        let expected = (-(0.9f64 * 0.9f64.ln() + 0.1 * 0.1f64.ln())).exp();
        assert!((found.effective_rank - expected).abs() < 1e-9, "{found:?}");
    }
}
