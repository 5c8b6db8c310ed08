//! The menu of the side whose rows are on the map.

use leptos::html::Select;
use leptos::prelude::*;
use nearfar::Side;

use crate::controls::hold;
use crate::session::Session;
use crate::state::{Phase, State};
use crate::words::side_text;

/// The sides in the order of the menu.
const SIDES: [Side; 3] = [Side::Test, Side::Validation, Side::Train];

/// Rows of a side in this run.
pub(super) fn rows(state: State, side: Side) -> usize {
    let curves = state.curves.read();
    let data = &curves.data;
    match side {
        Side::Train => data.train,
        Side::Validation => data.validation,
        Side::Test => data.test,
    }
}

/// The menu. The test side can be chosen once the run is over.
#[component]
pub(super) fn Sides(state: State, session: Session) -> impl IntoView {
    let shown = move || state.map.read().as_ref().and_then(|map| map.side);
    let value = move || shown().map_or("", side_text).to_owned();
    let select = NodeRef::<Select>::new();
    hold(select, value, state);
    let choose = move |event| {
        let name = event_target_value(&event);
        if let Some(side) = SIDES.into_iter().find(|side| side_text(*side) == name) {
            session.show_side(side);
        }
    };
    let options = SIDES.map(|side| {
        let is_over = move || state.phase.get() == Phase::Finished;
        let off = move || rows(state, side) == 0 || (side == Side::Test && !is_over());
        let name = side_text(side);
        view! { <option value=name disabled=off>{format!("{name} rows")}</option> }
    });
    let off = move || {
        let phases = [Phase::Running, Phase::Paused, Phase::Finished];
        !phases.contains(&state.phase.get())
    };
    view! {
        <select
            data-testid="map-side" aria-label="Rows on the map" node_ref=select hidden=move || shown().is_none() disabled=off on:change=choose
            title="Rows that train, rows that validate, or rows that are tested, which nobody sees before the run is over"
        >{options}</select>
    }
}
