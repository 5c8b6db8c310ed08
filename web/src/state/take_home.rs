//! Signals of the dialog *Take home*.

use leptos::prelude::*;
use nearfar::{Piece, RowsOf};

use crate::asked::Code;

/// The signals of the dialog.
#[derive(Clone, Copy, Default)]
pub(crate) struct TakeHome {
    /// The dialog is open.
    pub(crate) open: RwSignal<bool>,
    /// Lines of code that use the run, and the program whose lines are shown; the first if it is empty.
    pub(crate) code: RwSignal<Vec<Code>>,
    pub(crate) program: RwSignal<String>,
    /// The linear map takes the place of the head.
    pub(crate) linear: RwSignal<bool>,
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
    /// Tells if there is a linear map.
    pub(crate) fn has_linear(&self) -> bool {
        let is_there =
            |(piece, size): &(Piece, Option<u64>)| *piece == Piece::Linear && size.is_some();
        self.sizes.read().iter().any(is_there)
    }

    /// Tells if the dialog is open.
    pub(crate) fn is_open(&self) -> bool {
        self.open.get_untracked()
    }
}
