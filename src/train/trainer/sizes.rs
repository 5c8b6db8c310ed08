//! [`Sizes`]: sizes of a run's steps and evaluations, their blocks of anchors, and the operations that they take.

use std::ops::Range;

use crate::base::error::Result;
use crate::base::forecast::{BatchChunk, MiningMethod};
use crate::base::order;
use crate::base::plan::MemoryPlan;
use crate::data::{Dataset, Sides};
use crate::judge::linear::{LinearMap, Unfit};
use crate::kernels::pair_counts::PAIRS;
use crate::kernels::ranks::{Block, Row, SEGMENT};
use crate::kernels::stored::Precision;
use crate::kernels::triplet_margin::{self, OWNERS, TERMS, part_stride};
use crate::kernels::{MOST_STEPS, stride};
use crate::mining::row_pass::{BlockSizes, RowPass};
use crate::mining::row_work::RowWork;
use crate::model::architecture::Architecture;
use crate::model::optimizer::Held;
use crate::model::proxies::ProxySpec;
use crate::rules::config::{Level, TrainConfig};
use crate::rules::mining_rule::{MiningRule, Operands};
use crate::search::evaluation::EvaluationSpec;
use crate::train::batches::Batches;

/// The most steps whose rows are uploaded together.
const STEPS_PER_UPLOAD: usize = 16;
/// The most bytes of thresholds and partial gradients of a block of anchors, unless eight anchors take more.
const BLOCK_BYTES: u64 = 32 << 20;
/// The same where memory is scarce and a batch is its own references.
const SCARCE_BLOCK_BYTES: u64 = 8 << 20;
/// Bytes that the host uploads for each row of a step: its number, and its [`Row`].
const UPLOAD_BYTES_PER_ROW: usize = 4 + size_of::<Row>();

/// Sizes that the plan and the loop share.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sizes {
    pub(super) architecture: Architecture,
    pub(super) batch: usize,
    /// Rows of a batch that go through the head at once: all, or whole segments of those that a weight gradient is summed in.
    pub(super) chunk: usize,
    pub(super) memory: usize,
    /// Precision of the memory's rows, and of the features.
    pub(super) precision: Precision,
    pub(super) features: Precision,
    /// Precision of the hidden activations.
    pub(super) activations: Precision,
    /// Blocks of anchors in steps with the memory, and in steps with the batch alone; `None` if a run has no such step.
    pub(super) with_memory: Option<Blocks>,
    pub(super) alone: Option<Blocks>,
    /// The latter where memory is scarce: fewer rows at once, if miner and loss allow it.
    pub(super) alone_if_scarce: Option<Blocks>,
    pub(super) path: MiningMethod,
    pub(super) work: RowWork,
    /// The most positives of a row within its batch.
    pub(super) positives_of_batch: usize,
    /// The proxies that the loss learns.
    pub(super) proxies: Option<ProxySpec>,
    /// A miner weighs the rows of a batch.
    pub(super) weighs_rows: bool,
    /// Learning rate of the boundary, if the loss learns it.
    pub(super) boundary_lr: Option<f64>,
    /// Constant part of `dL/d(boundary)`, beside the part that comes from pairs.
    pub(super) boundary_pull: f64,
    /// Proxies and a boundary are kept with the best weights.
    pub(super) keeps_all: bool,
    /// What the optimizer holds beside the parameters.
    pub(super) held: Held,
    /// Sizes to which embeddings are truncated, from the whole one down, each with a loss of its own; none for whole ones alone.
    pub(super) levels: Vec<Level>,
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
    /// The most of them that are looked at together.
    pub(super) at_once: usize,
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

