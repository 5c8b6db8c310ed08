//! [`Labelled`]: rows with a label each, read from a person's files. They become a `Dataset` or are evaluated as they are.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::input::Input;
use super::join::Join;
use super::{
    Columns, Format, LeftOut, Marks, Missing, Role, RowSource, Table, TableColumn, Texts, arrays,
    class_names, look, npy, places, roles, unlabelled,
};
use crate::base::error::{Error, Result};
use crate::base::order;
use crate::base::quote::{listed, quoted};
use crate::base::working::Working;

/// A file that was dropped or named, with its content.
#[derive(Clone, Debug)]
pub struct NamedFile {
    /// The file's name; its ending tells the format.
    pub name: String,
    /// Its content.
    pub bytes: Vec<u8>,
}

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
    pub(super) fn columns(self) -> Columns {
        self.columns.cloned().unwrap_or_default()
    }

    /// The column by which labels of another file are joined, if it was named.
    pub(super) fn on(&self) -> Option<&str> {
        self.columns.and_then(|columns| columns.on.as_deref())
    }

    /// The choice for a file of labels.
    fn of_labels(self) -> Self {
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
    /// Text columns beside the label, by name.
    pub columns: Vec<(String, Texts)>,
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

impl Labels {
    /// The key column `on` of the file of labels.
    fn keys(&self, on: &str, file: &str) -> Result<Texts> {
        let column = self.columns.iter().find(|(name, _)| name == on);
        column.map(|(_, texts)| texts.clone()).ok_or_else(|| {
            let on = quoted(on);
            Error::Data(format!(
                "{file}: on: there is no column {on} beside the labels"
            ))
        })
    }
}

/// The rows that labels of another file belong to.
enum Beside<'a> {
    /// This number of rows, of a file of this name.
    Rows(&'a str, usize),
    /// Rows of arrays, each with its key.
    Keyed(&'a str, Texts),
    /// Rows of a table.
    Table(&'a mut Table),
}

impl Beside<'_> {
    fn name(&self) -> &str {
        match self {
            Self::Rows(name, _) | Self::Keyed(name, _) => name,
            Self::Table(table) => table.name(),
        }
    }

    /// Number of rows, if there are `labels` labels: a first line of numbers may be a header or a row.
    fn rows(&mut self, labels: usize) -> usize {
        match self {
            Self::Rows(_, rows) => *rows,
            Self::Keyed(_, keys) => keys.len(),
            Self::Table(table) => {
                table.expect(labels);
                table.rows()
            }
        }
    }

    /// Keys of the rows, from the column `on` that was named to join labels by.
    fn keys(&self, on: &str) -> Result<Texts> {
        match self {
            Self::Rows(name, _) => Err(Error::Data(format!(
                "{name}: on: its rows have no columns that labels could be joined by: give them as a table or as named arrays"
            ))),
            Self::Keyed(_, keys) => Ok(keys.clone()),
            Self::Table(table) => table.named_key(on),
        }
    }

    /// Join with the labels of a table if none was chosen: by a column that both tables have and that tells the rows apart.
    fn join_by_itself(&self, labels: &Table, choice: Choice<'_>) -> Option<Join> {
        let (Self::Table(data), None) = (self, choice.on()) else {
            return None;
        };
        let own: HashMap<&str, usize> = data.header().iter().map(String::as_str).zip(0..).collect();
        labels.header().iter().enumerate().find_map(|(at, name)| {
            let own = *own.get(name.as_str())?;
            let theirs = labels.key(at)?;
            Join::by_itself(name, data.key(own)?, theirs)
        })
    }
}

impl Labelled {
    /// The rows and their labels, without the rest.
    pub fn into_rows(self) -> (RowSource, Vec<String>) {
        let rows = RowSource::Memory {
            values: self.values,
            dim: self.dim,
        };
        (rows, self.labels.iter().map(str::to_owned).collect())
    }

    /// Reads rows and labels from files: a table or arrays with both, or numbers with a file of labels.
    ///
    /// If a file offers several columns or arrays and `choice` names none, the right one is guessed.
    ///
    /// # Errors
    /// [`Error::Data`] with the file, the place and what to do.
    pub fn read(data: &NamedFile, labels: Option<&NamedFile>, choice: Choice<'_>) -> Result<Self> {
        Self::of(data.into(), labels.map(Input::from), choice, |_| ())
    }

    /// Reads rows and labels from files on the disk: a table is held one part at a time, HDF5 and Parquet are read as needed, other
    /// files are held once. `say` hears how much of a table or of HDF5 is read.
    ///
    /// # Errors
    /// As [`Labelled::read`] and [`NamedFile::read`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open(
        data: &std::path::Path,
        labels: Option<&std::path::Path>,
        choice: Choice<'_>,
        say: impl Fn(Working),
    ) -> Result<Self> {
        let data = Input::open(data)?;
        Self::of(data, labels.map(Input::open).transpose()?, choice, say)
    }

    fn of(
        mut data: Input<'_>,
        labels: Option<Input<'_>>,
        choice: Choice<'_>,
        say: impl Fn(Working),
    ) -> Result<Self> {
        data.check()?;
        let name = data.name().to_owned();
        let has_columns = Format::of(&name).is_none_or(Format::is_table);
        if let Some(columns) = choice
            .columns
            .filter(|columns| !has_columns && !columns.is_empty())
        {
            return Err(columns.refusal(&name));
        }
        let mut rows = match (labels, Format::of(&name)) {
            (None, Some(Format::Npy)) => return Err(Self::alone(&name)),
            (labels, Some(format)) if format.has_arrays() => {
                return data.arrays(|arrays| Self::of_arrays(arrays, labels, choice, &say));
            }
            (Some(labels), Some(Format::Npy)) => {
                Self::beside(&name, data.matrix()?, None, Vec::new(), labels, choice)?
            }
            (labels, _) => {
                let own = choice.own(labels.is_some());
                return Self::of_table_beside(data.table(own, say)?, labels, choice);
            }
        };
        rows.settle(choice)?;
        Ok(rows)
    }

    /// Rows and labels of a table that was read, or its rows with the labels of a file.
    ///
    /// # Errors
    /// As [`Labelled::read`].
    pub fn of_table(table: Table, labels: Option<&NamedFile>, choice: Choice<'_>) -> Result<Self> {
        Self::of_table_beside(table, labels.map(Input::from), choice)
    }

    fn of_table_beside(
        mut table: Table,
        labels: Option<Input<'_>>,
        choice: Choice<'_>,
    ) -> Result<Self> {
        let mut rows = match labels {
            None => table.into_labelled(choice)?,
            Some(labels) => {
                let file = labels.name().to_owned();
                let read = Self::read_labels_of(labels, choice, Beside::Table(&mut table))?;
                let on = read.on.clone();
                let mut rows = table.beside_labels(read.labels, choice, on.as_deref())?;
                rows.on = on;
                let is_new = |(name, _): &(String, Texts)| {
                    rows.columns.iter().all(|(known, _)| known != name)
                };
                let beside: Vec<_> = read.columns.into_iter().filter(is_new).collect();
                rows.columns.extend(beside);
                let kept = read.column.filter(|name| rows.feature_names.contains(name));
                rows.notes.extend(read.notes);
                rows.notes.extend(kept.map(|name| {
                    let name = quoted(&name);
                    format!("kept {name} as a feature: its values are not the labels of {file}")
                }));
                rows
            }
        };
        rows.settle(choice)?;
        Ok(rows)
    }

    /// Refusal of an NPY file without a second file.
    pub fn alone(name: &str) -> Error {
        Error::Data(format!(
            "{name}: an NPY file holds features or labels, not both: give the two files at once (labels also as a CSV \
             column)"
        ))
    }

    /// The names that [`Choice::labels`] can take with the file that the labels come from.
    pub fn label_choices(file: &NamedFile) -> Vec<String> {
        let input = Input::from(file);
        let read = match Format::of(&file.name) {
            Some(Format::Npy) => Ok(Vec::new()),
            Some(format) if format.has_arrays() => {
                input.arrays(|arrays| Ok(arrays.label_choices()))
            }
            #[cfg(feature = "parquet")]
            Some(Format::Parquet) => input.parquet().map(|file| file.label_choices()),
            _ => input
                .table(Choice::default(), |_| ())
                .map(|table| table.header().to_vec()),
        };
        read.unwrap_or_default()
    }

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
            for row in self.values.chunks_exact_mut(self.dim) {
                own.copy_from_slice(row);
                for (value, place) in row.iter_mut().zip(&places) {
                    *value = own[*place];
                }
            }
            self.feature_names = names.to_vec();
        }
        Ok(self)
    }

    /// Reads an open file of arrays, with its own labels or those of another file.
    pub(super) fn of_arrays(
        arrays: arrays::Arrays<'_>,
        labels: Option<Input<'_>>,
        choice: Choice<'_>,
        say: &dyn Fn(Working),
    ) -> Result<Self> {
        let mut rows = match labels {
            None => arrays::read_labelled(arrays, choice, say)?,
            Some(labels) => {
                let name = arrays.name().to_owned();
                let (matrix, keys, notes) = arrays::read_features(arrays, choice, say)?;
                Self::beside(&name, matrix, keys, notes, labels, choice)?
            }
        };
        rows.settle(choice)?;
        Ok(rows)
    }

    /// Rows of features with the labels of another file.
    fn beside(
        name: &str,
        matrix: npy::Matrix,
        keys: Option<Texts>,
        notes: Vec<String>,
        labels: Input<'_>,
        choice: Choice<'_>,
    ) -> Result<Self> {
        let mut rows = Self {
            name: name.to_owned(),
            values: matrix.values,
            dim: matrix.columns,
            notes,
            ..Self::default()
        };
        let count = rows.rows();
        let beside = match keys {
            Some(keys) => Beside::Keyed(name, keys),
            None => Beside::Rows(name, count),
        };
        let read = Self::read_labels_of(labels, choice, beside)?;
        rows.on = read.on;
        rows.labels = read.labels;
        rows.columns = read.columns;
        rows.notes.extend(read.notes);
        Ok(rows)
    }

    fn rows(&self) -> usize {
        self.values.len().checked_div(self.dim).unwrap_or(0)
    }

    /// Tells features from labels among one or two files, of which `about` gives name and size: labels have a name like `y`
    /// or `labels`, or are the smaller.
    ///
    /// # Errors
    /// [`Error::Data`] when there are more files, or none.
    pub fn pair<F>(
        mut files: Vec<F>,
        about: impl Fn(&F) -> (String, u64),
    ) -> Result<(F, Option<F>)> {
        let named_like_labels = |name: &str| {
            let stem = name
                .rsplit(['/', '\\'])
                .next()
                .unwrap_or_default()
                .to_ascii_lowercase();
            let stem = stem.split('.').next().unwrap_or_default().to_owned();
            stem == "y"
                || ["label", "target", "class"]
                    .iter()
                    .any(|word| stem.contains(word))
        };
        order::sort_by_key(&mut files, |file| {
            let (name, bytes) = about(file);
            (named_like_labels(&name), std::cmp::Reverse(bytes))
        });
        let mut files = files.into_iter();
        match (files.next(), files.next(), files.next()) {
            (Some(data), labels, None) => Ok((data, labels)),
            _ => Err(Error::Data(
                "one file with features and labels, or two: features, and their labels".to_owned(),
            )),
        }
    }

    /// Reads the labels of the `rows` rows of the file `of`: an NPY of integers or strings, such an array of an NPZ, or a column of
    /// a table, guessed if it is not named.
    ///
    /// # Errors
    /// [`Error::Data`] when it holds no such labels, or more or fewer.
    pub fn read_labels(
        file: &NamedFile,
        choice: Choice<'_>,
        of: &str,
        rows: usize,
    ) -> Result<Labels> {
        Self::read_labels_of(file.into(), choice, Beside::Rows(of, rows))
    }

    /// Reads labels from a file on the disk.
    ///
    /// # Errors
    /// As [`Labelled::read_labels`] and [`NamedFile::read`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open_labels(
        path: &std::path::Path,
        chosen: Option<&str>,
        of: &str,
        rows: usize,
    ) -> Result<Labels> {
        let choice = Choice {
            labels: chosen,
            ..Choice::default()
        };
        let mut read = Self::read_labels_of(Input::open(path)?, choice, Beside::Rows(of, rows))?;
        read.notes.extend(unlabelled::note(&read.labels));
        Ok(read)
    }

    /// Reads labels for the rows `beside`; brings them into the order of the rows if keys join them.
    fn read_labels_of(
        mut file: Input<'_>,
        choice: Choice<'_>,
        mut beside: Beside<'_>,
    ) -> Result<Labels> {
        file.check()?;
        let name = file.name().to_owned();
        let known = beside.rows(usize::MAX);
        let check = |beside: &mut Beside<'_>, labels: usize| {
            let rows = beside.rows(labels);
            match choice.on() {
                Some(_) => Ok(()),
                None => check_counts(beside.name(), rows, &name, labels),
            }
        };
        let mut by_itself = None;
        let mut read = match Format::of(&name) {
            Some(Format::Npy) => Labels {
                labels: file.labels(|labels| check(&mut beside, labels))?,
                ..Labels::default()
            },
            Some(format) if format.has_arrays() => file.arrays(|arrays| {
                arrays::read_labels(arrays, choice, known, |labels| check(&mut beside, labels))
            })?,
            _ => {
                let mut table = file.table(choice.of_labels(), |_| ())?;
                // A first line of numbers is a label or a header; the number of rows decides.
                table.expect(beside.rows(table.rows()));
                by_itself = beside.join_by_itself(&table, choice);
                if by_itself.is_none() {
                    check(&mut beside, table.rows())?;
                }
                table.into_labels(choice)?
            }
        };
        let join = match choice.on() {
            Some(on) => Some(Join::new(
                on,
                beside.keys(on)?,
                read.keys(on, &name)?,
                beside.name(),
                &name,
            )?),
            None => by_itself,
        };
        if let Some(join) = join {
            let can_drop = choice.missing == Some(Missing::DropRows);
            read.notes.push(join.said(beside.name(), &name, can_drop)?);
            read.labels = join.ordered(&read.labels);
            for (_, texts) in &mut read.columns {
                *texts = join.ordered(texts);
            }
            read.on = Some(join.on);
        }
        let notes = class_names::settle(&mut read.labels);
        read.notes.extend(notes);
        Ok(read)
    }

    /// Updates the roles of columns for display: some may be left out by now because of cells without a number.
    pub(super) fn settle_table(&mut self) {
        for line in &mut self.table {
            let column = &mut line.column;
            let names = &self.feature_names;
            let is_left = || !names.is_empty() && !names.contains(&column.name);
            if self.missing == Missing::DropColumns && column.role == Role::Feature && is_left() {
                (column.role, column.reason) = (Role::Ignored, "cells without a number".to_owned());
            }
        }
        self.table = roles::shorten(std::mem::take(&mut self.table));
    }

    /// Checks the counts of rows and labels, treats cells without a number as chosen, and checks every value.
    fn settle(&mut self, choice: Choice<'_>) -> Result<()> {
        let missing = choice.missing;
        // Notes of a file of labels are there already.
        let mut notes = class_names::settle(&mut self.labels);
        notes.retain(|note| !self.notes.contains(note));
        self.notes.extend(notes);
        check_counts(&self.name, self.rows(), &self.name, self.labels.len())?;
        let chosen = choice
            .columns
            .and_then(|columns| columns.unlabelled.as_deref());
        unlabelled::settle(self, chosen, missing.is_some())?;
        self.unlabelled = chosen.map(<[String]>::to_vec);
        self.missing = missing.unwrap_or_default();
        self.missing.apply(self)?;
        self.settle_table();
        let Self {
            name, values, dim, ..
        } = self;
        match missing {
            Some(_) => {
                check_cells(name, values, *dim, 0).map_err(|error| counted(error, values))?;
            }
            None => check_values(name, values, *dim, 0)?,
        }
        let apart = choice.columns.map_or(&[][..], |columns| &columns.apart);
        look::look(self, apart);
        Ok(())
    }
}

