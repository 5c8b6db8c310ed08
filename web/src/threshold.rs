//! Threshold of similarity from which on two rows are taken for the same class: the button, the sentence, and both error rates over
//! the similarity.

use leptos::prelude::*;
use nearfar::{PairRates, ThresholdReport};

use crate::chart::{Along, Canvas, Line, Plot, Scale};
use crate::controls::entered;
use crate::plots::Key;
use crate::session::Session;
use crate::state::threshold::Shown;
use crate::state::{Phase, State};
use crate::terms::{self, About};

/// False match rates to choose from, with their text.
const RATES: [(&str, &str); 5] = [
    ("", "as few as the pairs can tell"),
    ("0.1", "1 in 10"),
    ("0.01", "1 in 100"),
    ("0.001", "1 in 1,000"),
    ("0.0001", "1 in 10,000"),
];

/// Rates of the side that is reported on: the test side, or that of the fit without one.
fn reported(report: &ThresholdReport) -> &PairRates {
    report.test.as_ref().unwrap_or(&report.fit)
}

/// Panel of the threshold, shown once a run is over. The threshold is fitted on the validation rows, and reported on the test rows.
#[component]
pub(crate) fn Threshold(state: State, session: Session) -> impl IntoView {
    let shown = state.threshold;
    let rate = RwSignal::new(String::new());
    let looking = move || *shown.read() == Shown::Looking;
    let over = move || state.phase.get() == Phase::Finished;
    let text = move || match looking() {
        true => "Stop",
        false => "Find a threshold",
    };
    let find = move || {
        if over() {
            session.find_threshold(entered(&rate.get_untracked()));
        }
    };
    // An answer stands beside the rate that it was found for: another rate asks again.
    let choose = move |event| {
        rate.set(event_target_value(&event));
        let answered = !matches!(*shown.read_untracked(), Shown::Nothing | Shown::Looking);
        if answered {
            find();
        }
    };
    let options = RATES.map(|(value, name)| view! { <option value=value>{name}</option> });
    let said = move || match &*shown.read() {
        Shown::Nothing => "Fitted on the validation rows, reported on the test rows.".to_owned(),
        Shown::Looking => "Counting pairs ..".to_owned(),
        Shown::Refused(why) => format!("There is none: {why}."),
        Shown::Found(report) => report.sentence.clone(),
    };
    let notes = move || {
        let shown = shown.read();
        let notes = shown.report().map_or(&[][..], |report| &report.notes);
        let notes = notes.iter().cloned().map(|note| view! { <li>{note}</li> });
        notes.collect_view()
    };
    let bare = move || {
        shown
            .read()
            .report()
            .map(|report| report.threshold.to_string())
    };
    let off = move || if over() { "false" } else { "true" };
    view! {
        <div class="threshold" class:with-plot=move || shown.read().report().is_some() hidden=move || !over() data-testid="threshold">
            <div class="ask">
                <button data-testid="find-threshold" aria-disabled=off on:click=move |_| find()>{text}</button>
                <label>
                    "Pairs of different classes let in: "
                    <select data-testid="threshold-rate" on:change=choose>{options}</select>
                </label>
                <About
                    of="a threshold" text="The similarity from which on two rows are taken for the same. The higher it is, the fewer pairs of different classes are let in, and the more pairs of the same class are missed: say how many may be let in."
                />
            </div>
            <p role="status" data-testid="threshold-sentence" data-threshold=bare>{said}</p>
            <ul class="muted" data-testid="threshold-notes">{notes}</ul>
            <Show when=move || shown.read().report().is_some()><Rates state/></Show>
        </div>
    }
}

