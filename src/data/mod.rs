//! [`Dataset`]: labelled feature vectors, from a sample or from a person's files.
//!
//! `rows/` says what rows and labels are, `files/` reads them (errors give the file's name, the place in it, and what to do),
//! `row_source/` holds their features in memory or in a file, `samples/` are built in; the files beside are questions to a dataset.

mod appended;
pub(crate) mod by_class;
mod colours;
pub(crate) mod column_spread;
pub(crate) mod copies;
mod files;
mod fingerprint;
mod folds;
pub(crate) mod groups;
mod names;
mod row_source;
mod rows;
mod samples;
mod shown_columns;
mod split;
mod suited;
pub(crate) mod survey;

use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;

#[cfg(feature = "hdf5")]
pub use files::Hdf5File;
#[cfg(feature = "parquet")]
pub use files::ParquetFile;
#[cfg(all(feature = "hdf5", not(target_arch = "wasm32")))]
pub use files::add_embeddings;
pub(crate) use files::array_header;
#[cfg(any(feature = "hdf5", feature = "parquet"))]
pub use files::is_guarded;
#[cfg(not(target_arch = "wasm32"))]
pub use files::triplets_header;
pub use files::{Format, NamedFile, NpzWriter, Table, TableReader, matrix_header, write_matrix};
pub(crate) use files::{NpyElement, npy};
pub use groups::group_column;
#[cfg(target_arch = "wasm32")]
pub use row_source::BlobRows;
#[cfg(not(target_arch = "wasm32"))]
pub use row_source::HeldRows;
#[cfg(not(target_arch = "wasm32"))]
pub use row_source::NpyRows;
pub use row_source::{RowSource, STREAM_FROM_BYTES};
pub(crate) use rows::{Aside, LeftOut, check_squares, classes};
pub use rows::{
    Choice, ColumnRole, Columns, Labelled, Labels, Marks, Missing, Role, TableColumn, Texts,
    look_alike,
};
pub use samples::SAMPLES;
pub use split::{Side, Sides};
pub use suited::Shape;

use crate::base::error::{Error, Result};
use crate::base::quote::quoted;
use crate::base::working::Working;

/// Feature vectors with a class each.
#[derive(Debug)]
pub struct Dataset {
    /// Name of the sample or the file that the rows come from.
    pub name: String,
    /// `[rows, dim]`, finite.
    pub features: RowSource,
    /// Names of the columns of `features`; empty if the file has no header.
    pub feature_names: Vec<String>,
    /// The class of each row, an index into `class_names`.
    pub labels: Vec<u32>,
    /// The names of the classes in label order: by number if all are integers, else by text.
    pub class_names: Vec<String>,
    /// The column or array that the labels come from, if a table or an NPZ has several.
    pub label_column: Option<String>,
    /// The column or array of another file that the labels come from, if that has names.
    pub label_beside: Option<String>,
    /// Text columns beside the label, by name: those that `split = column:NAME` can use.
    pub columns: Vec<(String, Texts)>,
    /// The column that names the rows, if it is none of those: numbers, or the names of an AnnData file.
    pub ids: Option<(String, Texts)>,
    /// Place of the column that names the rows, if one was chosen. See [`Dataset::name_by`].
    pub named_by: AtomicUsize,
    /// Role of each column of a table, with its first cells; empty if the data is no table.
    pub table: Vec<TableColumn>,
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
    /// Set if the last rows came from a second file, whose rows are the test side.
    pub joined: bool,
    /// Decisions made while reading, in words: the label column, columns left out.
    pub notes: Vec<String>,
}
/// Rows from which on at least two have to share a class.
const ROWS_TO_PAIR: usize = 10;
impl Dataset {
    /// Side of the square picture that each row holds, pixel by pixel; none unless the data are the digits or all columns are
    /// called pixel.
    pub(crate) fn picture_side(&self) -> Option<usize> {
        let dim = self.features.dim();
        let side = (dim as f64).sqrt() as usize;
        let names = &self.feature_names;
        let is_pixel = |name: &String| name.to_ascii_lowercase().starts_with("pixel");
        let are_pixels = names.len() == dim && names.iter().all(is_pixel);
        let is_picture = self.name == "sample:digits" || are_pixels;
        (is_picture && side > 1 && side * side == dim).then_some(side)
    }

    /// Tells if there are no rows, so that memory and time can only be planned.
    pub fn is_imagined(&self) -> bool {
        matches!(self.features, RowSource::Imagined { .. })
    }

    /// Gives the classes of labelled rows their indices.
    ///
    /// # Errors
    /// [`Error::Data`] when there are fewer than two classes.
    pub fn new(rows: Labelled) -> Result<Self> {
        let features = RowSource::Memory {
            values: rows.values,
            dim: rows.dim,
        };
        let mut dataset = Self {
            feature_names: rows.feature_names,
            label_column: rows.label_column,
            label_beside: rows.label_beside,
            columns: rows.columns,
            ids: rows.ids,
            table: rows.table,
            missing: rows.missing,
            marks: rows.marks,
            on: rows.on,
            unlabelled: rows.unlabelled,
            left_out: rows.left_out,
            aside: rows.aside,
            filled: rows.filled,
            notes: rows.notes,
            ..Self::of(rows.name, features, &rows.labels)?
        };
        dataset.note_split();
        Ok(dataset)
    }

