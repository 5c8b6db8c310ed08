//! [`State`]: everything the page shows, as signals named once.

pub(crate) mod anchor;
mod aside;
mod checks;
mod compare;
mod curves;
mod events;
mod lens;
mod map;
mod names;
mod runs;
mod take_home;
pub(crate) mod threshold;

use std::collections::BTreeMap;

use leptos::prelude::*;
use nearfar::{Bytes, Cure, FullEvaluation, Missing, Neighbourhood, TrainConfig, VectorSizes};
use web_sys::File;

use crate::lesson::Lesson;
use crate::offer::Offer;
use crate::protocol::{DataSummary, EvaluationForecast, Part, Refusal, RunForecast, Running};
use crate::words::grouped;

use anchor::Anchor;
use aside::Aside;
pub(crate) use checks::Checks;
pub(crate) use compare::{ALL_RECIPES, Compare, RECIPES, VALUES, Varied};
pub(crate) use curves::Curves;
pub(crate) use lens::Lens;
pub(crate) use map::{ByUmap, Coloured, MapData, Paint, Places};
pub(crate) use names::Names;
pub(crate) use runs::{COLORS, KeptRun, Runs};
pub(crate) use take_home::TakeHome;

/// Number of test rows that are scored if a person does not want to wait for all.
pub(crate) const FEWER: usize = 1000;

/// Phase of the run, or of the page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The core is not up, or data is being read.
    Loading,
    /// There is no run.
    #[default]
    Ready,
    /// A run was asked for.
    Starting,
    /// A run goes on.
    Running,
    /// Several settings are compared; there is no run.
    Comparing,
    /// Every row of a side is scored; a run that is not over goes on or waits after that.
    Evaluating,
    /// A run is paused.
    Paused,
    /// A run is over.
    Finished,
    /// There is no worker.
    Dead,
}

/// View that is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum View {
    /// The run on the page: map and plots.
    #[default]
    Run,
    /// The leaderboard.
    Compare,
    /// The runs that were kept.
    Runs,
}

/// Error in the banner.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Problem {
    pub(crate) text: String,
    /// A setting was refused a moment ago, perhaps by the click that starts a run without it: the message outlives that start.
    pub(crate) new_setting: bool,
}

/// The columns that the label can come from.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LabelChoice {
    pub(crate) columns: Vec<String>,
    /// The column that it comes from.
    pub(crate) current: Option<String>,
    /// The files with these columns, if those are not the data yet.
    pub(crate) of: Option<String>,
    /// Treatment of cells without a number, if there are such.
    pub(crate) missing: Option<Missing>,
    /// Choice that would make those files readable.
    pub(crate) cure: Cure,
}

impl LabelChoice {
    /// Label choice of the data on the page.
    pub(crate) fn of(data: Option<&DataSummary>) -> Self {
        data.map_or_else(Self::default, |data| Self {
            columns: data.label_columns.clone(),
            current: data.label_column.clone(),
            of: None,
            missing: (data.missing != Missing::Refuse).then_some(data.missing),
            cure: Cure::Nothing,
        })
    }
}

/// Files that are brought to the page.
#[derive(Clone, Copy, Default)]
pub(crate) struct Brought {
    /// They are held over it.
    pub(crate) held_over: RwSignal<bool>,
    /// The dialog on pictures is open; what was chosen, in a sentence, if pictures were.
    pub(crate) pictures: RwSignal<Option<String>>,
    /// Pictures of rows, which came with the data, by row.
    pub(crate) of_rows: StoredValue<BTreeMap<u32, File>, LocalStorage>,
}

