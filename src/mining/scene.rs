//! [`Scene`]: a batch and its references, to look at one anchor as miner and loss see it: its similarities, what is kept of them, and
//! the slope of the loss at each. The batch is mined once more in buffers of its own, since the slopes are divided by its counts;
//! then the anchor alone, which leaves its row of similarities in them.

use crate::base::error::Result;
use crate::base::forecast::MiningMethod;
use crate::base::ledger::Purpose;
use crate::base::plan::MemoryPlan;
use crate::cpu::Distance;
use crate::data::by_class::class_counts;
use crate::engine::pace::{Pace, Slices};
use crate::engine::{Commands, DeviceVec, Engine, Workspace};
use crate::kernels::ranks::{Block, Inputs, Row};
use crate::kernels::similarities::{similarities, width};
use crate::kernels::stored::Stored;
use crate::kernels::stride;
use crate::kernels::tile::Shape;
use crate::kernels::triplet_margin::{self, TERMS};
use crate::mining::mining_pass::{MiningPass, Rounds};
use crate::mining::row_pass::{BlockInputs, BlockSizes, RowPass};
use crate::mining::row_work::RowWork;
use crate::rules::losses::Loss;
use crate::rules::miners::Miner;
use crate::rules::mining_rule::{Cost, MiningRule, Round, RowRule};

/// Bytes of the buffers of a block of anchors, unless one anchor takes more.
const BLOCK_BYTES: u64 = 8 << 20;
const ADVICE: &str = "raise the budget, or lower memory_size or batch_size";
/// The most anchors that are tried to find one of which the miner keeps a negative.
const TRIED: usize = 64;

/// Rows as they lie on the engine.
#[derive(Clone, Copy)]
pub(crate) struct OnEngine<'a> {
    pub(crate) engine: &'a Engine,
    /// Unit rows of the batch.
    pub(crate) anchors: &'a DeviceVec<f32>,
    /// Unit rows of the references.
    pub(crate) references: Stored<'a>,
    /// Row weights, or the boundary of the loss.
    pub(crate) given: Option<&'a DeviceVec<f32>>,
}

/// A batch and its references, and the rule by which they are mined.
pub(crate) struct Scene {
    pub(crate) miner: Miner,
    /// Distance of the miner.
    pub(crate) chosen_by: Distance,
    /// The rule of the batch.
    rule: MiningRule,
    /// The same by rows.
    by_rows: MiningRule,
    /// Rule that counts what the miner keeps.
    counting: RowRule,
    rows: Vec<Row>,
    tags: Vec<[u32; 2]>,
    /// The references are the batch itself.
    own: bool,
    dim: usize,
    key: [u32; 2],
    /// The most positives of an anchor.
    positives: usize,
    /// Anchors of a block.
    at_once: usize,
}

/// One anchor by place of its references; its own copy has zeros.
pub(crate) struct Seen {
    /// Similarity, or minus the distance, as the miner compares it.
    pub(crate) values: Vec<f32>,
    /// Triplets that the miner keeps with each reference; of a miner of pairs, 1 for a pair that it keeps.
    pub(crate) kept: Vec<u32>,
    /// `dL/d(similarity)` of each reference.
    pub(crate) slopes: Vec<f32>,
    /// Triplets that were drawn, as positive and negative, if the miner draws.
    drawn: Option<Vec<[u32; 2]>>,
}

/// The buffers of a look.
pub(crate) struct Look {
    pass: MiningPass,
    /// Pass of one anchor for the kept pairs, and another for the slopes if the batch is mined by ranks.
    pairs: RowPass,
    single: Option<MiningPass>,
    rows: DeviceVec<Row>,
    tags: DeviceVec<[u32; 2]>,
    values: DeviceVec<f32>,
    gradient: DeviceVec<f32>,
    report: DeviceVec<u32>,
}

