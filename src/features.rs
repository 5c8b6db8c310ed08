//! [`FeatureStore`]: the features on the engine, all of them where they fit, else only the rows that come next; scaled on
//! their way to a batch.

use crate::dataset::{Dataset, check_squares};
use crate::engine::{Commands, DeviceVec, Engine, Workspace};
use crate::error::Result;
use crate::kernels::{gather, stride};
use crate::ledger::Purpose;
use crate::plan::MemoryPlan;
use crate::scaling::Scaling;

const ROWS: &str = "features.rows";
const NUMBERS: &str = "features.numbers";
const SCALING: &str = "features.scaling";

/// Where batches and tiles of features come from. Which of the two ways it is changes no result.
#[derive(Debug)]
pub(crate) struct FeatureStore {
    rows: DeviceVec<f32>,
    numbers: DeviceVec<u32>,
    /// `[2, stride]`: what is taken off each feature, and what it is then multiplied by.
    scaling: DeviceVec<f32>,
    dim: usize,
    stride: usize,
    resident: bool,
}

impl FeatureStore {
    /// Adds the store to a plan: `resident` rows for all of them, or 0; `staged` rows are asked for at most at once.
    pub(crate) fn plan(plan: MemoryPlan, resident: usize, staged: usize, dim: usize) -> MemoryPlan {
        let rows = if resident > 0 { resident } else { staged };
        plan.with::<f32>(Purpose::Dataset, ROWS, rows as u64 * stride(dim) as u64)
            .with::<u32>(Purpose::Staging, NUMBERS, staged as u64)
            .with::<f32>(Purpose::Dataset, SCALING, 2 * stride(dim) as u64)
    }

    /// Takes the store from the workspace and uploads the features where all are to stay.
    ///
    /// # Errors
    /// As [`Engine::upload`].
    pub(crate) async fn new(
        engine: &Engine,
        workspace: &mut Workspace,
        dataset: &Dataset,
        scaling: &Scaling,
        resident: bool,
    ) -> Result<Self> {
        let mut store = Self {
            rows: workspace.take(ROWS),
            numbers: workspace.take(NUMBERS),
            scaling: workspace.take(SCALING),
            dim: dataset.features.dim(),
            stride: stride(dataset.features.dim()),
            resident,
        };
        let dim = dataset.features.dim();
        let rows = [&scaling.shift, &scaling.scale].map(|row| pad(row, dim));
        engine.upload(&mut store.scaling, 0, &rows.concat()).await?;
        if resident {
            for first in (0..dataset.rows()).step_by(UPLOAD_ROWS) {
                let rows: Vec<u32> = (first as u32..)
                    .take(UPLOAD_ROWS.min(dataset.rows() - first))
                    .collect();
                store.upload(engine, dataset, first, &rows).await?;
            }
        }
        Ok(store)
    }

    /// Makes these rows the ones that [`FeatureStore::gather`] counts through, in this submit and after.
    ///
    /// # Errors
    /// As [`Engine::upload`].
    pub(crate) async fn stage(
        &mut self,
        engine: &Engine,
        commands: &mut Commands,
        dataset: &Dataset,
        rows: &[u32],
    ) -> Result<()> {
        if self.resident {
            commands.upload(&mut self.numbers, 0, rows);
            return Ok(());
        }
        for (chunk, rows) in rows.chunks(UPLOAD_ROWS).enumerate() {
            self.upload(engine, dataset, chunk * UPLOAD_ROWS, rows)
                .await?;
        }
        let places: Vec<u32> = (0..rows.len() as u32).collect();
        commands.upload(&mut self.numbers, 0, &places);
        Ok(())
    }

    /// Columns of a row.
    pub(crate) fn dim(&self) -> usize {
        self.dim
    }

    /// Copies `count` of the staged rows, from `first` on, scaled, to a batch.
    pub(crate) fn gather(
        &self,
        commands: &mut Commands,
        first: usize,
        count: usize,
        batch: &mut DeviceVec<f32>,
    ) {
        gather::gather_scaled(
            commands,
            &self.rows,
            &self.numbers,
            &self.scaling,
            first,
            count,
            self.stride,
            batch,
        );
    }

    async fn upload(
        &mut self,
        engine: &Engine,
        dataset: &Dataset,
        first: usize,
        rows: &[u32],
    ) -> Result<()> {
        let dim = dataset.features.dim();
        let mut dense = Vec::with_capacity(rows.len() * dim);
        dataset.features.read(rows, &mut dense).await?;
        check_squares(rows, &dense, dim)?;
        let padded = pad(&dense, dim);
        engine
            .upload(&mut self.rows, (first * self.stride) as u64, &padded)
            .await
    }
}

/// Rows that are padded at once on the host.
const UPLOAD_ROWS: usize = 1024;

/// Dense rows `[_, dim]` as `[_, stride(dim)]`.
pub(crate) fn pad(dense: &[f32], dim: usize) -> Vec<f32> {
    let stride = stride(dim);
    let mut padded = vec![0.0; dense.len() / dim * stride];
    for (to, row) in padded.chunks_exact_mut(stride).zip(dense.chunks_exact(dim)) {
        to[..dim].copy_from_slice(row);
    }
    padded
}
