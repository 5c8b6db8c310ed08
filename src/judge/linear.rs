//! [`LinearMap`]: the linear baseline, what a head has to beat. Takes the training rows with their classes, gives one
//! linear layer that the kernels of a head apply.
//!
//! Linear discriminant analysis (LDA) with several shrinkages, of which validation rows choose one. The covariance within classes
//! is that of the residuals of all training rows from the means of their classes, shrunk by a given part towards independent
//! features, features over their deviations: a fixed part, or the estimate of Ledoit and Wolf (2004). Their estimate suits the
//! covariance, not the nearest row: if columns are many and noisy, 0.5 to 0.9 often do better. The covariance is pooled first,
//! because scikit-learn's `LinearDiscriminantAnalysis(shrinkage="auto")` shrinks the covariance of each class by itself: with few
//! rows a class, little but the variances is left. All sums are f64 in a fixed order: a browser gets the same bits.
//!
//! Tables of more columns than rows are fitted in the coordinates that their rows span, which gives the same map.
//!
//! The outputs are ranked by cosines, which ignore the length. Of one output that leaves the sign, and of two a class in the middle
//! has no direction: LDA, whose rows lie by distance, would be a straw man. So the map may have one output more, a constant `c`.
//! Between rows of lengths about `c` or less the cosines then go by distance, as
//! `cos((x, c), (y, c)) = 1 - |x - y|^2 / 2 c^2 + ..`, and the map still is one linear layer. If the outputs are many, a length is
//! one of many, and the plain cosines often do better.

use std::fmt;

use nalgebra::{Cholesky, DMatrix, DVector, SymmetricEigen};
use serde::{Deserialize, Serialize};
use web_time::Instant;

use crate::base::error::Result;
use crate::base::order;
use crate::base::working::{BREATHE_EVERY, Task};
use crate::data::Dataset;
use crate::data::column_spread;
use crate::engine::Engine;
use crate::model::embedding_model::LayerWeights;
use crate::model::scaling::Scaling;

/// The most features, or rows if these are fewer: a Cholesky decomposition of 2,048 takes seconds, by its 3 10^9 operations, on one
/// thread that nothing can interrupt, and each further doubling eight times that.
const MAX_DIM: usize = 2048;
/// The most classes if there are as many features: an eigen-decomposition of 1,024 takes two to four seconds.
const MAX_EIGEN: usize = 1024;
/// The most values of a table that is fitted in the coordinates of its rows, all of which are held at once: 64 MiB.
const MAX_VALUES: usize = 8 << 20;
/// The most products of the scatter, rows x features^2: a minute or so in a browser.
const MAX_PRODUCTS: f64 = (1u64 << 37) as f64;
/// Rows that are read at once.
const TILE_ROWS: usize = 256;
/// Bytes of the means of classes that are processed together.
const MEANS_BYTES: usize = 16 << 20;
/// Number of times that each row is read.
const PASSES: u64 = 4;
/// Rows that one pass over the scatter adds.
const PASS_ROWS: usize = 8;
/// Least part of a feature's variance within classes that must remain given the features before it.
const MIN_PIVOT: f64 = 1e-12;

/// Least ratio of variance between to variance within classes of a direction, relative to the largest ratio.
const MIN_RATIO: f64 = 1e-10;

/// Shrinkages that are tried beside the one of Ledoit and Wolf, from 0 (none) to 1 (independent features).
pub(crate) const SHRINKAGES: [f64; 5] = [0.1, 0.3, 0.5, 0.7, 0.9];

/// Up to this many directions, a map that no validation row chooses has a constant. On normal classes about random centres the
/// constant gains 0.01 to 0.09 of precision@1 at two and three directions, and loses 0.01 at ten and sixteen if classes overlap.
const FEW: usize = 3;

/// LDA of one shrinkage as a layer: `W x + b` with `b = -W mean`, so that the mean training row is the origin of the cosines.
#[derive(Clone, Debug, PartialEq)]
pub struct LinearMap {
    layer: LayerWeights,
    shrinkage: f64,
    /// Variance of the training rows along each direction; within classes it is 1, as far as shrinkage leaves it.
    variances: Vec<f64>,
}

/// The outputs of a linear map that are ranked.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinearOutputs {
    /// Number of its first directions.
    pub directions: usize,
    /// A constant output is added.
    pub constant: bool,
    /// Shrinkage of the covariance within classes towards independent features, from 0 to 1; `None` in a run of an earlier version
    /// that did not record it.
    pub shrinkage: Option<f64>,
}

