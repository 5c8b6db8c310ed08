//! The map: where rows lie on a plane, ten classes in colour and the rest grey; and around the row that is chosen, its
//! neighbours.

use leptos::prelude::*;
use nearfar::{Neighbourhood, Side};
use wasm_bindgen::JsCast as _;
use web_sys::{CanvasRenderingContext2d, HtmlCanvasElement, MouseEvent};

use crate::frame::{fit, redraw};
use crate::plots::grouped;
use crate::session::Session;
use crate::state::{MapData, Places, State};
use crate::terms::{self, Term};
use crate::theme;

/// How far from a point a click still means it, in CSS pixels.
const REACH: f64 = 16.0;
/// What is left free around the points, in CSS pixels.
const EDGE: f64 = 10.0;

/// The scatter and the names of its classes.
#[component]
pub(crate) fn Map(state: State, session: Session) -> impl IntoView {
    let canvas = NodeRef::<leptos::html::Canvas>::new();
    let track = move || {
        state.theme.track();
        state.map.track();
        state.chosen.track();
        state.neighbours.track();
    };
    redraw(canvas, track, move |canvas| {
        let (width, height, ratio) = fit(canvas);
        if let (Some(map), Some(context)) = (&*state.map.read(), context(canvas)) {
            let painter = Painter {
                context,
                frame: Frame::new(&map.places, width, height, ratio),
                ratio,
            };
            let chosen = state.chosen.get();
            painter.points(map, chosen.is_some());
            if let Some(row) = chosen {
                painter.neighbours(&map.places, row, state.neighbours.read().as_ref());
            }
        }
    });
    let choose = move |event: MouseEvent| {
        if let (Some(canvas), Some(map)) = (canvas.get_untracked(), &*state.map.read_untracked()) {
            session.choose_row(clicked(&canvas, &map.places, &event));
        }
    };
    let part = move |part: fn(&MapData) -> String| {
        state.map.read().as_ref().map_or_else(String::new, part)
    };
    let (before, after) = (move || part(rows), move || part(projection));
    let is_circle = move || state.map.read().as_ref().is_none_or(|map| map.circle);
    let side = move || {
        let by = if is_circle() {
            ""
        } else {
            "principal components"
        };
        format!("{}{by}{}", before(), after())
    };
    let names = move || {
        let names = state
            .map
            .read()
            .as_ref()
            .map_or_else(Vec::new, |map| map.names.clone());
        let key = |(i, name): (usize, String)| {
            view! { <span class="key"><i class="dot" style=format!("--line: var(--class{i})")></i>{name}</span> }
        };
        names.into_iter().enumerate().map(key).collect_view()
    };
    view! {
        <figure>
            <figcaption>
                <h2><Term term=terms::EMBEDDINGS/></h2>
                <span class="muted">
                    {before} <span hidden=is_circle><Term term=terms::PRINCIPAL_COMPONENTS/></span> {after}
                </span>
            </figcaption>
            <canvas
                node_ref=canvas data-testid="embedding-map" role="img" on:click=choose
                aria-label=move || format!("A map of embeddings: {}", side())
            ></canvas>
            <div class="classes">{names}</div>
        </figure>
    }
}

/// Whose rows a map shows.
fn rows(map: &MapData) -> String {
    let rows = grouped(map.places.points.len() as u64);
    let side = side_text(map.side);
    if map.circle {
        format!("{rows} {side} rows, on the circle where they lie exactly")
    } else {
        format!("{rows} {side} rows in two dimensions: ")
    }
}

/// What a projection was made of, where some classes are not told apart.
fn projection(map: &MapData) -> String {
    if !map.circle && map.places.classes.contains(&u8::MAX) {
        format!(" of the {} coloured classes", map.names.len())
    } else {
        String::new()
    }
}

/// A side, as an adjective.
pub(crate) fn side_text(side: Side) -> &'static str {
    match side {
        Side::Test => "test",
        Side::Validation => "validation",
        Side::Train => "training",
    }
}

/// The row under a click, the nearest where several are.
fn clicked(canvas: &HtmlCanvasElement, places: &Places, event: &MouseEvent) -> Option<u32> {
    let (width, height) = (canvas.client_width(), canvas.client_height());
    let frame = Frame::new(places, f64::from(width), f64::from(height), 1.0);
    let (x, y) = (f64::from(event.offset_x()), f64::from(event.offset_y()));
    let distance = |point: &[f32; 2]| {
        let at = frame.place(*point);
        (at.0 - x).hypot(at.1 - y)
    };
    let distances = places.points.iter().map(distance).zip(&places.rows);
    let nearest = distances.min_by(|a, b| a.0.total_cmp(&b.0));
    nearest
        .filter(|(distance, _)| *distance <= REACH)
        .map(|(_, row)| *row)
}

