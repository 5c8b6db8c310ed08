//! [`Canvas`]: one plot on a canvas, by plotters. Knows lines and scales, not what they mean.

use leptos::prelude::*;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters_canvas::CanvasBackend;
use wasm_bindgen::prelude::*;
use web_sys::{Event, HtmlCanvasElement, MouseEvent};
use web_time::Duration;

use crate::frame::{fit, redraw};
use crate::state::State;
use crate::theme;
use nearfar::order;

/// Scale of the vertical axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scale {
    /// From 0 to 1.
    Unit,
    /// From 0 to the largest value.
    Linear,
    /// Powers of ten, from the smallest value of at least 1; zeros stand on a level of their own below.
    Log,
    /// Powers of ten of any size, from the smallest value above zero; zeros stand at the lower end.
    Decades,
    /// Powers of two with byte units, from the smallest value of at least 1; zeros as in [`Scale::Log`].
    LogBytes,
}

/// One line of a plot.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// A colour of `style.css`.
    pub(crate) color: &'static str,
    /// `(step, value)`, ascending.
    pub(crate) points: Vec<(f64, f64)>,
    /// In CSS pixels.
    pub(crate) width: f64,
    /// Dashed: a baseline, a bound or an estimate.
    pub(crate) dashed: bool,
    /// Shorter dashes (dots): another baseline.
    pub(crate) dotted: bool,
    /// Drawn faintly: a line of the previous run.
    pub(crate) faint: bool,
    /// Drawn pale: the single values behind their smoothed line.
    pub(crate) pale: bool,
}

/// Content of a plot.
#[derive(Clone, Debug)]
pub(crate) struct Plot {
    pub(crate) scale: Scale,
    pub(crate) along: Along,
    /// The axis ignores outliers, one value in twenty at either end; those are drawn on its edges.
    pub(crate) clips: bool,
    pub(crate) lines: Vec<Line>,
    /// Range of the horizontal axis that is highlighted.
    pub(crate) band: Option<(f64, f64)>,
    /// Value under the pointer on the horizontal axis, and the words that are shown there.
    pub(crate) pointed: Option<(f64, String)>,
}

impl Plot {
    /// A plot of lines alone.
    pub(crate) fn new(scale: Scale, along: Along, lines: Vec<Line>) -> Self {
        Self {
            scale,
            along,
            clips: false,
            lines,
            band: None,
            pointed: None,
        }
    }

    /// Adds a line under the pointer, at `share` of the horizontal axis, with the words for the value there.
    pub(crate) fn saying(mut self, share: Option<f64>, words: impl Fn(f64) -> String) -> Self {
        let at = share.map(|share| self.along.at(share));
        self.pointed = at.map(|at| (at, words(at)));
        self
    }
}

impl Line {
    /// A solid line.
    pub(crate) fn new(color: &'static str, points: Vec<(f64, f64)>) -> Self {
        Self {
            color,
            points,
            width: 2.0,
            dashed: false,
            dotted: false,
            faint: false,
            pale: false,
        }
    }

    /// A dashed line.
    pub(crate) fn dashed(color: &'static str, points: Vec<(f64, f64)>) -> Self {
        Self {
            dashed: true,
            width: 1.5,
            ..Self::new(color, points)
        }
    }

    /// A dotted line.
    pub(crate) fn dotted(color: &'static str, points: Vec<(f64, f64)>) -> Self {
        Self {
            dotted: true,
            width: 2.0,
            ..Self::dashed(color, points)
        }
    }

    /// Part of the line between two values of the horizontal axis, interpolated at both ends.
    pub(crate) fn between(mut self, first: f64, last: f64) -> Self {
        let points = &self.points;
        let begin = points.partition_point(|point| point.0 < first);
        let end = points.partition_point(|point| point.0 <= last);
        // Interpolates at `at`, between the points `next - 1` and `next`.
        let crossing = |next: usize, at: f64| {
            let (from, to) = (points.get(next.checked_sub(1)?)?, points.get(next)?);
            let share = (at - from.0) / (to.0 - from.0);
            Some((at, from.1 + share * (to.1 - from.1)))
        };
        let enters = crossing(begin, first);
        let leaves = crossing(end, last);
        let inside = points[begin..end].iter().copied();
        self.points = enters.into_iter().chain(inside).chain(leaves).collect();
        self
    }