/// The signals of the page.
#[derive(Clone, Copy)]
pub(crate) struct State {
    pub(crate) device: RwSignal<Option<Running>>,
    pub(crate) data: RwSignal<Option<DataSummary>>,
    pub(crate) label: RwSignal<LabelChoice>,
    pub(crate) config: RwSignal<TrainConfig>,
    /// Phase of the run, whatever is read meanwhile.
    pub(crate) stage: RwSignal<Phase>,
    /// Number of requests for data and engines that are not answered yet.
    pub(crate) reading: RwSignal<u32>,
    /// Phase of the page: loading until all requests are answered, else comparing or evaluating while that lasts, else `stage`.
    pub(crate) phase: Memo<Phase>,
    pub(crate) curves: RwSignal<Curves>,
    /// The settings of the run on the page: knobs that differ are the next run's.
    pub(crate) ran: Memo<Option<TrainConfig>>,
    pub(crate) previous: RwSignal<Option<Curves>>,
    pub(crate) map: RwSignal<Option<MapData>>,
    /// The map of the data as it is: shown while there is no run.
    raw_map: RwSignal<Option<MapData>>,
    /// A person chose that UMAP places the map whenever a run is paused or over, or that it never does. Unasked it does once a run is
    /// over.
    pub(crate) by_umap: RwSignal<Option<bool>>,
    /// The column that colours the map; the label if `None`.
    pub(crate) colour_by: RwSignal<Option<String>>,
    /// The colours by that column, once they are there.
    pub(crate) coloured: RwSignal<Option<Coloured>>,
    /// The row of the map whose neighbours are shown.
    pub(crate) chosen: RwSignal<Option<u32>>,
    /// Neighbours of the chosen row, once they are there.
    pub(crate) neighbours: RwSignal<Option<Neighbourhood>>,
    /// Names of rows.
    pub(crate) names: Names,
    /// Forecast of the next run, or why it would be refused.
    pub(crate) forecast: RwSignal<Option<Result<RunForecast, Refusal>>>,
    /// Answer to a pasted traceback: lines, each with its heading.
    pub(crate) diagnosed: RwSignal<Vec<(String, String)>>,
    /// Forecast of scoring every row of a side.
    pub(crate) can_evaluate: RwSignal<Option<EvaluationForecast>>,
    /// Progress of scoring every row, while that lasts.
    pub(crate) evaluating: RwSignal<Option<Part>>,
    /// Long work beside training steps, in words; empty if there is none.
    pub(crate) working: RwSignal<String>,
    /// Part of the long work that is done, from 0 to 1.
    pub(crate) part: RwSignal<Option<f64>>,
    /// Scores of every row that were found last.
    pub(crate) evaluation: RwSignal<Option<FullEvaluation>>,
    /// State of the search for the run's threshold.
    pub(crate) threshold: RwSignal<threshold::Shown>,
    /// The anchor of the last step that is looked at.
    pub(crate) anchor: Anchor,
    pub(crate) error: RwSignal<Option<Problem>>,
    /// Notice in the banner, which is no error.
    pub(crate) notice: RwSignal<Option<String>>,
    /// The name of data whose opening would end the run: the person is asked.
    pub(crate) question: RwSignal<Option<String>>,
    /// The run that can be resumed: the one that was asked for, or else the newest that was saved.
    pub(crate) offer: RwSignal<Option<Offer>>,
    /// Saved runs that are not on the page, the newest first.
    pub(crate) stopped: RwSignal<Vec<Offer>>,
    /// Why the current run is not being saved.
    pub(crate) unsaved: RwSignal<Option<String>>,
    /// State that the last reset cleared.
    pub(crate) aside: RwSignal<Option<Aside>>,
    /// The rows to check.
    pub(crate) checks: Checks,
    /// Scores of vectors of every size, by the name of what made them; empty before they are measured.
    pub(crate) sizes: RwSignal<Vec<(String, VectorSizes)>>,
    /// The dialog of the pieces that can be exported.
    pub(crate) take_home: TakeHome,
    /// View that is shown.
    pub(crate) view: RwSignal<View>,
    /// The board of a comparison.
    pub(crate) compare: Compare,
    /// The runs that were kept.
    pub(crate) runs: Runs,
    /// Files that are brought to the page.
    pub(crate) brought: Brought,
    /// Parts of the page that the link shows.
    pub(crate) lesson: StoredValue<Lesson>,
    /// Why no engine could be opened, if none could: nothing can run then.
    pub(crate) no_engine: RwSignal<Option<String>>,
    /// The GPU that the link asks for could not be opened when it was last needed.
    pub(crate) no_gpu: RwSignal<bool>,
    /// View of the plots over the steps.
    pub(crate) lens: Lens,
    /// Changes when colours do: plots are drawn again.
    pub(crate) theme: RwSignal<u32>,
}

