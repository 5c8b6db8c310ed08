//! How small can vectors be? [`vector_sizes`] scores rows that are cut to their first numbers and stored in fewer bits, beside the rows
//! as they are, and names the smallest size that loses nothing that these rows can show.

use half::f16;
use serde::{Deserialize, Serialize};

use crate::base::error::Result;
use crate::base::forecast::{Forecast, Rate};
use crate::base::memory::reserve;
use crate::base::plan::Room;
use crate::data::{Dataset, RowSource};
use crate::engine::Engine;
use crate::model::embedder::Embedder;
use crate::model::layer_weights::LayerWeights;
use crate::search::evaluation::{EvaluationSpec, evaluate_each};
use crate::search::metrics::{Judged, QueryScore};
use crate::search::rows::{Rows, choose};

/// Fewest numbers that vectors are cut to.
const FEWEST: usize = 8;

/// Standard errors of a paired difference that a loss may be larger than it seems, at the nearest row: 95 of 100 times it is less in
/// other rows of the same kind, whose difference has an error of its own (1.64 times the root of 2).
const SURE_NEAREST: f64 = 2.33;
/// The same at whole groups, where each row counts as a query and as a reference of others: about 1.4 times as many.
const SURE_GROUPS: f64 = 3.3;

/// Format in which a number of a vector is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VectorFormat {
    /// 32 bits.
    F32,
    /// 16 bits: of a row of length 1, each number rounded to the nearest half-precision float.
    F16,
    /// 8 bits: of rows of length 1, each number times 127 over the largest of all rows, rounded to the nearest integer.
    Int8,
    /// 1 bit: set if the number is above 0. Two rows are compared by the bits that they share.
    Bit,
}

impl VectorFormat {
    /// Every format, the largest first.
    pub const ALL: [Self; 4] = [Self::F32, Self::F16, Self::Int8, Self::Bit];

    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Int8 => "int8",
            Self::Bit => "1 bit",
        }
    }

    fn bits(self) -> usize {
        match self {
            Self::F32 => 32,
            Self::F16 => 16,
            Self::Int8 => 8,
            Self::Bit => 1,
        }
    }

    /// Rows of `dim` numbers as they are when they are read back, up to their length, which cosine similarity does not see.
    ///
    /// Rows of bits get [`even_out`] at their end: a constant beside every similarity, with which rows that share as many bits tie.
    fn stored(self, mut rows: Vec<f32>, dim: usize) -> Result<RowSource> {
        if self == Self::F32 {
            return Ok(RowSource::Memory { values: rows, dim });
        }
        for row in rows.chunks_exact_mut(dim) {
            let squares: f64 = row.iter().map(|v| f64::from(*v) * f64::from(*v)).sum();
            let scale = 1.0 / squares.sqrt().max(f64::MIN_POSITIVE);
            row.iter_mut()
                .for_each(|v| *v = (f64::from(*v) * scale) as f32);
        }
        let largest = rows.iter().fold(0.0f32, |largest, v| largest.max(v.abs()));
        let step = 127.0 / largest.max(f32::MIN_POSITIVE);
        rows.iter_mut().for_each(|v| {
            *v = match self {
                Self::F32 => *v,
                Self::F16 => f16::from_f32(*v).to_f32(),
                Self::Int8 => (*v * step).round_ties_even(),
                Self::Bit if *v > 0.0 => 1.0,
                Self::Bit => -1.0,
            }
        });
        if self != Self::Bit {
            return Ok(RowSource::Memory { values: rows, dim });
        }
        let end = even_out(dim);
        let mut values = Vec::new();
        let numbers = rows.len() / dim * (dim + end.len());
        reserve(&mut values, numbers as u64, "a copy of the rows")?;
        for row in rows.chunks_exact(dim) {
            values.extend(row.iter().chain(&end));
        }
        Ok(RowSource::Memory {
            values,
            dim: dim + end.len(),
        })
    }
}

/// Whole numbers whose squares and `dim` add up to a power of four: the length of a row of ones with them is a power of two, so that
/// no similarity is rounded.
fn even_out(dim: usize) -> Vec<f32> {
    let mut power = 1;
    while power < dim {
        power *= 4;
    }
    let mut rest = power - dim;
    let mut numbers = Vec::new();
    while rest > 0 {
        let root = rest.isqrt();
        numbers.push(root as f32);
        rest -= root * root;
    }
    numbers
}

/// Scores of rows of one size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct VectorSize {
    /// Numbers that are kept of each row, the first ones.
    pub dim: usize,
    /// Format of each.
    pub format: VectorFormat,
    /// Bytes of a row.
    pub bytes: u64,
    /// Part of the rows whose nearest other row has the same class.
    pub precision_at_1: f64,
    /// MAP@R of the rows.
    pub mean_average_precision_at_r: f64,
    /// Precision@1 of the whole rows less this one, and the standard error of that difference over the same queries.
    pub lost_precision_at_1: [f64; 2],
    /// MAP@R of the whole rows less this one, and the standard error of that difference.
    pub lost_mean_average_precision_at_r: [f64; 2],
    /// The loss of both is less than the standard error of the score itself, as far as these rows can tell.
    pub keeps: bool,
}

