//! The answer of a run: three bars for the head, the linear map and the raw features, the verdict beside them, and all else behind
//! *Why*; before there is a run, the question that it answers, and data to see it on.

use leptos::prelude::*;
use nearfar::{Compared, Gain, Metrics, TrainConfig};
use wasm_bindgen::JsCast as _;
use web_sys::HtmlElement;

use crate::session::Session;
use crate::state::{Curves, FEWER, State};
use crate::terms::{self, Term};
use crate::words::grouped;

/// Data to see it on: a sample, and its text.
const ANSWERS: [(&str, &str); 3] = [
    ("digits", "handwritten digits"),
    ("cells", "cells"),
    ("mirrored", "measurements"),
];

/// Standard errors beyond which two runs differ clearly in precision@1.
const CLEAR: f64 = 2.5;

/// Steps taken, of those of the run.
#[component]
pub(crate) fn Step(state: State) -> impl IntoView {
    let curves = state.curves;
    let of = move || match curves.read().step() {
        0 => String::new(),
        _ => {
            let curves = curves.read();
            let best = curves.best.iter().map(|best| format!(", {best}"));
            format!("of {}{}", curves.config.steps, best.collect::<String>())
        }
    };
    view! {
        <p class="step muted">
            <Term term=terms::STEP/> " "
            <b data-testid="step-count">{move || curves.read().step()}</b> " " {of}
        </p>
    }
}

/// The question, or the bars and the verdict.
#[component]
pub(crate) fn Answer(state: State, session: Session) -> impl IntoView {
    let said = Memo::new(move |_| Said::of(state));
    let (headline, sentence) = (move || said.get().headline, move || said.get().sentence);
    let is_new = Memo::new(move |_| state.curves.read().history.is_empty() && !state.has_run());
    let why = move || said.get().why;
    let kind = move || format!("verdict {}", said.read().kind);
    view! {
        <div class=kind>
            <Bars state hidden=is_new/>
            <div class="said">
                <p data-testid="verdict" aria-live="polite"><b>{headline}</b>" "{sentence}</p>
                <Question state session is_new/>
                <details class="why" hidden=move || said.read().why.is_empty()>
                    <summary>"Why"</summary>
                    <p data-testid="why">{why}</p>
                </details>
            </div>
            <progress aria-label="Scoring the test rows" hidden=move || !state.is_scoring() value=move || state.part.get().map(|part| part.to_string())></progress>
            <p class="muted working"><span data-testid="working">{state.working}</span>" "
                <button class="link" data-testid="score-fewer" hidden=move || !state.can_score_fewer() on:click=move |_| session.score_fewer()>
                    {format!("Score {} rows only", grouped(FEWER as u64))}
                </button>
                <button class="link" data-testid="stop-reading" hidden=move || !state.is_reading() on:click=move |_| session.stop_reading()>"Stop reading"</button>
            </p>
        </div>
    }
}

/// Buttons of data to see it on.
#[component]
fn Question(state: State, session: Session, is_new: Memo<bool>) -> impl IntoView {
    let sample = Memo::new(move |_| {
        let data = state.data.read();
        let name = data.as_ref().map(|data| data.name.clone());
        name.unwrap_or_default()
    });
    let is = move |name: &str| match sample.read().strip_prefix("sample:") {
        Some(sample) => sample == name,
        None => name.is_empty() && !sample.read().is_empty(),
    };
    let open = move |_| {
        let input = document().query_selector(".file input").ok().flatten();
        if let Some(input) = input.and_then(|input| input.dyn_into::<HtmlElement>().ok()) {
            input.click();
        }
    };
    let shown = state.lesson.with_value(|lesson| lesson.shows("data"));
    view! {
        <p class="see" hidden=move || !is_new.get() || !shown>
            "See it on "
            {ANSWERS.map(|(name, text)| view! {
                <button data-testid=format!("see-{name}") aria-pressed=move || is(name).to_string()
                    on:click=move |_| session.choose_sample(name.to_owned())>{text}</button>
            })}
            <button data-testid="see-file" aria-pressed=move || is("").to_string() on:click=open>"your file"</button>
            <a data-testid="tour" href="?tour">"Take the tour"</a>
        </p>
    }
}

