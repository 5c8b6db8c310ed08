//! The memory doctor: a place for a traceback, and the tensor that it names.

use std::time::Duration;

use leptos::prelude::*;

use crate::protocol::Command;
use crate::session::Session;
use crate::state::State;

/// Time without a key after which a text is read.
const PAUSE: Duration = Duration::from_millis(250);

/// Text area for a traceback, or for the lines that set up PML, faiss or torch, and the answer.
#[component]
pub(crate) fn Doctor(state: State, session: Session) -> impl IntoView {
    let mut read = debounce(PAUSE, move |text: String| match text.trim().is_empty() {
        true => state.diagnosed.set(Vec::new()),
        false => session.send(&Command::Diagnose(text), &[]),
    });
    let line = |(heading, line)| view! { <dt>{heading}</dt><dd>{line}</dd> };
    let answer = move || {
        let lines = state.diagnosed.get();
        lines.into_iter().map(line).collect_view()
    };
    view! {
        <details data-testid="doctor">
            <summary>"Out of memory in a script?"</summary>
            <label for="doctor-text">
                "Paste its traceback, or the lines that set up PML, faiss or torch: which tensor it was, and what to change. The text stays here."
            </label>
            <textarea
                id="doctor-text" data-testid="doctor-text" rows="6" spellcheck="false"
                on:input=move |event| read(event_target_value(&event))
            ></textarea>
            <dl class="answer" data-testid="doctor-answer" aria-live="polite">{answer}</dl>
        </details>
    }
}
