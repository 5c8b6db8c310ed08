//! The page of `?bench=knn&queries=1000&references=1000,10000`: measures in this browser what the `bench` binary measures
//! natively, with the same code, and shows the report as JSON.
//!
//! Lists are those of [`Sweep::set`]; `engine=gpu|cpu` forces an engine, `budget=512MiB` is what it may hold.

use js_sys::Array;
use leptos::prelude::*;
use nearfar::EngineKind;
use nearfar::bench::Sweep;

use crate::link;
use crate::protocol::{Command, Event};
use crate::session::{NO_WORKER, spawn};

const BUDGET_BYTES: u64 = 512 << 20;

/// What the link asks to measure, or why it makes no sense; nothing for the playground.
pub(crate) fn asked() -> Option<Result<Command, String>> {
    let mut pairs = link::query();
    let bench = pairs.iter().position(|(key, _)| key == "bench")?;
    let (_, name) = pairs.remove(bench);
    Some(command(&name, &pairs))
}

fn command(name: &str, pairs: &[(String, String)]) -> Result<Command, String> {
    let mut sweep = Sweep::named(name).map_err(|error| error.to_string())?;
    let (mut engine, mut budget_bytes) = (None, BUDGET_BYTES);
    for (key, value) in pairs {
        match key.as_str() {
            "engine" => engine = Some(value.parse::<EngineKind>()?),
            "budget" => {
                let mib = value
                    .strip_suffix("MiB")
                    .and_then(|mib| mib.parse::<u32>().ok());
                let mib = mib.ok_or(format!(
                    "budget is \"{value}\": 512MiB is expected, or other MiB"
                ))?;
                budget_bytes = u64::from(mib) << 20;
            }
            _ => sweep.set(key, value).map_err(|error| error.to_string())?,
        }
    }
    Ok(Command::Bench {
        engine,
        budget_bytes,
        sweep: Box::new(sweep),
    })
}

/// The page: what is done, and at the end the report.
pub(crate) fn view(asked: Result<Command, String>) -> impl IntoView {
    let lines = RwSignal::new(Vec::<String>::new());
    let outcome = RwSignal::new(None::<Result<String, String>>);
    let end = move |error: String| outcome.set(Some(Err(error)));
    let receive = move |parts: &Array| {
        let json = parts.get(0).as_string().unwrap_or_default();
        match serde_json::from_str(&json) {
            Ok(Event::Measured(line)) => lines.update(|lines| lines.push(line)),
            Ok(Event::Benched(report)) => outcome.set(Some(report)),
            _ => {}
        }
    };
    let start = |command: Command| {
        let worker = spawn(receive, end).ok_or(NO_WORKER)?;
        let json = serde_json::to_string(&command).expect("commands are plain data");
        worker.post_message(&Array::of1(&json.into())).ok();
        Ok::<(), String>(())
    };
    if let Err(error) = asked.and_then(start) {
        end(error);
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
