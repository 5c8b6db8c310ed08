//! The data of a command that trains: its files, their reading, and notes on them.

use clap::Args;
use nearfar::{Columns, Dataset, DeviceInfo, Error, Missing, Origin, Result, SAMPLES, TrainConfig};

use super::columns::{ColumnOptions, GroupOption, columns_as_in, say_columns};
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

    /// Checks that no split is set where a file is the test side.
    pub(super) fn check_split(&self, sets: &[String]) -> Result<()> {
        match self.test_data.is_some() && sets.iter().any(|set| set.starts_with("split=")) {
            true => Err(Error::Config(
                "split: the rows of --test-data are the test side: leave out split or --test-data"
                    .to_owned(),
            )),
            false => Ok(()),
        }
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
