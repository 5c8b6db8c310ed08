//! *Runs*: every run of this page, kept in the browser's storage. A table lists them, all plots can show several of them, and any
//! can be opened again.

mod table;

use std::time::Duration;

use js_sys::{Array, Date, Uint8Array};
use leptos::prelude::*;
use nearfar::{Bytes, Origin, order};
use wasm_bindgen::JsValue;
use wasm_bindgen_futures::spawn_local;
use web_sys::File;

use crate::kept::why;
use crate::offer::Offer;
use crate::protocol::Command;
use crate::session::Session;
use crate::shelf;
use crate::state::{KeptRun, Phase, Runs, State, View};
use crate::words::grouped;

pub(crate) use table::Table;

/// Time between attempts to keep what was not kept: a browser takes a while to free the room of what was deleted.
const ROOM_COMES: Duration = Duration::from_secs(10);

impl Runs {
    /// Reads the shelf, which another tab may have changed.
    fn look(self) {
        spawn_local(async move {
            let kept = match shelf::all().await {
                Ok(kept) => kept,
                Err(error) => return self.why.set(Some(why(error))),
            };
            let mut list = Vec::new();
            let mut files = Vec::new();
            let mut sizes = Vec::new();
            for kept in kept {
                // A run of another version is left where it is.
                if let Ok(run) = serde_json::from_str::<KeptRun>(&kept.text) {
                    sizes.push((run.id, kept.bytes()));
                    files.extend(kept.file.map(|file| (run.id, file)));
                    list.push(run);
                }
            }
            // Runs that are not kept stay as they are on the page.
            let unkept = self.unkept.get_untracked();
            if unkept.is_empty() {
                self.why.set(None);
            }
            let is_kept = |id: &f64| !unkept.contains(id);
            list.retain(|run| is_kept(&run.id));
            files.retain(|(id, _)| is_kept(id));
            let here = self.list.get_untracked().into_iter();
            list.extend(here.filter(|run| !is_kept(&run.id)));
            self.files.update_value(|before| {
                before.retain(|(id, _)| !is_kept(id));
                before.extend(files);
            });
            sort(&mut list);
            self.list.set(list);
            self.sizes.set(sizes);
            self.try_again();
        });
    }

    /// Puts a run in the list and on the shelf; once it is there, the worker deletes the `saved` run.
    fn keep(self, run: KeptRun, file: Option<File>, saved: Option<(Session, u64)>) {
        let id = run.id;
        self.files.update_value(|files| {
            if let Some(file) = &file {
                put(files, id, file.clone());
            }
        });
        let kept = shelf::Kept {
            text: run.text(),
            file: file.or_else(|| self.file(id)),
        };
        self.list.update(|list| {
            list.retain(|other| other.id != id);
            list.push(run);
            sort(list);
        });
        spawn_local(async move {
            let answer = shelf::put(id, &kept).await;
            self.unkept.update(|unkept| {
                unkept.retain(|other| *other != id);
                if answer.is_err() {
                    unkept.push(id);
                }
            });
            if let Some((session, saved)) = saved {
                // A run that cannot be kept can still be resumed from its last save.
                let command = match &answer {
                    Ok(_) => Command::Forget(saved),
                    Err(_) => Command::FindSaved,
                };
                session.send(&command, &[]);
            }
            match answer {
                Ok(_) => self.sizes.update(|sizes| put(sizes, id, kept.bytes())),
                Err(error) => self.why.set(Some(why(error))),
            }
        });
    }

    /// Tries again to keep the runs that could not be kept.
    fn try_again(self) {
        for id in self.unkept.get_untracked() {
            self.change(id, |_| ());
        }
    }

    /// Changes a run, in the list and on the shelf.
    fn change(self, id: f64, change: impl FnOnce(&mut KeptRun)) {
        let run = self
            .list
            .with_untracked(|list| list.iter().find(|run| run.id == id).cloned());
        if let Some(mut run) = run {
            change(&mut run);
            self.keep(run, None, None);
        }
    }

