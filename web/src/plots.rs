//! The four plots over the steps of a run, with their numbers: drawn from the curves of this run and the one before.

use std::collections::BTreeMap;

use leptos::prelude::*;
use nearfar::{Bytes, Diagnostics, Loss, Metrics, StepReport, Tuples, order};

use crate::chart::{Along, Line, Plot, Scale};
use crate::lens::{Axes, Chart, switch};
use crate::state::{Curves, KeptRun, State};
use crate::terms::{self, Explained, Meaning, Term};
use crate::words::grouped;

/// The lines of this run over its steps, on top of faint lines of the run before or coloured lines of the ticked runs.
fn over_steps(state: State, scale: Scale, lines: impl Fn(&Curves) -> Vec<Line>) -> Plot {
    let curves = state.curves.read();
    let beside = state.runs.beside(KeptRun::curves);
    let previous = state.previous.read();
    let previous = previous.as_ref().filter(|_| beside.is_empty());
    let solid = |curves: &Curves| {
        lines(curves)
            .into_iter()
            .filter(|line| !line.dashed && !line.pale)
    };
    let faint = previous.into_iter().flat_map(solid);
    let faint = faint.map(|line| Line {
        faint: true,
        ..line
    });
    // If a plot has several lines, the last is the one that it is named after.
    let coloured = beside.iter().filter_map(|(color, curves)| {
        let line = solid(curves).next_back()?;
        Some(Line { color, ..line })
    });
    let others = previous
        .into_iter()
        .chain(beside.iter().map(|(_, curves)| curves));
    let steps = others
        .map(Curves::step)
        .max()
        .unwrap_or(0)
        .max(curves.step());
    let planned = if curves.history.is_empty() {
        state.config.read().steps
    } else {
        curves.config.steps
    };
    let along = Along::new(0.0, planned.max(steps) as f64);
    let lines = faint.chain(coloured).chain(lines(&curves));
    Plot::new(scale, along, lines.collect())
}

fn per_step(curves: &Curves, value: impl Fn(&StepReport) -> f64) -> Vec<(f64, f64)> {
    curves
        .history
        .iter()
        .map(|report| (report.step as f64, value(report)))
        .collect()
}

/// Lines of noisy values: the values thin and pale, and over them their weighted mean so far, in which each step weighs `smoothing`
/// percent of the next one.
fn noisy(color: &'static str, points: Vec<(f64, f64)>, width: f64, smoothing: u32) -> Vec<Line> {
    if smoothing == 0 {
        return vec![Line::new(color, points).wide(width)];
    }
    let smoothing = f64::from(smoothing) / 100.0;
    let (mut sum, mut weight) = (0.0, 0.0);
    let smooth = |(step, value): &(f64, f64)| {
        sum = smoothing * sum + value;
        weight = smoothing * weight + 1.0;
        (*step, sum / weight)
    };
    let smoothed = points.iter().map(smooth).collect();
    vec![
        Line::new(color, points).pale(),
        Line::new(color, smoothed).wide(width),
    ]
}

fn per_evaluation(curves: &Curves, value: impl Fn(&Metrics) -> f64) -> Vec<(f64, f64)> {
    let scored = curves.evaluations.iter().filter_map(|evaluation| {
        let metrics = evaluation.validation.or(evaluation.train)?;
        Some((evaluation.step as f64, value(&metrics)))
    });
    scored.collect()
}

/// Points of a level line across the whole plot.
fn level(curves: &Curves, value: Option<f64>) -> Vec<(f64, f64)> {
    let steps = curves.config.steps as f64;
    value.map_or_else(Vec::new, |value| vec![(0.0, value), (steps, value)])
}

/// Name of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Name {
    /// Everyday words.
    Plain(&'static str),
    /// A term, which is shown with its explanation.
    Term(Meaning),
}

impl From<&'static str> for Name {
    fn from(name: &'static str) -> Self {
        Self::Plain(name)
    }
}

