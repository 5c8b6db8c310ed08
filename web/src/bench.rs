//! The page of `?bench=knn&queries=1000&references=1000,10000`: measures in this browser what the `bench` binary measures
//! natively, with the same code, and shows the report as JSON. A worker with a wasm of its own, `web/bench`, does it.
//!
//! Lists are those of [`nearfar::bench::Sweep::set`]; `engine=gpu|cpu` forces an engine, `budget=512MiB` limits its memory.

use js_sys::Array;
use leptos::prelude::*;

use crate::link;
use crate::session::NO_WORKER;
use crate::spawn::{Wasm, spawn};

/// Query pairs of a link that asks for the bench; `None` for the playground.
pub(crate) fn asked() -> Option<Vec<(String, String)>> {
    let pairs = link::query();
    pairs.iter().any(|(key, _)| key == "bench").then_some(pairs)
}

/// The bench page: a line for each measured size, and at the end the report.
pub(crate) fn view(asked: Vec<(String, String)>) -> impl IntoView {
    let lines = RwSignal::new(Vec::<String>::new());
    let outcome = RwSignal::new(None::<Result<String, String>>);
    let end = move |error: String| outcome.set(Some(Err(error)));
    let receive = move |parts: &Array| {
        let part = |at| parts.get(at).as_string().unwrap_or_default();
        match part(0).as_str() {
            "line" => lines.update(|lines| lines.push(part(1))),
            "report" => outcome.set(Some(Ok(part(1)))),
            _ => end(part(1)),
        }
    };
    match spawn(Wasm::Bench, receive, end) {
        Some(worker) => {
            let pair = |(key, value): (String, String)| Array::of2(&key.into(), &value.into());
            let pairs: Array = asked.into_iter().map(pair).collect();
            worker.post_message(&pairs).ok();
        }
        None => end(NO_WORKER.to_owned()),
    }
    let status = move || match outcome.get() {
        None => "Measuring: every result is checked first ..",
        Some(Ok(_)) => "Done",
        Some(Err(_)) => "Failed",
    };
    let done = move || lines.get().join("\n");
    let error = move || outcome.get().and_then(Result::err);
    let report = move || outcome.get().and_then(Result::ok);
    view! {
        <article class="bench">
            <h1>"Nearfar bench"</h1>
            <p data-testid="status" role="status" aria-live="polite">{status}</p>
            <p class="error" data-testid="error" role="alert" hidden=move || error().is_none()>{error}</p>
            <pre data-testid="bench-lines">{done}</pre>
            <pre data-testid="bench" hidden=move || report().is_none()>{report}</pre>
        </article>
    }
}
