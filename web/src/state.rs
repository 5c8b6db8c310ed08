//! [`State`]: everything the page shows, as signals named once; and what each event of the worker changes in it.

use std::collections::BTreeMap;

use leptos::prelude::*;
use nearfar::{
    Baseline, Bytes, DataReport, DeviceInfo, Evaluation, MemoryReport, Metrics, Scores, Side,
    StepReport, TrainConfig,
};

use crate::history::History;
use crate::protocol::{DataSummary, Event};

/// Where a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The core is not up, or data is being read.
    #[default]
    Loading,
    /// There is data and no run.
    Ready,
    /// A run was asked for.
    Starting,
    /// A run goes on.
    Running,
    /// A run waits.
    Paused,
    /// A run is over.
    Finished,
}

/// What a run brought so far: what the plots draw.
#[derive(Clone, Debug, Default)]
pub(crate) struct Curves {
    pub(crate) config: TrainConfig,
    pub(crate) data: DataReport,
    pub(crate) history: History,
    pub(crate) evaluations: Vec<Evaluation>,
    pub(crate) baseline: Baseline,
    pub(crate) scores: Option<Scores>,
    pub(crate) memory: MemoryReport,
    /// What was held for each purpose, from this step on.
    pub(crate) purposes: Vec<(u64, BTreeMap<String, u64>)>,
    pub(crate) verdict: Option<String>,
    pub(crate) warnings: Vec<String>,
    pub(crate) elapsed_ms: f64,
}

impl Curves {
    /// Steps done.
    pub(crate) fn step(&self) -> u64 {
        self.history.last().map_or(0, |report| report.step)
    }

    /// Precision@1 that was scored last: of the test side once there is one, else of the validation side, else of the
    /// training side.
    pub(crate) fn latest_precision(&self) -> Option<f64> {
        let test = self.scores.and_then(|scores| scores.test);
        let last = self.evaluations.last();
        let steering = last.and_then(|last| last.validation.or(last.train));
        test.or(steering).map(|metrics| metrics.precision_at_1)
    }

    /// Precision@1 of the raw features of the same side; before anything was scored, of the side that will be.
    pub(crate) fn latest_baseline(&self) -> Option<f64> {
        let raw = &self.baseline.raw;
        let same = match self.scores.and_then(|scores| scores.test) {
            Some(_) => raw.test,
            None => raw.validation,
        };
        same.map(|metrics| metrics.precision_at_1)
    }

    /// Whether there are rows that steer; else training rows are scored meanwhile.
    pub(crate) fn steers(&self) -> bool {
        self.data.train == 0 || self.data.validation > 0
    }

    /// The side that the two are of, after a comma; nothing before anything was scored.
    pub(crate) fn latest_side(&self) -> &'static str {
        match (
            self.scores.and_then(|scores| scores.test),
            self.evaluations.last(),
        ) {
            (Some(_), _) => ", test",
            (None, Some(last)) if last.validation.is_some() => ", validation",
            (None, Some(_)) => ", training",
            (None, None) => "",
        }
    }

    /// The last report, or that of the step under the pointer.
    pub(crate) fn report_at(&self, step: Option<f64>) -> Option<&StepReport> {
        step.map_or(self.history.last(), |step| self.history.at(step))
    }

    /// The last scores that steer, or those at the step under the pointer.
    pub(crate) fn scores_at(&self, step: Option<f64>) -> Option<Metrics> {
        let until = step.map_or(self.evaluations.len(), |step| {
            self.evaluations
                .partition_point(|evaluation| evaluation.step as f64 <= step)
        });
        self.evaluations[..until]
            .last()
            .and_then(|last| last.validation.or(last.train))
    }
}

/// Where rows lie.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MapData {
    pub(crate) side: Side,
    pub(crate) points: Vec<[f32; 2]>,
    pub(crate) classes: Vec<u8>,
    pub(crate) names: Vec<String>,
    /// The exact circle, not a projection.
    pub(crate) circle: bool,
}

/// The signals of the page.
#[derive(Clone, Copy)]
pub(crate) struct State {
    pub(crate) device: RwSignal<Option<DeviceInfo>>,
    pub(crate) data: RwSignal<Option<DataSummary>>,
    /// Columns to choose the label from where it could not be guessed.
    pub(crate) columns: RwSignal<Vec<String>>,
    pub(crate) config: RwSignal<TrainConfig>,
    pub(crate) phase: RwSignal<Phase>,
    pub(crate) curves: RwSignal<Curves>,
    pub(crate) previous: RwSignal<Option<Curves>>,
    pub(crate) map: RwSignal<Option<MapData>>,
    pub(crate) error: RwSignal<Option<String>>,
    /// The step under the pointer, in all plots.
    pub(crate) pointed: RwSignal<Option<f64>>,
    /// Changes when colours do: plots are drawn again.
    pub(crate) theme: RwSignal<u32>,
}