impl LinearOutputs {
    /// Candidates of a map with this many directions, in `most` outputs: the first 8, 16, 32 .. directions and all of them, each
    /// with a constant and then without. One direction is not tried without: rows on a side of it are all as near.
    pub fn worth_trying(directions: usize, most: usize, shrinkage: f64) -> Vec<Self> {
        let powers = std::iter::successors(Some(8), |cut| Some(2 * cut));
        let below = powers.take_while(|cut| *cut < directions);
        let of = |directions, constant| Self {
            directions,
            constant,
            shrinkage: Some(shrinkage),
        };
        // The constant takes the last direction's place if there is no other.
        let both = |cut: usize| [of(cut.min(most - 1), true), of(cut, false)];
        let sensible = |outputs: &Self| outputs.directions > usize::from(!outputs.constant);
        let tried = below.chain([directions]).flat_map(both);
        tried.filter(sensible).collect()
    }

    /// Number of directions, plus one for the constant.
    pub fn count(self) -> usize {
        self.directions + usize::from(self.constant)
    }
}

impl fmt::Display for LinearOutputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.directions == 1 { "" } else { "s" };
        let constant = if self.constant { " and a constant" } else { "" };
        write!(f, "{} output{plural}{constant}", self.directions)?;
        match self.shrinkage {
            Some(shrinkage) => write!(f, ", shrinkage {shrinkage:.2}"),
            None => Ok(()),
        }
    }
}

/// Reason for a missing linear baseline.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// There is one class only.
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
    /// The fit would take too long.
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
    /// Some direction does not vary within classes, and shrinkage did not help: for example, all rows of a class are equal.
    #[error(
        "rows of a class vary in too few directions: it takes more rows of a class, or fewer features"
    )]
    Singular,
}

impl LinearMap {
    /// Number of directions of a fit: `min(dim, classes - 1, most)`; `labels` are those of the training rows.
    ///
    /// # Errors
    /// The reason for a missing fit, as far as the sizes tell.
    pub fn directions(labels: &[u32], dim: usize, most: usize) -> Result<usize, Unfit> {
        let mut classes = labels.to_vec();
        order::sort_numbers(&mut classes);
        classes.dedup();
        let (rows, classes) = (labels.len(), classes.len());
        if classes < 2 {
            Err(Unfit::OneClass)
        } else if rows <= classes {
            Err(Unfit::TooFewRows { rows, classes })
        } else if !is_wide(rows, dim)
            && (dim > MAX_DIM
                || dim.min(classes) > MAX_EIGEN
                || rows as f64 * (dim * dim) as f64 > MAX_PRODUCTS)
        {
            Err(Unfit::TooLarge { rows, dim })
        } else {
            Ok(dim.min(classes - 1).min(most))
        }
    }

    /// Fits to these rows of a data set, scaled, with the shrinkage of Ledoit and Wolf. Returns at most `most` directions.
    ///
    /// # Errors
    /// As [`LinearFit::new`] and [`LinearFit::map`].
    pub async fn fit(
        engine: &Engine,
        dataset: &Dataset,
        scaling: &Scaling,
        rows: &[u32],
        most: usize,
    ) -> Result<Result<Self, Unfit>> {
        let fit = LinearFit::new(engine, dataset, scaling, rows).await?;
        Ok(fit.and_then(|fit| fit.map(fit.ledoit_wolf(), most)))
    }

    /// The layer, with one output a direction, in descending order of the ratio of variance between to variance within classes. It
    /// takes scaled features.
    pub fn layer(&self) -> &LayerWeights {
        &self.layer
    }

    /// [`LinearOutputs::worth_trying`] of this map in `most` outputs.
    pub fn cuts(&self, most: usize) -> Vec<LinearOutputs> {
        LinearOutputs::worth_trying(self.layer.shape[0], most, self.shrinkage)
    }

    /// Outputs to rank if there are no validation rows to choose by: all directions, and a constant if they are few and leave room
    /// for it.
    pub fn unchosen(&self, most: usize) -> LinearOutputs {
        let directions = self.layer.shape[0];
        LinearOutputs {
            directions,
            constant: directions <= FEW && directions < most,
            shrinkage: Some(self.shrinkage),
        }
    }

