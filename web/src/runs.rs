//! *Runs*: every run of this page, kept in the browser's storage. A table lists them, all plots can show several of them, and any
//! can be opened again.

mod table;

use std::time::Duration;

use js_sys::{Array, Date, Uint8Array};
use leptos::prelude::*;
use nearfar::{
    Baseline, Bytes, DataReport, Evaluation, Metrics, Origin, Scores, StepReport, TrainConfig,
    order,
};
use serde::{Deserialize, Serialize};
use wasm_bindgen::JsValue;
use wasm_bindgen_futures::spawn_local;
use web_sys::File;

use crate::checkpoints::Offer;
use crate::kept::why;
use crate::knobs;
use crate::plots::grouped;
use crate::protocol::Command;
use crate::session::Session;
use crate::shelf;
use crate::state::{Curves, State, View};

pub(crate) use table::Table;

/// Number of a run's step reports that are kept for the plots, about.
const STEPS: usize = 128;
/// Time between attempts to keep what was not kept: a browser takes a while to free the room of what was deleted.
const ROOM_COMES: Duration = Duration::from_secs(10);
/// Colours of the runs that all plots show at once, one for each run.
pub(crate) const COLORS: [&str; 5] = ["run0", "run1", "run2", "run3", "run4"];

/// A run that was kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct KeptRun {
    /// Start of the run, in milliseconds since 1970: its number on the shelf.
    pub(crate) id: f64,
    /// Name that the person gave it; empty if it goes by its settings.
    name: String,
    /// The run stays at the top of the table.
    pinned: bool,
    origin: Origin,
    config: TrainConfig,
    /// The settings that differ from those that suit the data, with their values.
    differences: Vec<(String, String)>,
    data: DataReport,
    history: Vec<StepReport>,
    evaluations: Vec<Evaluation>,
    baseline: Baseline,
    scores: Option<Scores>,
    verdict: Option<String>,
    elapsed_ms: f64,
    peak_bytes: u64,
}

/// The signals of the kept runs.
#[derive(Clone, Copy)]
pub(crate) struct Runs {
    /// The kept runs: pinned ones first, then the newest.
    list: RwSignal<Vec<KeptRun>>,
    /// Checkpoints of the runs, by number.
    files: StoredValue<Vec<(f64, File)>, LocalStorage>,
    /// Numbers of the runs that all plots show, in the order of their colours.
    ticked: RwSignal<Vec<f64>>,
    /// Number of the run on the page.
    current: RwSignal<f64>,
    /// Number of the run that is being opened.
    opening: RwSignal<Option<f64>>,
    /// Bytes of each run on the shelf, by number.
    sizes: RwSignal<Vec<(f64, f64)>>,
    /// Numbers of the runs whose current state is not on the shelf: it is gone with the page.
    unkept: RwSignal<Vec<f64>>,
    /// Why runs are not kept; `None` if all is well.
    why: RwSignal<Option<String>>,
}

impl KeptRun {
    /// The run on the page, as it is kept.
    fn of(id: f64, curves: &Curves, origin: Origin, suited: &TrainConfig) -> Self {
        let every = curves.history.iter().count().div_ceil(STEPS).max(1);
        let last = curves.history.last().map(|report| report.step);
        let kept = curves.history.iter().enumerate();
        let kept = kept.filter(|(place, report)| place % every == 0 || Some(report.step) == last);
        let mut config = curves.config.clone();
        // The seed of the data is the data's, and no difference of settings.
        config.data_seed = suited.data_seed;
        Self {
            id,
            name: String::new(),
            pinned: false,
            origin,
            differences: config.differences(suited),
            config: curves.config.clone(),
            data: curves.data.clone(),
            history: kept.map(|(_, report)| report.clone()).collect(),
            evaluations: curves.evaluations.clone(),
            baseline: curves.baseline,
            scores: curves.scores,
            verdict: curves.verdict.clone(),
            elapsed_ms: curves.elapsed_ms,
            peak_bytes: curves.memory.peak_bytes,
        }
    }

    /// Curves of the run, for the plots.
    pub(crate) fn curves(&self) -> Curves {
        let mut curves = Curves {
            config: self.config.clone(),
            data: self.data.clone(),
            evaluations: self.evaluations.clone(),
            baseline: self.baseline,
            scores: self.scores,
            verdict: self.verdict.clone(),
            elapsed_ms: self.elapsed_ms,
            ..Curves::default()
        };
        let reports = self.history.iter().cloned();
        reports.for_each(|report| curves.history.push(report));
        curves.memory.peak_bytes = self.peak_bytes;
        curves
    }

