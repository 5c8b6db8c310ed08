//! The data: a sample or dropped files, what was read, and which column is the label.

use leptos::prelude::*;
use nearfar::{DataReport, SAMPLES};
use wasm_bindgen::JsCast as _;
use web_sys::{DragEvent, File, FileList, HtmlInputElement};

use crate::protocol::{Command, DataSummary};
use crate::session::Session;
use crate::state::State;

/// Choosing data, and what was chosen.
#[component]
pub(crate) fn Data(state: State, session: Session) -> impl IntoView {
    let choose = move |name: String| {
        state.error.set(None);
        let seed = state.config.read_untracked().seed;
        session.send(&Command::Sample { name, seed });
    };
    let take_files = move |event: web_sys::Event| {
        let input = event
            .target()
            .and_then(|target| target.dyn_into::<HtmlInputElement>().ok());
        if let Some(input) = input {
            session.send_files(&files(input.files()));
            // The same files can be chosen again, after they were mended.
            input.set_value("");
        }
    };
    let sample = move || {
        let data = state.data.read();
        data.as_ref()
            .and_then(|data| data.name.strip_prefix("sample:").map(str::to_owned))
    };
    view! {
        <section class="data" aria-label="Data">
            <label for="dataset-select">"Data"</label>
            <select id="dataset-select" data-testid="dataset-select" on:change=move |event| choose(event_target_value(&event))>
                {SAMPLES.map(|name| view! {
                    <option value=name selected=move || sample().as_deref() == Some(name)>{sample_text(name)}</option>
                })}
                <option value="" disabled=true selected=move || state.data.read().is_some() && sample().is_none()>
                    "your files"
                </option>
            </select>
            <label class="file">
                "Drop or choose your own: CSV, NPY or NPZ"
                <input
                    type="file" multiple=true accept=".csv,.tsv,.txt,.npy,.npz" data-testid="dataset-file" on:change=take_files
                />
            </label>
            <p class="summary" data-testid="dataset-summary">
                {move || state.data.read().as_ref().map_or_else(String::new, summary)}
            </p>
            <LabelColumn state session/>
            <p class="summary">{move || split(&state.curves.read().data)}</p>
        </section>
    }
}

/// The label column, where there is a choice.
#[component]
fn LabelColumn(state: State, session: Session) -> impl IntoView {
    let current = move || {
        state
            .data
            .read()
            .as_ref()
            .and_then(|data| data.label_column.clone())
    };
    let options = move || {
        let current = current();
        let columns = state.columns.get().into_iter();
        let none = current
            .is_none()
            .then(|| view! { <option value="" selected=true disabled=true>"choose .."</option> });
        let columns = columns.map(|column| {
            let selected = Some(&column) == current.as_ref();
            view! { <option value=column.clone() selected=selected>{column.clone()}</option> }
        });
        (none, columns.collect_view())
    };
    let choose = move |column| {
        state.error.set(None);
        session.send(&Command::Label { column });
    };
    view! {
        <div class="knob" hidden=move || state.columns.read().is_empty()>
            <label for="label-column">"Label column"</label>
            <select id="label-column" data-testid="label-column" on:change=move |event| choose(event_target_value(&event))>
                {options}
            </select>
        </div>
    }
}

/// Takes files that are dropped anywhere on the page.
pub(crate) fn take_drops(session: Session) -> (impl Fn(DragEvent), impl Fn(DragEvent)) {
    let over = |event: DragEvent| event.prevent_default();
    let drop = move |event: DragEvent| {
        event.prevent_default();
        let files = files(event.data_transfer().and_then(|transfer| transfer.files()));
        if !files.is_empty() {
            session.send_files(&files);
        }
    };
    (over, drop)
}

fn files(list: Option<FileList>) -> Vec<File> {
    let list = list
        .into_iter()
        .flat_map(|list| (0..list.length()).filter_map(move |i| list.get(i)));
    list.collect()
}

/// How the rows were split, once a run has begun.
fn split(data: &DataReport) -> String {
    let DataReport {
        train,
        validation,
        test,
        ..
    } = data;
    if *train == 0 {
        return String::new();
    }
    format!("{train} rows train, {validation} are scored meanwhile, {test} once at the end.")
}

fn sample_text(name: &str) -> &'static str {
    match name {
        "many-classes" => "Many classes (the demo)",
        "digits" => "Handwritten digits",
        _ => "Sample",
    }
}

/// What was read, in a few words.
fn summary(data: &DataSummary) -> String {
    let [smallest, largest] = data.class_sizes;
    let sizes = if smallest == largest {
        format!("{smallest}")
    } else {
        format!("{smallest} to {largest}")
    };
    let mut names = data.first_classes.join(", ");
    if data.classes > data.first_classes.len() {
        names.push_str(" and more");
    }
    let what = if data.name.starts_with("sample:") {
        String::new()
    } else {
        format!("{}: ", data.name)
    };
    let notes: String = data.notes.iter().map(|note| format!(" {note}.")).collect();
    format!(
        "{what}{} rows of {} features; {} classes of {sizes} rows: {names}.{notes}",
        data.rows, data.dim, data.classes
    )
}
