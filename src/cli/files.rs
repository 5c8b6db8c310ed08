//! Input files: unreadable ones are refused.

use std::path::Path;

use clap::Args;
use nearfar::{
    Choice, ColumnRole, Columns, Dataset, Distance, Format, Hdf5File, Head, Labelled, Marks,
    Missing, NamedFile, NpyRows, Result, RowSource, Rows, TableColumn, TableReader, Texts, Working,
    group_column, look_alike,
};

use super::columns::{ColumnOptions, GroupOption, columns_as_in, say_columns};
use super::survey::survey;
use super::{note_line, progress};

/// Reads a file whole.
pub(super) fn read(path: &Path) -> Result<NamedFile> {
    NamedFile::read(path)
}

/// Checks that a path ends in a dot and this, in any case.
fn has_ending(path: &Path, ending: &str) -> bool {
    let own = path.extension();
    own.is_some_and(|own| own.eq_ignore_ascii_case(ending))
}

/// Format of a file that is read in place; `None` if it has to be unpacked first.
fn open_format(path: &Path) -> Option<Format> {
    Format::of(&path.to_string_lossy()).filter(|_| !has_ending(path, "gz"))
}

/// Opens an HDF5 file; `None` for other formats.
fn hdf5(path: &Path) -> Result<Option<Hdf5File>> {
    let is_hdf5 = open_format(path) == Some(Format::Hdf5);
    is_hdf5.then(|| Hdf5File::open(path)).transpose()
}

/// The file of `FILE[:ARRAY]`, which must be AnnData with `rows` cells, so that embeddings can be added.
///
/// # Errors
/// [`nearfar::Error::Data`] for other AnnData, [`nearfar::Error::Config`] for other files.
pub(super) fn cells(data: &str, rows: usize) -> Result<&Path> {
    let path = array(data).0;
    let file = hdf5(path)?.ok_or_else(|| {
        let why = "no AnnData file that is not packed: embeddings go to an .h5ad only where their rows come from one";
        nearfar::Error::Config(format!("{data}: {why}"))
    })?;
    file.check_cells(rows).map(|()| path)
}

/// Tells by the name if a file is AnnData.
pub(super) fn is_cells(path: &Path) -> bool {
    has_ending(path, "h5ad")
}

/// Splits `FILE.npz:ARRAY`, for a file of any format with arrays or with columns of lists, if there is no file of the whole name.
fn array(text: &str) -> (&Path, Option<&str>) {
    let colons = text.rmatch_indices(':').map(|(colon, _)| colon);
    let mut splits = colons.map(|colon| (&text[..colon], &text[colon + 1..]));
    let has_parts = |file: &str| {
        let format = Format::of(file);
        format.is_some_and(|format| format.has_arrays() || format.is_table())
    };
    match splits.find(|(file, _)| has_parts(file)) {
        Some((file, array)) if !Path::new(text).exists() => (Path::new(file), Some(array)),
        _ => (Path::new(text), None),
    }
}

/// Rows without labels: an open NPY file, an array among several, or the numeric columns of a table, in the order of `other`, the
/// rows that they are compared with.
pub(super) fn rows(
    data: &str,
    columns: &Columns,
    other: Option<&LabelledRows>,
) -> Result<LabelledRows> {
    let read = |columns: &Columns| features(data, &[], None, &[], columns, other);
    as_in(columns, other, read)
}

/// Reads rows with the columns of `other`, the rows that they are compared with, whatever their file alone would choose; with the
/// chosen columns if the file has no columns of these names.
fn as_in<T>(
    columns: &Columns,
    other: Option<&LabelledRows>,
    read: impl Fn(&Columns) -> Result<T>,
) -> Result<T> {
    let alike = other.and_then(|other| columns_as_in(&other.table, &other.names, columns));
    match alike {
        Some(alike) => read(&alike).or_else(|_| read(columns)),
        None => read(columns),
    }
}

/// Rows for a head: the table's columns with the names of the head's features, or as many numeric ones as it takes; cells without a
/// number are filled as in training.
pub(super) fn rows_for(data: &str, head: &Head, marks: Marks) -> Result<RowSource> {
    let (names, inputs) = (&head.features, Some(head.inputs()));
    let columns = Columns {
        marks,
        ..Columns::default()
    };
    Ok(features(data, names, inputs, &head.filled, &columns, None)?.rows)
}

