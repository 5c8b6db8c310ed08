//! [`LinearMap`]: the linear baseline, what a head has to beat. Takes the training rows with their classes, gives one
//! linear layer that the kernels of a head apply.
//!
//! Pooled Ledoit-Wolf LDA: linear discriminant analysis whose covariance within classes is that of the residuals of all
//! training rows from the means of their classes, shrunk once as Ledoit and Wolf (2004) do, features over their
//! deviations. Pooled first, because scikit-learn's `LinearDiscriminantAnalysis(shrinkage="auto")` shrinks the covariance
//! of each class by itself: of a few rows little but the variances is left, and the baseline is weak. All sums
//! are f64 in a fixed order: a browser gets the same bits.
//!
//! What comes out is ranked by cosines, which see no length. Of one output that leaves the sign, and of two a class in the
//! middle has no direction: LDA, whose rows lie by distance, would be a straw man. So the map may have one output more, a
//! constant `c`. Between rows of lengths about `c` or less the cosines then go by distance, as
//! `cos((x, c), (y, c)) = 1 - |x - y|^2 / 2 c^2 + ..`, and it still is one linear layer. Where the outputs are many, a length
//! is one of many, and the plain cosines often do better.

use std::fmt;

use nalgebra::{Cholesky, DMatrix, SymmetricEigen};
use web_time::Instant;

use crate::dataset::Dataset;
use crate::engine::Engine;
use crate::error::Result;
use crate::model::LayerWeights;
use crate::order;
use crate::scaling::Scaling;
use crate::working::{BREATHE_EVERY, Task};

/// The most features: an eigen-decomposition of 1,024 takes two to four seconds on one thread that nothing can
/// interrupt, and each further doubling eight times that.
const MAX_DIM: usize = 1024;
/// The most products of the scatter, rows x features^2: a minute or so in a browser.
const MAX_PRODUCTS: f64 = (1u64 << 37) as f64;
/// Rows that are read at once.
const TILE_ROWS: usize = 256;
/// What the means of classes that are looked at together may take.
const MEANS_BYTES: usize = 16 << 20;
/// How often each row is read.
const PASSES: u64 = 4;
/// Rows that one pass over the scatter adds.
const PASS_ROWS: usize = 8;
/// Of a feature's variance within classes, what has to be left when the features before it are known.
const MIN_PIVOT: f64 = 1e-12;

/// Up to so many directions a map that no row chooses has a constant. On normal classes about random centres the constant
/// gains 0.01 to 0.09 of precision@1 at two and three directions, and loses 0.01 at ten and sixteen where classes overlap.
const FEW: usize = 3;

/// Pooled Ledoit-Wolf LDA as a layer: `W x + b` with `b = -W mean`, so that the mean training row is the origin of the
/// cosines.
#[derive(Clone, Debug, PartialEq)]
pub struct LinearMap {
    layer: LayerWeights,
    /// Of the training rows along each direction; 1 of it within classes, as far as shrinkage leaves it.
    variances: Vec<f64>,
}

/// What of a linear map is ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinearOutputs {
    /// Its first directions.
    pub directions: usize,
    /// Whether a constant is beside them.
    pub constant: bool,
}

impl LinearOutputs {
    /// Both together.
    pub fn count(self) -> usize {
        self.directions + usize::from(self.constant)
    }
}

impl fmt::Display for LinearOutputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.directions == 1 { "" } else { "s" };
        let constant = if self.constant { " and a constant" } else { "" };
        write!(f, "{} output{plural}{constant}", self.directions)
    }
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
    /// Some direction does not vary within classes, and shrinkage did not help, as where rows of a class are equal.
    #[error(
        "rows of a class vary in too few directions: it takes more rows of a class, or fewer features"
    )]
    Singular,
}

impl LinearMap {
    /// How many directions a fit gives: `min(dim, classes - 1, most)`; `labels` are those of the training rows.
    ///
    /// # Errors
    /// Why there is no fit, as far as the sizes tell.
    pub fn directions(labels: &[u32], dim: usize, most: usize) -> Result<usize, Unfit> {
        let mut classes = labels.to_vec();
        order::sort_numbers(&mut classes);
        classes.dedup();
        let (rows, classes) = (labels.len(), classes.len());
        if classes < 2 {
            Err(Unfit::OneClass)
        } else if rows <= classes {
            Err(Unfit::TooFewRows { rows, classes })
        } else if dim > MAX_DIM || rows as f64 * (dim * dim) as f64 > MAX_PRODUCTS {
            Err(Unfit::TooLarge { rows, dim })
        } else {
            Ok(dim.min(classes - 1).min(most))
        }
    }

