//! [`Anchor`]: the anchor of the last step that is looked at, and how.

use std::sync::Arc;

use leptos::prelude::*;

use super::State;
use crate::protocol::LookedAt;

/// Answer to the last question about an anchor.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Answer {
    /// There is none: no step was taken.
    #[default]
    Nothing,
    /// The anchor cannot be looked at, and why.
    Refused(String),
    Seen(Arc<LookedAt>),
}

/// The anchor that is looked at.
#[derive(Clone, Copy)]
pub(crate) struct Anchor {
    /// The tab is open: an anchor is asked for while it is.
    pub(crate) open: RwSignal<bool>,
    pub(crate) answer: RwSignal<Answer>,
    /// It is shown as it stands after the step.
    pub(crate) after: RwSignal<bool>,
    /// It is compared with the batch alone, although there is a memory.
    pub(crate) alone: RwSignal<bool>,
}

impl Anchor {
    pub(super) fn new() -> Self {
        Self {
            open: RwSignal::new(false),
            answer: RwSignal::new(Answer::Nothing),
            after: RwSignal::new(false),
            alone: RwSignal::new(false),
        }
    }

    /// What was seen.
    pub(crate) fn seen(&self) -> Option<Arc<LookedAt>> {
        match &*self.answer.read() {
            Answer::Seen(looked) => Some(Arc::clone(looked)),
            Answer::Nothing | Answer::Refused(_) => None,
        }
    }

    /// 0 where it is shown as it was before the step, 1 after it.
    pub(crate) fn side(&self) -> usize {
        usize::from(self.after.get())
    }

    /// Tracks everything of it that the map shows.
    pub(crate) fn track(&self) {
        self.open.track();
        self.answer.track();
        self.after.track();
    }

    /// Takes in an answer of the worker.
    pub(super) fn take(&self, answer: Result<Option<Box<LookedAt>>, String>) {
        self.answer.set(match answer {
            Ok(None) => Answer::Nothing,
            Ok(Some(looked)) => Answer::Seen(Arc::from(looked)),
            Err(why) => Answer::Refused(why),
        });
    }
}

impl State {
    /// The triplet that is joined on the map: its rows, each with its place there if it is not one of the map's.
    pub(crate) fn triplet(&self) -> Option<[(u32, Option<[f32; 2]>); 3]> {
        if !self.anchor.open.get() {
            return None;
        }
        let looked = self.anchor.seen()?;
        let rows = looked.seen.triplet(self.anchor.side())?;
        let place = |row: u32| {
            let found = looked.on_map.iter().find(|(other, _)| *other == row);
            found.map(|(_, place)| *place)
        };
        Some(rows.map(|row| (row, place(row))))
    }
}
