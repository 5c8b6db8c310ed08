//! [`Table`]: named columns, told apart as numbers and text while rows come, each row once. Numeric columns are features, one
//! column is the label, other text is left out or splits the rows.
//!
//! Readers of tables (CSV, JSON Lines, Parquet) push rows of cells; the finished table becomes a [`crate::Labelled`]. A column is taken
//! for numbers or text by its first cells; its cells are then parsed once, straight into rows of features. Columns that may be the
//! label are kept as text too, whatever they hold.

mod builder;
mod cells;
mod column;
mod features;
mod labels;
mod names;
mod refused;
mod shown;

use super::lines::Lines;
use super::row_numbers::Counts;
use crate::base::quote::listed;
use crate::data::Texts;
use crate::data::rows::notation::{Marks, Notation};
pub(super) use builder::{Builder, Commas};
pub(super) use cells::Cell;
use cells::is_missing_number;
use column::{Column, Few, Kind, Odd};
#[cfg(feature = "hdf5")]
pub(super) use names::LABEL_NAMES;
pub(super) use names::is_label_name;
use names::{COUNTER_NAMES, ID_NAMES, counts_by_name};

/// Rows from which on the values of a column tell its role; in fewer, one value for each label may be chance.
const FEWEST_TOLD: usize = 16;
/// Columns at most: the state of a column takes much more memory than a cell of one byte in the file.
pub(super) const MOST_COLUMNS: usize = 1 << 18;
/// A column of a table that was read.
#[derive(Debug)]
struct Told {
    kind: Kind,
    notation: Notation,
    place: Option<usize>,
    texts: Option<Texts>,
    left_out: bool,
    /// Taken for text though all its first cells are numbers: a column beside a vector.
    is_beside: bool,
    odd: Option<Box<Odd>>,
    few: Option<Box<Few>>,
    counts: Option<Counts>,
}

impl Told {
    fn of(column: Column) -> Self {
        Self {
            is_beside: column.is_text && column.filled > 0 && column.numbers == column.filled,
            kind: column.kind,
            notation: column.notation,
            place: column.place,
            texts: column.texts.map(|texts| texts.finish()),
            left_out: column.left_out,
            odd: column.odd,
            few: column.few,
            counts: column.counter.and_then(|counter| counter.finish()),
        }
    }
}

/// A table whose columns are told apart.
#[derive(Debug)]
pub struct Table {
    name: String,
    /// The cells of the first line, a header or not.
    first: Vec<String>,
    chosen: Option<String>,
    columns: Vec<Told>,
    width: usize,
    /// `[rows, width]`, NaN for a cell that is no finite number.
    values: Vec<f32>,
    rows: usize,
    /// Set if the first line is a row like the others, not a header.
    headless: bool,
    /// Set if all numbers of a row are the elements of one vector.
    has_vector: bool,
    /// Cells of the first rows as they are shown, by row.
    shown: Vec<Vec<String>>,
    /// Marks in the numbers of all columns.
    marks: Marks,
    /// The column by which labels of another file are joined.
    key: Option<usize>,
    /// Names of the columns; "column 1" and so on if there is no header.
    header: Vec<String>,
    /// The line of each row, the first line among them; none if a file has no lines.
    lines: Option<Lines>,
    /// Delimiter between the cells of a CSV; none for other formats.
    delimiter: Option<u8>,
    /// Notes of the reader on unusual things in the file, which was read all the same.
    oddities: Vec<String>,
    /// Columns that are not read, and what each holds.
    unread: Vec<(String, &'static str)>,
}

impl Table {
    fn name_columns(&mut self) {
        let numbered = |at: usize| format!("column {}", at + 1);
        self.header = match self.headless {
            true => (0..self.first.len()).map(numbered).collect(),
            false => self.first.clone(),
        };
    }

    /// Adds a note on something unusual in the file.
    pub(super) fn note(&mut self, oddity: String) {
        self.oddities.push(oddity);
    }

