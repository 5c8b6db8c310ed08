//! [`MiningPass`]: the pass over a block of anchors that training and the mining phase share, on either [`MiningMethod`]. Holds the
//! buffers.

use crate::base::forecast::MiningMethod;
use crate::base::ledger::Purpose;
use crate::base::plan::MemoryPlan;
use crate::engine::{Commands, DeviceVec, Workspace};
use crate::kernels::ranks::{SEGMENT, Scratch};
use crate::kernels::triplet_margin::{self, Parts, part_stride};
use crate::mining::row_pass::{BlockInputs, BlockSizes, RowPass};
use crate::mining::row_work::RowWork;
use crate::rules::mining_rule::{Cost, MiningRule, Round, RowRule, RowsMined};

const THRESHOLDS: &str = "ranks.thresholds";
const GAP_COUNTS: &str = "ranks.gap_counts";
const PARTS: &str = "ranks.parts";

/// Buffers of a mining pass.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a run has one")]
pub(crate) enum MiningPass {
    /// By [`MiningMethod::Ranks`].
    Ranks { scratch: Scratch, parts: Parts },
    /// By [`MiningMethod::Rows`].
    Rows(RowPass),
}

/// Walk over the blocks of a batch: all anchors in every round, block by block. Rounds after [`Round::Reduce`] take its blocks.
pub(crate) struct Rounds {
    rounds: &'static [Round],
    anchors: usize,
    /// First anchor of the next block, and number of the block.
    anchor: usize,
    block: usize,
    /// Rows of the blocks of [`Round::Reduce`].
    cut: Vec<usize>,
}

impl Rounds {
    /// The rounds of a rule over this many anchors.
    pub(crate) fn new(rule: &MiningRule, anchors: usize) -> Self {
        Self {
            rounds: if anchors > 0 { rule.rounds() } else { &[] },
            anchors,
            anchor: 0,
            block: 0,
            cut: Vec::new(),
        }
    }

    /// Round and first anchor of the next block, and its rows if a round before had the block.
    pub(crate) fn next_block(&self) -> Option<(Round, usize, Option<usize>)> {
        let round = *self.rounds.first()?;
        let again = matches!(round, Round::Settle | Round::Slopes);
        Some((round, self.anchor, again.then(|| self.cut[self.block])))
    }

    /// Ends a block of this many rows.
    pub(crate) fn done(&mut self, rows: usize) {
        if self.rounds[0] == Round::Reduce {
            self.cut.push(rows);
        }
        (self.anchor, self.block) = (self.anchor + rows, self.block + 1);
        if self.anchor >= self.anchors {
            self.rounds = &self.rounds[1..];
            (self.anchor, self.block) = (0, 0);
        }
    }
}

impl MiningPass {
    /// Adds the buffers for these blocks to a plan, each as large as the largest block needs. `anchors`: rows of the whole batch;
    /// `stride`: floats of a row.
    pub(crate) fn plan(
        plan: MemoryPlan,
        path: MiningMethod,
        work: RowWork,
        anchors: u64,
        stride: usize,
        blocks: impl Iterator<Item = BlockSizes> + Clone,
    ) -> MemoryPlan {
        if path == MiningMethod::Rows {
            return RowPass::plan(plan, work, anchors, blocks);
        }
        let part = part_stride(stride) as u64;
        let parts = |block: BlockSizes| {
            let segments = block.references.div_ceil(SEGMENT as u64);
            segments.saturating_mul(block.rows.saturating_mul(part))
        };
        let thresholds = blocks.clone().map(|block| block.thresholds).max();
        let thresholds = thresholds.unwrap_or(0);
        plan.with::<[u32; 2]>(Purpose::Ranks, THRESHOLDS, thresholds)
            .with::<u32>(Purpose::Ranks, GAP_COUNTS, thresholds)
            .with::<f32>(
                Purpose::Similarities,
                PARTS,
                blocks.map(parts).max().unwrap_or(0),
            )
    }

    /// Takes the buffers from a workspace.
    pub(crate) fn new(workspace: &mut Workspace, path: MiningMethod, work: RowWork) -> Self {
        match path {
            MiningMethod::Ranks => Self::Ranks {
                scratch: Scratch {
                    thresholds: workspace.take(THRESHOLDS),
                    gap_counts: workspace.take(GAP_COUNTS),
                },
                parts: workspace.take(PARTS),
            },
            MiningMethod::Rows => Self::Rows(RowPass::new(workspace, work)),
        }
    }

