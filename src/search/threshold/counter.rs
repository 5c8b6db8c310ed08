//! [`PairCounter`]: counts the pairs of a side by their similarity, block by block. The engine computes a block of similarities,
//! the host counts it, and the matrix of all never exists.

use std::borrow::Cow;
use std::ops::Range;

use super::counts::{EDGES, PairCounts, bin};
use crate::base::error::{Error, Result};
use crate::base::forecast::{Forecast, Rate, check_count};
use crate::base::interval::Unit;
use crate::base::ledger::Purpose;
use crate::base::memory::zeros;
use crate::base::plan::{MemoryPlan, Room};
use crate::base::working::Task;
use crate::cpu::Distance;
use crate::data::by_class::class_counts;
use crate::engine::gpu::STAGING_BYTES;
use crate::engine::pace::{Fetch, Slices};
use crate::engine::{DeviceVec, Engine};
use crate::kernels::ranks::Block;
use crate::kernels::tile::Shape;
use crate::kernels::{self, similarities, stride};
use crate::model::unit_rows::UnitRows;
use crate::search::rows::{Classes, count, sorted};

/// The most queries of a block, and the most references that they are compared with at once.
const BLOCK_ROWS: u64 = 16_384;
const CHUNK_ROWS: u64 = 4096;
/// The fewest references at once in a plan.
const FEWEST_ROWS: u64 = 64;
/// Similarities that one read brings back.
const READ_FLOATS: u64 = STAGING_BYTES / 4;
const ADVICE: &str = "raise the budget, or use fewer dimensions";

/// Sizes that a count of pairs needs memory for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThresholdSpec {
    /// Rows of the largest side.
    pub rows: usize,
    /// Columns of a row.
    pub dim: usize,
    /// The most queries: each is paired with all other rows.
    pub queries: usize,
}

/// Block sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cut {
    queries: usize,
    references: usize,
    similarities: usize,
}

impl ThresholdSpec {
    /// Spec for sides with these numbers of rows, `queries` of them queries; 0 is all.
    pub fn of(sides: &[usize], dim: usize, queries: usize) -> Self {
        let rows = sides.iter().copied().max().unwrap_or(0);
        Self {
            rows,
            dim,
            queries: match queries {
                0 => rows,
                most => most.min(rows),
            },
        }
    }

    /// Forecasts the count of one side: a pure function, monotone in the room.
    ///
    /// # Errors
    /// [`Error::Refused`] and [`Error::TooLarge`], with the numbers.
    pub fn plan(&self, room: &Room, rate: &Rate) -> Result<Forecast> {
        check_count("rows", self.rows)?;
        let cut = self.fit(room)?;
        let blocks = self.queries.div_ceil(cut.queries).max(1) as u64;
        let chunks = self.rows.div_ceil(cut.references) as u64;
        let (queries, rows) = (self.queries as u64, self.rows as u64);
        let row_bytes = 4 * self.dim as u64;
        let traffic_bytes = row_bytes * (blocks * rows + queries) + 4 * self.compared();
        let operations = 2.0 * self.compared() as f64 * stride(self.dim) as f64;
        Ok(Forecast {
            memory: self.buffers(&cut),
            block_queries: cut.queries as u64,
            chunk_rows: cut.references as u64,
            resident: false,
            passes: blocks,
            submits: (4 * self.compared() / STAGING_BYTES).max(blocks * chunks),
            traffic_bytes,
            operations,
            predicted_ms: rate.ms(operations, traffic_bytes),
            path: None,
            batch_chunk: None,
            map_bytes: 0,
        })
    }

    /// Pairs of a query with another row, each once.
    fn pairs(&self) -> u64 {
        let (queries, rows) = (self.queries as u64, self.rows as u64);
        queries * (queries.saturating_sub(1)) / 2 + queries * (rows - queries)
    }

    /// Similarities that are computed for the pairs; if only some rows are queries, a pair of two queries is computed twice.
    fn compared(&self) -> u64 {
        match self.queries == self.rows {
            true => self.pairs(),
            false => self.queries as u64 * self.rows as u64,
        }
    }

    /// The largest blocks that fit the room.
    fn fit(&self, room: &Room) -> Result<Cut> {
        let cut = self.cut(room);
        let plan_in = |room: &Room| self.buffers(&self.cut(room));
        plan_in(room).fits_or("threshold", room, ADVICE, plan_in)?;
        Ok(cut)
    }

