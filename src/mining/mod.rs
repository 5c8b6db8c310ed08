//! [`mine`]: the mining phase. Takes rows with labels, gives the counts of every triplet and the loss over all mined ones with its
//! gradient, a block of anchors at a time, in memory that its plan fixes. No triplet is stored.

pub(crate) mod listing;
pub(crate) mod mining_pass;
pub(crate) mod row_pass;
pub(crate) mod triplets;

mod pairs;

use std::collections::HashMap;

use web_time::Instant;

use crate::base::error::{Error, Result};
use crate::base::forecast::{Forecast, Path, Rate, check_count};
use crate::base::ledger::Purpose;
use crate::base::plan::{MemoryPlan, Room};
use crate::cpu::Distance;
use crate::cpu::ranks::rows_of_all_cores;
use crate::data::classes;
use crate::engine::pace::Pace;
use crate::engine::{DeviceVec, Engine, Workspace};
use crate::kernels::ranks::{Block, Inputs, NO_ID, Row, SEGMENT};
use crate::kernels::tile::Shape;
use crate::kernels::triplet_margin::{OWNERS, TERMS, part_stride};
use crate::kernels::{self, stride};
use crate::mining::mining_pass::MiningPass;
use crate::mining::row_pass::{BlockSizes, RowPass, RowWork, Turn};
use crate::model::unit_rows::UnitRows;
use crate::rules::losses::{Loss, MiningRule, Operands, Round};
use crate::rules::miners::{Miner, MiningCounts};
use crate::search::evaluation::EvaluationSpec;
use crate::search::rows::Rows;

pub use pairs::{KeptOfAnchor, Pairs};

/// Bytes of a block's buffers, without the resident references.
const SCRATCH_BYTES: u64 = 64 << 20;
/// The most anchors of a block.
const BLOCK_ROWS: u64 = 512;
const ADVICE: &str = "raise the budget, or use fewer references or dimensions";

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
    /// By ranks or by rows, see [`Path`].
    pub path: Path,
    /// The loss needs similarities between positives and negatives (`swap`).
    pub swap: bool,
    /// Use of the kept pairs in a pass by rows.
    pub work: RowWork,
    /// The most triplets of an anchor that are computed one by one; 0 by ranks.
    pub looked_at: u64,
}

/// Result of a mining.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mined {
    /// Number of triplets of each kind; `active` is 0 if no loss was asked for.
    pub mining: MiningCounts,
    /// Mean loss of the active triplets; 0 if there are none.
    pub loss: f64,
    /// dL/d(anchor), `[anchors, dim]`, for the anchors before they are brought to unit length; empty if it was not asked for.
    pub gradient: Vec<f32>,
    /// dL/d(reference), `[references, dim]`, before unit length, of a loss with proxies; empty for other losses.
    pub reference_gradient: Vec<f32>,
    /// Pairs that the miner keeps; empty if they were not asked for.
    pub pairs: Pairs,
}

/// Output of [`mine`] beside the counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wanted<'a> {
    /// Counts alone.
    Counts,
    /// Pairs that the miner keeps. Only miners that give pairs have them, see [`Miner`].
    Pairs,
    /// The loss.
    Loss(&'a Loss),
    /// The loss and its gradient.
    Gradient(&'a Loss),
}

impl<'a> Wanted<'a> {
    /// The loss, if one is asked for.
    fn loss(&self) -> Option<&'a Loss> {
        match self {
            Self::Counts | Self::Pairs => None,
            Self::Loss(loss) | Self::Gradient(loss) => Some(loss),
        }
    }
}

/// Block sizes.
#[derive(Clone, Copy, Debug)]
struct Cut {
    rows: usize,
    thresholds: u64,
}

impl MiningSpec {
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
    fn references_learn(&self) -> bool {
        self.gradient && (self.own || self.proxies)
    }

