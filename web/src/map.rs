//! The map: rows as points on a plane, in the colours of their classes or of another column, and the neighbours of the chosen row.

mod legend;
mod painter;
mod picking;
mod picture;
mod sheet;
mod side;

use leptos::prelude::*;
use wasm_bindgen::JsCast as _;
use web_sys::{CanvasRenderingContext2d, HtmlCanvasElement, PointerEvent, WheelEvent};
use web_time::Duration;

use crate::frame::{fit, is_still, redraw};
use crate::session::Session;
use crate::state::{ByUmap, MapData, Paint, Phase, State};
use crate::terms::{self, Term};
use crate::words::{grouped, side_text};

use legend::Legend;
use painter::{Frame, NO_LABEL, Painter, View, places};
use picking::{Picked, Picking};
pub(crate) use picture::Picture;

/// Largest distance between a point and a click on it, in CSS pixels.
const REACH: f64 = 12.0;
/// Distance that the pointer goes before it drags the map, in CSS pixels.
const STILL: f64 = 4.0;
/// Duration of the change between features and embeddings, in milliseconds.
const TWEEN_MS: f64 = 500.0;

/// View of the map: zoom, mix of features and embeddings, and what stands out.
#[derive(Clone, Copy)]
struct Look {
    view: RwSignal<View>,
    /// 0 shows the features, 1 the embeddings.
    mix: RwSignal<f64>,
    before: RwSignal<bool>,
    /// The one colour that is kept, if any.
    alone: RwSignal<Option<u16>>,
    /// The point under the pointer.
    hovered: RwSignal<Option<Hovered>>,
    picking: Picking,
    /// The fingers on the map: id and position of each.
    fingers: StoredValue<Vec<(i32, (f64, f64))>>,
}

impl Look {
    fn new() -> Self {
        Self {
            view: RwSignal::new(View::default()),
            mix: RwSignal::new(1.0),
            before: RwSignal::new(false),
            alone: RwSignal::new(None),
            hovered: RwSignal::new(None),
            picking: Picking::new(),
            fingers: StoredValue::new(Vec::new()),
        }
    }
}

/// Least distance of a point from the top for its card to stand above it, in CSS pixels.
const CARD: f64 = 60.0;

/// A point under the pointer.
#[derive(Clone, Debug, PartialEq)]
struct Hovered {
    text: String,
    /// Number of the row in the data, if it has a label.
    row: Option<u32>,
    /// In CSS pixels, from the corner of the canvas.
    at: (f64, f64),
}

/// The scatter plot, its tools, and the legend of its classes.
#[component]
pub(crate) fn Map(state: State, session: Session) -> impl IntoView {
    let canvas = NodeRef::<leptos::html::Canvas>::new();
    let look = Look::new();
    // A finger that goes up or down scrolls the page, unless it picks rows or the map is zoomed in.
    let touched = Memo::new(move |_| {
        let is_map = look.picking.picks() || !look.view.read().is_whole();
        if is_map { "none" } else { "pan-y" }
    });
    follow(canvas, state, look);
    Effect::new(move || session.ask_colours());
    let caption = move || state.map.read().as_ref().map(|map| caption(state, map));
    let placing = move || {
        let map = state.map.read();
        is_placing(state, map.as_ref()).then_some("")
    };
    let has_run = Signal::derive(move || {
        let map = state.map.read();
        map.as_ref().is_some_and(|map| map.side.is_some())
    });
    let empty = move || state.map.read().is_none();
    let label = move || {
        caption().map_or_else(
            || "A map: nothing to show yet".to_owned(),
            |text| format!("A map: {text}"),
        )
    };
    view! {
        <figure>
            <figcaption>
                <h2>"Map"</h2>
                <span class="muted" data-testid="map-caption" title=caption>{caption}</span>
                {projection(state, look, has_run)}
                <Tools state session look has_run/>
            </figcaption>
            <div class="sheet">
                <canvas
                    node_ref=canvas data-testid="embedding-map" data-placing=placing role="img" aria-label=label style=("touch-action", touched)
                    on:pointerdown=move |event| press(&event, look)
                    on:pointermove=move |event| pass(&event, state, session, look)
                    on:pointerup=move |event| release(&event, state, session, look)
                    on:pointerleave=move |_| look.hovered.set(None)
                    on:pointercancel=move |_| let_go(look)
                    on:wheel=move |event| turn(&event, look)
                ></canvas>
                {zoom(look)}
                {card(state, look)}
                <Picked state session picking=look.picking/>
                <p class="muted nothing" hidden=move || !empty()>"Your data appears here."</p>
            </div>
        </figure>
        <Legend state look/>
    }
}