/// Adds the number of such cells to the refusal of the first cell without a number.
fn counted(error: Error, values: &[f32]) -> Error {
    let count = values.iter().filter(|value| !value.is_finite()).count();
    match error {
        Error::Cells(message) if count > 1 => {
            let one = format!("the value is not finite, one of {count} such cells");
            Error::Cells(message.replace("the value is not finite", &one))
        }
        error => error,
    }
}

/// Index of the first value whose square, summed over a row of `dim` such values, is not finite in f32.
fn too_large(values: &[f32], dim: usize) -> Option<usize> {
    if all_are_small(values, dim) {
        return None;
    }
    let most = f64::from(f32::MAX) / dim.max(1) as f64;
    values
        .iter()
        .position(|value| f64::from(*value).powi(2) >= most)
}

/// Refuses rows with a value whose square, summed over a row, is not finite in f32; `rows` are the rows' numbers.
///
/// # Errors
/// [`Error::Data`] with the first such value and its place.
pub(crate) fn check_squares(rows: &[u32], values: &[f32], dim: usize) -> Result<()> {
    match too_large(values, dim) {
        None => Ok(()),
        Some(at) => Err(Error::Data(format!(
            "row {}, column {}: {:e} is too large to square: scale the rows",
            rows[at / dim] + 1,
            at % dim + 1,
            values[at]
        ))),
    }
}

