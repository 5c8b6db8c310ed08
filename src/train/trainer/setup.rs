//! [`Setup`]: a run before it starts: sides, sampler, sizes, and the memory plan that follows from them.

use super::baseline::Linear;
use super::kept::Kept;
use super::neighbours::NEIGHBOURS;
use crate::base::error::{Error, Result};
use crate::base::forecast::Path;
use crate::base::ledger::Purpose;
use crate::base::order;
use crate::base::plan::{MemoryPlan, Room};
use crate::base::rng;
use crate::data::{Dataset, Side, Sides};
use crate::engine::{DeviceVec, Workspace};
use crate::judge::linear::{LinearMap, Unfit};
use crate::kernels::drift::Drift;
use crate::kernels::hardest::{self, Hardest};
use crate::kernels::optimizer::{Moments, PARTS};
use crate::kernels::pair_counts::PAIRS;
use crate::kernels::ranks::{Block, Row, SEGMENT};
use crate::kernels::triplet_margin::{self, OWNERS, TERMS, part_stride};
use crate::kernels::{MOST_STEPS, stride};
use crate::mining::mining_pass::MiningPass;
use crate::mining::row_pass::{BlockSizes, RowPass, RowWork};
use crate::model::boundary::Boundary;
use crate::model::cross_batch_memory::CrossBatchMemory;
use crate::model::embedding_model::{Activations, Embedded, EmbeddingModel, Gradients};
use crate::model::features::FeatureStore;
use crate::model::optimizer::HEAD;
use crate::model::proxies::ProxySpec;
use crate::model::row_weights::RowWeights;
use crate::model::unit_rows::TILE_ROWS;
use crate::rules::config::{Split, TrainConfig};
use crate::rules::losses::{MiningRule, Operands};
use crate::search::evaluation::{Cut, EvaluationSpec, Evaluator};
use crate::search::knn::Seeker;
use crate::search::rows;
use crate::train::batches::Batches;

/// The most steps whose rows are uploaded together.
const STEPS_PER_UPLOAD: usize = 16;
/// The most bytes of thresholds and partial gradients of a block of anchors, unless eight anchors take more.
const BLOCK_BYTES: u64 = 32 << 20;
/// Upper bound of the dispatches of a step outside of mining; there are fewer than this.
pub(super) const STEP_DISPATCHES: u32 = 24;
/// Bytes that the host uploads for each row of a step: its number, and its [`Row`].
const UPLOAD_BYTES_PER_ROW: usize = 4 + size_of::<Row>();
/// The fewest rows that validation rows are ranked among, if at least as many train.
const ENOUGH_SEARCHED: usize = 4096;
/// Training rows that are scored for comparison if there is no validation side to match.
const PROBE_ROWS: usize = 2000;

pub(super) const MODEL: &str = "model.parameters";
const HIDDEN: [&str; 4] = [
    "train.layer1",
    "train.layer2",
    "train.layer3",
    "train.layer4",
];
pub(super) const TILE: [&str; 6] = [
    "evaluate.batch",
    "evaluate.layer1",
    "evaluate.layer2",
    "evaluate.layer3",
    "evaluate.layer4",
    "evaluate.layer5",
];

/// Common start of [`super::Trainer::new`] and [`super::Trainer::plan`].
#[derive(Debug)]
pub(super) struct Setup {
    pub(super) sides: Sides,
    /// Rows of the validation side that are scored while training.
    pub(super) watched: Vec<u32>,
    /// Training rows that are scored beside them, so that the two scores are comparable.
    pub(super) probe: Vec<u32>,
    /// Training rows that validation rows are ranked among too; empty if there are validation rows enough, or if their classes
    /// never train. A side of a few rows holds too few of a class to be scored within itself.
    beside: Vec<u32>,
    /// Group of each row of the data, if a row's own group is left out of its neighbours.
    groups: Option<Vec<u32>>,
    pub(super) sampler: Batches,
    pub(super) sizes: Sizes,
}

