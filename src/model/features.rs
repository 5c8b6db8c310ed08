//! [`FeatureStore`]: the features on the engine, scaled on their way there: all of them if they fit, else only the rows that come
//! next.

use crate::base::error::Result;
use crate::base::ledger::Purpose;
use crate::base::plan::MemoryPlan;
use crate::data::{Dataset, check_squares};
use crate::engine::pace::{Pace, Slices};
use crate::engine::{Commands, DeviceVec, Engine, Workspace};
use crate::kernels::gemm::Input;
use crate::kernels::{gather, stride};
use crate::model::scaling::Scaling;

const ROWS: &str = "features.rows";
const NUMBERS: &str = "features.numbers";

/// Source of batches and tiles of features. Results do not depend on whether all features are resident.
#[derive(Debug)]
pub(crate) struct FeatureStore {
    rows: DeviceVec<f32>,
    numbers: DeviceVec<u32>,
    scaling: Scaling,
    dim: usize,
    stride: usize,
    resident: bool,
}

impl FeatureStore {
    /// Adds the store to a plan: `resident` is the number of all rows, or 0 if they are streamed; `staged` is the most rows of one
    /// request.
    pub(crate) fn plan(plan: MemoryPlan, resident: usize, staged: usize, dim: usize) -> MemoryPlan {
        let rows = if resident > 0 { resident } else { staged };
        plan.with::<f32>(Purpose::Dataset, ROWS, rows as u64 * stride(dim) as u64)
            .with::<u32>(Purpose::Staging, NUMBERS, staged as u64)
    }

    /// Takes the store from the workspace; uploads all features if `resident`.
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
            scaling: scaling.clone(),
            dim: dataset.features.dim(),
            stride: stride(dataset.features.dim()),
            resident,
        };
        if resident {
            let mut pace = Pace::of(engine);
            let mut slices = Slices::new(engine, &mut pace);
            for first in (0..dataset.rows()).step_by(UPLOAD_ROWS) {
                let rows: Vec<u32> = (first as u32..)
                    .take(UPLOAD_ROWS.min(dataset.rows() - first))
                    .collect();
                store.upload(&mut slices, dataset, first, &rows).await?;
            }
            slices.submit();
        }
        Ok(store)
    }

    /// Makes these rows the ones that [`FeatureStore::batch`] and [`FeatureStore::gather`] index from here on.
    ///
    /// # Errors
    /// As [`Slices::upload`], and errors of reading the rows.
    pub(crate) async fn stage(
        &mut self,
        slices: &mut Slices<'_>,
        dataset: &Dataset,
        rows: &[u32],
    ) -> Result<()> {
        if self.resident {
            return slices.upload(&mut self.numbers, 0, rows).await;
        }
        slices.leave_untimed();
        for (chunk, rows) in rows.chunks(UPLOAD_ROWS).enumerate() {
            self.upload(slices, dataset, chunk * UPLOAD_ROWS, rows)
                .await?;
        }
        let places: Vec<u32> = (0..rows.len() as u32).collect();
        slices.upload(&mut self.numbers, 0, &places).await
    }

    /// All features are on the engine.
    pub(crate) fn is_resident(&self) -> bool {
        self.resident
    }

    /// Columns of a row.
    pub(crate) fn dim(&self) -> usize {
        self.dim
    }

    /// The staged rows from `first` on, scaled.
    pub(crate) fn batch(&self, first: usize) -> Input<'_> {
        Input {
            values: &self.rows,
            chosen: Some((&self.numbers, first)),
        }
    }

    /// Copies `count` staged rows from `first` on, scaled, to a batch.
    pub(crate) fn gather(
        &self,
        commands: &mut Commands,
        first: usize,
        count: usize,
        batch: &mut DeviceVec<f32>,
    ) {
        gather::gather(
            commands,
            &self.rows,
            &self.numbers,
            first,
            count,
            self.stride,
            batch,
        );
    }

    async fn upload(
        &mut self,
        slices: &mut Slices<'_>,
        dataset: &Dataset,
        first: usize,
        rows: &[u32],
    ) -> Result<()> {
        let dim = dataset.features.dim();
        let mut dense = Vec::with_capacity(rows.len() * dim);
        dataset.features.read(rows, &mut dense).await?;
        check_squares(rows, &dense, dim)?;
        self.scaling.apply(&mut dense);
        let padded = pad(&dense, dim);
        slices
            .upload(&mut self.rows, (first * self.stride) as u64, &padded)
            .await
    }
}

/// Rows that are padded at once on the host.
const UPLOAD_ROWS: usize = 1024;

/// Dense rows `[_, dim]` as `[_, stride(dim)]`.
pub(crate) fn pad(dense: &[f32], dim: usize) -> Vec<f32> {
    spread(dense, dim, stride(dim))
}

/// Dense rows of `dim` columns, `stride` apart, with zeros between.
pub(crate) fn spread(dense: &[f32], dim: usize, stride: usize) -> Vec<f32> {
    let mut padded = vec![0.0; dense.len() / dim * stride];
    for (to, row) in padded.chunks_exact_mut(stride).zip(dense.chunks_exact(dim)) {
        to[..dim].copy_from_slice(row);
    }
    padded
}
