//! Reading and writing files, by a worker with a second wasm: it is asked one question, and then ended.

use futures_channel::mpsc::{UnboundedReceiver, unbounded};
use futures_util::StreamExt as _;
use js_sys::{Array, Float32Array, Reflect, Uint8Array};
use nearfar::{Choice, Error, Labelled, Labels, Piece, Result, RowsOf, Taken, Working};
use wasm_bindgen::prelude::*;
use web_sys::{DedicatedWorkerGlobalScope, File, MessageEvent, Worker, WorkerOptions, WorkerType};

use crate::asked::{Answer, Asked, CODE, Code, Read};
use crate::wire;

/// The two files of the second wasm, as Trunk names them.
const SCRIPT: &str = "./nearfar-files.js";
const WASM: &str = "./nearfar-files_bg.wasm";

/// Access of the page's worker to the worker that reads and writes files.
pub(crate) struct Files<'a> {
    /// Scope in which the worker is started.
    pub(crate) scope: &'a DedicatedWorkerGlobalScope,
    /// Receives the progress of reading; returns `false` to stop it.
    pub(crate) goes_on: &'a dyn Fn(Working) -> bool,
}

impl Files<'_> {
    /// Reads a file and its labels; sets `columns` to those that the labels could come from.
    ///
    /// # Errors
    /// [`Error::Data`] as in the core, and if the worker could not be loaded or crashed; [`Error::Stopped`] if reading was stopped.
    pub(crate) async fn rows(
        &self,
        data: &File,
        labels: Option<&File>,
        choice: Choice<'_>,
        columns: &mut Vec<String>,
    ) -> Result<Labelled> {
        let asked = Asked::Rows {
            label: choice.labels.map(str::to_owned),
            columns: choice.columns.cloned().unwrap_or_default(),
            missing: choice.missing,
        };
        let parts = Array::of1(data);
        if let Some(labels) = labels {
            parts.push(labels);
        }
        let name = data.name();
        let reader = Work::Reads(&name);
        let (answer, values) = self.ask(&asked, &parts, reader).await?;
        let Answer::Rows(read) = answer else {
            return Err(reader.missing());
        };
        let mut rows = taken_apart(*read, columns)?;
        rows.values = Float32Array::new(&values).to_vec();
        Ok(rows)
    }

    /// Reads the labels of the `rows` rows of the file `of`.
    ///
    /// # Errors
    /// As [`Files::rows`].
    pub(crate) async fn labels(
        &self,
        file: &File,
        choice: Choice<'_>,
        of: &str,
        rows: usize,
        columns: &mut Vec<String>,
    ) -> Result<Labels> {
        let asked = Asked::Labels {
            label: choice.labels.map(str::to_owned),
            columns: choice.columns.cloned().unwrap_or_default(),
            missing: choice.missing,
            of: of.to_owned(),
            rows,
        };
        let name = file.name();
        let reader = Work::Reads(&name);
        match self.ask(&asked, &Array::of1(file), reader).await?.0 {
            Answer::Labels(read) => taken_apart(*read, columns),
            _ => Err(reader.missing()),
        }
    }

    /// Reads the checkpoint of an exported run, as an array buffer.
    ///
    /// # Errors
    /// As [`Files::rows`].
    pub(crate) async fn saved_run(&self, file: &File) -> Result<JsValue> {
        let name = file.name();
        let reader = Work::Reads(&name);
        match self
            .ask(&Asked::SavedRun, &Array::of1(file), reader)
            .await?
        {
            (Answer::SavedRun(read), bytes) => read.map(|()| bytes).map_err(Error::Data),
            _ => Err(reader.missing()),
        }
    }

    /// Estimates the bytes of each piece of a run, and writes lines of code that use it.
    ///
    /// # Errors
    /// As [`Files::make`].
    pub(crate) async fn sizes(
        &self,
        taken: &Taken,
        side: RowsOf,
    ) -> Result<(Vec<(Piece, Option<u64>)>, Vec<Code>)> {
        let pieces = Piece::ALL.to_vec();
        let asked = Asked::Sizes { pieces, side };
        match self.ask(&asked, &packed(taken)?, Work::Writes).await?.0 {
            Answer::Sizes(sizes, code) => Ok((sizes, code)),
            _ => Err(Work::Writes.missing()),
        }
    }

    /// Makes a piece of a run; returns the name of the file, and an array buffer of its bytes.
    ///
    /// # Errors
    /// [`Error::Data`] if the run has no such piece, and if the worker could not be loaded or crashed.
    pub(crate) async fn make(&self, taken: &Taken, piece: Piece) -> Result<(String, JsValue)> {
        let asked = Asked::Make { piece };
        match self.ask(&asked, &packed(taken)?, Work::Writes).await? {
            (Answer::Made(name), bytes) => Ok((name.map_err(Error::Data)?, bytes)),
            _ => Err(Work::Writes.missing()),
        }
    }

    /// Names the tensor that a script ran out of memory with, in lines with their headings.
    ///
    /// # Errors
    /// [`Error::Data`] if the worker could not be loaded or crashed.
    pub(crate) async fn diagnose(&self, text: String) -> Result<Vec<(String, String)>> {
        let reader = Work::Reads("the text");
        match self
            .ask(&Asked::Diagnose { text }, &Array::new(), reader)
            .await?
            .0
        {
            Answer::Diagnosed(lines) => Ok(lines),
            _ => Err(reader.missing()),
        }
    }

    /// Starts the worker, asks it, and ends it; returns the answer, and the buffer that came with it.
    async fn ask(&self, asked: &Asked, parts: &Array, work: Work<'_>) -> Result<(Answer, JsValue)> {
        let (worker, mut messages) = start(self.scope).ok_or_else(|| work.missing())?;
        let message = Array::of1(&wire::written(asked, CODE)).concat(parts);
        worker.post_message(&message).ok();
        let answered = loop {
            let parts = match messages.next().await {
                Some(Ok(parts)) => parts,
                Some(Err(Some(why))) => break Err(work.came_down(&why)),
                _ => break Err(work.missing()),
            };
            match wire::read(&parts.get(0), CODE) {
                Some(Answer::Working(working)) if (self.goes_on)(working.clone()) => {}
                Some(Answer::Working(_)) => break Err(Error::Stopped),
                Some(answer) => break Ok((answer, parts.get(1))),
                None => break Err(work.missing()),
            }
        };
        worker.terminate();
        answered
    }
}

