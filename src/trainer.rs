//! [`Trainer`]: the training loop. The one place that knows the whole chain: batches are drawn on the host, everything
//! from gathering their rows to the optimizer runs on the engine, and a few words a step come back.

mod baseline;
mod hardest;
mod neighbours;
mod outlook;
mod pairs;
mod score;
mod setup;
mod stored;

use std::rc::Rc;

use serde::{Deserialize, Serialize};
use web_time::Instant;

pub use hardest::{HardTriplet, HardestTriplets};
pub use neighbours::{Neighbour, Neighbourhood};
pub use pairs::PairHistogram;
pub use score::Evaluation;
pub(crate) use score::Map;
pub use stored::StoredMemory;

use crate::config::{InitialWeights, TrainConfig};
use crate::cross_batch_memory::{CrossBatchMemory, MemoryAge};
use crate::dataset::{Dataset, Sides};
use crate::engine::{Commands, Engine};
use crate::error::{Error, Result};
use crate::evaluation::Evaluator;
use crate::features::FeatureStore;
use crate::forecast::Path;
use crate::kernels::normalize::{self, Slots};
use crate::kernels::optimizer;
use crate::kernels::ranks::{Block, Inputs, Row};
use crate::kernels::tile::Shape;
use crate::kernels::triplet_margin::{self, PAIRS, STATUS, TERMS};
use crate::kernels::{self, stride};
use crate::knn::Seeker;
use crate::linear::Unfit;
use crate::losses::{Loss, MiningRule};
use crate::miners::MiningCounts;
use crate::model::{Activations, EmbeddingModel, LayerWeights};
use crate::pace::Pace;
use crate::pml::pml_bytes;
use crate::scaling::{Decision, Scaling};
use crate::unit_rows::Intake;
use baseline::Linear;
use setup::{Fit, MODEL, MiningBuffers, Setup, Sizes, TILE, TrainBuffers};

/// What a step did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepReport {
    /// Steps done, this one included.
    pub step: u64,
    /// The loss of the batch before the step.
    pub loss: f64,
    /// The triplets it saw.
    pub mining: MiningCounts,
    /// Device memory in use, in bytes.
    pub memory_bytes: u64,
    /// What PML's enumeration of this step's triplets would allocate, in bytes: an estimate, see [`pml_bytes`].
    pub pml_bytes: u64,
}

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
    train: TrainBuffers,
    tile: Activations,
    evaluator: Evaluator,
    intake: Intake,
    seeker: Seeker,
    linear: Result<Linear, Unfit>,
    step: u64,
    pairs: Option<PairHistogram>,
    last: Option<LastStep>,
    failed: Option<Error>,
    pace: Pace,
}

/// Where the last step's anchors and references still are.
#[derive(Clone, Copy, Debug)]
struct LastStep {
    /// Where its rows begin in the submit's.
    first: usize,
    slots: Slots,
    references: usize,
}

/// One step of a submit, as far as the host knows it.
struct Drawn {
    slots: Slots,
    references: usize,
    /// Positives of one of its rows at most.
    positives: usize,
    /// The references are the batch itself, and get their share of the gradient.
    alone: bool,
    pml_bytes: u64,
}

impl Trainer {
    /// Splits the data, plans the memory of the whole run, and starts a model.
    ///
    /// # Errors
    /// [`Error::Config`] for settings that are out of range or do not suit the data; [`Error::Refused`] and
    /// [`Error::TooLarge`] when training and evaluation do not fit the engine's budget together, with the numbers.
    pub async fn new(engine: Engine, dataset: Rc<Dataset>, config: TrainConfig) -> Result<Self> {
        let setup = Setup::new(&dataset, &config)?;
        let sizes = &setup.sizes;
        let Fit {
            plan,
            resident,
            linear,
            cut,
        } = sizes.fit(&engine.room(), &dataset)?;
        engine.prepare(&kernels::ALL).await?;
        let mut workspace = engine.workspace("training", &plan, sizes.advice()).await?;
        let weights = EmbeddingModel::initial_weights(&sizes.widths, config.seed);
        let model =
            EmbeddingModel::new(&engine, &mut workspace, MODEL, &sizes.widths, &weights).await?;
        let train = &setup.sides.train;
        let scaling = Scaling::decide(&engine, &dataset, train, config.standardize).await?;
        let features = FeatureStore::new(
            &engine,
            &mut workspace,
            &dataset,
            &scaling.scaling,
            resident,
        )
        .await?;
        let classes = dataset.class_names.len();
        let mut memory = CrossBatchMemory::new(&mut workspace, sizes.memory, classes);
        if config.memory_size == 0 || config.memory_start_step > 0 {
            memory.reset(sizes.batch);
        }
        let mut trainer = Self {
            rule: MiningRule::new(&config.miner, Some(&config.loss), config.distance),
            train: TrainBuffers::new(&mut workspace, sizes),
            tile: Activations::new(&mut workspace, &TILE, &sizes.widths),
            evaluator: Evaluator::new(&mut workspace, cut),
            intake: Intake::new(&mut workspace),
            seeker: Seeker::new(&mut workspace),
            linear: linear
                .map(|directions| Linear::new(&mut workspace, dataset.features.dim(), directions)),
            step: 0,
            pairs: None,
            last: None,
            failed: None,
            pace: Pace::default(),
            engine,
            dataset,
            config,
            setup,
            scaling,
            features,
            model,
            memory,
        };
        if trainer.config.initial_weights == InitialWeights::Lda {
            trainer.start_from_linear().await?;
        }
        Ok(trainer)
    }