    /// Forecasts a mining: a pure function, monotone in the room.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] and [`crate::Error::TooLarge`], with the numbers.
    pub fn plan(&self, room: &Room, rate: &Rate) -> Result<Forecast> {
        check_count("references", self.references)?;
        check_count("anchors", self.anchors)?;
        if self.path == Path::Rows {
            RowPass::check(self.dim, self.references, self.work, self.swap)?;
            RowPass::check_draws(self.work, self.positives)?;
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
        })
    }

    /// Operations of an anchor: similarities, and as much again for the gradient; and the triplets that are computed one by one,
    /// from both sides.
    fn operations_of_an_anchor(&self) -> f64 {
        let stride = stride(self.dim) as f64;
        let of_a_triplet = if self.swap { 4.0 * stride } else { 32.0 };
        4.0 * self.references as f64 * stride + self.looked_at as f64 * of_a_triplet
    }

    /// As many anchors at once as fit the room, one at least. If references learn, always the same number: their gradient adds up
    /// block by block, and its bits must not depend on the budget.
    fn cut(&self, room: &Room) -> Cut {
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
            Path::Ranks => {
                let parts = segments.saturating_mul(4 * part_stride(stride(self.dim)) as u64);
                parts.max(places.saturating_mul(8))
            }
            Path::Rows => 4 * RowPass::width(self.references) as u64,
        };
        let rows = (1 + free / row_bytes)
            .min(room.max_buffer_bytes / largest.max(1))
            .min(BLOCK_ROWS)
            .min(self.anchors as u64);
        cut(rows.max(1))
    }

    /// Buffers of the references, which are not scratch.
    fn bank(plan: MemoryPlan, spec: &Self) -> MemoryPlan {
        let (references, stride) = (spec.references as u64, stride(spec.dim) as u64);
        let floats = references.saturating_mul(stride);
        plan.with::<f32>(Purpose::MemoryBank, "mine.references", floats)
            .with::<[u32; 2]>(Purpose::MemoryBank, "mine.tags", references)
    }

    fn buffers(&self, cut: &Cut) -> MemoryPlan {
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

/// Triplet counts of the anchors with `references`, and if wanted loss and gradient. With `None` the anchors are the references
/// themselves, and no anchor is a positive of itself; given references are constants, as those of a memory are.
///
/// For a loss that learns proxies, give the proxies as the references, class by class; for [`crate::ProxyAnchorLoss`] as the
/// anchors. Both sides then have a gradient. No miner chooses.
///
/// `progress` is called with the number of anchors done and the number of all.
///
/// # Errors
/// [`crate::Error::Config`] for a loss that does not take what the miner keeps, and for more references or draws than the miner
/// allows; [`crate::Error::Data`] if dimensions or labels do not match; [`crate::Error::Refused`] and [`crate::Error::TooLarge`] as
/// [`MiningSpec::plan`]; [`crate::Error::Device`]; [`crate::Error::Stopped`].
pub async fn mine(
    engine: &Engine,
    anchors: Rows<'_>,
    references: Option<Rows<'_>>,
    miner: &Miner,
    distance: Distance,
    wanted: Wanted<'_>,
    progress: impl FnMut(u64, u64),
) -> Result<Mined> {
    let mut pairs = Pairs::default();
    let sink = |kept: KeptOfAnchor<'_>| {
        pairs.add(kept);
        Ok(())
    };
    let mined = mine_into(
        engine,
        anchors,
        references,
        miner,
        [distance; 2],
        wanted,
        sink,
        progress,
    )
    .await?;
    Ok(Mined { pairs, ..mined })
}

