//! [`RowPass`]: mining by rows ([`crate::Path::Rows`]), a block of anchors at a time: their similarities to all references, the
//! ones that a miner keeps, the loss of those triplets, and its gradient. Holds the buffers.

use crate::engine::{Commands, DeviceVec, Workspace};
use crate::error::{Error, Result};
use crate::kernels::pull::{self, pull, share};
use crate::kernels::ranks::{Block, Inputs, SEGMENT};
use crate::kernels::select::{Kept, select};
use crate::kernels::similarities::{similarities, width};
use crate::kernels::tile::Shape;
use crate::kernels::weigh::{self, Weighing, weigh, weigh_swapped};
use crate::ledger::Purpose;
use crate::losses::RowRule;
use crate::plan::MemoryPlan;

/// The most references of a row.
const MOST_REFERENCES: usize = 1 << 20;
/// The most windows in which a row is compared with them.
const MOST_WINDOWS: usize = 64;

const VALUES: &str = "rows.similarities";
const PLACES: &str = "rows.places";
const COUNTS: &str = "rows.counts";
const WEIGHTS: &str = "rows.weights";
const TERMS: &str = "rows.terms";

/// The buffers of a block of rows.
#[derive(Debug)]
pub(crate) struct RowPass {
    kept: Kept,
    terms: DeviceVec<f32>,
}

impl RowPass {
    /// Adds the buffers of blocks of so many rows and references to a plan: each as large as the largest needs it.
    pub(crate) fn plan(
        plan: MemoryPlan,
        blocks: impl IntoIterator<Item = (u64, u64)>,
    ) -> MemoryPlan {
        let (mut cells, mut terms, mut most_rows) = (0, 0, 0);
        for (rows, references) in blocks {
            let segments = references.div_ceil(SEGMENT as u64);
            cells = rows
                .saturating_mul(references.next_multiple_of(4))
                .max(cells);
            terms = rows.saturating_mul(segments).max(terms);
            most_rows = rows.max(most_rows);
        }
        plan.with::<f32>(Purpose::Similarities, VALUES, cells)
            .with::<f32>(Purpose::Similarities, WEIGHTS, cells)
            .with::<f32>(Purpose::Similarities, TERMS, terms)
            .with::<u32>(Purpose::Triplets, PLACES, cells)
            .with::<[u32; 2]>(Purpose::Triplets, COUNTS, most_rows)
    }

    /// Takes the buffers from a workspace.
    pub(crate) fn new(workspace: &mut Workspace) -> Self {
        Self {
            kept: Kept {
                values: workspace.take(VALUES),
                places: workspace.take(PLACES),
                counts: workspace.take(COUNTS),
                weights: workspace.take(WEIGHTS),
            },
            terms: workspace.take(TERMS),
        }
    }

    /// Dispatches of a block at most.
    pub(crate) fn dispatches(stride: usize, references: usize, weighing: &Weighing) -> usize {
        let Weighing {
            swap, one_negative, ..
        } = *weighing;
        let windows = references.div_ceil(weigh::window(stride, swap));
        // One negative is chosen window by window as well, and settled once.
        let windows = windows + usize::from(one_negative) * (windows + 1);
        // A swap pulls and shares once more.
        let pulls = references.div_ceil(pull::WINDOW) * (1 + usize::from(swap));
        6 + windows + pulls
    }

    /// Checks that a row can be compared with this many references of this many columns.
    ///
    /// # Errors
    /// [`Error::Config`], with the numbers.
    pub(crate) fn check(dim: usize, references: usize, swap: bool) -> Result<()> {
        let window = weigh::window(dim, swap);
        let most = MOST_REFERENCES.min(window * MOST_WINDOWS);
        if references > most {
            let how = if swap { " and swap" } else { "" };
            return Err(Error::Config(format!(
                "this miner and loss{how} look at {most} references of {dim} columns at most, here are {references}: use \
                 fewer, or the triplet-margin miner with the plain loss, which counts any number"
            )));
        }
        if swap && dim > 2048 {
            return Err(Error::Config(format!(
                "swap compares references of 2048 columns at most, these have {dim}: use fewer, or leave swap out"
            )));
        }
        Ok(())
    }

    /// Triplet counts, loss sums and anchor gradient of a block: counts and each row's loss sum go into the step's report,
    /// `active * dL/d(anchor)` into its rows of `gradient`.
    #[expect(clippy::too_many_arguments, reason = "what a pass reads and writes")]
    pub(crate) fn mine(
        &mut self,
        commands: &mut Commands,
        block: &Block,
        shape: Shape,
        rule: &RowRule,
        inputs: Inputs<'_>,
        gradient: &mut DeviceVec<f32>,
        report_first: usize,
        report: &mut DeviceVec<u32>,
    ) {
        let Self { kept, terms } = self;
        let (anchors, references) = (inputs.anchors, inputs.references);
        similarities(
            commands,
            block,
            shape,
            rule.selection.distance,
            anchors,
            references,
            &mut kept.values,
        );
        select(
            commands,
            block,
            &rule.selection,
            inputs,
            kept,
            report_first,
            report,
        );
        weigh(
            commands,
            block,
            &rule.weighing,
            references,
            kept,
            terms,
            report_first,
            report,
        );
        pull(commands, block, false, references, &kept.weights, gradient);
    }

    /// Reference gradient of a block: adds `active * dL/d(reference)`, where the references are the batch itself.
    ///
    /// Call it after [`RowPass::mine`] on the same block, and before [`RowPass::share_swapped`].
    pub(crate) fn share(
        &self,
        commands: &mut Commands,
        block: &Block,
        inputs: Inputs<'_>,
        gradient: &mut DeviceVec<f32>,
    ) {
        share(
            commands,
            block,
            inputs.anchors,
            &self.kept.weights,
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
        block: &Block,
        first: usize,
        rule: &RowRule,
        inputs: Inputs<'_>,
        gradient: &mut DeviceVec<f32>,
    ) {
        let kept = &mut self.kept;
        let rows = block.rows.min(block.references - first);
        weigh_swapped(commands, block, &rule.weighing, first, rows, inputs, kept);
        let turn = Block {
            first_row: first,
            rows,
            ..*block
        };
        let references = inputs.references;
        pull(commands, &turn, true, references, &kept.weights, gradient);
        share(commands, &turn, references, &kept.weights, gradient);
    }

    /// Floats from one row to the next.
    pub(crate) fn width(references: usize) -> usize {
        width(references)
    }

    /// What was kept of the last block.
    pub(crate) fn kept(&self) -> &Kept {
        &self.kept
    }
}
