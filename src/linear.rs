//! [`LinearMap`]: the linear baseline, what a head has to beat. Takes the training rows with their classes, gives one
//! linear layer that the kernels of a head apply.
//!
//! Linear discriminant analysis with the shrinkage of Ledoit and Wolf (2004), as scikit-learn's
//! `LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto")` fits it: each class's covariance is shrunk by itself
//! towards independent features, then averaged. All sums are f64 in a fixed order: a browser gets the same bits.

use nalgebra::{Cholesky, DMatrix, SymmetricEigen};

use crate::dataset::Dataset;
use crate::engine::Engine;
use crate::error::Result;
use crate::model::LayerWeights;

/// The most features: an eigen-decomposition of 1,024 takes two to four seconds on one thread that nothing can
/// interrupt, and each further doubling eight times that.
const MAX_DIM: usize = 1024;
/// The most products of the scatter, rows x features^2: a minute or so in a browser.
const MAX_PRODUCTS: f64 = (1u64 << 37) as f64;
/// Products between two looks at the stop flag: about 10 ms.
const BREATHE_PRODUCTS: usize = 1 << 24;
/// Rows that are read at once.
const TILE_ROWS: usize = 256;
/// Rows that one pass over the scatter adds.
const PASS_ROWS: usize = 8;
/// Of a feature's variance within classes, what has to be left when the features before it are known.
const MIN_PIVOT: f64 = 1e-12;

/// Shrinkage LDA as a layer: `W x + b` with `b = -W mean`, so that the mean training row is the origin of the cosines.
#[derive(Clone, Debug, PartialEq)]
pub struct LinearMap {
    layer: LayerWeights,
}

/// Why there is no linear baseline.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// There is nothing to tell apart.
    #[error("all training rows are of one class")]
    OneClass,
    /// No class has two rows, so that nothing varies within a class.
    #[error("{rows} training rows of {classes} classes: it takes more rows than classes")]
    TooFewRows {
        /// Training rows.
        rows: usize,
        /// Their classes.
        classes: usize,
    },
    /// Its time would stop being modest.
    #[error("{rows} training rows of {dim} features would take too long to fit it")]
    TooLarge {
        /// Training rows.
        rows: usize,
        /// Features of a row.
        dim: usize,
    },
    /// The training alone fills the budget.
    #[error("the budget has no room for it beside the training")]
    NoMemory,
    /// Some direction does not vary within classes, and shrinkage did not help, as in classes of two rows.
    #[error(
        "rows of a class vary in too few directions: it takes more rows of a class, or fewer features"
    )]
    Singular,
}

impl LinearMap {
    /// How many directions a fit gives, at most `min(dim, classes - 1)`; `labels` are those of the training rows.
    ///
    /// # Errors
    /// Why there is no fit, as far as the sizes tell.
    pub fn directions(labels: &[u32], dim: usize) -> Result<usize, Unfit> {
        let mut classes = labels.to_vec();
        classes.sort_unstable();
        classes.dedup();
        let (rows, classes) = (labels.len(), classes.len());
        if classes < 2 {
            Err(Unfit::OneClass)
        } else if rows <= classes {
            Err(Unfit::TooFewRows { rows, classes })
        } else if dim > MAX_DIM || rows as f64 * (dim * dim) as f64 > MAX_PRODUCTS {
            Err(Unfit::TooLarge { rows, dim })
        } else {
            Ok(dim.min(classes - 1))
        }
    }

    /// Fits to these rows of a data set, reading them a few at a time, four times each.
    ///
    /// # Errors
    /// As [`crate::RowSource::read`] and [`Engine::breathe`]; within, why there is no such map.
    pub async fn fit(
        engine: &Engine,
        dataset: &Dataset,
        rows: &[u32],
    ) -> Result<Result<Self, Unfit>> {
        Self::fit_with(engine, dataset, rows, Moments::ledoit_wolf).await
    }

    /// The layer, of one direction an output, the largest ratio of variance between to variance within classes first.
    pub fn layer(&self) -> &LayerWeights {
        &self.layer
    }

