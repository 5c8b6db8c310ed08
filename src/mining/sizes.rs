//! [`MiningSpec`]: sizes of a mining, the memory and time that follow from them, and its block of anchors.

use crate::base::error::Result;
use crate::base::forecast::{Forecast, MiningMethod, Rate, check_count};
use crate::base::ledger::Purpose;
use crate::base::plan::{MemoryPlan, Room};
use crate::cpu::Distance;
use crate::kernels::ranks::{Row, SEGMENT};
use crate::kernels::stride;
use crate::kernels::triplet_margin::{OWNERS, TERMS, part_stride};
use crate::mining::mining_pass::MiningPass;
use crate::mining::row_pass::{BlockSizes, RowPass};
use crate::mining::row_work::RowWork;
use crate::rules::losses::Loss;
use crate::rules::miners::Miner;
use crate::rules::mining_rule::{MiningRule, Operands};
use crate::search::evaluation::EvaluationSpec;

/// Bytes of a block's buffers, without the resident references.
pub(super) const SCRATCH_BYTES: u64 = 64 << 20;
/// The most anchors of a block.
pub(super) const BLOCK_ROWS: u64 = 512;
pub(super) const ADVICE: &str = "raise the budget, or use fewer references or dimensions";

/// The sizes of a mining.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MiningSpec {
    /// Number of anchors.
    pub anchors: usize,
    /// Number of references: the rows that positives and negatives come from.
    pub references: usize,
    /// Columns of both.
    pub dim: usize,
    /// References of the largest class.
    pub positives: usize,
    /// The references are the anchors themselves; an anchor is then no positive of itself.
    pub own: bool,
    /// The gradient is wanted. With `own`, each row's gradient is the sum of its gradients as an anchor and as a reference.
    pub gradient: bool,
    /// The references get a gradient of their own: of a loss with proxies, one side is its proxies.
    pub proxies: bool,
    /// With `own`, all anchors must be one block (`LiftedStructure`).
    pub whole: bool,
    /// By ranks or by rows, see [`MiningMethod`].
    pub path: MiningMethod,
    /// The loss needs similarities between positives and negatives (`swap`).
    pub swap: bool,
    /// Use of the kept pairs in a pass by rows.
    pub work: RowWork,
    /// The most triplets of an anchor that are computed one by one; 0 by ranks.
    pub looked_at: u64,
}

/// Block sizes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    pub(super) rows: usize,
    pub(super) thresholds: u64,
}

impl MiningSpec {
    /// Sizes for references with these classes and a number of other rows as anchors, for counts alone.
    pub fn of(labels: &[u32], dim: usize, anchors: usize) -> Self {
        let EvaluationSpec { positives, .. } = EvaluationSpec::of(labels, dim, anchors);
        Self {
            anchors,
            references: labels.len(),
            dim,
            positives,
            ..Self::default()
        }
    }

    /// Sizes for references with these labels and a number of other rows as anchors, for counts alone.
    pub fn of_names(labels: &[String], dim: usize, anchors: usize) -> Self {
        let EvaluationSpec { positives, .. } = EvaluationSpec::of_names(labels, dim, anchors);
        Self {
            anchors,
            references: labels.len(),
            dim,
            positives,
            ..Self::default()
        }
    }

    /// These sizes, set for this miner and loss.
    #[must_use]
    pub fn mined_by(self, miner: &Miner, loss: Option<&Loss>) -> Self {
        // The distances change no size.
        let rule = MiningRule::new(miner, Distance::default(), loss, Distance::default());
        Self {
            path: rule.path(),
            swap: rule.swap(),
            work: RowWork::of(&rule),
            looked_at: rule.looked_at(self.positives as u64, self.references as u64),
            proxies: rule.operands() != Operands::Rows,
            whole: rule.looks_at_all(),
            ..self
        }
    }

    /// Tells if a gradient of the references is added up.
    pub(super) fn references_learn(&self) -> bool {
        self.gradient && (self.own || self.proxies)
    }

