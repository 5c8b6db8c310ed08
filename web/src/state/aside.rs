//! Results that are cleared, and how a reset is undone.

use leptos::prelude::*;
use nearfar::{FullEvaluation, Neighbourhood};

use super::anchor::Answer;
use super::{Curves, MapData, Phase, State, threshold};
use crate::protocol::{CompareState, EvaluationForecast};

/// State that a reset cleared: it can be restored until the next run starts or other data comes.
#[derive(Clone, Debug)]
pub(crate) struct Aside {
    stage: Phase,
    curves: Curves,
    previous: Option<Curves>,
    map: Option<MapData>,
    chosen: Option<u32>,
    neighbours: Option<Neighbourhood>,
    can_evaluate: Option<EvaluationForecast>,
    evaluation: Option<FullEvaluation>,
    threshold: threshold::Shown,
}

impl State {
    /// Clears the page after the run was set aside. A second reset before this one is done sets nothing more aside.
    pub(super) fn reset(&self) {
        if !self.curves.read_untracked().history.is_empty() || self.aside.read_untracked().is_none()
        {
            self.set_aside();
        }
        self.clear();
        self.stage.set(Phase::Ready);
    }

    /// Sets aside the state that a reset clears.
    fn set_aside(&self) {
        let stage = match self.stage.get_untracked() {
            Phase::Running => Phase::Paused,
            stage => stage,
        };
        self.aside.set(Some(Aside {
            stage,
            curves: self.curves.get_untracked(),
            previous: self.previous.get_untracked(),
            map: self.map.get_untracked(),
            chosen: self.chosen.get_untracked(),
            neighbours: self.neighbours.get_untracked(),
            can_evaluate: self.can_evaluate.get_untracked(),
            evaluation: self.evaluation.get_untracked(),
            threshold: self.threshold.get_untracked().settled(),
        }));
    }

    /// Restores what the last reset cleared; `false` if there is nothing to restore.
    pub(crate) fn restore(&self) -> bool {
        let Some(aside) = self.aside.try_update(Option::take).flatten() else {
            return false;
        };
        self.curves.set(aside.curves);
        self.previous.set(aside.previous);
        self.map.set(aside.map);
        self.chosen.set(aside.chosen);
        self.neighbours.set(aside.neighbours);
        self.can_evaluate.set(aside.can_evaluate);
        self.evaluation.set(aside.evaluation);
        self.threshold.set(aside.threshold);
        self.stage.set(aside.stage);
        true
    }

    /// Clears the curves of this run and the one before, and all answers.
    pub(super) fn clear(&self) {
        self.curves.set(Curves::default());
        self.previous.set(None);
        self.clear_answers();
    }

    /// Clears all that was asked of a run that is gone, and shows the map of the data.
    pub(super) fn clear_answers(&self) {
        self.can_evaluate.set(None);
        self.evaluating.set(None);
        self.evaluation.set(None);
        self.threshold.set(threshold::Shown::Nothing);
        self.anchor.answer.set(Answer::Nothing);
        self.checks.clear();
        self.sizes.set(Vec::new());
        self.unsaved.set(None);
        self.map.set(self.raw_map.get_untracked());
        self.chosen.set(None);
        self.neighbours.set(None);
    }

    /// Makes room for a comparison: it takes the place of the run, whose curves stay as faint lines.
    pub(crate) fn begin_comparison(&self) {
        self.forgive();
        self.notice.set(None);
        self.aside.set(None);
        let before = self.curves.get_untracked();
        self.clear();
        if !before.history.is_empty() {
            self.previous.set(Some(before));
        }
        self.stage.set(Phase::Ready);
        self.compare.clear();
        self.compare.now.set(Some(CompareState::default()));
    }
}
