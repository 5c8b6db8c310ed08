//! The settings: one row per knob, with its help.

use leptos::html::Select;
use leptos::prelude::*;
use nearfar::{Recipe, TrainConfig};
use wasm_bindgen::JsCast as _;

use crate::kept;
use crate::knobs::{Entry, Knob, LEARNING, MAIN, MORE};
use crate::link;
use crate::state::State;
use crate::terms::About;

/// Storage key of whether the settings stand open.
const OPEN: &str = "nearfar.settings";

/// The recipe, and all knobs, which fold away, the rarer ones once more.
#[component]
pub(crate) fn Controls(state: State) -> impl IntoView {
    let lesson = state.lesson.get_value();
    let row = |knob: Knob| lesson.shows(knob.key).then(|| view! { <Row state knob/> });
    let (main, more, learning) = (MAIN.map(row), MORE.map(row), LEARNING.map(row));
    let has_more = more.iter().chain(&learning).any(Option::is_some);
    let has_more = lesson.shows("more") && has_more;
    let has_any = has_more || main.iter().any(Option::is_some);
    // A person who opened them once, or whose link names some, wants them.
    let is_wanted = lesson.names_some()
        || !link::read().sets.is_empty()
        || kept::kept(OPEN).as_deref() == Some("true");
    // Comes before the browser opens or folds them.
    let wanted = move |event: web_sys::MouseEvent| {
        let summary = event
            .target()
            .and_then(|it| it.dyn_into::<web_sys::Element>().ok());
        let details = summary.and_then(|summary| summary.parent_element());
        details.inspect(|it| kept::keep(OPEN, &(!it.has_attribute("open")).to_string()));
    };
    view! {
        <section class="controls" aria-label="Settings">
            {lesson.shows("recipe").then(|| view! { <Recipes state/> })}
            <details hidden=!has_any open=is_wanted>
                <summary on:click=wanted>"Settings"</summary>
                {main}
                <details hidden=!has_more open=lesson.asks_for_more()>
                    <summary>"More settings"</summary>
                    {more}
                    {learning}
                </details>
            </details>
        </section>
    }
}

/// Menu of recipes: settings that belong together, to start from.
#[component]
fn Recipes(state: State) -> impl IntoView {
    let value = Memo::new(move |_| recipe_of(state, &state.config.read()));
    let chosen = move || Recipe::ALL.iter().find(|recipe| recipe.name == value.get());
    let differs = Memo::new(move |_| {
        let ran = state.ran.read();
        let ran = ran.as_ref().map(|config| recipe_of(state, config));
        ran.is_some_and(|ran| ran != value.get())
    });
    let select = NodeRef::<Select>::new();
    hold(select, move || value.get().to_owned(), state);
    let choose = move |name: String| {
        let recipe = Recipe::ALL.iter().find(|recipe| recipe.name == name);
        match applied(state, recipe, &state.config.get_untracked()) {
            Ok(config) => {
                state.error.set(None);
                state.config.set(config);
            }
            Err(error) => state.say_of_setting(error.to_string()),
        }
    };
    let options =
        Recipe::ALL.map(|recipe| view! { <option value=recipe.name>{recipe.title}</option> });
    let why = move || {
        chosen().map(|recipe| {
            let Recipe {
                why, suits, source, ..
            } = recipe;
            format!("{why} For {suits}. ({source})")
        })
    };
    view! {
        <div class="knob recipe">
            <div class="titled">
                <label for="recipe">"Recipe"</label>
                <NextRun testid="next-recipe".to_owned() differs/>
                <About
                    of="a recipe" text="Settings that belong together, as a paper has them: a loss, a miner, a sampler and a memory. Choose one to put them in place, then change what you like."
                />
            </div>
            <select
                id="recipe" data-testid="recipe" node_ref=select
                on:change=move |event| choose(event_target_value(&event))
            >
                <option value="">"settings that suit the data"</option>
                {options}
                <option value="own" disabled=true hidden=true>"own settings"</option>
            </select>
            <p hidden=move || why().is_none()>{why}</p>
        </div>
    }
}

/// Mark of what the settings have otherwise than the run on the page.
#[component]
fn NextRun(testid: String, differs: Memo<bool>) -> impl IntoView {
    view! {
        <span
            class="next" data-testid=testid hidden=move || !differs.get()
            title="The run on the page keeps its own setting. This one holds from the next run on, and is what the \
                   page's link carries."
        >"next run"</span>
    }
}

/// Name of the recipe that gives these settings, over the defaults of the data; empty if these alone do, "own" if nothing does.
fn recipe_of(state: State, config: &TrainConfig) -> &'static str {
    let gives = |recipe| applied(state, recipe, config).is_ok_and(|it| it == *config);
    match Recipe::ALL.iter().find(|recipe| gives(Some(*recipe))) {
        Some(recipe) => recipe.name,
        None if gives(None) => "",
        None => "own",
    }
}

