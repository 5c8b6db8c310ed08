//! Layout of the page. Its signals are named in `state/mod.rs`.

use leptos::prelude::*;
use nearfar::{Cure, Marks, Missing};

use crate::answer::{Answer, Step};
use crate::checkpoints::{self, GoOn};
use crate::compare::Board;
use crate::controls::Controls;
use crate::data::{Data, take_drops};
use crate::device::Device;
use crate::diagnostics::Diagnostics;
use crate::dialog::Dialog;
use crate::focus;
use crate::forecast::RunForecast;
use crate::keys::{self, Keys};
use crate::knobs;
use crate::link;
use crate::map::Map;
use crate::neighbours::Neighbours;
use crate::pictures::Pictures;
use crate::runs::{self, Table, Unkept};
use crate::session::Session;
use crate::state::{KeptRun, Phase, Problem, State, View};
use crate::take_home::Pieces;
use crate::terms;
use crate::theme;
use crate::words::{capitalized, grouped, time};

/// The whole page.
#[component]
pub(crate) fn App() -> impl IntoView {
    let state = State::new();
    let session = Session::new(state);
    let keys_shown = RwSignal::new(false);
    begin(state, session, keys_shown);
    let status = Memo::new(move |_| state.status());
    let pace = Memo::new(move |_| pace(state));
    // A button, not a link to a fragment: the settings stand in the page's fragment.
    let skip = move || match state.view.get() {
        View::Run => "Skip to Run",
        View::Compare => "Skip to Compare",
        View::Runs => "Skip to the runs",
    };
    view! {
        <main class:aside-view=move || state.view.get() != View::Run>
            <header>
                <button class="skip" data-testid="skip" on:click=move |_| focus::first()>{skip}</button>
                <h1>"Nearfar"</h1>
                <Views state/>
                <p class="tagline">"Teach a small network which rows belong together. Your data stays on this computer."</p>
                <Device state/>
                <theme::Switch changed=state.theme/>
                <button class="quiet show-keys" on:click=move |_| keys_shown.set(true)>"Keys"</button>
            </header>
            <section class="run">
                <Buttons state session/>
                <Step state/>
            </section>
            <section class="word">
                <Answer state session/>
                <RunForecast state/>
                <Banner state session/>
            </section>
            <aside>
                <Data state session/>
                <Controls state/>
            </aside>
            <section class="map">
                <Map state session/>
                <Neighbours state session/>
            </section>
            <Warnings state/>
            <Diagnostics state session/>
            <Board state session/>
            <Table state session/>
            <footer>
                <p data-testid="status" role="status" aria-live="polite">{status}</p>
                <span data-testid="pace">{pace}</span>
                <Faint state/>
                <a href="LICENSES.txt" rel="license" target="_blank">"Licences"</a>
            </footer>
        </main>
        <Keys shown=keys_shown/>
        <Question state session/>
        <Pieces state session/>
        <Pictures state/>
    }
}

/// Begins what goes on as long as the page: it follows its keys, its link, its window, and what is dropped on it.
fn begin(state: State, session: Session, keys_shown: RwSignal<bool>) {
    theme::start(state.theme);
    let close_explained = terms::provide();
    focus::keep();
    keys::listen(session, keys_shown, close_explained);
    window_event_listener(leptos::ev::beforeunload, move |event| {
        // The browser then asks before it leaves the page, which would end the run.
        if untrack(|| state.is_busy()) {
            event.prevent_default();
        }
    });
    // A canvas observes its own size; the number of device pixels per CSS pixel changes with the window's.
    window_event_listener(leptos::ev::resize, move |_| state.theme.update(|n| *n += 1));
    follow_link(state, session);
    Effect::new(move || session.ask_forecast());
    take_drops(session);
    checkpoints::save_when_hidden(state, session);
    runs::start(session);
}

/// Speed of the run and the time that it will take, while it goes on.
fn pace(state: State) -> Option<String> {
    if state.phase.get() != Phase::Running {
        return None;
    }
    let (steps, left) = state.curves.read().pace()?;
    let left = left.map(|ms| format!(", {} left", time(ms)));
    Some(per_second(steps) + &left.unwrap_or_default())
}

