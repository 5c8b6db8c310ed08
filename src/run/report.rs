//! [`RunReport`]: results of a run with its settings, data and memory, as `--json` prints them and a checkpoint holds them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::history::Thinned;
use super::{BestStep, Run};
use crate::base::ledger::{Bytes, MemoryLedger};
use crate::base::order;
use crate::data::{ColumnRole, LeftOut, Marks, Missing};
use crate::judge::verdict::Compared;
use crate::model::scaling::ScalingKind;
use crate::rules::config::TrainConfig;
use crate::search::metrics::Scores;
use crate::train::trainer::{Evaluation, StepReport};

/// Scores of the baselines of the head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// The features as the head sees them, scaled or not, at unit length.
    pub raw: Scores,
    /// Scores of the linear map of [`crate::LinearMap`], of no more outputs than the head; `None` if it cannot be fitted, and a
    /// warning has the reason.
    pub linear: Option<Scores>,
    /// Outputs of the linear map, without the constant: 8, 16, 32 .. or all, by their scores on the validation rows.
    pub linear_dimensions: Option<usize>,
    /// The linear map has a constant output beside them, which does better.
    #[serde(default)]
    pub linear_constant: bool,
}

/// Memory use of a run, for a report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryReport {
    /// Bytes in use.
    pub live_bytes: u64,
    /// The most bytes that were ever in use or being freed.
    pub peak_bytes: u64,
    /// Budget of the run.
    pub budget_bytes: u64,
    /// Bytes in use, by purpose.
    pub by_purpose: BTreeMap<String, u64>,
    /// What a run holds in half precision, by the setting that asks for it.
    #[serde(default)]
    pub halved: BTreeMap<String, Halved>,
}

/// Bytes of what is held in half precision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Halved {
    /// Bytes in use.
    pub bytes: u64,
    /// Bytes of the same in single precision.
    pub f32_bytes: u64,
}

/// Description of the data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataReport {
    /// Name of a sample or of a file.
    pub name: String,
    /// Rows in all.
    pub rows: usize,
    /// Features of a row.
    pub dim: usize,
    /// Classes in all.
    pub classes: usize,
    /// Training rows.
    pub train: usize,
    /// Validation rows.
    pub validation: usize,
    /// Test rows, which are scored at the end.
    pub test: usize,
    /// Training rows that validation rows are ranked among too; 0 if these are enough by themselves, or if their classes never train.
    #[serde(default)]
    pub validation_among_train: usize,
    /// Notes on decisions while reading, and on the scale of the features.
    pub notes: Vec<String>,
    /// Every feature was scaled to mean 0 and spread 1.
    pub standardized: bool,
    /// Scaling of the features.
    #[serde(default)]
    pub scaling: ScalingKind,
    /// Treatment of cells without a number.
    #[serde(default)]
    pub missing: Missing,
    /// Number format, if a mark in the numbers was chosen or told.
    #[serde(default)]
    pub marks: Marks,
    /// Column by which labels of another file were joined to the rows; `None` if they are in the same order.
    #[serde(default)]
    pub on: Option<String>,
    /// Labels that mean that a row has no class, if they were chosen.
    #[serde(default)]
    pub unlabelled: Option<Vec<String>>,
    /// Rows of the file that were left out.
    #[serde(default)]
    pub left_out: LeftOut,
    /// Column or array that the labels come from, if the data names one.
    #[serde(default)]
    pub label_column: Option<String>,
    /// Role of each column of a table, and the reason.
    #[serde(default)]
    pub columns: Vec<ColumnRole>,
}

/// Report of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunReport {
    /// Version of Nearfar; empty if it was not recorded.
    #[serde(default)]
    pub version: String,
    /// `gpu` or `cpu`.
    pub engine: String,
    /// The name of the adapter.
    pub adapter: String,
    /// Time of the work itself, without start-up and reading or writing files.
    pub elapsed_ms: f64,
    /// Memory use of the run.
    pub memory: MemoryReport,
    /// Description of the data.
    pub data: DataReport,
    /// The settings.
    pub config: TrainConfig,
    /// Steps done.
    pub steps: u64,
    /// Every step; of more than 16,384 every second, fourth, eighth .. and the last.
    pub history: Vec<StepReport>,
    /// Spacing of the steps in `history`.
    #[serde(default = "every_step")]
    pub history_one_in: u64,
    /// Every evaluation; of more than 4,096 every second, fourth, eighth .., the first, the best and the last.
    pub evaluations: Vec<Evaluation>,
    /// Scores of the trained head.
    pub r#final: Option<Scores>,
    /// Step of the final head, if an earlier one than the last did better on the validation rows.
    #[serde(default)]
    pub kept_step: Option<u64>,
    /// The best validation, if `early_stop` keeps it: its step, whose head this is, and where the run ended if it stopped early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best: Option<BestStep>,
    /// Scores of the baselines.
    pub baseline: Baseline,
    /// Comparison with the baselines, in a sentence.
    pub verdict: Option<String>,
    /// Comparison in numbers: with raw features, and with the linear map if there is one.
    #[serde(default)]
    pub compared: Vec<Compared>,
    /// Likely problems, in sentences.
    pub warnings: Vec<String>,
}