/// The defaults of the data with a recipe applied; seeds and budget stay as they are `now`.
fn applied(
    state: State,
    recipe: Option<&Recipe>,
    now: &TrainConfig,
) -> nearfar::Result<TrainConfig> {
    let data = state.data.read();
    let (mut config, train, classes) = data.as_ref().map_or_else(
        || (TrainConfig::default(), usize::MAX, usize::MAX),
        |data| (data.default_config.clone(), data.train, data.classes),
    );
    (config.seed, config.data_seed) = (now.seed, now.data_seed);
    config.budget_bytes = now.budget_bytes;
    match recipe {
        Some(recipe) => recipe.apply(config, train, classes),
        None => Ok(config),
    }
}

/// The text columns of the data that a setting can name: its value, and its text in the menu.
fn columns_for(state: State, key: &str) -> Vec<(String, String)> {
    let prefix = match key {
        "split" => "column:",
        "sampler.outer_label" | "group" => "",
        _ => return Vec::new(),
    };
    let data = state.data.read();
    let columns = data.iter().flat_map(|data| &data.split_columns);
    columns
        .map(|name| (format!("{prefix}{name}"), format!("column {name}")))
        .collect()
}

/// One setting: its label, its control, and its help on demand.
#[component]
fn Row(state: State, knob: Knob) -> impl IntoView {
    let explained = RwSignal::new(false);
    let id = format!("knob-{}", knob.key.replace('.', "-"));
    let value = Memo::new(move |_| shown(&state.config.read(), &knob));
    let differs = Memo::new(move |_| {
        let ran = state.ran.read();
        let ran = ran.as_ref().map(|config| shown(config, &knob));
        ran.is_some_and(|ran| ran != value.get())
    });
    let control = control(state, knob, id.clone(), value);
    view! {
        <div class="knob" hidden=move || value.read().is_none()>
            <div class="name">
                <label for=id title=knob.pml>{knob.label}</label>
                <NextRun testid=format!("next-{}", knob.key) differs/>
            </div>
            {control}
            <button
                class="help" aria-label=format!("What is {}?", knob.label) aria-expanded=move || explained.get().to_string()
                on:click=move |_| explained.update(|shown| *shown = !*shown)
            >"?"</button>
            <p hidden=move || !explained.get()>{knob.help} {in_pml(&knob)}</p>
        </div>
    }
}

/// Control of a setting, by the kind of its values.
fn control(state: State, knob: Knob, id: String, value: Memo<Option<String>>) -> AnyView {
    let shown = move || value.get().unwrap_or_default();
    let change = move |event: web_sys::Event| {
        enter(state, &knob, &event_target_value(&event));
        put_back(&event, value);
    };
    match knob.entry {
        Entry::Choice(choices) => {
            let select = NodeRef::<Select>::new();
            hold(select, shown, state);
            let options = move || {
                let fixed = choices
                    .iter()
                    .map(|(value, text)| ((*value).to_owned(), (*text).to_owned()));
                fixed
                    .chain(columns_for(state, knob.key))
                    .map(|(option, text)| view! { <option value=option>{text}</option> })
                    .collect_view()
            };
            let choose = move |event| enter(state, &knob, &event_target_value(&event));
            view! { <select id=id node_ref=select on:change=choose>{options}</select> }.into_any()
        }
        Entry::Number(step) => {
            view! { <input id=id type="number" step=step prop:value=shown on:change=change/> }
                .into_any()
        }
        Entry::Scale(values) => {
            let options = values
                .iter()
                .map(|value| view! { <option value=*value></option> });
            let list = format!("{id}-values");
            let press = move |event: web_sys::KeyboardEvent| {
                let up = match event.key().as_str() {
                    "ArrowUp" => true,
                    "ArrowDown" => false,
                    _ => return,
                };
                event.prevent_default();
                if let Some(next) = next(values, &event_target_value(&event), up) {
                    enter(state, &knob, next);
                    put_back(&event, value);
                }
            };
            view! {
                <input
                    id=id type="number" step="any" list=list.clone() prop:value=shown on:change=change on:keydown=press
                />
                <datalist id=list>{options.collect_view()}</datalist>
            }
            .into_any()
        }
        Entry::Widths | Entry::Numbers | Entry::Mebibytes => view! {
            <input id=id type="text" inputmode="numeric" prop:value=shown on:change=change/>
        }
        .into_any(),
    }
}