    /// Fits to these rows of a data set, scaled, reading them a few at a time, four times each. Gives `most` directions at
    /// most: as many as a head has outputs, to compare like with like.
    ///
    /// # Errors
    /// As [`crate::RowSource::read`] and [`Engine::breathe`]; within, why there is no such map.
    pub async fn fit(
        engine: &Engine,
        dataset: &Dataset,
        scaling: &Scaling,
        rows: &[u32],
        most: usize,
    ) -> Result<Result<Self, Unfit>> {
        let labels = dataset.labels_of(rows);
        let directions = match Self::directions(&labels, dataset.features.dim(), most) {
            Ok(directions) => directions,
            Err(unfit) => return Ok(Err(unfit)),
        };
        let rows = by_class(dataset, rows);
        let classes = classes(dataset, &rows);
        let mut reader = Reader::new(engine, dataset, scaling, rows.len());
        let scatters = reader.scatters(&classes).await?;
        let scales = scatters.scales();
        let fourth = reader.fourth_power(&classes, &scales).await?;
        let within = scatters.shrunk(&scales, scatters.ledoit_wolf(&scales, fourth));
        let map = solve(within, scatters.between, directions).and_then(|(directions, ratios)| {
            let variances = ratios.iter().map(|ratio| 1.0 + ratio / scatters.rows);
            Some(Self {
                layer: layer(&directions, &scatters.mean)?,
                variances: variances.collect(),
            })
        });
        Ok(map.ok_or(Unfit::Singular))
    }

    /// The layer, of one direction an output, the largest ratio of variance between to variance within classes first. It
    /// follows on scaled features.
    pub fn layer(&self) -> &LayerWeights {
        &self.layer
    }

    /// What is worth trying in `most` outputs: the first 8, 16, 32 .. of these directions and all of them, each beside a constant
    /// and then without. One direction is not tried without: rows on a side of it are all as near.
    pub fn cuts(directions: usize, most: usize) -> Vec<LinearOutputs> {
        let powers = std::iter::successors(Some(8), |cut| Some(2 * cut));
        let below = powers.take_while(|cut| *cut < directions);
        let of = |directions, constant| LinearOutputs {
            directions,
            constant,
        };
        // The constant takes the last direction's place where there is no other.
        let both = |cut: usize| [of(cut.min(most - 1), true), of(cut, false)];
        let sensible =
            |outputs: &LinearOutputs| outputs.directions > usize::from(!outputs.constant);
        let tried = below.chain([directions]).flat_map(both);
        tried.filter(sensible).collect()
    }

    /// What to rank where no row tells what does best: all directions, and a constant where they are few and leave it room.
    pub fn unchosen(directions: usize, most: usize) -> LinearOutputs {
        LinearOutputs {
            directions,
            constant: directions <= FEW && directions < most,
        }
    }

    /// The layer of these outputs. The constant is the root mean square length of the training rows in these directions: a
    /// smaller one bends distances, and a larger one leaves cosines so near 1 that f32 tells fewer of them apart.
    pub fn cut(&self, outputs: LinearOutputs) -> LayerWeights {
        let LinearOutputs {
            directions,
            constant,
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

/// These rows, class after class.
fn by_class(dataset: &Dataset, rows: &[u32]) -> Vec<u32> {
    let mut rows = rows.to_vec();
    order::sort_by_key(&mut rows, |row| (dataset.labels[*row as usize], *row));
    rows
}

/// The rows of each class, of rows that lie class after class.
fn classes<'a>(dataset: &Dataset, rows: &'a [u32]) -> Vec<&'a [u32]> {
    let label = |row: &u32| dataset.labels[*row as usize];
    rows.chunk_by(|a, b| label(a) == label(b)).collect()
}

/// Reads rows tile by tile, and lets others have their turn.
struct Reader<'a> {
    engine: &'a Engine,
    dataset: &'a Dataset,
    scaling: &'a Scaling,
    /// When others had their last turn.
    breathed: Instant,
    /// What the engine's listener hears of, and rows read.
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

