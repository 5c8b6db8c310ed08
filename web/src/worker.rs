//! The worker: owns the core, executes the page's commands, and reports their results.
//!
//! Commands are taken between slices of work; a new run or a reset also stops the slice under way.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures_util::StreamExt as _;
use js_sys::{Array, Float32Array, Reflect, Uint8Array, Uint16Array, Uint32Array};
use nearfar::kernels::{self, Kernel};
use nearfar::{
    BlobRows, Checkpoint, Choice, Columns, CompareConfig, CompareProgress, Comparison, Contest,
    Dataset, DeviceInfo, Engine, EngineChoice, Error, Labelled, Map, MemoryReport, NamedFile,
    Origin, Piece, Progress, Purpose, Rate, Result, Room, RowSource, RowsOf, Run, SelfTest, Side,
    Survey, Taken, TakenFile, TileShape, TrainConfig, Trainer, Tuning, Umap, Working, self_test,
    tune,
};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::{JsFuture, spawn_local};
use web_sys::{DedicatedWorkerGlobalScope, File, MessageEvent, Response};
use web_time::{Duration, Instant};

use crate::checkpoints::{Offer, Saved, Slots, TRIES};
use crate::device::tuned_text;
use crate::files::Files;
use crate::plots::grouped;
use crate::protocol::{
    Command, CompareState, DataSummary, EvaluationForecast, Event, Part, RunForecast, Running,
};
use crate::take_home;
use crate::wire;

/// Number of hardest triplets of a step that are sent to the page.
const HARDEST: usize = 5;

/// Time between two messages on the progress of long work.
const SAY_EVERY: Duration = Duration::from_millis(400);
/// Number of times that the engine is timed for forecasts: first while the page still comes up, then once more.
const OFTEN: u32 = 2;
/// Message if something is asked of a run that is gone.
const NO_RUN: &str = "There is no run any more: press Run to start one.";
/// Least time between two automatic resumes after a device was lost.
const SPARED: Duration = Duration::from_secs(60);
/// Time that UMAP runs before the page gets the positions.
const PLACE_FOR: Duration = Duration::from_millis(120);
/// Age of a progress message from which on it may be gone from the page.
const IS_STILL_SHOWN: Duration = Duration::from_secs(1);

/// A command, and the files that came with it.
type Message = (Command, Vec<File>);

/// Listens for commands and serves them until the worker ends.
pub(crate) fn start(scope: &DedicatedWorkerGlobalScope) {
    let (sender, commands) = unbounded();
    let stop = Arc::<AtomicBool>::default();
    let core = Core {
        scope: scope.clone(),
        choice: EngineChoice::default(),
        data: None,
        survey: Survey::default(),
        sample: None,
        columns: Columns::default(),
        run: None,
        aside: None,
        kept: (0, false),
        comparing: None,
        placing: None,
        owes_map: false,
        idle: None,
        empty: None,
        timed: 0,
        tested: None,
        tuned: None,
        cold: Vec::new(),
        until: 0,
        evaluating: false,
        slots: Slots::default(),
        lost: None,
        stop: Arc::clone(&stop),
    };
    listen(scope, sender, stop);
    spawn_local(core.serve(commands));
}

fn listen(
    scope: &DedicatedWorkerGlobalScope,
    sender: UnboundedSender<Message>,
    stop: Arc<AtomicBool>,
) {
    let on_message = Closure::<dyn Fn(MessageEvent)>::new(move |event: MessageEvent| {
        let Ok(parts) = event.data().dyn_into::<Array>() else {
            return;
        };
        let mut parts = parts.iter();
        let command = parts.next().and_then(|command| wire::read(&command, &[]));
        let Some(command) = command else { return };
        // These commands stop the work under way; any other waits for its turn.
        match command {
            Command::Sample { .. }
            | Command::Files { .. }
            | Command::Start { .. }
            | Command::Compare { .. }
            | Command::StopComparing
            | Command::StopEvaluating
            | Command::ScoreFewer { .. }
            | Command::StopThreshold
            | Command::StopReading
            | Command::StopPlacing
            | Command::Reset => stop.store(true, Ordering::Relaxed),
            _ => {}
        }
        let files = parts
            .filter_map(|part| part.dyn_into::<File>().ok())
            .collect();
        sender.unbounded_send((command, files)).ok();
    });
    scope.set_onmessage(Some(on_message.as_ref().unchecked_ref()));
    on_message.forget();
}

/// A sample that the data came from.
struct Sample {
    name: String,
    seed: u64,
}

/// Speed and memory of an engine that nothing runs on.
struct Empty {
    rate: Rate,
    /// Memory that it holds all the same.
    memory: MemoryReport,
    max_buffer_bytes: u64,
}

impl Empty {
    /// Room for a plan within a budget.
    fn room(&self, budget_bytes: u64) -> Room {
        Room {
            free_bytes: budget_bytes.saturating_sub(self.memory.live_bytes),
            budget_bytes,
            max_buffer_bytes: self.max_buffer_bytes,
        }
    }
}

struct Core {
    scope: DedicatedWorkerGlobalScope,
    choice: EngineChoice,
    data: Option<Rc<Dataset>>,
    /// Survey of the data's rows.
    survey: Survey,
    /// The sample that the data is, if it is one; it follows the seed of its run.
    sample: Option<Sample>,
    /// The columns of the data's table that were chosen.
    columns: Columns,
    run: Option<Run>,
    /// A run that was reset, until another begins or other data comes.
    aside: Option<Run>,
    /// State of the run that the page keeps: its step, and if it was over.
    kept: (u64, bool),
    /// A comparison under way; there is no run then.
    comparing: Option<Comparing>,
    /// The map of the run is still to be sent, and the run's end if it is over. A stop only puts both off.
    owes_map: bool,
    /// Set if UMAP is to place the rows of the map; it goes on while no step is taken, and what stops other work only puts it off.
    placing: Option<Placing>,
    /// An engine that no run uses: the next run takes it if the budget is the same.
    idle: Option<Engine>,
    /// Speed and memory of the engine while nothing runs on it.
    empty: Option<Empty>,
    /// Number of times that the engine was timed; `OFTEN` if a run has told its speed.
    timed: u32,
    /// Kernels that are not compiled on the engine yet, the next one last.
    cold: Vec<&'static Kernel>,
    /// GPU and the tile shape that it is fastest with, as [`tuned_text`] writes it.
    tuned: Option<String>,
    /// The device that was tested, and its speed.
    tested: Option<(DeviceInfo, SelfTest)>,
    /// The step at which the run pauses; a run at or past it is paused.
    until: u64,
    /// Every row of a side is to be scored before the run goes on.
    evaluating: bool,
    /// Slots in which the run is saved.
    slots: Slots,
    /// Time at which a run was last resumed after its device was lost.
    lost: Option<Instant>,
    stop: Arc<AtomicBool>,
}