    fn cut(&self, room: &Room) -> Cut {
        let row_bytes = 4 * stride(self.dim).max(4) as u64;
        let (rows, queries) = (self.rows.max(1) as u64, self.queries.max(1) as u64);
        // Bytes that remain beside the rounding of every buffer.
        let free = room.free_bytes.saturating_sub(4 * 16);
        let most = room.max_buffer_bytes / row_bytes;
        let references = (free / 4 / row_bytes).min(CHUNK_ROWS).min(most);
        let references = references.max(FEWEST_ROWS).min(rows);
        let width = similarities::width(references as usize) as u64;
        let most_similarities = (free / 4 / 4).min(READ_FLOATS).min(queries * width);
        let similarities = most_similarities.max(width);
        let left = free.saturating_sub(references * row_bytes + 4 * similarities);
        let queries = (left / row_bytes).min(BLOCK_ROWS).min(most).min(queries);
        Cut {
            queries: queries.max(1) as usize,
            references: references as usize,
            similarities: similarities as usize,
        }
    }

    fn buffers(&self, cut: &Cut) -> MemoryPlan {
        let stride = stride(self.dim) as u64;
        let (queries, references) = (cut.queries as u64, cut.references as u64);
        let similarities = cut.similarities as u64;
        MemoryPlan::default()
            .with::<f32>(Purpose::Neighbours, "threshold.queries", queries * stride)
            .with::<f32>(
                Purpose::Neighbours,
                "threshold.references",
                references * stride,
            )
            .with::<f32>(
                Purpose::Similarities,
                "threshold.similarities",
                similarities,
            )
    }
}

/// The pairs of a side.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    pub(super) counts: PairCounts,
    /// Class of each row.
    pub(super) labels: Vec<u32>,
    /// Group of each row, if pairs within a group do not count.
    pub(super) groups: Option<Vec<u32>>,
    /// Number of queries.
    pub(super) queries: usize,
    /// Pairs of one class, and pairs of two, by row; `errors` are those at a threshold, if one was given.
    pub(super) units: [Vec<Unit>; 2],
}

/// The buffers.
#[derive(Debug)]
pub(crate) struct PairCounter {
    queries: DeviceVec<f32>,
    references: DeviceVec<f32>,
    similarities: DeviceVec<f32>,
    cut: Cut,
}

/// A block of similarities that is being read back.
struct Waiting {
    /// Queries of the block, as places among the queries.
    asking: Range<usize>,
    /// Rows that they are compared with.
    references: Range<usize>,
    values: Fetch<f32>,
}

impl PairCounter {
    /// Takes the buffers from what is left of the engine's budget.
    ///
    /// # Errors
    /// As [`ThresholdSpec::plan`]; [`Error::Device`].
    pub(crate) async fn new(engine: &Engine, spec: &ThresholdSpec) -> Result<Self> {
        check_count("rows", spec.rows)?;
        let cut = spec.fit(&engine.room())?;
        engine.prepare(kernels::used_on(engine.info())).await?;
        let plan = spec.buffers(&cut);
        let mut workspace = engine.workspace("threshold", &plan, ADVICE).await?;
        Ok(Self {
            queries: workspace.take("threshold.queries"),
            references: workspace.take("threshold.references"),
            similarities: workspace.take("threshold.similarities"),
            cut,
        })
    }

    /// Counts every pair of a query in `asking`, ascending places, with another row of the side, of another group if rows have
    /// groups, each pair once; pairs in error at `edge` also by row. The engine's listener receives the number of pairs done.
    ///
    /// # Errors
    /// Errors of reading rows; [`Error::Device`], [`Error::NoMemory`], and [`Error::Stopped`] between slices.
    pub(crate) async fn count(
        &mut self,
        slices: &mut Slices<'_>,
        what: &str,
        classes: Classes<'_>,
        rows: &mut UnitRows<'_>,
        asking: &[u32],
        edge: Option<usize>,
    ) -> Result<Counted> {
        let (count, stride) = (rows.len(), stride(rows.dim()));
        let spec = ThresholdSpec {
            rows: count,
            dim: rows.dim(),
            queries: asking.len(),
        };
        let operations = 2.0 * stride as f64;
        let task = Task {
            what: what.to_owned(),
            unit: "pairs",
            total: spec.pairs(),
        };
        let brought = (asking.len() + asking.len().div_ceil(self.cut.queries) * count) as f64;
        slices.begin(
            task,
            operations * spec.compared() as f64 + brought * rows.operations(),
        );
        let mut tally = Tally::new(classes, asking, edge)?;
        let everyone = asking.len() == count;
        for (first, block) in (0..)
            .step_by(self.cut.queries)
            .zip(asking.chunks(self.cut.queries))
        {
            let places = block.iter().copied();
            rows.bring_among(slices, places, &mut self.queries, 0)
                .await?;
            // If all rows are queries, a row was compared with those before it already.
            let start = if everyone { first } else { 0 };
            for reference in (start..count).step_by(self.cut.references) {
                let references = reference..count.min(reference + self.cut.references);
                let places = references.start as u32..references.end as u32;
                rows.bring_among(slices, places, &mut self.references, 0)
                    .await?;
                let asking_here = match everyone {
                    true => block.partition_point(|row| (*row as usize) + 1 < references.end),
                    false => block.len(),
                };
                let asking = first..first + asking_here;
                self.compare(slices, &mut tally, asking, references, stride)
                    .await?;
            }
        }
        slices.collect().await?;
        tally.take(slices);
        Ok(tally.counted())
    }

