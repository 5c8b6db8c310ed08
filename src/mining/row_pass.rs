//! [`RowPass`]: mining by rows ([`crate::MiningMethod::Rows`]), a block of anchors at a time: their similarities to all references, the
//! pairs that a miner keeps, the loss of those triplets or pairs, and its gradient. Holds the buffers.
//! A loss of triplets takes one round over the blocks, [`RowPass::mine`]. A loss of pairs takes two, as it is divided by counts of
//! the whole batch: [`RowPass::reduce`], then [`RowPass::slopes`]; lifted structure takes [`RowPass::settle`] between them.

use crate::base::ledger::Purpose;
use crate::base::plan::MemoryPlan;
use crate::cpu::Distance;
use crate::engine::{Commands, DeviceVec, Workspace};
use crate::kernels::draw::{self, Drawing, Draws};
use crate::kernels::pair_counts::count_pairs;
use crate::kernels::pair_gradient::{self, anchor_gradient, reference_gradient};
use crate::kernels::ranks::{Block, Inputs, SEGMENT};
use crate::kernels::row_loss::{self, Multiplicity, ROW_NUMBERS, RowCost};
use crate::kernels::row_weights;
use crate::kernels::select::{Choice, Counted, Kept, Selection, select};
use crate::kernels::similarities::{similarities, width};
use crate::kernels::tile::Shape;
use crate::kernels::triplet_loss::{self, Weighing, drawn_loss, swapped_loss, triplet_loss};
use crate::mining::row_work::RowWork;
use crate::rules::mining_rule::{Cost, RowRule, RowsMined};

const VALUES: &str = "rows.similarities";
const PLACES: &str = "rows.places";
const COUNTS: &str = "rows.counts";
const WEIGHTS: &str = "rows.weights";
const TERMS: &str = "rows.terms";
const TIMES: &str = "rows.times";
const REDUCED: &str = "rows.reduced";
const DRAWN: &str = "rows.drawn";

/// Sizes of a block that its buffers depend on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlockSizes {
    pub(crate) rows: u64,
    pub(crate) references: u64,
    /// Places for the thresholds of its anchors: one for each positive, and one more for each anchor.
    pub(crate) thresholds: u64,
}

/// Input of one round over one block of anchors.
#[derive(Clone, Copy)]
pub(crate) struct BlockInputs<'a> {
    pub(crate) block: Block,
    pub(crate) shape: Shape,
    pub(crate) inputs: Inputs<'a>,
    /// Number of the block's first anchor, and of all anchors of the batch.
    pub(crate) anchor: usize,
    pub(crate) anchors: usize,
    /// The most positives of an anchor of the block; read by ranks, and if triplets are drawn.
    pub(crate) positives: usize,
    /// Embedding size; read if triplets are drawn.
    pub(crate) dim: usize,
    /// Key of the step's random draws.
    pub(crate) key: [u32; 2],
    /// Slots of the memory; read by ranks.
    pub(crate) slots: usize,
    /// The references are the anchors themselves.
    pub(crate) own: bool,
    /// The anchors' gradient is added to what is there, by rows.
    pub(crate) onto: bool,
    /// Offset of the step's report.
    pub(crate) report_first: usize,
    /// Offset of the histogram of pairs in the step's report, if it is wanted.
    pub(crate) pairs: Option<usize>,
    /// Additional numbers of the loss, if it takes any; by rows.
    pub(crate) given: Option<&'a DeviceVec<f32>>,
}

/// The buffers of a block of rows.
#[derive(Debug)]
pub(crate) struct RowPass {
    work: RowWork,
    kept: Kept,
    terms: DeviceVec<f32>,
    /// Weight of each pair, `[rows, width]`.
    times: DeviceVec<u32>,
    /// Reduced numbers of every row of the batch, `[anchors, ROW_NUMBERS]`.
    reduced: DeviceVec<f32>,
    /// Triplets that are drawn, `[rows, positives + 2]`: their number, then the places of positive and negative of each.
    drawn: DeviceVec<[u32; 2]>,
}

