//! Checkpoints of the page's runs: two slots for each run in the browser's private storage, which the worker writes in turn. After
//! a reload, or a worker that ended, the runs that no tab has are found: the newest is offered ([`GoOn`]), the others under Runs.
//!
//! A slot is a number, 8 bytes, and a checkpoint. The number is when it was written, in milliseconds since 1970, and never below
//! the one before. Writing is in place and may be torn: the checkpoint carries a checksum, and the other slot stays as it is.

use js_sys::{Array, Date};
use leptos::prelude::*;
use nearfar::{Bytes, Checkpoint, Error, Origin, Run, TrainConfig, order};
use serde::{Deserialize, Serialize};
use wasm_bindgen::prelude::*;
use web_sys::{FileSystemReadWriteOptions, FileSystemSyncAccessHandle};
use web_time::{Duration, Instant};

use crate::kept::{call, why};
use crate::plots::grouped;
use crate::protocol::{Command, as_json};
use crate::session::Session;
use crate::source::{Reading, Source, shown_name};
use crate::state::{Phase, State};

/// The run of an earlier version of the page, which had one at a time, at the top of the storage of all folders of the host.
pub(crate) const EARLIER: u64 = 1;
/// Stopped runs that are kept at most: the oldest goes first.
const MOST: usize = 5;
/// How often a run is saved.
const EVERY: Duration = Duration::from_secs(30);
/// For so long, a month, a run stays that cannot be read.
const UNREAD_MS: f64 = 30.0 * 86_400_000.0;
/// How often slots are tried: the worker of a page that was just left may still hold them.
pub(crate) const TRIES: u32 = 10;

/// A run that can be gone on with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Offer {
    /// Steps done.
    pub(crate) step: u64,
    /// The data, as it is called, and the column of its labels.
    pub(crate) origin: Origin,
    /// Rows of the data.
    pub(crate) rows: usize,
    /// The settings.
    #[serde(with = "as_json")]
    pub(crate) config: TrainConfig,
    /// The run whose slots it is in: when it began, in milliseconds since 1970. 0 where it comes from a file.
    pub(crate) run: u64,
}

impl Offer {
    pub(crate) fn of(run: u64, checkpoint: &Checkpoint<'_>) -> Self {
        Self {
            run,
            step: checkpoint.step(),
            origin: checkpoint.origin().clone(),
            rows: checkpoint.rows(),
            config: checkpoint.config().clone(),
        }
    }

    /// How its files were read.
    fn reading(&self) -> Reading {
        Reading {
            label: self.origin.labels.clone(),
            missing: self.origin.missing,
            columns: self.origin.columns.clone(),
        }
    }

    /// The sample that it was on, if it was one.
    fn sample(&self) -> Option<&str> {
        self.origin.data.strip_prefix("sample:")
    }
}

/// The two slots of a run.
type Pair = [FileSystemSyncAccessHandle; 2];

/// The slots, as the worker holds them.
#[derive(Debug)]
pub(crate) struct Slots {
    /// The run that is there, or was last.
    run: u64,
    /// Its slots: open from the first time that it is saved, so that no other tab takes it.
    open: Option<Pair>,
    /// The number of the last one that was written, and which slot it is in.
    last: (u64, usize),
    saved: Instant,
    /// Whether it was said that nothing is saved.
    failed: bool,
    /// The run that is there, as it was saved last.
    own: Option<Offer>,
    /// Other runs that can be gone on with, the newest first.
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

/// What saving came to.
pub(crate) enum Saved {
    /// It was saved.
    Yes,
    /// It was not, which is said once.
    Not(String),
    /// There is nothing to say.
    Silent,
}

impl Slots {
    /// What can be gone on with, and whether the first of it is the run that is there.
    pub(crate) fn offers(&self) -> (Vec<Offer>, bool) {
        let all = self.own.iter().chain(&self.others);
        (all.cloned().collect(), self.own.is_some())
    }

