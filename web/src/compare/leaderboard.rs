//! The table: best first, each row with how far it is behind the best and whether that is more than chance.

use js_sys::JSON;
use leptos::prelude::*;
use nearfar::{Bytes, CompareReport, CompareRow, Recipe, RowKind, Standing, order};

use crate::knobs;
use crate::session::Session;
use crate::state::{Compare, State};
use crate::take_home::save_text;
use crate::terms::{self, Explained, Term};
use crate::words::grouped;
use wasm_bindgen::JsValue;

/// Width of an interval's picture, and the margin at its ends, in CSS pixels.
const WIDTH: f64 = 130.0;
const EDGE: f64 = 6.0;

/// The leaderboard, once there is one.
#[component]
pub(super) fn Leaderboard(state: State, session: Session) -> impl IntoView {
    let Compare { now, report, .. } = state.compare;
    let rows = move || {
        let report = report.read();
        let report = report.as_ref()?;
        let scale = Scale::of(report);
        let rows = report.rows.iter().enumerate();
        Some(
            rows.map(|(place, row)| line(session, place, row, &scale))
                .collect_view(),
        )
    };
    let verdict = move || {
        match (&*report.read(), now.get()) {
        (None, _) => "One run says little: with other batches it would come out differently. Here each setting is trained several \
                      times, all on the same rows, and the table says which differences are more than chance."
            .to_owned(),
        (Some(_), Some(_)) => "The table fills as runs end. The verdict comes at the end.".to_owned(),
        (Some(report), None) => in_the_words_of_the_page(report),
    }
    };
    let basis = move || {
        let report = report.read();
        let report = report.as_ref()?;
        let parts = std::iter::once(report.basis()).chain(report.cut.iter().cloned());
        Some(parts.collect::<Vec<_>>().join(" \u{b7} "))
    };
    let none = move || report.read().is_none();
    let save = move |_| {
        // The browser indents the JSON: in Rust that takes code for every type in the report.
        let text = report.with_untracked(serde_json::to_string);
        let value = text.ok().and_then(|text| JSON::parse(&text).ok());
        let text = value.and_then(|value| {
            JSON::stringify_with_replacer_and_space(&value, &JsValue::NULL, &2.into()).ok()
        });
        if let Some(text) = text {
            save_text("comparison.json", &String::from(text));
        }
    };
    view! {
        <p class="outcome" data-testid="compare-verdict" aria-live="polite">{verdict}</p>
        <div class="leaderboard" hidden=none>
            <table data-testid="leaderboard">
                <thead>
                    <tr>
                        <th>"entry"</th> <th><Term term=terms::PRECISION_AT_1/></th> <th class="more"><Term term=terms::SPREAD/></th>
                        <th class="picture"><Term term=terms::INTERVAL/></th> <th class="standing"><Term term=terms::BEHIND/></th>
                        <th class="more"><Term term=terms::COMPARED_MAP_AT_R/></th> <th class="more">"seconds"</th> <th class="more">"memory"</th>
                        <th><span class="unseen">"use"</span></th>
                    </tr>
                </thead>
                <tbody>{rows}</tbody>
            </table>
            <p class="muted basis">
                {basis} " " <button class="quiet" data-testid="compare-save" on:click=save>"Save as JSON"</button>
            </p>
        </div>
    }
}

/// The verdict, with the names of the entries as the table has them.
fn in_the_words_of_the_page(report: &CompareReport) -> String {
    let mut names: Vec<&str> = report.rows.iter().map(|row| &row.name[..]).collect();
    // The longest first, as one name may begin another.
    order::sort_by_key(&mut names, |name| std::cmp::Reverse(name.len()));
    names.iter().fold(report.verdict.clone(), |said, name| {
        said.replace(name, &knobs::entry(name))
    })
}

/// Range of scores that the pictures show.
struct Scale {
    best: f64,
    least: f64,
    most: f64,
}

impl Scale {
    fn of(report: &CompareReport) -> Self {
        let best = report
            .leader()
            .and_then(|leader| leader.precision_at_1)
            .unwrap_or(1.0);
        let rows = report.rows.iter();
        let ends = rows.flat_map(|row| {
            let interval = row
                .behind
                .map(|behind| [best - behind.high, best - behind.low]);
            interval.into_iter().flatten().chain(row.precision_at_1)
        });
        let (least, most) = ends.fold((best, best), |(least, most), end| {
            (least.min(end), most.max(end))
        });
        Self {
            best,
            least: least.max(0.0),
            most: most.min(1.0),
        }
    }

