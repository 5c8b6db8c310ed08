//! [`Plane`]: embeddings on a plane, by principal components, for the map that a person looks at.

use serde::{Deserialize, Serialize};

use crate::model::embeddings::Embeddings;

/// Sweeps of the power iteration; two axes of a few dozen dimensions are settled long before.
const SWEEPS: usize = 60;
/// The most dimensions whose covariance matrix is held. For wider rows each sweep reads the rows instead: that is less work then,
/// and takes no `dim * dim` values.
const HELD: usize = 256;
/// Values that the sweeps over wide rows read; at least four sweeps are taken, and axes start from the last ones.
const WIDE_VALUES: usize = 1 << 29;

/// The two directions of a map's projection, which keep the next map from flipping.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Axes(Vec<[f64; 2]>);

/// The plane of the first two principal components of some rows; rows of one or two dimensions stay as they are.
#[derive(Clone, Debug)]
pub(crate) struct Plane {
    /// Mean of the fitted rows; empty if rows stay as they are.
    mean: Vec<f64>,
    axes: Axes,
}

impl Plane {
    /// Fits the plane to the unit rows for whose number `fitted` holds. Its axes keep the direction of `previous`.
    pub(crate) fn fit(
        embeddings: &Embeddings,
        fitted: impl Fn(usize) -> bool,
        previous: &Axes,
    ) -> Self {
        if embeddings.dim <= 2 {
            return Self {
                mean: Vec::new(),
                axes: Axes::default(),
            };
        }
        let (mean, axes) = principal(embeddings, fitted, previous);
        Self { mean, axes }
    }

    /// `[x, y]` of each row.
    pub(crate) fn place<'a>(
        &'a self,
        embeddings: &'a Embeddings,
    ) -> impl Iterator<Item = [f32; 2]> {
        embeddings.rows().map(|row| {
            if self.mean.is_empty() {
                return [0, 1].map(|axis| row.get(axis).copied().unwrap_or(0.0));
            }
            let mut along = [0.0; 2];
            for ((value, mean), axes) in row.iter().zip(&self.mean).zip(&self.axes.0) {
                let centred = f64::from(*value) - mean;
                along[0] += centred * axes[0];
                along[1] += centred * axes[1];
            }
            along.map(|value| value as f32)
        })
    }

    /// Axes of the plane, for the next one.
    pub(crate) fn axes(&self) -> &Axes {
        &self.axes
    }
}

/// Mean of the rows for which `fitted` holds, and their first two principal components.
fn principal(
    embeddings: &Embeddings,
    fitted: impl Fn(usize) -> bool,
    previous: &Axes,
) -> (Vec<f64>, Axes) {
    let dim = embeddings.dim;
    let rows = || {
        embeddings
            .rows()
            .enumerate()
            .filter(|(row, _)| fitted(*row))
            .map(|(_, row)| row)
    };
    let count = rows().count().max(1) as f64;
    let mut mean = vec![0.0; dim];
    for row in rows() {
        mean.iter_mut()
            .zip(row)
            .for_each(|(mean, value)| *mean += f64::from(*value) / count);
    }
    let centred = |row: &[f32]| -> Vec<f64> {
        let pairs = row.iter().zip(&mean);
        pairs
            .map(|(value, mean)| f64::from(*value) - mean)
            .collect()
    };
    let held = (dim <= HELD).then(|| covariance(dim, rows().map(centred)));
    // The covariance matrix times an axis.
    let spread = |axis: &[f64]| -> Vec<f64> {
        if let Some(covariance) = &held {
            let rows = covariance.chunks_exact(dim);
            return rows.map(|row| dot(row, axis)).collect();
        }
        let mut sum = vec![0.0; dim];
        for row in rows().map(centred) {
            let along = dot(&row, axis);
            sum.iter_mut()
                .zip(row)
                .for_each(|(sum, value)| *sum += along * value);
        }
        sum
    };
    let sweeps = match held {
        Some(_) => SWEEPS,
        None => (WIDE_VALUES / (2 * dim * count as usize)).clamp(4, SWEEPS),
    };
    let start = if previous.0.len() == dim {
        previous.0.clone()
    } else {
        first_guess(dim)
    };
    let mut axes = [0, 1].map(|axis| start.iter().map(|pair| pair[axis]).collect::<Vec<f64>>());
    for _ in 0..sweeps {
        axes = axes.map(|axis| spread(&axis));
        let [first, second] = &mut axes;
        normalize(first, 0);
        let along = dot(first, second);
        second
            .iter_mut()
            .zip(&*first)
            .for_each(|(s, f)| *s -= along * f);
        normalize(second, 1);
    }
    for (axis, values) in axes.iter_mut().enumerate() {
        let before: Vec<f64> = start.iter().map(|pair| pair[axis]).collect();
        if dot(values, &before) < 0.0 {
            values.iter_mut().for_each(|value| *value = -*value);
        }
    }
    let [first, second] = axes;
    let axes = Axes(
        first
            .into_iter()
            .zip(second)
            .map(<[f64; 2]>::from)
            .collect(),
    );
    (mean, axes)
}

