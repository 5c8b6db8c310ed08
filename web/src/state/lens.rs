//! [`Lens`]: the steps that all plots show, and how.

use leptos::prelude::*;

/// View that all plots over the steps share: range of steps, axes and smoothing.
#[derive(Clone, Copy)]
pub(crate) struct Lens {
    /// The step under the pointer.
    pub(crate) pointed: RwSignal<Option<f64>>,
    /// The step where the pointer went down.
    pub(crate) pressed: RwSignal<Option<f64>>,
    /// The first and the last step that are shown; all steps if `None`.
    pub(crate) span: RwSignal<Option<(f64, f64)>>,
    /// The last step of the axis if all steps are shown, as drawn.
    pub(crate) whole: StoredValue<f64>,
    /// The axis of the steps is logarithmic.
    pub(crate) log_steps: RwSignal<bool>,
    /// The axis of the loss is logarithmic.
    pub(crate) log_loss: RwSignal<bool>,
    /// The axis of the loss ignores outliers.
    pub(crate) clips_loss: RwSignal<bool>,
    /// Smoothing of noisy lines: the weight of a step relative to the next one, in percent.
    pub(crate) smoothing: RwSignal<u32>,
}

impl Lens {
    pub(crate) fn new() -> Self {
        Self {
            pointed: RwSignal::new(None),
            pressed: RwSignal::new(None),
            span: RwSignal::new(None),
            whole: StoredValue::new(1.0),
            log_steps: RwSignal::new(false),
            log_loss: RwSignal::new(false),
            clips_loss: RwSignal::new(false),
            smoothing: RwSignal::new(90),
        }
    }

    /// Tracks all signals of the lens.
    pub(crate) fn track(&self) {
        self.pointed.track();
        self.pressed.track();
        self.span.track();
        self.log_steps.track();
        self.log_loss.track();
        self.clips_loss.track();
        self.smoothing.track();
    }
}
