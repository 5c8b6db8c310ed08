//! The data of a command that trains: its files, their reading, and notes on them.

use clap::Args;
use nearfar::{
    ColumnRole, Columns, Dataset, DeviceInfo, Marks, Missing, Origin, Result, Role, SAMPLES,
    TableColumn, TrainConfig,
};

use super::{files, note_line};

/// Rows with a class each, and maybe others for the test.
#[derive(Debug, Args)]
pub(super) struct DataFiles {
    /// Rows of numbers: a CSV with a header, JSON Lines, Parquet, an NPY, NPZ, safetensors, AnnData or HDF5 file, each also as .gz;
    /// a folder of Parquet files, or a pattern of their names ("part-*.parquet"), which are one table; or a built-in sample
    /// (sample:mirrored, sample:many-classes, sample:digits, sample:cells, sample:large). Of several arrays, or lists of numbers a
    /// row, one is named after a colon [default: sample:mirrored]
    #[arg(long, value_name = "FILE[:ARRAY]")]
    pub(super) data: Option<String>,
    /// The class of each row: a column (CSV) or array (NPZ, safetensors) of the data by its name, or another file, with a column or
    /// array of it after a colon [default: found by its name or type]
    #[arg(long, value_name = "COLUMN|FILE[:COLUMN]")]
    pub(super) labels: Option<String>,
    /// Rows that are kept for the test at the end; then all rows of --data train and validate [default: part of --data]
    #[arg(long, value_name = "FILE[:ARRAY]")]
    pub(super) test_data: Option<String>,
    /// The class of each test row, as for --labels
    #[arg(long, value_name = "COLUMN|FILE[:COLUMN]", requires = "test_data")]
    pub(super) test_labels: Option<String>,
    /// What becomes of cells that are empty, not finite or no number: refuse the file, drop-rows, drop-columns, or fill with
    /// the median of the column
    #[arg(long, value_name = "POLICY", default_value = "refuse", value_parser = Missing::named)]
    pub(super) missing: Missing,
    #[command(flatten)]
    pub(super) columns: ColumnOptions,
    #[command(flatten)]
    pub(super) group: GroupOption,
}

/// Which columns of a table are features.
#[derive(Debug, Args)]
pub(super) struct ColumnOptions {
    /// The columns of the table that are features: names, patterns (`x_*`) and stretches (`width..mass`), parted by commas
    /// [default: every column of numbers but the label, row numbers and codes of the label]
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    features: Vec<String>,
    /// Columns that are no features, named likewise
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    ignore: Vec<String>,
    /// Labels that mean that a row has no class: such rows are left out. With `none` every label is a class [default: train and compare
    /// leave out Unknown and the like, and -1 beside labels from 0 on; other commands only say that there are such rows]
    #[arg(
        long,
        value_name = "LABEL,..",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    unlabelled: Option<Vec<String>>,
    /// The column that says which row is which, in the data and in a file of labels whose rows stand in another order: labels are
    /// joined by it [default: found where a column of both names every row of the data, else rows are in the same order]
    #[arg(long, value_name = "NAME")]
    on: Option<String>,
    #[command(flatten)]
    marks: MarkOptions,
}

/// How the numbers of a table are written.
#[derive(Debug, Args)]
pub(super) struct MarkOptions {
    /// The mark before the fraction in the numbers of a table: a point or a comma; the other then stands between thousands
    /// [default: told by the columns]
    #[arg(long, value_name = "MARK")]
    decimal: Option<char>,
    /// The mark between thousands: a point, a comma, a blank or an apostrophe [default: told by the columns]
    #[arg(long, value_name = "MARK")]
    thousands: Option<char>,
}

impl MarkOptions {
    pub(super) fn marks(&self) -> Result<Marks> {
        let (decimal, thousands) = (self.decimal, self.thousands);
        let marks = Marks { decimal, thousands };
        marks.check().map(|()| marks)
    }
}

/// Which rows belong together.
#[derive(Debug, Args)]
pub(super) struct GroupOption {
    /// The column that says which rows belong together: of one donor, subject, camera or document. A row is then searched among
    /// those of other groups, and `train` and `compare` split by group where they would split at random
    #[arg(long, value_name = "NAME")]
    pub(super) group: Option<String>,
}

impl GroupOption {
    /// These columns with the group column kept beside the features.
    pub(super) fn apart_of(&self, columns: Columns) -> Columns {
        Columns {
            apart: self.group.iter().cloned().collect(),
            ..columns
        }
    }
}

impl ColumnOptions {
    pub(super) fn columns(&self) -> Result<Columns> {
        Ok(Columns {
            features: self.features.clone(),
            ignore: self.ignore.clone(),
            unlabelled: self.unlabelled.clone(),
            apart: Vec::new(),
            marks: self.marks.marks()?,
            on: self.on.clone(),
        })
    }
}

