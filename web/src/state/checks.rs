//! Rows to check: what was found, and what a person says of each.

use std::collections::BTreeMap;

use leptos::prelude::*;
use nearfar::{Pictures, RowsToCheck, Suspect};

/// The signals of the rows to check.
#[derive(Clone, Copy, Default)]
pub(crate) struct Checks {
    /// The rows to check that were found last.
    pub(crate) found: RwSignal<Option<RowsToCheck>>,
    /// Pictures of those that are listed, in their order, if rows are pictures.
    pub(crate) pictures: RwSignal<Option<Pictures>>,
    /// Every row is being checked.
    pub(crate) going: RwSignal<bool>,
    /// What a person said of a row: `true` if it gets its likely label.
    pub(crate) decided: RwSignal<BTreeMap<u32, bool>>,
}

impl Checks {
    /// Takes in what was found; nothing if the search was stopped, and what was found before stays.
    pub(crate) fn take(&self, found: Option<RowsToCheck>, pictures: Option<Pictures>) {
        self.going.set(false);
        if found.is_some() {
            self.pictures.set(pictures);
            self.decided.set(BTreeMap::new());
            self.found.set(found);
        }
    }

    /// Forgets all of it.
    pub(crate) fn clear(&self) {
        self.found.set(None);
        self.pictures.set(None);
        self.decided.set(BTreeMap::new());
    }

    /// The rows that get their likely label.
    pub(crate) fn changes(&self) -> Vec<(u32, String)> {
        let (found, decided) = (self.found.read(), self.decided.read());
        let suspects = found.iter().flat_map(|found| &found.suspects);
        let accepted = suspects.filter(|of: &&Suspect| decided.get(&of.row) == Some(&true));
        accepted.map(|of| (of.row, of.likely.clone())).collect()
    }

    /// Shades of the picture of a listed row, and its side in pixels.
    pub(crate) fn picture(&self, row: u32) -> Option<(usize, Vec<u8>)> {
        let (found, pictures) = (self.found.read_untracked(), self.pictures.read_untracked());
        let suspects = &found.as_ref()?.suspects;
        let place = suspects.iter().position(|of| of.row == row)?;
        let pictures = pictures.as_ref()?;
        let mut shades = pictures.shades.chunks_exact(pictures.side * pictures.side);
        Some((pictures.side, shades.nth(place)?.to_vec()))
    }
}