impl Setup {
    pub(super) fn new(dataset: &Dataset, config: &TrainConfig) -> Result<Self> {
        config.check()?;
        check_rows(config)?;
        let sides = Sides::new(dataset, config)?;
        let sampler = Batches::new(dataset, &sides.train, config)?;
        let most = match config.evaluate_rows {
            0 => usize::MAX,
            rows => rows,
        };
        let watched = some(dataset, &sides.validation, most, "watched", config);
        let few = match shares_classes(dataset, &sides) {
            true => ENOUGH_SEARCHED.saturating_sub(watched.len()),
            false => 0,
        };
        let beside = match few {
            0 => Vec::new(),
            few => some(dataset, &sides.train, few, "probe", config),
        };
        let probe = match (beside.len(), watched.len()) {
            (0, 0) => some(dataset, &sides.train, PROBE_ROWS, "probe", config),
            (0, rows) => some(dataset, &sides.train, rows, "probe", config),
            _ => beside.clone(),
        };
        let searched = [
            merged(&probe, &watched),
            merged(&sides.validation, &beside),
            sides.test.clone(),
        ];
        let sizes = Sizes::new(dataset, config, &sides, &searched, &sampler)?;
        Ok(Self {
            sides,
            watched,
            probe,
            beside,
            groups: dataset.groups(config)?,
            sampler,
            sizes,
        })
    }

    /// Groups of these rows, if a row's own group is left out of its neighbours.
    pub(super) fn groups_of(&self, rows: &[u32]) -> Option<Vec<u32>> {
        let groups = self.groups.as_ref()?;
        Some(rows.iter().map(|row| groups[*row as usize]).collect())
    }

    /// Rows that the rows of a side, or some of them, are ranked among, ascending, and the places there of `queries` of them, a
    /// seeded choice; 0 is all. Validation rows are ranked among training rows too if they are few, and as many training rows are
    /// scored among the same rows; test rows are ranked among each other alone.
    pub(super) fn searched(
        &self,
        side: Side,
        rows: &[u32],
        queries: usize,
        seed: u64,
    ) -> (Vec<u32>, Vec<u32>) {
        let others: &[u32] = match side {
            Side::Validation => &self.beside,
            Side::Train if !self.beside.is_empty() => &self.watched,
            Side::Train | Side::Test => &[],
        };
        let all = merged(rows, others);
        // As many of both sides.
        let queries = match (side, queries) {
            (Side::Train, 0) if !others.is_empty() => others.len(),
            (Side::Train, most) if !others.is_empty() => most.min(others.len()),
            _ => queries,
        };
        let chosen = rows::choose(rows.len(), queries, seed);
        let place = |row: &u32| all.partition_point(|other| other < row) as u32;
        let places = chosen.iter().map(|chosen| place(&rows[*chosen as usize]));
        let places = places.collect();
        (all, places)
    }
}

/// Sizes that the plan and the loop share.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sizes {
    pub(super) widths: Vec<usize>,
    pub(super) batch: usize,
    pub(super) memory: usize,
    /// Blocks of anchors in steps with the memory, and in steps with the batch alone; `None` if a run has no such step.
    with_memory: Option<Blocks>,
    alone: Option<Blocks>,
    pub(super) path: Path,
    pub(super) work: RowWork,
    /// The most positives of a row within its batch.
    positives_of_batch: usize,
    /// The proxies that the loss learns.
    pub(super) proxies: Option<ProxySpec>,
    /// A miner weighs the rows of a batch.
    pub(super) weighs_rows: bool,
    /// Learning rate of the boundary, if the loss learns it.
    pub(super) boundary_lr: Option<f64>,
    /// Constant part of `dL/d(boundary)`, beside the part that comes from pairs.
    pub(super) boundary_pull: f64,
    /// Anchors of the loss: the rows of the batch, or the proxies.
    pub(super) anchors: usize,
    /// Steps whose rows are uploaded together, and whose reports come back together.
    pub(super) steps_per_upload: usize,
    pub(super) evaluation: EvaluationSpec,
    /// The most outputs of the linear baseline.
    pub(super) linear: Result<usize, Unfit>,
}

/// Block sizes of a step's mining.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Blocks {
    /// Anchors of a block.
    pub(super) rows: usize,
    /// The most references of an anchor: the memory, or the batch.
    references: usize,
    /// The most positives of an anchor.
    pub(super) positives: usize,
    /// The most triplets of an anchor that are computed one by one.
    looked_at: u64,
    /// Triplets of an anchor that are computed one by one, if all classes have as many rows.
    usually_looked_at: u64,
    /// The most dispatches of a block.
    pub(super) dispatches: usize,
}

