//! [`Span`]: the coordinates that the rows of a wide table span, and the scatters of the rows there.

use nalgebra::{DMatrix, SymmetricEigen};

use super::reader::Reader;
use super::scatters::{Scatters, add_products};
use super::solve::{MIN_RATIO, SWEEPS, descending};
use crate::base::error::Result;
use crate::data::column_spread;

/// The coordinates that the rows of a wide table span: `basis^T (features - mean) / scales`.
#[derive(Clone, Debug)]
pub(super) struct Span {
    /// `[dim, coordinates]`, orthonormal.
    pub(super) basis: DMatrix<f64>,
    /// Mean of each feature, and its standard deviation within classes; 1 for one that does not vary there.
    pub(super) mean: Vec<f64>,
    pub(super) scales: Vec<f64>,
}

impl Span {
    /// Fit to the rows of these classes, with their scatters in its coordinates and the mean fourth power of a residual's length there;
    /// `None` if the rows do not differ.
    pub(super) async fn fit(
        reader: &mut Reader<'_>,
        classes: &[&[u32]],
    ) -> Result<Option<(Self, Scatters, f64)>> {
        let columns = Columns::measure(reader, classes).await?;
        let (rows, of_class) = columns.rows(reader, classes).await?;
        Ok(coordinates(&rows).map(|(basis, places)| {
            let (scatters, fourth) = scatters(places, &of_class, classes.len());
            let Columns { mean, scales, .. } = columns;
            let span = Self {
                basis,
                mean,
                scales,
            };
            (span, scatters, fourth)
        }))
    }
}

/// Mean of each feature and its standard deviation within classes, 1 for one that does not vary there; and the constant ones.
struct Columns {
    mean: Vec<f64>,
    scales: Vec<f64>,
    constant: Vec<bool>,
}

impl Columns {
    async fn measure(reader: &mut Reader<'_>, classes: &[&[u32]]) -> Result<Self> {
        let dim = reader.dataset.features.dim();
        let mut squares = vec![0.0; dim];
        let means = reader
            .residuals(classes, &mut |tile| {
                for row in tile.chunks_exact(dim) {
                    let values = squares.iter_mut().zip(row);
                    values.for_each(|(sum, value)| *sum += value * value);
                }
            })
            .await?;
        let count: usize = classes.iter().map(|class| class.len()).sum();
        let (mean, total) = over_all(classes, &means, &squares);
        let deviation = |sum: f64| (sum / count as f64).sqrt();
        let sizes = total.iter().zip(&mean);
        let constant =
            column_spread::constant(sizes.map(|(sum, mean)| (deviation(*sum), mean.abs())));
        let scales = squares.iter().zip(&constant);
        let scales = scales.map(|(sum, is_constant)| match deviation(*sum) {
            spread if *is_constant || spread == 0.0 => 1.0,
            spread => spread,
        });
        Ok(Self {
            scales: scales.collect(),
            mean,
            constant,
        })
    }

    /// The rows, centred and over their scales, a column each, and the number of the class of each.
    async fn rows(
        &self,
        reader: &mut Reader<'_>,
        classes: &[&[u32]],
    ) -> Result<(DMatrix<f64>, Vec<usize>)> {
        let dim = self.mean.len();
        let count = classes.iter().map(|class| class.len()).sum();
        let (mut rows, mut of_class) = (DMatrix::zeros(dim, count), vec![0; count]);
        let mut at = 0;
        reader
            .each(classes, &mut |tile, members| {
                for (row, member) in tile.chunks_exact(dim).zip(members) {
                    for (i, value) in row.iter().enumerate() {
                        if !self.constant[i] {
                            rows[(i, at)] = (f64::from(*value) - self.mean[i]) / self.scales[i];
                        }
                    }
                    of_class[at] = member.class;
                    at += 1;
                }
            })
            .await?;
        Ok((rows, of_class))
    }
}

/// Orthonormal basis of these rows, a column each, and their coordinates in it, a row each; `None` if there is no basis.
fn coordinates(rows: &DMatrix<f64>) -> Option<(DMatrix<f64>, DMatrix<f64>)> {
    let sweeps = SWEEPS * rows.ncols();
    let eigen = SymmetricEigen::try_new(rows.tr_mul(rows), f64::EPSILON, sweeps)?;
    let mut kept = descending(&eigen.eigenvalues);
    let most = kept.first().map_or(0.0, |first| eigen.eigenvalues[*first]);
    kept.retain(|i| eigen.eigenvalues[*i] > MIN_RATIO * most);
    if kept.is_empty() {
        return None;
    }
    let mut turned = eigen.eigenvectors.select_columns(&kept);
    let mut basis = rows * &turned;
    for (at, i) in kept.iter().enumerate() {
        let length = eigen.eigenvalues[*i].sqrt();
        basis.column_mut(at).unscale_mut(length);
        turned.column_mut(at).scale_mut(length);
    }
    Some((basis, turned))
}

/// Scatters of rows at these places, whose classes are `of_class`, and the mean fourth power of the length of their residuals.
fn scatters(mut places: DMatrix<f64>, of_class: &[usize], classes: usize) -> (Scatters, f64) {
    let (count, dim) = places.shape();
    let mut scatters = Scatters::new(dim, classes);
    let mut fourth = 0.0;
    for class in 0..classes {
        let members: Vec<usize> = (0..count).filter(|row| of_class[*row] == class).collect();
        let mean = places.select_rows(&members).row_mean();
        for row in &members {
            let mut row = places.row_mut(*row);
            row -= &mean;
            fourth += row.norm_squared().powi(2) / count as f64;
        }
        let mean: Vec<f64> = mean.iter().copied().collect();
        scatters.join(&mean, members.len() as f64);
    }
    let mut tile: Vec<f64> = places.transpose().iter().copied().collect();
    add_products(&mut tile, dim, &mut scatters.within);
    scatters.finish();
    (scatters, fourth)
}

/// Mean of all rows, and squared deviations from it summed by column, `[dim]` each: from the means of the classes,
/// `[classes, dim]`, and the squared deviations from those.
fn over_all(classes: &[&[u32]], means: &[f64], squares: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let dim = squares.len();
    let count: usize = classes.iter().map(|class| class.len()).sum();
    let mut mean = vec![0.0; dim];
    for (class, of_class) in classes.iter().zip(means.chunks_exact(dim)) {
        let part = class.len() as f64 / count as f64;
        let sums = mean.iter_mut().zip(of_class);
        sums.for_each(|(mean, of_class)| *mean += part * of_class);
    }
    let mut total = squares.to_vec();
    for (class, of_class) in classes.iter().zip(means.chunks_exact(dim)) {
        let steps = of_class.iter().zip(&mean);
        for (sum, (of_class, mean)) in total.iter_mut().zip(steps) {
            *sum += class.len() as f64 * (of_class - mean).powi(2);
        }
    }
    (mean, total)
}