fn features(
    data: &str,
    names: &[String],
    inputs: Option<usize>,
    filled: &[(usize, f32)],
    columns: &Columns,
    other: Option<&LabelledRows>,
) -> Result<LabelledRows> {
    let (path, array) = array(data);
    let group = columns.apart.first();
    if let Some(name) = group
        && !Format::of(&path.to_string_lossy()).is_none_or(Format::is_table)
    {
        return Err(nearfar::Error::Config(format!(
            "group: {data} has no columns, and so no {name}: give a table (CSV, JSON Lines, Parquet)"
        )));
    }
    if !columns.is_empty() && !Format::of(&path.to_string_lossy()).is_none_or(Format::is_table) {
        return Err(columns.refusal(data));
    }
    if has_ending(path, "npy") {
        let mut rows = NpyRows::open(path)?;
        if !filled.is_empty() {
            rows.fill(filled);
        }
        return Ok(LabelledRows::of_array(data, rows, Vec::new()));
    }
    if Format::of(&path.to_string_lossy()).is_some_and(Format::has_arrays) {
        let (rows, notes) = RowSource::open_arrays(path, array, filled)?;
        say(&path.display().to_string(), &notes);
        return Ok(LabelledRows::of_array(data, rows, notes));
    }
    // The head's features are named after the list that it was trained on.
    let format = Format::of(&path.to_string_lossy());
    // A folder is one of Parquet files.
    let is_typed = path.is_dir() || matches!(format, Some(Format::JsonLines | Format::Parquet));
    let first = names.first().filter(|_| is_typed);
    let choice = Choice {
        features: array.or_else(|| first.and_then(|name| name.strip_suffix("[0]"))),
        columns: Some(columns),
        ..Choice::default()
    };
    let table = watched(|say| TableReader::open(path, choice, say))?;
    let rows = table.into_features(names, inputs, filled, columns)?;
    let groups = group
        .map(|name| group_column(&rows.columns, name))
        .transpose()?;
    let groups = groups.map(|cells| cells.iter().map(str::to_owned).collect());
    Ok(LabelledRows {
        groups,
        ..LabelledRows::new(rows, other)?
    })
}

/// Rows with labels, and what they are held against.
#[derive(Debug, Args)]
pub(super) struct LabelledFiles {
    /// The rows: NPY, NPZ, safetensors, HDF5, CSV, JSON Lines or Parquet, of any length but zero
    #[arg(long, value_name = "FILE[:ARRAY]")]
    embeddings: String,
    /// The class of each row: a column (CSV, JSON Lines, Parquet) or array (NPZ, safetensors) of the same file by its
    /// name, or another file, with a column or array of it after a colon [default: found by its name or type]
    #[arg(long, value_name = "COLUMN|FILE[:COLUMN]")]
    labels: Option<String>,
    /// The rows that they are compared with [default: each other, every row without itself]
    #[arg(long, value_name = "FILE[:ARRAY]")]
    references: Option<String>,
    /// The class of each of those, as for --labels
    #[arg(long, value_name = "COLUMN|FILE[:COLUMN]", requires = "references")]
    reference_labels: Option<String>,
    #[command(flatten)]
    columns: ColumnOptions,
}

/// Rows with a label each.
#[derive(Debug)]
pub(super) struct LabelledRows {
    pub(super) rows: RowSource,
    pub(super) labels: Vec<String>,
    /// Group of each row, if a group column was named.
    pub(super) groups: Option<Vec<String>>,
    /// Name of the file, and of its columns if they have names.
    name: String,
    names: Vec<String>,
    /// Roles of the columns, and other notes of reading.
    table: Vec<TableColumn>,
    notes: Vec<String>,
}

impl LabelledFiles {
    /// Files that are read, as they were given.
    pub(super) fn inputs(&self) -> Vec<&str> {
        let references = [&self.labels, &self.references, &self.reference_labels];
        let references = references.into_iter().flatten().map(String::as_str);
        std::iter::once(self.embeddings.as_str())
            .chain(references)
            .collect()
    }

    pub(super) fn read(&self) -> Result<(LabelledRows, Option<LabelledRows>)> {
        self.read_with(self.columns.columns()?)
    }

    /// Reads the rows with the group of each.
    pub(super) fn read_grouped(
        &self,
        group: &GroupOption,
    ) -> Result<(LabelledRows, Option<LabelledRows>)> {
        self.read_with(group.apart_of(self.columns.columns()?))
    }

