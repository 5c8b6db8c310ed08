//! [`UnitRows`]: source of rows for searches and evaluations, of any size: stored rows or rows through a head, brought to an engine
//! at unit length or as they are, a tile at a time.

use crate::base::error::Result;
#[cfg(not(target_arch = "wasm32"))]
use crate::cpu;
use crate::data::{Dataset, RowSource, check_squares};
use crate::engine::pace::{Pace, Slices};
use crate::engine::{DeviceVec, Engine};
use crate::kernels::{normalize, stride};
use crate::model::activations::Tile;
use crate::model::embedding_model::EmbeddingModel;
use crate::model::features::{FeatureStore, spread};
use crate::model::metric::Form;

/// The most rows that go through a head at once.
pub(crate) const TILE_ROWS: usize = 256;

/// Operations per value that are accounted for the upload and the normalization of a row.
const OPERATIONS_PER_VALUE: f64 = 32.0;

/// Source of rows.
#[derive(Debug)]
pub(crate) enum UnitRows<'a> {
    /// Stored rows.
    Stored {
        /// All stored rows.
        rows: &'a RowSource,
        /// The chosen rows, in order; `None` for all.
        chosen: Option<&'a [u32]>,
        /// Their layout.
        form: Form,
    },
    /// Scaled features, through a head if there is one.
    Embedded {
        /// Features of all rows.
        features: &'a mut FeatureStore,
        /// Dataset that the features are of.
        dataset: &'a Dataset,
        /// The head; `None` for the scaled features themselves.
        model: Option<&'a EmbeddingModel>,
        /// Buffers of the head's forward pass.
        tile: &'a mut Tile,
        /// The chosen rows, in order.
        chosen: &'a [u32],
    },
}

/// Bytes of rows that several cores read at once, directly into their destination.
#[cfg(not(target_arch = "wasm32"))]
const SHARED_BYTES: u64 = 8 << 20;

/// Stored rows of a tile: as many as are sent at once, or as pay for sharing among cores.
fn stored_tile(engine: &Engine, to: &DeviceVec<f32>, stride: usize) -> usize {
    let bytes = match to {
        #[cfg(not(target_arch = "wasm32"))]
        DeviceVec::Cpu(_) => SHARED_BYTES,
        _ => engine.piece_bytes(),
    };
    (bytes as usize / size_of::<f32>() / stride.max(1)).max(1)
}

/// Brings these stored rows to a vector, from row `at` on; `dense` is room for them.
async fn bring_stored(
    slices: &mut Slices<'_>,
    rows: &RowSource,
    form: Form,
    numbers: &[u32],
    dense: &mut Vec<f32>,
    to: &mut DeviceVec<f32>,
    at: usize,
) -> Result<()> {
    let (dim, count) = (rows.dim(), numbers.len());
    let stride = stride(form.columns(dim));
    slices.leave_untimed();
    match to {
        #[cfg(not(target_arch = "wasm32"))]
        DeviceVec::Cpu(to) => {
            let to = &mut to.as_mut_slice()[at * stride..][..count * stride];
            let bring = |rows: &mut [f32]| match form {
                Form::Unit => cpu::normalize::in_place(rows, stride),
                _ => form.complete(rows, dim, stride),
            };
            rows.read_to(numbers, stride, to, bring)?;
            slices.commands().count();
        }
        _ => {
            dense.clear();
            rows.read(numbers, dense).await?;
            check_squares(numbers, dense, dim)?;
            // Uploaded directly to their destination.
            let first = (at * stride) as u64;
            if dim == stride {
                slices.upload(to, first, dense).await?;
            } else {
                let mut padded = spread(dense, dim, stride);
                form.complete(&mut padded, dim, stride);
                slices.upload(to, first, &padded).await?;
            }
            if form == Form::Unit {
                normalize::in_place(slices.commands(), count, stride, at, to);
            }
        }
    }
    Ok(())
}