impl From<Meaning> for Name {
    fn from(term: Meaning) -> Self {
        Self::Term(term)
    }
}

/// A line's colour, name and latest number.
#[component]
pub(crate) fn Key(
    /// Colour of the line; `None` if nothing is drawn.
    #[prop(optional)]
    color: Option<&'static str>,
    #[prop(into)] name: Name,
    #[prop(optional)] dashed: bool,
    #[prop(optional)] dotted: bool,
    #[prop(optional)] pale: bool,
    /// The key is of a band of the plot, not of a line.
    #[prop(optional)]
    band: bool,
    #[prop(into)] value: Signal<String>,
    #[prop(optional)] testid: &'static str,
    /// The bare number, as the attribute `data-count`.
    #[prop(optional)]
    count: Option<Signal<u64>>,
    /// The bare number, as the attribute `data-bytes`.
    #[prop(optional)]
    bytes: Option<Signal<u64>>,
) -> impl IntoView {
    view! {
        <span class="key">
            {color.map(|color| view! { <i class:dashed=dashed class:dotted=dotted class:pale=pale class:band=band style=("--line", format!("var(--{color})"))></i> })}
            {match name {
                Name::Plain(name) => name.into_any(),
                Name::Term(term) => view! { <Term term/> }.into_any(),
            }}
            " "
            <b
                data-testid=(!testid.is_empty()).then_some(testid)
                data-count=move || count.map(|number| number.get().to_string())
                data-bytes=move || bytes.map(|number| number.get().to_string())
            >{value}</b>
        </span>
    }
}

/// Scores of the raw features on the validation side.
fn raw(curves: &Curves) -> Option<Metrics> {
    curves.baseline.raw.validation
}

/// Scores of the linear map on the validation side.
fn linear(curves: &Curves) -> Option<Metrics> {
    curves.baseline.linear?.validation
}

/// Lines of precision@1 and MAP@R: of the raw features, of the linear map, of the embeddings; a thin one of precision@1 of training
/// rows, and an upright one at the step whose head was kept, if it is not the last.
fn score_lines(curves: &Curves) -> Vec<Line> {
    let (raw, linear) = (raw(curves), linear(curves));
    let level = |value: Option<f64>| level(curves, value);
    let (precision, map) = (
        |m: &Metrics| m.precision_at_1,
        |m: &Metrics| m.mean_average_precision_at_r,
    );
    let training = curves.evaluations.iter().filter_map(|evaluation| {
        let (train, _) = evaluation.train.zip(evaluation.validation)?;
        Some((evaluation.step as f64, precision(&train)))
    });
    let kept = curves.kept_step.map(|step| step as f64);
    vec![
        Line::new("precision", training.collect()).pale(),
        Line::dashed(
            "muted",
            kept.map_or_else(Vec::new, |step| vec![(step, 0.0), (step, 1.0)]),
        ),
        Line::dashed("precision", level(raw.as_ref().map(precision))),
        Line::dashed("map", level(raw.as_ref().map(map))),
        Line::dotted("precision", level(linear.as_ref().map(precision))),
        Line::dotted("map", level(linear.as_ref().map(map))),
        Line::new("map", per_evaluation(curves, map)),
        Line::new("precision", per_evaluation(curves, precision)),
    ]
}