/// Steps per second as text: two decimals below 1, one below 10, whole numbers below 100, whole tens from there on.
fn per_second(steps: f64) -> String {
    match steps {
        _ if steps < 0.995 => format!("{steps:.2} steps/s"),
        _ if steps < 9.95 => format!("{steps:.1} steps/s"),
        _ if steps < 99.5 => format!("{steps:.0} steps/s"),
        _ => format!("{} steps/s", grouped((steps / 10.0).round() as u64 * 10)),
    }
}

/// Buttons that choose the view.
#[component]
fn Views(state: State) -> impl IntoView {
    let lesson = state.lesson.get_value();
    let (compare, runs) = (lesson.shows("compare"), lesson.shows("runs"));
    let choice = move |text: &'static str, id: &'static str, view: View| {
        view! {
            <button
                data-testid=id aria-pressed=move || (state.view.get() == view).to_string()
                on:click=move |_| state.view.set(view)
            >{text}</button>
        }
    };
    view! {
        <nav class="either" aria-label="View" hidden=!compare && !runs>
            {choice("One run", "view-run", View::Run)}
            {compare.then(|| choice("Compare", "view-compare", View::Compare))}
            {runs.then(|| choice("Runs", "view-runs", View::Runs))}
        </nav>
    }
}

/// Opens the data and the settings of the link, at first and whenever it is edited, and keeps it in step with the settings.
fn follow_link(state: State, session: Session) {
    let mut link = link::read();
    session.engine.set_value(link.engine);
    if let Some(bytes) = link.stream_from {
        session.stream_from.set_value(bytes);
    }
    let problems = state.lesson.with_value(|lesson| lesson.problems.clone());
    link.problems.extend(problems);
    session.follow(link);
    window_event_listener(leptos::ev::hashchange, move |_| {
        if untrack(|| state.is_busy()) {
            state.error.set(None);
            state.say("The new link was not opened, because a run is under way: press Reset, then open it again.".to_owned());
            untrack(|| session.write_link());
        } else {
            session.follow(link::read());
        }
    });
    Effect::new(move || session.write_link());
}

/// Choice that makes a refused file readable.
#[derive(Clone, Copy)]
enum Mend {
    /// Treatment of cells without a number.
    Missing(Missing),
    /// Decimal and thousands marks in its numbers.
    Marks(Marks),
}

/// Ways to read a file that was refused for cells that can be read in several, or for rows without a label: name, text and choice.
fn ways(cure: Cure) -> Vec<(&'static str, String, Mend)> {
    match cure {
        Cure::Nothing => Vec::new(),
        Cure::Marks => {
            let (decimal, thousands) = (None, Some(','));
            let parted = Mend::Marks(Marks { decimal, thousands });
            let (decimal, thousands) = (Some(','), None);
            let fraction = Mend::Marks(Marks { decimal, thousands });
            vec![
                (
                    "thousands",
                    "The comma stands between thousands".to_owned(),
                    parted,
                ),
                ("decimal", "It is a decimal comma".to_owned(), fraction),
            ]
        }
        Cure::Missing | Cure::DropRows => {
            let ways = Missing::ALL.into_iter().skip(1);
            let ways = ways.filter(|way| cure == Cure::Missing || way.1 == Missing::DropRows);
            ways.map(|(name, missing, what)| (name, capitalized(what), Mend::Missing(missing)))
                .collect()
        }
    }
}

/// Buttons of the ways to read a refused file, which stand beside the error.
fn mends(state: State, session: Session) -> impl IntoView {
    move || {
        let ways = ways(state.label.read().cure)
            .into_iter()
            .map(|(name, text, mend)| {
                let read = move |_| match mend {
                    Mend::Missing(missing) => session.choose_missing(missing),
                    Mend::Marks(marks) => session.choose_marks(marks),
                };
                view! { <button data-testid=format!("mend-{name}") on:click=read>{text}</button> }
            });
        view! { <span class="ways">{ways.collect_view()}</span> }
    }
}