    async fn fit_with(
        engine: &Engine,
        dataset: &Dataset,
        rows: &[u32],
        shrinkage: Shrinkage,
    ) -> Result<Result<Self, Unfit>> {
        let dim = dataset.features.dim();
        let directions = match Self::directions(&dataset.labels_of(rows), dim) {
            Ok(directions) => directions,
            Err(unfit) => return Ok(Err(unfit)),
        };
        let label = |row: &u32| dataset.labels[*row as usize];
        let mut rows = rows.to_vec();
        rows.sort_unstable_by_key(|row| (label(row), *row));
        let mut reader = Reader {
            engine,
            dataset,
            products: 0,
        };
        let mut within = vec![0.0; dim * dim];
        let mut all = Moments::new(dim);
        for class in rows.chunk_by(|a, b| label(a) == label(b)) {
            let moments = reader.moments(class).await?;
            let scales = moments.scales();
            let fourth = reader.fourth_power(class, &moments.mean, &scales).await?;
            let shrinkage = shrinkage(&moments, &scales, fourth);
            let weight = moments.rows / rows.len() as f64;
            moments.add_covariance(&scales, shrinkage, weight, &mut within);
            all.join(&moments);
        }
        let scales = all.scales();
        let fourth = reader.fourth_power(&rows, &all.mean, &scales).await?;
        let mut between: Vec<f64> = within.iter().map(|value| -value).collect();
        all.add_covariance(&scales, shrinkage(&all, &scales, fourth), 1.0, &mut between);
        Ok(solve(within, between, directions)
            .and_then(|directions| layer(&directions, &all.mean))
            .map(|layer| Self { layer })
            .ok_or(Unfit::Singular))
    }
}

/// How much a covariance is shrunk, from the features' scales and the mean of the squared squared length.
type Shrinkage = fn(&Moments, &[f64], f64) -> f64;

/// Reads rows tile by tile, and lets others have their turn.
struct Reader<'a> {
    engine: &'a Engine,
    dataset: &'a Dataset,
    /// Since the last turn of others.
    products: usize,
}

impl Reader<'_> {
    /// Gives `take` every row, dense tiles of them; `products` is what it does for each value.
    async fn each(
        &mut self,
        rows: &[u32],
        products: usize,
        mut take: impl FnMut(&[f32]),
    ) -> Result<()> {
        let mut tile = Vec::new();
        for rows in rows.chunks(TILE_ROWS) {
            tile.clear();
            self.dataset.features.read(rows, &mut tile).await?;
            take(&tile);
            self.products += tile.len() * products;
            if self.products > BREATHE_PRODUCTS {
                self.products = 0;
                self.engine.breathe().await?;
            }
        }
        Ok(())
    }

    /// Mean and scatter of these rows, in two passes.
    async fn moments(&mut self, rows: &[u32]) -> Result<Moments> {
        let dim = self.dataset.features.dim();
        let mut moments = Moments::new(dim);
        moments.rows = rows.len() as f64;
        let Moments { mean, scatter, .. } = &mut moments;
        self.each(rows, 1, |tile| {
            for row in tile.chunks_exact(dim) {
                mean.iter_mut()
                    .zip(row)
                    .for_each(|(mean, value)| *mean += f64::from(*value));
            }
        })
        .await?;
        mean.iter_mut().for_each(|mean| *mean /= rows.len() as f64);
        let mut centred = Vec::new();
        self.each(rows, dim, |tile| {
            centred.clear();
            for row in tile.chunks_exact(dim) {
                centred.extend(row.iter().zip(&*mean).map(|(v, mean)| f64::from(*v) - mean));
            }
            add_products(&mut centred, dim, scatter);
        })
        .await?;
        Ok(moments)
    }

    /// The mean over these rows of the squared squared length, once centred and over the scales.
    async fn fourth_power(&mut self, rows: &[u32], mean: &[f64], scales: &[f64]) -> Result<f64> {
        let mut sum = 0.0;
        self.each(rows, 1, |tile| {
            for row in tile.chunks_exact(mean.len()) {
                let values = row.iter().zip(mean).zip(scales);
                let square: f64 = values
                    .map(|((v, mean), scale)| ((f64::from(*v) - mean) / scale).powi(2))
                    .sum();
                sum += square * square;
            }
        })
        .await?;
        Ok(sum / rows.len() as f64)
    }
}

/// Adds the products of each two columns of centred rows to `scatter`.
fn add_products(centred: &mut Vec<f64>, dim: usize, scatter: &mut [f64]) {
    // Rows of zeros add nothing, and every pass is whole.
    centred.resize(centred.len().next_multiple_of(PASS_ROWS * dim), 0.0);
    for rows in centred.chunks_exact(PASS_ROWS * dim) {
        for i in 0..dim {
            let sums = &mut scatter[i * dim + i..(i + 1) * dim];
            let right: [&[f64]; PASS_ROWS] =
                std::array::from_fn(|row| &rows[row * dim + i..][..sums.len()]);
            let left: [f64; PASS_ROWS] = std::array::from_fn(|row| right[row][0]);
            for (j, sum) in sums.iter_mut().enumerate() {
                let mut add = 0.0;
                for row in 0..PASS_ROWS {
                    add += left[row] * right[row][j];
                }
                *sum += add;
            }
        }
    }
}

