//! The picture of an anchor: the band, and a button for each reference, which a pointer, a finger or the arrow keys find.

use std::sync::Arc;

use leptos::html::Div;
use leptos::prelude::*;
use nearfar::{OneAnchor, TrainConfig};
use wasm_bindgen::JsCast as _;
use web_sys::{Element, HtmlElement, KeyboardEvent, MouseEvent};

use super::line::{AXIS, Dot, HEIGHT, Line, NAMES, NEGATIVES, POSITIVES, band};
use super::words;
use crate::protocol::LookedAt;
use crate::session::Session;
use crate::state::State;
use crate::terms::{self, Term};

/// Largest distance between a reference and a click on it, in CSS pixels.
const REACH: f64 = 18.0;

/// The reference that is pointed at.
#[derive(Clone, Copy)]
pub(super) struct Held {
    pub(super) at: RwSignal<Option<usize>>,
    /// The next answer draws the references anew: the focus goes to the chosen positive then.
    pub(super) refocus: StoredValue<bool>,
}

/// An anchor, and where its references are drawn before the step and after it.
pub(super) struct Scene {
    pub(super) looked: Arc<LookedAt>,
    pub(super) line: Line,
    pub(super) places: [Vec<Dot>; 2],
}

/// The line of similarity: the band, both sides of it named, and a button for each reference.
#[component]
pub(super) fn Lines(
    state: State,
    session: Session,
    scene: StoredValue<Scene>,
    held: Held,
) -> impl IntoView {
    let side = move || state.anchor.side();
    let names = move || scene.with_value(|scene| zones(scene, side()));
    let all = scene.with_value(|scene| {
        let seen = &scene.looked.seen;
        let all = (0..seen.listed.len()).map(|at| dot(seen, at));
        all.collect_view()
    });
    let group = NodeRef::<Div>::new();
    Effect::new(move || {
        let (side, group) = (side(), group.get());
        let config = state.curves.read_untracked().config.clone();
        if let Some(group) = group {
            scene.with_value(|scene| mark(&group, scene, &config, side));
        }
    });
    let press = move |event: MouseEvent| {
        let found = scene.with_value(|scene| pointed(scene, untrack(side), &event));
        if let Some(at) = found {
            choose(session, scene, held, at);
        }
    };
    let pass = move |event: MouseEvent| {
        let found = scene.with_value(|scene| pointed(scene, untrack(side), &event));
        if found.is_some() && found != held.at.get_untracked() {
            held.at.set(found);
        }
    };
    let ring = move || {
        let Dot { x, y, .. } =
            scene.with_value(|scene| scene.places[side()].get(held.at.get()?).copied())?;
        Some(
            view! { <i class="held" style=("left", format!("{x:.2}%")) style=("top", format!("{y:.1}px"))></i> },
        )
    };
    view! {
        <div
            node_ref=group class="dots" role="group" aria-label="Positives and negatives by similarity" data-testid="anchor-dots" style=("height", format!("{HEIGHT}px"))
            on:click=press on:mousemove=pass on:keydown=move |event| walk(&event)
            on:focusin=move |event| {
                let held_dot = event.target().and_then(|it| index_of(it.dyn_ref::<Element>()?));
                held.at.set(held_dot.or(held.at.get_untracked()));
            }
        >
            {move || scene.with_value(|scene| lines(scene, side()))}
            {names}
            <span class="lane" style=("top", format!("{}px", POSITIVES - 18.0))><Term term=terms::POSITIVE name="positives"/></span>
            <span class="lane" style=("top", format!("{}px", AXIS - 18.0))><Term term=terms::NEGATIVE name="negatives"/></span>
            {ticks(scene)}
            <span class="nearer">{ends(scene)}</span>
            {all}
            {ring}
        </div>
    }
}

/// The numbers of the axis.
fn ticks(scene: StoredValue<Scene>) -> impl IntoView {
    scene.with_value(|scene| {
        let tick = |(value, text)| {
            let left = format!("{:.2}%", scene.line.x(value));
            view! { <span class="tick" style=("left", left)>{text}</span> }
        };
        scene.line.ticks().into_iter().map(tick).collect_view()
    })
}

/// What lies at the two ends of the line.
fn ends(scene: StoredValue<Scene>) -> String {
    let distance = scene.with_value(|scene| scene.looked.seen.distance);
    let what = match distance {
        nearfar::Distance::Cosine => "similarity to the anchor",
        nearfar::Distance::L2 => "distance from the anchor",
    };
    format!("← farther · {what} · nearer →")
}

