//! Settings that are one of a few: the split, the scaling of features, the first weights.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::quote::cut;

/// Split into training, validation and test rows, in this order along the rows, classes or groups that a variant names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Split {
    /// Rows in random order.
    Random,
    /// Rows of each class in random order: every class is divided in the same proportions, to the nearest row, and the sides
    /// are as large as with `random`. A class of one or two rows trains, and is not counted.
    Stratified,
    /// Classes in label order: the test classes are never seen.
    ByClass,
    /// Classes in random order.
    ByClassShuffled,
    /// Whole groups, in random order, so that the sides hold about the same part of every class.
    ByGroup,
    /// A text column says `train`, `validation` or `test`.
    Column(String),
}

impl TryFrom<String> for Split {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "random" => Ok(Self::Random),
            "stratified" => Ok(Self::Stratified),
            "by-class" => Ok(Self::ByClass),
            "by-class-shuffled" => Ok(Self::ByClassShuffled),
            "by-group" => Ok(Self::ByGroup),
            _ => match text.strip_prefix("column:") {
                Some(column) if !column.is_empty() => Ok(Self::Column(column.to_owned())),
                _ => Err(format!(
                    "unknown split `{}`, expected `random`, `stratified`, `by-class`, `by-class-shuffled`, `by-group` or `column:NAME`",
                    cut(&text)
                )),
            },
        }
    }
}

impl From<Split> for String {
    fn from(split: Split) -> Self {
        match split {
            Split::Random => "random".to_owned(),
            Split::Stratified => "stratified".to_owned(),
            Split::ByClass => "by-class".to_owned(),
            Split::ByClassShuffled => "by-class-shuffled".to_owned(),
            Split::ByGroup => "by-group".to_owned(),
            Split::Column(name) => format!("column:{name}"),
        }
    }
}

/// Choice to centre features and divide them by their standard deviation, both computed from the training rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub enum Standardize {
    /// `false`: features are taken as they come.
    Off,
    /// `true`: every feature is scaled.
    On,
    /// `"auto"`: scaled if columns seem, by their values, to have different units.
    #[default]
    Auto,
}

impl TryFrom<Value> for Standardize {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        match &value {
            Value::Bool(false) => Ok(Self::Off),
            Value::Bool(true) => Ok(Self::On),
            Value::String(text) if text == "auto" => Ok(Self::Auto),
            other => Err(format!(
                "standardize is {other}: it must be false, true or auto"
            )),
        }
    }
}

impl From<Standardize> for Value {
    fn from(standardize: Standardize) -> Self {
        match standardize {
            Standardize::Off => Self::Bool(false),
            Standardize::On => Self::Bool(true),
            Standardize::Auto => Self::String("auto".to_owned()),
        }
    }
}

/// The weights before the first step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InitialWeights {
    /// At random, as torch's `nn.Linear` starts.
    #[default]
    Random,
    /// At the linear map that the head is compared with (LDA); only for a head without hidden layers, or with a skip.
    Lda,
}
