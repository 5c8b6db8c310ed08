//! [`redraw`]: when a canvas is drawn again. One slot a canvas: however much changes, it is drawn once a frame.

use leptos::html::Canvas;
use leptos::prelude::*;
use wasm_bindgen::prelude::*;
use web_sys::{HtmlCanvasElement, ResizeObserver};

/// Draws in the next frame whenever something that `track` reads changes, or the canvas its size.
///
/// What to draw is gathered in the frame: a hidden page has none, and does no work.
pub(crate) fn redraw(
    canvas: NodeRef<Canvas>,
    track: impl Fn() + 'static,
    draw: impl Fn(&HtmlCanvasElement) + Copy + 'static,
) {
    let size = RwSignal::new(());
    let asked = StoredValue::new(false);
    Effect::new(move || {
        track();
        size.track();
        let Some(canvas) = canvas.get() else { return };
        if !asked.get_value() {
            asked.set_value(true);
            request_animation_frame(move || {
                asked.set_value(false);
                untrack(|| draw(&canvas));
            });
        }
    });
    Effect::new(move || {
        let Some(canvas) = canvas.get() else { return };
        let on_size = Closure::<dyn Fn()>::new(move || size.set(()));
        if let Ok(observer) = ResizeObserver::new(on_size.as_ref().unchecked_ref()) {
            observer.observe(&canvas);
        }
        on_size.forget();
    });
}

/// Gives a canvas as many pixels as the device shows of it; returns them, and how many make a CSS pixel.
pub(crate) fn fit(canvas: &HtmlCanvasElement) -> (f64, f64, f64) {
    let ratio = window().device_pixel_ratio().max(1.0);
    let size = |css: i32| (f64::from(css) * ratio).round().max(1.0);
    let (width, height) = (size(canvas.client_width()), size(canvas.client_height()));
    canvas.set_width(width as u32);
    canvas.set_height(height as u32);
    (width, height, ratio)
}