impl State {
    pub(crate) fn new() -> Self {
        Self {
            device: RwSignal::new(None),
            data: RwSignal::new(None),
            columns: RwSignal::new(Vec::new()),
            config: RwSignal::new(TrainConfig::default()),
            phase: RwSignal::new(Phase::default()),
            curves: RwSignal::new(Curves::default()),
            previous: RwSignal::new(None),
            map: RwSignal::new(None),
            error: RwSignal::new(None),
            pointed: RwSignal::new(None),
            theme: RwSignal::new(0),
        }
    }

    /// Whether a run is under way, waiting or not.
    pub(crate) fn has_run(&self) -> bool {
        matches!(
            self.phase.get(),
            Phase::Starting | Phase::Running | Phase::Paused
        )
    }

    /// Tracks everything that a plot shows.
    pub(crate) fn track_plots(&self) {
        self.theme.track();
        self.pointed.track();
        self.curves.track();
        self.previous.track();
        self.config.track();
    }

    /// Takes in what the worker says; `points` and `classes` come with a map.
    pub(crate) fn apply(&self, event: Event, points: Vec<[f32; 2]>, classes: Vec<u8>) {
        match event {
            Event::Device(device) => self.device.set(Some(device)),
            Event::NoDevice(message) | Event::Failed(message) => {
                self.error.set(Some(message));
                self.phase.set(Phase::Ready);
            }
            Event::Refused(message) => {
                self.error.set(Some(message));
                // What was there before still is: a run under way goes on.
                if matches!(self.phase.get_untracked(), Phase::Loading | Phase::Starting) {
                    self.phase.set(Phase::Ready);
                }
            }
            Event::Columns(columns) => self.columns.set(columns),
            Event::Data(summary) => {
                self.columns.set(summary.label_columns.clone());
                self.clear();
                self.data.set(Some(*summary));
                self.phase.set(Phase::Ready);
            }
            Event::Started {
                config,
                data,
                device,
                warnings,
                memory,
            } => {
                self.error.set(None);
                self.device.set(Some(device));
                self.curves.set(Curves {
                    config: *config,
                    data,
                    warnings,
                    purposes: vec![(0, memory.by_purpose.clone())],
                    memory,
                    ..Curves::default()
                });
                self.map.set(None);
            }
            Event::Steps {
                reports,
                warnings,
                memory,
            } => self.curves.update(|curves| {
                reports
                    .into_iter()
                    .for_each(|report| curves.history.push(report));
                if memory.by_purpose != curves.memory.by_purpose {
                    curves
                        .purposes
                        .push((curves.step(), memory.by_purpose.clone()));
                }
                curves.warnings = warnings;
                curves.memory = memory;
            }),
            Event::Evaluated {
                evaluation,
                baseline,
            } => self.curves.update(|curves| {
                curves.evaluations.push(*evaluation);
                curves.baseline = *baseline;
            }),
            Event::Map { side, names } => self.map.set(Some(MapData {
                side,
                points,
                classes,
                names,
                circle: self
                    .curves
                    .with_untracked(|curves| curves.config.embedding_size == 2),
            })),
            Event::Paused => self.phase.set(Phase::Paused),
            Event::Resumed => self.phase.set(Phase::Running),
            Event::Finished {
                scores,
                baseline,
                verdict,
                elapsed_ms,
            } => {
                self.curves.update(|curves| {
                    curves.scores = Some(*scores);
                    curves.baseline = *baseline;
                    curves.verdict = Some(verdict);
                    curves.elapsed_ms = elapsed_ms;
                });
                self.phase.set(Phase::Finished);
            }
            Event::Reset => {
                self.clear();
                self.phase.set(Phase::Ready);
            }
        }
    }

    /// Forgets what was drawn.
    fn clear(&self) {
        self.curves.set(Curves::default());
        self.previous.set(None);
        self.map.set(None);
    }

    /// One line on what is going on.
    pub(crate) fn status(&self) -> String {
        let curves = self.curves.read();
        let (step, steps) = (curves.step(), curves.config.steps);
        match self.phase.get() {
            Phase::Loading => "Getting ready ..".to_owned(),
            Phase::Ready if self.data.read().is_none() => {
                "Choose a sample or drop a file.".to_owned()
            }
            Phase::Ready => "Ready. Press Run, or Space.".to_owned(),
            Phase::Starting => "Starting ..".to_owned(),
            Phase::Running if step == steps && step > 0 => "Scoring the test side ..".to_owned(),
            Phase::Running => format!("Training: step {step} of {steps}"),
            Phase::Paused => format!("Paused at step {step} of {steps}"),
            Phase::Finished => format!(
                "Done: {step} steps in {:.1} s, {} of memory at most",
                curves.elapsed_ms / 1e3,
                Bytes(curves.memory.peak_bytes)
            ),
        }
    }
}
