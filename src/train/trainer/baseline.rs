//! Baselines of a head: the features of a side as the head sees them, and a linear map of no more outputs fitted to the training
//! rows, both ranked by the evaluator as embeddings are.

use std::{iter, slice};

use serde::{Deserialize, Serialize};

use super::Trainer;
use super::score::Encoder;
use crate::base::error::{Error, Result};
use crate::base::plan::MemoryPlan;
use crate::data::Side;
use crate::engine::checkpoint::{ArrayReader, ArrayWriter, damaged};
use crate::engine::pace::Slices;
use crate::engine::{Engine, Workspace};
use crate::judge::linear::{LinearFit, LinearMap, LinearOutputs, SHRINKAGES, Unfit};
use crate::model::activations::Tile;
use crate::model::architecture::Architecture;
use crate::model::embedder::Embedder;
use crate::model::embedding_model::EmbeddingModel;
use crate::model::layer_weights::LayerWeights;
use crate::model::unit_rows::TILE_ROWS;
use crate::search::evaluation::Ranking;
use crate::search::metrics::{Metrics, RetrievalSum};
use crate::search::rows;

const PARAMETERS: &str = "linear.parameters";
const TILE: [&str; 2] = ["linear.batch", "linear.rows"];

/// Buffers of the linear map on the engine: a model of one layer.
#[derive(Debug)]
pub(super) struct Linear {
    pub(super) model: EmbeddingModel,
    pub(super) tile: Tile,
    /// `None` before the fit.
    fit: Option<Result<Fit, Unfit>>,
}

/// Result of the fit in a checkpoint; the layer itself is among its arrays.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Fitted {
    /// The fit was not tried yet, or there can be none.
    Not,
    /// There is no map, as rows of a class vary in too few directions.
    Singular,
    /// Written by earlier versions: this many directions do best. Zeros follow among the arrays.
    Cut(usize),
    /// Written by earlier versions: this many directions do best with a constant after them.
    BesideConstant(usize),
    /// These outputs of the map do best. Zeros follow among the arrays.
    Chosen(LinearOutputs),
}

/// Names of the linear map's arrays in a checkpoint.
const SAVED: [&str; 2] = ["linear.weight", "linear.bias"];

/// The part of a linear map that does best on the validation rows, as a layer.
#[derive(Debug)]
struct Fit {
    layer: LayerWeights,
    outputs: LinearOutputs,
}

impl Linear {
    pub(super) fn plan(plan: MemoryPlan, dim: usize, outputs: usize) -> MemoryPlan {
        let map = Architecture::linear(dim, outputs);
        Tile::plan(map.plan(plan, PARAMETERS), &TILE, &map, TILE_ROWS)
    }

    pub(super) fn new(
        engine: &Engine,
        workspace: &mut Workspace,
        dim: usize,
        outputs: usize,
    ) -> Self {
        let map = Architecture::linear(dim, outputs);
        Self {
            model: EmbeddingModel::zeroed(engine, workspace, PARAMETERS, &map),
            tile: Tile::new(workspace, &TILE, &map),
            fit: None,
        }
    }

    /// The fitted map, if there is one.
    fn fitted(&self) -> Option<&Fit> {
        self.fit.as_ref()?.as_ref().ok()
    }
}

impl Trainer {
    /// Scores the features of a side as the head sees them, with the seeded queries of an evaluation.
    ///
    /// # Errors
    /// As [`Trainer::evaluate`].
    pub async fn score_raw(&mut self, side: Side) -> Result<Option<Metrics>> {
        let (rows, queries) = self.rows_and_queries(side);
        let what = Encoder::Raw.scoring(side);
        self.score_queries(&what, Encoder::Raw, &rows, &queries)
            .await
    }

    /// Scores a side through the linear map, with the queries of [`Trainer::score_raw`]; fits it the first time. `None` if there is
    /// no such map: [`Trainer::no_linear`] has the reason.
    ///
    /// # Errors
    /// As [`Trainer::evaluate`], and errors of reading the features.
    pub async fn score_linear(&mut self, side: Side) -> Result<Option<Metrics>> {
        self.fit_linear().await?;
        if self.no_linear().is_some() {
            return Ok(None);
        }
        let (rows, queries) = self.rows_and_queries(side);
        let what = Encoder::Linear.scoring(side);
        self.score_queries(&what, Encoder::Linear, &rows, &queries)
            .await
    }

    /// Reason for a missing linear baseline, as far as is known: a fit may yet fail.
    pub fn no_linear(&self) -> Option<&Unfit> {
        match &self.linear {
            Ok(linear) => linear.fit.as_ref()?.as_ref().err(),
            Err(unfit) => Some(unfit),
        }
    }

