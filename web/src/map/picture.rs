//! The picture of a row whose features are pixels.

use js_sys::Uint8ClampedArray;
use leptos::html::Canvas;
use leptos::prelude::*;
use nearfar::Pictures;
use wasm_bindgen::JsCast as _;
use web_sys::{CanvasRenderingContext2d, ImageData};

use crate::state::State;

/// The picture of a row, dark on light; nothing if rows are no pictures, or the row is neither on the map nor among those to check.
#[component]
pub(crate) fn Picture(state: State, row: u32) -> impl IntoView {
    let canvas = NodeRef::<Canvas>::new();
    let of_map = state.map.with_untracked(|map| {
        let map = map.as_ref()?;
        let Pictures { side, shades } = map.pictures.as_ref()?;
        let mut shades = shades.chunks_exact(side * side);
        Some((*side, shades.nth(map.places.of(row)?)?.to_vec()))
    });
    let shown = of_map.or_else(|| state.checks.picture(row));
    let shown = shown.map(|(side, shades)| {
        let rgba = |shade: &u8| [255 - shade, 255 - shade, 255 - shade, 255];
        let rgba: Vec<u8> = shades.iter().flat_map(rgba).collect();
        (side as u32, rgba)
    });
    shown.map(|(side, rgba)| {
        Effect::new(move |_| {
            let context = canvas.get()?.get_context("2d").ok()??;
            let context = context.unchecked_into::<CanvasRenderingContext2d>();
            // A copy, as in the map.
            let rgba = Uint8ClampedArray::from(&rgba[..]);
            let image = ImageData::new_with_js_u8_clamped_array(&rgba, side).ok()?;
            context.put_image_data(&image, 0.0, 0.0).ok()
        });
        view! { <canvas class="picture" node_ref=canvas width=side height=side aria-hidden="true"></canvas> }
    })
}