/// Advice on a value that is not finite, if no treatment can be chosen for it.
const FIX_VALUES: &str = "fill or drop such rows";

/// Tells if all values are finite and far from too large to square. Nearly always they are; the loop has no branch for a value.
pub(super) fn all_are_small(values: &[f32], dim: usize) -> bool {
    let small = (f64::from(f32::MAX) / dim.max(1) as f64).sqrt() as f32 / 2.0;
    let small = |all, value: &f32| all & (value.abs() < small);
    values.iter().fold(true, small)
}

/// The ending of a name, in lower case.
pub(super) fn extension(name: &str) -> String {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending);
    ending.unwrap_or_default().to_ascii_lowercase()
}

/// Tells if a label stands for a missing one, as pandas, NumPy and R write it, apart from blanks at its ends. Case counts: `Na` may
/// be sodium.
pub(super) fn is_missing(label: &str) -> bool {
    [
        "", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "<NA>", "#N/A", "NaT",
    ]
    .contains(&label.trim())
}

/// Advice on a missing label; `can_drop` if such rows can be left out while reading.
pub(super) fn advice_on_missing(label: &str, can_drop: bool) -> String {
    let how = match can_drop {
        true if cfg!(target_arch = "wasm32") => " (\"leave such rows out\" does)",
        true => " (--missing drop-rows does)",
        false => "",
    };
    let drop = format!("every row needs a label: drop the rows without one{how}");
    match label.trim() {
        "" => drop,
        _ => format!(
            "{drop}, or, where {label} is the name of a class, give it another name, such as \"{label}_\""
        ),
    }
}

