//! [`Table`]: named columns, told apart as numbers and text while rows come, each row once. Numeric columns are features, one
//! column is the label, other text is left out or splits the rows.
//!
//! Readers of tables (CSV, JSON Lines, Parquet) push rows of cells; the finished table becomes a [`Labelled`]. A column is taken
//! for numbers or text by its first cells; its cells are then parsed once, straight into rows of features. Columns that may be the
//! label are kept as text too, whatever they hold.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::foreign::{self, saved_again};
use super::lines::Lines;
use super::row_numbers::{self, Counter, Counts};
use super::{Format, vectors};
use crate::base::error::{Error, Result};
use crate::base::quote::{LISTED, listed, quoted};
use crate::data::rows::columns::places;
use crate::data::rows::mended::fill_in;
use crate::data::rows::notation::{self, Marks, Notation, Seen};
use crate::data::rows::roles::{self, ColumnRole, FIRST_ROWS, Role, TableColumn};
use crate::data::rows::texts::Gathered;
use crate::data::rows::values::check_values;
use crate::data::rows::{class_names, missing};
use crate::data::{Choice, Columns, Labelled, Labels, Missing, Texts};

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
/// Column names that mean a row number, and never a feature, whatever they hold.
const ID_NAMES: [&str; 9] = [
    "",
    "id",
    "index",
    "unnamed: 0",
    "__index_level_0__",
    "barcode",
    "row",
    "row.names",
    "rownames",
];
/// Names of columns of whole numbers, each once, that tell rows apart and measure nothing.
const COUNTER_NAMES: [&str; 16] = [
    "#", "case", "counter", "key", "no", "no.", "nr", "num", "number", "obs", "record", "sample",
    "seq", "track", "uid", "uuid",
];
/// Number of cells, the first that are not empty, that decide if a column holds numbers.
const LOOKED_AT: u8 = 100;
/// Columns at most: the state of a column takes much more memory than a cell of one byte in the file.
pub(super) const MOST_COLUMNS: usize = 1 << 18;
/// Rows that are held at most until the columns are told apart, and their bytes.
const HELD_ROWS: usize = 1024;
const HELD_BYTES: usize = 4 << 20;
/// Columns at most whose first cells are kept.
const SHOWN_COLUMNS: usize = 4096;
/// Cells of a first line from which on rising numbers are column names (wavelengths, say) and not a row.
const RISING_NAMES: usize = 16;
/// Bytes of all text columns beside the label at most; the column that exceeds this is left out.
const TEXT_BYTES: usize = 48 << 20;
/// Rows from which on the values of a column tell its role; in fewer, one value for each label may be chance.
const FEWEST_TOLD: usize = 16;
/// Distinct integers that are held over all columns at most, to find a label among them; and as many to find row numbers.
const COUNTED: usize = 1 << 20;

/// Meaning that a comma in a number can have beside that of a mark between thousands.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Commas {
    /// None: commas part the cells.
    #[default]
    Refused,
    /// A decimal comma if the file shows some and no decimal point.
    WhereSure,
    /// A decimal comma.
    Decimal,
}

/// A cell of a row.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cell<'a> {
    /// Text, which may be a number.
    Text(&'a str),
    /// A number that was one in the file.
    Number(f32),
    Double(f64),
    Integer(i64),
}

impl Cell<'_> {
    /// The cell's number if the file stores it as one; none for text.
    fn number(self) -> Option<f32> {
        match self {
            Cell::Text(_) => None,
            Cell::Number(number) => Some(number),
            Cell::Double(number) => Some(number as f32),
            Cell::Integer(number) => Some(number as f32),
        }
    }

    /// The cell's number, NaN if it is none, and the same as an integer if it is whole.
    fn exactly(self, notation: Notation) -> (f64, Option<i64>) {
        let number = match self {
            Cell::Text(text) => {
                let number = notation.read(text).unwrap_or(f64::NAN);
                return (number, row_numbers::whole(text, number));
            }
            Cell::Number(number) => f64::from(number),
            Cell::Double(number) => number,
            Cell::Integer(number) => return (number as f64, Some(number)),
        };
        (number, row_numbers::whole_number(number))
    }

    /// A number as text; empty for a cell that is text already.
    fn written(self) -> String {
        match self {
            Cell::Text(_) => String::new(),
            Cell::Number(number) => number.to_string(),
            Cell::Double(number) => number.to_string(),
            Cell::Integer(number) => number.to_string(),
        }
    }
}

/// Content of most cells of a column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    Numbers,
    Text,
    /// No filled cell in any row so far.
    #[default]
    Empty,
}

/// The first cell of a column that is no finite number, and how many there are.
#[derive(Debug)]
struct Odd {
    row: usize,
    text: String,
    count: usize,
}

/// The different integers of a column, with the first text of each; while there are few.
#[derive(Debug, Default)]
struct Few {
    texts: HashMap<u32, Box<str>>,
    /// Set if two texts with different names are one number: then the numbers alone do not give the labels back.
    mixed: bool,
}

/// A column while rows come.
#[derive(Debug, Default)]
struct Column {
    kind: Kind,
    /// Notation of its numbers, and the evidence for it in its cells.
    notation: Notation,
    seen: Seen,
    /// Cells of the first rows that are not missing, up to [`LOOKED_AT`], and numbers among them.
    filled: u8,
    numbers: u8,
    /// Index of its numbers in a row of `values`; none for text.
    place: Option<usize>,
    /// Its cells as text, kept for text columns and for columns that may be the label.
    texts: Option<Box<Gathered>>,
    /// May be the label, by its name or by choice.
    wanted: bool,
    /// Chosen as the label.
    chosen: bool,
    /// Taken for text, whatever its cells hold.
    is_text: bool,
    /// Key column, by which labels of another file are joined.
    is_key: bool,
    /// Left out because the text columns together exceeded `TEXT_BYTES`.
    left_out: bool,
    odd: Option<Box<Odd>>,
    few: Option<Box<Few>>,
    /// Test if its numbers number the rows; none once they cannot.
    counter: Option<Box<Counter>>,
    /// Set if another row repeats the cell of the first line.
    repeats_first: bool,
}

impl Column {
    /// Counts a cell of the first rows as filled, and as a number if it is one.
    fn look(&mut self, cell: Cell<'_>, marks: Marks) {
        let is_number = match cell {
            Cell::Text(text) if is_missing(text) => return,
            // A decimal comma makes a number as well: one that is refused when it is parsed, unless semicolons part the cells.
            Cell::Text(text) => notation::is_number(text, marks),
            _ => true,
        };
        if self.filled < LOOKED_AT {
            self.filled += 1;
            self.numbers += u8::from(is_number);
        }
    }

    /// Shows the counter the next number, by `see`; returns by how many numbers the counter holds more.
    fn count(
        &mut self,
        cell: Cell<'_>,
        see: impl Fn(&mut Counter, f64, Option<i64>) -> bool,
    ) -> isize {
        let Some(counter) = &mut self.counter else {
            return 0;
        };
        let before = counter.held() as isize;
        let (number, whole) = cell.exactly(self.notation);
        if !see(counter, number, whole) {
            self.counter = None;
            return -before;
        }
        counter.held() as isize - before
    }

    fn decide(&mut self) {
        self.kind = match self.filled {
            _ if self.is_text => Kind::Text,
            0 => Kind::Empty,
            filled if self.numbers >= filled.div_ceil(2) => Kind::Numbers,
            _ => Kind::Text,
        };
    }
}

