//! Checkpoints of `nearfar train`: two files in the folder of the results, written in turn; a run continues from the newest that is
//! whole. They are removed when the run is done: then the run itself is one of the files in the folder.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nearfar::{CHECKPOINT, Checkpoint, Error, HISTORY, NamedFile, Origin, Result, Run};

use super::io;
use super::output::{Folder, files_of, remove, replace};
use super::{note_line, progress};

/// Names of the two files.
const FILES: [&str; 2] = ["checkpoint-1.bin", "checkpoint-2.bin"];
/// Bytes at the start of a file that identify a checkpoint.
const MARK_BYTES: u64 = 8;
/// Name of a checkpoint while it is written.
const ASIDE: &str = "checkpoint.partial";

/// Checks that a new run may write to a folder: it has none of the files that a run writes, or all that it has are a run's.
///
/// # Errors
/// [`Error::Config`] if files would be replaced or removed that may not be a run's.
pub(super) fn check_own(folder: &Folder) -> Result<()> {
    let path = folder.path();
    let begins_as_one = |name: &&str| {
        let file = File::open(path.join(name));
        let mut start = Vec::new();
        file.and_then(|file| file.take(MARK_BYTES).read_to_end(&mut start))
            .is_ok_and(|_| Checkpoint::begins(&start))
    };
    let checkpoints = FILES.into_iter().filter(|name| path.join(name).exists());
    let (own, others): (Vec<&str>, Vec<&str>) = checkpoints.partition(begins_as_one);
    let is_run = !own.is_empty() || nearfar::is_history(&path.join(HISTORY));
    let taken: Vec<&str> = match is_run {
        true => others,
        false => others.into_iter().chain(folder.taken()).collect(),
    };
    if taken.is_empty() {
        return Ok(());
    }
    Err(Error::Config(format!(
        "{}: it holds {} and is not the folder of a run: a run would replace or remove them, so give another folder",
        path.display(),
        taken.join(", ")
    )))
}

/// Reads `--checkpoint-every`.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().map_err(|error| error.to_string())?;
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| "it must be a number of seconds, 0 or more".to_owned())
}

/// Absolute path of a file, which is valid from any folder; a sample or a column stays as it was given.
pub(super) fn lasting(text: &str) -> String {
    let path = Path::new(text);
    // A folder of Parquet files, and a pattern of their names, count as existing too.
    let is_there = path.is_dir() || (text.contains('*') && path.parent().is_some());
    let is_file = !text.starts_with("sample:") && (is_there || files_of(text).next().is_some());
    let here = std::env::current_dir().ok().filter(|_| is_file);
    let there = here.map(|here| here.join(path));
    let there = there.as_deref().and_then(Path::to_str);
    there.unwrap_or(text).to_owned()
}

/// A checkpoint that was found.
#[derive(Debug)]
pub(super) struct Found {
    /// Path of the file.
    path: PathBuf,
    /// Index among the two files; `None` for the checkpoint of a finished run, or for one that is not from a folder.
    file: Option<usize>,
    /// Content, which is whole.
    pub(super) bytes: Vec<u8>,
    pub(super) step: u64,
    elapsed_ms: f64,
    /// Error of the other file, if it is damaged.
    other: Option<Error>,
}

impl Found {
    /// The newest checkpoint that is whole: of a folder, of its archive, or the file itself; `None` if there are none.
    ///
    /// # Errors
    /// Errors of the files, if none is whole.
    pub(super) fn newest(run: &Path) -> Result<Option<Self>> {
        if run.is_file() {
            let bytes = nearfar::saved_run(NamedFile::read(run)?)?;
            return Self::of(None, run.to_owned(), bytes).map(Some);
        }
        let stopped = Self::stopped(run)?;
        let done = run.join(CHECKPOINT);
        match stopped {
            None if done.exists() => {
                let bytes = NamedFile::read(&done)?.bytes;
                Self::of(None, done, bytes).map(Some)
            }
            stopped => Ok(stopped),
        }
    }

    /// The newest whole checkpoint that an unfinished run left in a folder.
    fn stopped(folder: &Path) -> Result<Option<Self>> {
        let (mut found, mut damaged) = (Vec::<Self>::new(), None);
        for (file, name) in FILES.iter().enumerate() {
            let path = folder.join(name);
            if !path.exists() {
                continue;
            }
            let read = NamedFile::read(&path)
                .and_then(|read| Self::of(Some(file), path.clone(), read.bytes));
            match read {
                Ok(whole) => found.push(whole),
                Err(Error::Data(why)) => {
                    damaged = Some(Error::Data(format!("{}: {why}", path.display())));
                }
                Err(error) => damaged = Some(error),
            }
        }
        let newest = found.into_iter().max_by(|a, b| {
            a.step
                .cmp(&b.step)
                .then(a.elapsed_ms.total_cmp(&b.elapsed_ms))
        });
        match (newest, damaged) {
            (Some(newest), other) => Ok(Some(Self { other, ..newest })),
            (None, Some(error)) => Err(error),
            (None, None) => Ok(None),
        }
    }

