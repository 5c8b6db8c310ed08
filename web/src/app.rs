//! The page: where everything stands. Signals are named in `state.rs`.

use leptos::prelude::*;
use nearfar::{Bytes, Metrics};

use crate::controls::Controls;
use crate::data::{Data, take_drops};
use crate::keys::{self, Keys};
use crate::link::{self, Link};
use crate::map::Map;
use crate::plots::{LossPlot, MemoryPlot, MiningPlot, PrecisionPlot};
use crate::protocol::Command;
use crate::session::Session;
use crate::state::{Curves, Phase, State};
use crate::theme;

/// The whole page.
#[component]
pub(crate) fn App() -> impl IntoView {
    let state = State::new();
    let session = Session::start(state);
    let keys_shown = RwSignal::new(false);
    theme::start(state.theme);
    keys::listen(session, keys_shown);
    window_event_listener(leptos::ev::resize, move |_| state.theme.update(|n| *n += 1));
    follow_link(state, session);
    let (over, drop) = take_drops(session);
    view! {
        <main on:dragover=over on:drop=drop>
            <header>
                <h1>"Nearfar"</h1>
                <p class="tagline">"Metric learning on your own GPU. Nothing you load leaves this machine."</p>
                <Device state/>
                <button class="quiet" on:click=move |_| theme::toggle(state.theme)>"Light / dark"</button>
                <button class="quiet" on:click=move |_| keys_shown.update(|shown| *shown = !*shown)>"Keys"</button>
            </header>
            <Banner state/>
            <aside>
                <Data state session/>
                <Controls state/>
            </aside>
            <section class="run">
                <Buttons state session/>
                <Numbers state/>
            </section>
            <Verdict state/>
            <section class="plots">
                <PrecisionPlot state/>
                <MiningPlot state/>
                <MemoryPlot state/>
                <LossPlot state/>
            </section>
            <Map state/>
            <footer>
                <p data-testid="status" role="status" aria-live="polite">{move || state.status()}</p>
                <Faint state/>
            </footer>
        </main>
        <Keys shown=keys_shown/>
    }
}

/// Opens what the link asks for, and keeps the link in step from then on.
fn follow_link(state: State, session: Session) {
    let (link, problem) = Link::read();
    state.error.set(problem);
    session.send(&Command::Open {
        engine: link.engine,
    });
    let sets = StoredValue::new(link.sets);
    let seed = state.config.get_untracked();
    let seed = sets.with_value(|sets| {
        sets.iter()
            .fold(seed, |config, set| config.with_set(set).unwrap_or(config))
            .seed
    });
    let name = link
        .sample
        .unwrap_or_else(|| nearfar::SAMPLES[0].to_owned());
    session.send(&Command::Sample { name, seed });
    // New data brings its own defaults; the link's settings hold for the first.
    Effect::new(move || {
        let Some(data) = state.data.get() else { return };
        let sets = sets.try_update_value(std::mem::take).unwrap_or_default();
        let before = state.config.get_untracked();
        let kept = [
            format!("seed={}", before.seed),
            format!("budget_bytes={}", before.budget_bytes),
        ];
        let config = kept
            .iter()
            .chain(&sets)
            .try_fold(data.default_config, |config, set| config.with_set(set));
        match config.and_then(|config| config.check().map(|()| config)) {
            Ok(config) => state.config.set(config),
            Err(error) => state.error.set(Some(format!("The link: {error}"))),
        }
    });
    Effect::new(move || {
        if let Some(data) = state.data.get() {
            link::write(
                data.name.strip_prefix("sample:"),
                &state.config.read(),
                &data.default_config,
            );
        }
    });
}

/// What the core runs on.
#[component]
fn Device(state: State) -> impl IntoView {
    let text = move || match state.device.get() {
        None => "..".to_owned(),
        Some(device) if device.engine == "cpu" => {
            "Running on the CPU: same results as on a GPU, slower".to_owned()
        }
        Some(device) => {
            let software = if device.software {
                ", software: right but slow"
            } else {
                ""
            };
            format!(
                "{} ({}{software}; buffers up to {})",
                device.adapter,
                device.backend,
                Bytes(device.max_buffer_bytes)
            )
        }
    };
    view! { <p class="device" data-testid="device">{text}</p> }
}

/// The one place for what went wrong, and for what is likely to.
#[component]
fn Banner(state: State) -> impl IntoView {
    let warnings = move || {
        let warnings = state.curves.read().warnings.clone();
        warnings
            .into_iter()
            .map(|text| view! { <p class="warning">{text}</p> })
            .collect_view()
    };
    view! {
        <div class="banner">
            <p class="error" data-testid="error" role="alert" hidden=move || state.error.read().is_none()>
                <span>{move || state.error.get()}</span>
                <button class="quiet" on:click=move |_| state.error.set(None)>"Dismiss"</button>
            </p>
            <div data-testid="warnings">{warnings}</div>
        </div>
    }
}

#[component]
fn Buttons(state: State, session: Session) -> impl IntoView {
    let phase = state.phase;
    let idle = move || matches!(phase.get(), Phase::Ready | Phase::Finished);
    let blocked = move || phase.get() == Phase::Loading || state.data.read().is_none();
    let run_text = move || {
        if phase.get() == Phase::Paused {
            "Go on"
        } else {
            "Run"
        }
    };
    view! {
        <div class="buttons">
            <button
                class="primary" data-testid="run" on:click=move |_| session.run_or_pause()
                disabled=move || blocked() || !(idle() || phase.get() == Phase::Paused)
            >{run_text}</button>
            <button
                data-testid="pause" on:click=move |_| session.run_or_pause()
                disabled=move || phase.get() != Phase::Running
            >"Pause"</button>
            <button
                data-testid="step" on:click=move |_| session.step()
                disabled=move || blocked() || !(idle() || phase.get() == Phase::Paused)
            >"Step"</button>
            <button
                data-testid="reset" on:click=move |_| session.reset()
                disabled=move || blocked() || (phase.get() == Phase::Ready && state.curves.read().history.is_empty())
            >"Reset"</button>
            <button
                data-testid="without-memory" on:click=move |_| session.without_memory()
                disabled=move || blocked() || !idle() || state.curves.read().history.is_empty()
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
                <dd data-testid="step-count">{move || curves.read().step()}</dd>
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

/// Says what the faint lines are.
#[component]
fn Faint(state: State) -> impl IntoView {
    let text = move || {
        state.previous.read().as_ref().map(|previous| {
            let score = previous
                .latest_precision()
                .map_or_else(String::new, |value| format!(", precision@1 {value:.2}"));
            format!(
                "Faint lines: the run before, memory_size {}{score}",
                previous.config.memory_size
            )
        })
    };
    view! { <p class="muted">{text}</p> }
}