/// Precision@1 and MAP@R of the validation side, beside those of its raw features and of the linear map. If there are no validation
/// rows: of the training side, which has no baseline.
#[component]
pub(crate) fn PrecisionPlot(state: State) -> impl IntoView {
    let title = move || match state.curves.read().steers() {
        true => "",
        false => " on training rows",
    };
    let among = Memo::new(move |_| state.curves.read().data.validation_among_train);
    let validation = Signal::derive(move || terms::validation(among.get()));
    let plot = move || over_steps(state, Scale::Unit, score_lines);
    let last = move |value: fn(&Metrics) -> f64| {
        let scores = state.curves.read().scores_at(state.lens.pointed.get());
        scores.map_or_else(
            || "–".to_owned(),
            |metrics| format!("{:.2}", value(&metrics)),
        )
    };
    let baseline = move |of: fn(&Curves) -> Option<Metrics>| {
        Signal::derive(move || {
            of(&state.curves.read()).map_or_else(String::new, |m| {
                format!(
                    "{:.2}, {:.2}",
                    m.precision_at_1, m.mean_average_precision_at_r
                )
            })
        })
    };
    let (raw_text, linear_text) = (baseline(raw), baseline(linear));
    let text = Signal::derive(move || {
        format!(
            "Over the steps: precision at 1 is now {}, MAP at R {}; the same two of the raw features {}; of the linear map {}",
            last(|m| m.precision_at_1),
            last(|m| m.mean_average_precision_at_r),
            raw_text.get(),
            linear_text.get()
        )
    });
    view! {
        <figure>
            <figcaption>
                <h2>"Finding the class" {title}</h2>
                <span hidden=move || !state.curves.read().steers()>"on " <Explained name="validation rows" text=validation testid="scored-among"/></span>
                <Axes state/>
                <Key color="precision" name=terms::PRECISION_AT_1 value=Signal::derive(move || last(|m| m.precision_at_1))/>
                <Key color="map" name=terms::MAP_AT_R value=Signal::derive(move || last(|m| m.mean_average_precision_at_r))/>
                <Key color="muted" name=terms::RAW dashed=true value=raw_text/>
                <Key color="muted" name=terms::LINEAR_MAP dotted=true value=linear_text/>
                <Beside state/>
            </figcaption>
            <Chart testid="chart-precision" text plot state/>
        </figure>
    }
}

/// Keys of the thin line of training rows, and of the step whose head was kept; nothing where there is neither.
#[component]
fn Beside(state: State) -> impl IntoView {
    let training = Memo::new(move |_| {
        let curves = state.curves.read();
        let evaluation = curves.evaluation_at(state.lens.pointed.get())?;
        let (train, _) = evaluation.train.zip(evaluation.validation)?;
        Some(format!("{:.2}", train.precision_at_1))
    });
    let kept = Memo::new(move |_| state.curves.read().kept_step);
    let kept_text = Signal::derive(move || kept.get().map_or_else(String::new, grouped));
    let training_text = Signal::derive(move || training.get().unwrap_or_default());
    view! {
        <Show when=move || training.get().is_some()>
            <Key color="precision" pale=true name="training rows" testid="train-precision" value=training_text/>
        </Show>
        <Show when=move || kept.get().is_some()>
            <Key color="muted" dashed=true name="head of step" testid="kept-step" value=kept_text/>
        </Show>
    }
}

/// Lines of the valid, mined and active triplets or pairs.
fn mining_lines(curves: &Curves, smoothing: u32) -> Vec<Line> {
    let counts = |color, width, count: fn(&StepReport) -> u64| {
        let points = per_step(curves, |report| count(report) as f64);
        noisy(color, points, width, smoothing)
    };
    [
        counts("valid", 2.0, |report| report.mining.valid),
        // Wide, as the line of the active ones often lies on it.
        counts("mined", 4.0, |report| report.mining.mined),
        counts("active", 1.5, |report| report.mining.active),
    ]
    .concat()
}

/// The plot of triplets or pairs in words.
fn mining_text(curves: &Curves) -> String {
    let Some(report) = curves.history.last() else {
        return "Triplets of each step: none yet".to_owned();
    };
    let mining = &report.mining;
    let what = match mining.of {
        Tuples::Triplets => "Triplets",
        Tuples::Pairs => "Pairs",
    };
    format!(
        "{what} of step {}: {} valid, {} mined, {} active",
        report.step, mining.valid, mining.mined, mining.active
    )
}

