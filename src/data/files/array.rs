//! [`Array`]: a named array of a file, known by type and shape, and not yet read.

use super::npy::Header;
use crate::base::quote::plain;

/// Characters of an array's name that are shown at most.
const LONGEST_NAME: usize = 200;

/// An array of a file.
#[derive(Debug)]
pub(super) struct Array {
    /// Its name, as Python gives it.
    pub(super) name: String,
    /// Place in the file: the number of a member or a node, or the byte at which the elements begin.
    pub(super) place: usize,
    pub(super) shape: Vec<u64>,
    /// Bytes in the file, and bytes unpacked.
    pub(super) packed: u64,
    pub(super) bytes: u64,
    /// Type of the elements, or the reason why they are not read.
    pub(super) header: Result<Header, String>,
}

impl Array {
    /// Tells if it is a column of possible labels rather than a matrix: integers or text, `(rows, 1)`.
    pub(super) fn is_column(&self) -> bool {
        matches!(self.shape[..], [_, 1]) && self.header.as_ref().is_ok_and(Header::is_label)
    }
}

/// The name of an array as the command line takes it; of a longer one than any that a person gives, the start.
pub(super) fn full_name(file: &str, array: &str) -> String {
    let array = plain(array.chars());
    match array.char_indices().nth(LONGEST_NAME) {
        Some((end, _)) => format!("{file}:{}..", &array[..end]),
        None => format!("{file}:{array}"),
    }
}
