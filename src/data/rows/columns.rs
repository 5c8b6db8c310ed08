//! [`Columns`]: the columns of a table that are features, if they are chosen, and other choices about its columns.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use wildmatch::WildMatch;

use super::Marks;
use crate::base::error::{Error, Result};
use crate::base::quote::{listed, quoted};
use crate::rules::config::TrainConfig;

/// The columns of a table that are features: the chosen ones, or all that can be features except the ignored ones.
///
/// A column is named as it stands in the header, by a pattern (`x_*`, `dim?`), or by the first and the last of a range
/// (`width..mass`).
///
/// No field may be skipped in serialization: a page's messages hold no names of fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Columns {
    /// These columns and no others; every column that can be a feature if none is named.
    pub features: Vec<String>,
    /// Columns that are no features.
    pub ignore: Vec<String>,
    /// Labels that mean that a row has no class; if none are chosen, known words and -1 are looked for.
    pub unlabelled: Option<Vec<String>>,
    /// Columns that settings name, to split by, for groups, or to draw batches by: they are kept as text, and are no features.
    pub apart: Vec<String>,
    /// Marks in numbers, if they were chosen.
    pub marks: Marks,
    /// The column by which labels of another file are joined to the rows, if it was named.
    pub on: Option<String>,
}

impl Columns {
    /// Tells if no features are chosen and none ignored.
    pub fn is_empty(&self) -> bool {
        self.features.is_empty() && self.ignore.is_empty()
    }

    /// Overrides the features and ignored columns by those that settings choose, and sets the columns that settings name.
    #[must_use]
    pub fn with(self, config: &TrainConfig) -> Self {
        let over = |own: &Vec<String>, chosen| match own.is_empty() {
            true => chosen,
            false => own.clone(),
        };
        Self {
            features: over(&config.features, self.features),
            ignore: over(&config.ignore, self.ignore),
            unlabelled: self.unlabelled,
            apart: config.columns(),
            marks: self.marks,
            on: self.on,
        }
    }

    /// Refusal of a choice of columns in a file whose columns have no names.
    pub fn refusal(&self, name: &str) -> Error {
        let option = if self.features.is_empty() {
            "ignore"
        } else {
            "features"
        };
        Error::Data(format!(
            "{name}: {option}: its columns have no names; columns are chosen in tables (CSV, JSON Lines, Parquet)"
        ))
    }

    /// Tells if a column of this header cannot be the label: it is ignored, or settings name it for something else.
    pub(crate) fn rules_out(&self, header: &[String], column: usize) -> bool {
        let ignored = self.ignore.iter();
        self.apart.contains(&header[column])
            || self.on.as_ref() == Some(&header[column])
            || ignored
                .flat_map(|name| columns(header, name))
                .any(|other| other == column)
    }

    /// The feature columns of the table `file`, in its order: the chosen ones, or `guessed` if none are chosen, without ignored
    /// ones.
    ///
    /// # Errors
    /// [`Error::Data`] with a name that no column has.
    pub(crate) fn of(
        &self,
        file: &str,
        header: &[String],
        mut guessed: Vec<usize>,
    ) -> Result<Vec<usize>> {
        if !self.features.is_empty() {
            guessed = named(file, header, "features", &self.features)?;
        }
        let ignored = named(file, header, "ignore", &self.ignore)?;
        guessed
            .retain(|column| !ignored.contains(column) && !self.apart.contains(&header[*column]));
        Ok(guessed)
    }
}

/// The columns that are named, each once, in the order of the header.
fn named(file: &str, header: &[String], option: &str, names: &[String]) -> Result<Vec<usize>> {
    let mut is_named = vec![false; header.len()];
    for name in names {
        let found = columns(header, name);
        if found.is_empty() {
            return Err(Error::Data(format!(
                "{file}: {option}: there is no column {}: the columns are {}",
                quoted(name),
                listed(header.iter().map(String::as_str))
            )));
        }
        found.into_iter().for_each(|column| is_named[column] = true);
    }
    Ok((0..header.len())
        .filter(|column| is_named[*column])
        .collect())
}

fn columns(header: &[String], name: &str) -> Vec<usize> {
    let all = 0..header.len();
    let equal: Vec<usize> = all
        .clone()
        .filter(|column| header[*column] == name)
        .collect();
    if !equal.is_empty() {
        return equal;
    }
    let place = |name: &str| header.iter().position(|column| column == name);
    if let Some((first, last)) = name.split_once("..")
        && let (Some(first), Some(last)) = (place(first), place(last))
    {
        return (first.min(last)..=first.max(last)).collect();
    }
    let pattern = WildMatch::new(name);
    all.filter(|column| pattern.matches(&header[*column]))
        .collect()
}

/// Index of each of `names` among `others`; equal names are matched in their order.
///
/// # Errors
/// The first name that is not there.
pub(crate) fn places<'a>(names: &'a [String], others: &[String]) -> Result<Vec<usize>, &'a str> {
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (place, name) in others.iter().enumerate().rev() {
        places.entry(name).or_default().push(place);
    }
    let place = |name: &'a String| {
        let left = places.get_mut(name.as_str());
        left.and_then(Vec::pop).ok_or(name.as_str())
    };
    names.iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_chosen_by_name_pattern_and_stretch() {
        let header = ["id", "x_1", "x_2", "y_1", "x*", "mass"].map(str::to_owned);
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        for (features, ignore, expected) in [
            (&[][..], &[][..], Ok(vec![1, 2, 3])),
            (&["mass", "x_1"], &[], Ok(vec![1, 5])),
            (&["x_?"], &[], Ok(vec![1, 2])),
            (&["x*"], &[], Ok(vec![4])),
            (&["x_2..mass"], &["y*"], Ok(vec![2, 4, 5])),
            (&["mass..x_2"], &[], Ok(vec![2, 3, 4, 5])),
            (&[], &["*_1"], Ok(vec![2])),
            (&["id"], &[], Ok(vec![0])),
            (
                &["z*"],
                &[],
                Err("t.csv: features: there is no column \"z*\": the columns are "),
            ),
            (
                &[],
                &["a..mass"],
                Err("t.csv: ignore: there is no column \"a..mass\": the columns are "),
            ),
        ] {
            let columns = Columns {
                features: names(features),
                ignore: names(ignore),
                ..Columns::default()
            };
            let found = columns.of("t.csv", &header, vec![1, 2, 3]);
            match (found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{columns:?}"),
                (Err(error), Err(start)) => {
                    assert!(error.to_string().starts_with(start), "{error}");
                }
                (found, _) => panic!("{columns:?}: {found:?}"),
            }
        }
    }

    fn names(labels: &[&str]) -> Vec<String> {
        labels.iter().map(|label| (*label).to_owned()).collect()
    }

    #[test]
    fn equal_names_are_matched_in_their_order() {
        let places = |names_: &[&str], others: &[&str]| {
            places(&names(names_), &names(others)).map_err(str::to_owned)
        };
        assert_eq!(
            places(&["x", "y", "x"], &["y", "x", "x"]),
            Ok(vec![1, 0, 2])
        );
        assert_eq!(places(&["x", "x"], &["x", "y"]), Err("x".to_owned()));
    }
}
