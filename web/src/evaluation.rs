//! Full evaluation, which scores every row of a side: the button, the forecast, the progress, and a table of all metrics.

use leptos::prelude::*;
use nearfar::{Bytes, FullEvaluation};

use crate::session::Session;
use crate::state::{Phase, State};
use crate::terms::{self, Meaning, Term};
use crate::words::{grouped, side_text, time};

/// Panel of the full evaluation, shown once a run has begun. Training scores a part of the validation side again and again; this
/// scores all of it, or all of the test side once the run is over.
#[component]
pub(crate) fn EvaluateAll(state: State, session: Session) -> impl IntoView {
    let busy = move || state.phase.get() == Phase::Evaluating;
    let text = move || match busy() {
        true => "Stop scoring",
        false => "Score every row",
    };
    let off = move || (!busy() && !state.can_evaluate_all()).to_string();
    let table = move || state.evaluation.read().as_ref().map(table);
    let none = move || state.can_evaluate.read().is_none() && state.evaluation.read().is_none();
    view! {
        <p class="muted later" hidden=move || !none()>
            "Once a run has begun, every row of its side can be scored here, each against all others."
        </p>
        <div class="evaluation" hidden=none>
            <div class="ask">
                <button
                    data-testid="evaluate-all" aria-disabled=off on:click=move |_| session.evaluate_all()
                >{text}</button>
                <p class="muted" data-testid="evaluate-all-forecast">{move || said(state)}</p>
                <Progress state/>
            </div>
            <div data-testid="evaluation" role="status">{table}</div>
        </div>
    }
}

/// Progress bar: queries done.
#[component]
fn Progress(state: State) -> impl IntoView {
    let (done, queries) = (
        move || state.evaluating.get().map_or(0, |part| part.done),
        move || state.evaluating.get().map_or(1, |part| part.total),
    );
    view! {
        <progress
            aria-label="Rows scored" hidden=move || state.evaluating.read().is_none()
            max=move || queries().to_string() prop:value=move || done() as f64
        ></progress>
    }
}

/// Forecast of the full evaluation in words, or its progress.
fn said(state: State) -> String {
    if let Some(part) = state.evaluating.get() {
        let (done, total) = (grouped(part.done), grouped(part.total));
        return format!("{done} of {total} rows scored{}", part.left());
    }
    let forecast = state.can_evaluate.read();
    forecast.as_ref().map_or_else(String::new, |forecast| {
        format!(
            "Each of the {} {} rows looks for its class among the others: {}, within {} that the run holds already",
            grouped(forecast.queries),
            side_text(forecast.side),
            time(forecast.predicted_ms),
            Bytes(forecast.bytes)
        )
    })
}

/// A metric's name.
enum Name {
    Plain(String),
    Term(Meaning),
}

/// Table of all metrics, a line each; those that are a part of the queries come with their standard error.
fn table(evaluation: &FullEvaluation) -> impl IntoView + use<> {
    let metrics = &evaluation.metrics;
    let part = |p: f64| {
        let error = (p * (1.0 - p) / metrics.queries as f64).sqrt();
        (format!("{p:.3}"), Some(format!("± {error:.3}")))
    };
    let plain = |value: f64| (format!("{value:.3}"), None);
    let mut lines_of = vec![
        (
            Name::Term(terms::PRECISION_AT_1),
            part(metrics.precision_at_1),
        ),
        (Name::Term(terms::R_PRECISION), plain(metrics.r_precision)),
        (
            Name::Term(terms::MAP_AT_R),
            plain(metrics.mean_average_precision_at_r),
        ),
        (
            Name::Term(terms::MAP),
            plain(metrics.mean_average_precision),
        ),
        (Name::Term(terms::MRR), plain(metrics.mean_reciprocal_rank)),
    ];
    let recalls = evaluation.recall_at.iter();
    lines_of.extend(recalls.map(|(k, recall)| {
        let name = match k {
            2 => Name::Term(terms::RECALL),
            _ => Name::Plain(format!("recall@{k}")),
        };
        (name, part(*recall))
    }));
    let lines = lines_of.into_iter().map(|(name, (value, error))| {
        let name = match name {
            Name::Plain(name) => name.into_any(),
            Name::Term(term) => view! { <Term term/> }.into_any(),
        };
        view! { <tr><th scope="row">{name}</th><td><b>{value}</b> " " <small>{error}</small></td></tr> }
    });
    let lines = lines.collect_view();
    view! {
        <table>
            <caption>
                {caption(evaluation)} {lone(evaluation)} " ± is the " <Term term=terms::STANDARD_ERROR/> "."
            </caption>
            <tbody>{lines}</tbody>
        </table>
    }
}

/// Caption of the table: rows, side and step.
fn caption(evaluation: &FullEvaluation) -> String {
    format!(
        "{} {} rows at step {}, each compared with all others.",
        grouped(evaluation.metrics.queries),
        side_text(evaluation.side),
        evaluation.step
    )
}

/// Number of lone queries, which were left out; nothing if there are none.
fn lone(evaluation: &FullEvaluation) -> impl IntoView + use<> {
    let lone = evaluation.metrics.lone_queries;
    (lone > 0).then(|| view! { " Left out: " {grouped(lone)} " " <Term term=terms::LONE/> "." })
}
