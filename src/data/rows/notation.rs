//! Notation of the numbers in a column: a point or a comma before the fraction, and the other one, an apostrophe or a blank between
//! thousands. It is told from the cells of the column and of the file's other columns; cells are then read as numbers.

use std::borrow::Cow;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::base::error::{Error, Result};
use crate::base::quote::quoted;

/// The minus sign of typesetting, which spreadsheets write in some languages.
const MINUS: char = '\u{2212}';
const MARKS: [char; 2] = ['.', ','];
/// Marks that occur only between thousands: the apostrophes of Switzerland, and the no-break spaces of typesetting.
const PARTING: [char; 4] = ['\'', '\u{2019}', '\u{a0}', '\u{202f}'];

/// The marks in the numbers of a table, if they are chosen; else the columns tell them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Marks {
    /// Mark before the fraction: a point or a comma.
    pub decimal: Option<char>,
    /// Mark between thousands: a point, a comma, a blank or an apostrophe.
    pub thousands: Option<char>,
}

impl Marks {
    /// Checks that both marks can stand in one number.
    ///
    /// # Errors
    /// [`Error::Config`] if they cannot.
    pub fn check(self) -> Result<()> {
        let says = |what: &str, mark: char, can_be: &str| {
            let mark = quoted(&mark.to_string());
            Err(Error::Config(format!(
                "{what} is {mark}, expected {can_be}"
            )))
        };
        match (self.decimal, self.thousands) {
            (Some(mark), _) if !MARKS.contains(&mark) => {
                says("decimal", mark, "a point or a comma")
            }
            (_, Some(mark))
                if mark != ' ' && !MARKS.contains(&mark) && !PARTING.contains(&mark) =>
            {
                says(
                    "thousands",
                    mark,
                    "a point, a comma, a blank or an apostrophe",
                )
            }
            (Some(decimal), Some(thousands)) if decimal == thousands => says(
                "thousands",
                thousands,
                "another mark than before the fraction",
            ),
            _ => Ok(()),
        }
    }

    /// Notation of numbers with these marks; none if no mark is chosen.
    pub(crate) fn notation(self) -> Option<Notation> {
        let other = |mark: char| MARKS.into_iter().find(|other| *other != mark);
        match (self.decimal, self.thousands) {
            (None, None) => None,
            (decimal, Some(thousands)) => {
                let by_other = other(thousands).filter(|_| MARKS.contains(&thousands));
                Some(Notation::Thousands(thousands, decimal.or(by_other)))
            }
            (Some(decimal), None) => Some(Notation::Thousands(other(decimal)?, Some(decimal))),
        }
    }
}

/// Notation of the numbers in a column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Notation {
    /// Decimal point.
    #[default]
    Point,
    /// Decimal point or decimal comma.
    PointOrComma,
    /// The first mark between thousands, the second before the fraction; point or comma if there is no second.
    Thousands(char, Option<char>),
    /// A comma may stand between thousands or before the fraction.
    Unsure,
}

/// Evidence of a column's cells about the marks `.` and `,`, in this order.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// Set if a cell has the mark at the places of one between thousands.
    parts: [bool; 2],
    /// Set if the mark surely stands between thousands: twice in a cell, or before the other mark.
    surely_parts: [bool; 2],
    /// Set if it is surely the decimal mark.
    surely_decimal: [bool; 2],
    /// A mark found that can stand between thousands only.
    parting: Option<char>,
}