    /// The linear baseline for rows as they are in the file, as a head of one layer; `None` before it was scored, or if there is no
    /// such map.
    pub fn linear_head(&self) -> Option<LayerWeights> {
        let fit = self.linear.as_ref().ok()?.fitted()?;
        let mut layer = fit.layer.clone();
        layer.fold(self.scaling().0);
        Some(layer)
    }

    /// Outputs of the linear baseline; `None` before it was scored, or if there is no such map.
    pub fn linear_outputs(&self) -> Option<LinearOutputs> {
        Some(self.linear.as_ref().ok()?.fitted()?.outputs)
    }

    /// Fits the linear map with several shrinkages, and keeps the map and the outputs that do best on the validation rows.
    pub(super) async fn fit_linear(&mut self) -> Result<()> {
        let Ok(Linear { fit: None, .. }) = &self.linear else {
            return Ok(());
        };
        let (train, scaling) = (&self.setup.sides.train, &self.scaling.scaling);
        let fit = LinearFit::new(&self.engine, &self.dataset, scaling, train).await?;
        let fit = match fit {
            Ok(fit) => self.best_map(&fit).await?,
            Err(unfit) => Err(unfit),
        };
        if let Ok(Fit { layer, .. }) = &fit {
            let layer = layer.clone();
            self.set_linear(&layer).await?;
        }
        if let Ok(linear) = &mut self.linear {
            linear.fit = Some(fit);
        }
        Ok(())
    }

    /// Saves the linear map, so that it is not fitted again.
    pub(super) fn save_linear(&self, arrays: &mut ArrayWriter) -> Result<Fitted> {
        let Ok(Linear {
            model,
            fit: Some(fit),
            ..
        }) = &self.linear
        else {
            return Ok(Fitted::Not);
        };
        let Ok(Fit { layer, outputs }) = fit else {
            return Ok(Fitted::Singular);
        };
        let mut layer = layer.clone();
        layer.resize(model.embedding_size());
        arrays.array(SAVED[0], &layer.weight)?;
        arrays.array(SAVED[1], &layer.bias)?;
        Ok(Fitted::Chosen(*outputs))
    }

    /// Restores the saved linear map.
    pub(super) async fn restore_linear(
        &mut self,
        fitted: Fitted,
        arrays: &ArrayReader<'_>,
    ) -> Result<()> {
        // Without memory for the map there is none, even if the saved run had one.
        let Ok(linear) = &mut self.linear else {
            return Ok(());
        };
        let [most, inputs] = [linear.model.embedding_size(), linear.model.input_size()];
        let outputs = match fitted {
            Fitted::Not => return Ok(()),
            Fitted::Singular => {
                linear.fit = Some(Err(Unfit::Singular));
                return Ok(());
            }
            Fitted::Chosen(outputs) => outputs,
            Fitted::Cut(directions) => LinearOutputs {
                directions,
                constant: false,
                shrinkage: None,
            },
            Fitted::BesideConstant(directions) => LinearOutputs {
                directions,
                constant: true,
                shrinkage: None,
            },
        };
        let directions = 1..=most - usize::from(outputs.constant);
        let shrinkage = outputs.shrinkage.unwrap_or(0.0);
        if !directions.contains(&outputs.directions) || !(0.0..=1.0).contains(&shrinkage) {
            return Err(damaged(format_args!("its linear map has no {outputs}")));
        }
        let mut layer = LayerWeights {
            index: 0,
            shape: [most, inputs],
            weight: arrays.exactly(SAVED[0], most * inputs)?,
            bias: arrays.exactly(SAVED[1], most)?,
            ..LayerWeights::default()
        };
        layer.resize(outputs.count());
        self.set_linear(&layer).await?;
        if let Ok(linear) = &mut self.linear {
            linear.fit = Some(Ok(Fit { layer, outputs }));
        }
        Ok(())
    }

    /// Shrinkage and outputs of the best MAP@R on the validation rows: first the shrinkage with all directions, then fewer
    /// directions of that one. Ties go to the first; without validation rows it is the shrinkage of Ledoit and Wolf.
    async fn best_map(&mut self, fit: &LinearFit) -> Result<Result<Fit, Unfit>> {
        let most = self.config.embedding_size;
        let mut maps = Vec::new();
        for shrinkage in iter::once(fit.ledoit_wolf()).chain(SHRINKAGES) {
            self.engine.breathe().await?;
            let Ok(map) = fit.map(shrinkage, most) else {
                continue;
            };
            // A map that could not be exported as a head is no baseline.
            let mut whole = map.layer().clone();
            whole.fold(&self.scaling.scaling);
            if Embedder::check(&[whole]).is_ok() {
                maps.push(map);
            }
        }
        let Some(first) = maps.first() else {
            return Ok(Err(Unfit::Singular));
        };
        let mut best = (first, first.unchosen(most), -1.0);
        for whole in [true, false] {
            let of = if whole {
                &maps[..]
            } else {
                slice::from_ref(best.0)
            };
            let tried: Vec<(&LinearMap, LinearOutputs)> = of
                .iter()
                .flat_map(|map| map.cuts(most).into_iter().map(move |cut| (map, cut)))
                .filter(|(map, cut)| (cut.count() >= map.layer().shape[0].min(most)) == whole)
                .collect();
            let scores = self.score_maps(&tried).await?;
            for ((map, outputs), score) in tried.into_iter().zip(scores) {
                if score > best.2 {
                    best = (map, outputs, score);
                }
            }
        }
        let (map, outputs, _) = best;
        let layer = map.cut(outputs);
        Ok(Ok(Fit { layer, outputs }))
    }

