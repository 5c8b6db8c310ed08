//! [`Mining`]: the blocks of anchors of a step through miner and loss, and the gradients of rows and proxies that come of them.

use super::LEAST_OPERATIONS;
use super::drawn::Drawn;
use super::sizes::Sizes;
use crate::base::error::Result;
use crate::base::forecast::MiningMethod;
use crate::engine::pace::Slices;
use crate::engine::{DeviceVec, Engine};
use crate::kernels::ranks::{Block, Inputs, Row, SEGMENT};
use crate::kernels::stored::Stored;
use crate::kernels::stride;
use crate::kernels::tile::Shape;
use crate::kernels::triplet_margin::OWNERS;
use crate::mining::mining_pass::{MiningPass, Rounds};
use crate::mining::row_pass::BlockInputs;
use crate::model::proxies::Proxies;
use crate::rules::config::Level;
use crate::rules::mining_rule::{MiningRule, Operands};

/// Number of a step, and the positions of its rows and its report.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) step: u64,
    /// Numbers of its rows in the data.
    pub(super) numbers: &'a [u32],
    /// First of its rows in the uploaded batches.
    pub(super) first: usize,
    /// First word of its report.
    pub(super) report_first: usize,
    /// Key of its random draws.
    pub(super) key: [u32; 2],
    /// Size of the rows that are compared, if they are truncated.
    pub(super) level: Option<Level>,
}

impl Place<'_> {
    /// The report and the draws of the `i`-th size of a step, whose reports have so many words.
    pub(super) fn of(self, i: usize, level: Level, words: usize) -> Self {
        let [low, high] = self.key;
        Self {
            report_first: self.report_first + i * words,
            key: [low, high.wrapping_add(i as u32)],
            level: Some(level),
            ..self
        }
    }
}

/// Rows that miner and loss compare, whole or truncated, and the gradient with respect to those of the batch.
pub(super) struct View<'a> {
    /// Numbers of a row.
    pub(super) dim: usize,
    /// Rows of the batch, of unit length.
    pub(super) unit: &'a DeviceVec<f32>,
    pub(super) gradient: &'a mut DeviceVec<f32>,
    pub(super) references: Stored<'a>,
    pub(super) proxies: Option<ProxyView<'a>>,
}

impl<'a> View<'a> {
    /// Its rows, with those of the batch and what is known of the references.
    pub(super) fn inputs(
        &self,
        batch: &'a DeviceVec<Row>,
        tags: &'a DeviceVec<[u32; 2]>,
    ) -> Inputs<'a> {
        Inputs {
            anchors: self.unit,
            references: self.references,
            batch,
            tags,
        }
    }
}

/// Proxies, whole or truncated, as anchors and as references.
pub(super) struct ProxyView<'a> {
    pub(super) unit: &'a DeviceVec<f32>,
    pub(super) gradient: &'a mut DeviceVec<f32>,
    pub(super) rows: &'a DeviceVec<Row>,
    pub(super) tags: &'a DeviceVec<[u32; 2]>,
}

impl<'a> From<&'a mut Proxies> for ProxyView<'a> {
    fn from(proxies: &'a mut Proxies) -> Self {
        Self {
            unit: &proxies.unit,
            gradient: &mut proxies.gradient,
            rows: &proxies.rows,
            tags: &proxies.tags,
        }
    }
}

/// Anchors and references of a loss, and the gradients of both.
pub(super) struct Compared<'a> {
    inputs: Inputs<'a>,
    /// First anchor in the uploaded batches.
    first: usize,
    references: usize,
    /// Gradient of the anchors.
    gradient: &'a mut DeviceVec<f32>,
    /// Gradient of the references, if they are other rows that learn.
    shared: Option<&'a mut DeviceVec<f32>>,
}

impl<'a> Compared<'a> {
    /// Rows with rows, or one of both sides with proxies.
    pub(super) fn of(
        rule: &MiningRule,
        sizes: &Sizes,
        place: Place<'_>,
        drawn: &Drawn,
        rows: Inputs<'a>,
        view: View<'a>,
    ) -> Self {
        let View {
            proxies, gradient, ..
        } = view;
        match (rule.operands(), proxies) {
            (Operands::RowsWithProxies, Some(proxies)) => Self {
                inputs: Inputs {
                    references: proxies.unit.into(),
                    tags: proxies.tags,
                    ..rows
                },
                first: place.first,
                references: sizes.references(true),
                gradient,
                shared: Some(proxies.gradient),
            },
            (Operands::ProxiesWithRows, Some(proxies)) => Self {
                inputs: Inputs {
                    anchors: proxies.unit,
                    batch: proxies.rows,
                    ..rows
                },
                first: 0,
                references: sizes.batch,
                gradient: proxies.gradient,
                shared: Some(gradient),
            },
            _ => Self {
                inputs: rows,
                first: place.first,
                references: drawn.references,
                gradient,
                shared: None,
            },
        }
    }
}

/// The mining of a step.
pub(super) struct Mining<'a> {
    pub(super) engine: &'a Engine,
    pub(super) sizes: &'a Sizes,
    pub(super) rule: &'a MiningRule,
    pub(super) drawn: &'a Drawn,
    pub(super) place: Place<'a>,
    pub(super) dim: usize,
    /// Offset of the histogram of pairs in the report, if pairs are counted.
    pub(super) pairs: Option<usize>,
    /// Gradients of anchors are added to those that they have as references of blocks before.
    pub(super) onto: bool,
    /// Row weights, or the boundary of the loss.
    pub(super) given: Option<&'a DeviceVec<f32>>,
    pub(super) pass: &'a mut MiningPass,
    pub(super) report: &'a mut DeviceVec<u32>,
    pub(super) compared: Compared<'a>,
}