    /// The layer of these outputs. The constant is the root mean square length of the training rows in these directions: a
    /// smaller one bends distances, and a larger one leaves cosines so near 1 that f32 tells fewer of them apart.
    pub fn cut(&self, outputs: LinearOutputs) -> LayerWeights {
        let LinearOutputs {
            directions,
            constant,
            ..
        } = outputs;
        let inputs = self.layer.shape[1];
        let mut cut = LayerWeights {
            index: 0,
            shape: [directions, inputs],
            weight: self.layer.weight[..directions * inputs].to_vec(),
            bias: self.layer.bias[..directions].to_vec(),
        };
        if constant {
            let square: f64 = self.variances[..directions].iter().sum();
            cut.resize(outputs.count());
            cut.bias[directions] = square.sqrt() as f32;
        }
        cut
    }
}

/// Tells if a table is better fitted in the coordinates that its rows span.
fn is_wide(rows: usize, dim: usize) -> bool {
    rows < dim && rows <= MAX_EIGEN && rows * dim <= MAX_VALUES
}

/// Common part of the maps of all shrinkages: the scatters of the training rows, read once.
#[derive(Clone, Debug)]
pub struct LinearFit {
    scatters: Scatters,
    /// Standard deviation of each coordinate within classes; 1 for one that does not vary there.
    scales: Vec<f64>,
    /// Mean over the rows of the fourth power of a residual's length over the scales.
    fourth: f64,
    /// Number of features; a wide table has fewer coordinates.
    dim: usize,
    /// Map from a row's features to its coordinates, if the coordinates are not the features.
    span: Option<Span>,
}

/// The coordinates that the rows of a wide table span: `basis^T (features - mean) / scales`.
#[derive(Clone, Debug)]
struct Span {
    /// `[dim, coordinates]`, orthonormal.
    basis: DMatrix<f64>,
    /// Mean of each feature, and its standard deviation within classes; 1 for one that does not vary there.
    mean: Vec<f64>,
    scales: Vec<f64>,
}

impl LinearFit {
    /// Reads these rows of a data set, scaled, a few at a time, four times each.
    ///
    /// # Errors
    /// As [`crate::RowSource::read`] and [`Engine::breathe`]; the inner one is the reason for a missing map.
    pub async fn new(
        engine: &Engine,
        dataset: &Dataset,
        scaling: &Scaling,
        rows: &[u32],
    ) -> Result<Result<Self, Unfit>> {
        let dim = dataset.features.dim();
        if let Err(unfit) = LinearMap::directions(&dataset.labels_of(rows), dim, dim) {
            return Ok(Err(unfit));
        }
        let rows = by_class(dataset, rows);
        let classes = classes(dataset, &rows);
        let mut reader = Reader::new(engine, dataset, scaling, rows.len());
        if is_wide(rows.len(), dim) {
            return Ok(reader.wide(&classes).await?.ok_or(Unfit::Singular));
        }
        let mut scatters = reader.scatters(&classes).await?;
        scatters.leave_out_constant();
        let scales = scatters.scales();
        let fourth = reader.fourth_power(&classes, &scales).await?;
        Ok(Ok(Self {
            scatters,
            scales,
            fourth,
            dim,
            span: None,
        }))
    }

    /// The shrinkage of Ledoit and Wolf for residuals over their scales, from 0 (none) to 1 (independent features).
    pub fn ledoit_wolf(&self) -> f64 {
        self.scatters
            .ledoit_wolf(&self.scales, self.fourth, self.dim)
    }

    /// The map of a shrinkage from 0 to 1, with at most `most` directions: as many as a head has outputs, for a fair comparison.
    ///
    /// # Errors
    /// [`Unfit::Singular`].
    pub fn map(&self, shrinkage: f64, most: usize) -> Result<LinearMap, Unfit> {
        let within = self.scatters.shrunk(&self.scales, shrinkage, self.dim);
        let solved = solve(within, &self.scatters.between, most);
        let (directions, ratios) = solved.ok_or(Unfit::Singular)?;
        let layer = match &self.span {
            None => layer(&directions, &self.scatters.mean),
            Some(span) => {
                let mut weights = &span.basis * directions;
                for (mut row, scale) in weights.row_iter_mut().zip(&span.scales) {
                    row /= *scale;
                }
                layer(&weights, &span.mean)
            }
        };
        let rows = self.scatters.rows;
        Ok(LinearMap {
            layer: layer.ok_or(Unfit::Singular)?,
            shrinkage,
            variances: ratios.iter().map(|ratio| 1.0 + ratio / rows).collect(),
        })
    }
}

/// These rows, sorted by class.
fn by_class(dataset: &Dataset, rows: &[u32]) -> Vec<u32> {
    let mut rows = rows.to_vec();
    order::sort_by_key(&mut rows, |row| (dataset.labels[*row as usize], *row));
    rows
}

