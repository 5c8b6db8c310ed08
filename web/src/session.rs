//! [`Session`]: the page's end of the line to the worker.

use js_sys::{Array, Float32Array, Uint8Array};
use leptos::prelude::*;
use wasm_bindgen::prelude::*;
use web_sys::{ErrorEvent, File, HtmlLinkElement, MessageEvent, Worker, WorkerOptions, WorkerType};

use crate::protocol::{Command, Event};
use crate::state::{Phase, State};

/// Sends commands; the worker's events go to the [`State`].
#[derive(Clone, Copy)]
pub(crate) struct Session {
    worker: StoredValue<Option<Worker>, LocalStorage>,
    state: State,
}

impl Session {
    /// Starts the worker. Where that fails, the error banner says so.
    pub(crate) fn start(state: State) -> Self {
        let worker = spawn(state);
        if worker.is_none() {
            state.error.set(Some(
                "The worker did not start: this browser has no module workers, or the page was not served over http."
                    .to_owned(),
            ));
        }
        Self {
            worker: StoredValue::new_local(worker),
            state,
        }
    }

    /// Sends a command.
    pub(crate) fn send(&self, command: &Command) {
        self.send_with(command, &[]);
    }

    /// Offers files as the data.
    pub(crate) fn send_files(&self, files: &[File]) {
        self.state.error.set(None);
        self.send_with(&Command::Files, files);
    }

    fn send_with(&self, command: &Command, files: &[File]) {
        let json = serde_json::to_string(command).expect("commands are plain data");
        let message = Array::of1(&json.into());
        files.iter().for_each(|file| {
            message.push(file);
        });
        self.worker.with_value(|worker| {
            if let Some(worker) = worker {
                worker.post_message(&message).ok();
            }
        });
    }

    /// Starts a run with the settings on the page; the run before it stays as a faint line.
    pub(crate) fn run(&self, steps: Option<u64>) {
        let state = &self.state;
        let before = state.curves.get_untracked();
        if !before.history.is_empty() {
            state.previous.set(Some(before));
        }
        state.phase.set(Phase::Starting);
        let config = Box::new(state.config.get_untracked());
        self.send(&Command::Start { config, steps });
    }

    /// Starts, goes on or pauses: what Space and the first button do.
    pub(crate) fn run_or_pause(&self) {
        match self.state.phase.get_untracked() {
            Phase::Ready | Phase::Finished => self.run(None),
            Phase::Paused => self.send(&Command::Resume { steps: None }),
            Phase::Running => self.send(&Command::Pause),
            Phase::Loading | Phase::Starting => {}
        }
    }

    /// Takes one step.
    pub(crate) fn step(&self) {
        match self.state.phase.get_untracked() {
            Phase::Ready | Phase::Finished => self.run(Some(1)),
            Phase::Paused => self.send(&Command::Resume { steps: Some(1) }),
            Phase::Running => self.send(&Command::Pause),
            Phase::Loading | Phase::Starting => {}
        }
    }

    /// Ends the run and clears the plots.
    pub(crate) fn reset(&self) {
        if self.state.data.read_untracked().is_some() {
            self.send(&Command::Reset);
        }
    }

    /// Runs the same settings with `memory_size` 0.
    pub(crate) fn without_memory(&self) {
        self.state.config.update(|config| config.memory_size = 0);
        self.run(None);
    }
}

/// Starts the same wasm in a worker: the hashed names of its two files stand in the links that preload them.
fn spawn(state: State) -> Option<Worker> {
    let document = document();
    let link = |selector: &str| {
        let found = document.query_selector(selector).ok()??;
        Some(found.dyn_into::<HtmlLinkElement>().ok()?.href())
    };
    let script = link("link[rel=modulepreload][href*=nearfar]")?;
    let wasm = link("link[rel=preload][as=fetch]")?;
    let query = web_sys::UrlSearchParams::new().ok()?;
    query.append("script", &script);
    query.append("wasm", &wasm);
    let options = WorkerOptions::new();
    options.set_type(WorkerType::Module);
    let url = format!("worker.js?{}", query.to_string().as_string()?);
    let worker = Worker::new_with_options(&url, &options).ok()?;
    let on_message = Closure::<dyn Fn(MessageEvent)>::new(move |event: MessageEvent| {
        if let Ok(parts) = event.data().dyn_into::<Array>() {
            receive(state, &parts);
        }
    });
    worker.set_onmessage(Some(on_message.as_ref().unchecked_ref()));
    on_message.forget();
    let on_error = Closure::<dyn Fn(ErrorEvent)>::new(move |event: ErrorEvent| {
        let message = event.message();
        state.error.set(Some(format!(
            "The worker stopped: {message}. Reload the page to go on."
        )));
        state.phase.set(Phase::Loading);
    });
    worker.set_onerror(Some(on_error.as_ref().unchecked_ref()));
    on_error.forget();
    Some(worker)
}

fn receive(state: State, parts: &Array) {
    let json = parts.get(0).as_string().unwrap_or_default();
    let Ok(event) = serde_json::from_str::<Event>(&json) else {
        return;
    };
    let (points, classes) = match parts.length() {
        3 => {
            let values = Float32Array::new(&parts.get(1)).to_vec();
            let points = values
                .chunks_exact(2)
                .map(|point| [point[0], point[1]])
                .collect();
            (points, Uint8Array::new(&parts.get(2)).to_vec())
        }
        _ => (Vec::new(), Vec::new()),
    };
    state.apply(event, points, classes);
}