impl Scene {
    /// The scene of a batch with these labels. `places`: that of each of its rows among the references, whose labels are `known`.
    /// `chosen_by`, `distance`: of the miner, and of the loss.
    ///
    /// # Errors
    /// [`crate::Error::Config`] for more references than can be looked at one by one.
    #[expect(clippy::too_many_arguments, reason = "what a batch is mined by")]
    pub(crate) fn new(
        rule: MiningRule,
        (miner, loss): (&Miner, &Loss),
        [chosen_by, distance]: [Distance; 2],
        labels: &[u32],
        places: Option<&[u32]>,
        known: &[u32],
        dim: usize,
        key: [u32; 2],
    ) -> Result<Self> {
        // A loss that looks at every row takes no choice of a miner.
        let miner = match loss.is_mined() {
            true => miner.clone(),
            false => Miner::None,
        };
        let (counting, by_rows) = (
            MiningRule::counting(&miner, chosen_by, distance),
            rule.by_rows(),
        );
        for rule in [MiningRule::Rows(counting), by_rows] {
            RowWork::of(&rule).check(dim, known.len(), rule.swap())?;
        }
        let counts = class_counts(known);
        let most = labels.iter().map(|label| positives_of(&counts, *label));
        let positives = most.max().unwrap_or(0) as usize;
        RowWork::of(&MiningRule::Rows(counting)).check_draws(positives)?;
        let mut scene = Self {
            miner,
            chosen_by,
            rule,
            by_rows,
            counting,
            rows: Vec::new(),
            tags: known.iter().copied().zip(0..).map(Into::into).collect(),
            own: places.is_none(),
            dim,
            key,
            positives,
            at_once: 1,
        };
        scene.at_once = scene.rows_at_once(labels.len());
        scene.rows = scene.rows_of(labels, places, &counts);
        Ok(scene)
    }

    /// Anchors of a block.
    fn rows_at_once(&self, anchors: usize) -> usize {
        if self.own && self.rule.looks_at_all() {
            return anchors;
        }
        let bytes = |rows: usize| self.of_blocks(anchors, rows).total_bytes();
        let of_a_row = (bytes(2) - bytes(1)).max(1);
        ((BLOCK_BYTES / of_a_row) as usize).clamp(1, anchors.max(1))
    }

    /// Rows of the anchors, as the kernels take them; `counts`: references of each class.
    fn rows_of(&self, labels: &[u32], places: Option<&[u32]>, counts: &[u32]) -> Vec<Row> {
        let mut offset = 0;
        let row = |(i, label): (usize, &u32)| {
            if i % self.at_once == 0 {
                offset = 0;
            }
            let row = Row {
                label: *label,
                id: places.map_or(i as u32, |places| places[i]),
                offset,
                positives: positives_of(counts, *label),
            };
            offset += row.positives + 1;
            row
        };
        labels.iter().enumerate().map(row).collect()
    }

    /// Number of references.
    fn references(&self) -> usize {
        self.tags.len()
    }

    fn sizes(&self, rows: usize) -> BlockSizes {
        BlockSizes {
            rows: rows as u64,
            references: self.references() as u64,
            thresholds: rows as u64 * (self.positives as u64 + 1),
        }
    }

    /// Buffers of the pass over the batch, in blocks of so many rows.
    fn of_blocks(&self, anchors: usize, rows: usize) -> MemoryPlan {
        let (path, work) = (self.rule.path(), RowWork::of(&self.rule));
        let (anchors, blocks) = (anchors as u64, [self.sizes(rows)]);
        let plan = MemoryPlan::default();
        MiningPass::plan(
            plan,
            path,
            work,
            anchors,
            stride(self.dim),
            blocks.into_iter(),
        )
    }

    /// Buffers of a pass over one anchor by rows.
    fn of_one(&self, rule: &MiningRule) -> MemoryPlan {
        let (plan, work) = (MemoryPlan::default(), RowWork::of(rule));
        RowPass::plan(plan, work, 1, [self.sizes(1)])
    }

    /// Every buffer of a look: of the batch, of the anchor's kept pairs, and of its slopes if the batch is mined by ranks.
    pub(crate) fn plans(&self) -> Vec<MemoryPlan> {
        let (anchors, references) = (self.rows.len(), self.references() as u64);
        let batch = self.of_blocks(anchors, self.at_once);
        let batch = batch
            .with::<Row>(Purpose::Ranks, "anchor.rows", anchors as u64)
            .with::<[u32; 2]>(Purpose::Ranks, "anchor.tags", references)
            .with::<f32>(
                Purpose::Similarities,
                "anchor.values",
                width(references as usize) as u64,
            )
            .with::<f32>(
                Purpose::Gradients,
                "anchor.gradient",
                (anchors * stride(self.dim)) as u64,
            )
            .with::<u32>(Purpose::Staging, "anchor.report", (TERMS + anchors) as u64);
        let mut plans = vec![batch, self.of_one(&MiningRule::Rows(self.counting))];
        if self.rule.path() == MiningMethod::Ranks {
            plans.push(self.of_one(&self.by_rows));
        }
        plans
    }

