//! What a head is compared with: the raw features of a side, and a linear map of no more outputs fitted to the training
//! rows, both ranked by the evaluator as its embeddings are.

use super::Trainer;
use super::score::Map;
use crate::dataset::Side;
use crate::engine::Workspace;
use crate::error::Result;
use crate::evaluation;
use crate::linear::{LinearMap, Unfit};
use crate::metrics::Metrics;
use crate::model::{Activations, EmbeddingModel};
use crate::plan::MemoryPlan;
use crate::unit_rows::TILE_ROWS;

const PARAMETERS: &str = "linear.parameters";
const TILE: [&str; 2] = ["linear.batch", "linear.rows"];

/// The place of the linear map on the engine: a model of one layer.
#[derive(Debug)]
pub(super) struct Linear {
    pub(super) model: EmbeddingModel,
    pub(super) tile: Activations,
    /// Nothing before the fit.
    fit: Option<Result<(), Unfit>>,
}

impl Linear {
    pub(super) fn plan(plan: MemoryPlan, dim: usize, directions: usize) -> MemoryPlan {
        let widths = [dim, directions];
        let plan = EmbeddingModel::plan(plan, PARAMETERS, &widths);
        Activations::plan(plan, &TILE, &widths, TILE_ROWS)
    }

    pub(super) fn new(workspace: &mut Workspace, dim: usize, directions: usize) -> Self {
        let widths = [dim, directions];
        Self {
            model: EmbeddingModel::zeroed(workspace, PARAMETERS, &widths),
            tile: Activations::new(workspace, &TILE, &widths),
            fit: None,
        }
    }
}

impl Trainer {
    /// Scores the raw features of a side, every row a query where `all`, else the seeded choice of an evaluation.
    ///
    /// # Errors
    /// As [`Trainer::evaluate`].
    pub async fn score_raw(&mut self, side: Side, all: bool) -> Result<Option<Metrics>> {
        let rows = self.setup.sides.of(side).to_vec();
        let queries = self.queries(rows.len(), all);
        self.score_queries(Map::Raw, &rows, &queries).await
    }

    /// Scores a side through the linear map, with the queries of [`Trainer::score_raw`]; fits it the first time. Nothing
    /// where there is no such map: [`Trainer::no_linear`] says why.
    ///
    /// # Errors
    /// As [`Trainer::evaluate`], and what reading the features gives.
    pub async fn score_linear(&mut self, side: Side, all: bool) -> Result<Option<Metrics>> {
        self.fit_linear().await?;
        if self.no_linear().is_some() {
            return Ok(None);
        }
        let rows = self.setup.sides.of(side).to_vec();
        let queries = self.queries(rows.len(), all);
        self.score_queries(Map::Linear, &rows, &queries).await
    }

    /// Why there is no linear baseline, as far as is known: a fit may yet fail.
    pub fn no_linear(&self) -> Option<&Unfit> {
        match &self.linear {
            Ok(linear) => linear.fit.as_ref()?.as_ref().err(),
            Err(unfit) => Some(unfit),
        }
    }

    fn queries(&self, rows: usize, all: bool) -> Vec<u32> {
        let most = if all { 0 } else { self.config.evaluate_queries };
        evaluation::choose(rows, most, self.config.seed)
    }

    async fn fit_linear(&mut self) -> Result<()> {
        let Ok(linear) = &mut self.linear else {
            return Ok(());
        };
        if linear.fit.is_none() {
            let train = &self.setup.sides.train;
            let most = self.config.embedding_size;
            let map = LinearMap::fit(&self.engine, &self.dataset, train, most).await?;
            if let Ok(map) = &map {
                let layers = std::slice::from_ref(map.layer());
                linear.model.set_weights(&self.engine, layers).await?;
            }
            linear.fit = Some(map.map(drop));
        }
        Ok(())
    }
}
