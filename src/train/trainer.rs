//! [`Trainer`]: the training loop. Only this module knows the whole chain: batches are drawn on the host, everything from gathering
//! their rows to the optimizer runs on the engine, and a few words a step come back.

mod anchor;
mod baseline;
mod drawn;
mod kept;
mod largest;
mod memory;
mod mined;
mod neighbours;
mod outlook;
mod pairs;
mod parameters;
mod saved;
mod score;
mod setup;
mod sizes;
mod step;
mod stored;
mod threshold;
mod truncated;

use std::rc::Rc;

use serde::{Deserialize, Serialize};

pub use anchor::{AnchorAsked, AnchorKind, AnchorReference, AnchorStand, OneAnchor};
pub(crate) use largest::Fits;
pub use neighbours::{Neighbour, Neighbourhood};
pub(crate) use outlook::Part;
pub use pairs::PairHistogram;
pub(crate) use saved::Saved;
pub use score::Evaluation;
pub(crate) use score::{Encoder, Scored};
pub use stored::StoredMemory;

use crate::base::error::{Error, Result};
use crate::data::{Dataset, Sides};
use crate::engine::Engine;
use crate::engine::pace::{Fetch, Pace, Slices};
use crate::judge::linear::Unfit;
use crate::kernels;
use crate::kernels::normalize::Slots;
use crate::kernels::pair_counts::PAIRS;
use crate::kernels::stored::Precision;
use crate::kernels::triplet_margin::STATUS;
use crate::model::activations::Tile;
use crate::model::cross_batch_memory::{CrossBatchMemory, MemoryAge};
use crate::model::embedding_model::EmbeddingModel;
use crate::model::features::FeatureStore;
use crate::model::proxies::Proxies;
use crate::model::scaling::{Decision, Scaling, ScalingKind};
use crate::rules::config::{InitialWeights, Level, TrainConfig};
use crate::rules::miners::MiningCounts;
use crate::rules::mining_rule::MiningRule;
use crate::search::evaluation::Evaluator;
use crate::search::knn::SearchScratch;
use baseline::Linear;
use drawn::Drawn;
use kept::Kept;
use memory::{Fit, MODEL, TILE, TrainBuffers};
use setup::Setup;
use sizes::Sizes;

/// Report of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepReport {
    /// Steps done, this one included.
    pub step: u64,
    /// The loss of the batch before the step.
    pub loss: f64,
    /// Counts of the batch's triplets.
    pub mining: MiningCounts,
    /// Device memory in use, in bytes.
    pub memory_bytes: u64,
    /// Bytes that PML would take at the peak of this step, above what is there before it: an estimate, as [`Trainer::plan_pml`].
    pub pml_bytes: u64,
}

/// The most steps that are taken at once: a fast device's curves are drawn this often.
const STEPS_AT_ONCE: usize = 48;
/// Fewest operations of a slice, whatever the pace: some milliseconds on a slow device.
const LEAST_OPERATIONS: f64 = 1e8;

/// Trains one model on one data set.
#[derive(Debug)]
pub struct Trainer {
    engine: Engine,
    dataset: Rc<Dataset>,
    config: TrainConfig,
    setup: Setup,
    rule: MiningRule,
    scaling: Decision,
    features: FeatureStore,
    model: EmbeddingModel,
    memory: CrossBatchMemory,
    proxies: Option<Proxies>,
    train: TrainBuffers,
    tile: Tile,
    evaluator: Evaluator,
    seeker: SearchScratch,
    linear: Result<Linear, Unfit>,
    kept: Kept,
    step: u64,
    pairs: Option<PairHistogram>,
    last: Option<LastStep>,
    failed: Option<Error>,
    /// The state is that after the last step. A step that breaks off leaves rows drawn and stored that no step used.
    whole: bool,
    /// The memory may hold other rows than those that the sampler draws.
    by_hand: bool,
    /// Features of one unit are centred.
    centres: bool,
    /// Set for each class of which a row was drawn.
    seen: Vec<bool>,
    /// [`Drift::sums`](crate::kernels::drift::Drift::sums) at the last evaluation.
    drifted: [f64; 2],
    pace: Pace,
    evaluation_pace: Pace,
}