/// The names of the kinds of negatives, each over its part of the line.
fn zones(scene: &Scene, side: usize) -> Option<impl IntoView + use<>> {
    let (low, high) = band(&scene.looked.seen, side)?;
    let (low, high) = (scene.line.x(low), scene.line.x(high));
    let zone = |name: &'static str, class: &'static str, at: f64| {
        view! { <span class=format!("zone {class}") style=("left", format!("{at:.2}%"))>{name}</span> }
    };
    Some(view! {
        {zone("semi-hard", "middle", f64::midpoint(low, high).clamp(10.0, 90.0))}
        {(low > 12.0).then(|| zone("easy", "above before", low))}
        // At the right end there is no room for its name beside the positive.
        {(high < 90.0).then(|| zone("hard", "above", high))}
    })
}

/// The band, the chosen positive, the heaviest triplet, and the ways that references went.
fn lines(scene: &Scene, side: usize) -> impl IntoView + use<> {
    let seen = &scene.looked.seen;
    let percent = |x: f64| format!("{x:.2}%");
    let band = band(seen, side).map(|(low, high)| {
        let (low, high) = (scene.line.x(low), scene.line.x(high));
        view! {
            <rect class="band" data-testid="anchor-band" x=percent(low) y=NAMES - 2.0 width=percent(high - low) height=AXIS - NAMES + 2.0/>
        }
    });
    let positive = seen.positive.map(|at| {
        let x = percent(scene.places[side][at].x);
        view! { <line class="chosen" x1=x.clone() x2=x y1=NAMES - 2.0 y2=AXIS/> }
    });
    let joined = seen.positive.zip(seen.negative[side]).map(|(p, n)| {
        let [p, n] = [p, n].map(|at| scene.places[side][at]);
        view! { <line class="joined" x1=percent(p.x) y1=p.y x2=percent(n.x) y2=n.y/> }
    });
    let ways = (side == 1).then(|| {
        let pairs = scene.places[0].iter().zip(&scene.places[1]);
        let way = |(before, after): (&Dot, &Dot)| {
            view! { <line class="way" x1=percent(before.x) y1=after.y x2=percent(after.x) y2=after.y/> }
        };
        pairs.map(way).collect_view()
    });
    let middle = f64::midpoint(POSITIVES, NEGATIVES);
    view! {
        <svg width="100%" height=HEIGHT aria-hidden="true">
            {band}
            <line class="axis" x1="0" x2="100%" y1=middle y2=middle/>
            <line class="axis" x1="0" x2="100%" y1=AXIS y2=AXIS/>
            {positive} {ways} {joined}
        </svg>
    }
}

/// The button of a reference: the arrow keys go from one to the next, and the list is one stop of Tab. [`mark`] places it.
fn dot(seen: &OneAnchor, at: usize) -> impl IntoView + use<> {
    let other = &seen.listed[at];
    let is_chosen = seen.positive == Some(at);
    let is_stop = at == seen.positive.unwrap_or(0);
    let side = if other.positive {
        "positive"
    } else {
        "negative"
    };
    let stored = match other.age {
        Some(1..) => " stored",
        _ => "",
    };
    let chosen = if is_chosen { " chosen" } else { "" };
    view! {
        <button
            class=format!("{side}{stored}{chosen}") tabindex=if is_stop { "0" } else { "-1" }
            aria-pressed=other.positive.then(|| is_chosen.to_string()) data-at=at data-row=other.row data-age=other.age.map(|age| age.to_string())
        ></button>
    }
}

/// Places all buttons as their references stand on a side, and says what they are: at once, as thousands of signals would take
/// seconds.
fn mark(group: &Element, scene: &Scene, config: &TrainConfig, side: usize) {
    let seen = &scene.looked.seen;
    let dots = scene.places[side].iter().zip(&seen.listed);
    for (button, (dot, other)) in buttons(group).zip(dots) {
        let stand = other.stands[side];
        let is_kept = words::is_kept(config, other, side);
        let also = !other.positive && stand.kept > 0;
        let text = words::reference(seen, config, other, side);
        let Dot { x, y, radius } = *dot;
        // One change of the style in place of three.
        let places = format!("left:{x:.2}%;top:{y:.1}px;--d:{:.1}px", 2.0 * radius);
        button.style().set_css_text(&places);
        let attributes = [
            ("aria-label", format!("Row {}, {text}", other.row)),
            ("data-kind", words::kind(other, side).to_owned()),
            ("data-kept", is_kept.to_string()),
            ("data-also", also.to_string()),
            ("data-value", stand.value.to_string()),
            ("data-times", stand.kept.to_string()),
        ];
        for (name, value) in attributes {
            button.set_attribute(name, &value).ok();
        }
    }
}

