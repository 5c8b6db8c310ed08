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

mod reader;
mod scatters;
mod solve;
mod span;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::base::error::Result;
use crate::base::order;
use crate::data::Dataset;
use crate::engine::Engine;
use crate::model::layer_weights::LayerWeights;
use crate::model::scaling::Scaling;
use reader::Reader;
use scatters::Scatters;
use solve::{layer, solve};
use span::Span;

/// The most features, or rows if these are fewer: a Cholesky decomposition of 2,048 takes seconds, by its 3 10^9 operations, on one
/// thread that nothing can interrupt, and each further doubling eight times that.
const MAX_DIM: usize = 2048;
/// The most classes if there are as many features: an eigen-decomposition of 1,024 takes two to four seconds.
const MAX_EIGEN: usize = 1024;
/// The most values of a table that is fitted in the coordinates of its rows, all of which are held at once: 64 MiB.
const MAX_VALUES: usize = 8 << 20;
/// The most products of the scatter, rows x features^2: a minute or so in a browser.
const MAX_PRODUCTS: f64 = (1u64 << 37) as f64;
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
            ..LayerWeights::default()
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
            let found = Span::fit(&mut reader, &classes).await?;
            let fit = found.map(|(span, scatters, fourth)| Self {
                scales: vec![1.0; scatters.mean.len()],
                scatters,
                fourth,
                dim,
                span: Some(span),
            });
            return Ok(fit.ok_or(Unfit::Singular));
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