    fn read_with(&self, columns: Columns) -> Result<(LabelledRows, Option<LabelledRows>)> {
        let labels = self.labels.as_deref();
        let embeddings = labelled_rows(&self.embeddings, labels, &columns, None)?;
        let references = self.references.as_deref().map(|references| {
            labelled_rows(
                references,
                self.reference_labels.as_deref(),
                &columns,
                Some(&embeddings),
            )
        });
        let references = references.transpose()?;
        if let Some(references) = &references {
            let labels = embeddings.labels.iter().chain(&references.labels);
            let note = look_alike(labels.map(String::as_str));
            say(
                self.references.as_deref().unwrap_or_default(),
                note.as_slice(),
            );
        }
        Ok((embeddings, references))
    }
}

/// Surveys rows and the rows that they are compared with, and refuses incomparable ones, as the work would.
pub(super) fn compare(
    files: &LabelledFiles,
    rows: &LabelledRows,
    references: Option<&LabelledRows>,
    distance: Distance,
) -> Result<Vec<String>> {
    let known = references.unwrap_or(rows);
    rows.rows().check_against(known.rows())?;
    let mut named = vec![(files.embeddings.as_str(), &rows.rows)];
    if let (Some(name), Some(references)) = (&files.references, references) {
        named.push((name, &references.rows));
    }
    survey(&named, distance)
}

impl LabelledRows {
    /// Rows of a table, its columns in the order of `other`, the rows that they are compared with; prints the notes of reading.
    fn new(rows: Labelled, other: Option<&Self>) -> Result<Self> {
        let rows = match other {
            Some(other) => rows.ordered_as(&other.names, &other.name)?,
            None => rows,
        };
        say(&rows.name, &rows.notes);
        let lines = rows.table.iter();
        say_columns(lines.map(|line| (line.column.clone(), &line.first[..])));
        let (name, names) = (rows.name.clone(), rows.feature_names.clone());
        let (table, notes) = (rows.table.clone(), rows.notes.clone());
        let (rows, labels) = rows.into_rows();
        Ok(Self {
            rows,
            labels,
            groups: None,
            name,
            names,
            table,
            notes,
        })
    }

    /// Notes of reading, for a report.
    pub(super) fn said(&self) -> serde_json::Value {
        let columns: Vec<&ColumnRole> = self.table.iter().map(|line| &line.column).collect();
        serde_json::json!({ "name": self.name, "columns": columns, "notes": self.notes })
    }

    /// Rows that were computed here.
    pub(super) fn made(rows: RowSource, labels: Vec<String>, groups: Option<Vec<String>>) -> Self {
        Self {
            labels,
            groups,
            ..Self::of_array("", rows, Vec::new())
        }
    }

    /// Rows of a file of this name whose columns have no names.
    fn of_array(name: &str, rows: RowSource, notes: Vec<String>) -> Self {
        Self {
            rows,
            labels: Vec::new(),
            groups: None,
            name: name.to_owned(),
            names: Vec::new(),
            table: Vec::new(),
            notes,
        }
    }

    pub(super) fn rows(&self) -> Rows<'_> {
        Rows {
            rows: &self.rows,
            labels: &self.labels,
        }
    }
}

/// Rows with their labels alone; rows of an NPY file are read when they are needed.
pub(super) fn labelled_rows(
    data: &str,
    labels: Option<&str>,
    columns: &Columns,
    other: Option<&LabelledRows>,
) -> Result<LabelledRows> {
    let read = |columns: &Columns| labelled_rows_of(data, labels, columns, other);
    as_in(columns, other, read)
}

fn labelled_rows_of(
    data: &str,
    labels: Option<&str>,
    columns: &Columns,
    other: Option<&LabelledRows>,
) -> Result<LabelledRows> {
    // A column that is given beside the labels is read without being chosen.
    let is_chosen = !columns.is_empty() || columns.unlabelled.is_some() || columns.on.is_some();
    let group = columns.apart.first();
    let groups = |columns: &[(String, Texts)]| -> Result<Option<Vec<String>>> {
        let column = group.map(|name| group_column(columns, name)).transpose()?;
        Ok(column.map(|column| column.iter().map(str::to_owned).collect()))
    };
    if let (path, (Some(file), column)) = (Path::new(data), labels_of(data, labels))
        && has_ending(path, "npy")
        && !is_chosen
    {
        let rows = NpyRows::open(path)?;
        let read = Labelled::open_labels(file, column, data, rows.rows())?;
        say(&file.display().to_string(), &read.notes);
        return Ok(LabelledRows {
            labels: read.labels.iter().map(str::to_owned).collect(),
            groups: groups(&read.columns)?,
            ..LabelledRows::of_array(data, rows, read.notes)
        });
    }
    let read = labelled(data, labels, None, Some(columns))?;
    let groups = groups(&read.columns)?;
    Ok(LabelledRows {
        groups,
        ..LabelledRows::new(read, other)?
    })
}

