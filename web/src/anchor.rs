//! One anchor of the last step: its positives and negatives on a line of similarity, what the miner keeps of them, and how strongly
//! the loss pulls and pushes them, before the step and after it.

mod line;
mod picture;
mod words;

use std::sync::Arc;

use leptos::prelude::*;
use nearfar::OneAnchor;

use crate::focus;
use crate::map::Picture;
use crate::protocol::LookedAt;
use crate::session::Session;
use crate::state::State;
use crate::state::anchor::Answer;
use crate::terms::{self, Term};
use crate::words::grouped;

use line::{Line, dots};
use picture::{Held, Lines, Scene};

/// Most rows of a batch that can be chosen from a list.
const CHOICES: usize = 1024;
/// Settings that show semi-hard mining.
const SEMIHARD: [&str; 3] = [
    "loss.name=triplet-margin",
    "miner.name=triplet-margin",
    "miner.type_of_triplets=semihard",
];

/// The panel.
#[component]
pub(crate) fn Anchor(state: State, session: Session) -> impl IntoView {
    let anchor = state.anchor;
    let held = Held {
        at: RwSignal::new(None),
        refocus: StoredValue::new(false),
    };
    follow(state, session, held);
    let seen = Memo::new(move |_| anchor.seen());
    let shown = move || {
        let looked = seen.get()?;
        Some(view! { <Drawn state session looked held/> })
    };
    let said = move || {
        match &*anchor.answer.read() {
        Answer::Refused(why) => Some(why.clone()),
        Answer::Seen(_) => None,
        Answer::Nothing => Some(
            "One row of a batch is the anchor. Take a step, and see on a line how near the other rows are to it, which of them the \
             miner keeps, and where the step moves them."
                .to_owned(),
        ),
    }
    };
    let off = move || if state.can_step() { "false" } else { "true" };
    view! {
        <section class="anchor" data-testid="anchor" aria-label="One anchor, step by step">
            <div class="heading">
                <h2>"One " <Term term=terms::ANCHOR/> ", step by step"</h2>
                <button
                    data-testid="anchor-step" title="Takes a single step (S)" aria-disabled=off
                    on:click=move |_| if untrack(|| state.can_step()) { session.step() }
                >"Step"</button>
            </div>
            <p data-testid="anchor-refused" hidden=move || said().is_none()>{said}</p>
            <Controls state session/>
            {shown}
        </section>
    }
}

/// Asks for an anchor whenever the run stands still with steps taken, and the tab is open; another one if the step is another.
fn follow(state: State, session: Session, held: Held) {
    let anchor = state.anchor;
    let step = Memo::new(move |_| state.curves.read().step());
    Effect::new(move || {
        anchor.alone.track();
        let step = step.get();
        if anchor.open.get() && step > 0 && state.stands_still() {
            let looked = untrack(|| anchor.seen());
            let same = looked.filter(|looked| looked.seen.step == step);
            session.look_at_anchor(same.map(|looked| looked.seen.anchor), None);
        }
    });
    // A row of the batch that is chosen on the map.
    Effect::new(move || {
        let chosen = state.chosen.get();
        if let Some(looked) = untrack(|| anchor.seen())
            && let Some(place) = place(&looked.seen, chosen)
        {
            session.look_at_anchor(Some(place), None);
        }
    });
    Effect::new(move || {
        anchor.answer.track();
        held.at.set(None);
    });
}

/// Place in the batch of a row, if it is one of the batch.
fn place(seen: &OneAnchor, row: Option<u32>) -> Option<usize> {
    let row = row?;
    seen.batch.iter().position(|other| *other == row)
}