    fn x(&self, score: f64) -> f64 {
        let part =
            (score.clamp(self.least, self.most) - self.least) / (self.most - self.least).max(1e-9);
        EDGE + part * (WIDTH - 2.0 * EDGE)
    }
}

fn line(session: Session, place: usize, row: &CompareRow, scale: &Scale) -> impl IntoView + use<> {
    let number = |value: Option<f64>| value.map(|value| format!("{value:.3}"));
    let runs = row.seeds.len();
    let seconds: f64 = row.seeds.iter().map(|seed| seed.elapsed_ms / 1e3).sum();
    let is_head = row.kind == RowKind::Head;
    let behind = match row.behind {
        Some(behind) => format!(
            "{:.3} ({:.3} to {:.3})",
            behind.difference, behind.low, behind.high
        ),
        None => String::new(),
    };
    let note = match (row.standing, &row.error) {
        (_, Some(error)) => Some(error.clone()),
        (Standing::Dropped, _) => Some(format!("after {} steps", row.steps)),
        _ if row.worse_than.is_some() => Some(format!("judged by {} rows", grouped(row.queries))),
        // The recipe's name on the command line.
        _ => Recipe::ALL
            .iter()
            .find(|recipe| recipe.name == row.name)
            .map(|recipe| recipe.name.to_owned()),
    };
    let class = match row.standing {
        Standing::Leader => "leader",
        Standing::Clear => "clear",
        Standing::WithinNoise | Standing::Unjudged => "near",
        Standing::Dropped | Standing::Failed | Standing::Waiting => "out",
    };
    let use_it = is_head.then(|| {
        let row = row.clone();
        let label = format!("Use {}: train it and open it", knobs::entry(&row.name));
        view! { <button data-testid=format!("use-{place}") aria-label=label on:click=move |_| session.use_settings(&row)>"Use"</button> }
    });
    let settings = row.settings.join("\n");
    view! {
        <tr class=class data-entry=row.name.clone()>
            <th scope="row" title=settings>{knobs::entry(&row.name)} {note.map(|note| view! { " " <small>{note}</small> })}</th>
            <td><b>{number(row.precision_at_1)}</b></td>
            <td class="more">{row.standard_deviation.map(|spread| format!("± {spread:.3}"))}</td>
            <td class="picture">{picture(row, scale)}</td>
            <td class="standing"><Explained name=row.standing.words().to_owned() text=meaning(row.standing).to_owned()/> " " <small>{behind}</small></td>
            <td class="more">{number(row.mean_average_precision_at_r)}</td>
            <td class="more">{(runs > 0).then(|| format!("{:.1}", seconds / runs.max(1) as f64))}</td>
            <td class="more">{(runs > 0).then(|| Bytes(row.peak_bytes).rounded_up().to_string())}</td>
            <td>{use_it}</td>
        </tr>
    }
}

/// Explanation of a standing.
fn meaning(standing: Standing) -> &'static str {
    match standing {
        Standing::Leader => "The highest precision@1 on the validation rows.",
        Standing::Clear => {
            "Clearly worse than the best: with other validation rows and other seeds it would be worse, too."
        }
        Standing::WithinNoise => {
            "It may be as good as the best, or better: other validation rows or other seeds could turn them round."
        }
        Standing::Unjudged => {
            "Scored. To tell a difference from chance takes two seeds or more, and two classes."
        }
        Standing::Dropped => {
            "Half of the entries did better after fewer steps: it was not trained to the end."
        }
        Standing::Failed => "It broke off.",
        Standing::Waiting => "It is still to be trained.",
    }
}

/// Picture of a score (dot) and its interval (bar), beside the best score (line across).
fn picture(row: &CompareRow, scale: &Scale) -> impl IntoView + use<> {
    let score = row.precision_at_1?;
    let best = scale.x(scale.best);
    let interval = row.behind.map(|behind| {
        let (low, high) = (
            scale.x(scale.best - behind.high),
            scale.x(scale.best - behind.low),
        );
        view! { <line class="may" x1=low x2=high y1="8" y2="8"/> }
    });
    Some(view! {
        <svg width=WIDTH height="16" aria-hidden="true">
            <line class="best" x1=best x2=best y1="0" y2="16"/>
            {interval}
            <circle cx=scale.x(score) cy="8" r="3.5"/>
        </svg>
    })
}
