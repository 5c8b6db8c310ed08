//! Places of an anchor's references on a line of similarity: positives stacked above it, negatives below.

use nearfar::{AnchorReference, Distance, OneAnchor, order};

/// Height of the picture, and where the stacks of positives and of negatives begin and the numbers of the axis stand, in pixels
/// from the top.
pub(super) const HEIGHT: f64 = 220.0;
pub(super) const POSITIVES: f64 = 88.0;
pub(super) const NEGATIVES: f64 = 94.0;
pub(super) const AXIS: f64 = 184.0;
/// Height of the two lines of names above the positives.
pub(super) const NAMES: f64 = 36.0;

/// Distance of two references that stand beside each other, in percent of the width, and above each other, in pixels.
const BESIDE: f64 = 2.4;
const ABOVE: f64 = 9.0;
/// Radius of a reference without a slope, and what the steepest has more.
const LEAST: f64 = 2.5;
const MORE: f64 = 3.0;
/// The margins of the line at both ends, in percent.
const EDGE: f64 = 3.0;
/// The most numbers on the axis.
const TICKS: f64 = 7.0;

/// The line: its values from one end to the other. A value is a similarity, or minus a distance.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    low: f64,
    high: f64,
    distance: Distance,
}

impl Line {
    /// The line on which everything that is listed of an anchor stands, before the step and after it, and the band with it.
    pub(super) fn of(seen: &OneAnchor) -> Self {
        let values = seen.listed.iter().flat_map(|other| other.stands);
        let mut values: Vec<f64> = values.map(|stand| f64::from(stand.value)).collect();
        let bands = [0, 1].into_iter().filter_map(|side| band(seen, side));
        values.extend(bands.flat_map(|(low, high)| [low, high]));
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (low, high) = match low < high {
            true => (low, high),
            // Nothing, or all in one place.
            false => (low.min(1.0) - 0.1, low.min(1.0) + 0.1),
        };
        Self {
            low,
            high,
            distance: seen.distance,
        }
    }

    /// Place of a value in percent of the width.
    pub(super) fn x(&self, value: f64) -> f64 {
        EDGE + (100.0 - 2.0 * EDGE) * (value - self.low) / (self.high - self.low)
    }

    /// Values with a number on the axis, and the numbers.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        let steps = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0];
        let length = self.high - self.low;
        let step = steps.into_iter().find(|step| length / step <= TICKS);
        let step = step.unwrap_or(2.0);
        let (first, last) = ((self.low / step).ceil() as i64, (self.high / step) as i64);
        let ticks = (first..=last).map(|at| at as f64 * step);
        let digits = if step < 0.1 { 2 } else { 1 };
        ticks
            .map(|value| (value, format!("{:.digits$}", shown(self.distance, value))))
            .collect()
    }
}

/// A value as it is shown: a similarity, or a distance.
pub(super) fn shown(distance: Distance, value: f64) -> f64 {
    match distance {
        Distance::Cosine => value,
        // No minus before a zero.
        Distance::L2 => (-value).max(0.0),
    }
}

/// The values of semi-hard negatives: from the chosen positive's, less the margin, to the positive's.
pub(super) fn band(seen: &OneAnchor, side: usize) -> Option<(f64, f64)> {
    let margin = seen.margins[0].or(seen.margins[1])?;
    let high = f64::from(seen.listed[seen.positive?].stands[side].value);
    Some((high - f64::from(margin), high))
}

/// A reference as it is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Dot {
    /// In percent of the width.
    pub(super) x: f64,
    /// In pixels from the top.
    pub(super) y: f64,
    pub(super) radius: f64,
}

/// The listed references, in their order, on a side: those that are kept and weigh most stand next to the line.
pub(super) fn dots(seen: &OneAnchor, line: &Line, side: usize) -> Vec<Dot> {
    let slope = |other: &AnchorReference| f64::from(other.stands[side].slope.abs());
    let steepest = seen.listed.iter().map(slope).fold(0.0, f64::max);
    let mut dots: Vec<Dot> = seen
        .listed
        .iter()
        .map(|other| Dot {
            x: line.x(f64::from(other.stands[side].value)),
            y: 0.0,
            radius: match steepest > 0.0 {
                true => LEAST + MORE * (slope(other) / steepest).sqrt(),
                false => LEAST,
            },
        })
        .collect();
    for (positive, room) in [(true, POSITIVES - NAMES), (false, AXIS - NEGATIVES)] {
        let of_side = |at: &usize| seen.listed[*at].positive == positive;
        let mut stacked: Vec<usize> = (0..dots.len()).filter(of_side).collect();
        order::sort_by(&mut stacked, |a, b| {
            let key = |at: &usize| {
                let stand = seen.listed[*at].stands[side];
                (stand.with, stand.kept > 0)
            };
            let slopes = dots[*b].radius.total_cmp(&dots[*a].radius);
            key(b).cmp(&key(a)).then(slopes).then(a.cmp(b))
        });
        let levels = levels(&dots, &stacked);
        let highest = levels.iter().max().map_or(1.0, |level| (level + 1) as f64);
        let above = ABOVE.min((room - 8.0) / highest);
        for (at, level) in stacked.into_iter().zip(levels) {
            let away = 5.0 + above * level as f64;
            dots[at].y = match positive {
                true => POSITIVES - away,
                false => NEGATIVES + away,
            };
        }
    }
    dots
}

/// For each of these dots the lowest level at which none before it stands beside it.
fn levels(dots: &[Dot], stacked: &[usize]) -> Vec<usize> {
    let mut taken: Vec<Vec<f64>> = Vec::new();
    let level = |at: &usize| {
        let x = dots[*at].x;
        let is_free = |there: &Vec<f64>| there.iter().all(|other| (other - x).abs() >= BESIDE);
        let level = taken.iter().position(is_free).unwrap_or(taken.len());
        if level == taken.len() {
            taken.push(Vec::new());
        }
        taken[level].push(x);
        level
    };
    stacked.iter().map(level).collect()
}
