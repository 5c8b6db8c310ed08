//! Columns of a table: options that choose them, and the lines that say what they are taken for.

use clap::Args;
use nearfar::{ColumnRole, Columns, Marks, Result, Role, TableColumn};

use super::note_line;

/// Which columns of a table are features.
#[derive(Debug, Args)]
pub(super) struct ColumnOptions {
    /// The columns of the table that are features: names, patterns (`x_*`) and stretches (`width..mass`), parted by commas
    /// [default: every column of numbers but the label, row numbers and codes of the label]
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    pub(super) features: Vec<String>,
    /// Columns that are no features, named likewise
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    pub(super) ignore: Vec<String>,
    /// Labels that mean that a row has no class: such rows are left out. With `none` every label is a class [default: train and compare
    /// leave out Unknown and the like, and -1 beside labels from 0 on; other commands only say that there are such rows]
    #[arg(
        long,
        value_name = "LABEL,..",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    unlabelled: Option<Vec<String>>,
    /// The column that says which row is which, in the data and in a file of labels whose rows stand in another order: labels are
    /// joined by it [default: found where a column of both names every row of the data, else rows are in the same order]
    #[arg(long, value_name = "NAME")]
    on: Option<String>,
    #[command(flatten)]
    marks: MarkOptions,
}

/// How the numbers of a table are written.
#[derive(Debug, Args)]
pub(super) struct MarkOptions {
    /// The mark before the fraction in the numbers of a table: a point or a comma; the other then stands between thousands
    /// [default: told by the columns]
    #[arg(long, value_name = "MARK")]
    decimal: Option<char>,
    /// The mark between thousands: a point, a comma, a blank or an apostrophe [default: told by the columns]
    #[arg(long, value_name = "MARK")]
    thousands: Option<char>,
}

impl MarkOptions {
    pub(super) fn marks(&self) -> Result<Marks> {
        let (decimal, thousands) = (self.decimal, self.thousands);
        let marks = Marks { decimal, thousands };
        marks.check().map(|()| marks)
    }
}

/// Which rows belong together.
#[derive(Debug, Args)]
pub(super) struct GroupOption {
    /// The column that says which rows belong together: of one donor, subject, camera or document. A row is then searched among
    /// those of other groups, and `train` and `compare` split by group where they would split at random
    #[arg(long, value_name = "NAME")]
    pub(super) group: Option<String>,
}

impl GroupOption {
    /// These columns with the group column kept beside the features.
    pub(super) fn apart_of(&self, columns: Columns) -> Columns {
        Columns {
            apart: self.group.iter().cloned().collect(),
            ..columns
        }
    }
}

impl ColumnOptions {
    pub(super) fn columns(&self) -> Result<Columns> {
        Ok(Columns {
            features: self.features.clone(),
            ignore: self.ignore.clone(),
            unlabelled: self.unlabelled.clone(),
            apart: Vec::new(),
            marks: self.marks.marks()?,
            on: self.on.clone(),
        })
    }
}

/// Columns of a second file: the features of the first, of this table and with these names, by their names, whatever the second
/// file alone would choose; `None` if the features have no names.
pub(super) fn columns_as_in(
    table: &[TableColumn],
    names: &[String],
    columns: &Columns,
) -> Option<Columns> {
    let mut features = table
        .iter()
        .filter(|line| line.column.role == Role::Feature);
    let are_named = !names.is_empty() && features.all(|line| line.named);
    (are_named && !table.is_empty()).then(|| Columns {
        features: names.to_vec(),
        ignore: Vec::new(),
        ..columns.clone()
    })
}

/// Prints the role of each column, the reason, and its first cells.
pub(super) fn say_columns<'a>(lines: impl Iterator<Item = (ColumnRole, &'a [String])>) {
    let lines: Vec<[String; 4]> = lines
        .map(|(column, first)| {
            let cells: Vec<String> = first.iter().map(|cell| quoted_where_blank(cell)).collect();
            [
                column.name,
                column.role.name().to_owned(),
                column.reason,
                cells.join(", "),
            ]
        })
        .collect();
    if lines.is_empty() {
        return;
    }
    let heads = ["column", "taken for", "because", "first rows"];
    let width = |at: usize| {
        let cells = lines.iter().map(|line| line[at].chars().count());
        cells.chain([heads[at].len()]).max().unwrap_or(0)
    };
    let widths = [0, 1, 2].map(width);
    let print = |line: [&str; 4]| {
        let [name, role, reason, cells] = line;
        let line = format!(
            "{name:<0$}  {role:<1$}  {reason:<2$}  {cells}",
            widths[0], widths[1], widths[2]
        );
        note_line(format_args!("  {}", line.trim_end()));
    };
    print(heads);
    lines
        .iter()
        .for_each(|line| print(line.each_ref().map(String::as_str)));
}

/// A cell in a list of cells, in quotes if it is empty.
fn quoted_where_blank(cell: &str) -> String {
    match cell {
        "" => "\"\"".to_owned(),
        cell => cell.to_owned(),
    }
}
