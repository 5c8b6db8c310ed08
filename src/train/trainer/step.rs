//! The kernels of a step, recorded in their order: they embed the batch and store it, compute its row weights if a miner weighs
//! rows, mine, compute the gradient of the loss, and update the weights.

use std::ops::Range;

use super::Trainer;
use super::drawn::Drawn;
use super::memory::TrainBuffers;
use super::mined::{Compared, Mining, Place, block_of};
use super::setup::STEP_DISPATCHES;
use super::truncated::{scale_and_divisor, view_of};
use crate::base::error::Result;
use crate::base::rng;
use crate::engine::Commands;
use crate::engine::pace::Slices;
use crate::kernels::tile::Shape;
use crate::kernels::{drift, normalize, optimizer, stride};
use crate::mining::row_pass::BlockInputs;
use crate::model::optimizer::Rule;
use crate::rules::mining_rule::Operands;

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
            report_first: i * sizes.step_words(),
            key: rng::key(self.config.seed, "draws", step),
            level: None,
        };
        self.embed_and_store(slices, place, drawn).await?;
        if self.train.truncated.is_some() {
            self.mine_levels(slices, place, drawn, last).await?;
        } else {
            self.weigh_rows(slices, place, drawn).await?;
            self.mine(slices, place, drawn, last).await?;
        }
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
                &mut train.gradients,
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
        let sizes = &self.setup.sizes;
        STEP_DISPATCHES + sizes.architecture.dispatches() + sizes.casts()
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
    pub(super) async fn weigh_rows(
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
        let view = view_of(
            place,
            self.model.embedding_size(),
            &train.embedded,
            &mut train.gradient,
            &mut train.truncated,
            &self.memory,
            drawn.alone,
            None,
        );
        let inputs = view.inputs(&train.batch, &self.memory.bank.tags);
        let count = sizes.batch;
        let (most, references) = match self.rule.operands() {
            Operands::Rows => (sizes.blocks(drawn.alone).rows, drawn.references),
            Operands::RowsWithProxies | Operands::ProxiesWithRows => (count, count),
        };
        for anchor in (0..count).step_by(most) {
            let rows = most.min(count - anchor);
            let block_inputs = BlockInputs {
                block: block_of(place.first, anchor, rows, references, view.dim),
                shape: Shape::of(self.engine.info(), rows),
                inputs,
                anchor,
                anchors: count,
                positives: drawn.positives,
                dim: view.dim,
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
    pub(super) async fn mine(
        &mut self,
        slices: &mut Slices<'_>,
        place: Place<'_>,
        drawn: &Drawn,
        last: bool,
    ) -> Result<()> {
        let sizes = &self.setup.sizes;
        let onto = sizes.shares_by_blocks(&self.rule, drawn.alone);
        let TrainBuffers {
            embedded,
            batch,
            mining,
            gradient,
            report,
            row_weights,
            boundary,
            truncated,
            ..
        } = &mut self.train;
        let view = view_of(
            place,
            self.model.embedding_size(),
            embedded,
            gradient,
            truncated,
            &self.memory,
            drawn.alone,
            self.proxies.as_mut(),
        );
        if onto {
            let zeros = vec![0.0; sizes.batch * stride(view.dim)];
            slices.upload(view.gradient, 0, &zeros).await?;
        }
        let rows = view.inputs(batch, &self.memory.bank.tags);
        let weights = row_weights.as_ref().map(|weights| &weights.weights);
        let moved = boundary.as_ref().map(|boundary| &boundary.moved);
        let mut mining = Mining {
            engine: &self.engine,
            sizes,
            rule: &self.rule,
            drawn,
            place,
            dim: view.dim,
            pairs: last.then_some(sizes.step_words()),
            onto,
            given: weights.or(moved),
            pass: mining,
            report,
            compared: Compared::of(&self.rule, sizes, place, drawn, rows, view),
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
                    &mut self.train.gradients,
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
        // The gradients of truncated rows are divided already.
        let (scale, divisor) = match train.truncated {
            Some(_) => (0.0, Some(1.0)),
            None => scale_and_divisor(&self.rule, drawn.alone),
        };
        let centered = !drawn.alone && self.config.center_gradient;
        normalize::backward(
            commands,
            count,
            stride,
            &train.embedded.unit,
            &train.embedded.norms,
            &mut train.gradient,
            scale,
            divisor,
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
        if let Some(boundary) = &mut boundary
            && train.truncated.is_none()
        {
            boundary.backward(commands, 1.0, false, report_first, report);
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
