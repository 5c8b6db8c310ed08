//! [`redraw`]: when a canvas is drawn again. A canvas is drawn once a frame, however much changes; if many canvases change, each
//! frame draws a few of them.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use leptos::html::Canvas;
use leptos::prelude::*;
use wasm_bindgen::prelude::*;
use web_sys::{HtmlCanvasElement, ResizeObserver};
use web_time::{Duration, Instant};

/// Time after which a frame begins no further canvas, so that the page answers within 50 ms.
const SHARE: Duration = Duration::from_millis(12);

thread_local! {
    /// Canvases that wait to be drawn, the first to ask first.
    static WAITING: RefCell<VecDeque<Box<dyn FnOnce()>>> = RefCell::default();
    /// A frame was requested.
    static ASKED: Cell<bool> = const { Cell::new(false) };
}

/// Tells if the person asks for less motion.
pub(crate) fn is_still() -> bool {
    let query = window().match_media("(prefers-reduced-motion: reduce)");
    query.is_ok_and(|query| query.is_some_and(|query| query.matches()))
}

/// Draws in one of the next frames.
fn in_a_frame(draw: impl FnOnce() + 'static) {
    WAITING.with_borrow_mut(|waiting| waiting.push_back(Box::new(draw)));
    if !ASKED.replace(true) {
        request_animation_frame(draw_some);
    }
}

fn draw_some() {
    let began = Instant::now();
    while let Some(draw) = WAITING.with_borrow_mut(VecDeque::pop_front) {
        draw();
        if began.elapsed() >= SHARE {
            break;
        }
    }
    let more = WAITING.with_borrow(|waiting| !waiting.is_empty());
    ASKED.set(more);
    if more {
        request_animation_frame(draw_some);
    }
}

/// Draws in one of the next frames whenever a signal that `track` reads changes, or the size of the canvas; at the earliest `pause`
/// after the last time.
///
/// The work of `draw` is done in the frame: a hidden page has no frames, and so does no work.
pub(crate) fn redraw(
    canvas: NodeRef<Canvas>,
    pause: Duration,
    track: impl Fn() + 'static,
    draw: impl Fn(&HtmlCanvasElement) + Copy + 'static,
) {
    let size = RwSignal::new(());
    let asked = StoredValue::new(false);
    let last = StoredValue::new(None::<Instant>);
    Effect::new(move || {
        track();
        size.track();
        let Some(canvas) = canvas.get() else { return };
        if !asked.get_value() {
            asked.set_value(true);
            let next = move || {
                in_a_frame(move || {
                    asked.set_value(false);
                    last.set_value(Some(Instant::now()));
                    untrack(|| draw(&canvas));
                });
            };
            let wait = last
                .get_value()
                .map(|last| pause.saturating_sub(last.elapsed()));
            match wait.filter(|wait| !wait.is_zero()) {
                Some(wait) => set_timeout(next, wait),
                None => next(),
            }
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

/// Sets the size of a canvas to its device pixels; returns width, height, and the device pixels per CSS pixel.
pub(crate) fn fit(canvas: &HtmlCanvasElement) -> (f64, f64, f64) {
    let ratio = window().device_pixel_ratio().max(1.0);
    let size = |css: i32| (f64::from(css) * ratio).round().max(1.0);
    let (width, height) = (size(canvas.client_width()), size(canvas.client_height()));
    canvas.set_width(width as u32);
    canvas.set_height(height as u32);
    (width, height, ratio)
}