/// State of the placing by UMAP.
enum Placing {
    /// Asked for, with nothing done yet.
    Asked,
    /// Under way: the layouts of the features and of the embeddings, and the time of the start.
    Going(Box<[Umap; 2]>, Instant),
}

impl Core {
    async fn serve(mut self, mut commands: UnboundedReceiver<Message>) {
        loop {
            let is_busy = self.evaluating || self.owes_map || self.is_running();
            let is_cold = self.idle.is_some() && !self.cold.is_empty();
            let message =
                if is_busy || self.comparing.is_some() || self.placing.is_some() || is_cold {
                    commands.try_recv().ok()
                } else {
                    commands.next().await
                };
            match message {
                Some((command, files)) => {
                    self.stop.store(false, Ordering::Relaxed);
                    self.obey(command, files).await;
                }
                None if self.owes_map => self.show_map().await,
                None if self.evaluating => self.evaluate_all().await,
                None if self.is_running() => self.slice().await,
                None if self.comparing.is_some() => self.compare_on().await,
                None if self.placing.is_some() => self.place().await,
                None if is_cold => self.warm().await,
                None => return,
            }
        }
    }

    fn is_running(&self) -> bool {
        self.run
            .as_ref()
            .is_some_and(|run| !run.is_finished() && run.step() < self.until)
    }

    async fn obey(&mut self, command: Command, files: Vec<File>) {
        match command {
            Command::Open { engine, tuned } => {
                self.choice.kind = engine;
                self.tuned = tuned;
                if let Err(error) = self.introduce().await {
                    self.say(&Event::NoDevice(error.to_string()));
                }
                // Nothing is deleted yet: a notice on it would go as the data comes.
                self.find_saved(TRIES, false).await;
            }
            Command::Sample { name, seed } => match self.sample(&name, seed).await {
                Ok(dataset) => {
                    self.take(dataset, Some(Sample { name, seed }), Vec::new(), &[])
                        .await;
                }
                Err(error) => self.refuse(&error, Vec::new()),
            },
            Command::Files {
                label,
                columns,
                splitting,
                missing,
                stream_from,
            } => {
                let choice = Choice {
                    labels: label.as_deref(),
                    columns: Some(&columns),
                    missing: Some(missing),
                    ..Choice::default()
                };
                self.read(files, choice, &splitting, stream_from).await;
            }
            Command::OpenSaved => match self.saved_run(files).await {
                Ok((offer, bytes)) => self.post(&Event::SavedRun(Box::new(offer)), &[bytes]),
                Err(error) => self.say(&Event::NotOpened(error.to_string())),
            },
            Command::Forecast { config, rate } => self.forecast(&config, rate).await,
            Command::Start { config, steps } => {
                if let Err(error) = self.begin(*config, steps).await {
                    self.say(&Event::NotStarted(error.to_string()));
                }
            }
            Command::PlanComparison { asked } => self.plan_comparison(&asked).await,
            Command::Compare { asked } => {
                if let Err(error) = self.compare(&asked).await {
                    self.say(&Event::NotCompared(error.to_string()));
                }
            }
            Command::StopComparing => self.stop_comparing(),
            command @ (Command::Save
            | Command::GoOn(_)
            | Command::Forget(_)
            | Command::FindSaved
            | Command::Pause
            | Command::Resume { .. }
            | Command::Reset
            | Command::Undo) => self.obey_about_the_run(command, files).await,
            Command::Neighbours { row } => self.look_around(row).await,
            Command::EvaluateAll => self.evaluating = self.run.is_some(),
            Command::FindThreshold { rate } => self.find_threshold(rate).await,
            // The search or the reading was stopped by the flag already, and was answered.
            Command::StopThreshold | Command::StopReading => {}
            Command::ListPieces { side } => self.list_pieces(side).await,
            Command::TakeHome { piece, side } => self.take_home(piece, side).await,
            Command::ScoreFewer { queries } => {
                if let Some(run) = &mut self.run {
                    run.score_fewer(queries);
                }
            }
            Command::PlaceByUmap => self.placing = Some(Placing::Asked),
            Command::StopPlacing => self.placing = None,
            Command::ListRows { rows } => {
                if let Some(data) = &self.data {
                    let TakenFile { path, bytes } = TakenFile::of_rows(data, &rows);
                    let bytes = Uint8Array::from(&bytes[..]).buffer();
                    self.post(&Event::Taken(path), &[bytes.into()]);
                }
            }
            Command::FindRowsToCheck { side } => self.find_rows_to_check(side).await,
            Command::StopEvaluating => {
                if std::mem::take(&mut self.evaluating) {
                    self.say(&Event::EvaluatedAll(None));
                }
            }
        }
    }

    /// Executes the commands that pause, resume, save or set aside the run.
    async fn obey_about_the_run(&mut self, command: Command, files: Vec<File>) {
        match command {
            Command::Save => self.save().await,
            Command::GoOn(run) => {
                if let Err(error) = self.go_on_with_saved(run, files).await {
                    self.slots.close();
                    self.say(&Event::NotStarted(error.to_string()));
                }
            }
            Command::Forget(run) => {
                self.slots.forget(run).await;
                self.say_saved();
            }
            Command::FindSaved => self.find_saved(1, true).await,
            Command::Pause => {
                // The command may come late, when the run has ended.
                if self.is_running() {
                    self.until = 0;
                    self.say(&Event::Paused);
                    // A person who pauses may reload the page, or close it.
                    self.save().await;
                }
            }
            Command::Resume { steps } => self.go_on(steps),
            Command::Reset => {
                self.evaluating = false;
                self.placing = None;
                self.until = 0;
                self.keep(self.slots.held()).await;
                self.aside = self.run.take().or(self.aside.take());
                self.say(&Event::Reset);
            }
            Command::Undo => {
                self.run = self.run.take().or(self.aside.take());
                self.owes_map = self.run.is_some();
            }
            _ => unreachable!("only what is about the run comes here"),
        }
    }

