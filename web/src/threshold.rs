//! Threshold of similarity from which on two rows are taken for the same class: the button, the sentence, and the similarities of the
//! pairs of one class and of two, over which the threshold is dragged.

use leptos::html::{Div, Select};
use leptos::prelude::*;
use nearfar::{PairRates, ThresholdReport};
use web_sys::{Element, KeyboardEvent, PointerEvent, ScrollIntoViewOptions, ScrollLogicalPosition};

use crate::chart::{Along, Canvas, Line, Plot, RIGHT, Scale, canvas_of, left, share_of};
use crate::controls::{entered, hold};
use crate::plots::Key;
use crate::session::Session;
use crate::state::threshold::Shown;
use crate::state::{Phase, State};
use crate::terms::{self, About, Meaning, Term};
use crate::words::grouped;

/// False match rates to choose from, with their text.
const RATES: [(&str, &str); 5] = [
    ("", "as few as the pairs can tell"),
    ("0.1", "1 in 10"),
    ("0.01", "1 in 100"),
    ("0.001", "1 in 1,000"),
    ("0.0001", "1 in 10,000"),
];
/// Value of the menu for a rate that is entered.
const OTHER: &str = "other";
/// Similarity from one point of the curves to the next: there the rates are exact.
const STEP: f64 = 0.005;
/// Similarity to which a threshold that is dragged close to equal errors or the best F1 is drawn.
const NEAR: f64 = 0.01;
/// Points of a curve from one bar of a distribution to the next.
const BAR: usize = 4;

/// The threshold under the person's hand.
#[derive(Clone, Copy)]
struct Hand {
    state: State,
    session: Session,
    /// Where it was moved to, until its report is there.
    moved: RwSignal<Option<f64>>,
    dragging: RwSignal<bool>,
}

impl Hand {
    fn new(state: State, session: Session) -> Self {
        let hand = Self {
            state,
            session,
            moved: RwSignal::new(None),
            dragging: RwSignal::new(false),
        };
        // A report came: it is of the place where the threshold is, or that is asked for next.
        Effect::new(move || match &*state.threshold.read() {
            Shown::Found(report) => {
                let is_there = |at: &f64| is_same(*at, report.threshold);
                if hand.moved.get().as_ref().is_some_and(is_there) {
                    hand.moved.set(None);
                } else {
                    hand.settle();
                }
            }
            Shown::Moved(_) => {}
            _ => hand.moved.set(None),
        });
        hand
    }

    /// The threshold that is shown, beside the report.
    fn at(&self, report: &ThresholdReport) -> f64 {
        self.moved.get().unwrap_or(report.threshold)
    }

    /// Moves the threshold to a similarity; close to equal errors and to the best F1 it goes there.
    fn drag(&self, to: f64) {
        let shown = self.state.threshold.read_untracked();
        let Some(report) = shown.report() else { return };
        let goals = [
            report.fit.equal_error_threshold,
            report.fit.best_f1_threshold,
        ];
        let near = goals.into_iter().find(|goal| (goal - to).abs() < NEAR);
        let to = near.map_or_else(|| (to / STEP).round() * STEP, edge);
        self.moved.set(Some(to));
    }

    /// Asks for the report on the threshold where it is, once it rests and no other report is under way.
    fn settle(&self) {
        let rests = matches!(*self.state.threshold.read(), Shown::Found(_));
        if self.moved.get().is_some() && rests && !self.dragging.get() {
            // What asks may be told of the change only once it is done.
            let (session, shown, moved) = (self.session, self.state.threshold, self.moved);
            request_animation_frame(move || {
                let rests = matches!(*shown.read_untracked(), Shown::Found(_));
                if let Some(at) = moved.get_untracked().filter(|_| rests) {
                    session.threshold_at(at);
                }
            });
        }
    }

    /// Follows the pointer over the plot.
    fn follow(&self, event: &PointerEvent) {
        let first = (self.state.threshold.read_untracked().report()).map_or(-1.0, first);
        self.drag(Along::new(first, 1.0).at(share_of(event).clamp(0.0, 1.0)));
    }

    /// The threshold, and it in words with its rates.
    fn value(&self) -> Option<(f64, String)> {
        let shown = self.state.threshold.read();
        let report = shown.report()?;
        let at = self.at(report);
        let [let_in, missed, _] = reported(report, at).map(percent);
        let text = format!(
            "{}: {let_in} of the pairs of different classes let in, {missed} of the same class missed",
            written(at)
        );
        Some((at, text))
    }

