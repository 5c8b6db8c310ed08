//! The page: where everything stands. Signals are named in `state.rs`.

use leptos::prelude::*;
use nearfar::Metrics;

use crate::controls::Controls;
use crate::data::{Data, take_drops};
use crate::device::Device;
use crate::evaluation::EvaluateAll;
use crate::forecast::RunForecast;
use crate::hardest::Hardest;
use crate::keys::{self, Keys};
use crate::link::Link;
use crate::map::Map;
use crate::neighbours::Neighbours;
use crate::plots::{LossPlot, MemoryPlot, MiningPlot, PrecisionPlot};
use crate::session::Session;
use crate::similarities::SimilarityPlot;
use crate::state::{Curves, Phase, Problem, State};
use crate::theme;

/// The whole page.
#[component]
pub(crate) fn App() -> impl IntoView {
    let state = State::new();
    let session = Session::new(state);
    let keys_shown = RwSignal::new(false);
    theme::start(state.theme);
    keys::listen(session, keys_shown);
    // A canvas sees its own size; the size of a pixel changes with the window's.
    window_event_listener(leptos::ev::resize, move |_| state.theme.update(|n| *n += 1));
    follow_link(state, session);
    Effect::new(move || session.ask_forecast());
    let (over, drop) = take_drops(session);
    let status = Memo::new(move |_| state.status());
    view! {
        <main on:dragover=over on:drop=drop>
            <header>
                <h1>"Nearfar"</h1>
                <p class="tagline">"Metric learning on your own GPU. Nothing you load leaves this machine."</p>
                <Device state/>
                <button class="quiet" on:click=move |_| theme::toggle(state.theme)>"Light / dark"</button>
                <button class="quiet" on:click=move |_| keys_shown.update(|shown| *shown = !*shown)>"Keys"</button>
            </header>
            <aside>
                <Data state session/>
                <Controls state/>
            </aside>
            <section class="run">
                <Buttons state session/>
                <Numbers state/>
            </section>
            <section class="word">
                <Verdict state/>
                <RunForecast state/>
                <EvaluateAll state session/>
                <Banner state/>
            </section>
            <section class="plots">
                <PrecisionPlot state/>
                <MiningPlot state/>
                <SimilarityPlot state/>
                <LossPlot state/>
                <MemoryPlot state/>
                <Hardest state/>
            </section>
            <section class="map">
                <Map state session/>
                <Neighbours state session/>
            </section>
            <footer>
                <p data-testid="status" role="status" aria-live="polite">{status}</p>
                <Faint state/>
            </footer>
        </main>
        <Keys shown=keys_shown/>
    }
}

/// Opens what the link asks for, then and whenever it is edited, and keeps it in step with the settings.
fn follow_link(state: State, session: Session) {
    let link = Link::read();
    session.engine.set_value(link.engine);
    if let Some(bytes) = link.stream_from {
        session.stream_from.set_value(bytes);
    }
    session.follow(link);
    window_event_listener(leptos::ev::hashchange, move |_| {
        if untrack(|| state.has_run()) {
            state.error.set(None);
            state.say("The link was changed, but a run is under way: press Reset, then open the link again.".to_owned());
            untrack(|| session.write_link());
        } else {
            session.follow(Link::read());
        }
    });
    Effect::new(move || session.write_link());
}

/// The one place for what went wrong, and for what is likely to. It takes its room from the plots: no control moves.
#[component]
fn Banner(state: State) -> impl IntoView {
    let texts = Memo::new(move |_| state.curves.read().warnings.clone());
    let warnings = move || {
        let texts = texts.get().into_iter();
        texts
            .map(|text| view! { <p class="warning">{text}</p> })
            .collect_view()
    };
    let problem = move || state.error.get().map(|Problem { text, .. }| text);
    view! {
        <div class="banner">
            <p class="error" data-testid="error" role="alert" hidden=move || state.error.read().is_none()>
                <span>{problem}</span>
                <button class="quiet" on:click=move |_| state.error.set(None)>"Dismiss"</button>
            </p>
            <div data-testid="warnings" role="status">{warnings}</div>
        </div>
    }
}