    /// Opens an engine and measures how fast it is.
    async fn measured(&mut self) -> Result<Engine> {
        let engine = self.open(TrainConfig::default().budget_bytes).await?;
        let tested = self_test(&engine).await?;
        let engine = self.tune(engine).await?;
        self.tested = tested.map(|tested| (engine.info().clone(), tested));
        Ok(engine)
    }

    /// Opens an engine, and reports its device, why, and how fast it is. If a GPU fails while it is measured, the CPU is opened.
    async fn introduce(&mut self) -> Result<()> {
        let engine = match self.measured().await {
            Err(Error::Device(why)) if !self.choice.asks_for_gpu() => {
                self.choice.failed_gpu = Some(why);
                self.measured().await?
            }
            measured => measured?,
        };
        engine.ledger().restart_peak();
        self.say(&Event::Device(self.running(&engine)));
        // A run may take the engine before it is timed.
        self.empty.get_or_insert_with(|| Empty {
            rate: Rate::default(),
            memory: MemoryReport::new(engine.ledger()),
            max_buffer_bytes: engine.info().max_buffer_bytes,
        });
        self.idle = Some(engine);
        Ok(())
    }

    /// Gives the engine the tile shape that it is fastest with, which is measured if no earlier visit did.
    async fn tune(&mut self, engine: Engine) -> Result<Engine> {
        let info = engine.info();
        if !info.is_tunable() || info.tuned.is_some() {
            return Ok(engine);
        }
        let Some(Tuning { shape, .. }) = tune(&engine).await? else {
            return Ok(engine);
        };
        self.tuned = Some(tuned_text(info, shape));
        Ok(engine.with_tuned_shape(shape))
    }

    /// Compiles the next kernel that the engine may need. A kernel that does not compile is reported when work needs it.
    async fn warm(&mut self) {
        if let (Some(engine), Some(kernel)) = (&self.idle, self.cold.pop()) {
            engine.prepare([kernel]).await.ok();
        }
    }

    /// Device of an engine, the reason for it, and its measured speed.
    fn running(&self, engine: &Engine) -> Running {
        let tested = self
            .tested
            .as_ref()
            .filter(|(device, _)| device == engine.info());
        let gpu = Reflect::get(&self.scope.navigator(), &"gpu".into());
        Running {
            device: engine.info().clone(),
            reason: engine.reason().clone(),
            webgpu: gpu.is_ok_and(|gpu| gpu.is_object()),
            self_test: tested.map(|(_, tested)| *tested),
        }
    }

    /// Ends the run and frees its memory; keeps its engine if its device is still there.
    async fn end_run(&mut self) {
        self.stop_comparing();
        // What was saved of the run is still offered.
        self.keep(0).await;
        (self.evaluating, self.owes_map, self.placing) = (false, false, None);
        let (run, aside) = (self.run.take(), self.aside.take());
        if let Some(run) = run.or(aside) {
            let engine = run.into_engine();
            self.idle = engine.settle().await.ok().map(|()| engine);
        }
    }

    /// Opens an engine, or takes the idle one. Kernels that a run needs are compiled before it starts, the others while nothing
    /// else is done.
    async fn open(&mut self, budget_bytes: u64) -> Result<Engine> {
        // An engine with another budget is dropped here: its buffers never lie beside those of the next.
        if let Some(engine) = self.idle.take()
            && engine.ledger().budget_bytes() == budget_bytes
            && engine.settle().await.is_ok()
        {
            engine.ledger().restart_peak();
            return Ok(engine);
        }
        let opened = Engine::open(&self.choice, budget_bytes).await;
        if matches!(opened, Err(Error::Device(_))) {
            self.say(&Event::NoGpu);
        }
        let engine = opened?;
        self.cold = kernels::used_on(engine.info()).collect();
        self.cold.reverse();
        let mut shapes = TileShape::ALL.into_iter();
        let tuned = |shape: &_| self.tuned.as_deref() == Some(&tuned_text(engine.info(), *shape));
        let engine = match shapes.find(tuned) {
            Some(shape) => engine.with_tuned_shape(shape),
            None => engine,
        };
        let engine = engine.with_listener(self.working());
        Ok(engine.with_stop_flag(Arc::clone(&self.stop)))
    }

    /// Makes files the data.
    async fn read(
        &mut self,
        files: Vec<File>,
        choice: Choice<'_>,
        splitting: &[String],
        stream_from: u64,
    ) {
        let names: Vec<String> = files.iter().map(File::name).collect();
        let about = |file: &File| (file.name(), file.size() as u64);
        let (data, labels) = match Labelled::pair(files, about) {
            Ok(pair) => pair,
            Err(error) => return self.refuse(&error, Vec::new()),
        };
        let mut columns = Vec::new();
        match self
            .dataset(data, labels, choice, stream_from, &mut columns)
            .await
        {
            Ok(dataset) => {
                self.columns = choice.columns.cloned().unwrap_or_default();
                self.take(dataset, None, columns, splitting).await;
            }
            Err(error) => {
                if !is_of_labels(&error, &names) {
                    columns.clear();
                }
                self.refuse(&error, columns);
            }
        }
    }

    /// Reads a file and its labels; sets `columns` to those that the labels could come from.
    async fn dataset(
        &self,
        data: File,
        labels: Option<File>,
        choice: Choice<'_>,
        stream_from: u64,
        columns: &mut Vec<String>,
    ) -> Result<Dataset> {
        let name = data.name();
        let streams = RowSource::streams(&name, data.size() as u64, stream_from);
        self.with_files(async |files| match (labels, streams) {
            // Rows that stay in their file need labels: without any the file is not worth reading.
            (None, true) => Err(Labelled::alone(&name)),
            (Some(labels), true) => {
                let rows = BlobRows::open(name.clone(), data.into()).await?;
                let rows = RowSource::Blob(rows);
                let count = rows.rows();
                let read = files.labels(&labels, choice, &name, count, columns);
                let labels = read.await?;
                let missing = choice.missing.unwrap_or_default();
                Dataset::streamed(name, rows, labels, missing, self.working()).await
            }
            (labels, false) => {
                let read = files.rows(&data, labels.as_ref(), choice, columns);
                read.await.and_then(Dataset::new)
            }
        })
        .await
    }

    /// Listener that tells the page the progress of long work.
    fn working(&self) -> impl Fn(Working) + use<> {
        let (scope, task) = (self.scope.clone(), RefCell::new(Task::default()));
        move |working| {
            if let Some(left_ms) = task.borrow_mut().is_worth_saying(&working) {
                post(&scope, &Event::Working { working, left_ms }, &[]);
            }
        }
    }