    /// Makes the line thin and pale.
    pub(crate) fn pale(self) -> Self {
        Self {
            pale: true,
            ..self.wide(1.0)
        }
    }

    /// Changes the line's width, in CSS pixels.
    pub(crate) fn wide(self, width: f64) -> Self {
        Self { width, ..self }
    }
}

/// The horizontal axis: steps, mostly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Along {
    pub(crate) first: f64,
    pub(crate) last: f64,
    /// Logarithmic; values below 1 stand where 1 does.
    pub(crate) log: bool,
}

impl Along {
    /// A linear axis from `first` to `last`.
    pub(crate) fn new(first: f64, last: f64) -> Self {
        let log = false;
        Self { first, last, log }
    }

    /// Place of a value on the axis.
    pub(crate) fn place(self, value: f64) -> f64 {
        match self.log {
            true => value.max(1.0).log10(),
            false => value,
        }
    }

    /// Value at a place of the axis.
    pub(crate) fn value(self, place: f64) -> f64 {
        match self.log {
            true => 10f64.powf(place),
            false => place,
        }
    }

    /// Shortest range that is shown, in places.
    pub(crate) fn least(self) -> f64 {
        if self.log { 0.02 } else { 1.0 }
    }

    /// The places of the two ends.
    pub(crate) fn ends(self) -> (f64, f64) {
        let (low, high) = (self.place(self.first), self.place(self.last));
        (low, high.max(low + self.least()))
    }

    /// Value at a share of the axis: 0 is the first end, 1 the last.
    pub(crate) fn at(self, share: f64) -> f64 {
        let (low, high) = self.ends();
        self.value(low + share * (high - low))
    }
}

impl Ranged for Along {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, limit: (i32, i32)) -> i32 {
        RangedCoordf64::from(self.range()).map(place, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        let (low, high) = self.ends();
        if self.log {
            // 1, 2 and 5 times each power of ten; 1 alone if there are many powers.
            let digits: &[f64] = match high - low > 2.2 {
                true => &[1.0],
                false => &[1.0, 2.0, 5.0],
            };
            let powers = low.floor() as i32..=high.floor() as i32;
            let ticks = powers.flat_map(|power| {
                let one = 10f64.powi(power);
                digits.iter().map(move |digit| (digit * one).log10())
            });
            let ticks: Vec<f64> = ticks.filter(|at| (low..=high).contains(at)).collect();
            if ticks.len() > 1 {
                return ticks;
            }
        }
        // A linear axis, or too few such ticks: even steps between the values.
        let values = RangedCoordf64::from(self.value(low)..self.value(high)).key_points(5);
        values.into_iter().map(|value| self.place(value)).collect()
    }

    fn range(&self) -> std::ops::Range<f64> {
        let (low, high) = self.ends();
        low..high
    }
}

impl ValueFormatter<f64> for Along {
    fn format(place: &f64) -> String {
        place.to_string()
    }

    fn format_ext(&self, place: &f64) -> String {
        let decimals = usize::from(self.last - self.first <= 2.0);
        format!("{:.decimals$}", self.value(*place))
    }
}

/// The vertical axis.
#[derive(Clone, Copy, Debug)]
struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
    /// Place of zeros, if the scale has none for them.
    zero: Option<f64>,
    /// Most labels that have room.
    most: usize,
}

impl Axis {
    fn new(plot: &Plot, most: usize) -> Self {
        let points = plot.lines.iter().flat_map(|line| &line.points);
        let mut values: Vec<f64> = points.map(|point| point.1).collect();
        if plot.clips {
            order::sort_by(&mut values, f64::total_cmp);
            let out = values.len() / 20;
            values = values[out..values.len() - out].to_vec();
        }
        let scale = plot.scale;
        let (low, high) = scale.range(&values);
        let zero = match scale {
            Scale::Unit | Scale::Linear | Scale::Decades => None,
            _ if values.iter().all(|value| *value >= 1.0) => None,
            Scale::Log => Some(low - 1.0),
            Scale::LogBytes => Some(low - 0.3),
        };
        Self {
            scale,
            low: zero.unwrap_or(low),
            high,
            zero,
            most,
        }
    }

