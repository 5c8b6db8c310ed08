//! [`Session`]: the page's connection to the worker, and the actions of its buttons and keys.

use std::collections::VecDeque;
use std::time::Duration;

use js_sys::{Array, Float32Array, Uint8Array, Uint16Array, Uint32Array};
use leptos::prelude::*;
use nearfar::{AnchorAsked, EngineKind, Pictures, STREAM_FROM_BYTES, Side, TrainConfig};
use web_sys::{File, Worker};

use crate::frame::is_still;
use crate::protocol::{Command, DataSummary, Event, Part, Running};
use crate::remembered;
use crate::request::{Asked, Reading, Source};
use crate::spawn::{Wasm, spawn};
use crate::state::threshold::Shown;
use crate::state::{Coloured, FEWER, Phase, Places, State, View};
use crate::wire;
use crate::words::grouped;

/// Sends commands; the worker's events go to the [`State`].
#[derive(Clone, Copy)]
pub(crate) struct Session {
    worker: StoredValue<Option<Worker>, LocalStorage>,
    /// Engine that the link forces, if any.
    pub(crate) engine: StoredValue<Option<EngineKind>>,
    /// Size in bytes from which on the features of an NPY file stay in it.
    pub(crate) stream_from: StoredValue<u64>,
    /// Requests for data that are not answered yet, in order.
    pub(crate) asked: StoredValue<VecDeque<Asked>, LocalStorage>,
    /// Source of the data on the page.
    pub(crate) held: StoredValue<Option<Source>, LocalStorage>,
    /// Data that waits for the person's answer, as opening it ends the run.
    pub(crate) offered: StoredValue<Option<Source>, LocalStorage>,
    /// Files that were refused, until another label column or another way of reading is chosen.
    pub(crate) candidate: StoredValue<Option<(Vec<File>, Reading)>, LocalStorage>,
    /// A file that a link asks for by name, and its settings, until the person loads it.
    pub(crate) awaited: StoredValue<Option<(String, Vec<String>)>>,
    /// A run starts once the data is back in a new worker.
    pub(crate) run_next: StoredValue<bool>,
    /// The saved run goes on once its data is there.
    pub(crate) go_on_next: StoredValue<bool>,
    pub(crate) state: State,
}

impl Session {
    /// A session without a worker: the first command starts it.
    pub(crate) fn new(state: State) -> Self {
        Self {
            worker: StoredValue::new_local(None),
            engine: StoredValue::new(None),
            stream_from: StoredValue::new(STREAM_FROM_BYTES),
            asked: StoredValue::new_local(VecDeque::new()),
            held: StoredValue::new_local(None),
            offered: StoredValue::new_local(None),
            candidate: StoredValue::new_local(None),
            awaited: StoredValue::new(None),
            run_next: StoredValue::new(false),
            go_on_next: StoredValue::new(false),
            state,
        }
    }

    /// Starts the worker if there is none, and opens its engine.
    pub(crate) fn wake(&self) {
        if self.worker.with_value(Option::is_some) {
            return;
        }
        let session = *self;
        let receive = move |parts: &Array| session.receive(parts);
        let die = move |message| session.die(message);
        let Some(worker) = spawn(Wasm::Own, receive, die) else {
            self.die(NO_WORKER.to_owned());
            return;
        };
        self.worker.set_value(Some(worker));
        self.state.stage.set(Phase::Ready);
        self.state.reading.update(|commands| *commands += 1);
        let engine = self.engine.get_value();
        let tuned = remembered::shape();
        self.send(&Command::Open { engine, tuned }, &[]);
    }

    /// Sends a command, and files beside it.
    pub(crate) fn send(&self, command: &Command, files: &[File]) {
        let message = Array::of1(&wire::written(command, &[]));
        files.iter().for_each(|file| {
            message.push(file);
        });
        self.worker.with_value(|worker| {
            if let Some(worker) = worker {
                worker.post_message(&message).ok();
            }
        });
    }