    /// Moves the threshold by a key.
    fn press(&self, event: &KeyboardEvent) {
        let shown = self.state.threshold.read_untracked();
        let Some(report) = shown.report() else { return };
        let at = untrack(|| self.at(report));
        // From a place between two steps to the next step.
        let by = |steps: f64| match steps > 0.0 {
            true => ((at / STEP + 1e-6).floor() + steps) * STEP,
            false => ((at / STEP - 1e-6).ceil() + steps) * STEP,
        };
        let to = match &*event.key() {
            "ArrowRight" | "ArrowUp" => by(1.0),
            "ArrowLeft" | "ArrowDown" => by(-1.0),
            "PageUp" => by(10.0),
            "PageDown" => by(-10.0),
            "Home" => first(report),
            "End" => 1.0,
            _ => return,
        };
        event.prevent_default();
        self.moved.set(Some(to.clamp(-1.0, 1.0)));
    }
}

/// The threshold closest to a similarity between two of them: they are multiples of 0.00002.
fn edge(similarity: f64) -> f64 {
    (similarity * 50_000.0).round() / 50_000.0
}

/// Tells if two thresholds are one.
fn is_same(a: f64, b: f64) -> bool {
    (a - b).abs() < 1.1e-5
}

/// Panel of the threshold, shown once a run is over. The threshold is fitted on the validation rows, and reported on the test rows.
#[component]
pub(crate) fn Threshold(state: State, session: Session) -> impl IntoView {
    let shown = state.threshold;
    let hand = Hand::new(state, session);
    let over = move || state.phase.get() == Phase::Finished;
    let said = move || match &*shown.read() {
        Shown::Nothing => "Fitted on the validation rows, reported on the test rows.".to_owned(),
        Shown::Looking => "Counting pairs ..".to_owned(),
        Shown::Refused(why) => format!("There is none: {why}."),
        Shown::Found(report) | Shown::Moved(report) => sentence(report, hand.at(report)),
    };
    let notes = move || {
        let shown = shown.read();
        let report = shown
            .report()
            .filter(|report| is_same(hand.at(report), report.threshold));
        let notes = report.map_or(&[][..], |report| &report.notes);
        let notes = notes.iter().cloned().map(|note| view! { <li>{note}</li> });
        notes.collect_view()
    };
    let bare = move || {
        let shown = shown.read();
        shown.report().map(|report| written(hand.at(report)))
    };
    // While a report is under way, it is not the one of this threshold yet.
    let busy = move || matches!(*shown.read(), Shown::Moved(_)).to_string();
    let there = Memo::new(move |_| shown.read().report().is_some());
    let card = NodeRef::<Div>::new();
    // What was asked for may lie below what is in sight.
    Effect::new(move || {
        if let Some(card) = card.get().filter(|_| there.get()) {
            request_animation_frame(move || into_sight(&card));
        }
    });
    view! {
        <div node_ref=card class="threshold" class:with-plot=there hidden=move || !over() data-testid="threshold">
            <Ask state session hand/>
            <p role="status" data-testid="threshold-sentence" data-threshold=bare aria-busy=busy>{said}</p>
            <ul class="muted" data-testid="threshold-notes">{notes}</ul>
            <Show when=move || there.get()><Rates state hand/> <Distributions state hand/></Show>
        </div>
    }
}

/// Scrolls what holds an element as little as shows it.
fn into_sight(element: &Element) {
    let options = ScrollIntoViewOptions::new();
    options.set_block(ScrollLogicalPosition::Nearest);
    element.scroll_into_view_with_scroll_into_view_options(&options);
}

