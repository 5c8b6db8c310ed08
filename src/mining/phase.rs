//! The blocks of a mining: [`Phase`] holds the buffers, runs rounds over blocks of anchors and adds up what comes back.

use web_time::Instant;

use super::sizes::{Cut, MiningSpec};
use super::{Mined, Wanted};
use crate::base::error::Result;
use crate::base::forecast::MiningMethod;
use crate::cpu::ranks::rows_of_all_cores;
use crate::data::RowSource;
use crate::engine::pace::{Pace, Slices};
use crate::engine::{DeviceVec, Engine, Workspace};
use crate::kernels::ranks::{Block, Inputs, NO_ID, Row};
use crate::kernels::stride;
use crate::kernels::tile::Shape;
use crate::kernels::triplet_margin::{OWNERS, TERMS};
use crate::mining::mining_pass::{MiningPass, Rounds};
use crate::mining::row_pass::BlockInputs;
use crate::model::metric::Form;
use crate::model::unit_rows::UnitRows;
use crate::rules::losses::Loss;
use crate::rules::miners::MiningCounts;
use crate::rules::mining_rule::{MiningRule, Round};

/// Slices that a block may take on the CPU, so that the lanes of all cores are filled.
const FULL_SLICES: f64 = 8.0;

/// Anchors of a mining.
#[derive(Clone, Copy)]
pub(super) struct Anchors<'a> {
    pub(super) rows: &'a RowSource,
    /// Class of each.
    pub(super) classes: &'a [u32],
    /// Id of each among the references; [`NO_ID`] for one that is none of them.
    pub(super) ids: &'a [u32],
    /// References of each class.
    pub(super) counts: &'a [u32],
}

/// The buffers of the phase.
#[derive(Debug)]
pub(super) struct Phase {
    engine: Engine,
    pub(super) spec: MiningSpec,
    cut: Cut,
    pub(super) references: DeviceVec<f32>,
    pub(super) tags: DeviceVec<[u32; 2]>,
    anchors: DeviceVec<f32>,
    rows: DeviceVec<Row>,
    pub(super) pass: MiningPass,
    gradient: DeviceVec<f32>,
    shares: DeviceVec<f32>,
    report: DeviceVec<u32>,
    /// The report's counts, as of the last block.
    pub(super) counts: Vec<u32>,
    /// Key of the random draws: with `[0, 0]` they depend on the miner's own seed alone.
    pub(super) key: [u32; 2],
    pace: Pace,
    pulls: Pulls,
}

impl Phase {
    pub(super) fn new(
        engine: &Engine,
        spec: MiningSpec,
        cut: Cut,
        workspace: &mut Workspace,
    ) -> Self {
        Self {
            engine: engine.clone(),
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
            counts: Vec::new(),
            key: [0; 2],
            pace: Pace::of(engine),
            pulls: Pulls::default(),
        }
    }

    /// Brings in the references; a reference's id is its place.
    pub(super) async fn load(&mut self, known: &RowSource, labels: &[u32]) -> Result<()> {
        let numbers = 0..labels.len() as u32;
        stored(known)
            .bring(&self.engine, numbers.clone(), &mut self.references, 0)
            .await?;
        let tags: Vec<[u32; 2]> = labels
            .iter()
            .zip(numbers)
            .map(|(label, id)| [*label, id])
            .collect();
        self.engine.upload(&mut self.tags, 0, &tags).await
    }

    /// Runs the next block of a walk over all anchors, and reads what the last round brings; returns its first anchor and its rows.
    pub(super) async fn next_block(
        &mut self,
        rounds: &Rounds,
        anchors: Anchors<'_>,
        rule: &MiningRule,
        wanted: &Wanted<'_>,
    ) -> Result<Option<(usize, Vec<Row>)>> {
        let Some((round, first, before)) = rounds.next_block() else {
            return Ok(None);
        };
        let rows = self.next_rows(first, before, anchors);
        let started = Instant::now();
        self.block(anchors.rows, first, &rows, rule, round).await?;
        match round.is_last() {
            true => self.read_block(rows.len(), rule, wanted).await?,
            // The next round takes the same block: nothing is waited for.
            false if rows.len() == self.spec.anchors => {}
            false => self.engine.settle().await?,
        }
        let operations = rows.len() as f64 * self.spec.operations_of_an_anchor();
        if self.engine.in_flight() == 0 {
            self.pace.record(operations, started.elapsed());
        }
        Ok(Some((first, rows)))
    }

    /// The anchors of the next block, from `first` on; `rows` of them if given.
    fn next_rows(&self, first: usize, rows: Option<usize>, anchors: Anchors<'_>) -> Vec<Row> {
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
        let (mut rows, mut offset) = (Vec::with_capacity(last - first), 0);
        for anchor in first..last {
            let (label, id) = (anchors.classes[anchor], anchors.ids[anchor]);
            let same = anchors.counts.get(label as usize).copied().unwrap_or(0);
            let positives = same - u32::from(id != NO_ID);
            let next = offset + positives + 1;
            // A memory may hold more rows of a class than were planned for all anchors of a block.
            if self.spec.path == MiningMethod::Ranks && u64::from(next) > self.cut.thresholds {
                break;
            }
            rows.push(Row {
                label,
                id,
                offset,
                positives,
            });
            offset = next;
        }
        rows
    }

