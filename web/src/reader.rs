//! Files whose readers are large: a worker with a second wasm reads them, is asked once, and ended. What it gives is what the
//! core would have read.

use futures_channel::oneshot;
use js_sys::{Array, Float32Array, Reflect};
use nearfar::{Choice, Error, Format, Labelled, Result};
use wasm_bindgen::prelude::*;
use web_sys::{DedicatedWorkerGlobalScope, File, MessageEvent, Worker, WorkerOptions, WorkerType};

/// The two files of the second wasm, as Trunk names them.
const SCRIPT: &str = "./nearfar-readers.js";
const WASM: &str = "./nearfar-readers_bg.wasm";

/// Why a file was not read, and whether what becomes of its cells can be chosen.
type Refused = (String, bool);

/// Whether a file of this name is read by the second wasm.
pub(crate) fn reads(name: &str) -> bool {
    matches!(Format::of(name), Some(Format::Hdf5 | Format::Parquet))
}

/// Reads a file and its labels; `columns` are those that the labels could come from.
///
/// # Errors
/// [`Error::Data`] as the core has it, and when the reader could not be loaded or came down.
pub(crate) async fn read(
    scope: &DedicatedWorkerGlobalScope,
    data: &File,
    labels: Option<&File>,
    choice: Choice<'_>,
    columns: &mut Vec<String>,
) -> Result<Labelled> {
    let name = data.name();
    let (sender, answer) = oneshot::channel::<std::result::Result<Array, Option<String>>>();
    let sender = std::cell::RefCell::new(Some(sender));
    let answered = std::rc::Rc::new(move |parts| {
        if let Some(sender) = sender.borrow_mut().take() {
            sender.send(parts).ok();
        }
    });
    let came_down = |message: Option<String>| {
        Error::Data(match message {
            Some(message) => format!(
                "{name}: the reader of such files stopped unexpectedly ({message}): the file is damaged or too large for a \
                 page; the command line (nearfar train) may read it"
            ),
            None => format!(
                "{name}: the reader of such files could not be loaded: try again when the network answers"
            ),
        })
    };
    let worker = start(scope).ok_or_else(|| came_down(None))?;
    let tell = answered.clone();
    let on_message = Closure::<dyn Fn(MessageEvent)>::new(move |event: MessageEvent| {
        if let Ok(parts) = event.data().dyn_into::<Array>() {
            tell(Ok(parts));
        }
    });
    worker.set_onmessage(Some(on_message.as_ref().unchecked_ref()));
    let on_error = Closure::<dyn Fn(JsValue)>::new(move |event: JsValue| {
        // Else what ends the reader would end this worker, too.
        event.unchecked_ref::<web_sys::Event>().prevent_default();
        let message = Reflect::get(&event, &"message".into()).ok();
        let message = message.and_then(|message| message.as_string());
        // A script that does not come is told of, as a module that could not be imported.
        let came_down =
            message.filter(|message| !message.is_empty() && !message.contains("import"));
        answered(Err(came_down));
    });
    worker.set_onerror(Some(on_error.as_ref().unchecked_ref()));
    let asked = (choice.labels, choice.missing);
    let json = serde_json::to_string(&asked).expect("names are plain data");
    let message = Array::of1(&json.into());
    message.push(data);
    if let Some(labels) = labels {
        message.push(labels);
    }
    worker.post_message(&message).ok();
    let parts = answer.await;
    worker.terminate();
    let parts = parts.unwrap_or(Err(None)).map_err(came_down)?;
    let json = parts.get(0).as_string().unwrap_or_default();
    let answer =
        serde_json::from_str::<(Vec<String>, std::result::Result<Labelled, Refused>)>(&json);
    let (could_be, read) = answer.map_err(|_| came_down(None))?;
    *columns = could_be;
    let mut read = read.map_err(|(message, cells)| match cells {
        true => Error::Cells(message),
        false => Error::Data(message),
    })?;
    read.values = Float32Array::new(&parts.get(1)).to_vec();
    Ok(read)
}

/// Starts the reader: its files have names without a hash, so they are asked for with that of the page's own.
fn start(scope: &DedicatedWorkerGlobalScope) -> Option<Worker> {
    let own = web_sys::UrlSearchParams::new_with_str(&scope.location().search()).ok()?;
    let script = own.get("script").unwrap_or_default();
    let version = script.rsplit('/').next().unwrap_or_default();
    let query = web_sys::UrlSearchParams::new().ok()?;
    query.append("script", &format!("{SCRIPT}?{version}"));
    query.append("wasm", &format!("{WASM}?{version}"));
    let options = WorkerOptions::new();
    options.set_type(WorkerType::Module);
    let url = format!("worker.js?{}", query.to_string().as_string()?);
    Worker::new_with_options(&url, &options).ok()
}
