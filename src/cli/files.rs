//! Files in and out: an input that cannot be read is refused, an output is whole or not there.

use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use nearfar::{Choice, CsvTable, Dataset, Labelled, NamedFile, NpyRows, Result, RowSource, Rows};

use super::{io, note_line};

/// Reads a file whole.
pub(super) fn read(path: &Path) -> Result<NamedFile> {
    NamedFile::read(path)
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

/// Rows without labels: an open NPY file, an array of an NPZ, or the numeric columns of a table, in the order of those that
/// they are held against.
pub(super) fn rows(data: &str, other: Option<&LabelledRows>) -> Result<LabelledRows> {
    features(data, &[], None, other)
}

/// Rows for a head: of a table the columns of these names, or as many numeric ones as it takes.
pub(super) fn rows_for(data: &str, names: &[String], inputs: usize) -> Result<RowSource> {
    Ok(features(data, names, Some(inputs), None)?.rows)
}

fn features(
    data: &str,
    names: &[String],
    inputs: Option<usize>,
    other: Option<&LabelledRows>,
) -> Result<LabelledRows> {
    let (path, array) = array(data);
    if has_ending(path, "npy") {
        return Ok(LabelledRows::nameless(NpyRows::open(path)?));
    }
    let file = read(path)?;
    if has_ending(path, "npz") {
        let (rows, notes) = RowSource::from_npz(&file, array)?;
        say(&file.name, &notes);
        return Ok(LabelledRows::nameless(rows));
    }
    let rows = CsvTable::read(&file)?.into_features(names, inputs)?;
    LabelledRows::new(rows, other)
}

/// Rows with labels, and what they are held against.
#[derive(Debug, Args)]
pub(super) struct LabelledFiles {
    /// Rows of any length as NPY, NPZ or CSV
    #[arg(long, value_name = "FILE[:ARRAY]")]
    embeddings: String,
    /// Their labels: an NPY, a column of another CSV or array of an NPZ after a colon, or one of the same file
    #[arg(long, value_name = "FILE[:COLUMN]")]
    labels: Option<String>,
    /// What they are held against; without it each other, every row leaving itself out
    #[arg(long, value_name = "FILE[:ARRAY]")]
    references: Option<String>,
    /// Their labels
    #[arg(long, value_name = "FILE[:COLUMN]", requires = "references")]
    reference_labels: Option<String>,
}

/// Rows with a label each.
#[derive(Debug)]
pub(super) struct LabelledRows {
    pub(super) rows: RowSource,
    pub(super) labels: Vec<String>,
    /// The file, and the names of its columns where it has some.
    name: String,
    names: Vec<String>,
}

impl LabelledFiles {
    pub(super) fn read(&self) -> Result<(LabelledRows, Option<LabelledRows>)> {
        let embeddings = labelled_rows(&self.embeddings, self.labels.as_deref(), None)?;
        let references = self.references.as_deref().map(|references| {
            labelled_rows(
                references,
                self.reference_labels.as_deref(),
                Some(&embeddings),
            )
        });
        Ok((embeddings, references.transpose()?))
    }
}

impl LabelledRows {
    /// Rows of a table, its columns in the order of those that they are held against; says what was decided.
    fn new(rows: Labelled, other: Option<&Self>) -> Result<Self> {
        let rows = match other {
            Some(other) => rows.ordered_as(&other.names, &other.name)?,
            None => rows,
        };
        say(&rows.name, &rows.notes);
        let (name, names) = (rows.name.clone(), rows.feature_names.clone());
        let (rows, labels) = rows.into_rows();
        Ok(Self {
            rows,
            labels,
            name,
            names,
        })
    }

    fn nameless(rows: RowSource) -> Self {
        Self {
            rows,
            labels: Vec::new(),
            name: String::new(),
            names: Vec::new(),
        }
    }

    pub(super) fn rows(&self) -> Rows<'_> {
        Rows {
            rows: &self.rows,
            labels: &self.labels,
        }
    }
}

/// Rows with their labels, without the rest; rows of an NPY file are read where they are asked for.
fn labelled_rows(
    data: &str,
    labels: Option<&str>,
    other: Option<&LabelledRows>,
) -> Result<LabelledRows> {
    if let (path, (Some(file), column)) = (Path::new(data), labels_of(data, labels))
        && has_ending(path, "npy")
    {
        let rows = NpyRows::open(path)?;
        let file = read(file)?;
        let read = Labelled::read_labels(&file, column, data, rows.rows())?;
        say(&file.name, &read.notes);
        return Ok(LabelledRows {
            labels: read.labels,
            ..LabelledRows::nameless(rows)
        });
    }
    LabelledRows::new(labelled(data, labels)?, other)
}

