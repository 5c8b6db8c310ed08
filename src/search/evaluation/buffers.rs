//! [`EvaluationSpec`]: memory and time that an evaluation takes, and [`Evaluator`], the buffers that its plan fixes.

use std::collections::HashMap;

use crate::base::error::Result;
use crate::base::forecast::{Forecast, Rate, check_count};
use crate::base::ledger::Purpose;
use crate::base::plan::{MemoryPlan, Room};
use crate::data::by_class::class_counts;
use crate::engine::{DeviceVec, Workspace};
use crate::kernels::ranks::{Row, Scratch};
use crate::kernels::stride;

/// The most queries of a block if all references are resident, and if they are streamed.
const BLOCK_QUERIES: u64 = 1024;
const STREAMED_BLOCK_QUERIES: u64 = 8192;
/// The most thresholds of a block if all references are resident, and if they are streamed.
const BLOCK_THRESHOLDS: u64 = 1 << 20;
const STREAMED_BLOCK_THRESHOLDS: u64 = 1 << 22;
/// The smallest sizes of a plan.
const FEWEST_THRESHOLDS: u64 = 256;
const FEWEST_REFERENCES: u64 = 256;
/// Bytes of a threshold with its gap count, and of a query beside its row.
const THRESHOLD_BYTES: u64 = 12;
const QUERY_BYTES: u64 = 4 + size_of::<Row>() as u64;
pub(super) const ADVICE: &str = "raise the budget, or use fewer dimensions";

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
    pub(super) queries: usize,
    pub(super) thresholds: usize,
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
    /// [`crate::Error::Refused`] and [`crate::Error::TooLarge`], with the numbers.
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
            batch_chunk: None,
            map_bytes: 0,
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

/// The buffers of the phase.
#[derive(Debug)]
pub(crate) struct Evaluator {
    pub(super) references: DeviceVec<f32>,
    pub(super) tags: DeviceVec<[u32; 2]>,
    pub(super) queries: DeviceVec<f32>,
    pub(super) numbers: DeviceVec<u32>,
    pub(super) batch: DeviceVec<Row>,
    pub(super) scratch: Scratch,
    pub(super) cut: Cut,
    /// Ranks beyond this and R are not needed.
    pub(super) depth: usize,
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
        .with::<u32>(Purpose::Ranks, "evaluate.gap_counts", thresholds)
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
                gap_counts: workspace.take("evaluate.gap_counts"),
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
}
