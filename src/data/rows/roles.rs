//! [`Role`] of each column of the data, with the reason: one table with the first rows, to be read before any score.

use serde::{Deserialize, Serialize};

use crate::rules::config::{Split, TrainConfig};

/// Neighbouring columns of one role and reason from which on they are shown as one line.
const ALIKE: usize = 24;
/// Rows that are shown.
pub(crate) const FIRST_ROWS: usize = 3;
/// Characters of a cell that are shown.
const SHOWN: usize = 24;

/// Use of a column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Numbers that are an input of the head.
    Feature,
    /// Class of each row.
    Label,
    /// Identifies rows, and says nothing else about them.
    Id,
    /// Group of each row: rows that belong together.
    Group,
    /// Side of each row: training, validation or test.
    Split,
    /// No use.
    #[default]
    Ignored,
}

impl Role {
    /// All roles, with the names that are shown.
    pub const ALL: [(Self, &'static str); 6] = [
        (Self::Feature, "feature"),
        (Self::Label, "label"),
        (Self::Id, "id"),
        (Self::Group, "group"),
        (Self::Split, "split"),
        (Self::Ignored, "ignored"),
    ];

    /// The name that is shown.
    pub fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(role, _)| *role == self);
        found.map_or("", |(_, name)| name)
    }
}

/// A column's role, with the reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ColumnRole {
    /// Name in the header; for many columns that are alike the first and the last, `first..last`, as options take them.
    pub name: String,
    /// The role.
    pub role: Role,
    /// The reason, in a few words.
    pub reason: String,
}

/// A line of the table of columns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct TableColumn {
    /// Name and role.
    pub column: ColumnRole,
    /// Set if it holds numbers, so that it can be a feature.
    pub numbers: bool,
    /// Set if another role can be chosen: the line is one column of a table.
    pub named: bool,
    /// Set if the line stands for many columns.
    pub many: bool,
    /// The first cells, as they stand in the file.
    pub first: Vec<String>,
}

impl TableColumn {
    /// The role and the reason with these settings, which may name the column for a group or a split.
    pub fn with(&self, config: &TrainConfig) -> ColumnRole {
        let mut column = self.column.clone();
        let name = Some(&column.name);
        if config.group.as_ref() == name {
            (column.role, column.reason) = (Role::Group, "as set".to_owned());
        } else if matches!(&config.split, Split::Column(split) if Some(split) == name) {
            column.role = Role::Split;
            column.reason = "its cells name sides".to_owned();
        }
        column
    }
}

/// A cell as it is shown.
pub(crate) fn shown(cell: &str) -> String {
    let mut letters = cell.chars();
    let mut shown: String = letters.by_ref().take(SHOWN).collect();
    if letters.next().is_some() {
        shown.push_str("..");
    }
    shown
}

/// Merges many neighbouring columns that are alike into one line.
pub(crate) fn shorten(columns: Vec<TableColumn>) -> Vec<TableColumn> {
    let alike = |a: &TableColumn, b: &TableColumn| {
        (a.column.role, &a.column.reason, a.numbers) == (b.column.role, &b.column.reason, b.numbers)
    };
    let runs = columns.chunk_by(alike).flat_map(|run| match run {
        [first, .., last] if run.len() >= ALIKE => {
            let mut both = TableColumn {
                many: true,
                ..first.clone()
            };
            let column = &mut both.column;
            column.name = format!("{}..{}", column.name, last.column.name);
            column.reason = format!("{} columns: {}", run.len(), column.reason);
            for (cell, last) in both.first.iter_mut().zip(&last.first) {
                *cell = format!("{cell} .. {last}");
            }
            vec![both]
        }
        run => run.to_vec(),
    });
    runs.collect()
}

/// Merges the numbers of a list, `x[0]`, `x[1]` and so on, into one line.
pub(crate) fn with_one_vector(lines: Vec<TableColumn>) -> Vec<TableColumn> {
    let is_feature = |line: &TableColumn| line.column.role == Role::Feature;
    let runs = lines.chunk_by(|a, b| is_feature(a) && is_feature(b));
    let one = |run: &[TableColumn]| match run {
        [first, second, .., _] if let Some(name) = first.column.name.strip_suffix("[0]") => {
            let cells = first.first.iter().zip(&second.first);
            TableColumn {
                column: ColumnRole {
                    name: name.to_owned(),
                    role: Role::Feature,
                    reason: format!("a list of {} numbers", run.len()),
                },
                named: false,
                first: cells.map(|(a, b)| format!("[{a}, {b}, ..]")).collect(),
                ..first.clone()
            }
        }
        run => run[0].clone(),
    };
    runs.map(one).collect()
}
