//! CSV with a header: numeric columns are features, one column is the label, other text is left out or splits the rows.
//!
//! A column is parsed as numbers only once it is known to be a feature: labels are text, whatever they look like.

use std::collections::BTreeSet;

use ::csv::{ErrorKind, Reader, ReaderBuilder, StringRecord};

use super::{Labelled, NamedFile, RowSource, labelled, places};
use crate::error::{Error, Result};

/// Column names that mean a label, whatever their case, the surest first: a `y` may be a coordinate.
const LABEL_NAMES: [&str; 17] = [
    "label",
    "labels",
    "target",
    "class",
    "class_id",
    "category",
    "cell_type",
    "celltype",
    "leiden",
    "louvain",
    "cluster",
    "species",
    "identity",
    "pid",
    "variety",
    "digit",
    "y",
];
/// Column names that mean a row number, and never a feature.
const ID_NAMES: [&str; 6] = ["", "id", "index", "unnamed: 0", "barcode", "row"];
/// Rows that decide whether a column holds numbers.
const LOOKED_AT: usize = 100;

/// A CSV file whose columns are told apart and whose cells are not parsed yet.
#[derive(Debug)]
pub struct CsvTable<'a> {
    file: &'a NamedFile,
    header: Vec<String>,
    /// The columns that mostly hold numbers, row numbers left out.
    numeric: Vec<usize>,
    text: Vec<usize>,
    ignored: Vec<usize>,
    rows: usize,
}

impl<'a> CsvTable<'a> {
    /// Reads the header and tells numeric columns from text.
    ///
    /// # Errors
    /// [`Error::Data`] for a file that is empty or no CSV, and for a ragged row; with the line.
    pub fn read(file: &'a NamedFile) -> Result<Self> {
        if !["csv", "tsv", "txt"].contains(&file.extension().as_str()) {
            return Err(Error::Data(format!(
                "{}: only CSV (with a header), NPY and NPZ files are read: save the data as one of these",
                file.name
            )));
        }
        let header = header(file)?;
        let mut numbers = vec![0usize; header.len()];
        let mut filled = vec![0usize; header.len()];
        let mut rows = 0;
        for record in records(file) {
            let record = record?;
            rows += 1;
            if rows > LOOKED_AT {
                continue;
            }
            for (column, cell) in record.iter().enumerate() {
                filled[column] += usize::from(!is_missing(cell));
                // A decimal comma makes a number as well: one that is refused when it is parsed.
                let is_number = cell.replace(',', ".").parse::<f32>().is_ok();
                numbers[column] += usize::from(!is_missing(cell) && is_number);
            }
        }
        if rows == 0 {
            return Err(Error::Data(format!(
                "{}: a header and no rows: nothing to train on",
                file.name
            )));
        }
        let is_id = |column: usize| ID_NAMES.contains(&header[column].to_lowercase().as_str());
        let (mut numeric, text): (Vec<_>, Vec<_>) =
            (0..header.len()).partition(|column| 2 * numbers[*column] >= filled[*column]);
        let ignored: Vec<_> = numeric
            .iter()
            .copied()
            .filter(|column| is_id(*column))
            .collect();
        numeric.retain(|column| !is_id(*column));
        Ok(Self {
            file,
            header,
            numeric,
            text,
            ignored,
            rows,
        })
    }

    /// The numbers of these columns, `[rows, columns]`.
    ///
    /// # Errors
    /// [`Error::Data`] for a cell that is no finite number, with the line and the column.
    fn values(&self, columns: &[usize]) -> Result<Vec<f32>> {
        let mut values = Vec::with_capacity(self.rows * columns.len());
        for record in records(self.file) {
            let record = record?;
            for column in columns {
                let cell = &record[*column];
                let value = cell.parse::<f32>().ok().filter(|value| value.is_finite());
                let value = value.ok_or_else(|| {
                    let line = record.position().map_or(0, ::csv::Position::line);
                    let problem = match cell {
                        "" => "is empty: fill or drop such rows".to_owned(),
                        _ if cell
                            .replace(',', ".")
                            .parse::<f32>()
                            .is_ok_and(f32::is_finite) =>
                        {
                            format!("holds \"{cell}\": write numbers with a decimal point")
                        }
                        _ if cell.parse::<f32>().is_ok() || is_missing(cell) => {
                            format!("holds \"{cell}\", which is not finite: fill or drop such rows")
                        }
                        _ => format!("holds \"{cell}\", which is not a number"),
                    };
                    let (file, column) = (&self.file.name, &self.header[*column]);
                    Error::Data(format!(
                        "{file}, line {line}: column \"{column}\" {problem}"
                    ))
                })?;
                values.push(value);
            }
        }
        Ok(values)
    }

