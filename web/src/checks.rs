//! Rows to check: rows that are likely mislabelled, by their neighbours, and classes that are taken for one another.

use leptos::prelude::*;
use nearfar::{Confusion, Piece, RowsOf, RowsToCheck, Suspect};

use crate::protocol::Command;
use crate::session::{LISTED, Session};
use crate::state::State;
use crate::words::grouped;

/// The button, and the rows that it found.
#[component]
pub(crate) fn Checks(state: State, session: Session) -> impl IntoView {
    let check = state.to_check;
    let off = move || (!state.can_take_home()).to_string();
    let found = move || {
        let check = check.read();
        check.as_ref().map(|check| found(session, check))
    };
    view! {
        <div class="checks">
            <div class="ask">
                <button data-testid="find-rows-to-check" aria-disabled=off on:click=move |_| session.find_rows_to_check()>"Find rows to check"</button>
                <p class="muted">
                    "Looks at the ten nearest rows of each row on the map. Where eight or more are of one other class, the label may be wrong."
                </p>
            </div>
            <div data-testid="rows-to-check" role="status">{found}</div>
        </div>
    }
}

impl Session {
    /// Asks for the rows to check of the side that the map shows.
    fn find_rows_to_check(&self) {
        if untrack(|| self.state.can_take_home()) {
            let side = self.side_on_map();
            self.send(&Command::FindRowsToCheck { side }, &[]);
        }
    }

    /// Saves all rows to check as a file.
    fn save_rows_to_check(&self) {
        let (piece, side) = (Piece::RowsToCheck, self.side_on_map());
        self.send(&Command::TakeHome { piece, side }, &[]);
    }

    fn side_on_map(&self) -> RowsOf {
        let side = self
            .state
            .map
            .with_untracked(|map| map.as_ref().and_then(|map| map.side));
        side.map_or(RowsOf::default(), RowsOf::from)
    }
}

fn found(session: Session, check: &RowsToCheck) -> impl IntoView + use<> {
    let (rows, suspects) = (grouped(check.rows), check.suspects.len());
    let said = match suspects {
        0 => format!("None of {rows} rows stands out."),
        1 => format!(
            "One of {rows} rows looks like another class: it may be mislabelled, or the classes overlap."
        ),
        more => format!(
            "{} of {rows} rows look like another class: they may be mislabelled, or the classes overlap.",
            grouped(more as u64)
        ),
    };
    let lines = check
        .suspects
        .iter()
        .take(LISTED)
        .map(|suspect| line(session, suspect))
        .collect_view();
    let more = (suspects > LISTED)
        .then(|| format!("The first {LISTED}, the surest first; the file has all."));
    let confused = check.confused.iter().take(5).map(confusion).collect_view();
    let (none, never) = (suspects == 0, check.confused.is_empty());
    view! {
        <p>{said}</p>
        <table hidden=none data-testid="suspects">
            <thead><tr><th title="Counted from 0, as in the files that are saved">"row"</th><th>"label"</th><th>"likely"</th><th>"neighbours"</th></tr></thead>
            <tbody>{lines}</tbody>
        </table>
        <p class="muted" hidden=none>
            {more} " " <button class="quiet" data-testid="save-rows-to-check" on:click=move |_| session.save_rows_to_check()>"Save as CSV"</button>
        </p>
        <table hidden=never data-testid="confused">
            <caption>"Classes taken for another by the nearest row"</caption>
            <tbody>{confused}</tbody>
        </table>
    }
}

/// Table row of a suspect; its button shows it on the map, with its neighbours.
fn line(session: Session, suspect: &Suspect) -> impl IntoView + use<> {
    let row = suspect.row;
    let name = move || session.state.called(row);
    let label = move || format!("Show row {} on the map", name());
    view! {
        <tr>
            <td><button class="link" aria-label=label title=format!("Row {row}") on:click=move |_| session.choose_row(Some(row))>{name}</button></td>
            <td>{suspect.class.clone()}</td>
            <td>{suspect.likely.clone()}</td>
            <td>{format!("{} of {}", suspect.votes, suspect.neighbours)}</td>
        </tr>
    }
}

fn confusion(confusion: &Confusion) -> impl IntoView + use<> {
    let Confusion {
        class,
        taken_for,
        rows,
        of,
    } = confusion.clone();
    view! { <tr><td>{class}" for "{taken_for}</td><td>{format!("{} of {} rows", grouped(rows), grouped(of))}</td></tr> }
}
