//! [`Labelled`] rows from files of any format: a table or arrays with rows and labels, or rows with the labels of another file.

#[cfg(feature = "hdf5")]
use super::Hdf5File;
#[cfg(feature = "parquet")]
use super::ParquetFile;
use super::arrays::{self, Arrays};
use super::input::Input;
use super::labels::Beside;
use super::{Format, NamedFile, Table, npy};
use crate::base::error::{Error, Result};
use crate::base::order;
use crate::base::quote::quoted;
use crate::base::working::Working;
use crate::data::{Choice, Labelled, Texts};

impl Labelled {
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
            (None, Some(format)) if format.is_matrix() => return Err(Self::alone(&name)),
            (labels, Some(format)) if format.has_arrays() => {
                return data.arrays(|arrays| Self::of_arrays(arrays, labels, choice, &say));
            }
            (Some(labels), Some(format)) if format.is_matrix() => {
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
                rows.label_beside.clone_from(&read.column);
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
            Some(format) if format.is_matrix() => Ok(Vec::new()),
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

    /// Reads an open file of arrays, with its own labels or those of another file.
    pub(super) fn of_arrays(
        arrays: Arrays<'_>,
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
        rows.label_beside = read.column;
        rows.labels = read.labels;
        rows.columns = read.columns;
        rows.notes.extend(read.notes);
        Ok(rows)
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
                "The data is one file with features and labels, or two: the features, and their labels. Choose no others beside them"
                    .to_owned(),
            )),
        }
    }
}

#[cfg(feature = "hdf5")]
impl Hdf5File {
    /// Reads rows and labels, as [`Labelled::read`] does; `say` hears how much of the features is read.
    ///
    /// # Errors
    /// [`Error::Data`] with the file, the array and what to do.
    pub fn labelled(
        &self,
        labels: Option<&NamedFile>,
        choice: Choice<'_>,
        say: impl Fn(Working),
    ) -> Result<Labelled> {
        let arrays = Arrays::of(self)?;
        Labelled::of_arrays(arrays, labels.map(Into::into), choice, &say)
    }

    /// The names that [`Choice::labels`] can take.
    pub fn label_choices(&self) -> Vec<String> {
        Arrays::of(self).map_or_else(|_| Vec::new(), |arrays| arrays.label_choices())
    }
}

#[cfg(feature = "parquet")]
impl ParquetFile {
    /// Reads rows and labels, as [`Labelled::read`] does; `say` hears how many rows are read.
    ///
    /// # Errors
    /// [`Error::Data`] with the file, the place and what to do.
    pub fn labelled(
        &self,
        labels: Option<&NamedFile>,
        choice: Choice<'_>,
        say: impl Fn(Working),
    ) -> Result<Labelled> {
        let own = choice.own(labels.is_some());
        Labelled::of_table(self.table(own, &say)?, labels, choice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
