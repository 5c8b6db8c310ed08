//! Checkpoints of the page's run: two slots in the browser's private storage, which the worker writes in turn. After a reload, or
//! a worker that ended, the newest that is whole is offered: [`GoOn`].
//!
//! A slot is its number in the order of writing, 8 bytes, and a checkpoint. Writing is in place and may be torn: the checkpoint
//! carries a checksum, and the other slot stays as it is.

use js_sys::{Function, Promise, Reflect};
use leptos::prelude::*;
use nearfar::{Bytes, Checkpoint, Error, Origin, Run, TrainConfig, order};
use serde::{Deserialize, Serialize};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;
use web_sys::{
    DedicatedWorkerGlobalScope, FileSystemGetFileOptions, FileSystemReadWriteOptions,
    FileSystemSyncAccessHandle,
};
use web_time::{Duration, Instant};

use crate::plots::grouped;
use crate::protocol::{Command, as_json};
use crate::session::Session;
use crate::source::{Reading, Source, shown_name};
use crate::state::{Phase, State};

const SLOTS: [&str; 2] = ["checkpoint-1.bin", "checkpoint-2.bin"];
/// How often a run is saved.
const EVERY: Duration = Duration::from_secs(30);
/// How often the slots are tried, a moment apart: the worker of a page that was just left may still hold them.
const TRIES: u32 = 10;
const MOMENT_MS: i32 = 50;

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
}

