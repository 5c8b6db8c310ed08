//! [`Scaling`]: every feature centred and divided by its spread, as the training rows have them, so that columns of
//! different units count alike. What [`Standardize::Auto`] decides, and why.

use web_time::Instant;

use crate::config::Standardize;
use crate::dataset::Dataset;
use crate::engine::Engine;
use crate::error::Result;
use crate::order;
use crate::working::{BREATHE_EVERY, Task, Working};

/// Columns are scaled where the widest reach this many times as far from zero as the narrowest.
const REACH_RATIO: f64 = 30.0;
/// Or where the widest column spreads this many times as far as the one in the middle: a few columns then outweigh all others. Of
/// principal components the first spreads some 10 times as far.
const SPREAD_RATIO: f64 = 20.0;
/// Or where the column in the middle lies this many of its spreads away from zero: cosines of such rows are all near 1.
const OFFSET_RATIO: f64 = 20.0;
/// Rows that are read at once, and from one word of it to the next where no time is kept.
const TILE_ROWS: usize = 256;
const TELL_ROWS: u64 = 4096;
/// What goes on meanwhile.
const LOOKING: &str = "looking at the scale of the features";

/// `(x - shift) scale` for each feature.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaling {
    /// What is taken off a feature: its mean over the training rows.
    pub shift: Vec<f32>,
    /// What it is then multiplied by: 1 / its standard deviation there, 0 for a feature that never changes there.
    pub scale: Vec<f32>,
}

/// A scaling, and in a sentence what was done and why.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decision {
    pub(crate) scaling: Scaling,
    pub(crate) standardized: bool,
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

    /// What [`Standardize::Auto`] does where these rows are the training rows.
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
        let columns = columns.await?;
        Ok(match judge(&columns) {
            (true, _) => Self::of(&columns),
            (false, _) => Self::none(dataset.features.dim()),
        })
    }

    /// To mean 0 and spread 1.
    fn of(columns: &[Column]) -> Self {
        Self {
            shift: columns.iter().map(|column| column.mean as f32).collect(),
            scale: columns.iter().map(Column::scale).collect(),
        }
    }

    /// Scales dense rows `[_, dim]` in place, as the device does.
    pub fn apply(&self, rows: &mut [f32]) {
        for row in rows.chunks_exact_mut(self.shift.len()) {
            for ((value, shift), scale) in row.iter_mut().zip(&self.shift).zip(&self.scale) {
                *value = (*value - shift) * scale;
            }
        }
    }

    /// Decides by the training rows `rows`, reading each once; reads none where the setting is `false`.
    ///
    /// # Errors
    /// As [`crate::RowSource::read`] and [`Engine::breathe`].
    pub(crate) async fn decide(
        engine: &Engine,
        dataset: &Dataset,
        rows: &[u32],
        standardize: Standardize,
    ) -> Result<Decision> {
        let dim = dataset.features.dim();
        let as_is = |why| Decision {
            scaling: Self::none(dim),
            standardized: false,
            why,
        };
        if standardize == Standardize::Off {
            return Ok(as_is(None));
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
        let columns = columns.await?;
        let (scale, why) = match standardize {
            Standardize::Auto => judge(&columns),
            _ => (true, "as standardize: true asks".to_owned()),
        };
        if !scale {
            return Ok(as_is(Some(format!("features left as they are: {why}"))));
        }
        let constant = columns.iter().filter(|column| column.is_constant()).count();
        let constant = match constant {
            0 => String::new(),
            1 => "; one column never changes and counts for nothing".to_owned(),
            more => format!("; {more} columns never change and count for nothing"),
        };
        Ok(Decision {
            scaling: Self::of(&columns),
            standardized: true,
            why: Some(format!(
                "every feature scaled to mean 0 and spread 1, as measured on the training rows: {why}{constant}"
            )),
        })
    }
}

/// Looks at every column of some rows, and says between two tiles of them how many were read.
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

/// What one pass over the rows says of a feature (Welford 1962).
#[derive(Clone, Debug, Default)]
struct Column {
    rows: f64,
    mean: f64,
    /// The sum of the squared steps from the mean.
    squares: f64,
    least: f32,
    most: f32,
}

impl Column {
    fn add(&mut self, value: f32) {
        (self.least, self.most) = if self.rows == 0.0 {
            (value, value)
        } else {
            (self.least.min(value), self.most.max(value))
        };
        self.rows += 1.0;
        let step = f64::from(value) - self.mean;
        self.mean += step / self.rows;
        self.squares += step * (f64::from(value) - self.mean);
    }

    fn is_constant(&self) -> bool {
        self.least == self.most
    }

    /// The standard deviation.
    fn spread(&self) -> f64 {
        (self.squares / self.rows).sqrt()
    }

