//! Output files: complete or not there. Each is written beside its place, under a name that no other process has, and renamed at
//! the end. A file that cannot be written is refused before the work; only regular files are ever replaced.

use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io::{BufWriter, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nearfar::{Error, Result};

use super::temporary::Temporary;
use super::{io, signals};

/// The most links that are followed to a file.
const MOST_LINKS: usize = 40;

/// Refusal of a path that cannot be written.
fn refuse(path: &Path, why: &str) -> Error {
    Error::Config(format!("{}: cannot be written: {why}", path.display()))
}

/// A checked place for a file: a regular file, or none yet.
#[derive(Debug)]
struct Target {
    /// Path that was given.
    name: PathBuf,
    /// Path of the place itself, with links followed.
    place: PathBuf,
    /// Permissions of the file that is replaced.
    permissions: Option<Permissions>,
}

impl Target {
    /// A place in a folder that is written as a whole: a link there is replaced and never followed, as the folder may be from
    /// anywhere.
    fn member(path: &Path) -> Result<Self> {
        match path.is_symlink() {
            true => Ok(Self {
                name: path.to_owned(),
                place: path.to_owned(),
                permissions: None,
            }),
            false => Self::new(path, &[]),
        }
    }

    /// Checks a place. `inputs` are the files that the command reads, as `FILE` or `FILE:COLUMN`.
    fn new(path: &Path, inputs: &[&str]) -> Result<Self> {
        let mut place = path.to_owned();
        let mut links = 0;
        // A link to something else than a file is no file either: these are the metadata of its target.
        let found = std::fs::metadata(path);
        match &found {
            Ok(there) if there.is_dir() => {
                return Err(refuse(path, "it is a folder: give the name of a file"));
            }
            Ok(there) if !there.is_file() => {
                let why = "it is a device or a pipe, not a file: give the name of a file";
                return Err(refuse(path, why));
            }
            _ => {}
        }
        while let Ok(to) = std::fs::read_link(&place) {
            links += 1;
            if links > MOST_LINKS {
                return Err(refuse(path, "its links lead in a circle"));
            }
            place = folder_of(&place).join(to);
        }
        if place.file_name().is_none() || path.as_os_str().as_encoded_bytes().ends_with(b"/") {
            return Err(refuse(path, "it has no name: give the name of a file"));
        }
        let inputs = inputs.iter().flat_map(|text| files_of(text));
        if let Some(input) = inputs.into_iter().find(|input| is_same(&place, input)) {
            let why = format!(
                "it is the input {} itself: give another name",
                input.display()
            );
            return Err(refuse(path, &why));
        }
        // A name that is too long, or a path through a file.
        match std::fs::symlink_metadata(&place) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(refuse(path, &error.to_string()));
            }
            _ => {}
        }
        if found.is_ok() {
            OpenOptions::new()
                .write(true)
                .open(&place)
                .map_err(|error| refuse(path, &error.to_string()))?;
        }
        Ok(Self {
            name: path.to_owned(),
            place,
            permissions: found.ok().map(|there| there.permissions()),
        })
    }
}

/// Folder of a path.
fn folder_of(path: &Path) -> &Path {
    let parent = path.parent().unwrap_or(Path::new("/"));
    if parent.as_os_str().is_empty() {
        Path::new(".")
    } else {
        parent
    }
}

/// Files that `FILE` or `FILE:COLUMN` may mean.
pub(super) fn files_of(text: &str) -> impl Iterator<Item = &Path> {
    let colons = text.match_indices(':').map(|(at, _)| &text[..at]);
    let names = std::iter::once(text).chain(colons).map(Path::new);
    names.filter(|path| path.is_file())
}

#[cfg(unix)]
fn is_same(a: &Path, b: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;

    let node = |path: &Path| std::fs::metadata(path).map(|file| (file.dev(), file.ino()));
    matches!((node(a), node(b)), (Ok(a), Ok(b)) if a == b)
}