impl Offer {
    pub(crate) fn of(checkpoint: &Checkpoint<'_>) -> Self {
        Self {
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

/// The slots, as the worker holds them.
#[derive(Debug)]
pub(crate) struct Slots {
    /// Open while a run is there: no other tab can write them then.
    open: Option<[FileSystemSyncAccessHandle; 2]>,
    /// The number of the last one that was written, and which slot it is in.
    last: (u64, usize),
    /// Whether the other slot is of an earlier run.
    stale: bool,
    saved: Instant,
    /// Whether it was said that nothing is saved.
    failed: bool,
}

impl Default for Slots {
    fn default() -> Self {
        Self {
            open: None,
            last: (0, 1),
            stale: false,
            saved: Instant::now(),
            failed: false,
        }
    }
}

/// What saving came to.
pub(crate) enum Saved {
    /// It was saved.
    As(Box<Offer>),
    /// It was not, which is said once.
    Not(String),
    /// There is nothing to say.
    Silent,
}

impl Slots {
    /// The newest checkpoint that is whole.
    ///
    /// # Errors
    /// Why the storage cannot be used.
    pub(crate) async fn newest(&mut self) -> Result<Option<Vec<u8>>, String> {
        let slots = self.open().await?;
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
        let newest = whole.pop();
        // The next one goes to the other slot: never in the place of the newest that is whole.
        self.last = newest
            .as_ref()
            .map_or(last, |(_, place, _)| (last.0, *place));
        Ok(newest.map(|(.., bytes)| bytes))
    }

    /// What can be gone on with.
    pub(crate) async fn offer(&mut self) -> Option<Offer> {
        let newest = self.newest().await.ok().flatten();
        self.close();
        Some(Offer::of(&Checkpoint::read(&newest?).ok()?))
    }

    /// A run begins, anew or where it was saved.
    pub(crate) fn begin(&mut self, anew: bool) {
        (self.saved, self.stale, self.failed) = (Instant::now(), anew, false);
    }

    /// Whether they are those of the run that is there.
    pub(crate) fn are_held(&self) -> bool {
        self.open.is_some()
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
                Saved::As(Box::new(offer))
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
        let offer = Offer::of(&Checkpoint::read(&checkpoint).map_err(said)?);
        if self.open.is_none() {
            self.newest().await?;
        }
        let (number, place) = (self.last.0.saturating_add(1), 1 - self.last.1);
        let mut bytes = Vec::new();
        nearfar::reserve(&mut bytes, 8 + checkpoint.len() as u64, "the checkpoint")
            .map_err(said)?;
        bytes.extend(number.to_le_bytes());
        bytes.extend(checkpoint);
        let stale = self.stale;
        let slots = self.open().await?;
        put(&slots[place], &bytes)?;
        if stale {
            slots[1 - place].truncate_with_f64(0.0).map_err(why)?;
        }
        (self.last, self.stale) = ((number, place), false);
        Ok(offer)
    }

    /// Forgets what was saved.
    pub(crate) async fn clear(&mut self) {
        if let Ok(slots) = self.open().await {
            for slot in slots {
                slot.truncate_with_f64(0.0).ok();
                slot.flush().ok();
            }
        }
        self.close();
    }

    /// Lets other tabs have them.
    pub(crate) fn close(&mut self) {
        for slot in self.open.take().into_iter().flatten() {
            slot.close();
        }
    }

    async fn open(&mut self) -> Result<&[FileSystemSyncAccessHandle; 2], String> {
        let mut tries = 1;
        while self.open.is_none() {
            match open().await {
                Ok(slots) => self.open = Some(slots),
                Err(error) if name(&error) == "NoModificationAllowedError" => {
                    if tries == TRIES {
                        return Err("another tab of this page saves its own".to_owned());
                    }
                    tries += 1;
                    a_moment().await;
                }
                Err(error) => return Err(why(error)),
            }
        }
        self.open.as_ref().ok_or_else(String::new)
    }
}

/// Opens both slots, or neither.
async fn open() -> Result<[FileSystemSyncAccessHandle; 2], JsValue> {
    let scope: DedicatedWorkerGlobalScope = js_sys::global().unchecked_into();
    let navigator = scope.navigator();
    // Not everywhere, and only over https.
    let storage = Reflect::get(&navigator, &"storage".into())?;
    let folder = call(&storage, "getDirectory").await?;
    let options = FileSystemGetFileOptions::new();
    options.set_create(true);
    let mut slots = Vec::new();
    for name in SLOTS {
        let folder: &web_sys::FileSystemDirectoryHandle = folder.unchecked_ref();
        let file = JsFuture::from(folder.get_file_handle_with_options(name, &options)).await?;
        match call(&file, "createSyncAccessHandle").await {
            Ok(slot) => slots.push(slot.unchecked_into::<FileSystemSyncAccessHandle>()),
            Err(error) => {
                slots.iter().for_each(FileSystemSyncAccessHandle::close);
                return Err(error);
            }
        }
    }
    <[_; 2]>::try_from(slots).map_err(|_| JsValue::NULL)
}

/// Calls a method that this browser may not have, and waits for it.
async fn call(on: &JsValue, name: &str) -> Result<JsValue, JsValue> {
    let method = match on.is_object() {
        true => Reflect::get(on, &name.into())?.dyn_into::<Function>().ok(),
        false => None,
    };
    let method = method.ok_or_else(|| {
        let text = "the browser gives this page no private storage (it takes https, and no private window)";
        JsValue::from(js_sys::Error::new(text))
    })?;
    let promise: Promise = method.call0(on)?.unchecked_into();
    JsFuture::from(promise).await
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

fn name(error: &JsValue) -> String {
    let name = Reflect::get(error, &"name".into()).ok();
    name.and_then(|name| name.as_string()).unwrap_or_default()
}

/// What a browser says went wrong.
#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn why(error: JsValue) -> String {
    if name(&error) == "QuotaExceededError" {
        return "the browser's storage for this page is full".to_owned();
    }
    let message = Reflect::get(&error, &"message".into()).ok();
    let message = message.and_then(|message| message.as_string());
    let message = message.filter(|message| !message.is_empty());
    message.unwrap_or_else(|| "the browser's private storage does not answer".to_owned())
}

async fn a_moment() {
    let scope: DedicatedWorkerGlobalScope = js_sys::global().unchecked_into();
    let waited = Promise::new(&mut |resolve, _| {
        scope
            .set_timeout_with_callback_and_timeout_and_arguments_0(&resolve, MOMENT_MS)
            .ok();
    });
    JsFuture::from(waited).await.ok();
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
        self.state.config.set(offer.config.clone());
        self.state.stage.set(Phase::Starting);
        let opened = self.state.runs.opening();
        self.send(&Command::GoOn, opened.as_slice());
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
        // A run that was kept stays so. What was saved is offered until the worker says that it is gone.
        if state.runs.leave() || state.is_dead() {
            state.offer.set(None);
        } else {
            session.send(&Command::Forget, &[]);
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