    /// Creates the buffers.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] and [`crate::Error::TooLarge`], with the numbers; [`crate::Error::Device`].
    pub(crate) async fn buffers(&self, engine: &Engine) -> Result<Look> {
        let mut workspaces = Vec::new();
        for plan in self.plans() {
            workspaces.push(engine.workspace("one anchor", &plan, ADVICE).await?);
        }
        let mut workspaces = workspaces.iter_mut();
        let mut next = || workspaces.next().expect("one a plan");
        let batch = next();
        let of = |workspace: &mut Workspace, rule: &MiningRule| {
            MiningPass::new(workspace, rule.path(), RowWork::of(rule))
        };
        let counting = MiningRule::Rows(self.counting);
        Ok(Look {
            pass: of(batch, &self.rule),
            rows: batch.take("anchor.rows"),
            tags: batch.take("anchor.tags"),
            values: batch.take("anchor.values"),
            gradient: batch.take("anchor.gradient"),
            report: batch.take("anchor.report"),
            pairs: RowPass::new(next(), RowWork::of(&counting)),
            single: (self.rule.path() == MiningMethod::Ranks).then(|| of(next(), &self.by_rows)),
        })
    }

    /// Floating-point operations of mining so many anchors by a rule, approximately.
    fn operations(&self, rule: &MiningRule, rows: usize) -> f64 {
        let looked_at = rule.looked_at(self.positives as u64, self.references() as u64);
        let products = 6.0 * self.references() as f64 * stride(self.dim) as f64;
        rows as f64 * (products + 32.0 * looked_at as f64)
    }

    /// Input of a round over `rows` anchors from `anchor` on.
    fn block_inputs<'a>(
        &self,
        on_engine: OnEngine<'a>,
        batch: &'a DeviceVec<Row>,
        tags: &'a DeviceVec<[u32; 2]>,
        anchor: usize,
        rows: usize,
    ) -> BlockInputs<'a> {
        BlockInputs {
            block: Block {
                first_row: anchor,
                rows,
                batch: anchor,
                first_reference: 0,
                references: self.references(),
                stride: stride(self.dim),
            },
            shape: Shape::of(on_engine.engine.info(), rows),
            inputs: Inputs {
                anchors: on_engine.anchors,
                references: on_engine.references,
                batch,
                tags,
            },
            anchor,
            anchors: self.rows.len(),
            positives: self.positives,
            dim: self.dim,
            key: self.key,
            slots: self.references(),
            own: self.own,
            onto: false,
            report_first: 0,
            pairs: None,
            given: on_engine.given,
        }
    }

    /// The most kernel dispatches of a block.
    fn dispatches(&self, block: &Block) -> u32 {
        let dispatches = match &self.rule {
            MiningRule::Ranks(_) => triplet_margin::dispatches(block, self.positives, false),
            MiningRule::Rows(rule) => self.dispatches_by_rows(rule),
        };
        dispatches as u32
    }

    fn dispatches_by_rows(&self, rule: &RowRule) -> usize {
        RowPass::dispatches(stride(self.dim), self.references(), rule)
    }

    /// The most kernel dispatches of one anchor, looked at by itself.
    fn dispatches_of_one(&self) -> u32 {
        let slopes = match &self.by_rows {
            MiningRule::Rows(rule) => self.dispatches_by_rows(rule),
            MiningRule::Ranks(_) => 0,
        };
        (1 + slopes + self.dispatches_by_rows(&self.counting)) as u32
    }
}

/// Positives of an anchor of a class: its own row is among the references.
fn positives_of(counts: &[u32], label: u32) -> u32 {
    let count = counts.get(label as usize).copied();
    count.unwrap_or(0).saturating_sub(1)
}