    /// MAP@R of the validation rows through each of these maps: the mean of two scores, that among the validation rows alone, which
    /// corresponds to the test score, and that among training rows too, which is steadier if rows are few. Not a number if no row
    /// has another of its class. Waits once for all of them.
    async fn score_maps(&mut self, maps: &[(&LinearMap, LinearOutputs)]) -> Result<Vec<f64>> {
        let watched = &self.setup.watched;
        let (most, seed) = (self.config.evaluate_queries, self.config.data_seed());
        let alone = rows::choose(watched.len(), most, seed);
        let searched = self.rows_and_queries(Side::Validation);
        let mut among = vec![(watched.clone(), alone)];
        if searched != among[0] {
            among.push(searched);
        }
        let (engine, mut pace) = (self.engine.clone(), self.evaluation_pace);
        let mut slices = Slices::new(&engine, &mut pace);
        let mut scored = Vec::with_capacity(maps.len());
        for (map, outputs) in maps {
            // Commands recorded before are of other weights.
            slices.submit();
            self.set_linear(&map.cut(*outputs)).await?;
            let what = format!("{}, {outputs}", Encoder::Linear.scoring(Side::Validation));
            let mut rankings = Vec::with_capacity(among.len());
            for (rows, queries) in &among {
                let (sum, unheard) = (RetrievalSum::default(), &mut |_, _| {});
                let ranking = self.rank(
                    &mut slices,
                    &what,
                    Encoder::Linear,
                    rows,
                    queries,
                    sum,
                    unheard,
                );
                rankings.push(ranking.await?);
            }
            scored.push(rankings);
        }
        slices.collect().await?;
        let mean = |rankings: Vec<Option<Ranking>>| {
            let scores = rankings.into_iter().flatten().filter_map(|ranking| {
                let retrieval = ranking.sum(&mut slices).finish(&|_| String::new())?;
                Some(retrieval.metrics.mean_average_precision_at_r)
            });
            let found: Vec<f64> = scores.collect();
            found.iter().sum::<f64>() / found.len() as f64
        };
        let scores = scored.into_iter().map(mean).collect();
        self.evaluation_pace = pace;
        Ok(scores)
    }

    /// Uploads a layer as the linear map. Outputs beyond its own are zeros, which change no cosine.
    async fn set_linear(&mut self, layer: &LayerWeights) -> Result<()> {
        let Ok(linear) = &mut self.linear else {
            return Ok(());
        };
        let mut layer = layer.clone();
        layer.resize(linear.model.embedding_size());
        linear.model.set_weights(&self.engine, &[layer]).await
    }

    /// Initializes a head without hidden layers, or the skip of one with them, with the linear map, as it is scored: outputs beyond
    /// its own start at zero, which changes no cosine, and are learned from there. Beside a skip the last layer's weights start at
    /// zero, as the last ones of a residual branch do (Goyal et al. 2017): the first step sees the linear map alone.
    ///
    /// # Errors
    /// [`Error::Config`] if there is no such map, and as [`Trainer::evaluate`].
    pub(super) async fn start_from_linear(&mut self) -> Result<()> {
        self.fit_linear().await?;
        if let Some(unfit) = self.no_linear() {
            return Err(Error::Config(no_start(unfit)));
        }
        let mut head = self.weights().await?;
        if let Some(fit) = self.linear.as_ref().ok().and_then(Linear::fitted) {
            let last = head.last_mut().expect("a head has a layer");
            let mut map = fit.layer.clone();
            map.resize(last.shape[0]);
            last.bias = map.bias;
            match &mut last.skip {
                Some(skip) => {
                    *skip = map.weight;
                    last.weight.fill(0.0);
                }
                None => last.weight = map.weight,
            }
        }
        self.set_weights(&head).await
    }
}

/// Refusal of a start from a linear map that there is not.
pub(super) fn no_start(unfit: &Unfit) -> String {
    format!("initial_weights is lda, and there is no such linear map: {unfit}. Set it to random.")
}