    /// Reads or writes files; the page hears of the progress, and can stop it.
    async fn with_files<T>(&self, work: impl AsyncFnOnce(Files<'_>) -> T) -> T {
        let say = self.working();
        let goes_on = |working| {
            say(working);
            !self.stop.load(Ordering::Relaxed)
        };
        let scope = &self.scope;
        work(Files {
            scope,
            goes_on: &goes_on,
        })
        .await
    }

    fn refuse(&self, error: &Error, columns: Vec<String>) {
        // Stopped work has nothing to say: another command stopped it.
        let message = match error {
            Error::Stopped => String::new(),
            error => error.to_string(),
        };
        self.say(&Event::Refused {
            message,
            columns,
            cure: error.cure(),
        });
    }

    /// Makes a built-in sample; if it has a file, that is fetched from where the page came from.
    async fn sample(&self, name: &str, seed: u64) -> Result<Dataset> {
        let Some(file) = Dataset::sample_file(name) else {
            return Dataset::sample(name, seed);
        };
        let not_there = |why: String| {
            Error::Data(format!(
                "{file} could not be fetched ({why}): try again, or choose another sample"
            ))
        };
        let fetched = async {
            let response = JsFuture::from(self.scope.fetch_with_str(file)).await?;
            let response: Response = response.dyn_into()?;
            if !response.ok() {
                return Err(JsValue::from_str(&format!("status {}", response.status())));
            }
            JsFuture::from(response.array_buffer()?).await
        };
        let bytes = fetched.await.map_err(|error| {
            let text = error.as_string();
            not_there(text.unwrap_or_else(|| "the network does not answer".to_owned()))
        })?;
        let read = async |file: NamedFile| {
            let parts = Array::of1(&Uint8Array::from(&file.bytes[..]));
            let file = File::new_with_u8_array_sequence(&parts, &file.name);
            let file = file.map_err(|_| not_there("it cannot be read".to_owned()))?;
            let choice = Choice::default();
            let rows =
                async |files: Files<'_>| files.rows(&file, None, choice, &mut Vec::new()).await;
            self.with_files(rows).await
        };
        Dataset::sample_of(name, Uint8Array::new(&bytes).to_vec(), read).await
    }

    async fn take(
        &mut self,
        dataset: Dataset,
        sample: Option<Sample>,
        label_columns: Vec<String>,
        splitting: &[String],
    ) {
        let heard = self.working();
        let looked_at = async {
            if dataset.is_imagined() {
                return Ok((Survey::default(), Vec::new()));
            }
            let survey = Survey::of_data(&dataset.features, &heard).await?;
            Ok((survey, dataset.columns_with_rows().await?))
        };
        let (survey, columns) = match looked_at.await {
            Ok(looked_at) => looked_at,
            Err(error) => return self.refuse(&error, Vec::new()),
        };
        let mut findings = survey.findings(&dataset.feature_names);
        findings.extend(survey.zero_rows_warning());
        let sizes = dataset.class_sizes();
        let default_config = dataset.default_config_for(splitting);
        let train = dataset.rows_to_train(&default_config, splitting);
        let summary = DataSummary {
            name: dataset.name.clone(),
            rows: dataset.rows(),
            train: train.unwrap_or(dataset.rows()),
            dim: dataset.features.dim(),
            first_classes: dataset.class_names.iter().take(8).cloned().collect(),
            classes: dataset.class_names.len(),
            class_sizes: [
                sizes.iter().copied().min().unwrap_or(0),
                sizes.iter().copied().max().unwrap_or(0),
            ],
            notes: dataset.notes.clone(),
            findings,
            columns,
            label_columns,
            label_column: dataset.label_column.clone(),
            missing: dataset.missing,
            split_columns: dataset
                .columns
                .iter()
                .map(|(name, _)| name.clone())
                .collect(),
            imagined: dataset.is_imagined(),
            default_config,
        };
        self.end_run().await;
        self.data = Some(Rc::new(dataset));
        self.survey = survey;
        self.sample = sample;
        self.say(&Event::Data(Box::new(summary)));
        // The map is only a look: a file that changed says so when it is trained on.
        if let Some(data) = &self.data
            && let Ok(map) = Map::of_features(data, &mut |working| heard(working)).await
        {
            self.post_map(map);
        }
    }

    async fn begin(&mut self, config: TrainConfig, steps: Option<u64>) -> Result<()> {
        if let Some(run) = self.lengthened(&config)? {
            let done = grouped(run.step());
            self.slots.begin(false);
            self.kept = (0, false);
            self.show(run, steps);
            let text =
                format!("Nothing but the steps has changed: the run goes on after step {done}.");
            self.say(&Event::Said(text));
            return Ok(());
        }
        self.end_run().await;
        config.check()?;
        let data = self.seeded(&config).await?;
        let engine = self.open(config.budget_bytes).await?;
        let mut run = Run::new(engine, data, config).await?.watched();
        run.see_survey(&self.survey);
        self.slots.begin(false);
        self.kept = (0, false);
        self.show(run, steps);
        Ok(())
    }

    /// Takes the run that is over, if these settings differ from its own by more steps alone.
    fn lengthened(&mut self, config: &TrainConfig) -> Result<Option<Run>> {
        let is_same = |run: &mut Run| {
            let now = run.trainer().config();
            let before = TrainConfig {
                steps: now.steps,
                ..config.clone()
            };
            *now == before && config.steps > run.step() && run.is_finished()
        };
        let run = self.run.take_if(is_same);
        run.map(|mut run| run.train_to(config.steps).map(|()| run))
            .transpose()
    }

    /// Reads the checkpoint of an exported run, and what can be offered of it.
    async fn saved_run(&self, files: Vec<File>) -> Result<(Offer, JsValue)> {
        let file = files.into_iter().next();
        let file = file.ok_or_else(|| Error::Data("there is no file".to_owned()))?;
        let bytes = self
            .with_files(async |files| files.saved_run(&file).await)
            .await?;
        let read = Uint8Array::new(&bytes).to_vec();
        let checkpoint = Checkpoint::read(&read)
            .map_err(|error| Error::Data(format!("{}: {error}", file.name())))?;
        Ok((Offer::of(0, &checkpoint), bytes))
    }

    /// Resumes the saved run of this number, or the one in the file if there is one.
    async fn go_on_with_saved(&mut self, run: u64, files: Vec<File>) -> Result<()> {
        self.end_run().await;
        let gone = |why: String| {
            Error::Data(format!(
                "the saved run cannot be read ({why}): press Run to start again"
            ))
        };
        let kept = files.into_iter().next();
        let is_kept = kept.is_some();
        let bytes = match kept {
            Some(file) => Some(content(&file).await?),
            None => self.slots.take(run).await.map_err(gone)?,
        };
        let bytes = bytes.ok_or_else(|| gone("it is no longer there".to_owned()))?;
        let checkpoint = Checkpoint::read(&bytes)?;
        let config = checkpoint.config().clone();
        let data = self.seeded(&config).await?;
        let engine = self.open(config.budget_bytes).await?;
        let mut run = Run::resume(engine, data, &checkpoint).await?.watched();
        run.see_copies(&self.survey);
        let other = checkpoint.other_device(run.device());
        // A run that is opened from a file has no slots yet.
        self.slots.begin(!is_kept);
        self.kept = (0, false);
        self.show(run, None);
        other
            .into_iter()
            .for_each(|other| self.say(&Event::Said(other)));
        Ok(())
    }

    /// The data of a run; a sample is made anew for another seed.
    async fn seeded(&mut self, config: &TrainConfig) -> Result<Rc<Dataset>> {
        if let Some(sample) = self
            .sample
            .as_mut()
            .filter(|sample| sample.seed != config.data_seed())
        {
            // A file is the same for every seed.
            if Dataset::sample_file(&sample.name).is_none() {
                let data = Dataset::sample(&sample.name, config.data_seed())?;
                self.survey = Survey::of_data(&data.features, |_| ()).await?;
                self.data = Some(Rc::new(data));
            }
            sample.seed = config.data_seed();
        }
        let data = self.data.clone();
        data.ok_or_else(|| Error::Data("choose a sample or a file first".to_owned()))
    }

    /// Shows the page a run with its history so far, and goes on with it.
    fn show(&mut self, mut run: Run, steps: Option<u64>) {
        let report = run.report();
        self.say(&Event::Started {
            config: Box::new(report.config),
            data: run.data(),
            running: self.running(run.engine()),
            warnings: run.warnings().to_vec(),
            memory: run.memory(),
        });
        if !report.history.is_empty() {
            self.say(&Event::Steps {
                reports: report.history,
                took_ms: 0.0,
                pairs: None,
                hardest: None,
                age: run.trainer().memory_age(),
                warnings: run.warnings().to_vec(),
                memory: run.memory(),
            });
        }
        for evaluation in report.evaluations {
            self.owes_map = true;
            self.say(&Event::Evaluated {
                evaluation: Box::new(evaluation),
                baseline: Box::new(run.baseline()),
            });
        }
        self.say_can_evaluate(&run);
        self.run = Some(run);
        self.go_on(steps);
    }

    /// Origin of the data: its name, its label column, and how it was read.
    fn origin(&self) -> Option<Origin> {
        let data = self.data.as_ref()?;
        Some(Origin {
            data: data.name.clone(),
            labels: data.label_column.clone(),
            missing: data.missing,
            columns: self.columns.clone(),
            ..Origin::default()
        })
    }

    /// Hands the page what it needs to keep the run, if there is anything new; once the page keeps it, the `saved` run is deleted.
    async fn keep(&mut self, saved: u64) {
        let (Some(run), Some(origin)) = (&self.run, self.origin()) else {
            return;
        };
        let now = (run.step(), run.is_finished());
        if now.0 == 0 || now == self.kept {
            return;
        }
        // A run whose device is lost cannot be read any more: only what the page shows is left of it.
        if let Ok(bytes) = run.checkpoint(&origin).await {
            self.kept = now;
            let bytes = Uint8Array::from(&bytes[..]).buffer();
            self.post(&Event::Kept { origin, saved }, &[bytes.into()]);
        }
    }

    /// Saves the run, if there is one that has taken a step and is not over.
    async fn save(&mut self) {
        let Some(run) = self
            .run
            .as_ref()
            .filter(|run| !run.is_finished() && run.step() > 0)
        else {
            return;
        };
        let Some(origin) = self.origin() else { return };
        let is_first = self.slots.held() == 0;
        match self.slots.save(run, &origin).await {
            Saved::Yes => {
                self.say(&Event::NotSaved(None));
                self.say_saved();
                if is_first {
                    self.find_saved(1, true).await;
                }
            }
            Saved::Not(why) => self.say(&Event::NotSaved(Some(why))),
            Saved::Silent => {}
        }
    }

    /// Tells the page the runs that can be resumed.
    fn say_saved(&self) {
        let (offers, own) = self.slots.offers();
        self.say(&Event::CanGoOn(offers, own));
    }

    /// Looks for the runs that can be resumed, and tells the page. If `bounded`, the oldest of too many are deleted, which is said,
    /// too.
    async fn find_saved(&mut self, tries: u32, bounded: bool) {
        let said = self.slots.find(tries, bounded).await;
        self.say_saved();
        for text in said {
            self.say(&Event::Said(text));
        }
    }

    /// Tells the page the forecast of a run, if there is data and an engine for it.
    async fn forecast(&mut self, config: &TrainConfig, rate: Option<f64>) {
        if self.timed < OFTEN {
            self.time(rate).await;
        }
        let (Some(data), Some(empty)) = (&self.data, &self.empty) else {
            return;
        };
        let room = empty.room(config.budget_bytes);
        let forecast = Trainer::plan(&room, data, config, &empty.rate).map(|forecast| {
            let mut by_purpose = empty.memory.by_purpose.clone();
            for (purpose, bytes) in forecast.memory.by_purpose() {
                *by_purpose.entry(purpose.name().to_owned()).or_default() += bytes;
            }
            RunForecast {
                peak_bytes: empty.memory.live_bytes + forecast.memory.total_bytes(),
                budget_bytes: config.budget_bytes,
                by_purpose,
                predicted_ms: forecast.predicted_ms,
                pml_bytes: Trainer::plan_pml(data, config),
                step_bytes: [Purpose::Similarities, Purpose::Ranks, Purpose::Triplets]
                    .iter()
                    .filter_map(|purpose| forecast.memory.by_purpose().get(purpose).copied())
                    .sum(),
                table_bytes: 4 * data.rows() as u64 * data.features.dim() as u64,
                table_in_file: matches!(data.features, RowSource::Blob(_)),
            }
        });
        let forecast = forecast.map_err(|error| error.to_string());
        self.say(&Event::Forecast(forecast));
    }

    /// Tells the page the forecast of a comparison, if there is data and an engine for it.
    async fn plan_comparison(&mut self, asked: &CompareConfig) {
        if self.timed == 0 {
            self.time(None).await;
        }
        let (Some(data), Some(empty)) = (&self.data, &self.empty) else {
            return;
        };
        let forecast = Contest::new(data, asked).and_then(|contest| {
            let room = empty.room(contest.base.budget_bytes);
            contest.plan(&room, data, &empty.rate)
        });
        let forecast = forecast.map_err(|error| error.to_string());
        self.say(&Event::ComparisonForecast(forecast));
    }

    /// Begins a comparison.
    async fn compare(&mut self, asked: &CompareConfig) -> Result<()> {
        self.end_run().await;
        let data = self.seeded(&asked.of_data()?).await?;
        let contest = Contest::new(&data, asked)?;
        let engine = self.open(contest.base.budget_bytes).await?;
        let rate = self.empty.as_ref().map(|empty| empty.rate);
        let forecast = contest.plan(&engine.room(), &data, &rate.unwrap_or_default())?;
        let comparing = Comparing {
            comparison: Comparison::new(engine, data, contest)?,
            predicted_ms: forecast.predicted_ms,
            said: Instant::now(),
        };
        self.say(&Event::Comparing(comparing.state()));
        self.comparing = Some(comparing);
        Ok(())
    }

    /// Does the next slice of the comparison.
    async fn compare_on(&mut self) {
        let Some(mut comparing) = self.comparing.take() else {
            return;
        };
        match comparing.comparison.next(u64::MAX).await {
            Ok(progress) => {
                if progress != CompareProgress::Steps {
                    self.say(&comparing.report(progress == CompareProgress::Finished));
                }
                if progress == CompareProgress::Finished {
                    self.idle = Some(comparing.comparison.into_engine());
                    return;
                }
                if comparing.said.elapsed() >= SAY_EVERY {
                    comparing.said = Instant::now();
                    self.say(&Event::Comparing(comparing.state()));
                }
                self.comparing = Some(comparing);
            }
            // The command that stopped this work says what comes next.
            Err(Error::Stopped) => self.comparing = Some(comparing),
            Err(error) => {
                // The leaderboard so far stays.
                self.say(&comparing.report(true));
                self.say(&Event::NotCompared(error.to_string()));
            }
        }
    }

    /// Stops the comparison, if one goes on: the leaderboard so far is its last.
    fn stop_comparing(&mut self) {
        if let Some(comparing) = self.comparing.take() {
            self.say(&comparing.report(true));
            self.idle = Some(comparing.comparison.into_engine());
        }
    }

    /// Times the engine that no run uses, unless its speed is `known`.
    async fn time(&mut self, known: Option<f64>) {
        let Some(engine) = self.idle.take() else {
            return;
        };
        let timed = match known {
            Some(operations_per_ms) => Ok((
                engine,
                Rate {
                    operations_per_ms,
                    ..Rate::default()
                },
            )),
            None => Trainer::measure_rate(engine).await,
        };
        // A device that is lost meanwhile is opened again by the run.
        if let Ok((engine, mut rate)) = timed {
            // Other work makes the engine slower, never faster.
            if let Some(before) = self.empty.as_ref().filter(|_| self.timed > 0) {
                rate.operations_per_ms = rate.operations_per_ms.max(before.rate.operations_per_ms);
            }
            self.timed = if known.is_some() {
                OFTEN
            } else {
                self.timed + 1
            };
            self.empty = Some(Empty {
                rate,
                memory: MemoryReport::new(engine.ledger()),
                max_buffer_bytes: engine.info().max_buffer_bytes,
            });
            self.idle = Some(engine);
        }
    }

    /// Scores every row of a side, between two slices of the run.
    async fn evaluate_all(&mut self) {
        let Some(mut run) = self.run.take() else {
            return;
        };
        let began = Instant::now();
        let tell = |done, queries| {
            let part = Part::after(milliseconds(began), done, queries);
            self.say(&Event::Evaluating(part));
        };
        let scored = run.evaluate_all(tell).await;
        match scored {
            Ok(scored) => {
                self.evaluating = false;
                self.run = Some(run);
                self.say(&Event::EvaluatedAll(scored.map(Box::new)));
            }
            // The command that stopped this work says what comes next.
            Err(Error::Stopped) => self.run = Some(run),
            Err(error) => {
                self.evaluating = false;
                self.fail(&error);
            }
        }
    }

    /// Finds the threshold of the run that is over.
    async fn find_threshold(&mut self, rate: Option<f64>) {
        let Some(mut run) = self.run.take() else {
            return self.say(&Event::Threshold(Ok(None)));
        };
        let found = match run.find_threshold(rate).await {
            Ok(found) => Ok(Some(Box::new(found.report))),
            Err(Error::Stopped) => Ok(None),
            Err(error @ Error::Device(_)) => return self.fail(&error),
            Err(error) => Err(error.to_string()),
        };
        self.run = Some(run);
        self.say(&Event::Threshold(found));
    }

    /// Tells the page the forecast of scoring every row.
    fn say_can_evaluate(&self, run: &Run) {
        let rate = self.empty.as_ref().map(|empty| empty.rate);
        let (side, forecast) = run.plan_evaluate_all(&rate.unwrap_or_default());
        let data = run.data();
        self.say(&Event::CanEvaluateAll(EvaluationForecast {
            side,
            queries: match side {
                Side::Train => data.train,
                Side::Validation => data.validation,
                Side::Test => data.test,
            } as u64,
            bytes: forecast.memory.total_bytes(),
            predicted_ms: forecast.predicted_ms,
        }));
    }

    fn go_on(&mut self, steps: Option<u64>) {
        let Some(run) = self.run.as_ref().filter(|run| !run.is_finished()) else {
            return;
        };
        let step = run.step();
        // At the last step the test side is still to be scored.
        self.until = steps.map_or(u64::MAX, |steps| step + steps);
        self.say(&Event::Resumed);
    }

    /// Does the next slice of the run.
    async fn slice(&mut self) {
        let Some(mut run) = self.run.take() else {
            return;
        };
        match self.advance(&mut run).await {
            Ok(()) => {
                let paused = !run.is_finished() && run.step() >= self.until;
                let is_over = run.is_finished();
                self.run = Some(run);
                if paused {
                    self.say(&Event::Paused);
                }
                if !is_over && self.slots.is_due() {
                    self.save().await;
                }
            }
            // The command that stopped this work says what comes next.
            Err(Error::Stopped) => self.run = Some(run),
            Err(error @ Error::Device(_)) if self.is_saved() => {
                drop(run);
                self.go_on_without(&error).await;
            }
            Err(error) => self.fail(&error),
        }
    }

    /// Tells if a run whose device is lost can be resumed from its last save. Only once within [`SPARED`]: what ends a device may
    /// end the next.
    fn is_saved(&self) -> bool {
        let is_new = |lost: Instant| lost.elapsed() < SPARED;
        self.slots.held() > 0 && !self.lost.is_some_and(is_new)
    }

    /// Resumes the saved run on another device.
    async fn go_on_without(&mut self, error: &Error) {
        self.lost = Some(Instant::now());
        let text = format!("{error}. The run goes on from where it was saved last.");
        match self.go_on_with_saved(self.slots.held(), Vec::new()).await {
            Ok(()) => self.say(&Event::Said(text)),
            Err(why) => {
                self.slots.close();
                self.fail(&why);
            }
        }
    }

    /// Finds the rows nearest to a row, between two slices of the run.
    async fn look_around(&mut self, row: u32) {
        let Some(mut run) = self.run.take() else {
            return;
        };
        match run.neighbours(row).await {
            Ok(found) => {
                self.run = Some(run);
                if let Some(found) = found {
                    self.say(&Event::Neighbours(Box::new(found)));
                }
            }
            Err(Error::Stopped) => self.run = Some(run),
            Err(error) => self.fail(&error),
        }
    }

    /// Tells the page the sizes of the pieces that can be exported, between two slices of the run.
    async fn list_pieces(&mut self, side: RowsOf) {
        let (Some(mut run), Some(origin)) = (self.run.take(), self.origin()) else {
            return;
        };
        let sizes = async {
            let mut taken = Taken::of(&mut run).await?;
            taken.save_run(&run, &origin).await?;
            self.with_files(async |files| files.sizes(&taken, side).await)
                .await
        };
        let sizes = sizes.await;
        if let Some(sizes) = self.answered(run, sizes) {
            self.say(&Event::Pieces(sizes));
        }
    }

    /// Looks for rows to check, between two slices of the run.
    async fn find_rows_to_check(&mut self, side: RowsOf) {
        let (Some(mut run), Some(origin)) = (self.run.take(), self.origin()) else {
            return;
        };
        let found = take_home::to_check(&mut run, &origin, side).await;
        if let Some(check) = self.answered(run, found) {
            self.say(&Event::RowsToCheck(Box::new(check)));
        }
    }

    /// Makes a piece of the run, and hands it to the page.
    async fn take_home(&mut self, piece: Piece, side: RowsOf) {
        let (Some(mut run), Some(origin)) = (self.run.take(), self.origin()) else {
            return self.say(&Event::NotTaken(NO_RUN.to_owned()));
        };
        let made = async {
            let taken = take_home::taken(&mut run, &origin, piece, side).await?;
            self.with_files(async |files| files.make(&taken, piece).await)
                .await
        };
        let made = made.await;
        if let Some((name, bytes)) = self.answered(run, made) {
            self.post(&Event::Taken(name), &[bytes]);
        }
    }

    /// Puts the run back, and returns what was made of it; if nothing was made, says why. A device that is lost ends the run.
    fn answered<T>(&mut self, run: Run, made: Result<T>) -> Option<T> {
        match made {
            Ok(made) => {
                self.run = Some(run);
                return Some(made);
            }
            Err(error @ Error::Device(_)) => self.fail(&error),
            Err(error) => {
                self.run = Some(run);
                self.say(&Event::NotTaken(error.to_string()));
            }
        }
        None
    }

    /// Tells the page what ended the run. The engine is gone with the run: the next run opens another.
    fn fail(&self, error: &Error) {
        self.say(&Event::Failed(match error {
            Error::Device(_) => format!("{error}. Press Run to start again."),
            _ => error.to_string(),
        }));
    }

    async fn advance(&mut self, run: &mut Run) -> Result<()> {
        let began = Instant::now();
        match run.next(self.until - run.step()).await? {
            Progress::Steps(reports) => {
                let took_ms = milliseconds(began);
                let trainer = run.trainer();
                let hardest = trainer.hardest(HARDEST).await?;
                let (pairs, age) = (trainer.pairs().cloned(), trainer.memory_age());
                self.say(&Event::Steps {
                    reports,
                    took_ms,
                    pairs,
                    hardest,
                    age,
                    warnings: run.warnings().to_vec(),
                    memory: run.memory(),
                });
            }
            Progress::Evaluated(evaluation) => {
                self.say(&Event::Evaluated {
                    evaluation: Box::new(evaluation),
                    baseline: Box::new(run.baseline()),
                });
                self.owes_map = true;
            }
            Progress::Finished => {
                let elapsed_ms = run.elapsed_ms();
                self.learn(run.trainer().config(), elapsed_ms);
                self.owes_map = true;
            }
        }
        Ok(())
    }

    /// Sends the page the map, between two slices of the run; after the last slice also how the run ended.
    async fn show_map(&mut self) {
        let Some(mut run) = self.run.take() else {
            self.owes_map = false;
            return;
        };
        match self.say_map(&mut run).await {
            Ok(()) => {
                self.owes_map = false;
                let is_finished = run.is_finished();
                if is_finished {
                    self.say_end(&run);
                }
                self.run = Some(run);
                if is_finished {
                    self.keep(self.slots.held()).await;
                }
            }
            // The map is sent after the command that stopped it, if the run is still there.
            Err(Error::Stopped) => self.run = Some(run),
            Err(error) => {
                self.owes_map = false;
                self.fail(&error);
            }
        }
    }

    /// Corrects the speed for forecasts by the time that a run took.
    fn learn(&mut self, config: &TrainConfig, elapsed_ms: f64) {
        let (Some(data), Some(empty)) = (&self.data, &mut self.empty) else {
            return;
        };
        let room = empty.room(config.budget_bytes);
        if let Ok(forecast) = Trainer::plan(&room, data, config, &empty.rate) {
            let faster = forecast.predicted_ms / elapsed_ms.max(1.0);
            empty.rate.operations_per_ms *= faster.clamp(0.1, 10.0);
            self.timed = OFTEN;
        }
    }

    fn say_end(&self, run: &Run) {
        self.say(&Event::Finished {
            scores: Box::new(run.final_scores().unwrap_or_default()),
            baseline: Box::new(run.baseline()),
            verdict: run.verdict().unwrap_or_default(),
            compared: run.compared().to_vec(),
            warnings: run.warnings().to_vec(),
            elapsed_ms: run.elapsed_ms(),
            rate: self
                .empty
                .as_ref()
                .map(|empty| empty.rate.operations_per_ms),
        });
        self.say_can_evaluate(run);
    }

    async fn say_map(&mut self, run: &mut Run) -> Result<()> {
        self.post_map(run.map().await?);
        Ok(())
    }

    /// Places the rows of the map by UMAP for a moment, if that is asked for.
    async fn place(&mut self) {
        match self.placing.take() {
            None => {}
            Some(Placing::Asked) => self.place_first().await,
            Some(Placing::Going(both, since)) => self.place_on(both, since).await,
        }
    }

    /// Begins the layouts by UMAP.
    async fn place_first(&mut self) {
        let Some(mut run) = self.run.take() else {
            return self.say(&Event::NotPlaced(NO_RUN.to_owned()));
        };
        match run.umap().await {
            Ok(both) => {
                self.run = Some(run);
                self.placing = Some(Placing::Going(Box::new(both), Instant::now()));
            }
            Err(error @ Error::Device(_)) => self.fail(&error),
            // The command that stopped this work says what comes next.
            Err(Error::Stopped) => {
                self.run = Some(run);
                self.placing = Some(Placing::Asked);
            }
            Err(error) => {
                self.run = Some(run);
                self.say(&Event::NotPlaced(error.to_string()));
            }
        }
    }

    /// Advances UMAP for a moment, and sends the page the positions.
    async fn place_on(&mut self, mut both: Box<[Umap; 2]>, since: Instant) {
        let began = Instant::now();
        // One epoch of each in turn: both have the same number.
        while !both[1].is_done() && began.elapsed() < PLACE_FOR {
            both.iter_mut().for_each(|umap| umap.advance(1));
        }
        let event = Event::PlacedByUmap {
            epochs: Part::after(milliseconds(since), both[1].epoch(), both[1].epochs()),
        };
        let points = both.each_ref().map(|umap| {
            let points = Float32Array::from(umap.points().as_flattened());
            JsValue::from(points.buffer())
        });
        if !both[1].is_done() {
            self.placing = Some(Placing::Going(both, since));
        }
        self.post(&event, &points);
        // Commands that came meanwhile have their turn: one may stop this.
        if let Some(run) = &mut self.run {
            run.trainer().engine().breathe().await.ok();
        }
    }

    fn post_map(&mut self, map: Map) {
        self.placing = None;
        let points = Float32Array::from(map.points.as_flattened()).buffer();
        let classes = Uint16Array::from(&map.classes[..]).buffer();
        let rows = Uint32Array::from(&map.rows[..]).buffer();
        let before = Float32Array::from(map.before.as_flattened()).buffer();
        let pictures = map.pictures.unwrap_or_default();
        let shades = Uint8Array::from(&pictures.shades[..]).buffer();
        let event = Event::Map {
            side: map.side,
            names: map.names,
            picture_side: (pictures.side > 0).then_some(pictures.side),
        };
        let parts = [points, classes, rows, before, shades];
        self.post(&event, &parts.map(Into::into));
    }

    fn say(&self, event: &Event) {
        self.post(event, &[]);
    }

    fn post(&self, event: &Event, handed_over: &[JsValue]) {
        post(&self.scope, event, handed_over);
    }
}

/// Posts an event to the page; the buffers are handed over.
fn post(scope: &DedicatedWorkerGlobalScope, event: &Event, handed_over: &[JsValue]) {
    let buffers: Array = handed_over.iter().collect();
    let message = Array::of1(&wire::written(event, &[])).concat(&buffers);
    scope.post_message_with_transfer(&message, &buffers).ok();
}

/// A comparison, and its progress as the page knows it.
struct Comparing {
    comparison: Comparison,
    /// Forecast for the whole comparison, in milliseconds.
    predicted_ms: f64,
    /// Time of the last message on its progress.
    said: Instant,
}

impl Comparing {
    fn state(&self) -> CompareState {
        let (runs, steps) = (self.comparison.runs(), self.comparison.steps());
        let done = steps[0] as f64 / steps[1].max(1) as f64;
        // The more is done, the more the measured time counts beside the forecast.
        let measured_ms = self.comparison.elapsed_ms() / done.max(1e-9);
        let whole_ms = (1.0 - done) * self.predicted_ms + done * measured_ms;
        CompareState {
            runs,
            steps,
            left_ms: (1.0 - done) * whole_ms,
        }
    }

