//! Names of rows, as the worker gave them, and cells and pictures of the chosen row.

use std::collections::BTreeMap;

use leptos::prelude::*;
use nearfar::Pictures;

use super::State;
use crate::protocol::{Cells, DataSummary};

/// Names of rows.
#[derive(Clone, Copy, Default)]
pub(crate) struct Names {
    /// The column that names the rows.
    pub(crate) by: RwSignal<Option<String>>,
    /// The names that were asked for, by row.
    known: RwSignal<BTreeMap<u32, String>>,
    /// The row whose cells came last.
    pub(crate) cells: RwSignal<Option<Cells>>,
    /// Pictures of the chosen row and its neighbours, if rows are pictures, with the numbers of these rows.
    pub(crate) pictures: RwSignal<Option<(Vec<u32>, Pictures)>>,
    /// The name that is looked for.
    pub(crate) sought: RwSignal<String>,
}

impl Names {
    /// Forgets the names of other data, or by another column.
    pub(crate) fn begin(&self, by: Option<String>) {
        self.known.update(BTreeMap::clear);
        self.cells.set(None);
        self.by.set(by);
    }

    pub(super) fn of_data(&self, data: &DataSummary) {
        self.begin(data.named_by.clone());
    }

    pub(super) fn take(&self, names: Vec<(u32, String)>, cells: Option<Cells>) {
        self.known.update(|known| known.extend(names));
        if cells.is_some() {
            self.cells.set(cells);
        }
    }

    /// Those of these rows whose names are not known yet.
    pub(crate) fn unknown(&self, mut rows: Vec<u32>) -> Vec<u32> {
        rows.retain(|row| !self.known.read_untracked().contains_key(row));
        rows
    }
}

impl State {
    /// The name of a row, if it has one and it is known.
    pub(crate) fn name(&self, row: u32) -> Option<String> {
        let known = self.names.known.read();
        known.get(&row).filter(|name| !name.is_empty()).cloned()
    }

    /// The name of a row, or else its number.
    pub(crate) fn called(&self, row: u32) -> String {
        self.name(row).unwrap_or_else(|| row.to_string())
    }
}
