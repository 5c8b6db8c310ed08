//! [`Canvas`]: one plot on a canvas, by plotters. Knows lines and scales, not what they mean.

mod axes;
mod paint;
mod plot;

use leptos::prelude::*;
use wasm_bindgen::prelude::*;
use web_sys::{Event, HtmlCanvasElement, MouseEvent};
use web_time::Duration;

use crate::frame::redraw;
use crate::state::State;

pub(crate) use axes::{Along, Scale};
use paint::draw;
pub(crate) use paint::{RIGHT, left};
pub(crate) use plot::{Line, Plot};

/// A plot is drawn ten times a second at most: steps come faster than anybody sees.
const PAUSE: Duration = Duration::from_millis(100);

/// Position of an event along a plot's horizontal axis: 0 is the first end, 1 the last.
pub(crate) fn share_of(event: &MouseEvent) -> f64 {
    let canvas = canvas_of(event).map_or(0, |canvas| canvas.client_width());
    let width = f64::from(canvas) - left() - RIGHT;
    (f64::from(event.offset_x()) - left()) / width.max(1.0)
}

/// The canvas of an event.
pub(crate) fn canvas_of(event: &Event) -> Option<HtmlCanvasElement> {
    event.target()?.dyn_into().ok()
}

/// Sets `pointed` to the pointer's share of the horizontal axis; `None` if the pointer is off it.
fn follow(pointed: RwSignal<Option<f64>>) -> Told {
    Told {
        of: &["pointermove", "pointerleave"],
        to: Callback::new(move |event: Event| {
            let share = share_of(event.unchecked_ref());
            let is_on = event.type_() == "pointermove" && (0.0..=1.0).contains(&share);
            pointed.set(is_on.then_some(share));
        }),
    }
}

/// A callback, and the names of the events that it receives.
#[derive(Clone, Copy)]
pub(crate) struct Told {
    pub(crate) of: &'static [&'static str],
    pub(crate) to: Callback<Event>,
}

/// A canvas that draws `plot` again whenever something it reads changes.
#[component]
pub(crate) fn Canvas(
    /// The `data-testid` of the canvas.
    testid: &'static str,
    /// The plot in words, for screen readers.
    #[prop(into)]
    text: Signal<String>,
    /// Gives the plot to draw.
    #[prop(into)]
    plot: Callback<(), Plot>,
    /// The signals that all plots share.
    state: State,
    /// Receives events of the canvas.
    #[prop(optional)]
    told: Option<Told>,
    /// The pointer's share of the horizontal axis, if the plot shows the value there.
    #[prop(optional)]
    pointed: Option<RwSignal<Option<f64>>>,
) -> impl IntoView {
    let canvas = NodeRef::<leptos::html::Canvas>::new();
    if let Some(told) = told.or(pointed.map(follow)) {
        Effect::new(move || {
            let Some(canvas) = canvas.get() else { return };
            let tell = Closure::<dyn Fn(Event)>::new(move |event| {
                told.to.try_run(event);
            });
            let listener = tell.as_ref().unchecked_ref();
            for name in told.of {
                canvas.add_event_listener_with_callback(name, listener).ok();
            }
            tell.forget();
        });
    }
    redraw(
        canvas,
        PAUSE,
        move || {
            state.track_plots();
            text.track();
            pointed.iter().for_each(Track::track);
        },
        move |canvas| {
            // The callback may be gone by the time its frame comes.
            if let Some(plot) = plot.try_run(()) {
                draw(canvas, &plot);
            }
        },
    );
    view! { <canvas node_ref=canvas data-testid=testid role="img" aria-label=text></canvas> }
}