/// Triplets of each step, or pairs: valid, mined, active.
#[component]
pub(crate) fn MiningPlot(state: State) -> impl IntoView {
    let lines = move |curves: &Curves| mining_lines(curves, state.lens.smoothing.get());
    let plot = move || over_steps(state, Scale::Log, lines);
    let last = move |value: fn(&StepReport) -> u64| {
        Signal::derive(move || {
            state
                .curves
                .read()
                .report_at(state.lens.pointed.get())
                .map_or(0, value)
        })
    };
    let key = move |color, name: Meaning, testid, value| {
        let number = last(value);
        let value = Signal::derive(move || grouped(number.get()));
        view! { <Key color name testid value count=number/> }
    };
    let text = Signal::derive(move || mining_text(&state.curves.read()));
    let of_pairs = Memo::new(move |_| {
        let curves = state.curves.read();
        let last = curves.history.last();
        last.is_some_and(|report| report.mining.of == Tuples::Pairs)
    });
    view! {
        <figure class="mining">
            <figcaption>
                <h2 title="Pale lines: each step. Solid lines: smoothed.">
                    {move || if of_pairs.get() { view! { <Term term=terms::PAIRS/> } } else { view! { <Term term=terms::TRIPLETS/> } }}
                    " per step"
                </h2>
                {key("valid", terms::VALID, "mining-valid", |r| r.mining.valid)}
                {key("mined", terms::MINED, "mining-mined", |r| r.mining.mined)}
                {key("active", terms::ACTIVE, "mining-active", |r| r.mining.active)}
            </figcaption>
            <Chart testid="chart-mining" text plot state/>
        </figure>
    }
}

/// Lines of device memory: the budget, the estimate for PML, each purpose, and all that is held.
fn memory_lines(curves: &Curves) -> Vec<Line> {
    let budget = curves.memory.budget_bytes;
    let mut lines = vec![
        Line::dashed(
            "budget",
            level(curves, (budget > 0).then_some(budget as f64)),
        ),
        Line::dashed("pml", per_step(curves, |r| r.pml_bytes as f64)),
        Line::new(
            "pml",
            level(
                curves,
                (curves.step_bytes > 0).then_some(curves.step_bytes as f64),
            ),
        ),
    ];
    let purposes = by_size(curves.memory.by_purpose.clone());
    for (i, (purpose, _)) in purposes.into_iter().enumerate() {
        let held = |bytes: &BTreeMap<String, u64>| bytes.get(&purpose).copied().unwrap_or(0) as f64;
        // Each value holds until the next.
        let ends = curves.purposes.iter().skip(1).map(|(step, _)| *step);
        let ends = ends.chain([curves.step()]);
        let points =
            curves.purposes.iter().zip(ends).flat_map(|(part, end)| {
                [(part.0 as f64, held(&part.1)), (end as f64, held(&part.1))]
            });
        lines.push(Line::new(shade(i), points.collect()).wide(1.2));
    }
    lines.push(Line::new("memory", per_step(curves, |r| r.memory_bytes as f64)).wide(2.5));
    lines
}

