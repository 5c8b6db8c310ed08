//! CSV: numeric columns are features, one column is the label, other text is left out or splits the rows.
//!
//! A column is parsed as numbers only once it is known to be a feature: labels are text, whatever they look like. Takes a
//! file whole, gives what becomes a [`Labelled`].

mod scan;

use std::collections::{BTreeSet, HashMap};

use ::csv::{ErrorKind, Reader, ReaderBuilder, StringRecord};

use super::foreign::{self, saved_again};
use super::{Format, Labelled, NamedFile, labelled, places};
use crate::error::{Error, Result};
use crate::quote::{LISTED, listed, quoted};
use scan::{Scan, line_of};

/// Column names that mean a label, whatever their case, the surest first: a `y` may be a coordinate.
pub(super) const LABEL_NAMES: [&str; 17] = [
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
/// Cells that decide whether a column holds numbers, the first that are not empty.
const LOOKED_AT: u8 = 100;
/// So many numbers in rising order are names of columns: wavelengths, say.
const RISING_NAMES: usize = 16;

/// What a column mostly holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Numbers,
    Text,
    /// Nothing, in no row.
    Empty,
}

/// A CSV file whose columns are told apart and whose cells are not parsed yet.
#[derive(Debug)]
pub struct CsvTable<'a> {
    file: &'a NamedFile,
    scan: Scan,
    /// The cells of the first line, a header or not.
    first: Vec<String>,
    kinds: Vec<Kind>,
    /// Rows after the first line.
    others: usize,
    /// Whether the first line is a row like the others.
    headless: bool,
    /// The names of the columns: where there is no header, "column 1" and so on.
    header: Vec<String>,
}

impl<'a> CsvTable<'a> {
    /// Tells numeric columns from text, and a header from a row.
    ///
    /// # Errors
    /// [`Error::Data`] for a file that is empty or no CSV, for a ragged row, an open quote and a line of absurd length; with
    /// the line.
    pub fn read(file: &'a NamedFile) -> Result<Self> {
        let name = &file.name;
        let refuse = |problem: &str| Err(Error::Data(format!("{name}: {problem}")));
        if let Some(error) = foreign::refusal(name, &file.bytes) {
            return Err(error);
        }
        if Format::of(name) != Some(Format::Table) {
            return refuse(
                "only CSV, NPY, NPZ and safetensors files are read: save the data as one of these",
            );
        }
        if content(file).iter().all(u8::is_ascii_whitespace) {
            return refuse("the file is empty");
        }
        let scan = Scan::new(name, content(file))?;
        let mut table = Self {
            file,
            scan,
            first: Vec::new(),
            kinds: Vec::new(),
            others: 0,
            headless: true,
            header: Vec::new(),
        };
        let mut columns: Vec<Column> = Vec::new();
        let (mut first, mut others, mut second_rises) = (Vec::new(), 0, false);
        table.each(|record| {
            if columns.is_empty() {
                first = record.iter().map(str::to_owned).collect();
                columns.resize_with(record.len(), Column::default);
                return Ok(());
            }
            if others == 0 {
                second_rises = rises(record.iter());
            }
            others += 1;
            for ((column, cell), first) in columns.iter_mut().zip(record).zip(&first) {
                column.see(cell, first);
            }
            Ok(())
        })?;
        (table.first, table.others) = (first, others);
        if let ([_], Some(line)) = (&table.first[..], table.scan.empty_line) {
            return Err(Error::Data(format!(
                "{name}, line {line}: an empty line in a file of one column: a value is missing, so fill the line or remove \
                 the row everywhere"
            )));
        }
        if table.others == 0 {
            // Of one line, which is a row where it holds numbers.
            for (column, first) in columns.iter_mut().zip(&table.first) {
                column.see(first, "");
            }
        }
        let headless = is_a_row(&table.first, &columns, second_rises);
        if table.others == 0 && !headless {
            return refuse("a header and no rows: nothing to train on");
        }
        table.kinds = columns.iter().map(Column::kind).collect();
        table.name_columns(headless);
        Ok(table)
    }

    /// Takes the first line for a row or for the header.
    fn name_columns(&mut self, headless: bool) {
        self.headless = headless;
        self.header = if headless {
            (1..=self.first.len())
                .map(|column| format!("column {column}"))
                .collect()
        } else {
            self.first.clone()
        };
    }