/// A memory plan that fits.
pub(super) struct Fit {
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
    pub(super) hardest: DeviceVec<Hardest>,
    /// Weight of each row of the batch, if a miner weighs rows.
    pub(super) row_weights: Option<RowWeights>,
    /// The boundary that the loss learns.
    pub(super) boundary: Option<Boundary>,
    /// Sums of squares of the gradient.
    pub(super) squares: DeviceVec<f32>,
    /// Mean gradient of a batch's rows and its running average, if there is a memory.
    pub(super) drift: Drift,
}

/// Advice for a run that does not fit, by the buffers that take the most memory.
const ADVICE: &str = "raise the budget, or lower memory_size, batch_size or the widths";
const ADVICE_WITHOUT_MEMORY: &str = "raise the budget, or lower batch_size or the widths";
const ADVICE_WITH_PROXIES: &str = "raise the budget, or lower batch_size, embedding_size, or the proxies of a class where the \
     loss has several";
const ADVICE_BEFORE_MEMORY: &str = "raise the budget, lower batch_size, or set memory_start_step to 0: until that step all \
     rows of a batch are mined at once";

impl Sizes {
    /// Files of the kernels that steps and evaluations use.
    pub(super) fn kernels(&self, config: &TrainConfig) -> Vec<&'static str> {
        let mut files = vec![
            "drift",
            "embed",
            "gather",
            "gemm",
            "hardest",
            "normalize",
            "optimizer",
            "ranks",
        ];
        match self.path {
            Path::Ranks => files.push("triplet_margin"),
            Path::Rows => {
                files.extend(["pair_counts", "pull", "row_loss", "select", "similarities"]);
            }
        }
        let others = [
            ("draw", config.miner.draws()),
            ("dropout", config.dropout > 0.0),
            ("row_weights", config.miner_weights),
            (
                "weigh",
                self.path == Path::Rows && self.work != RowWork::Pairs,
            ),
        ];
        files.extend(
            others
                .iter()
                .filter(|(_, used)| *used)
                .map(|(file, _)| *file),
        );
        files
    }

    fn new(
        dataset: &Dataset,
        config: &TrainConfig,
        sides: &Sides,
        searched: &[Vec<u32>],
        sampler: &Batches,
    ) -> Result<Self> {
        let mut widths = vec![dataset.features.dim()];
        widths.extend(&config.hidden_layers);
        widths.push(config.embedding_size);
        let batch = config.batch_size;
        let memory = config.memory().max(batch);
        let dim = dataset.features.dim().max(config.embedding_size);
        let mut evaluation = EvaluationSpec::default();
        for rows in searched {
            evaluation = evaluation.max(EvaluationSpec::of(
                &dataset.labels_of(rows),
                dim,
                rows.len(),
            ));
        }
        let rule = config.rule();
        let proxies = config.loss.proxies().map(|terms| {
            let mut classes = dataset.labels_of(&sides.train);
            order::sort_numbers(&mut classes);
            classes.dedup();
            ProxySpec {
                terms,
                classes,
                dim: config.embedding_size,
            }
        });
        if let Some(proxies) = &proxies {
            proxies.check()?;
        }
        let count = proxies.as_ref().map_or(0, ProxySpec::count);
        let (anchors, own_references) = match rule.operands() {
            Operands::Rows => (batch, batch),
            Operands::RowsWithProxies => (batch, count),
            Operands::ProxiesWithRows => (count, batch),
        };
        let blocks = |references: usize, alone: bool| {
            // Steps with proxies draw from the rows of their batch.
            let rows = if alone { batch } else { references };
            let positives = sampler.most_of_a_class(rows).saturating_sub(1);
            let dim = config.embedding_size;
            let usual = positives.min(references.div_ceil(dataset.class_names.len().max(1)));
            Blocks::new(&rule, anchors, references, [usual, positives], dim, alone)
        };
        let with_memory = (config.memory() > 0).then(|| blocks(memory, false));
        let alone = config.memory() == 0 || config.memory_start_step > 0;
        let alone = alone.then(|| blocks(own_references, true));
        let work = RowWork::of(&rule);
        for blocks in with_memory.iter().chain(&alone) {
            RowPass::check_draws(work, blocks.positives)?;
        }
        let step_bytes = UPLOAD_BYTES_PER_ROW * batch + 4 * (TERMS + batch.max(anchors));
        let upload = STEPS_PER_UPLOAD.min(((1 << 20) - 4 * PAIRS) / step_bytes);
        Ok(Self {
            widths,
            batch,
            memory,
            with_memory,
            alone,
            path: rule.path(),
            work,
            positives_of_batch: sampler.most_of_a_class(batch).saturating_sub(1),
            proxies,
            weighs_rows: config.miner_weights,
            boundary_lr: config.loss.boundary_lr(),
            boundary_pull: config.loss.boundary_pull(config.distance),
            anchors,
            steps_per_upload: upload.max(1),
            evaluation,
            linear: LinearMap::directions(
                &dataset.labels_of(&sides.train),
                dataset.features.dim(),
                config.embedding_size,
            )
            // A constant comes after the directions if the head has as many outputs.
            .map(|directions| (directions + 1).min(config.embedding_size)),
        })
    }

    /// Words of a step's report.
    pub(super) fn report_words(&self) -> usize {
        TERMS + self.batch.max(self.anchors)
    }

    /// Blocks of a step's mining; `alone`: the references are the batch alone.
    pub(super) fn blocks(&self, alone: bool) -> &Blocks {
        let blocks = if alone {
            &self.alone
        } else {
            &self.with_memory
        };
        blocks.as_ref().expect("a run's steps are planned")
    }

    /// The most references of an anchor.
    pub(super) fn references(&self, alone: bool) -> usize {
        self.blocks(alone).references
    }

    /// Blocks of both kinds of steps, as far as a run has them.
    fn all_blocks(&self) -> impl Iterator<Item = &Blocks> {
        self.with_memory.iter().chain(&self.alone)
    }

    /// Floating-point operations of a step: approximate, for the most triplets.
    pub(super) fn step_operations(&self, alone: bool) -> f64 {
        self.head_operations() + self.mining_operations(alone, self.anchors)
    }

    /// Floating-point operations of a step, if all classes have as many rows.
    pub(super) fn usual_operations(&self, alone: bool) -> f64 {
        let blocks = self.blocks(alone);
        let of_an_anchor = blocks.operations_of_an_anchor(self.stride(), blocks.usually_looked_at);
        self.head_operations() + self.anchors as f64 * of_an_anchor
    }

    /// Floating-point operations of a step's forward and backward pass through the head.
    pub(super) fn head_operations(&self) -> f64 {
        self.batch as f64 * 3.0 * self.forward_operations()
    }

    /// Floating-point operations of mining `rows` anchors.
    pub(super) fn mining_operations(&self, alone: bool, rows: usize) -> f64 {
        let blocks = self.blocks(alone);
        rows as f64 * blocks.operations_of_an_anchor(self.stride(), blocks.looked_at)
    }

    /// Floating-point operations of a miner that compares `rows` rows with references for their weights.
    pub(super) fn weighing_operations(&self, references: usize, rows: usize) -> f64 {
        2.0 * rows as f64 * references as f64 * self.stride() as f64
    }

    /// Widths of the hidden layers.
    fn hidden_widths(&self) -> &[usize] {
        &self.widths[1..self.widths.len() - 1]
    }

    /// Floats from one row of embeddings to the next.
    fn stride(&self) -> usize {
        stride(self.widths.last().copied().unwrap_or(0))
    }

    /// Floating-point operations of one row's forward pass through the head.
    pub(super) fn forward_operations(&self) -> f64 {
        let layers = self.widths.windows(2);
        layers.map(|pair| 2.0 * (pair[0] * pair[1]) as f64).sum()
    }

    /// The plan that fits the room.
    ///
    /// # Errors
    /// As [`MemoryPlan::fits`], with the budget that would do.
    pub(super) fn fit(&self, room: &Room, dataset: &Dataset) -> Result<Fit> {
        let fit = self.fit_in(room, dataset);
        fit.map_err(|refused| self.advised(refused, room, dataset))
    }

    /// The plan with all features on the engine, or else with those of the next rows only; without the linear baseline if neither
    /// fits. Evaluation gets the remaining memory.
    fn fit_in(&self, room: &Room, dataset: &Dataset) -> Result<Fit> {
        let mut refused = None;
        for linear in [self.linear.clone(), Err(Unfit::NoMemory)] {
            for resident in [true, false] {
                let rows = if resident { dataset.rows() } else { 0 };
                let training = self.plan(dataset, rows, linear.as_ref().ok().copied());
                let left = Room {
                    free_bytes: room.free_bytes.saturating_sub(training.total_bytes()),
                    ..*room
                };
                let cut = self.evaluation.cut(&left);
                let plan = Evaluator::plan(training, &self.evaluation, &cut);
                match plan.fits("training", room, self.advice()) {
                    Ok(()) => {
                        return Ok(Fit {
                            plan,
                            resident,
                            linear,
                            cut,
                        });
                    }
                    Err(error) => refused = Some(error),
                }
            }
        }
        Err(refused.expect("plans were tried"))
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
    fn plan_mining(&self, plan: MemoryPlan, all: &[Blocks]) -> MemoryPlan {
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
        let Error::Refused { over, .. } = &refused else {
            return refused;
        };
        let used = room.budget_bytes - room.free_bytes;
        let fits = |mebibytes: u64| {
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
        if !fits(high) {
            return refused;
        }
        while low + 1 < high {
            let middle = low.midpoint(high);
            if fits(middle) {
                high = middle;
            } else {
                low = middle;
            }
        }
        let how = self
            .advice()
            .replacen("the budget", &format!("the budget to {high} MiB"), 1);
        let over = over.clone();
        Error::Refused { over, how }
    }

    fn plan(&self, dataset: &Dataset, resident: usize, linear: Option<usize>) -> MemoryPlan {
        let (batch, steps) = (self.batch as u64, self.steps_per_upload as u64);
        let dim = self.widths.last().copied().unwrap_or(0);
        let row = stride(dim) as u64;
        let staged = (self.steps_per_upload * self.batch).max(TILE_ROWS);
        let parameters = EmbeddingModel::parameters(&self.widths);
        let mut plan = FeatureStore::plan(
            MemoryPlan::default(),
            resident,
            staged,
            dataset.features.dim(),
        );
        plan = EmbeddingModel::plan(plan, MODEL, &self.widths);
        plan = Kept::plan(plan, &self.widths);
        plan = HEAD.plan(plan, parameters);
        plan = Activations::plan(plan, &HIDDEN, self.hidden_widths(), self.batch);
        plan = Gradients::plan(plan, &self.widths, self.batch);
        plan = plan
            .with::<f32>(Purpose::Activations, "train.unit", batch * row)
            .with::<f32>(Purpose::Activations, "train.norms", batch)
            .with::<f32>(Purpose::Gradients, "train.gradient", batch * row);
        if let Some(proxies) = &self.proxies {
            plan = proxies.plan(plan);
        }
        if self.weighs_rows {
            plan = RowWeights::plan(plan, batch);
        }
        if self.boundary_lr.is_some() {
            plan = Boundary::plan(plan);
        }
        plan = CrossBatchMemory::plan(plan, self.memory, dim);
        plan = plan.with::<Row>(Purpose::Ranks, "train.rows", steps * batch);
        let both: Vec<Blocks> = self.all_blocks().copied().collect();
        plan = self.plan_mining(plan, &both);
        plan = plan
            .with::<u32>(
                Purpose::Staging,
                "train.report",
                steps * self.report_words() as u64 + PAIRS as u64,
            )
            .with::<Hardest>(
                Purpose::Ranks,
                "train.hardest",
                hardest::places(self.batch, self.memory),
            )
            .with::<f32>(Purpose::Staging, "train.squares", PARTS as u64)
            .with::<f32>(Purpose::Gradients, "train.drift", 2 * row)
            .with::<f32>(Purpose::Gradients, "train.drift_sums", 2);
        plan = Activations::plan(plan, &TILE, &self.widths, TILE_ROWS);
        plan = Seeker::plan(plan, 1, NEIGHBOURS as u64);
        if let Some(outputs) = linear {
            plan = Linear::plan(plan, dataset.features.dim(), outputs);
        }
        plan
    }
}

impl Blocks {
    fn new(
        rule: &MiningRule,
        anchors: usize,
        references: usize,
        [usual, positives]: [usize; 2],
        dim: usize,
        alone: bool,
    ) -> Self {
        // In u64 throughout: a plan that is refused may be larger than what a browser can address.
        let segments = references.div_ceil(SEGMENT) as u64;
        let threshold_bytes = (size_of::<[u32; 2]>() + size_of::<u32>()) as u64;
        let bytes_per_row = match rule {
            MiningRule::Ranks(_) => {
                segments * 4 * part_stride(stride(dim)) as u64 + positives as u64 * threshold_bytes
            }
            MiningRule::Rows(_) => {
                let block = BlockSizes {
                    rows: 1,
                    references: references as u64,
                    thresholds: positives as u64 + 1,
                };
                let (plan, work) = (MemoryPlan::default(), RowWork::of(rule));
                RowPass::plan(plan, work, 1, [block]).total_bytes()
            }
        };
        let dispatches = |rows: usize| match rule {
            MiningRule::Ranks(_) => {
                let block = Block {
                    first_row: 0,
                    rows,
                    batch: 0,
                    first_reference: 0,
                    references,
                    stride: stride(dim),
                };
                triplet_margin::dispatches(&block, positives, alone)
            }
            MiningRule::Rows(rule) => RowPass::dispatches(stride(dim), references, rule),
        };
        let rows = match (BLOCK_BYTES / bytes_per_row.max(1)) as usize / OWNERS * OWNERS {
            // A batch that is its own references needs the thresholds of all its rows at once.
            _ if alone && rule.operands() == Operands::Rows => anchors,
            // The gradient of a reference is added up over all rows of a block in one loop.
            rows if rule.path() == Path::Rows => rows.max(OWNERS).min(anchors).min(MOST_STEPS),
            rows => rows.max(OWNERS).min(anchors),
        };
        Self {
            rows,
            references,
            positives,
            looked_at: rule.looked_at(positives as u64, references as u64),
            usually_looked_at: rule.looked_at(usual as u64, references as u64),
            dispatches: dispatches(rows),
        }
    }

    /// Sizes of a block that its buffers depend on.
    fn sizes(&self) -> BlockSizes {
        BlockSizes {
            rows: self.rows as u64,
            references: self.references as u64,
            thresholds: self.rows as u64 * (self.positives as u64 + 1),
        }
    }

    /// Floating-point operations of mining one anchor, approximately, with this many triplets computed one by one.
    fn operations_of_an_anchor(&self, stride: usize, looked_at: u64) -> f64 {
        6.0 * (self.references as f64 * stride as f64) + 32.0 * looked_at as f64
    }
}

impl TrainBuffers {
    pub(super) fn new(workspace: &mut Workspace, sizes: &Sizes) -> Self {
        Self {
            hidden: Activations::new(workspace, &HIDDEN, sizes.hidden_widths()),
            gradients: Gradients::new(workspace, &sizes.widths),
            embedded: Embedded {
                unit: workspace.take("train.unit"),
                norms: workspace.take("train.norms"),
            },
            gradient: workspace.take("train.gradient"),
            moments: HEAD.moments(workspace),
            batch: workspace.take("train.rows"),
            mining: MiningPass::new(workspace, sizes.path, sizes.work),
            report: workspace.take("train.report"),
            hardest: workspace.take("train.hardest"),
            row_weights: sizes.weighs_rows.then(|| RowWeights::new(workspace)),
            boundary: sizes
                .boundary_lr
                .map(|lr| Boundary::new(workspace, lr, sizes.boundary_pull)),
            squares: workspace.take("train.squares"),
            drift: Drift {
                state: workspace.take("train.drift"),
                sums: workspace.take("train.drift_sums"),
            },
        }
    }
}

/// Union of both lists, ascending, without doubles.
fn merged(rows: &[u32], others: &[u32]) -> Vec<u32> {
    let mut all = [rows, others].concat();
    order::sort_numbers(&mut all);
    all.dedup();
    all
}

/// Tells if most validation rows are of classes that train.
fn shares_classes(dataset: &Dataset, sides: &Sides) -> bool {
    let mut trains = vec![false; dataset.class_names.len()];
    for label in dataset.labels_of(&sides.train) {
        trains[label as usize] = true;
    }
    let validation = dataset.labels_of(&sides.validation);
    let known = validation.iter().filter(|label| trains[**label as usize]);
    2 * known.count() > validation.len()
}

/// Checks that miner and loss can take as many references as there are.
fn check_rows(config: &TrainConfig) -> Result<()> {
    let rule = config.rule();
    let references = config.memory().max(config.batch_size);
    match rule.path() {
        Path::Ranks => Ok(()),
        Path::Rows => {
            let (dim, work) = (config.embedding_size, RowWork::of(&rule));
            RowPass::check(dim, references, work, rule.swap())
        }
    }
}

/// A choice of `wanted` of these rows, or of a few more if the split holds whole classes out, as classes then stay whole; all of
/// them if they are no more. `choice` names the random stream.
fn some(
    dataset: &Dataset,
    rows: &[u32],
    wanted: usize,
    choice: &str,
    config: &TrainConfig,
) -> Vec<u32> {
    if !matches!(config.split, Split::ByClass | Split::ByClassShuffled) {
        let chosen = rows::choose(rows.len(), wanted, config.data_seed());
        return chosen.iter().map(|place| rows[*place as usize]).collect();
    }
    let mut classes: Vec<Vec<u32>> = vec![Vec::new(); dataset.class_names.len()];
    for row in rows {
        classes[dataset.labels[*row as usize] as usize].push(*row);
    }
    classes.retain(|rows| !rows.is_empty());
    // Neighbouring classes from a random one on, around the end.
    if !classes.is_empty() {
        let start = rng::below(&mut rng::stream(config.data_seed(), choice), classes.len());
        classes.rotate_left(start);
    }
    let mut rows = Vec::new();
    for class in classes {
        if rows.len() < wanted {
            rows.extend(class);
        }
    }
    order::sort_numbers(&mut rows);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::gpu::PARAMS_SLOTS;

    fn sizes(sets: &[&str]) -> Sizes {
        let dataset = Dataset::sample("many-classes", 0).expect("is there");
        let config = sets.iter().fold(dataset.default_config(), |config, set| {
            config.with_set(set).expect("sets")
        });
        Setup::new(&dataset, &config).expect("suits the data").sizes
    }

    #[test]
    fn a_submit_carries_a_block_whatever_the_batch_and_the_memory() {
        for sets in [
            &["batch_size=4096", "memory_size=1048576"][..],
            &[
                "batch_size=4500",
                "memory_size=16777216",
                "embedding_size=65536",
            ],
            &[
                "batch_size=32768",
                "m_per_class=128",
                "memory_size=16777216",
            ],
            &["batch_size=976", "memory_size=16777216"],
            &["batch_size=977", "memory_size=16777216"],
            &["batch_size=2", "memory_size=16777216"],
            &["batch_size=4096", "memory_size=0"],
            &[],
        ] {
            let sizes = sizes(sets);
            for blocks in sizes.all_blocks() {
                assert!(
                    blocks.dispatches + STEP_DISPATCHES as usize <= PARAMS_SLOTS as usize,
                    "{sets:?}: {} dispatches of {} rows",
                    blocks.dispatches,
                    blocks.rows
                );
            }
        }
    }

    #[test]
    fn before_the_memory_begins_a_block_is_the_batch_and_then_as_many_rows_as_fit() {
        let mining = |sets: &[&str]| {
            let sizes = sizes(sets);
            let both: Vec<Blocks> = sizes.all_blocks().copied().collect();
            let bytes = sizes
                .plan_mining(MemoryPlan::default(), &both)
                .total_bytes();
            (
                bytes,
                both.iter().map(|blocks| blocks.rows).collect::<Vec<_>>(),
            )
        };
        // Eight rows of the second miner are more than a block otherwise has: three numbers for each row and reference.
        for (miner, most) in [
            ("miner.name=triplet-margin", 28_000_000),
            ("miner.name=batch-hard", 101_000_000),
        ] {
            let sets = ["batch_size=512", "memory_size=1048576", miner];
            let at_once = mining(&sets);
            let later = mining(&[&sets[..], &["memory_start_step=100"]].concat());
            assert!(later.0 < most, "{miner}: {} bytes", later.0);
            // The two counts of each further row.
            assert!(later.0 - at_once.0 < 8 * 512, "{miner}");
            assert_eq!(later.1, [at_once.1[0], 512]);
        }
    }

    #[test]
    fn a_refusal_names_the_setting_that_takes_the_room() {
        let large = ["batch_size=4096", "embedding_size=512"];
        for (sets, advice) in [
            (&["memory_size=0"][..], ADVICE_WITHOUT_MEMORY),
            (&["memory_size=4096"], ADVICE),
            (
                &["memory_size=4096", "memory_start_step=9"],
                ADVICE_BEFORE_MEMORY,
            ),
            (
                &[
                    "memory_size=1048576",
                    "memory_start_step=9",
                    "batch_size=64",
                ],
                ADVICE,
            ),
        ] {
            let sets = [&large[..], sets].concat();
            assert_eq!(sizes(&sets).advice(), advice, "{sets:?}");
        }
    }
}
