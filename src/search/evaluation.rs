//! [`Evaluator`]: the evaluation phase. Takes unit rows with labels, gives [`Retrieval`] by ranking every query's positives among
//! all references, block by block, in memory that its plan fixes: references that do not fit are streamed.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use rand::seq::SliceRandom as _;

use crate::base::error::{Error, Result};
use crate::base::forecast::{Forecast, Rate, check_count};
use crate::base::ledger::Purpose;
use crate::base::order;
use crate::base::plan::{MemoryPlan, Room};
use crate::base::rng;
use crate::data::by_class::{ByClass, class_counts};
use crate::data::groups;
use crate::data::{RowSource, classes};
use crate::engine::pace::{Fetch, Pace, Slices};
use crate::engine::{DeviceVec, Engine, Workspace};
use crate::kernels::ranks::{self, Block, Inputs, LabelBits, NO_ID, Row, Scratch};
use crate::kernels::tile::Shape;
use crate::kernels::{self, gather, stride};
use crate::model::unit_rows::{TILE_ROWS, UnitRows};
use crate::search::metrics::{Retrieval, RetrievalSum};

/// The most queries of a block if all references are resident, and if they are streamed.
const BLOCK_QUERIES: u64 = 1024;
const STREAMED_BLOCK_QUERIES: u64 = 8192;
/// The most thresholds of a block if all references are resident, and if they are streamed.
const BLOCK_THRESHOLDS: u64 = 1 << 20;
const STREAMED_BLOCK_THRESHOLDS: u64 = 1 << 22;
/// The smallest sizes of a plan.
const FEWEST_THRESHOLDS: u64 = 256;
const FEWEST_REFERENCES: u64 = 256;
/// The most dispatches that sort the thresholds of a query.
const MOST_STAGES: u32 = 144;
/// Bytes of a threshold with its gap count, and of a query beside its row.
const THRESHOLD_BYTES: u64 = 12;
const QUERY_BYTES: u64 = 4 + size_of::<Row>() as u64;
const ADVICE: &str = "raise the budget, or use fewer dimensions";

/// Sizes that an evaluation needs memory for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EvaluationSpec {
    /// References of the largest side.
    pub references: usize,
    /// Columns of the widest rows.
    pub dim: usize,
    /// The most queries.
    pub queries: usize,
    /// The most positives of one query.
    pub positives: usize,
}

/// Block sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cut {
    queries: usize,
    thresholds: usize,
    references: usize,
}

impl Cut {
    /// Bytes of the queries, with rows of `row_bytes` bytes, and of their thresholds.
    fn bytes(&self, row_bytes: u64) -> u64 {
        self.queries as u64 * (row_bytes + QUERY_BYTES) + self.thresholds as u64 * THRESHOLD_BYTES
    }
}

impl EvaluationSpec {
    /// Spec for rows with these labels, evaluated against each other or by other queries.
    pub fn of(labels: &[u32], dim: usize, queries: usize) -> Self {
        Self {
            references: labels.len(),
            dim,
            queries,
            positives: class_counts(labels).into_iter().max().unwrap_or(0) as usize,
        }
    }

    /// Spec for rows with these label names, evaluated against each other or by other queries.
    pub fn of_names(labels: &[String], dim: usize, queries: usize) -> Self {
        let mut counts = HashMap::new();
        for label in labels {
            *counts.entry(label.as_str()).or_insert(0) += 1;
        }
        Self {
            references: labels.len(),
            dim,
            queries,
            positives: counts.into_values().max().unwrap_or(0),
        }
    }

    /// Spec with the larger of each size.
    pub(crate) fn max(self, other: Self) -> Self {
        Self {
            references: self.references.max(other.references),
            dim: self.dim.max(other.dim),
            queries: self.queries.max(other.queries),
            positives: self.positives.max(other.positives),
        }
    }

    /// Forecasts an evaluation: a pure function, monotone in the room.
    ///
    /// # Errors
    /// [`Error::Refused`] and [`Error::TooLarge`], with the numbers.
    pub fn plan(&self, room: &Room, rate: &Rate) -> Result<Forecast> {
        check_count("references", self.references)?;
        check_count("queries", self.queries)?;
        let cut = self.cut(room);
        let buffers = |cut: &Cut| Evaluator::plan(MemoryPlan::default(), self, cut);
        let memory = buffers(&cut);
        memory.fits_or("evaluation", room, ADVICE, |room| buffers(&self.cut(room)))?;
        Ok(self.forecast(&cut, memory, rate))
    }