fn context(canvas: &HtmlCanvasElement) -> Option<CanvasRenderingContext2d> {
    let context = canvas.get_context("2d").ok().flatten()?;
    context.dyn_into().ok()
}

/// Where points stand on a canvas: the origin in the middle, the farthest so near the edge that its mark is whole.
struct Frame {
    centre: (f64, f64),
    scale: f64,
}

impl Frame {
    fn new(places: &Places, width: f64, height: f64, ratio: f64) -> Self {
        let values = places.points.iter().flatten();
        let most = values.fold(1e-6f32, |most, value| most.max(value.abs()));
        Self {
            centre: (width / 2.0, height / 2.0),
            scale: (0.5 * width.min(height) - EDGE * ratio).max(1.0) / f64::from(most),
        }
    }

    fn place(&self, point: [f32; 2]) -> (f64, f64) {
        let (x, y) = self.centre;
        (
            x + self.scale * f64::from(point[0]),
            y - self.scale * f64::from(point[1]),
        )
    }
}

/// Draws on a canvas, in its own pixels, `ratio` of them a CSS pixel.
struct Painter {
    context: CanvasRenderingContext2d,
    frame: Frame,
    ratio: f64,
}

impl Painter {
    /// All points; paler where some of them are to stand out.
    fn points(&self, map: &MapData, pale: bool) {
        let Places {
            points, classes, ..
        } = &map.places;
        // Grey first, so that the classes that are told apart lie on top.
        for class in std::iter::once(u8::MAX).chain(0..map.names.len() as u8) {
            let grey = class == u8::MAX;
            let (name, radius, alpha) = if grey {
                ("grid-strong".to_owned(), 1.6, 0.8)
            } else {
                (format!("class{class}"), 3.2, 0.9)
            };
            let color = rgba(&name, if pale { 0.5 * alpha } else { alpha });
            self.context.set_fill_style_str(&color);
            let of_class = points.iter().zip(classes).filter(|(_, c)| **c == class);
            for (point, _) in of_class {
                self.circle(*point, radius);
                self.context.fill();
            }
        }
    }

    /// A ring around the chosen row, and lines to its neighbours: whole ones to rings where the class is right, dashed ones
    /// to crosses where it is wrong.
    fn neighbours(&self, places: &Places, row: u32, found: Option<&Neighbourhood>) {
        let Some(chosen) = places.of(row) else {
            return;
        };
        let found = found.map_or(&[][..], |found| &found.neighbours);
        for neighbour in found {
            let Some(point) = places.of(neighbour.row) else {
                continue;
            };
            let color = if neighbour.right { "accent" } else { "danger" };
            self.pen(color, 1.2);
            self.dash(if neighbour.right { 0.0 } else { 3.0 });
            self.line(self.frame.place(chosen), self.frame.place(point));
            self.dash(0.0);
            self.pen(color, 2.0);
            if neighbour.right {
                self.circle(point, 5.0);
                self.context.stroke();
            } else {
                self.cross(point, 4.5);
            }
        }
        self.pen("ink", 2.5);
        self.circle(chosen, 7.5);
        self.context.stroke();
    }

    fn circle(&self, point: [f32; 2], radius: f64) {
        let (x, y) = self.frame.place(point);
        let radius = self.ratio * radius;
        self.context.begin_path();
        self.context
            .arc(x, y, radius, 0.0, std::f64::consts::TAU)
            .ok();
    }

    fn cross(&self, point: [f32; 2], reach: f64) {
        let (x, y) = self.frame.place(point);
        let reach = self.ratio * reach;
        self.line((x - reach, y - reach), (x + reach, y + reach));
        self.line((x - reach, y + reach), (x + reach, y - reach));
    }

    fn line(&self, from: (f64, f64), to: (f64, f64)) {
        self.context.begin_path();
        self.context.move_to(from.0, from.1);
        self.context.line_to(to.0, to.1);
        self.context.stroke();
    }

    fn pen(&self, color: &str, width: f64) {
        self.context.set_stroke_style_str(&rgba(color, 1.0));
        self.context.set_line_width(self.ratio * width);
    }

    /// Draws the next lines in dashes of this length; whole where it is 0.
    fn dash(&self, length: f64) {
        let dashes = js_sys::Array::new();
        if length > 0.0 {
            dashes.push(&(self.ratio * length).into());
        }
        self.context.set_line_dash(&dashes).ok();
    }
}

fn rgba(name: &str, alpha: f64) -> String {
    let (r, g, b) = theme::color(name);
    format!("rgba({r},{g},{b},{alpha})")
}