    /// Ends the worker, with everything in its memory.
    fn die(&self, message: String) {
        if let Some(worker) = self.worker.try_update_value(Option::take).flatten() {
            worker.set_onmessage(None);
            worker.set_onerror(None);
            worker.terminate();
        }
        self.asked.update_value(VecDeque::clear);
        self.run_next.set_value(false);
        self.go_on_next.set_value(false);
        self.state.aside.set(None);
        self.state.say(message);
        self.state.reading.set(0);
        self.state.evaluating.set(None);
        self.state.threshold.set(Shown::Nothing);
        self.state.checks.going.set(false);
        self.state.compare.now.set(None);
        self.state.stage.set(Phase::Dead);
    }

    /// Starts a run with the settings on the page, or resumes the one that is paused.
    pub(crate) fn run(&self) {
        match untrack(|| self.state.phase.get()) {
            Phase::Paused => {
                // Who goes on has read it.
                self.state.notice.set(None);
                self.send(&Command::Resume { steps: None }, &[]);
            }
            Phase::Dead if untrack(|| self.state.can_run()) => {
                self.state.forgive();
                self.run_next.set_value(true);
                self.ask_again();
            }
            _ => self.start(self.state.config.get_untracked(), None),
        }
    }

    /// Pauses the run.
    pub(crate) fn pause(&self) {
        if untrack(|| self.state.can_pause()) {
            self.send(&Command::Pause, &[]);
        }
    }

    /// Starts, resumes or pauses a run, as Space does.
    pub(crate) fn run_or_pause(&self) {
        match untrack(|| self.state.phase.get()) {
            Phase::Running => self.pause(),
            _ => self.run(),
        }
    }

    /// Takes one step.
    pub(crate) fn step(&self) {
        match untrack(|| self.state.phase.get()) {
            Phase::Paused => self.send(&Command::Resume { steps: Some(1) }, &[]),
            _ => self.start(self.state.config.get_untracked(), Some(1)),
        }
    }

    /// Stops the run and clears the plots, until it is undone.
    pub(crate) fn reset(&self) {
        if untrack(|| self.state.can_reset()) {
            self.state.error.set(None);
            self.send(&Command::Reset, &[]);
        }
    }

    /// Brings back what the last reset cleared.
    pub(crate) fn undo(&self) {
        if self.state.restore() {
            self.send(&Command::Undo, &[]);
        }
    }

    /// Asks for the forecast of a run with the settings on the page, if one could start.
    pub(crate) fn ask_forecast(&self) {
        if let Some(running) = &*self.state.device.read()
            && self.state.can_start()
        {
            let config = Box::new(self.state.config.get());
            let rate = remembered::rate(&running.device.adapter);
            self.send(&Command::Forecast { config, rate }, &[]);
        }
    }

    /// Scores a sample of the test rows in place of all that were planned.
    pub(crate) fn score_fewer(&self) {
        if untrack(|| self.state.can_score_fewer()) {
            self.state
                .curves
                .update(|curves| curves.config.test_queries = FEWER);
            self.send(&Command::ScoreFewer { queries: FEWER }, &[]);
        }
    }

    /// Starts or stops scoring every row of a side.
    pub(crate) fn evaluate_all(&self) {
        if untrack(|| self.state.phase.get()) == Phase::Evaluating {
            self.send(&Command::StopEvaluating, &[]);
        } else if let Some(forecast) = self.state.can_evaluate.get_untracked()
            && untrack(|| self.state.can_evaluate_all())
        {
            let none = Part::after(0.0, 0, forecast.queries);
            self.state.evaluating.set(Some(none));
            self.send(&Command::EvaluateAll, &[]);
        }
    }

    /// Stops reading files; the data before them stays.
    pub(crate) fn stop_reading(&self) {
        self.send(&Command::StopReading, &[]);
    }

    /// Starts or stops the search for the threshold of the run that is over.
    pub(crate) fn find_threshold(&self, rate: Option<f64>) {
        let shown = self.state.threshold;
        if *shown.read_untracked() == Shown::Looking {
            return self.send(&Command::StopThreshold, &[]);
        }
        shown.set(Shown::Looking);
        self.send(&Command::FindThreshold { rate }, &[]);
    }

    /// Asks for the report on a threshold that the person chose; what is shown stays until it comes.
    pub(crate) fn threshold_at(&self, similarity: f64) {
        self.state.threshold.update(Shown::ask_more);
        self.send(&Command::ThresholdAt(similarity), &[]);
    }