/// The controls: the anchor, before or after the step, with the memory or without.
#[component]
fn Controls(state: State, session: Session) -> impl IntoView {
    let anchor = state.anchor;
    let seen = Memo::new(move |_| anchor.seen());
    let go = move |by: isize| {
        if let Some(looked) = seen.get_untracked() {
            let batch = looked.seen.batch.len() as isize;
            let next = (looked.seen.anchor as isize + by).rem_euclid(batch);
            session.look_at_anchor(Some(next as usize), None);
        }
    };
    let options = move || {
        let looked = seen.get()?;
        let seen = &looked.seen;
        let near = (seen.anchor / CHOICES) * CHOICES;
        let rows = seen.batch.iter().enumerate().skip(near).take(CHOICES);
        let option = |(place, row): (usize, &u32)| {
            let row = *row;
            let text = format!("row {}", state.called(row));
            view! { <option value=place selected=place == seen.anchor>{text}</option> }
        };
        Some(rows.map(option).collect_view())
    };
    let choose = move |event: web_sys::Event| {
        session.look_at_anchor(event_target_value(&event).parse().ok(), None);
    };
    let about = move || {
        let looked = seen.get()?;
        let OneAnchor {
            step, class, batch, ..
        } = &looked.seen;
        Some(format!(
            "class {class}, one of {} rows of step {step}",
            batch.len()
        ))
    };
    let has_memory = move || state.curves.read().config.memory() > 0;
    view! {
        <div class="asked" hidden=move || seen.read().is_none()>
            <span class="either">
                <button data-testid="anchor-previous" aria-label="Previous anchor" on:click=move |_| go(-1)>"‹"</button>
                <select data-testid="anchor-row" aria-label="Anchor" on:change=choose>{options}</select>
                <button data-testid="anchor-next" aria-label="Next anchor" on:click=move |_| go(1)>"›"</button>
            </span>
            <small data-testid="anchor-about">{about}</small>
            {either(["Before step", "After"], ["anchor-before", "anchor-after"], anchor.after)}
            <span hidden=move || !has_memory()>{either(["With memory", "Without"], ["anchor-with", "anchor-alone"], anchor.alone)}</span>
        </div>
    }
}