/// As [`mine`], with one distance for the miner and one for the loss, in this order. With [`Wanted::Pairs`] the kept pairs go to
/// `sink`, anchor by anchor, and none are stored.
///
/// # Errors
/// As [`mine`], and errors of `sink`.
#[expect(clippy::too_many_arguments, reason = "as mine, and where pairs go")]
pub async fn mine_into(
    engine: &Engine,
    anchors: Rows<'_>,
    references: Option<Rows<'_>>,
    miner: &Miner,
    [chosen_by, distance]: [Distance; 2],
    wanted: Wanted<'_>,
    mut sink: impl FnMut(KeptOfAnchor<'_>) -> Result<()>,
    mut progress: impl FnMut(u64, u64),
) -> Result<Mined> {
    let loss = wanted.loss();
    if let Some(loss) = loss {
        loss.check()?;
        loss.check_takes(miner, distance)?;
        check_proxies(loss, references)?;
    }
    let known = references.unwrap_or(anchors);
    anchors.check_against(known)?;
    let dim = known.rows.dim();
    let classes = Classes::of(known.labels);
    let rule = MiningRule::new(miner, chosen_by, loss, distance);
    let spec = MiningSpec {
        own: references.is_none(),
        gradient: matches!(wanted, Wanted::Gradient(_)),
        ..MiningSpec::of_names(known.labels, dim, anchors.labels.len()).mined_by(miner, loss)
    };
    let room = engine.room();
    let forecast = spec.plan(&room, &Rate::default())?;
    engine.prepare(kernels::used_on(engine.info())).await?;
    let mut workspace = engine.workspace("mining", &forecast.memory, ADVICE).await?;
    let mut phase = Phase::new(engine, spec, spec.cut(&room), &mut workspace);
    phase.load(known, &classes.labels).await?;
    let mut pulls = Pulls::default();
    let by_value = matches!(miner, Miner::MultiSimilarity(_)).then_some(chosen_by);
    let gives_pairs = wanted == Wanted::Pairs && miner.gives_pairs();
    let (rounds, mut progressed) = (rule.rounds(), 0);
    let mut cut = Vec::new();
    for round in rounds {
        let (mut done, mut turns) = (0, 0);
        while done < spec.anchors {
            let most = match round {
                Round::Settle | Round::Slopes => Some(cut[turns]),
                Round::Mine | Round::Reduce => None,
            };
            let about = |anchor: usize| classes.about(&anchors.labels[anchor]);
            let rows = phase.next_rows(done, most, about);
            if *round == Round::Reduce {
                cut.push(rows.len());
            }
            turns += 1;
            let started = Instant::now();
            phase.block(anchors, done, &rows, &rule, *round).await?;
            if !round.is_last() {
                engine.settle().await?;
            } else {
                phase
                    .read_block(rows.len(), &rule, &wanted, &mut pulls)
                    .await?;
            }
            if gives_pairs && let MiningPass::Rows(pass) = &phase.pass {
                let references = spec.references;
                pairs::read(engine, pass, done, &rows, references, by_value, &mut sink).await?;
            }
            let operations = rows.len() as f64 * spec.operations_of_an_anchor();
            phase.pace.record(operations, started.elapsed());
            done += rows.len();
            progressed += rows.len();
            progress((progressed / rounds.len()) as u64, spec.anchors as u64);
            engine.breathe().await?;
        }
    }
    let report = engine.read(&phase.report, 0, TERMS as u64).await?;
    let counts = rule.counts(miner, &report, spec.anchors);
    phase
        .mined(&rule, counts, loss, pulls, anchors, known)
        .await
}

/// The classes of the references.
struct Classes {
    numbers: HashMap<String, u32>,
    /// Class of each reference.
    labels: Vec<u32>,
    /// Number of references of each class.
    counts: Vec<u32>,
}

impl Classes {
    fn of(labels: &[String]) -> Self {
        let numbers: HashMap<String, u32> = classes(labels).into_iter().zip(0..).collect();
        let labels: Vec<u32> = labels.iter().map(|label| numbers[label]).collect();
        let mut counts = vec![0; numbers.len()];
        for label in &labels {
            counts[*label as usize] += 1;
        }
        Self {
            numbers,
            labels,
            counts,
        }
    }

    /// Number of a class, and of its references; a class without references has the number after the last.
    fn about(&self, label: &str) -> (u32, u32) {
        match self.numbers.get(label) {
            Some(number) => (*number, self.counts[*number as usize]),
            None => (self.counts.len() as u32, 0),
        }
    }
}

/// Checks that a loss that learns proxies is given some, class by class.
fn check_proxies(loss: &Loss, references: Option<Rows<'_>>) -> Result<()> {
    let Some(proxies) = loss.proxies() else {
        return Ok(());
    };
    let Some(references) = references else {
        return Err(Error::Config(
            "loss: this loss compares rows with proxies, which a run of `train` learns: give those as references, or use a loss \
             without proxies"
                .to_owned(),
        ));
    };
    let of_a_class = |labels: &[String]| {
        labels.len() == proxies.per_class && labels.iter().all(|label| *label == labels[0])
    };
    if proxies.are_rows || references.labels.chunks(proxies.per_class).all(of_a_class) {
        return Ok(());
    }
    Err(Error::Config(format!(
        "loss: this loss has {} proxies for each class: give as many references of each, one class after the other",
        proxies.per_class
    )))
}

/// Slices that a block may take on the CPU, so that the lanes of all cores are filled.
const FULL_SLICES: f64 = 8.0;

/// The buffers of the phase.
struct Phase<'a> {
    engine: &'a Engine,
    spec: MiningSpec,
    cut: Cut,
    references: DeviceVec<f32>,
    tags: DeviceVec<[u32; 2]>,
    anchors: DeviceVec<f32>,
    rows: DeviceVec<Row>,
    pass: MiningPass,
    gradient: DeviceVec<f32>,
    shares: DeviceVec<f32>,
    report: DeviceVec<u32>,
    pace: Pace,
}

