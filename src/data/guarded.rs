//! Readers that other people wrote, and what they do with a file that is damaged in a way they did not look for: they panic.

use std::cell::Cell;

use crate::base::error::{Error, Result};

thread_local! {
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Whether a panic of this thread would be taken for a file that is damaged: a hook need not speak of it.
pub fn is_guarded() -> bool {
    IS_GUARDED.get()
}

/// Reads, and takes a panic of the reader for what it is: a file that is damaged. In a browser a panic ends the worker that
/// reads, and no other.
pub(super) fn guarded<T>(name: &str, read: impl FnOnce() -> Result<T>) -> Result<T> {
    let outer = IS_GUARDED.replace(true);
    let read = std::panic::catch_unwind(std::panic::AssertUnwindSafe(read));
    IS_GUARDED.set(outer);
    read.unwrap_or_else(|_| {
        Err(Error::Data(format!(
            "{name}: the file is damaged: copy or save it again"
        )))
    })
}
