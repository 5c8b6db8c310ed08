//! *Runs*: every run of this page, kept in the browser's storage: a table, a look at several at once, and any of them opened again.

mod table;

use js_sys::{Array, Date, Uint8Array};
use leptos::prelude::*;
use nearfar::{
    Baseline, DataReport, Evaluation, Metrics, Origin, Scores, StepReport, TrainConfig, order,
};
use serde::{Deserialize, Serialize};
use wasm_bindgen::JsValue;
use wasm_bindgen_futures::spawn_local;
use web_sys::File;

use crate::checkpoints::Offer;
use crate::knobs;
use crate::session::Session;
use crate::shelf;
use crate::state::{Curves, State, View};

pub(crate) use table::Table;

/// Steps of a run that are kept for the plots, about.
const STEPS: usize = 128;
/// Runs that are looked at at once, each in a colour of its own.
pub(crate) const COLORS: [&str; 5] = ["run0", "run1", "run2", "run3", "run4"];

/// A run that was kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct KeptRun {
    /// When it began, in milliseconds since 1970: its number on the shelf.
    pub(crate) id: f64,
    /// What the person calls it; nothing where it goes by its settings.
    name: String,
    /// It stays at the top.
    pinned: bool,
    origin: Origin,
    config: TrainConfig,
    /// How its settings differ from those that suit the data.
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
    /// The newest first.
    list: RwSignal<Vec<KeptRun>>,
    /// Their checkpoints, by number.
    files: StoredValue<Vec<(f64, File)>, LocalStorage>,
    /// The numbers of those that all plots show, in the order of their colours.
    ticked: RwSignal<Vec<f64>>,
    /// The run on the page.
    current: RwSignal<f64>,
    /// The run that is being opened.
    opening: RwSignal<Option<f64>>,
    /// The browser keeps nothing: the runs are gone with the page.
    unkept: RwSignal<bool>,
}

impl KeptRun {
    /// The run on the page.
    fn of(id: f64, curves: &Curves, origin: Origin, suited: &TrainConfig) -> Self {
        let every = curves.history.iter().count().div_ceil(STEPS).max(1);
        let last = curves.history.last().map(|report| report.step);
        let kept = curves.history.iter().enumerate();
        let kept = kept.filter(|(place, report)| place % every == 0 || Some(report.step) == last);
        let mut config = curves.config.clone();
        // No question of the settings: it is the data's.
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

    /// What the plots draw of it.
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

    /// What it is called.
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

    /// The scores of the test side, or of the last validation where it was stopped before.
    fn metrics(&self) -> Option<Metrics> {
        let last = self.evaluations.last().and_then(|last| last.validation);
        self.scores.and_then(|scores| scores.test).or(last)
    }

    /// The text on the shelf.
    fn text(&self) -> String {
        serde_json::to_string(self).expect("a run is plain data")
    }
}

impl Runs {
    pub(crate) fn new() -> Self {
        shelf::open_early();
        Self {
            list: RwSignal::new(Vec::new()),
            files: StoredValue::new_local(Vec::new()),
            ticked: RwSignal::new(Vec::new()),
            current: RwSignal::new(0.0),
            opening: RwSignal::new(None),
            unkept: RwSignal::new(false),
        }
    }

    /// A run begins, or the one that is opened is there.
    pub(crate) fn begin(&self) {
        let opened = self.opening.try_update(Option::take).flatten();
        self.current.set(opened.unwrap_or_else(Date::now));
    }

    /// Whether a kept run is to be opened.
    pub(crate) fn is_opening(&self) -> bool {
        self.opening.read().is_some()
    }

    /// The file that is being opened, where one is.
    pub(crate) fn opening(&self) -> Option<File> {
        let id = self.opening.get_untracked()?;
        self.file(id)
    }

    /// Nothing is opened after all.
    pub(crate) fn leave(&self) -> bool {
        self.opening.try_update(Option::take).flatten().is_some()
    }

