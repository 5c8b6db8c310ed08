//! No schedule: the learning rate of the settings in every step.

use serde::{Deserialize, Serialize};

use super::Rates;
use crate::rules::arguments::Part;

/// Keeps every learning rate as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Constant {}

impl Part for Constant {
    const PML: &str = "";
}

impl Rates for Constant {
    fn lr(&self, lr: f64, _done: u64, _steps: u64) -> f64 {
        lr
    }
}