impl State {
    pub(crate) fn new() -> Self {
        let (stage, reading) = (RwSignal::new(Phase::default()), RwSignal::new(0));
        let (evaluating, compare) = (RwSignal::new(None), Compare::new());
        let phase = Memo::new(move |_| match reading.get() {
            0 if compare.now.read().is_some() => Phase::Comparing,
            0 if evaluating.read().is_some() => Phase::Evaluating,
            0 => stage.get(),
            _ => Phase::Loading,
        });
        let curves = RwSignal::new(Curves::default());
        let ran = Memo::new(move |_| curves.read().ran().cloned());
        Self {
            device: RwSignal::new(None),
            data: RwSignal::new(None),
            label: RwSignal::new(LabelChoice::default()),
            config: RwSignal::new(TrainConfig::default()),
            stage,
            reading,
            phase,
            curves,
            ran,
            previous: RwSignal::new(None),
            map: RwSignal::new(None),
            raw_map: RwSignal::new(None),
            by_umap: RwSignal::new(None),
            colour_by: RwSignal::new(None),
            coloured: RwSignal::new(None),
            chosen: RwSignal::new(None),
            neighbours: RwSignal::new(None),
            names: Names::default(),
            forecast: RwSignal::new(None),
            diagnosed: RwSignal::new(Vec::new()),
            can_evaluate: RwSignal::new(None),
            evaluating,
            working: RwSignal::new(String::new()),
            part: RwSignal::new(None),
            evaluation: RwSignal::new(None),
            threshold: RwSignal::new(threshold::Shown::Nothing),
            anchor: Anchor::new(),
            error: RwSignal::new(None),
            notice: RwSignal::new(None),
            question: RwSignal::new(None),
            offer: RwSignal::new(None),
            stopped: RwSignal::new(Vec::new()),
            unsaved: RwSignal::new(None),
            aside: RwSignal::new(None),
            checks: Checks::default(),
            sizes: RwSignal::new(Vec::new()),
            take_home: TakeHome::default(),
            view: RwSignal::new(View::default()),
            compare,
            runs: Runs::default(),
            brought: Brought::default(),
            lesson: StoredValue::new(Lesson::read()),
            no_engine: RwSignal::new(None),
            no_gpu: RwSignal::new(false),
            lens: Lens::new(),
            theme: RwSignal::new(0),
        }
    }

    /// Tells if a run or a comparison is under way: what would end it asks first.
    pub(crate) fn is_busy(&self) -> bool {
        self.has_run() || self.compare.now.read().is_some()
    }

    /// Tells if a run is under way, waiting or not.
    pub(crate) fn has_run(&self) -> bool {
        matches!(
            self.stage.get(),
            Phase::Starting | Phase::Running | Phase::Paused
        )
    }

    /// Tells if there is no worker.
    pub(crate) fn is_dead(&self) -> bool {
        self.stage.get() == Phase::Dead
    }

    /// Tells if the data is imagined: memory and time can only be planned.
    pub(crate) fn is_imagined(&self) -> bool {
        self.data.read().as_ref().is_some_and(|data| data.imagined)
    }

    /// Tells if a run can start.
    pub(crate) fn can_start(&self) -> bool {
        self.data.read().is_some()
            && self.no_engine.read().is_none()
            && matches!(self.phase.get(), Phase::Ready | Phase::Finished)
    }

    /// Tells if steps were taken and none is being taken.
    pub(crate) fn stands_still(&self) -> bool {
        matches!(self.phase.get(), Phase::Paused | Phase::Finished)
    }

    /// Tells if a single step can be taken.
    pub(crate) fn can_step(&self) -> bool {
        self.can_start() || self.phase.get() == Phase::Paused
    }

    /// Tells if a run can start or go on, if need be in a new worker.
    pub(crate) fn can_run(&self) -> bool {
        self.can_step() || (self.is_dead() && self.data.read().is_some())
    }

    /// Tells if the run can be paused.
    pub(crate) fn can_pause(&self) -> bool {
        self.phase.get() == Phase::Running && !self.is_scoring()
    }

    /// Tells if all steps are done, and the test side is being scored.
    pub(crate) fn is_scoring(&self) -> bool {
        let curves = self.curves.read();
        self.phase.get() == Phase::Running && curves.step() > 0 && curves.is_done()
    }

    /// Tells if reading goes on for long enough that a person may want to stop it.
    pub(crate) fn is_reading(&self) -> bool {
        self.phase.get() == Phase::Loading && !self.working.read().is_empty()
    }

    /// Tells if fewer test rows can be scored than are being scored.
    pub(crate) fn can_score_fewer(&self) -> bool {
        let most = self.curves.read().config.test_queries;
        let tested = self.curves.read().data.test;
        self.is_scoring() && tested > FEWER && (most == 0 || most > FEWER)
    }