    /// Forecast of one evaluation with these block sizes.
    pub(crate) fn forecast(&self, cut: &Cut, memory: MemoryPlan, rate: &Rate) -> Forecast {
        let resident = cut.references >= self.references;
        let per_block = (cut.thresholds / (self.positives + 1)).clamp(1, cut.queries.max(1));
        let windows = (self.positives + 1).div_ceil(cut.thresholds).max(1);
        let blocks = (self.queries.div_ceil(per_block) * windows) as u64;
        let row_bytes = 4 * self.dim as u64;
        let (queries, references) = (self.queries as u64, self.references as u64);
        let passes = if resident { 1 } else { blocks };
        let operations =
            2.0 * queries as f64 * windows as f64 * references as f64 * stride(self.dim) as f64;
        let traffic_bytes =
            row_bytes.saturating_mul(passes.saturating_mul(references).saturating_add(queries));
        let chunks = self.references.div_ceil(cut.references.max(1)) as u64;
        Forecast {
            memory,
            block_queries: per_block as u64,
            chunk_rows: cut.references as u64,
            resident,
            passes,
            submits: blocks.saturating_mul(chunks),
            traffic_bytes,
            operations,
            predicted_ms: rate.ms(operations, traffic_bytes),
            path: None,
        }
    }

    /// The largest blocks that fit the room: all references at once if they fit beside blocks of a useful size.
    pub(crate) fn cut(&self, room: &Room) -> Cut {
        let row_bytes = 4 * stride(self.dim) as u64;
        let reference_bytes = row_bytes + 8;
        let references = self.references as u64;
        // Bytes that remain beside the rounding of every buffer.
        let free = room.free_bytes.saturating_sub(8 * 16);
        let rest = free.saturating_sub(reference_bytes.saturating_mul(references));
        let whole = self.blocks(rest, room.max_buffer_bytes, BLOCK_QUERIES, BLOCK_THRESHOLDS);
        let useful = whole.queries >= self.queries.min(64)
            && whole.thresholds > self.positives.min(1 << 16)
            && whole.bytes(row_bytes) <= rest
            && row_bytes.saturating_mul(references) <= room.max_buffer_bytes;
        if useful {
            return Cut {
                references: self.references.max(1),
                ..whole
            };
        }
        // A quarter for streamed references, and never so little that only a few go at a time.
        let fewest = FEWEST_REFERENCES.min(references).max(1);
        let cut = self.blocks(
            (free / 4 * 3).min(free.saturating_sub(fewest * reference_bytes)),
            room.max_buffer_bytes,
            STREAMED_BLOCK_QUERIES,
            STREAMED_BLOCK_THRESHOLDS,
        );
        let rest = free.saturating_sub(cut.bytes(row_bytes)) / reference_bytes;
        let most = (room.max_buffer_bytes / row_bytes.max(1)).min(references);
        Cut {
            references: rest.min(most).max(fewest) as usize,
            ..cut
        }
    }

    /// The largest blocks that fit in `bytes`, one query at least.
    fn blocks(&self, bytes: u64, largest: u64, most_queries: u64, most_thresholds: u64) -> Cut {
        let row_bytes = 4 * stride(self.dim) as u64;
        let places = self.positives as u64 + 1;
        let most_thresholds = most_thresholds.min(largest / 8);
        let most_queries = most_queries
            .min(self.queries as u64)
            .min(largest / row_bytes.max(1))
            .max(1);
        let own_bytes = row_bytes + QUERY_BYTES;
        let query_bytes = own_bytes + places.min(most_thresholds) * THRESHOLD_BYTES;
        let beside = bytes.saturating_sub(FEWEST_THRESHOLDS * THRESHOLD_BYTES) / own_bytes;
        let queries = (bytes / query_bytes).min(beside).clamp(1, most_queries);
        let left = bytes.saturating_sub(queries * own_bytes) / THRESHOLD_BYTES;
        let thresholds = places
            .saturating_mul(queries)
            .min(most_thresholds)
            .min(left);
        Cut {
            queries: queries as usize,
            thresholds: thresholds.max(FEWEST_THRESHOLDS) as usize,
            references: 0,
        }
    }
}

/// Rows with a label each: references, or rows that search them.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// `[labels, dim]`, of any length.
    pub rows: &'a RowSource,
    /// Label of each row.
    pub labels: &'a [String],
}

impl Rows<'_> {
    /// Checks that every row has a label and that both sets have as many dimensions.
    ///
    /// # Errors
    /// [`Error::Data`] with the numbers.
    pub fn check_against(self, references: Self) -> Result<()> {
        let (dim, own_dim) = (references.rows.dim(), self.rows.dim());
        if dim != own_dim {
            return Err(Error::Data(format!(
                "references have {dim} dimensions, embeddings {own_dim}: they must be as many"
            )));
        }
        for (what, rows) in [("embeddings", self), ("references", references)] {
            if rows.labels.len() != rows.rows.rows() {
                return Err(Error::Data(format!(
                    "{} labels for {} rows of {what}: there must be one a row",
                    rows.labels.len(),
                    rows.rows.rows()
                )));
            }
        }
        Ok(())
    }
}

