//! [`Lens`]: which steps all plots show, and how. [`Chart`]: a plot that is looked at through it. [`Axes`]: its tools.

use leptos::html::Input;
use leptos::prelude::*;
use wasm_bindgen::JsCast as _;
use web_sys::{Event, MouseEvent, PointerEvent, WheelEvent};

use crate::chart::{Along, Canvas, Plot, Told, canvas_of, share_of};
use crate::state::State;

/// How a person looks at the plots over the steps: all of them show the same ones.
#[derive(Clone, Copy)]
pub(crate) struct Lens {
    /// The step under the pointer.
    pub(crate) pointed: RwSignal<Option<f64>>,
    /// The step where the pointer went down.
    pressed: RwSignal<Option<f64>>,
    /// The first and the last step that are shown; all where there is none.
    span: RwSignal<Option<(f64, f64)>>,
    /// The last step of all, as drawn.
    whole: StoredValue<f64>,
    /// Whether the axis of the steps is logarithmic.
    log_steps: RwSignal<bool>,
    /// Whether that of the loss is.
    pub(crate) log_loss: RwSignal<bool>,
    /// Whether the axis of the loss ignores outliers.
    pub(crate) clips_loss: RwSignal<bool>,
    /// How smooth noisy lines are: what a step counts for beside the next, in percent.
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

    /// Tracks all of it.
    pub(crate) fn track(&self) {
        self.pointed.track();
        self.pressed.track();
        self.span.track();
        self.log_steps.track();
        self.log_loss.track();
        self.clips_loss.track();
        self.smoothing.track();
    }

    /// The plot as it is looked at.
    fn over(&self, mut plot: Plot) -> Plot {
        let whole = plot.along.last;
        self.whole.set_value(whole);
        plot.along.log = self.log_steps.get();
        if let Some((first, last)) = self.span.get()
            && first < whole
        {
            plot.along.first = first;
            plot.along.last = last.min(whole);
            let lines = plot.lines.into_iter();
            plot.lines = lines.map(|line| line.between(first, last)).collect();
        }
        let Along { first, last, .. } = plot.along;
        let pointed = self.pointed.get();
        // What will be shown once the pointer comes up.
        let dragged = self.pressed.get().zip(pointed);
        plot.band = dragged.map(|(from, to)| (from.min(to), from.max(to)));
        let pointed = pointed.filter(|step| (first..=last).contains(step));
        plot.pointed = pointed.map(|step| (step, format!("step {step:.0}")));
        plot
    }

    /// Shows what lies between two places of an axis.
    fn show(&self, along: Along, low: f64, high: f64) {
        let (first, last) = (along.place(0.0), along.place(self.whole.get_value()));
        let length = (high - low).max(along.least());
        let low = low.min(last - length).max(first);
        let span = (along.value(low), along.value(low + length));
        self.span.set((length < last - first).then_some(span));
    }
}

/// What a [`Chart`] is told of.
const POINTER_EVENTS: [&str; 8] = [
    "pointerdown",
    "pointermove",
    "pointerup",
    "pointercancel",
    "pointerleave",
    "wheel",
    "click",
    "dblclick",
];

