//! [`Offer`]: a run that can be resumed.

use nearfar::{Checkpoint, Origin, TrainConfig};
use serde::{Deserialize, Serialize};

use crate::as_json;

/// Number of the run of an earlier version of the page, which had one at a time, at the top of the storage that all folders of the
/// host share.
pub(crate) const EARLIER: u64 = 1;

/// A run that can be resumed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Offer {
    /// Steps done.
    pub(crate) step: u64,
    /// The test side is scored.
    pub(crate) is_over: bool,
    /// Name of the data, its label column, and how its files were read.
    pub(crate) origin: Origin,
    /// Rows of the data.
    pub(crate) rows: usize,
    /// The settings.
    #[serde(with = "as_json")]
    pub(crate) config: TrainConfig,
    /// Number of the run: its start, in milliseconds since 1970, which names its slots; 0 if it comes from a file.
    pub(crate) run: u64,
}

impl Offer {
    /// Offer of the run of this number, whose checkpoint is given.
    pub(crate) fn of(run: u64, checkpoint: &Checkpoint<'_>) -> Self {
        Self {
            run,
            step: checkpoint.step(),
            is_over: checkpoint.is_finished(),
            origin: checkpoint.origin().clone(),
            rows: checkpoint.rows(),
            config: checkpoint.config().clone(),
        }
    }

    /// Name of the sample that the run was on, if it was one.
    pub(crate) fn sample(&self) -> Option<&str> {
        self.origin.data.strip_prefix("sample:")
    }
}