/// Tells if UMAP is about to place the rows, or does.
fn is_placing(state: State, map: Option<&MapData>) -> bool {
    let rests = [Phase::Paused, Phase::Finished].contains(&state.phase.get());
    let umap = map.and_then(|map| map.by_umap.as_ref());
    let is_done = |umap: &ByUmap| umap.epochs.is_some_and(|part| part.done >= part.total);
    rests && umap.is_some_and(|umap| !is_done(umap))
}

/// Draws the map again whenever something of it changes.
fn follow(canvas: NodeRef<leptos::html::Canvas>, state: State, look: Look) {
    // The view of one data set says nothing of another.
    Effect::new(move || {
        state.data.track();
        look.view.set(View::default());
        look.alone.set(None);
        look.hovered.set(None);
        look.picking.clear();
    });
    Effect::new(move || {
        state.colour_by.track();
        look.alone.set(None);
    });
    // While a run goes on they are not on the map, and their line is not in the list.
    Effect::new(move || {
        let map = state.map.read();
        let none = map.as_ref().is_none_or(|map| map.places.aside.is_empty());
        if none && look.alone.get_untracked() == Some(NO_LABEL) {
            look.alone.set(None);
        }
    });
    let track = move || {
        state.theme.track();
        state.map.track();
        state.coloured.track();
        state.chosen.track();
        state.neighbours.track();
        state.anchor.track();
        look.view.track();
        look.mix.track();
        look.alone.track();
        look.picking.track();
    };
    redraw(canvas, Duration::ZERO, track, move |canvas| {
        draw(canvas, state, look);
    });
}

/// Words on what the rows were placed by, and of what.
fn projection(state: State, look: Look, has_run: Signal<bool>) -> impl IntoView {
    let is_circle = move || state.map.read().as_ref().is_none_or(|map| map.circle);
    let by_umap = move || {
        let map = state.map.read();
        map.as_ref().is_some_and(|map| map.by_umap.is_some())
    };
    view! {
        <span class="muted" hidden=move || !has_run.get() || is_circle()>
            <Show when=by_umap fallback=|| view! { <Term term=terms::PRINCIPAL_COMPONENTS name="PCA"/> }>
                <Term term=terms::UMAP/>
            </Show>
            " of "
            <Show when=move || look.before.get() fallback=|| view! { <Term term=terms::EMBEDDINGS name="embeddings"/> }>
                <Term term=terms::FEATURES name="features"/>
            </Show>
        </span>
    }
}

/// Card of the row under the pointer.
fn card(state: State, look: Look) -> impl IntoView {
    move || {
        look.hovered.get().map(|Hovered { text, row, at: (x, y) }| {
            view! {
                <span class="hover" class:under=y < CARD style=("left", format!("min({x:.0}px, 100% - 200px)")) style=("top", format!("{y:.0}px"))>
                    {row.map(|row| view! { <Picture state row/>{move || state.name(row).map(|name| view! { <b>{name}</b> ", " })} })}{text}
                </span>
            }
        })
    }
}

/// Caption of a map: number and side of its rows, and the progress of UMAP.
fn caption(state: State, map: &MapData) -> String {
    let shown = map.places.rows.len();
    let all = match map.side {
        None => state.data.read().as_ref().map_or(0, |data| data.rows),
        Some(side) => side::rows(state, side),
    };
    let side = map
        .side
        .map_or_else(String::new, |side| format!("{} ", side_text(side)));
    let rows = match shown < all {
        true => format!(
            "{} of {} {side}rows, drawn by the seed",
            grouped(shown as u64),
            grouped(all as u64)
        ),
        false => format!("{} {side}rows", grouped(shown as u64)),
    };
    let epochs = map.by_umap.as_ref().and_then(|umap| umap.epochs);
    match (map.side, epochs) {
        (Some(_), Some(part)) if part.done < part.total && is_placing(state, Some(map)) => {
            format!(
                "{rows}, epoch {} of {}{}",
                part.done,
                part.total,
                part.left()
            )
        }
        (None, _) => {
            let comma = if shown < all { "," } else { "" };
            format!("{rows}{comma} as they are now. Press Run to pull each class together.")
        }
        (Some(_), _) if map.circle => format!("{rows}, on the circle where they lie exactly"),
        _ => rows,
    }
}

