//! The table of the kept runs, and the settings in which those that are ticked differ.

use leptos::prelude::*;
use nearfar::{Bytes, Metrics, order};

use super::date;
use crate::focus;
use crate::knobs;
use crate::offer::EARLIER;
use crate::protocol::Command;
use crate::session::Session;
use crate::state::{COLORS, KeptRun, Runs, State, View};
use crate::terms::{self, Meaning, Term};
use crate::words::{grouped, shown_name};

/// A number of each run, by which the table can be sorted.
type Number = fn(&KeptRun) -> Option<f64>;

const COLUMNS: [(Meaning, Number); 5] = [
    (terms::PRECISION_AT_1, |run| {
        run.metrics().map(|m| m.precision_at_1)
    }),
    (terms::RAW, |run| baseline(run, Some(run.baseline.raw))),
    (terms::LDA, |run| baseline(run, run.baseline.linear)),
    (terms::MAP_AT_R, |run| {
        run.metrics().map(|m| m.mean_average_precision_at_r)
    }),
    (terms::SECONDS, |run| {
        Some(run.elapsed_ms / 1e3).filter(|seconds| *seconds > 0.0)
    }),
];

/// Precision@1 of a baseline, on the side that the run was scored on.
fn baseline(run: &KeptRun, scores: Option<nearfar::Scores>) -> Option<f64> {
    let scores = scores?;
    let tested = run.scores.is_some_and(|scores| scores.test.is_some());
    let metrics: Option<Metrics> = if tested {
        scores.test
    } else {
        scores.validation
    };
    metrics.map(|metrics| metrics.precision_at_1)
}

/// The kept runs.
#[component]
pub(crate) fn Table(state: State, session: Session) -> impl IntoView {
    let runs = state.runs;
    let Runs { list, why, .. } = runs;
    let sorted = RwSignal::new(None::<usize>);
    let heads = COLUMNS.iter().enumerate().map(|(at, (term, _))| {
        let turn = move |_| sorted.update(|sorted| *sorted = (*sorted != Some(at)).then_some(at));
        let order = move || if sorted.get() == Some(at) { "descending" } else { "none" };
        view! {
            <th aria-sort=order>
                <Term term=*term/>
                <button class="sort" aria-label="Sort by this, the largest first" aria-pressed=move || (sorted.get() == Some(at)).to_string() on:click=turn>"↓"</button>
            </th>
        }
    });
    let rows = move || {
        let mut runs = list.get();
        if let Some(at) = sorted.get() {
            let number = |run: &KeptRun| COLUMNS[at].1(run).unwrap_or(f64::NEG_INFINITY);
            order::sort_by(&mut runs, |a, b| number(b).total_cmp(&number(a)));
        }
        runs.into_iter()
            .map(|run| line(state, session, run))
            .collect_view()
    };
    let none = move || list.read().is_empty();
    let shelf = move || match why.get().filter(|_| none()) {
        Some(why) => format!("Runs are gone when this page is closed: {why}."),
        None => format!("{} in this browser.", runs.taken()),
    };
    view! {
        <section class="board" aria-label="Runs" hidden=move || state.view.get() != View::Runs>
            <p class="outcome" hidden=move || !none()>
                "Runs are kept here, in this browser alone, while its storage has room: settings, curves, scores and head. There is none yet: press Run in the other view."
            </p>
            <p class="muted" hidden=none>
                "Tick up to five runs: all plots show them beside the run on the page, each in a colour. Type over a name to change it."
            </p>
            <p class="muted" data-testid="shelf">
                <span>{shelf}</span>
                {delete_old(runs)}
            </p>
            <Stopped state session/>
            <div class="leaderboard" hidden=none>
                <table class="kept" data-testid="runs">
                    <thead>
                        <tr>
                            <th><span class="unseen">"shown"</span></th> <th>"run"</th> {heads.collect_view()} <th class="more">"memory"</th>
                            <th><span class="unseen">"what to do with it"</span></th>
                        </tr>
                    </thead>
                    <tbody>{rows}</tbody>
                </table>
            </div>
            <Differences state/>
        </section>
    }
}

