//! The list beside the map: the column that colours it, and each colour with its name and the number of its rows.

use js_sys::JsString;
use leptos::html::Select;
use leptos::prelude::*;
use wasm_bindgen::JsCast as _;
use web_sys::{Element, HtmlElement, KeyboardEvent};

use super::Look;
use super::painter::{NO_LABEL, css_color, css_shade};
use crate::controls::hold;
use crate::state::{Paint, State};
use crate::words::grouped;

/// Most names that are listed; the others are found by name.
const LISTED: usize = 300;
/// Number of names above which they can be searched.
const SOUGHT: usize = 10;
/// Most columns in the menu; the others are entered by name.
const OFFERED: usize = 200;
/// Colours of a scale that its picture is made of.
const STOPS: usize = 8;

/// Names of the colours and their numbers of rows, as they stand in the list.
#[derive(Clone, Debug, Default, PartialEq)]
struct Listed {
    /// Each with the number of its rows on the map; empty for a scale.
    names: Vec<(String, u64)>,
    /// Numbers at the ends of a scale.
    ends: Option<[f64; 2]>,
    /// Rows without a value.
    none: u64,
    /// Rows without a label.
    no_label: u64,
}

impl Listed {
    fn of(paint: Paint<'_>, no_label: usize) -> Self {
        let (names, ends) = match paint {
            Paint::Names(_, names) => (names, None),
            Paint::Scale(_, ends) => (&[][..], Some(ends)),
        };
        let mut counts = vec![0u64; names.len()];
        let mut none = 0;
        for colour in paint.colours() {
            match counts.get_mut(usize::from(*colour)) {
                Some(count) => *count += 1,
                None => none += u64::from(*colour == u16::MAX),
            }
        }
        let names = names.iter().cloned().zip(counts).collect();
        Self {
            names,
            ends,
            none,
            no_label: no_label as u64,
        }
    }
}

/// The list, and the menu of columns above it.
#[component]
pub(super) fn Legend(state: State, look: Look) -> impl IntoView {
    let listed = Memo::new(move |_| {
        let (map, coloured) = (state.map.read(), state.coloured.read());
        map.as_ref().map_or_else(Listed::default, |map| {
            Listed::of(map.paint(coloured.as_ref()), map.places.aside.len())
        })
    });
    let nothing = move || state.map.read().is_none();
    let none = move || {
        let listed = listed.read();
        let what = match state.colour_by.get() {
            Some(_) => "without a value",
            None => "of smaller classes",
        };
        // The list has a line for those without a label, and a scale has no list.
        let no_label = listed.ends.map_or(0, |_| listed.no_label);
        let all = [(listed.none, what), (no_label, "without a label")];
        let parts = all.into_iter().filter(|(count, _)| *count > 0);
        let parts: Vec<_> = parts
            .map(|(count, what)| format!("{} {what}", grouped(count)))
            .collect();
        (!parts.is_empty()).then(|| format!("Grey: {}", parts.join(", ")))
    };
    view! {
        <div class="legend" data-testid="legend" hidden=nothing>
            <ColourBy state/>
            <Show when=move || listed.read().ends.is_some()>{move || scale(listed.read().ends.unwrap_or_default())}</Show>
            <Names state look listed/>
            <p class="muted" data-testid="colour-none" hidden=move || none().is_none()>{none}</p>
        </div>
    }
}

/// Menu of the columns that can colour the map; of a wide table, a field for the name of another one.
#[component]
fn ColourBy(state: State) -> impl IntoView {
    let columns = Memo::new(move |_| {
        let data = state.data.read();
        data.as_ref()
            .map_or_else(Vec::new, |data| data.colour_columns.clone())
    });
    let label = move || {
        let data = state.data.read();
        let label = data.as_ref().and_then(|data| data.label_column.clone());
        label.map_or_else(
            || "the label".to_owned(),
            |label| format!("{label} (the label)"),
        )
    };
    let chosen = move || state.colour_by.get().unwrap_or_default();
    // One that was entered stands in the menu, too.
    let options = move || {
        let mut columns = columns.get();
        let chosen = chosen();
        let beyond = columns.iter().skip(OFFERED).any(|column| *column == chosen);
        columns.truncate(OFFERED);
        columns.extend(beyond.then_some(chosen));
        let option =
            |column: String| view! { <option value=column.clone()>{column.clone()}</option> };
        columns.into_iter().map(option).collect_view()
    };
    let choose = move |event: web_sys::Event| {
        let column = event_target_value(&event);
        if column.is_empty() || columns.read_untracked().contains(&column) {
            state.colour_by.set((!column.is_empty()).then_some(column));
        } else {
            state
                .notice
                .set(Some(format!("No column is called \"{column}\".")));
        }
    };
    let many = move || columns.read().len() > OFFERED;
    let select = NodeRef::<Select>::new();
    hold(select, chosen, state);
    view! {
        <div class="colour-by" hidden=move || columns.read().is_empty()>
            <label for="colour-by">"Colour by"</label>
            <select id="colour-by" data-testid="colour-by" node_ref=select title="Colours the rows on the map by a column of the file: nothing is trained anew" on:change=choose>
                <option value="">{label}</option>
                {options}
            </select>
            <Show when=many>
                <input
                    type="search" aria-label="Colour by another column" placeholder="another column" title="The name of a column that is not in the menu" data-testid="colour-by-name" on:change=choose
                />
            </Show>
        </div>
    }
}