/// Where the last step's rows are stored.
#[derive(Clone, Copy, Debug)]
struct LastStep {
    slots: Slots,
    /// The references are the batch itself.
    alone: bool,
}

impl Trainer {
    /// Splits the data, plans the memory of the whole run, and starts a model.
    ///
    /// # Errors
    /// [`Error::Config`] for settings that are out of range or do not suit the data; [`Error::Refused`] and
    /// [`Error::TooLarge`] when training and evaluation do not fit the engine's budget together, with the numbers.
    pub async fn new(engine: Engine, dataset: Rc<Dataset>, config: TrainConfig) -> Result<Self> {
        let trainer = Self::at_random(engine, dataset, config).await?;
        trainer.with_first_weights().await
    }

    /// A trainer as [`Trainer::at_random`], on these sides, whatever the settings say of the split.
    pub(crate) async fn on(
        engine: Engine,
        dataset: Rc<Dataset>,
        config: TrainConfig,
        sides: Sides,
    ) -> Result<Self> {
        let setup = Setup::on(&dataset, &config, sides)?;
        Self::set_up(engine, dataset, config, setup, true).await
    }

    /// Starts from the linear map, if the settings say so.
    pub(crate) async fn with_first_weights(mut self) -> Result<Self> {
        if self.config.initial_weights == InitialWeights::Lda {
            self.start_from_linear().await?;
        }
        Ok(self)
    }

    /// A trainer with random weights in any case: nothing was scored or fitted.
    pub(crate) async fn at_random(
        engine: Engine,
        dataset: Rc<Dataset>,
        config: TrainConfig,
    ) -> Result<Self> {
        Self::to_restore(engine, dataset, config, true).await
    }

    /// A trainer to restore a saved run in; `centres`: the run centred features of one unit, which earlier versions did not.
    pub(crate) async fn to_restore(
        engine: Engine,
        dataset: Rc<Dataset>,
        config: TrainConfig,
        centres: bool,
    ) -> Result<Self> {
        let setup = Setup::new(&dataset, &config)?;
        Self::set_up(engine, dataset, config, setup, centres).await
    }

    async fn set_up(
        engine: Engine,
        dataset: Rc<Dataset>,
        config: TrainConfig,
        mut setup: Setup,
        centres: bool,
    ) -> Result<Self> {
        let Fit {
            sizes,
            plan,
            resident,
            linear,
            cut,
        } = setup.fit(&engine.room(), &dataset, &config)?;
        setup.sizes = sizes;
        let sizes = &setup.sizes;
        let files = sizes.kernels(&config);
        let used = kernels::used_of(engine.info(), &files, sizes.precisions());
        engine.prepare(used).await?;
        let mut workspace = engine.workspace("training", &plan, sizes.advice()).await?;
        let weights = EmbeddingModel::initial_weights(&sizes.architecture, config.seed);
        let model = EmbeddingModel::new(
            &engine,
            &mut workspace,
            MODEL,
            &sizes.architecture,
            &weights,
        )
        .await?;
        let model = model.with_dropout(config.dropout as f32, config.seed);
        let train = &setup.sides.train;
        let scaling =
            Scaling::decide(&engine, &dataset, train, config.standardize, centres).await?;
        let features = FeatureStore::new(
            &engine,
            &mut workspace,
            &dataset,
            &scaling.scaling,
            sizes.features,
            resident,
        )
        .await?;
        let classes = dataset.class_names.len();
        let mut memory =
            CrossBatchMemory::new(&mut workspace, sizes.precision, sizes.memory, classes);
        if config.memory() == 0 || config.memory_start_step > 0 {
            memory.reset(sizes.batch);
        }
        let proxies = match &sizes.proxies {
            Some(spec) => {
                let (seed, moments) = (config.seed, sizes.held.moments);
                Some(Proxies::new(&engine, &mut workspace, spec, seed, moments).await?)
            }
            None => None,
        };
        Ok(Self {
            rule: config.rule(),
            train: TrainBuffers::new(&mut workspace, sizes),
            tile: Tile::new(&mut workspace, &TILE, &sizes.architecture),
            evaluator: Evaluator::new(&mut workspace, cut),
            seeker: SearchScratch::new(&mut workspace),
            linear: linear.map(|outputs| {
                Linear::new(&engine, &mut workspace, dataset.features.dim(), outputs)
            }),
            kept: Kept::new(&mut workspace, sizes),
            step: 0,
            pairs: None,
            last: None,
            failed: None,
            whole: true,
            by_hand: false,
            centres,
            seen: vec![false; classes],
            drifted: [0.0; 2],
            pace: Pace::of(&engine),
            evaluation_pace: Pace::of(&engine),
            engine,
            dataset,
            config,
            setup,
            scaling,
            features,
            model,
            memory,
            proxies,
        })
    }