/// Name of the setting in PML, torch or scikit-learn, if it has one.
fn in_pml(knob: &Knob) -> impl IntoView + use<> {
    let name = knob.pml;
    (!name.is_empty()).then(|| view! { " In code: " <code>{name}</code> })
}

/// A setting as its control shows it; `None` if the settings have none of its name.
pub(crate) fn shown(config: &TrainConfig, knob: &Knob) -> Option<String> {
    let value = config.to_value();
    let value = knob
        .key
        .split('.')
        .try_fold(&value, |value, key| value.get(key))?;
    Some(match (knob.entry, value) {
        (Entry::Mebibytes, bytes) => (bytes.as_u64().unwrap_or(0) >> 20).to_string(),
        (Entry::Widths | Entry::Numbers, numbers) => numbers
            .to_string()
            .replace(['[', ']'], "")
            .replace(',', ", "),
        (_, serde_json::Value::String(text)) => text.clone(),
        (_, value) => value.to_string(),
    })
}

/// Applies what was entered to the settings, or says why it was refused.
fn enter(state: State, knob: &Knob, text: &str) {
    let value = match knob.entry {
        Entry::Mebibytes => match text.trim().parse::<u64>() {
            Ok(mebibytes) => mebibytes.saturating_mul(1 << 20).to_string(),
            Err(_) => text.to_owned(),
        },
        Entry::Widths => {
            let mut widths = text.split(',').map(str::trim);
            if !text.trim().is_empty() && widths.any(|width| width.parse::<u32>().is_err()) {
                state.say_of_setting(format!(
                    "{} is \"{text}\": whole numbers with commas are expected, as in 256, 128, or nothing for none",
                    knob.label
                ));
                state.config.notify();
                return;
            }
            format!("[{}]", text.trim())
        }
        Entry::Numbers => format!(
            "[{}]",
            text.split(',').map(number).collect::<Vec<_>>().join(",")
        ),
        Entry::Number(_) | Entry::Scale(_) => number(text),
        Entry::Choice(_) => text.to_owned(),
    };
    if value.is_empty() && !matches!(knob.entry, Entry::Choice(_)) {
        state.say_of_setting(format!("{} is empty: enter a number", knob.label));
        return;
    }
    let config = state
        .config
        .get_untracked()
        .with_set(&format!("{}={value}", knob.key));
    match config.and_then(|config| config.check().map(|()| config)) {
        Ok(config) => {
            state.error.set(None);
            state.config.set(config);
        }
        Err(error) => {
            // Names the setting as the page does.
            let said = error.to_string();
            state.say_of_setting(match said.strip_prefix(knob.key) {
                Some(rest) if rest.starts_with(' ') => knob.label.to_owned() + rest,
                _ => said,
            });
            // Makes the control show the current value again.
            state.config.notify();
        }
    }
}

/// The value of a scale next above the entered number if `up`, else next below it.
fn next(values: &[&'static str], text: &str, up: bool) -> Option<&'static str> {
    let now = entered(text)?;
    let lies = |value: &&&str| {
        entered(value).is_some_and(|value| if up { value > now } else { value < now })
    };
    let mut beyond = values.iter().filter(lies);
    let found = if up {
        beyond.next()
    } else {
        beyond.next_back()
    };
    found.copied()
}

/// A number as the settings write it, also if it was entered as `.5` or `1e3`; other text as it is.
fn number(text: &str) -> String {
    let text = text.trim();
    match (text.parse::<u64>(), entered(text)) {
        (Ok(number), _) => number.to_string(),
        (_, Some(number)) => number.to_string(),
        _ => text.to_owned(),
    }
}

/// Parses a number as the browser does; `None` if it is not finite. The standard library's parser would be 13 kB of the page.
pub(crate) fn entered(text: &str) -> Option<f64> {
    let number = wasm_bindgen::JsValue::from_str(text).unchecked_into_f64();
    (!text.is_empty() && number.is_finite()).then_some(number)
}

/// Keeps a select at its value: whenever the value changes, and after a choice that was refused.
pub(crate) fn hold(
    select: NodeRef<Select>,
    value: impl Fn() -> String + Send + Sync + 'static,
    state: State,
) {
    let value = Signal::derive(value);
    Effect::new(move || {
        state.reading.track();
        state.error.track();
        state.question.track();
        let value = value.get();
        let Some(select) = select.get() else { return };
        // The options may be changing, too: they are there in the next frame.
        request_animation_frame(move || select.set_value(&value));
    });
}

/// Shows the current value again, in case what was entered was refused.
fn put_back(event: &web_sys::Event, value: Memo<Option<String>>) {
    if let Some(input) = event
        .target()
        .and_then(|target| target.dyn_into::<web_sys::HtmlInputElement>().ok())
    {
        input.set_value(&value.get_untracked().unwrap_or_default());
    }
}
