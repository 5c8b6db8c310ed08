//! The kernels of a step, recorded in their order: they embed the batch and store it, compute its row weights if a miner weighs
//! rows, mine, compute the gradient of the loss, and update the weights.

use std::ops::Range;

use super::drawn::Drawn;
use super::memory::TrainBuffers;
use super::setup::STEP_DISPATCHES;
use super::sizes::Sizes;
use super::{LEAST_OPERATIONS, Trainer};
use crate::base::error::Result;
use crate::base::forecast::MiningMethod;
use crate::base::rng;
use crate::engine::pace::Slices;
use crate::engine::{Commands, DeviceVec, Engine};
use crate::kernels::ranks::{Block, Inputs, SEGMENT};
use crate::kernels::tile::Shape;
use crate::kernels::triplet_margin::OWNERS;
use crate::kernels::{drift, normalize, optimizer, stride};
use crate::mining::mining_pass::{MiningPass, Rounds};
use crate::mining::row_pass::BlockInputs;
use crate::model::optimizer::Rule;
use crate::model::proxies::Proxies;
use crate::rules::mining_rule::{MiningRule, Operands};

/// Number of a step, and the positions of its rows and its report.
#[derive(Clone, Copy)]
struct Place<'a> {
    step: u64,
    /// Numbers of its rows in the data.
    numbers: &'a [u32],
    /// First of its rows in the uploaded batches.
    first: usize,
    /// First word of its report.
    report_first: usize,
    /// Key of its random draws.
    key: [u32; 2],
}

impl Trainer {
    /// Records the kernels of a step, whose rows and report are the `i`-th of those in the buffers; `ahead` steps are recorded and
    /// not read yet. Pairs are counted in the last step alone: its report is the longest.
    pub(super) async fn record(
        &mut self,
        slices: &mut Slices<'_>,
        i: usize,
        ahead: usize,
        numbers: &[u32],
        drawn: &Drawn,
        last: bool,
    ) -> Result<()> {
        let sizes = &self.setup.sizes;
        let step = self.step + ahead as u64 + 1;
        let place = Place {
            step,
            numbers,
            first: i * sizes.batch,
            report_first: i * sizes.report_words(),
            key: rng::key(self.config.seed, "draws", step),
        };
        self.embed_and_store(slices, place, drawn).await?;
        self.weigh_rows(slices, place, drawn).await?;
        self.mine(slices, place, drawn, last).await?;
        self.learn(slices, place, drawn).await
    }

    /// Embeds the batch and stores it in the memory; brings proxies to unit length.
    async fn embed_and_store(
        &mut self,
        slices: &mut Slices<'_>,
        place: Place<'_>,
        drawn: &Drawn,
    ) -> Result<()> {
        let of_a_block = self.setup.sizes.blocks(drawn.alone).dispatches as u32;
        // The first rows last: the backward pass begins with them, and finds their activations.
        for rows in self.setup.sizes.chunks().rev() {
            self.stage(slices, place, &rows).await?;
            slices.reserve(self.step_dispatches() + of_a_block).await?;
            let first = self.first_of(place, &rows);
            self.features.bring(slices.commands(), first, rows.len());
            let train = &mut self.train;
            self.model.embed_and_store(
                slices.commands(),
                place.step,
                rows.clone(),
                self.features.batch(first),
                &mut train.hidden,
                &train.batch,
                place.first,
                drawn.slots,
                &mut train.embedded,
                &mut self.memory.bank,
                &mut train.gradients.status,
            );
            if rows.start > 0 {
                let forward = self.setup.sizes.forward_operations();
                slices.recorded(rows.len() as f64 * forward).await?;
            }
        }
        if let Some(proxies) = &mut self.proxies {
            proxies.prepare(slices.commands(), &mut self.train.gradients.status);
        }
        Ok(())
    }

    /// Upper bound of the dispatches of a step outside of mining.
    fn step_dispatches(&self) -> u32 {
        STEP_DISPATCHES + self.setup.sizes.architecture.dispatches()
    }

    /// Features are brought to the engine chunk by chunk, not batch by batch.
    pub(super) fn stages_chunks(&self) -> bool {
        let sizes = &self.setup.sizes;
        sizes.chunk < sizes.batch && !self.features.is_resident()
    }

    /// Place of the features of these rows of the batch among those on the engine.
    fn first_of(&self, place: Place<'_>, rows: &Range<usize>) -> usize {
        match self.stages_chunks() {
            true => 0,
            false => place.first + rows.start,
        }
    }

    /// Brings the features of these rows of the batch to the engine, unless those of the whole batch are there.
    async fn stage(
        &mut self,
        slices: &mut Slices<'_>,
        place: Place<'_>,
        rows: &Range<usize>,
    ) -> Result<()> {
        if !self.stages_chunks() {
            return Ok(());
        }
        let numbers = &place.numbers[rows.clone()];
        self.features.stage(slices, &self.dataset, numbers).await
    }

