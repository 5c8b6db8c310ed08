//! [`Temporary`]: files that no run may leave behind, whether it ends by itself, by an error or by a signal.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Temporary files to remove if the process ends at once.
static TEMPORARIES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Removes every temporary file, if nobody is making or renaming one right now.
pub(super) fn remove_temporaries() {
    if let Ok(paths) = TEMPORARIES.try_lock() {
        for path in paths.iter() {
            std::fs::remove_file(path).ok();
        }
    }
}

/// A file under a temporary name, removed when it is dropped.
#[derive(Debug)]
pub(super) struct Temporary(PathBuf);

impl Temporary {
    /// Creates a file in a folder, under a name that no other process has.
    pub(super) fn create(folder: &Path) -> std::io::Result<(Self, File)> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mut paths = TEMPORARIES.lock().expect("nobody fails while holding it");
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("nearfar-{}-{number}.partial", std::process::id());
            let path = folder.join(name);
            // Never an existing file, nor the target of a link.
            let mut new = OpenOptions::new();
            match new.read(true).write(true).create_new(true).open(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                file => {
                    let file = file?;
                    paths.push(path.clone());
                    return Ok((Self(path), file));
                }
            }
        }
    }

    /// Creates the file under this name, which one process uses at a time; a file that a killed process left there is removed.
    pub(super) fn named(path: PathBuf) -> std::io::Result<(Self, File)> {
        let mut paths = TEMPORARIES.lock().expect("nobody fails while holding it");
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)?;
        paths.push(path.clone());
        Ok((Self(path), file))
    }

    /// Current path of the file.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let mut paths = TEMPORARIES.lock().expect("nobody fails while holding it");
        paths.retain(|path| *path != self.0);
        std::fs::remove_file(&self.0).ok();
    }
}