    /// Asks what the chosen column says of the rows of the map, unless it is known.
    pub(crate) fn ask_colours(&self) {
        let Some(column) = self.state.colour_by.get() else {
            if self.state.coloured.read_untracked().is_some() {
                self.state.coloured.set(None);
            }
            return;
        };
        let map = self.state.map.read();
        let Some(map) = &*map else { return };
        let rows = &map.places.rows;
        let is_known = |coloured: &Coloured| coloured.column == column && coloured.rows == *rows;
        if !self.state.coloured.read().as_ref().is_some_and(is_known) {
            // Empty until they come: so that they are asked for once.
            let rows = rows.clone();
            self.state.coloured.set(Some(Coloured {
                column: column.clone(),
                rows: rows.clone(),
                colours: vec![u16::MAX; rows.len()],
                names: vec![String::new()],
                ends: [0.0; 2],
            }));
            self.send(&Command::ColourBy { column, rows }, &[]);
        }
    }

    /// Takes in the colours of the rows that were asked for last.
    fn take_colours(&self, column: &str, names: Vec<String>, ends: [f64; 2], colours: Vec<u16>) {
        self.state.coloured.update(|coloured| {
            let asked = coloured.as_mut();
            if let Some(asked) =
                asked.filter(|asked| asked.column == column && asked.rows.len() == colours.len())
            {
                (asked.names, asked.ends, asked.colours) = (names, ends, colours);
            }
        });
    }

    /// Places the map by UMAP, or by principal components again, and has it so in later runs.
    pub(crate) fn choose_umap(&self, by_umap: bool) {
        self.state.by_umap.set(Some(by_umap));
        self.place_by_umap(by_umap);
    }

    /// Places the map by UMAP, or by principal components again.
    pub(crate) fn place_by_umap(&self, by_umap: bool) {
        self.state.place_by_umap(by_umap);
        let command = match by_umap {
            true => Command::PlaceByUmap,
            false => Command::StopPlacing,
        };
        self.send(&command, &[]);
    }

    /// Chooses a row of the map, or none, and asks for its neighbours.
    pub(crate) fn choose_row(&self, row: Option<u32>) {
        self.state.chosen.set(row);
        self.state.neighbours.set(None);
        self.look_around();
    }

    /// Asks for the neighbours of the chosen row, if there is one.
    fn look_around(&self) {
        if let Some(row) = self.state.chosen.get_untracked() {
            self.send(&Command::Neighbours { row }, &[]);
            let (rows, cells_of) = (vec![row], Some(row));
            self.send(&Command::About { rows, cells_of }, &[]);
        }
    }

    /// Asks for an anchor of the last step, by its place in the batch, and for the triplets of one of its positives; the worker
    /// chooses where these are `None`. Nothing is asked while steps are taken, or nobody looks.
    pub(crate) fn look_at_anchor(&self, anchor: Option<usize>, positive: Option<u32>) {
        let shown = self.state.anchor;
        if shown.open.get_untracked() && untrack(|| self.state.stands_still()) {
            let alone = shown.alone.get_untracked();
            let most = DOTS;
            let asked = AnchorAsked {
                anchor,
                positive,
                alone,
                most,
            };
            self.send(&Command::Anchor(asked), &[]);
        }
    }

    /// Asks for the names of rows, if they have any.
    pub(crate) fn ask_names(&self, rows: Vec<u32>) {
        let rows = self.state.names.unknown(rows);
        if !rows.is_empty() && self.state.names.by.read_untracked().is_some() {
            let cells_of = None;
            self.send(&Command::About { rows, cells_of }, &[]);
        }
    }

    /// Names the rows by another column.
    pub(crate) fn name_by(&self, column: String) {
        self.send(&Command::NameBy(column.clone()), &[]);
        self.state.names.begin(Some(column));
        self.look_around();
    }

    /// Chooses the next row of the map, or the one before.
    pub(crate) fn go_to_next_row(&self, up: bool) {
        let before = self.state.chosen.get_untracked();
        let next = (self.state.map).with_untracked(|map| map.as_ref()?.places.next(before, up));
        if next != before {
            self.choose_row(next);
        }
    }