impl RowPass {
    /// Adds the buffers of these blocks to a plan, each as large as the largest block needs. `anchors`: rows of the whole batch.
    pub(crate) fn plan(
        plan: MemoryPlan,
        work: RowWork,
        anchors: u64,
        blocks: impl IntoIterator<Item = BlockSizes>,
    ) -> MemoryPlan {
        let (mut cells, mut terms, mut most_rows, mut drawn) = (0, 0, 0, 0);
        for block in blocks {
            let BlockSizes {
                rows,
                references,
                thresholds,
            } = block;
            let segments = references.div_ceil(SEGMENT as u64);
            cells = rows
                .saturating_mul(references.next_multiple_of(4))
                .max(cells);
            terms = rows.saturating_mul(segments).max(terms);
            most_rows = rows.max(most_rows);
            drawn = thresholds.saturating_add(rows).max(drawn);
        }
        let only = |work: bool, count: u64| if work { count } else { 0 };
        let terms = only(work.is_of_triplets(), terms);
        let times = only(work.counts_pairs(), cells);
        let reduced = only(!work.is_of_triplets(), anchors * ROW_NUMBERS as u64);
        let drawn = only(work.draws(), drawn);
        plan.with::<f32>(Purpose::Similarities, VALUES, cells)
            .with::<f32>(Purpose::Similarities, WEIGHTS, cells)
            .with::<f32>(Purpose::Similarities, TERMS, terms)
            .with::<f32>(Purpose::Similarities, REDUCED, reduced)
            .with::<u32>(Purpose::Triplets, PLACES, cells)
            .with::<u32>(Purpose::Triplets, TIMES, times)
            .with::<[u32; 2]>(Purpose::Triplets, COUNTS, most_rows)
            .with::<[u32; 2]>(Purpose::Triplets, DRAWN, drawn)
    }

    /// Takes the buffers from a workspace.
    pub(crate) fn new(workspace: &mut Workspace, work: RowWork) -> Self {
        Self {
            work,
            kept: Kept {
                values: workspace.take(VALUES),
                places: workspace.take(PLACES),
                counts: workspace.take(COUNTS),
                weights: workspace.take(WEIGHTS),
            },
            terms: workspace.take(TERMS),
            times: workspace.take(TIMES),
            reduced: workspace.take(REDUCED),
            drawn: workspace.take(DRAWN),
        }
    }

    /// The most dispatches of a block.
    pub(crate) fn dispatches(stride: usize, references: usize, rule: &RowRule) -> usize {
        let RowRule {
            selection, cost, ..
        } = rule;
        let pulls = references.div_ceil(pair_gradient::WINDOW);
        match cost {
            Cost::Triplets(_) if matches!(selection.choice, Choice::Drawn(_)) => 7 + pulls,
            Cost::Triplets(weighing) => {
                let Weighing {
                    swap, one_negative, ..
                } = *weighing;
                let windows = triplet_loss::windows(stride, references, swap);
                // If one negative is chosen, each window takes another dispatch to choose it, and one more settles the choice.
                let windows = windows + usize::from(one_negative) * (windows + 1);
                // A swap takes another set of pulls and another share.
                7 + windows + pulls * (1 + usize::from(swap))
            }
            // The second round may compare once more. Triplets are drawn or chosen, and counted.
            Cost::Pairs(cost) => {
                let chosen = match selection.choice {
                    Choice::OneNegative => triplet_loss::windows(stride, references, false),
                    Choice::Every | Choice::Drawn(_) => 0,
                };
                6 + chosen + row_loss::dispatches(references, cost) + pulls
            }
        }
    }

    /// Computes the similarities of a block, and the pairs that the miner keeps.
    fn keep(
        &mut self,
        commands: &mut Commands,
        block_inputs: &BlockInputs<'_>,
        selection: &Selection,
        counted: Counted,
        report: &mut DeviceVec<u32>,
    ) {
        let BlockInputs {
            block,
            shape,
            inputs,
            report_first,
            pairs,
            ..
        } = *block_inputs;
        let kept = &mut self.kept;
        similarities(
            commands,
            &block,
            shape,
            selection.distance,
            inputs.anchors,
            inputs.references,
            &mut kept.values,
        );
        if let (Some(first), true) = (pairs, counted != Counted::Nothing) {
            let (distance, first) = (selection.distance, report_first + first);
            count_pairs(
                commands,
                &block,
                distance,
                inputs,
                &kept.values,
                first,
                report,
            );
        }
        select(
            commands,
            &block,
            selection,
            inputs,
            kept,
            counted,
            report_first,
            report,
        );
    }

    /// Triplet counts, loss sums and anchor gradient of a block: counts and each row's loss sum go into the step's report,
    /// `active * dL/d(anchor)` into the block's rows of `gradient`.
    pub(crate) fn mine(
        &mut self,
        commands: &mut Commands,
        block_inputs: &BlockInputs<'_>,
        selection: &Selection,
        weighing: &Weighing,
        gradient: &mut DeviceVec<f32>,
        report: &mut DeviceVec<u32>,
    ) {
        self.keep(commands, block_inputs, selection, Counted::Triplets, report);
        let (block, references) = (&block_inputs.block, block_inputs.inputs.references);
        let first = block_inputs.report_first;
        if let Choice::Drawn(drawing) = selection.choice {
            let places = self
                .draw(commands, block_inputs, drawing, selection.shown)
                .places;
            let (kept, terms) = (&mut self.kept, &mut self.terms);
            let drawn = &self.drawn;
            drawn_loss(
                commands, block, weighing, places, drawn, kept, terms, first, report,
            );
        } else {
            let (kept, terms) = (&mut self.kept, &mut self.terms);
            triplet_loss(
                commands, block, weighing, references, kept, terms, first, report,
            );
        }
        let weights = &self.kept.weights;
        anchor_gradient(
            commands,
            block,
            block_inputs.onto,
            references,
            weights,
            gradient,
        );
    }

