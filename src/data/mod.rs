//! [`Dataset`]: labelled feature vectors, from a sample or from a person's files.
//!
//! One source file a format. Errors about a file give its name, the place in it, and what to do.

mod arrays;
mod blob;
#[cfg(all(target_arch = "wasm32", any(feature = "hdf5", feature = "parquet")))]
mod blob_now;
pub(crate) mod by_class;
mod cells;
mod class_names;
pub(crate) mod column_spread;
mod columns;
pub(crate) mod copies;
mod csv;
mod digits;
mod fingerprint;
mod foreign;
mod format;
pub(crate) mod groups;
#[cfg(any(feature = "hdf5", feature = "parquet"))]
mod guarded;
#[cfg(feature = "hdf5")]
mod hdf5;
mod imagined;
mod input;
mod join;
mod json_lines;
mod labelled;
mod large;
mod left_out;
mod lines;
mod look;
mod many_classes;
mod mended;
mod mirrored;
mod missing;
#[cfg(not(target_arch = "wasm32"))]
mod named_file;
mod notation;
pub(crate) mod npy;
mod npy_rows;
mod npz;
#[cfg(feature = "parquet")]
mod parquet;
mod roles;
mod rotation;
mod row_numbers;
mod rows;
mod safetensors;
mod split;
mod suited;
pub(crate) mod survey;
mod table;
mod table_reader;
mod texts;
mod unlabelled;
mod vectors;

use std::collections::{HashMap, HashSet};

#[cfg(feature = "parquet")]
pub use self::parquet::ParquetFile;
#[cfg(target_arch = "wasm32")]
pub use blob::BlobRows;
pub use class_names::look_alike;
pub use columns::Columns;
pub use format::Format;
#[cfg(any(feature = "hdf5", feature = "parquet"))]
pub use guarded::is_guarded;
#[cfg(feature = "hdf5")]
pub use hdf5::Hdf5File;
#[cfg(all(feature = "hdf5", not(target_arch = "wasm32")))]
pub use hdf5::add_embeddings;
pub(crate) use labelled::check_squares;
pub use labelled::{Choice, Labelled, Labels, NamedFile};
pub(crate) use left_out::LeftOut;
pub use missing::Missing;
pub use notation::Marks;
pub(crate) use npy::array_header;
#[cfg(not(target_arch = "wasm32"))]
pub use npy::triplets_header;
pub use npy::{matrix_header, write_matrix};
#[cfg(not(target_arch = "wasm32"))]
pub use npy_rows::NpyRows;
pub(crate) use npz::NpyElement;
pub use npz::NpzWriter;
pub use roles::{ColumnRole, Role, TableColumn};
pub use rows::{RowSource, STREAM_FROM_BYTES};
pub use split::{Side, Sides};
pub use suited::Shape;
pub use table::Table;
pub use table_reader::TableReader;
pub use texts::Texts;

use crate::base::error::{Error, Result};
use crate::base::order;
use crate::base::quote::quoted;
use crate::base::working::Working;
use crate::rules::config::{Split, TrainConfig};

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
    /// Text columns beside the label, by name: those that `split = column:NAME` can use.
    pub columns: Vec<(String, Texts)>,
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
    /// The columns whose cells without a number were filled, each with the value.
    pub filled: Vec<(usize, f32)>,
    /// Set if the last rows came from a second file, whose rows are the test side.
    pub joined: bool,
    /// Decisions made while reading, in words: the label column, columns left out.
    pub notes: Vec<String>,
}

/// The built-in samples, the default first.
pub const SAMPLES: [&str; 5] = ["mirrored", "many-classes", "digits", "cells", "large"];

