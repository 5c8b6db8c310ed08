//! CSV with a header: numeric columns are features, one column is the label, other text is left out or splits the rows.

use std::collections::BTreeSet;

use ::csv::{ErrorKind, Reader, ReaderBuilder, StringRecord};

use super::{Labelled, NamedFile, RowSource};
use crate::error::{Error, Result};

/// Column names that mean a label, whatever their case.
const LABEL_NAMES: [&str; 17] = [
    "label",
    "labels",
    "target",
    "y",
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
];
/// Column names that mean a row number, and never a feature.
const ID_NAMES: [&str; 6] = ["", "id", "index", "unnamed: 0", "barcode", "row"];
/// Rows that decide whether a column holds numbers.
const LOOKED_AT: usize = 100;

/// A CSV file, read but for the choice of its label column.
#[derive(Debug)]
pub struct CsvTable<'a> {
    file: &'a NamedFile,
    header: Vec<String>,
    /// The columns that hold numbers, row numbers left out.
    numeric: Vec<usize>,
    /// `[rows, numeric]`.
    values: Vec<f32>,
    text: Vec<usize>,
    ignored: Vec<usize>,
    rows: usize,
}

impl<'a> CsvTable<'a> {
    /// Reads the numbers of a file.
    ///
    /// # Errors
    /// [`Error::Data`] for a file that is empty or no CSV, a ragged row, and a cell that is no finite number; with the
    /// line and the column.
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
        for record in records(file).take(LOOKED_AT) {
            for (column, cell) in record?.iter().enumerate() {
                filled[column] += usize::from(!is_missing(cell));
                numbers[column] += usize::from(!is_missing(cell) && cell.parse::<f32>().is_ok());
            }
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
        let mut table = Self {
            file,
            header,
            numeric,
            values: Vec::new(),
            text,
            ignored,
            rows: 0,
        };
        table.read_values()?;
        if table.rows == 0 {
            return Err(Error::Data(format!(
                "{}: a header and no rows: nothing to train on",
                file.name
            )));
        }
        Ok(table)
    }

    fn read_values(&mut self) -> Result<()> {
        for record in records(self.file) {
            let record = record?;
            self.rows += 1;
            for column in &self.numeric {
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
                self.values.push(value);
            }
        }
        Ok(())
    }

    /// Splits the table into features and labels; the label column is guessed where it is not named.
    ///
    /// # Errors
    /// [`Error::Data`] when there is no such column, none can be guessed, or no numeric column is left.
    pub(super) fn into_labelled(self, label: Option<&str>) -> Result<Labelled> {
        let (label, reason) = self.find(label)?;
        let labels = self.text_of(label)?;
        let dim = self
            .numeric
            .iter()
            .filter(|column| **column != label)
            .count();
        if dim == 0 {
            return Err(Error::Data(format!(
                "{}: no numeric column beside the label \"{}\": there are no features",
                self.file.name, self.header[label]
            )));
        }
        let mut notes = vec![format!("label = \"{}\" ({reason})", self.header[label])];
        notes.extend(self.left_out(Some(label)));
        let mut columns = Vec::new();
        for column in self.text.iter().filter(|column| **column != label) {
            columns.push((self.header[*column].clone(), self.text_of(*column)?));
        }
        Ok(Labelled {
            name: self.file.name.clone(),
            values: self.values_but(Some(label)),
            dim,
            labels,
            label_column: Some(self.header[label].clone()),
            columns,
            notes,
        })
    }

    /// All numeric columns as features, for labels from elsewhere.
    pub(super) fn without_labels(self) -> Labelled {
        Labelled {
            name: self.file.name.clone(),
            dim: self.numeric.len(),
            notes: self.left_out(None).into_iter().collect(),
            values: self.values,
            ..Labelled::default()
        }
    }

    /// The numeric columns as `dim` features: a column that is named like a label is left out where that fits.
    pub fn into_features(self, dim: usize) -> RowSource {
        let label = self
            .numeric
            .iter()
            .copied()
            .find(|column| self.is_label_name(*column));
        let label = label.filter(|_| self.numeric.len() == dim + 1);
        RowSource::Memory {
            dim: self.numeric.len() - usize::from(label.is_some()),
            values: self.values_but(label),
        }
    }

    fn values_but(&self, left_out: Option<usize>) -> Vec<f32> {
        let kept: Vec<usize> = (0..self.numeric.len())
            .filter(|place| Some(self.numeric[*place]) != left_out)
            .collect();
        let rows = self.values.chunks_exact(self.numeric.len().max(1));
        rows.flat_map(|row| kept.iter().map(|place| row[*place]))
            .collect()
    }

    /// The cells of a column as text; a file of labels may have one column only.
    ///
    /// # Errors
    /// As [`CsvTable::into_labelled`].
    pub(super) fn column(&self, name: Option<&str>) -> Result<Vec<String>> {
        match name {
            None if self.header.len() == 1 => self.text_of(0),
            name => self.text_of(self.find(name)?.0),
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

    fn is_label_name(&self, column: usize) -> bool {
        LABEL_NAMES.contains(&self.header[column].to_lowercase().as_str())
    }

    /// The label column, and why it is this one.
    fn find(&self, name: Option<&str>) -> Result<(usize, String)> {
        let all = || {
            self.header
                .iter()
                .map(|name| format!("\"{name}\""))
                .collect::<Vec<_>>()
                .join(", ")
        };
        if let Some(name) = name {
            let place = self.header.iter().position(|column| column == name);
            return place
                .map(|place| (place, "as chosen".to_owned()))
                .ok_or_else(|| {
                    Error::Data(format!(
                        "{}: there is no column \"{name}\": the columns are {}",
                        self.file.name,
                        all()
                    ))
                });
        }
        if let Some(column) = (0..self.header.len()).find(|column| self.is_label_name(*column)) {
            return Ok((column, "by its name".to_owned()));
        }
        if let [column] = self.text[..] {
            return Ok((column, "the only text column".to_owned()));
        }
        if self.text.is_empty() {
            let classes: Vec<usize> = self
                .numeric
                .iter()
                .copied()
                .filter(|column| self.looks_like_classes(*column))
                .collect();
            if let [column] = classes[..] {
                return Ok((column, "the only column of few integers".to_owned()));
            }
        }
        Err(Error::Data(format!(
            "{}: no label column can be told from the others: choose one of {}",
            self.file.name,
            all()
        )))
    }

    /// Whether a numeric column holds few different integers, and not row numbers.
    fn looks_like_classes(&self, column: usize) -> bool {
        let place = self.numeric.iter().position(|other| *other == column);
        let values = place.into_iter().flat_map(|place| {
            self.values
                .iter()
                .skip(place)
                .step_by(self.numeric.len())
                .copied()
        });
        let mut distinct = BTreeSet::new();
        for value in values {
            if value.fract() != 0.0 || distinct.len() > (self.rows / 4).max(50) {
                return false;
            }
            distinct.insert(value as i64);
        }
        distinct.len() >= 2
            && distinct.len() < self.rows
            && distinct.len() <= (self.rows / 4).max(50)
    }

    fn text_of(&self, column: usize) -> Result<Vec<String>> {
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
    use crate::dataset::{Choice, Dataset};

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
                "data.csv: no numeric column beside the label \"label\": there are no features",
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
