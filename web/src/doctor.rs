//! The memory doctor: a place for a traceback, and the tensor that it names.

use leptos::prelude::*;
use nearfar::diagnose;

/// Text area for a traceback, or for the lines that set up PML, faiss or torch, and the answer.
#[component]
pub(crate) fn Doctor() -> impl IntoView {
    let text = RwSignal::new(String::new());
    let answer = move || {
        let text = text.read();
        let lines = (!text.trim().is_empty()).then(|| diagnose(&text).lines());
        let line = |(heading, line)| view! { <dt>{heading}</dt><dd>{line}</dd> };
        lines.map(|lines| lines.into_iter().map(line).collect_view())
    };
    view! {
        <details data-testid="doctor">
            <summary>"Out of memory in a script?"</summary>
            <label for="doctor-text">
                "Paste its traceback, or the lines that set up PML, faiss or torch: which tensor it was, and what to change. The text stays here."
            </label>
            <textarea
                id="doctor-text" data-testid="doctor-text" rows="6" spellcheck="false"
                on:input=move |event| text.set(event_target_value(&event))
            ></textarea>
            <dl class="answer" data-testid="doctor-answer" aria-live="polite">{answer}</dl>
        </details>
    }
}
