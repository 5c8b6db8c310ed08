//! Several Parquet files as one table: a folder of `part-00000.parquet`, `part-00001.parquet` .., as Spark, polars and the Hub
//! write them, in the order of their names.

#[cfg(not(target_arch = "wasm32"))]
use std::path::{Path, PathBuf};

use super::columns::{Column, Columns};
use super::{ParquetFile, quoted};
use crate::base::error::{Error, Result};

/// Ending of the names of shards.
#[cfg(not(target_arch = "wasm32"))]
const ENDING: &str = ".parquet";

/// The Parquet files of a path that is no file: all of a folder, or those of a pattern with stars, such as `part-*.parquet`; and
/// the name of the whole table. None if there are no such files.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn shards(path: &Path) -> Option<(String, Vec<PathBuf>)> {
    let (folder, pattern) = match path.is_dir() {
        true => (path, format!("*{ENDING}")),
        false => {
            let pattern = path.file_name()?.to_str()?;
            let folder = path.parent().filter(|folder| folder.as_os_str() != "");
            let is_pattern = pattern.contains('*') && pattern.ends_with(ENDING);
            let found = is_pattern && !path.exists();
            (
                found.then(|| folder.unwrap_or(Path::new(".")))?,
                pattern.to_owned(),
            )
        }
    };
    let entries = std::fs::read_dir(folder).ok()?.filter_map(Result::ok);
    let name = |entry: &std::fs::DirEntry| entry.file_name().into_string().ok();
    let mut names: Vec<String> = entries
        .filter_map(|entry| name(&entry))
        .filter(|name| !name.starts_with('.') && matches(&pattern, name))
        .collect();
    if names.is_empty() {
        return None;
    }
    names.sort_by_cached_key(|name| in_order(name));
    let title = folder.join(&pattern).display().to_string();
    Some((title, names.iter().map(|name| folder.join(name)).collect()))
}

/// Tells if a name matches a pattern, whose stars stand for any text.
#[cfg(not(target_arch = "wasm32"))]
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => name.strip_prefix(start).is_some_and(|name| {
            let ends = name.char_indices().map(|(at, _)| at).chain([name.len()]);
            ends.into_iter().any(|at| matches(rest, &name[at..]))
        }),
    }
}

/// Sort key of a name, by the value of its numbers: part-2 is before part-10.
#[cfg(not(target_arch = "wasm32"))]
fn in_order(name: &str) -> String {
    let (mut key, mut digits) = (String::new(), String::new());
    let flush = |key: &mut String, digits: &mut String| {
        if !digits.is_empty() {
            key.push_str(&format!("{:0>20}", digits.trim_start_matches('0')));
            digits.clear();
        }
    };
    for c in name.chars() {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        flush(&mut key, &mut digits);
        key.push(c);
    }
    flush(&mut key, &mut digits);
    key
}

/// The columns to read of another shard, in the order of those of the first.
///
/// # Errors
/// [`Error::Data`] if it has other columns, or columns of another kind.
pub(super) fn alike(
    first: &ParquetFile,
    wanted: &[Column],
    shard: &ParquetFile,
) -> Result<Vec<Column>> {
    let mut own = Columns::of(shard.about.file_metadata()).read;
    let of_first = Columns::of(first.about.file_metadata()).read;
    let names = |column: &Column| of_first.iter().any(|other| other.name == column.name);
    let refuse = |name: &str, how: &str| {
        Error::Data(format!(
            "{}: column {} {how} {}: the files of one table have the same columns",
            shard.name,
            quoted(name),
            first.name
        ))
    };
    if let Some(more) = own.iter().find(|column| !names(column)) {
        return Err(refuse(&more.name, "is not in"));
    }
    let find = |column: &Column| {
        let at = own.iter().position(|other| other.name == column.name);
        let Some(at) = at else {
            return Err(refuse(&column.name, "is missing, and is in"));
        };
        let other = own.swap_remove(at);
        match other.is_text == column.is_text && other.element.is_some() == column.element.is_some()
        {
            true => Ok(other),
            false => Err(refuse(&column.name, "is of another kind than in")),
        }
    };
    wanted.iter().map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_anything_and_numbers_sort_by_value() {
        for (pattern, name, is_one) in [
            ("part-*.parquet", "part-00000.parquet", true),
            ("*.parquet", "a.parquet", true),
            ("*-of-*.parquet", "train-0-of-2.parquet", true),
            ("part-*.parquet", "other-1.parquet", false),
            ("a*b", "ab", true),
            ("a*b", "abc", false),
        ] {
            assert_eq!(matches(pattern, name), is_one, "{pattern}, {name}");
        }
        let mut names = ["part-10", "part-2", "part-01-b2", "part-01-b10"];
        names.sort_by_cached_key(|name| in_order(name));
        assert_eq!(names, ["part-01-b2", "part-01-b10", "part-2", "part-10"]);
    }
}
