//! The runs that were kept, and which of them all plots show.

use js_sys::Date;
use leptos::prelude::*;
use nearfar::{Baseline, DataReport, Evaluation, Metrics, Origin, Scores, StepReport, TrainConfig};
use serde::{Deserialize, Serialize};
use web_sys::File;

use super::Curves;
use crate::knobs;

/// Number of a run's step reports that are kept for the plots, about.
const STEPS: usize = 128;

/// Colours of the runs that all plots show at once, one for each run.
pub(crate) const COLORS: [&str; 5] = ["run0", "run1", "run2", "run3", "run4"];

/// A run that was kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct KeptRun {
    /// Start of the run, in milliseconds since 1970: its number on the shelf.
    pub(crate) id: f64,
    /// Name that the person gave it; empty if it goes by its settings.
    pub(crate) name: String,
    /// The run stays at the top of the table.
    pub(crate) pinned: bool,
    pub(crate) origin: Origin,
    pub(crate) config: TrainConfig,
    /// The settings that differ from those that suit the data, with their values.
    pub(crate) differences: Vec<(String, String)>,
    pub(crate) data: DataReport,
    pub(crate) history: Vec<StepReport>,
    pub(crate) evaluations: Vec<Evaluation>,
    pub(crate) baseline: Baseline,
    pub(crate) scores: Option<Scores>,
    pub(crate) verdict: Option<String>,
    pub(crate) elapsed_ms: f64,
    pub(crate) peak_bytes: u64,
}

/// The signals of the kept runs.
#[derive(Clone, Copy, Default)]
pub(crate) struct Runs {
    /// The kept runs: pinned ones first, then the newest.
    pub(crate) list: RwSignal<Vec<KeptRun>>,
    /// Checkpoints of the runs, by number.
    pub(crate) files: StoredValue<Vec<(f64, File)>, LocalStorage>,
    /// Numbers of the runs that all plots show, in the order of their colours.
    pub(crate) ticked: RwSignal<Vec<f64>>,
    /// Number of the run on the page.
    pub(crate) current: RwSignal<f64>,
    /// Number of the run that is being opened.
    pub(crate) opening: RwSignal<Option<f64>>,
    /// Bytes of each run on the shelf, by number.
    pub(crate) sizes: RwSignal<Vec<(f64, f64)>>,
    /// Numbers of the runs whose current state is not on the shelf: it is gone with the page.
    pub(crate) unkept: RwSignal<Vec<f64>>,
    /// Why runs are not kept; `None` if all is well.
    pub(crate) why: RwSignal<Option<String>>,
}

impl KeptRun {
    /// The run on the page, as it is kept.
    pub(crate) fn of(id: f64, curves: &Curves, origin: Origin, suited: &TrainConfig) -> Self {
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
    pub(crate) fn settings(&self) -> String {
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
    pub(crate) fn step(&self) -> u64 {
        self.history.last().map_or(0, |report| report.step)
    }

    /// The scores of the test side; of the last validation if the run was stopped before.
    pub(crate) fn metrics(&self) -> Option<Metrics> {
        let last = self.evaluations.last().and_then(|last| last.validation);
        self.scores.and_then(|scores| scores.test).or(last)
    }

    /// Text of the run on the shelf, as JSON.
    pub(crate) fn text(&self) -> String {
        serde_json::to_string(self).expect("a run is plain data")
    }
}

impl Runs {
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

    /// The checkpoint of a run, if there is one.
    pub(crate) fn file(&self, id: f64) -> Option<File> {
        let files = self.files.read_value();
        files
            .iter()
            .find(|(of, _)| *of == id)
            .map(|(_, file)| file.clone())
    }
}