impl Seen {
    /// Adds the evidence of a cell.
    pub(crate) fn see(&mut self, cell: &str) {
        let cell = unsigned(cell);
        let parting = |mark: &char| {
            cell.contains(*mark) && Notation::Thousands(*mark, None).read::<f64>(cell).is_some()
        };
        if let Some(mark) = PARTING.into_iter().find(parting) {
            self.parting = Some(mark);
            return;
        }
        let Some(last) = cell.rfind(MARKS) else {
            return;
        };
        let own = usize::from(cell[last..].starts_with(','));
        let (whole, fraction) = (&cell[..last], &cell[last + 1..]);
        let other = MARKS[1 - own];
        if whole.contains(other) {
            let is_number = grouped(whole, other) && is_digits(fraction);
            self.surely_parts[1 - own] |= is_number;
            self.surely_decimal[own] |= is_number;
        } else if grouped(cell, MARKS[own]) {
            self.parts[own] = true;
            self.surely_parts[own] |= whole.contains(MARKS[own]);
        } else if !whole.contains(MARKS[own]) {
            let number = format!("{whole}.{fraction}");
            self.surely_decimal[own] |= number.parse::<f64>().is_ok();
        }
    }

    /// Combined evidence of these columns.
    pub(crate) fn with(self, other: Self) -> Self {
        let either = |own: [bool; 2], other: [bool; 2]| [own[0] | other[0], own[1] | other[1]];
        Self {
            parts: either(self.parts, other.parts),
            surely_parts: either(self.surely_parts, other.surely_parts),
            surely_decimal: either(self.surely_decimal, other.surely_decimal),
            parting: self.parting.or(other.parting),
        }
    }

    /// New notation for a column without thousands so far, if `cell` shows otherwise: the first rows of a column may all be small.
    /// `self` is the column's evidence, `file` that of all columns.
    pub(crate) fn later(&mut self, file: Self, cell: &str) -> Option<Notation> {
        let comma = usize::from(cell.contains(','));
        // A point is a decimal point unless commas are decimal commas.
        if comma == 0 && !(file.has_decimal_commas() && cell.contains('.')) {
            return None;
        }
        let before = *self;
        self.see(cell);
        if !self.parts[comma] || before.surely_decimal[comma] {
            return None;
        }
        match self.notation(file.with(*self), true) {
            Notation::Point | Notation::PointOrComma => None,
            notation => Some(notation),
        }
    }

    /// Tells if some numbers surely have decimal commas and none has a decimal point.
    pub(crate) fn has_decimal_commas(self) -> bool {
        self.surely_decimal[1] && !self.surely_decimal[0]
    }

    /// The marks of a file with this evidence and the notations of its columns; none if those do not agree.
    pub(crate) fn marks(self, mut columns: impl Iterator<Item = Notation>) -> Marks {
        let comma = self.surely_decimal[1];
        match columns.find(|notation| matches!(notation, Notation::Thousands(..))) {
            _ if comma && self.surely_decimal[0] => Marks::default(),
            Some(Notation::Thousands(thousands, decimal)) => Marks {
                decimal,
                thousands: Some(thousands),
            },
            _ => Marks {
                decimal: comma.then_some(','),
                thousands: None,
            },
        }
    }

    /// Notation of a column with this evidence, in a file with the evidence `file`; `commas` may be decimal marks if no evidence
    /// speaks against it.
    pub(crate) fn notation(self, file: Self, commas: bool) -> Notation {
        let is_thousands = |mark: usize| {
            let by_file =
                self.parts[mark] && file.surely_decimal[1 - mark] && !file.surely_decimal[mark];
            (self.surely_parts[mark] || by_file) && !self.surely_decimal[mark]
        };
        let plain = match commas {
            true => Notation::PointOrComma,
            false => Notation::Point,
        };
        if let Some(mark) = self.parting {
            return Notation::Thousands(mark, None);
        }
        match (0..2).find(|mark| is_thousands(*mark)) {
            Some(mark) => Notation::Thousands(MARKS[mark], Some(MARKS[1 - mark])),
            None if self.parts[1] && !file.surely_decimal[1] => Notation::Unsure,
            None => plain,
        }
    }
}

