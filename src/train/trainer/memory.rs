//! Memory of a run: the plan that fits the room, advice where none does, and [`TrainBuffers`], the buffers of the steps.

use super::baseline::Linear;
use super::kept::Kept;
use super::neighbours::NEIGHBOURS;
use super::sizes::{Blocks, Sizes};
use super::truncated::Truncated;
use crate::base::error::{Error, Result};
use crate::base::ledger::Purpose;
use crate::base::plan::{MemoryPlan, Room};
use crate::data::Dataset;
use crate::engine::{DeviceVec, Workspace};
use crate::judge::linear::Unfit;
use crate::kernels::drift::Drift;
use crate::kernels::optimizer::{Moments, PARTS};
use crate::kernels::pair_counts::PAIRS;
use crate::kernels::ranks::{Row, SEGMENT};
use crate::kernels::stride;
use crate::mining::mining_pass::MiningPass;
use crate::mining::row_pass::BlockSizes;
use crate::model::activations::{Activations, Tile};
use crate::model::boundary::Boundary;
use crate::model::cross_batch_memory::CrossBatchMemory;
use crate::model::embedding_model::Embedded;
use crate::model::features::FeatureStore;
use crate::model::gradients::Gradients;
use crate::model::optimizer::{Clipping, HEAD};
use crate::model::proxies::ProxySpec;
use crate::model::row_weights::RowWeights;
use crate::model::unit_rows::TILE_ROWS;
use crate::search::evaluation::{Cut, Evaluator};
use crate::search::knn::SearchScratch;

pub(super) const MODEL: &str = "model.parameters";
pub(super) const TILE: [&str; 8] = [
    "evaluate.batch",
    "evaluate.layer1",
    "evaluate.layer2",
    "evaluate.layer3",
    "evaluate.layer4",
    "evaluate.layer5",
    "evaluate.layer6",
    "evaluate.layer7",
];

/// A memory plan that fits.
pub(super) struct Fit {
    /// The sizes, with the cut of a batch that fits.
    pub(super) sizes: Sizes,
    pub(super) plan: MemoryPlan,
    /// All features stay on the engine.
    pub(super) resident: bool,
    /// The most outputs of the linear baseline.
    pub(super) linear: Result<usize, Unfit>,
    /// Block sizes of evaluations.
    pub(super) cut: Cut,
}

#[derive(Debug)]
pub(super) struct TrainBuffers {
    pub(super) hidden: Activations,
    pub(super) gradients: Gradients,
    pub(super) embedded: Embedded,
    pub(super) gradient: DeviceVec<f32>,
    pub(super) moments: Moments,
    pub(super) batch: DeviceVec<Row>,
    pub(super) mining: MiningPass,
    pub(super) report: DeviceVec<u32>,
    /// Weight of each row of the batch, if a miner weighs rows.
    pub(super) row_weights: Option<RowWeights>,
    /// The boundary that the loss learns.
    pub(super) boundary: Option<Boundary>,
    /// Rows truncated to one size after the other, if each size has a loss.
    pub(super) truncated: Option<Truncated>,
    /// Clipping of the gradients, if asked for.
    pub(super) clipping: Option<Clipping>,
    /// Sums of squares of the gradient.
    pub(super) squares: DeviceVec<f32>,
    /// Mean gradient of a batch's rows and its running average, if there is a memory.
    pub(super) drift: Drift,
}

/// Advice for a run that does not fit, by the buffers that take the most memory.
pub(super) const ADVICE: &str = "raise the budget, or lower memory_size, batch_size or the widths";
pub(super) const ADVICE_WITHOUT_MEMORY: &str =
    "raise the budget, or lower batch_size or the widths";
/// A remark on refusals of runs with batch norm.
const WHOLE_BATCHES: &str = "batch norm takes the means and variances of whole batches, which therefore do not go through the head in \
     chunks; with layers.norm=layer-norm they can";
const ADVICE_WITH_PROXIES: &str = "raise the budget, or lower batch_size, embedding_size, or the proxies of a class where the \
     loss has several";
pub(super) const ADVICE_BEFORE_MEMORY: &str = "raise the budget, lower batch_size, or set memory_start_step to 0: until that step all \
     rows of a batch are mined at once";

impl Sizes {
    /// The plan that fits the room.
    ///
    /// # Errors
    /// As [`MemoryPlan::fits`], with the budget that would do.
    pub(super) fn fit(&self, room: &Room, dataset: &Dataset) -> Result<Fit> {
        let fit = self.fit_in(room, dataset);
        fit.map_err(|refused| self.advised(refused, room, dataset))
    }

    /// The plan with whole batches if there is one that fits, else with batches in chunks. In either case with all features on the
    /// engine, or else with those of the next rows only; without the linear baseline if neither fits.
    pub(super) fn fit_in(&self, room: &Room, dataset: &Dataset) -> Result<Fit> {
        let mut refused = None;
        for chunked in [false, true] {
            for linear in [self.linear.clone(), Err(Unfit::NoMemory)] {
                for resident in [true, false] {
                    let fit = match chunked {
                        false => self.fit_whole(room, dataset, resident, linear.clone()),
                        true => self.fit_chunks(room, dataset, resident, linear.clone()),
                    };
                    match fit {
                        Ok(fit) => return Ok(fit),
                        Err(error) => refused = Some(error),
                    }
                }
            }
        }
        Err(refused.expect("plans were tried"))
    }

