//! The neighbours of a row, which is chosen by a click on the map or by its number: the ten rows nearest to it.

use leptos::prelude::*;
use nearfar::{Neighbour, Neighbourhood, Side};

use crate::map::Picture;
use crate::session::Session;
use crate::state::State;
use crate::terms::{self, Term};
use crate::words::side_text;

/// The drawer over the map.
#[component]
pub(crate) fn Neighbours(state: State, session: Session) -> impl IntoView {
    let none = move || state.neighbours.read().is_none();
    let nearest = move || {
        let found = state.neighbours.read();
        let nearest = found.as_ref().map_or(&[][..], |found| &found.neighbours);
        let lines = nearest.iter().enumerate();
        lines
            .map(|(i, neighbour)| line(state, i, neighbour))
            .collect_view()
    };
    view! {
        <section
            class="neighbours" data-testid="neighbours" aria-label="Nearest neighbours"
            hidden=move || state.map.read().as_ref().is_none_or(|map| map.side.is_none())
        >
            <Row state session/>
            <Cells state/>
            <table hidden=none>
                <thead>
                    <tr>
                        <th><span class="unseen">"place"</span></th> <th>"row"</th> <th>"class"</th>
                        <th><span class="unseen">"right or wrong"</span></th> <th><Term term=terms::SIMILARITY/></th>
                    </tr>
                </thead>
                <tbody>{nearest}</tbody>
            </table>
        </section>
    }
}

/// Input of the chosen row's number; up and down go from row to row of the map.
#[component]
fn Row(state: State, session: Session) -> impl IntoView {
    // Rows are counted from 0, as in the files that are saved.
    let number = move || {
        let row = state.chosen.get();
        row.map_or_else(String::new, |row| row.to_string())
    };
    let enter = move |event: web_sys::Event| {
        session.find_row(&event_target_value(&event));
        // Shows the chosen row's number again: there may be no row of the entered one.
        state.chosen.notify();
    };
    let press = move |event: web_sys::KeyboardEvent| {
        let up = match event.key().as_str() {
            "ArrowUp" => true,
            "ArrowDown" => false,
            _ => return,
        };
        event.prevent_default();
        session.go_to_next_row(up);
    };
    // Names are looked for as well.
    let is_named = move || state.names.by.read().is_some();
    let kind = move || if is_named() { "search" } else { "number" };
    let hint = move || if is_named() { "name or number" } else { "" };
    let name = move || state.chosen.get().and_then(|row| state.name(row));
    let said = move || match (state.chosen.get(), &*state.neighbours.read()) {
        (None, _) => {
            "Click a point, or enter a row's number: its closest rows are listed.".to_owned()
        }
        (Some(_), None) => "..".to_owned(),
        (Some(_), Some(found)) => off_the_map(state, found) + &summary(found),
    };
    view! {
        <div class="row">
            <label>
                "Row"
                <input
                    data-testid="neighbour-row" type=kind min="0" placeholder=hint prop:value=number on:change=enter on:keydown=press
                    title="Rows are counted from 0, as in the files that are saved. The arrow keys go from row to row of the map"
                />
            </label>
            {move || {
                state.names.pictures.track();
                state.chosen.get().map(|row| view! { <Picture state row/> })
            }}
            <b data-testid="row-name">{name}</b>
            <p role="status">{said}</p>
            <button
                class="quiet" hidden=move || state.chosen.get().is_none() on:click=move |_| session.choose_row(None)
            >"Clear"</button>
        </div>
    }
}

/// Cells of the chosen row in its own columns.
#[component]
fn Cells(state: State) -> impl IntoView {
    let lines = move || {
        let cells = state.names.cells.read();
        let own = cells
            .as_ref()
            .filter(|(row, _)| state.chosen.get() == Some(*row));
        let cells = own.map_or(&[][..], |(_, cells)| cells);
        let line = |(column, cell): &(String, String)| view! { <div><dt>{column.clone()}</dt><dd>{cell.clone()}</dd></div> };
        cells.iter().map(line).collect_view()
    };
    view! { <dl class="cells" data-testid="row-cells">{lines}</dl> }
}

/// Tells that the chosen row is not drawn; empty if it is.
fn off_the_map(state: State, found: &Neighbourhood) -> String {
    let map = state.map.read();
    let shown = map
        .as_ref()
        .filter(|map| map.places.of(found.row).is_none());
    let own = side_text(found.side);
    match shown.and_then(|map| map.side) {
        None => String::new(),
        Some(side) if side == found.side => {
            format!("A {own} row, not among those that are drawn on the map. ")
        }
        Some(side) => format!(
            "A {own} row, not on the map, which shows {} rows. ",
            side_text(side)
        ),
    }
}

/// Result of a search in a sentence.
fn summary(found: &Neighbourhood) -> String {
    let side = side_text(found.side);
    let nearest = found.neighbours.len();
    if nearest == 0 {
        return format!("It is the only {side} row: there is no other to compare it with.");
    }
    let right = found.neighbours.iter().filter(|near| near.right).count();
    let trained = match found.side {
        Side::Train => ". The head was trained with these labels: a wrong one looks right here",
        Side::Validation | Side::Test => "",
    };
    format!(
        "Class {}: {right} of the {nearest} closest {side} rows are of it, at step {}{trained}",
        found.class, found.step
    )
}

/// A name that goes on in the next line after a mark, as `_`, where it is too long for one: within a word only if that is.
fn parted(name: &str) -> impl IntoView + use<> {
    let parts = name.split_inclusive(['_', '-', '.', '/', '|', ',']);
    let part = |part: &str| view! { {part.to_owned()} <wbr/> };
    parts.map(part).collect_view()
}

/// A neighbour in the table, with the mark that it has on the map.
fn line(state: State, i: usize, neighbour: &Neighbour) -> impl IntoView + use<> {
    let (row, word) = (
        neighbour.row,
        if neighbour.right { "right" } else { "wrong" },
    );
    view! {
        <tr class=word>
            <td>{i + 1}</td>
            <td title=format!("Row {row}")><Picture state row/>{move || state.called(row)}</td>
            <td title=neighbour.class.clone()>{parted(&neighbour.class)}</td>
            <td title=word><i class="mark"></i><span class="unseen">{word}</span></td>
            <td>{format!("{:.3}", neighbour.similarity)}</td>
        </tr>
    }
}
