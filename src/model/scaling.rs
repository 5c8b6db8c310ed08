//! [`Scaling`]: features centred and divided by their spread over the training rows. Columns of different units are divided each by
//! its own spread, so that they count alike; columns of one unit share one divisor, so that the unit of the table is no
//! information. Holds the rules of [`Standardize::Auto`] and their reasons.

use serde::{Deserialize, Serialize};
use web_time::Instant;

use crate::base::error::{Error, Result};
use crate::base::order;
use crate::base::quote::{listed, quoted};
use crate::base::working::{BREATHE_EVERY, Task, Working};
use crate::data::Dataset;
use crate::data::column_spread::{self, Column};
use crate::engine::Engine;
use crate::rules::config::Standardize;

/// Columns are scaled if the widest reach this many times as far from zero as the narrowest.
const REACH_RATIO: f64 = 30.0;
/// Columns are scaled if the widest spreads this many times as far as the median one: a few columns then outweigh all others. The
/// first principal component spreads some 10 times as far as the median one.
const SPREAD_RATIO: f64 = 20.0;
/// Columns are scaled if the median one lies this many of its spreads away from zero: cosines of such rows are all near 1.
const OFFSET_RATIO: f64 = 20.0;
/// The least spread of a feature: folded weights, which take the feature unscaled, would be too large to compute with.
const LEAST_SPREAD: f32 = 1e-15;
/// Rows that are read at once, and rows between two progress messages if no time is kept.
const TILE_ROWS: usize = 256;
const TELL_ROWS: u64 = 4096;
/// Progress message of the pass over the features.
const LOOKING: &str = "looking at the scale of the features";

/// Scaling that features get before anything else reads them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScalingKind {
    /// No scaling.
    #[default]
    None,
    /// Each column is centred, and all are divided by one number, the root of their mean variance: directions and distances between
    /// rows stay as they are, about the mean row.
    Common,
    /// Each column is centred and divided by its own standard deviation.
    Columns,
}

impl ScalingKind {
    /// Name of the untrained features in score reports.
    pub fn scored(self) -> &'static str {
        match self {
            Self::None => "raw features",
            Self::Common => "centred features",
            Self::Columns => "scaled features",
        }
    }
}

/// `(x - shift) scale` for each feature.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaling {
    /// Subtracted from each feature: its mean over the training rows.
    pub shift: Vec<f32>,
    /// Factor after the shift: 1 / a standard deviation, its own or that of all; 0 for a feature that is constant over the training
    /// rows.
    pub scale: Vec<f32>,
}

/// A scaling, its kind, and a sentence with the reason for it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decision {
    pub(crate) scaling: Scaling,
    pub(crate) kind: ScalingKind,
    pub(crate) why: Option<String>,
}

impl Scaling {
    /// Leaves every feature as it is, bit for bit.
    pub fn none(dim: usize) -> Self {
        Self {
            shift: vec![0.0; dim],
            scale: vec![1.0; dim],
        }
    }

    /// The scaling of [`Standardize::Auto`] with these training rows.
    ///
    /// # Errors
    /// As [`crate::RowSource::read`].
    pub(crate) async fn auto(
        dataset: &Dataset,
        rows: &[u32],
        heard: &mut dyn FnMut(Working),
    ) -> Result<Self> {
        let total = rows.len() as u64;
        let columns = look(dataset, rows, async |done| {
            if done.is_multiple_of(TELL_ROWS) {
                let (what, unit) = (LOOKING.to_owned(), "rows".to_owned());
                heard(Working {
                    what,
                    unit,
                    done,
                    total,
                });
            }
            Ok(())
        });
        let columns = Columns::new(columns.await?);
        Ok(columns.scaling(columns.judge().0))
    }

    /// Scales dense rows `[_, dim]` in place, as the device does.
    pub fn apply(&self, rows: &mut [f32]) {
        for row in rows.chunks_exact_mut(self.shift.len()) {
            for ((value, shift), scale) in row.iter_mut().zip(&self.shift).zip(&self.scale) {
                *value = (*value - shift) * scale;
            }
        }
    }

    /// Checks that 32-bit weights can take up the scales.
    ///
    /// # Errors
    /// [`Error::Data`], with the name of the feature.
    fn check(&self, names: &[String]) -> Result<()> {
        if let Some(column) = self
            .scale
            .iter()
            .position(|scale| *scale > 1.0 / LEAST_SPREAD)
        {
            return Err(Error::Data(format!(
                "{} spreads by {:.0e} only, less than 32-bit weights can take up: multiply the features by a number that brings them \
                 near 1",
                quoted(&column_spread::name(names, column)),
                1.0 / self.scale[column]
            )));
        }
        Ok(())
    }

