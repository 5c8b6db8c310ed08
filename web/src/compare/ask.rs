//! The menus of a comparison, and its forecast.

use leptos::html::Select;
use leptos::prelude::*;
use nearfar::{Bytes, CompareForecast, Contest, Preset, TrainConfig};

use crate::controls::{entered, hold, shown};
use crate::knobs::{self, Entry, Knob};
use crate::session::Session;
use crate::state::{ALL_RECIPES, Compare, Phase, RECIPES, State, VALUES, Varied};
use crate::terms::About;
use crate::words::time;

/// The menus, the button and the forecast.
#[component]
pub(super) fn Ask(state: State, session: Session) -> impl IntoView {
    let Compare {
        what,
        seeds,
        now,
        varied,
        ..
    } = state.compare;
    let presets = Preset::ALL.map(|(name, words, _)| (name, words));
    let choices = [(RECIPES, "the usual recipes"), (ALL_RECIPES, "all recipes")]
        .into_iter()
        .chain(presets)
        .chain([(VALUES, "values of one setting, or of two")]);
    let choices = choices.map(|(value, text)| view! { <option value=value>{text}</option> });
    let choose = move |name: String| {
        if name == VALUES {
            state
                .compare
                .varied
                .iter()
                .for_each(|varied| suggest(state, *varied));
        }
        what.set(name);
    };
    let of_values = move || *what.read() == VALUES;
    let off = move || (now.read().is_none() && !can_compare(state)).to_string();
    let text = move || {
        if now.read().is_some() {
            "Stop"
        } else {
            "Compare"
        }
    };
    view! {
        <div class="asked">
            <label>
                "Compare " <select data-testid="compare-what" on:change=move |event| choose(event_target_value(&event))>{choices.collect_view()}</select>
            </label>
            <About
                of="compared" text="Settings to train one after the other on the same rows: recipes, with and without a memory, loss by loss, sampler by sampler, or some values of one setting, or of two, each with each (a loss by a miner). They are ranked on the validation rows; the test rows are scored once, for the best alone."
            />
            <span class="of-values" hidden=move || !of_values()><Values state varied=varied[0]/></span>
            <span class="of-values" hidden=move || !of_values()><Values state varied=varied[1]/></span>
            <label>
                "Seeds "
                <input
                    type="number" min="1" max="20" data-testid="compare-seeds" prop:value=move || seeds.get().to_string()
                    on:change=move |event| seeds.set(event_target_value(&event).parse().unwrap_or(1).clamp(1, 20))
                />
            </label>
            <About
                of="a seed" text="A seed decides the first weights and the batches. Each setting is trained with so many seeds, so that luck is told from merit. Three are enough for a first look; with one, no difference is called clear."
            />
            <button class="primary" data-testid="compare-start" aria-disabled=off on:click=move |_| session.compare()>{text}</button>
            <Decide state session/>
        </div>
        <p class="muted" data-testid="compare-forecast" role="status" hidden=move || now.read().is_some()>{move || forecast(state)}</p>
    }
}

/// The button that compares by folds, and says how long that takes.
#[component]
fn Decide(state: State, session: Session) -> impl IntoView {
    let Compare {
        now, by_folds_ms, ..
    } = state.compare;
    let off = move || by_folds_ms.get().is_none() || !can_compare(state);
    let text = move || match by_folds_ms.get() {
        Some([least, most]) => format!("Decide: up to 5 folds, {}", times(least, most)),
        None => "Decide: up to 5 folds".to_owned(),
    };
    let decide = move |_| {
        if !untrack(off) {
            session.compare_by_folds();
        }
    };
    view! {
        <button data-testid="compare-decide" hidden=move || now.read().is_some() aria-disabled=move || off().to_string() on:click=decide>{text}</button>
        <About
            of="decide" text="Ranks by all rows that are not tested, in place of the validation rows alone: they are dealt to five parts, and each part is scored by heads that trained on the other four. With several times as many rows, smaller differences are more than chance. After each part, what is clearly worse than the best trains no more: if one is left, that is the answer. The test rows stay out of it."
        />
    }
}

/// From one time to another, in words.
fn times(least: f64, most: f64) -> String {
    let [least, most] = [least, most].map(time);
    match most.strip_prefix("about ") {
        Some(end) if least != most => format!("{least} to {end}"),
        _ => most,
    }
}

/// Tells if a comparison can start.
fn can_compare(state: State) -> bool {
    state.can_start() && matches!(*state.compare.forecast.read(), Some(Ok(_)))
}