/// A plot over the steps: the step under the pointer is marked in all of them, and can be chosen by a click. A mouse that is
/// dragged looks closer, a wheel that goes sideways moves along, one with Ctrl (a pinch) zooms, a double click shows all.
#[component]
pub(crate) fn Chart(
    /// What tests find it by.
    testid: &'static str,
    /// What it shows, in words, for who cannot see it.
    #[prop(into)]
    text: Signal<String>,
    /// What to draw.
    #[prop(into)]
    plot: Callback<(), Plot>,
    /// The signals that all plots share.
    state: State,
    /// What a click on a step does.
    #[prop(optional)]
    choose: Option<Callback<f64>>,
) -> impl IntoView {
    let lens = state.lens;
    // The axis as it is drawn.
    let drawn = StoredValue::new(Along::new(0.0, 1.0));
    // Whether the pointer was dragged when it came up: that is no click.
    let dragged = StoredValue::new(false);
    let plot = move || {
        let plot = lens.over(plot.run(()));
        drawn.set_value(plot.along);
        plot
    };
    let step_at = move |event: &MouseEvent| {
        let share = share_of(event);
        let is_on = (-0.02..=1.02).contains(&share) || lens.pressed.get_untracked().is_some();
        is_on.then(|| drawn.get_value().at(share.clamp(0.0, 1.0)))
    };
    let press = move |event: &PointerEvent| {
        dragged.set_value(false);
        // A finger that goes over a plot scrolls the page.
        if event.button() == 0 && event.pointer_type() != "touch" {
            lens.pressed.set(step_at(event));
            canvas_of(event).and_then(|it| it.set_pointer_capture(event.pointer_id()).ok());
        }
    };
    let release = move |event: &PointerEvent| {
        let to = step_at(event);
        let Some((from, to)) = lens.pressed.get_untracked().zip(to) else {
            return;
        };
        lens.pressed.set(None);
        let along = drawn.get_value();
        let (low, high) = (from.min(to), from.max(to));
        let (first, last) = along.ends();
        // A hundredth of the plot is a hand that was not still.
        if along.place(high) - along.place(low) > 0.01 * (last - first) {
            dragged.set_value(true);
            lens.show(along, along.place(low.floor()), along.place(high.ceil()));
        }
    };
    let wheel = move |event: &WheelEvent| {
        let along = drawn.get_value();
        let (low, high) = along.ends();
        let length = high - low;
        let (right, down) = (event.delta_x(), event.delta_y());
        let sideways = match event.shift_key() {
            true => right + down,
            // A hand that scrolls the page is never quite straight.
            false if right.abs() > down.abs() => right,
            false => 0.0,
        };
        if event.ctrl_key() {
            event.prevent_default();
            let longer = length * (down / 288.0).exp();
            let low = low + share_of(event).clamp(0.0, 1.0) * (length - longer);
            lens.show(along, low, low + longer);
        } else if sideways != 0.0 && lens.span.get_untracked().is_some() {
            event.prevent_default();
            let low = low + length * sideways / 400.0;
            lens.show(along, low, low + length);
        }
    };
    let click = move |event: &MouseEvent| {
        if let (Some(choose), Some(step), false) = (choose, step_at(event), dragged.get_value()) {
            choose.run(step);
        }
    };
    let told = Told {
        of: &POINTER_EVENTS,
        to: Callback::new(move |event: Event| match event.type_().as_str() {
            "pointerdown" => press(event.unchecked_ref()),
            "pointermove" => lens.pointed.set(step_at(event.unchecked_ref())),
            "pointerup" => release(event.unchecked_ref()),
            "pointercancel" => lens.pressed.set(None),
            "pointerleave" => lens.pointed.set(None),
            "wheel" => wheel(event.unchecked_ref()),
            "click" => click(event.unchecked_ref()),
            _ => lens.span.set(None),
        }),
    };
    view! { <Canvas testid text plot state told/> }
}

/// Which steps the plots show, and how their axes go.
#[component]
pub(crate) fn Axes(state: State) -> impl IntoView {
    let lens = state.lens;
    // Steps of another run are others.
    Effect::new(move || {
        state.ran.track();
        lens.span.set(None);
    });
    let from = NodeRef::<Input>::new();
    let to = NodeRef::<Input>::new();
    let first = move || {
        lens.span
            .get()
            .map_or_else(String::new, |(first, _)| format!("{first:.0}"))
    };
    let last = move || {
        lens.span
            .get()
            .map_or_else(String::new, |(_, last)| format!("{last:.0}"))
    };
    // Read by the browser: what the standard library reads numbers by is 17 kB of the page. The nearest steps that there are, in
    // either order.
    let number = move |input: NodeRef<Input>, none: f64| {
        let number = input
            .get_untracked()
            .map_or(none, |input| input.value_as_number());
        let number = if number.is_finite() { number } else { none };
        number.clamp(0.0, lens.whole.get_value())
    };
    let choose = move |_| {
        let whole = lens.whole.get_value();
        let (a, b) = (number(from, 0.0), number(to, whole));
        lens.show(Along::new(0.0, whole), a.min(b), a.max(b));
        // What was entered may be none of them.
        for (input, text) in [(from, untrack(first)), (to, untrack(last))] {
            if let Some(input) = input.get_untracked() {
                input.set_value(&text);
            }
        }
    };
    let is_changed = move || {
        let either = [lens.log_steps, lens.log_loss, lens.clips_loss];
        lens.span.get().is_some() || either.iter().any(|it| it.get())
    };
    let either = |testid, value: RwSignal<bool>, text, title| {
        view! {
            <label title=title>
                <input
                    type="checkbox" data-testid=testid prop:checked=move || value.get()
                    on:change=move |event| value.set(event_target_checked(&event))
                />
                {text}
            </label>
        }
    };
    view! {
        <details class="axes" class:changed=is_changed>
            <summary data-testid="axes">"Axes"</summary>
            <div>
                {either("clip-loss", lens.clips_loss, "Ignore outliers of the loss", "The highest and the lowest twentieth of the values lie on the edges of the plot")}
                {either("log-steps", lens.log_steps, "Logarithmic steps", "In all plots, steps 1 to 10 have as much room as 10 to 100: the beginning is seen")}
                <span class="asked">
                    "Steps "
                    <input type="number" min="0" placeholder="first" aria-label="First step shown" data-testid="first-step" node_ref=from prop:value=first on:change=choose/>
                    " to "
                    <input type="number" min="1" placeholder="last" aria-label="Last step shown" data-testid="last-step" node_ref=to prop:value=last on:change=choose/>
                </span>
                <button data-testid="all-steps" on:click=move |_| lens.span.set(None)>"All steps"</button>
                <small>"Or drag over a plot to look closer. Shift + wheel moves along, Ctrl + wheel zooms, a double click shows all steps."</small>
            </div>
        </details>
    }
}