    /// Its settings in a few words.
    fn settings(&self) -> String {
        let words = self
            .differences
            .iter()
            .map(|(key, value)| knobs::said(key, value));
        let words: Vec<String> = words.collect();
        match &words[..] {
            [] => "default settings".to_owned(),
            words => words.join(", "),
        }
    }

    /// Name of the run, or else its settings.
    pub(crate) fn title(&self) -> String {
        match self.name.as_str() {
            "" => self.settings(),
            name => name.to_owned(),
        }
    }

    /// Steps done.
    fn step(&self) -> u64 {
        self.history.last().map_or(0, |report| report.step)
    }

    /// The scores of the test side; of the last validation if the run was stopped before.
    fn metrics(&self) -> Option<Metrics> {
        let last = self.evaluations.last().and_then(|last| last.validation);
        self.scores.and_then(|scores| scores.test).or(last)
    }

    /// Text of the run on the shelf, as JSON.
    fn text(&self) -> String {
        serde_json::to_string(self).expect("a run is plain data")
    }
}

impl Runs {
    pub(crate) fn new() -> Self {
        Self {
            list: RwSignal::new(Vec::new()),
            files: StoredValue::new_local(Vec::new()),
            ticked: RwSignal::new(Vec::new()),
            current: RwSignal::new(0.0),
            opening: RwSignal::new(None),
            sizes: RwSignal::new(Vec::new()),
            unkept: RwSignal::new(Vec::new()),
            why: RwSignal::new(None),
        }
    }

    /// Begins a run: a new one, or the kept one that was being opened.
    pub(crate) fn begin(&self) {
        let opened = self.opening.try_update(Option::take).flatten();
        self.current.set(opened.unwrap_or_else(Date::now));
    }

    /// Tells if a kept run is being opened.
    pub(crate) fn is_opening(&self) -> bool {
        self.opening.read().is_some()
    }

    /// The checkpoint of the run that is being opened, if there is one.
    pub(crate) fn opening(&self) -> Option<File> {
        let id = self.opening.get_untracked()?;
        self.file(id)
    }

    /// Gives up opening a run; tells if one was being opened.
    pub(crate) fn leave(&self) -> bool {
        self.opening.try_update(Option::take).flatten().is_some()
    }

    /// Results of `of` for the runs that all plots show beside the run on the page, each with its colour.
    pub(crate) fn beside<T>(&self, of: impl Fn(&KeptRun) -> T) -> Vec<(&'static str, T)> {
        let (list, ticked) = (self.list.read(), self.ticked.read());
        let current = self.current.get();
        let shown = ticked.iter().zip(COLORS).filter(|(id, _)| **id != current);
        let found = shown.filter_map(|(id, color)| {
            let run = list.iter().find(|run| run.id == *id)?;
            Some((color, of(run)))
        });
        found.collect()
    }

    fn file(&self, id: f64) -> Option<File> {
        let files = self.files.read_value();
        files
            .iter()
            .find(|(of, _)| *of == id)
            .map(|(_, file)| file.clone())
    }

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
                files.retain(|(of, _)| *of != id);
                files.push((id, file.clone()));
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
            let put = shelf::put(id, &kept).await;
            self.unkept.update(|unkept| {
                unkept.retain(|other| *other != id);
                if put.is_err() {
                    unkept.push(id);
                }
            });
            if let Some((session, saved)) = saved {
                // A run that cannot be kept can still be resumed from its last save.
                session.send(
                    &put.as_ref()
                        .map_or(Command::FindSaved, |_| Command::Forget(saved)),
                    &[],
                );
            }
            match put {
                Ok(_) => self.sizes.update(|sizes| {
                    sizes.retain(|(of, _)| *of != id);
                    sizes.push((id, kept.bytes()));
                }),
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
        if !untrack(|| self.state.can_run()) {
            return;
        }
        let offer = Offer {
            step: run.step(),
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

    /// Resumes a run as soon as its data is there.
    fn open(&self, id: f64, offer: Offer) {
        self.state.runs.opening.set(Some(id));
        self.state.offer.set(Some(offer));
        self.state.view.set(View::Run);
        self.go_on();
    }

    /// Resumes a run that was stopped on the way.
    fn go_on_with(&self, offer: &Offer) {
        if untrack(|| self.state.can_run()) {
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
