//! A column while rows come: numbers or text by its first cells, and all that its later cells say about it.

use std::collections::HashMap;

use super::cells::{Cell, is_missing_number};
use crate::data::files::row_numbers::Counter;
use crate::data::rows::class_names;
use crate::data::rows::notation::{self, Marks, Notation, Seen};
use crate::data::rows::texts::Gathered;

/// Number of cells, the first that are not empty, that decide if a column holds numbers.
pub(super) const LOOKED_AT: u8 = 100;

/// Content of most cells of a column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    Numbers,
    Text,
    /// No filled cell in any row so far.
    #[default]
    Empty,
}

/// The first cell of a column that is no finite number, and how many there are.
#[derive(Debug)]
pub(super) struct Odd {
    pub(super) row: usize,
    pub(super) text: String,
    pub(super) count: usize,
}

/// The different integers of a column, with the first text of each; while there are few.
#[derive(Debug, Default)]
pub(super) struct Few {
    pub(super) texts: HashMap<u32, Box<str>>,
    /// Set if two texts with different names are one number: then the numbers alone do not give the labels back.
    pub(super) mixed: bool,
}

/// A column while rows come.
#[derive(Debug, Default)]
pub(super) struct Column {
    pub(super) kind: Kind,
    /// Notation of its numbers, and the evidence for it in its cells.
    pub(super) notation: Notation,
    pub(super) seen: Seen,
    /// Cells of the first rows that are not missing, up to [`LOOKED_AT`], and numbers among them.
    pub(super) filled: u8,
    pub(super) numbers: u8,
    /// Index of its numbers in a row of `values`; none for text.
    pub(super) place: Option<usize>,
    /// Its cells as text, kept for text columns and for columns that may be the label.
    pub(super) texts: Option<Box<Gathered>>,
    /// May be the label, by its name or by choice.
    pub(super) wanted: bool,
    /// Chosen as the label.
    pub(super) chosen: bool,
    /// Taken for text, whatever its cells hold.
    pub(super) is_text: bool,
    /// Key column, by which labels of another file are joined.
    pub(super) is_key: bool,
    /// Left out because the text columns together exceeded `TEXT_BYTES`.
    pub(super) left_out: bool,
    pub(super) odd: Option<Box<Odd>>,
    pub(super) few: Option<Box<Few>>,
    /// Test if its numbers number the rows; none once they cannot.
    pub(super) counter: Option<Box<Counter>>,
    /// Set if another row repeats the cell of the first line.
    pub(super) repeats_first: bool,
}

impl Column {
    /// Counts a cell of the first rows as filled, and as a number if it is one.
    pub(super) fn look(&mut self, cell: Cell<'_>, marks: Marks) {
        let is_number = match cell {
            Cell::Text(text) if is_missing_number(text) => return,
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
    pub(super) fn count(
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

    pub(super) fn decide(&mut self) {
        self.kind = match self.filled {
            _ if self.is_text => Kind::Text,
            0 => Kind::Empty,
            filled if self.numbers >= filled.div_ceil(2) => Kind::Numbers,
            _ => Kind::Text,
        };
    }
}

impl Few {
    /// Records a number; returns if it is new, none if the column can be no label any more because of a fraction.
    pub(super) fn see(&mut self, value: f32, text: &str) -> Option<bool> {
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
