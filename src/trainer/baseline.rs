//! What a head is compared with: the features of a side as the head sees them, and a linear map of no more outputs fitted
//! to the training rows, both ranked by the evaluator as its embeddings are.

use serde::{Deserialize, Serialize};

use super::Trainer;
use super::score::Map;
use crate::checkpoint::{ArrayReader, ArrayWriter, damaged};
use crate::dataset::Side;
use crate::engine::{Engine, Workspace};
use crate::error::{Error, Result};
use crate::evaluation;
use crate::linear::{LinearMap, LinearOutputs, Unfit};
use crate::metrics::Metrics;
use crate::model::{Activations, EmbeddingModel, LayerWeights, Tile};
use crate::plan::MemoryPlan;
use crate::unit_rows::TILE_ROWS;

const PARAMETERS: &str = "linear.parameters";
const TILE: [&str; 2] = ["linear.batch", "linear.rows"];

/// The place of the linear map on the engine: a model of one layer.
#[derive(Debug)]
pub(super) struct Linear {
    pub(super) model: EmbeddingModel,
    pub(super) tile: Tile,
    /// Nothing before the fit.
    fit: Option<Result<Fit, Unfit>>,
}

/// What came of the fit, as a checkpoint says it; the layer itself is among its arrays.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Fitted {
    /// It was not tried yet, or there can be none.
    Not,
    /// There is none, as rows of a class vary in too few directions.
    Singular,
    /// There is one, and so many of its directions do best. Zeros follow among the arrays.
    Cut(usize),
    /// So many do best with a constant after them.
    BesideConstant(usize),
}

/// The arrays of a checkpoint.
const SAVED: [&str; 2] = ["linear.weight", "linear.bias"];

/// What of a linear map does best on the validation rows, as a layer.
#[derive(Debug)]
struct Fit {
    layer: LayerWeights,
    outputs: LinearOutputs,
}

impl Linear {
    pub(super) fn plan(plan: MemoryPlan, dim: usize, outputs: usize) -> MemoryPlan {
        let widths = [dim, outputs];
        let plan = EmbeddingModel::plan(plan, PARAMETERS, &widths);
        Activations::plan(plan, &TILE, &widths, TILE_ROWS)
    }

    pub(super) fn new(
        engine: &Engine,
        workspace: &mut Workspace,
        dim: usize,
        outputs: usize,
    ) -> Self {
        let widths = [dim, outputs];
        Self {
            model: EmbeddingModel::zeroed(engine, workspace, PARAMETERS, &widths),
            tile: Tile::new(workspace, &TILE, &widths),
            fit: None,
        }
    }

