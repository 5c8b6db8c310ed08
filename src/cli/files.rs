//! Files in: what cannot be read is refused.

use std::path::Path;

use clap::Args;
use nearfar::{
    Choice, CsvTable, Dataset, Distance, Error, Labelled, NamedFile, NpyRows, Result, RowSource,
    Rows,
};

use super::note_line;
use super::survey::survey;

/// Reads a file whole.
pub(super) fn read(path: &Path) -> Result<NamedFile> {
    let name = path.display().to_string();
    let bytes = std::fs::read(path).map_err(|error| Error::Data(format!("{name}: {error}")))?;
    Ok(NamedFile { name, bytes })
}

/// Whether a path ends in a dot and this, in any case.
fn has_ending(path: &Path, ending: &str) -> bool {
    let own = path.extension();
    own.is_some_and(|own| own.eq_ignore_ascii_case(ending))
}

/// Splits `FILE.npz:ARRAY`, where there is no file of the whole name.
fn array(text: &str) -> (&Path, Option<&str>) {
    const ENDING: &str = ".npz:";
    let colon = text.to_ascii_lowercase().rfind(ENDING);
    match colon.map(|at| at + ENDING.len() - 1) {
        Some(colon) if !Path::new(text).exists() => {
            (Path::new(&text[..colon]), Some(&text[colon + 1..]))
        }
        _ => (Path::new(text), None),
    }
}

/// Rows without labels: an open NPY file, an array of an NPZ, or all numeric columns of a table.
pub(super) fn rows(data: &str) -> Result<RowSource> {
    rows_of(data, |table| table.into_features(&[], usize::MAX))
}

/// The same, with `features` to choose the columns of a table.
pub(super) fn rows_of(
    data: &str,
    features: impl FnOnce(CsvTable<'_>) -> Result<RowSource>,
) -> Result<RowSource> {
    let (path, array) = array(data);
    if has_ending(path, "npy") {
        return Ok(RowSource::Npy(NpyRows::open(path)?));
    }
    let file = read(path)?;
    if has_ending(path, "npz") {
        let (rows, notes) = RowSource::from_npz(&file, array)?;
        say(&file.name, &notes);
        return Ok(rows);
    }
    features(CsvTable::read(&file)?)
}

/// Rows with labels, and what they are held against.
#[derive(Debug, Args)]
pub(super) struct LabelledFiles {
    /// The rows: NPY, NPZ or CSV, of any length but zero
    #[arg(long, value_name = "FILE[:ARRAY]")]
    embeddings: String,
    /// The class of each row: a column (CSV) or array (NPZ) of the same file by its name, or another file, with a column or
    /// array of it after a colon [default: found by its name or type]
    #[arg(long, value_name = "COLUMN|FILE[:COLUMN]")]
    labels: Option<String>,
    /// The rows that they are compared with [default: each other, every row without itself]
    #[arg(long, value_name = "FILE[:ARRAY]")]
    references: Option<String>,
    /// The class of each of those, as for --labels
    #[arg(long, value_name = "COLUMN|FILE[:COLUMN]", requires = "references")]
    reference_labels: Option<String>,
}

/// Rows with a label each.
#[derive(Debug)]
pub(super) struct LabelledRows {
    pub(super) rows: RowSource,
    pub(super) labels: Vec<String>,
}

impl LabelledFiles {
    /// What is read, as it was given.
    pub(super) fn inputs(&self) -> Vec<&str> {
        let references = [&self.labels, &self.references, &self.reference_labels];
        let references = references.into_iter().flatten().map(String::as_str);
        std::iter::once(self.embeddings.as_str())
            .chain(references)
            .collect()
    }

    pub(super) fn read(&self) -> Result<(LabelledRows, Option<LabelledRows>)> {
        let embeddings = labelled_rows(&self.embeddings, self.labels.as_deref())?;
        let references = self
            .references
            .as_deref()
            .map(|references| labelled_rows(references, self.reference_labels.as_deref()));
        Ok((embeddings, references.transpose()?))
    }
}

/// Looks at rows and what they are held against; and refuses what cannot be compared, as the work would.
pub(super) fn compare(
    files: &LabelledFiles,
    rows: &LabelledRows,
    references: Option<&LabelledRows>,
    distance: Distance,
) -> Result<Vec<String>> {
    let known = references.unwrap_or(rows);
    rows.rows().check_against(known.rows())?;
    let mut named = vec![(files.embeddings.as_str(), &rows.rows)];
    if let (Some(name), Some(references)) = (&files.references, references) {
        named.push((name, &references.rows));
    }
    survey(&named, distance)
}

impl LabelledRows {
    pub(super) fn rows(&self) -> Rows<'_> {
        Rows {
            rows: &self.rows,
            labels: &self.labels,
        }
    }
}