/// Mean and scatter of some rows.
#[derive(Clone, Debug)]
struct Moments {
    rows: f64,
    mean: Vec<f64>,
    /// `[dim, dim]`, the sum of the products of centred values; the part above the diagonal and the diagonal.
    scatter: Vec<f64>,
}

impl Moments {
    fn new(dim: usize) -> Self {
        Self {
            rows: 0.0,
            mean: vec![0.0; dim],
            scatter: vec![0.0; dim * dim],
        }
    }

    /// Takes in other rows (Chan, Golub and `LeVeque` 1979).
    fn join(&mut self, other: &Self) {
        let rows = self.rows + other.rows;
        let weight = self.rows * other.rows / rows;
        let steps: Vec<f64> = other
            .mean
            .iter()
            .zip(&self.mean)
            .map(|(o, s)| o - s)
            .collect();
        let dim = steps.len();
        for i in 0..dim {
            let step = weight * steps[i];
            let sums = self.scatter[i * dim + i..].iter_mut();
            let others = other.scatter[i * dim + i..(i + 1) * dim].iter();
            for ((sum, other), along) in sums.zip(others).zip(&steps[i..]) {
                *sum += other + step * along;
            }
            self.mean[i] += steps[i] * other.rows / rows;
        }
        self.rows = rows;
    }

    /// The standard deviation of each feature, 1 for one that cannot be told from a constant.
    fn scales(&self) -> Vec<f64> {
        let diagonal = self.scatter.iter().step_by(self.mean.len() + 1);
        let scale = |(scatter, mean): (&f64, &f64)| {
            let variance = scatter / self.rows;
            let error = self.rows * f64::EPSILON;
            if variance <= error * variance + (error * mean).powi(2) {
                1.0
            } else {
                variance.sqrt()
            }
        };
        diagonal.zip(&self.mean).map(scale).collect()
    }

    /// The shrinkage of Ledoit and Wolf for the features over their scales, from 0 (none) to 1 (independent features).
    ///
    /// `fourth` is the mean of the squared squared length of these rows.
    fn ledoit_wolf(&self, scales: &[f64], fourth: f64) -> f64 {
        let dim = scales.len();
        if dim == 1 {
            return 0.0;
        }
        let (mut trace, mut squares) = (0.0, 0.0);
        for i in 0..dim {
            let at = |j: usize| self.scatter[i * dim + j] / (self.rows * scales[i] * scales[j]);
            trace += at(i);
            squares += at(i).powi(2);
            squares += 2.0 * (i + 1..dim).map(|j| at(j).powi(2)).sum::<f64>();
        }
        // The scatter of the products about their mean, and the distance of the covariance from its target.
        let noise = (fourth - squares) / (dim as f64 * self.rows);
        let distance = (squares - trace * trace / dim as f64) / dim as f64;
        if noise > 0.0 && distance > 0.0 {
            (noise / distance).min(1.0)
        } else {
            0.0
        }
    }

    /// Adds `weight` of the shrunk covariance to `sum`.
    fn add_covariance(&self, scales: &[f64], shrinkage: f64, weight: f64, sum: &mut [f64]) {
        let dim = scales.len();
        let kept = weight * (1.0 - shrinkage) / self.rows;
        sum.iter_mut()
            .zip(&self.scatter)
            .for_each(|(sum, scatter)| *sum += kept * scatter);
        let diagonal = || self.scatter.iter().step_by(dim + 1);
        let variances = diagonal()
            .zip(scales)
            .map(|(s, scale)| s / (self.rows * scale * scale));
        let target = weight * shrinkage * variances.sum::<f64>() / dim as f64;
        let sums = sum.iter_mut().step_by(dim + 1);
        sums.zip(scales)
            .for_each(|(sum, scale)| *sum += target * scale * scale);
    }
}