    /// Takes the first line for the header where that leaves as many rows as are known to be there: a line of numbers may be
    /// either.
    pub(super) fn expect(&mut self, rows: usize) {
        if self.headless && self.others == rows {
            self.name_columns(false);
        }
    }

    /// Rows without the header.
    pub(super) fn rows(&self) -> usize {
        self.others + usize::from(self.headless)
    }

    /// Gives every row in turn.
    fn each(&self, mut take: impl FnMut(&StringRecord) -> Result<()>) -> Result<()> {
        let mut reader = self.reader();
        let mut record = StringRecord::new();
        let mut is_row = self.headless;
        let failed = |error: &::csv::Error| self.csv_error(error);
        while reader
            .read_record(&mut record)
            .map_err(|error| failed(&error))?
        {
            if is_row {
                take(&record)?;
            }
            is_row = true;
        }
        Ok(())
    }

    fn reader(&self) -> Reader<&'a [u8]> {
        ReaderBuilder::new()
            .delimiter(self.scan.delimiter)
            .has_headers(false)
            .trim(::csv::Trim::All)
            .from_reader(content(self.file))
    }

    /// The line that a row begins on.
    fn line(&self, position: Option<&::csv::Position>) -> usize {
        let place = position.map_or(0, ::csv::Position::byte);
        line_of(content(self.file), place as usize)
    }

    fn csv_error(&self, error: &::csv::Error) -> Error {
        let (name, line) = (&self.file.name, self.line(error.position()));
        Error::Data(match error.kind() {
            ErrorKind::UnequalLengths {
                expected_len, len, ..
            } => {
                let s = if *len == 1 { "" } else { "s" };
                format!(
                    "{name}, line {line}: {len} value{s}, expected {expected_len} as in the first line"
                )
            }
            ErrorKind::Utf8 { .. } => format!(
                "{name}, line {line}: not UTF-8: save the file as UTF-8, with pandas {}",
                self.saved_again(", encoding=\"latin-1\"", "")
            ),
            _ => format!("{name}: not a CSV file: {error}"),
        })
    }

    /// How pandas saves this table once more.
    fn saved_again(&self, arguments: &str, change: &str) -> String {
        let delimiter = match self.scan.delimiter {
            b',' => "",
            b'\t' => ", sep=\"\\t\"",
            _ => ", sep=\";\"",
        };
        let header = match self.headless && !self.header.is_empty() {
            true => ", header=None",
            false => "",
        };
        saved_again(
            &self.file.name,
            &format!("{delimiter}{header}{arguments}"),
            change,
        )
    }

    /// The numeric columns but for row numbers.
    fn numeric(&self) -> Vec<usize> {
        let mut columns = self.of_kind(Kind::Numbers);
        columns.retain(|column| !self.is_id(*column));
        columns
    }

    fn of_kind(&self, kind: Kind) -> Vec<usize> {
        let columns = 0..self.kinds.len();
        columns
            .filter(|column| self.kinds[*column] == kind)
            .collect()
    }

    fn is_id(&self, column: usize) -> bool {
        let name = &self.header[column];
        ID_NAMES.iter().any(|id| name.eq_ignore_ascii_case(id))
    }

    /// The numbers of these columns, `[rows, columns]`.
    ///
    /// # Errors
    /// [`Error::Data`] for a cell that is no finite number, with the line and the column.
    fn values(&self, columns: &[usize]) -> Result<Vec<f32>> {
        let (rows, name) = (self.rows(), &self.file.name);
        let mut values = Vec::new();
        rows.checked_mul(columns.len())
            .and_then(|count| values.try_reserve_exact(count).ok())
            .ok_or_else(|| {
                let columns = columns.len();
                Error::Data(format!(
                    "{name}: {rows} rows of {columns} features are more than fits the memory here"
                ))
            })?;
        self.each(|record| {
            for column in columns {
                let cell = &record[*column];
                let value = self.number(cell).filter(|value| value.is_finite());
                let value = value.ok_or_else(|| {
                    let line = self.line(record.position());
                    let (column, problem) = (quoted(&self.header[*column]), self.problem(cell));
                    Error::Data(format!("{name}, line {line}: column {column} {problem}"))
                })?;
                values.push(value);
            }
            Ok(())
        })?;
        Ok(values)
    }

    /// A cell as a number; where semicolons part the cells, a comma may stand for the decimal point.
    fn number(&self, cell: &str) -> Option<f32> {
        let with_a_point = || {
            let comma = self.scan.delimiter == b';' && cell.contains(',');
            comma.then(|| cell.replacen(',', ".", 1).parse().ok())?
        };
        cell.parse().ok().or_else(with_a_point)
    }

    /// Why a cell is no feature, and what to do.
    fn problem(&self, cell: &str) -> String {
        let with_a_point = || cell.replace(',', ".").parse::<f32>();
        let missing = || {
            let empty_columns = self.kinds.contains(&Kind::Empty);
            let drop_columns = [".dropna(axis=1, how=\"all\")", ""][usize::from(!empty_columns)];
            let how = self.saved_again("", &format!("{drop_columns}.dropna()"));
            format!("fill or drop such rows; pandas drops them: {how}")
        };
        let shown = quoted(cell);
        match cell {
            "" => format!("is empty: {}", missing()),
            _ if is_missing(cell) => format!("holds {shown}, a missing value: {}", missing()),
            _ if cell.contains(',') && with_a_point().is_ok() => format!(
                "holds {shown}: write numbers with a decimal point; pandas does: {}",
                self.saved_again(", decimal=\",\"", "")
            ),
            _ if cell.parse::<f32>().is_ok() && cell.contains(|c: char| c.is_ascii_digit()) => {
                format!(
                    "holds {shown}, too large for 32-bit floats (3.4e38 at most): scale the column"
                )
            }
            _ if cell.parse::<f32>().is_ok() => {
                format!("holds {shown}, which is not finite: {}", missing())
            }
            _ => format!("holds {shown}, which is not a number"),
        }
    }

    /// Splits the table into features and labels; the label column is guessed where it is not named.
    ///
    /// # Errors
    /// [`Error::Data`] when there is no such column, none can be guessed, no numeric column is left, a label is missing,
    /// or a cell of a feature is no finite number.
    pub(super) fn into_labelled(self, label: Option<&str>) -> Result<Labelled> {
        let (label, reason) = self.find(label)?;
        let labels = self.labels(label)?;
        let name = quoted(&self.header[label]);
        let rows = self.features(Some(label), &labels, &format!("beside the label {name}"))?;
        let mut notes = vec![format!("label = {name} ({reason})")];
        notes.extend(rows.notes);
        Ok(Labelled {
            labels,
            label_column: Some(self.header[label].clone()),
            notes,
            ..rows
        })
    }

    /// All numeric columns as features, for labels from elsewhere; but not one that is the labels again.
    ///
    /// # Errors
    /// [`Error::Data`] when there is none, or a cell of a feature is no finite number.
    pub(super) fn beside_labels(self, labels: Vec<String>) -> Result<Labelled> {
        let rows = self.features(None, &labels, "that can be a feature")?;
        Ok(Labelled { labels, ..rows })
    }

    /// The numeric columns but the label, and but what says the same as the label.
    fn features(&self, label: Option<usize>, labels: &[String], wanted: &str) -> Result<Labelled> {
        let mut columns = self.numeric();
        columns.retain(|column| Some(*column) != label);
        let again = self.labels_again(labels, &columns)?;
        columns.retain(|column| !again.contains(column));
        if columns.is_empty() {
            return Err(self.no_features(wanted));
        }
        Ok(Labelled {
            name: self.file.name.clone(),
            values: self.values(&columns)?,
            dim: columns.len(),
            feature_names: self.names(&columns),
            columns: self.text_columns(label)?,
            notes: self.notes(&columns, label, &again),
            ..Labelled::default()
        })
    }

    fn no_features(&self, wanted: &str) -> Error {
        let what_to_do = match &self.header[..] {
            [_] => "where it should have more, separate the cells by commas, semicolons or tabs",
            _ => "where they are in another file, give both at once",
        };
        Error::Data(format!(
            "{}: no numeric column {wanted}: there are no features; {what_to_do}",
            self.file.name
        ))
    }

    /// Which of these columns say what the labels say: the same in every row, or, where the name means a label, one value
    /// for each label.
    fn labels_again(&self, labels: &[String], columns: &[usize]) -> Result<Vec<usize>> {
        if labels.len() != self.rows() {
            return Ok(Vec::new());
        }
        let mut equal = columns.to_vec();
        let is_named = |column: &usize| {
            let name = &self.header[*column];
            let mut names = LABEL_NAMES.iter().filter(|name| **name != "y");
            names.any(|label| name.eq_ignore_ascii_case(label))
        };
        type Codes<'a> = (usize, HashMap<&'a str, String>);
        let mut codes: Vec<Codes<'_>> = Vec::new();
        for column in columns.iter().copied().filter(is_named) {
            codes.push((column, HashMap::new()));
        }
        let mut rest = labels.iter();
        self.each(|record| {
            let label = rest.next().map_or("", String::as_str);
            equal.retain(|column| is_same(&record[*column], label));
            codes.retain_mut(|(column, codes)| {
                let code = &record[*column];
                codes.entry(label).or_insert_with(|| code.to_owned()) == code
            });
            Ok(())
        })?;
        // As many values as labels, and more rows of each than one.
        codes.retain(|(_, codes)| {
            let values: BTreeSet<&String> = codes.values().collect();
            values.len() == codes.len() && 2 * codes.len() <= labels.len()
        });
        let mut again: Vec<usize> = codes.iter().map(|(column, _)| *column).collect();
        again.extend(equal);
        Ok(again)
    }

    /// Columns as features, without labels: those of these names in their order, where a head has names; else the numeric
    /// ones. But not those that are named like a label: of rows for a head of `dim` inputs one, where so many are left.
    ///
    /// # Errors
    /// [`Error::Data`] when a column is missing, by its name, or a cell is no finite number.
    pub fn into_features(mut self, names: &[String], dim: Option<usize>) -> Result<Labelled> {
        let columns = if names.is_empty() {
            let mut columns = self.numeric();
            let labels: Vec<usize> = match dim {
                None => self.label_columns(),
                Some(dim) if columns.len() == dim + 1 => self.named_label().into_iter().collect(),
                Some(_) => Vec::new(),
            };
            columns.retain(|column| !labels.contains(column));
            if columns.is_empty() {
                return Err(self.no_features("that can be a feature"));
            }
            columns
        } else {
            if self.headless && places(names, &self.first).is_ok() {
                self.name_columns(false);
            }
            places(names, &self.header).map_err(|name| {
                let (name, file) = (quoted(name), &self.file.name);
                let header = match self.headless {
                    true => "the file has no header".to_owned(),
                    false => format!("the columns are {}", self.all_names()),
                };
                Error::Data(format!(
                    "{file}: there is no column {name}, which the head was trained on: {header}"
                ))
            })?
        };
        let mut notes = vec![format!(
            "features = {}",
            listed(columns.iter().map(|column| self.header[*column].as_str()))
        )];
        notes.extend(self.notes(&columns, None, &[]));
        let (values, dim) = (self.values(&columns)?, columns.len());
        labelled::check_values(&self.file.name, &values, dim, 0)?;
        Ok(Labelled {
            name: self.file.name.clone(),
            values,
            dim,
            feature_names: self.names(&columns),
            notes,
            ..Labelled::default()
        })
    }

    /// The cells of a column as labels, and what was taken; a file of labels may have one column only.
    ///
    /// # Errors
    /// [`Error::Data`] when there is no such column, none can be guessed, or a label is missing.
    pub(super) fn column(&self, name: Option<&str>) -> Result<labelled::Labels> {
        let mut notes = Vec::new();
        let column = match (name, &self.header[..]) {
            (None, [_]) => 0,
            _ => {
                let (column, reason) = self.find(name)?;
                let name = quoted(&self.header[column]);
                notes.push(format!("label = {name} ({reason})"));
                column
            }
        };
        notes.extend(self.oddities());
        Ok(labelled::Labels {
            labels: self.labels(column)?,
            column: (!self.headless).then(|| self.header[column].clone()),
            notes,
        })
    }

    /// The names of all columns.
    pub fn header(&self) -> &[String] {
        &self.header
    }

    /// What was decided while reading these features, in words.
    fn notes(&self, features: &[usize], label: Option<usize>, again: &[usize]) -> Vec<String> {
        let mut notes = self.oddities();
        let mut is_left = vec![true; self.header.len()];
        for column in features.iter().chain(&label) {
            is_left[*column] = false;
        }
        let left = (0..self.header.len()).filter(|column| is_left[*column]);
        // Row numbers, then the rest: a table may have thousands.
        let mut left: Vec<usize> = left.collect();
        left.sort_by_key(|column| !self.is_id(*column));
        let why = |column: &usize| match self.kinds[*column] {
            _ if again.contains(column) => " (says what the labels say)",
            Kind::Empty if !self.is_id(*column) => " (empty)",
            _ => "",
        };
        let more = left.split_off(left.len().min(LISTED)).len();
        let mut left: Vec<String> = left
            .iter()
            .map(|column| format!("{}{}", quoted(&self.header[*column]), why(column)))
            .collect();
        if more > 0 {
            left.push(format!("and {more} more"));
        }
        if !left.is_empty() {
            notes.push(format!("left out: {}", left.join(", ")));
        }
        notes
    }

    /// What is unusual about the file and was read all the same.
    fn oddities(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.headless {
            notes.push(
                "no header: the first line is read as a row, the columns are called \"column 1\", \"column 2\", .."
                    .to_owned(),
            );
        }
        let names = self.numeric().into_iter();
        let mut names = names.map(|column| self.header[column].as_str());
        if let Some(name) = names.find(|name| !self.headless && is_fraction(name)) {
            notes.push(format!(
                "the header calls a column {}: where the first line is a row, write a header above it",
                quoted(name)
            ));
        }
        if let Some((count, line)) = self.scan.long_cells {
            let cells = match count {
                1 => "1 cell in quotes runs".to_owned(),
                _ => format!("{count} cells in quotes run"),
            };
            notes.push(format!("{cells} over several lines, from line {line} on"));
        }
        notes
    }

    fn names(&self, columns: &[usize]) -> Vec<String> {
        if self.headless {
            return Vec::new();
        }
        let names = columns.iter().map(|column| self.header[*column].clone());
        names.collect()
    }

    /// The names of all columns, for a message.
    fn all_names(&self) -> String {
        listed(self.header.iter().map(String::as_str))
    }

    /// The label column, and why it is this one.
    fn find(&self, name: Option<&str>) -> Result<(usize, String)> {
        if let Some(name) = name {
            let place = self.header.iter().position(|column| column == name);
            return place
                .map(|place| (place, "as chosen".to_owned()))
                .ok_or_else(|| {
                    Error::Data(format!(
                        "{}: there is no column {}: the columns are {}",
                        self.file.name,
                        quoted(name),
                        self.all_names()
                    ))
                });
        }
        if let Some(column) = self.named_label() {
            return Ok((column, "by its name".to_owned()));
        }
        let text = self.of_kind(Kind::Text);
        if let [column] = text[..] {
            return Ok((column, "the only text column".to_owned()));
        }
        if text.is_empty() {
            // Few different integers, and not row numbers.
            let numeric = self.numeric();
            let counts = self.distinct(&numeric, self.most_classes(), is_whole);
            let few = |count: Option<usize>| count.is_some_and(|n| (2..self.rows()).contains(&n));
            let counted = numeric.iter().zip(counts);
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
        LABEL_NAMES
            .iter()
            .find_map(|name| (0..self.header.len()).find(|column| self.is_label(*column, name)))
    }

    /// Every column that is named like a label and can be one; but where there is an `x`, `y` is a coordinate.
    fn label_columns(&self) -> Vec<usize> {
        let has_x = self
            .header
            .iter()
            .any(|name| name.eq_ignore_ascii_case("x"));
        let names = LABEL_NAMES.iter().filter(|name| !has_x || **name != "y");
        let columns = names.flat_map(|name| {
            (0..self.header.len()).filter(move |column| self.is_label(*column, name))
        });
        columns.collect()
    }

    /// Whether a column has this name and can hold labels.
    fn is_label(&self, column: usize, name: &str) -> bool {
        let most = match name {
            "y" => self.most_classes(),
            _ => usize::MAX,
        };
        self.header[column].eq_ignore_ascii_case(name)
            && (self.kinds[column] == Kind::Text
                || self.distinct(&[column], most, |cell| !is_fraction(cell)) != [None])
    }

    /// More different numbers than this are no classes.
    fn most_classes(&self) -> usize {
        (self.rows() / 4).max(50)
    }

    /// How many different cells each column has; `None` where they are more than `most` or one fails the test.
    fn distinct(
        &self,
        columns: &[usize],
        most: usize,
        test: impl Fn(&str) -> bool,
    ) -> Vec<Option<usize>> {
        let mut seen = vec![Some(BTreeSet::new()); columns.len()];
        let all = self.each(|record| {
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
            Ok(())
        });
        debug_assert!(all.is_ok(), "the table was read before");
        let counts = seen.into_iter().map(|seen| Some(seen?.len()));
        counts.collect()
    }

    fn labels(&self, column: usize) -> Result<Vec<String>> {
        let mut labels = Vec::with_capacity(self.rows());
        self.each(|record| {
            let cell = &record[column];
            if labelled::is_missing(cell) {
                let line = self.line(record.position());
                let (file, column) = (&self.file.name, quoted(&self.header[column]));
                let problem = match cell {
                    "" => "is empty".to_owned(),
                    _ => format!("holds {}, a missing value", quoted(cell)),
                };
                let advice = labelled::advice_on_missing(cell);
                return Err(Error::Data(format!(
                    "{file}, line {line}: column {column} {problem}: {advice}"
                )));
            }
            labels.push(cell.to_owned());
            Ok(())
        })?;
        Ok(labels)
    }

    /// The text columns but the label, by name; their cells may be empty.
    fn text_columns(&self, label: Option<usize>) -> Result<Vec<(String, Vec<String>)>> {
        let mut text = self.of_kind(Kind::Text);
        text.retain(|column| Some(*column) != label);
        let mut columns: Vec<(String, Vec<String>)> = text
            .iter()
            .map(|column| (self.header[*column].clone(), Vec::new()))
            .collect();
        self.each(|record| {
            for (column, (_, cells)) in text.iter().zip(&mut columns) {
                cells.push(record[*column].to_owned());
            }
            Ok(())
        })?;
        Ok(columns)
    }
}