impl DataFiles {
    /// Settings from the options on columns.
    pub(super) fn sets(&self) -> Vec<String> {
        let group = self.group.group.as_ref();
        let mut sets: Vec<String> = group
            .map(|name| format!("group={name}"))
            .into_iter()
            .collect();
        for (key, names) in [
            ("features", &self.columns.features),
            ("ignore", &self.columns.ignore),
        ] {
            if !names.is_empty() {
                sets.push(format!("{key}={}", serde_json::json!(names)));
            }
        }
        sets
    }

    /// Origin of the data, from the options.
    pub(super) fn origin(&self) -> Result<Origin> {
        let sample = || format!("sample:{}", SAMPLES[0]);
        Ok(Origin {
            data: self.data.clone().unwrap_or_else(sample),
            labels: self.labels.clone(),
            test_data: self.test_data.clone(),
            test_labels: self.test_labels.clone(),
            missing: self.missing,
            columns: self.columns.columns()?,
        })
    }
}

/// Reads the data.
pub(super) async fn read(origin: &Origin, seed: u64) -> Result<Dataset> {
    let Origin {
        data,
        labels,
        test_data,
        test_labels,
        missing,
        columns,
    } = origin;
    let dataset = files::dataset(data, labels.as_deref(), *missing, columns, seed)?;
    match test_data {
        Some(test) => {
            let read = |columns: &Columns| {
                files::dataset(test, test_labels.as_deref(), *missing, columns, seed)
            };
            // If it has no such columns, the same number of columns by their order may do, or the error names what is missing.
            let test = match columns_as_in(&dataset.table, &dataset.feature_names, columns) {
                Some(alike) => read(&alike).or_else(|_| read(columns)),
                None => read(columns),
            };
            let test = test?;
            dataset.append(&test).await
        }
        None => Ok(dataset),
    }
}

/// Columns of a second file: the features of the first, of this table and with these names, by their names, whatever the second
/// file alone would choose; `None` if the features have no names.
pub(super) fn columns_as_in(
    table: &[TableColumn],
    names: &[String],
    columns: &Columns,
) -> Option<Columns> {
    let mut features = table
        .iter()
        .filter(|line| line.column.role == Role::Feature);
    let are_named = !names.is_empty() && features.all(|line| line.named);
    (are_named && !table.is_empty()).then(|| Columns {
        features: names.to_vec(),
        ignore: Vec::new(),
        ..columns.clone()
    })
}

/// Files of the data.
pub(super) fn inputs(origin: &Origin) -> Vec<&str> {
    let Origin {
        data,
        labels,
        test_data,
        test_labels,
        missing: _,
        columns: _,
    } = origin;
    let others = [labels, test_data, test_labels].into_iter().flatten();
    std::iter::once(data)
        .chain(others)
        .map(String::as_str)
        .collect()
}

/// Prints the role of each column, the reason, and its first cells.
pub(super) fn say_columns<'a>(lines: impl Iterator<Item = (ColumnRole, &'a [String])>) {
    let lines: Vec<[String; 4]> = lines
        .map(|(column, first)| {
            let cells: Vec<String> = first.iter().map(|cell| quoted_where_blank(cell)).collect();
            [
                column.name,
                column.role.name().to_owned(),
                column.reason,
                cells.join(", "),
            ]
        })
        .collect();
    if lines.is_empty() {
        return;
    }
    let heads = ["column", "taken for", "because", "first rows"];
    let width = |at: usize| {
        let cells = lines.iter().map(|line| line[at].chars().count());
        cells.chain([heads[at].len()]).max().unwrap_or(0)
    };
    let widths = [0, 1, 2].map(width);
    let print = |line: [&str; 4]| {
        let [name, role, reason, cells] = line;
        let line = format!(
            "{name:<0$}  {role:<1$}  {reason:<2$}  {cells}",
            widths[0], widths[1], widths[2]
        );
        note_line(format_args!("  {}", line.trim_end()));
    };
    print(heads);
    lines
        .iter()
        .for_each(|line| print(line.each_ref().map(String::as_str)));
}

/// A cell in a list of cells, in quotes if it is empty.
fn quoted_where_blank(cell: &str) -> String {
    match cell {
        "" => "\"\"".to_owned(),
        cell => cell.to_owned(),
    }
}

pub(super) fn describe(dataset: &Dataset, config: &TrainConfig, device: &DeviceInfo) {
    let software = if device.software {
        ", a software adapter: right but slow"
    } else {
        ""
    };
    note_line(format_args!(
        "{} on {} ({}{software})",
        device.engine, device.adapter, device.backend
    ));
    note_line(format_args!(
        "{}: {} rows, {} features, {} classes",
        dataset.name,
        dataset.rows(),
        dataset.features.dim(),
        dataset.class_names.len()
    ));
    let roles = dataset.column_roles(config).into_iter();
    say_columns(roles.zip(dataset.table.iter().map(|line| &line.first[..])));
    for note in &dataset.notes {
        note_line(format_args!("  {note}"));
    }
}