impl Notation {
    /// A cell as a number; none if it is not written in this notation.
    pub(crate) fn read<T: FromStr>(self, cell: &str) -> Option<T> {
        let cell = with_ascii_minus(cell);
        match self {
            Self::Thousands(mark, decimal) if cell.contains(MARKS) || cell.contains(mark) => {
                let own = unsigned(&cell);
                let is_decimal = |char: char| {
                    char != mark
                        && MARKS.contains(&char)
                        && decimal.is_none_or(|decimal| char == decimal)
                };
                let (whole, fraction) = match own.split_once(is_decimal) {
                    Some((whole, fraction)) => (whole, Some(fraction)),
                    None => (own, None),
                };
                let digits = |text: &str| is_digits(text) || text.is_empty();
                let is_one = grouped(whole, mark) || digits(whole);
                // A fraction may end in an exponent.
                let exponent = |rest: &str| rest.is_empty() || rest[1..].parse::<i32>().is_ok();
                let fits = |fraction: &str| {
                    let end = fraction.find(['e', 'E']).unwrap_or(fraction.len());
                    digits(&fraction[..end]) && exponent(&fraction[end..])
                };
                if !is_one || !fraction.is_none_or(fits) {
                    return None;
                }
                let kept = cell.chars().filter(|char| *char != mark);
                let text: String = kept
                    .map(|char| if char == ',' { '.' } else { char })
                    .collect();
                text.parse().ok()
            }
            _ => cell.parse().ok().or_else(|| {
                let commas = self == Self::PointOrComma && cell.contains(',');
                commas.then(|| cell.replacen(',', ".", 1).parse().ok())?
            }),
        }
    }
}

/// Tells if a cell is a number in any notation, or with these marks.
pub(crate) fn is_number(cell: &str, marks: Marks) -> bool {
    let chosen = marks.notation();
    let parted = |mark: char| Notation::Thousands(mark, None).read::<f32>(cell).is_some();
    Notation::PointOrComma.read::<f32>(cell).is_some()
        || chosen.is_some_and(|notation| notation.read::<f32>(cell).is_some())
        || MARKS.into_iter().chain(PARTING).any(parted)
}

/// The cell with an ASCII minus sign.
fn with_ascii_minus(cell: &str) -> Cow<'_, str> {
    match cell.strip_prefix(MINUS) {
        Some(rest) => Cow::Owned(format!("-{rest}")),
        None => Cow::Borrowed(cell),
    }
}