    /// Decides by the training rows `rows`, reading each once; reads none if the setting is `false`. Without `centres`, features of
    /// one unit are left unscaled.
    ///
    /// # Errors
    /// As [`crate::RowSource::read`] and [`Engine::breathe`]; [`Error::Data`] for features whose spread is too small.
    pub(crate) async fn decide(
        engine: &Engine,
        dataset: &Dataset,
        rows: &[u32],
        standardize: Standardize,
        centres: bool,
    ) -> Result<Decision> {
        if standardize == Standardize::Off {
            return Ok(Decision {
                scaling: Self::none(dataset.features.dim()),
                kind: ScalingKind::None,
                why: None,
            });
        }
        let mut breathed = Instant::now();
        let task = Task {
            what: LOOKING.to_owned(),
            unit: "rows",
            total: rows.len() as u64,
        };
        let columns = look(dataset, rows, async |read| {
            if breathed.elapsed() > BREATHE_EVERY {
                engine.tell(&task, read);
                engine.breathe().await?;
                breathed = Instant::now();
            }
            Ok(())
        });
        let columns = Columns::new(columns.await?);
        let (kind, why) = match standardize {
            Standardize::On => (ScalingKind::Columns, "as standardize: true asks".to_owned()),
            _ => match columns.judge() {
                (ScalingKind::Common, why) if !centres => (ScalingKind::None, why),
                judged => judged,
            },
        };
        let what = match kind {
            ScalingKind::None => "features left as they are",
            ScalingKind::Common => {
                "features centred, and all divided by one number so that the unit of the table does not matter, as measured on the \
                 training rows"
            }
            ScalingKind::Columns => {
                "every feature scaled to mean 0 and spread 1, as measured on the training rows"
            }
        };
        let constant = match kind {
            ScalingKind::None => String::new(),
            _ => columns.without(|column| column_spread::name(&dataset.feature_names, column)),
        };
        let scaling = columns.scaling(kind);
        scaling.check(&dataset.feature_names)?;
        Ok(Decision {
            scaling,
            kind,
            why: Some(format!("{what}: {why}{constant}")),
        })
    }
}

/// Collects statistics of every column over some rows; calls `between` after each tile with the number of rows read.
async fn look(
    dataset: &Dataset,
    rows: &[u32],
    mut between: impl AsyncFnMut(u64) -> Result<()>,
) -> Result<Vec<Column>> {
    let dim = dataset.features.dim();
    let mut columns = vec![Column::default(); dim];
    let mut tile = Vec::new();
    for (tiles, rows) in (1..).zip(rows.chunks(TILE_ROWS)) {
        tile.clear();
        dataset.features.read(rows, &mut tile).await?;
        for row in tile.chunks_exact(dim) {
            columns
                .iter_mut()
                .zip(row)
                .for_each(|(column, value)| column.add(*value));
        }
        between((tiles * TILE_ROWS) as u64).await?;
    }
    Ok(columns)
}

/// Statistics of the columns over the training rows.
struct Columns {
    all: Vec<Column>,
    /// Set for columns that are constant.
    constant: Vec<bool>,
}

impl Columns {
    fn new(all: Vec<Column>) -> Self {
        let constant = column_spread::constant(all.iter().map(|c| (c.spread(), c.reach())));
        Self { all, constant }
    }

    /// Columns that are not constant.
    fn changing(&self) -> impl Iterator<Item = &Column> {
        let columns = self.all.iter().zip(&self.constant);
        columns.filter(|(_, is)| !**is).map(|(column, _)| column)
    }

    fn scaling(&self, kind: ScalingKind) -> Scaling {
        let (count, variances) = self.changing().fold((0.0, 0.0), |(count, sum), column| {
            (count + 1.0, sum + column.spread().powi(2))
        });
        let common = (variances / f64::max(count, 1.0)).sqrt();
        let spread = |column: &Column| match kind {
            ScalingKind::None => 1.0,
            ScalingKind::Common => common,
            ScalingKind::Columns => column.spread(),
        };
        let scale = |(column, is_constant): (&Column, &bool)| {
            let scale = (1.0 / spread(column)) as f32;
            if *is_constant || !scale.is_finite() {
                0.0
            } else {
                scale
            }
        };
        if kind == ScalingKind::None {
            return Scaling::none(self.all.len());
        }
        Scaling {
            shift: self.all.iter().map(|column| column.mean() as f32).collect(),
            scale: self.all.iter().zip(&self.constant).map(scale).collect(),
        }
    }

