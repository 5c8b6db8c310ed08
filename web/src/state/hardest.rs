//! The hardest triplets of a run's steps.

use nearfar::HardestTriplets;

/// Most lists that are kept.
const MOST: usize = 512;

/// The lists of a run: every one at first, every second and so on as they become too many, and always the last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept(Vec<HardestTriplets>);

impl Kept {
    pub(crate) fn push(&mut self, list: HardestTriplets) {
        self.0.push(list);
        if self.0.len() > MOST {
            let mut kept = false;
            self.0.retain(|_| {
                kept = !kept;
                kept
            });
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The list of the step nearest to `step`; the last list if that is `None`.
    pub(crate) fn nearest(&self, step: Option<u64>) -> Option<&HardestTriplets> {
        let Some(step) = step else {
            return self.0.last();
        };
        self.0.iter().min_by_key(|list| list.step.abs_diff(step))
    }
}

/// A list that is shown, and the step that was asked for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shown {
    pub(crate) asked: Option<u64>,
    pub(crate) list: HardestTriplets,
}