/// Forecast of the comparison in words, or why it cannot start.
fn forecast(state: State) -> String {
    match &*state.compare.forecast.read() {
        _ if state.data.read().is_none() => "Choose data first.".to_owned(),
        _ if !state.can_start() => {
            "It can start once the run is over: press Reset to end it.".to_owned()
        }
        None => "Working out what that takes ..".to_owned(),
        Some(Err(why)) => format!("This comparison cannot start: {why}."),
        Some(Ok(CompareForecast {
            runs,
            predicted_ms,
            peak_bytes,
            ..
        })) => format!(
            "{runs} runs one after the other: {}, and {} of device memory at most. Raw features, a linear map and a linear head \
             are always in the table. Settings that are not compared are as on the left.{}{}",
            time(*predicted_ms),
            Bytes(*peak_bytes).rounded_up(),
            match state.compare.seeds.get() {
                1 => " With one seed they are ranked, and no difference is told from chance.",
                _ => "",
            },
            match state.phase.get() {
                Phase::Finished =>
                    " The run under One run is cleared for them; it stays under Runs.",
                _ => "",
            }
        ),
    }
}

/// Knobs whose values can be compared: those that the settings have and that may differ between runs.
fn knobs(config: &TrainConfig) -> Vec<&'static Knob> {
    let knobs = knobs::all();
    let can_differ =
        |knob: &&Knob| Contest::may_differ(knob.key) && knob.key != "sampler.outer_label";
    knobs
        .filter(can_differ)
        .filter(|knob| shown(config, knob).is_some())
        .collect()
}

/// The knob that is chosen.
fn knob(varied: Varied) -> Option<&'static Knob> {
    let key = varied.key.get();
    knobs::all().find(|knob| knob.key == key)
}

/// A setting, and the values that it is tried with. The second one may be none.
#[component]
fn Values(state: State, varied: Varied) -> impl IntoView {
    let Varied { key, values } = varied;
    let [first, second] = state.compare.varied;
    let is_second = key == second.key;
    let other = if is_second { first.key } else { second.key };
    let select = NodeRef::<Select>::new();
    hold(select, move || key.get().to_owned(), state);
    let keys = Memo::new(move |_| {
        let knobs = knobs(&state.config.read());
        let keys = knobs.iter().map(|knob| knob.key);
        keys.filter(|key| *key != other.get()).collect::<Vec<_>>()
    });
    let options = move || {
        let keys = keys.get();
        let knobs = knobs::all().filter(|knob| keys.contains(&knob.key));
        knobs
            .map(|knob| {
                // The menu is made anew where the other one takes a setting.
                let chosen = key.get_untracked() == knob.key;
                view! { <option value=knob.key selected=chosen>{knob.label}</option> }
            })
            .collect_view()
    };
    let choose = move |name: String| {
        let known = knobs::all().find(|knob| knob.key == name);
        key.set(known.map_or("", |knob| knob.key));
        suggest(state, varied);
    };
    let entry = Memo::new(move |_| knob(varied).map(|knob| knob.entry));
    let id = if is_second { "-2" } else { "" };
    let entered = move || {
        match entry.get() {
        Some(Entry::Choice(choices)) => choices.iter().map(|(value, text)| tick(values, value, text)).collect_view().into_any(),
        None => ().into_any(),
        _ => view! {
            <input
                type="text" data-testid=format!("compare-values{id}") aria-label="Values, with commas" prop:value=move || values.get()
                on:change=move |event| values.set(event_target_value(&event))
            />
        }
        .into_any(),
    }
    };
    view! {
        <label>
            {if is_second { "and " } else { "Setting " }}
            <select node_ref=select data-testid=format!("compare-key{id}") on:change=move |event| choose(event_target_value(&event))>
                {is_second.then(|| view! { <option value="">"nothing else"</option> })}
                {options}
            </select>
        </label>
        <span class="ticks">{entered}</span>
    }
}

/// A checkbox for a value of a choice: ticked values are compared.
fn tick(values: RwSignal<String>, value: &'static str, text: &'static str) -> impl IntoView {
    let is_on = move || values.read().split(',').any(|other| other == value);
    let turn = move |_| {
        values.update(|values| {
            let mut all: Vec<&str> = values
                .split(',')
                .filter(|other| !other.is_empty())
                .collect();
            match all.iter().position(|other| *other == value) {
                Some(at) => drop(all.remove(at)),
                None => all.push(value),
            }
            *values = all.join(",");
        });
    };
    view! { <label><input type="checkbox" prop:checked=is_on on:change=turn/> {text}</label> }
}

/// Suggests values to compare: around the current one, or the first choices.
fn suggest(state: State, varied: Varied) {
    let Some(knob) = untrack(|| knob(varied)) else {
        return varied.values.set(String::new());
    };
    let own = state
        .config
        .with_untracked(|config| shown(config, knob))
        .unwrap_or_default();
    let values = match knob.entry {
        Entry::Choice(choices) => {
            let first = choices.iter().map(|(value, _)| *value).take(3);
            first.collect::<Vec<_>>().join(",")
        }
        Entry::Widths if knob.key == "hidden_layers" => "[],[64],[256]".to_owned(),
        Entry::Widths | Entry::Numbers => format!("[{own}]"),
        Entry::Scale(_) if knob.key == "memory_size" => "0,256,1024".to_owned(),
        Entry::Number(_) | Entry::Scale(_) | Entry::Mebibytes => match entered(&own) {
            Some(value) if value != 0.0 => format!("{},{own},{}", value / 2.0, value * 2.0),
            _ => own,
        },
    };
    varied.values.set(values);
}
