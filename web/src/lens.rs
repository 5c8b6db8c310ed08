//! [`Chart`]: a plot over these steps. [`Axes`]: their controls.

use leptos::html::Input;
use leptos::prelude::*;
use wasm_bindgen::JsCast as _;
use web_sys::{Event, MouseEvent, PointerEvent, WheelEvent};

use crate::chart::{Along, Canvas, Plot, Told, canvas_of, share_of};
use crate::state::{Lens, State};

impl Lens {
    /// Applies the lens to a plot: range and scale of the steps, the pointer, and a dragged band.
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
        // The range that will be shown once the pointer comes up.
        let dragged = self.pressed.get().zip(pointed);
        plot.band = dragged.map(|(from, to)| (from.min(to), from.max(to)));
        let pointed = pointed.filter(|step| (first..=last).contains(step));
        plot.pointed = pointed.map(|step| (step, format!("step {step:.0}")));
        plot
    }

    /// Shows the steps between two places of an axis.
    fn show(&self, along: Along, low: f64, high: f64) {
        let (first, last) = (along.place(0.0), along.place(self.whole.get_value()));
        let length = (high - low).max(along.least());
        let low = low.min(last - length).max(first);
        let span = (along.value(low), along.value(low + length));
        self.span.set((length < last - first).then_some(span));
    }
}

/// Events that a [`Chart`] receives.
const POINTER_EVENTS: [&str; 7] = [
    "pointerdown",
    "pointermove",
    "pointerup",
    "pointercancel",
    "pointerleave",
    "wheel",
    "dblclick",
];

/// The pointer over a plot.
#[derive(Clone, Copy)]
struct Pointer {
    lens: Lens,
    /// The axis as it is drawn.
    drawn: StoredValue<Along>,
}

impl Pointer {
    /// The step at an event; `None` beside the axis, unless the pointer is down.
    fn step_at(&self, event: &MouseEvent) -> Option<f64> {
        let share = share_of(event);
        let is_on = (-0.02..=1.02).contains(&share) || self.lens.pressed.get_untracked().is_some();
        is_on.then(|| self.drawn.get_value().at(share.clamp(0.0, 1.0)))
    }

    fn press(&self, event: &PointerEvent) {
        // A finger that goes over a plot scrolls the page.
        if event.button() == 0 && event.pointer_type() != "touch" {
            self.lens.pressed.set(self.step_at(event));
            canvas_of(event).and_then(|it| it.set_pointer_capture(event.pointer_id()).ok());
        }
    }

    fn release(&self, event: &PointerEvent) {
        let to = self.step_at(event);
        let Some((from, to)) = self.lens.pressed.get_untracked().zip(to) else {
            return;
        };
        self.lens.pressed.set(None);
        let along = self.drawn.get_value();
        let (low, high) = (from.min(to), from.max(to));
        let (first, last) = along.ends();
        // A drag of a hundredth of the plot or less is a click of an unsteady hand.
        if along.place(high) - along.place(low) > 0.01 * (last - first) {
            let (low, high) = (along.place(low.floor()), along.place(high.ceil()));
            self.lens.show(along, low, high);
        }
    }

    fn turn(&self, event: &WheelEvent) {
        let along = self.drawn.get_value();
        let (low, high) = along.ends();
        let length = high - low;
        let (right, down) = (event.delta_x(), event.delta_y());
        let sideways = match event.shift_key() {
            true => right + down,
            // A wheel that scrolls the page is never quite straight.
            false if right.abs() > down.abs() => right,
            false => 0.0,
        };
        if event.ctrl_key() {
            event.prevent_default();
            let longer = length * (down / 288.0).exp();
            let low = low + share_of(event).clamp(0.0, 1.0) * (length - longer);
            self.lens.show(along, low, low + longer);
        } else if sideways != 0.0 && self.lens.span.get_untracked().is_some() {
            event.prevent_default();
            let low = low + length * sideways / 400.0;
            self.lens.show(along, low, low + length);
        }
    }
}

/// A plot over the steps. The step under the pointer is marked in all such plots. Dragging a mouse zooms in, a wheel that goes sideways moves along, one with Ctrl (a pinch) zooms, a double click shows all steps.
#[component]
pub(crate) fn Chart(
    /// The `data-testid` of the canvas.
    testid: &'static str,
    /// The plot in words, for screen readers.
    #[prop(into)]
    text: Signal<String>,
    /// Gives the plot to draw.
    #[prop(into)]
    plot: Callback<(), Plot>,
    /// The signals that all plots share.
    state: State,
) -> impl IntoView {
    let lens = state.lens;
    let pointer = Pointer {
        lens,
        drawn: StoredValue::new(Along::new(0.0, 1.0)),
    };
    let plot = move || {
        let plot = lens.over(plot.run(()));
        pointer.drawn.set_value(plot.along);
        plot
    };
    let told = Told {
        of: &POINTER_EVENTS,
        to: Callback::new(move |event: Event| match event.type_().as_str() {
            "pointerdown" => pointer.press(event.unchecked_ref()),
            "pointermove" => lens.pointed.set(pointer.step_at(event.unchecked_ref())),
            "pointerup" => pointer.release(event.unchecked_ref()),
            "pointercancel" => lens.pressed.set(None),
            "pointerleave" => lens.pointed.set(None),
            "wheel" => pointer.turn(event.unchecked_ref()),
            _ => lens.span.set(None),
        }),
    };
    view! { <Canvas testid text plot state told/> }
}

/// A box to tick that sets a signal of the lens.
pub(crate) fn switch(
    testid: &'static str,
    value: RwSignal<bool>,
    text: &'static str,
    title: &'static str,
) -> impl IntoView {
    view! {
        <label title=title>
            <input
                type="checkbox" data-testid=testid prop:checked=move || value.get()
                on:change=move |event| value.set(event_target_checked(&event))
            />
            {text}
        </label>
    }
}

/// Controls of the steps that the plots show, and of their axes.
#[component]
pub(crate) fn Axes(state: State) -> impl IntoView {
    let lens = state.lens;
    // Another run has other steps: all are shown.
    Effect::new(move || {
        state.ran.track();
        lens.span.set(None);
    });
    let from = NodeRef::<Input>::new();
    let to = NodeRef::<Input>::new();
    let end = move |at: usize| {
        let ends = lens.span.get().map(|(first, last)| [first, last]);
        ends.map_or_else(String::new, |ends| format!("{:.0}", ends[at]))
    };
    let (first, last) = (move || end(0), move || end(1));
    // Parsed by the browser: the standard library's parser of numbers is 17 kB of the page. Held to steps that exist; the two may
    // be entered in either order.
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
        // The entered number may be none of the steps that are shown.
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
    view! {
        <details class="axes" class:changed=is_changed>
            <summary data-testid="axes">"Axes"</summary>
            <div>
                {switch("clip-loss", lens.clips_loss, "Ignore outliers of the loss", "The highest and the lowest twentieth of the values lie on the edges of the plot")}
                {switch("log-steps", lens.log_steps, "Logarithmic steps", "In all plots, steps 1 to 10 have as much room as 10 to 100: the beginning is seen")}
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