#[cfg(not(unix))]
fn is_same(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

/// Creates a temporary file in the folder of a target; a folder that takes none is refused.
fn beside(target: &Target) -> Result<(Temporary, File)> {
    let folder = folder_of(&target.place);
    Temporary::create(folder).map_err(|error| refuse(&target.name, &why(folder, &error)))
}

/// Reason why a folder takes no file.
fn why(folder: &Path, error: &std::io::Error) -> String {
    if folder.is_dir() {
        format!("the folder {} takes no file: {error}", folder.display())
    } else {
        format!("there is no folder {}: make it first", folder.display())
    }
}

/// Replaces the file `name` in a folder by one that `write` writes, or leaves the old one: the new one is written under the name
/// `aside`, flushed to disk, and renamed. No signal interrupts it.
///
/// # Errors
/// [`Error::Io`], and errors of `write`.
pub(super) fn replace(
    folder: &Path,
    aside: &str,
    name: &str,
    write: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<()> {
    let path = folder.join(name);
    let failed = |error| io(format!("writing {}", path.display()))(error);
    let (temporary, file) = Temporary::named(folder.join(aside)).map_err(failed)?;
    let mut file = BufWriter::new(file);
    write(&mut file)?;
    let written = (|| {
        file.into_inner()?.sync_all()?;
        std::fs::rename(temporary.path(), &path)?;
        sync(folder)
    })();
    written.map_err(failed)
}

/// Removes a file of a folder, if there is one.
///
/// # Errors
/// [`Error::Io`].
pub(super) fn remove(folder: &Path, name: &str) -> Result<()> {
    let path = folder.join(name);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(io(format!("removing {}", path.display()))),
    }
}

/// Flushes the names in a folder to disk.
#[cfg(unix)]
fn sync(folder: &Path) -> std::io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Elsewhere folders cannot be opened.
#[cfg(not(unix))]
fn sync(_: &Path) -> std::io::Result<()> {
    Ok(())
}

/// A file that is renamed to its own name when it is complete.
#[derive(Debug)]
pub(super) struct Output {
    target: Target,
    file: BufWriter<File>,
    temporary: Temporary,
}

impl Output {
    /// Creates a file; `inputs` are the files that the command reads, as `FILE` or `FILE:COLUMN`.
    ///
    /// # Errors
    /// [`Error::Config`] if no file can be written there, or if the file is one of `inputs`.
    pub(super) fn create(path: &Path, inputs: &[&str]) -> Result<Self> {
        Self::at(Target::new(path, inputs)?)
    }

    fn at(target: Target) -> Result<Self> {
        let (temporary, file) = beside(&target)?;
        Ok(Self {
            target,
            file: BufWriter::new(file),
            temporary,
        })
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// [`Error::Io`], and [`Error::Stopped`] after a signal.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        signals::check()?;
        let written = self.file.write_all(bytes);
        written.map_err(io(self.what()))
    }

    /// Appends the bytes of a file.
    ///
    /// # Errors
    /// [`Error::Io`], and [`Error::Stopped`] after a signal.
    pub(super) fn copy(&mut self, from: &Path) -> Result<()> {
        signals::check()?;
        let copied = File::open(from).and_then(|mut from| {
            std::io::copy(&mut from, &mut self.file)?;
            self.file.flush()
        });
        copied.map(drop).map_err(io(self.what()))
    }

    /// Current path of the file, for libraries that open it themselves; all that was written is flushed.
    pub(super) fn place(&self) -> &Path {
        self.temporary.path()
    }

    /// Completes the file and gives it its name.
    pub(super) fn finish(mut self) -> Result<()> {
        self.complete()?;
        self.take_name()
    }

    /// A temporary file for data that is read again later; removed when it is dropped.
    pub(super) fn spool(&self) -> Result<Spool> {
        let (temporary, file) = beside(&self.target)?;
        Ok(Spool {
            what: self.what(),
            file: BufWriter::new(file),
            _temporary: temporary,
        })
    }

    fn what(&self) -> String {
        format!("writing {}", self.target.name.display())
    }

    /// Flushes the file to disk, still under its temporary name.
    fn complete(&mut self) -> Result<()> {
        let permissions = self.target.permissions.clone();
        let written = self.file.flush().and_then(|()| {
            let file = self.file.get_ref();
            permissions.map_or(Ok(()), |as_before| file.set_permissions(as_before))?;
            file.sync_all()
        });
        written.map_err(io(self.what()))
    }

    fn take_name(self) -> Result<()> {
        let named = std::fs::rename(self.temporary.path(), &self.target.place);
        named.map_err(io(self.what()))
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

/// Data that is written to disk and read again.
#[derive(Debug)]
pub(super) struct Spool {
    what: String,
    file: BufWriter<File>,
    _temporary: Temporary,
}

impl Spool {
    /// Appends bytes.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.file.write_all(bytes);
        written.map_err(io(self.what.clone()))
    }

    /// Reader of the data from its beginning.
    pub(super) fn read(mut self) -> Result<impl Read> {
        let rewound = self.file.flush().and_then(|()| self.file.rewind());
        rewound.map_err(io(self.what.clone()))?;
        Ok(Stoppable(self))
    }
}

/// A spool whose reading ends with a signal.
struct Stoppable(Spool);

impl Read for Stoppable {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        signals::check().map_err(std::io::Error::other)?;
        self.0.file.get_mut().read(bytes)
    }
}

/// Keeps other processes from writing to a folder.
#[derive(Clone, Debug, Default)]
pub(super) struct Lock {
    /// Locked for as long as it is open.
    _folder: Option<Arc<File>>,
}

impl Lock {
    /// Locks a folder, if the system has locks of folders.
    ///
    /// # Errors
    /// [`Error::Config`] if another process holds the lock.
    fn of(path: &Path) -> Result<Self> {
        let Ok(folder) = File::open(path) else {
            return Ok(Self::default());
        };
        match folder.try_lock() {
            Err(TryLockError::WouldBlock) => Err(refuse(
                path,
                "another nearfar writes there: wait until it is done, or give another folder",
            )),
            _ => Ok(Self {
                _folder: Some(Arc::new(folder)),
            }),
        }
    }
}

/// Files of a folder, which are renamed together at the end. No other process writes there meanwhile.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    lock: Lock,
    names: Vec<String>,
    /// Folders that were made for it, the outermost first.
    made: Vec<PathBuf>,
    whole: Vec<Output>,
}

