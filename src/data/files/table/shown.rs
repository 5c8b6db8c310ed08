//! What is shown and said of a table: role of each column with the reason, and notes on what was left out.

use super::Table;
use super::cells::{is_amount, is_fraction};
use super::column::Kind;
use crate::base::quote::{LISTED, quoted};
use crate::data::Columns;
use crate::data::rows::roles::{self, ColumnRole, FIRST_ROWS, Role, TableColumn};

impl Table {
    /// Role of each column and the reason for it, if `features` are the features.
    pub(super) fn table(
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
            match label {
                Some((label, reason)) if label == at => return (Role::Label, reason),
                _ if is_feature[at] && chooses => return (Role::Feature, "as chosen"),
                _ if is_feature[at] => return (Role::Feature, "numbers"),
                _ => {}
            }
            self.role_apart(at, again)
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

    /// Role of a column that is no feature and no label, and the reason for it.
    fn role_apart(&self, at: usize, again: &[usize]) -> (Role, &'static str) {
        let told = &self.columns[at];
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
    }

    /// Notes on reading these features: unusual things in the file, and the columns left out.
    pub(super) fn notes(
        &self,
        features: &[usize],
        label: Option<usize>,
        again: &[usize],
    ) -> Vec<String> {
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
    pub(super) fn oddities(&self) -> Vec<String> {
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
}