/// Scores embeddings: every row is a query against `references`, or against the other rows if there are none.
///
/// `at` lists the k of recall@k and precision@k. `progress` receives the number of queries done and the number of all.
///
/// # Errors
/// [`Error::Data`] if dimensions differ or no query has a positive; [`Error::Refused`] if not even the smallest blocks fit the
/// engine's budget.
pub async fn evaluate(
    engine: &Engine,
    queries: Rows<'_>,
    references: Option<Rows<'_>>,
    at: &[u64],
    mut progress: impl FnMut(u64, u64),
) -> Result<Retrieval> {
    let all = usize::MAX;
    let groups = None;
    evaluate_within(engine, queries, references, groups, at, all, &mut progress).await
}

/// Scores embeddings across groups, such as donors, subjects or cameras: a row's own group is left out of its neighbours. `groups`
/// has the group of each query; `references` come with the group of each.
///
/// # Errors
/// As [`evaluate`]; [`Error::Data`] if a row has no group, or all have the same one.
pub async fn evaluate_across(
    engine: &Engine,
    queries: Rows<'_>,
    groups: &[String],
    references: Option<(Rows<'_>, &[String])>,
    at: &[u64],
    mut progress: impl FnMut(u64, u64),
) -> Result<Retrieval> {
    let known = references.map_or(groups, |(_, groups)| groups);
    let references = references.map(|(rows, _)| rows);
    groups::check(queries.rows.rows(), groups)?;
    groups::check(references.unwrap_or(queries).rows.rows(), known)?;
    let mut all = groups.iter().chain(known);
    if let Some(first) = all.next()
        && all.all(|group| group == first)
    {
        return Err(groups::only_one(first));
    }
    let groups = Some([groups, known]);
    let depth = usize::MAX;
    evaluate_within(
        engine,
        queries,
        references,
        groups,
        at,
        depth,
        &mut progress,
    )
    .await
}

/// Scores embeddings by the nearest references of every query alone: R, or the largest k in `at`. This takes the CPU less time.
/// [`Metrics::OF_THE_NEAREST`](crate::Metrics::OF_THE_NEAREST) are equal; MAP and MRR are not a number.
///
/// # Errors
/// As [`evaluate`].
pub async fn evaluate_nearest(
    engine: &Engine,
    queries: Rows<'_>,
    references: Option<Rows<'_>>,
    at: &[u64],
    mut progress: impl FnMut(u64, u64),
) -> Result<Retrieval> {
    let depth = at.iter().max().copied().unwrap_or(0);
    let depth = usize::try_from(depth).unwrap_or(usize::MAX);
    let groups = None;
    let retrieval = evaluate_within(
        engine,
        queries,
        references,
        groups,
        at,
        depth,
        &mut progress,
    );
    Ok(retrieval.await?.of_the_nearest())
}

/// Scores embeddings by ranks up to the larger of `depth` and R.
async fn evaluate_within(
    engine: &Engine,
    queries: Rows<'_>,
    references: Option<Rows<'_>>,
    groups: Option<[&[String]; 2]>,
    at: &[u64],
    depth: usize,
    mut progress: &mut dyn FnMut(u64, u64),
) -> Result<Retrieval> {
    let known = references.unwrap_or(queries);
    queries.check_against(known)?;
    let dim = known.rows.dim();
    let names = classes(known.labels);
    let numbers: HashMap<&str, u32> = names.iter().map(String::as_str).zip(0..).collect();
    let numbered = |labels: &[String]| -> Vec<u32> {
        let none = names.len() as u32;
        labels
            .iter()
            .map(|label| *numbers.get(label.as_str()).unwrap_or(&none))
            .collect()
    };
    let (labels, query_labels) = (numbered(known.labels), numbered(queries.labels));
    let groups = groups.map(|[own, known]| {
        let mut numbers: HashMap<&str, u32> = HashMap::new();
        let mut number = |group| {
            let next = numbers.len() as u32;
            *numbers.entry(group).or_insert(next)
        };
        [own, known].map(|groups| -> Vec<u32> {
            groups.iter().map(|group| number(group.as_str())).collect()
        })
    });
    let groups_of = |side: usize| groups.as_ref().map(|groups| &groups[side][..]);
    let known_classes = Classes {
        labels: &labels,
        groups: groups_of(1),
    };
    let spec = EvaluationSpec::of(&labels, dim, query_labels.len());
    let (room, rate) = (engine.room(), Rate::default());
    let forecast = spec.plan(&room, &rate)?;
    engine.prepare(kernels::used_on(engine.info())).await?;
    let mut workspace = engine
        .workspace("evaluation", &forecast.memory, ADVICE)
        .await?;
    let mut evaluator = Evaluator::new(&mut workspace, spec.cut(&room));
    evaluator.depth = depth;
    let mut stored = UnitRows::Stored {
        rows: known.rows,
        chosen: None,
    };
    let own: Vec<u32> = (0..query_labels.len() as u32).collect();
    let asked = match references {
        None => Queries::Own(&own),
        Some(_) => Queries::Apart {
            rows: queries.rows,
            classes: Classes {
                labels: &query_labels,
                groups: groups_of(0),
            },
        },
    };
    let mut pace = Pace::of(engine);
    let mut slices = Slices::new(engine, &mut pace);
    let name = |class: u32| names.get(class as usize).cloned().unwrap_or_default();
    let ranking = evaluator
        .score(
            &mut slices,
            known_classes,
            &mut stored,
            asked,
            RetrievalSum::at(at),
            &mut progress,
        )
        .await?;
    slices.collect().await?;
    ranking.sum(&mut slices).finish(&name).ok_or_else(|| {
        let other = match groups {
            Some(_) => "a row of its label in another group",
            None => "another row of its label",
        };
        Error::Data(format!(
            "no query has {other}: there is nothing to retrieve"
        ))
    })
}

/// Class of each row, and its group if rows have groups: rows of one group are no neighbours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Classes<'a> {
    pub(crate) labels: &'a [u32],
    pub(crate) groups: Option<&'a [u32]>,
}