/// Rows of each class, from rows that are sorted by class.
fn classes<'a>(dataset: &Dataset, rows: &'a [u32]) -> Vec<&'a [u32]> {
    let label = |row: &u32| dataset.labels[*row as usize];
    rows.chunk_by(|a, b| label(a) == label(b)).collect()
}

/// Reads rows tile by tile, and yields to other work on the engine between tiles.
struct Reader<'a> {
    engine: &'a Engine,
    dataset: &'a Dataset,
    scaling: &'a Scaling,
    /// Time of the last yield.
    breathed: Instant,
    /// Task that the engine's listener receives, and rows read.
    task: Task,
    read: u64,
}

impl<'a> Reader<'a> {
    fn new(engine: &'a Engine, dataset: &'a Dataset, scaling: &'a Scaling, rows: usize) -> Self {
        let task = Task {
            what: "fitting the linear map".to_owned(),
            unit: "rows",
            total: PASSES * rows as u64,
        };
        engine.tell(&task, 0);
        Self {
            engine,
            dataset,
            scaling,
            breathed: Instant::now(),
            task,
            read: 0,
        }
    }

    /// Calls `take` with every row of these classes and the number of its class among them, in dense tiles in the order of the
    /// rows: a file is read in one go.
    async fn each(
        &mut self,
        classes: &[&[u32]],
        take: &mut dyn FnMut(&[f32], &[Member]),
    ) -> Result<()> {
        let mut members: Vec<Member> = Vec::new();
        for (class, rows) in classes.iter().enumerate() {
            members.extend(rows.iter().map(|row| Member { row: *row, class }));
        }
        order::sort_by_key(&mut members, |member| member.row);
        let (mut rows, mut tile) = (Vec::new(), Vec::new());
        for members in members.chunks(TILE_ROWS) {
            rows.clear();
            rows.extend(members.iter().map(|member| member.row));
            tile.clear();
            self.dataset.features.read(&rows, &mut tile).await?;
            self.scaling.apply(&mut tile);
            take(&tile, members);
            self.read += members.len() as u64;
            if self.breathed.elapsed() > BREATHE_EVERY {
                self.engine.tell(&self.task, self.read);
                self.engine.breathe().await?;
                self.breathed = Instant::now();
            }
        }
        Ok(())
    }

    /// Calls `take` with the residuals of the rows of some classes from the mean of their class, in tiles, and returns the means,
    /// `[classes, dim]`.
    async fn residuals(
        &mut self,
        classes: &[&[u32]],
        take: &mut dyn FnMut(&mut Vec<f64>),
    ) -> Result<Vec<f64>> {
        let dim = self.dataset.features.dim();
        let mut means = vec![0.0; classes.len() * dim];
        self.each(classes, &mut |tile, members| {
            for (row, member) in tile.chunks_exact(dim).zip(members) {
                let mean = &mut means[member.class * dim..][..dim];
                mean.iter_mut()
                    .zip(row)
                    .for_each(|(mean, value)| *mean += f64::from(*value));
            }
        })
        .await?;
        for (mean, class) in means.chunks_exact_mut(dim).zip(classes) {
            mean.iter_mut().for_each(|mean| *mean /= class.len() as f64);
        }
        let mut residuals = Vec::new();
        self.each(classes, &mut |tile, members| {
            residuals.clear();
            for (row, member) in tile.chunks_exact(dim).zip(members) {
                let mean = &means[member.class * dim..][..dim];
                residuals.extend(row.iter().zip(mean).map(|(v, mean)| f64::from(*v) - mean));
            }
            take(&mut residuals);
        })
        .await?;
        Ok(means)
    }