impl Sizes {
    /// Files of the kernels that steps and evaluations use.
    pub(super) fn kernels(&self, config: &TrainConfig) -> Vec<&'static str> {
        let mut files = vec![
            "drift",
            "embed",
            "gather",
            "gemm",
            "normalize",
            "optimizer",
            "ranks",
        ];
        match self.path {
            MiningMethod::Ranks => files.push("triplet_margin"),
            MiningMethod::Rows => {
                files.extend([
                    "pair_counts",
                    "pair_gradient",
                    "row_loss",
                    "select",
                    "similarities",
                ]);
            }
        }
        let others = [
            ("cast", self.activations == Precision::F16),
            ("draw", config.miner.draws()),
            ("dropout", config.dropout > 0.0),
            ("row_weights", config.miner_weights),
            ("truncate", !self.levels.is_empty()),
            (
                "triplet_loss",
                self.path == MiningMethod::Rows && self.work != RowWork::Pairs,
            ),
        ];
        files.extend(self.architecture.kernels());
        files.extend(
            others
                .iter()
                .filter(|(_, used)| *used)
                .map(|(file, _)| *file),
        );
        files
    }

    pub(super) fn new(
        dataset: &Dataset,
        config: &TrainConfig,
        sides: &Sides,
        searched: &[Vec<u32>],
        sampler: &Batches,
    ) -> Result<Self> {
        let (inputs, outputs) = (dataset.features.dim(), config.embedding_size);
        let (architecture, batch) = (Architecture::of(inputs, config), config.batch_size);
        let (memory, rule) = (config.memory().max(batch), config.rule());
        let evaluation = searched.iter().map(|rows| {
            EvaluationSpec::of(&dataset.labels_of(rows), inputs.max(outputs), rows.len())
        });
        let train = dataset.labels_of(&sides.train);
        let linear = LinearMap::directions(&train, inputs, outputs);
        let proxies = proxies(config, train)?;
        let count = proxies.as_ref().map_or(0, ProxySpec::count);
        let [anchors, own_references] = compared(&rule, batch, count);
        let blocks = |references: usize, alone: bool, scarce: bool| {
            // Steps with proxies draw from the rows of their batch.
            let rows = if alone { batch } else { references };
            let positives = sampler.most_of_a_class(rows).saturating_sub(1);
            let usual = positives.min(references.div_ceil(dataset.class_names.len().max(1)));
            let most = [usual, positives];
            Blocks::new(&rule, anchors, references, most, outputs, alone, scarce)
        };
        let with_memory = (config.memory() > 0).then(|| blocks(memory, false, false));
        let alone = config.memory() == 0 || config.memory_start_step > 0;
        let [alone, alone_if_scarce] =
            [false, true].map(|scarce| alone.then(|| blocks(own_references, true, scarce)));
        let (work, mut all) = (RowWork::of(&rule), with_memory.iter().chain(&alone));
        all.try_for_each(|blocks| work.check_draws(blocks.positives))?;
        Ok(Self {
            architecture,
            batch,
            chunk: batch,
            memory,
            precision: config.precision_of_memory(),
            features: config.feature_precision,
            activations: config.precision_of_activations(),
            with_memory,
            alone,
            alone_if_scarce,
            path: rule.path(),
            work,
            positives_of_batch: sampler.most_of_a_class(batch).saturating_sub(1),
            proxies,
            weighs_rows: config.miner_weights,
            boundary_lr: config.loss.boundary_lr(),
            boundary_pull: config.loss.boundary_pull(config.distance),
            levels: config.matryoshka.levels(),
            keeps_all: config.early_stop.is_on(),
            held: Held::of(config),
            anchors,
            steps_per_upload: steps_per_upload(batch, anchors, config),
            evaluation: evaluation.fold(EvaluationSpec::default(), EvaluationSpec::max),
            // A constant comes after the directions if the head has as many outputs.
            linear: linear.map(|directions| (directions + 1).min(outputs)),
        })
    }

    /// Half precision if any rows are stored in it, and the precision of the hidden activations.
    pub(super) fn precisions(&self) -> [Precision; 2] {
        let rows = match (self.precision, self.features) {
            (Precision::F32, Precision::F32) => Precision::F32,
            _ => Precision::F16,
        };
        [rows, self.activations]
    }

    /// The most dispatches of a step that bring hidden activations to half precision.
    pub(super) fn casts(&self) -> u32 {
        let layers = self.architecture.hidden().len() as u32;
        match self.activations {
            Precision::F32 => 0,
            Precision::F16 => layers * (1 + u32::from(self.architecture.keeps_linear())),
        }
    }

    /// Losses of a step: one, or one of each size.
    pub(super) fn losses(&self) -> usize {
        self.levels.len().max(1)
    }

    /// Words of the reports of a step: one of each loss.
    pub(super) fn step_words(&self) -> usize {
        self.losses() * self.report_words()
    }

    /// Words of the report of a loss.
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

    /// Tells if rows of a batch get their gradients as references of each other block by block, and so before all have theirs as
    /// anchors.
    pub(super) fn shares_by_blocks(&self, rule: &MiningRule, alone: bool) -> bool {
        let own = alone && rule.operands() == Operands::Rows;
        own && self.path == MiningMethod::Rows && self.blocks(alone).rows < self.anchors
    }

    /// The most references of an anchor.
    pub(super) fn references(&self, alone: bool) -> usize {
        self.blocks(alone).references
    }

    /// Blocks of both kinds of steps, as far as a run has them.
    pub(super) fn all_blocks(&self) -> impl Iterator<Item = &Blocks> {
        self.with_memory.iter().chain(&self.alone)
    }

    /// Floating-point operations of a step: approximate, for the most triplets.
    pub(super) fn step_operations(&self, alone: bool) -> f64 {
        let mining = self.mining_operations(alone, self.anchors);
        self.head_operations() + self.losses() as f64 * mining
    }

    /// Floating-point operations of a step, if all classes have as many rows.
    pub(super) fn usual_operations(&self, alone: bool) -> f64 {
        let blocks = self.blocks(alone);
        let of_an_anchor = blocks.operations_of_an_anchor(self.stride(), blocks.usually_looked_at);
        self.head_operations() + (self.losses() * self.anchors) as f64 * of_an_anchor
    }

    /// Parts of a batch that go through the head one after the other.
    pub(super) fn chunks(&self) -> impl DoubleEndedIterator<Item = Range<usize>> + use<> {
        let (batch, chunk) = (self.batch, self.chunk);
        let parts = 0..batch.div_ceil(chunk);
        parts.map(move |part| part * chunk..batch.min((part + 1) * chunk))
    }

    /// Floating-point operations of a step's forward and backward pass through the head. Rows after the first chunk go forward
    /// twice.
    pub(super) fn head_operations(&self) -> f64 {
        (4 * self.batch - self.chunk) as f64 * self.forward_operations()
    }

    /// Cut of a batch for the head, and its cost; `None` if it goes through all at once.
    pub(super) fn batch_chunk(&self, alone: bool) -> Option<BatchChunk> {
        let twice = self.batch - self.chunk;
        let more = twice as f64 * self.forward_operations();
        (twice > 0).then(|| BatchChunk {
            rows: self.chunk as u64,
            batch: self.batch as u64,
            twice: twice as u64,
            more_operations: more / (self.usual_operations(alone) - more),
        })
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

    /// Floats from one row of embeddings to the next.
    pub(super) fn stride(&self) -> usize {
        stride(self.architecture.embedding_size())
    }

    /// Floating-point operations of one row's forward pass through the head.
    pub(super) fn forward_operations(&self) -> f64 {
        self.architecture.operations()
    }
}