    /// Compares the first queries of the block, those at these places among all, with these references, and starts to read the
    /// similarities.
    async fn compare(
        &mut self,
        slices: &mut Slices<'_>,
        tally: &mut Tally<'_>,
        asking: Range<usize>,
        references: Range<usize>,
        stride: usize,
    ) -> Result<()> {
        let first = asking.start;
        let width = similarities::width(references.len());
        let mut row = 0;
        while row < asking.len() {
            let most = (self.cut.similarities / width).min(asking.len() - row);
            let of_row = 2.0 * stride as f64 * references.len() as f64;
            let at_once = slices.pace().units(of_row, most);
            let bytes = (4 * at_once * width) as u64;
            if slices.room() < bytes {
                slices.collect().await?;
                tally.take(slices);
            }
            let part = Block {
                first_row: row,
                rows: at_once,
                batch: 0,
                first_reference: 0,
                references: references.len(),
                stride,
            };
            let shape = Shape::of(slices.engine().info(), at_once);
            similarities::similarities(
                slices.commands(),
                &part,
                shape,
                Distance::Cosine,
                &self.queries,
                (&self.references).into(),
                &mut self.similarities,
            );
            let floats = (at_once * width) as u64;
            let values = slices.fetch(&self.similarities, 0, floats).await?;
            tally.waiting.push(Waiting {
                asking: first + row..first + row + at_once,
                references: references.clone(),
                values,
            });
            slices.recorded(of_row * at_once as f64).await?;
            row += at_once;
        }
        Ok(())
    }
}

/// Host counts of the blocks that were read back.
struct Tally<'a> {
    labels: &'a [u32],
    groups: Option<&'a [u32]>,
    /// Key of each row's class and group.
    keys: Cow<'a, [u32]>,
    asking: &'a [u32],
    /// 1 for each row that is a query, else 0.
    asks: Vec<u8>,
    edge: usize,
    counts: PairCounts,
    /// Pairs of one class below the edge, and pairs of two at or above it, by row.
    errors: [Vec<u32>; 2],
    waiting: Vec<Waiting>,
}

impl<'a> Tally<'a> {
    fn new(classes: Classes<'a>, asking: &'a [u32], edge: Option<usize>) -> Result<Self> {
        let Classes { labels, groups } = classes;
        let ([keys, _], _) = Classes::keys([classes; 2])?;
        let rows = labels.len() as u64;
        let mut asks = zeros(rows, "rows that ask")?;
        for row in asking {
            asks[*row as usize] = 1;
        }
        Ok(Self {
            labels,
            groups,
            keys,
            asking,
            asks,
            // Without an edge, nothing reads the errors.
            edge: edge.unwrap_or(EDGES),
            counts: PairCounts::new()?,
            errors: [zeros(rows, "pairs by row")?, zeros(rows, "pairs by row")?],
            waiting: Vec::new(),
        })
    }

    /// Counts the blocks that were collected.
    fn take(&mut self, slices: &mut Slices<'_>) {
        for block in std::mem::take(&mut self.waiting) {
            let values: Vec<f32> = slices.take(block.values);
            let width = similarities::width(block.references.len());
            for (asking, values) in block.asking.zip(values.chunks_exact(width)) {
                let row = self.asking[asking] as usize;
                self.row(row, block.references.clone(), values);
            }
        }
    }