/// Plot of both rates over the similarity, with the threshold.
#[component]
fn Rates(state: State) -> impl IntoView {
    let shown = state.threshold;
    let of = move |value: fn(&ThresholdReport) -> f64| {
        Signal::derive(move || {
            let shown = shown.read();
            shown
                .report()
                .map_or_else(String::new, |report| percent(value(report)))
        })
    };
    let nothing = || Plot::new(Scale::Unit, Along::new(0.0, 1.0), Vec::new());
    let pointed = RwSignal::new(None);
    let plot = move || {
        let shown = shown.read();
        let report = shown.report();
        let plot = report.map_or_else(nothing, plot);
        plot.saying(pointed.get(), |at| {
            let rates = report.and_then(|report| rates_at(report, at));
            let rates = rates.map(|[let_in, missed]| {
                format!(": {} let in, {} missed", percent(let_in), percent(missed))
            });
            format!("{at:.2}{}", rates.unwrap_or_default())
        })
    };
    let text = Signal::derive(move || {
        shown.read().report().map_or_else(String::new, |report| {
            let rates = reported(report);
            format!(
                "False match rate and false non-match rate over the similarity: at the threshold, {}, they are {} and {}; they are \
                 equal at {:.2}, with {}",
                report.threshold,
                percent(rates.false_match_rate),
                percent(rates.false_non_match_rate),
                rates.equal_error_threshold,
                percent(rates.equal_error_rate)
            )
        })
    });
    view! {
        <figure>
            <figcaption>
                <Key color="negative" name=terms::FALSE_MATCH testid="threshold-fmr" value=of(|r| reported(r).false_match_rate)/>
                <Key color="positive" name=terms::FALSE_NON_MATCH testid="threshold-fnmr" value=of(|r| reported(r).false_non_match_rate)/>
                <Key name=terms::EQUAL_ERROR testid="threshold-eer" value=of(|r| reported(r).equal_error_rate)/>
            </figcaption>
            <Canvas testid="chart-threshold" text plot state pointed/>
        </figure>
    }
}

/// The false match rate and the false non-match rate of the side that is reported on, at the curve's first threshold from a
/// similarity on.
fn rates_at(report: &ThresholdReport, at: f64) -> Option<[f64; 2]> {
    let curve = &report.curve;
    let rates = match report.test {
        Some(_) => [
            &curve.test_false_match_rate,
            &curve.test_false_non_match_rate,
        ],
        None => [&curve.fit_false_match_rate, &curve.fit_false_non_match_rate],
    };
    let past = curve.threshold.partition_point(|threshold| *threshold < at);
    let place = past.min(curve.threshold.len().checked_sub(1)?);
    Some([*rates[0].get(place)?, *rates[1].get(place)?])
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

/// Plot of both rates: dashed on the side of the fit, solid on the side that is reported on. It begins where the first pairs of
/// different classes are kept out, at 0 at the latest.
fn plot(report: &ThresholdReport) -> Plot {
    let curve = &report.curve;
    let sides = [
        (&curve.fit_false_match_rate, &curve.fit_false_non_match_rate),
        (
            &curve.test_false_match_rate,
            &curve.test_false_non_match_rate,
        ),
    ];
    let begins = |rates: &Vec<f64>| rates.iter().position(|rate| *rate < 0.999);
    let begin = sides.iter().filter_map(|(let_in, _)| begins(let_in)).min();
    let first = begin.map_or(-1.0, |at| curve.threshold[at]).min(0.0);
    let first = (10.0 * first).floor() / 10.0;
    let points = |rates: &[f64]| {
        let points = curve.threshold.iter().copied().zip(rates.iter().copied());
        points.filter(|(at, _)| *at >= first).collect::<Vec<_>>()
    };
    let tested = report.test.is_some();
    let mut lines = Vec::new();
    for ((let_in, missed), is_test) in sides.into_iter().zip([false, true]) {
        for (color, rates) in [("negative", let_in), ("positive", missed)] {
            match is_test || !tested {
                true => lines.push(Line::new(color, points(rates))),
                false => lines.push(Line::dashed(color, points(rates))),
            }
        }
    }
    let at = report.threshold;
    lines.push(Line::new("muted", vec![(at, 0.0), (at, 1.0)]).wide(1.5));
    Plot::new(Scale::Unit, Along::new(first, 1.0), lines)
}