/// Anchors and references of a step without a memory, with this many proxies.
fn compared(rule: &MiningRule, batch: usize, proxies: usize) -> [usize; 2] {
    match rule.operands() {
        Operands::Rows => [batch, batch],
        Operands::RowsWithProxies => [batch, proxies],
        Operands::ProxiesWithRows => [proxies, batch],
    }
}

/// Steps whose rows are uploaded together and whose reports come back together.
fn steps_per_upload(batch: usize, anchors: usize, config: &TrainConfig) -> usize {
    let losses = config.matryoshka.dims.len().max(1);
    let step_bytes = UPLOAD_BYTES_PER_ROW * batch + 4 * losses * (TERMS + batch.max(anchors));
    let upload = STEPS_PER_UPLOAD.min(((1 << 20) - 4 * PAIRS) / step_bytes);
    upload.max(1)
}

/// Proxies of the classes of these training rows, if the loss learns some.
fn proxies(config: &TrainConfig, mut classes: Vec<u32>) -> Result<Option<ProxySpec>> {
    let Some(terms) = config.loss.proxies() else {
        return Ok(None);
    };
    order::sort_numbers(&mut classes);
    classes.dedup();
    let proxies = ProxySpec {
        terms,
        classes,
        dim: config.embedding_size,
    };
    proxies.check()?;
    Ok(Some(proxies))
}