/// Scores of the head, the linear map and the raw features on the same rows, as bars.
#[component]
fn Bars(state: State, hidden: Memo<bool>) -> impl IntoView {
    let curves = state.curves;
    // All scores are of one side; it is the baselines' while the head is not scored yet.
    let side = move || {
        let curves = curves.read();
        match (curves.latest_side(), curves.baseline_side()) {
            ("", "") => "not scored yet".to_owned(),
            ("", side) | (side, _) => format!("{side} rows"),
        }
    };
    let cell = move |of: fn(&Curves) -> Option<Metrics>, groups: bool, id: &'static str| {
        let value = Memo::new(move |_| {
            let score = |it: Metrics| match groups {
                true => it.mean_average_precision_at_r,
                false => it.precision_at_1,
            };
            of(&curves.read()).map(score)
        });
        let text = move || {
            value
                .get()
                .map_or_else(|| "–".to_owned(), |value| format!("{value:.2}"))
        };
        let width = move || format!("{:.1}%", 100.0 * value.get().unwrap_or(0.0));
        view! { <td><i style=("--part", width)></i><span data-testid=id>{text}</span></td> }
    };
    view! {
        <table class="numbers" hidden=hidden>
            <thead><tr>
                <th class="muted" data-testid="scored-on">{side}</th>
                <th><Term term=terms::PRECISION_AT_1/></th>
                <th><Term term=terms::MAP_AT_R/></th>
            </tr></thead>
            <tbody>
                <tr class="head"><th>"this head"</th>{cell(Curves::latest, false, "precision-at-1")}{cell(Curves::latest, true, "map-at-r")}</tr>
                <tr><th><Term term=terms::LDA/></th>{cell(Curves::latest_linear, false, "baseline-linear-precision-at-1")}{cell(Curves::latest_linear, true, "baseline-linear-map-at-r")}</tr>
                <tr><th><Term term=terms::RAW/></th>{cell(Curves::latest_raw, false, "baseline-precision-at-1")}{cell(Curves::latest_raw, true, "baseline-map-at-r")}</tr>
            </tbody>
        </table>
    }
}

/// The words beside the bars.
#[derive(Clone, Debug, Default, PartialEq)]
struct Said {
    headline: String,
    sentence: String,
    /// The verdict whole; empty before there is one.
    why: String,
    /// Class of its colour.
    kind: &'static str,
}

impl Said {
    fn of(state: State) -> Self {
        let curves = state.curves.read();
        if let Some(verdict) = &curves.verdict {
            return Self::of_verdict(&curves, verdict, state.previous.read().as_ref());
        }
        let (headline, sentence) = match state.has_run() {
            true if state.is_scoring() => {
                ("", "Now the rows that were kept until the end are scored, once: by the head, and by what it is compared with.".to_owned())
            }
            true if curves.data.test > 0 => {
                let rows = grouped(curves.data.test as u64);
                ("", format!("The verdict comes at the end, on {rows} rows that were never trained on."))
            }
            true => ("", "The verdict comes at the end, on rows that were never trained on.".to_owned()),
            false if state.is_imagined() => {
                ("", "Change the sizes or any setting, and see what a run would take. Choose data to run.".to_owned())
            }
            false => (
                "Is it worth training on your rows?",
                "Press Run. At its end you see how often the nearest row is of the same class: by a small trained network, by a linear \
                 map, and by the features alone."
                    .to_owned(),
            ),
        };
        Self {
            headline: headline.to_owned(),
            sentence,
            ..Self::default()
        }
    }

    /// A verdict: its advice is the headline, or what the memory brought if the run before differs by that alone.
    fn of_verdict(curves: &Curves, verdict: &str, before: Option<&Curves>) -> Self {
        let advice = verdict.split(" On ").next().unwrap_or_default();
        let (headline, rest) = advice.split_once(". ").unwrap_or((advice, ""));
        // A button below the map applies the settings that are named.
        let rest = match rest.split_once(" (") {
            Some((rest, _)) => rest.to_owned() + ".",
            None => rest.to_owned(),
        };
        let kind = match headline {
            text if text.starts_with("Do not ship") => "told bad",
            text if ["No ", "Too few", "Nothing", "Already"]
                .iter()
                .any(|start| text.starts_with(start)) =>
            {
                "told flat"
            }
            _ => "told",
        };
        let headline = headline.trim_end_matches('.').to_owned() + ".";
        let why = verdict.to_owned();
        if let Some([brought, how]) = before.and_then(|before| memory_brought(curves, before)) {
            return Self {
                headline: brought,
                sentence: format!("{how} Of this head: {headline}"),
                why,
                kind: "told",
            };
        }
        Self {
            headline,
            sentence: [rest, plain(curves)].join(" "),
            why,
            kind,
        }
    }
}