/// Errors, notices and the undo of a reset. They follow an action of the person, and take their room from the plots.
#[component]
fn Banner(state: State, session: Session) -> impl IntoView {
    let notice = move || {
        state.notice.get().map(|text| {
            view! {
                <p class="notice">
                    <span data-testid="notice">{text}</span>
                    <button class="quiet" on:click=move |_| state.notice.set(None)>"Dismiss"</button>
                </p>
            }
        })
    };
    // Changes only as undo becomes possible or impossible, not with the state to undo.
    let undoable = Memo::new(move |_| state.aside.read().is_some());
    let undo = move || {
        undoable.get().then(|| {
            view! {
                <p class="notice">
                    <span>"Reset: the results are cleared."</span>
                    <button data-testid="undo" on:click=move |_| session.undo()>"Undo"</button>
                </p>
            }
        })
    };
    let use_cpu = move |event: leptos::ev::MouseEvent| {
        event.prevent_default();
        // The fragment of the link, with the settings, stays.
        window().location().set_search("?engine=cpu").ok();
    };
    let problem = move || state.error.get().map(|Problem { text, .. }| text);
    view! {
        <div class="banner">
            <p class="error" data-testid="error" role="alert" hidden=move || state.error.read().is_none()>
                <span>{problem}</span>
                {mends(state, session)}
                <a href="?engine=cpu" data-testid="go-to-cpu" hidden=move || !state.no_gpu.get() on:click=use_cpu>"Use the CPU"</a>
                <button class="quiet" on:click=move |_| state.error.set(None)>"Dismiss"</button>
            </p>
            <p class="error" data-testid="no-engine" role="alert" hidden=move || state.no_engine.read().is_none()>
                <span>"Nothing can run: the link asks for a GPU (engine=gpu), and this browser offers none."</span>
                <a href="?engine=cpu" data-testid="use-cpu" on:click=use_cpu>"Use the CPU"</a>
            </p>
            <div role="status">{undo} {notice} <Unkept state session/> <GoOn state session/></div>
        </div>
    }
}

/// Warnings of the run. They come unasked, in a run or at its end, and stand below the map, which does not move for them.
#[component]
fn Warnings(state: State) -> impl IntoView {
    let warnings = Memo::new(move |_| state.curves.read().warnings.clone());
    let lines = move || {
        let warnings = warnings.get().into_iter();
        warnings
            .map(|warning| view! { <WarningLine state warning/> })
            .collect_view()
    };
    view! { <div class="warnings" data-testid="warnings" role="status">{lines}</div> }
}

/// A warning, with a button that applies the settings that mend it.
#[component]
fn WarningLine(state: State, warning: nearfar::Warning) -> impl IntoView {
    let nearfar::Warning { text, sets, button } = warning;
    let sets = StoredValue::new(sets);
    let mended = move || sets.with_value(|sets| state.config.read().with_sets(sets));
    let holds = Memo::new(move |_| mended().0 == *state.config.read());
    let mend = move |_| {
        let (config, problems) = untrack(mended);
        match problems.first() {
            Some(problem) => state.say_of_setting(problem.to_string()),
            None => state.config.set(config),
        }
    };
    let action = (!button.is_empty()).then(|| {
        view! {
            <button hidden=move || holds.get() on:click=mend>{button}</button>
            <span class="muted" hidden=move || !holds.get()>"Set for the next run."</span>
        }
    });
    view! { <p class="warning"><span>{text}</span> {action}</p> }
}