    /// Takes as many steps as make a slice of work, one at least and `at_most` at most.
    ///
    /// # Errors
    /// [`Error::NotFinite`] after the reports of the steps before were returned; [`Error::Device`].
    pub async fn advance(&mut self, at_most: u64) -> Result<Vec<StepReport>> {
        let Sizes {
            batch,
            steps_per_submit,
            ..
        } = self.setup.sizes;
        let alone = self.is_alone(self.step);
        let at_most = match alone && self.config.memory_size > 0 {
            // Steps of one kind share a slice: those with a memory are much more work.
            true => at_most.min(self.config.memory_start_step - self.step),
            false => at_most,
        };
        let most =
            usize::try_from(at_most).map_or(steps_per_submit, |most| most.min(steps_per_submit));
        let operations = self.setup.sizes.step_operations(alone);
        let steps = self.pace.units(operations, most);
        let mut numbers = Vec::with_capacity(steps * batch);
        for _ in 0..steps {
            self.setup.sampler.next_batch(&mut numbers);
        }
        self.steps_on(&numbers).await
    }

    /// Takes one step on the batch of these rows of the data set, `batch_size` of them.
    ///
    /// # Errors
    /// As [`Trainer::advance`]. [`Error::Data`] for more or fewer rows than a batch, for a row that the data does not have,
    /// and where the memory would hold more rows of one class than the run has room to mine: as many as its sampler can
    /// bring together. Then nothing was done.
    pub async fn step_on(&mut self, rows: &[u32]) -> Result<StepReport> {
        self.check_rows(rows)?;
        let reports = self.steps_on(rows).await?;
        Ok(reports
            .into_iter()
            .next()
            .expect("a step gives a report or an error"))
    }