/// The scores in plain sentences: those of whole groups first if they alone tell the head from everything simpler.
fn plain(curves: &Curves) -> String {
    let Some(raw) = curves.compared.first() else {
        return String::new();
    };
    let clear = |gain: &Gain| gain.low > 0.0 || gain.high < 0.0;
    let ahead = |of: fn(&Compared) -> &Gain| curves.compared.iter().all(|it| of(it).low > 0.0);
    let linear = curves.compared.get(1);
    let nearest = clear(&raw.nearest).then(|| {
        let linear = linear.map_or_else(String::new, |linear| {
            format!(", by a linear map for {:.0}", 100.0 * linear.nearest.other)
        });
        format!(
            "Of 100 rows it never saw, the nearest row is of the same class for {:.0}; by the raw features for {:.0}{linear}.",
            100.0 * (raw.nearest.other + raw.nearest.gain),
            100.0 * raw.nearest.other,
        )
    });
    let groups = clear(&raw.groups).then(|| {
        let closer = if raw.groups.gain > 0.0 {
            "closer"
        } else {
            "less close"
        };
        let [not, linear] = linear.map_or_else(Default::default, |linear| {
            let not = match linear.groups.low > 0.0 || raw.groups.gain < 0.0 {
                true => "",
                false => " than by the raw features, but not than by a linear map",
            };
            [not.to_owned(), format!(", by a linear map {:.2}", linear.groups.other)]
        });
        format!(
            "With it rows of one class lie {closer} together{not}: MAP@R {:.2}, by the raw features {:.2}{linear}.",
            raw.groups.other + raw.groups.gain,
            raw.groups.other,
        )
    });
    match (nearest, groups) {
        (Some(nearest), Some(groups)) if ahead(|it| &it.groups) && !ahead(|it| &it.nearest) => {
            format!("{groups} {nearest}")
        }
        (Some(nearest), _) => nearest,
        (None, Some(groups)) => {
            format!("For rows it never saw, the nearest row is right as often without it. {groups}")
        }
        (None, None) => "Rows it never saw tell no difference from the raw features.".to_owned(),
    }
}

/// The gain of the memory in precision@1 and its meaning, if two runs differ by the memory alone.
fn memory_brought(now: &Curves, before: &Curves) -> Option<[String; 2]> {
    before.verdict.as_ref()?;
    let rows = [now, before].map(|curves| curves.config.memory());
    let same = TrainConfig {
        memory_size: now.config.memory_size,
        ..before.config.clone()
    };
    let is_pair = rows.contains(&0) && rows != [0, 0] && same == now.config;
    let [now, before] = [now.latest()?, before.latest()?];
    let (without, with) = match rows[0] {
        0 => (now, before),
        _ => (before, now),
    };
    let [a, b] = [without, with].map(|it| it.precision_at_1);
    let error = ((a * (1.0 - a) + b * (1.0 - b)) / with.queries.max(1) as f64).sqrt();
    let headline = match b - a {
        gain if gain > CLEAR * error => format!("Memory brought {a:.2} → {b:.2}."),
        gain if gain < -CLEAR * error => format!("Memory cost {a:.2} → {b:.2}."),
        _ => format!("Memory changed nothing clear: {a:.2} → {b:.2}."),
    };
    let of_100 = |part: f64| (100.0 * part).round();
    let how = format!(
        "Without a memory the nearest row is right for {} of 100 rows, with {} remembered rows for {}.",
        of_100(a),
        grouped(rows[0].max(rows[1]) as u64),
        of_100(b)
    );
    is_pair.then_some([headline, how])
}