impl<'a> Classes<'a> {
    /// Keys of rows for the kernels: the class, and above its bits the group.
    ///
    /// # Errors
    /// [`Error::Data`] if 32 bits do not hold both.
    pub(crate) fn keys(all: [Self; 2]) -> Result<([Cow<'a, [u32]>; 2], LabelBits)> {
        let [Some(own), Some(known)] = all.map(|classes| classes.groups) else {
            let keys = all.map(|classes| Cow::Borrowed(classes.labels));
            return Ok((keys, LabelBits::CLASSES));
        };
        let most = |a: &[u32], b: &[u32]| a.iter().chain(b).max().copied().unwrap_or(0);
        let class = most(all[0].labels, all[1].labels);
        let group = most(own, known);
        let bits = u32::BITS - class.leading_zeros();
        if bits + u32::BITS - group.leading_zeros() > u32::BITS || bits == u32::BITS {
            return Err(Error::Data(format!(
                "{} classes in {} groups are more than 32 bits tell apart: leave out group",
                u64::from(class) + 1,
                u64::from(group) + 1
            )));
        }
        let keys = all.map(|classes| {
            let rows = classes
                .labels
                .iter()
                .zip(classes.groups.unwrap_or_default());
            Cow::Owned(rows.map(|(class, group)| class | group << bits).collect())
        });
        Ok((keys, LabelBits::with_groups(bits)))
    }
}

/// The queries of a score.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Queries<'a> {
    /// References, by their place: each is left out of its own ranking.
    Own(&'a [u32]),
    /// Rows that are no references.
    Apart {
        /// The rows.
        rows: &'a RowSource,
        /// Class of each, among the references' classes or past them.
        classes: Classes<'a>,
    },
}

/// The queries as the kernels take them.
struct Asking<'a> {
    labels: &'a [u32],
    groups: Option<&'a [u32]>,
    keys: &'a [u32],
    /// The queries are references too.
    own: bool,
    /// Keys of all references, ascending, if rows have groups: those with a query's own key are no positives of it.
    left_out: Option<Vec<u32>>,
}

impl Asking<'_> {
    fn group_of(&self, query: u32) -> Option<u32> {
        self.groups.map(|groups| groups[query as usize])
    }
}

/// A query whose gap counts are being read back.
#[derive(Debug)]
struct Asked {
    class: u32,
    group: Option<u32>,
    row: Row,
}

/// Keys of the references.
#[derive(Clone, Copy)]
struct Tags<'a> {
    keys: &'a [u32],
    bits: LabelBits,
}

/// Numbers in ascending order.
pub(crate) fn sorted(numbers: &[u32]) -> Vec<u32> {
    let mut sorted = numbers.to_vec();
    order::sort_numbers(&mut sorted);
    sorted
}

/// Number of times that a number stands in an ascending list.
pub(crate) fn count(sorted: &[u32], number: u32) -> u32 {
    let before = |bound: u64| sorted.partition_point(|other| u64::from(*other) < bound) as u32;
    before(u64::from(number) + 1) - before(u64::from(number))
}

/// A query of a block, and the range of its positives in the members.
struct Job {
    query: u32,
    class: u32,
    row: Row,
    members: Range<usize>,
}

/// Result of a score, whose last counts are still being read back: [`Slices::collect`] waits for them.
#[derive(Debug)]
pub(crate) struct Ranking {
    sum: RetrievalSum,
    /// Queries and their gap counts, not yet added.
    waiting: Vec<(Vec<Asked>, Books)>,
}

/// Gap counts that are being read back.
#[derive(Debug)]
enum Books {
    Whole(Fetch<u32>),
    /// Four counts together, as [`ranks::pack`] writes them.
    Packed(Fetch<[u32; 2]>),
}

