//! What every reader owes to any bytes at all: data, or one sentence that names the file.

use nearfar::{Choice, Dataset, Error, Labelled, NamedFile, RowSource};

/// The longest sentence; a line of Python may be part of it.
const LONGEST: usize = 1200;

/// Reads bytes under a name in every way that a file of this name is read: with its own labels, as features beside labels, as
/// labels beside features. Gives the first refusal.
///
/// # Panics
/// When a refusal is none that a person can use, or what was read is not what a reader promises.
pub(crate) fn read(name: &str, bytes: &[u8]) -> Result<(), String> {
    let file = || NamedFile {
        name: name.to_owned(),
        bytes: bytes.to_vec(),
    };
    let file = said(name, file().unpacked())?;
    let whole = said(name, Labelled::read(&file, None, Choice::default()));
    if let Ok(rows) = whole {
        sound(&rows);
        said(name, Dataset::new(rows)).map(drop)?;
        return Ok(());
    }
    // An NPY holds either; of a file of arrays a name may be missing; labels may be in another file.
    let labels = Labelled::read_labels(&file, Choice::default(), "x.npy", 12);
    let labels = said(name, labels).map(|labels| assert_eq!(labels.labels.len(), 12));
    let features = if [".npy", ".csv", "json", ".parquet", ".pq"]
        .iter()
        .any(|part| name.contains(part))
    {
        let beside = NamedFile {
            name: "labels.csv".to_owned(),
            bytes: b"label\na\nb\na\nb\na\nb\na\nb\na\nb\na\nb\n".to_vec(),
        };
        said(
            name,
            Labelled::read(&file, Some(&beside), Choice::default()),
        )
        .map(|rows| sound(&rows))
    } else {
        said(name, RowSource::from_arrays(&file, None)).map(drop)
    };
    match features {
        Ok(()) => Ok(()),
        Err(_) => labels,
    }
}

/// The same, or the sentence that a refusal is.
fn said<T>(name: &str, read: Result<T, Error>) -> Result<T, String> {
    read.map_err(|error| {
        sentence(&error, name);
        error.to_string()
    })
}

/// Holds a refusal to be a sentence that a person can use, with this name in it.
///
/// # Panics
/// Where it is none.
pub(crate) fn sentence(error: &Error, name: &str) {
    assert_eq!(error.exit_code(), 2, "{error}");
    words(&error.to_string(), name);
}

/// Holds what is said to be short, in one line, and to have this name in it.
///
/// # Panics
/// Where it is not.
pub(crate) fn words(sentence: &str, name: &str) {
    assert!(sentence.contains(name), "{sentence:?} does not name {name}");
    assert!(!sentence.contains(char::is_control), "{sentence:?}");
    assert!(sentence.len() <= LONGEST, "{sentence}");
}

/// Holds what was read to be what a reader promises.
///
/// # Panics
/// Where it is not.
pub(crate) fn sound(rows: &Labelled) {
    assert!(rows.dim > 0 && rows.values.len() == rows.dim * rows.labels.len());
    assert!(rows.values.iter().all(|value| value.is_finite()));
    assert!(rows.labels.iter().all(|label| !label.is_empty()));
}
