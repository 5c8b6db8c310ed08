//! [`NamedFile`]: a file with its content; its name is in every message about it.

use std::io::ErrorKind;

use crate::base::error::Error;

/// A file that was dropped or named, with its content.
#[derive(Clone, Debug)]
pub struct NamedFile {
    /// The file's name; its ending tells the format.
    pub name: String,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// The ending of a name, in lower case.
pub(super) fn extension(name: &str) -> String {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending);
    ending.unwrap_or_default().to_ascii_lowercase()
}

/// Refusal of data that a reader could not read to its end.
pub(crate) fn damaged_data(name: &str, error: &std::io::Error) -> Error {
    let how = match error.kind() {
        ErrorKind::UnexpectedEof => "cut short".to_owned(),
        _ => format!("damaged ({error})"),
    };
    Error::Data(format!(
        "{name}: the data is {how}: copy or save the file again"
    ))
}
