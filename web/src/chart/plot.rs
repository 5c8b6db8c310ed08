//! Content of a plot: its lines, and what is marked on it.

use super::axes::{Along, Scale};

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