    /// Splits the table into features and labels; the label column is guessed where it is not named.
    ///
    /// # Errors
    /// [`Error::Data`] when there is no such column, none can be guessed, no numeric column is left, a label is missing,
    /// or a cell of a feature is no finite number.
    pub(super) fn into_labelled(self, label: Option<&str>) -> Result<Labelled> {
        let (label, reason) = self.find(label)?;
        let labels = self.labels(label)?;
        let mut features = self.numeric.clone();
        features.retain(|column| *column != label);
        if features.is_empty() {
            return Err(Error::Data(format!(
                "{}: no numeric column beside the label \"{}\": there are no features; where they are in another file, give both at once",
                self.file.name, self.header[label]
            )));
        }
        let mut notes = vec![format!("label = \"{}\" ({reason})", self.header[label])];
        notes.extend(self.left_out(Some(label)));
        Ok(Labelled {
            name: self.file.name.clone(),
            values: self.values(&features)?,
            dim: features.len(),
            feature_names: self.names(&features),
            labels,
            label_column: Some(self.header[label].clone()),
            columns: self.text_columns(Some(label))?,
            notes,
        })
    }

    /// All numeric columns as features, for labels from elsewhere.
    ///
    /// # Errors
    /// [`Error::Data`] when a cell of a feature is no finite number.
    pub(super) fn without_labels(self) -> Result<Labelled> {
        Ok(Labelled {
            name: self.file.name.clone(),
            values: self.values(&self.numeric)?,
            dim: self.numeric.len(),
            feature_names: self.names(&self.numeric),
            labels: Vec::new(),
            label_column: None,
            columns: self.text_columns(None)?,
            notes: self.left_out(None).into_iter().collect(),
        })
    }

    /// The columns of these names as features, in their order; where a head knows no names, the numeric columns, but for
    /// one that is named like a label where `dim` are left without it.
    ///
    /// # Errors
    /// [`Error::Data`] when a column is missing, by its name, or a cell is no finite number.
    pub fn into_features(self, names: &[String], dim: usize) -> Result<RowSource> {
        let columns = if names.is_empty() {
            let mut columns = self.numeric.clone();
            let one_more = columns.len().checked_sub(1) == Some(dim);
            let label = self.named_label().filter(|_| one_more);
            columns.retain(|column| Some(*column) != label);
            columns
        } else {
            places(names, &self.header).map_err(|name| {
                Error::Data(format!(
                    "{}: there is no column \"{name}\", which the head was trained on: the columns are {}",
                    self.file.name,
                    self.all_names()
                ))
            })?
        };
        let (values, dim) = (self.values(&columns)?, columns.len());
        labelled::check_values(&self.file.name, &values, dim, 0)?;
        Ok(RowSource::Memory { values, dim })
    }

    /// The cells of a column as labels; a file of labels may have one column only.
    ///
    /// # Errors
    /// [`Error::Data`] when there is no such column, none can be guessed, or a label is missing.
    pub(super) fn column(&self, name: Option<&str>) -> Result<Vec<String>> {
        match name {
            None if self.header.len() == 1 => self.labels(0),
            name => self.labels(self.find(name)?.0),
        }
    }

    /// The names of all columns.
    pub fn header(&self) -> &[String] {
        &self.header
    }

    /// What is not used as a feature, in words.
    fn left_out(&self, label: Option<usize>) -> Option<String> {
        let left: Vec<String> = self
            .ignored
            .iter()
            .chain(&self.text)
            .filter(|column| Some(**column) != label)
            .map(|column| format!("\"{}\"", self.header[*column]))
            .collect();
        (!left.is_empty()).then(|| format!("left out: {}", left.join(", ")))
    }