    /// Draws triplets from the kept pairs of a block, which are all pairs.
    fn draw(
        &mut self,
        commands: &mut Commands,
        block_inputs: &BlockInputs<'_>,
        drawing: Drawing,
        distance: Distance,
    ) -> Draws {
        let draws = Draws {
            drawing,
            distance,
            dim: block_inputs.dim,
            key: block_inputs.key,
            anchor: block_inputs.anchor,
            places: block_inputs.positives + 2,
        };
        let Self { kept, drawn, .. } = self;
        draw::draw(
            commands,
            &block_inputs.block,
            &draws,
            block_inputs.inputs,
            kept,
            drawn,
        );
        draws
    }

    /// Counts the mined triplets that contain each pair of a block, for losses that weigh pairs by them.
    fn count(
        &mut self,
        commands: &mut Commands,
        block_inputs: &BlockInputs<'_>,
        selection: &Selection,
        cost: &RowCost,
    ) {
        if cost.times != Multiplicity::Mined {
            return;
        }
        match selection.choice {
            Choice::Every => {
                row_loss::count(
                    commands,
                    &block_inputs.block,
                    cost,
                    &self.kept,
                    &mut self.times,
                );
            }
            Choice::OneNegative => {
                triplet_loss::count(
                    commands,
                    &block_inputs.block,
                    &mut self.kept,
                    &mut self.times,
                );
            }
            Choice::Drawn(drawing) => {
                let draws = self.draw(commands, block_inputs, drawing, selection.shown);
                draw::count(
                    commands,
                    &block_inputs.block,
                    &draws,
                    &self.drawn,
                    &mut self.times,
                );
            }
        }
    }

    /// First round of a loss of pairs: the reduced numbers of a block's rows, and the batch's counts in the step's report.
    pub(crate) fn reduce(
        &mut self,
        commands: &mut Commands,
        block_inputs: &BlockInputs<'_>,
        selection: &Selection,
        cost: &RowCost,
        report: &mut DeviceVec<u32>,
    ) {
        self.keep_pairs(
            commands,
            block_inputs,
            selection,
            cost,
            Counted::Pairs,
            report,
        );
        let Self { kept, reduced, .. } = self;
        let times = self.work.counts_pairs().then_some(&self.times);
        row_loss::reduce(
            commands,
            &block_inputs.block,
            cost,
            kept,
            times,
            block_inputs.given,
            block_inputs.anchor,
            reduced,
            block_inputs.report_first,
            report,
        );
    }

    /// Computes the pairs that a miner keeps of a block, and with [`Multiplicity::Mined`] the number of its triplets that contain each.
    pub(crate) fn look(
        &mut self,
        commands: &mut Commands,
        block_inputs: &BlockInputs<'_>,
        selection: &Selection,
        cost: &RowCost,
        report: &mut DeviceVec<u32>,
    ) {
        self.keep(commands, block_inputs, selection, Counted::Nothing, report);
        self.count(commands, block_inputs, selection, cost);
    }

    /// Counts the kept pairs or triplets that contain each row of a block, for the weights of the batch's rows.
    pub(crate) fn find(
        &mut self,
        commands: &mut Commands,
        block_inputs: &BlockInputs<'_>,
        mined: &RowsMined,
        found: &mut DeviceVec<u32>,
        report: &mut DeviceVec<u32>,
    ) {
        let RowsMined {
            selection,
            cost,
            anchors_only,
        } = mined;
        self.look(commands, block_inputs, selection, cost, report);
        let times = (cost.times == Multiplicity::Mined).then_some(&self.times);
        let own = block_inputs.own && !anchors_only;
        let (block, first) = (&block_inputs.block, block_inputs.anchor);
        row_weights::find(commands, block, own, &self.kept, times, first, found);
    }

    /// Keeps the pairs of a block: one value a class if several references stand for it, and each pair's weight.
    fn keep_pairs(
        &mut self,
        commands: &mut Commands,
        block_inputs: &BlockInputs<'_>,
        selection: &Selection,
        cost: &RowCost,
        counted: Counted,
        report: &mut DeviceVec<u32>,
    ) {
        self.keep(commands, block_inputs, selection, counted, report);
        row_loss::pool(commands, &block_inputs.block, cost, &mut self.kept);
        self.count(commands, block_inputs, selection, cost);
    }

