//! Groups of rows, such as donors, subjects or cameras: checks that are shared by all scoring across groups.

use crate::base::error::{Error, Result};
use crate::base::quote::quoted;

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