    fn of(file: Option<usize>, path: PathBuf, bytes: Vec<u8>) -> Result<Self> {
        let checkpoint = Checkpoint::read(&bytes)?;
        Ok(Self {
            file,
            path,
            step: checkpoint.step(),
            elapsed_ms: checkpoint.elapsed_ms(),
            other: None,
            bytes,
        })
    }

    /// Prints the checkpoint that the run continues from.
    pub(super) fn say(&self, steps: u64) {
        if let Some(error) = &self.other {
            note_line(error);
        }
        note_line(format_args!(
            "goes on after step {} of {}, which {} holds: {:.1} s of work are done",
            self.step,
            steps,
            self.path.display(),
            self.elapsed_ms / 1e3
        ));
    }
}

/// Folder and interval of a run's checkpoints.
#[derive(Debug)]
pub(super) struct Checkpoints {
    folder: PathBuf,
    /// Interval between two checkpoints; zero for none.
    every: Duration,
    origin: Origin,
    saved: Instant,
    /// Index of the file that is written next.
    next: usize,
    /// The other file is of an earlier run.
    stale: bool,
    /// The last checkpoint could not be saved, and a note said so.
    failed: bool,
}

impl Checkpoints {
    /// Checkpoints of a run that continues from `found`, or of a new one.
    pub(super) fn new(
        folder: &Path,
        every: Duration,
        origin: Origin,
        found: Option<&Found>,
    ) -> Self {
        let here = found.and_then(|found| found.file);
        let stale = here.is_none() && FILES.iter().any(|name| folder.join(name).exists());
        if stale {
            let step = Found::stopped(folder).ok().flatten();
            let step = step.map_or_else(String::new, |found| {
                format!(", saved at step {}", found.step)
            });
            note_line(format_args!(
                "{} holds a run that was stopped{step}: the new one takes its place; to go on with the old one, stop this and \
                 give --resume {0}",
                folder.display()
            ));
        }
        Self {
            folder: folder.to_owned(),
            every,
            origin,
            saved: Instant::now(),
            next: here.map_or(0, |file| 1 - file),
            stale,
            failed: false,
        }
    }

    /// Saves the run if the interval is over. A failure is noted once, and the run goes on.
    pub(super) async fn keep_up(&mut self, run: &Run, bar: &progress::Progress) {
        if self.every.is_zero() || self.saved.elapsed() < self.every || run.is_finished() {
            return;
        }
        match self.save(run).await {
            Ok(()) if self.failed => {
                self.failed = false;
                bar.say("the run is saved again");
            }
            Ok(()) => {}
            Err(error) if !self.failed => {
                self.failed = true;
                bar.say(&format!(
                    "the run goes on and is not saved: {error}; if it is stopped, what was not saved is lost"
                ));
            }
            Err(_) => {}
        }
        self.saved = Instant::now();
    }

    /// Saves a run that is stopped, if it has done a step, and notes it.
    pub(super) async fn save_stopped(&mut self, run: &Run) {
        if self.every.is_zero() || run.step() == 0 {
            return;
        }
        let folder = self.folder.display().to_string();
        match self.save(run).await {
            Ok(()) => note_line(format_args!(
                "saved after step {}: nearfar train --resume {folder} goes on from there",
                run.step()
            )),
            Err(error) => note_line(format_args!("the run is not saved: {error}")),
        }
    }

    async fn save(&mut self, run: &Run) -> Result<()> {
        let saved = run.save(&self.origin).await?;
        if std::mem::take(&mut self.stale) {
            // Never one of each run: the older run's might pass for the newer.
            remove(&self.folder, FILES[1 - self.next])?;
        }
        let name = FILES[self.next];
        replace(&self.folder, ASIDE, name, |file| {
            let path = self.folder.join(name);
            let failed = |error| io(format!("writing {}", path.display()))(error);
            saved.write(&mut |part| file.write_all(part).map_err(failed))
        })?;
        self.next = 1 - self.next;
        Ok(())
    }

    /// Removes both files: the run is done.
    pub(super) fn remove(self) -> Result<()> {
        let mut all = FILES.iter().chain([&ASIDE]);
        all.try_for_each(|name| remove(&self.folder, name))
    }
}
