//! Signals of the dialog *Take home*.

use leptos::prelude::*;
use nearfar::{Piece, RowsOf};

/// The signals of the dialog.
#[derive(Clone, Copy, Default)]
pub(crate) struct TakeHome {
    /// The dialog is open.
    pub(crate) open: RwSignal<bool>,
    /// Rows for the pieces that are made of rows.
    pub(crate) side: RwSignal<RowsOf>,
    /// Estimated bytes of each piece; `None` if there is no such piece.
    pub(crate) sizes: RwSignal<Vec<(Piece, Option<u64>)>>,
    /// The piece that is being made.
    pub(crate) making: RwSignal<Option<Piece>>,
    /// Result of saving the last piece, in words.
    pub(crate) said: RwSignal<String>,
}

impl TakeHome {
    /// Tells if the dialog is open.
    pub(crate) fn is_open(&self) -> bool {
        self.open.get_untracked()
    }
}