    fn names(&self, columns: &[usize]) -> Vec<String> {
        let names = columns.iter().map(|column| self.header[*column].clone());
        names.collect()
    }

    /// The names of all columns, for a message.
    fn all_names(&self) -> String {
        let names = self.header.iter().map(|name| format!("\"{name}\""));
        names.collect::<Vec<_>>().join(", ")
    }

    /// The label column, and why it is this one.
    fn find(&self, name: Option<&str>) -> Result<(usize, String)> {
        if let Some(name) = name {
            let place = self.header.iter().position(|column| column == name);
            return place
                .map(|place| (place, "as chosen".to_owned()))
                .ok_or_else(|| {
                    Error::Data(format!(
                        "{}: there is no column \"{name}\": the columns are {}",
                        self.file.name,
                        self.all_names()
                    ))
                });
        }
        if let Some(column) = self.named_label() {
            return Ok((column, "by its name".to_owned()));
        }
        if let [column] = self.text[..] {
            return Ok((column, "the only text column".to_owned()));
        }
        if self.text.is_empty() {
            // Few different integers, and not row numbers.
            let counts = self.distinct(&self.numeric, self.most_classes(), is_whole);
            let few = |count: Option<usize>| count.is_some_and(|n| (2..self.rows).contains(&n));
            let counted = self.numeric.iter().zip(counts);
            let classes: Vec<usize> = counted
                .filter_map(|(column, count)| few(count).then_some(*column))
                .collect();
            if let [column] = classes[..] {
                return Ok((column, "the only column of few integers".to_owned()));
            }
        }
        Err(Error::Data(format!(
            "{}: no label column can be told from the others: choose one of {}",
            self.file.name,
            self.all_names()
        )))
    }

    /// The first column that is named like a label and can be one.
    ///
    /// Measurements have such names too: they hold fractions, and a coordinate `y` more different numbers than classes.
    fn named_label(&self) -> Option<usize> {
        let can_be = |name: &str, column: usize| {
            let most = match name {
                "y" => self.most_classes(),
                _ => usize::MAX,
            };
            self.text.contains(&column)
                || self.distinct(&[column], most, |cell| !is_fraction(cell)) != [None]
        };
        LABEL_NAMES.iter().find_map(|name| {
            (0..self.header.len())
                .filter(|column| self.header[*column].to_lowercase() == *name)
                .find(|column| can_be(name, *column))
        })
    }

    /// More different numbers than this are no classes.
    fn most_classes(&self) -> usize {
        (self.rows / 4).max(50)
    }

    /// How many different cells each column has; `None` where they are more than `most` or one fails the test.
    fn distinct(
        &self,
        columns: &[usize],
        most: usize,
        test: impl Fn(&str) -> bool,
    ) -> Vec<Option<usize>> {
        let mut seen = vec![Some(BTreeSet::new()); columns.len()];
        for record in records(self.file).flatten() {
            for (column, seen) in columns.iter().zip(&mut seen) {
                let cell = &record[*column];
                if let Some(cells) = seen
                    && !cells.contains(cell)
                {
                    cells.insert(cell.to_owned());
                    if cells.len() > most || !test(cell) {
                        *seen = None;
                    }
                }
            }
        }
        let counts = seen.into_iter().map(|seen| Some(seen?.len()));
        counts.collect()
    }

    fn labels(&self, column: usize) -> Result<Vec<String>> {
        records(self.file)
            .map(|record| {
                let record = record?;
                let cell = record[column].to_owned();
                if cell.is_empty() {
                    let line = record.position().map_or(0, ::csv::Position::line);
                    let (file, column) = (&self.file.name, &self.header[column]);
                    return Err(Error::Data(format!(
                        "{file}, line {line}: column \"{column}\" is empty: every row needs a label"
                    )));
                }
                Ok(cell)
            })
            .collect()
    }

    /// The text columns but the label, by name; their cells may be empty.
    fn text_columns(&self, label: Option<usize>) -> Result<Vec<(String, Vec<String>)>> {
        let mut text = self.text.clone();
        text.retain(|column| Some(*column) != label);
        let mut columns: Vec<(String, Vec<String>)> = text
            .iter()
            .map(|column| (self.header[*column].clone(), Vec::new()))
            .collect();
        for record in records(self.file) {
            let record = record?;
            for (column, (_, cells)) in text.iter().zip(&mut columns) {
                cells.push(record[*column].to_owned());
            }
        }
        Ok(columns)
    }
}

