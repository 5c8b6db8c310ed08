//! Groups of rows, such as donors, subjects or cameras: checks that are shared by all scoring across groups.

use super::{Dataset, Texts};
use crate::base::error::{Error, Result};
use crate::base::quote::quoted;
use crate::data::rows::missing::is_missing_label;
use crate::rules::config::TrainConfig;

/// Checks that every row has a group.
///
/// # Errors
/// [`Error::Data`] with the numbers.
pub(crate) fn check(rows: usize, groups: &[String]) -> Result<()> {
    let groups = groups.len();
    if rows == groups {
        return Ok(());
    }
    Err(Error::Data(format!(
        "{groups} groups for {rows} rows: there must be one a row"
    )))
}

/// Refusal of scores across groups if there is only one group.
pub(crate) fn only_one(group: &str) -> Error {
    Error::Data(format!(
        "all rows are of the group {}: across groups no row has a neighbour",
        quoted(group)
    ))
}

impl Dataset {
    /// The values of a text column, row by row; `setting` is the setting that names it.
    ///
    /// # Errors
    /// [`Error::Config`] when there is no such column, with those there are.
    pub(crate) fn text_column(&self, setting: &str, name: &str) -> Result<&Texts> {
        text_column(&self.columns, setting, name)
    }

    /// Group of each row, numbered in the order of the rows; none if the settings name no group column.
    ///
    /// # Errors
    /// [`Error::Config`] when there is no such column, or a row has an empty cell in it; [`Error::Data`] when it holds one text.
    pub(crate) fn groups(&self, config: &TrainConfig) -> Result<Option<Vec<u32>>> {
        let Some(name) = &config.group else {
            return Ok(None);
        };
        let values = group_column(&self.columns, name)?;
        let mut numbers = vec![u32::MAX; values.distinct().len()];
        let mut count = 0;
        let number = |code: &u32| {
            let number = &mut numbers[*code as usize];
            if *number == u32::MAX {
                *number = count;
                count += 1;
            }
            *number
        };
        let groups: Vec<u32> = values.codes().iter().map(number).collect();
        match count {
            1 => Err(only_one(&values[0])),
            _ => Ok(Some(groups)),
        }
    }

    /// The names of the text columns, as a refusal lists them.
    pub(crate) fn text_columns(&self) -> String {
        listed_columns(&self.columns)
    }
}

/// The values of the text column `name`, which the setting `setting` names.
fn text_column<'a>(columns: &'a [(String, Texts)], setting: &str, name: &str) -> Result<&'a Texts> {
    let column = columns.iter().find(|(column, _)| column == name);
    let (_, values) = column.ok_or_else(|| {
        Error::Config(format!(
            "{setting}: there is no text column {}; {}",
            quoted(name),
            listed_columns(columns)
        ))
    })?;
    Ok(values)
}

/// The names of text columns, as a refusal lists them.
fn listed_columns(columns: &[(String, Texts)]) -> String {
    let names: Vec<_> = columns.iter().map(|(name, _)| quoted(name)).collect();
    let names = match &names[..] {
        [] => "none".to_owned(),
        names => names.join(", "),
    };
    format!("there are: {names}")
}

/// Group of each row: the values of the text column `name` beside its label.
///
/// # Errors
/// [`Error::Config`] when there is no such column, or a row has an empty cell in it.
pub fn group_column<'a>(columns: &'a [(String, Texts)], name: &str) -> Result<&'a Texts> {
    let values = text_column(columns, "group", name)?;
    match values.iter().position(is_missing_label) {
        None => Ok(values),
        Some(row) => Err(Error::Config(format!(
            "group: the column {} is empty in row {}: every row needs a group",
            quoted(name),
            row + 1
        ))),
    }
}