/// Tools of the map: PCA or UMAP, before or after, and picking.
#[component]
fn Tools(state: State, session: Session, look: Look, has_run: Signal<bool>) -> impl IntoView {
    let show = move |before: bool| {
        look.before.set(before);
        tween(look, web_time::Instant::now(), look.mix.get_untracked());
    };
    // UMAP places rows while no step is taken; a circle is shown as it is.
    let is_circle = move || state.map.read().as_ref().is_none_or(|map| map.circle);
    let can_place = move || {
        let phases = [Phase::Paused, Phase::Finished];
        phases.contains(&state.phase.get()) && has_run.get() && !is_circle()
    };
    // Unasked UMAP places the map of a run that is over; once chosen, also that of one that is paused.
    Effect::new(move |_| {
        let wanted = state.by_umap.get();
        let wanted = wanted.unwrap_or_else(|| state.phase.get() == Phase::Finished);
        let settled = |map: &MapData| map.by_umap.is_some() || map.refused;
        if wanted && can_place() && !state.map.read().as_ref().is_some_and(settled) {
            session.place_by_umap(true);
        }
    });
    let by = move || match &*state.map.read() {
        Some(map) if map.by_umap.is_some() => "umap",
        _ => "pca",
    };
    let place = move |event: web_sys::Event| {
        session.choose_umap(event_target_value(&event) == "umap");
    };
    let is = move |before: bool| (look.before.get() == before).to_string();
    view! {
        // Tools that come and go stand first, so that the others stay in place.
        <span class="tools">
            <side::Sides state session/>
            <select
                data-testid="map-by" aria-label="What places the rows" title="PCA: the directions in which the rows differ most. UMAP: rows that are near stay near." hidden=move || !has_run.get() || is_circle() disabled=move || !can_place() prop:value=by on:change=place
            >
                <option value="pca">"PCA"</option>
                <option value="umap">"UMAP"</option>
            </select>
            <span class="either" hidden=move || !has_run.get()>
                <button data-testid="map-before" aria-pressed=move || is(true) on:click=move |_| show(true) title="The features, scaled where a run scales them">"Before"</button>
                <button data-testid="map-after" aria-pressed=move || is(false) on:click=move |_| show(false) title="The embeddings, as the network places them">"After"</button>
            </span>
            <picking::Tools picking=look.picking/>
        </span>
    }
}

/// Buttons in a corner of the map that zoom it.
fn zoom(look: Look) -> impl IntoView {
    let zoom = move |by: f64| look.view.update(|view| view.zoom_at(by, (0.0, 0.0)));
    let is_whole = move || look.view.read().is_whole();
    view! {
        <span class="zoom">
            <button class="quiet" data-testid="map-whole" class:absent=is_whole on:click=move |_| look.view.set(View::default())>"Whole"</button>
            <button class="quiet" aria-label="Zoom out" on:click=move |_| zoom(1.0 / 1.5)>"−"</button>
            <button class="quiet" aria-label="Zoom in" on:click=move |_| zoom(1.5)>"+"</button>
        </span>
    }
}

/// Moves the points between features and embeddings, frame by frame; at once if the person asks for less motion.
fn tween(look: Look, begun: web_time::Instant, from: f64) {
    let end = move || match look.before.get_untracked() {
        true => 0.0,
        false => 1.0,
    };
    let to = end();
    let part = begun.elapsed().as_secs_f64() * 1000.0 / TWEEN_MS;
    if is_still() || part >= 1.0 {
        look.mix.set(to);
        return;
    }
    let smooth = part * part * (3.0 - 2.0 * part);
    look.mix.set(from + (to - from) * smooth);
    request_animation_frame(move || {
        // The opposite move may have begun meanwhile.
        if end() == to {
            tween(look, begun, from);
        }
    });
}