/// Kind of work, which decides the message if the worker does not answer.
#[derive(Clone, Copy)]
enum Work<'a> {
    /// Reads the file of this name.
    Reads(&'a str),
    /// Writes a file.
    Writes,
}

impl Work<'_> {
    /// Error of a worker that crashed.
    fn came_down(self, why: &str) -> Error {
        Error::Data(match self {
            Self::Reads(name) => format!(
                "{name}: the reader of such files stopped unexpectedly ({why}): the file is damaged or too large for a page; the \
                 command line (nearfar train) may read it"
            ),
            Self::Writes => format!(
                "The part of the page that writes files stopped unexpectedly ({why}): this is too large for a page; the \
                 command line (nearfar train --out) may write it"
            ),
        })
    }

    /// Error of a worker that could not be loaded.
    fn missing(self) -> Error {
        Error::Data(match self {
            Self::Reads(name) => format!(
                "{name}: the reader of such files could not be loaded: try again when the network answers, or reload the page"
            ),
            Self::Writes => {
                "The part of the page that writes files could not be loaded: try again when the network answers, or reload the page".to_owned()
            }
        })
    }
}

fn taken_apart<T>((could_be, read): Read<T>, columns: &mut Vec<String>) -> Result<T> {
    *columns = could_be;
    read.map_err(|(message, cure)| Error::of_data(message, cure))
}

/// Packs a run into parts of a message: its text, then its arrays.
fn packed(taken: &Taken) -> Result<Array> {
    let (text, arrays) = taken.pack();
    let parts = Array::of1(&text.into());
    for array in arrays {
        parts.push(&Uint8Array::from(array).into());
    }
    Ok(parts)
}

/// A worker and its messages: the parts of each, or why it crashed (`None` if it could not be loaded).
type Started = (
    Worker,
    UnboundedReceiver<std::result::Result<Array, Option<String>>>,
);

/// Starts the worker. Its files have names without a hash, so they are requested with the hash of the page's own files.
fn start(scope: &DedicatedWorkerGlobalScope) -> Option<Started> {
    let own = web_sys::UrlSearchParams::new_with_str(&scope.location().search()).ok()?;
    let script = own.get("script").unwrap_or_default();
    let version = script.rsplit('/').next().unwrap_or_default();
    let query = web_sys::UrlSearchParams::new().ok()?;
    query.append("script", &format!("{SCRIPT}?{version}"));
    query.append("wasm", &format!("{WASM}?{version}"));
    let options = WorkerOptions::new();
    options.set_type(WorkerType::Module);
    let url = format!("worker.js?{}", query.to_string().as_string()?);
    let worker = Worker::new_with_options(&url, &options).ok()?;
    let (sender, messages) = unbounded();
    let said = sender.clone();
    let on_message = Closure::<dyn Fn(MessageEvent)>::new(move |event: MessageEvent| {
        if let Ok(parts) = event.data().dyn_into::<Array>() {
            said.unbounded_send(Ok(parts)).ok();
        }
    });
    worker.set_onmessage(Some(&on_message.into_js_value().unchecked_into()));
    let on_error = Closure::<dyn Fn(JsValue)>::new(move |event: JsValue| {
        // Otherwise an error that ends this worker would end the page's worker, too.
        event.unchecked_ref::<web_sys::Event>().prevent_default();
        let message = Reflect::get(&event, &"message".into()).ok();
        let message = message.and_then(|message| message.as_string());
        // A script that cannot be fetched is reported as a module that could not be imported.
        let came_down =
            message.filter(|message| !message.is_empty() && !message.contains("import"));
        sender.unbounded_send(Err(came_down)).ok();
    });
    worker.set_onerror(Some(&on_error.into_js_value().unchecked_into()));
    Some((worker, messages))
}