/// Dialog that asks before opening other data ends a run or a comparison.
#[component]
fn Question(state: State, session: Session) -> impl IntoView {
    let open = Memo::new(move |_| state.question.read().is_some());
    let name = move || state.question.get().unwrap_or_default();
    let compares = move || state.compare.now.read().is_some();
    let going = move || match state.stage.get() {
        _ if compares() => "A comparison is going.",
        Phase::Paused => "A run is paused.",
        Phase::Finished => "The run is done.",
        _ => "A run is going.",
    };
    let then = move || match compares() {
        true => " It ends when other data is opened, and its table goes.",
        false => " It ends when other data is opened, and is kept under Runs.",
    };
    let open_text = move || match compares() {
        true => format!("Stop, open {}", name()),
        false => format!("Stop, keep its result, open {}", name()),
    };
    let keep = move || match state.stage.get() {
        _ if compares() => "Keep comparing",
        Phase::Paused | Phase::Finished => "Keep it",
        _ => "Keep running",
    };
    view! {
        <Dialog label="Open other data?" open close=Callback::new(move |()| session.answer(false))>
            <p data-testid="question"><b>{going}</b>{then}</p>
            <div class="buttons">
                <button class="primary" data-testid="keep" on:click=move |_| session.answer(false)>{keep}</button>
                <button data-testid="open" on:click=move |_| session.answer(true)>
                    {open_text}
                </button>
            </div>
        </Dialog>
    }
}

/// Buttons of the run. A button that is off says so (`aria-disabled`) and keeps the focus; the session ignores its clicks.
#[component]
fn Buttons(state: State, session: Session) -> impl IntoView {
    let run_text = move || match state.stage.get() {
        Phase::Paused => "Go on",
        _ => "Run",
    };
    let step_title = move || match state.stage.get() {
        Phase::Finished => "Takes the first step of a new run (S)",
        _ => "Takes a single step (S)",
    };
    let off = |can: bool| if can { "false" } else { "true" };
    view! {
        <div class="buttons">
            <button
                class="primary" title="Trains with the settings on the left (Space)" data-testid="run" on:click=move |_| session.run()
                aria-disabled=move || off(state.can_run())
            >{run_text}</button>
            <button
                title="Lets the run wait (Space)" data-testid="pause" on:click=move |_| session.pause()
                aria-disabled=move || off(state.can_pause())
            >"Pause"</button>
            <button
                title=step_title data-testid="step" on:click=move |_| session.step()
                aria-disabled=move || off(state.can_step())
            >"Step"</button>
            <button
                title="Ends the run and clears its plots; it can be undone (R)" data-testid="reset" on:click=move |_| session.reset()
                aria-disabled=move || off(state.can_reset())
            >"Reset"</button>
            <button
                title="The same run without cross-batch memory: what the memory brings is the difference" data-testid="without-memory" on:click=move |_| session.without_memory()
                aria-disabled=move || off(state.can_drop_memory())
            >"Run without memory"</button>
            <button
                title="Export the head, embeddings, a report, code to use them" data-testid="take-home" hidden=!state.lesson.with_value(|lesson| lesson.shows("take-home"))
                on:click=move |_| session.take_home()
                aria-disabled=move || off(state.can_take_home())
            >"Take home"</button>
        </div>
    }
}

/// Legend of the faint lines: how the settings of the previous run differ from those of this run.
#[component]
fn Faint(state: State) -> impl IntoView {
    let text = Memo::new(move |_| {
        let previous = state.previous.read();
        let previous = previous.as_ref()?;
        let score = previous
            .latest_precision()
            .map_or_else(String::new, |value| format!(", precision@1 {value:.2}"));
        let curves = state.curves.read();
        // Before this run has steps, the next run's settings are compared.
        let other = if curves.history.is_empty() {
            state.config.get()
        } else {
            curves.config.clone()
        };
        let differences = previous.config.differences(&other).into_iter();
        let settings: Vec<String> = differences
            .map(|(key, value)| knobs::said(&key, &value))
            .collect();
        let settings = match &settings[..] {
            [] => "the same settings".to_owned(),
            settings => settings.join(", "),
        };
        Some(format!("Faint lines: the run before, {settings}{score}"))
    });
    // The legend of ticked runs takes its place.
    let legend = Memo::new(move |_| state.runs.beside(KeptRun::title));
    let beside = move || {
        let keys = legend.get().into_iter();
        let key = |(color, name)| view! { <span class="key"><i style=("--line", format!("var(--{color})"))></i>{name}</span> };
        keys.map(key).collect_view()
    };
    view! {
        <p class="muted faint" title=text hidden=move || !legend.read().is_empty()>{text}</p>
        <p class="muted beside" data-testid="beside">{beside}</p>
    }
}