/// Reads labelled rows: a file with its labels, which `labels` gives as a file, as `FILE:COLUMN` or `FILE.npz:ARRAY`, or as a
/// column or array of the data.
fn labelled(
    data: &str,
    labels: Option<&str>,
    missing: Option<Missing>,
    columns: Option<&Columns>,
) -> Result<Labelled> {
    let (file, column) = labels_of(data, labels);
    let (data, features) = array(data);
    // Labels in the data's own table or arrays, given by the full name: the file is read once, and the label is no feature.
    let file = file.filter(|file| has_ending(data, "npy") || !is_same(file, data));
    let choice = Choice {
        features,
        labels: column,
        missing,
        columns,
    };
    watched(|say| Labelled::open(data, file, choice, say))
}

/// Reads a file, and shows the progress.
fn watched<T>(read: impl FnOnce(&dyn Fn(Working)) -> Result<T>) -> Result<T> {
    let tasks = progress::Tasks::default();
    let read = read(&|working| tasks.hear(&working));
    tasks.finish();
    read
}

/// Tells if two paths lead to one file.
fn is_same(path: &Path, other: &Path) -> bool {
    let both = path.canonicalize().ok().zip(other.canonicalize().ok());
    path == other || both.is_some_and(|(path, other)| path == other)
}

/// File of the labels, if it is not the data's, and the column or array of either.
fn labels_of<'a>(data: &str, labels: Option<&'a str>) -> (Option<&'a Path>, Option<&'a str>) {
    // Endings of files that can be read, and of some that cannot.
    const OTHERS: [&str; 4] = ["gz", "json", "pkl", "xlsx"];
    let is_file = |path: &Path| path.exists() && !path.is_dir();
    // A missing file counts as one too, by its ending or its folder, or if the data has no columns.
    let meant = |text: &str| {
        let path = Path::new(text);
        is_file(path)
            || Format::endings()
                .chain(OTHERS)
                .any(|ending| has_ending(path, ending))
            || (text.contains('/')
                // The name of a column may contain a slash, too.
                && path.parent().is_some_and(Path::is_dir)
                && Format::of(&array(data).0.to_string_lossy()) != Some(Format::Hdf5))
            || has_ending(Path::new(data), "npy")
    };
    match labels {
        None => (None, None),
        Some(path) if is_file(Path::new(path)) => (Some(Path::new(path)), None),
        Some(text) => match (array(text), text.rsplit_once(':')) {
            ((path, Some(array)), _) => (Some(path), Some(array)),
            (_, Some((path, column))) if meant(path) => (Some(Path::new(path)), Some(column)),
            _ if meant(text) => (Some(Path::new(text)), None),
            _ => (None, Some(text)),
        },
    }
}

/// Prints notes of reading on standard error.
fn say(name: &str, notes: &[String]) {
    for note in notes {
        note_line(format_args!("{name}: {note}"));
    }
}

/// Reads a data set: a sample, or a file with its labels, with this treatment of cells without a number.
pub(super) fn dataset(
    data: &str,
    labels: Option<&str>,
    missing: Missing,
    columns: &Columns,
    seed: u64,
) -> Result<Dataset> {
    match data.strip_prefix("sample:") {
        Some(_) if !columns.is_empty() => Err(columns.refusal(data)),
        Some(sample) => Dataset::sample(sample, seed),
        None => Dataset::new(labelled(data, labels, Some(missing), Some(columns))?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn an_array_stands_after_the_colon_of_an_npz() {
        let split = |text| {
            let (path, array) = array(text);
            (path.display().to_string(), array)
        };
        assert_eq!(split("a/x.npz:g/y"), ("a/x.npz".to_owned(), Some("g/y")));
        assert_eq!(split("C:\\x.NPZ:y"), ("C:\\x.NPZ".to_owned(), Some("y")));
        assert_eq!(split("x.npz"), ("x.npz".to_owned(), None));
        assert_eq!(split("x.csv:y"), ("x.csv".to_owned(), Some("y")));
        assert_eq!(split("x.npy:y"), ("x.npy:y".to_owned(), None));
    }
}
