//! The data: a sample or dropped files, what was read, and which column is the label.

use leptos::html::Select;
use leptos::prelude::*;
use nearfar::{DataReport, SAMPLES};
use wasm_bindgen::JsCast as _;
use web_sys::{DataTransfer, DragEvent, File, FileList, HtmlInputElement};

use crate::controls::hold;
use crate::protocol::DataSummary;
use crate::session::Session;
use crate::state::State;

/// Choosing data, and what was chosen.
#[component]
pub(crate) fn Data(state: State, session: Session) -> impl IntoView {
    let take_files = move |event: web_sys::Event| {
        let input = event
            .target()
            .and_then(|target| target.dyn_into::<HtmlInputElement>().ok());
        if let Some(input) = input {
            session.choose_files(files(input.files()));
            // The same files can be chosen again, after they were mended.
            input.set_value("");
        }
    };
    // The name of the sample; nothing where the data is none.
    let sample = move || {
        let data = state.data.read();
        let name = data
            .as_ref()
            .and_then(|data| data.name.strip_prefix("sample:"));
        name.unwrap_or_default().to_owned()
    };
    let other = move || match *state.data.read() {
        Some(_) => "your files",
        None => "choose ..",
    };
    let select = NodeRef::<Select>::new();
    hold(select, sample, state);
    view! {
        <section class="data" aria-label="Data">
            <label for="dataset-select">"Data"</label>
            <select
                id="dataset-select" data-testid="dataset-select" node_ref=select
                on:change=move |event| session.choose_sample(event_target_value(&event))
            >
                <option value="" disabled=true hidden=move || !sample().is_empty()>{other}</option>
                {SAMPLES.map(|name| view! { <option value=name>{sample_text(name)}</option> })}
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
    // The column, where it is among them.
    let current = move || {
        let choice = state.label.read();
        let current = choice.current.clone().unwrap_or_default();
        if choice.columns.contains(&current) {
            current
        } else {
            String::new()
        }
    };
    let options = move || {
        let columns = state.label.get().columns.into_iter();
        columns
            .map(|column| view! { <option value=column.clone()>{column.clone()}</option> })
            .collect_view()
    };
    let name = move || match &state.label.read().of {
        Some(files) => format!("Label column of {files}"),
        None => "Label column".to_owned(),
    };
    let select = NodeRef::<Select>::new();
    hold(select, current, state);
    view! {
        <div class="knob" hidden=move || state.label.read().columns.is_empty()>
            <label for="label-column">{name}</label>
            <select
                id="label-column" data-testid="label-column" node_ref=select
                on:change=move |event| session.choose_label(event_target_value(&event))
            >
                <option value="" disabled=true hidden=move || !current().is_empty()>"choose .."</option>
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
        let Some(dropped) = event.data_transfer() else {
            return;
        };
        let files = files(dropped.files());
        if let Some(folder) = folder(&dropped) {
            session.state.error.set(None);
            session.state.say(format!(
                "{folder}: folders cannot be read: drop the files themselves"
            ));
        } else if !files.is_empty() {
            session.choose_files(files);
        }
    };
    (over, drop)
}

/// The name of the first folder among what was dropped.
fn folder(dropped: &DataTransfer) -> Option<String> {
    let items = dropped.items();
    let entries = (0..items.length())
        .filter_map(|i| items.get(i))
        .filter_map(|item| item.webkit_get_as_entry().ok().flatten());
    entries
        .into_iter()
        .find(|entry| entry.is_directory())
        .map(|entry| entry.name())
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