    /// How far from zero it reaches.
    fn reach(&self) -> f64 {
        f64::from(self.least.abs().max(self.most.abs()))
    }

    fn scale(&self) -> f32 {
        let scale = (1.0 / self.spread()) as f32;
        if self.is_constant() || !scale.is_finite() {
            0.0
        } else {
            scale
        }
    }
}

/// Whether these columns are better scaled, and why. Columns that never change have no say.
fn judge(columns: &[Column]) -> (bool, String) {
    let changing: Vec<&Column> = columns.iter().filter(|c| !c.is_constant()).collect();
    if changing.is_empty() {
        return (false, "no column ever changes".to_owned());
    }
    // In logarithms, so that of two columns the larger does not speak for both.
    let reaches = changing.iter().map(|column| column.reach().ln());
    let offsets = changing.iter().map(|c| c.mean.abs() / c.spread());
    let (reaches, offsets) = (sorted(reaches), sorted(offsets));
    let ratio = (percentile(&reaches, 0.9) - percentile(&reaches, 0.1)).exp();
    let offset = percentile(&offsets, 0.5);
    let spreads = sorted(changing.iter().map(|column| column.spread()));
    let widest = spreads[spreads.len() - 1] / percentile(&spreads, 0.5);
    if ratio > REACH_RATIO {
        let why = format!(
            "columns differ in size, large ones reach {} times as far from zero as small ones",
            rounded(ratio)
        );
        (true, why)
    } else if widest > SPREAD_RATIO {
        let why = format!(
            "a few columns outweigh the others, the widest spreads {} times as far as the one in the middle",
            rounded(widest)
        );
        (true, why)
    } else if offset > OFFSET_RATIO {
        let why = format!(
            "columns lie far from zero, {} times their spread in the middle",
            rounded(offset)
        );
        (true, why)
    } else {
        let why = format!(
            "columns are alike in size, large ones reach {} times as far from zero as small ones",
            rounded(ratio)
        );
        (false, why)
    }
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    order::sort_by(&mut values, f64::total_cmp);
    values
}

/// The value below which so large a part of the ascending `values` lies, between neighbours in proportion.
fn percentile(values: &[f64], part: f64) -> f64 {
    let at = part * (values.len() - 1) as f64;
    let (low, high) = (at.floor() as usize, at.ceil() as usize);
    values[low] + (at - at.floor()) * (values[high] - values[low])
}

/// Two digits, as a person says it.
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
    use crate::dataset::Labelled;
    use crate::device::{EngineChoice, EngineKind};

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
            Scaling::decide(&engine, &dataset?, &all, standardize).await
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
    fn columns_of_one_unit_are_left_as_they_are_bit_for_bit() {
        let rows = [[1.0, 0.1, -4.0], [0.3, 0.7, 5.0], [0.5, 0.2, 0.1]];
        for standardize in [Standardize::Auto, Standardize::Off] {
            let decision = decide(&rows, standardize);
            assert!(!decision.standardized);
            let mut scaled = rows.concat();
            decision.scaling.apply(&mut scaled);
            assert_eq!(scaled, rows.concat());
        }
        let why = decide(&rows, Standardize::Auto).why.expect("says why");
        assert!(why.contains("alike in size"), "{why}");
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
            judge(&sizes.iter().map(column).collect::<Vec<_>>())
        };
        // Fewer than a tenth of them.
        for (large, few) in [(5000.0, 3), (25.0, 1)] {
            let mut sizes = vec![1.0; 32];
            sizes[..few].fill(large);
            let (scale, why) = judged(&sizes);
            assert!(scale && why.contains("outweigh"), "{why}");
        }
        // As principal components are.
        let components: Vec<f32> = (1..=50).map(|at| 10.0 / (at as f32).sqrt()).collect();
        assert!(!judged(&components).0);
    }

    #[test]
    fn columns_of_different_units_are_scaled_and_so_are_columns_far_from_zero() {
        // Metres and grams; the third never changes and has no say.
        let units = [[1.7, 70e3, 1.0], [1.6, 52e3, 1.0], [1.9, 95e3, 1.0]];
        let decision = decide(&units, Standardize::Auto);
        let why = decision.why.expect("says why");
        assert!(
            decision.standardized && why.contains("differ in size"),
            "{why}"
        );
        assert!(why.ends_with("one column never changes and counts for nothing"));
        let far = [[1e4, 1e4 + 1.0, 1e4], [1e4 + 1.0, 1e4, 1e4 - 1.0]];
        let decision = decide(&far, Standardize::Auto);
        let why = decision.why.expect("says why");
        assert!(
            decision.standardized && why.contains("far from zero"),
            "{why}"
        );
    }
}
