//! [`State`]: everything the page shows, as signals named once; and what each event of the worker changes in it.

use std::collections::BTreeMap;

use leptos::prelude::*;
use nearfar::{
    Baseline, Bytes, Compared, Cure, DataReport, Evaluation, FullEvaluation, MemoryAge,
    MemoryReport, Metrics, Missing, Neighbourhood, PairHistogram, Pictures, RowsToCheck, Scores,
    Side, StepReport, TrainConfig, Warning, Working,
};

use crate::checkpoints::Offer;
use crate::compare::Compare;
use crate::forecast;
use crate::hardest;
use crate::history::History;
use crate::lens::Lens;
use crate::lesson::Lesson;
use crate::plots::grouped;
use crate::protocol::{
    CompareState, DataSummary, EvaluationForecast, Event, Part, RunForecast, Running,
};
use crate::runs::Runs;
use crate::session::FEWER;
use crate::source::shown_name;
use crate::take_home::TakeHome;
use crate::threshold;

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

/// Factor by which earlier steps and milliseconds of the pace shrink at each report: it spans about twenty reports.
const PACE_KEPT: f64 = 0.95;

/// Results of a run so far, which the plots draw.
#[derive(Clone, Debug, Default)]
pub(crate) struct Curves {
    pub(crate) config: TrainConfig,
    pub(crate) data: DataReport,
    pub(crate) history: History,
    /// Similarities of the pairs of the last step.
    pub(crate) pairs: Option<PairHistogram>,
    /// The hardest triplets of some steps.
    pub(crate) hardest: hardest::Kept,
    /// Age of the rows of the memory.
    pub(crate) age: Option<MemoryAge>,
    pub(crate) evaluations: Vec<Evaluation>,
    pub(crate) baseline: Baseline,
    pub(crate) scores: Option<Scores>,
    pub(crate) memory: MemoryReport,
    /// Bytes held for each purpose, from the step of an entry until that of the next.
    pub(crate) purposes: Vec<(u64, BTreeMap<String, u64>)>,
    pub(crate) verdict: Option<String>,
    /// The verdict in numbers.
    pub(crate) compared: Vec<Compared>,
    pub(crate) warnings: Vec<Warning>,
    pub(crate) elapsed_ms: f64,
    /// Steps and their milliseconds, in which earlier reports count less and less.
    pub(crate) pace: (f64, f64),
}

impl Curves {
    /// Steps per second, without scoring between them, and the estimated milliseconds of the steps left (`None` if none is left);
    /// `None` before the first step.
    pub(crate) fn pace(&self) -> Option<(f64, Option<f64>)> {
        let (steps, ms) = self.pace;
        let left = self.config.steps.saturating_sub(self.step());
        let left_ms = (left > 0).then_some(left as f64 * ms / steps);
        (ms > 0.0).then_some((1e3 * steps / ms, left_ms))
    }

    /// Steps done.
    pub(crate) fn step(&self) -> u64 {
        self.history.last().map_or(0, |report| report.step)
    }

    /// Precision@1 that was scored last: of the test side if that is scored, else of the validation side, else of the training
    /// side.
    pub(crate) fn latest_precision(&self) -> Option<f64> {
        let test = self.scores.and_then(|scores| scores.test);
        let last = self.evaluations.last();
        let steering = last.and_then(|last| last.validation.or(last.train));
        test.or(steering).map(|metrics| metrics.precision_at_1)
    }

    /// Side of the baselines' scores; empty without any.
    pub(crate) fn baseline_side(&self) -> &'static str {
        match (
            self.scores.and_then(|scores| scores.test),
            self.latest_raw(),
        ) {
            (Some(_), _) => "test",
            (None, Some(_)) => "validation",
            (None, None) => "",
        }
    }

    /// Scores of the raw features: of the test side if that is scored, else of the validation side.
    pub(crate) fn latest_raw(&self) -> Option<Metrics> {
        let raw = &self.baseline.raw;
        match self.scores.and_then(|scores| scores.test) {
            Some(_) => raw.test,
            None => raw.validation,
        }
    }

    /// Tells if there are validation rows; if not, training rows are scored during the run.
    pub(crate) fn steers(&self) -> bool {
        self.data.train == 0 || self.data.validation > 0
    }

    /// Scores of the linear map, of the side of [`Curves::latest_raw`]; `None` if it could not be fitted.
    pub(crate) fn latest_linear(&self) -> Option<Metrics> {
        let linear = self.baseline.linear?;
        match self.scores.and_then(|scores| scores.test) {
            Some(_) => linear.test,
            None => linear.validation,
        }
    }

    /// Side of [`Curves::latest_precision`]; empty before anything was scored.
    pub(crate) fn latest_side(&self) -> &'static str {
        match (
            self.scores.and_then(|scores| scores.test),
            self.evaluations.last(),
        ) {
            (Some(_), _) => "test",
            (None, Some(last)) if last.validation.is_some() => "validation",
            (None, Some(_)) => "training",
            (None, None) => "",
        }
    }

    /// The last report, or that of the step under the pointer.
    pub(crate) fn report_at(&self, step: Option<f64>) -> Option<&StepReport> {
        step.map_or(self.history.last(), |step| self.history.at(step))
    }

    /// The last scores of the validation side (of the training side without one), or those at the step under the pointer.
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