    /// Groups of classes whose means fit in [`MEANS_BYTES`].
    fn groups<'c, 'r>(
        &self,
        classes: &'c [&'r [u32]],
    ) -> impl Iterator<Item = &'c [&'r [u32]]> + use<'c, 'r> {
        let mean_bytes = size_of::<f64>() * self.dataset.features.dim();
        classes.chunks((MEANS_BYTES / mean_bytes).max(1))
    }

    /// Fit in the coordinates that the rows span; `None` if the rows do not differ.
    async fn wide(&mut self, classes: &[&[u32]]) -> Result<Option<LinearFit>> {
        let dim = self.dataset.features.dim();
        let mut squares = vec![0.0; dim];
        let means = self
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
        let scales: Vec<f64> = scales
            .map(|(sum, is_constant)| match deviation(*sum) {
                spread if *is_constant || spread == 0.0 => 1.0,
                spread => spread,
            })
            .collect();
        // The rows, sorted by class, centred and over their scales, a column each.
        let mut rows = DMatrix::zeros(dim, count);
        let mut of_class = vec![0; count];
        let mut at = 0;
        self.each(classes, &mut |tile, members| {
            for (row, member) in tile.chunks_exact(dim).zip(members) {
                for (i, value) in row.iter().enumerate() {
                    if !constant[i] {
                        rows[(i, at)] = (f64::from(*value) - mean[i]) / scales[i];
                    }
                }
                of_class[at] = member.class;
                at += 1;
            }
        })
        .await?;
        let Some(eigen) = SymmetricEigen::try_new(rows.tr_mul(&rows), f64::EPSILON, SWEEPS * count)
        else {
            return Ok(None);
        };
        let order = descending(&eigen.eigenvalues);
        let most = order.first().map_or(0.0, |first| eigen.eigenvalues[*first]);
        let kept = order
            .iter()
            .filter(|i| eigen.eigenvalues[**i] > MIN_RATIO * most);
        let kept: Vec<usize> = kept.copied().collect();
        if kept.is_empty() {
            return Ok(None);
        }
        let mut turned = eigen.eigenvectors.select_columns(&kept);
        let mut basis = &rows * &turned;
        for (at, i) in kept.iter().enumerate() {
            let length = eigen.eigenvalues[*i].sqrt();
            basis.column_mut(at).unscale_mut(length);
            turned.column_mut(at).scale_mut(length);
        }
        let mut scatters = Scatters::new(kept.len(), classes.len());
        let mut residuals = turned;
        let mut fourth = 0.0;
        for class in 0..classes.len() {
            let members: Vec<usize> = (0..count).filter(|row| of_class[*row] == class).collect();
            let mean = residuals.select_rows(&members).row_mean();
            for row in &members {
                let mut row = residuals.row_mut(*row);
                row -= &mean;
                fourth += row.norm_squared().powi(2) / count as f64;
            }
            let mean: Vec<f64> = mean.iter().copied().collect();
            scatters.join(&mean, members.len() as f64);
        }
        let mut tile: Vec<f64> = residuals.transpose().iter().copied().collect();
        add_products(&mut tile, kept.len(), &mut scatters.within);
        scatters.finish();
        Ok(Some(LinearFit {
            scales: vec![1.0; kept.len()],
            scatters,
            fourth,
            dim,
            span: Some(Span {
                basis,
                mean,
                scales,
            }),
        }))
    }

    /// Mean and scatters of the rows of these classes.
    async fn scatters(&mut self, classes: &[&[u32]]) -> Result<Scatters> {
        let dim = self.dataset.features.dim();
        let mut scatters = Scatters::new(dim, classes.len());
        for classes in self.groups(classes) {
            let within = &mut scatters.within;
            let mut take = |tile: &mut Vec<f64>| add_products(tile, dim, within);
            let means = self.residuals(classes, &mut take).await?;
            for (mean, class) in means.chunks_exact(dim).zip(classes) {
                scatters.join(mean, class.len() as f64);
            }
        }
        scatters.finish();
        Ok(scatters)
    }

    /// Mean over the rows of these classes of the fourth power of a residual's length over the scales.
    async fn fourth_power(&mut self, classes: &[&[u32]], scales: &[f64]) -> Result<f64> {
        let (mut sum, mut rows) = (0.0, 0);
        for classes in self.groups(classes) {
            let mut take = |tile: &mut Vec<f64>| {
                for row in tile.chunks_exact(scales.len()) {
                    let values = row.iter().zip(scales);
                    let square: f64 = values.map(|(v, scale)| (v / scale).powi(2)).sum();
                    sum += square * square;
                }
            };
            self.residuals(classes, &mut take).await?;
            rows += classes.iter().map(|class| class.len()).sum::<usize>();
        }
        Ok(sum / rows as f64)
    }
}

/// A row, and the number of its class.
#[derive(Clone, Copy, Debug)]
struct Member {
    row: u32,
    class: usize,
}