/// Rows of the class of median size up to which whole classes are held out: a random split leaves a class's rows alone on each
/// side.
const FEW_ROWS: u32 = 4;
/// Number of classes from which on whole classes can be held out.
const CLASSES_TO_PART: usize = 20;
/// Rows from which on at least two have to share a class.
const ROWS_TO_PAIR: usize = 10;
/// Test queries times test rows that settings start from at most: some 20 s of a scoring on two cores, 40 s in a browser.
const TESTED_PAIRS: u64 = 1_000_000_000;
/// Test queries at least: a precision@1 of 0.9 is then known within 0.0067, one standard error.
const FEWEST_QUERIES: usize = 2_000;

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

    /// A built-in sample, by its name without `sample:`; or, by a name like `600000x128x1000`, data of so many rows, features and
    /// classes that is only imagined, for plans.
    ///
    /// # Errors
    /// [`Error::Config`] when there is no such sample; in a browser also for one that has a file, see [`Dataset::sample_file`].
    pub fn sample(name: &str, seed: u64) -> Result<Self> {
        match name {
            "mirrored" => Ok(mirrored::generate(seed)),
            "many-classes" => Ok(many_classes::generate(seed)),
            #[cfg(not(target_arch = "wasm32"))]
            "digits" => digits::read(include_bytes!("digits.npy")),
            #[cfg(not(target_arch = "wasm32"))]
            "cells" => {
                let file = cells::file(include_bytes!("cells.npz").to_vec());
                cells::of(Labelled::read(&file, None, Choice::default())?)
            }
            #[cfg(target_arch = "wasm32")]
            "digits" | "cells" => Err(Error::Config(format!(
                "sample:{name} has a file, which the page has to fetch"
            ))),
            "large" => Ok(large::generate(seed)),
            name => imagined::named(name).unwrap_or_else(|| {
                Err(Error::Config(format!(
                    "there is no sample {}: {}",
                    quoted(name),
                    SAMPLES.map(|name| format!("sample:{name}")).join(", ")
                )))
            }),
        }
    }

    /// Tells if there are no rows, so that memory and time can only be planned.
    pub fn is_imagined(&self) -> bool {
        matches!(self.features, RowSource::Imagined { .. })
    }

    /// The file of a sample that is too large to be part of a page, which fetches it when it is asked for.
    pub fn sample_file(name: &str) -> Option<&'static str> {
        match name {
            "digits" => Some(digits::FILE),
            "cells" => Some(cells::FILE),
            _ => None,
        }
    }

    /// A sample that has a file, from that file; `read` reads a file of labelled rows.
    ///
    /// # Errors
    /// [`Error::Data`] for bytes of another file; what `read` says.
    pub async fn sample_of(
        name: &str,
        file: Vec<u8>,
        read: impl AsyncFnOnce(NamedFile) -> Result<Labelled>,
    ) -> Result<Self> {
        match name {
            "digits" => digits::read(&file),
            _ => cells::of(read(cells::file(file)).await?),
        }
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
            columns: rows.columns,
            table: rows.table,
            missing: rows.missing,
            marks: rows.marks,
            on: rows.on,
            unlabelled: rows.unlabelled,
            left_out: rows.left_out,
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
            columns: Vec::new(),
            table: Vec::new(),
            missing: Missing::default(),
            marks: Marks::default(),
            on: None,
            unlabelled: None,
            left_out: LeftOut::default(),
            filled: Vec::new(),
            joined: false,
            notes: Vec::new(),
        }
    }

    /// Notes if another split than a random one suits these rows.
    fn note_split(&mut self) {
        let note = if let Some(column) = self.split_column() {
            format!(
                "the column {} reads like a split, and says which rows train, steer and are tested unless split is set to another",
                quoted(column)
            )
        } else if let Some(rows) = self.few_rows_a_class() {
            format!(
                "at least half of the classes have {rows} rows or fewer: unless split is set or a test file is given, whole classes are held \
                 out (split=by-class-shuffled), so that a tested row has another of its class beside it"
            )
        } else {
            return;
        };
        self.notes.push(note);
    }

    /// Rows of the class of median size, if they are so few that a random split would part them.
    fn few_rows_a_class(&self) -> Option<u32> {
        let mut sizes = self.class_sizes();
        order::sort_numbers(&mut sizes);
        let middle = *sizes.get(sizes.len() / 2)?;
        (sizes.len() >= CLASSES_TO_PART && middle <= FEW_ROWS).then_some(middle)
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
            columns, mut notes, ..
        } = labels;
        notes.push("features stay in the file and are read as they are needed".to_owned());
        let mut dataset = Self {
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

    fn of(name: String, features: RowSource, labels: &Texts) -> Result<Self> {
        // A text without rows is no class.
        let mut is_there = vec![false; labels.distinct().len()];
        for code in labels.codes() {
            is_there[*code as usize] = true;
        }
        let named = labels.distinct().iter().zip(&is_there);
        let named = named.filter(|(_, is_there)| **is_there);
        let class_names = ordered(named.map(|(label, _)| label.to_string()).collect());
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

    /// Adds rows with the same columns as the test side; classes are joined by name, and columns too if both files name them.
    ///
    /// # Errors
    /// [`Error::Data`] when the columns differ in number or a name is missing.
    pub async fn append(&self, other: &Self) -> Result<Self> {
        let (dim, other_dim) = (self.features.dim(), other.features.dim());
        if dim != other_dim {
            return Err(Error::Data(format!(
                "{}: {other_dim} features, expected {dim} as in {}",
                other.name, self.name
            )));
        }
        let order = if self.feature_names.is_empty() || other.feature_names.is_empty() {
            (0..dim).collect()
        } else {
            places(&self.feature_names, &other.feature_names).map_err(|name| {
                Error::Data(format!(
                    "{}: there is no feature {}, as there is in {}",
                    other.name,
                    quoted(name),
                    self.name
                ))
            })?
        };
        let names = [self, other].into_iter();
        let names = names.flat_map(|data| data.label_names()).collect();
        let all = |data: &Self| (0..data.rows() as u32).collect::<Vec<_>>();
        let (mut values, mut others) = (Vec::new(), Vec::new());
        self.features.read(&all(self), &mut values).await?;
        other.features.read(&all(other), &mut others).await?;
        let others = others.chunks_exact(dim);
        values.extend(others.flat_map(|row| order.iter().map(|place| row[*place])));
        let mut joined = Self::new(Labelled {
            name: self.name.clone(),
            values,
            dim,
            feature_names: self.feature_names.clone(),
            labels: names,
            notes: [&self.notes[..], &other.notes].concat(),
            table: self.table.clone(),
            ..Labelled::default()
        })?;
        let sides = std::iter::repeat_n("train", self.rows());
        let sides = sides.chain(std::iter::repeat_n("test", other.rows()));
        joined
            .columns
            .push((split::SIDE_COLUMN.to_owned(), sides.collect()));
        joined.joined = true;
        let alike = class_names::look_alike(joined.class_names.iter().map(String::as_str));
        let alike = alike.filter(|note| !joined.notes.contains(note));
        joined.notes.extend(alike);
        joined.missing = self.missing;
        joined.marks = self.marks;
        joined.on.clone_from(&self.on);
        joined.unlabelled.clone_from(&self.unlabelled);
        joined.left_out = self.left_out.before(self.rows(), &other.left_out);
        joined.filled.clone_from(&self.filled);
        Ok(joined)
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

    /// The values of a text column, row by row; `setting` is the setting that names it.
    ///
    /// # Errors
    /// [`Error::Config`] when there is no such column, with those there are.
    pub(crate) fn text_column(&self, setting: &str, name: &str) -> Result<&Texts> {
        text_column(&self.columns, setting, name)
    }

    /// Group of each row, numbered in the order of the rows; none if the settings name no group column.
    ///
    /// # Errors
    /// [`Error::Config`] when there is no such column, or a row has an empty cell in it; [`Error::Data`] when it holds one text.
    pub(crate) fn groups(&self, config: &TrainConfig) -> Result<Option<Vec<u32>>> {
        let Some(name) = &config.group else {
            return Ok(None);
        };
        let values = group_column(&self.columns, name)?;
        let mut numbers = vec![u32::MAX; values.distinct().len()];
        let mut count = 0;
        let number = |code: &u32| {
            let number = &mut numbers[*code as usize];
            if *number == u32::MAX {
                *number = count;
                count += 1;
            }
            *number
        };
        let groups: Vec<u32> = values.codes().iter().map(number).collect();
        match count {
            1 => Err(groups::only_one(&values[0])),
            _ => Ok(Some(groups)),
        }
    }

    /// The names of the text columns, as a refusal lists them.
    pub(crate) fn text_columns(&self) -> String {
        listed_columns(&self.columns)
    }

    /// Rows of each class.
    pub fn class_sizes(&self) -> Vec<u32> {
        let mut sizes = vec![0; self.class_names.len()];
        for label in &self.labels {
            sizes[*label as usize] += 1;
        }
        sizes
    }

    /// The settings to start from with data of this name.
    pub fn default_config_of(name: &str) -> TrainConfig {
        match name {
            mirrored::NAME => mirrored::config(),
            many_classes::NAME => many_classes::config(),
            digits::NAME => digits::config(),
            cells::NAME => cells::config(),
            large::NAME => large::config(),
            _ => TrainConfig::default(),
        }
    }

    /// The settings to start from with this data.
    pub fn default_config(&self) -> TrainConfig {
        self.default_config_for(&[])
    }

    /// The settings to start from with this data if `splitting` changes the split: batch and memory sizes suit the rows that then
    /// train. The split itself stays as it is by default.
    pub fn default_config_for(&self, splitting: &[String]) -> TrainConfig {
        let mut config = Self::default_config_of(&self.name);
        let tested = (self.rows() as f64 * config.test_fraction) as usize;
        if config.test_queries as u64 * tested as u64 > TESTED_PAIRS {
            // To two digits: a person reads it among the settings.
            let queries = TESTED_PAIRS as usize / tested;
            let unit = 10_usize.pow(queries.max(10).ilog10() - 1);
            config.test_queries = (queries / unit * unit).max(FEWEST_QUERIES);
        }
        if self.joined {
            config.split = Split::Column(split::SIDE_COLUMN.to_owned());
        } else if let Some(column) = self.split_column() {
            config.split = Split::Column(column.to_owned());
        } else if self.few_rows_a_class().is_some() {
            config.split = Split::ByClassShuffled;
        }
        let is_own = !self.name.starts_with("sample:");
        if is_own && let Some(train) = self.rows_to_train(&config, splitting) {
            config = self.shape().over(config, train);
        }
        config
    }

    /// Number of training rows with `config` and the settings `splitting` over it; with `config` alone if those cannot hold, none
    /// if it cannot either.
    pub fn rows_to_train(&self, config: &TrainConfig, splitting: &[String]) -> Option<usize> {
        let (split, _) = config.with_sets(splitting);
        let sides = Sides::new(self, &split).or_else(|_| Sides::new(self, config));
        sides.ok().map(|sides| sides.train.len())
    }
}

/// The values of the text column `name`, which the setting `setting` names.
fn text_column<'a>(columns: &'a [(String, Texts)], setting: &str, name: &str) -> Result<&'a Texts> {
    let column = columns.iter().find(|(column, _)| column == name);
    let (_, values) = column.ok_or_else(|| {
        Error::Config(format!(
            "{setting}: there is no text column {}; {}",
            quoted(name),
            listed_columns(columns)
        ))
    })?;
    Ok(values)
}