/// Whether a cell is an integer, with a decimal point or without.
fn is_whole(cell: &str) -> bool {
    cell.parse::<f64>().is_ok_and(|value| value.fract() == 0.0)
}

/// Whether a cell is a number between two integers.
fn is_fraction(cell: &str) -> bool {
    let value = cell.replace(',', ".").parse::<f64>();
    value.is_ok_and(|value| value.is_finite() && value.fract() != 0.0)
}

fn is_missing(cell: &str) -> bool {
    ["", "na", "n/a", "nan", "null", "none"].contains(&cell.to_lowercase().as_str())
}

/// A reader with the delimiter that the first line has most of.
fn reader(file: &NamedFile) -> Reader<&[u8]> {
    let bytes = file
        .bytes
        .strip_prefix(b"\xef\xbb\xbf")
        .unwrap_or(&file.bytes);
    let first_line = bytes.split(|byte| *byte == b'\n').next().unwrap_or(bytes);
    let count = |delimiter: &u8| first_line.iter().filter(|byte| *byte == delimiter).count();
    let delimiter = *b",\t;"
        .iter()
        .rev()
        .max_by_key(|delimiter| count(delimiter))
        .unwrap_or(&b',');
    ReaderBuilder::new()
        .delimiter(delimiter)
        .trim(::csv::Trim::All)
        .from_reader(bytes)
}

fn header(file: &NamedFile) -> Result<Vec<String>> {
    let name = &file.name;
    if file.bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(Error::Data(format!("{name}: the file is empty")));
    }
    let mut reader = reader(file);
    let header = reader.headers().map_err(|error| csv_error(name, &error))?;
    if header.iter().all(|cell| cell.parse::<f64>().is_ok()) {
        return Err(Error::Data(format!(
            "{name}, line 1: numbers, expected a header: add a first line that names the columns"
        )));
    }
    Ok(header.iter().map(str::to_owned).collect())
}

fn records(file: &NamedFile) -> impl Iterator<Item = Result<StringRecord>> + '_ {
    reader(file)
        .into_records()
        .map(|record| record.map_err(|error| csv_error(&file.name, &error)))
}

