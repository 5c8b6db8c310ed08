//! Directions in which classes differ the most, from their scatters: an eigenproblem, and the layer that its solution is.

use nalgebra::{Cholesky, DMatrix, DVector, SymmetricEigen};

use super::scatters::Between;
use crate::base::order;
use crate::model::layer_weights::LayerWeights;

/// Least part of a feature's variance within classes that must remain given the features before it.
const MIN_PIVOT: f64 = 1e-12;
/// Least ratio of variance between to variance within classes of a direction, relative to the largest ratio.
pub(super) const MIN_RATIO: f64 = 1e-10;
/// The most steps of the QR iteration per eigenvalue; usually two or three are needed.
pub(super) const SWEEPS: usize = 60;

/// Directions of the largest ratios between / within, one a column, of unit variance within classes; and the ratios. There are at
/// most `most`, and no more than differ between classes.
///
/// The upper triangle of the products is read, row-major: nalgebra, column-major, takes it as the lower one.
pub(super) fn solve(
    within: Vec<f64>,
    between: &Between,
    most: usize,
) -> Option<(DMatrix<f64>, Vec<f64>)> {
    let dim = within.len().isqrt();
    let within = DMatrix::from_vec(dim, dim, within);
    let variances = within.diagonal();
    let root = Cholesky::new(within)?.unpack();
    let pivots = root.diagonal();
    if (0..dim).any(|i| pivots[i] * pivots[i] <= MIN_PIVOT * variances[i]) {
        return None;
    }
    // With within = L L^T: the eigenvectors u of L^-1 between L^-T give the directions L^-T u.
    let (mut directions, ratios) = match between {
        Between::Products(products) => {
            let mut between = DMatrix::from_row_slice(dim, dim, products).transpose();
            between.fill_upper_triangle_with_lower_triangle();
            root.solve_lower_triangular_mut(&mut between)
                .then_some(())?;
            between.transpose_mut();
            root.solve_lower_triangular_mut(&mut between)
                .then_some(())?;
            largest(between, most)?
        }
        Between::Steps(steps, _) => {
            // Of A = L^-1 steps: A^T A v = ratio v gives u = A v / sqrt(ratio).
            let mut steps = steps.clone();
            root.solve_lower_triangular_mut(&mut steps).then_some(())?;
            let (chosen, ratios) = largest(steps.tr_mul(&steps), most)?;
            let mut directions = steps * chosen;
            for (mut column, ratio) in directions.column_iter_mut().zip(&ratios) {
                column.unscale_mut(ratio.sqrt());
            }
            (directions, ratios)
        }
    };
    root.tr_solve_lower_triangular_mut(&mut directions)
        .then_some((directions, ratios))
}

/// Eigenvectors of the largest eigenvalues, at most `most`, and these eigenvalues.
fn largest(symmetric: DMatrix<f64>, most: usize) -> Option<(DMatrix<f64>, Vec<f64>)> {
    let sweeps = SWEEPS * symmetric.nrows();
    let eigen = SymmetricEigen::try_new(symmetric, f64::EPSILON, sweeps)?;
    let mut order = descending(&eigen.eigenvalues);
    let least = MIN_RATIO * eigen.eigenvalues[*order.first()?];
    order.retain(|i| eigen.eigenvalues[*i] > least);
    order.truncate(most);
    let values = order.iter().map(|i| eigen.eigenvalues[*i]).collect();
    (!order.is_empty()).then(|| (eigen.eigenvectors.select_columns(&order), values))
}

/// Indices of the values, in descending order of the values.
pub(super) fn descending(values: &DVector<f64>) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order::sort_places(&mut order, &|a, b| values[b].total_cmp(&values[a]));
    order
}

/// Directions as rows of weights, and the bias that brings the mean to the origin; `None` if f32 does not hold them.
pub(super) fn layer(directions: &DMatrix<f64>, mean: &[f64]) -> Option<LayerWeights> {
    // Columns are contiguous: each is a row of the weights.
    let weight: Vec<f32> = directions.iter().map(|value| *value as f32).collect();
    let bias: Vec<f32> = weight
        .chunks_exact(mean.len())
        .map(|row| {
            -row.iter()
                .zip(mean)
                .map(|(w, mean)| f64::from(*w) * mean)
                .sum::<f64>() as f32
        })
        .collect();
    let finite = weight.iter().chain(&bias).all(|value| value.is_finite());
    finite.then(|| LayerWeights {
        index: 0,
        shape: [directions.ncols(), mean.len()],
        weight,
        bias,
        ..LayerWeights::default()
    })
}