    /// What came of the fit.
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
        let what = Map::Raw.scoring(side);
        self.score_queries(&what, Map::Raw, &rows, &queries).await
    }

    /// Scores a side through the linear map, with the queries of [`Trainer::score_raw`]; fits it the first time. Nothing
    /// where there is no such map: [`Trainer::no_linear`] says why.
    ///
    /// # Errors
    /// As [`Trainer::evaluate`], and what reading the features gives.
    pub async fn score_linear(&mut self, side: Side) -> Result<Option<Metrics>> {
        self.fit_linear().await?;
        if self.no_linear().is_some() {
            return Ok(None);
        }
        let (rows, queries) = self.rows_and_queries(side);
        let what = Map::Linear.scoring(side);
        self.score_queries(&what, Map::Linear, &rows, &queries)
            .await
    }

    /// Why there is no linear baseline, as far as is known: a fit may yet fail.
    pub fn no_linear(&self) -> Option<&Unfit> {
        match &self.linear {
            Ok(linear) => linear.fit.as_ref()?.as_ref().err(),
            Err(unfit) => Some(unfit),
        }
    }

    /// The linear baseline for rows as they are in the file, as a head of one layer; nothing before it was scored, or
    /// where there is none.
    pub fn linear_head(&self) -> Option<LayerWeights> {
        let fit = self.linear.as_ref().ok()?.fitted()?;
        let mut layer = fit.layer.clone();
        layer.fold(self.scaling().0);
        Some(layer)
    }

    /// Outputs of the linear baseline; nothing before it was scored, or where there is none.
    pub fn linear_outputs(&self) -> Option<LinearOutputs> {
        Some(self.linear.as_ref().ok()?.fitted()?.outputs)
    }

    fn rows_and_queries(&self, side: Side) -> (Vec<u32>, Vec<u32>) {
        let rows = match side {
            Side::Validation => self.setup.watched.clone(),
            side => self.setup.sides.of(side).to_vec(),
        };
        let (most, seed) = (self.config.evaluate_queries, self.config.data_seed());
        let queries = evaluation::choose(rows.len(), most, seed);
        (rows, queries)
    }

    /// Fits the linear map, and keeps those outputs that find most of the validation rows' nearest.
    pub(super) async fn fit_linear(&mut self) -> Result<()> {
        let Ok(Linear { fit: None, .. }) = &self.linear else {
            return Ok(());
        };
        let (train, scaling) = (&self.setup.sides.train, &self.scaling.scaling);
        let most = self.config.embedding_size;
        let map = LinearMap::fit(&self.engine, &self.dataset, scaling, train, most).await?;
        let fit = match map {
            Ok(map) => {
                let outputs = self.best_outputs(&map).await?;
                let layer = map.cut(outputs);
                self.set_linear(&layer).await?;
                Ok(Fit { layer, outputs })
            }
            Err(unfit) => Err(unfit),
        };
        if let Ok(linear) = &mut self.linear {
            linear.fit = Some(fit);
        }
        Ok(())
    }

    /// Saves the linear map, so that no run is fitted twice.
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
        Ok(match outputs.constant {
            true => Fitted::BesideConstant(outputs.directions),
            false => Fitted::Cut(outputs.directions),
        })
    }

    /// Takes back what was saved.
    pub(super) async fn restore_linear(
        &mut self,
        fitted: Fitted,
        arrays: &ArrayReader<'_>,
    ) -> Result<()> {
        // Without room for the map there is none, whatever there was elsewhere.
        let Ok(linear) = &mut self.linear else {
            return Ok(());
        };
        let [most, inputs] = [linear.model.embedding_size(), linear.model.input_size()];
        let (directions, constant) = match fitted {
            Fitted::Not => return Ok(()),
            Fitted::Singular => {
                linear.fit = Some(Err(Unfit::Singular));
                return Ok(());
            }
            Fitted::Cut(directions) => (directions, false),
            Fitted::BesideConstant(directions) => (directions, true),
        };
        let outputs = LinearOutputs {
            directions,
            constant,
        };
        if !(1..=most - usize::from(constant)).contains(&directions) {
            return Err(damaged(format_args!("its linear map has no {outputs}")));
        }
        let mut layer = LayerWeights {
            index: 0,
            shape: [most, inputs],
            weight: arrays.exactly(SAVED[0], most * inputs)?,
            bias: arrays.exactly(SAVED[1], most)?,
        };
        layer.resize(outputs.count());
        self.set_linear(&layer).await?;
        if let Ok(linear) = &mut self.linear {
            linear.fit = Some(Ok(Fit { layer, outputs }));
        }
        Ok(())
    }

    /// The outputs of the best precision@1 on the validation rows; of equal ones those of the best MAP@R, then the most, then those
    /// without a constant.
    async fn best_outputs(&mut self, map: &LinearMap) -> Result<LinearOutputs> {
        let (directions, limit) = (map.layer().shape[0], self.config.embedding_size);
        let (rows, queries) = self.rows_and_queries(Side::Validation);
        let (mut best, mut most) = (LinearMap::unchosen(directions, limit), (-1.0, -1.0));
        for outputs in LinearMap::cuts(directions, limit) {
            self.set_linear(&map.cut(outputs)).await?;
            let what = format!("{}, {outputs}", Map::Linear.scoring(Side::Validation));
            let scored = self.score_queries(&what, Map::Linear, &rows, &queries);
            let Some(score) = scored.await? else {
                continue;
            };
            let score = (score.precision_at_1, score.mean_average_precision_at_r);
            if score >= most {
                (best, most) = (outputs, score);
            }
        }
        Ok(best)
    }

    /// Puts a layer on the engine. Further outputs are zeros, which change no cosine.
    async fn set_linear(&mut self, layer: &LayerWeights) -> Result<()> {
        let Ok(linear) = &mut self.linear else {
            return Ok(());
        };
        let mut layer = layer.clone();
        layer.resize(linear.model.embedding_size());
        linear.model.set_weights(&self.engine, &[layer]).await
    }

    /// Starts a head without hidden layers at the linear map, as it is scored: outputs beyond its own start at zero, which changes
    /// no cosine, and learn from there.
    ///
    /// # Errors
    /// [`Error::Config`] where there is no such map, and as [`Trainer::evaluate`].
    pub(super) async fn start_from_linear(&mut self) -> Result<()> {
        self.fit_linear().await?;
        if let Some(unfit) = self.no_linear() {
            return Err(Error::Config(format!(
                "initial_weights is lda, and there is no such linear map: {unfit}. Set it to random."
            )));
        }
        let mut head = self.weights().await?;
        if let Some(fit) = self.linear.as_ref().ok().and_then(Linear::fitted) {
            let outputs = head[0].shape[0];
            head[0] = fit.layer.clone();
            head[0].resize(outputs);
        }
        self.set_weights(&head).await
    }
}
