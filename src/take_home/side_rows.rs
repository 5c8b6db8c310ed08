//! [`SideRows`]: the rows of a side through the head, and the choice of a side.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::text;
use crate::base::order;
use crate::data::{LeftOut, SAMPLES, Side, Sides};
use crate::model::embeddings::Embeddings;
use crate::search::knn::Neighbors;
use crate::search::rows_to_check::RowsToCheck;

/// Rows of the data to export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RowsOf {
    /// The test side.
    #[default]
    Test,
    /// The training side.
    Train,
    /// The validation side.
    Validation,
    /// Every row.
    All,
}

impl From<Side> for RowsOf {
    fn from(side: Side) -> Self {
        match side {
            Side::Test => Self::Test,
            Side::Train => Self::Train,
            Side::Validation => Self::Validation,
        }
    }
}

impl RowsOf {
    /// All choices, the default first.
    pub const ALL: [Self; 4] = [Self::Test, Self::Train, Self::Validation, Self::All];

    /// Name in options and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Test => "test",
            Self::Train => "train",
            Self::Validation => "validation",
            Self::All => "all",
        }
    }

    /// Name of the rows in a text, as "test" in "test rows".
    pub fn words(self) -> &'static str {
        match self {
            Self::Test => Side::Test.name(),
            Self::Train => Side::Train.name(),
            Self::Validation => Side::Validation.name(),
            Self::All => "all",
        }
    }

    /// Numbers of the rows among all rows, ascending.
    pub(super) fn of(self, sides: &Sides) -> Vec<u32> {
        match self {
            Self::Test => sides.test.clone(),
            Self::Train => sides.train.clone(),
            Self::Validation => sides.validation.clone(),
            Self::All => {
                let mut all = [&sides.train[..], &sides.validation, &sides.test].concat();
                order::sort_numbers(&mut all);
                all
            }
        }
    }
}

/// Rows of the data through the head.
#[derive(Clone, Debug)]
pub struct SideRows {
    /// The choice of rows.
    pub of: RowsOf,
    /// Number of each row in the data, counted from 0.
    pub rows: Vec<u32>,
    /// Name of each row's class.
    pub labels: Vec<String>,
    /// The column that names the rows, and the name of each, if there is one.
    pub names: Option<(String, Vec<String>)>,
    /// Embeddings of the rows.
    pub embeddings: Embeddings,
    /// The rows nearest to each among them, if they were searched.
    pub neighbours: Option<Neighbors>,
}

impl SideRows {
    /// These rows with their numbers in the file, of which some rows were left out.
    pub(super) fn in_file(&self, left_out: &LeftOut) -> Cow<'_, Self> {
        if left_out.is_empty() {
            return Cow::Borrowed(self);
        }
        Cow::Owned(Self {
            rows: left_out.numbers(self.rows.iter().copied()),
            ..self.clone()
        })
    }

    /// Rows whose neighbours contradict their label; `None` before [`SideRows::find_neighbours`].
    pub fn to_check(&self) -> Option<RowsToCheck> {
        let found = self.neighbours.as_ref()?;
        Some(RowsToCheck::new(&self.rows, &self.labels, found))
    }

    /// The column of names as a cell of a header; nothing without one.
    pub(super) fn name_column(&self) -> Option<String> {
        let (column, _) = self.names.as_ref()?;
        // Every column has a name of its own.
        let taken = ["row", "label", "likely_label"].contains(&&**column) || column.is_empty();
        Some(match taken {
            true => "name".to_owned(),
            false => text::cell(column),
        })
    }

    /// The name of the row at a place as a cell; nothing without names.
    pub(super) fn name_at(&self, place: usize) -> Option<String> {
        let (_, names) = self.names.as_ref()?;
        Some(text::cell(&names[place]))
    }
}

/// Tells if data of this name is built in.
pub(super) fn is_sample(name: &str) -> bool {
    let sample = name.strip_prefix("sample:");
    sample.is_some_and(|sample| SAMPLES.contains(&sample))
}