    /// Kind of scaling for these columns, and the reason. Constant columns do not count.
    fn judge(&self) -> (ScalingKind, String) {
        // In logarithms, so that of two columns the larger does not decide for both.
        let reaches = sorted(self.changing().map(|column| column.reach().ln()));
        if reaches.is_empty() {
            return (ScalingKind::None, "no column ever changes".to_owned());
        }
        let offsets = sorted(self.changing().map(|c| c.mean().abs() / c.spread()));
        let ratio = (percentile(&reaches, 0.9) - percentile(&reaches, 0.1)).exp();
        let offset = percentile(&offsets, 0.5);
        let spreads = sorted(self.changing().map(Column::spread));
        let widest = spreads[spreads.len() - 1] / percentile(&spreads, 0.5);
        if ratio > REACH_RATIO {
            let why = format!(
                "columns differ in size: the largest values of large columns are {} times those of small ones",
                rounded(ratio)
            );
            (ScalingKind::Columns, why)
        } else if widest > SPREAD_RATIO {
            let why = format!(
                "a few columns outweigh the others, the widest spreads {} times as far as the one in the middle",
                rounded(widest)
            );
            (ScalingKind::Columns, why)
        } else if offset > OFFSET_RATIO {
            let why = format!(
                "columns lie far from zero, {} times their spread in the middle",
                rounded(offset)
            );
            (ScalingKind::Columns, why)
        } else {
            let why = format!(
                "columns are alike in size: the largest values of large columns are {} times those of small ones",
                rounded(ratio)
            );
            (ScalingKind::Common, why)
        }
    }

    /// Sentence part on constant columns, which are left out.
    fn without(&self, name: impl Fn(usize) -> String) -> String {
        let constant = self.constant.iter().enumerate().filter(|(_, is)| **is);
        let names: Vec<String> = constant.map(|(column, _)| name(column)).collect();
        let these = listed(names.iter().map(String::as_str));
        match names.len() {
            0 => String::new(),
            1 => format!(
                "; one column is constant as far as 32-bit numbers tell, and is left out: {these}"
            ),
            more => format!(
                "; {more} columns are constant as far as 32-bit numbers tell, and are left out: {these}"
            ),
        }
    }
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    order::sort_by(&mut values, f64::total_cmp);
    values
}

/// Percentile of the ascending `values`, interpolated linearly; `part` is in 0 ..= 1.
fn percentile(values: &[f64], part: f64) -> f64 {
    let at = part * (values.len() - 1) as f64;
    let (low, high) = (at.floor() as usize, at.ceil() as usize);
    values[low] + (at - at.floor()) * (values[high] - values[low])
}