/// The names of text columns, as a refusal lists them.
fn listed_columns(columns: &[(String, Texts)]) -> String {
    let names: Vec<_> = columns.iter().map(|(name, _)| quoted(name)).collect();
    let names = match &names[..] {
        [] => "none".to_owned(),
        names => names.join(", "),
    };
    format!("there are: {names}")
}

/// Group of each row: the values of the text column `name` beside its label.
///
/// # Errors
/// [`Error::Config`] when there is no such column, or a row has an empty cell in it.
pub fn group_column<'a>(columns: &'a [(String, Texts)], name: &str) -> Result<&'a Texts> {
    let values = text_column(columns, "group", name)?;
    match values.iter().position(labelled::is_missing) {
        None => Ok(values),
        Some(row) => Err(Error::Config(format!(
            "group: the column {} is empty in row {}: every row needs a group",
            quoted(name),
            row + 1
        ))),
    }
}

/// Index of each of `names` among `others`; equal names are matched in their order.
///
/// # Errors
/// The first name that is not there.
fn places<'a>(names: &'a [String], others: &[String]) -> Result<Vec<usize>, &'a str> {
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (place, name) in others.iter().enumerate().rev() {
        places.entry(name).or_default().push(place);
    }
    let place = |name: &'a String| {
        let left = places.get_mut(name.as_str());
        left.and_then(Vec::pop).ok_or(name.as_str())
    };
    names.iter().map(place).collect()
}