fn draw(canvas: &HtmlCanvasElement, state: State, look: Look) {
    let (width, height, ratio) = fit(canvas);
    let (Some(map), Some(context)) = (&*state.map.read(), context(canvas)) else {
        return;
    };
    let mix = map.side.map_or(1.0, |_| look.mix.get());
    let painter = Painter {
        context,
        frame: Frame::new(look.view.get(), width, height, ratio),
        points: places(&map.places, mix).collect(),
        ratio,
        size: (width as usize, height as usize),
    };
    let chosen = state.chosen.get().and_then(|row| map.places.of(row));
    let picked = look.picking.picked(map);
    let triplet = match map.side {
        Some(_) => state.triplet(),
        None => None,
    };
    let pale = chosen.is_some() || triplet.is_some();
    let coloured = state.coloured.read();
    match map.paint(coloured.as_ref()) {
        Paint::Names(colours, names) => {
            painter.points(colours, names.len(), look.alone.get(), &picked, pale);
        }
        Paint::Scale(steps, _) => painter.scale(steps, &picked, pale),
    }
    if let Some(triplet) = triplet {
        painter.triplet(map, mix, triplet);
    }
    if let Some(chosen) = chosen {
        painter.neighbours(&map.places, chosen, state.neighbours.read().as_ref());
    }
    painter.outline(&look.picking.outline());
}

fn press(event: &PointerEvent, look: Look) {
    if let Some(canvas) = target(event) {
        canvas.set_pointer_capture(event.pointer_id()).ok();
    }
    if event.pointer_type() == "touch" {
        let finger = (event.pointer_id(), at(event));
        look.fingers.update_value(|fingers| fingers.push(finger));
        if let [(_, a), (_, b)] = look.fingers.get_value()[..] {
            look.picking.let_go();
            return look.view.update_untracked(|view| view.press(between(a, b)));
        }
    }
    look.view.update_untracked(|view| view.press(at(event)));
    look.picking.press(at(event));
}

/// Drops a drag or pinch whose pointer is gone.
fn let_go(look: Look) {
    look.fingers.update_value(Vec::clear);
    look.view.update_untracked(View::let_go);
    look.picking.let_go();
}

/// The midpoint of two places.
fn between(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    ((a.0 + b.0) / 2.0, (a.1 + b.1) / 2.0)
}

/// The distance between two places.
fn apart(a: (f64, f64), b: (f64, f64)) -> f64 {
    let (x, y) = (a.0 - b.0, a.1 - b.1);
    (x * x + y * y).sqrt()
}

/// Follows a finger of a pinch: the point between the two stays between them, and the map grows as they part. Tells if there are
/// two.
fn pinch(event: &PointerEvent, look: Look, size: (f64, f64)) -> bool {
    let fingers = look.fingers.get_value();
    let moved = fingers
        .iter()
        .map(|(id, place)| match *id == event.pointer_id() {
            true => (*id, at(event)),
            false => (*id, *place),
        });
    let moved: Vec<_> = moved.collect();
    let ([(_, a), (_, b)], [(_, to_a), (_, to_b)]) = (&fingers[..], &moved[..]) else {
        return false;
    };
    let by = apart(*to_a, *to_b).max(1.0) / apart(*a, *b).max(1.0);
    let middle = between(*to_a, *to_b);
    look.view.update(|view| {
        view.drag(middle, size);
        view.zoom_at(by, from_middle(middle, size));
    });
    look.fingers.set_value(moved);
    true
}

/// Offset of a place on a canvas from its middle, to the right and down; the edge of the whole map is at 1.
fn from_middle(at: (f64, f64), (width, height): (f64, f64)) -> (f64, f64) {
    let unit = Frame::unit(width, height, 1.0);
    ((at.0 - width / 2.0) / unit, (at.1 - height / 2.0) / unit)
}

fn pass(event: &PointerEvent, state: State, session: Session, look: Look) {
    let Some(canvas) = target(event) else { return };
    let size = size(&canvas);
    if pinch(event, look, size) {
        return look.hovered.set(None);
    }
    if look.picking.follow(at(event)) {
        look.hovered.set(None);
        return;
    }
    if look.view.with_untracked(|view| view.is_pressed()) {
        look.hovered.set(None);
        look.view.update(|view| view.drag(at(event), size));
        return;
    }
    let map = state.map.read_untracked();
    let hovered = map.as_ref().and_then(|map| {
        let place = nearest(state, map, look, size, at(event))?;
        let row = map.places.rows.get(place).copied();
        let Some(row) = row else {
            let number = map.places.aside.get(place - map.places.rows.len())?;
            return Some(Hovered {
                text: format!("row {number} of the file, no label"),
                row,
                at: at(event),
            });
        };
        let class = map.places.classes[place];
        let name = map.names.get(usize::from(class));
        let class = name.map_or_else(
            || "one of the smaller classes".to_owned(),
            |name| format!("class {name}"),
        );
        let coloured = state.coloured.read_untracked();
        let cell = coloured.as_ref().and_then(|by| {
            let name = by.names.get(usize::from(*by.colours.get(place)?))?;
            (by.rows == map.places.rows && !name.is_empty())
                .then(|| format!(", {} {name}", by.column))
        });
        Some(Hovered {
            text: format!("row {row}, {class}{}", cell.unwrap_or_default()),
            row: Some(row),
            at: at(event),
        })
    });
    if *look.hovered.read_untracked() != hovered {
        if let Some(hovered) = &hovered {
            session.ask_names(hovered.row.into_iter().collect());
        }
        look.hovered.set(hovered);
    }
}