/// State that a reset cleared: it can be restored until the next run starts or other data comes.
#[derive(Clone, Debug)]
pub(crate) struct Aside {
    stage: Phase,
    curves: Curves,
    previous: Option<Curves>,
    map: Option<MapData>,
    chosen: Option<u32>,
    neighbours: Option<Neighbourhood>,
    can_evaluate: Option<EvaluationForecast>,
    evaluation: Option<FullEvaluation>,
    threshold: threshold::Shown,
    hardest: Option<hardest::Shown>,
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

/// Rows on a map.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MapData {
    /// Side of the rows; `None` if there is no run, and they are those of the data.
    pub(crate) side: Option<Side>,
    pub(crate) places: Places,
    pub(crate) names: Vec<String>,
    pub(crate) pictures: Option<Pictures>,
    /// The map is the exact circle that the embeddings lie on, not a projection.
    pub(crate) circle: bool,
    /// Layout by UMAP, if it is shown.
    pub(crate) by_umap: Option<ByUmap>,
}

/// A layout by UMAP.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ByUmap {
    /// Positions of the rows by their principal components: of the features and of the embeddings.
    pub(crate) principal: [Vec<[f32; 2]>; 2],
    /// Progress in epochs; `None` before the first.
    pub(crate) epochs: Option<Part>,
}

/// The rows of a map.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Places {
    pub(crate) points: Vec<[f32; 2]>,
    /// Positions by their features.
    pub(crate) before: Vec<[f32; 2]>,
    /// Index of each row's class among the names; `u16::MAX` if it is not named.
    pub(crate) classes: Vec<u16>,
    /// Numbers of the rows in the data, ascending.
    pub(crate) rows: Vec<u32>,
}

impl Places {
    /// Index of a row on the map, if it is there.
    pub(crate) fn of(&self, row: u32) -> Option<usize> {
        self.rows.binary_search(&row).ok()
    }

    /// The row of that number; if it is not on the map, the next one beyond it on the way from `before`, or else `before`.
    pub(crate) fn row_at(&self, number: u32, before: Option<u32>) -> Option<u32> {
        let upwards = before.is_none_or(|before| before < number);
        let rows = self.rows.iter().copied();
        let beyond = if upwards {
            rows.filter(|row| *row >= number).min()
        } else {
            rows.filter(|row| *row <= number).max()
        };
        beyond.or(before)
    }
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
    /// The map is placed by UMAP whenever a run is paused or over.
    pub(crate) wants_umap: RwSignal<bool>,
    /// The row of the map whose neighbours are shown.
    pub(crate) chosen: RwSignal<Option<u32>>,
    /// Neighbours of the chosen row, once they are there.
    pub(crate) neighbours: RwSignal<Option<Neighbourhood>>,
    /// Forecast of the next run, or why it would be refused.
    pub(crate) forecast: RwSignal<Option<Result<RunForecast, String>>>,
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
    /// The hardest triplets that were asked for.
    pub(crate) hardest: RwSignal<Option<hardest::Shown>>,
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
    /// The rows to check that were found last.
    pub(crate) to_check: RwSignal<Option<RowsToCheck>>,
    /// The dialog of the pieces that can be exported.
    pub(crate) take_home: TakeHome,
    /// View that is shown.
    pub(crate) view: RwSignal<View>,
    /// The board of a comparison.
    pub(crate) compare: Compare,
    /// The runs that were kept.
    pub(crate) runs: Runs,
    /// Files are held over the page.
    pub(crate) dropping: RwSignal<bool>,
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
        let ran = Memo::new(move |_| {
            let curves = curves.read();
            (curves.data.rows > 0).then(|| curves.config.clone())
        });
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
            wants_umap: RwSignal::new(false),
            chosen: RwSignal::new(None),
            neighbours: RwSignal::new(None),
            forecast: RwSignal::new(None),
            can_evaluate: RwSignal::new(None),
            evaluating,
            working: RwSignal::new(String::new()),
            part: RwSignal::new(None),
            evaluation: RwSignal::new(None),
            threshold: RwSignal::new(threshold::Shown::Nothing),
            hardest: RwSignal::new(None),
            error: RwSignal::new(None),
            notice: RwSignal::new(None),
            question: RwSignal::new(None),
            offer: RwSignal::new(None),
            stopped: RwSignal::new(Vec::new()),
            unsaved: RwSignal::new(None),
            aside: RwSignal::new(None),
            to_check: RwSignal::new(None),
            take_home: TakeHome::new(),
            view: RwSignal::new(View::default()),
            compare,
            runs: Runs::new(),
            dropping: RwSignal::new(false),
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
        self.phase.get() == Phase::Running
            && curves.step() > 0
            && curves.step() == curves.config.steps
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