    fn remove(self, id: f64) {
        self.list.update(|list| list.retain(|run| run.id != id));
        self.ticked
            .update(|ticked| ticked.retain(|other| *other != id));
        self.files
            .update_value(|files| files.retain(|(of, _)| *of != id));
        self.unkept.update(|unkept| unkept.retain(|of| *of != id));
        self.sizes.update(|sizes| sizes.retain(|(of, _)| *of != id));
        spawn_local(async move {
            shelf::remove(id).await.ok();
            self.try_again();
        });
        for times in 1..4 {
            set_timeout(move || self.try_again(), times * ROOM_COMES);
        }
    }

    /// The older half of the runs on the shelf that are neither pinned nor on the page, and their bytes.
    fn old(&self) -> (Vec<f64>, f64) {
        let (list, sizes, unkept) = (self.list.read(), self.sizes.read(), self.unkept.read());
        let current = self.current.get();
        let runs = list.iter().filter(|run| !run.pinned && run.id != current);
        let mut old = Vec::new();
        for run in runs.filter(|run| !unkept.contains(&run.id)) {
            old.extend(sizes.iter().filter(|(id, _)| *id == run.id));
        }
        // The newest come first.
        old.drain(..old.len() / 2);
        let bytes = old.iter().map(|(_, bytes)| bytes).sum();
        (old.into_iter().map(|(id, _)| id).collect(), bytes)
    }

    /// Number and bytes of the runs on the shelf, in words.
    fn taken(&self) -> String {
        let sizes = self.sizes.read();
        let bytes = Bytes(sizes.iter().map(|(_, bytes)| *bytes as u64).sum());
        match sizes.len() {
            1 => format!("One kept run takes {bytes}"),
            runs => format!("{} kept runs take {bytes}", grouped(runs as u64)),
        }
    }
}

/// Puts the value of a run in the place of the one before.
fn put<T>(list: &mut Vec<(f64, T)>, id: f64, value: T) {
    list.retain(|(of, _)| *of != id);
    list.push((id, value));
}

/// Sorts runs: pinned ones first, then the newest.
fn sort(list: &mut Vec<KeptRun>) {
    order::sort_by(list, |a, b| {
        b.pinned.cmp(&a.pinned).then(b.id.total_cmp(&a.id))
    });
}

impl Session {
    /// Keeps the run on the page; `parts` are those of the worker's message, the checkpoint among them.
    pub(crate) fn keep_run(&self, origin: Origin, saved: u64, parts: &Array) {
        let State {
            runs,
            curves,
            data,
            offer,
            ..
        } = self.state;
        // The saved run is offered no more, unless the run cannot be kept.
        let is_own = |offer: &Option<Offer>| offer.as_ref().is_some_and(|offer| offer.run == saved);
        if saved > 0 && offer.with_untracked(is_own) {
            offer.set(None);
        }
        let id = runs.current.get_untracked();
        let suited =
            data.with_untracked(|data| data.as_ref().map(|data| data.default_config.clone()));
        let mut run = curves
            .with_untracked(|curves| KeptRun::of(id, curves, origin, &suited.unwrap_or_default()));
        // The name and the pin that the person gave it stay.
        runs.list.with_untracked(|list| {
            if let Some(before) = list.iter().find(|before| before.id == id) {
                (run.name, run.pinned) = (before.name.clone(), before.pinned);
            }
        });
        let saved = (saved > 0).then_some((*self, saved));
        runs.keep(run, checkpoint_file(parts), saved);
    }

    /// Opens a kept run again as it was, with its map, its neighbours and what can be exported.
    fn reopen(&self, run: &KeptRun) {
        if self.is_hindered() {
            return;
        }
        let offer = Offer {
            step: run.step(),
            is_over: run.scores.is_some(),
            origin: run.origin.clone(),
            rows: run.data.rows,
            config: run.config.clone(),
            run: 0,
        };
        self.open(run.id, offer);
    }