/// What the rows after the first say of a column.
#[derive(Default)]
struct Column {
    /// Cells that are not empty, up to [`LOOKED_AT`], and numbers among them.
    filled: u8,
    numbers: u8,
    /// Whether the cell of the first line stands in another row too.
    repeats_first: bool,
}

impl Column {
    fn see(&mut self, cell: &str, first: &str) {
        self.repeats_first |= cell == first;
        if self.filled < LOOKED_AT && !is_missing(cell) {
            self.filled += 1;
            // A decimal comma makes a number as well: one that is refused when it is parsed, unless semicolons part the cells.
            self.numbers += u8::from(is_number(cell));
        }
    }

    fn kind(&self) -> Kind {
        match self.filled {
            0 => Kind::Empty,
            filled if self.numbers >= filled.div_ceil(2) => Kind::Numbers,
            _ => Kind::Text,
        }
    }
}

/// Whether the first line is a row like the others and no header: where it holds numbers alone, unless they are such as name
/// columns, and where numbers stand above numbers and a text is the same as in another row, as a label is.
fn is_a_row(first: &[String], columns: &[Column], second_rises: bool) -> bool {
    if first.iter().all(|cell| cell.parse::<f64>().is_ok()) {
        let counts = |(place, cell): (usize, &String)| cell.parse() == Ok(place);
        let numbered = first.len() > 1 && first.iter().enumerate().all(counts);
        let names = first.len() >= RISING_NAMES && !second_rises && rises(first.iter());
        return !numbered && !names;
    }
    let mut cells = first.iter().zip(columns);
    let numbers_on_numbers = cells.clone().all(|(cell, column)| {
        column.kind() != Kind::Numbers || is_number(cell) || is_missing(cell)
    });
    let a_label = cells.any(|(cell, column)| {
        column.kind() == Kind::Text && column.repeats_first && !is_missing(cell)
    });
    numbers_on_numbers && a_label
}

