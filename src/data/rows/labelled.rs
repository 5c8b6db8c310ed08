//! [`Labelled`]: rows with a label each, as they were read from files. They become a `Dataset` or are evaluated as they are.

use serde::{Deserialize, Serialize};

use super::columns::places;
use super::{Aside, Columns, LeftOut, Marks, Missing, TableColumn, Texts};
use crate::base::error::{Error, Result};
use crate::base::quote::{listed, quoted};

/// Arrays, columns and treatment of missing cells to take from a file that offers several.
#[derive(Clone, Copy, Debug, Default)]
pub struct Choice<'a> {
    /// The array of features in an NPZ, or the column of lists of numbers in a table.
    pub features: Option<&'a str>,
    /// The column of labels in a table, or their array in an NPZ.
    pub labels: Option<&'a str>,
    /// The columns of a table that are features, if they were chosen.
    pub columns: Option<&'a Columns>,
    /// Treatment of cells that hold no number; `None` if it cannot be chosen, and they are refused.
    pub missing: Option<Missing>,
}

impl Choice<'_> {
    /// The choice for the file of the features; without `labels` if those are in another file.
    pub fn own(self, has_labels: bool) -> Self {
        let labels = self.labels.filter(|_| !has_labels);
        Self { labels, ..self }
    }

    /// The chosen columns, or the default.
    pub(crate) fn columns(self) -> Columns {
        self.columns.cloned().unwrap_or_default()
    }

    /// The column by which labels of another file are joined, if it was named.
    pub(crate) fn on(&self) -> Option<&str> {
        self.columns.and_then(|columns| columns.on.as_deref())
    }

    /// The choice for a file of labels.
    pub(crate) fn of_labels(self) -> Self {
        Self {
            features: None,
            ..self
        }
    }
}

/// Rows of features or embeddings with a label each.
///
/// A message holds it without its values: those are handed over from one worker of a page to another as they are.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Labelled {
    /// Name of the file that the rows come from.
    pub name: String,
    /// `[rows, dim]`, finite, at least one row.
    #[serde(skip)]
    pub values: Vec<f32>,
    /// Columns of `values`.
    pub dim: usize,
    /// Names of those columns; empty if the file has no header.
    pub feature_names: Vec<String>,
    /// One label a row.
    pub labels: Texts,
    /// The column or array that the labels come from, if a table or an NPZ has several.
    pub label_column: Option<String>,
    /// The column or array of another file that the labels come from, if that has names.
    pub label_beside: Option<String>,
    /// Text columns beside the label, by name.
    pub columns: Vec<(String, Texts)>,
    /// The column that names the rows, if it is none of those.
    pub ids: Option<(String, Texts)>,
    /// Role of each column of a table, with its first cells; empty if the data is no table.
    pub table: Vec<TableColumn>,
    /// Decisions made while reading, in words: the label column, columns left out.
    pub notes: Vec<String>,
    /// Treatment of cells without a number.
    pub missing: Missing,
    /// Marks in numbers, if some were chosen or told from the file.
    pub marks: Marks,
    /// The column by which labels of another file were joined to the rows; none if both are in the same order.
    pub on: Option<String>,
    /// Labels that mean that a row has no class, if they were chosen.
    pub unlabelled: Option<Vec<String>>,
    /// The rows of the file that were left out.
    pub left_out: LeftOut,
    /// Those of them that have no label, for the map.
    pub aside: Aside,
    /// The columns whose cells without a number were filled, each with the value.
    pub filled: Vec<(usize, f32)>,
}

/// Labels from a file of their own, or a part of one.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Labels {
    /// One label a row.
    pub labels: Texts,
    /// The name of their column, if it has one.
    pub column: Option<String>,
    /// Columns beside the labels, by name: text, and numbers that are whole and repeat.
    pub columns: Vec<(String, Texts)>,
    /// The column by which they were joined to the rows; none if both are in the same order.
    pub on: Option<String>,
    /// Decisions made while reading, in words.
    pub notes: Vec<String>,
}

impl Labelled {
    /// Reorders the columns as in `names`, those of `other`, if both have names.
    ///
    /// # Errors
    /// [`Error::Data`] when one is missing.
    pub fn ordered_as(mut self, names: &[String], other: &str) -> Result<Self> {
        if names.is_empty() || self.feature_names.is_empty() || names == self.feature_names {
            return Ok(self);
        }
        let places = places(names, &self.feature_names).map_err(|name| {
            Error::Data(format!(
                "{}: there is no column {}, as there is in {other}: the numeric columns are {}",
                self.name,
                quoted(name),
                listed(self.feature_names.iter().map(String::as_str))
            ))
        })?;
        if places.len() == self.dim {
            let mut own = vec![0.0; self.dim];
            let all = [&mut self.values, &mut self.aside.values].into_iter();
            for row in all.flat_map(|values| values.chunks_exact_mut(self.dim)) {
                own.copy_from_slice(row);
                for (value, place) in row.iter_mut().zip(&places) {
                    *value = own[*place];
                }
            }
            self.feature_names = names.to_vec();
        }
        Ok(self)
    }

    /// Number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.values.len().checked_div(self.dim).unwrap_or(0)
    }
}