    /// Runs a round over a block of anchors that begins at `first`.
    async fn block(
        &mut self,
        anchors: &RowSource,
        first: usize,
        rows: &[Row],
        rule: &MiningRule,
        round: Round,
    ) -> Result<()> {
        let numbers = first as u32..(first + rows.len()) as u32;
        stored(anchors)
            .bring(&self.engine, numbers, &mut self.anchors, 0)
            .await?;
        let mut commands = self.engine.commands();
        commands.upload(&mut self.rows, 0, rows);
        let inputs = Inputs {
            anchors: &self.anchors,
            references: (&self.references).into(),
            batch: &self.rows,
            tags: &self.tags,
        };
        let shape = Shape::of(self.engine.info(), rows.len());
        let block_inputs = BlockInputs {
            key: self.key,
            ..self.spec.block_inputs(inputs, shape, first, rows)
        };
        let (gradient, shares, report) = (&mut self.gradient, &mut self.shares, &mut self.report);
        self.pass
            .mine(&mut commands, rule, round, &block_inputs, gradient, report);
        if self.spec.references_learn() && round.is_last() {
            self.pass
                .share(&mut commands, rule, &block_inputs, true, shares);
            for stretch in (0..self.spec.references).step_by(rows.len()) {
                if !rule.swap() {
                    break;
                }
                // A submit carries a stretch or two; the next block's rows are uploaded only after all are done.
                self.engine
                    .submit(std::mem::replace(&mut commands, self.engine.commands()));
                self.engine.breathe().await?;
                self.pass
                    .share_swapped(&mut commands, rule, &block_inputs, stretch, shares);
            }
        }
        self.engine.submit(commands);
        Ok(())
    }

    /// Begins anew with this many anchors and references: what a walk before has counted is forgotten.
    pub(super) async fn begin(&mut self, anchors: usize, references: usize) -> Result<()> {
        (self.spec.anchors, self.spec.references) = (anchors, references);
        self.pulls = Pulls::default();
        self.engine.upload(&mut self.report, 0, &[0; TERMS]).await
    }

    /// Reads the counts and what else is wanted of a block of anchors.
    async fn read_block(
        &mut self,
        rows: usize,
        rule: &MiningRule,
        wanted: &Wanted<'_>,
    ) -> Result<()> {
        let pulls = &mut self.pulls;
        let stride = stride(self.spec.dim);
        let count = (rows * stride) as u64;
        let along = matches!(rule, MiningRule::Ranks(_)) && wanted.loss().is_some();
        let gradient = along || matches!(wanted, Wanted::Gradient(_));
        let counts = |wanted: bool| if wanted { count } else { 0 };
        // In one wait for all.
        let mut slices = Slices::new(&self.engine, &mut self.pace);
        let report = (TERMS + rows) as u64;
        let report = slices.fetch(&self.report, 0, report).await?;
        let pulled = slices.fetch(&self.gradient, 0, counts(gradient)).await?;
        let unit = slices.fetch(&self.anchors, 0, counts(along)).await?;
        slices.leave_untimed();
        slices.collect().await?;
        let (pulled, unit) = (slices.take(pulled), slices.take(unit));
        self.counts = slices.take(report);
        let terms = self.counts.split_off(TERMS);
        match rule {
            MiningRule::Ranks(rule) if along => {
                pulls.add_along(&unit, &pulled, &terms, rule.scale(false), stride);
            }
            MiningRule::Rows(_) if wanted.loss().is_some() => {
                for bits in terms {
                    pulls.sum += f64::from(f32::from_bits(bits));
                }
            }
            _ => {}
        }
        pulls.add(&pulled, stride, self.spec.dim);
        Ok(())
    }

    /// Counts, loss and gradients of all blocks since the last call.
    pub(super) async fn mined(
        &mut self,
        rule: &MiningRule,
        mining: MiningCounts,
        loss: Option<&Loss>,
        anchors: &RowSource,
        known: &RowSource,
    ) -> Result<Mined> {
        let (engine, spec, dim) = (&self.engine, &self.spec, self.spec.dim);
        let mut pulls = std::mem::take(&mut self.pulls);
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
            (Some(loss), MiningMethod::Ranks) => loss.mean(pulls.sum, divisor),
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

impl MiningSpec {
    /// Input of a round over these anchors, from `first` on.
    fn block_inputs<'a>(
        &self,
        inputs: Inputs<'a>,
        shape: Shape,
        first: usize,
        rows: &[Row],
    ) -> BlockInputs<'a> {
        let positives = rows.iter().map(|row| row.positives as usize).max();
        BlockInputs {
            block: Block {
                first_row: 0,
                rows: rows.len(),
                batch: 0,
                first_reference: 0,
                references: self.references,
                stride: stride(self.dim),
            },
            shape,
            inputs,
            anchor: first,
            anchors: self.anchors,
            positives: positives.unwrap_or(0),
            dim: self.dim,
            key: [0; 2],
            slots: self.references,
            own: self.own,
            onto: false,
            report_first: 0,
            pairs: None,
            given: None,
        }
    }
}

/// `active * d loss / d unit row` of every anchor, and the sum that the loss follows from.
#[derive(Debug, Default)]
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
    async fn through_the_length(mut self, anchors: &RowSource, active: u64) -> Result<Vec<f32>> {
        let dim = anchors.dim();
        let mut row = Vec::new();
        for (number, pull) in (0..).zip(self.rows.chunks_exact_mut(dim)) {
            row.clear();
            anchors.read(&[number], &mut row).await?;
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

fn stored(rows: &RowSource) -> UnitRows<'_> {
    UnitRows::Stored {
        rows,
        chosen: None,
        form: Form::Unit,
    }
}