/// Whether each cell is a larger number than the one before.
fn rises(cells: impl Iterator<Item = impl AsRef<str>>) -> bool {
    let numbers = cells.map(|cell| cell.as_ref().parse::<f64>().unwrap_or(f64::NAN));
    numbers.is_sorted_by(|number, next| number < next)
}

/// Whether a cell is a number, with a decimal point or a comma.
fn is_number(cell: &str) -> bool {
    cell.parse::<f32>().is_ok()
        || (cell.contains(',') && cell.replace(',', ".").parse::<f32>().is_ok())
}

/// Whether a cell is the same as a label, or the same number.
fn is_same(cell: &str, label: &str) -> bool {
    let equal = |cell: f64| label.parse().is_ok_and(|label: f64| cell == label);
    cell == label || cell.parse().is_ok_and(equal)
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

/// Whether a cell of numbers stands for none, as pandas and R write it.
fn is_missing(cell: &str) -> bool {
    ["", "na", "n/a", "nan", "null", "none"]
        .iter()
        .any(|word| cell.eq_ignore_ascii_case(word))
}

/// The bytes of a file without its byte order mark.
fn content(file: &NamedFile) -> &[u8] {
    let bytes = file.bytes.strip_prefix(b"\xef\xbb\xbf");
    bytes.unwrap_or(&file.bytes)
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
            rows.map(|rows| rows.values)
                .map_err(|error| error.to_string())
        };
        let table = "c,b,note,a\n3,2,u,1\n6,5,v,4\n";
        let chosen = features(table, &names(&["a", "b"]), Some(2));
        assert_eq!(chosen, Ok(vec![1.0, 2.0, 4.0, 5.0]));
        assert_eq!(
            features(table, &names(&["a", "d"]), Some(2)),
            Err(
                "data.csv: there is no column \"d\", which the head was trained on: the columns are \"c\", \"b\", \
                 \"note\", \"a\""
                    .to_owned()
            )
        );
        assert_eq!(
            features(table, &names(&["note"]), Some(1)),
            Err("data.csv, line 2: column \"note\" holds \"u\", which is not a number".to_owned())
        );
        let labelled = "x,y,class\n0.5,1,0\n1.5,2,1\n";
        let counted = features(labelled, &[], Some(2));
        assert_eq!(counted, Ok(vec![0.5, 1.0, 1.5, 2.0]));
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
                "data.csv, line 3: 1 value, expected 2 as in the first line",
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
                "data.csv, line 3: column \"x\" holds \"NaN\", a missing value: fill or drop such rows; pandas drops them: \
                 `import pandas as pd; pd.read_csv(\"data.csv\").dropna().to_csv(\"data_clean.csv\", index=False)`",
            ),
            (
                "x;empty;label\n1;;a\nNA;;b\n",
                "data.csv, line 3: column \"x\" holds \"NA\", a missing value: fill or drop such rows; pandas drops them: \
                 `import pandas as pd; pd.read_csv(\"data.csv\", sep=\";\").dropna(axis=1, \
                 how=\"all\").dropna().to_csv(\"data_clean.csv\", index=False)`",
            ),
            (
                "x,label\n1,a\n-inf,b\n",
                "data.csv, line 3: column \"x\" holds \"-inf\", which is not finite: fill or drop such rows; pandas drops \
                 them: `import pandas as pd; pd.read_csv(\"data.csv\").dropna().to_csv(\"data_clean.csv\", index=False)`",
            ),
            (
                "x,label\n1,a\n1e39,b\n",
                "data.csv, line 3: column \"x\" holds \"1e39\", too large for 32-bit floats (3.4e38 at most): scale the column",
            ),
            (
                "x,label\n1,a\n1e400,b\n",
                "data.csv, line 3: column \"x\" holds \"1e400\", too large for 32-bit floats (3.4e38 at most): scale the column",
            ),
            (
                "x,label\n1,a\n,b\n",
                "data.csv, line 3: column \"x\" is empty: fill or drop such rows; pandas drops them: `import pandas as pd; \
                 pd.read_csv(\"data.csv\").dropna().to_csv(\"data_clean.csv\", index=False)`",
            ),
            (
                "x\tlabel\n1\ta\n\"1,5\"\tb\n",
                "data.csv, line 3: column \"x\" holds \"1,5\": write numbers with a decimal point; pandas does: `import pandas as pd; \
                 pd.read_csv(\"data.csv\", sep=\"\\t\", decimal=\",\").to_csv(\"data_clean.csv\", index=False)`",
            ),
            (
                "x;z;label\n1;1,5;a\n2;1.234,5;b\n3;2;b\n",
                "data.csv, line 3: column \"z\" holds \"1.234,5\", which is not a number",
            ),
            (
                "x,label\n1,a\n2,\n",
                "data.csv, line 3: column \"label\" is empty: every row needs a label: drop the rows without one",
            ),
            (
                "x,label\n1,a\n2,NA\n",
                "data.csv, line 3: column \"label\" holds \"NA\", a missing value: every row needs a label: drop the rows \
                 without one, or, where NA is the name of a class, give it another name, such as \"NA_\"",
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
            "cat.png: only CSV, NPY, NPZ and safetensors files are read: save the data as one of these"
        );
    }
}