    /// Puts the rows of a side on the map.
    pub(crate) fn show_side(&self, side: Side) {
        self.send(&Command::ShowSide(side), &[]);
    }

    /// Chooses the row of this name or number, of any side.
    pub(crate) fn find_row(&self, text: &str) {
        let map = self.state.map.read_untracked();
        let Some(map) = &*map else { return };
        let is_named = self.state.names.by.read_untracked().is_some();
        match text.trim().parse() {
            _ if text.trim().is_empty() => self.choose_row(None),
            Ok(number) if !is_named => self.take_found(Some(number)),
            Err(_) if !is_named => self.choose_row(None),
            number => {
                // A number that is no name is that of a row.
                let rows = match number {
                    Ok(_) => Vec::new(),
                    Err(_) => map.places.rows.clone(),
                };
                let name = text.trim().to_owned();
                self.state.names.sought.set(name.clone());
                self.send(&Command::FindName { name, rows }, &[]);
            }
        }
    }

    /// Chooses the row that was found, by its name or as a number, if there is one.
    fn take_found(&self, found: Option<u32>) {
        let sought = self.state.names.sought.get_untracked();
        let rows =
            (self.state.data).with_untracked(|data| data.as_ref().map_or(0, |data| data.rows));
        let row = found.or(sought.parse().ok());
        let there = row.filter(|row| (*row as usize) < rows);
        self.choose_row(there);
        if there.is_none() {
            self.state.notice.set(Some(match row {
                Some(row) => format!(
                    "There is no row {row}: the data has {} rows, counted from 0.",
                    grouped(rows as u64)
                ),
                None => format!("No row has \"{sought}\" in its name."),
            }));
        }
    }

    /// Runs the last run again with `memory_size` 0; the settings on the page stay.
    pub(crate) fn without_memory(&self) {
        if untrack(|| self.state.can_drop_memory()) {
            let config = self.state.curves.with_untracked(|curves| TrainConfig {
                memory_size: 0,
                ..curves.config.clone()
            });
            self.start(config, None);
        }
    }

    /// Takes the first step of a run with other settings, in place of the run that waits.
    pub(crate) fn step_with(&self, sets: &[String]) {
        let (config, problems) = self.state.config.get_untracked().with_sets(sets);
        match problems.first() {
            Some(problem) => self.state.say_of_setting(problem.to_string()),
            None => {
                self.state.config.set(config.clone());
                self.start(config, Some(1));
            }
        }
    }

    /// Starts a run if one can start, or waits.
    fn start(&self, config: TrainConfig, steps: Option<u64>) {
        if untrack(|| self.state.is_imagined()) {
            return self.state.say(ONLY_IMAGINED.to_owned());
        }
        if untrack(|| self.state.can_step()) {
            self.state.leave_kept_run();
            self.state.forgive();
            self.state.notice.set(None);
            self.state.aside.set(None);
            self.state.view.set(View::Run);
            self.state.stage.set(Phase::Starting);
            // On a phone the button is always in sight, and what the run shows may be far above it.
            if is_phone() {
                window().scroll_to_with_x_and_y(0.0, 0.0);
            }
            let config = Box::new(config);
            self.send(&Command::Start { config, steps }, &[]);
        }
    }