/// Reads labelled rows: a file with its labels, which `labels` names as a file, as `FILE:COLUMN` or `FILE.npz:ARRAY`, or
/// as a column or array of the data.
pub(super) fn labelled(data: &str, labels: Option<&str>) -> Result<Labelled> {
    let (file, column) = labels_of(data, labels);
    let (data, features) = array(data);
    // The labels of the data's own table or NPZ, by its full name: it is read once, and the label is no feature.
    let file = file.filter(|file| has_ending(data, "npy") || !is_same(file, data));
    let data = read(data)?;
    let file = file.map(read).transpose()?;
    let choice = Choice {
        features,
        labels: column,
    };
    Labelled::read(&data, file.as_ref(), choice)
}

/// Whether two paths lead to one file.
fn is_same(path: &Path, other: &Path) -> bool {
    let both = path.canonicalize().ok().zip(other.canonicalize().ok());
    path == other || both.is_some_and(|(path, other)| path == other)
}

/// The file of labels, and the column or array of it or of the data.
fn labels_of<'a>(data: &str, labels: Option<&'a str>) -> (Option<&'a Path>, Option<&'a str>) {
    const ENDINGS: [&str; 12] = [
        "npy", "npz", "csv", "tsv", "txt", "gz", "json", "jsonl", "parquet", "h5ad", "pkl", "xlsx",
    ];
    let is_file = |path: &Path| path.exists() && !path.is_dir();
    // A file that is missing is one too, by its ending, its folder, or where the data has no columns.
    let meant = |text: &str| {
        let path = Path::new(text);
        is_file(path)
            || ENDINGS.iter().any(|ending| has_ending(path, ending))
            || text.contains('/')
            || has_ending(Path::new(data), "npy")
    };
    match labels {
        None => (None, None),
        Some(path) if is_file(Path::new(path)) => (Some(Path::new(path)), None),
        Some(text) => match (array(text), text.rsplit_once(':')) {
            ((path, Some(array)), _) => (Some(path), Some(array)),
            (_, Some((path, column))) if meant(path) => (Some(Path::new(path)), Some(column)),
            _ if meant(text) => (Some(Path::new(text)), None),
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

/// A file that takes its name only when it is complete.
pub(super) struct Output {
    path: PathBuf,
    partial: PathBuf,
    file: std::io::BufWriter<std::fs::File>,
}

impl Output {
    pub(super) fn create(path: &Path) -> Result<Self> {
        let mut partial = path.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let file =
            std::fs::File::create(&partial).map_err(io(format!("writing {}", path.display())))?;
        Ok(Self {
            path: path.to_owned(),
            partial,
            file: std::io::BufWriter::new(file),
        })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file
            .write_all(bytes)
            .map_err(io(format!("writing {}", self.path.display())))
    }

    /// Gives the file its name.
    pub(super) fn finish(mut self) -> Result<()> {
        let named = self
            .file
            .flush()
            .and_then(|()| self.file.get_ref().sync_all())
            .and_then(|()| std::fs::rename(&self.partial, &self.path));
        named.map_err(io(format!("writing {}", self.path.display())))
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

impl Seek for Output {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        self.file.seek(to)
    }
}

impl Drop for Output {
    /// Leaves nothing half-written: after `finish` there is no partial file.
    fn drop(&mut self) {
        std::fs::remove_file(&self.partial).ok();
    }
}

/// Writes a whole file.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut output = Output::create(path)?;
    output.write(bytes)?;
    output.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfar::NpzWriter;

    #[test]
    fn an_npz_takes_its_name_when_it_is_whole() {
        let path = std::env::temp_dir().join(format!("nearfar-{}.npz", std::process::id()));
        let partial = PathBuf::from(format!("{}.partial", path.display()));
        let begin = || {
            let mut npz = NpzWriter::new("x.npz", Output::create(&path).expect("is made"));
            let parts = [[1u32, 2], [3, 4]];
            npz.array("ids", &[2, 2], parts).expect("is written");
            npz
        };
        drop(begin());
        assert!(!path.exists() && !partial.exists());
        begin().finish().and_then(Output::finish).expect("is named");
        assert!(path.exists() && !partial.exists());
        let bytes = std::fs::read(&path).expect("is there");
        assert!(bytes.starts_with(b"PK") && bytes.len() > 128 + 16);
        std::fs::remove_file(&path).expect("is there");
    }

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