/// The directions of the largest ratios between / within, one a column, of unit variance within classes.
///
/// Of both matrices the part above the diagonal is read, row-major: to nalgebra, column-major, the one below.
fn solve(within: Vec<f64>, between: Vec<f64>, directions: usize) -> Option<DMatrix<f64>> {
    let dim = within.len().isqrt();
    let within = DMatrix::from_vec(dim, dim, within);
    let variances = within.diagonal();
    let root = Cholesky::new(within)?.unpack();
    let pivots = root.diagonal();
    if (0..dim).any(|i| pivots[i] * pivots[i] <= MIN_PIVOT * variances[i]) {
        return None;
    }
    // With within = L L^T: the eigenvectors u of L^-1 between L^-T give the directions L^-T u.
    let mut between = DMatrix::from_vec(dim, dim, between);
    between.fill_upper_triangle_with_lower_triangle();
    root.solve_lower_triangular_mut(&mut between)
        .then_some(())?;
    between.transpose_mut();
    root.solve_lower_triangular_mut(&mut between)
        .then_some(())?;
    let eigen = SymmetricEigen::try_new(between, f64::EPSILON, SWEEPS * dim)?;
    let mut order: Vec<usize> = (0..dim).collect();
    order.sort_by(|a, b| eigen.eigenvalues[*b].total_cmp(&eigen.eigenvalues[*a]));
    let mut chosen = eigen.eigenvectors.select_columns(&order[..directions]);
    root.tr_solve_lower_triangular_mut(&mut chosen)
        .then_some(chosen)
}

/// The most steps of the QR iteration per eigenvalue; it takes two or three.
const SWEEPS: usize = 60;

/// Directions as rows of weights, and the bias that brings the mean to the origin; nothing where f32 does not hold them.
fn layer(directions: &DMatrix<f64>, mean: &[f64]) -> Option<LayerWeights> {
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
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::Labelled;
    use crate::device::{EngineChoice, EngineKind};

    /// The small case of `tests/golden/linear.py`, as far as it is needed here.
    #[derive(serde::Deserialize)]
    struct Case {
        features: Vec<f32>,
        labels: Vec<u32>,
        dim: usize,
        train: Vec<u32>,
        compared: Vec<u32>,
        cosines: Vec<f64>,
    }

    /// The largest difference of any cosine from scikit-learn's.
    fn difference(case: &Case, shrinkage: Shrinkage) -> f64 {
        let rows = Labelled {
            values: case.features.clone(),
            dim: case.dim,
            labels: case.labels.iter().map(u32::to_string).collect(),
            ..Labelled::default()
        };
        let choice = EngineChoice {
            kind: Some(EngineKind::Cpu),
            ..EngineChoice::default()
        };
        let LayerWeights { weight, bias, .. } = pollster::block_on(async {
            let dataset = Dataset::new(rows).expect("classes");
            let engine = Engine::open(&choice, 1 << 20).await.expect("a CPU");
            LinearMap::fit_with(&engine, &dataset, &case.train, shrinkage)
                .await
                .expect("reads")
                .expect("fits")
                .layer
        });
        let place = |row: &u32| {
            let features = &case.features[*row as usize * case.dim..][..case.dim];
            let outputs = weight.chunks_exact(case.dim).zip(&bias);
            let along = |(weights, bias): (&[f32], &f32)| {
                let products = weights.iter().zip(features);
                products.fold(f64::from(*bias), |sum, (w, v)| {
                    sum + f64::from(*w) * f64::from(*v)
                })
            };
            outputs.map(along).collect::<Vec<f64>>()
        };
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let places: Vec<Vec<f64>> = case.compared.iter().map(place).collect();
        let pairs = (0..places.len()).flat_map(|i| (i + 1..places.len()).map(move |j| (i, j)));
        let cosines = pairs.map(|(i, j)| {
            let (a, b) = (&places[i], &places[j]);
            dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
        });
        let off = cosines.zip(&case.cosines).map(|(a, b)| (a - b).abs());
        off.fold(0.0, f64::max)
    }

    #[test]
    fn another_shrinkage_is_told_from_scikit_learns() {
        let cases = include_str!("../tests/golden/linear.json");
        let cases: Vec<serde_json::Value> = serde_json::from_str(cases).expect("is there");
        let case: Case = serde_json::from_value(cases[1].clone()).expect("the small one");
        assert!(difference(&case, Moments::ledoit_wolf) < 1e-5);
        // Of none at all only a trace is left: without any the duplicate feature makes it singular.
        let faults: [Shrinkage; 3] = [
            |_, _, _| 1e-6,
            |_, _, _| 1.0,
            |moments, scales, fourth| 1.01 * moments.ledoit_wolf(scales, fourth),
        ];
        for (i, fault) in faults.into_iter().enumerate() {
            let off = difference(&case, fault);
            assert!(off > 1e-4, "fault {i}: {off}");
        }
    }
}
