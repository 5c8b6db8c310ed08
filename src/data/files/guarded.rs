//! Guard for third-party readers, which may panic on a file that is damaged in a way they do not check.

use std::cell::Cell;

use crate::base::error::{Error, Result};

thread_local! {
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Tells if a panic of this thread is reported as a damaged file, so that a panic hook can stay silent.
pub fn is_guarded() -> bool {
    IS_GUARDED.get()
}

/// Reads, and turns a panic of the reader into the error that the file is damaged. In a browser a panic ends the worker that reads,
/// and no other.
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
