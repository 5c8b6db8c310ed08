//! The plots beside the map, in tabs.

use leptos::prelude::*;
use wasm_bindgen::JsCast as _;
use web_sys::{HtmlElement, KeyboardEvent};

use crate::anchor::Anchor;
use crate::checks::Checks;
use crate::evaluation::EvaluateAll;
use crate::gains::Gains;
use crate::plots::{LossPlot, MemoryPlot, MiningPlot, PrecisionPlot};
use crate::session::Session;
use crate::similarities::SimilarityPlot;
use crate::sizes::Sizes;
use crate::state::State;
use crate::threshold::Threshold;

/// The plots, one tab at a time; all of them if the window is wide.
#[component]
pub(crate) fn Diagnostics(state: State, session: Session) -> impl IntoView {
    const TABS: [&str; 6] = ["Learning", "Mining", "Memory", "Scores", "Rows", "Anchor"];
    let open = RwSignal::new(0);
    Effect::new(move || state.anchor.open.set(open.get() == TABS.len() - 1));
    let tab = move |at: usize| {
        let is_open = move || open.get() == at;
        let turn = move |event: KeyboardEvent| {
            let next = match event.key().as_str() {
                "ArrowRight" => (at + 1) % TABS.len(),
                "ArrowLeft" => (at + TABS.len() - 1) % TABS.len(),
                _ => return,
            };
            open.set(next);
            let tab = document().get_element_by_id(&format!("tab-{next}"));
            if let Some(Ok(tab)) = tab.map(|tab| tab.dyn_into::<HtmlElement>()) {
                tab.focus().ok();
            }
        };
        view! {
            <button
                id=format!("tab-{at}") role="tab" aria-controls=format!("panel-{at}")
                aria-selected=move || if is_open() { "true" } else { "false" }
                tabindex=move || if is_open() { "0" } else { "-1" }
                on:click=move |_| open.set(at) on:keydown=turn
            >{TABS[at]}</button>
        }
    };
    let panel = move |at: usize, plots: AnyView| {
        view! {
            <div id=format!("panel-{at}") class="panel" class:off=move || open.get() != at role="tabpanel" aria-labelledby=format!("tab-{at}")>
                {plots}
            </div>
        }
    };
    view! {
        <section class="plots" aria-label="Diagnostics">
            <div class="tabs" role="tablist">{(0..TABS.len()).map(tab).collect_view()}</div>
            {panel(0, view! { <PrecisionPlot state/> <LossPlot state/> }.into_any())}
            {panel(1, view! { <MiningPlot state/> <SimilarityPlot state/> }.into_any())}
            {panel(2, view! { <MemoryPlot state/> }.into_any())}
            {panel(3, view! { <Gains state/> <EvaluateAll state session/> <Threshold state session/> <Sizes state session/> }.into_any())}
            {panel(4, view! { <Checks state session/> }.into_any())}
            {panel(5, view! { <Anchor state session/> }.into_any())}
        </section>
    }
}