    fn row(&mut self, row: usize, references: Range<usize>, values: &[f32]) {
        let label = self.labels[row];
        for (other, value) in references.zip(values) {
            // A pair of two queries is counted by the earlier one; and no row is a pair with itself.
            if other <= row && self.asks[other] == 1 {
                continue;
            }
            if self
                .groups
                .is_some_and(|groups| groups[row] == groups[other])
            {
                continue;
            }
            let bin = bin(*value);
            let same = self.labels[other] == label;
            let (counts, errors) = match same {
                true => (&mut self.counts.same, &mut self.errors[0]),
                false => (&mut self.counts.different, &mut self.errors[1]),
            };
            counts[bin] += 1;
            if same == (bin < self.edge) {
                errors[row] += 1;
                errors[other] += 1;
            }
        }
    }

    fn counted(self) -> Counted {
        let everyone: Vec<u32> = (0..self.labels.len() as u32).collect();
        // A query is paired with all rows; another row is paired with the queries.
        let groups = self.groups.unwrap_or_default();
        let met =
            [&everyone, self.asking].map(|rows| Met::of(rows, self.labels, groups, &self.keys));
        let unit = |row: usize, same: bool| {
            let asks = self.asks[row] == 1;
            let met = &met[usize::from(!asks)];
            let group = groups.get(row).map(|group| (*group, self.keys[row]));
            let [all, own] = met.by(self.labels[row], group, asks);
            let pairs = if same { own } else { all - own };
            Unit {
                pairs,
                errors: u64::from(self.errors[usize::from(!same)][row]),
            }
        };
        let units =
            [true, false].map(|same| (0..self.labels.len()).map(|row| unit(row, same)).collect());
        Counted {
            labels: self.labels.to_vec(),
            groups: self.groups.map(<[u32]>::to_vec),
            queries: self.asking.len(),
            units,
            counts: self.counts,
        }
    }
}

/// Numbers of rows that a row may be paired with: in all, by class, by group, and by both.
struct Met {
    all: u64,
    of_class: Vec<u32>,
    of_group: Vec<u32>,
    /// Key of class and group of each row, ascending.
    of_both: Vec<u32>,
}

impl Met {
    fn of(rows: &[u32], labels: &[u32], groups: &[u32], keys: &[u32]) -> Self {
        let at = |all: &[u32]| -> Vec<u32> {
            let of_rows = rows.iter().filter_map(|row| all.get(*row as usize));
            of_rows.copied().collect()
        };
        Self {
            all: rows.len() as u64,
            of_class: class_counts(&at(labels)),
            of_group: class_counts(&at(groups)),
            of_both: sorted(&at(keys)),
        }
    }

    /// Partners of a row of this class, and of this group with its key if rows have groups: all, and those of its class. `one`: the
    /// row is among the counted rows.
    fn by(&self, class: u32, group: Option<(u32, u32)>, one: bool) -> [u64; 2] {
        let of = |counts: &[u32], at: u32| counts.get(at as usize).copied().unwrap_or(0).into();
        let [all, own] = [self.all, of(&self.of_class, class)];
        match group {
            None => [all, own].map(|met| met - u64::from(one)),
            // The row itself is of its group.
            Some((group, key)) => [
                all - of(&self.of_group, group),
                own - u64::from(count(&self.of_both, key)),
            ],
        }
    }
}

impl Counted {
    /// Refuses a side without pairs of one class or of two.
    pub(super) fn check(&self, side: &str) -> Result<()> {
        let [same, different] = self.counts.pairs();
        let why = match (same, different) {
            (0, _) if self.groups.is_some() => {
                format!("no two {side} rows of different groups are of one class")
            }
            (0, _) => format!("no two {side} rows are of one class"),
            (_, 0) => format!("all {side} rows are of one class"),
            _ => return Ok(()),
        };
        Err(Error::Data(format!(
            "{why}: a threshold takes pairs of the same class and of different ones"
        )))
    }

    /// Pairs by class.
    pub(super) fn by_class(&self, same: bool) -> Vec<Unit> {
        self.by(&self.labels, same)
    }

    /// Pairs by the class or group of each row.
    pub(super) fn by(&self, numbers: &[u32], same: bool) -> Vec<Unit> {
        let mut units = vec![Unit::default(); class_counts(numbers).len()];
        for (number, unit) in numbers.iter().zip(&self.units[usize::from(!same)]) {
            let sum = &mut units[*number as usize];
            sum.pairs += unit.pairs;
            sum.errors += unit.errors;
        }
        units
    }
}