impl Folder {
    /// Makes the folder if it is missing, and checks that each of `names` can be written there, possibly in a subfolder; `inputs`
    /// are the files that the command reads, as `FILE` or `FILE:COLUMN`.
    ///
    /// # Errors
    /// [`Error::Config`] if one cannot be written, or is one of `inputs`.
    pub(super) fn create(path: &Path, names: Vec<String>, inputs: &[&str]) -> Result<Self> {
        let mut folder = Self {
            path: path.to_owned(),
            lock: Lock::default(),
            names,
            made: Vec::new(),
            whole: Vec::new(),
        };
        if path.exists() && !path.is_dir() {
            return Err(refuse(path, "it is not a folder: give the name of one"));
        }
        folder.make(path)?;
        if !path.is_dir() {
            return Err(refuse(path, "it is a link that leads to no folder"));
        }
        folder.lock = Lock::of(path)?;
        for name in &folder.names {
            let file = path.join(name);
            Target::new(&file, inputs)?;
            let inner = folder_of(&file);
            if inner != path && inner.is_symlink() {
                let why = "it is a link out of the folder: remove it";
                return Err(refuse(inner, why));
            }
        }
        Temporary::create(path).map_err(|error| refuse(path, &why(path, &error)))?;
        Ok(folder)
    }

