//! The keyboard: Space runs or pauses, S steps, R resets, E opens *Take home*, 1 to 6 choose a tab, ? shows the keys.

use leptos::ev::keydown;
use leptos::prelude::*;
use wasm_bindgen::JsCast as _;
use web_sys::{Element, HtmlElement, KeyboardEvent};

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
            tab @ ("1" | "2" | "3" | "4" | "5" | "6") => show_tab(tab),
            _ => {}
        }
    });
}

/// Shows the tab of this number beside the map.
fn show_tab(number: &str) {
    let id = format!("tab-{}", number.as_bytes()[0] - b'1');
    let tab = document().get_element_by_id(&id);
    if let Some(tab) = tab.and_then(|tab| tab.dyn_into::<HtmlElement>().ok()) {
        tab.click();
    }
}

/// The list of keys.
#[component]
pub(crate) fn Keys(shown: RwSignal<bool>) -> impl IntoView {
    let keys = [
        ("Space", "run, or pause"),
        ("S", "take one step"),
        ("R", "reset (it can be undone)"),
        ("E", "take home: export the head, embeddings, a report .."),
        (
            "1 to 6",
            "show Learning, Mining, Memory, Scores, Rows, Anchor",
        ),
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