impl Books {
    fn are_there(&self, slices: &Slices<'_>) -> bool {
        match self {
            Self::Whole(books) => slices.is_there(books),
            Self::Packed(books) => slices.is_there(books),
        }
    }

    fn take(self, slices: &mut Slices<'_>) -> Vec<u32> {
        match self {
            Self::Whole(books) => slices.take(books),
            Self::Packed(books) => {
                let words = slices.take(books).into_iter().flatten();
                words.flat_map(|word| [word & 0xffff, word >> 16]).collect()
            }
        }
    }
}

impl Ranking {
    /// The whole sum, after [`Slices::collect`].
    pub(crate) fn sum(mut self, slices: &mut Slices<'_>) -> RetrievalSum {
        self.add_collected(slices);
        self.sum
    }

    fn add_collected(&mut self, slices: &mut Slices<'_>) {
        let waiting = self.waiting.iter();
        let there = waiting.take_while(|(_, books)| books.are_there(slices));
        let there = there.count();
        for (rows, books) in self.waiting.drain(..there) {
            let books = books.take(slices);
            for Asked { class, group, row } in rows {
                let books = &books[row.offset as usize..][..=row.positives as usize];
                self.sum.add(class, group, negatives_above(books));
            }
        }
    }
}

/// The buffers of the phase.
#[derive(Debug)]
pub(crate) struct Evaluator {
    references: DeviceVec<f32>,
    tags: DeviceVec<[u32; 2]>,
    queries: DeviceVec<f32>,
    numbers: DeviceVec<u32>,
    batch: DeviceVec<Row>,
    scratch: Scratch,
    cut: Cut,
    /// Ranks beyond this and R are not needed.
    depth: usize,
}

impl Evaluator {
    /// Adds the buffers to a plan.
    pub(crate) fn plan(plan: MemoryPlan, spec: &EvaluationSpec, cut: &Cut) -> MemoryPlan {
        let stride = stride(spec.dim) as u64;
        let (queries, references) = (cut.queries as u64, cut.references as u64);
        let thresholds = cut.thresholds as u64;
        plan.with::<f32>(
            Purpose::Neighbours,
            "evaluate.references",
            references * stride,
        )
        .with::<[u32; 2]>(Purpose::Neighbours, "evaluate.tags", references)
        .with::<f32>(Purpose::Neighbours, "evaluate.queries", queries * stride)
        .with::<u32>(Purpose::Staging, "evaluate.numbers", queries)
        .with::<Row>(Purpose::Ranks, "evaluate.rows", queries)
        .with::<[u32; 2]>(Purpose::Ranks, "evaluate.thresholds", thresholds)
        .with::<u32>(Purpose::Ranks, "evaluate.books", thresholds)
    }

    pub(crate) fn new(workspace: &mut Workspace, cut: Cut) -> Self {
        Self {
            references: workspace.take("evaluate.references"),
            tags: workspace.take("evaluate.tags"),
            queries: workspace.take("evaluate.queries"),
            numbers: workspace.take("evaluate.numbers"),
            batch: workspace.take("evaluate.rows"),
            scratch: Scratch {
                thresholds: workspace.take("evaluate.thresholds"),
                books: workspace.take("evaluate.books"),
            },
            cut,
            depth: usize::MAX,
        }
    }

    /// Block sizes.
    pub(crate) fn cut(&self) -> &Cut {
        &self.cut
    }

    /// Number of references that the buffer holds.
    pub(crate) fn capacity(&self) -> usize {
        self.cut.references
    }

    /// Buffer for unit rows, `[capacity, stride]`, that the next score overwrites.
    pub(crate) fn references_mut(&mut self) -> &mut DeviceVec<f32> {
        &mut self.references
    }

    /// Buffers for references and for at least one query, that the next score overwrites.
    pub(crate) fn search_mut(&mut self) -> (&mut DeviceVec<f32>, &mut DeviceVec<f32>) {
        (&mut self.references, &mut self.queries)
    }

