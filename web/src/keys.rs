//! The keyboard: Space runs or pauses, S steps, R resets, E opens *Take home*, ? shows the keys.

use leptos::ev::keydown;
use leptos::prelude::*;
use wasm_bindgen::JsCast as _;
use web_sys::{Element, KeyboardEvent};

use crate::dialog::{self, Dialog};
use crate::session::Session;

/// Listens for keys on the whole page, except those that a control takes itself.
///
/// Escape closes an open explanation, by `close_explained`.
pub(crate) fn listen(
    session: Session,
    help: RwSignal<bool>,
    close_explained: impl Fn() -> bool + Copy + 'static,
) {
    window_event_listener(keydown, move |event: KeyboardEvent| {
        let target = event
            .target()
            .and_then(|target| target.dyn_into::<Element>().ok());
        let tag = target.as_ref().map(Element::tag_name).unwrap_or_default();
        let typing = ["INPUT", "SELECT", "TEXTAREA"].contains(&tag.as_str());
        if event.key() == "Escape" && close_explained() {
            return;
        }
        if dialog::is_open()
            || typing
            || event.repeat()
            || event.ctrl_key()
            || event.meta_key()
            || event.alt_key()
        {
            return;
        }
        // Space presses a focused button by itself, unless the button is off. Run keeps the focus while it is off: Space pauses
        // then.
        let off = target.is_some_and(|element| {
            element.get_attribute("aria-disabled").as_deref() == Some("true")
        });
        let presses = tag == "SUMMARY" || (tag == "BUTTON" && !off);
        match event.key().as_str() {
            " " if !presses => {
                event.prevent_default();
                session.run_or_pause();
            }
            "s" | "S" => session.step(),
            "r" | "R" => session.reset(),
            "e" | "E" => session.take_home(),
            "?" => help.set(true),
            _ => {}
        }
    });
}

/// The list of keys.
#[component]
pub(crate) fn Keys(shown: RwSignal<bool>) -> impl IntoView {
    let keys = [
        ("Space", "run, or pause"),
        ("S", "take one step"),
        ("R", "reset (it can be undone)"),
        ("E", "take home: export the head, embeddings, a report .."),
        ("?", "show these keys"),
        ("Esc", "close what is open"),
    ];
    view! {
        <Dialog label="Keyboard" open=shown close=Callback::new(move |()| shown.set(false))>
            <h2>"Keys"</h2>
            <dl class="keys">
                {keys.map(|(key, does)| view! { <div><dt><kbd>{key}</kbd></dt><dd>{does}</dd></div> })}
            </dl>
            <button on:click=move |_| shown.set(false)>"Close"</button>
        </Dialog>
    }
}