    /// Names the columns that are not read, with what each holds: "a list of text".
    pub(super) fn leave_unread(&mut self, columns: Vec<(String, &'static str)>) {
        self.unread = columns;
    }

    /// Takes the first line for the header.
    fn has_header(&mut self) {
        if !self.headless {
            return;
        }
        self.headless = false;
        self.name_columns();
        self.values.drain(..self.width);
        self.rows -= 1;
        self.shown.remove(0);
        let mut keep = vec![true; self.rows + 1];
        keep[0] = false;
        for column in &mut self.columns {
            if let Some(texts) = &mut column.texts {
                texts.retain(&keep);
            }
        }
    }

    /// Takes the first line for the header if that leaves `rows` rows, as many as are known to be there: a line of numbers may be
    /// either.
    pub(super) fn expect(&mut self, rows: usize) {
        if self.headless && self.rows - 1 == rows {
            self.has_header();
        }
    }

    /// The file's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Rows without the header.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// The names of all columns.
    pub fn header(&self) -> &[String] {
        &self.header
    }

    /// Place of a row in the file, for messages: its line, or its number if the file has no lines.
    fn place(&self, row: usize) -> String {
        match &self.lines {
            Some(lines) => format!("line {}", lines.of(row + usize::from(!self.headless))),
            None => format!("row {}", row + 1),
        }
    }

    /// The numeric columns except row numbers.
    fn numeric(&self) -> Vec<usize> {
        let mut columns = self.of_kind(Kind::Numbers);
        columns.retain(|column| !self.is_id(*column));
        columns
    }

    fn of_kind(&self, kind: Kind) -> Vec<usize> {
        let columns = 0..self.columns.len();
        columns
            .filter(|column| self.columns[*column].kind == kind)
            .collect()
    }

    /// Tells if a column numbers the rows, by its name or by its values.
    fn is_id(&self, column: usize) -> bool {
        let name = &self.header[column];
        ID_NAMES.iter().any(|id| name.eq_ignore_ascii_case(id)) || self.numbers_rows(column)
    }

    /// Tells if the values of a column number the rows: they are evenly spaced or a full range, or distinct integers in a column
    /// with a name for it.
    fn numbers_rows(&self, column: usize) -> bool {
        let name = &self.header[column];
        let counters = || {
            COUNTER_NAMES
                .iter()
                .any(|known| name.eq_ignore_ascii_case(known))
        };
        match self.columns[column].counts {
            Some(Counts::InOrder | Counts::Mixed) => true,
            Some(Counts::Once) => counts_by_name(name) || counters(),
            None => false,
        }
    }

    /// Number in a row of a column; NaN if the column has no numbers.
    fn value(&self, row: usize, column: usize) -> f32 {
        let place = self.columns[column].place;
        place.map_or(f32::NAN, |place| self.values[row * self.width + place])
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

    /// Tells if a text column has cells that are not missing, and each of these `is_such`.
    fn holds(&self, column: usize, is_such: impl Fn(&str) -> bool) -> bool {
        let texts = self.columns[column].texts.as_ref();
        let cells = texts.map_or(&[][..], |texts| texts.distinct());
        let mut filled = cells
            .iter()
            .filter(|cell| !is_missing_number(cell))
            .peekable();
        filled.peek().is_some() && filled.all(|cell| is_such(cell))
    }

    /// Tells if nearly every row has its own text: a path, a name, a sentence.
    fn names_rows(&self, column: usize) -> bool {
        let texts = self.columns[column].texts.as_ref();
        let distinct = texts.map_or(self.rows, |texts| texts.distinct().len());
        self.rows >= FEWEST_TOLD && 10 * distinct >= 9 * self.rows
    }
}

/// Argument that tells pandas a delimiter; empty for a comma.
pub(super) fn delimiter_argument(delimiter: u8) -> &'static str {
    match delimiter {
        b'\t' => ", sep=\"\\t\"",
        b';' => ", sep=\";\"",
        b'|' => ", sep=\"|\"",
        _ => "",
    }
}
