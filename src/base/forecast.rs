//! [`Forecast`]: memory, traffic and time of a search or an evaluation, before it starts.
//!
//! A forecast is a pure function of the sizes, the room and the rate. The room decides how the work is cut; the rate only changes
//! the predicted time. Neither changes a bit of the result.

use std::fmt::{Display, Formatter};

use serde::Serialize;

use crate::base::error::{Error, Result};
use crate::base::plan::MemoryPlan;

/// Speed of a device, roughly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Floating-point operations a millisecond.
    pub operations_per_ms: f64,
    /// Bytes that go to the device in a millisecond.
    pub bytes_per_ms: f64,
}

/// Method by which triplets are mined; it follows from miner and loss alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MiningMethod {
    /// By the ranks of the positives among all references: triplets are counted, none is looked at.
    #[default]
    Ranks,
    /// By rows of similarities: each anchor's positives and negatives are chosen, their triplets looked at one by one.
    Rows,
}

/// Prediction of a phase.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Forecast {
    /// Every buffer.
    pub memory: MemoryPlan,
    /// Queries that are looked at together.
    pub block_queries: u64,
    /// References that are on the device at once.
    pub chunk_rows: u64,
    /// All references are on the device at once.
    pub resident: bool,
    /// Number of times that the references go to the device.
    pub passes: u64,
    /// Submits, about.
    pub submits: u64,
    /// Bytes that go to the device, about.
    pub traffic_bytes: u64,
    /// Floating-point operations of the similarities.
    pub operations: f64,
    /// Time of the phase in milliseconds, about.
    pub predicted_ms: f64,
    /// Method by which triplets are mined, if any are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<MiningMethod>,
    /// Cut of each training batch, if its activations do not fit all at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_chunk: Option<BatchChunk>,
    /// The most bytes of the host that a map of the run and its layouts (UMAP) take, where one is drawn; 0 without a run.
    #[serde(skip_serializing_if = "is_none")]
    pub map_bytes: u64,
}

fn is_none(bytes: &u64) -> bool {
    *bytes == 0
}

/// Cut of a training batch for the head: each part is embedded, and embedded once more for its gradient.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BatchChunk {
    /// Rows of a part.
    pub rows: u64,
    /// Rows of the batch.
    pub batch: u64,
    /// Rows of the batch that are embedded twice: those of the first part are still there.
    pub twice: u64,
    /// Operations of the second time, over all others of a step.
    pub more_operations: f64,
}

impl Display for BatchChunk {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Self {
            rows,
            batch,
            twice,
            more_operations,
        } = self;
        write!(
            f,
            "A batch of {batch} goes through the head {rows} rows at a time, as the budget does not hold the activations of all; the \
             gradient is that of the whole batch. {twice} rows of it go forward once more, {:.0} % more operations a step",
            100.0 * more_operations
        )
    }
}

impl MiningMethod {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ranks => "ranks",
            Self::Rows => "rows",
        }
    }
}

impl Default for Rate {
    /// A slow device.
    fn default() -> Self {
        Self {
            operations_per_ms: 2e6,
            bytes_per_ms: 5e5,
        }
    }
}

impl Rate {
    /// Time of so much work, in milliseconds.
    pub(crate) fn ms(&self, operations: f64, bytes: u64) -> f64 {
        operations / self.operations_per_ms + bytes as f64 / self.bytes_per_ms
    }
}

/// Refuses rows that cannot be numbered: in 32 bits, of which the last number means none.
pub(crate) fn check_count(what: &str, rows: usize) -> Result<()> {
    if rows as u64 >= u64::from(u32::MAX) {
        return Err(Error::Data(format!(
            "{rows} {what}: at most {} are numbered: split them",
            u32::MAX - 1
        )));
    }
    Ok(())
}