/// Rows with their labels, without the rest; rows of an NPY file are read where they are asked for.
fn labelled_rows(data: &str, labels: Option<&str>) -> Result<LabelledRows> {
    if let (path, (Some(file), column)) = (Path::new(data), labels_of(labels))
        && has_ending(path, "npy")
    {
        let rows = RowSource::Npy(NpyRows::open(path)?);
        let file = read(file)?;
        let (labels, notes) = Labelled::read_labels(&file, column, rows.rows())?;
        say(&file.name, &notes);
        return Ok(LabelledRows { rows, labels });
    }
    let rows = labelled(data, labels)?;
    say(&rows.name, &rows.notes);
    let (rows, labels) = rows.into_rows();
    Ok(LabelledRows { rows, labels })
}

/// Reads labelled rows: a file with its labels, which `labels` names as a file, as `FILE:COLUMN` or `FILE.npz:ARRAY`, or
/// as a column or array of the data.
pub(super) fn labelled(data: &str, labels: Option<&str>) -> Result<Labelled> {
    let (data, features) = array(data);
    let (file, column) = labels_of(labels);
    // The labels of the data's own NPZ, by its full name: it is read once.
    let file = file.filter(|file| !has_ending(data, "npz") || *file != data);
    let data = read(data)?;
    let file = file.map(read).transpose()?;
    let choice = Choice {
        features,
        labels: column,
    };
    Labelled::read(&data, file.as_ref(), choice)
}

/// The file of labels, and the column or array of it or of the data.
fn labels_of(labels: Option<&str>) -> (Option<&Path>, Option<&str>) {
    let is_file = |path: &Path| path.exists() && !path.is_dir();
    match labels {
        None => (None, None),
        Some(path) if is_file(Path::new(path)) => (Some(Path::new(path)), None),
        Some(text) => match (array(text), text.rsplit_once(':')) {
            ((path, Some(array)), _) => (Some(path), Some(array)),
            (_, Some((path, column))) => (Some(Path::new(path)), Some(column)),
            _ if ["npy", "npz", "csv"]
                .iter()
                .any(|ending| has_ending(Path::new(text), ending)) =>
            {
                (Some(Path::new(text)), None)
            }
            _ => (None, Some(text)),
        },
    }
}

/// Says beside the results what was decided while reading.
fn say(name: &str, notes: &[String]) {
    for note in notes {
        note_line(format_args!("{name}: {note}"));
    }
}

/// Reads a data set: a sample, or a file with its labels.
pub(super) fn dataset(data: &str, labels: Option<&str>, seed: u64) -> Result<Dataset> {
    match data.strip_prefix("sample:") {
        Some(sample) => Dataset::sample(sample, seed),
        None => Dataset::new(labelled(data, labels)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn an_array_stands_after_the_colon_of_an_npz() {
        let split = |text| {
            let (path, array) = array(text);
            (path.display().to_string(), array)
        };
        assert_eq!(split("a/x.npz:g/y"), ("a/x.npz".to_owned(), Some("g/y")));
        assert_eq!(split("C:\\x.NPZ:y"), ("C:\\x.NPZ".to_owned(), Some("y")));
        assert_eq!(split("x.npz"), ("x.npz".to_owned(), None));
        assert_eq!(split("x.csv:y"), ("x.csv:y".to_owned(), None));
    }
}