/// A cell of a held row.
#[derive(Clone, Copy, Debug)]
enum HeldCell {
    /// Text that ends at this byte of the row's text.
    End(usize),
    Number(f32),
    Double(f64),
    Integer(i64),
}

/// A row that is held until the columns are told apart.
#[derive(Debug, Default)]
struct Held {
    text: String,
    cells: Vec<HeldCell>,
}

impl Held {
    fn cell(&self, at: usize) -> Cell<'_> {
        let end = match self.cells[at] {
            HeldCell::Number(number) => return Cell::Number(number),
            HeldCell::Double(number) => return Cell::Double(number),
            HeldCell::Integer(number) => return Cell::Integer(number),
            HeldCell::End(end) => end,
        };
        let before = self.cells[..at].iter().rev().find_map(|cell| match cell {
            HeldCell::End(end) => Some(*end),
            _ => None,
        });
        Cell::Text(&self.text[before.unwrap_or(0)..end])
    }
}

/// Takes the rows of a table, one after the other.
#[derive(Debug)]
pub(super) struct Builder {
    name: String,
    /// The cells of the first line, a header or not.
    first: Vec<String>,
    /// The label that was chosen.
    chosen: Option<String>,
    commas: Commas,
    /// Marks in numbers, if they were chosen or told from the cells.
    marks: Marks,
    columns: Vec<Column>,
    held: Vec<Held>,
    held_bytes: usize,
    are_told: bool,
    /// Evidence of the first rows about marks in numbers; none if the marks were chosen.
    seen: Option<Seen>,
    /// Columns that have a place in `values`.
    width: usize,
    values: Vec<f32>,
    rows: usize,
    /// Rows that are likely to come.
    expected: u64,
    text_bytes: usize,
    counted: usize,
    /// Numbers that the counters of all columns hold.
    numbered: usize,
    second_rises: bool,
    /// Set if all numbers of a row are the elements of one vector.
    has_vector: bool,
    /// Cells of the first rows as they are shown, by row.
    shown: Vec<Vec<String>>,
}

impl Builder {
    /// Begins a table whose first line has these cells; `chosen` is the column of the label, if one was chosen.
    pub(super) fn new(name: &str, first: Vec<String>, chosen: Option<&str>) -> Self {
        let is_chosen = |at: usize, name: &str| {
            let numbered = || Some(format!("column {}", at + 1).as_str()) == chosen;
            Some(name) == chosen || numbered()
        };
        let alone = first.len() == 1;
        let columns = first.iter().enumerate().map(|(at, name)| Column {
            wanted: alone || is_chosen(at, name) || is_label_name(name),
            chosen: alone || is_chosen(at, name),
            ..Column::default()
        });
        Self {
            name: name.to_owned(),
            columns: columns.collect(),
            first,
            chosen: chosen.map(str::to_owned),
            commas: Commas::default(),
            marks: Marks::default(),
            held: Vec::new(),
            held_bytes: 0,
            are_told: false,
            seen: None,
            width: 0,
            values: Vec::new(),
            rows: 0,
            expected: 0,
            text_bytes: 0,
            counted: 0,
            numbered: 0,
            second_rises: false,
            has_vector: false,
            shown: Vec::new(),
        }
    }

    /// Sets the meaning of commas in numbers.
    pub(super) fn with_commas(mut self, commas: Commas) -> Self {
        self.commas = commas;
        self
    }

    /// Takes the marks of numbers and the key column that `columns` chooses; the key is kept as text.
    pub(super) fn with(mut self, columns: &Columns) -> Self {
        self.marks = columns.marks;
        if let Some(at) = columns
            .on
            .as_ref()
            .and_then(|on| self.first.iter().position(|name| name == on))
        {
            self.columns[at].is_text = true;
            self.columns[at].is_key = true;
        }
        self
    }

    /// Takes these columns for text, whatever they hold.
    pub(super) fn are_text(&mut self, columns: &[usize]) {
        for column in columns {
            self.columns[*column].is_text = true;
        }
    }

    /// Says that all numbers of a row are one vector, which is one feature: no element is a row number or a code by itself.
    pub(super) fn has_vector(&mut self) {
        self.has_vector = true;
    }

    /// Number of cells of a row.
    pub(super) fn columns(&self) -> usize {
        self.columns.len()
    }

    /// Sets the number of rows that are likely to come.
    pub(super) fn expect(&mut self, rows: u64) {
        self.expected = rows;
    }

    /// Tells if nothing came but a line of empty cells.
    pub(super) fn is_blank(&self) -> bool {
        self.rows() == 0 && self.first.iter().all(String::is_empty)
    }

    /// Rows so far.
    pub(super) fn rows(&self) -> usize {
        self.rows + self.held.len()
    }