    /// Gives `take` every row of these classes with the number of its class among them, dense tiles in the order of the rows:
    /// a file is read in one go.
    async fn each(
        &mut self,
        classes: &[&[u32]],
        mut take: impl FnMut(&[f32], &[Member]),
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

    /// Gives `take` what is left of the rows of some classes without the mean of their class, tiles of them, and returns the
    /// means, `[classes, dim]`.
    async fn residuals(
        &mut self,
        classes: &[&[u32]],
        mut take: impl FnMut(&mut Vec<f64>),
    ) -> Result<Vec<f64>> {
        let dim = self.dataset.features.dim();
        let mut means = vec![0.0; classes.len() * dim];
        self.each(classes, |tile, members| {
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
        self.each(classes, |tile, members| {
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

    /// As many classes as have room for their means.
    fn groups<'c, 'r>(
        &self,
        classes: &'c [&'r [u32]],
    ) -> impl Iterator<Item = &'c [&'r [u32]]> + use<'c, 'r> {
        let mean_bytes = size_of::<f64>() * self.dataset.features.dim();
        classes.chunks((MEANS_BYTES / mean_bytes).max(1))
    }

    /// Mean and scatters of the rows of these classes.
    async fn scatters(&mut self, classes: &[&[u32]]) -> Result<Scatters> {
        let dim = self.dataset.features.dim();
        let mut scatters = Scatters::new(dim);
        for classes in self.groups(classes) {
            let within = &mut scatters.within;
            let take = |tile: &mut Vec<f64>| add_products(tile, dim, within);
            let means = self.residuals(classes, take).await?;
            for (mean, class) in means.chunks_exact(dim).zip(classes) {
                scatters.join(mean, class.len() as f64);
            }
        }
        Ok(scatters)
    }

    /// The mean over the rows of these classes of the squared squared length of a residual over the scales.
    async fn fourth_power(&mut self, classes: &[&[u32]], scales: &[f64]) -> Result<f64> {
        let (mut sum, mut rows) = (0.0, 0);
        for classes in self.groups(classes) {
            let take = |tile: &mut Vec<f64>| {
                for row in tile.chunks_exact(scales.len()) {
                    let values = row.iter().zip(scales);
                    let square: f64 = values.map(|(v, scale)| (v / scale).powi(2)).sum();
                    sum += square * square;
                }
            };
            self.residuals(classes, take).await?;
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

/// Adds the products of each two columns of centred rows to `scatter`; fills the rows up to whole passes.
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

/// Mean and scatters of the rows of some classes. Of both scatters the diagonal and the part above it are filled.
#[derive(Clone, Debug)]
struct Scatters {
    rows: f64,
    mean: Vec<f64>,
    /// `[dim, dim]`, the sum over rows of the products of residuals from the mean of the row's class.
    within: Vec<f64>,
    /// `[dim, dim]`, the same of the steps from the mean to the mean of the row's class.
    between: Vec<f64>,
}

impl Scatters {
    fn new(dim: usize) -> Self {
        Self {
            rows: 0.0,
            mean: vec![0.0; dim],
            within: vec![0.0; dim * dim],
            between: vec![0.0; dim * dim],
        }
    }

    /// Takes a class of this mean into the mean and the scatter between classes (Chan, Golub and `LeVeque` 1979).
    fn join(&mut self, mean: &[f64], of_class: f64) {
        let rows = self.rows + of_class;
        let weight = self.rows * of_class / rows;
        let steps: Vec<f64> = mean.iter().zip(&self.mean).map(|(a, b)| a - b).collect();
        let dim = steps.len();
        for i in 0..dim {
            let step = weight * steps[i];
            let sums = self.between[i * dim + i..].iter_mut();
            for (sum, along) in sums.zip(&steps[i..]) {
                *sum += step * along;
            }
            self.mean[i] += steps[i] * of_class / rows;
        }
        self.rows = rows;
    }

    /// The deviation of each feature within classes, 1 for one that does not vary there. Means of equal f32 values are
    /// exact, so that their residuals are zeros.
    fn scales(&self) -> Vec<f64> {
        let diagonal = self.within.iter().step_by(self.mean.len() + 1);
        let scale = |scatter: &f64| match scatter / self.rows {
            0.0 => 1.0,
            variance => variance.sqrt(),
        };
        diagonal.map(scale).collect()
    }

    /// The shrinkage of Ledoit and Wolf for residuals over their scales, from 0 (none) to 1 (independent features).
    ///
    /// `fourth` is the mean of their squared squared length.
    fn ledoit_wolf(&self, scales: &[f64], fourth: f64) -> f64 {
        let dim = scales.len();
        if dim == 1 {
            return 0.0;
        }
        let (mut trace, mut squares) = (0.0, 0.0);
        for i in 0..dim {
            let at = |j: usize| self.within[i * dim + j] / (self.rows * scales[i] * scales[j]);
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

    /// The covariance within classes, over the scales shrunk towards independent features of their mean variance.
    fn shrunk(&self, scales: &[f64], shrinkage: f64) -> Vec<f64> {
        let dim = scales.len();
        let kept = (1.0 - shrinkage) / self.rows;
        let mut shrunk: Vec<f64> = self.within.iter().map(|scatter| kept * scatter).collect();
        let diagonal = self.within.iter().step_by(dim + 1);
        let variances = diagonal
            .zip(scales)
            .map(|(scatter, scale)| scatter / (self.rows * scale * scale));
        let target = shrinkage * variances.sum::<f64>() / dim as f64;
        shrunk
            .iter_mut()
            .step_by(dim + 1)
            .zip(scales)
            .for_each(|(value, scale)| *value += target * scale * scale);
        shrunk
    }
}

/// The directions of the largest ratios between / within, one a column, of unit variance within classes; and the ratios.
///
/// Of both matrices the part above the diagonal is read, row-major: to nalgebra, column-major, the one below.
fn solve(
    within: Vec<f64>,
    between: Vec<f64>,
    directions: usize,
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
    let mut between = DMatrix::from_vec(dim, dim, between);
    between.fill_upper_triangle_with_lower_triangle();
    root.solve_lower_triangular_mut(&mut between)
        .then_some(())?;
    between.transpose_mut();
    root.solve_lower_triangular_mut(&mut between)
        .then_some(())?;
    let eigen = SymmetricEigen::try_new(between, f64::EPSILON, SWEEPS * dim)?;
    let mut order: Vec<usize> = (0..dim).collect();
    order::sort_places(&mut order, &|a, b| {
        eigen.eigenvalues[b].total_cmp(&eigen.eigenvalues[a])
    });
    order.truncate(directions);
    let ratios = order.iter().map(|i| eigen.eigenvalues[*i]).collect();
    let mut chosen = eigen.eigenvectors.select_columns(&order);
    root.tr_solve_lower_triangular_mut(&mut chosen)
        .then_some((chosen, ratios))
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

    /// A small case of `tests/golden/linear.py`, as far as it is needed here.
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

    /// The covariance within classes, from what a fit has of them.
    type Within = fn(&Parts) -> Vec<f64>;

    struct Parts {
        pooled: Part,
        /// The same with the deviations of the rows, classes apart or not, for scales.
        over_total: Part,
        /// Each class by itself.
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
            self.scatters.ledoit_wolf(&self.scales, self.fourth)
        }

        fn shrunk(&self, shrinkage: f64) -> Vec<f64> {
            self.scatters.shrunk(&self.scales, shrinkage)
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
            let solved = solve(within(parts), between, self.outputs);
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

    /// As scikit-learn's eigen solver has it.
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
        let cases = include_str!("../tests/golden/linear.json");
        let cases: Vec<serde_json::Value> = serde_json::from_str(cases).expect("is there");
        let small = cases.into_iter().filter(|case| case["sample"].is_null());
        let small = small.map(|case| serde_json::from_value(case).expect("as written"));
        let small: Vec<Case> = small.collect();
        assert_eq!(small.len(), 2);
        // Of none at all only a trace is left: without any the duplicate feature makes it singular.
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
                of.pooled.scatters.shrunk(&scales, shrinkage)
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