    /// Place of a value on the axis.
    fn place(&self, value: f64) -> f64 {
        match self.zero {
            Some(zero) if value < 1.0 => zero,
            _ => self.scale.place(value).clamp(self.low, self.high),
        }
    }

    /// Places of the grid lines and their labels.
    fn ticks(&self) -> Vec<f64> {
        let (from, most) = match self.zero {
            // Zero has a tick of its own; no other is so near that their labels would touch.
            Some(zero) => (zero + 0.2 * (self.high - zero), self.most - 1),
            None => (self.low, self.most),
        };
        let ticks = match self.scale {
            Scale::Log => {
                let (first, last) = (from.ceil() as i64, self.high.floor() as i64);
                let step = ((last - first) / most as i64 + 1).max(1) as usize;
                (first..=last)
                    .step_by(step)
                    .map(|power| power as f64)
                    .collect()
            }
            _ => RangedCoordf64::from(from..self.high).key_points(most),
        };
        self.zero.into_iter().chain(ticks).collect()
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, limit: (i32, i32)) -> i32 {
        RangedCoordf64::from(self.range()).map(place, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks()
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for Axis {
    fn format(place: &f64) -> String {
        place.to_string()
    }

    fn format_ext(&self, place: &f64) -> String {
        if self.zero == Some(*place) {
            return "0".to_owned();
        }
        self.scale.label(*place)
    }
}

impl Scale {
    /// Place of a value above zero on the axis.
    fn place(self, value: f64) -> f64 {
        match self {
            Self::Unit | Self::Linear => value,
            Self::Log => value.max(1.0).log10(),
            Self::Decades => value.max(f64::MIN_POSITIVE).log10(),
            // A whole number is a unit of its own: 1 is KiB, 2 is MiB.
            Self::LogBytes => value.max(1.0).log2() / 10.0,
        }
    }

    /// The two ends of the axis, zeros left out.
    fn range(self, values: &[f64]) -> (f64, f64) {
        let values = values.iter().copied();
        let largest = values.clone().fold(f64::MIN, f64::max);
        let least = if self == Self::Decades {
            f64::MIN_POSITIVE
        } else {
            1.0
        };
        let smallest = values
            .filter(|value| *value >= least)
            .fold(f64::MAX, f64::min);
        match self {
            Self::Unit => (0.0, 1.0),
            Self::Linear => (0.0, if largest > 0.0 { 1.1 * largest } else { 1.0 }),
            Self::Log if smallest > largest => (0.0, 5.0),
            Self::Decades if smallest > largest => (-3.0, 0.0),
            Self::Decades => (self.place(smallest) - 0.05, self.place(largest) + 0.05),
            Self::LogBytes if smallest > largest => (1.0, 3.0),
            Self::Log => {
                let low = self.place(smallest).floor();
                (low, (self.place(largest) + 0.2).max(low + 1.0))
            }
            Self::LogBytes if smallest == largest => {
                let place = self.place(smallest);
                (place - 1.0, place + 0.3)
            }
            Self::LogBytes => (self.place(smallest) - 0.1, self.place(largest) + 0.1),
        }
    }

    fn label(self, place: f64) -> String {
        const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
        const COUNTS: [&str; 5] = ["", "k", "M", "G", "T"];
        match self {
            Self::Unit => format!("{place:.1}"),
            Self::Linear if place == 0.0 => "0".to_owned(),
            Self::Linear => format!("{place:.2}"),
            Self::Decades => match 10f64.powf(place) {
                value if value >= 0.1 => format!("{value:.2}"),
                value => format!("{value:.5}"),
            },
            Self::Log => {
                let power = place.round();
                // Only whole powers of ten get a label.
                if (place - power).abs() > 0.01 || !(0.0..15.0).contains(&power) {
                    return String::new();
                }
                format!(
                    "{}{}",
                    10u32.pow(power as u32 % 3),
                    COUNTS[power as usize / 3]
                )
            }
            Self::LogBytes => {
                let power = (10.0 * place).round();
                if (10.0 * place - power).abs() > 0.1 || !(0.0..60.0).contains(&power) {
                    return String::new();
                }
                format!(
                    "{} {}",
                    1u32 << (power as u32 % 10),
                    UNITS[power as usize / 10]
                )
            }
        }
    }
}

/// A plot is drawn ten times a second at most: steps come faster than anybody sees.
const PAUSE: Duration = Duration::from_millis(100);
/// Room of the axes beside the lines, in CSS pixels.
const LEFT: f64 = 54.0;
const RIGHT: f64 = 20.0;
const BELOW: f64 = 20.0;
const ABOVE: f64 = 6.0;
/// Height of an axis label with the space around it, in CSS pixels.
const LABEL: f64 = 20.0;

/// Position of an event along a plot's horizontal axis: 0 is the first end, 1 the last.
pub(crate) fn share_of(event: &MouseEvent) -> f64 {
    let canvas = canvas_of(event).map_or(0, |canvas| canvas.client_width());
    let width = f64::from(canvas) - LEFT - RIGHT;
    (f64::from(event.offset_x()) - LEFT) / width.max(1.0)
}

/// The canvas of an event.
pub(crate) fn canvas_of(event: &Event) -> Option<HtmlCanvasElement> {
    event.target()?.dyn_into().ok()
}

/// Sets `pointed` to the pointer's share of the horizontal axis; `None` if the pointer is off it.
fn follow(pointed: RwSignal<Option<f64>>) -> Told {
    Told {
        of: &["pointermove", "pointerleave"],
        to: Callback::new(move |event: Event| {
            let share = share_of(event.unchecked_ref());
            let is_on = event.type_() == "pointermove" && (0.0..=1.0).contains(&share);
            pointed.set(is_on.then_some(share));
        }),
    }
}

/// A callback, and the names of the events that it receives.
#[derive(Clone, Copy)]
pub(crate) struct Told {
    pub(crate) of: &'static [&'static str],
    pub(crate) to: Callback<Event>,
}

/// A canvas that draws `plot` again whenever something it reads changes.
#[component]
pub(crate) fn Canvas(
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
    /// Receives events of the canvas.
    #[prop(optional)]
    told: Option<Told>,
    /// The pointer's share of the horizontal axis, if the plot shows the value there.
    #[prop(optional)]
    pointed: Option<RwSignal<Option<f64>>>,
) -> impl IntoView {
    let canvas = NodeRef::<leptos::html::Canvas>::new();
    if let Some(told) = told.or(pointed.map(follow)) {
        Effect::new(move || {
            let Some(canvas) = canvas.get() else { return };
            let tell = Closure::<dyn Fn(Event)>::new(move |event| {
                told.to.try_run(event);
            });
            let listener = tell.as_ref().unchecked_ref();
            for name in told.of {
                canvas.add_event_listener_with_callback(name, listener).ok();
            }
            tell.forget();
        });
    }
    redraw(
        canvas,
        PAUSE,
        move || {
            state.track_plots();
            pointed.iter().for_each(Track::track);
        },
        move |canvas| {
            // The callback may be gone by the time its frame comes.
            if let Some(plot) = plot.try_run(()) {
                draw(canvas, &plot);
            }
        },
    );
    view! { <canvas node_ref=canvas data-testid=testid role="img" aria-label=text></canvas> }
}

/// Draws on a canvas in device pixels, at its size on the page.
fn draw(canvas: &HtmlCanvasElement, plot: &Plot) {
    let (_, _, ratio) = fit(canvas);
    if canvas.client_width() < 40 || canvas.client_height() < 40 {
        return;
    }
    if let Some(backend) = CanvasBackend::with_canvas_object(canvas.clone()) {
        // The only errors are those of a canvas that is gone.
        paint(backend, plot, ratio).ok();
    }
}

fn paint<B: DrawingBackend>(
    backend: B,
    plot: &Plot,
    ratio: f64,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    let rgb = |name| {
        let (r, g, b) = theme::color(name);
        RGBColor(r, g, b)
    };
    let px = |css: f64| (css * ratio).round() as i32;
    let root = backend.into_drawing_area();
    let width = f64::from(root.dim_in_pixel().0);
    let height = f64::from(root.dim_in_pixel().1) / ratio - ABOVE - BELOW;
    let axis = Axis::new(plot, (height / LABEL).clamp(2.0, 5.0) as usize);
    let (low, high) = (axis.low, axis.high);
    let along = plot.along;
    let (first, last) = along.ends();
    // Built as `FontFamily::Name`: a font that is given as text is looked up by plotters in lower case, by tables of every letter.
    let font = FontFamily::Name("system-ui, sans-serif");
    let text = FontDesc::new(font, px(13.0).into(), FontStyle::Normal).color(&rgb("muted"));
    let mut chart = ChartBuilder::on(&root)
        .margin_top(px(ABOVE))
        .margin_right(px(RIGHT))
        .x_label_area_size(px(BELOW))
        .y_label_area_size(px(LEFT))
        .build_cartesian_2d(along, axis)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(rgb("grid"))
        .axis_style(rgb("grid"))
        .label_style(text.clone())
        .x_labels(5)
        .draw()?;
    if let Some((from, to)) = plot.band {
        let (from, to) = (along.place(from), along.place(to));
        let corners = [(from.max(first), low), (to.min(last), high)];
        let inside = rgb("band").mix(0.25).filled();
        chart.draw_series([Rectangle::new(corners, inside)])?;
        let edge = rgb("band").stroke_width(px(1.5) as u32);
        chart.draw_series(LineSeries::new([(to, low), (to, high)], edge))?;
    }
    if let Some((at, _)) = &plot.pointed {
        let at = along.place(*at);
        let style = rgb("grid-strong").stroke_width(px(1.0) as u32);
        chart.draw_series(LineSeries::new([(at, low), (at, high)], style))?;
    }
    for line in &plot.lines {
        let alpha = match (line.faint, line.pale) {
            (_, true) => 0.22,
            (true, false) => 0.35,
            (false, false) => 1.0,
        };
        let style = rgb(line.color)
            .mix(alpha)
            .stroke_width(px(line.width).max(1) as u32);
        let points = thin(&line.points, width as usize)
            .into_iter()
            .map(|(step, value)| (along.place(step), axis.place(value)));
        if let [(step, value)] = line.points[..] {
            // One point makes no line.
            let dot = Circle::new(
                (along.place(step), axis.place(value)),
                px(2.5),
                style.filled(),
            );
            chart.draw_series([dot])?;
        } else if line.dashed {
            let (dash, gap) = if line.dotted { (1.5, 4.0) } else { (5.0, 4.0) };
            let series = DashedLineSeries::new(points, px(dash) as u32, px(gap) as u32, style);
            chart.draw_series(series)?;
        } else {
            chart.draw_series(LineSeries::new(points, style))?;
        }
    }
    if let Some((at, words)) = &plot.pointed {
        let at = along.place(*at);
        // On the side that has more room.
        let (side, beside) = match at < (first + last) / 2.0 {
            true => (HPos::Left, px(5.0)),
            false => (HPos::Right, -px(5.0)),
        };
        let color = rgb("ink");
        let style = text.color(&color).pos(Pos::new(side, VPos::Top));
        let words = EmptyElement::at((at, high)) + Text::new(words.clone(), (beside, 0), style);
        chart.draw_series([words])?;
    }
    root.present()
}

/// Thins points to about one a pixel: the least and the largest of each stretch.
fn thin(points: &[(f64, f64)], pixels: usize) -> Vec<(f64, f64)> {
    let stretch = points.len() / pixels.max(1);
    if stretch < 2 {
        return points.to_vec();
    }
    let ends = |part: &[(f64, f64)]| {
        let least = part.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1));
        let largest = part.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
        let mut ends: Vec<_> = least.into_iter().chain(largest).collect();
        order::sort_by(&mut ends, |a, b| a.0.total_cmp(&b.0));
        ends
    };
    points.chunks(2 * stretch).flat_map(ends).collect()
}
