//! [`FeatureStore`]: the features on the engine, scaled on their way there: all of them if they fit, else only the rows that come
//! next.

use crate::base::error::{Error, Result};
use crate::base::ledger::Purpose;
use crate::base::plan::MemoryPlan;
use crate::data::{Dataset, check_squares};
use crate::engine::pace::{Pace, Slices};
use crate::engine::{Commands, DeviceVec, Engine, Workspace};
use crate::kernels::gemm::Input;
use crate::kernels::stored::{Precision, StoredRows, pack};
use crate::kernels::{gather, stride};
use crate::model::scaling::Scaling;

pub(crate) const ROWS: &str = "features.rows";
const NUMBERS: &str = "features.numbers";
pub(crate) const BATCH: &str = "features.batch";

/// Source of batches and tiles of features. Results do not depend on whether all features are resident.
#[derive(Debug)]
pub(crate) struct FeatureStore {
    rows: StoredRows,
    numbers: DeviceVec<u32>,
    /// The rows that go through the head next, as floats, if they are stored in half precision.
    floats: Option<DeviceVec<f32>>,
    scaling: Scaling,
    dim: usize,
    stride: usize,
    resident: bool,
    /// Tiles take features as they are before they are stored.
    pub(crate) unrounded: bool,
}

impl FeatureStore {
    /// Adds the store to a plan: `resident` is the number of all rows, or 0 if they are streamed; `staged` is the most rows of one
    /// request, and `at_once` of those that go through the head at once.
    pub(crate) fn plan(
        plan: MemoryPlan,
        precision: Precision,
        resident: usize,
        [staged, at_once]: [usize; 2],
        dim: usize,
    ) -> MemoryPlan {
        let rows = if resident > 0 { resident } else { staged };
        let floats = |rows: usize| rows as u64 * stride(dim) as u64;
        let plan = match precision {
            Precision::F32 => plan.with::<f32>(Purpose::Dataset, ROWS, floats(rows)),
            Precision::F16 => plan
                .with::<u32>(Purpose::Dataset, ROWS, floats(rows) / 2)
                .with::<f32>(Purpose::Activations, BATCH, floats(at_once)),
        };
        plan.with::<u32>(Purpose::Staging, NUMBERS, staged as u64)
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
        precision: Precision,
        resident: bool,
    ) -> Result<Self> {
        let mut store = Self {
            rows: StoredRows::take(workspace, precision, ROWS),
            numbers: workspace.take(NUMBERS),
            floats: (precision == Precision::F16).then(|| workspace.take(BATCH)),
            scaling: scaling.clone(),
            dim: dataset.features.dim(),
            stride: stride(dataset.features.dim()),
            resident,
            unrounded: false,
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

    /// Makes `count` staged rows from `first` on those of [`FeatureStore::batch`], where they are stored in half precision.
    pub(crate) fn bring(&mut self, commands: &mut Commands, first: usize, count: usize) {
        if let Some(floats) = &mut self.floats {
            let (rows, numbers) = (self.rows.read(), &self.numbers);
            gather::gather(commands, rows, numbers, first, count, self.stride, floats);
        }
    }

    /// The staged rows from `first` on, scaled, after [`FeatureStore::bring`].
    pub(crate) fn batch(&self, first: usize) -> Input<'_> {
        match &self.floats {
            Some(floats) => Input::from(floats),
            None => Input {
                values: self.rows.read(),
                chosen: Some((&self.numbers, first)),
            },
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
            self.rows.read(),
            &self.numbers,
            first,
            count,
            self.stride,
            batch,
        );
    }

    /// Brings these rows to a tile: from what is stored, or as they are before.
    ///
    /// # Errors
    /// As [`FeatureStore::stage`].
    pub(crate) async fn bring_tile(
        &mut self,
        slices: &mut Slices<'_>,
        dataset: &Dataset,
        rows: &[u32],
        tile: &mut DeviceVec<f32>,
    ) -> Result<()> {
        if self.unrounded {
            slices.leave_untimed();
            let padded = pad(&self.scaled(dataset, rows).await?, self.dim);
            return slices.upload(tile, 0, &padded).await;
        }
        self.stage(slices, dataset, rows).await?;
        self.gather(slices.commands(), 0, rows.len(), tile);
        Ok(())
    }

    /// These rows, scaled.
    async fn scaled(&self, dataset: &Dataset, rows: &[u32]) -> Result<Vec<f32>> {
        let mut dense = Vec::with_capacity(rows.len() * self.dim);
        dataset.features.read(rows, &mut dense).await?;
        check_squares(rows, &dense, self.dim)?;
        self.scaling.apply(&mut dense);
        Ok(dense)
    }

    async fn upload(
        &mut self,
        slices: &mut Slices<'_>,
        dataset: &Dataset,
        first: usize,
        rows: &[u32],
    ) -> Result<()> {
        let (dim, dense) = (self.dim, self.scaled(dataset, rows).await?);
        let (padded, first) = (pad(&dense, dim), (first * self.stride) as u64);
        match &mut self.rows {
            StoredRows::F32(stored) => slices.upload(stored, first, &padded).await,
            StoredRows::F16(stored) => {
                check_halves(rows, &dense, dim)?;
                let mut words = vec![0; padded.len() / 2];
                pack(&padded, &mut words);
                slices.upload(stored, first / 2, &words).await
            }
        }
    }
}

/// Checks that half precision holds these scaled rows.
fn check_halves(rows: &[u32], dense: &[f32], dim: usize) -> Result<()> {
    let most = Precision::LARGEST_F16;
    match dense.iter().position(|value| value.abs() > most) {
        None => Ok(()),
        Some(at) => Err(Error::Data(format!(
            "feature {} of row {} is {:e} as it is stored, and feature_precision f16 holds {most} at most: set feature_precision to \
             f32, or standardize to true",
            at % dim,
            rows[at / dim],
            dense[at]
        ))),
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
