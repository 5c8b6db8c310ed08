//! The settings: one row a knob, with its help.

use leptos::prelude::*;
use nearfar::TrainConfig;
use wasm_bindgen::JsCast as _;

use crate::knobs::{Entry, Knob, MAIN, MORE};
use crate::state::State;

/// All knobs; the rarer ones fold away.
#[component]
pub(crate) fn Controls(state: State) -> impl IntoView {
    let row = move |knob: Knob| view! { <Row state knob/> };
    view! {
        <section class="controls" aria-label="Settings">
            {MAIN.map(row)}
            <details>
                <summary>"More settings"</summary>
                {MORE.map(row)}
            </details>
        </section>
    }
}

/// One setting: its label, its control, and its help on demand.
#[component]
fn Row(state: State, knob: Knob) -> impl IntoView {
    let explained = RwSignal::new(false);
    let id = format!("knob-{}", knob.key.replace('.', "-"));
    let value = Memo::new(move |_| shown(&state.config.read(), &knob));
    let enter = move |text: String| enter(state, &knob, &text);
    let applies = move || {
        let without_miner = shown(&state.config.read(), &MAIN[2]) == "none";
        !(without_miner && knob.key == "miner.margin")
    };
    let control = match knob.entry {
        Entry::Choice(choices) => {
            let options = move || {
                let columns = state
                    .data
                    .read()
                    .as_ref()
                    .map_or_else(Vec::new, |data| data.split_columns.clone());
                let columns = columns.into_iter().filter(|_| knob.key == "split");
                let columns =
                    columns.map(|name| (format!("column:{name}"), format!("column {name}")));
                let fixed = choices
                    .iter()
                    .map(|(value, text)| ((*value).to_owned(), (*text).to_owned()));
                fixed
                    .chain(columns)
                    .map(|(option, text)| {
                        let selected = option == value.get();
                        view! { <option value=option selected=selected>{text}</option> }
                    })
                    .collect_view()
            };
            view! {
                <select id=id.clone() on:change=move |event| enter(event_target_value(&event))>{options}</select>
            }
            .into_any()
        }
        Entry::Number(step) => view! {
            <input
                id=id.clone() type="number" step=step prop:value=value disabled=move || !applies()
                on:change=move |event| {
                    enter(event_target_value(&event));
                    put_back(&event, value);
                }
            />
        }
        .into_any(),
        Entry::Widths | Entry::Mebibytes => view! {
            <input
                id=id.clone() type="text" inputmode="numeric" prop:value=value
                on:change=move |event| {
                    enter(event_target_value(&event));
                    put_back(&event, value);
                }
            />
        }
        .into_any(),
    };
    view! {
        <div class="knob">
            <label for=id title=knob.pml>{knob.label}</label>
            {control}
            <button
                class="help" aria-label=format!("What is {}?", knob.label) aria-expanded=move || explained.get().to_string()
                on:click=move |_| explained.update(|shown| *shown = !*shown)
            >"?"</button>
            <p hidden=move || !explained.get()>{knob.help} " In PML: " <code>{knob.pml}</code></p>
        </div>
    }
}

/// A setting as its control shows it.
fn shown(config: &TrainConfig, knob: &Knob) -> String {
    let value = serde_json::to_value(config).unwrap_or_default();
    let at = |path: &str| {
        path.split('.')
            .fold(&value, |value, key| &value[key])
            .clone()
    };
    if knob.key == "miner.type_of_triplets" && at("miner.name") == "none" {
        return "none".to_owned();
    }
    match (knob.entry, at(knob.key)) {
        (Entry::Mebibytes, bytes) => (bytes.as_u64().unwrap_or(0) >> 20).to_string(),
        (Entry::Widths, widths) => widths
            .to_string()
            .replace(['[', ']'], "")
            .replace(',', ", "),
        (_, serde_json::Value::String(text)) => text,
        (_, serde_json::Value::Null) => String::new(),
        (_, value) => value.to_string(),
    }
}

/// Takes what was entered into the settings, or says why not.
fn enter(state: State, knob: &Knob, text: &str) {
    let sets = match (knob.entry, knob.key) {
        (Entry::Mebibytes, key) => {
            vec![format!(
                "{key}={}",
                text.trim()
                    .parse::<u64>()
                    .map_or(text.to_owned(), |mib| (mib << 20).to_string())
            )]
        }
        (Entry::Widths, key) => vec![format!("{key}=[{}]", text.trim())],
        (_, "miner.type_of_triplets") if text == "none" => vec!["miner.name=none".to_owned()],
        (_, key @ "miner.type_of_triplets") => {
            let without = shown(&state.config.read_untracked(), knob) == "none";
            let named = without.then(|| "miner.name=triplet-margin".to_owned());
            named.into_iter().chain([format!("{key}={text}")]).collect()
        }
        (_, key) => vec![format!("{key}={text}")],
    };
    let config = sets
        .iter()
        .try_fold(state.config.get_untracked(), |config, set| {
            config.with_set(set)
        });
    match config.and_then(|config| config.check().map(|()| config)) {
        Ok(config) => {
            state.error.set(None);
            state.config.set(config);
        }
        Err(error) => state.error.set(Some(error.to_string())),
    }
}

/// Shows the setting that holds, where what was entered was refused.
fn put_back(event: &web_sys::Event, value: Memo<String>) {
    if let Some(input) = event
        .target()
        .and_then(|target| target.dyn_into::<web_sys::HtmlInputElement>().ok())
    {
        input.set_value(&value.get_untracked());
    }
}
