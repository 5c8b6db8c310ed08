//! The picture of a row: the file that came with it, or its features where they are pixels.

use js_sys::Uint8ClampedArray;
use leptos::html::Canvas;
use leptos::prelude::*;
use nearfar::Pictures;
use wasm_bindgen::JsCast as _;
use wasm_bindgen_futures::{JsFuture, spawn_local};
use web_sys::{CanvasRenderingContext2d, File, HtmlCanvasElement, ImageBitmap, ImageData};

use crate::state::State;

/// The shades of a row among these, and the width of the picture.
fn shades(rows: &[u32], pictures: &Pictures, row: u32) -> Option<(usize, Vec<u8>)> {
    let at = rows.iter().position(|other| *other == row)?;
    let pixels = pictures.side * pictures.side;
    let shades = pictures.shades.chunks_exact(pixels).nth(at)?;
    Some((pictures.side, shades.to_vec()))
}

/// Width of a picture that is drawn from a file, in pixels.
const SIDE: u32 = 80;

/// The picture of a row: nothing if there is none.
#[component]
pub(crate) fn Picture(state: State, row: u32) -> impl IntoView {
    let files = state.brought.of_rows;
    match files.with_value(|files| files.get(&row).cloned()) {
        Some(file) => photo(file).into_any(),
        None => pixels(state, row).into_any(),
    }
}

/// A picture file, as a square of its middle.
fn photo(file: File) -> impl IntoView {
    let canvas = NodeRef::<Canvas>::new();
    Effect::new(move |_| {
        if let Some(canvas) = canvas.get() {
            let file = file.clone();
            spawn_local(async move {
                draw(&file, &canvas).await;
            });
        }
    });
    view! { <canvas class="picture photo" node_ref=canvas width=SIDE height=SIDE aria-hidden="true"></canvas> }
}

/// Draws a picture file; none if the browser cannot read it.
async fn draw(file: &File, canvas: &HtmlCanvasElement) -> Option<()> {
    let read = window().create_image_bitmap_with_blob(file).ok()?;
    let picture: ImageBitmap = JsFuture::from(read).await.ok()?.dyn_into().ok()?;
    let context = canvas.get_context("2d").ok()??;
    let context = context.unchecked_into::<CanvasRenderingContext2d>();
    let (width, height) = (f64::from(picture.width()), f64::from(picture.height()));
    let (side, whole) = (width.min(height), f64::from(SIDE));
    let (x, y) = ((width - side) / 2.0, (height - side) / 2.0);
    context
        .draw_image_with_image_bitmap_and_sw_and_sh_and_dx_and_dy_and_dw_and_dh(
            &picture, x, y, side, side, 0.0, 0.0, whole, whole,
        )
        .ok()?;
    picture.close();
    Some(())
}

/// The features of a row as a picture, dark on light; nothing if the rows are no pictures, or the row is neither on the map nor near the
/// chosen one nor drawn beside the anchor, nor among those to check.
fn pixels(state: State, row: u32) -> impl IntoView {
    let canvas = NodeRef::<Canvas>::new();
    let on_map = state.map.with_untracked(|map| {
        let map = map.as_ref()?;
        shades(&map.places.rows, map.pictures.as_ref()?, row)
    });
    let of_anchor = || {
        let looked = untrack(|| state.anchor.seen())?;
        let (rows, pictures) = looked.pictures.as_ref()?;
        shades(rows, pictures, row)
    };
    let is_near = || {
        let near = state.names.pictures.read_untracked();
        let (rows, pictures) = near.as_ref()?;
        shades(rows, pictures, row)
    };
    let shown = on_map.or_else(is_near).or_else(of_anchor);
    let shown = shown.or_else(|| state.checks.picture(row));
    let shown = shown.map(|(side, shades)| {
        let rgba = |shade: u8| [255 - shade, 255 - shade, 255 - shade, 255];
        let rgba: Vec<u8> = shades.into_iter().flat_map(rgba).collect();
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