/// What to look for: a false match rate, equal errors or the best F1.
#[component]
fn Ask(state: State, session: Session, hand: Hand) -> impl IntoView {
    let shown = state.threshold;
    // Chosen in the menu, and entered in percent.
    let (rate, own) = (RwSignal::new(String::new()), RwSignal::new(String::new()));
    let over = move || state.phase.get() == Phase::Finished;
    let text = move || match *shown.read() == Shown::Looking {
        true => "Stop",
        false => "Find a threshold",
    };
    let find = move || {
        let asked = match &*rate.get_untracked() {
            OTHER => entered(&own.get_untracked()).map(|percent| percent / 100.0),
            rate => entered(rate),
        };
        let is_asked = rate.get_untracked() != OTHER || asked.is_some();
        if untrack(over) && is_asked && !matches!(*shown.read_untracked(), Shown::Moved(_)) {
            hand.moved.set(None);
            session.find_threshold(asked);
        }
    };
    // An answer stands beside the rate that it was found for: another rate asks again.
    let ask = move |of: RwSignal<String>| {
        move |event| {
            of.set(event_target_value(&event));
            if !matches!(*shown.read_untracked(), Shown::Nothing | Shown::Looking) {
                find();
            }
        }
    };
    let select = NodeRef::<Select>::new();
    hold(select, move || rate.get(), state);
    let options = RATES.map(|(value, name)| view! { <option value=value>{name}</option> });
    let off = move || if over() { "false" } else { "true" };
    view! {
        <div class="ask">
            <button data-testid="find-threshold" aria-disabled=off on:click=move |_| find()>{text}</button>
            <label>
                "Pairs of different classes let in: "
                <select data-testid="threshold-rate" node_ref=select on:change=ask(rate)>
                    {options}
                    <option value=OTHER>"another rate"</option>
                </select>
            </label>
            <label hidden=move || rate.get() != OTHER>
                <input
                    type="number" min="0" max="100" step="any" aria-label="Pairs of different classes let in, in percent" data-testid="threshold-own-rate" on:change=ask(own)
                /> " %"
            </label>
            {goal(hand, "threshold-equal", "Equal errors", |fit| fit.equal_error_threshold)}
            {goal(hand, "threshold-f1", "Best F1", |fit| fit.best_f1_threshold)}
            <About
                of="a threshold" text="The similarity from which on two rows are taken for the same. The higher it is, the fewer pairs of different classes are let in, and the more pairs of the same class are missed: say how many may be let in, or drag the line over the similarities of the pairs."
            />
        </div>
    }
}

/// Button that brings the threshold to a similarity that the fit on the validation rows has.
fn goal(
    hand: Hand,
    testid: &'static str,
    text: &'static str,
    at: fn(&PairRates) -> f64,
) -> impl IntoView {
    let shown = hand.state.threshold;
    let go = move |_| {
        if let Some(report) = shown.read_untracked().report() {
            hand.moved.set(Some(edge(at(&report.fit))));
        }
    };
    let there = move || shown.read().report().is_some();
    let pressed = move || {
        let shown = shown.read();
        let is_there = |report: &ThresholdReport| is_same(hand.at(report), at(&report.fit));
        shown.report().is_some_and(is_there).to_string()
    };
    view! {
        <button
            data-testid=testid title="Moves the line to where the validation rows have it" aria-pressed=pressed hidden=move || !there() on:click=go
        >{text}</button>
    }
}

/// Rates of a side at a threshold: of the pairs of different classes the part let in, of those of the same class the part missed, and
/// F1.
fn rates_at(report: &ThresholdReport, side: &PairRates, tested: bool, at: f64) -> [f64; 3] {
    if is_same(at, report.threshold) {
        return [side.false_match_rate, side.false_non_match_rate, side.f1];
    }
    let [let_in, missed] = errors(report, tested).map(|rates| {
        let place = ((at + 1.0) / STEP).clamp(0.0, (rates.len().max(1) - 1) as f64);
        let (low, part) = (place as usize, place.fract());
        let low_rate = rates.get(low).copied().unwrap_or(0.0);
        let high_rate = rates.get(low + 1).copied().unwrap_or(low_rate);
        low_rate + part * (high_rate - low_rate)
    });
    let (same, different) = (side.same_pairs as f64, side.different_pairs as f64);
    let right = (1.0 - missed) * same;
    [
        let_in,
        missed,
        2.0 * right / (right + same + let_in * different).max(1.0),
    ]
}

/// Rates of the side that is reported on: the test side, or that of the fit without one.
fn reported(report: &ThresholdReport, at: f64) -> [f64; 3] {
    let side = report.test.as_ref();
    rates_at(report, side.unwrap_or(&report.fit), side.is_some(), at)
}

/// A similarity as it is written.
fn written(at: f64) -> String {
    ((at * 1e5).round() / 1e5).to_string()
}

