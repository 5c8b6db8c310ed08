//! The map: where rows lie on a plane, ten classes in colour and the rest grey.

use leptos::prelude::*;
use nearfar::Side;
use wasm_bindgen::JsCast as _;
use web_sys::{CanvasRenderingContext2d, HtmlCanvasElement};

use crate::frame::{fit, redraw};
use crate::state::{MapData, State};
use crate::theme;

/// The scatter and the names of its classes.
#[component]
pub(crate) fn Map(state: State) -> impl IntoView {
    let canvas = NodeRef::<leptos::html::Canvas>::new();
    let track = move || {
        state.theme.track();
        state.map.track();
    };
    redraw(canvas, track, move |canvas| {
        draw(canvas, state.map.read().as_ref());
    });
    let side = move || {
        state.map.read().as_ref().map_or_else(String::new, |map| {
            let side = match map.side {
                Side::Test => "test rows",
                Side::Validation => "validation rows",
                Side::Train => "training rows",
            };
            let projection = if map.circle {
                "the exact circle"
            } else if map.classes.contains(&u8::MAX) {
                "principal components of the coloured"
            } else {
                "principal components"
            };
            format!("{} {side}, {projection}", map.points.len())
        })
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
        <figure class="map">
            <figcaption><h2>"Embeddings"</h2> <span class="muted">{side}</span></figcaption>
            <canvas
                node_ref=canvas data-testid="embedding-map" role="img"
                aria-label=move || format!("A map of embeddings: {}", side())
            ></canvas>
            <div class="classes">{names}</div>
        </figure>
    }
}

fn draw(canvas: &HtmlCanvasElement, map: Option<&MapData>) {
    let (width, height, ratio) = fit(canvas);
    let context = canvas.get_context("2d").ok().flatten();
    let Some(context) =
        context.and_then(|context| context.dyn_into::<CanvasRenderingContext2d>().ok())
    else {
        return;
    };
    let Some(map) = map else { return };
    let most = map
        .points
        .iter()
        .flatten()
        .fold(1e-6f32, |most, value| most.max(value.abs()));
    let scale = 0.47 * width.min(height) / f64::from(most);
    let place = |point: &[f32; 2]| {
        (
            width / 2.0 + scale * f64::from(point[0]),
            height / 2.0 - scale * f64::from(point[1]),
        )
    };
    let fill = |name: &str, alpha: f64| {
        let (r, g, b) = theme::color(name);
        context.set_fill_style_str(&format!("rgba({r},{g},{b},{alpha})"));
    };
    // Grey first, so that the classes that are told apart lie on top.
    for class in std::iter::once(u8::MAX).chain(0..map.names.len() as u8) {
        let (radius, grey) = (
            ratio * if class == u8::MAX { 1.6 } else { 3.2 },
            class == u8::MAX,
        );
        let name = if grey {
            "grid-strong".to_owned()
        } else {
            format!("class{class}")
        };
        fill(&name, if grey { 0.8 } else { 0.9 });
        let points = map
            .points
            .iter()
            .zip(&map.classes)
            .filter(|(_, c)| **c == class);
        for (point, _) in points {
            let (x, y) = place(point);
            context.begin_path();
            context.arc(x, y, radius, 0.0, std::f64::consts::TAU).ok();
            context.fill();
        }
    }
}