    /// Appends a row, given cell by cell.
    ///
    /// # Errors
    /// [`Error::Data`] when the memory here does not hold it.
    pub(super) fn push<'a>(&mut self, cell: impl Fn(usize) -> Cell<'a>) -> Result<()> {
        if self.are_told {
            return self.take(cell);
        }
        let mut held = Held::default();
        for at in 0..self.columns.len() {
            let cell = cell(at);
            self.columns[at].look(cell, self.marks);
            held.cells.push(match cell {
                Cell::Number(number) => HeldCell::Number(number),
                Cell::Double(number) => HeldCell::Double(number),
                Cell::Integer(number) => HeldCell::Integer(number),
                Cell::Text(text) => {
                    held.text.push_str(text);
                    HeldCell::End(held.text.len())
                }
            });
        }
        if self.held.is_empty() {
            let texts = (0..held.cells.len()).map(|at| match held.cell(at) {
                Cell::Text(text) => text,
                _ => "",
            });
            self.second_rises = rises(texts);
        }
        self.held_bytes += held.text.len() + size_of_val(&held.cells[..]);
        self.held.push(held);
        let told = self.columns.iter().all(|column| column.filled == LOOKED_AT);
        if told || self.held.len() == HELD_ROWS || self.held_bytes >= HELD_BYTES {
            self.tell()?;
        }
        Ok(())
    }

    /// Decides the notation of each column's numbers by the held rows.
    fn tell_notations(&mut self) {
        let numbers = self
            .columns
            .iter()
            .map(|column| column.kind == Kind::Numbers);
        let seen: Vec<Seen> = numbers
            .enumerate()
            .map(|(at, is_numbers)| {
                let mut seen = Seen::default();
                let rows = self.held.iter().filter(|_| is_numbers);
                for row in rows {
                    if let Cell::Text(text) = row.cell(at) {
                        seen.see(text);
                    }
                }
                seen
            })
            .collect();
        let file = seen.iter().copied().fold(Seen::default(), Seen::with);
        let chosen = self.marks.notation();
        let commas = match self.commas {
            Commas::Refused => false,
            Commas::WhereSure => file.has_decimal_commas(),
            Commas::Decimal => true,
        };
        for (column, seen) in self.columns.iter_mut().zip(seen) {
            column.notation = chosen.unwrap_or_else(|| seen.notation(file, commas));
            column.seen = seen;
        }
        // Chosen marks hold to the end: no evidence is needed.
        self.seen = chosen.is_none().then_some(file);
    }

    /// Tells the columns apart by the rows that were held, and takes those.
    fn tell(&mut self) -> Result<()> {
        for column in &mut self.columns {
            column.decide();
        }
        self.tell_notations();
        let fractions = |at: usize| {
            let mut cells = self.held.iter().map(|row| row.cell(at));
            cells.any(|cell| matches!(cell, Cell::Text(text) if is_fraction(text)))
        };
        let is_label = |(at, column): (usize, &Column)| {
            let by_name = column.wanted && !self.first[at].eq_ignore_ascii_case("y");
            let is_text = column.kind == Kind::Text && !column.is_key;
            is_text || column.chosen || (by_name && !fractions(at))
        };
        // Integers are counted as a possible label only if no other column can be one.
        let counts = !self.columns.iter().enumerate().any(is_label);
        for column in &mut self.columns {
            if column.kind != Kind::Text {
                column.place = Some(self.width);
                self.width += 1;
            }
            if column.kind == Kind::Text || column.wanted {
                column.texts = Some(Box::default());
            }
            if column.kind == Kind::Numbers && counts {
                column.few = Some(Box::default());
            }
            if column.kind == Kind::Numbers && !self.has_vector {
                column.counter = Some(Box::default());
            }
        }
        self.are_told = true;
        let held = std::mem::take(&mut self.held);
        let cells = |row: &Held| -> Vec<String> {
            let cells = (0..self.columns.len().min(SHOWN_COLUMNS)).map(|at| match row.cell(at) {
                Cell::Text(text) => roles::shown(text),
                cell => roles::shown(&cell.written()),
            });
            cells.collect()
        };
        self.shown = held.iter().take(FIRST_ROWS).map(cells).collect();
        // Room for the rows that are likely to come; `values` grows if more come, or if there is no room for all at once.
        let likely = usize::try_from(self.expected + self.expected / 64).unwrap_or(0);
        let likely = likely.saturating_mul(self.width);
        self.values.try_reserve_exact(likely).ok();
        for row in held {
            self.take(|at| row.cell(at))?;
        }
        Ok(())
    }

    /// Takes a row of columns that are told apart.
    fn take<'a>(&mut self, cell: impl Fn(usize) -> Cell<'a>) -> Result<()> {
        self.values.try_reserve(self.width).map_err(|_| {
            Error::Data(format!(
                "{}: {} rows of {} features are more than fits the memory here",
                self.name,
                self.rows.max(self.expected as usize),
                self.width
            ))
        })?;
        for at in 0..self.columns.len() {
            self.take_cell(at, cell(at));
        }
        self.rows += 1;
        Ok(())
    }

    fn take_cell(&mut self, at: usize, cell: Cell<'_>) {
        let column = &mut self.columns[at];
        if column.kind == Kind::Empty && !matches!(cell, Cell::Text(text) if is_missing(text)) {
            // A column that was empty so far is decided by its first filled cell.
            column.look(cell, self.marks);
            column.decide();
            if column.kind == Kind::Text && column.texts.is_none() {
                column.texts = Some(Box::new(Gathered::of("", self.rows)));
                self.text_bytes += self.rows * size_of::<u32>();
            }
        }
        let written;
        let text = match cell {
            Cell::Text(text) => text,
            // A cell that is no finite number is reported as it was.
            cell if column.texts.is_some()
                || column.few.is_some()
                || cell.number().is_some_and(f32::is_infinite) =>
            {
                written = cell.written();
                &written
            }
            _ => "",
        };
        if column.place.is_some() {
            if let (Cell::Text(text), Some(file)) = (cell, self.seen)
                && matches!(column.notation, Notation::Point | Notation::PointOrComma)
                && let Some(notation) = column.seen.later(file, text)
            {
                column.notation = notation;
            }
            let number = match cell {
                Cell::Text(text) => column.notation.read(text),
                cell => cell.number(),
            };
            let value = number.filter(|value| value.is_finite());
            let more = column.count(cell, Counter::see);
            self.numbered = self.numbered.saturating_add_signed(more);
            if self.numbered > COUNTED
                && let Some(counter) = &mut column.counter
            {
                self.numbered -= counter.held();
                if !counter.forget() {
                    column.counter = None;
                }
            }
            if value.is_none() {
                let odd = column.odd.get_or_insert_with(|| {
                    Box::new(Odd {
                        row: self.rows,
                        text: text.to_owned(),
                        count: 0,
                    })
                });
                odd.count += 1;
            }
            // Only finite values and NaN: any missing value is NaN.
            self.values.push(value.unwrap_or(f32::NAN));
            if let Some(few) = &mut column.few {
                let new = value.and_then(|value| few.see(value, text));
                self.counted += usize::from(new == Some(true));
                if new.is_none() || self.counted > COUNTED {
                    self.counted -= few.texts.len().min(self.counted);
                    column.few = None;
                }
            }
        }
        let Some(texts) = &mut column.texts else {
            return;
        };
        if column.kind == Kind::Numbers && !column.chosen && is_fraction(text) {
            // Not the label, whatever its name.
            column.texts = None;
            return;
        }
        let bytes = texts.push(text);
        column.repeats_first |= self.first[at] == text;
        if !column.wanted {
            self.text_bytes += bytes;
            if self.text_bytes > TEXT_BYTES {
                column.texts = None;
                column.left_out = true;
            }
        }
    }

    /// Finishes the table; its first line may be a row like the others if the file can have no header (`may_be_headless`).
    ///
    /// # Errors
    /// [`Error::Data`] when there is a header alone.
    pub(super) fn finish(
        mut self,
        lines: Option<Lines>,
        delimiter: Option<u8>,
        may_be_headless: bool,
    ) -> Result<Table> {
        let alone = self.rows() == 0;
        if alone {
            // A file of one line, which is a row if it holds numbers.
            for (column, first) in self.columns.iter_mut().zip(&self.first) {
                column.look(Cell::Text(first), self.marks);
            }
        }
        if !self.are_told {
            self.tell()?;
        }
        if let Some(file) = self.seen {
            let notations = self.columns.iter().map(|column| column.notation);
            let seen = self.columns.iter().map(|column| column.seen);
            self.marks = seen.fold(file, Seen::with).marks(notations);
        }
        let headless =
            may_be_headless && is_a_row(&self.first, &self.columns, self.second_rises, self.marks);
        if alone && !headless {
            return Err(Error::Data(format!(
                "{}: a header and no rows: nothing to train on",
                self.name
            )));
        }
        let first = self.first.clone();
        if headless {
            self.take_first(&first)?;
        }
        let mut table = Table {
            name: self.name,
            first,
            chosen: self.chosen,
            columns: Vec::with_capacity(self.columns.len()),
            width: self.width,
            values: self.values,
            rows: self.rows,
            headless,
            has_vector: self.has_vector,
            shown: self.shown,
            marks: self.marks,
            key: None,
            header: Vec::new(),
            lines,
            delimiter,
            oddities: Vec::new(),
            unread: Vec::new(),
        };
        for column in self.columns {
            let texts = column.texts.map(|texts| texts.finish());
            table.columns.push(Told {
                kind: column.kind,
                notation: column.notation,
                place: column.place,
                texts,
                left_out: column.left_out,
                is_beside: column.is_text && column.filled > 0 && column.numbers == column.filled,
                odd: column.odd,
                few: column.few,
                counts: column.counter.and_then(|counter| counter.finish()),
            });
        }
        // Several columns of such rankings are measurements, not row numbers.
        let mixed = |told: &&mut Told| told.counts == Some(Counts::Mixed);
        if table.columns.iter_mut().filter(mixed).count() > 1 {
            for told in table.columns.iter_mut().filter(mixed) {
                told.counts = Some(Counts::Once);
            }
        }
        table.name_columns();
        Ok(table)
    }
}