impl Blocks {
    fn new(
        rule: &MiningRule,
        anchors: usize,
        references: usize,
        [usual, positives]: [usize; 2],
        dim: usize,
        alone: bool,
        scarce: bool,
    ) -> Self {
        // In u64 throughout: a plan that is refused may be larger than what a browser can address.
        let segments = references.div_ceil(SEGMENT) as u64;
        let threshold_bytes = (size_of::<[u32; 2]>() + size_of::<u32>()) as u64;
        let part_bytes = segments * 4 * part_stride(stride(dim)) as u64;
        let bytes_per_row = match rule {
            MiningRule::Ranks(_) => part_bytes + positives as u64 * threshold_bytes,
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
        let own = alone && rule.operands() == Operands::Rows;
        let bytes = [bytes_per_row, part_bytes];
        let [rows, at_once] = Self::rows(rule, anchors, bytes, own, scarce);
        Self {
            rows,
            at_once,
            references,
            positives,
            looked_at: rule.looked_at(positives as u64, references as u64),
            usually_looked_at: rule.looked_at(usual as u64, references as u64),
            dispatches: dispatches(rows),
        }
    }

    /// Anchors of a block, and how many of them are looked at together, by the bytes of each and of its parts. `own`: the batch is
    /// its own references.
    fn rows(
        rule: &MiningRule,
        anchors: usize,
        [bytes_per_row, part_bytes]: [u64; 2],
        own: bool,
        scarce: bool,
    ) -> [usize; 2] {
        let most = match scarce {
            true => SCARCE_BLOCK_BYTES,
            false => BLOCK_BYTES,
        };
        let in_a_block = |bytes: u64| {
            let rows = (most / bytes.max(1)) as usize / OWNERS * OWNERS;
            rows.max(OWNERS).min(anchors)
        };
        let by_rows = rule.path() == MiningMethod::Rows;
        let all = !scarce || !by_rows || rule.looks_at_all() || rule.weighs_rows().is_some();
        let rows = match in_a_block(bytes_per_row) {
            // A batch that is its own references needs the thresholds of all its rows at once.
            _ if own && all => anchors,
            // The gradient of a reference is added up over all rows of a block in one loop.
            rows if by_rows => rows.min(MOST_STEPS),
            rows => rows,
        };
        let at_once = match own && scarce && !by_rows {
            true => in_a_block(part_bytes),
            false => rows,
        };
        [rows, at_once]
    }

    /// Sizes of a block that its buffers depend on.
    pub(super) fn sizes(&self) -> BlockSizes {
        BlockSizes {
            rows: self.at_once as u64,
            references: self.references as u64,
            thresholds: self.rows as u64 * (self.positives as u64 + 1),
        }
    }

    /// Floating-point operations of mining one anchor, approximately, with this many triplets computed one by one.
    fn operations_of_an_anchor(&self, stride: usize, looked_at: u64) -> f64 {
        6.0 * (self.references as f64 * stride as f64) + 32.0 * looked_at as f64
    }
}