impl Look {
    /// The first anchor of which the miner keeps a negative, among the first [`TRIED`] that have a positive; of none the first of
    /// these, or of all.
    ///
    /// # Errors
    /// As [`Look::at`].
    pub(crate) async fn first(&mut self, scene: &Scene, on_engine: OnEngine<'_>) -> Result<usize> {
        let mut pace = Pace::of(on_engine.engine);
        let mut slices = Slices::new(on_engine.engine, &mut pace);
        slices.upload(&mut self.rows, 0, &scene.rows).await?;
        slices.upload(&mut self.tags, 0, &scene.tags).await?;
        let has_positive = |anchor: &usize| scene.rows[*anchor].positives > 0;
        let mut tried = (0..scene.rows.len()).filter(has_positive).take(TRIED);
        let first = tried.clone().next().unwrap_or(0);
        let found = loop {
            let Some(anchor) = tried.next() else {
                break first;
            };
            slices.reserve(scene.dispatches_of_one()).await?;
            self.keep_one(slices.commands(), scene, on_engine, anchor);
            let kept = self.count(&mut slices, scene).await?;
            let label = scene.rows[anchor].label;
            let mut kept = kept.iter().zip(&scene.tags);
            if kept.any(|(kept, [other, _])| *kept > 0 && *other != label) {
                break anchor;
            }
        };
        Ok(found)
    }

    /// Looks at one anchor of the batch, by its place there.
    ///
    /// # Errors
    /// [`crate::Error::Device`], and [`crate::Error::Stopped`] between slices.
    pub(crate) async fn at(
        &mut self,
        scene: &Scene,
        on_engine: OnEngine<'_>,
        anchor: usize,
    ) -> Result<Seen> {
        let mut pace = Pace::of(on_engine.engine);
        let mut slices = Slices::new(on_engine.engine, &mut pace);
        slices.upload(&mut self.rows, 0, &scene.rows).await?;
        slices.upload(&mut self.tags, 0, &scene.tags).await?;
        let zeros = vec![0; TERMS + scene.rows.len()];
        slices.upload(&mut self.report, 0, &zeros).await?;
        self.mine(&mut slices, scene, on_engine).await?;
        let counts = slices.fetch(&self.report, 0, TERMS as u64).await?;
        slices.reserve(scene.dispatches_of_one()).await?;
        self.mine_one(slices.commands(), scene, on_engine, anchor);
        slices.recorded(scene.operations(&scene.by_rows, 1)).await?;
        let slopes = match self.single.as_ref().unwrap_or(&self.pass) {
            MiningPass::Rows(pass) => &pass.kept().weights,
            MiningPass::Ranks { .. } => unreachable!("one anchor is mined by rows"),
        };
        let (references, width) = (scene.references(), width(scene.references()) as u64);
        let slopes = slices.fetch(slopes, 0, width).await?;
        let values = slices.fetch(&self.values, 0, width).await?;
        let drawn = match RowWork::of(&MiningRule::Rows(scene.counting)).draws() {
            true => scene.positives as u64 + 2,
            false => 0,
        };
        let drawn = slices.fetch(self.pairs.drawn(), 0, drawn).await?;
        let kept = self.count(&mut slices, scene).await?;
        let (counts, drawn) = (slices.take(counts), slices.take(drawn));
        let divisor = match scene.rule.pairs() {
            // Slopes of pairs are divided already.
            Some(_) => 1,
            None => scene.rule.counts(&scene.miner, &counts, 0).active,
        };
        let mut slopes = slices.take(slopes);
        slopes.truncate(references);
        for slope in &mut slopes {
            *slope /= divisor.max(1) as f32;
        }
        let mut values = slices.take(values);
        values.truncate(references);
        Ok(Seen {
            values,
            kept,
            slopes,
            drawn: drawn
                .first()
                .map(|[count, _]| drawn[1..][..*count as usize].to_vec()),
        })
    }

    /// References that the miner keeps in a triplet, or among pairs, with this positive.
    ///
    /// # Errors
    /// As [`Look::at`], which looked at the same anchor just before.
    pub(crate) async fn with(
        &mut self,
        scene: &Scene,
        on_engine: OnEngine<'_>,
        (anchor, seen): (usize, &Seen),
        positive: u32,
    ) -> Result<Vec<bool>> {
        let label = scene.rows[anchor].label;
        let others = |kept: &[u32]| {
            let kept = kept.iter().zip(&scene.tags);
            kept.map(|(kept, [other, _])| *kept > 0 && *other != label)
                .collect()
        };
        if let Some(drawn) = &seen.drawn {
            let mut with = vec![0; scene.references()];
            let of_positive = drawn.iter().filter(|[p, _]| *p == positive);
            of_positive.for_each(|[_, n]| with[*n as usize] = 1);
            return Ok(others(&with));
        }
        if seen.kept[positive as usize] == 0 {
            return Ok(vec![false; scene.references()]);
        }
        if scene.counting.selects_pairs() {
            return Ok(others(&seen.kept));
        }
        // With the other positives named as copies of the anchor, its triplets with this one are left.
        let mut tags = scene.tags.clone();
        let own = scene.rows[anchor].id;
        for (place, [other, id]) in (0..).zip(&mut tags) {
            if *other == label && place != positive {
                *id = own;
            }
        }
        let mut pace = Pace::of(on_engine.engine);
        let mut slices = Slices::new(on_engine.engine, &mut pace);
        slices.upload(&mut self.tags, 0, &tags).await?;
        slices.reserve(scene.dispatches_of_one()).await?;
        self.keep_one(slices.commands(), scene, on_engine, anchor);
        let kept = self.count(&mut slices, scene).await?;
        Ok(others(&kept))
    }

