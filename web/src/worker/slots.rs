//! Storage of the runs that can be resumed: two slots for each run in the browser's private storage, written in turn. After a reload,
//! or if a worker ended, the runs that no tab holds are found.
//!
//! A slot is a number, 8 bytes, and a checkpoint. The number is when it was written, in milliseconds since 1970, and never below
//! the one before. Writing is in place and may be torn: the checkpoint carries a checksum, and the other slot stays as it is.

use js_sys::{Array, Date};
use nearfar::{Bytes, Checkpoint, Error, Origin, Run, order};
use wasm_bindgen::prelude::*;
use web_sys::{FileSystemReadWriteOptions, FileSystemSyncAccessHandle};
use web_time::{Duration, Instant};

use crate::kept::{call, why};
use crate::offer::Offer;
use crate::words::{grouped, shown_name};

/// Most stopped runs that are kept: the oldest goes first.
const MOST: usize = 5;

/// Time between two saves of a run.
const EVERY: Duration = Duration::from_secs(30);

/// Milliseconds after its start from which on a run that cannot be read is deleted: 30 days.
const UNREAD_MS: f64 = 30.0 * 86_400_000.0;

/// Attempts to open slots: the worker of a page that was just left may still hold them.
pub(super) const TRIES: u32 = 10;

/// The two slots of a run.
type Pair = [FileSystemSyncAccessHandle; 2];

/// Slots of the current run as the worker holds them, and the other saved runs.
#[derive(Debug)]
pub(super) struct Slots {
    /// Number of the current run, or of the last one.
    run: u64,
    /// Slots of that run: open once it was saved or resumed, so that no other tab takes it.
    open: Option<Pair>,
    /// Number of the last write, and the slot (0 or 1) that it is in.
    last: (u64, usize),
    saved: Instant,
    /// The page was told that nothing is saved.
    failed: bool,
    /// The current run as it was saved last.
    own: Option<Offer>,
    /// Other runs that can be resumed, the newest first.
    others: Vec<Offer>,
}

impl Default for Slots {
    fn default() -> Self {
        Self {
            run: 0,
            open: None,
            last: (0, 1),
            saved: Instant::now(),
            failed: false,
            own: None,
            others: Vec::new(),
        }
    }
}

/// Result of a save.
pub(super) enum Saved {
    /// The run was saved.
    Yes,
    /// The run was not saved, and why; the page is told once.
    Not(String),
    /// The run was not saved, and the page was told before.
    Silent,
}

impl Slots {
    /// Runs that can be resumed; `true` if the first of them is the current run.
    pub(super) fn offers(&self) -> (Vec<Offer>, bool) {
        let all = self.own.iter().chain(&self.others);
        (all.cloned().collect(), self.own.is_some())
    }

    /// Looks for the saved runs that no tab holds. If `bounded`, deletes the oldest beyond `MOST`, and returns a sentence on each.
    pub(super) async fn find(&mut self, mut tries: u32, bounded: bool) -> Vec<String> {
        let mut found: Vec<(u64, Offer)> = Vec::new();
        let Ok(runs) = ask("list", &[]).await else {
            return Vec::new();
        };
        for run in Array::from(&runs) {
            let run = run.as_f64().unwrap_or_default() as u64;
            if run == self.run && self.open.is_some() {
                continue;
            }
            let Ok(slots) = opened(run, tries).await else {
                // Another tab holds it: no other run is waited for any longer.
                tries = 1;
                continue;
            };
            let (last, newest) = whole(&slots);
            close(slots);
            let checkpoint = newest.as_deref().map(Checkpoint::read);
            match checkpoint {
                Some(Ok(checkpoint)) => {
                    let newer = found.iter().filter(|(number, _)| *number > last.0);
                    found.insert(newer.count(), (last.0, Offer::of(run, &checkpoint)));
                }
                // Unreadable here, but another version of the page may still read it.
                _ if last.0 > 0 && Date::now() - (run as f64) < UNREAD_MS => {}
                _ => remove(run).await,
            }
        }
        let mut said = Vec::new();
        while bounded
            && found.len() > MOST
            && let Some((_, offer)) = found.pop()
        {
            remove(offer.run).await;
            said.push(format!(
                "{MOST} stopped runs are kept at most: the oldest, on {} at step {}, is gone.",
                shown_name(&offer.origin.data),
                grouped(offer.step)
            ));
        }
        self.others = found.into_iter().map(|(_, offer)| offer).collect();
        said
    }

    /// Takes a run, and returns its newest intact checkpoint. No other tab takes that run from now on.
    ///
    /// # Errors
    /// The reason, if the storage cannot be used.
    pub(super) async fn take(&mut self, run: u64) -> Result<Option<Vec<u8>>, String> {
        if run != self.run {
            self.close();
            self.run = run;
        }
        let slots = self.open().await?;
        let (last, newest) = whole(slots);
        self.last = last;
        if let Some(at) = self.others.iter().position(|other| other.run == run) {
            self.own = Some(self.others.remove(at));
        }
        Ok(newest)
    }

    /// Begins a run: in the slots that were taken if `taken`, else in new ones.
    pub(super) fn begin(&mut self, taken: bool) {
        (self.saved, self.failed) = (Instant::now(), false);
        if !taken {
            self.close();
            (self.run, self.last) = (Date::now() as u64, (0, 1));
        }
    }

    /// Number of the run whose slots are open; 0 if none are.
    pub(super) fn held(&self) -> u64 {
        match self.open {
            Some(_) => self.run,
            None => 0,
        }
    }