fn csv_error(name: &str, error: &::csv::Error) -> Error {
    let line = error.position().map_or(1, ::csv::Position::line);
    Error::Data(match error.kind() {
        ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => format!("{name}, line {line}: {len} values, expected {expected_len} as in the header"),
        ErrorKind::Utf8 { .. } => format!("{name}, line {line}: not UTF-8: save the file as UTF-8"),
        _ => format!("{name}: not a CSV file: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::{Choice, Dataset, Sides};

    fn read(text: &str, label: Option<&str>) -> Result<Dataset> {
        let choice = Choice {
            labels: label,
            ..Choice::default()
        };
        Labelled::read(&file(text), None, choice).and_then(Dataset::new)
    }

    fn file(text: &str) -> NamedFile {
        NamedFile {
            name: "data.csv".to_owned(),
            bytes: text.as_bytes().to_vec(),
        }
    }

    fn dataset(text: &str, label: Option<&str>) -> Dataset {
        read(text, label).expect("reads")
    }

    fn refusal(text: &str, label: Option<&str>) -> String {
        read(text, label).expect_err("refused").to_string()
    }

    #[test]
    fn the_label_is_found_by_name_then_as_the_only_text_then_as_the_only_few_integers() {
        let named = dataset("x,Species,note\n1,b,u\n2,a,v\n", None);
        assert_eq!(named.class_names, ["a", "b"]);
        assert_eq!((named.features.dim(), &named.labels), (1, &vec![1, 0]));
        assert_eq!(
            named.notes,
            ["label = \"Species\" (by its name)", "left out: \"note\""]
        );
        assert_eq!(
            named.columns,
            [("note".to_owned(), vec!["u".to_owned(), "v".to_owned()])]
        );
        let text = dataset("x;kind\n1.5;b\n2;a\n", None);
        assert_eq!(text.notes, ["label = \"kind\" (the only text column)"]);
        let integers = dataset("x\tgroup\n0.5\t10\n2\t9\n2.5\t9\n", None);
        assert_eq!(integers.class_names, ["9", "10"]);
        assert_eq!(integers.features.in_memory(), Some(&[0.5, 2.0, 2.5][..]));
        let chosen = dataset("a,b,y\n1,2,0\n3,2,1\n", Some("a"));
        assert_eq!(chosen.features.in_memory(), Some(&[2.0, 0.0, 2.0, 1.0][..]));
    }

    #[test]
    fn labels_are_text_whatever_they_look_like() {
        let mostly_numbers = "x,label\n1,4\n2,5\n3,6\n4,N\n";
        for label in [None, Some("label")] {
            let dataset = dataset(mostly_numbers, label);
            assert_eq!(dataset.class_names, ["4", "5", "6", "N"]);
            assert_eq!(dataset.features.dim(), 1);
        }
        let other_name = mostly_numbers.replace("label", "grade");
        assert_eq!(dataset(&other_name, Some("grade")).labels, [0, 1, 2, 3]);
        let long = "1234567890123456789012345678901234567890";
        let long = dataset(&format!("x,label\n1,{long}\n2,7\n"), None);
        assert_eq!(long.class_names.len(), 2);
        let features = file("x,w\n1,2\n3,4\n5,6\n");
        let labels = file("grade\n4\n5\nN\n");
        let apart = Labelled::read(&features, Some(&labels), Choice::default()).expect("reads");
        assert_eq!(apart.labels, ["4", "5", "N"]);
    }

    #[test]
    fn text_beside_the_label_may_be_blank_and_comes_with_labels_from_elsewhere_too() {
        let blank = "x,note,label\n1,,a\n2,v,b\n";
        let note = [("note".to_owned(), vec![String::new(), "v".to_owned()])];
        assert_eq!(dataset(blank, None).columns, note);
        let features = file("x,note\n1,\n2,v\n");
        let apart = Labelled::read(&features, Some(&file("label\na\nb\n")), Choice::default());
        let apart = apart.expect("reads");
        assert_eq!(apart.columns, note);
        assert_eq!(apart.notes, ["left out: \"note\""]);
        let dataset = Dataset::new(apart).expect("two classes");
        let config = dataset.default_config().with_set("split=column:note");
        let error = Sides::new(&dataset, &config.expect("sets")).expect_err("refused");
        assert!(error.to_string().contains("holds \"\" in row 1"), "{error}");
    }

    #[test]
    fn a_coordinate_named_y_is_no_label() {
        let label = |text: &str| dataset(text, None).notes[0].clone();
        for (text, expected) in [
            ("x,y,class\n1,2,0\n3,2,1\n", "class"),
            ("x,y,Species\n1,2,a\n3,2,b\n", "Species"),
            ("x,y\n0.5,0\n1.5,1\n", "y"),
            ("x,y\n0.5,no\n1.5,yes\n", "y"),
        ] {
            let expected = format!("label = \"{expected}\" (by its name)");
            assert_eq!(label(text), expected, "{text:?}");
        }
        let only_text = "label = \"kind\" (the only text column)";
        assert_eq!(label("x,y,kind\n1,0.5,u\n2,1.5,v\n"), only_text);
        assert_eq!(label("x,target,kind\n1,0.5,u\n2,1.5,v\n"), only_text);
        let pixels = (0..60).map(|i| format!("{i},{},{}\n", 3 * i, ["u", "v"][i % 2]));
        let pixels: String = pixels.collect();
        assert_eq!(label(&format!("x,y,kind\n{pixels}")), only_text);
    }

    #[test]
    fn features_are_chosen_by_name_where_names_are_known() {
        let names = |names: &[&str]| -> Vec<String> {
            names.iter().map(|name| (*name).to_owned()).collect()
        };
        let features = |text: &str, names: &[String], dim| {
            let file = file(text);
            let rows = CsvTable::read(&file).and_then(|table| table.into_features(names, dim));
            rows.map(|rows| rows.in_memory().map(<[f32]>::to_vec))
                .map_err(|error| error.to_string())
        };
        let table = "c,b,note,a\n3,2,u,1\n6,5,v,4\n";
        let chosen = features(table, &names(&["a", "b"]), 2);
        assert_eq!(chosen, Ok(Some(vec![1.0, 2.0, 4.0, 5.0])));
        assert_eq!(
            features(table, &names(&["a", "d"]), 2),
            Err(
                "data.csv: there is no column \"d\", which the head was trained on: the columns are \"c\", \"b\", \
                 \"note\", \"a\""
                    .to_owned()
            )
        );
        assert_eq!(
            features(table, &names(&["note"]), 1),
            Err("data.csv, line 2: column \"note\" holds \"u\", which is not a number".to_owned())
        );
        let labelled = "x,y,class\n0.5,1,0\n1.5,2,1\n";
        let counted = features(labelled, &[], 2);
        assert_eq!(counted, Ok(Some(vec![0.5, 1.0, 1.5, 2.0])));
    }

    #[test]
    fn row_numbers_are_no_features_and_a_byte_order_mark_is_no_column_name() {
        let numbered = dataset("\u{feff}id,x,label\r\n0,1,a\r\n1,2,b", None);
        assert_eq!((numbered.features.dim(), numbered.notes.len()), (1, 2));
        assert_eq!(numbered.notes[1], "left out: \"id\"");
    }

    #[test]
    fn bad_files_are_refused_with_line_and_column() {
        for (text, message) in [
            ("", "data.csv: the file is empty"),
            (
                "x,label\n",
                "data.csv: a header and no rows: nothing to train on",
            ),
            (
                "x,label\n1,a\n2\n",
                "data.csv, line 3: 1 values, expected 2 as in the header",
            ),
            (
                "x,label\n1,a\noops,b\n3,b\n",
                "data.csv, line 3: column \"x\" holds \"oops\", which is not a number",
            ),
            (
                "x,label\noops,a\n2,b\n3,b\n",
                "data.csv, line 2: column \"x\" holds \"oops\", which is not a number",
            ),
            (
                "x,label\n1,a\nNaN,b\n",
                "data.csv, line 3: column \"x\" holds \"NaN\", which is not finite: fill or drop such rows",
            ),
            (
                "x,label\n1,a\n1e39,b\n",
                "data.csv, line 3: column \"x\" holds \"1e39\", which is not finite: fill or drop such rows",
            ),
            (
                "x,label\n1,a\n,b\n",
                "data.csv, line 3: column \"x\" is empty: fill or drop such rows",
            ),
            (
                "x;label\n1;a\n\"1,5\";b\n",
                "data.csv, line 3: column \"x\" holds \"1,5\": write numbers with a decimal point",
            ),
            (
                "x;z;label\n1;1,5;a\n2;;b\n3;2;b\n",
                "data.csv, line 2: column \"z\" holds \"1,5\": write numbers with a decimal point",
            ),
            (
                "x;z;label\n1;1,5;a\n2;2,5;b\n",
                "data.csv, line 2: column \"z\" holds \"1,5\": write numbers with a decimal point",
            ),
            (
                "x,label\n1,a\n2,\n",
                "data.csv, line 3: column \"label\" is empty: every row needs a label",
            ),
            (
                "1,2\n3,4\n",
                "data.csv, line 1: numbers, expected a header: add a first line that names the columns",
            ),
            (
                "x,w\n1.5,2.5\n3,4\n",
                "data.csv: no label column can be told from the others: choose one of \"x\", \"w\"",
            ),
            (
                "label,w\na,u\nb,v\n",
                "data.csv: no numeric column beside the label \"label\": there are no features; where they are in another file, give both at once",
            ),
            (
                "x,label\n1,a\n2,a\n",
                "data.csv: every row has the label \"a\": metric learning needs two classes at least",
            ),
        ] {
            assert_eq!(refusal(text, None), message, "{text:?}");
        }
        assert_eq!(
            refusal("x,label\n1,a\n2,b\n", Some("kind")),
            "data.csv: there is no column \"kind\": the columns are \"x\", \"label\""
        );
        let png = NamedFile {
            name: "cat.png".to_owned(),
            bytes: vec![0x89],
        };
        assert_eq!(
            CsvTable::read(&png).expect_err("refused").to_string(),
            "cat.png: only CSV (with a header), NPY and NPZ files are read: save the data as one of these"
        );
    }
}