    /// Tells if every row of a side can be scored.
    pub(crate) fn can_evaluate_all(&self) -> bool {
        let phases = [Phase::Running, Phase::Paused, Phase::Finished];
        self.can_evaluate.read().is_some() && phases.contains(&self.phase.get())
    }

    /// Tells if there is something to reset.
    pub(crate) fn can_reset(&self) -> bool {
        match self.phase.get() {
            Phase::Loading | Phase::Dead | Phase::Comparing => false,
            Phase::Ready => !self.curves.read().history.is_empty(),
            Phase::Starting
            | Phase::Running
            | Phase::Evaluating
            | Phase::Paused
            | Phase::Finished => true,
        }
    }

    /// Tells if there was a run that can be repeated without its memory.
    pub(crate) fn can_drop_memory(&self) -> bool {
        let curves = self.curves.read();
        self.can_start() && !curves.history.is_empty() && curves.config.memory() > 0
    }

    /// Adds an error to those that are still shown.
    pub(crate) fn say(&self, text: String) {
        self.error.update(|error| {
            let before = error.take().filter(|before| !before.new_setting);
            let before = before.map(|before| before.text).unwrap_or_default();
            let mut lines: Vec<&str> = before.lines().collect();
            if !lines.contains(&text.as_str()) {
                lines.push(&text);
            }
            *error = Some(Problem {
                text: lines.join("\n"),
                new_setting: false,
            });
        });
    }

    /// Adds a notice to the one that is still shown.
    pub(crate) fn tell(&self, text: String) {
        self.notice.update(|notice| {
            let before = notice.take().map(|before| format!("{before} "));
            *notice = Some(before.unwrap_or_default() + &text);
        });
    }

    /// Says why a setting was refused.
    pub(crate) fn say_of_setting(&self, text: String) {
        self.error.set(Some(Problem {
            text,
            new_setting: true,
        }));
    }

    /// Clears the errors as a run starts, except that of a setting that was just refused.
    pub(crate) fn forgive(&self) {
        self.error.update(|error| {
            *error = error.take().filter(|problem| problem.new_setting);
            if let Some(problem) = error {
                problem.new_setting = false;
            }
        });
    }

    /// Tracks everything that a plot shows.
    pub(crate) fn track_plots(&self) {
        self.theme.track();
        self.lens.track();
        self.curves.track();
        self.previous.track();
        self.config.track();
    }

    /// One line on what is going on. It is read aloud, so it changes with the phase, not with the step.
    pub(crate) fn status(&self) -> String {
        let curves = self.curves.read();
        let (step, steps) = (curves.step(), curves.config.steps);
        let without = match curves.config.memory() {
            0 => " without memory",
            _ => "",
        };
        match self.phase.get() {
            Phase::Loading if self.device.read().is_some() => "Reading the data ..".to_owned(),
            Phase::Loading => "Getting ready ..".to_owned(),
            Phase::Ready if self.no_engine.read().is_some() => "Nothing can run.".to_owned(),
            Phase::Ready if self.data.read().is_none() => {
                "Choose a sample, or drop a table.".to_owned()
            }
            Phase::Ready if self.is_imagined() => "Planned, from numbers alone.".to_owned(),
            Phase::Ready => "Ready. Press Run, or Space.".to_owned(),
            Phase::Starting => "Starting ..".to_owned(),
            Phase::Running if self.is_scoring() => match curves.data.test {
                0 => "All steps are done. Scoring ..".to_owned(),
                rows => {
                    let asked = match curves.config.test_queries {
                        0 => rows,
                        most => rows.min(most),
                    };
                    format!(
                        "All steps are done. Checking {} unseen rows ..",
                        grouped(asked as u64)
                    )
                }
            },
            Phase::Running => format!("Training for {steps} steps{without}"),
            Phase::Comparing => "Comparing ..".to_owned(),
            Phase::Evaluating => "Scoring every row ..".to_owned(),
            Phase::Paused => format!("Paused at step {step} of {steps}{without}"),
            Phase::Finished => format!(
                "Done: {step} steps{without} in {:.1} s, {} of device memory at most",
                curves.elapsed_ms / 1e3,
                Bytes(curves.memory.peak_bytes)
            ),
            Phase::Dead if self.data.read().is_none() => {
                "The computing stopped. Choose data to start it again.".to_owned()
            }
            Phase::Dead => "The computing stopped. Press Run to start it again.".to_owned(),
        }
    }
}