/// The buttons of the references, in the order of the list.
fn buttons(group: &Element) -> impl Iterator<Item = HtmlElement> {
    let found = group.query_selector_all(":scope > button").ok();
    let count = found.as_ref().map_or(0, |found| found.length());
    (0..count).filter_map(move |at| found.as_ref()?.get(at)?.dyn_into().ok())
}

/// Index of a reference's button in the list.
fn index_of(element: &Element) -> Option<usize> {
    element.get_attribute("data-at")?.parse().ok()
}

/// The reference under the pointer, or that of a button that was pressed by a key.
fn pointed(scene: &Scene, side: usize, event: &MouseEvent) -> Option<usize> {
    let target = event.target()?.dyn_into::<Element>().ok()?;
    if let Some(at) = index_of(&target) {
        return Some(at);
    }
    let rect = event.current_target()?.dyn_into::<Element>().ok()?;
    let rect = rect.get_bounding_client_rect();
    let (x, y) = (
        f64::from(event.client_x()) - rect.left(),
        f64::from(event.client_y()) - rect.top(),
    );
    let away = |dot: &Dot| {
        let (x, y) = (dot.x / 100.0 * rect.width() - x, dot.y - y);
        (x * x + y * y).sqrt()
    };
    let dots = scene.places[side].iter().map(away).enumerate();
    let nearest = dots.min_by(|a, b| a.1.total_cmp(&b.1));
    nearest.filter(|(_, away)| *away <= REACH).map(|(at, _)| at)
}

/// Chooses a reference: a positive is the one whose triplets are looked at from now on.
fn choose(session: Session, scene: StoredValue<Scene>, held: Held, at: usize) {
    held.at.set(Some(at));
    let asked = scene.with_value(|scene| {
        let seen = &scene.looked.seen;
        let other = &seen.listed[at];
        let is_other = other.positive && seen.positive != Some(at);
        is_other.then_some((seen.anchor, other.place))
    });
    if let Some((anchor, positive)) = asked {
        session.look_at_anchor(Some(anchor), Some(positive));
        let had = document().active_element();
        let had_focus = had.is_some_and(|had| index_of(&had).is_some());
        held.refocus.set_value(had_focus);
    }
}

/// Moves the focus to the next reference by the arrow keys: left and right on its side of the line, up and down to the other side.
fn walk(event: &KeyboardEvent) {
    let held = event
        .target()
        .and_then(|held| held.dyn_into::<HtmlElement>().ok());
    let Some((held, group)) = held.and_then(|held| Some((held.clone(), held.parent_element()?)))
    else {
        return;
    };
    let value = |button: &Element| -> f64 {
        let value = button.get_attribute("data-value");
        value.and_then(|value| value.parse().ok()).unwrap_or(0.0)
    };
    let is_positive = |button: &Element| button.class_list().contains("positive");
    let (own, upper) = (value(&held), is_positive(&held));
    let key = event.key();
    let (upper, ahead) = match key.as_str() {
        "ArrowRight" => (upper, 1.0),
        "ArrowLeft" => (upper, -1.0),
        "ArrowUp" => (true, 0.0),
        "ArrowDown" => (false, 0.0),
        _ => return,
    };
    event.prevent_default();
    // Of equal values the order of the list decides.
    let place = |button: &HtmlElement| (value(button), index_of(button).unwrap_or(0));
    let from = place(&held);
    let next = buttons(&group)
        .filter(|button| is_positive(button) == upper && button != &held)
        .filter(|button| ahead == 0.0 || (place(button) > from) == (ahead > 0.0))
        .min_by(|a, b| {
            let away = |button: &HtmlElement| (value(button) - own).abs();
            let by_index = index_of(a).cmp(&index_of(b));
            let by_index = if ahead < 0.0 {
                by_index.reverse()
            } else {
                by_index
            };
            away(a).total_cmp(&away(b)).then(by_index)
        });
    if let Some(next) = next {
        next.focus().ok();
    }
}