/// Button that deletes the older half of the runs.
fn delete_old(runs: Runs) -> impl IntoView {
    let sure = RwSignal::new(false);
    let delete = move |_| {
        if sure.get_untracked() {
            let (old, _) = untrack(|| runs.old());
            old.into_iter().for_each(|id| runs.remove(id));
        }
        sure.update(|sure| *sure = !*sure);
    };
    move || {
        let (old, bytes) = runs.old();
        let text = match old.len() {
            0 => return None,
            1 => format!("Delete the oldest ({})", Bytes(bytes as u64)),
            runs => format!("Delete the {runs} oldest ({})", Bytes(bytes as u64)),
        };
        let text = move || {
            if sure.get() {
                "Sure?".to_owned()
            } else {
                text.clone()
            }
        };
        Some(
            view! { <button class="quiet" data-testid="delete-old" on:click=delete on:blur=move |_| sure.set(false)>{text}</button> },
        )
    }
}

/// Line of a run.
fn line(state: State, session: Session, run: KeptRun) -> impl IntoView {
    let runs = state.runs;
    let id = run.id;
    let color = move || runs.ticked.read().iter().position(|other| *other == id);
    let tick = move |_| {
        runs.ticked.update(
            |ticked| match ticked.iter().position(|other| *other == id) {
                Some(at) => drop(ticked.remove(at)),
                None if ticked.len() < COLORS.len() => ticked.push(id),
                None => {}
            },
        );
        // A run too many stays unticked.
        runs.ticked.notify();
    };
    let dot = move || color().map(|at| format!("var(--{})", COLORS[at]));
    let numbers = COLUMNS.iter().enumerate().map(|(at, (_, number))| {
        let text = number(&run).map(|value| match at {
            4 => format!("{value:.1}"),
            _ => format!("{value:.3}"),
        });
        view! { <td class:more={at > 2}>{text}</td> }
    });
    let numbers = numbers.collect_view();
    let about = about(runs, &run);
    let rename = move |event| {
        let name = event_target_value(&event).trim().to_owned();
        runs.change(id, |run| run.name = name);
    };
    let (settings, name) = (run.settings(), run.name.clone());
    let label = labels(&run);
    view! {
        <tr data-testid="run-row">
            <td>
                <label class="tick">
                    <input type="checkbox" aria-label=label("Show in all plots") prop:checked=move || color().is_some() on:change=tick/>
                    <i class="dot" style=("--line", dot) hidden=move || color().is_none()></i>
                </label>
            </td>
            <th scope="row">
                <input type="text" class="bare" aria-label=label("Name") placeholder=settings.clone() title=settings prop:value=name on:change=rename/>
                <small>{about}</small>
            </th>
            {numbers}
            <td class="more">{Bytes(run.peak_bytes).rounded_up().to_string()}</td>
            <td>{doings(runs, session, run)}</td>
        </tr>
    }
}

/// Data and time of a run, and if it was stopped or is not kept.
fn about(runs: Runs, run: &KeptRun) -> String {
    let stopped = match run.scores {
        Some(_) => String::new(),
        None => format!(", stopped at step {} of {}", run.step(), run.config.steps),
    };
    let unkept = match runs.unkept.with(|unkept| unkept.contains(&run.id)) {
        true => ", not kept",
        false => "",
    };
    let (name, date) = (shown_name(&run.data.name), date(run.id));
    format!("{name}, {date}{stopped}{unkept}")
}

/// Labels of the controls of a run, for screen readers.
fn labels(run: &KeptRun) -> impl Fn(&str) -> String + use<> {
    let title = run.title();
    move |what| format!("{what}: {title}")
}