    /// Looks for the runs that no tab has. Where they are `bounded` and too many, the oldest are forgotten, which is to be said.
    pub(crate) async fn find(&mut self, mut tries: u32, bounded: bool) -> Vec<String> {
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
                // Another tab has it: long enough was waited.
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
                // Another version of the page may read it, and come back.
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

    /// The newest checkpoint of a run that is whole. No other tab takes that run from now on.
    ///
    /// # Errors
    /// Why the storage cannot be used.
    pub(crate) async fn take(&mut self, run: u64) -> Result<Option<Vec<u8>>, String> {
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

    /// A run begins: `taken` where its slots were, else it has new ones.
    pub(crate) fn begin(&mut self, taken: bool) {
        (self.saved, self.failed) = (Instant::now(), false);
        if !taken {
            self.close();
            (self.run, self.last) = (Date::now() as u64, (0, 1));
        }
    }

    /// The run that is there, or was last; 0 where nothing of it is saved.
    pub(crate) fn held(&self) -> u64 {
        match self.open {
            Some(_) => self.run,
            None => 0,
        }
    }

    /// Whether it is time to save.
    pub(crate) fn is_due(&self) -> bool {
        self.saved.elapsed() >= EVERY
    }

    /// Saves the run.
    pub(crate) async fn save(&mut self, run: &Run, origin: &Origin) -> Saved {
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

    /// Forgets what was saved of a run.
    pub(crate) async fn forget(&mut self, run: u64) {
        if run == self.run {
            self.close();
            self.last = (0, 1);
        }
        remove(run).await;
        self.others.retain(|other| other.run != run);
    }

    /// Lets other tabs have them.
    pub(crate) fn close(&mut self) {
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

/// Asks `web/worker.js`, which knows where slots are.
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

/// The newest checkpoint that is whole, and what the next one follows: it goes to the other slot, never in the place of the newest
/// that is whole.
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

/// The number and the checkpoint of a slot, as far as they are there.
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

/// Makes these bytes the content of a slot, and sees them to the disk.
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

impl Session {
    /// Whether the page has the data of what is offered, read as it was then.
    fn has_data_of(&self, offer: &Offer) -> bool {
        self.has_file_of(offer, true)
    }

    /// Whether the data on the page has the name of what is offered, and was read as that was, or otherwise.
    fn has_file_of(&self, offer: &Offer, likewise: bool) -> bool {
        let Origin {
            data,
            labels,
            missing,
            ..
        } = &offer.origin;
        self.state.data.read().as_ref().is_some_and(|here| {
            let same = here.label_column == *labels && here.missing == *missing;
            here.name == *data && same == likewise && (!same || here.rows == offer.rows)
        })
    }

    /// Where the data of what is offered comes from without the person, where it is not on the page.
    fn source_of(&self, offer: &Offer) -> Option<Source> {
        if let Some(sample) = offer.sample() {
            return Some(Source::Sample(sample.to_owned()));
        }
        let (files, _) = self
            .held_files()
            .filter(|_| self.has_file_of(offer, false))?;
        Some(Source::Files(files, offer.reading()))
    }

    /// Whether what is offered can be gone on with at once.
    fn can_go_on(&self, offer: &Offer) -> bool {
        self.has_data_of(offer) || self.source_of(offer).is_some()
    }

    /// Goes on with what is offered.
    pub(crate) fn go_on(&self) {
        let Some(offer) = self.state.offer.get_untracked() else {
            return;
        };
        let here = untrack(|| self.has_data_of(&offer));
        if here && !untrack(|| self.state.is_dead()) {
            self.go_on_here(&offer);
        } else if here {
            self.go_on_next.set_value(true);
            self.ask_again();
        } else if let Some(source) = untrack(|| self.source_of(&offer)) {
            self.go_on_next.set_value(true);
            self.ask(source, Some(Vec::new()));
        }
    }

    /// Whether what is offered waits for a file that the person has to choose again.
    pub(crate) fn waits_for_file(&self) -> bool {
        let offer = self.state.offer.get_untracked();
        offer.is_some_and(|offer| !untrack(|| self.can_go_on(&offer)))
    }

    /// Data came: goes on where that was asked for, or where it is the file that was `waited` for.
    pub(crate) fn go_on_with_data(&self, waited: bool) {
        let asked = self.go_on_next.try_update_value(std::mem::take) == Some(true);
        let Some(offer) = self.state.offer.get_untracked() else {
            return;
        };
        if asked || waited && untrack(|| self.has_data_of(&offer)) {
            self.go_on_here(&offer);
        }
    }

    fn go_on_here(&self, offer: &Offer) {
        self.state.forgive();
        self.state.notice.set(None);
        self.state.aside.set(None);
        self.state.config.set(offer.config.clone());
        self.state.stage.set(Phase::Starting);
        let opened = self.state.runs.opening();
        self.send(&Command::GoOn(offer.run), opened.as_slice());
    }

    /// How the files of these names are read where a run waits for one of them.
    pub(crate) fn reading_waited_for(&self, names: &[String]) -> Option<Reading> {
        let offer = self.state.offer.get_untracked()?;
        let waits = names.contains(&offer.origin.data);
        waits.then(|| offer.reading())
    }
}

/// Offers to go on with the run that was saved, where none is there.
#[component]
pub(crate) fn GoOn(state: State, session: Session) -> impl IntoView {
    let offered = Memo::new(move |_| {
        let free = match state.phase.get() {
            Phase::Ready | Phase::Dead => true,
            // Its results stay on the page until the kept run is there.
            Phase::Finished => state.runs.is_opening(),
            _ => false,
        };
        state.offer.get().filter(|_| free)
    });
    let forget = move |_| {
        let run = state.offer.get_untracked().map_or(0, |offer| offer.run);
        // A run that was kept stays so. What was saved is offered until the worker says that it is gone.
        state.runs.leave();
        if run == 0 || state.is_dead() {
            state.offer.set(None);
        } else {
            session.send(&Command::Forget(run), &[]);
        }
    };
    move || {
        offered.get().map(|offer| {
            let name = shown_name(&offer.origin.data);
            let (step, steps) = (grouped(offer.step), grouped(offer.config.steps));
            let is_over = offer.step == offer.config.steps;
            let button = session.can_go_on(&offer);
            let text = match (button, is_over) {
                (true, true) => format!("Show the run of {steps} steps on {name}?"),
                (true, false) => format!("Go on from step {step} of {steps} of {name}?"),
                (false, _) => {
                    let rows = grouped(offer.rows as u64);
                    let then = match is_over {
                        true => "to see it again",
                        false => "and it goes on",
                    };
                    format!("A run on {name} ({rows} rows) was saved at step {step} of {steps}: choose that file again {then}.")
                }
            };
            let go_on = if is_over { "Show it" } else { "Go on" };
            view! {
                <p class="notice" data-testid="saved-run">
                    <span>{text}</span>
                    <button data-testid="go-on" hidden=!button on:click=move |_| session.go_on()>{go_on}</button>
                    <button class="quiet" data-testid="forget" on:click=forget>"Forget it"</button>
                </p>
            }
        })
    }
}

/// Has the run saved when the page is hidden: it may never be seen again.
pub(crate) fn save_when_hidden(state: State, session: Session) {
    window_event_listener_untyped("visibilitychange", move |_| {
        if document().hidden() && untrack(|| state.has_run()) {
            session.send(&Command::Save, &[]);
        }
    });
}
