//! Labels of another file whose rows are in another order: joined by a column that both files have, named or found by its values.
//! Takes the texts of that column in both files, gives the row of the labels for each row of the data.

use std::collections::HashMap;

use crate::base::error::{Error, Result};
use crate::base::quote::quoted;
use crate::data::Texts;
use crate::data::rows::class_names;

/// Rows of labels for the rows of the data.
#[derive(Debug)]
pub(super) struct Join {
    /// The column that both files have.
    pub(super) on: String,
    /// Keys of the data's rows, and of the labels' rows.
    data: Texts,
    labels: Texts,
    /// For each row of the data the row of the labels; none if there is none.
    order: Vec<Option<u32>>,
}

impl Join {
    /// Finds for each row of the file `name` the row of the file `file` with the same key, however it is written.
    ///
    /// # Errors
    /// [`Error::Data`] if two rows of the labels have one key, or if no key of the data is among those of the labels.
    pub(super) fn new(
        on: &str,
        data: Texts,
        labels: Texts,
        name: &str,
        file: &str,
    ) -> Result<Self> {
        let mut rows = HashMap::with_capacity(labels.len());
        for (row, key) in (0..).zip(labels.iter()) {
            if let Some(before) = rows.insert(class_names::name(key), row) {
                return Err(Error::Data(format!(
                    "{file}: rows {} and {} have the same {} {}: labels are joined by a column that is another in each of their rows",
                    before + 1,
                    row + 1,
                    quoted(on),
                    quoted(key)
                )));
            }
        }
        let found = |key: &str| rows.get(&class_names::name(key)).copied();
        let order: Vec<Option<u32>> = data.iter().map(found).collect();
        if order.iter().all(Option::is_none) {
            let first = |texts: &Texts| texts.iter().next().map(quoted).unwrap_or_default();
            return Err(Error::Data(format!(
                "{name}: no row has a {} of {file}: {} here, {} there: name a column that says in both files which row is which",
                quoted(on),
                first(&data),
                first(&labels)
            )));
        }
        drop(rows);
        Ok(Self {
            on: on.to_owned(),
            data,
            labels,
            order,
        })
    }

    /// Joins by a column that was not named, only if every row of the data finds its row of the labels, and the labels have more
    /// rows or are in another order.
    pub(super) fn by_itself(on: &str, data: Texts, labels: Texts) -> Option<Self> {
        let join = Self::new(on, data, labels, "", "").ok()?;
        let is_known = join.order.iter().all(Option::is_some);
        let is_same = join.data.len() == join.labels.len()
            && (0..).zip(&join.order).all(|(row, at)| *at == Some(row));
        (is_known && !is_same).then_some(join)
    }

    /// Texts of the labels' rows in the order of the data's; empty if there is no row.
    pub(super) fn ordered(&self, texts: &Texts) -> Texts {
        let text = |row: &Option<u32>| row.map_or("", |row| &texts[row as usize]);
        self.order.iter().map(text).collect()
    }

    /// Note on the join; `can_drop` if rows without a label are left out.
    ///
    /// # Errors
    /// [`Error::NoLabel`] with the number of rows of the data without a label, if those cannot be left out.
    pub(super) fn said(&self, name: &str, file: &str, can_drop: bool) -> Result<String> {
        let without = self.order.iter().filter(|row| row.is_none()).count();
        let first = self.order.iter().position(Option::is_none);
        let on = quoted(&self.on);
        if let (Some(row), false) = (first, can_drop) {
            let how = match cfg!(target_arch = "wasm32") {
                true => "\"leave such rows out\" does",
                false => "--missing drop-rows does",
            };
            return Err(Error::NoLabel(format!(
                "{name}: {without} of {} rows have no label in {file}, the first of them with {on} {}: drop the rows without one ({how})",
                self.order.len(),
                quoted(&self.data[row])
            )));
        }
        let mut is_used = vec![false; self.labels.len()];
        for row in self.order.iter().flatten() {
            is_used[*row as usize] = true;
        }
        let unused = is_used.iter().filter(|is_used| !**is_used).count();
        let mut said = format!("labels are joined by {on}, which both files have");
        if without > 0 {
            said += &format!("; rows without a label there: {without}");
        }
        if unused > 0 {
            said += &format!("; rows of {file} without one here: {unused}");
        }
        Ok(said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(all: &[&str]) -> Texts {
        all.iter().collect()
    }

    #[test]
    fn rows_are_found_by_their_keys_however_those_are_written() {
        let data = || texts(&["1", "b ", "2.0", "x"]);
        let join = |labels: &[&str]| Join::new("id", data(), texts(labels), "x.csv", "y.csv");
        let found = join(&["2", "b", "3", "0.5", "1.0"]).expect("keys");
        assert_eq!(found.order, [Some(4), Some(1), Some(0), None]);
        let said = found.said("x.csv", "y.csv", true).expect("dropped");
        let expected = "labels are joined by \"id\", which both files have; rows without a label there: 1; rows of y.csv without one \
                        here: 2";
        assert_eq!(said, expected);
        let labels = texts(&["two", "b", "three", "half", "one"]);
        assert_eq!(found.ordered(&labels), texts(&["one", "b", "two", ""]));
        let starts =
            |error: Error, start: &str| assert!(error.to_string().starts_with(start), "{error}");
        let error = found
            .said("x.csv", "y.csv", false)
            .expect_err("a row without a label");
        starts(
            error,
            "x.csv: 1 of 4 rows have no label in y.csv, the first of them with \"id\" \"x\"",
        );
        starts(
            join(&["a", "a"]).expect_err("twice"),
            "y.csv: rows 1 and 2 have the same \"id\" \"a\"",
        );
        starts(
            join(&["p", "q"]).expect_err("others"),
            "x.csv: no row has a \"id\" of y.csv: \"1\" here, \"p\" there",
        );
    }

    #[test]
    fn rows_are_joined_by_themselves_where_all_are_known_and_stand_otherwise() {
        let join = |labels: &[&str]| {
            let join = Join::by_itself("id", texts(&["a", "b", "c"]), texts(labels));
            join.map(|join| join.order)
        };
        assert_eq!(
            join(&["c", "a", "b"]),
            Some(vec![Some(1), Some(2), Some(0)])
        );
        assert_eq!(
            join(&["a", "b", "c", "d"]),
            Some(vec![Some(0), Some(1), Some(2)])
        );
        assert_eq!(join(&["a", "b", "c"]), None, "in order");
        assert_eq!(join(&["b", "a", "d"]), None, "one is not there");
        assert_eq!(join(&["a", "b", "c", "c"]), None, "one stands twice");
    }
}