impl<'a> Phase<'a> {
    fn new(engine: &'a Engine, spec: MiningSpec, cut: Cut, workspace: &mut Workspace) -> Self {
        Self {
            engine,
            spec,
            cut,
            references: workspace.take("mine.references"),
            tags: workspace.take("mine.tags"),
            anchors: workspace.take("mine.anchors"),
            rows: workspace.take("mine.rows"),
            pass: MiningPass::new(workspace, spec.path, spec.work),
            gradient: workspace.take("mine.gradient"),
            shares: workspace.take("mine.shares"),
            report: workspace.take("mine.report"),
            pace: Pace::of(engine),
        }
    }

    /// Brings in the references; a reference's id is its place.
    async fn load(&mut self, known: Rows<'_>, labels: &[u32]) -> Result<()> {
        let numbers = 0..labels.len() as u32;
        stored(known)
            .bring(self.engine, numbers.clone(), &mut self.references, 0)
            .await?;
        let tags: Vec<[u32; 2]> = labels
            .iter()
            .zip(numbers)
            .map(|(label, id)| [*label, id])
            .collect();
        self.engine.upload(&mut self.tags, 0, &tags).await
    }

    /// The anchors of the next block, from `first` on; `rows` of them if given. `about` returns the class of an anchor and the
    /// number of references that have it.
    fn next_rows(
        &self,
        first: usize,
        rows: Option<usize>,
        about: impl Fn(usize) -> (u32, u32),
    ) -> Vec<Row> {
        let operations = self.spec.operations_of_an_anchor();
        let most = match self.spec.own && self.spec.whole {
            true => self.cut.rows,
            false => rows.unwrap_or_else(|| self.pace.units(operations, self.cut.rows)),
        };
        let whole = match &self.references {
            DeviceVec::Gpu(_) => OWNERS,
            DeviceVec::Cpu(_) => {
                let all = rows_of_all_cores().min(self.spec.anchors - first);
                // Unless a stop would have to wait long.
                let soon = all as f64 * operations <= FULL_SLICES * self.pace.slice();
                if soon { all } else { OWNERS }
            }
        };
        let most = most.next_multiple_of(whole).min(self.cut.rows);
        let last = self.spec.anchors.min(first + most);
        let mut offset = 0;
        (first..last)
            .map(|anchor| {
                let (label, same) = about(anchor);
                let own = self.spec.own;
                let row = Row {
                    label,
                    id: if own { anchor as u32 } else { NO_ID },
                    offset,
                    positives: same - u32::from(own),
                };
                offset += row.positives + 1;
                row
            })
            .collect()
    }