    /// Computes the weights of the batch's rows from how often the miner finds each, if the loss weighs rows.
    async fn weigh_rows(
        &mut self,
        slices: &mut Slices<'_>,
        place: Place<'_>,
        drawn: &Drawn,
    ) -> Result<()> {
        let (sizes, train) = (&self.setup.sizes, &mut self.train);
        let (Some(mined), Some(weights)) = (self.rule.weighs_rows(), train.row_weights.as_mut())
        else {
            return Ok(());
        };
        let count = sizes.batch;
        let (most, references) = match self.rule.operands() {
            Operands::Rows => (sizes.blocks(drawn.alone).rows, drawn.references),
            Operands::RowsWithProxies | Operands::ProxiesWithRows => (count, count),
        };
        let dim = self.model.embedding_size();
        for anchor in (0..count).step_by(most) {
            let rows = most.min(count - anchor);
            let block_inputs = BlockInputs {
                block: Block {
                    first_row: anchor,
                    rows,
                    batch: place.first + anchor,
                    first_reference: 0,
                    references,
                    stride: stride(dim),
                },
                shape: Shape::of(self.engine.info(), rows),
                inputs: Inputs {
                    anchors: &train.embedded.unit,
                    references: self.memory.references(drawn.alone, &train.embedded.unit),
                    batch: &train.batch,
                    tags: &self.memory.bank.tags,
                },
                anchor,
                anchors: count,
                positives: drawn.positives,
                dim,
                key: place.key,
                slots: drawn.slots.capacity,
                own: drawn.alone,
                onto: false,
                report_first: place.report_first,
                pairs: None,
                given: None,
            };
            slices.reserve(STEP_DISPATCHES).await?;
            let (commands, found) = (slices.commands(), &mut weights.found);
            let report = &mut train.report;
            train
                .mining
                .find(commands, mined, &block_inputs, found, report);
            let operations = sizes.weighing_operations(references, rows);
            slices.recorded(operations).await?;
        }
        weights.scale(slices.commands(), count);
        Ok(())
    }

    /// Mines the batch, in as many rounds as the loss takes, and adds up the gradients of rows and proxies.
    async fn mine(
        &mut self,
        slices: &mut Slices<'_>,
        place: Place<'_>,
        drawn: &Drawn,
        last: bool,
    ) -> Result<()> {
        let onto = self.setup.sizes.shares_by_blocks(&self.rule, drawn.alone);
        if onto {
            let floats = self.setup.sizes.batch * self.setup.sizes.stride();
            let gradient = &mut self.train.gradient;
            slices.upload(gradient, 0, &vec![0.0; floats]).await?;
        }
        let TrainBuffers {
            embedded,
            batch,
            mining,
            gradient,
            report,
            row_weights,
            boundary,
            ..
        } = &mut self.train;
        let sizes = &self.setup.sizes;
        let rows = Inputs {
            anchors: &embedded.unit,
            references: self.memory.references(drawn.alone, &embedded.unit),
            batch,
            tags: &self.memory.bank.tags,
        };
        let weights = row_weights.as_ref().map(|weights| &weights.weights);
        let moved = boundary.as_ref().map(|boundary| &boundary.moved);
        let proxies = self.proxies.as_mut();
        let mut mining = Mining {
            engine: &self.engine,
            sizes,
            rule: &self.rule,
            drawn,
            place,
            dim: self.model.embedding_size(),
            pairs: last.then_some(sizes.report_words()),
            onto,
            given: weights.or(moved),
            pass: mining,
            report,
            compared: Compared::of(&self.rule, sizes, place, drawn, rows, proxies, gradient),
        };
        mining.rounds(slices).await?;
        mining.share_by_ranks(slices).await
    }

    /// Runs the backward pass through the head, chunk by chunk; the work of the last one is not counted as recorded yet.
    async fn backward(&mut self, slices: &mut Slices<'_>, place: Place<'_>) -> Result<()> {
        for rows in self.setup.sizes.chunks() {
            let first = self.first_of(place, &rows);
            if rows.start > 0 {
                let before = 3.0 * self.setup.sizes.chunk as f64;
                let forward = self.setup.sizes.forward_operations();
                slices.recorded(before * forward).await?;
                self.stage(slices, place, &rows).await?;
                slices.reserve(self.step_dispatches()).await?;
                self.features.bring(slices.commands(), first, rows.len());
                self.model.activate(
                    slices.commands(),
                    place.step,
                    &rows,
                    self.features.batch(first),
                    &mut self.train.hidden,
                );
            }
            let train = &mut self.train;
            self.model.backward(
                slices.commands(),
                place.step,
                &rows,
                self.features.batch(first),
                &train.hidden,
                &train.gradient,
                &mut train.gradients,
            );
        }
        Ok(())
    }