impl<'a> Mining<'a> {
    /// Input of a round over these anchors.
    fn block_inputs(&self, anchor: usize, rows: usize) -> BlockInputs<'a> {
        BlockInputs {
            block: block_of(
                self.compared.first,
                anchor,
                rows,
                self.compared.references,
                self.dim,
            ),
            shape: Shape::of(self.engine.info(), rows),
            inputs: self.compared.inputs,
            anchor,
            anchors: self.sizes.anchors,
            positives: self.drawn.positives,
            dim: self.dim,
            key: self.place.key,
            slots: self.drawn.slots.capacity,
            own: self.drawn.alone && self.rule.operands() == Operands::Rows,
            onto: self.onto,
            report_first: self.place.report_first,
            pairs: self.pairs,
            given: self.given,
        }
    }

    fn operations_of_an_anchor(&self) -> f64 {
        self.sizes.mining_operations(self.drawn.alone, 1)
    }

    /// Anchors of one block, by the pace: a multiple of `whole`, and at most `most`.
    fn at_once(&self, slices: &Slices<'_>, whole: usize, most: usize) -> usize {
        let operations = self.operations_of_an_anchor();
        let least = (LEAST_OPERATIONS / operations) as usize;
        let rows = slices.pace().units(operations, most).max(least);
        (rows / whole * whole).clamp(whole.min(most), most)
    }

    /// Runs every round over all anchors, block by block.
    pub(super) async fn rounds(&mut self, slices: &mut Slices<'_>) -> Result<()> {
        let blocks = self.sizes.blocks(self.drawn.alone);
        let by_rows_alone = self.rule.path() == MiningMethod::Rows && self.drawn.alone;
        let mut rounds = Rounds::new(self.rule, self.sizes.anchors);
        while let Some((round, anchor, before)) = rounds.next_block() {
            // A few rows of the block at once: the buffers are as large as the block.
            let left = blocks.rows - anchor % blocks.rows;
            let left = left.min(self.sizes.anchors - anchor);
            slices.reserve(blocks.dispatches as u32).await?;
            // The gradient of references that learn is added up block by block.
            let rows = match before {
                _ if by_rows_alone => left,
                Some(rows) => rows,
                None => self.at_once(slices, OWNERS, left.min(blocks.at_once)),
            };
            let block_inputs = self.block_inputs(anchor, rows);
            let (commands, gradient) = (slices.commands(), &mut *self.compared.gradient);
            self.pass.mine(
                commands,
                self.rule,
                round,
                &block_inputs,
                gradient,
                self.report,
            );
            if by_rows_alone && round.is_last() {
                self.share(slices, &block_inputs).await?;
            }
            rounds.done(rows);
            let operations = self.operations_of_an_anchor() * rows as f64;
            slices.recorded(operations).await?;
        }
        Ok(())
    }

    /// Adds the gradient of a block's references, if they learn.
    async fn share(
        &mut self,
        slices: &mut Slices<'_>,
        block_inputs: &BlockInputs<'_>,
    ) -> Result<()> {
        if let Some(shared) = &mut self.compared.shared {
            let (commands, onto) = (slices.commands(), block_inputs.anchor > 0);
            self.pass
                .share(commands, self.rule, block_inputs, onto, shared);
            return Ok(());
        }
        let gradient = &mut *self.compared.gradient;
        self.pass
            .share(slices.commands(), self.rule, block_inputs, true, gradient);
        // One stretch if the block is the whole batch.
        let stretches = match self.rule.swap() {
            true => block_inputs
                .block
                .references
                .div_ceil(block_inputs.block.rows),
            false => 0,
        };
        for stretch in 0..stretches {
            let first = stretch * block_inputs.block.rows;
            if stretch > 0 {
                let blocks = self.sizes.blocks(self.drawn.alone);
                slices.reserve(blocks.dispatches as u32).await?;
            }
            self.pass
                .share_swapped(slices.commands(), self.rule, block_inputs, first, gradient);
            if stretch > 0 {
                slices.recorded(LEAST_OPERATIONS).await?;
            }
        }
        Ok(())
    }

    /// Adds the gradient of the references by ranks, after all anchors: whole segments, whose sums are added one after the other,
    /// however many go at once.
    pub(super) async fn share_by_ranks(&mut self, slices: &mut Slices<'_>) -> Result<()> {
        if self.rule.path() != MiningMethod::Ranks || !self.drawn.alone {
            return Ok(());
        }
        let blocks = self.sizes.blocks(self.drawn.alone);
        let (count, mut anchor) = (self.sizes.batch, 0);
        while anchor < count {
            let rows = self.at_once(slices, SEGMENT, count - anchor);
            let block_inputs = self.block_inputs(anchor, rows);
            slices.reserve(blocks.dispatches as u32).await?;
            let (commands, gradient) = (slices.commands(), &mut *self.compared.gradient);
            self.pass
                .share(commands, self.rule, &block_inputs, true, gradient);
            anchor += rows;
            let operations = self.operations_of_an_anchor() * rows as f64;
            slices.recorded(operations).await?;
        }
        Ok(())
    }
}

/// Anchors from `anchor` on, of a batch that begins at `first` in the uploaded rows, with all references, which have `dim` numbers.
pub(super) fn block_of(
    first: usize,
    anchor: usize,
    rows: usize,
    references: usize,
    dim: usize,
) -> Block {
    Block {
        first_row: anchor,
        rows,
        batch: first + anchor,
        first_reference: 0,
        references,
        stride: stride(dim),
    }
}