    /// Runs a round over a block of anchors that begins at `first`.
    async fn block(
        &mut self,
        anchors: Rows<'_>,
        first: usize,
        rows: &[Row],
        rule: &MiningRule,
        round: Round,
    ) -> Result<()> {
        let numbers = first as u32..(first + rows.len()) as u32;
        stored(anchors)
            .bring(self.engine, numbers, &mut self.anchors, 0)
            .await?;
        let block = Block {
            first_row: 0,
            rows: rows.len(),
            batch: 0,
            first_reference: 0,
            references: self.spec.references,
            stride: stride(self.spec.dim),
        };
        let mut commands = self.engine.commands();
        commands.upload(&mut self.rows, 0, rows);
        let inputs = Inputs {
            anchors: &self.anchors,
            references: &self.references,
            batch: &self.rows,
            tags: &self.tags,
        };
        let positives = rows.iter().map(|row| row.positives as usize).max();
        let turn = Turn {
            block,
            shape: Shape::of(self.engine.info(), block.rows),
            inputs,
            anchor: first,
            anchors: self.spec.anchors,
            positives: positives.unwrap_or(0),
            dim: self.spec.dim,
            // Draws depend on the miner's own seed alone.
            key: [0; 2],
            slots: self.spec.references,
            own: self.spec.own,
            report_first: 0,
            pairs: None,
            given: None,
        };
        let (gradient, shares, report) = (&mut self.gradient, &mut self.shares, &mut self.report);
        self.pass
            .mine(&mut commands, rule, round, &turn, gradient, report);
        if self.spec.references_learn() && round.is_last() {
            self.pass.share(&mut commands, rule, &turn, true, shares);
            for stretch in (0..block.references).step_by(block.rows) {
                if !rule.swap() {
                    break;
                }
                // A submit carries a stretch or two; the next block's rows are uploaded only after all are done.
                self.engine
                    .submit(std::mem::replace(&mut commands, self.engine.commands()));
                self.engine.breathe().await?;
                self.pass
                    .share_swapped(&mut commands, rule, &turn, stretch, shares);
            }
        }
        self.engine.submit(commands);
        Ok(())
    }

    /// Adds the results of a block of anchors to `pulls`, as far as they are wanted.
    async fn read_block(
        &self,
        rows: usize,
        rule: &MiningRule,
        wanted: &Wanted<'_>,
        pulls: &mut Pulls,
    ) -> Result<()> {
        let stride = stride(self.spec.dim);
        let count = (rows * stride) as u64;
        let gradient = matches!(wanted, Wanted::Gradient(_));
        match (wanted, rule) {
            (Wanted::Counts | Wanted::Pairs, _) => self.engine.settle().await,
            (_, MiningRule::Ranks(rule)) => {
                let pulled = self.engine.read(&self.gradient, 0, count).await?;
                let unit = self.engine.read(&self.anchors, 0, count).await?;
                let terms = self.engine.read(&self.report, TERMS as u64, rows as u64);
                pulls.add_along(&unit, &pulled, &terms.await?, rule.scale(false), stride);
                pulls.add(&pulled, stride, self.spec.dim);
                Ok(())
            }
            (_, MiningRule::Rows(_)) => {
                let losses = self.engine.read(&self.report, TERMS as u64, rows as u64);
                for bits in losses.await? {
                    pulls.sum += f64::from(f32::from_bits(bits));
                }
                if gradient {
                    let pulled = self.engine.read(&self.gradient, 0, count).await?;
                    pulls.add(&pulled, stride, self.spec.dim);
                }
                Ok(())
            }
        }
    }

