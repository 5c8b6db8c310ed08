//! Rows and labels as they were read become rows that can be used: as many labels as rows, one name a class, no row without a class,
//! no cell without a number but as chosen.

use super::Format;
use crate::base::error::{Error, Result};
use crate::data::rows::values::{check_cells, check_values, counted};
use crate::data::rows::{class_names, look, roles, unlabelled};
use crate::data::{Choice, Labelled, Missing, Role};

impl Labelled {
    /// Checks the counts of rows and labels, treats cells without a number as chosen, and checks every value.
    pub(super) fn settle(&mut self, choice: Choice<'_>) -> Result<()> {
        let missing = choice.missing;
        // Notes of a file of labels are there already.
        let mut notes = class_names::settle(&mut self.labels);
        notes.retain(|note| !self.notes.contains(note));
        self.notes.extend(notes);
        check_counts(&self.name, self.rows(), &self.name, self.labels.len())?;
        let chosen = choice
            .columns
            .and_then(|columns| columns.unlabelled.as_deref());
        unlabelled::settle(self, chosen, missing.is_some())?;
        self.unlabelled = chosen.map(<[String]>::to_vec);
        self.missing = missing.unwrap_or_default();
        self.missing.apply(self)?;
        self.aside.settle(self.dim);
        self.settle_table();
        let Self {
            name, values, dim, ..
        } = self;
        match missing {
            Some(_) => {
                check_cells(name, values, *dim, 0).map_err(|error| counted(error, values))?;
            }
            None => check_values(name, values, *dim, 0)?,
        }
        let apart = choice.columns.map_or(&[][..], |columns| &columns.apart);
        look::look(self, apart);
        Ok(())
    }

    /// Updates the roles of columns for display: some may be left out by now because of cells without a number.
    fn settle_table(&mut self) {
        for line in &mut self.table {
            let column = &mut line.column;
            let names = &self.feature_names;
            let is_left = || !names.is_empty() && !names.contains(&column.name);
            if self.missing == Missing::DropColumns && column.role == Role::Feature && is_left() {
                (column.role, column.reason) = (Role::Ignored, "cells without a number".to_owned());
            }
        }
        self.table = roles::shorten(std::mem::take(&mut self.table));
    }
}

/// Refuses rows without labels, and labels without rows; they may come from one file.
pub(super) fn check_counts(
    name: &str,
    rows: usize,
    labels_name: &str,
    labels: usize,
) -> Result<()> {
    let problem = if rows == 0 {
        "no rows of features".to_owned()
    } else if labels != rows {
        let from = if name == labels_name {
            String::new()
        } else {
            format!(" in {labels_name}")
        };
        let missing = match labels + 1 == rows && Format::of(labels_name) == Some(Format::Table) {
            true => {
                ": where its first line is a label, write a line above it that names the column"
            }
            false => "",
        };
        format!("{rows} rows of features, {labels} labels{from}: they must be as many{missing}")
    } else {
        return Ok(());
    };
    Err(Error::Data(format!("{name}: {problem}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Dataset;

    #[test]
    fn what_cannot_be_trained_on_is_refused_with_the_place() {
        let refuse = |values: &[f32], dim, labels: &[&str]| {
            let mut rows = Labelled {
                name: "x.npy".to_owned(),
                values: values.to_vec(),
                dim,
                labels: labels.iter().collect(),
                ..Labelled::default()
            };
            rows.settle(Choice::default())
                .and_then(|()| Dataset::new(rows))
                .expect_err("refused")
                .to_string()
        };
        assert_eq!(
            refuse(&[1.0, 2.0, 3.0, f32::NAN], 2, &["a", "b"]),
            "x.npy: row 2, column 2: the value is not finite: fill or drop such rows"
        );
        assert_eq!(
            refuse(&[1.0, 2.0], 1, &["a", "b", "c"]),
            "x.npy: 2 rows of features, 3 labels: they must be as many"
        );
        assert_eq!(
            refuse(&[1.0, 2.0], 1, &["a", "a"]),
            "x.npy: every row has the label \"a\": metric learning needs two classes at least"
        );
        assert_eq!(
            refuse(&[1.0, 2.0, 3.0, -1e20], 2, &["a", "b"]),
            "x.npy: row 2, column 2: -1e20 is too large to square: scale the features"
        );
        assert!(refuse(&[], 0, &[]).contains("no rows of features"));
    }
}