    /// Takes in data that was read.
    pub(crate) fn take(&self, data: DataSummary) {
        self.label.set(LabelChoice::of(Some(&data)));
        let before = self.curves.get_untracked();
        let previous = if before.history.is_empty() {
            self.previous.get_untracked()
        } else {
            if untrack(|| self.has_run()) {
                self.tell(format!(
                    "The run on {} was stopped at step {}. What it brought is under Runs.",
                    shown_name(&before.data.name),
                    before.step()
                ));
            }
            Some(before)
        };
        // Faint lines of other data say nothing beside those of this data.
        let previous = previous.filter(|before| before.data.name == data.name);
        self.raw_map.set(None);
        self.compare.recall(&data);
        self.clear();
        self.previous.set(previous);
        self.aside.set(None);
        self.data.set(Some(data));
        self.stage.set(Phase::Ready);
    }

    /// Takes in a map. A chosen row that is not on it is no longer chosen.
    pub(crate) fn take_map(
        &self,
        side: Option<Side>,
        names: Vec<String>,
        pictures: Option<Pictures>,
        places: Places,
    ) {
        let chosen = self.chosen.get_untracked();
        if chosen.is_some_and(|row| places.of(row).is_none()) {
            self.chosen.set(None);
            self.neighbours.set(None);
        }
        let circle = |curves: &Curves| curves.config.embedding_size == 2;
        let map = Some(MapData {
            side,
            places,
            names,
            pictures,
            circle: side.is_some() && self.curves.with_untracked(circle),
            by_umap: None,
        });
        if side.is_none() {
            self.raw_map.set(map.clone());
        }
        if side.is_some() || !untrack(|| self.has_run()) {
            self.map.set(map);
        }
    }

    /// Places the map by UMAP, or by principal components again.
    pub(crate) fn place_by_umap(&self, by_umap: bool) {
        self.map.update(|map| {
            let Some(map) = map else { return };
            match map.by_umap.take() {
                Some(umap) if !by_umap => [map.places.before, map.places.points] = umap.principal,
                Some(umap) => map.by_umap = Some(umap),
                None if by_umap => {
                    let principal = [map.places.before.clone(), map.places.points.clone()];
                    let epochs = None;
                    map.by_umap = Some(ByUmap { principal, epochs });
                }
                None => {}
            }
        });
    }

    /// Takes in the positions by UMAP so far, of the features and of the embeddings.
    pub(crate) fn take_placed(&self, points: [Vec<[f32; 2]>; 2], epochs: Part) {
        if !self.working.read_untracked().is_empty() {
            self.working.set(String::new());
            self.part.set(None);
        }
        self.map.update(|map| {
            let Some(map) = map else { return };
            if let Some(umap) = &mut map.by_umap
                && points[1].len() == map.places.rows.len()
            {
                umap.epochs = Some(epochs);
                [map.places.before, map.places.points] = points;
            }
        });
    }

