//! The verdict in numbers: the head beside the raw features and the linear map, row by row.

use leptos::prelude::*;
use nearfar::{Compared, Gain};

use crate::state::{Curves, State};
use crate::terms::{self, Term};
use crate::words::{capitalized, grouped};

/// The table, once a run is over; before that a sentence in its place.
#[component]
pub(crate) fn Gains(state: State) -> impl IntoView {
    let table = move || {
        let curves = state.curves.read();
        if curves.compared.is_empty() {
            let later = "Once a run is over, its head stands here beside the raw features and a linear map.";
            return view! { <p class="muted">{later}</p> }.into_any();
        }
        table(&curves).into_any()
    };
    view! { <div class="gains" data-testid="gains">{table}</div> }
}

fn table(curves: &Curves) -> impl IntoView + use<> {
    let head = curves.compared.first().map(|other| {
        let score = |gain: &Gain| format!("{:.3}", gain.other + gain.gain);
        view! { <tr><th scope="row">"This head"</th><td><b>{score(&other.nearest)}</b></td><td><b>{score(&other.groups)}</b></td></tr> }
    });
    let lines = curves.compared.iter().map(line).collect_view();
    let side = curves.latest_side();
    view! {
        <table>
            <caption>
                "On the same " {side} " rows. Where the interval of a gain does not contain 0, the gain is more than chance."
            </caption>
            <thead><tr><th><span class="unseen">"what was scored"</span></th><th><Term term=terms::PRECISION_AT_1/></th><th><Term term=terms::MAP_AT_R/></th></tr></thead>
            <tbody>{head} {lines}</tbody>
        </table>
    }
}

fn line(other: &Compared) -> impl IntoView + use<> {
    let score = |gain: &Gain| format!("{:.3}", gain.other);
    let gain = |gain: &Gain| {
        let interval = format!("{:+.3} to {:+.3}", gain.low, gain.high);
        view! { <td>{format!("{:+.3}", gain.gain)} <small>{interval}</small></td> }
    };
    let rows = format!(
        "Right at the nearest row by the head alone: {} rows; by the {} alone: {}.",
        grouped(other.head_alone),
        other.with.trim_start_matches("a "),
        grouped(other.other_alone)
    );
    view! {
        <tr class="other">
            <th scope="row">{capitalized(&other.with)}</th>
            <td>{score(&other.nearest)}</td>
            <td>{score(&other.groups)}</td>
        </tr>
        <tr>
            <th scope="row">"gain of the head"</th>
            {gain(&other.nearest)}
            {gain(&other.groups)}
        </tr>
        <tr><td colspan="3" class="muted">{rows}</td></tr>
    }
}