    /// Tells if it is time to save.
    pub(super) fn is_due(&self) -> bool {
        self.saved.elapsed() >= EVERY
    }

    /// Saves the run.
    pub(super) async fn save(&mut self, run: &Run, origin: &Origin) -> Saved {
        self.saved = Instant::now();
        match self.write(run, origin).await {
            Ok(offer) => {
                self.failed = false;
                self.own = Some(offer);
                Saved::Yes
            }
            Err(_) if self.failed => Saved::Silent,
            Err(why) => {
                self.failed = true;
                Saved::Not(format!(
                    "This run is not being saved, and a reload would end it: {why}."
                ))
            }
        }
    }

    async fn write(&mut self, run: &Run, origin: &Origin) -> Result<Offer, String> {
        let said = |error: Error| error.to_string();
        let checkpoint = run.checkpoint(origin).await.map_err(said)?;
        let read = Checkpoint::read(&checkpoint).map_err(said)?;
        let offer = Offer::of(self.run, &read);
        let number = (Date::now() as u64).max(self.last.0.saturating_add(1));
        let place = 1 - self.last.1;
        let mut bytes = Vec::new();
        nearfar::reserve(&mut bytes, 8 + checkpoint.len() as u64, "the checkpoint")
            .map_err(said)?;
        bytes.extend(number.to_le_bytes());
        bytes.extend(checkpoint);
        let slots = self.open().await?;
        put(&slots[place], &bytes)?;
        self.last = (number, place);
        Ok(offer)
    }

    /// Deletes what was saved of a run.
    pub(super) async fn forget(&mut self, run: u64) {
        if run == self.run {
            self.close();
            self.last = (0, 1);
        }
        remove(run).await;
        self.others.retain(|other| other.run != run);
    }

    /// Closes the slots, so that other tabs can take the run.
    pub(super) fn close(&mut self) {
        if let Some(slots) = self.open.take() {
            close(slots);
        }
        if let Some(own) = self.own.take() {
            self.others.insert(0, own);
        }
    }

    async fn open(&mut self) -> Result<&Pair, String> {
        if self.open.is_none() {
            self.open = Some(opened(self.run, TRIES).await.map_err(why)?);
        }
        self.open.as_ref().ok_or_else(String::new)
    }
}

fn close(slots: Pair) {
    slots.iter().for_each(FileSystemSyncAccessHandle::close);
}

/// Calls a function of `web/worker.js`, which knows where slots are.
async fn ask(what: &str, given: &[&JsValue]) -> Result<JsValue, JsValue> {
    call(&js_sys::global(), "slots", what, given).await
}

/// Opens both slots of a run, or neither.
async fn opened(run: u64, tries: u32) -> Result<Pair, JsValue> {
    let slots = ask("open", &[&(run as f64).into(), &tries.into()]).await?;
    let slots: Array = slots.unchecked_into();
    Ok([0, 1].map(|at| slots.get(at).unchecked_into()))
}

/// Removes the slots of a run; those that another tab holds stay.
async fn remove(run: u64) {
    ask("remove", &[&(run as f64).into()]).await.ok();
}

/// The number and slot that the next write follows, and the newest intact checkpoint. The next write goes to the other slot, and so
/// never replaces the newest intact one.
fn whole(slots: &Pair) -> ((u64, usize), Option<Vec<u8>>) {
    let mut whole: Vec<(u64, usize, Vec<u8>)> = Vec::new();
    let mut last = (0, 1);
    for (place, slot) in slots.iter().enumerate() {
        let Some((number, bytes)) = read(slot) else {
            continue;
        };
        last = last.max((number, place));
        if Checkpoint::read(&bytes).is_ok() {
            whole.push((number, place, bytes));
        }
    }
    order::sort_by_key(&mut whole, |(number, ..)| *number);
    match whole.pop() {
        Some((_, place, bytes)) => ((last.0, place), Some(bytes)),
        None => (last, None),
    }
}

/// The number and the checkpoint of a slot; `None` if it has no number or cannot be read.
fn read(slot: &FileSystemSyncAccessHandle) -> Option<(u64, Vec<u8>)> {
    let size = slot.get_size().ok()?;
    let mut bytes = Vec::new();
    nearfar::reserve(&mut bytes, size as u64, "the checkpoint").ok()?;
    bytes.resize(size as usize, 0);
    let read = slot
        .read_with_u8_array_and_options(&mut bytes, &at_the_start())
        .ok()?;
    bytes.truncate(read as usize);
    let (number, _) = bytes.split_first_chunk()?;
    let number = u64::from_le_bytes(*number);
    bytes.drain(..8);
    Some((number, bytes))
}

/// Overwrites a slot with these bytes, and flushes them to the disk.
fn put(slot: &FileSystemSyncAccessHandle, bytes: &[u8]) -> Result<(), String> {
    let written = slot
        .write_with_u8_array_and_options(bytes, &at_the_start())
        .map_err(why)?;
    if written < bytes.len() as f64 {
        return Err(format!(
            "the browser's storage has no room for {}",
            Bytes(bytes.len() as u64).rounded_up()
        ));
    }
    slot.truncate_with_f64(written).map_err(why)?;
    slot.flush().map_err(why)
}

fn at_the_start() -> FileSystemReadWriteOptions {
    let options = FileSystemReadWriteOptions::new();
    options.set_at(0.0);
    options
}