impl Builder {
    /// Takes the first line for a row: appended last, then moved to the front.
    fn take_first(&mut self, first: &[String]) -> Result<()> {
        let odd = |column: &Column| column.odd.as_ref().map_or(0, |odd| odd.count);
        let before: Vec<usize> = self.columns.iter().map(odd).collect();
        // Counters see it as the row before all others.
        let mut counters: Vec<_> = self
            .columns
            .iter_mut()
            .map(|column| column.counter.take())
            .collect();
        self.take(|at| Cell::Text(&first[at]))?;
        for ((column, counter), first) in self.columns.iter_mut().zip(&mut counters).zip(first) {
            column.counter = counter.take();
            column.count(Cell::Text(first), Counter::see_before);
        }
        self.values.rotate_right(self.width);
        self.shown
            .insert(0, first.iter().map(|cell| roles::shown(cell)).collect());
        for ((column, first), before) in self.columns.iter_mut().zip(first).zip(before) {
            if let Some(texts) = &mut column.texts {
                texts.last_to_front();
            }
            if let Some(odd) = &mut column.odd {
                match odd.count > before {
                    true => (odd.row, odd.text) = (0, first.clone()),
                    false => odd.row += 1,
                }
            }
        }
        Ok(())
    }
}

impl Few {
    /// Records a number; returns if it is new, none if the column can be no label any more because of a fraction.
    fn see(&mut self, value: f32, text: &str) -> Option<bool> {
        if value.fract() != 0.0 {
            return None;
        }
        match self.texts.get(&value.to_bits()) {
            Some(known) => {
                self.mixed |=
                    **known != *text && class_names::name(known) != class_names::name(text);
                Some(false)
            }
            None => {
                self.texts.insert(value.to_bits(), text.into());
                Some(true)
            }
        }
    }
}

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

    /// Sentence about the columns that are not read, such as "\"tags\" holds a list of text"; none if all are read.
    fn what_is_unread(&self) -> Option<String> {
        let (name, what) = self.unread.first()?;
        let more = match self.unread.len() {
            1 => String::new(),
            more => format!(" (and {} more are not read)", more - 1),
        };
        Some(format!("{} holds {what}{more}", quoted(name)))
    }

    /// Refusal of a column that is not read, chosen or named as the label.
    fn unread_label(&self, (name, what): &(String, &'static str)) -> Error {
        let how = match what.contains("list") {
            true => format!(
                ": write its one name, in pandas `df[\"{0}\"] = df[\"{0}\"].str[0]`",
                foreign::in_python(name)
            ),
            false => String::new(),
        };
        Error::Data(format!(
            "{}: {} holds {what}, and a label is one text or one whole number a row{how}",
            self.name,
            quoted(name)
        ))
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

    /// Refusal of the first cell of these columns that is no finite number; with the choices for missing values if the file allows
    /// them (`can_choose`).
    fn odd(&self, columns: &[usize], can_choose: bool) -> Option<Error> {
        let mut first: Option<(usize, usize, &str)> = None;
        let mut count = 0;
        for (order, column) in columns.iter().enumerate() {
            let told = &self.columns[*column];
            let found = match (&told.odd, &told.texts) {
                (_, Some(texts)) if told.kind == Kind::Text => {
                    let is_odd = |cell: &str| told.notation.read::<f32>(cell).is_none();
                    texts.iter().enumerate().find(|(_, cell)| is_odd(cell))
                }
                (Some(odd), _) => {
                    count += odd.count;
                    Some((odd.row, odd.text.as_str()))
                }
                (None, _) if told.left_out => {
                    let (name, column) = (&self.name, quoted(&self.header[*column]));
                    let problem = "holds text, which is not a number";
                    return Some(Error::Data(format!("{name}: column {column} {problem}")));
                }
                (None, _) => None,
            };
            if let Some((row, cell)) = found
                && first.is_none_or(|(known, place, _)| (row, order) < (known, place))
            {
                first = Some((row, order, cell));
            }
        }
        let (row, order, cell) = first?;
        let (name, place) = (&self.name, self.place(row));
        let notation = self.columns[columns[order]].notation;
        let column = quoted(&self.header[columns[order]]);
        let problem = self.problem(cell, notation, count, can_choose);
        let message = format!("{name}, {place}: column {column} {problem}");
        Some(match message.ends_with(Missing::ADVICE) {
            true => Error::Cells(message),
            false if is_unsure(cell, notation) => Error::TwoReadings(message),
            false => Error::Data(message),
        })
    }

    /// Reason why a cell, one of `count` such cells, is no feature, and what to do.
    fn problem(&self, cell: &str, notation: Notation, count: usize, can_choose: bool) -> String {
        let with_a_point = || cell.replace(',', ".").parse::<f32>();
        let one_of = match count {
            0 | 1 => String::new(),
            _ => format!(", one of {count} such cells"),
        };
        let advice = match can_choose {
            true => Missing::ADVICE.to_owned(),
            false => self.how_to_drop(),
        };
        let shown = quoted(cell);
        match cell {
            "" => format!("has an empty cell{one_of}: {advice}"),
            _ if is_missing(cell) => {
                format!("holds {shown}, a missing value{one_of}: {advice}")
            }
            _ if is_unsure(cell, notation) => format!(
                "holds {shown}, which is {} where the comma stands between thousands, and {} where it is a decimal comma, and the column \
                 does not tell",
                cell.replace(',', ""),
                cell.replacen(',', ".", 1)
            ),
            _ if cell.contains(',') && with_a_point().is_ok() => {
                let how = match self.delimiter {
                    Some(delimiter) => format!(
                        "; pandas does: {}",
                        self.saved_again(delimiter, ", decimal=\",\"", "")
                    ),
                    None => String::new(),
                };
                format!("holds {shown}: write numbers with a decimal point{how}")
            }
            _ if cell.parse::<f32>().is_ok() && cell.contains(|c: char| c.is_ascii_digit()) => {
                format!(
                    "holds {shown}, too large for 32-bit floats (3.4e38 at most): scale the column"
                )
            }
            _ if cell.parse::<f32>().is_ok() => {
                format!("holds {shown}, which is not finite{one_of}: {advice}")
            }
            _ if can_choose => format!("holds {shown}, which is not a number{one_of}: {advice}"),
            _ => format!("holds {shown}, which is not a number"),
        }
    }

    /// Advice on rows with a missing value if no treatment can be chosen for them.
    fn how_to_drop(&self) -> String {
        let Some(delimiter) = self.delimiter else {
            return "fill or drop such rows first".to_owned();
        };
        let drop_columns = match self.of_kind(Kind::Empty).is_empty() {
            true => "",
            false => ".dropna(axis=1, how=\"all\")",
        };
        let how = self.saved_again(delimiter, "", &format!("{drop_columns}.dropna()"));
        format!("fill or drop such rows; pandas drops them: {how}")
    }

    /// Pandas code that reads this CSV with `arguments`, applies `change` and saves it again.
    fn saved_again(&self, delimiter: u8, arguments: &str, change: &str) -> String {
        let header = match self.headless {
            true => ", header=None",
            false => "",
        };
        let delimiter = delimiter_argument(delimiter);
        saved_again(
            &self.name,
            &format!("{delimiter}{header}{arguments}"),
            change,
        )
    }

    /// Splits the table into features and labels; the label column is guessed if none was chosen.
    ///
    /// # Errors
    /// [`Error::Data`] when there is no such column, none can be guessed, no numeric column is left, a label is missing,
    /// or a cell of a feature is no finite number.
    pub(super) fn into_labelled(mut self, choice: Choice<'_>) -> Result<Labelled> {
        let (label, reason) = self.find(choice.columns)?;
        let labels = self.labels(label, choice.missing)?;
        let name = quoted(&self.header[label]);
        let column = self.header[label].clone();
        let wanted = format!("beside the label {name}");
        let rows = self.features(Some((label, &reason)), &labels, &wanted, choice)?;
        let mut notes = vec![format!("label = {name} ({reason})")];
        notes.extend(rows.notes);
        Ok(Labelled {
            labels,
            label_column: Some(column),
            notes,
            ..rows
        })
    }

    /// Takes all numeric columns as features of labels from elsewhere, except columns that repeat the labels.
    ///
    /// # Errors
    /// [`Error::Data`] when there is none, or a cell of a feature is no finite number.
    pub(super) fn beside_labels(
        mut self,
        labels: Texts,
        choice: Choice<'_>,
        on: Option<&str>,
    ) -> Result<Labelled> {
        self.key = on.and_then(|on| self.header.iter().position(|name| name == on));
        let rows = self.features(None, &labels, "that can be a feature", choice)?;
        Ok(Labelled { labels, ..rows })
    }

    /// Takes the numeric columns as features, except the label and columns that repeat the label.
    fn features(
        &mut self,
        label: Option<(usize, &str)>,
        labels: &Texts,
        wanted: &str,
        choice: Choice<'_>,
    ) -> Result<Labelled> {
        let missing = choice.missing;
        let table_label = label;
        let label = label.map(|(column, _)| column);
        let mut columns = self.numeric();
        columns.retain(|column| Some(*column) != label);
        let again = match missing {
            // Rows that will be left out do not count when columns are compared with the labels.
            Some(Missing::DropRows) => {
                let chosen = choice
                    .columns
                    .map(|chosen| self.chosen(chosen, columns.clone()));
                let read = chosen.transpose()?.unwrap_or_else(|| columns.clone());
                let stays = |row: usize| {
                    read.iter()
                        .all(|column| self.value(row, *column).is_finite())
                };
                self.labels_again(labels, &columns, stays)
            }
            _ => self.labels_again(labels, &columns, |_| true),
        };
        columns.retain(|column| !again.contains(column) && Some(*column) != self.key);
        if let Some(chosen) = choice.columns {
            columns = self.chosen(chosen, columns)?;
            columns.retain(|column| Some(*column) != label);
        }
        let is_apart = |column: &usize| {
            let named = choice.columns.map_or(&[][..], |columns| &columns.apart);
            named.contains(&self.header[*column])
        };
        if columns.is_empty() {
            return Err(self.no_features(wanted, &again));
        }
        let mut apart = self.numeric();
        apart.retain(|column| !columns.contains(column) && is_apart(column));
        if missing.unwrap_or_default() == Missing::Refuse
            && let Some(error) = self.odd(&columns, missing.is_some())
        {
            return Err(error);
        }
        Ok(Labelled {
            name: self.name.clone(),
            feature_names: self.names(&columns),
            notes: self.notes(&columns, label, &again),
            table: self.table(&columns, table_label, &again, choice.columns),
            columns: self.text_columns(label, &apart),
            dim: columns.len(),
            values: self.take_values(&columns),
            marks: self.marks,
            ..Labelled::default()
        })
    }

    /// The columns that were chosen as features, or `guessed` if none were; an error for a column without numbers.
    fn chosen(&self, chosen: &Columns, guessed: Vec<usize>) -> Result<Vec<usize>> {
        let columns = chosen.of(&self.name, &self.header, guessed)?;
        let is_number = |column: &&usize| self.columns[**column].kind == Kind::Numbers;
        match columns.iter().find(|column| !is_number(column)) {
            Some(text) => Err(Error::Data(format!(
                "{}: column {} holds no numbers, and features are numbers",
                self.name,
                quoted(&self.header[*text])
            ))),
            None => Ok(columns),
        }
    }

    /// Takes the values of these columns, numeric or empty, in their order out of the table, which then has none.
    fn take_values(&mut self, columns: &[usize]) -> Vec<f32> {
        let places = columns.iter().filter_map(|at| self.columns[*at].place);
        let places: Vec<usize> = places.collect();
        let (width, dim) = (self.width, places.len());
        let mut values = std::mem::take(&mut self.values);
        if places.iter().copied().eq(0..width) {
            return values;
        }
        let mut row = vec![0.0; dim];
        for at in 0..self.rows {
            for (value, place) in row.iter_mut().zip(&places) {
                *value = values[at * width + place];
            }
            // Never beyond what was read: a row has no more features than cells.
            values[at * dim..][..dim].copy_from_slice(&row);
        }
        values.truncate(self.rows * dim);
        values
    }

    fn no_features(&self, wanted: &str, again: &[usize]) -> Error {
        let is_text = !matches!(
            Format::of(&self.name),
            Some(Format::JsonLines | Format::Parquet)
        );
        let names = |columns: &[usize]| listed(columns.iter().map(|at| self.header[*at].as_str()));
        let numbers: Vec<usize> = (0..self.header.len())
            .filter(|column| self.numbers_rows(*column))
            .collect();
        let is_cut = |at: &usize| {
            let is_list = |cell: &str| {
                cell.contains("...") && cell.trim_start().starts_with(['[', '(', 'a', 't'])
            };
            self.holds(*at, is_list)
        };
        let cut = (0..self.header.len()).find(is_cut);
        let what_to_do = match (&self.header[..], self.what_is_unread()) {
            _ if let Some(cut) = cut => {
                format!(
                    "column {} {}",
                    quoted(&self.header[cut]),
                    vectors::CUT_SHORT
                )
            }
            (_, Some(unread)) => format!(
                "{unread}; numbers are read, and a list of as many numbers in each row, such as [0.5, 1]"
            ),
            ([_], None) if is_text => {
                "where it should have more, separate the cells by commas, semicolons or tabs"
                    .to_owned()
            }
            _ if !again.is_empty() => format!(
                "left out because it says what the labels say: {}; on the command line --features takes it all the same",
                names(again)
            ),
            _ if !numbers.is_empty() => format!(
                "left out because it numbers the rows: {}; on the command line --features takes it all the same",
                names(&numbers)
            ),
            _ => "where they are in another file, give both at once".to_owned(),
        };
        Error::Data(format!(
            "{}: no numeric column {wanted}: there are no features; {what_to_do}",
            self.name
        ))
    }

    /// Columns that repeat the labels in the rows that stay: equal to the label in every row; or one value for each label,
    /// different from label to label; or, together, one-hot columns, each of which marks the rows of one label.
    fn labels_again(
        &self,
        labels: &Texts,
        columns: &[usize],
        stays: impl Fn(usize) -> bool,
    ) -> Vec<usize> {
        if labels.len() != self.rows || self.has_vector {
            return Vec::new();
        }
        let numbers = labels.distinct().iter().map(|label| label.parse::<f32>());
        let numbers: Vec<Option<f32>> = numbers.map(|number| number.ok()).collect();
        let rows: Vec<usize> = (0..self.rows)
            .filter(|row| !is_missing(&labels[*row]) && stays(*row))
            .collect();
        let mut again = Vec::new();
        let mut marks: Vec<(usize, usize)> = Vec::new();
        for column in columns {
            let Some(values) = self.by_label(labels, *column, &rows) else {
                continue;
            };
            let equals = || {
                values
                    .iter()
                    .all(|(label, value)| numbers[*label] == Some(*value))
            };
            let mut distinct: Vec<u32> = values.iter().map(|(_, value)| value.to_bits()).collect();
            distinct.sort_unstable();
            distinct.dedup();
            let name = &self.header[*column];
            let is_named = is_label_name(name) && !name.eq_ignore_ascii_case("y");
            // In few rows a measurement can be alike by chance.
            let tells = 2 * values.len() <= rows.len() && (is_named || rows.len() >= FEWEST_TOLD);
            if equals() || (tells && distinct.len() == values.len() && values.len() > 1) {
                again.push(*column);
            } else if tells && distinct.len() == 2 {
                let of = |bits: u32| {
                    values
                        .iter()
                        .filter(move |(_, value)| value.to_bits() == bits)
                };
                let alone = distinct.iter().find(|bits| of(**bits).count() == 1);
                let label = alone.and_then(|bits| of(*bits).next());
                marks.extend(label.map(|(label, _)| (*label, *column)));
            }
        }
        // Most sets have a column for each label, some leave the first out.
        let classes = rows.iter().map(|row| labels.codes()[*row]);
        let classes = classes.collect::<BTreeSet<_>>().len();
        let marked: BTreeSet<usize> = marks.iter().map(|(label, _)| *label).collect();
        if classes > 2 && marked.len() + 1 >= classes {
            again.extend(marks.iter().map(|(_, column)| *column));
        }
        again
    }

    /// Value of a column for each label in these rows, by the label's code; none if a label has two values, or if more than half of
    /// the rows have no number. A few cells without a number contradict nothing.
    fn by_label(&self, labels: &Texts, column: usize, rows: &[usize]) -> Option<Vec<(usize, f32)>> {
        let mut values = vec![None; labels.distinct().len()];
        let mut filled = 0;
        for row in rows {
            let value = self.value(*row, column);
            if value.is_nan() {
                continue;
            }
            filled += 1;
            let code = labels.codes()[*row];
            if *values[code as usize].get_or_insert(value) != value {
                return None;
            }
        }
        if 2 * filled < rows.len() {
            return None;
        }
        let values = values.into_iter().enumerate();
        let values = values.filter_map(|(label, value)| Some((label, value?)));
        Some(values.collect())
    }

    /// Takes columns as features, without labels: those called `names`, in that order, if a head has names; else the numeric ones,
    /// or those that were `chosen`. Columns named like a label are left out; for a head of `dim` inputs only the first, and only if
    /// there are `dim + 1` numeric columns.
    ///
    /// # Errors
    /// [`Error::Data`] when a column is missing, by its name, or a cell is no finite number.
    pub fn into_features(
        mut self,
        names: &[String],
        dim: Option<usize>,
        filled: &[(usize, f32)],
        chosen: &Columns,
    ) -> Result<Labelled> {
        let mut again = Vec::new();
        let columns = if names.is_empty() {
            let mut columns = self.numeric();
            let labels: Vec<usize> = match dim {
                None => self.label_columns(),
                Some(dim) if columns.len() == dim + 1 => self.named_label().into_iter().collect(),
                Some(_) => Vec::new(),
            };
            columns.retain(|column| !labels.contains(column));
            // Columns that repeat a label column give the class away; they are left out if no head asks for `dim` inputs.
            again = match (dim, self.named_label()) {
                (None, Some(label)) => {
                    let labels = self.columns[label].texts.as_ref();
                    labels.map_or_else(Vec::new, |labels| {
                        self.labels_again(labels, &columns, |_| true)
                    })
                }
                _ => Vec::new(),
            };
            columns.retain(|column| !again.contains(column));
            let columns = self.chosen(chosen, columns)?;
            if columns.is_empty() {
                return Err(self.no_features("that can be a feature", &again));
            }
            columns
        } else {
            if self.headless && places(names, &self.first).is_ok() {
                self.has_header();
            }
            places(names, &self.header).map_err(|name| {
                let (name, file) = (quoted(name), &self.name);
                let header = match self.headless {
                    true => "the file has no header".to_owned(),
                    false => format!("the columns are {}", self.all_names()),
                };
                Error::Data(format!(
                    "{file}: there is no column {name}, which the head was trained on: {header}"
                ))
            })?
        };
        let is_filled = |place: usize| filled.iter().any(|(column, _)| *column == place);
        let is_read = |(place, column): &(usize, &usize)| {
            !is_filled(*place) || self.columns[**column].place.is_none()
        };
        let read = columns.iter().enumerate().filter(is_read);
        let read: Vec<usize> = read.map(|(_, column)| *column).collect();
        if let Some(error) = self.odd(&read, false) {
            return Err(error);
        }
        let notes = self.notes(&columns, None, &again);
        let table = self.table(&columns, None, &again, Some(chosen));
        let is_apart = |at: &usize| chosen.apart.contains(&self.header[*at]);
        let apart: Vec<usize> = self.numeric().into_iter().filter(is_apart).collect();
        let beside = match chosen.apart.is_empty() {
            true => Vec::new(),
            false => self.text_columns(None, &apart),
        };
        let feature_names = self.names(&columns);
        let (mut values, dim) = (self.take_values(&columns), columns.len());
        fill_in(&mut values, dim, filled);
        check_values(&self.name, &values, dim, 0)?;
        Ok(Labelled {
            name: self.name,
            values,
            dim,
            feature_names,
            notes,
            table,
            columns: beside,
            marks: self.marks,
            ..Labelled::default()
        })
    }

    /// Takes the cells of the chosen or guessed column as labels, with notes on it; a file of labels may have one column only.
    ///
    /// # Errors
    /// [`Error::Data`] when there is no such column, none can be guessed, or a label is missing.
    pub(super) fn into_labels(mut self, choice: Choice<'_>) -> Result<Labels> {
        let Choice {
            columns, missing, ..
        } = choice;
        let mut notes = Vec::new();
        let column = match (&self.chosen, &self.header[..]) {
            (None, [_]) => 0,
            _ => {
                let (column, reason) = self.find(columns)?;
                let name = quoted(&self.header[column]);
                notes.push(format!("label = {name} ({reason})"));
                column
            }
        };
        notes.extend(self.oddities());
        let labels = self.labels(column, missing)?;
        let codes: Vec<usize> = self
            .numeric()
            .into_iter()
            .filter(|other| *other != column)
            .collect();
        Ok(Labels {
            on: None,
            labels,
            column: (!self.headless).then(|| self.header[column].clone()),
            columns: self.text_columns(Some(column), &codes),
            notes,
        })
    }

    /// Role of each column and the reason for it, if `features` are the features.
    fn table(
        &self,
        features: &[usize],
        label: Option<(usize, &str)>,
        again: &[usize],
        chosen: Option<&Columns>,
    ) -> Vec<TableColumn> {
        let mut is_feature = vec![false; self.header.len()];
        features
            .iter()
            .for_each(|column| is_feature[*column] = true);
        let chooses = chosen.is_some_and(|chosen| !chosen.features.is_empty());
        let role = |at: usize| {
            let told = &self.columns[at];
            match label {
                Some((label, reason)) if label == at => return (Role::Label, reason),
                _ if is_feature[at] && chooses => return (Role::Feature, "as chosen"),
                _ if is_feature[at] => return (Role::Feature, "numbers"),
                _ => {}
            }
            match told.kind {
                _ if self.key == Some(at) => (Role::Id, "joins the labels"),
                _ if self.numbers_rows(at) => (Role::Id, "numbers the rows"),
                _ if self.is_id(at) => (Role::Id, "called like a row number"),
                _ if again.contains(&at) => (Role::Ignored, "says what the labels say"),
                Kind::Empty => (Role::Ignored, "empty"),
                Kind::Text if told.left_out => (Role::Ignored, "more text than is held"),
                Kind::Text if told.is_beside && self.has_vector => {
                    (Role::Ignored, "numbers beside the list of features")
                }
                Kind::Text if self.holds(at, is_amount) => {
                    (Role::Ignored, "numbers with a unit: write them without it")
                }
                Kind::Text if self.names_rows(at) => (Role::Id, "another text in nearly every row"),
                Kind::Text => (Role::Ignored, "text"),
                Kind::Numbers => (Role::Ignored, "not chosen"),
            }
        };
        let lines = (0..self.header.len()).map(|at| {
            let (role, reason) = role(at);
            let cells = self.shown.iter().take(FIRST_ROWS);
            TableColumn {
                column: ColumnRole {
                    name: self.header[at].clone(),
                    role,
                    reason: reason.to_owned(),
                },
                numbers: self.columns[at].kind == Kind::Numbers,
                named: true,
                many: false,
                first: cells.filter_map(|row| row.get(at).cloned()).collect(),
            }
        });
        let unread = self.unread.iter().map(|(name, what)| TableColumn {
            column: ColumnRole {
                name: name.clone(),
                role: Role::Ignored,
                reason: (*what).to_owned(),
            },
            ..TableColumn::default()
        });
        let lines: Vec<TableColumn> = lines.chain(unread).collect();
        match self.has_vector {
            true => roles::with_one_vector(lines),
            false => lines,
        }
    }

    /// Notes on reading these features: unusual things in the file, and the columns left out.
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
        let why = |column: &usize| match &self.columns[*column] {
            _ if again.contains(column) => " (says what the labels say)",
            _ if self.numbers_rows(*column) => " (numbers the rows)",
            told if told.left_out => " (more text than is held)",
            told if told.kind == Kind::Empty && !self.is_id(*column) => " (empty)",
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

    /// Notes on unusual things in the file: no header, a column called a number, and notes of the reader.
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
        notes.extend(self.oddities.iter().cloned());
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
    fn find(&self, columns: Option<&Columns>) -> Result<(usize, String)> {
        if let Some(name) = &self.chosen {
            if let Some(unread) = self.unread.iter().find(|(unread, _)| unread == name) {
                return Err(self.unread_label(unread));
            }
            let place = self.header.iter().position(|column| column == name);
            return place
                .map(|place| (place, "as chosen".to_owned()))
                .ok_or_else(|| {
                    Error::Data(format!(
                        "{}: there is no column {}: the columns are {}",
                        self.name,
                        quoted(name),
                        self.all_names()
                    ))
                });
        }
        let is_out =
            |column: usize| columns.is_some_and(|columns| columns.rules_out(&self.header, column));
        if let Some(column) = self.named_label().filter(|column| !is_out(*column)) {
            return Ok((column, "by its name".to_owned()));
        }
        let mut text = self.of_kind(Kind::Text);
        text.retain(|column| !self.is_id(*column) && !is_out(*column));
        // A column with another text in nearly every row names the rows.
        let names = text.extract_if(.., |column| self.names_rows(*column));
        let names: Vec<usize> = names.collect();
        if let [column] = text[..]
            && !self.columns[column].left_out
        {
            let reason = match names.is_empty() {
                true => "the only text column",
                false => "the only text column that repeats",
            };
            return Ok((column, reason.to_owned()));
        }
        if text.is_empty() {
            // Few different integers, and not row numbers.
            let is_class = |column: &usize| {
                let most = self.most_classes().min(self.rows.saturating_sub(1));
                let few = self.columns[*column].few.as_ref();
                few.is_some_and(|few| !few.mixed && (2..=most).contains(&few.texts.len()))
            };
            let mut classes = self.numeric();
            classes.retain(|column| is_class(column) && !is_out(*column));
            if let [column] = classes[..] {
                return Ok((column, "the only column of few integers".to_owned()));
            }
        }
        if let (true, Some(name)) = (text.is_empty(), names.first()) {
            return Err(Error::Data(format!(
                "{}: no column can be the label: {} holds another text in nearly every row, so that it names rows; choose the column, \
                 one of {}, or give the labels in a file of their own",
                self.name,
                quoted(&self.header[*name]),
                self.all_names()
            )));
        }
        Err(self.no_label())
    }

    /// Tells if a text column has cells that are not missing, and each of these `is_such`.
    fn holds(&self, column: usize, is_such: impl Fn(&str) -> bool) -> bool {
        let texts = self.columns[column].texts.as_ref();
        let cells = texts.map_or(&[][..], |texts| texts.distinct());
        let mut filled = cells.iter().filter(|cell| !is_missing(cell)).peekable();
        filled.peek().is_some() && filled.all(|cell| is_such(cell))
    }

    /// Tells if nearly every row has its own text: a path, a name, a sentence.
    fn names_rows(&self, column: usize) -> bool {
        let texts = self.columns[column].texts.as_ref();
        let distinct = texts.map_or(self.rows, |texts| texts.distinct().len());
        self.rows >= FEWEST_TOLD && 10 * distinct >= 9 * self.rows
    }

    fn no_label(&self) -> Error {
        if let Some(unread) = self.unread.iter().find(|(name, _)| is_label_name(name)) {
            return self.unread_label(unread);
        }
        Error::Data(format!(
            "{}: no label column can be told from the others: choose one of {}",
            self.name,
            self.all_names()
        ))
    }

    /// The first column that is named like a label and can be one.
    ///
    /// Measurements have such names too: they hold fractions, and a coordinate `y` more different numbers than classes.
    fn named_label(&self) -> Option<usize> {
        LABEL_NAMES
            .iter()
            .find_map(|name| (0..self.header.len()).find(|column| self.is_label(*column, name)))
    }

    /// All columns that are named like a label and can be one; beside an `x`, `y` is a coordinate.
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

    /// Tells if a column has this name and can hold labels.
    fn is_label(&self, column: usize, name: &str) -> bool {
        let told = &self.columns[column];
        let most = match name {
            "y" => self.most_classes(),
            _ => usize::MAX,
        };
        let can_be = |texts: &Texts| {
            let distinct = texts.distinct();
            distinct.len() <= most && !distinct.iter().any(|cell| is_fraction(cell))
        };
        self.header[column].eq_ignore_ascii_case(name)
            && (told.kind == Kind::Text || told.texts.as_ref().is_some_and(can_be))
    }

    /// Distinct numbers at most that can be classes.
    fn most_classes(&self) -> usize {
        (self.rows / 4).max(50)
    }

    /// Takes the cells of a column as labels. A missing label is an error, unless rows without one are left out later.
    fn labels(&mut self, column: usize, missing: Option<Missing>) -> Result<Texts> {
        let told = &self.columns[column];
        let labels = match (&told.texts, &told.few) {
            (Some(_), _) => self.columns[column].texts.take().unwrap_or_default(),
            (None, Some(few)) => {
                let values = (0..self.rows).map(|row| self.value(row, column));
                values.map(|value| &*few.texts[&value.to_bits()]).collect()
            }
            // A column that may be the label is held as text or was counted.
            (None, None) => return Err(self.no_label()),
        };
        if missing == Some(Missing::DropRows) {
            return Ok(labels);
        }
        let Some(row) = labels.iter().position(missing::is_missing) else {
            return Ok(labels);
        };
        let (file, place) = (&self.name, self.place(row));
        let (name, cell) = (quoted(&self.header[column]), &labels[row]);
        let problem = match cell.trim() {
            "" => "has an empty cell".to_owned(),
            _ => format!("holds {}, a missing value", quoted(cell)),
        };
        let advice = missing::advice_on_missing(cell, missing.is_some());
        Err(Error::Data(format!(
            "{file}, {place}: column {name} {problem}: {advice}"
        )))
    }

    /// The text columns except the label, by name, and the columns of `codes` that can be classes; cells of text may be empty.
    fn text_columns(&mut self, label: Option<usize>, codes: &[usize]) -> Vec<(String, Texts)> {
        let columns = 0..self.header.len();
        let columns = columns.filter(|column| Some(*column) != label && !self.headless);
        let mut named = Vec::new();
        for column in columns {
            let texts = match self.columns[column].kind {
                Kind::Text => self.columns[column].texts.take(),
                _ if codes.contains(&column) => self.codes(column),
                _ => None,
            };
            named.extend(texts.map(|texts| (self.header[column].clone(), texts)));
        }
        named
    }

    /// The cells of a column as text if no two rows share one, so that they can tell rows apart; else none.
    pub(super) fn key(&self, at: usize) -> Option<Texts> {
        let column = &self.columns[at];
        match column.kind {
            _ if self.headless => None,
            Kind::Text => {
                let is_key = |texts: &&Texts| texts.distinct().len() == self.rows;
                column.texts.as_ref().filter(is_key).cloned()
            }
            Kind::Numbers => {
                let values = || (0..self.rows).map(|row| self.value(row, at));
                let mut seen = HashSet::new();
                // Larger ones may have been rounded.
                let most = (1 << f32::MANTISSA_DIGITS) as f32;
                let is_new = |value: f32| {
                    value.fract() == 0.0 && value.abs() < most && seen.insert(value.to_bits())
                };
                values()
                    .all(is_new)
                    .then(|| values().map(|value| value.to_string()).collect())
            }
            Kind::Empty => None,
        }
    }

    /// The cells of the column that was named to join labels by.
    ///
    /// # Errors
    /// [`Error::Data`] if there is none of this name.
    pub(super) fn named_key(&self, name: &str) -> Result<Texts> {
        let at = self.header.iter().position(|other| other == name);
        let texts = at.and_then(|at| self.columns[at].texts.clone());
        texts.ok_or_else(|| {
            Error::Data(format!(
                "{}: there is no column {} to join labels by: the columns are {}",
                self.name,
                quoted(name),
                self.all_names()
            ))
        })
    }

    /// The numbers of a column as text if they are whole and each occurs in two rows on average; else none.
    fn codes(&self, column: usize) -> Option<Texts> {
        let values = || (0..self.rows).map(|row| self.value(row, column));
        if !values().all(|value| value.is_finite() && value.fract() == 0.0) {
            return None;
        }
        let texts: Texts = values().map(|value| value.to_string()).collect();
        (2 * texts.distinct().len() <= self.rows).then_some(texts)
    }
}

/// Tells if a column's name ends as those of row numbers do: `customer_id`, `sample id`, `userId`, `case_number`.
fn counts_by_name(name: &str) -> bool {
    let spaced = [
        "_id", "-id", " id", ".id", "_number", " number", "_no", " no", "_nr", " nr", "_key",
    ];
    let name_ends = |end: &str| name.to_ascii_lowercase().ends_with(end);
    let capital = ["Id", "ID"].iter().find_map(|end| name.strip_suffix(end));
    spaced.into_iter().any(name_ends)
        || capital.is_some_and(|before| before.ends_with(char::is_lowercase))
}

/// Tells if the first line is a row and no header: it holds numbers alone that are no column names (0, 1, 2 and so on, or many that
/// rise), or it has numbers above numbers and a text that another row repeats, as labels do.
fn is_a_row(first: &[String], columns: &[Column], second_rises: bool, marks: Marks) -> bool {
    if first.iter().all(|cell| cell.parse::<f64>().is_ok()) {
        let counts = |(place, cell): (usize, &String)| cell.parse() == Ok(place);
        let numbered = first.len() > 1 && first.iter().enumerate().all(counts);
        let names = first.len() >= RISING_NAMES && !second_rises && rises(first.iter());
        return !numbered && !names;
    }
    let mut cells = first.iter().zip(columns);
    let numbers_on_numbers = cells.clone().all(|(cell, column)| {
        column.kind != Kind::Numbers || notation::is_number(cell, marks) || is_missing(cell)
    });
    let a_label = cells.any(|(cell, column)| {
        column.kind == Kind::Text && column.repeats_first && !is_missing(cell)
    });
    numbers_on_numbers && a_label
}

/// Tells if the comma of a number may stand between thousands or before a fraction.
fn is_unsure(cell: &str, notation: Notation) -> bool {
    let is_number = || cell.replace(',', "").parse::<f64>().is_ok();
    notation == Notation::Unsure && cell.contains(',') && is_number()
}

/// Tells if a column or an array of this name holds labels.
pub(super) fn is_label_name(name: &str) -> bool {
    let mut names = LABEL_NAMES.iter();
    names.any(|label| name.eq_ignore_ascii_case(label))
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

/// Tells if each cell is a larger number than the one before.
fn rises(cells: impl Iterator<Item = impl AsRef<str>>) -> bool {
    let numbers = cells.map(|cell| cell.as_ref().parse::<f64>().unwrap_or(f64::NAN));
    numbers.is_sorted_by(|number, next| number < next)
}

/// Tells if a cell is a number with a unit or a sign before or after it: `12 %`, `$1,200.50`, `(1,200)`.
fn is_amount(cell: &str) -> bool {
    const SIGNS: [char; 9] = ['%', '$', '€', '£', '¥', '(', ')', ' ', '-'];
    let bare = cell.trim_matches(SIGNS);
    let number: String = bare
        .chars()
        .filter(|char| ![',', '\''].contains(char))
        .collect();
    bare != cell
        && number.starts_with(|char: char| char.is_ascii_digit())
        && number.parse::<f64>().is_ok()
}

/// Tells if a cell is a number between two integers.
fn is_fraction(cell: &str) -> bool {
    let value = cell.replace(',', ".").parse::<f64>();
    value.is_ok_and(|value| value.is_finite() && value.fract() != 0.0)
}

/// Tells if a cell among numbers stands for a missing one, as pandas and R write it.
fn is_missing(cell: &str) -> bool {
    ["", "na", "n/a", "nan", "null", "none"]
        .iter()
        .any(|word| cell.eq_ignore_ascii_case(word))
}