/// Colours of a scale between the numbers at its ends.
fn scale([low, high]: [f64; 2]) -> impl IntoView {
    let stops: Vec<String> = (0..=STOPS)
        .map(|at| css_shade(at as f64 / STOPS as f64))
        .collect();
    let colours = format!("linear-gradient(to right, {})", stops.join(", "));
    let [low, high] = [low, high].map(short);
    view! {
        <div class="scale" data-testid="colour-scale">
            <i style=("background", colours)></i>
            <span title="One row in a hundred has less">{low}</span> <span title="One row in a hundred has more">{high}</span>
        </div>
    }
}

/// A number in four digits.
fn short(number: f64) -> String {
    let size = number.abs();
    if size >= 1e6 || (size > 0.0 && size < 1e-4) {
        return format!("{number:.2e}");
    }
    let before = size.max(1e-4).log10().floor();
    let text = format!("{number:.*}", (3.0 - before).clamp(0.0, 7.0) as usize);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// The names: a click leaves one alone in colour.
#[component]
fn Names(state: State, look: Look, listed: Memo<Listed>) -> impl IntoView {
    let sought = RwSignal::new(String::new());
    let many = move || listed.read().names.len() > SOUGHT;
    let what = move || match state.colour_by.get() {
        Some(_) => "value",
        None => "class",
    };
    let there = move || {
        listed
            .read()
            .names
            .iter()
            .filter(|(_, count)| *count > 0)
            .count()
    };
    let head = move || match (there(), what()) {
        (1, what) => format!("1 {what}"),
        (many, "class") => format!("{} classes", grouped(many as u64)),
        (many, what) => format!("{} {what}s", grouped(many as u64)),
    };
    let keys = move || {
        let sought = lowercase(sought.read().trim());
        let listed = listed.read();
        let names = listed.names.iter().enumerate();
        let found: Vec<_> = names
            .filter(|(_, (name, count))| *count > 0 && lowercase(name).contains(&sought))
            .collect();
        let more = found.len().saturating_sub(LISTED);
        let rest = match more {
            _ if found.is_empty() && !sought.is_empty() => {
                Some(format!("No {} of this name is on the map.", what()))
            }
            0 => None,
            more => Some(format!(
                "and {} more: find one by its name",
                grouped(more as u64)
            )),
        };
        let none = (NO_LABEL, "no label", listed.no_label);
        let is_found = none.2 > 0 && none.1.contains(&sought);
        let keys = found.into_iter().take(LISTED);
        let keys = keys.map(|(at, (name, count))| (at as u16, name.as_str(), *count));
        let keys = keys.chain(is_found.then_some(none)).enumerate();
        let keys = keys.map(|(at, (colour, name, count))| key(look, at == 0, colour, name, count));
        let keys = keys.collect_view();
        view! { {keys} {rest.map(|rest| view! { <span class="muted">{rest}</span> })} }
    };
    view! {
        <div class="found" hidden=move || listed.read().ends.is_some()>
            <span class="muted" data-testid="class-count">{head}</span>
            <Show when=many>
                <input
                    type="search" aria-label="Find a class" placeholder=move || format!("Find a {}", what()) title="Lists those with this text in their name" data-testid="find-class"
                    on:input=move |event| sought.set(event_target_value(&event))
                />
            </Show>
        </div>
        <div class="classes" hidden=move || listed.read().ends.is_some() on:keydown=move |event| step(&event)>{keys}</div>
    }
}

/// A name with its colour and number of rows. The list is one stop of the keyboard, its `first`; the arrows go on from there.
fn key(look: Look, first: bool, colour: u16, name: &str, count: u64) -> impl IntoView + use<> {
    let stop = if first { "0" } else { "-1" };
    let pressed = move || (look.alone.get() == Some(colour)).to_string();
    let choose = move |_| {
        let again = look.alone.get_untracked() == Some(colour);
        look.alone.set((!again).then_some(colour));
    };
    let title = format!("{name}: a click shows it alone, once more shows all");
    view! {
        <button class="key" tabindex=stop aria-pressed=pressed on:click=choose title=title>
            <i class="dot" style=("--line", css_color(colour))></i>
            <span>{name.to_owned()}</span> <span class="muted">{format!("({})", grouped(count))}</span>
        </button>
    }
}

/// Moves the focus from name to name by the arrow keys.
fn step(event: &KeyboardEvent) {
    let held = event
        .target()
        .and_then(|held| held.dyn_into::<Element>().ok());
    let next = held
        .filter(|held| held.class_name() == "key")
        .and_then(|held| match &*event.key() {
            "ArrowRight" | "ArrowDown" => held.next_element_sibling(),
            "ArrowLeft" | "ArrowUp" => held.previous_element_sibling(),
            _ => None,
        });
    let next = next.filter(|next| next.class_name() == "key");
    if let Some(next) = next.and_then(|next| next.dyn_into::<HtmlElement>().ok()) {
        event.prevent_default();
        next.focus().ok();
    }
}

/// A text in lower case, by the browser: the tables of the standard library are 5 kB of the page.
fn lowercase(text: &str) -> String {
    JsString::from(text).to_lower_case().into()
}
