//! Cells of a row as they come and as they are held, and what a cell reads like.

use crate::data::files::row_numbers;
use crate::data::rows::notation::Notation;

/// A cell of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cell<'a> {
    /// Text, which may be a number.
    Text(&'a str),
    /// A number that was one in the file.
    Number(f32),
    Double(f64),
    Integer(i64),
}

impl Cell<'_> {
    /// The cell's number if the file stores it as one; none for text.
    pub(super) fn number(self) -> Option<f32> {
        match self {
            Cell::Text(_) => None,
            Cell::Number(number) => Some(number),
            Cell::Double(number) => Some(number as f32),
            Cell::Integer(number) => Some(number as f32),
        }
    }

    /// The cell's number, NaN if it is none, and the same as an integer if it is whole.
    pub(super) fn exactly(self, notation: Notation) -> (f64, Option<i64>) {
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
    pub(super) fn written(self) -> String {
        match self {
            Cell::Text(_) => String::new(),
            Cell::Number(number) => number.to_string(),
            Cell::Double(number) => number.to_string(),
            Cell::Integer(number) => number.to_string(),
        }
    }
}

/// A cell of a held row.
#[derive(Clone, Copy, Debug)]
pub(super) enum HeldCell {
    /// Text that ends at this byte of the row's text.
    End(usize),
    Number(f32),
    Double(f64),
    Integer(i64),
}

/// A row that is held until the columns are told apart.
#[derive(Debug, Default)]
pub(super) struct Held {
    pub(super) text: String,
    pub(super) cells: Vec<HeldCell>,
}

impl Held {
    pub(super) fn cell(&self, at: usize) -> Cell<'_> {
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

/// Tells if the comma of a number may stand between thousands or before a fraction.
pub(super) fn is_unsure(cell: &str, notation: Notation) -> bool {
    let is_number = || cell.replace(',', "").parse::<f64>().is_ok();
    notation == Notation::Unsure && cell.contains(',') && is_number()
}

/// Tells if each cell is a larger number than the one before.
pub(super) fn rises(cells: impl Iterator<Item = impl AsRef<str>>) -> bool {
    let numbers = cells.map(|cell| cell.as_ref().parse::<f64>().unwrap_or(f64::NAN));
    numbers.is_sorted_by(|number, next| number < next)
}

/// Tells if a cell is a number with a unit or a sign before or after it: `12 %`, `$1,200.50`, `(1,200)`.
pub(super) fn is_amount(cell: &str) -> bool {
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
pub(super) fn is_fraction(cell: &str) -> bool {
    let value = cell.replace(',', ".").parse::<f64>();
    value.is_ok_and(|value| value.is_finite() && value.fract() != 0.0)
}

/// Tells if a cell among numbers stands for a missing one, as pandas and R write it.
pub(super) fn is_missing_number(cell: &str) -> bool {
    ["", "na", "n/a", "nan", "null", "none"]
        .iter()
        .any(|word| cell.eq_ignore_ascii_case(word))
}