/// Meaning of a threshold: that of the report, or, on the way to another one, the rates without their intervals.
fn sentence(report: &ThresholdReport, at: f64) -> String {
    if is_same(at, report.threshold) {
        return report.sentence.clone();
    }
    let [let_in, missed, _] = reported(report, at).map(percent);
    let on = match report.test {
        Some(_) => "On test rows",
        None => "On the rows that it was fitted on",
    };
    format!(
        "Similarity {} and above means the same class. {on}: {let_in} of the pairs of different classes are let in; {missed} of the pairs \
         of the same class are missed.",
        written(at)
    )
}

/// Table of the rates on both sides.
#[component]
fn Rates(state: State, hand: Hand) -> impl IntoView {
    let shown = state.threshold;
    let line = move |name: &'static str, tested: bool, ids: [&'static str; 4]| {
        let cell = move |of: usize| {
            move || {
                let shown = shown.read();
                let report = shown.report()?;
                let side = if tested {
                    report.test.as_ref()?
                } else {
                    &report.fit
                };
                let rates = rates_at(report, side, tested, hand.at(report));
                Some(match of {
                    0 | 1 => percent(rates[of]),
                    2 => format!("{:.3}", rates[2]),
                    _ => percent(side.equal_error_rate),
                })
            }
        };
        let there = move || {
            !tested
                || shown
                    .read()
                    .report()
                    .is_some_and(|report| report.test.is_some())
        };
        let cells = ids.into_iter().enumerate();
        let cells = cells.map(|(of, id)| view! { <td data-testid=id>{cell(of)}</td> });
        view! { <tr hidden=move || !there()><th scope="row">{name}</th>{cells.collect_view()}</tr> }
    };
    let head = |term: Meaning| view! { <th scope="col"><Term term/></th> };
    view! {
        <table data-testid="threshold-rates">
            <thead>
                <tr>
                    <td></td> {head(terms::FALSE_MATCH)} {head(terms::FALSE_NON_MATCH)} {head(terms::F1)}
                    {head(terms::EQUAL_ERROR)}
                </tr>
            </thead>
            <tbody>
                {line("test", true, ["threshold-fmr", "threshold-fnmr", "threshold-f1-score", "threshold-eer"])}
                {line("validation", false, ["fitted-fmr", "fitted-fnmr", "fitted-f1-score", "fitted-eer"])}
            </tbody>
        </table>
    }
}

/// Similarities of the pairs of one class and of two, and the threshold as a line between them, which is dragged, or moved by keys.
#[component]
fn Distributions(state: State, hand: Hand) -> impl IntoView {
    let shown = state.threshold;
    let pointed = RwSignal::new(None);
    let plot = move || {
        let shown = shown.read();
        let Some(report) = shown.report() else {
            return Plot::new(Scale::Linear, Along::new(0.0, 1.0), Vec::new());
        };
        plot(report, hand.at(report)).saying(pointed.get(), |at| {
            let [let_in, missed, _] = reported(report, at).map(percent);
            format!("{at:.2}: {let_in} let in, {missed} missed")
        })
    };
    let side = move |of: fn(&PairRates) -> String| {
        let shown = shown.read();
        let report = shown.report();
        report.map_or_else(String::new, |report| {
            of(report.test.as_ref().unwrap_or(&report.fit))
        })
    };
    let text = Signal::derive(move || {
        let rest = side(|rates| {
            let (at, rate) = (rates.equal_error_threshold, percent(rates.equal_error_rate));
            format!("; the errors are equal at {at:.2}, with {rate}")
        });
        let at = hand.value().map_or_else(String::new, |(_, text)| text);
        format!(
            "Similarities of pairs of the same class and of pairs of different classes. The threshold is {at}{rest}"
        )
    });
    let alike = Signal::derive(move || side(|rates| grouped(rates.same_pairs)));
    let others = Signal::derive(move || side(|rates| grouped(rates.different_pairs)));
    view! {
        <figure>
            <figcaption>
                <Key color="positive" name="pairs of the same class" value=alike/>
                <Key color="negative" name="of different classes" value=others/>
            </figcaption>
            <Slide hand>
                <Canvas testid="chart-threshold" text plot state pointed/>
            </Slide>
        </figure>
    }
}