    /// Applies an event of the worker.
    pub(crate) fn apply(&self, event: Event) {
        let working = match &event {
            Event::Working { working, left_ms } => said(working, *left_ms),
            // After any other event the long work is over, or is reported again.
            _ => String::new(),
        };
        if *self.working.read_untracked() != working {
            self.working.set(working);
        }
        self.part.set(match &event {
            Event::Working { working, .. } => {
                Some(working.done as f64 / working.total.max(1) as f64)
            }
            _ => None,
        });
        match event {
            Event::Working { .. } => {}
            Event::Device(running) => {
                self.reading.update(|commands| *commands -= 1);
                self.no_engine.set(None);
                self.device.set(Some(running));
            }
            Event::NoGpu => self.no_gpu.set(true),
            Event::NoDevice(message) => {
                self.reading.update(|commands| *commands -= 1);
                self.no_engine.set(Some(message));
            }
            Event::NotStarted(message) | Event::Failed(message) => {
                self.leave_kept_run();
                self.say(message);
                self.can_evaluate.set(None);
                self.evaluating.set(None);
                self.threshold.set(threshold::Shown::Nothing);
                self.stage.set(Phase::Ready);
            }
            Event::Forecast(forecast) => self.forecast.set(Some(forecast)),
            Event::Data(_)
            | Event::SavedRun(_)
            | Event::NotOpened(_)
            | Event::Refused { .. }
            | Event::Map { .. }
            | Event::Kept { .. }
            | Event::Pieces(_)
            | Event::Taken(_)
            | Event::NotTaken(_)
            | Event::PlacedByUmap { .. }
            | Event::NotPlaced(_) => {
                unreachable!("the session takes what it asked for, and what comes with arrays")
            }
            event @ (Event::ComparisonForecast(_)
            | Event::Comparing(_)
            | Event::Compared { .. }
            | Event::NotCompared(_)) => {
                if let Some(why) = self
                    .compare
                    .apply(event, self.data.read_untracked().as_ref())
                {
                    self.say(why);
                }
            }
            event @ (Event::Started { .. }
            | Event::Steps { .. }
            | Event::Evaluated { .. }
            | Event::Finished { .. }
            | Event::Reset) => self.apply_of_run(event),
            // An answer to an earlier click comes late, and is dropped.
            Event::Neighbours(found) => {
                if self.chosen.get_untracked() == Some(found.row) {
                    self.neighbours.set(Some(*found));
                }
            }
            Event::CanEvaluateAll(forecast) => self.can_evaluate.set(Some(forecast)),
            Event::Evaluating(part) => self.evaluating.set(Some(part)),
            Event::EvaluatedAll(evaluation) => {
                self.evaluating.set(None);
                if let Some(evaluation) = evaluation {
                    self.evaluation.set(Some(*evaluation));
                }
            }
            Event::RowsToCheck(check) => self.to_check.set(Some(*check)),
            Event::Threshold(found) => self.threshold.set(threshold::Shown::of(found)),
            Event::CanGoOn(offers, own) => self.take_offers(offers, own),
            Event::NotSaved(why) => self.unsaved.set(why),
            Event::Said(text) => self.tell(text),
            Event::Paused => self.stage.set(Phase::Paused),
            Event::Resumed => self.stage.set(Phase::Running),
        }
    }