    /// The plan of these sizes; evaluation gets the remaining memory.
    fn fit_whole(
        &self,
        room: &Room,
        dataset: &Dataset,
        resident: bool,
        linear: Result<usize, Unfit>,
    ) -> Result<Fit> {
        let training = self.plan(dataset, resident, linear.as_ref().ok().copied());
        let left = Room {
            free_bytes: room.free_bytes.saturating_sub(training.total_bytes()),
            ..*room
        };
        let cut = self.evaluation.cut(&left);
        let plan = Evaluator::plan(training, &self.evaluation, &cut);
        plan.fits("training", room, self.advice())?;
        Ok(Fit {
            sizes: self.clone(),
            plan,
            resident,
            linear,
            cut,
        })
    }

    /// These sizes with a batch that goes through the head in this many parts or fewer, and as little else as can be at a time.
    fn in_parts(&self, parts: usize) -> Self {
        Self {
            chunk: match parts {
                1 => self.batch,
                _ => self.batch.div_ceil(parts).next_multiple_of(SEGMENT),
            },
            steps_per_upload: 1,
            alone: self.alone_if_scarce,
            ..self.clone()
        }
    }

    /// The most parts of a batch; without hidden layers there are no activations to keep, and batch norm takes all rows at once.
    fn most_parts(&self) -> usize {
        match self.architecture.takes_whole_batches() {
            true => 1,
            false => self.batch.div_ceil(SEGMENT),
        }
    }

    /// The plan in which a batch goes through the head in the fewest parts that fit, of about as many rows, and one step is uploaded
    /// at a time. Evaluation gets the memory that is left with the smallest parts; they are made larger only beside it.
    fn fit_chunks(
        &self,
        room: &Room,
        dataset: &Dataset,
        resident: bool,
        linear: Result<usize, Unfit>,
    ) -> Result<Fit> {
        let in_parts = |parts: usize| self.in_parts(parts);
        let most = self.most_parts();
        let smallest = in_parts(most).fit_whole(room, dataset, resident, linear)?;
        let outputs = smallest.linear.as_ref().ok().copied();
        let plan_of = |sizes: &Self| {
            let training = sizes.plan(dataset, resident, outputs);
            Evaluator::plan(training, &self.evaluation, &smallest.cut)
        };
        let fits = |parts: usize| {
            let plan = plan_of(&in_parts(parts));
            plan.fits("training", room, self.advice()).is_ok()
        };
        let (mut few, mut enough) = (0, most);
        while few + 1 < enough {
            let parts = few.midpoint(enough);
            match fits(parts) {
                true => enough = parts,
                false => few = parts,
            }
        }
        let sizes = in_parts(enough);
        Ok(Fit {
            plan: plan_of(&sizes),
            sizes,
            ..smallest
        })
    }

