//! [`Forecast`]: what a search or an evaluation will hold, move and take, before it starts.
//!
//! A forecast is a pure function of the sizes, the room and the rate. The room chooses how the work is cut; the rate only
//! changes how long it is said to take. Neither changes a bit of the result.

use serde::Serialize;

use crate::base::error::{Error, Result};
use crate::base::plan::MemoryPlan;

/// How fast a device is, roughly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Floating-point operations a millisecond.
    pub operations_per_ms: f64,
    /// Bytes that go to the device in a millisecond.
    pub bytes_per_ms: f64,
}

/// How triplets are mined: by miner and loss alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Path {
    /// By the ranks of the positives among all references: triplets are counted, none is looked at.
    #[default]
    Ranks,
    /// By rows of similarities: each anchor's positives and negatives are chosen, their triplets looked at one by one.
    Rows,
}

/// What a phase will do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Forecast {
    /// Every buffer.
    pub memory: MemoryPlan,
    /// Queries that are looked at together.
    pub block_queries: u64,
    /// References that are on the device at once.
    pub chunk_rows: u64,
    /// Whether that is all of them.
    pub resident: bool,
    /// How often the references go to the device.
    pub passes: u64,
    /// Submits, about.
    pub submits: u64,
    /// Bytes that go to the device, about.
    pub traffic_bytes: u64,
    /// Floating-point operations of the similarities.
    pub operations: f64,
    /// How long it takes, about.
    pub predicted_ms: f64,
    /// How triplets are mined, where any are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<Path>,
}

impl Path {
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
    /// How long so much work takes, in milliseconds.
    pub(crate) fn ms(&self, operations: f64, bytes: u64) -> f64 {
        operations / self.operations_per_ms + bytes as f64 / self.bytes_per_ms
    }
}

/// Rows are numbered in 32 bits, and the last number means none.
pub(crate) fn check_count(what: &str, rows: usize) -> Result<()> {
    if rows as u64 >= u64::from(u32::MAX) {
        return Err(Error::Data(format!(
            "{rows} {what}: at most {} are numbered: split them",
            u32::MAX - 1
        )));
    }
    Ok(())
}