/// Spacing of the steps in reports that do not state it.
fn every_step() -> u64 {
    1
}

impl MemoryReport {
    /// Reads a ledger.
    pub fn new(ledger: &MemoryLedger) -> Self {
        let named = ledger.by_purpose().into_iter();
        Self {
            live_bytes: ledger.live_bytes(),
            peak_bytes: ledger.peak_bytes(),
            budget_bytes: ledger.budget_bytes(),
            by_purpose: order::map_of(
                named.map(|(purpose, bytes)| (purpose.name().to_owned(), bytes)),
            ),
            halved: BTreeMap::new(),
        }
    }
}

impl RunReport {
    /// What the run holds in half precision, each with the bytes that it saves and what is known of the score that it costs.
    pub fn halved(&self) -> Vec<[String; 2]> {
        let scores = self.r#final.unwrap_or_default();
        let line = |(setting, held): (&String, &Halved)| {
            let cost = match (&setting[..], scores.test, scores.test_unrounded) {
                ("feature_precision", Some(test), Some(unrounded)) => format!(
                    "precision@1 of the test rows is {:.3}, and {:.3} with features in f32",
                    test.precision_at_1, unrounded.precision_at_1
                ),
                _ => format!("{IS_TOLD_BY} `--grid {setting}=f32,f16 --seeds 5`"),
            };
            let [held, floats] = [held.bytes, held.f32_bytes].map(Bytes);
            let name = format!("{setting} f16");
            [name, format!("{held} in place of {floats}; {cost}")]
        };
        self.memory.halved.iter().map(line).collect()
    }
}

/// The way to the score that half precision costs where it changes the training itself.
const IS_TOLD_BY: &str = "its cost in scores, below 0.01 of precision@1 where it was measured (docs/measured.md), is told by `nearfar compare` \
     with";

impl Run {
    /// Memory use of the run.
    pub fn memory(&self) -> MemoryReport {
        let of = |[bytes, f32_bytes]: [u64; 2]| Halved { bytes, f32_bytes };
        let halved = self.trainer.halved();
        MemoryReport {
            halved: order::map_of(halved.map(|(setting, held)| (setting.to_owned(), of(held)))),
            ..MemoryReport::new(self.trainer.engine().ledger())
        }
    }

    /// Description of the data.
    pub fn data(&self) -> DataReport {
        let (dataset, sides) = (self.trainer.dataset(), self.trainer.sides());
        DataReport {
            name: dataset.name.clone(),
            rows: dataset.rows(),
            dim: dataset.features.dim(),
            classes: dataset.class_names.len(),
            train: sides.train.len(),
            validation: sides.validation.len(),
            test: sides.test.len(),
            validation_among_train: self.trainer.validation_among_train(),
            notes: dataset
                .notes
                .iter()
                .map(String::as_str)
                .chain(self.trainer.scaling_note())
                .map(str::to_owned)
                .chain(self.trainer.watched_note())
                .collect(),
            standardized: self.trainer.scaling().1 == ScalingKind::Columns,
            scaling: self.trainer.scaling().1,
            missing: dataset.missing,
            marks: dataset.marks,
            on: dataset.on.clone(),
            unlabelled: dataset.unlabelled.clone(),
            left_out: dataset.left_out.clone(),
            label_column: dataset.label_column.clone(),
            columns: dataset.column_roles(self.trainer.config()),
        }
    }

    /// Report of the run so far.
    pub fn report(&self) -> RunReport {
        let (engine, adapter) = self.ran_on();
        RunReport {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            engine,
            adapter,
            elapsed_ms: self.elapsed_ms,
            memory: self.ended.clone().unwrap_or_else(|| self.memory()),
            data: self.data(),
            config: self.trainer.config().clone(),
            steps: self.trainer.step(),
            history: self.history.to_vec(),
            history_one_in: Thinned::steps_in(self.trainer.step()),
            evaluations: self.evaluations.to_vec(),
            r#final: self.head,
            kept_step: self.kept_step(),
            best: self.best(),
            baseline: self.baseline(),
            verdict: self.verdict(),
            compared: self.compared.clone(),
            warnings: self.warnings().iter().map(ToString::to_string).collect(),
        }
    }
}