    /// Advice for a plan that does not fit: the setting that takes the most memory.
    pub(super) fn advice(&self) -> &'static str {
        let bytes = |blocks: &Blocks| {
            self.plan_mining(MemoryPlan::default(), &[*blocks])
                .total_bytes()
        };
        match (&self.with_memory, &self.alone) {
            (None, _) if self.proxies.is_some() => ADVICE_WITH_PROXIES,
            (None, _) => ADVICE_WITHOUT_MEMORY,
            (Some(with_memory), Some(alone)) if bytes(alone) > bytes(with_memory) => {
                ADVICE_BEFORE_MEMORY
            }
            _ => ADVICE,
        }
    }

    /// Adds the buffers of mining in these blocks, one after the other.
    pub(super) fn plan_mining(&self, plan: MemoryPlan, all: &[Blocks]) -> MemoryPlan {
        let anchors = self.anchors as u64;
        // If a miner weighs rows and the loss compares them with proxies, the miner takes the whole batch as a block.
        let batch = (self.weighs_rows && self.proxies.is_some()).then_some(BlockSizes {
            rows: self.batch as u64,
            references: self.batch as u64,
            thresholds: self.batch as u64 * (self.positives_of_batch as u64 + 1),
        });
        let blocks = all.iter().map(Blocks::sizes).chain(batch);
        MiningPass::plan(plan, self.path, self.work, anchors, self.stride(), blocks)
    }

    /// Adds to a refusal the smallest budget that would do, in whole MiB.
    fn advised(&self, refused: Error, room: &Room, dataset: &Dataset) -> Error {
        let Error::Refused { over, fits, .. } = &refused else {
            return refused;
        };
        let used = room.budget_bytes - room.free_bytes;
        let would = |mebibytes: u64| {
            let budget_bytes = mebibytes.saturating_mul(1 << 20);
            let room = Room {
                free_bytes: budget_bytes.saturating_sub(used),
                budget_bytes,
                ..*room
            };
            self.fit_in(&room, dataset).is_ok()
        };
        let needs_bytes = over.needs_bytes.saturating_add(used);
        let (mut low, mut high) = (room.budget_bytes >> 20, needs_bytes.div_ceil(1 << 20));
        // If one buffer is larger than the device binds, no budget helps.
        if !would(high) {
            return refused;
        }
        while low + 1 < high {
            let middle = low.midpoint(high);
            if would(middle) {
                high = middle;
            } else {
                low = middle;
            }
        }
        let smallest = self.in_parts(self.most_parts());
        let how = smallest
            .advice()
            .replacen("the budget", &format!("the budget to {high} MiB"), 1);
        let how = match self.architecture.has_batch_norm() {
            true => format!("{how} ({WHOLE_BATCHES})"),
            false => how,
        };
        let (over, fits) = (over.clone(), fits.clone());
        Error::Refused { over, how, fits }
    }

    /// Floats of each group of learned parameters, of which the head has `parameters`.
    fn learned(&self, parameters: u64) -> impl Iterator<Item = u64> {
        let proxies = self.proxies.as_ref().map(ProxySpec::floats);
        let boundary = self.boundary_lr.map(|_| Boundary::FLOATS as u64);
        [Some(parameters), proxies, boundary].into_iter().flatten()
    }

    fn plan(&self, dataset: &Dataset, resident: bool, linear: Option<usize>) -> MemoryPlan {
        let (batch, steps) = (self.batch as u64, self.steps_per_upload as u64);
        let dim = self.architecture.embedding_size();
        let row = stride(dim) as u64;
        let staged = match resident || self.chunk == self.batch {
            true => self.steps_per_upload * self.batch,
            false => self.chunk,
        };
        let parameters = self.architecture.parameters();
        let mut plan = FeatureStore::plan(
            MemoryPlan::default(),
            self.features,
            if resident { dataset.rows() } else { 0 },
            [staged.max(TILE_ROWS), self.chunk],
            dataset.features.dim(),
        );
        plan = self.architecture.plan(plan, MODEL);
        plan = Kept::plan(Truncated::plan(plan, self), self);
        plan = HEAD.plan(plan, parameters, self.held.moments);
        plan = Activations::plan_hidden(plan, &self.architecture, self.chunk, self.activations);
        plan = Gradients::plan(plan, &self.architecture, self.chunk);
        plan = plan
            .with::<f32>(Purpose::Activations, "train.unit", batch * row)
            .with::<f32>(Purpose::Activations, "train.norms", batch)
            .with::<f32>(Purpose::Gradients, "train.gradient", batch * row);
        if let Some(proxies) = &self.proxies {
            plan = proxies.plan(plan, self.held.moments);
        }
        if self.weighs_rows {
            plan = RowWeights::plan(plan, batch);
        }
        if self.boundary_lr.is_some() {
            plan = Boundary::plan(plan, self.held.moments);
        }
        plan = Clipping::plan(plan, &self.held, self.learned(parameters));
        plan = CrossBatchMemory::plan(plan, self.precision, self.memory, dim);
        plan = plan.with::<Row>(Purpose::Ranks, "train.rows", steps * batch);
        let both: Vec<Blocks> = self.all_blocks().copied().collect();
        plan = self.plan_mining(plan, &both);
        plan = plan
            .with::<u32>(
                Purpose::Staging,
                "train.report",
                steps * self.step_words() as u64 + PAIRS as u64,
            )
            .with::<f32>(Purpose::Staging, "train.squares", PARTS as u64)
            .with::<f32>(Purpose::Gradients, "train.drift", 2 * row)
            .with::<f32>(Purpose::Gradients, "train.drift_sums", 2);
        plan = Tile::plan(plan, &TILE, &self.architecture, TILE_ROWS);
        plan = SearchScratch::plan(plan, 1, NEIGHBOURS as u64);
        if let Some(outputs) = linear {
            plan = Linear::plan(plan, dataset.features.dim(), outputs);
        }
        plan
    }
}

impl TrainBuffers {
    pub(super) fn new(workspace: &mut Workspace, sizes: &Sizes) -> Self {
        Self {
            hidden: Activations::of_hidden(workspace, &sizes.architecture, sizes.activations),
            gradients: Gradients::new(workspace, &sizes.architecture),
            embedded: Embedded {
                unit: workspace.take("train.unit"),
                norms: workspace.take("train.norms"),
            },
            gradient: workspace.take("train.gradient"),
            moments: HEAD.moments(workspace, sizes.held.moments),
            batch: workspace.take("train.rows"),
            mining: MiningPass::new(workspace, sizes.path, sizes.work),
            report: workspace.take("train.report"),
            row_weights: sizes.weighs_rows.then(|| RowWeights::new(workspace)),
            boundary: sizes
                .boundary_lr
                .map(|lr| Boundary::new(workspace, lr, sizes.boundary_pull, sizes.held.moments)),
            truncated: Truncated::new(workspace, sizes),
            clipping: Clipping::new(workspace, &sizes.held),
            squares: workspace.take("train.squares"),
            drift: Drift {
                state: workspace.take("train.drift"),
                sums: workspace.take("train.drift_sums"),
            },
        }
    }
}