    /// Takes as many steps as may be in flight at once, from one to `at_most`: some slices of work on a GPU, one on the CPU. Their
    /// reports come together.
    ///
    /// # Errors
    /// [`Error::NotFinite`], after the reports of the steps before were returned; [`Error::Device`].
    pub async fn advance(&mut self, at_most: u64) -> Result<Vec<StepReport>> {
        let advanced = self.advance_and_score(at_most, None).await;
        advanced.map(|(reports, _)| reports)
    }

    /// Advances as [`Trainer::advance`] does. With `scored`, an evaluation and the embeddings of those rows come with the last
    /// steps: one wait for both.
    pub(crate) async fn advance_and_score(
        &mut self,
        at_most: u64,
        scored: Option<&[u32]>,
    ) -> Result<(Vec<StepReport>, Option<Scored>)> {
        let steps = self.steps_at_once(at_most);
        let mut numbers = Vec::with_capacity(steps * self.setup.sizes.batch);
        self.whole = false;
        for _ in 0..steps {
            self.setup.sampler.next_batch(&mut numbers);
        }
        if self.by_hand {
            self.check_classes(&numbers)?;
        }
        self.steps_on(&numbers, scored).await
    }

    /// Number of steps that may be in flight at once, from one to `at_most`.
    fn steps_at_once(&self, at_most: u64) -> usize {
        let alone = self.is_alone(self.step);
        let most = match alone && self.config.memory() > 0 {
            // Steps with the memory are much more work: they are taken apart from those before.
            true => at_most.min(self.config.memory_start_step - self.step),
            false => at_most,
        };
        let at_once = if self.by_hand { 1 } else { STEPS_AT_ONCE };
        let most = usize::try_from(most).map_or(at_once, |most| most.min(at_once));
        let operations = self.setup.sizes.step_operations(alone);
        let slices = self.engine.slices_ahead();
        self.pace.units_ahead(operations, slices, most)
    }

    /// Tells if a GPU takes this many steps at once, and an evaluation after them is short enough to be sent with them.
    pub(crate) fn scores_with(&self, steps: u64) -> bool {
        self.engine.slices_ahead() > 1
            && self.steps_at_once(steps) as u64 == steps
            && self.scores_are_short()
    }

    /// Takes one step on the batch of these rows of the data set, `batch_size` of them.
    ///
    /// # Errors
    /// As [`Trainer::advance`]. [`Error::Data`] for more or fewer rows than a batch, for a row that the data does not have, and if
    /// the memory would hold more rows of one class than the run has buffers to mine: as many as its sampler can bring together.
    /// Then nothing was done.
    pub async fn step_on(&mut self, rows: &[u32]) -> Result<StepReport> {
        self.check_rows(rows)?;
        self.check_classes(rows)?;
        self.by_hand = true;
        let (reports, _) = self.steps_on(rows, None).await?;
        Ok(reports
            .into_iter()
            .next()
            .expect("a step gives a report or an error"))
    }