/// Ends a press. If nothing was dragged, it is a click, which chooses a row; a drag may have picked rows.
fn release(event: &PointerEvent, state: State, session: Session, look: Look) {
    if look.fingers.with_value(|fingers| fingers.len() > 1) {
        return let_go(look);
    }
    look.fingers.update_value(Vec::clear);
    let still = look
        .view
        .try_update_untracked(|view| view.release(at(event), STILL))
        .unwrap_or(false)
        // A lasso that is closed ends where it began, and is no click.
        && !look.picking.went_beyond(STILL);
    let map = state.map.read_untracked();
    let (Some(map), Some(canvas)) = (&*map, target(event)) else {
        return look.picking.let_go();
    };
    let size = size(&canvas);
    if !still {
        let points = pointable(state, map, look, size);
        return look
            .picking
            .release(points.filter_map(|(place, at)| Some((*map.places.rows.get(place)?, at))));
    }
    look.picking.let_go();
    // Before a run there are no embeddings to compare.
    if map.side.is_some() {
        let place = nearest(state, map, look, size, at(event));
        session.choose_row(place.and_then(|place| map.places.rows.get(place).copied()));
    }
}

fn turn(event: &WheelEvent, look: Look) {
    let Some(canvas) = event
        .target()
        .and_then(|target| target.dyn_into::<HtmlCanvasElement>().ok())
    else {
        return;
    };
    event.prevent_default();
    let pointer = (f64::from(event.offset_x()), f64::from(event.offset_y()));
    let by = (-event.delta_y() / 400.0).clamp(-1.0, 1.0).exp();
    let from_middle = from_middle(pointer, size(&canvas));
    look.view.update(|view| view.zoom_at(by, from_middle));
}

/// The rows that can be pointed at: index on the map, and position on a canvas of this size.
fn pointable(
    state: State,
    map: &MapData,
    look: Look,
    (width, height): (f64, f64),
) -> impl Iterator<Item = (usize, (f64, f64))> {
    let frame = Frame::new(look.view.get_untracked(), width, height, 1.0);
    let mix = map.side.map_or(1.0, |_| look.mix.get_untracked());
    let alone = look.alone.get_untracked();
    let is_alone = move |place: &usize, colour: u16| {
        let coloured = state.coloured.read_untracked();
        let colours = map.paint(coloured.as_ref()).colours();
        colours.get(*place).copied().unwrap_or(NO_LABEL) == colour
    };
    places(&map.places, mix)
        .map(move |point| frame.place(point))
        .enumerate()
        .filter(move |(place, _)| alone.is_none_or(|colour| is_alone(place, colour)))
}

/// Index of the row nearest to the pointer, if its point is within `REACH`.
fn nearest(
    state: State,
    map: &MapData,
    look: Look,
    size: (f64, f64),
    pointer: (f64, f64),
) -> Option<usize> {
    pointable(state, map, look, size)
        .map(|(place, point)| (place, apart(point, pointer)))
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .filter(|(_, distance)| *distance <= REACH)
        .map(|(place, _)| place)
}

fn at(event: &PointerEvent) -> (f64, f64) {
    (f64::from(event.offset_x()), f64::from(event.offset_y()))
}

fn target(event: &PointerEvent) -> Option<HtmlCanvasElement> {
    event.target()?.dyn_into().ok()
}

fn size(canvas: &HtmlCanvasElement) -> (f64, f64) {
    (
        f64::from(canvas.client_width()),
        f64::from(canvas.client_height()),
    )
}

fn context(canvas: &HtmlCanvasElement) -> Option<CanvasRenderingContext2d> {
    let context = canvas.get_context("2d").ok().flatten()?;
    context.dyn_into().ok()
}