    /// Takes a step on each batch of `numbers`, all in one submit.
    async fn steps_on(&mut self, numbers: &[u32]) -> Result<Vec<StepReport>> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let started = Instant::now();
        let batch = self.setup.sizes.batch;
        let mut rows = Vec::with_capacity(numbers.len());
        let mut drawn = Vec::new();
        for (step, numbers) in (self.step..).zip(numbers.chunks_exact(batch)) {
            // Only rows that were given by hand break what the sampler promises, and with those before no longer in order.
            match self.check_classes(step, numbers) {
                Err(error) if drawn.is_empty() => return Err(error),
                Err(error) => {
                    self.failed = Some(error);
                    break;
                }
                Ok(()) => drawn.push(self.enqueue(step, numbers, &mut rows)),
            }
        }
        let (steps, words) = (drawn.len(), TERMS + batch);
        let numbers = &numbers[..steps * batch];
        let mut commands = self.engine.commands();
        let Self {
            engine,
            features,
            dataset,
            train,
            ..
        } = self;
        features
            .stage(engine, &mut commands, dataset, numbers)
            .await?;
        commands.upload(&mut train.batch, 0, &rows);
        commands.upload(&mut train.report, 0, &vec![0; steps * words + PAIRS]);
        for (i, drawn) in drawn.iter().enumerate() {
            self.record(&mut commands, i, drawn, i + 1 == steps);
        }
        self.engine.submit(commands);
        let report = self
            .engine
            .read(&self.train.report, 0, (steps * words + PAIRS) as u64)
            .await?;
        let operations = drawn
            .iter()
            .map(|drawn| self.setup.sizes.step_operations(drawn.alone));
        self.pace.record(operations.sum(), started.elapsed());
        self.read_reports(&report, &drawn)
    }

    /// Reads what the steps of a submit brought; stops at the first that was not finite.
    fn read_reports(&mut self, words: &[u32], drawn: &[Drawn]) -> Result<Vec<StepReport>> {
        let batch = self.setup.sizes.batch;
        let Loss::TripletMargin(loss) = &self.config.loss;
        (self.pairs, self.last) = (None, None);
        let mut reports = Vec::with_capacity(drawn.len());
        for (words, drawn) in words.chunks_exact(TERMS + batch).zip(drawn) {
            if words[STATUS] != 0 {
                let error = Error::NotFinite {
                    step: self.step + 1,
                    lr: self.config.optimizer.lr(),
                };
                if reports.is_empty() {
                    return Err(error);
                }
                self.failed = Some(error);
                break;
            }
            let mining = self.config.miner.counts(words, batch);
            let loss = loss.read(words, &mining, self.rule.path());
            self.step += 1;
            reports.push(StepReport {
                step: self.step,
                loss,
                mining,
                memory_bytes: self.engine.ledger().live_bytes(),
                pml_bytes: drawn.pml_bytes,
            });
        }
        if let Some(last) = drawn.last()
            && reports.len() == drawn.len()
        {
            let pairs = &words[drawn.len() * (TERMS + batch)..];
            self.pairs = match self.rule.path() {
                Path::Ranks => Some(PairHistogram::read(self.step, pairs)),
                Path::Rows => None,
            };
            self.last = Some(LastStep {
                first: (drawn.len() - 1) * batch,
                slots: last.slots,
                references: last.references,
            });
        }
        Ok(reports)
    }

    /// Whether the rows of a step meet only their batch.
    fn is_alone(&self, step: u64) -> bool {
        self.config.memory_size == 0 || step < self.config.memory_start_step
    }

    /// Whether the memory is there from this step on, and was not before.
    fn begins(&self, step: u64) -> bool {
        self.config.memory_size > 0 && step > 0 && step == self.config.memory_start_step
    }

    /// Checks that rows given by hand are a batch of this data.
    fn check_rows(&self, numbers: &[u32]) -> Result<()> {
        let (batch, rows) = (self.setup.sizes.batch, self.dataset.rows());
        if numbers.len() != batch {
            return Err(Error::Data(format!(
                "{} rows were given for a step, and this run's steps take {batch}: give as many as `batch_size` says",
                numbers.len()
            )));
        }
        match numbers.iter().find(|row| **row as usize >= rows) {
            Some(row) => Err(Error::Data(format!(
                "row {row} was given for a step, and the data has {rows} rows: give numbers from 0 to {}",
                rows - 1
            ))),
            None => Ok(()),
        }
    }

    /// Checks that no row of a step will have more positives than the buffers hold.
    fn check_classes(&self, step: u64, numbers: &[u32]) -> Result<()> {
        if self.rule.path() == Path::Rows {
            return Ok(());
        }
        let labels = self.dataset.labels_of(numbers);
        let (label, count) = self.memory.most_after(&labels, self.begins(step));
        let most = self.setup.sizes.blocks(self.is_alone(step)).positives + 1;
        if count <= most {
            return Ok(());
        }
        let class = &self.dataset.class_names[label as usize];
        Err(Error::Data(format!(
            "with these rows {count} rows of class \"{class}\" are mined together, and this run has room for {most} of a class, \
             the most that its sampler brings together: give rows of more classes, or call `reset_memory` before"
        )))
    }

    /// Makes room in the memory for the batch of a step, and notes what the kernels need to know of its rows.
    fn enqueue(&mut self, step: u64, numbers: &[u32], rows: &mut Vec<Row>) -> Drawn {
        let alone = self.is_alone(step);
        if self.begins(step) {
            self.memory.reset(self.config.memory_size);
        }
        let labels = self.dataset.labels_of(numbers);
        let slots = self.memory.enqueue(&labels, numbers);
        let block_rows = self.setup.sizes.blocks(alone).rows;
        let anchors = self.memory.anchors(&labels, slots, block_rows);
        let positives = anchors.iter().map(|row| row.positives as usize).max();
        rows.extend(anchors);
        let references = self.memory.len() as u64;
        let triplets = labels.iter().map(|label| {
            let same = self.memory.of_class(*label);
            (same - u64::from(alone)) * (references - same)
        });
        Drawn {
            slots,
            references: references as usize,
            positives: positives.unwrap_or(0),
            alone,
            pml_bytes: pml_bytes(labels.len() as u64, references, triplets.sum()),
        }
    }

    /// Records the kernels of the `i`-th step of a submit. Pairs are counted in the last: its report is the longest.
    fn record(&mut self, commands: &mut Commands, i: usize, drawn: &Drawn, last: bool) {
        let Self {
            train,
            model,
            memory,
            setup,
            rule,
            ..
        } = self;
        let sizes = &setup.sizes;
        let (count, first) = (sizes.batch, i * sizes.batch);
        let report_first = i * (TERMS + count);
        let stride = stride(model.embedding_size());
        self.features
            .gather(commands, first, count, train.activations.input_mut());
        model.forward(commands, count, &mut train.activations);
        normalize::enqueue(
            commands,
            count,
            stride,
            train.activations.output(),
            &train.batch,
            first,
            drawn.slots,
            &mut train.unit,
            &mut train.norms,
            &mut memory.bank,
            &mut train.gradients.status,
        );
        let TrainBuffers {
            unit,
            batch,
            mining,
            gradient,
            report,
            ..
        } = &mut *train;
        let inputs = Inputs {
            anchors: unit,
            references: &memory.bank.rows,
            batch,
            tags: &memory.bank.tags,
        };
        let block_rows = sizes.blocks(drawn.alone).rows;
        for first_row in (0..count).step_by(block_rows) {
            let block = Block {
                first_row,
                rows: block_rows.min(count - first_row),
                batch: first + first_row,
                first_reference: 0,
                references: drawn.references,
                stride,
            };
            match (&*rule, &mut *mining) {
                (MiningRule::Ranks(rule), MiningBuffers::Ranks { scratch, parts }) => {
                    triplet_margin::mine(
                        commands,
                        &block,
                        drawn.positives,
                        rule,
                        drawn.slots.capacity,
                        inputs,
                        scratch,
                        parts,
                        gradient,
                        report_first,
                        last.then_some(TERMS + count),
                        report,
                    );
                    if drawn.alone {
                        triplet_margin::share_with_references(
                            commands, &block, rule, inputs, scratch, parts, gradient,
                        );
                    }
                }
                (MiningRule::Rows(rule), MiningBuffers::Rows(pass)) => {
                    let shape = Shape::of(self.engine.info(), block.rows);
                    pass.mine(
                        commands,
                        &block,
                        shape,
                        rule,
                        inputs,
                        gradient,
                        report_first,
                        report,
                    );
                    if drawn.alone {
                        pass.share(commands, &block, inputs, gradient);
                    }
                    if drawn.alone && rule.weighing.swap {
                        // The block is the whole batch, and so are the references.
                        pass.share_swapped(commands, &block, 0, rule, inputs, gradient);
                    }
                }
                _ => unreachable!("the buffers are planned for the rule's path"),
            }
        }
        normalize::backward(
            commands,
            count,
            stride,
            &train.unit,
            &train.norms,
            &mut train.gradient,
            // By rows the terms are losses already.
            match rule {
                MiningRule::Ranks(rule) => rule.scale(drawn.alone),
                MiningRule::Rows(_) => 0.0,
            },
            report_first,
            &mut train.report,
        );
        model.backward(
            commands,
            count,
            &train.activations,
            &train.gradient,
            &mut train.gradients,
        );
        let adam = self.config.optimizer.step(self.step + i as u64 + 1);
        let parameters = model.parameter_count();
        optimizer::adam(
            commands,
            &adam,
            parameters,
            &train.gradients.parameters,
            model.parameters_mut(),
            &mut train.moments,
            &train.gradients.status,
            report_first,
            &mut train.report,
        );
    }

    /// Forgets the rows of the memory, as PML's `reset_queue` does: the next batch finds its own stored copies there. The
    /// triplets of the last step are forgotten with them: [`Trainer::hardest`] has none until the next step.
    pub fn reset_memory(&mut self) {
        self.memory.forget();
        self.last = None;
    }

    /// What was done to the features, and whether that scaled them.
    pub fn scaling(&self) -> (&Scaling, bool) {
        (&self.scaling.scaling, self.scaling.standardized)
    }

    /// Why the features were scaled or not, in words; nothing where the settings say not to.
    pub fn scaling_note(&self) -> Option<&str> {
        self.scaling.why.as_deref()
    }

    /// The trained head for rows as they are in the file: its weights with the scaling folded into the first layer.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub async fn head(&self) -> Result<Vec<LayerWeights>> {
        let mut head = self.weights().await?;
        head[0].fold(&self.scaling.scaling);
        Ok(head)
    }

    /// Reads the weights back, as they follow on scaled features.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub async fn weights(&self) -> Result<Vec<LayerWeights>> {
        self.model.weights(&self.engine).await
    }

    /// Goes on from these weights; the optimizer's state stays.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub async fn set_weights(&mut self, weights: &[LayerWeights]) -> Result<()> {
        self.model.set_weights(&self.engine, weights).await
    }

    /// Reads the gradients of the last step.
    #[doc(hidden)]
    pub async fn gradients(&self) -> Result<Vec<LayerWeights>> {
        self.model
            .unpad(&self.engine, &self.train.gradients.parameters)
            .await
    }

    /// Steps done.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// How similar the pairs of the last step were; of the last of a slice, as [`Trainer::advance`] takes them. Only
    /// counted on [`Path::Ranks`].
    pub fn pairs(&self) -> Option<&PairHistogram> {
        self.pairs.as_ref()
    }

    /// How old the references of the last step were.
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

    /// Which rows train, steer and are tested.
    pub fn sides(&self) -> &Sides {
        &self.setup.sides
    }

    /// The engine and the account of its memory.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Ends the training and gives the engine back, its buffers on their way out.
    pub fn into_engine(self) -> Engine {
        self.engine
    }
}