    /// Path of the folder.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Lock of the folder, which is held until the last copy is dropped.
    pub(super) fn lock(&self) -> Lock {
        self.lock.clone()
    }

    /// Names of the folder for which there are files already.
    pub(super) fn taken(&self) -> impl Iterator<Item = &str> {
        let names = self.names.iter().map(String::as_str);
        names.filter(|name| self.path.join(name).exists())
    }

    /// Makes a folder with its parents.
    fn make(&mut self, path: &Path) -> Result<()> {
        let missing: Vec<&Path> = path
            .ancestors()
            .take_while(|part| !part.as_os_str().is_empty() && !part.exists())
            .collect();
        for part in missing.into_iter().rev() {
            match std::fs::create_dir(part) {
                Ok(()) => self.made.push(part.to_owned()),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(refuse(path, &error.to_string())),
            }
        }
        Ok(())
    }

    /// Writes one of the files completely, under a temporary name.
    pub(super) fn write(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.path.join(name);
        self.make(folder_of(&path))?;
        let mut file = Output::at(Target::member(&path)?)?;
        file.write(bytes)?;
        file.complete()?;
        self.whole.push(file);
        Ok(())
    }

    /// Gives all files their names, and removes files of an earlier run that this one does not have.
    pub(super) fn finish(mut self) -> Result<()> {
        let new: Vec<PathBuf> = self
            .whole
            .iter()
            .map(|file| file.target.name.clone())
            .collect();
        for file in self.whole.drain(..) {
            file.take_name()?;
        }
        for name in &self.names {
            let path = self.path.join(name);
            if !new.contains(&path) && path.is_file() {
                std::fs::remove_file(&path).map_err(io(format!("removing {}", path.display())))?;
                // A subfolder is removed with its last file.
                if name.contains('/') {
                    std::fs::remove_dir(folder_of(&path)).ok();
                }
            }
        }
        Ok(())
    }
}

impl Drop for Folder {
    /// Removes folders that were made and are empty.
    fn drop(&mut self) {
        self.whole.clear();
        for part in self.made.iter().rev() {
            std::fs::remove_dir(part).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfar::NpzWriter;

    #[test]
    fn a_file_is_whole_before_it_takes_its_name() {
        let folder = std::env::temp_dir().join(format!("nearfar-whole-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("is made");
        let path = folder.join("x.csv");
        let mut file = Output::create(&path, &[]).expect("is made");
        file.write(b"a,b\n1,2\n").expect("is written");
        file.complete().expect("is written");
        let bytes = std::fs::read(file.place()).expect("is there");
        assert_eq!(bytes, b"a,b\n1,2\n", "under its temporary name");
        file.take_name().expect("is named");
        assert_eq!(std::fs::read(&path).expect("is there"), bytes);
        std::fs::remove_dir_all(&folder).expect("is there");
    }

    #[test]
    fn an_npz_takes_its_name_when_it_is_whole() {
        let folder = std::env::temp_dir().join(format!("nearfar-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("is made");
        let path = folder.join("x.npz");
        let count = || std::fs::read_dir(&folder).expect("is there").count();
        let begin = || {
            let mut npz = NpzWriter::new("x.npz", Output::create(&path, &[]).expect("is made"));
            let parts = [[1u32, 2], [3, 4]];
            npz.array("ids", &[2, 2], parts).expect("is written");
            npz
        };
        let (first, second) = (begin(), begin());
        assert_eq!(count(), 2, "each under a name of its own");
        drop((first, second));
        assert_eq!(count(), 0);
        begin().finish().and_then(Output::finish).expect("is named");
        assert!(path.exists() && count() == 1);
        let bytes = std::fs::read(&path).expect("is there");
        assert!(bytes.starts_with(b"PK") && bytes.len() > 128 + 16);
        std::fs::remove_dir_all(&folder).expect("is there");
    }
}
