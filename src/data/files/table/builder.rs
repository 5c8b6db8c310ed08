//! [`Builder`] of a table: takes rows, tells the columns apart by the first of them, and each cell once.

use super::cells::{Cell, Held, HeldCell, is_fraction, is_missing_number, rises};
use super::column::{Column, Kind, LOOKED_AT, Odd};
use super::names::is_label_name;
use super::{Table, Told};
use crate::base::error::{Error, Result};
use crate::data::Columns;
use crate::data::files::lines::Lines;
use crate::data::files::row_numbers::{Counter, Counts};
use crate::data::rows::notation::{self, Marks, Notation, Seen};
use crate::data::rows::roles::{self, FIRST_ROWS};
use crate::data::rows::texts::Gathered;

/// Rows that are held at most until the columns are told apart, and their bytes.
const HELD_ROWS: usize = 1024;

const HELD_BYTES: usize = 4 << 20;

/// Columns at most whose first cells are kept.
const SHOWN_COLUMNS: usize = 4096;

/// Cells of a first line from which on rising numbers are column names (wavelengths, say) and not a row.
const RISING_NAMES: usize = 16;

/// Bytes of all text columns beside the label at most; the column that exceeds this is left out.
const TEXT_BYTES: usize = 48 << 20;

/// Distinct integers that are held over all columns at most, to find a label among them; and as many to find row numbers.
const COUNTED: usize = 1 << 20;

/// Meaning that a comma in a number can have beside that of a mark between thousands.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Commas {
    /// None: commas part the cells.
    #[default]
    Refused,
    /// A decimal comma if the file shows some and no decimal point.
    WhereSure,
    /// A decimal comma.
    Decimal,
}

/// Takes the rows of a table, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Builder {
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
    pub(crate) fn new(name: &str, first: Vec<String>, chosen: Option<&str>) -> Self {
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
            ..Self::default()
        }
    }

    /// Sets the meaning of commas in numbers.
    pub(crate) fn with_commas(mut self, commas: Commas) -> Self {
        self.commas = commas;
        self
    }

    /// Takes the marks of numbers and the key column that `columns` chooses; the key is kept as text.
    pub(crate) fn with(mut self, columns: &Columns) -> Self {
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
    pub(crate) fn are_text(&mut self, columns: &[usize]) {
        for column in columns {
            self.columns[*column].is_text = true;
        }
    }

    /// Says that all numbers of a row are one vector, which is one feature: no element is a row number or a code by itself.
    pub(crate) fn has_vector(&mut self) {
        self.has_vector = true;
    }

    /// Number of cells of a row.
    pub(crate) fn columns(&self) -> usize {
        self.columns.len()
    }

    /// Sets the number of rows that are likely to come.
    pub(crate) fn expect(&mut self, rows: u64) {
        self.expected = rows;
    }

    /// Tells if nothing came but a line of empty cells.
    pub(crate) fn is_blank(&self) -> bool {
        self.rows() == 0 && self.first.iter().all(String::is_empty)
    }

    /// Rows so far.
    pub(crate) fn rows(&self) -> usize {
        self.rows + self.held.len()
    }

    /// Appends a row, given cell by cell.
    ///
    /// # Errors
    /// [`Error::Data`] when the memory here does not hold it.
    pub(crate) fn push<'a>(&mut self, cell: impl Fn(usize) -> Cell<'a>) -> Result<()> {
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
        self.decide_late(at, cell);
        let column = &self.columns[at];
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
            self.take_number(at, cell, text);
        }
        self.take_text(at, text);
    }

    /// Decides a column that was empty so far by its first filled cell.
    fn decide_late(&mut self, at: usize, cell: Cell<'_>) {
        let column = &mut self.columns[at];
        if column.kind == Kind::Empty
            && !matches!(cell, Cell::Text(text) if is_missing_number(text))
        {
            column.look(cell, self.marks);
            column.decide();
            if column.kind == Kind::Text && column.texts.is_none() {
                column.texts = Some(Box::new(Gathered::of("", self.rows)));
                self.text_bytes += self.rows * size_of::<u32>();
            }
        }
    }

    /// Takes a cell as a number, whose text is `text`.
    fn take_number(&mut self, at: usize, cell: Cell<'_>, text: &str) {
        let column = &mut self.columns[at];
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

    /// Keeps the text of a cell if the column keeps texts.
    fn take_text(&mut self, at: usize, text: &str) {
        let column = &mut self.columns[at];
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
    pub(crate) fn finish(
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
        self.tell_marks();
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
        let mut columns: Vec<Told> = self.columns.into_iter().map(Told::of).collect();
        // Several columns of such rankings are measurements, not row numbers.
        let mixed = |told: &&mut Told| told.counts == Some(Counts::Mixed);
        if columns.iter_mut().filter(mixed).count() > 1 {
            for told in columns.iter_mut().filter(mixed) {
                told.counts = Some(Counts::Once);
            }
        }
        let mut table = Table {
            name: self.name,
            first,
            chosen: self.chosen,
            columns,
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
        table.name_columns();
        Ok(table)
    }

    /// Marks in the numbers of all columns, by all of their cells, unless they were chosen.
    fn tell_marks(&mut self) {
        if let Some(file) = self.seen {
            let notations = self.columns.iter().map(|column| column.notation);
            let seen = self.columns.iter().map(|column| column.seen);
            self.marks = seen.fold(file, Seen::with).marks(notations);
        }
    }

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
        column.kind != Kind::Numbers || notation::is_number(cell, marks) || is_missing_number(cell)
    });
    let a_label = cells.any(|(cell, column)| {
        column.kind == Kind::Text && column.repeats_first && !is_missing_number(cell)
    });
    numbers_on_numbers && a_label
}