impl VectorSize {
    /// Bytes of a million rows.
    pub fn bytes_of_a_million(&self) -> u64 {
        self.bytes * 1_000_000
    }
}

/// Scores of rows of every size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VectorSizes {
    /// Rows that were scored.
    pub rows: u64,
    /// Standard error of precision@1, and of MAP@R, of the whole rows.
    pub standard_errors: [f64; 2],
    /// The rows as they are come first, then fewer bits, then fewer numbers.
    pub sizes: Vec<VectorSize>,
    /// Place of the smallest size that keeps what the whole rows have.
    pub advised: usize,
}

impl VectorSizes {
    /// Sizes that are scored of rows of `dim` numbers: all numbers, then halves of them down to eight, each in every format.
    pub fn tried(dim: usize) -> Vec<(usize, VectorFormat)> {
        let half = |dim: &usize| Some(dim / 2).filter(|dim| *dim >= FEWEST);
        let halves = std::iter::successors(Some(dim), half);
        halves
            .flat_map(|dim| VectorFormat::ALL.map(|format| (dim, format)))
            .collect()
    }

    /// The advice in a sentence.
    pub fn sentence(&self) -> String {
        let (whole, small) = (&self.sizes[0], &self.sizes[self.advised]);
        if self.advised == 0 {
            return format!(
                "No smaller size keeps the scores of {} numbers in f32, {} bytes a row, to within a standard error.",
                whole.dim, whole.bytes
            );
        }
        format!(
            "{} numbers in {}, {} bytes a row instead of {}, keep the scores to within a standard error: precision@1 {:.3} (whole rows \
             {:.3}), MAP@R {:.3} ({:.3}).",
            small.dim,
            small.format.name(),
            small.bytes,
            whole.bytes,
            small.precision_at_1,
            whole.precision_at_1,
            small.mean_average_precision_at_r,
            whole.mean_average_precision_at_r
        )
    }
}

/// Forecasts [`vector_sizes`] of rows with these labels: an evaluation for each size.
///
/// # Errors
/// As [`EvaluationSpec::plan`].
pub fn plan_vector_sizes(
    labels: &[String],
    dim: usize,
    most: usize,
    room: &Room,
    rate: &Rate,
) -> Result<Forecast> {
    let rows = choose(labels.len(), most, 0).len();
    // Rows of bits are the widest.
    let all = EvaluationSpec::of_names(labels, dim + even_out(dim).len(), rows);
    let spec = EvaluationSpec {
        references: rows,
        positives: all.positives.min(rows),
        ..all
    };
    let one = spec.plan(room, rate)?;
    let dims = VectorSizes::tried(dim)
        .into_iter()
        .map(|(dim, _)| dim as f64);
    let evaluations = dims.sum::<f64>() / dim as f64;
    Ok(Forecast {
        predicted_ms: one.predicted_ms * evaluations,
        operations: one.operations * evaluations,
        traffic_bytes: (one.traffic_bytes as f64 * evaluations) as u64,
        submits: one.submits * VectorSizes::tried(dim).len() as u64,
        ..one
    })
}

/// Scores rows in every size: each row asks the others, ranked by cosine similarity. `most` is the number of rows that are chosen, by
/// `seed`, or 0 for all. `progress` receives the number of sizes done and the number of all.
///
/// # Errors
/// As [`evaluate`](crate::evaluate), and [`crate::Error::NoMemory`] if the system has no memory for a copy of the rows.
pub async fn vector_sizes(
    engine: &Engine,
    rows: Rows<'_>,
    most: usize,
    seed: u64,
    mut progress: impl FnMut(u64, u64),
) -> Result<VectorSizes> {
    rows.check_against(rows)?;
    let chosen = choose(rows.labels.len(), most, seed);
    let labels: Vec<String> = chosen
        .iter()
        .map(|row| rows.labels[*row as usize].clone())
        .collect();
    let dim = rows.rows.dim();
    let mut whole = Vec::new();
    reserve(&mut whole, (chosen.len() * dim) as u64, "the rows")?;
    rows.rows.read(&chosen, &mut whole).await?;
    let all = VectorSizes::tried(dim);
    let mut first: Option<Judged> = None;
    let mut sizes = Vec::new();
    for (done, (kept, format)) in all.iter().copied().enumerate() {
        let mut cut = Vec::new();
        reserve(&mut cut, (chosen.len() * kept) as u64, "a copy of the rows")?;
        cut.extend(whole.chunks_exact(dim).flat_map(|row| &row[..kept]));
        let stored = Rows {
            rows: &format.stored(cut, kept)?,
            labels: &labels,
        };
        let scored = evaluate_each(engine, stored).await?;
        let baseline = first.get_or_insert_with(|| scored.clone());
        sizes.push(baseline.beside(&scored, kept, format));
        progress(done as u64 + 1, all.len() as u64);
    }
    let smallest = |place: &usize| (sizes[*place].bytes, usize::MAX - place);
    let keeping = (0..sizes.len()).filter(|place| sizes[*place].keeps);
    Ok(VectorSizes {
        rows: chosen.len() as u64,
        standard_errors: first.map_or([0.0; 2], |first| first.errors()),
        advised: keeping.min_by_key(smallest).unwrap_or(0),
        sizes,
    })
}