/// A plot, and the grip of the line on it.
#[component]
fn Slide(hand: Hand, children: Children) -> impl IntoView {
    let handle = NodeRef::<Div>::new();
    let place = move || {
        let first = hand.state.threshold.read().report().map_or(-1.0, first);
        let share = hand
            .value()
            .map_or(0.0, |(at, _)| (at - first) / (1.0 - first));
        let share = share.clamp(0.0, 1.0);
        format!(
            "calc({}px + {share:.5} * (100% - {}px))",
            left(),
            left() + RIGHT
        )
    };
    let press = move |event: PointerEvent| {
        if let Some(canvas) = canvas_of(&event) {
            canvas.set_pointer_capture(event.pointer_id()).ok();
            event.prevent_default();
            hand.dragging.set(true);
            hand.follow(&event);
        }
    };
    let pass = move |event: PointerEvent| {
        if hand.dragging.get_untracked() {
            hand.follow(&event);
        }
    };
    let release = move |_: PointerEvent| {
        hand.dragging.set(false);
        // The keys go on from there.
        if let Some(handle) = handle.get_untracked() {
            handle.focus().ok();
        }
    };
    let now = move || hand.value().map(|(at, _)| written(at));
    let text = move || hand.value().map(|(_, text)| text);
    view! {
        <div class="slide" on:pointerdown=press on:pointermove=pass on:pointerup=release on:pointercancel=release>
            {children()}
            <div
                class="handle" node_ref=handle role="slider" tabindex="0" data-testid="threshold-slider" aria-label="Threshold of similarity"
                title="Drag it, or use the arrow keys" aria-valuemin="-1" aria-valuemax="1" aria-valuenow=now aria-valuetext=text style=("left", place)
                on:keydown=move |event| hand.press(&event)
            ></div>
        </div>
    }
}

/// A part in percent, with more decimals the smaller it is.
fn percent(part: f64) -> String {
    let percent = 100.0 * part;
    match percent {
        0.0 => "0 %".to_owned(),
        few if few < 0.095 => format!("{few:.3} %"),
        few if few < 9.95 => format!("{few:.2} %"),
        many => format!("{many:.1} %"),
    }
}

/// Parts of the pairs that are let in and that are missed at each similarity of the curve, on the test side or that of the fit.
fn errors(report: &ThresholdReport, tested: bool) -> [&[f64]; 2] {
    let curve = &report.curve;
    match tested {
        true => [
            &curve.test_false_match_rate,
            &curve.test_false_non_match_rate,
        ],
        false => [&curve.fit_false_match_rate, &curve.fit_false_non_match_rate],
    }
}

/// Where the plot begins: where the first pairs are, at 0 at the latest.
fn first(report: &ThresholdReport) -> f64 {
    let curve = &report.curve;
    let [let_in, missed] = errors(report, report.test.is_some());
    let begins = [
        let_in.iter().position(|rate| *rate < 0.999),
        missed.iter().position(|rate| *rate > 0.001),
    ];
    let begin = begins.into_iter().flatten().min();
    let begin = begin.and_then(|at| curve.threshold.get(at.saturating_sub(1)).copied());
    (10.0 * begin.unwrap_or(-1.0).min(0.0)).floor() / 10.0
}

/// Plot of both distributions on the side that is reported on, as the part of the pairs in each bar, and of the threshold.
fn plot(report: &ThresholdReport, at: f64) -> Plot {
    let curve = &report.curve;
    let [let_in, missed] = errors(report, report.test.is_some());
    let first = first(report);
    // The part of the pairs below each similarity rises by that of the bar; the last has what lies at 1.
    let bars = |below: &dyn Fn(f64) -> f64, rates: &[f64]| -> Vec<(f64, f64)> {
        let ends = curve
            .threshold
            .iter()
            .copied()
            .zip(rates.iter().map(|rate| below(*rate)));
        let mut ends: Vec<(f64, f64)> = ends.step_by(BAR).collect();
        ends.last_mut().into_iter().for_each(|last| last.1 = 1.0);
        let bar = |pair: &[(f64, f64)]| {
            let part = pair[1].1 - pair[0].1;
            [(pair[0].0, part), (pair[1].0, part)]
        };
        let bars = ends.windows(2).flat_map(bar);
        bars.filter(|(at, _)| *at >= first - 1e-9).collect()
    };
    let others = bars(&|let_in| 1.0 - let_in, let_in);
    let alike = bars(&|missed| missed, missed);
    let most = others
        .iter()
        .chain(&alike)
        .fold(0.0f64, |most, bar| most.max(bar.1));
    let lines = vec![
        Line::new("negative", others),
        Line::new("positive", alike),
        Line::new("ink", vec![(at.max(first), 0.0), (at.max(first), most)]),
    ];
    Plot::new(Scale::Linear, Along::new(first, 1.0), lines)
}