    /// Mines the batch, as far as counts and reduced rows ask for.
    async fn mine(
        &mut self,
        slices: &mut Slices<'_>,
        scene: &Scene,
        on_engine: OnEngine<'_>,
    ) -> Result<()> {
        let anchors = scene.rows.len();
        let mut rounds = Rounds::new(&scene.rule, anchors);
        while let Some((round, first, before)) = rounds.next_block() {
            if round == Round::Slopes {
                break;
            }
            let rows = before.unwrap_or(scene.at_once).min(anchors - first);
            let (batch, tags) = (&self.rows, &self.tags);
            let block_inputs = scene.block_inputs(on_engine, batch, tags, first, rows);
            slices
                .reserve(scene.dispatches(&block_inputs.block))
                .await?;
            let (gradient, report) = (&mut self.gradient, &mut self.report);
            let commands = slices.commands();
            self.pass.mine(
                commands,
                &scene.rule,
                round,
                &block_inputs,
                gradient,
                report,
            );
            rounds.done(rows);
            slices.recorded(scene.operations(&scene.rule, rows)).await?;
        }
        Ok(())
    }

    /// Mines one anchor after the batch: its similarities, what the miner keeps of it, and its slopes.
    fn mine_one(
        &mut self,
        commands: &mut Commands,
        scene: &Scene,
        on_engine: OnEngine<'_>,
        anchor: usize,
    ) {
        let block_inputs = scene.block_inputs(on_engine, &self.rows, &self.tags, anchor, 1);
        let Inputs {
            anchors,
            references,
            ..
        } = block_inputs.inputs;
        similarities(
            commands,
            &block_inputs.block,
            block_inputs.shape,
            scene.chosen_by,
            anchors,
            references,
            &mut self.values,
        );
        let round = scene.by_rows.rounds().last().copied();
        let pass = self.single.as_mut().unwrap_or(&mut self.pass);
        pass.mine(
            commands,
            &scene.by_rows,
            round.expect("a rule has rounds"),
            &block_inputs,
            &mut self.gradient,
            &mut self.report,
        );
        self.keep_one(commands, scene, on_engine, anchor);
    }

    /// Counts what the miner keeps of one anchor.
    fn keep_one(
        &mut self,
        commands: &mut Commands,
        scene: &Scene,
        on_engine: OnEngine<'_>,
        anchor: usize,
    ) {
        let block_inputs = scene.block_inputs(on_engine, &self.rows, &self.tags, anchor, 1);
        let RowRule {
            selection, cost, ..
        } = &scene.counting;
        if let Cost::Pairs(cost) = cost {
            let (pairs, report) = (&mut self.pairs, &mut self.report);
            pairs.look(commands, &block_inputs, selection, cost, report);
        }
    }

    /// Reads the number of kept triplets with each reference, or 1 for each kept pair; collects what was fetched before, too.
    async fn count(&self, slices: &mut Slices<'_>, scene: &Scene) -> Result<Vec<u32>> {
        let (kept, width) = (self.pairs.kept(), width(scene.references()));
        let counted = !scene.counting.selects_pairs();
        let counts = slices.fetch(&kept.counts, 0, 1).await?;
        let places = slices.fetch(&kept.places, 0, width as u64).await?;
        let times = if counted { width as u64 } else { 0 };
        let times = slices.fetch(self.pairs.times(), 0, times).await?;
        slices.collect().await?;
        let (counts, places) = (slices.take(counts), slices.take(places));
        let times = slices.take(times);
        let [positives, negatives] = counts[0].map(|count| count as usize);
        let mut of_each = vec![0; scene.references()];
        for place in places[..positives]
            .iter()
            .chain(&places[width - negatives..])
        {
            let place = *place as usize;
            of_each[place] = if counted { times[place] } else { 1 };
        }
        Ok(of_each)
    }
}
