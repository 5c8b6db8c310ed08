//! The worker: owns the core, executes the page's commands, and reports their results.
//!
//! Commands are taken between slices of work; a new run or a reset also stops the slice under way.

mod compare;
mod data;
mod engine;
mod forecast;
mod map;
mod progress;
mod questions;
mod run;
mod saved;
mod slots;
mod take_home;
mod threads;

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures_util::StreamExt as _;
use js_sys::Array;
use nearfar::kernels::Kernel;
use nearfar::{Columns, Dataset, DeviceInfo, Engine, EngineChoice, Run, SelfTest, Survey};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::spawn_local;
use web_sys::{DedicatedWorkerGlobalScope, File, MessageEvent};
use web_time::Instant;

use crate::protocol::{Command, Event};
use crate::wire;

use compare::Comparing;
use data::Sample;
use forecast::Empty;
use map::Placing;
use run::Untold;
use slots::{Slots, TRIES};

/// Message if something is asked of a run that is gone.
const NO_RUN: &str = "There is no run any more: press Run to start one.";

/// A command, and the files that came with it.
type Message = (Command, Vec<File>);

/// Listens for commands and serves them until the worker ends.
pub(crate) fn start(scope: &DedicatedWorkerGlobalScope) {
    let (sender, commands) = unbounded();
    let stop = Arc::<AtomicBool>::default();
    let core = Core {
        scope: scope.clone(),
        choice: EngineChoice::default(),
        threads: None,
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
        untold: Untold::default(),
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
            | Command::StopChecking
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

struct Core {
    scope: DedicatedWorkerGlobalScope,
    choice: EngineChoice,
    /// Number of threads of the CPU engine, once it was opened.
    threads: Option<usize>,
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
    /// Number of times that the engine was timed; `forecast::OFTEN` if a run has told its speed.
    timed: u32,
    /// Kernels that are not compiled on the engine yet, the next one last.
    cold: Vec<&'static Kernel>,
    /// GPU and the tile shape that it is fastest with, as [`crate::remembered::tuned_text`] writes it.
    tuned: Option<String>,
    /// The device that was tested, and its speed.
    tested: Option<(DeviceInfo, SelfTest)>,
    /// The step at which the run pauses; a run at or past it is paused.
    until: u64,
    /// Steps that the page was not told of yet.
    untold: Untold,
    /// Every row of a side is to be scored before the run goes on.
    evaluating: bool,
    /// Slots in which the run is saved.
    slots: Slots,
    /// Time at which a run was last resumed after its device was lost.
    lost: Option<Instant>,
    stop: Arc<AtomicBool>,
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
                    self.tell_of_the_run();
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
            Command::OpenSaved => match self.saved_run(files).await {
                Ok((offer, bytes)) => self.post(&Event::SavedRun(Box::new(offer)), &[bytes]),
                Err(error) => self.say(&Event::NotOpened(error.to_string())),
            },
            Command::Diagnose(text) => self.diagnose(text).await,
            Command::Forecast { config, rate } => self.forecast(&config, rate).await,
            Command::Start { config, steps } => {
                if let Err(error) = self.begin(*config, steps).await {
                    self.say(&Event::NotStarted(error.to_string()));
                }
            }
            Command::PlanComparison { asked, search } => {
                self.plan_comparison(&asked, &search).await;
            }
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
            | Command::Undo
            | Command::ScoreFewer { .. }
            | Command::FindThreshold { .. }
            | Command::ThresholdAt(_)) => self.obey_about_the_run(command, files).await,
            Command::Anchor(asked) => self.look_at_anchor(&asked).await,
            Command::Neighbours { row } => self.look_around(row).await,
            Command::EvaluateAll => self.evaluating = self.run.is_some(),
            // The search or the reading was stopped by the flag already, and was answered.
            Command::StopThreshold | Command::StopReading | Command::StopChecking => {}
            command @ (Command::ListPieces { .. }
            | Command::TakeHome { .. }
            | Command::FindRowsToCheck { .. }
            | Command::CheckEveryRow
            | Command::MeasureSizes) => self.obey_about_pieces(command).await,
            Command::ShowSide(side) => self.show_side(side).await,
            Command::PlaceByUmap => self.placing = Some(Placing::Asked),
            Command::StopPlacing => self.placing = None,
            Command::StopEvaluating => self.stop_evaluating(),
            command => self.obey_about_the_data(command, files).await,
        }
    }

    /// Names the tensor that a pasted text ran out of memory with.
    async fn diagnose(&self, text: String) {
        let read = self.with_files(async |files| files.diagnose(text).await);
        let failed = |error: nearfar::Error| vec![(String::new(), error.to_string())];
        self.say(&Event::Diagnosed(read.await.unwrap_or_else(failed)));
    }

    /// Executes the commands that pause, resume, save or set aside the run, or look for its threshold.
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
            Command::ScoreFewer { queries } => {
                self.run.iter_mut().for_each(|run| run.score_fewer(queries));
            }
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
            command => self.look_for_threshold(command).await,
        }
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