    /// What `of` says of the runs that all plots show beside the run on the page, with their colours.
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
            let Ok(kept) = shelf::all().await else {
                return self.unkept.set(true);
            };
            let mut list = Vec::new();
            let mut files = Vec::new();
            for shelf::Kept { text, file } in kept {
                // One of another version is left where it is.
                if let Ok(run) = serde_json::from_str::<KeptRun>(&text) {
                    files.extend(file.map(|file| (run.id, file)));
                    list.push(run);
                }
            }
            sort(&mut list);
            self.files.set_value(files);
            self.list.set(list);
        });
    }

    /// Puts a run in the list and on the shelf.
    fn keep(self, run: KeptRun, file: Option<File>) {
        self.files.update_value(|files| {
            if let Some(file) = &file {
                files.retain(|(id, _)| *id != run.id);
                files.push((run.id, file.clone()));
            }
        });
        self.list.update(|list| {
            list.retain(|other| other.id != run.id);
            list.push(run.clone());
            sort(list);
        });
        let kept = shelf::Kept {
            text: run.text(),
            file: file.or_else(|| self.file(run.id)),
        };
        spawn_local(async move {
            if shelf::put(run.id, &kept).await.is_err() {
                self.unkept.set(true);
            }
        });
    }

    /// Changes a run, in the list and on the shelf.
    fn change(self, id: f64, change: impl FnOnce(&mut KeptRun)) {
        let run = self
            .list
            .with_untracked(|list| list.iter().find(|run| run.id == id).cloned());
        if let Some(mut run) = run {
            change(&mut run);
            self.keep(run, None);
        }
    }

    fn remove(self, id: f64) {
        self.list.update(|list| list.retain(|run| run.id != id));
        self.ticked
            .update(|ticked| ticked.retain(|other| *other != id));
        self.files
            .update_value(|files| files.retain(|(of, _)| *of != id));
        spawn_local(async move { drop(shelf::remove(id).await) });
    }
}

/// Pinned ones first, then the newest.
fn sort(list: &mut Vec<KeptRun>) {
    order::sort_by(list, |a, b| {
        b.pinned.cmp(&a.pinned).then(b.id.total_cmp(&a.id))
    });
}

impl Session {
    /// Keeps the run on the page; `parts` are those of the worker's message, the checkpoint among them.
    pub(crate) fn keep_run(&self, origin: Origin, parts: &Array) {
        let State {
            runs, curves, data, ..
        } = self.state;
        let id = runs.current.get_untracked();
        let suited =
            data.with_untracked(|data| data.as_ref().map(|data| data.default_config.clone()));
        let mut run = curves
            .with_untracked(|curves| KeptRun::of(id, curves, origin, &suited.unwrap_or_default()));
        // What the person said of it stays.
        runs.list.with_untracked(|list| {
            if let Some(before) = list.iter().find(|before| before.id == id) {
                (run.name, run.pinned) = (before.name.clone(), before.pinned);
            }
        });
        runs.keep(run, checkpoint_file(parts));
    }

    /// Opens a run again as it was, its map, its neighbours and what can be taken home.
    fn reopen(&self, run: &KeptRun) {
        if !untrack(|| self.state.can_run()) {
            return;
        }
        let offer = Offer {
            step: run.step(),
            origin: run.origin.clone(),
            rows: run.data.rows,
            config: run.config.clone(),
        };
        self.open(run.id, offer);
    }

    /// Opens a run that was taken home; `parts` are those of the worker's message, the checkpoint among them.
    pub(crate) fn open_saved(&self, offer: Offer, parts: &Array) {
        let id = Date::now();
        if let Some(file) = checkpoint_file(parts) {
            let runs = self.state.runs;
            runs.files.update_value(|files| files.push((id, file)));
            self.open(id, offer);
        }
    }

    /// Goes on with a checkpoint that the page holds, as soon as its data is there.
    fn open(&self, id: f64, offer: Offer) {
        self.state.runs.opening.set(Some(id));
        self.state.offer.set(Some(offer));
        self.state.view.set(View::Run);
        self.go_on();
    }

    /// Puts the settings of a run in place, for another with them.
    fn use_run(&self, run: &KeptRun) {
        self.state.config.set(run.config.clone());
        self.state.view.set(View::Run);
        self.state.notice.set(Some(
            "The settings of that run are in place: press Run.".to_owned(),
        ));
    }
}

/// Reads the shelf now and whenever the table is looked at.
pub(crate) fn start(state: State) {
    Effect::new(move || {
        if state.view.get() == View::Runs {
            state.runs.look();
        }
    });
}

/// The checkpoint that came with a message, as the shelf keeps it.
fn checkpoint_file(parts: &Array) -> Option<File> {
    let bytes = Array::of1(&Uint8Array::new(&parts.get(1)));
    File::new_with_u8_array_sequence(&bytes, "run.bin").ok()
}

/// When something was, in the words of the place.
fn date(id: f64) -> String {
    let date = Date::new(&JsValue::from_f64(id));
    let options = js_sys::Object::new();
    for (key, value) in [("dateStyle", "short"), ("timeStyle", "short")] {
        js_sys::Reflect::set(&options, &key.into(), &value.into()).ok();
    }
    date.to_locale_string("default", &options).into()
}