/// Device memory: in use, by purpose, and the budget; of it what the triplets or pairs of a step take, beside the estimate for the same
/// in PML, which holds them all at once.
#[component]
pub(crate) fn MemoryPlot(state: State) -> impl IntoView {
    let plot = move || {
        let mut plot = over_steps(state, Scale::LogBytes, memory_lines);
        if state.curves.read().memory.budget_bytes == 0 {
            let budget = state.config.read().budget_bytes as f64;
            let points = vec![(0.0, budget), (plot.along.last, budget)];
            plot.lines.push(Line::dashed("budget", points));
        }
        plot
    };
    // A run that is over gives memory back: with no pointer, the bytes that are held now.
    let live = Signal::derive(move || {
        let curves = state.curves.read();
        let pointed = state.lens.pointed.get();
        let report = pointed.and_then(|step| curves.report_at(Some(step)));
        report.map_or(curves.memory.live_bytes, |report| report.memory_bytes)
    });
    let peak = Signal::derive(move || state.curves.read().memory.peak_bytes);
    let budget = Signal::derive(move || match state.curves.read().memory.budget_bytes {
        0 => state.config.read().budget_bytes,
        bytes => bytes,
    });
    let step = Signal::derive(move || state.curves.read().step_bytes);
    let pml = Signal::derive(move || {
        let curves = state.curves.read();
        let report = curves.report_at(state.lens.pointed.get());
        report.map_or(0, |report| report.pml_bytes)
    });
    let text_of = |number: Signal<u64>| Signal::derive(move || Bytes(number.get()).to_string());
    let text = Signal::derive(move || {
        format!(
            "Device memory: {} in use of {}; the triplets or pairs of one step take {} of it, and in PML about {}",
            Bytes(live.get()),
            Bytes(budget.get()),
            Bytes(step.get()),
            Bytes(pml.get())
        )
    });
    view! {
        <figure>
            <figcaption>
                <h2><Term term=terms::DEVICE_MEMORY/></h2>
                <Key color="memory" name="in use" testid="memory-live" value=text_of(live) bytes=live/>
                <Key name="peak" testid="memory-peak" value=text_of(peak) bytes=peak/>
                <Key color="budget" name="budget" dashed=true testid="memory-budget" value=text_of(budget) bytes=budget/>
                <Key color="pml" name=terms::STEP_MEMORY testid="memory-step" value=text_of(step) bytes=step/>
                <Key color="pml" name=terms::PML dashed=true testid="memory-pml" value=text_of(pml) bytes=pml/>
                {memory_age(state)}
            </figcaption>
            <Chart testid="chart-memory" text plot state/>
            <Purposes
                testid="memory-by-purpose" parts=Signal::derive(move || state.curves.read().memory.by_purpose.clone())
            />
        </figure>
    }
}

/// Age of the rows of the cross-batch memory, if there is one.
fn memory_age(state: State) -> impl IntoView {
    let age = move || {
        let curves = state.curves.read();
        let age = curves.age.filter(|_| curves.config.memory() > 0)?;
        let (mean, oldest) = (age.mean, age.oldest);
        Some(format!(
            " are {mean:.1} steps old on average, {oldest} at most."
        ))
    };
    view! { <span class="muted" data-testid="memory-age" hidden=move || age().is_none()><Term term=terms::MEMORY_AGE/> {age}</span> }
}

/// Bytes held for each purpose, the most first.
fn by_size(parts: BTreeMap<String, u64>) -> Vec<(String, u64)> {
    let mut parts: Vec<_> = parts.into_iter().collect();
    order::sort_by_key(&mut parts, |(_, bytes)| std::cmp::Reverse(*bytes));
    parts
}

/// The colour of the purpose that holds the `i`-th most.
fn shade(i: usize) -> &'static str {
    const SHADES: [&str; 8] = [
        "purpose0", "purpose1", "purpose2", "purpose3", "purpose4", "purpose5", "purpose6",
        "purpose7",
    ];
    SHADES[i.min(SHADES.len() - 1)]
}

/// Memory by purpose, as parts of a bar in the colours of the thin lines of the plot.
#[component]
pub(crate) fn Purposes(
    /// The `data-testid` of the bar.
    testid: &'static str,
    /// The bytes of each purpose.
    #[prop(into)]
    parts: Signal<BTreeMap<String, u64>>,
) -> impl IntoView {
    let spans = move || {
        let parts = by_size(parts.get());
        let total = parts.iter().map(|(_, bytes)| *bytes).sum::<u64>().max(1) as f64;
        let part = |(i, (name, bytes)): (usize, (String, u64))| {
            let share = 100.0 * bytes as f64 / total;
            let name = name.replace('_', " ");
            let title = format!("{name}: {}", Bytes(bytes));
            let text = (share > 11.0).then(|| format!("{name} {}", Bytes(bytes)));
            let [back, front] = ["", "on-"].map(|of| format!("var(--{of}{})", shade(i)));
            view! {
                <span style=("flex-grow", share.to_string()) style=("background", back) style=("color", front) title=title>{text}</span>
            }
        };
        parts.into_iter().enumerate().map(part).collect_view()
    };
    view! { <div class="purposes" data-testid=testid>{spans}</div> }
}