    /// Keeps the pairs of a block again, unless it was the only one.
    fn keep_again(
        &mut self,
        commands: &mut Commands,
        block_inputs: &BlockInputs<'_>,
        selection: &Selection,
        cost: &RowCost,
        report: &mut DeviceVec<u32>,
    ) {
        if block_inputs.block.rows < block_inputs.anchors {
            self.keep_pairs(
                commands,
                block_inputs,
                selection,
                cost,
                Counted::Nothing,
                report,
            );
        }
    }

    /// Round in between, for a loss whose positive pairs need both of their rows reduced: computes the terms of these pairs.
    pub(crate) fn settle(
        &mut self,
        commands: &mut Commands,
        block_inputs: &BlockInputs<'_>,
        selection: &Selection,
        cost: &RowCost,
        report: &mut DeviceVec<u32>,
    ) {
        debug_assert!(
            !block_inputs.own || block_inputs.block.rows == block_inputs.anchors,
            "all anchors are there"
        );
        self.keep_again(commands, block_inputs, selection, cost, report);
        let Self { kept, reduced, .. } = self;
        let times = self.work.counts_pairs().then_some(&self.times);
        row_loss::settle(
            commands,
            &block_inputs.block,
            cost,
            block_inputs.own,
            kept,
            times,
            block_inputs.given,
            block_inputs.inputs.batch,
            block_inputs.anchor,
            reduced,
            block_inputs.report_first,
            report,
        );
    }

    /// Last round of a loss of pairs: `dL/d(anchor)` of a block goes into its rows of `gradient`, and each row's part of the loss
    /// into the step's report.
    pub(crate) fn slopes(
        &mut self,
        commands: &mut Commands,
        block_inputs: &BlockInputs<'_>,
        selection: &Selection,
        cost: &RowCost,
        gradient: &mut DeviceVec<f32>,
        report: &mut DeviceVec<u32>,
    ) {
        let block = &block_inputs.block;
        self.keep_again(commands, block_inputs, selection, cost, report);
        let Self { kept, reduced, .. } = self;
        let times = self.work.counts_pairs().then_some(&self.times);
        row_loss::slopes(
            commands,
            block,
            cost,
            block_inputs.anchors,
            block_inputs.own,
            kept,
            times,
            block_inputs.given,
            block_inputs.anchor,
            reduced,
            block_inputs.report_first,
            report,
        );
        let (references, weights) = (block_inputs.inputs.references, &kept.weights);
        anchor_gradient(
            commands,
            block,
            block_inputs.onto,
            references,
            weights,
            gradient,
        );
    }

    /// Reference gradient of a block, if references learn: written, or with `onto` added to `gradient`.
    ///
    /// Call it after [`RowPass::mine`] or [`RowPass::slopes`] on the same block, and before [`RowPass::share_swapped`].
    pub(crate) fn share(
        &self,
        commands: &mut Commands,
        block_inputs: &BlockInputs<'_>,
        onto: bool,
        gradient: &mut DeviceVec<f32>,
    ) {
        let (anchors, weights) = (block_inputs.inputs.anchors, &self.kept.weights);
        reference_gradient(
            commands,
            &block_inputs.block,
            onto,
            anchors,
            weights,
            gradient,
        );
    }

    /// Gradient that `swap` adds through the similarities between references, to both references of each pair: for as many
    /// references as the block has rows, from `first` on, with all others.
    ///
    /// Call it after [`RowPass::share`], once for every stretch of references.
    pub(crate) fn share_swapped(
        &mut self,
        commands: &mut Commands,
        block_inputs: &BlockInputs<'_>,
        first: usize,
        weighing: &Weighing,
        gradient: &mut DeviceVec<f32>,
    ) {
        let (block, inputs, kept) = (&block_inputs.block, block_inputs.inputs, &mut self.kept);
        let rows = block.rows.min(block.references - first);
        swapped_loss(commands, block, weighing, first, rows, inputs, kept);
        let turned = Block {
            first_row: first,
            rows,
            ..*block
        };
        let references = inputs.references;
        anchor_gradient(commands, &turned, true, references, &kept.weights, gradient);
        let (references, weights) = (references.floats(), &kept.weights);
        reference_gradient(commands, &turned, true, references, weights, gradient);
    }

    /// Floats from one row to the next.
    pub(crate) fn width(references: usize) -> usize {
        width(references)
    }

    /// Kept pairs of the last block.
    pub(crate) fn kept(&self) -> &Kept {
        &self.kept
    }

    /// Mined triplets that contain each pair of the last block, if they are counted.
    pub(crate) fn times(&self) -> &DeviceVec<u32> {
        &self.times
    }

    /// Triplets that were drawn for the rows of the last block, if any are drawn.
    pub(crate) fn drawn(&self) -> &DeviceVec<[u32; 2]> {
        &self.drawn
    }
}