    /// A dataset without rows, whose fields the caller sets.
    fn empty() -> Self {
        Self {
            name: String::new(),
            features: RowSource::Memory {
                values: Vec::new(),
                dim: 0,
            },
            feature_names: Vec::new(),
            labels: Vec::new(),
            class_names: Vec::new(),
            label_column: None,
            label_beside: None,
            columns: Vec::new(),
            ids: None,
            named_by: AtomicUsize::new(names::UNCHOSEN),
            table: Vec::new(),
            missing: Missing::default(),
            marks: Marks::default(),
            on: None,
            unlabelled: None,
            left_out: LeftOut::default(),
            aside: Aside::default(),
            filled: Vec::new(),
            joined: false,
            notes: Vec::new(),
        }
    }

    /// The column or array that the labels come from, of whichever file.
    pub fn labelled_by(&self) -> Option<&String> {
        self.label_column.as_ref().or(self.label_beside.as_ref())
    }

    /// Features of the rows without a label, in memory.
    pub(crate) fn of_aside(&self) -> Self {
        let (values, dim) = (self.aside.values.clone(), self.features.dim());
        Self {
            features: RowSource::Memory { values, dim },
            ..Self::empty()
        }
    }

    /// Dataset whose features stay in their file, with as many labels of another file. The file is read through for cells without a
    /// number, which are treated as `missing` says; `say` hears of the progress.
    ///
    /// # Errors
    /// [`Error::Data`] when there are fewer than two classes; [`Error::Cells`] when nothing is left.
    pub async fn streamed(
        name: String,
        mut features: RowSource,
        mut labels: Labels,
        missing: Missing,
        say: impl Fn(Working),
    ) -> Result<Self> {
        let (filled, left_out) = features.mend(&name, missing, &mut labels, &say).await?;
        let dataset = Self::of(name, features, &labels.labels)?;
        let Labels {
            column,
            columns,
            mut notes,
            ..
        } = labels;
        notes.push("features stay in the file and are read as they are needed".to_owned());
        let mut dataset = Self {
            label_beside: column,
            columns,
            missing,
            left_out,
            filled,
            notes,
            ..dataset
        };
        dataset.note_split();
        Ok(dataset)
    }

    /// Dataset of rows with the name of a class each.
    ///
    /// # Errors
    /// [`Error::Data`] when there are fewer than two classes, or other than one label a row.
    pub fn of_rows(name: String, features: RowSource, labels: &[String]) -> Result<Self> {
        let (rows, count) = (features.rows(), labels.len());
        if rows != count || rows == 0 {
            return Err(Error::Data(format!(
                "{name}: {count} labels for {rows} rows: there must be one a row, and a row at least"
            )));
        }
        Self::of(name, features, &labels.iter().collect())
    }

    fn of(name: String, features: RowSource, labels: &Texts) -> Result<Self> {
        // A text without rows is no class.
        let mut is_there = vec![false; labels.distinct().len()];
        for code in labels.codes() {
            is_there[*code as usize] = true;
        }
        let named = labels.distinct().iter().zip(&is_there);
        let named = named.filter(|(_, is_there)| **is_there);
        let class_names =
            rows::class_names::ordered(named.map(|(label, _)| label.to_string()).collect());
        if class_names.len() < 2 {
            return Err(Error::Data(format!(
                "{name}: every row has the label {}: metric learning needs two classes at least",
                quoted(&labels[0])
            )));
        }
        if class_names.len() == labels.len() && labels.len() >= ROWS_TO_PAIR {
            return Err(Error::Data(format!(
                "{name}: each of the {} rows has a label of its own, {} the first: these are names of rows, not classes, and no two rows \
                 are alike to learn from; choose a label that stands in several rows",
                labels.len(),
                quoted(&labels[0])
            )));
        }
        let index: HashMap<&str, u32> = class_names
            .iter()
            .zip(0..)
            .map(|(name, index)| (name.as_str(), index))
            .collect();
        let classes = labels.distinct().iter();
        let classes: Vec<u32> = classes
            .map(|label| index.get(&**label).copied().unwrap_or(0))
            .collect();
        Ok(Self {
            labels: labels
                .codes()
                .iter()
                .map(|code| classes[*code as usize])
                .collect(),
            name,
            features,
            class_names,
            ..Self::empty()
        })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.labels.len()
    }

    /// The classes of these rows.
    pub fn labels_of(&self, rows: &[u32]) -> Vec<u32> {
        rows.iter().map(|row| self.labels[*row as usize]).collect()
    }

    /// The name of each row's class.
    pub fn label_names(&self) -> Vec<String> {
        self.labels
            .iter()
            .map(|label| self.class_names[*label as usize].clone())
            .collect()
    }

    /// Rows of each class.
    pub fn class_sizes(&self) -> Vec<u32> {
        let mut sizes = vec![0; self.class_names.len()];
        for label in &self.labels {
            sizes[*label as usize] += 1;
        }
        sizes
    }
}