    /// Ranks each query's positives among the references, whose classes are `known`. The last results arrive with the next
    /// [`Slices::collect`]: several scores can be waited for together.
    ///
    /// # Errors
    /// As [`Slices::recorded`], and errors of reading the rows.
    pub(crate) async fn score(
        &mut self,
        slices: &mut Slices<'_>,
        known: Classes<'_>,
        references: &mut UnitRows<'_>,
        queries: Queries<'_>,
        sum: RetrievalSum,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Ranking> {
        let by_class = ByClass::new(known.labels);
        let asking = match queries {
            Queries::Own(_) => known,
            Queries::Apart { classes, .. } => classes,
        };
        let ([keys, labels], bits) = Classes::keys([asking, known])?;
        let label_of = |query: u32| asking.labels[query as usize];
        let mut order: Vec<u32> = match queries {
            Queries::Own(places) => places.to_vec(),
            Queries::Apart { classes, .. } => (0..classes.labels.len() as u32).collect(),
        };
        order::sort_by_key(&mut order, |query| (label_of(*query), *query));
        let asking = Asking {
            labels: asking.labels,
            groups: asking.groups,
            keys: &keys,
            own: matches!(queries, Queries::Own(_)),
            left_out: (bits != LabelBits::CLASSES).then(|| sorted(&labels)),
        };
        let labels = Tags {
            keys: &labels,
            bits,
        };
        if self.holds(references) {
            self.bring_by_class(slices, &by_class, references).await?;
            self.tag(slices, labels, by_class.members.iter().copied())
                .await?;
        }
        let mut ranking = Ranking {
            sum,
            waiting: Vec::new(),
        };
        let mut done = 0;
        while done < order.len() {
            let (jobs, lone) = self.next_block(&order[done..], &by_class, &asking);
            for _ in 0..lone {
                ranking.sum.add_lone();
            }
            done += jobs.len() + lone;
            match &jobs[..] {
                [job] if job.row.positives as usize >= self.cut.thresholds => {
                    let mut above = Vec::with_capacity(job.row.positives as usize);
                    for (part, ids) in self.parts(job, labels, &by_class, &asking) {
                        let part = std::slice::from_ref(&part);
                        let places = self
                            .pass(slices, labels, &by_class, references, queries, part, ids)
                            .await?;
                        let books = slices.read(&self.scratch.books, 0, places).await?;
                        above.extend(negatives_above(&books));
                    }
                    order::sort_wide(&mut above);
                    // Sums of floats: added in the order of the queries.
                    ranking.add_collected(slices);
                    let group = asking.group_of(job.query);
                    ranking.sum.add(job.class, group, above.into_iter());
                }
                [] => {}
                jobs => {
                    let all = 0..NO_ID;
                    let places = self
                        .pass(slices, labels, &by_class, references, queries, jobs, all)
                        .await?;
                    let books = self.fetch_books(slices, places, labels.keys.len()).await?;
                    let asked = |job: &Job| Asked {
                        class: job.class,
                        group: asking.group_of(job.query),
                        row: job.row,
                    };
                    let rows = jobs.iter().map(asked).collect();
                    ranking.waiting.push((rows, books));
                    ranking.add_collected(slices);
                }
            }
            progress(done as u64, order.len() as u64);
            slices.breathe().await?;
        }
        Ok(ranking)
    }

    /// Splits a query with more positives than a block holds: each part has some of its positives, and the range of reference ids
    /// that they are in.
    fn parts(
        &self,
        job: &Job,
        labels: Tags<'_>,
        by_class: &ByClass,
        asking: &Asking<'_>,
    ) -> Vec<(Job, Range<u32>)> {
        let room = self.cut.thresholds - 1;
        let part = |start: usize| {
            let members = start..job.members.end.min(start + room);
            let ids = by_class.members[start]..by_class.members[members.end - 1] + 1;
            let no_positive = match asking.left_out {
                Some(_) => {
                    let key = |row: &&u32| labels.keys[**row as usize] == job.row.label;
                    by_class.members[members.clone()].iter().filter(key).count()
                }
                None => usize::from(asking.own && ids.contains(&job.query)),
            };
            let row = Row {
                positives: (members.len() - no_positive) as u32,
                ..job.row
            };
            let part = Job {
                row,
                members,
                ..*job
            };
            (part, ids)
        };
        job.members.clone().step_by(room).map(part).collect()
    }

    /// Starts to read back the gap counts of a pass in `places` places, among `references` references.
    async fn fetch_books(
        &mut self,
        slices: &mut Slices<'_>,
        places: u64,
        references: usize,
    ) -> Result<Books> {
        Ok(if references <= ranks::MOST_PACKED {
            ranks::pack(slices.commands(), places as usize, &mut self.scratch);
            let packed = places.div_ceil(4);
            Books::Packed(slices.fetch(&self.scratch.thresholds, 0, packed).await?)
        } else {
            Books::Whole(slices.fetch(&self.scratch.books, 0, places).await?)
        })
    }

    /// Brings all references, in the order of their classes, so that the positives of a block are contiguous. They are read in
    /// their own order if there is room to sort a tile of them: a file is then read in one go.
    async fn bring_by_class(
        &mut self,
        slices: &mut Slices<'_>,
        by_class: &ByClass,
        references: &mut UnitRows<'_>,
    ) -> Result<()> {
        let (all, at_once) = (references.len(), self.cut.queries);
        if at_once < TILE_ROWS.min(all) {
            let members = by_class.members.iter().copied();
            return references
                .bring_among(slices, members, &mut self.references, 0)
                .await;
        }
        let mut places = vec![0; all];
        for (place, row) in (0..).zip(&by_class.members) {
            places[*row as usize] = place;
        }
        let stride = stride(references.dim());
        for (first, places) in (0..).step_by(at_once).zip(places.chunks(at_once)) {
            let count = places.len();
            let rows = first..first + count as u32;
            references
                .bring_among(slices, rows, &mut self.queries, 0)
                .await?;
            slices.upload(&mut self.numbers, 0, places).await?;
            let (rows, numbers) = (&self.queries, &self.numbers);
            let to = &mut self.references;
            gather::scatter(slices.commands(), rows, numbers, count, stride, to);
        }
        Ok(())
    }

    fn holds(&self, references: &UnitRows<'_>) -> bool {
        references.len() <= self.cut.references
    }

    /// The next queries that fit in one block, at least one if any is left, and the number of lone queries among them.
    fn next_block(
        &self,
        rest: &[u32],
        by_class: &ByClass,
        asking: &Asking<'_>,
    ) -> (Vec<Job>, usize) {
        let (mut jobs, mut lone, mut offset) = (Vec::new(), 0, 0);
        for query in rest {
            let class = asking.labels[*query as usize];
            let label = asking.keys[*query as usize];
            let members = by_class.of(class);
            let left_out = match &asking.left_out {
                Some(keys) => count(keys, label),
                None => u32::from(asking.own),
            };
            let positives = members.len() as u32 - left_out;
            if positives == 0 {
                lone += 1;
                continue;
            }
            let after = offset + positives + 1;
            let full = jobs.len() == self.cut.queries || after as usize > self.cut.thresholds;
            if full && !jobs.is_empty() {
                break;
            }
            let id = if asking.own { *query } else { NO_ID };
            jobs.push(Job {
                query: *query,
                class,
                row: Row {
                    label,
                    id,
                    offset,
                    positives,
                },
                members,
            });
            offset = after;
        }
        (jobs, lone)
    }

    /// Ranks the positives with an id in `ids` of one block of queries, and returns the number of gap counts.
    #[expect(clippy::too_many_arguments, reason = "who is ranked, by whom")]
    async fn pass(
        &mut self,
        slices: &mut Slices<'_>,
        labels: Tags<'_>,
        by_class: &ByClass,
        references: &mut UnitRows<'_>,
        queries: Queries<'_>,
        jobs: &[Job],
        ids: Range<u32>,
    ) -> Result<u64> {
        let resident = self.holds(references);
        // R is unknown here if only some of a query's positives are ranked.
        let depth = if ids == (0..NO_ID) {
            self.depth
        } else {
            usize::MAX
        };
        self.fetch(slices, by_class, references, queries, jobs)
            .await?;
        let batch: Vec<Row> = jobs.iter().map(|job| job.row).collect();
        slices.upload(&mut self.batch, 0, &batch).await?;
        let most = batch.iter().map(|row| row.positives as usize).max();
        let most = most.unwrap_or(0);
        let whole = Block {
            first_row: 0,
            rows: batch.len(),
            batch: 0,
            first_reference: 0,
            references: 0,
            stride: stride(references.dim()),
        };
        let bits = labels.bits;
        self.record(slices, Work::Clear, whole, 0..0).await?;
        // Blocks follow the order of the classes: their positives are one range of the members.
        let (first, last) = (&jobs[0].members, &jobs[jobs.len() - 1].members);
        let positives = first.start..last.end;
        if resident {
            self.record(slices, Work::Find(ids, bits), whole, positives)
                .await?;
            self.record(slices, Work::Order(most), whole, 0..0).await?;
            let all = 0..labels.keys.len();
            self.record(slices, Work::Gaps(depth, bits), whole, all)
                .await?;
        } else {
            for chunk in by_class.members[positives].chunks(self.cut.references) {
                // In their own order, as a file has them, which is also the order within a class.
                let mut rows = chunk.to_vec();
                order::sort_numbers(&mut rows);
                let rows = rows.into_iter();
                references
                    .bring_among(slices, rows.clone(), &mut self.references, 0)
                    .await?;
                self.tag(slices, labels, rows).await?;
                let find = Work::Find(ids.clone(), bits);
                self.record(slices, find, whole, 0..chunk.len()).await?;
            }
            self.record(slices, Work::Order(most), whole, 0..0).await?;
            let all = labels.keys.len();
            for first in (0..all).step_by(self.cut.references) {
                let rows = first as u32..all.min(first + self.cut.references) as u32;
                references
                    .bring_among(slices, rows.clone(), &mut self.references, 0)
                    .await?;
                self.tag(slices, labels, rows.clone()).await?;
                self.record(slices, Work::Gaps(depth, bits), whole, 0..rows.len())
                    .await?;
            }
        }
        let places = jobs.iter().map(|job| u64::from(job.row.positives) + 1);
        Ok(places.sum())
    }

    /// Runs one kernel of the pass on all rows of a block and these references, cut into slices.
    async fn record(
        &mut self,
        slices: &mut Slices<'_>,
        work: Work,
        block: Block,
        references: Range<usize>,
    ) -> Result<()> {
        let Self {
            references: known,
            tags,
            queries,
            batch,
            scratch,
            ..
        } = self;
        let inputs = Inputs {
            anchors: queries,
            references: known,
            batch,
            tags,
        };
        let info = slices.engine().info();
        let operations = 2.0 * block.stride as f64;
        match work {
            Work::Clear => ranks::clear(slices.commands(), &block, inputs, scratch),
            Work::Order(positives) => {
                slices.reserve(MOST_STAGES).await?;
                ranks::order(slices.commands(), &block, positives, inputs, scratch);
            }
            Work::Find(..) | Work::Gaps(..) => {
                let mut row = 0;
                while row < block.rows {
                    let all = references.len();
                    let (rows, at_once) = slices.pace().pairs(operations, block.rows - row, all);
                    for first in references.clone().step_by(at_once) {
                        let count = at_once.min(references.end - first);
                        let part = Block {
                            first_row: row,
                            rows,
                            batch: row,
                            first_reference: first,
                            references: count,
                            ..block
                        };
                        let commands = slices.commands();
                        match &work {
                            Work::Find(ids, bits) => {
                                let ids = ids.clone();
                                ranks::find(commands, &part, ids, *bits, inputs, scratch);
                            }
                            Work::Gaps(depth, bits) => {
                                let shape = Shape::of(info, rows);
                                ranks::gaps_within(
                                    commands, &part, *depth, *bits, shape, inputs, scratch,
                                );
                            }
                            Work::Clear | Work::Order(_) => {}
                        }
                        slices.recorded(operations * (rows * count) as f64).await?;
                    }
                    row += rows;
                }
            }
        }
        Ok(())
    }

    /// Uploads key and id of the references that are in the buffer now.
    async fn tag(
        &mut self,
        slices: &mut Slices<'_>,
        labels: Tags<'_>,
        rows: impl Iterator<Item = u32>,
    ) -> Result<()> {
        let mut rows = rows.peekable();
        let mut at = 0;
        while rows.peek().is_some() {
            let tags: Vec<[u32; 2]> = rows
                .by_ref()
                .take(1 << 16)
                .map(|row| [labels.keys[row as usize], row])
                .collect();
            slices.upload(&mut self.tags, at, &tags).await?;
            at += tags.len() as u64;
        }
        Ok(())
    }

    /// Makes the queries of a block the anchors of the pass.
    async fn fetch(
        &mut self,
        slices: &mut Slices<'_>,
        by_class: &ByClass,
        references: &mut UnitRows<'_>,
        queries: Queries<'_>,
        jobs: &[Job],
    ) -> Result<()> {
        let asked = jobs.iter().map(|job| job.query);
        let dim = references.dim();
        match queries {
            Queries::Own(_) if self.holds(references) => {
                let place = |job: &Job| {
                    let class = by_class.of(job.class);
                    let within =
                        by_class.members[class.clone()].partition_point(|row| *row < job.query);
                    (class.start + within) as u32
                };
                let places: Vec<u32> = jobs.iter().map(place).collect();
                slices.upload(&mut self.numbers, 0, &places).await?;
                let (from, numbers) = (&self.references, &self.numbers);
                let (count, stride) = (places.len(), stride(dim));
                gather::gather(
                    slices.commands(),
                    from,
                    numbers,
                    0,
                    count,
                    stride,
                    &mut self.queries,
                );
                Ok(())
            }
            Queries::Own(_) => {
                references
                    .bring_among(slices, asked, &mut self.queries, 0)
                    .await
            }
            Queries::Apart { rows, .. } => {
                let mut stored = UnitRows::Stored { rows, chosen: None };
                stored
                    .bring_among(slices, asked, &mut self.queries, 0)
                    .await
            }
        }
    }
}

/// The kernels of a pass.
enum Work {
    Clear,
    Find(Range<u32>, LabelBits),
    /// The most positives of a query.
    Order(usize),
    /// Largest rank that is needed, beside R.
    Gaps(usize, LabelBits),
}

/// Number of negatives that are nearer than each positive of a query, ascending, from the query's gap counts.
fn negatives_above(books: &[u32]) -> impl Iterator<Item = u64> {
    books[1..].iter().rev().scan(0, |above, gap| {
        *above += u64::from(*gap);
        Some(*above)
    })
}

/// A seeded choice of `most` of `count` rows, ascending; all of them if `most` is 0 or more than there are.
pub(crate) fn choose(count: usize, most: usize, seed: u64) -> Vec<u32> {
    let mut rows: Vec<u32> = (0..count as u32).collect();
    if most > 0 && most < count {
        rows.shuffle(&mut rng::stream(seed, "queries"));
        rows.truncate(most);
        order::sort_numbers(&mut rows);
    }
    rows
}