/// Buttons of what can be done with a run.
fn doings(runs: Runs, session: Session, run: KeptRun) -> impl IntoView {
    let (id, label) = (run.id, labels(&run));
    let open_text = if run.scores.is_some() {
        "Open"
    } else {
        "Go on"
    };
    let pin_text = if run.pinned { "Unpin" } else { "Pin" };
    let pin = move |_| {
        runs.change(id, |run| run.pinned = !run.pinned);
        // The run's line moves, and loses the focus.
        request_animation_frame(move || {
            focus::on(&format!("[data-pin='{id}']"));
        });
    };
    let sure = RwSignal::new(false);
    let remove = move |_| match sure.get_untracked() {
        true => runs.remove(id),
        false => sure.set(true),
    };
    let used = run.clone();
    view! {
        <span class="doings">
            <button data-testid="open-run" aria-label=label(open_text) on:click=move |_| session.reopen(&run)>{open_text}</button>
            <button data-testid="use-run" aria-label=label("Use the settings of") on:click=move |_| session.use_run(&used)>"Use"</button>
            <button class="quiet" data-pin=id.to_string() aria-label=label(pin_text) on:click=pin>{pin_text}</button>
            <button class="quiet" data-testid="delete-run" aria-label=label("Delete") on:click=remove on:blur=move |_| sure.set(false)>
                {move || if sure.get() { "Sure?" } else { "Delete" }}
            </button>
        </span>
    }
}

/// Saved runs that were stopped before their end, as their tab was closed.
#[component]
fn Stopped(state: State, session: Session) -> impl IntoView {
    let lines = move || {
        let lines = state.stopped.get().into_iter().map(|offer| {
            let run = offer.run;
            let (step, steps) = (grouped(offer.step), grouped(offer.config.steps));
            let name = shown_name(&offer.origin.data);
            let began = match run {
                EARLIER => String::new(),
                run => format!(", {}", date(run as f64)),
            };
            let text = format!("{name}{began}, saved at step {step} of {steps}");
            let forget = move |_| session.send(&Command::Forget(run), &[]);
            view! {
                <li data-testid="stopped-run">
                    <span>{text}</span>
                    <button on:click=move |_| session.go_on_with(&offer)>"Go on"</button>
                    <button class="quiet" on:click=forget>"Forget it"</button>
                </li>
            }
        });
        lines.collect_view()
    };
    view! {
        <div hidden=move || state.stopped.read().is_empty()>
            <h2>"Stopped on the way"</h2>
            <p class="muted">"The page was closed before these runs ended. The last five are kept."</p>
            <ul class="stopped">{lines}</ul>
        </div>
    }
}

/// Table of the settings in which the ticked runs differ.
#[component]
fn Differences(state: State) -> impl IntoView {
    let Runs { list, ticked, .. } = state.runs;
    let chosen = Memo::new(move |_| {
        let (list, ticked) = (list.read(), ticked.read());
        let runs = ticked
            .iter()
            .filter_map(|id| list.iter().find(|run| run.id == *id));
        runs.cloned().collect::<Vec<_>>()
    });
    let table = move || {
        let runs = chosen.get();
        if runs.len() < 2 {
            return None;
        }
        let settings: Vec<Vec<(String, String)>> =
            runs.iter().map(|run| run.config.settings()).collect();
        let mut keys: Vec<&String> = settings.iter().flatten().map(|(key, _)| key).collect();
        let mut seen = std::collections::HashSet::new();
        keys.retain(|key| seen.insert(*key));
        let value = |of: &[(String, String)], key: &String| {
            of.iter()
                .find(|(other, _)| other == key)
                .map(|(_, value)| knobs::value(key, value).to_owned())
        };
        let lines = keys.into_iter().filter_map(|key| {
            let values: Vec<Option<String>> = settings.iter().map(|of| value(of, key)).collect();
            let differs = values.iter().any(|other| *other != values[0]);
            let cells = values.into_iter().map(|value| view! { <td>{value.unwrap_or_else(|| "–".to_owned())}</td> });
            differs.then(|| view! { <tr><th scope="row">{knobs::label(key).to_owned()}</th>{cells.collect_view()}</tr> })
        });
        let lines: Vec<_> = lines.collect();
        let same = lines.is_empty();
        let heads = runs.iter().zip(COLORS).map(|(run, color)| {
            view! { <th><i class="dot" style=("--line", format!("var(--{color})"))></i> {run.title()}</th> }
        });
        Some(view! {
            <div class="leaderboard" tabindex="0" role="region" aria-label="What differs">
                <h2>"What differs"</h2>
                <p class="muted" hidden=!same>"Nothing: these runs have the same settings."</p>
                <table data-testid="run-differences" hidden=same>
                    <thead><tr><th>"setting"</th> {heads.collect_view()}</tr></thead>
                    <tbody>{lines}</tbody>
                </table>
            </div>
        })
    };
    view! { {table} }
}
