//! [`Column`]: mean and spread of a feature from one pass over rows; and the features without information, which hold one value or
//! differ by less than 32-bit numbers can tell.

use crate::base::order;

/// Spread at most of a column without information, relative to its own size, or to the median spread of the columns: smaller ones
/// are beyond 32-bit numbers.
const NOTHING: f64 = f32::EPSILON as f64;
/// Spread at most, relative to the median spread, if columns are not alike: a unit may make one measurement 10^6 times as small,
/// and another 10^6 times as large.
const NOTHING_IN_ANY_UNIT: f64 = 1e-14;
/// Ratio of the largest to the smallest spread at most for columns to be alike.
const ALIKE: f64 = 1e3;
/// Columns at least that can be called alike.
const ENOUGH: usize = 3;

/// Mean and spread of a feature from one pass over the rows (Welford 1962).
#[derive(Clone, Debug, Default)]
pub(crate) struct Column {
    rows: f64,
    mean: f64,
    /// The sum of the squared differences from the mean.
    squares: f64,
    least: f32,
    most: f32,
}

impl Column {
    /// Adds the value of one more row.
    pub(crate) fn add(&mut self, value: f32) {
        (self.least, self.most) = if self.rows == 0.0 {
            (value, value)
        } else {
            (self.least.min(value), self.most.max(value))
        };
        self.rows += 1.0;
        let step = f64::from(value) - self.mean;
        self.mean += step / self.rows;
        self.squares += step * (f64::from(value) - self.mean);
    }

    /// The mean value.
    pub(crate) fn mean(&self) -> f64 {
        self.mean
    }

    /// The standard deviation; 0 of a column that holds one value.
    pub(crate) fn spread(&self) -> f64 {
        if self.least == self.most {
            0.0
        } else {
            (self.squares / self.rows).sqrt()
        }
    }

    /// The largest absolute value.
    pub(crate) fn reach(&self) -> f64 {
        f64::from(self.least.abs().max(self.most.abs()))
    }
}

/// Name of a column from the names of all, or "feature n" if there are none.
pub(crate) fn name(names: &[String], column: usize) -> String {
    match names.get(column) {
        Some(name) => name.clone(),
        None => format!("feature {}", column + 1),
    }
}

/// Marks the columns without information, from `(spread, reach)` of each: the spread is negligible beside the reach, or beside the
/// spreads of the other columns.
pub(crate) fn constant(columns: impl Iterator<Item = (f64, f64)>) -> Vec<bool> {
    let columns: Vec<(f64, f64)> = columns.collect();
    let by_itself = |(spread, reach): &(f64, f64)| *spread <= NOTHING * reach;
    let changing = columns.iter().filter(|column| !by_itself(column));
    let mut spreads: Vec<f64> = changing.map(|(spread, _)| *spread).collect();
    order::sort_by(&mut spreads, f64::total_cmp);
    let least = match spreads.get(spreads.len() / 2) {
        None => 0.0,
        Some(middle) => {
            let rest = &spreads[spreads.partition_point(|spread| *spread <= NOTHING * middle)..];
            let alike = rest.len() >= ENOUGH && rest[rest.len() - 1] <= ALIKE * rest[0];
            middle * if alike { NOTHING } else { NOTHING_IN_ANY_UNIT }
        }
    };
    let nothing = |column: &(f64, f64)| by_itself(column) || column.0 <= least;
    columns.iter().map(nothing).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_whose_spread_is_nothing_beside_the_others_or_beside_its_size_says_nothing() {
        let of = |columns: &[(f64, f64)]| {
            let constant = constant(columns.iter().copied());
            let places = constant.iter().enumerate().filter(|(_, is)| **is);
            places.map(|(at, _)| at).collect::<Vec<_>>()
        };
        let one = (1.0, 3.0);
        // Noise that a sentence model, a sensor that is off, and differences of equal columns leave.
        assert_eq!(of(&[one, (1e-33, 3e-33), one, one]), [1]);
        assert_eq!(
            of(&[one, (2e-9, 2e-8), (0.02, 0.1), (1e-17, 4e-17), one]),
            [1, 3]
        );
        // A thousand and what 32 bits make of it; a thousand and a hundredth.
        assert_eq!(of(&[(3e-5, 1e3), (1e-2, 1e3)]), [0]);
        assert_eq!(of(&[(0.0, 7.0), one]), [0]);
        assert_eq!(of(&[(0.0, 0.0)]), [0]);
        // Whatever the unit of the table.
        for unit in [1e-30, 1e-6, 1e6] {
            let columns = [one, (2e-9, 2e-8), one, one].map(|(a, b)| (a * unit, b * unit));
            assert_eq!(of(&columns), [1], "{unit}");
        }
        // Measurements of different units are all measurements.
        assert!(of(&[(1e-6, 5e-6), (300.0, 900.0), (0.1, 1.0), (4e6, 1e7)]).is_empty());
        assert!(of(&[(1e-7, 5e-7), (300.0, 900.0)]).is_empty());
        assert!(of(&[]).is_empty());
    }

    #[test]
    fn spread_and_reach_are_those_of_the_values() {
        let mut column = Column::default();
        [1e4, 1e4 + 1.0, 1e4 + 2.0]
            .iter()
            .for_each(|value| column.add(*value));
        assert_eq!(column.mean(), 10001.0);
        assert!((column.spread() - (2.0f64 / 3.0).sqrt()).abs() < 1e-12);
        assert_eq!(column.reach(), 10002.0);
    }
}