    fn receive(&self, parts: &Array) {
        let Some(event) = wire::read::<Event>(&parts.get(0), &[]) else {
            return;
        };
        self.state.show_work(&event);
        match event {
            Event::Data(summary) => self.begin_with(*summary),
            Event::Refused {
                message,
                columns,
                cure,
            } => {
                self.take_refusal(message, columns, cure);
            }
            Event::Map {
                side,
                names,
                picture_side,
                aside,
            } => {
                let (pictures, places) = (pictures(picture_side, parts, 5), places(parts, aside));
                self.state.take_map(side, names, pictures, places);
                self.look_around();
            }
            Event::RowsToCheck {
                check,
                picture_side,
            } => {
                self.take_checked(check.map(|check| *check), pictures(picture_side, parts, 1));
            }
            Event::PlacedByUmap { epochs } => {
                // Whoever asks for less motion sees the end alone.
                if epochs.done >= epochs.total || !is_still() {
                    let placed = [1, 2].map(|part| points(parts, part));
                    self.state.take_placed(placed, epochs);
                }
            }
            Event::NotPlaced(why) => self.state.take_unplaced(why),
            Event::Coloured {
                column,
                names,
                ends,
            } => {
                let colours = Uint16Array::new(&parts.get(1)).to_vec();
                self.take_colours(&column, names, ends, colours);
            }
            Event::Kept { origin, saved } => self.keep_run(origin, saved, parts),
            Event::SavedRun(offer) => self.open_saved(*offer, parts),
            Event::NotOpened(message) => self.state.say(self.refused(message)),
            // A piece that was asked for outside the dialog.
            Event::NotTaken(message) if !self.state.take_home.is_open() => self.state.say(message),
            event @ (Event::Pieces(..) | Event::Taken(_) | Event::NotTaken(_)) => {
                self.state.take_home.apply(event, parts);
            }
            event => {
                self.hear(&event);
                self.state.apply(event);
            }
        }
    }

    /// Asks what follows from an event.
    fn hear(&self, event: &Event) {
        match event {
            Event::Device(running) => self.is_up(running),
            Event::FoundName(found) => self.take_found(*found),
            Event::FoundFiles(rows) => self.take_pictures(rows),
            Event::Neighbours(found, _) => {
                self.ask_names(found.neighbours.iter().map(|near| near.row).collect());
            }
            Event::Anchor(Ok(Some(looked))) => {
                let listed = looked.seen.listed.iter().map(|other| other.row);
                self.ask_names(looked.seen.batch.iter().copied().chain(listed).collect());
            }
            _ => {}
        }
    }

    /// Takes in data, and goes on with the run that waits for it.
    fn begin_with(&self, data: DataSummary) {
        let waited = self.waits_for_file();
        self.take_data(data);
        if self.run_next.try_update_value(std::mem::take) == Some(true) {
            self.run();
        } else {
            self.go_on_with_data(waited);
        }
    }

    /// The worker has come up: tells `start.js`, and times the engine once more when the page stands still.
    fn is_up(&self, running: &Running) {
        remembered::keep_shape(&running.device);
        if let Ok(up) = web_sys::Event::new("nearfar-up") {
            window().dispatch_event(&up).ok();
        }
        let session = *self;
        set_timeout(move || untrack(|| session.ask_forecast()), QUIET);
    }
}

/// Most references of an anchor that are drawn.
const DOTS: usize = 160;

/// Message if a run on imagined data is asked for.
pub(crate) const ONLY_IMAGINED: &str =
    "There are no rows yet, only their number: choose a sample, or drop a table, to run.";

/// Time after which the page stands still, and the engine is timed once more.
const QUIET: Duration = Duration::from_secs(4);

/// Message if [`spawn`] returns `None`.
pub(crate) const NO_WORKER: &str = "Nearfar could not start its worker: the browser is too old for it (module workers), or the page was opened as a file; open it over http.";

/// Reads the arrays that come beside a map.
fn places(parts: &Array, aside: Vec<u32>) -> Places {
    Places {
        points: points(parts, 1),
        before: points(parts, 4),
        classes: Uint16Array::new(&parts.get(2)).to_vec(),
        rows: Uint32Array::new(&parts.get(3)).to_vec(),
        aside,
    }
}

/// Reads a part of a message as pictures of this side, if rows are pictures.
fn pictures(side: Option<usize>, parts: &Array, part: u32) -> Option<Pictures> {
    let shades = || Uint8Array::new(&parts.get(part)).to_vec();
    side.map(|side| Pictures {
        side,
        shades: shades(),
    })
}

/// Reads a part of a message as pairs of numbers.
fn points(parts: &Array, part: u32) -> Vec<[f32; 2]> {
    let values = Float32Array::new(&parts.get(part)).to_vec();
    let points = values.chunks_exact(2).map(|point| [point[0], point[1]]);
    points.collect()
}

/// Tells if the page has the width of a phone, as in the style sheet.
fn is_phone() -> bool {
    let narrow = window().match_media("(max-width: 700px)").ok().flatten();
    narrow.is_some_and(|narrow| narrow.matches())
}