    /// Runs a block: counts and the rows' losses go into the step's report, `dL/d(anchor)` times the divisor of the loss into the
    /// block's rows of `gradient`. Before [`Round::Slopes`] only the counts are written.
    pub(crate) fn mine(
        &mut self,
        commands: &mut Commands,
        rule: &MiningRule,
        round: Round,
        block_inputs: &BlockInputs<'_>,
        gradient: &mut DeviceVec<f32>,
        report: &mut DeviceVec<u32>,
    ) {
        let (selection, cost, pass) = match (rule, self) {
            (MiningRule::Ranks(rule), Self::Ranks { scratch, parts }) => {
                return triplet_margin::mine(
                    commands,
                    &block_inputs.block,
                    block_inputs.positives,
                    rule,
                    block_inputs.slots,
                    block_inputs.inputs,
                    scratch,
                    parts,
                    gradient,
                    block_inputs.report_first,
                    block_inputs.pairs,
                    report,
                );
            }
            (
                MiningRule::Rows(RowRule {
                    selection, cost, ..
                }),
                Self::Rows(pass),
            ) => (selection, cost, pass),
            _ => unreachable!("a pass is made for its rule's path"),
        };
        match (cost, round) {
            (Cost::Triplets(weighing), _) => {
                pass.mine(
                    commands,
                    block_inputs,
                    selection,
                    weighing,
                    gradient,
                    report,
                );
            }
            (Cost::Pairs(cost), Round::Reduce) => {
                pass.reduce(commands, block_inputs, selection, cost, report);
            }
            (Cost::Pairs(cost), Round::Settle) => {
                pass.settle(commands, block_inputs, selection, cost, report);
            }
            (Cost::Pairs(cost), _) => {
                pass.slopes(commands, block_inputs, selection, cost, gradient, report);
            }
        }
    }

    /// Runs a block in which a miner weighs rows alone: the number of kept pairs or triplets that contain each row of the block goes
    /// into its place of `found`.
    pub(crate) fn find(
        &mut self,
        commands: &mut Commands,
        mined: &RowsMined,
        block_inputs: &BlockInputs<'_>,
        found: &mut DeviceVec<u32>,
        report: &mut DeviceVec<u32>,
    ) {
        match self {
            Self::Rows(pass) => pass.find(commands, block_inputs, mined, found, report),
            Self::Ranks { .. } => unreachable!("a pass is made for its rule's path"),
        }
    }

    /// `dL/d(reference)` of the block of the last [`MiningPass::mine`], for references that learn: written, or with `onto` added to
    /// `gradient`.
    pub(crate) fn share(
        &mut self,
        commands: &mut Commands,
        rule: &MiningRule,
        block_inputs: &BlockInputs<'_>,
        onto: bool,
        gradient: &mut DeviceVec<f32>,
    ) {
        match (rule, self) {
            (MiningRule::Ranks(rule), Self::Ranks { scratch, parts }) => {
                triplet_margin::share_with_references(
                    commands,
                    &block_inputs.block,
                    rule,
                    block_inputs.inputs,
                    scratch,
                    parts,
                    gradient,
                );
            }
            (_, Self::Rows(pass)) => pass.share(commands, block_inputs, onto, gradient),
            _ => unreachable!("a pass is made for its rule's path"),
        }
    }

    /// Gradient that `swap` adds through the similarities between references, for as many references as the block has anchors, from
    /// `first` on; nothing for other losses. Call it after [`MiningPass::share`].
    pub(crate) fn share_swapped(
        &mut self,
        commands: &mut Commands,
        rule: &MiningRule,
        block_inputs: &BlockInputs<'_>,
        first: usize,
        gradient: &mut DeviceVec<f32>,
    ) {
        if let (MiningRule::Rows(rule), Self::Rows(pass)) = (rule, self)
            && let Cost::Triplets(weighing) = &rule.cost
            && weighing.swap
        {
            pass.share_swapped(commands, block_inputs, first, weighing, gradient);
        }
    }
}
