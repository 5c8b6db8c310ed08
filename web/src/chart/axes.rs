//! Axes of a plot: scales, places of values on them, and their labels.

use nearfar::order;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;

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
pub(super) struct Axis {
    scale: Scale,
    pub(super) low: f64,
    pub(super) high: f64,
    /// Place of zeros, if the scale has none for them.
    zero: Option<f64>,
    /// Most labels that have room.
    most: usize,
}

impl Axis {
    /// The axis of these values, with room for `most` labels; if it `clips`, without outliers.
    pub(super) fn new(scale: Scale, mut values: Vec<f64>, clips: bool, most: usize) -> Self {
        if clips {
            order::sort_by(&mut values, f64::total_cmp);
            let out = values.len() / 20;
            values = values[out..values.len() - out].to_vec();
        }
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
    pub(super) fn place(&self, value: f64) -> f64 {
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