/// Two buttons of which one is pressed: the second if the signal is set.
fn either(
    names: [&'static str; 2],
    ids: [&'static str; 2],
    second: RwSignal<bool>,
) -> impl IntoView {
    let button = move |at: usize| {
        let pressed = move || (second.get() == (at == 1)).to_string();
        view! { <button data-testid=ids[at] aria-pressed=pressed on:click=move |_| second.set(at == 1)>{names[at]}</button> }
    };
    view! { <span class="either">{button(0)} {button(1)}</span> }
}

/// What was seen: the line with its references, and the sentences.
#[component]
fn Drawn(state: State, session: Session, looked: Arc<LookedAt>, held: Held) -> impl IntoView {
    let line = Line::of(&looked.seen);
    let places = [0, 1].map(|side| dots(&looked.seen, &line, side));
    let scene = StoredValue::new(Scene {
        looked,
        line,
        places,
    });
    if held.refocus.try_update_value(std::mem::take) == Some(true) {
        request_animation_frame(|| {
            focus::on(".dots button.chosen");
        });
    }
    let side = move || state.anchor.side();
    let sentence = move |at: usize| {
        move || {
            let curves = state.curves.read();
            scene.with_value(|scene| {
                words::said(&scene.looked.seen, &curves.config, side())[at].clone()
            })
        }
    };
    view! {
        <div class="drawn">
            <Lines state session scene held/>
            <Legend scene/>
        </div>
        <div class="words">
            <p role="status" data-testid="anchor-said"><b>{sentence(0)}</b> " " {sentence(1)}</p>
            {teach(session, scene)}
            <Row state session scene held/>
            <Triplet state scene/>
            <p class="muted" data-testid="anchor-cut">{cut(scene)}</p>
        </div>
    }
}

/// The reference that is pointed at, in a sentence.
#[component]
fn Row(state: State, session: Session, scene: StoredValue<Scene>, held: Held) -> impl IntoView {
    let other = move || {
        let at = held.at.get()?;
        scene.with_value(|scene| scene.looked.seen.listed.get(at).cloned())
    };
    let said = move || {
        let Some(other) = other() else {
            return "Point at a row, or go from one to the next by the arrow keys: it is told here. A click on a positive shows its triplets."
                .to_owned();
        };
        let curves = state.curves.read();
        let side = state.anchor.side();
        let text = scene
            .with_value(|scene| words::reference(&scene.looked.seen, &curves.config, &other, side));
        format!("Row {}: {text}.", state.called(other.row))
    };
    // A row of the batch can be the anchor itself.
    let place = move || {
        let other = other()?;
        scene.with_value(|scene| place(&scene.looked.seen, Some(other.row)))
    };
    let picture = move || other().map(|other| view! { <Picture state row=other.row/> });
    view! {
        <p class="told">
            {picture}
            <span data-testid="anchor-told">{said}</span>
            <button
                class="link" data-testid="anchor-make" hidden=move || place().is_none()
                on:click=move |_| session.look_at_anchor(untrack(place), None)
            >"Make it the anchor"</button>
        </p>
    }
}

/// The triplet that weighs most, as it is joined on the map.
#[component]
fn Triplet(state: State, scene: StoredValue<Scene>) -> impl IntoView {
    let rows = move || scene.with_value(|scene| scene.looked.seen.triplet(state.anchor.side()));
    let cards = move || {
        let names = ["anchor", "positive", "negative"];
        let cards = names.into_iter().zip(rows().into_iter().flatten());
        let card = |(name, row): (&'static str, u32)| {
            let called = move || state.called(row);
            view! { <span class=format!("card of-{name}")><Picture state row/><span>{name}<br/>"row " {called}</span></span> }
        };
        cards.map(card).collect_view()
    };
    let on_map = move || {
        let drawn = state.map.read().as_ref().is_some_and(|map| {
            let placed = state.triplet();
            let is_there = |(row, place): &(u32, Option<[f32; 2]>)| {
                map.places.of(*row).is_some() || (place.is_some() && map.by_umap.is_none())
            };
            map.side.is_some() && placed.is_some_and(|placed| placed.iter().all(is_there))
        });
        match drawn {
            true => "They are joined on the map of the embeddings.",
            false => "Its rows are not on the map as it is now.",
        }
    };
    view! {
        <div class="triplet" data-testid="anchor-triplet" hidden=move || rows().is_none()>
            <p>"The triplet that weighs most. " <small data-testid="anchor-on-map">{on_map}</small></p>
            <div>{cards}</div>
        </div>
    }
}

/// The marks of the picture.
#[component]
fn Legend(scene: StoredValue<Scene>) -> impl IntoView {
    let stored = scene.with_value(|scene| {
        let listed = &scene.looked.seen.listed;
        listed
            .iter()
            .any(|other| other.age.is_some_and(|age| age > 0))
    });
    let key = |class: &'static str, text: &'static str| view! { <span class="key"><i class=format!("dot {class}")></i>{text}</span> };
    view! {
        <p class="legend">
            {key("full", "kept")}
            {key("part", "kept with another")}
            {key("open", "not kept")}
            {stored.then(|| key("square", "stored"))}
        </p>
    }
}

/// What is not drawn, if not all is.
fn cut(scene: StoredValue<Scene>) -> Option<String> {
    scene.with_value(|scene| {
        let seen = &scene.looked.seen;
        let all: usize = seen.references.iter().sum();
        let drawn = seen.listed.len();
        (drawn < all).then(|| {
            format!("{drawn} of {} rows are drawn: those that weigh most, and of the others some of every similarity.", grouped(all as u64))
        })
    })
}

/// Where nothing has a margin: what would.
fn teach(session: Session, scene: StoredValue<Scene>) -> Option<impl IntoView> {
    let margins = scene.with_value(|scene| scene.looked.seen.margins);
    let sets = SEMIHARD.map(str::to_owned);
    (margins == [None; 2]).then(|| {
        view! {
            <p>
                "Neither this miner nor this loss has a margin, so no negative is semi-hard. "
                <button class="link" data-testid="anchor-teach" on:click=move |_| session.step_with(&sets)>
                    "Start again with semi-hard triplets"
                </button>
            </p>
        }
    })
}
