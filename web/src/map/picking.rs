//! Rows that a person picks on the map with a box or a lasso: their number by class, and a file that lists them.

use leptos::prelude::*;
use nearfar::order;

use super::apart;
use crate::protocol::Command;
use crate::session::Session;
use crate::state::{MapData, State};
use crate::words::grouped;

/// Most classes that are counted by name; the others are counted together.
const NAMED: usize = 3;
/// Fewest points of an outline that can have rows in it.
const FEWEST: usize = 3;

/// Action of dragging the pointer over the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tool {
    Move,
    Box,
    Lasso,
}

/// The tools, with their value and their text in the menu.
const TOOLS: [(Tool, &str, &str); 3] = [
    (Tool::Move, "move", "Move"),
    (Tool::Box, "box", "Pick a box"),
    (Tool::Lasso, "lasso", "Pick freely"),
];

/// The tool, the path of a drag that picks rows, and the rows that were picked.
#[derive(Clone, Copy)]
pub(super) struct Picking {
    tool: RwSignal<Tool>,
    /// Path of the pointer, in CSS pixels of the canvas.
    path: RwSignal<Vec<(f64, f64)>>,
    /// Numbers of the picked rows in the data, ascending.
    rows: RwSignal<Vec<u32>>,
}

impl Picking {
    pub(super) fn new() -> Self {
        Self {
            tool: RwSignal::new(Tool::Move),
            path: RwSignal::new(Vec::new()),
            rows: RwSignal::new(Vec::new()),
        }
    }

    pub(super) fn track(&self) {
        self.path.track();
        self.rows.track();
    }

    pub(super) fn clear(&self) {
        self.let_go();
        self.rows.set(Vec::new());
    }

    /// Tells if a drag picks rows.
    pub(super) fn picks(&self) -> bool {
        self.tool.get() != Tool::Move
    }

    /// Begins a path, unless a drag moves the map.
    pub(super) fn press(&self, at: (f64, f64)) {
        if self.tool.get_untracked() != Tool::Move {
            self.path.set(vec![at]);
        }
    }

    /// Drops the path, as the pointer is gone or only clicked.
    pub(super) fn let_go(&self) {
        if !self.path.read_untracked().is_empty() {
            self.path.set(Vec::new());
        }
    }

    /// Extends the path that was begun; tells if there is one.
    pub(super) fn follow(&self, at: (f64, f64)) -> bool {
        let picks = !self.path.read_untracked().is_empty();
        if picks {
            self.path.update(|path| path.push(at));
        }
        picks
    }

    /// Tells if the pointer has been farther than `far` from where it went down.
    pub(super) fn went_beyond(&self, far: f64) -> bool {
        let path = self.path.read_untracked();
        path.iter().any(|at| apart(*at, path[0]) > far)
    }

    /// Ends the path, and picks those of these rows whose position lies within it.
    pub(super) fn release(&self, points: impl Iterator<Item = (u32, (f64, f64))>) {
        let outline = self.outline();
        self.let_go();
        if outline.len() >= FEWEST {
            let inside = points.filter(|(_, point)| is_within(&outline, *point));
            self.rows.set(inside.map(|(row, _)| row).collect());
        }
    }

    /// The line around the area that is being picked.
    pub(super) fn outline(&self) -> Vec<(f64, f64)> {
        let path = self.path.get_untracked();
        match (&path[..], self.tool.get_untracked()) {
            ([first, .., last], Tool::Box) => {
                vec![*first, (last.0, first.1), *last, (first.0, last.1)]
            }
            _ => path,
        }
    }

    /// Tells for each row of the map if it is picked; empty if no row is.
    pub(super) fn picked(&self, map: &MapData) -> Vec<bool> {
        let picked = self.rows.read_untracked();
        if picked.is_empty() {
            return Vec::new();
        }
        let rows = map.places.rows.iter();
        rows.map(|row| picked.binary_search(row).is_ok()).collect()
    }
}

/// Tells if a point lies within a closed line: a ray from there crosses it an odd number of times.
fn is_within(outline: &[(f64, f64)], (x, y): (f64, f64)) -> bool {
    let next = outline.iter().cycle().skip(1);
    let crossed = outline.iter().zip(next).filter(|(from, to)| {
        (from.1 > y) != (to.1 > y) && {
            let along = (y - from.1) / (to.1 - from.1);
            x < from.0 + along * (to.0 - from.0)
        }
    });
    crossed.count() % 2 == 1
}

/// Menu of the tools.
#[component]
pub(super) fn Tools(picking: Picking) -> impl IntoView {
    let choose = move |event: web_sys::Event| {
        let value = event_target_value(&event);
        let tool = TOOLS.iter().find(|(_, name, _)| *name == value);
        picking.tool.set(tool.map_or(Tool::Move, |tool| tool.0));
    };
    let option = |(_, name, text): (Tool, &'static str, &'static str)| view! { <option value=name>{text}</option> };
    view! {
        <select data-testid="map-tool" aria-label="What dragging over the map does" on:change=choose>
            {TOOLS.map(option).collect_view()}
        </select>
    }
}

/// Number and classes of the picked rows, with buttons to save and to clear them.
#[component]
pub(super) fn Picked(state: State, session: Session, picking: Picking) -> impl IntoView {
    let text = move || {
        let rows = picking.rows.read();
        let map = state.map.read();
        (!rows.is_empty()).then(|| map.as_ref().map(|map| words(map, &rows)))
    };
    let save = move |_| {
        let rows = picking.rows.get_untracked();
        session.send(&Command::ListRows { rows }, &[]);
    };
    view! {
        <div class="picked" hidden=move || picking.rows.read().is_empty()>
            <span role="status" data-testid="picked">{text}</span>
            <button data-testid="picked-save" title="Their numbers in the data, counted from 0, and their classes" on:click=save>"Save as CSV"</button>
            <button class="quiet" data-testid="picked-clear" on:click=move |_| picking.clear()>"Clear"</button>
        </div>
    }
}

/// Number of rows in words, and of each class among them, the most frequent first.
fn words(map: &MapData, rows: &[u32]) -> String {
    let mut counts = vec![0u64; map.names.len()];
    let mut others = 0;
    let places = rows.iter().filter_map(|row| map.places.of(*row));
    for place in places {
        let class = usize::from(map.places.classes[place]);
        *counts.get_mut(class).unwrap_or(&mut others) += 1;
    }
    let mut found: Vec<_> = map.names.iter().zip(counts).collect();
    found.retain(|(_, count)| *count > 0);
    order::sort_by_key(&mut found, |(_, count)| std::cmp::Reverse(*count));
    others += found
        .iter()
        .skip(NAMED)
        .map(|(_, count)| count)
        .sum::<u64>();
    let named = found.iter().take(NAMED);
    let mut parts: Vec<_> = named
        .map(|(name, count)| format!("{} of class {name}", grouped(*count)))
        .collect();
    if others > 0 {
        parts.push(format!("{} of other classes", grouped(others)));
    }
    let rows = match rows.len() {
        1 => "1 row".to_owned(),
        many => format!("{} rows", grouped(many as u64)),
    };
    format!("{rows}: {}", parts.join(", "))
}