    /// Takes a step on each batch of `numbers`, in as many slices as needed, and waits once for all of them and for the evaluation
    /// and the embeddings of `scored`, if given.
    async fn steps_on(
        &mut self,
        numbers: &[u32],
        scored: Option<&[u32]>,
    ) -> Result<(Vec<StepReport>, Option<Scored>)> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        self.whole = false;
        let (engine, mut pace) = (self.engine.clone(), self.pace);
        let mut slices = Slices::unstopped(&engine, &mut pace);
        let (drawn, reports) = self.record_all(&mut slices, numbers).await?;
        let scoring = match scored {
            Some(rows) => Some(self.score_among(&mut slices, rows).await?),
            None => None,
        };
        slices.collect().await?;
        let words = drawn.len() * self.setup.sizes.step_words();
        let mut report: Vec<u32> = Vec::with_capacity(words + PAIRS);
        for part in reports {
            // The histogram of pairs is after the reports of the last part alone.
            report.truncate(report.len().saturating_sub(PAIRS));
            report.extend(slices.take(part));
        }
        let reports = self.read_reports(&report, &drawn)?;
        self.whole = self.failed.is_none();
        let scored = scoring.filter(|_| self.whole);
        let scored = scored.map(|scoring| self.read_scored(&mut slices, scoring));
        self.pace = pace;
        Ok((reports, scored))
    }

    /// Records a step on each batch of `numbers`, and starts to read their reports: those of each upload together, the last ones with
    /// the histogram of pairs after them.
    async fn record_all(
        &mut self,
        slices: &mut Slices<'_>,
        numbers: &[u32],
    ) -> Result<(Vec<Drawn>, Vec<Fetch<u32>>)> {
        let Sizes {
            batch,
            steps_per_upload,
            ..
        } = self.setup.sizes;
        let (steps, words) = (numbers.len() / batch, self.setup.sizes.step_words());
        let mut drawn = Vec::with_capacity(steps);
        let mut reports = Vec::new();
        for numbers in numbers.chunks(steps_per_upload * batch) {
            let mut rows = Vec::with_capacity(numbers.len());
            let first = drawn.len();
            for numbers in numbers.chunks_exact(batch) {
                let step = self.step + drawn.len() as u64;
                let next = self.reserve(step, numbers, &mut rows);
                self.check_positives(&next)?;
                drawn.push(next);
            }
            if !self.stages_chunks() {
                self.features.stage(slices, &self.dataset, numbers).await?;
            }
            slices.upload(&mut self.train.batch, 0, &rows).await?;
            let zeros = vec![0; (drawn.len() - first) * words + PAIRS];
            slices.upload(&mut self.train.report, 0, &zeros).await?;
            let of_steps = drawn[first..].iter().zip(numbers.chunks_exact(batch));
            for (i, (drawn, numbers)) in of_steps.enumerate() {
                let ahead = first + i;
                let last = ahead + 1 == steps;
                self.record(slices, i, ahead, numbers, drawn, last).await?;
            }
            let report = &self.train.report;
            reports.push(slices.fetch(report, 0, zeros.len() as u64).await?);
        }
        Ok((drawn, reports))
    }

    /// Reads the reports of the steps; stops at the first that was not finite.
    fn read_reports(&mut self, words: &[u32], drawn: &[Drawn]) -> Result<Vec<StepReport>> {
        let Sizes { anchors, .. } = self.setup.sizes;
        let of_a_step = self.setup.sizes.step_words();
        (self.pairs, self.last) = (None, None);
        let mut reports = Vec::with_capacity(drawn.len());
        for (words, drawn) in words.chunks_exact(of_a_step).zip(drawn) {
            if words[STATUS] != 0 {
                let error = Error::NotFinite {
                    step: self.step + 1,
                    lr: self.config.optimizer.lr(),
                    halves: self.setup.sizes.activations == Precision::F16,
                };
                if reports.is_empty() {
                    return Err(error);
                }
                self.failed = Some(error);
                break;
            }
            let mining = self.rule.counts(&self.config.miner, words, anchors);
            let loss = self.read_loss(words, &mining);
            self.step += 1;
            reports.push(StepReport {
                step: self.step,
                loss,
                mining,
                memory_bytes: self.engine.ledger().live_bytes(),
                pml_bytes: self.pml_bytes(drawn, &mining),
            });
        }
        if let Some(last) = drawn.last()
            && reports.len() == drawn.len()
        {
            let pairs = &words[drawn.len() * of_a_step..];
            self.pairs = Some(PairHistogram::read(self.step, pairs));
            self.last = Some(LastStep {
                slots: last.slots,
                alone: last.alone,
            });
        }
        Ok(reports)
    }

    /// The loss in the reports of a step, of which the first has these counts: that of each size, weighed, if there are sizes.
    fn read_loss(&self, words: &[u32], first: &MiningCounts) -> f64 {
        let (loss, path, sizes) = (&self.config.loss, self.rule.path(), &self.setup.sizes);
        let reports = words.chunks_exact(sizes.report_words());
        let of_level = |(level, report): (&Level, &[u32])| {
            let counts = self.rule.counts(&self.config.miner, report, sizes.anchors);
            f64::from(level.weight) * loss.read(report, &counts, path)
        };
        match sizes.levels.is_empty() {
            true => loss.read(words, first, path),
            false => sizes.levels.iter().zip(reports).map(of_level).sum(),
        }
    }

    /// Forgets the rows of the memory, as PML's `reset_queue` does: the next batch finds its own stored copies there.
    pub fn reset_memory(&mut self) {
        self.memory.forget();
        self.last = None;
        self.by_hand = false;
    }

    /// Scaling of the features, and its kind.
    pub fn scaling(&self) -> (&Scaling, ScalingKind) {
        (&self.scaling.scaling, self.scaling.kind)
    }

    /// Reason for scaling the features or not, in words; `None` if the settings say not to.
    pub fn scaling_note(&self) -> Option<&str> {
        self.scaling.why.as_deref()
    }

    /// Note on the number of validation rows that are scored while training; `None` if all are.
    pub(crate) fn watched_note(&self) -> Option<String> {
        let (watched, all) = (self.setup.watched.len(), self.setup.sides.validation.len());
        (watched < all).then(|| {
            format!("{watched} of the {all} validation rows are scored while training: evaluate_rows sets how many")
        })
    }

    /// Number of training rows that validation rows are ranked among too.
    pub(crate) fn validation_among_train(&self) -> usize {
        self.setup.beside.len()
    }

    /// Steps done.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// Histogram of the similarities of the last step's pairs; with [`Trainer::advance`], of the last step of a slice. If the loss
    /// learns proxies, they are pairs of a row and a proxy.
    pub fn pairs(&self) -> Option<&PairHistogram> {
        self.pairs.as_ref()
    }

    /// Age of the last step's references.
    pub fn memory_age(&self) -> MemoryAge {
        self.memory.age()
    }

    /// The settings.
    pub fn config(&self) -> &TrainConfig {
        &self.config
    }

    /// The data.
    pub fn dataset(&self) -> &Dataset {
        &self.dataset
    }

    /// Rows of the training, validation and test side.
    pub fn sides(&self) -> &Sides {
        &self.setup.sides
    }

    /// The engine, with the account of its memory.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Ends the training and returns the engine; the buffers are being freed.
    pub fn into_engine(self) -> Engine {
        self.engine
    }
}