    /// Forecasts a mining: a pure function, monotone in the room.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] and [`crate::Error::TooLarge`], with the numbers.
    pub fn plan(&self, room: &Room, rate: &Rate) -> Result<Forecast> {
        check_count("references", self.references)?;
        check_count("anchors", self.anchors)?;
        if self.path == MiningMethod::Rows {
            self.work.check(self.dim, self.references, self.swap)?;
            self.work.check_draws(self.positives)?;
        }
        let cut = self.cut(room);
        let memory = self.buffers(&cut);
        memory.fits_or("mining", room, ADVICE, |room| self.buffers(&self.cut(room)))?;
        let operations = self.anchors as f64 * self.operations_of_an_anchor();
        let rows = (self.references + self.anchors) as u64;
        let traffic_bytes = rows.saturating_mul(4 * self.dim as u64);
        Ok(Forecast {
            memory,
            block_queries: cut.rows as u64,
            chunk_rows: self.references as u64,
            resident: true,
            passes: 1,
            submits: self.anchors.div_ceil(cut.rows) as u64,
            traffic_bytes,
            operations,
            predicted_ms: rate.ms(operations, traffic_bytes),
            path: Some(self.path),
            batch_chunk: None,
            map_bytes: 0,
        })
    }

    /// Operations of an anchor: similarities, and as much again for the gradient; and the triplets that are computed one by one,
    /// from both sides.
    pub(super) fn operations_of_an_anchor(&self) -> f64 {
        let stride = stride(self.dim) as f64;
        let of_a_triplet = if self.swap { 4.0 * stride } else { 32.0 };
        4.0 * self.references as f64 * stride + self.looked_at as f64 * of_a_triplet
    }

    /// As many anchors at once as fit the room, one at least. If references learn, always the same number: their gradient adds up
    /// block by block, and its bits must not depend on the budget.
    pub(super) fn cut(&self, room: &Room) -> Cut {
        let places = self.positives as u64 + 1;
        let cut = |rows: u64| Cut {
            rows: rows as usize,
            thresholds: rows.saturating_mul(places),
        };
        if self.own && self.whole {
            return cut(self.anchors as u64);
        }
        if self.references_learn() {
            return cut(OWNERS.min(self.anchors).max(1) as u64);
        }
        let fixed = self.buffers(&cut(1)).total_bytes();
        // Rounding to 16-byte units can hide up to that much of each buffer's growth.
        let row_bytes = (self.buffers(&cut(2)).total_bytes() - fixed).saturating_add(10 * 16);
        let bank = Self::bank(MemoryPlan::default(), self).total_bytes();
        let scratch = SCRATCH_BYTES.saturating_sub(fixed.saturating_sub(bank));
        let free = room.free_bytes.saturating_sub(fixed).min(scratch);
        let segments = (self.references as u64).div_ceil(SEGMENT as u64);
        let largest = match self.path {
            MiningMethod::Ranks => {
                let parts = segments.saturating_mul(4 * part_stride(stride(self.dim)) as u64);
                parts.max(places.saturating_mul(8))
            }
            MiningMethod::Rows => 4 * RowPass::width(self.references) as u64,
        };
        let rows = (1 + free / row_bytes)
            .min(room.max_buffer_bytes / largest.max(1))
            .min(BLOCK_ROWS)
            .min(self.anchors as u64);
        cut(rows.max(1))
    }

    /// Buffers of the references, which are not scratch.
    pub(super) fn bank(plan: MemoryPlan, spec: &Self) -> MemoryPlan {
        let (references, stride) = (spec.references as u64, stride(spec.dim) as u64);
        let floats = references.saturating_mul(stride);
        plan.with::<f32>(Purpose::MemoryBank, "mine.references", floats)
            .with::<[u32; 2]>(Purpose::MemoryBank, "mine.tags", references)
    }

    pub(super) fn buffers(&self, cut: &Cut) -> MemoryPlan {
        let stride = stride(self.dim) as u64;
        let (references, rows) = (self.references as u64, cut.rows as u64);
        let shares = if self.references_learn() {
            references.saturating_mul(stride)
        } else {
            0
        };
        let plan = Self::bank(MemoryPlan::default(), self)
            .with::<f32>(Purpose::Activations, "mine.anchors", rows * stride)
            .with::<Row>(Purpose::Ranks, "mine.rows", rows);
        let block = BlockSizes {
            rows,
            references,
            thresholds: cut.thresholds,
        };
        let (stride, anchors) = (stride as usize, self.anchors as u64);
        let blocks = std::iter::once(block);
        let plan = MiningPass::plan(plan, self.path, self.work, anchors, stride, blocks);
        let stride = stride as u64;
        plan.with::<f32>(Purpose::Gradients, "mine.gradient", rows * stride)
            .with::<f32>(Purpose::Gradients, "mine.shares", shares)
            .with::<u32>(Purpose::Staging, "mine.report", TERMS as u64 + rows)
    }
}