/// Covariances of centred rows, `[dim, dim]`, up to a factor.
fn covariance(dim: usize, rows: impl Iterator<Item = Vec<f64>>) -> Vec<f64> {
    let mut covariance = vec![0.0; dim * dim];
    for row in rows {
        for (sums, value) in covariance.chunks_exact_mut(dim).zip(&row) {
            sums.iter_mut()
                .zip(&row)
                .for_each(|(sum, other)| *sum += value * other);
        }
    }
    covariance
}

/// Two directions that no data is likely to be orthogonal to.
fn first_guess(dim: usize) -> Vec<[f64; 2]> {
    let guess = |i: usize| {
        [
            1.0,
            if i.is_multiple_of(2) { 1.0 } else { -1.0 } / (1 + i) as f64,
        ]
    };
    (0..dim).map(guess).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Divides an axis by its length; a zero axis becomes the unit vector of dimension `or`.
fn normalize(axis: &mut [f64], or: usize) {
    let norm = dot(axis, axis).sqrt();
    if norm > 1e-150 {
        axis.iter_mut().for_each(|value| *value /= norm);
    } else {
        axis.fill(0.0);
        axis[or] = 1.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows that spread 5 along one diagonal, 2 along another, and little elsewhere.
    fn rows() -> Embeddings {
        let mut values = Vec::new();
        for i in 0..400 {
            let t = f64::from(i) * 0.37;
            let (a, b, c) = (5.0 * t.sin(), 2.0 * (1.7 * t).cos(), 0.1 * (2.9 * t).sin());
            values.extend([(a + b) as f32, (a - b) as f32, c as f32, 0.5]);
        }
        Embeddings { values, dim: 4 }
    }

    /// `[x, y]` of each row, and the axes.
    fn placed(
        embeddings: &Embeddings,
        fitted: impl Fn(usize) -> bool,
        previous: &Axes,
    ) -> (Vec<[f32; 2]>, Axes) {
        let plane = Plane::fit(embeddings, fitted, previous);
        (plane.place(embeddings).collect(), plane.axes().clone())
    }

    #[test]
    fn the_axes_are_the_directions_of_the_largest_spread() {
        let (points, Axes(axes)) = placed(&rows(), |_| true, &Axes::default());
        let root = 0.5f64.sqrt();
        for (axis, expected) in
            axes.iter()
                .zip([[root, root], [root, -root], [0.0, 0.0], [0.0, 0.0]])
        {
            assert!((axis[0].abs() - expected[0].abs()).abs() < 1e-2, "{axes:?}");
            assert!((axis[1].abs() - expected[1].abs()).abs() < 1e-2, "{axes:?}");
        }
        let mean = points.iter().map(|point| point[0]).sum::<f32>() / 400.0;
        assert!(mean.abs() < 1e-3, "the map is centred");
    }

    #[test]
    fn wide_rows_are_placed_as_narrow_ones_are() {
        let narrow = rows();
        let mut wide = Embeddings {
            values: Vec::new(),
            dim: HELD + 1,
        };
        for row in narrow.rows() {
            wide.values.extend(row);
            wide.values.resize(wide.values.len() + HELD + 1 - 4, 0.5);
        }
        let (points, _) = placed(&wide, |_| true, &Axes::default());
        let (expected, _) = placed(&narrow, |_| true, &Axes::default());
        for (point, expected) in points.iter().zip(expected) {
            // The sign of an axis follows the first guess, which depends on the width.
            for axis in [0, 1] {
                assert!((point[axis].abs() - expected[axis].abs()).abs() < 1e-3);
            }
        }
    }

    #[test]
    fn rows_that_are_not_fitted_are_placed_on_the_axes_of_the_others() {
        let mut more = rows();
        more.values.extend([0.0, 0.0, 900.0, 0.5]);
        let (points, _) = placed(&more, |row| row < 400, &Axes::default());
        let (alone, _) = placed(&rows(), |_| true, &Axes::default());
        assert_eq!(points[..400], alone);
    }

    #[test]
    fn axes_do_not_flip_from_one_map_to_the_next() {
        let (points, axes) = placed(&rows(), |_| true, &Axes::default());
        let flipped = Axes(axes.0.iter().map(|pair| [-pair[0], pair[1]]).collect());
        let (mirrored, _) = placed(&rows(), |_| true, &flipped);
        for (a, b) in points.iter().zip(&mirrored) {
            assert!((a[0] + b[0]).abs() < 1e-3 && (a[1] - b[1]).abs() < 1e-3);
        }
    }

    #[test]
    fn two_dimensions_are_shown_as_they_are() {
        let circle = Embeddings {
            values: vec![1.0, 0.0, 0.0, -1.0],
            dim: 2,
        };
        let (points, _) = placed(&circle, |_| true, &Axes::default());
        assert_eq!(points, [[1.0, 0.0], [0.0, -1.0]]);
    }

    #[test]
    fn one_dimension_is_a_line() {
        let line = Embeddings {
            values: vec![1.0, -1.0],
            dim: 1,
        };
        let (points, _) = placed(&line, |_| true, &Axes::default());
        assert_eq!(points, [[1.0, 0.0], [-1.0, 0.0]]);
    }

    #[test]
    fn rows_that_are_all_equal_lie_in_one_place() {
        let equal = Embeddings {
            values: [0.5; 12].to_vec(),
            dim: 4,
        };
        let (points, _) = placed(&equal, |_| true, &Axes::default());
        assert!(points.iter().flatten().all(|value| value.abs() < 1e-6));
    }
}