    /// Opens an exported run; `parts` are those of the worker's message, the checkpoint among them.
    pub(crate) fn open_saved(&self, offer: Offer, parts: &Array) {
        let id = Date::now();
        if let Some(file) = checkpoint_file(parts) {
            let runs = self.state.runs;
            runs.files.update_value(|files| files.push((id, file)));
            self.open(id, offer);
        }
    }

    /// Tells if no kept run can be opened now, and says why.
    fn is_hindered(&self) -> bool {
        let state = self.state;
        let without_data = || state.data.read().is_none() && state.phase.get() != Phase::Loading;
        let can =
            untrack(|| state.no_engine.read().is_none() && (state.can_run() || without_data()));
        if !can {
            let why = match untrack(|| state.is_busy()) {
                true => {
                    "A run is under way: pause it, or wait for its end, and open the other one then."
                }
                false => "The page is still busy: open the run in a moment.",
            };
            state.notice.set(Some(why.to_owned()));
            state.view.set(View::Run);
        }
        !can
    }

    /// Resumes a run as soon as its data is there.
    fn open(&self, id: f64, offer: Offer) {
        // What a link waits for is not what this run needs.
        self.state.notice.set(None);
        self.state.runs.opening.set(Some(id));
        self.state.offer.set(Some(offer));
        self.state.view.set(View::Run);
        self.go_on();
    }

    /// Resumes a run that was stopped on the way.
    fn go_on_with(&self, offer: &Offer) {
        if !self.is_hindered() {
            self.open(offer.run as f64, offer.clone());
        }
    }

    /// Makes the settings of a run those of the next run.
    fn use_run(&self, run: &KeptRun) {
        self.state.config.set(run.config.clone());
        self.state.view.set(View::Run);
        self.state.notice.set(Some(
            "The settings of that run are in place: press Run.".to_owned(),
        ));
    }
}

/// Reads the shelf, and has the worker look for stopped runs, whenever the table is shown.
pub(crate) fn start(session: Session) {
    let State { view, runs, .. } = session.state;
    let look = move || {
        if view.get() == View::Runs {
            runs.look();
            session.send(&Command::FindSaved, &[]);
        }
    };
    Effect::new(look);
    // The runs that an earlier version of the page kept have come.
    window_event_listener_untyped("nearfar-kept", move |_| untrack(look));
}

/// Notice of the runs that are not kept: why, and what can be done. It stays until that is done.
#[component]
pub(crate) fn Unkept(state: State, session: Session) -> impl IntoView {
    let runs = state.runs;
    let text = Memo::new(move |_| {
        let unkept = runs.unkept.read().len();
        let why = runs.why.get().unwrap_or_default();
        let what = match unkept {
            0 => return state.unsaved.get(),
            1 => format!("A run is not kept, and is gone when this page is closed: {why}."),
            _ => {
                format!("{unkept} runs are not kept, and are gone when this page is closed: {why}.")
            }
        };
        Some(what)
    });
    move || {
        text.get().map(|text| {
            let taken = move || format!(" {}.", runs.taken());
            view! {
                <p class="notice" data-testid="unkept">
                    <span>{text} {taken}</span>
                    <span class="doings">
                        <button data-testid="see-runs" on:click=move |_| state.view.set(View::Runs)>"Make room in Runs"</button>
                        <button data-testid="take-it-home" on:click=move |_| session.take_home()>"Take home"</button>
                    </span>
                </p>
            }
        })
    }
}

/// The checkpoint that came with a message, as the shelf keeps it.
fn checkpoint_file(parts: &Array) -> Option<File> {
    let bytes = Array::of1(&Uint8Array::new(&parts.get(1)));
    File::new_with_u8_array_sequence(&bytes, "run.bin").ok()
}

/// Date and time of a run, as they are written in the browser's language.
fn date(id: f64) -> String {
    let date = Date::new(&JsValue::from_f64(id));
    let options = js_sys::Object::new();
    for (key, value) in [("dateStyle", "short"), ("timeStyle", "short")] {
        js_sys::Reflect::set(&options, &key.into(), &value.into()).ok();
    }
    date.to_locale_string("default", &options).into()
}