    /// Applies an event of a run.
    fn apply_of_run(&self, event: Event) {
        match event {
            Event::Started {
                config,
                data,
                running,
                warnings,
                memory,
            } => {
                self.no_gpu.set(false);
                self.device.set(Some(running));
                self.runs.begin();
                let before = self.curves.get_untracked();
                if !before.history.is_empty() {
                    self.previous.set(Some(before));
                }
                self.curves.set(Curves {
                    config: *config,
                    data,
                    warnings,
                    purposes: vec![(0, memory.by_purpose.clone())],
                    memory,
                    ..Curves::default()
                });
                self.clear_answers();
            }
            Event::Steps {
                reports,
                took_ms,
                pairs,
                hardest,
                age,
                warnings,
                memory,
            } => self.curves.update(|curves| {
                // The steps of a run that was opened took no time here.
                if took_ms > 0.0 {
                    let (steps, ms) = curves.pace;
                    curves.pace = (
                        PACE_KEPT * steps + reports.len() as f64,
                        PACE_KEPT * ms + took_ms,
                    );
                }
                curves.pairs = pairs;
                curves.age = Some(age);
                if let Some(list) = hardest {
                    curves.hardest.push(list);
                }
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
            Event::Finished {
                scores,
                baseline,
                verdict,
                compared,
                warnings,
                elapsed_ms,
                rate,
            } => {
                if let (Some(running), Some(rate)) = (&*self.device.read_untracked(), rate) {
                    forecast::remember(&running.device.adapter, rate);
                }
                self.curves.update(|curves| {
                    (curves.compared, curves.warnings) = (compared, warnings);
                    curves.scores = Some(*scores);
                    curves.baseline = *baseline;
                    curves.verdict = Some(verdict);
                    curves.elapsed_ms = elapsed_ms;
                });
                self.unsaved.set(None);
                self.stage.set(Phase::Finished);
            }
            Event::Reset => self.reset(),
            _ => unreachable!("only what a run says comes here"),
        }
    }

    /// Clears the page after the run was set aside. A second reset before this one is done sets nothing more aside.
    fn reset(&self) {
        if !self.curves.read_untracked().history.is_empty() || self.aside.read_untracked().is_none()
        {
            self.set_aside();
        }
        self.clear();
        self.stage.set(Phase::Ready);
    }

    /// Takes in the runs that can be resumed.
    fn take_offers(&self, mut offers: Vec<Offer>, own: bool) {
        let asked = self.offer.get_untracked().map(|offer| offer.run);
        let asked = offers.iter().position(|offer| Some(offer.run) == asked);
        if !untrack(|| self.runs.is_opening()) {
            // The offered run stays offered, unless the current run takes its place.
            let at = asked.filter(|_| !own).unwrap_or(0);
            self.offer.set(offers.get(at).cloned());
        }
        if own {
            offers.remove(0);
        }
        self.stopped.set(offers);
    }

    /// Gives up opening a run that was kept: the next run is another one, and never takes its place.
    pub(crate) fn leave_kept_run(&self) {
        if self.runs.leave() {
            self.offer.set(None);
        }
    }

    /// Makes room for a comparison: it takes the place of the run, whose curves stay as faint lines.
    pub(crate) fn begin_comparison(&self) {
        self.forgive();
        self.notice.set(None);
        self.aside.set(None);
        let before = self.curves.get_untracked();
        self.clear();
        if !before.history.is_empty() {
            self.previous.set(Some(before));
        }
        self.stage.set(Phase::Ready);
        self.compare.clear();
        self.compare.now.set(Some(CompareState::default()));
    }

    /// Sets aside the state that a reset clears.
    fn set_aside(&self) {
        let stage = match self.stage.get_untracked() {
            Phase::Running => Phase::Paused,
            stage => stage,
        };
        self.aside.set(Some(Aside {
            stage,
            curves: self.curves.get_untracked(),
            previous: self.previous.get_untracked(),
            map: self.map.get_untracked(),
            chosen: self.chosen.get_untracked(),
            neighbours: self.neighbours.get_untracked(),
            can_evaluate: self.can_evaluate.get_untracked(),
            evaluation: self.evaluation.get_untracked(),
            threshold: self.threshold.get_untracked(),
            hardest: self.hardest.get_untracked(),
        }));
    }

    /// Restores what the last reset cleared; `false` if there is nothing to restore.
    pub(crate) fn restore(&self) -> bool {
        let Some(aside) = self.aside.try_update(Option::take).flatten() else {
            return false;
        };
        self.curves.set(aside.curves);
        self.previous.set(aside.previous);
        self.map.set(aside.map);
        self.chosen.set(aside.chosen);
        self.neighbours.set(aside.neighbours);
        self.can_evaluate.set(aside.can_evaluate);
        self.evaluation.set(aside.evaluation);
        self.threshold.set(aside.threshold);
        self.hardest.set(aside.hardest);
        self.stage.set(aside.stage);
        true
    }

    /// Clears the curves of this run and the one before, and all answers.
    fn clear(&self) {
        self.curves.set(Curves::default());
        self.previous.set(None);
        self.clear_answers();
    }

    /// Clears all that was asked of a run that is gone, and shows the map of the data.
    fn clear_answers(&self) {
        self.can_evaluate.set(None);
        self.evaluating.set(None);
        self.evaluation.set(None);
        self.threshold.set(threshold::Shown::Nothing);
        self.hardest.set(None);
        self.to_check.set(None);
        self.unsaved.set(None);
        self.map.set(self.raw_map.get_untracked());
        self.chosen.set(None);
        self.neighbours.set(None);
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

/// Progress of long work in words.
fn said(working: &Working, left_ms: f64) -> String {
    let Working {
        what,
        unit,
        done,
        total,
    } = working;
    let (done, total) = (*done, *total);
    let part = Part {
        done,
        total,
        left_ms,
    };
    let left = part.left();
    let (done, total) = (grouped(done), grouped(total));
    let what = capitalized(what);
    format!("{what}: {done} of {total} {unit}{left}")
}

/// A text with a capital as its first letter, to begin a sentence.
pub(crate) fn capitalized(text: &str) -> String {
    let mut text = text.to_owned();
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    text
}