/// Line of the loss. A step without an active triplet has no loss to show.
fn loss_lines(curves: &Curves, smoothing: u32) -> Vec<Line> {
    let reports = curves.history.iter();
    let active = reports.filter(|report| report.mining.active > 0);
    let points = active.map(|report| (report.step as f64, report.loss));
    noisy("loss", points.collect(), 2.0, smoothing)
}

/// Controls of the smoothing and of the axis of the loss.
fn loss_tools(state: State) -> impl IntoView {
    view! {
        <span class="tools">
            <label title="How smooth the solid lines are. The pale lines show each step as it is">
                "smooth"
                <input
                    type="range" min="0" max="99" data-testid="smoothing"
                    prop:value=move || state.lens.smoothing.get().to_string()
                    on:input=move |event| state.lens.smoothing.set(event_target_value(&event).parse().unwrap_or(0))
                />
            </label>
            {switch("log-loss", state.lens.log_loss, "log", "A logarithmic axis: powers of ten go up it")}
        </span>
    }
}

/// The loss of each batch.
#[component]
pub(crate) fn LossPlot(state: State) -> impl IntoView {
    let lines = move |curves: &Curves| loss_lines(curves, state.lens.smoothing.get());
    let plot = move || {
        let scale = match state.lens.log_loss.get() {
            true => Scale::Decades,
            false => Scale::Linear,
        };
        Plot {
            clips: state.lens.clips_loss.get(),
            ..over_steps(state, scale, lines)
        }
    };
    let last = Signal::derive(move || {
        let curves = state.curves.read();
        let report = curves.report_at(state.lens.pointed.get());
        report.map_or_else(|| "–".to_owned(), |report| format!("{:.5}", report.loss))
    });
    let text = Signal::derive(move || format!("The loss of each batch, now {}", last.get()));
    let diagnosed = move |of: fn(&Diagnostics, usize) -> Option<String>| {
        Signal::derive(move || {
            let curves = state.curves.read();
            let last = curves.evaluations.last();
            let text = last.and_then(|last| of(&last.diagnostics, curves.config.embedding_size));
            text.unwrap_or_else(|| "–".to_owned())
        })
    };
    let gradient = diagnosed(|it, _| it.gradient_norm.map(|norm| format!("{norm:.3}")));
    let similarity = diagnosed(|it, _| Some(format!("{:.2}", it.mean_similarity)));
    let rank = diagnosed(|it, of| Some(format!("{:.1} of {of}", it.effective_rank)));
    let boundary = diagnosed(|it, _| it.boundary.map(|boundary| format!("{boundary:.3}")));
    let learns = Memo::new(move |_| {
        let curves = state.curves.read();
        matches!(&curves.config.loss, Loss::Margin(loss) if loss.learn_beta)
    });
    view! {
        <figure>
            <figcaption>
                <h2 title="Pale line: each batch. Solid line: smoothed."><Term term=terms::LOSS/></h2>
                <Key color="loss" name="of each batch" testid="loss" value=last/>
                <Key name=terms::GRADIENT_NORM testid="gradient-norm" value=gradient/>
                <Key name=terms::MEAN_SIMILARITY testid="mean-similarity" value=similarity/>
                <Key name=terms::EFFECTIVE_RANK testid="effective-rank" value=rank/>
                <Show when=move || learns.get()>
                    <Key name=terms::BOUNDARY testid="boundary" value=boundary/>
                </Show>
                {loss_tools(state)}
            </figcaption>
            <Chart testid="chart-loss" text plot state/>
        </figure>
    }
}