/// Refuses rows without labels, and labels without rows; they may come from one file.
pub(super) fn check_counts(
    name: &str,
    rows: usize,
    labels_name: &str,
    labels: usize,
) -> Result<()> {
    let problem = if rows == 0 {
        "no rows of features".to_owned()
    } else if labels != rows {
        let from = if name == labels_name {
            String::new()
        } else {
            format!(" in {labels_name}")
        };
        let missing = match labels + 1 == rows && Format::of(labels_name) == Some(Format::Table) {
            true => {
                ": where its first line is a label, write a line above it that names the column"
            }
            false => "",
        };
        format!("{rows} rows of features, {labels} labels{from}: they must be as many{missing}")
    } else {
        return Ok(());
    };
    Err(Error::Data(format!("{name}: {problem}")))
}

/// As [`check_values`], but with the choices for cells without a number in the error.
pub(super) fn check_cells(name: &str, values: &[f32], dim: usize, first: usize) -> Result<()> {
    let is_finite = || values.iter().all(|value| value.is_finite());
    match check_values(name, values, dim, first) {
        Err(Error::Data(message)) if !is_finite() => {
            Err(Error::Cells(message.replace(FIX_VALUES, Missing::ADVICE)))
        }
        checked => checked,
    }
}

/// Refuses a value that is not finite, or so large that its square is not; `values` begin with row `first`.
pub(super) fn check_values(name: &str, values: &[f32], dim: usize, first: usize) -> Result<()> {
    if all_are_small(values, dim) {
        return Ok(());
    }
    let infinite = values.iter().position(|value| !value.is_finite());
    let (at, problem) = match (infinite, too_large(values, dim)) {
        (None, None) => return Ok(()),
        (Some(at), _) => (at, format!("the value is not finite: {FIX_VALUES}")),
        // Larger numbers of 64 bits were read as this one.
        (None, Some(at)) if values[at].abs() == f32::MAX => {
            let problem = "too large for 32-bit floats (3.4e38 at most): scale the features";
            (at, problem.to_owned())
        }
        (None, Some(at)) => {
            let value = values[at];
            let problem = format!("{value:e} is too large to square: scale the features");
            (at, problem)
        }
    };
    let (row, column) = (first + at / dim + 1, at % dim + 1);
    Err(Error::Data(format!(
        "{name}: row {row}, column {column}: {problem}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Dataset;

    #[test]
    fn labels_are_told_from_features_by_name_and_then_by_size() {
        let pair = |files: &[(&'static str, u64)]| {
            let about = |(name, bytes): &(&str, u64)| ((*name).to_owned(), *bytes);
            let (data, labels) = Labelled::pair(files.to_vec(), about).expect("one or two");
            (data.0, labels.map(|labels| labels.0))
        };
        let named = ("x.npy", Some("y.npy"));
        assert_eq!(pair(&[("y.npy", 900), ("x.npy", 100)]), named);
        let named = ("a.npy", Some("Train_Labels.csv"));
        assert_eq!(pair(&[("Train_Labels.csv", 9), ("a.npy", 1)]), named);
        let smaller = ("b.npy", Some("a.npy"));
        assert_eq!(pair(&[("a.npy", 1), ("b.npy", 2)]), smaller);
        assert_eq!(pair(&[("t.csv", 1)]), ("t.csv", None));
        let none: Vec<&str> = Vec::new();
        assert!(Labelled::pair(none, |name| ((*name).to_owned(), 0)).is_err());
    }

    #[test]
    fn what_cannot_be_trained_on_is_refused_with_the_place() {
        let refuse = |values: &[f32], dim, labels: &[&str]| {
            let mut rows = Labelled {
                name: "x.npy".to_owned(),
                values: values.to_vec(),
                dim,
                labels: labels.iter().collect(),
                ..Labelled::default()
            };
            rows.settle(Choice::default())
                .and_then(|()| Dataset::new(rows))
                .expect_err("refused")
                .to_string()
        };
        assert_eq!(
            refuse(&[1.0, 2.0, 3.0, f32::NAN], 2, &["a", "b"]),
            "x.npy: row 2, column 2: the value is not finite: fill or drop such rows"
        );
        assert_eq!(
            refuse(&[1.0, 2.0], 1, &["a", "b", "c"]),
            "x.npy: 2 rows of features, 3 labels: they must be as many"
        );
        assert_eq!(
            refuse(&[1.0, 2.0], 1, &["a", "a"]),
            "x.npy: every row has the label \"a\": metric learning needs two classes at least"
        );
        assert_eq!(
            refuse(&[1.0, 2.0, 3.0, -1e20], 2, &["a", "b"]),
            "x.npy: row 2, column 2: -1e20 is too large to square: scale the features"
        );
        assert!(refuse(&[], 0, &[]).contains("no rows of features"));
    }
}
