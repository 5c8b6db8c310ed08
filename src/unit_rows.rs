//! [`UnitRows`]: rows on their way to an engine, over their length, a tile at a time: as they are stored, or through a
//! model. What searches and evaluations read from, however large it is.

use crate::dataset::{Dataset, RowSource, check_squares};
use crate::engine::{DeviceVec, Engine, Workspace};
use crate::error::Result;
use crate::features::{FeatureStore, pad};
use crate::kernels::{normalize, stride};
use crate::ledger::Purpose;
use crate::model::{Activations, EmbeddingModel};
use crate::pace::{Pace, Slices};
use crate::plan::MemoryPlan;

/// Rows of a tile at most.
pub(crate) const TILE_ROWS: usize = 256;

const INCOMING: &str = "incoming.rows";

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
        /// Its activations, with room for a tile.
        tile: &'a mut Activations,
        /// Those that are meant, in order.
        chosen: &'a [u32],
    },
}

/// The buffer through which stored rows come in.
#[derive(Debug)]
pub(crate) struct Intake(DeviceVec<f32>);

impl Intake {
    /// Adds the buffer to a plan.
    pub(crate) fn plan(plan: MemoryPlan, dim: usize) -> MemoryPlan {
        let floats = TILE_ROWS as u64 * stride(dim) as u64;
        plan.with::<f32>(Purpose::Staging, INCOMING, floats)
    }

    /// Takes the buffer from the workspace.
    pub(crate) fn new(workspace: &mut Workspace) -> Self {
        Self(workspace.take(INCOMING))
    }
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
        intake: &mut Intake,
        places: impl Iterator<Item = u32>,
        to: &mut DeviceVec<f32>,
        at: usize,
    ) -> Result<()> {
        let mut pace = Pace::of(engine);
        let mut slices = Slices::new(engine, &mut pace);
        self.bring_among(&mut slices, intake, places, to, at)
            .await?;
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
        intake: &mut Intake,
        places: impl Iterator<Item = u32>,
        to: &mut DeviceVec<f32>,
        mut at: usize,
    ) -> Result<()> {
        let mut places = places.peekable();
        let (dim, mut numbers, mut dense) = (self.dim(), Vec::new(), Vec::new());
        let stride = stride(dim);
        while places.peek().is_some() {
            numbers.clear();
            numbers.extend(places.by_ref().take(TILE_ROWS));
            let count = numbers.len();
            let operations = count as f64 * self.operations();
            match self {
                Self::Stored { rows, chosen } => {
                    if let Some(chosen) = chosen {
                        for number in &mut numbers {
                            *number = chosen[*number as usize];
                        }
                    }
                    dense.clear();
                    rows.read(&numbers, &mut dense).await?;
                    check_squares(&numbers, &dense, dim)?;
                    slices.leave_untimed();
                    if dim == stride {
                        slices.upload(&mut intake.0, 0, &dense).await?;
                    } else {
                        slices.upload(&mut intake.0, 0, &pad(&dense, dim)).await?;
                    }
                    let commands = slices.commands();
                    normalize::normalize(commands, count, stride, &intake.0, at, to);
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
                            model.forward(commands, count, tile);
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
