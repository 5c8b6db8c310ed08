//! [`UnitRows`]: rows on their way to an engine, over their length, a tile at a time: as they are stored, or through a
//! model. What searches and evaluations read from, however large it is.

use crate::base::error::Result;
#[cfg(not(target_arch = "wasm32"))]
use crate::cpu;
use crate::data::{Dataset, RowSource, check_squares};
use crate::engine::gpu::STAGING_BYTES;
use crate::engine::pace::{Pace, Slices};
use crate::engine::{DeviceVec, Engine};
use crate::kernels::{normalize, stride};
use crate::model::embedding_model::{EmbeddingModel, Tile};
use crate::model::features::{FeatureStore, pad};

/// Rows that go through a head at once, at most.
pub(crate) const TILE_ROWS: usize = 256;

/// What sending a value and dividing it by the length of its row counts for.
const OPERATIONS_PER_VALUE: f64 = 32.0;

/// Where rows come from.
#[derive(Debug)]
pub(crate) enum UnitRows<'a> {
    /// As they are stored.
    Stored {
        /// All that are stored.
        rows: &'a RowSource,
        /// Those that are meant, in order; all where it is `None`.
        chosen: Option<&'a [u32]>,
    },
    /// As a head sees them, scaled, and through the head.
    Embedded {
        /// The features of all.
        features: &'a mut FeatureStore,
        /// What the features are of.
        dataset: &'a Dataset,
        /// The head; the scaled features themselves where there is none.
        model: Option<&'a EmbeddingModel>,
        /// Room for its rows.
        tile: &'a mut Tile,
        /// Those that are meant, in order.
        chosen: &'a [u32],
    },
}

/// Bytes of rows that several cores bring at once, straight to where they stay.
#[cfg(not(target_arch = "wasm32"))]
const SHARED_BYTES: u64 = 8 << 20;

/// Stored rows of a tile: what one submit carries, or what is worth sharing.
fn stored_tile(to: &DeviceVec<f32>, stride: usize) -> usize {
    let bytes = match to {
        #[cfg(not(target_arch = "wasm32"))]
        DeviceVec::Cpu(_) => SHARED_BYTES,
        _ => STAGING_BYTES,
    };
    (bytes as usize / size_of::<f32>() / stride.max(1)).max(1)
}

impl UnitRows<'_> {
    /// How many rows.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Stored { rows, chosen: None } => rows.rows(),
            Self::Stored { chosen, .. } => chosen.map_or(0, <[u32]>::len),
            Self::Embedded { chosen, .. } => chosen.len(),
        }
    }

    /// Columns of a row.
    pub(crate) fn dim(&self) -> usize {
        match self {
            Self::Stored { rows, .. } => rows.dim(),
            Self::Embedded {
                model, features, ..
            } => model.map_or(features.dim(), EmbeddingModel::embedding_size),
        }
    }

    /// What bringing a row counts for.
    pub(crate) fn operations(&self) -> f64 {
        let forward = match self {
            Self::Embedded {
                model: Some(model), ..
            } => 2.0 * model.parameter_count() as f64,
            _ => 0.0,
        };
        forward + OPERATIONS_PER_VALUE * stride(self.dim()) as f64
    }

    /// Puts these rows, by their place among those that are meant, over their length into `to` from row `at` on.
    ///
    /// # Errors
    /// What reading a file says; [`crate::Error::Device`], and [`crate::Error::Stopped`] between slices.
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

    /// The same as a part of other work, in its order.
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

    /// The same: one function for all kinds of iterators, as it is long.
    async fn bring_each(
        &mut self,
        slices: &mut Slices<'_>,
        places: &mut dyn Iterator<Item = u32>,
        to: &mut DeviceVec<f32>,
        mut at: usize,
    ) -> Result<()> {
        let mut places = places.peekable();
        let (dim, mut numbers, mut dense) = (self.dim(), Vec::new(), Vec::new());
        let stride = stride(dim);
        while places.peek().is_some() {
            numbers.clear();
            let at_once = match self {
                Self::Stored { .. } => stored_tile(to, stride),
                Self::Embedded { .. } => TILE_ROWS,
            };
            numbers.extend(places.by_ref().take(at_once));
            let count = numbers.len();
            let operations = count as f64 * self.operations();
            match self {
                Self::Stored { rows, chosen } => {
                    if let Some(chosen) = chosen {
                        for number in &mut numbers {
                            *number = chosen[*number as usize];
                        }
                    }
                    slices.leave_untimed();
                    match to {
                        #[cfg(not(target_arch = "wasm32"))]
                        DeviceVec::Cpu(to) => {
                            let to = &mut to.as_mut_slice()[at * stride..][..count * stride];
                            let normalize =
                                |rows: &mut [f32]| cpu::normalize::in_place(rows, stride);
                            rows.read_to(&numbers, stride, to, normalize)?;
                            slices.commands().count();
                        }
                        _ => {
                            dense.clear();
                            rows.read(&numbers, &mut dense).await?;
                            check_squares(&numbers, &dense, dim)?;
                            // Straight to where they stay.
                            let first = (at * stride) as u64;
                            if dim == stride {
                                slices.upload(to, first, &dense).await?;
                            } else {
                                slices.upload(to, first, &pad(&dense, dim)).await?;
                            }
                            normalize::in_place(slices.commands(), count, stride, at, to);
                        }
                    }
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
                    features.stage(slices, dataset, &numbers).await?;
                    let commands = slices.commands();
                    features.gather(commands, 0, count, tile.input_mut());
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