/// The buttons. One that does nothing says so and keeps the focus; the session lets it do nothing.
#[component]
fn Buttons(state: State, session: Session) -> impl IntoView {
    let run_text = move || match state.stage.get() {
        Phase::Paused => "Go on",
        _ => "Run",
    };
    let off = |can: bool| if can { "false" } else { "true" };
    view! {
        <div class="buttons">
            <button
                class="primary" data-testid="run" on:click=move |_| session.run()
                aria-disabled=move || off(state.can_run())
            >{run_text}</button>
            <button
                data-testid="pause" on:click=move |_| session.pause()
                aria-disabled=move || off(state.can_pause())
            >"Pause"</button>
            <button
                data-testid="step" on:click=move |_| session.step()
                aria-disabled=move || off(state.can_step())
            >"Step"</button>
            <button
                data-testid="reset" on:click=move |_| session.reset()
                aria-disabled=move || off(state.can_reset())
            >"Reset"</button>
            <button
                data-testid="without-memory" on:click=move |_| session.without_memory()
                aria-disabled=move || off(state.can_drop_memory())
            >"Run again without memory"</button>
        </div>
    }
}

/// The numbers that matter most.
#[component]
fn Numbers(state: State) -> impl IntoView {
    let score =
        |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| format!("{value:.2}"));
    let curves = state.curves;
    let baseline = move |of: fn(&Curves) -> Option<Metrics>| {
        score(of(&curves.read()).map(|m| m.precision_at_1))
    };
    let of = move || match curves.read().step() {
        0 => String::new(),
        _ => format!("of {}", curves.read().config.steps),
    };
    view! {
        <dl class="numbers">
            <div class="headline">
                <dt>"precision@1" {move || curves.read().latest_side()}</dt>
                <dd data-testid="precision-at-1">{move || score(curves.read().latest_precision())}</dd>
            </div>
            <div>
                <dt>"raw features"</dt>
                <dd data-testid="baseline-precision-at-1">{move || baseline(Curves::latest_raw)}</dd>
            </div>
            <div>
                <dt title="Pooled Ledoit-Wolf LDA, fitted to the training rows in closed form, with no more outputs than the head">"linear map (LDA)"</dt>
                <dd data-testid="baseline-linear-precision-at-1">{move || baseline(Curves::latest_linear)}</dd>
            </div>
            <div>
                <dt>"step"</dt>
                <dd><span data-testid="step-count">{move || curves.read().step()}</span> <small>{of}</small></dd>
            </div>
        </dl>
    }
}

/// What came of it, in a sentence.
#[component]
fn Verdict(state: State) -> impl IntoView {
    let text = move || {
        match (&state.curves.read().verdict, state.has_run()) {
        (Some(verdict), _) => verdict.clone(),
        (None, true) => "The test side is scored once, at the end.".to_owned(),
        (None, false) => "Press Run: a small network learns to place rows of a class side by side, and you see what \
                          cross-batch memory buys."
            .to_owned(),
    }
    };
    view! {
        <p class="verdict" data-testid="verdict" class:told=move || state.curves.read().verdict.is_some()>{text}</p>
    }
}

/// Says what the faint lines are: how the settings of that run differ from those of this one.
#[component]
fn Faint(state: State) -> impl IntoView {
    let text = Memo::new(move |_| {
        let previous = state.previous.read();
        let previous = previous.as_ref()?;
        let score = previous
            .latest_precision()
            .map_or_else(String::new, |value| format!(", precision@1 {value:.2}"));
        let differences = previous.config.differences(&state.curves.read().config);
        let settings: Vec<String> = match differences.len() {
            0 => vec!["the same settings".to_owned()],
            _ => differences
                .into_iter()
                .map(|(key, value)| format!("{key} {value}"))
                .collect(),
        };
        Some(format!(
            "Faint lines: the run before, {}{score}",
            settings.join(", ")
        ))
    });
    view! { <p class="muted faint" title=text>{text}</p> }
}
