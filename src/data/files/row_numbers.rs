//! [`Counter`]: tells if a column of numbers numbers the rows, by its values as they come. Row numbers tell the order of a file,
//! and files are often sorted by class.

use std::collections::HashSet;

/// Rows from which on equal steps are no chance.
const FEWEST: usize = 16;
/// Rows from which on a full range of integers in any order numbers the rows; fewer can be a ranking of something.
const FEWEST_MIXED: usize = 50;
/// Relative difference between steps at most: numbers are often written rounded.
const TOLERANCE: f64 = 0.01;

/// State of a column's numbers so far.
#[derive(Debug)]
pub(super) struct Counter {
    rows: usize,
    first: f64,
    last: f64,
    step: f64,
    /// Set while all steps between numbers are equal.
    even: bool,
    /// The whole numbers so far, each of which occurred once; none once a number was not whole or occurred twice.
    once: Option<HashSet<i64>>,
    least: i64,
    most: i64,
}

/// Pattern by which a column numbers the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counts {
    /// Numbers rise or fall from row to row, always by the same step.
    InOrder,
    /// All whole numbers of a range, each once, in any order.
    Mixed,
    /// Whole numbers, each once.
    Once,
}

impl Default for Counter {
    fn default() -> Self {
        Self {
            rows: 0,
            first: f64::NAN,
            last: f64::NAN,
            step: f64::NAN,
            even: true,
            once: Some(HashSet::new()),
            least: i64::MAX,
            most: i64::MIN,
        }
    }
}

impl Counter {
    /// Adds the number of the next row, also as an integer if it is whole; returns if the column may still number the rows.
    pub(super) fn see(&mut self, number: f64, whole: Option<i64>) -> bool {
        match self.rows {
            0 => self.first = number,
            1 => self.step = number - self.last,
            _ => self.even &= self.is_a_step(self.last, number),
        }
        self.even &= number.is_finite() && self.step != 0.0;
        self.last = number;
        self.hold(whole)
    }

    /// Adds the number of a row before all others.
    pub(super) fn see_before(&mut self, number: f64, whole: Option<i64>) -> bool {
        match self.rows {
            0 => return self.see(number, whole),
            1 => self.step = self.first - number,
            _ => self.even &= self.is_a_step(number, self.first),
        }
        self.even &= number.is_finite() && self.step != 0.0;
        self.first = number;
        self.hold(whole)
    }

    fn is_a_step(&self, from: f64, to: f64) -> bool {
        (to - from - self.step).abs() <= TOLERANCE * self.step.abs()
    }

    fn hold(&mut self, whole: Option<i64>) -> bool {
        self.rows += 1;
        let is_new = |once: &mut HashSet<i64>| whole.is_some_and(|whole| once.insert(whole));
        if !self.once.as_mut().is_some_and(is_new) {
            self.once = None;
        }
        if let Some(whole) = whole {
            (self.least, self.most) = (self.least.min(whole), self.most.max(whole));
        }
        self.even || self.once.is_some()
    }

    /// Number of integers that are held.
    pub(super) fn held(&self) -> usize {
        self.once.as_ref().map_or(0, HashSet::len)
    }

    /// Drops the held integers: from here on only equal steps are looked for. Returns if the column may still number the rows.
    pub(super) fn forget(&mut self) -> bool {
        self.once = None;
        self.even
    }

    /// The pattern by which the column numbers the rows, if any.
    pub(super) fn finish(&self) -> Option<Counts> {
        let spans = || self.most.checked_sub(self.least) == Some(self.rows as i64 - 1);
        match &self.once {
            _ if self.even && self.rows >= FEWEST => Some(Counts::InOrder),
            Some(_) if self.rows >= FEWEST_MIXED && spans() => Some(Counts::Mixed),
            Some(_) => Some(Counts::Once),
            None => None,
        }
    }
}

/// The integer in a cell of text, exactly: 64-bit ids are more than f64 tells apart.
pub(super) fn whole(text: &str, number: f64) -> Option<i64> {
    text.parse().ok().or_else(|| whole_number(number))
}

/// The number as an integer, if it is whole and exact in f64.
pub(super) fn whole_number(number: f64) -> Option<i64> {
    const EXACT: f64 = (1_u64 << 53) as f64;
    (number.fract() == 0.0 && number.abs() < EXACT).then_some(number as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(numbers: impl IntoIterator<Item = f64>) -> Option<Counts> {
        let mut counter = Counter::default();
        for number in numbers {
            if !counter.see(number, whole_number(number)) {
                return None;
            }
        }
        counter.finish()
    }

    #[test]
    fn equal_steps_number_the_rows_whatever_they_are() {
        let rows = 0..40;
        for (first, step) in [
            (1.0, 1.0),
            (100_000_001.0, 1.0),
            (0.0, -7.0),
            (1.7e9, 3600.0),
            (0.25, 0.25),
        ] {
            let numbers = rows.clone().map(|i| first + step * f64::from(i));
            assert_eq!(counts(numbers), Some(Counts::InOrder), "{first}, {step}");
        }
        let rounded = rows
            .clone()
            .map(|i| (f64::from(i) / 3.0 * 1e3).round() / 1e3);
        assert_eq!(counts(rounded), Some(Counts::InOrder));
        assert_eq!(counts((0..15).map(f64::from)), Some(Counts::Once));
        assert_eq!(
            counts(rows.clone().map(|i| f64::from(i * i))),
            Some(Counts::Once)
        );
        assert_eq!(counts(rows.clone().map(|i| f64::from(i / 2))), None);
        assert_eq!(counts(rows.map(|_| 3.0)), None);
    }

    #[test]
    fn whole_numbers_that_stand_once_are_told_from_measurements() {
        let mixed = |rows: i32| (0..rows).map(move |i| f64::from(i * 37 % rows));
        assert_eq!(counts(mixed(101)), Some(Counts::Mixed));
        assert_eq!(counts(mixed(41)), Some(Counts::Once));
        assert_eq!(
            counts((0..101).map(|i| f64::from(i * 37 % 101) / 2.0)),
            None
        );
        // Ids that f64 does not tell apart.
        let ids = ["9007199254740993", "9007199254740992", "9007199254740999"];
        let mut counter = Counter::default();
        let seen = ids.map(|id| counter.see(id.parse().expect("a number"), whole(id, 9e15)));
        assert_eq!((seen, counter.finish()), ([true; 3], Some(Counts::Once)));
    }

    #[test]
    fn a_first_row_that_comes_last_is_one_of_them() {
        let mut counter = Counter::default();
        assert!((2..30).all(|i| counter.see(f64::from(i), Some(i.into()))));
        assert!(counter.see_before(1.0, Some(1)));
        assert_eq!(counter.finish(), Some(Counts::InOrder));
        assert!(!counter.see_before(1.0, Some(1)));
    }
}
