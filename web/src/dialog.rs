//! [`Dialog`]: a question or a list over the page. It takes the focus, keeps it, and gives it back; Escape closes it.

use leptos::html;
use leptos::prelude::*;

/// A modal dialog, shown while `open` is true.
#[component]
pub(crate) fn Dialog(
    /// Accessible name of the dialog.
    label: &'static str,
    #[prop(into)] open: Signal<bool>,
    /// Called when the dialog closes, as by Escape.
    #[prop(into)]
    close: Callback<()>,
    children: Children,
) -> impl IntoView {
    let dialog = NodeRef::<html::Dialog>::new();
    Effect::new(move || {
        let open = open.get();
        let Some(dialog) = dialog.get() else { return };
        match (open, dialog.open()) {
            (true, false) => drop(dialog.show_modal()),
            (false, true) => dialog.close(),
            _ => {}
        }
    });
    view! { <dialog node_ref=dialog aria-label=label on:close=move |_| close.run(())>{children()}</dialog> }
}

/// Tells if a dialog is open: the page's keys do nothing then.
pub(crate) fn is_open() -> bool {
    document()
        .query_selector("dialog[open]")
        .is_ok_and(|open| open.is_some())
}
