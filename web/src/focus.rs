//! Moves the focus on when the control that had it goes, as with a line that is dismissed or a view that is left. Otherwise it
//! would be lost, and the next Tab would begin at the top of the page.

use leptos::ev::click;
use leptos::prelude::*;
use wasm_bindgen::JsCast as _;
use web_sys::{Element, HtmlElement};

use crate::dialog;

/// Selectors of the first control of each view, in the order of the search; each view shows one of them.
const FIRST: [&str; 4] = [
    "[data-testid=run]",
    "[data-testid=compare-start]",
    "[data-testid=runs] input",
    "nav [aria-pressed=true]",
];

/// Watches every click: if the control is gone after its action, [`first`] moves the focus.
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

/// Gives the focus to the first control of the view that is shown.
pub(crate) fn first() {
    FIRST.iter().any(|selector| on(selector));
}

/// Gives the focus to a control if it is shown; tells if it was.
pub(crate) fn on(selector: &str) -> bool {
    let found = document().query_selector(selector).ok().flatten();
    let control = found.and_then(|found| found.dyn_into::<HtmlElement>().ok());
    control.is_some_and(|control| is_shown(&control) && control.focus().is_ok())
}

fn is_shown(element: &Element) -> bool {
    element.is_connected() && element.get_bounding_client_rect().width() > 0.0
}