impl UnitRows<'_> {
    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Stored {
                rows, chosen: None, ..
            } => rows.rows(),
            Self::Stored { chosen, .. } => chosen.map_or(0, <[u32]>::len),
            Self::Embedded { chosen, .. } => chosen.len(),
        }
    }

    /// Columns of a row.
    pub(crate) fn dim(&self) -> usize {
        match self {
            Self::Stored { rows, form, .. } => form.columns(rows.dim()),
            Self::Embedded {
                model, features, ..
            } => model.map_or(features.dim(), EmbeddingModel::embedding_size),
        }
    }

    /// Operations that are accounted for one row.
    pub(crate) fn operations(&self) -> f64 {
        let forward = match self {
            Self::Embedded {
                model: Some(model), ..
            } => 2.0 * model.parameter_count() as f64,
            _ => 0.0,
        };
        forward + OPERATIONS_PER_VALUE * stride(self.dim()) as f64
    }

    /// Writes these rows, numbered within the chosen ones, into `to` from row `at` on: at unit length, unless stored ones have another
    /// layout.
    ///
    /// # Errors
    /// Errors of reading a file; [`crate::Error::Device`], and [`crate::Error::Stopped`] between slices.
    pub(crate) async fn bring(
        &mut self,
        engine: &Engine,
        places: impl Iterator<Item = u32>,
        to: &mut DeviceVec<f32>,
        at: usize,
    ) -> Result<()> {
        let mut pace = Pace::of(engine);
        let mut slices = Slices::new(engine, &mut pace);
        self.bring_among(&mut slices, places, to, at).await?;
        slices.submit();
        Ok(())
    }

    /// Writes rows as [`UnitRows::bring`] does, as a part of other work and in its order.
    ///
    /// # Errors
    /// As [`UnitRows::bring`].
    pub(crate) async fn bring_among(
        &mut self,
        slices: &mut Slices<'_>,
        mut places: impl Iterator<Item = u32>,
        to: &mut DeviceVec<f32>,
        at: usize,
    ) -> Result<()> {
        self.bring_each(slices, &mut places, to, at).await
    }

    /// Body of [`UnitRows::bring_among`]: compiled once for all iterators, as it is long.
    async fn bring_each(
        &mut self,
        slices: &mut Slices<'_>,
        places: &mut dyn Iterator<Item = u32>,
        to: &mut DeviceVec<f32>,
        mut at: usize,
    ) -> Result<()> {
        let mut places = places.peekable();
        let (mut numbers, mut dense) = (Vec::new(), Vec::new());
        let stride = stride(self.dim());
        while places.peek().is_some() {
            numbers.clear();
            let at_once = match self {
                Self::Stored { .. } => stored_tile(slices.engine(), to, stride),
                Self::Embedded { .. } => TILE_ROWS,
            };
            numbers.extend(places.by_ref().take(at_once));
            let count = numbers.len();
            let operations = count as f64 * self.operations();
            match self {
                Self::Stored { rows, chosen, form } => {
                    if let Some(chosen) = chosen {
                        for number in &mut numbers {
                            *number = chosen[*number as usize];
                        }
                    }
                    bring_stored(slices, rows, *form, &numbers, &mut dense, to, at).await?;
                }
                Self::Embedded {
                    features,
                    dataset,
                    model,
                    tile,
                    chosen,
                } => {
                    for number in &mut numbers {
                        *number = chosen[*number as usize];
                    }
                    let input = tile.input_mut();
                    features
                        .bring_tile(slices, dataset, &numbers, input)
                        .await?;
                    let commands = slices.commands();
                    let rows = match model {
                        Some(model) => {
                            model.embed(commands, count, tile);
                            tile.output()
                        }
                        None => tile.input_mut(),
                    };
                    normalize::normalize(commands, count, stride, rows, at, to);
                }
            }
            slices.recorded(operations).await?;
            at += count;
        }
        Ok(())
    }
}