fn unsigned(cell: &str) -> &str {
    cell.strip_prefix(['-', '+', MINUS]).unwrap_or(cell)
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Tells if the text is two or more groups of digits with this mark between them, all but the first of three digits.
fn grouped(text: &str, mark: char) -> bool {
    let mut groups = text.split(mark);
    let first = groups.next().unwrap_or_default();
    let first_fits = is_digits(first) && first.len() <= 3 && !first.starts_with('0');
    let mut rest = groups.peekable();
    first_fits && rest.peek().is_some() && rest.all(|group| group.len() == 3 && is_digits(group))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notation told for the first column, beside a second one.
    fn told(cells: &[&str], beside: &[&str], commas: bool) -> Notation {
        let seen = |cells: &[&str]| {
            let mut seen = Seen::default();
            cells.iter().for_each(|cell| seen.see(cell));
            seen
        };
        let own = seen(cells);
        own.notation(own.with(seen(beside)), commas)
    }

    #[test]
    fn a_mark_is_told_by_its_column_and_by_the_file() {
        use Notation::{Point, PointOrComma, Thousands, Unsure};
        for (cells, beside, commas, expected) in [
            (
                &["2.351", "987"][..],
                &["7,73"][..],
                true,
                Thousands('.', Some(',')),
            ),
            (&["2.351", "987"], &[], true, PointOrComma),
            (&["2.351", "0.5"], &["7,73"], true, PointOrComma),
            (
                &["1,234", "987"],
                &["7.73"],
                true,
                Thousands(',', Some('.')),
            ),
            (&["1,234", "987"], &[], true, Unsure),
            (&["8,063", "713"], &[], false, Unsure),
            (&["1,234", "0,5"], &[], true, PointOrComma),
            (&["1,234"], &["0,5"], true, PointOrComma),
            (
                &["1.954,50", "839,50"],
                &[],
                true,
                Thousands('.', Some(',')),
            ),
            (&["1,954.50"], &[], false, Thousands(',', Some('.'))),
            (&["1.234.567"], &[], false, Thousands('.', Some(','))),
            (&["1.234e5", "2.5"], &[], false, Point),
            (&["12", "1e3"], &[], false, Point),
            (&["1'234.5", "987"], &[], false, Thousands('\'', None)),
            (
                &["1\u{a0}234,5", "987"],
                &[],
                true,
                Thousands('\u{a0}', None),
            ),
            (&["1 234,5", "987"], &[], true, PointOrComma),
        ] {
            assert_eq!(
                told(cells, beside, commas),
                expected,
                "{cells:?} {beside:?}"
            );
        }
    }

    #[test]
    fn thousands_that_come_late_are_told_as_those_of_the_first_rows() {
        use Notation::{Thousands, Unsure};
        let seen = |cells: &[&str]| {
            let mut seen = Seen::default();
            cells.iter().for_each(|cell| seen.see(cell));
            seen
        };
        for (first, beside, late, expected) in [
            (
                &["320", "212"][..],
                &["0,5"][..],
                &["95.612"][..],
                Some(Thousands('.', Some(','))),
            ),
            (
                &["320", "212"],
                &["0.5"],
                &["1,910"],
                Some(Thousands(',', Some('.'))),
            ),
            (&["320", "212"], &[], &["1,910"], Some(Unsure)),
            (
                &["320", "212"],
                &[],
                &["1,910,000"],
                Some(Thousands(',', Some('.'))),
            ),
            (&["320", "212"], &[], &["95.612"], None),
            (&["320", "0.5"], &["0,5"], &["95.612"], None),
            (&["320", "212"], &["0,5"], &["9.5", "95.612"], None),
            (&["0,5"], &[], &["1,910"], None),
            (&["320"], &[], &["0,5", "1,910"], None),
        ] {
            let mut own = seen(first);
            let file = own.with(seen(beside));
            let found = late.iter().find_map(|cell| own.later(file, cell));
            assert_eq!(found, expected, "{first:?} {beside:?} {late:?}");
        }
    }

    #[test]
    fn numbers_are_read_as_they_are_written() {
        let read = |notation: Notation, cell: &str| notation.read::<f64>(cell);
        let (points, commas) = (
            Notation::Thousands('.', Some(',')),
            Notation::Thousands(',', Some('.')),
        );
        for (notation, cell, expected) in [
            (points, "1.954,50", Some(1954.5)),
            (points, "-2.351", Some(-2351.0)),
            (points, "987", Some(987.0)),
            (points, "7,5", Some(7.5)),
            (points, "7.5", None),
            (commas, "1,234,567.25", Some(1_234_567.25)),
            (commas, "1,23", None),
            (Notation::Thousands('\'', None), "-1'234.5", Some(-1234.5)),
            (Notation::Thousands('\'', None), "0,5", Some(0.5)),
            (Notation::Thousands('\'', None), "12'34", None),
            (Notation::Thousands(' ', Some(',')), "1 234,5", Some(1234.5)),
            (Notation::Thousands(' ', Some(',')), "1 234.5", None),
            (points, "1,5e3", Some(1500.0)),
            (points, ",5", Some(0.5)),
            (points, ",", None),
            (Notation::Point, "\u{2212}2.46", Some(-2.46)),
            (Notation::Point, "1,5", None),
            (Notation::PointOrComma, "1,5", Some(1.5)),
            (Notation::Unsure, "8,063", None),
            (Notation::Unsure, "713", Some(713.0)),
        ] {
            assert_eq!(read(notation, cell), expected, "{notation:?} {cell}");
        }
        assert!(
            ["1.954,50", "8,063", "\u{2212}1", "1e3", "nan"]
                .iter()
                .all(|cell| is_number(cell, Marks::default()))
        );
        assert!(
            ["1.2.3", "a", "1,2,3", "12-3"]
                .iter()
                .all(|cell| !is_number(cell, Marks::default()))
        );
    }
}