    /// Counts, loss and gradients of all blocks.
    async fn mined(
        &self,
        rule: &MiningRule,
        mining: MiningCounts,
        loss: Option<&Loss>,
        mut pulls: Pulls,
        anchors: Rows<'_>,
        known: Rows<'_>,
    ) -> Result<Mined> {
        let (engine, spec, dim) = (self.engine, &self.spec, self.spec.dim);
        // Slopes and terms of pairs are divided already.
        let divisor = match rule.pairs() {
            Some(_) => 1,
            None => mining.active,
        };
        let mut mined = Mined {
            mining,
            ..Mined::default()
        };
        mined.loss = match (loss.and_then(Loss::triplet_margin), spec.path) {
            (Some(loss), Path::Ranks) => loss.mean(pulls.sum, divisor),
            _ => pulls.sum / divisor.max(1) as f64,
        };
        if !spec.gradient {
            return Ok(mined);
        }
        if spec.own {
            let shares = engine.read(&self.shares, 0, self.shares.len()).await?;
            pulls.add_shares(&shares, stride(dim), dim);
        } else if spec.proxies {
            let shares = engine.read(&self.shares, 0, self.shares.len()).await?;
            let mut shared = Pulls::default();
            let references = spec.references * stride(dim);
            shared.add(&shares[..references], stride(dim), dim);
            mined.reference_gradient = shared.through_the_length(known, 1).await?;
        }
        mined.gradient = pulls.through_the_length(anchors, divisor).await?;
        Ok(mined)
    }
}

/// `active * d loss / d unit row` of every anchor, and the sum that the loss follows from.
#[derive(Default)]
struct Pulls {
    /// By ranks, the sum of `v_an - v_ap` over active triplets; by rows, the sum of their losses.
    sum: f64,
    /// `[anchors, dim]`.
    rows: Vec<f32>,
}

impl Pulls {
    /// Adds to the sum `scale <pull, unit>` of every anchor, and the anchor's term in the report.
    fn add_along(
        &mut self,
        unit: &[f32],
        pulled: &[f32],
        terms: &[u32],
        scale: f32,
        stride: usize,
    ) {
        let rows = unit.chunks_exact(stride).zip(pulled.chunks_exact(stride));
        for ((unit, pull), term) in rows.zip(terms) {
            // Row by row: the bits of the sum do not depend on the blocks.
            let products = unit.iter().zip(pull);
            let along: f64 = products.map(|(u, g)| f64::from(*u) * f64::from(*g)).sum();
            self.sum += f64::from(scale) * along + f64::from(f32::from_bits(*term));
        }
    }

    /// Adds the gradients of the anchors.
    fn add(&mut self, pulled: &[f32], stride: usize, dim: usize) {
        for pull in pulled.chunks_exact(stride) {
            self.rows.extend(&pull[..dim]);
        }
    }

    /// Adds the gradients that anchors have as references of each other.
    fn add_shares(&mut self, shares: &[f32], stride: usize, dim: usize) {
        let shares = shares.chunks_exact(stride).flat_map(|row| &row[..dim]);
        for (pull, share) in self.rows.iter_mut().zip(shares) {
            *pull += share;
        }
    }

    /// `d loss / d row` of rows of any length: `(g - u <g, u>) / (active |row|)`, zero for a zero row.
    async fn through_the_length(mut self, anchors: Rows<'_>, active: u64) -> Result<Vec<f32>> {
        let dim = anchors.rows.dim();
        let mut row = Vec::new();
        for (number, pull) in (0..).zip(self.rows.chunks_exact_mut(dim)) {
            row.clear();
            anchors.rows.read(&[number], &mut row).await?;
            let length = row
                .iter()
                .map(|v| f64::from(*v).powi(2))
                .sum::<f64>()
                .sqrt();
            let divisor = length * active as f64;
            let products = row.iter().zip(&*pull);
            let along = products
                .map(|(v, g)| f64::from(*v) * f64::from(*g))
                .sum::<f64>()
                / length;
            for (pull, value) in pull.iter_mut().zip(&row) {
                let tangent = f64::from(*pull) - f64::from(*value) / length * along;
                *pull = if divisor > 0.0 {
                    (tangent / divisor) as f32
                } else {
                    0.0
                };
            }
        }
        Ok(self.rows)
    }
}

fn stored(rows: Rows<'_>) -> UnitRows<'_> {
    UnitRows::Stored {
        rows: rows.rows,
        chosen: None,
    }
}