    /// Runs the backward pass through the head, and updates the weights and all other learned parameters.
    async fn learn(
        &mut self,
        slices: &mut Slices<'_>,
        place: Place<'_>,
        drawn: &Drawn,
    ) -> Result<()> {
        slices.reserve(self.step_dispatches()).await?;
        let (commands, train) = (slices.commands(), &mut self.train);
        let count = self.setup.sizes.batch;
        let stride = stride(self.model.embedding_size());
        let report_first = place.report_first;
        if !drawn.alone {
            drift::measure(commands, count, stride, &train.gradient, &mut train.drift);
        }
        let centered = !drawn.alone && self.config.center_gradient;
        normalize::backward(
            commands,
            count,
            stride,
            &train.embedded.unit,
            &train.embedded.norms,
            &mut train.gradient,
            // By rows the terms are losses already.
            match &self.rule {
                MiningRule::Ranks(rule) => rule.scale(drawn.alone),
                MiningRule::Rows(_) => 0.0,
            },
            // The slopes of pairs are divided already.
            self.rule.pairs().map(|_| 1.0),
            centered.then_some(&train.drift.state),
            report_first,
            &mut train.report,
        );
        self.backward(slices, place).await?;
        self.update(slices.commands(), place);
        let sizes = &self.setup.sizes;
        let last = sizes.chunks().next_back().map_or(0, |rows| rows.len());
        slices
            .recorded(3.0 * last as f64 * sizes.forward_operations())
            .await
    }

    /// Updates the weights and all other learned parameters by their gradients.
    fn update(&mut self, commands: &mut Commands, place: Place<'_>) {
        let (train, report_first) = (&mut self.train, place.report_first);
        let rule = Rule::new(&self.config, place.step);
        let parameters = self.model.parameter_count();
        let (status, report) = (&train.gradients.status, &mut train.report);
        let (mut proxies, mut boundary) = (self.proxies.as_mut(), train.boundary.as_mut());
        if let Some(proxies) = &mut proxies {
            proxies.backward(commands, report_first, report);
        }
        if let Some(boundary) = &mut boundary {
            boundary.backward(commands, report_first, report);
        }
        let clip = train.clipping.as_mut().map(|clipping| {
            let head = (&train.gradients.parameters, parameters);
            let proxies = proxies.as_ref().map(|proxies| proxies.gradient());
            let boundary = boundary.as_ref().map(|boundary| boundary.gradient());
            let all = [Some(head), proxies, boundary];
            clipping.measure(commands, all.into_iter().flatten())
        });
        optimizer::update(
            commands,
            &rule.of_the_head(),
            parameters,
            &train.gradients.parameters,
            self.model.parameters_mut(),
            &mut train.moments,
            clip,
            status,
            report_first,
            report,
        );
        let batch = self.setup.sizes.batch;
        self.model.follow(commands, batch, &train.hidden, status);
        if let Some(proxies) = proxies {
            proxies.learn(commands, &rule, clip, status, report_first, report);
        }
        if let Some(boundary) = boundary {
            boundary.learn(commands, &rule, clip, status, report_first, report);
        }
    }
}

/// Anchors and references of a loss, and the gradients of both.
struct Compared<'a> {
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
    fn of(
        rule: &MiningRule,
        sizes: &Sizes,
        place: Place<'_>,
        drawn: &Drawn,
        rows: Inputs<'a>,
        proxies: Option<&'a mut Proxies>,
        gradient: &'a mut DeviceVec<f32>,
    ) -> Self {
        match (rule.operands(), proxies) {
            (Operands::RowsWithProxies, Some(proxies)) => Self {
                inputs: Inputs {
                    references: (&proxies.unit).into(),
                    tags: &proxies.tags,
                    ..rows
                },
                first: place.first,
                references: sizes.references(true),
                gradient,
                shared: Some(&mut proxies.gradient),
            },
            (Operands::ProxiesWithRows, Some(proxies)) => Self {
                inputs: Inputs {
                    anchors: &proxies.unit,
                    batch: &proxies.rows,
                    ..rows
                },
                first: 0,
                references: sizes.batch,
                gradient: &mut proxies.gradient,
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
struct Mining<'a> {
    engine: &'a Engine,
    sizes: &'a Sizes,
    rule: &'a MiningRule,
    drawn: &'a Drawn,
    place: Place<'a>,
    dim: usize,
    /// Offset of the histogram of pairs in the report, if pairs are counted.
    pairs: Option<usize>,
    /// Gradients of anchors are added to those that they have as references of blocks before.
    onto: bool,
    /// Row weights, or the boundary of the loss.
    given: Option<&'a DeviceVec<f32>>,
    pass: &'a mut MiningPass,
    report: &'a mut DeviceVec<u32>,
    compared: Compared<'a>,
}

impl<'a> Mining<'a> {
    /// Input of a round over these anchors.
    fn block_inputs(&self, anchor: usize, rows: usize) -> BlockInputs<'a> {
        BlockInputs {
            block: Block {
                first_row: anchor,
                rows,
                batch: self.compared.first + anchor,
                first_reference: 0,
                references: self.compared.references,
                stride: stride(self.dim),
            },
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
    async fn rounds(&mut self, slices: &mut Slices<'_>) -> Result<()> {
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
    async fn share_by_ranks(&mut self, slices: &mut Slices<'_>) -> Result<()> {
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
