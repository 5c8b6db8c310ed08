//! Which list of numbers is the features of a row, where a file has several: what is said of it, for JSON Lines and Parquet alike.

use crate::error::{Error, Result};
use crate::quote::{listed, quoted};

/// Of these lists, each with how many numbers it has in a row, the one that is the features: the one that is wanted, or else the first
/// of the longest. None where there is no list.
///
/// # Errors
/// [`Error::Data`] where there is no list of the wanted name.
pub(super) fn choose(
    file: &str,
    lists: &[(&str, usize)],
    wanted: Option<&str>,
) -> Result<Option<usize>> {
    let Some(wanted) = wanted else {
        let longest = lists.iter().map(|(_, dim)| *dim).max();
        return Ok(lists.iter().position(|(_, dim)| Some(*dim) == longest));
    };
    let found = lists.iter().position(|(name, _)| *name == wanted);
    found.map(Some).ok_or_else(|| {
        let there = match lists {
            [] => "there is none".to_owned(),
            _ => format!("there are: {}", listed(lists.iter().map(|(name, _)| *name))),
        };
        Error::Data(format!(
            "{file}: {} is no column of lists of numbers; {there}",
            quoted(wanted)
        ))
    })
}

/// Says which list was taken, where there are others, and how those are.
pub(super) fn note(
    file: &str,
    taken: &str,
    wanted: Option<&str>,
    others: &[String],
) -> Option<String> {
    let first = others.first()?;
    let why = match wanted {
        Some(_) => "as chosen",
        None => "the first of the longest lists",
    };
    Some(format!(
        "the features are the numbers of {} ({why}); other lists of numbers: {}; on the command line {file}:{first} takes that one",
        quoted(taken),
        listed(others.iter().map(String::as_str))
    ))
}