/// The distinct labels in label order.
pub(crate) fn classes(labels: &[String]) -> Vec<String> {
    let distinct: HashSet<&str> = labels.iter().map(String::as_str).collect();
    ordered(distinct.into_iter().map(str::to_owned).collect())
}

/// Labels in label order, each once.
fn ordered(mut names: Vec<String>) -> Vec<String> {
    order::sort_by(&mut names, Ord::cmp);
    names.dedup();
    let numbers: Option<Vec<i128>> = names.iter().map(|name| name.parse().ok()).collect();
    if let Some(numbers) = numbers {
        let mut order: Vec<usize> = (0..names.len()).collect();
        order::sort_places(&mut order, &|a, b| numbers[a].cmp(&numbers[b]));
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

    fn table(name: &str, text: &str) -> Dataset {
        let file = NamedFile {
            name: name.to_owned(),
            bytes: text.as_bytes().to_vec(),
        };
        Labelled::read(&file, None, super::Choice::default())
            .and_then(Dataset::new)
            .expect("reads")
    }

    #[test]
    fn batch_and_memory_suit_the_rows_that_train() {
        // 4, 38, 115 and 288 of them train; of 100 classes a batch holds no two rows each.
        for (rows, classes, batch, memory) in [
            (6, 3, 4, 0),
            (60, 3, 32, 0),
            (180, 3, 64, 0),
            (450, 5, 128, 0),
            (450, 100, 32, 288),
        ] {
            let lines = (0..rows).map(|row| format!("{},{}\n", row / 2, row % classes));
            let dataset = table(
                "few.csv",
                &format!("a,label\n{}", lines.collect::<String>()),
            );
            let TrainConfig {
                batch_size,
                memory_size,
                ..
            } = dataset.default_config();
            assert_eq!((batch_size, memory_size), (batch, memory), "{rows} rows");
        }
    }

    #[test]
    fn files_are_joined_by_the_names_of_their_columns() {
        let train = table("train.csv", "a,b,label\n1,2,u\n3,4,v\n");
        let joined = |other: &str| pollster::block_on(train.append(&table("test.csv", other)));
        let swapped = joined("b,a,label\n6,5,v\n8,7,u\n").expect("joins");
        assert_eq!(
            swapped.features.in_memory(),
            Some(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0][..])
        );
        assert_eq!(swapped.feature_names, names(&["a", "b"]));
        let error = joined("a,c,label\n1,2,u\n3,4,v\n").expect_err("refused");
        assert_eq!(
            error.to_string(),
            "test.csv: there is no feature \"b\", as there is in train.csv"
        );
        let error = joined("a,b,c,label\n1,2,3,u\n3,4,5,v\n").expect_err("refused");
        assert_eq!(
            error.to_string(),
            "test.csv: 3 features, expected 2 as in train.csv"
        );
    }

    #[test]
    fn only_joined_data_is_split_by_file_unasked() {
        let own = table("own.csv", "a,side,label\n1,left,u\n2,right,v\n");
        assert_eq!(own.default_config().split, Split::Random);
        let joined = pollster::block_on(own.append(&own)).expect("joins");
        let by_file = Split::Column("side".to_owned());
        assert_eq!(joined.default_config().split, by_file);
    }

    #[test]
    fn fewer_test_rows_are_scored_where_there_are_very_many() {
        let queries = |rows: usize| {
            let labelled = Labelled {
                values: vec![0.0; rows],
                dim: 1,
                labels: (0..rows).map(|row| ["u", "v"][row % 2]).collect(),
                ..Labelled::default()
            };
            let dataset = Dataset::new(labelled).expect("two classes");
            dataset.default_config().test_queries
        };
        assert_eq!([1_000, 200_000].map(queries), [10_000, 10_000]);
        assert_eq!([600_000, 3_000_000].map(queries), [8_300, 2_000]);
    }

    #[test]
    fn equal_names_are_matched_in_their_order() {
        let places = |names_: &[&str], others: &[&str]| {
            places(&names(names_), &names(others)).map_err(str::to_owned)
        };
        assert_eq!(
            places(&["x", "y", "x"], &["y", "x", "x"]),
            Ok(vec![1, 0, 2])
        );
        assert_eq!(places(&["x", "x"], &["x", "y"]), Err("x".to_owned()));
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