/// Adds the products of each two columns of centred rows to `scatter`; pads the rows to whole passes.
fn add_products(centred: &mut Vec<f64>, dim: usize, scatter: &mut [f64]) {
    // Rows of zeros add nothing, and make every pass whole.
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

/// Mean and scatters of the rows of some classes. The diagonal and the upper triangle of a scatter are filled.
#[derive(Clone, Debug)]
struct Scatters {
    rows: f64,
    mean: Vec<f64>,
    /// Sum over rows of the products of residuals from the mean of the row's class, `[dim, dim]`.
    within: Vec<f64>,
    between: Between,
}

/// The scatter of the means of classes about the mean of all rows.
#[derive(Clone, Debug)]
enum Between {
    /// Sum over rows of the products of the steps from the mean of all rows to the mean of the row's class, `[dim, dim]`.
    Products(Vec<f64>),
    /// Steps from the mean of all rows to the mean of each class, times the root of the class's rows, `[dim, classes]`; used if
    /// classes are fewer than features.
    Steps(DMatrix<f64>, Vec<f64>),
}

impl Scatters {
    fn new(dim: usize, classes: usize) -> Self {
        Self {
            rows: 0.0,
            mean: vec![0.0; dim],
            within: vec![0.0; dim * dim],
            between: match classes < dim {
                true => Between::Steps(DMatrix::zeros(dim, classes), Vec::new()),
                false => Between::Products(vec![0.0; dim * dim]),
            },
        }
    }

    /// Adds a class of this mean to the mean and to the scatter between classes (Chan, Golub and `LeVeque` 1979).
    fn join(&mut self, mean: &[f64], of_class: f64) {
        let rows = self.rows + of_class;
        let weight = self.rows * of_class / rows;
        let steps: Vec<f64> = mean.iter().zip(&self.mean).map(|(a, b)| a - b).collect();
        let dim = steps.len();
        match &mut self.between {
            Between::Products(products) => {
                for i in 0..dim {
                    let step = weight * steps[i];
                    let sums = products[i * dim + i..].iter_mut();
                    for (sum, along) in sums.zip(&steps[i..]) {
                        *sum += step * along;
                    }
                }
            }
            // The mean of all is not known yet.
            Between::Steps(means, sizes) => {
                means.column_mut(sizes.len()).copy_from_slice(mean);
                sizes.push(of_class);
            }
        }
        for (sum, step) in self.mean.iter_mut().zip(&steps) {
            *sum += step * of_class / rows;
        }
        self.rows = rows;
    }

    /// Ends the joining of classes.
    fn finish(&mut self) {
        if let Between::Steps(means, sizes) = &mut self.between {
            for (mut column, size) in means.column_iter_mut().zip(sizes.iter()) {
                let steps = column.iter_mut().zip(&self.mean);
                steps.for_each(|(value, mean)| *value = (*value - mean) * size.sqrt());
            }
        }
    }

    /// Removes constant features from both scatters: their weights become 0.
    fn leave_out_constant(&mut self) {
        let dim = self.mean.len();
        let between = |i: usize| match &self.between {
            Between::Products(products) => products[i * dim + i],
            Between::Steps(steps, _) => steps.row(i).norm_squared(),
        };
        let sizes = (0..dim).map(|i| {
            let variance = (self.within[i * dim + i] + between(i)) / self.rows;
            (variance.sqrt(), self.mean[i].abs())
        });
        let constant = column_spread::constant(sizes);
        for i in (0..dim).filter(|i| constant[*i]) {
            let places = (0..i)
                .map(|j| j * dim + i)
                .chain((i..dim).map(|j| i * dim + j));
            for place in places {
                self.within[place] = 0.0;
                if let Between::Products(products) = &mut self.between {
                    products[place] = 0.0;
                }
            }
            if let Between::Steps(steps, _) = &mut self.between {
                steps.row_mut(i).fill(0.0);
            }
        }
    }

    /// Standard deviation of each feature within classes, 1 for one that does not vary there. Means of equal f32 values are exact,
    /// so that their residuals are zeros.
    fn scales(&self) -> Vec<f64> {
        let diagonal = self.within.iter().step_by(self.mean.len() + 1);
        let scale = |scatter: &f64| match scatter / self.rows {
            0.0 => 1.0,
            variance => variance.sqrt(),
        };
        diagonal.map(scale).collect()
    }

    /// The shrinkage of Ledoit and Wolf for residuals over their scales, with this many `features`.
    ///
    /// `fourth` is the mean of the fourth power of their length.
    fn ledoit_wolf(&self, scales: &[f64], fourth: f64, features: usize) -> f64 {
        let dim = scales.len();
        if features == 1 {
            return 0.0;
        }
        let (mut trace, mut squares) = (0.0, 0.0);
        for i in 0..dim {
            let at = |j: usize| self.within[i * dim + j] / (self.rows * scales[i] * scales[j]);
            trace += at(i);
            squares += at(i).powi(2);
            squares += 2.0 * (i + 1..dim).map(|j| at(j).powi(2)).sum::<f64>();
        }
        // Scatter of the products about their mean, and distance of the covariance from its target.
        let features = features as f64;
        let noise = (fourth - squares) / (features * self.rows);
        let distance = (squares - trace * trace / features) / features;
        if noise > 0.0 && distance > 0.0 {
            (noise / distance).min(1.0)
        } else {
            0.0
        }
    }

    /// Covariance within classes, shrunk over the scales towards independent features of their mean variance.
    fn shrunk(&self, scales: &[f64], shrinkage: f64, features: usize) -> Vec<f64> {
        let dim = scales.len();
        let kept = (1.0 - shrinkage) / self.rows;
        let mut shrunk: Vec<f64> = self.within.iter().map(|scatter| kept * scatter).collect();
        let diagonal = self.within.iter().step_by(dim + 1);
        let variances = diagonal
            .zip(scales)
            .map(|(scatter, scale)| scatter / (self.rows * scale * scale));
        let target = shrinkage * variances.sum::<f64>() / features as f64;
        shrunk
            .iter_mut()
            .step_by(dim + 1)
            .zip(scales)
            .for_each(|(value, scale)| *value += target * scale * scale);
        shrunk
    }
}

/// Directions of the largest ratios between / within, one a column, of unit variance within classes; and the ratios. There are at
/// most `most`, and no more than differ between classes.
///
/// The upper triangle of the products is read, row-major: nalgebra, column-major, takes it as the lower one.
fn solve(within: Vec<f64>, between: &Between, most: usize) -> Option<(DMatrix<f64>, Vec<f64>)> {
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
fn descending(values: &DVector<f64>) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order::sort_places(&mut order, &|a, b| values[b].total_cmp(&values[a]));
    order
}

/// The most steps of the QR iteration per eigenvalue; usually two or three are needed.
const SWEEPS: usize = 60;

/// Directions as rows of weights, and the bias that brings the mean to the origin; `None` if f32 does not hold them.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Labelled;
    use crate::engine::device::{EngineChoice, EngineKind};

    /// A small case of `tests/golden/linear.py`, with the fields that are needed here.
    #[derive(serde::Deserialize)]
    struct Case {
        name: String,
        features: Vec<f32>,
        labels: Vec<u32>,
        dim: usize,
        outputs: usize,
        train: Vec<u32>,
        compared: Vec<u32>,
        cosines: Vec<f64>,
    }

    /// Covariance within classes, computed from the parts of a fit.
    type Within = fn(&Parts) -> Vec<f64>;

    struct Parts {
        pooled: Part,
        /// Pooled part with the standard deviations of all rows, about one mean, as scales.
        over_total: Part,
        /// Part of each class by itself.
        each: Vec<Part>,
    }

    struct Part {
        scatters: Scatters,
        scales: Vec<f64>,
        fourth: f64,
    }

    impl Part {
        async fn of(reader: &mut Reader<'_>, classes: &[&[u32]]) -> Self {
            let scatters = reader.scatters(classes).await.expect("reads");
            let scales = scatters.scales();
            let fourth = reader.fourth_power(classes, &scales).await;
            Self {
                scatters,
                scales,
                fourth: fourth.expect("reads"),
            }
        }

        fn ledoit_wolf(&self) -> f64 {
            self.scatters
                .ledoit_wolf(&self.scales, self.fourth, self.scales.len())
        }

        fn shrunk(&self, shrinkage: f64) -> Vec<f64> {
            self.scatters
                .shrunk(&self.scales, shrinkage, self.scales.len())
        }
    }

    impl Case {
        fn dataset(&self) -> Dataset {
            Dataset::new(Labelled {
                values: self.features.clone(),
                dim: self.dim,
                labels: self.labels.iter().map(u32::to_string).collect(),
                ..Labelled::default()
            })
            .expect("classes")
        }

        fn parts(&self) -> Parts {
            let dataset = self.dataset();
            let rows = by_class(&dataset, &self.train);
            let classes = classes(&dataset, &rows);
            pollster::block_on(async {
                let engine = cpu().await;
                let scaling = Scaling::none(self.dim);
                let mut reader = Reader::new(&engine, &dataset, &scaling, rows.len());
                let pooled = Part::of(&mut reader, &classes).await;
                let mut each = Vec::new();
                for class in &classes {
                    each.push(Part::of(&mut reader, &[class]).await);
                }
                let total = Part::of(&mut reader, &[&rows]).await;
                let fourth = reader.fourth_power(&classes, &total.scales).await;
                Parts {
                    over_total: Part {
                        scales: total.scales,
                        fourth: fourth.expect("reads"),
                        scatters: pooled.scatters.clone(),
                    },
                    pooled,
                    each,
                }
            })
        }

        fn right(&self) -> LayerWeights {
            let dataset = self.dataset();
            pollster::block_on(async {
                let engine = cpu().await;
                let scaling = Scaling::none(self.dim);
                let map =
                    LinearMap::fit(&engine, &dataset, &scaling, &self.train, self.outputs).await;
                map.expect("reads").expect("fits").layer
            })
        }

        fn fitted(&self, parts: &Parts, within: Within) -> LayerWeights {
            let Scatters { between, mean, .. } = parts.pooled.scatters.clone();
            let solved = solve(within(parts), &between, self.outputs);
            let (directions, _) = solved.expect("not singular");
            layer(&directions, &mean).expect("finite")
        }

        /// The largest difference of any cosine from the expected one.
        fn difference(&self, layer: &LayerWeights) -> f64 {
            let place = |row: &u32| {
                let features = &self.features[*row as usize * self.dim..][..self.dim];
                let outputs = layer.weight.chunks_exact(self.dim).zip(&layer.bias);
                let along = |(weights, bias): (&[f32], &f32)| {
                    let products = weights.iter().zip(features);
                    products.fold(f64::from(*bias), |sum, (w, v)| {
                        sum + f64::from(*w) * f64::from(*v)
                    })
                };
                outputs.map(along).collect::<Vec<f64>>()
            };
            let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            let places: Vec<Vec<f64>> = self.compared.iter().map(place).collect();
            let pairs = (0..places.len()).flat_map(|i| (i + 1..places.len()).map(move |j| (i, j)));
            let cosines = pairs.map(|(i, j)| {
                let (a, b) = (&places[i], &places[j]);
                dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
            });
            let off = cosines.zip(&self.cosines).map(|(a, b)| (a - b).abs());
            off.fold(0.0, f64::max)
        }
    }

    async fn cpu() -> Engine {
        let choice = EngineChoice {
            kind: Some(EngineKind::Cpu),
            ..EngineChoice::default()
        };
        Engine::open(&choice, 1 << 20).await.expect("a CPU")
    }

    /// Covariance as in scikit-learn's eigen solver.
    fn shrunk_per_class(parts: &Parts) -> Vec<f64> {
        let mut within = vec![0.0; parts.pooled.scatters.within.len()];
        for class in &parts.each {
            let weight = class.scatters.rows / parts.pooled.scatters.rows;
            let shrunk = class.shrunk(class.ledoit_wolf());
            within
                .iter_mut()
                .zip(shrunk)
                .for_each(|(sum, value)| *sum += weight * value);
        }
        within
    }

    #[test]
    fn another_covariance_within_classes_is_told_from_the_expected_one() {
        let cases = include_str!("../../tests/golden/linear.json");
        let cases: Vec<serde_json::Value> = serde_json::from_str(cases).expect("is there");
        let small = cases.into_iter().filter(|case| case["sample"].is_null());
        let small = small.map(|case| serde_json::from_value(case).expect("as written"));
        let small: Vec<Case> = small.collect();
        assert_eq!(small.len(), 2);
        // A shrinkage of exactly 0 is left out: the duplicate feature would make the covariance singular.
        let faults: [(&str, Within); 6] = [
            ("no shrinkage", |of| of.pooled.shrunk(1e-6)),
            ("all shrunk", |of| of.pooled.shrunk(1.0)),
            ("a hundredth more", |of| {
                of.pooled.shrunk(1.01 * of.pooled.ledoit_wolf())
            }),
            ("shrunk per class", shrunk_per_class),
            ("not standardised", |of| {
                let scales = vec![1.0; of.pooled.scales.len()];
                let shrinkage = of.pooled.ledoit_wolf();
                of.pooled.scatters.shrunk(&scales, shrinkage, scales.len())
            }),
            ("over total deviations", |of| {
                of.over_total.shrunk(of.over_total.ledoit_wolf())
            }),
        ];
        for case in small {
            let parts = case.parts();
            let right = case.right();
            assert!(case.difference(&right) < 1e-5, "{}", case.name);
            let same = case.fitted(&parts, |of| of.pooled.shrunk(of.pooled.ledoit_wolf()));
            assert_eq!(same, right, "{}", case.name);
            for (fault, within) in faults {
                let off = case.difference(&case.fitted(&parts, within));
                println!("{}, {fault}: off by {off:.1e}", case.name);
                assert!(off > 1e-4, "{}, {fault}: {off}", case.name);
            }
        }
    }
}