    fn report(&self, over: bool) -> Event {
        let report = Box::new(self.comparison.report());
        Event::Compared { report, over }
    }
}

/// Long work of the engine, and what the page knows of it.
struct Task {
    what: String,
    done: u64,
    began: Instant,
    said: Instant,
    /// The page was told of it.
    is_shown: bool,
}

impl Default for Task {
    fn default() -> Self {
        let now = Instant::now();
        Self {
            what: String::new(),
            done: 0,
            began: now,
            said: now,
            is_shown: false,
        }
    }
}

impl Task {
    /// Estimated milliseconds left, if the page is to be told now. Work that is over at once is not worth a message, unless the
    /// page still shows the work before it.
    fn is_worth_saying(&mut self, working: &Working) -> Option<f64> {
        // Work may begin anew, as a second pass over the rows does.
        let mut is_due = self.said.elapsed() >= SAY_EVERY;
        if self.what != working.what || self.done > working.done {
            is_due = self.is_shown && self.said.elapsed() < IS_STILL_SHOWN;
            *self = Self {
                what: working.what.clone(),
                ..Self::default()
            };
        }
        self.done = working.done;
        if !is_due {
            return None;
        }
        (self.said, self.is_shown) = (Instant::now(), true);
        Some(Part::after(milliseconds(self.began), working.done, working.total).left_ms)
    }
}

/// Milliseconds since an instant.
fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

/// Tells if another label column may be all that the files of these names need.
fn is_of_labels(error: &Error, names: &[String]) -> bool {
    let text = error.to_string();
    let text = names
        .iter()
        .fold(text, |text, name| text.replace(name.as_str(), ""));
    text.contains("label") && !text.contains("rows of features")
}

/// The content of a file.
async fn content(file: &File) -> Result<Vec<u8>> {
    let bytes = JsFuture::from(file.array_buffer()).await;
    let bytes = bytes.map_err(|_| {
        Error::Data(format!(
            "{}: the file cannot be read any more: choose it again",
            file.name()
        ))
    })?;
    Ok(Uint8Array::new(&bytes).to_vec())
}