/// Rounds a ratio to two digits.
fn rounded(ratio: f64) -> String {
    match ratio {
        ..10.0 => format!("{ratio:.1}"),
        ..100.0 => format!("{ratio:.0}"),
        _ => {
            let unit = 10f64.powf(ratio.log10().floor() - 1.0);
            format!("{:.0}", (ratio / unit).round() * unit)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Labelled;
    use crate::engine::device::{EngineChoice, EngineKind};

    fn decide(rows: &[[f32; 3]], standardize: Standardize) -> Decision {
        let dataset = Dataset::new(Labelled {
            values: rows.concat(),
            dim: 3,
            labels: (0..rows.len()).map(|i| (i % 2).to_string()).collect(),
            ..Labelled::default()
        });
        let choice = EngineChoice {
            kind: Some(EngineKind::Cpu),
            ..EngineChoice::default()
        };
        pollster::block_on(async {
            let engine = Engine::open(&choice, 1 << 20).await?;
            let all: Vec<u32> = (0..rows.len() as u32).collect();
            Scaling::decide(&engine, &dataset?, &all, standardize, true).await
        })
        .expect("decides")
    }

    #[test]
    fn a_scaled_feature_has_mean_0_and_spread_1_and_one_that_never_changes_is_0() {
        let rows = [[1.0, 7.0, 100.0], [2.0, 7.0, 300.0], [3.0, 7.0, 500.0]];
        let Scaling { shift, scale } = decide(&rows, Standardize::On).scaling;
        assert_eq!(shift, [2.0, 7.0, 300.0]);
        let spread = (2.0f32 / 3.0).sqrt();
        assert!((scale[0] * spread - 1.0).abs() < 1e-6);
        assert_eq!(scale[1], 0.0);
        assert!((scale[2] * 200.0 * spread - 1.0).abs() < 1e-6);
        let mut row = [3.0, 9.0, 300.0];
        Scaling { shift, scale }.apply(&mut row);
        assert!((row[0] - 1.0 / spread).abs() < 1e-6);
        assert_eq!(row[1..], [0.0, 0.0]);
    }

    #[test]
    fn columns_of_one_unit_are_centred_and_share_one_spread_whatever_the_unit() {
        let rows = [[1.0, 0.1, -4.0], [0.3, 0.7, 5.0], [0.5, 0.2, 0.1f32]];
        let scaled = |unit: f32| {
            let rows = rows.map(|row| row.map(|value| value * unit));
            let decision = decide(&rows, Standardize::Auto);
            assert_eq!(decision.kind, ScalingKind::Common);
            let why = decision.why.expect("says why");
            assert!(why.contains("alike in size"), "{why}");
            let mut scaled = rows.concat();
            decision.scaling.apply(&mut scaled);
            scaled
        };
        let ones = scaled(1.0);
        let square: f32 = ones.iter().map(|value| value * value).sum();
        assert!((square / 9.0 - 1.0).abs() < 1e-5, "{square}");
        for column in 0..3 {
            let sum: f32 = ones.iter().skip(column).step_by(3).sum();
            assert!(sum.abs() < 1e-5, "{sum}");
        }
        // Differences keep their ratios.
        let steps = |i: usize| (rows[1][i] - rows[0][i], ones[3 + i] - ones[i]);
        let ((a, b), (x, y)) = (steps(0), steps(2));
        assert!((a / x - b / y).abs() < 1e-6);
        for unit in [1e-6, 1e-3, 1e6] {
            let off = scaled(unit)
                .iter()
                .zip(&ones)
                .map(|(a, b)| (a - b).abs())
                .fold(0.0, f32::max);
            assert!(off < 1e-5, "{unit}: {off}");
        }
    }

    #[test]
    fn features_are_left_as_they_are_bit_for_bit_where_nothing_is_asked_for() {
        let rows = [[1.0, 0.1, -4.0], [0.3, 0.7, 5.0], [0.5, 0.2, 0.1]];
        let decision = decide(&rows, Standardize::Off);
        assert_eq!((decision.kind, decision.why), (ScalingKind::None, None));
        let mut scaled = rows.concat();
        decision.scaling.apply(&mut scaled);
        assert_eq!(scaled, rows.concat());
    }

    #[test]
    fn a_column_of_nothing_is_left_out_whether_columns_are_scaled_or_not() {
        let row = |at: usize| {
            let [a, b, c] = [0.3, 0.7, 1.1].map(|step| (at as f32 * step).sin());
            [a, 1e-33 * b, c]
        };
        let rows: Vec<[f32; 3]> = (0..20).map(row).collect();
        for standardize in [Standardize::Auto, Standardize::On] {
            let Decision { scaling, why, .. } = decide(&rows, standardize);
            assert_eq!(scaling.scale[1], 0.0);
            assert!(scaling.scale[0] > 0.5 && scaling.scale[2] > 0.5);
            let why = why.expect("says why");
            assert!(
                why.ends_with("one column is constant as far as 32-bit numbers tell, and is left out: \"feature 2\""),
                "{why}"
            );
        }
    }

    #[test]
    fn a_few_columns_that_outweigh_all_others_are_scaled() {
        let judged = |sizes: &[f32]| {
            let column = |size: &f32| {
                let mut column = Column::default();
                for value in [-1.0, 0.5, 0.25, 1.0] {
                    column.add(size * value);
                }
                column
            };
            Columns::new(sizes.iter().map(column).collect()).judge()
        };
        // Less than a tenth of the columns.
        for (large, few) in [(5000.0, 3), (25.0, 1)] {
            let mut sizes = vec![1.0; 32];
            sizes[..few].fill(large);
            let (kind, why) = judged(&sizes);
            assert!(
                kind == ScalingKind::Columns && why.contains("outweigh"),
                "{why}"
            );
        }
        // Spreads like those of principal components.
        let components: Vec<f32> = (1..=50).map(|at| 10.0 / (at as f32).sqrt()).collect();
        assert_eq!(judged(&components).0, ScalingKind::Common);
    }

    #[test]
    fn columns_of_different_units_are_scaled_and_so_are_columns_far_from_zero() {
        // Metres and grams; the third column is constant and does not count.
        let units = [[1.7, 70e3, 1.0], [1.6, 52e3, 1.0], [1.9, 95e3, 1.0]];
        let decision = decide(&units, Standardize::Auto);
        let why = decision.why.expect("says why");
        assert!(
            decision.kind == ScalingKind::Columns && why.contains("differ in size"),
            "{why}"
        );
        assert!(why.contains("one column is constant"));
        let far = [[1e4, 1e4 + 1.0, 1e4], [1e4 + 1.0, 1e4, 1e4 - 1.0]];
        let decision = decide(&far, Standardize::Auto);
        let why = decision.why.expect("says why");
        assert!(
            decision.kind == ScalingKind::Columns && why.contains("far from zero"),
            "{why}"
        );
    }
}
