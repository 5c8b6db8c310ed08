//! [`Dataset`]: labelled feature vectors, from a sample or from a person's files.
//!
//! One file a format. Whatever is wrong with a file is said with its name, the place, and what to do.

mod csv;
mod digits;
mod labelled;
mod many_classes;
pub(crate) mod npy;
mod npz;
mod rows;
mod split;

use std::collections::HashMap;

pub use csv::CsvTable;
pub use labelled::{Choice, Labelled, NamedFile};
pub use npy::{matrix_header, write_matrix};
#[cfg(not(target_arch = "wasm32"))]
pub use npz::{NpyElement, NpzWriter};
#[cfg(not(target_arch = "wasm32"))]
pub use rows::NpyRows;
pub use rows::RowSource;
pub use split::{Side, Sides};

use crate::config::{Split, TrainConfig};
use crate::error::{Error, Result};

/// Feature vectors with a class each.
#[derive(Debug)]
pub struct Dataset {
    /// Where they come from: a sample's or a file's name.
    pub name: String,
    /// `[rows, dim]`, finite.
    pub features: RowSource,
    /// The class of each row, an index into `class_names`.
    pub labels: Vec<u32>,
    /// The names of the classes in label order: by number where all are integers, else by text.
    pub class_names: Vec<String>,
    /// The column or array that the labels come from, where a table or an NPZ has several.
    pub label_column: Option<String>,
    /// Text columns beside the label, by name: what `split = column:NAME` can use.
    pub columns: Vec<(String, Vec<String>)>,
    /// What was decided while reading, in words: the label column, what was left out.
    pub notes: Vec<String>,
}

/// The built-in samples, the default first.
pub const SAMPLES: [&str; 2] = ["many-classes", "digits"];

impl Dataset {
    /// A built-in sample, by its name without `sample:`.
    ///
    /// # Errors
    /// [`Error::Config`] when there is no such sample.
    pub fn sample(name: &str, seed: u64) -> Result<Self> {
        match name {
            "many-classes" => Ok(many_classes::generate(seed)),
            "digits" => Ok(digits::load()),
            _ => Err(Error::Config(format!(
                "there is no sample \"{name}\": {}",
                SAMPLES.map(|name| format!("sample:{name}")).join(" or ")
            ))),
        }
    }

    /// Gives the classes of labelled rows their indices.
    ///
    /// # Errors
    /// [`Error::Data`] when there are fewer than two classes.
    pub fn new(rows: Labelled) -> Result<Self> {
        let class_names = classes(&rows.labels);
        if class_names.len() < 2 {
            return Err(Error::Data(format!(
                "{}: every row has the label \"{}\": metric learning needs two classes at least",
                rows.name, rows.labels[0]
            )));
        }
        let index: HashMap<&str, u32> = class_names
            .iter()
            .zip(0..)
            .map(|(name, index)| (name.as_str(), index))
            .collect();
        Ok(Self {
            labels: rows
                .labels
                .iter()
                .map(|label| index[label.as_str()])
                .collect(),
            name: rows.name,
            features: RowSource::Memory {
                values: rows.values,
                dim: rows.dim,
            },
            class_names,
            label_column: rows.label_column,
            columns: rows.columns,
            notes: rows.notes,
        })
    }

    /// Adds rows with the same columns, as those of the test side; classes are joined by name.
    ///
    /// # Errors
    /// [`Error::Data`] when the columns differ in number.
    pub async fn append(&self, other: &Self) -> Result<Self> {
        let (dim, other_dim) = (self.features.dim(), other.features.dim());
        if dim != other_dim {
            return Err(Error::Data(format!(
                "{}: {other_dim} features, expected {dim} as in {}",
                other.name, self.name
            )));
        }
        let names: Vec<String> = [self, other]
            .iter()
            .flat_map(|data| data.label_names())
            .collect();
        let mut values = Vec::new();
        for data in [self, other] {
            let rows: Vec<u32> = (0..data.rows() as u32).collect();
            data.features.read(&rows, &mut values).await?;
        }
        let mut joined = Self::new(Labelled {
            name: self.name.clone(),
            values,
            dim,
            labels: names,
            notes: [&self.notes[..], &other.notes].concat(),
            ..Labelled::default()
        })?;
        let side = |data: &Self, side: &str| vec![side.to_owned(); data.rows()];
        joined.columns.push((
            split::SIDE_COLUMN.to_owned(),
            [side(self, "train"), side(other, "test")].concat(),
        ));
        Ok(joined)
    }

    /// How many rows.
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

    /// The settings to start from with this data.
    pub fn default_config(&self) -> TrainConfig {
        let mut config = TrainConfig::default();
        if self.name == many_classes::NAME {
            config.split = Split::ByClass;
            config.test_fraction = many_classes::TEST_FRACTION;
        }
        if self
            .columns
            .iter()
            .any(|(name, _)| name == split::SIDE_COLUMN)
        {
            config.split = Split::Column(split::SIDE_COLUMN.to_owned());
        }
        config
    }
}

/// The distinct labels in label order.
fn classes(labels: &[String]) -> Vec<String> {
    let mut names: Vec<String> = labels.to_vec();
    names.sort_unstable();
    names.dedup();
    let numbers: Option<Vec<i128>> = names.iter().map(|name| name.parse().ok()).collect();
    if let Some(numbers) = numbers {
        let mut order: Vec<usize> = (0..names.len()).collect();
        order.sort_by_key(|i| numbers[*i]);
        names = order.into_iter().map(|i| names[i].clone()).collect();
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(labels: &[&str]) -> Vec<String> {
        labels.iter().map(|label| (*label).to_owned()).collect()
    }

    #[test]
    fn integer_labels_are_ordered_as_numbers_and_others_as_text() {
        assert_eq!(
            classes(&names(&["10", "9", "-1", "9"])),
            names(&["-1", "9", "10"])
        );
        assert_eq!(classes(&names(&["10", "9", "b"])), names(&["10", "9", "b"]));
    }
}
