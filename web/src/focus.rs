//! The focus: what takes it when a control that had it goes, as a line that is dismissed or a view that is left. Else it would be
//! lost, and the next Tab would begin at the top of the page.

use leptos::ev::click;
use leptos::prelude::*;
use wasm_bindgen::JsCast as _;
use web_sys::{Element, HtmlElement};

use crate::dialog;

/// What there is to do first, in the order in which it is looked for: of each view one thing is shown.
const FIRST: [&str; 4] = [
    "[data-testid=run]",
    "[data-testid=compare-start]",
    "[data-testid=runs] input",
    "nav [aria-pressed=true]",
];

/// Watches every press: where the control is gone once it has done what it does, [`first`] takes the focus.
pub(crate) fn keep() {
    window_event_listener(click, |event| {
        let target = event
            .target()
            .and_then(|target| target.dyn_into::<Element>().ok());
        let Some(pressed) = target.and_then(|target| target.closest("button, a").ok().flatten())
        else {
            return;
        };
        // Views change within this frame.
        request_animation_frame(move || {
            request_animation_frame(move || {
                let held = document().active_element();
                let lost = held.is_none_or(|held| held.tag_name() == "BODY" || !is_shown(&held));
                if lost && !is_shown(&pressed) && !dialog::is_open() {
                    first();
                }
            });
        });
    });
}

/// Gives the focus to what there is to do first in the view that is shown.
pub(crate) fn first() {
    FIRST.iter().any(|selector| on(selector));
}

/// Gives the focus to a control, where it is shown; says whether it is.
pub(crate) fn on(selector: &str) -> bool {
    let found = document().query_selector(selector).ok().flatten();
    let control = found.and_then(|found| found.dyn_into::<HtmlElement>().ok());
    control.is_some_and(|control| is_shown(&control) && control.focus().is_ok())
}

fn is_shown(element: &Element) -> bool {
    element.is_connected() && element.get_bounding_client_rect().width() > 0.0
}