/// [`vector_sizes`] of rows of a dataset: as they are, and through each of these networks, by name. `progress` hears of all tables
/// together.
///
/// # Errors
/// As [`vector_sizes`], [`Embedder::new`] and [`Embedder::embed`].
pub(crate) async fn through(
    engine: &Engine,
    dataset: &Dataset,
    rows: &[u32],
    networks: &[(&str, &[LayerWeights])],
    most: usize,
    mut progress: impl FnMut(u64, u64),
) -> Result<Vec<(String, VectorSizes)>> {
    let name = |row: &u32| dataset.class_names[dataset.labels[*row as usize] as usize].clone();
    let labels: Vec<String> = rows.iter().map(name).collect();
    let own = ("rows as in the file", None);
    let networks = networks.iter().map(|(name, layers)| (*name, Some(*layers)));
    let tables: Vec<_> = std::iter::once(own).chain(networks).collect();
    let dim = |layers: &Option<&[LayerWeights]>| {
        let last = layers.and_then(<[_]>::last);
        last.map_or(dataset.features.dim(), |last| last.shape[0])
    };
    let tried = |(_, layers): &(&str, Option<&[LayerWeights]>)| {
        VectorSizes::tried(dim(layers)).len() as u64
    };
    let all: u64 = tables.iter().map(tried).sum();
    let (mut found, mut before) = (Vec::new(), 0);
    for table in tables {
        let (name, layers) = table;
        let mut values = Vec::new();
        match layers {
            None => dataset.features.read(rows, &mut values).await?,
            Some(layers) => {
                let mut embedder = Embedder::new(engine.clone(), layers).await?;
                values = embedder.embed_rows(&dataset.features, rows).await?.values;
            }
        }
        let rows = RowSource::Memory {
            values,
            dim: dim(&layers),
        };
        let rows = Rows {
            rows: &rows,
            labels: &labels,
        };
        let heard = |done, _| progress(before + done, all);
        let sizes = vector_sizes(engine, rows, most, 0, heard).await?;
        found.push((name.to_owned(), sizes));
        before += tried(&table);
    }
    Ok(found)
}

impl Judged {
    /// Standard errors of both scores over the queries.
    fn errors(&self) -> [f64; 2] {
        let precisions = self
            .queries
            .iter()
            .map(|q| f64::from(q.average_precision_at_r));
        [self.metrics.standard_error, mean_and_error(precisions)[1]]
    }

    /// The other rows' scores beside these, which are of the same rows in full.
    fn beside(&self, other: &Self, dim: usize, format: VectorFormat) -> VectorSize {
        let pairs = || self.queries.iter().zip(&other.queries);
        let hit = |query: &QueryScore| f64::from(u8::from(query.hit));
        let precision = |query: &QueryScore| f64::from(query.average_precision_at_r);
        let nearest = mean_and_error(pairs().map(|(whole, cut)| hit(whole) - hit(cut)));
        let groups = mean_and_error(pairs().map(|(whole, cut)| precision(whole) - precision(cut)));
        let limits = self.errors();
        VectorSize {
            dim,
            format,
            bytes: (dim * format.bits()).div_ceil(8) as u64,
            precision_at_1: other.metrics.precision_at_1,
            mean_average_precision_at_r: other.metrics.mean_average_precision_at_r,
            lost_precision_at_1: nearest,
            lost_mean_average_precision_at_r: groups,
            keeps: nearest[0] + SURE_NEAREST * nearest[1] <= limits[0]
                && groups[0] + SURE_GROUPS * groups[1] <= limits[1],
        }
    }
}

/// Mean of numbers, and its standard error.
fn mean_and_error(values: impl Iterator<Item = f64> + Clone) -> [f64; 2] {
    let count = values.clone().count().max(1) as f64;
    let mean = values.clone().sum::<f64>() / count;
    let squares: f64 = values.map(|value| (value - mean).powi(2)).sum();
    [mean, (squares / (count * (count - 1.0).max(1.0))).sqrt()]
}
