//! Workers: started with the files of a core, heard, and told of when they end.

use std::rc::Rc;

use js_sys::{Array, Reflect};
use leptos::prelude::*;
use wasm_bindgen::prelude::*;
use web_sys::{HtmlLinkElement, MessageEvent, Worker, WorkerOptions, WorkerType};

/// Wasm that a worker runs.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Wasm {
    /// The page's own wasm: the hashed names of its two files stand in the links that preload them.
    Own,
    /// The bench. Its files have names without a hash, so they are requested with the hash of the page's own.
    Bench,
}

/// Starts a worker.
///
/// `receive` gets the parts of each message, `die` the reason why the worker is of no more use.
pub(crate) fn spawn(
    runs: Wasm,
    receive: impl Fn(&Array) + 'static,
    die: impl Fn(String) + 'static,
) -> Option<Worker> {
    let document = document();
    let link = |selector: &str| {
        let found = document.query_selector(selector).ok()??;
        Some(found.dyn_into::<HtmlLinkElement>().ok()?.href())
    };
    let own = link("link[rel=modulepreload][href*=nearfar]")?;
    let version = own.rsplit('/').next().unwrap_or_default();
    let (script, wasm) = match runs {
        Wasm::Bench => (
            format!("./nearfar-bench.js?{version}"),
            format!("./nearfar-bench_bg.wasm?{version}"),
        ),
        Wasm::Own => (own, link("link[rel=preload][as=fetch]")?),
    };
    let query = web_sys::UrlSearchParams::new().ok()?;
    query.append("script", &script);
    query.append("wasm", &wasm);
    let die = Rc::new(die);
    #[cfg(feature = "threads")]
    query.append("traps", &hear_of_traps(Rc::clone(&die))?);
    let options = WorkerOptions::new();
    options.set_type(WorkerType::Module);
    let url = format!("worker.js?{}", query.to_string().as_string()?);
    let worker = Worker::new_with_options(&url, &options).ok()?;
    let on_message = Closure::<dyn Fn(MessageEvent)>::new(move |event: MessageEvent| {
        if let Ok(parts) = event.data().dyn_into::<Array>() {
            receive(&parts);
        }
    });
    worker.set_onmessage(Some(on_message.as_ref().unchecked_ref()));
    on_message.forget();
    // A worker whose files cannot be loaded gives no message.
    let on_error = Closure::<dyn Fn(JsValue)>::new(move |event: JsValue| {
        let message = Reflect::get(&event, &"message".into()).ok();
        die(match message.and_then(|message| message.as_string()) {
            Some(message) if !message.is_empty() => trapped(&message),
            _ => "The worker, which does the computing, did not start, as its files could not be loaded: choose data to try again."
                .to_owned(),
        });
    });
    worker.set_onerror(Some(on_error.as_ref().unchecked_ref()));
    on_error.forget();
    Some(worker)
}

/// Message if a worker crashed.
fn trapped(why: &str) -> String {
    format!(
        "The worker, which does the computing, stopped unexpectedly ({why}): press Run or choose data to start a new one."
    )
}

/// Hears of a helper that crashed, for which its worker waits without end; returns the name of the channel.
#[cfg(feature = "threads")]
fn hear_of_traps(die: Rc<impl Fn(String) + 'static>) -> Option<String> {
    // Other tabs of the page have channels of their own.
    let name = format!("nearfar traps {}", js_sys::Math::random());
    let channel = web_sys::BroadcastChannel::new(&name).ok()?;
    let on_trap = Closure::<dyn Fn(MessageEvent)>::new(move |event: MessageEvent| {
        die(trapped(&event.data().as_string().unwrap_or_default()));
    });
    channel.set_onmessage(Some(on_trap.as_ref().unchecked_ref()));
    on_trap.forget();
    Some(name)
}
