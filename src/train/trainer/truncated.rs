//! [`Truncated`]: rows of a step truncated to one size after the other, each with a loss of its own (Matryoshka learning, Kusupati et
//! al. 2022): the batch, the memory and the proxies. Their gradients are added up in those of the whole rows.

use super::Trainer;
use super::drawn::Drawn;
use super::mined::{Place, ProxyView, View};
use super::setup::STEP_DISPATCHES;
use super::sizes::Sizes;
use crate::base::error::Result;
use crate::base::ledger::Purpose;
use crate::base::plan::MemoryPlan;
use crate::engine::pace::Slices;
use crate::engine::{Commands, DeviceVec, Workspace};
use crate::kernels::stored::{Precision, Stored, StoredRows};
use crate::kernels::truncate::{self, Truncation};
use crate::kernels::{normalize, stride};
use crate::model::cross_batch_memory::CrossBatchMemory;
use crate::model::embedding_model::Embedded;
use crate::model::proxies::{Proxies, ProxySpec};
use crate::rules::config::Level;
use crate::rules::mining_rule::MiningRule;

const BATCH: [&str; 3] = ["truncated.unit", "truncated.norms", "truncated.gradient"];
const PROXIES: [&str; 3] = [
    "truncated.proxies",
    "truncated.proxy_norms",
    "truncated.proxy_gradient",
];
const MEMORY: &str = "truncated.memory";

/// Truncated rows of a step; buffers are as large as the largest size needs.
#[derive(Debug)]
pub(super) struct Truncated {
    batch: Rows,
    proxies: Option<Rows>,
    /// Stored rows, if a size is below the whole one, in the precision of the memory.
    memory: Option<StoredRows>,
}

/// Truncated rows at unit length, their lengths before, and the gradient with respect to them.
#[derive(Debug)]
struct Rows {
    unit: DeviceVec<f32>,
    norms: DeviceVec<f32>,
    gradient: DeviceVec<f32>,
}

impl Rows {
    fn plan(plan: MemoryPlan, labels: [&'static str; 3], rows: usize, stride: usize) -> MemoryPlan {
        let (count, floats) = (rows as u64, rows as u64 * stride as u64);
        let [unit, norms, gradient] = labels;
        plan.with::<f32>(Purpose::Activations, unit, floats)
            .with::<f32>(Purpose::Activations, norms, count)
            .with::<f32>(Purpose::Gradients, gradient, floats)
    }

    fn new(workspace: &mut Workspace, labels: [&str; 3]) -> Self {
        let [unit, norms, gradient] = labels;
        Self {
            unit: workspace.take(unit),
            norms: workspace.take(norms),
            gradient: workspace.take(gradient),
        }
    }

    /// Truncates rows of unit length.
    fn bring(&mut self, commands: &mut Commands, sizes: &Truncation, unit: &DeviceVec<f32>) {
        truncate::truncate(commands, sizes, unit, &mut self.unit, &mut self.norms);
    }

    /// Adds the gradient to that of the whole rows, or writes it there.
    #[expect(clippy::too_many_arguments, reason = "what a gradient passes through")]
    fn widen(
        &mut self,
        commands: &mut Commands,
        sizes: &Truncation,
        level: Level,
        (scale, divisor): (f32, Option<f32>),
        report_first: usize,
        report: &mut DeviceVec<u32>,
        onto: bool,
        whole: &mut DeviceVec<f32>,
    ) {
        let (unit, norms, gradient) = (&self.unit, &self.norms, &mut self.gradient);
        let (count, stride) = (sizes.rows, stride(level.dim));
        normalize::backward(
            commands,
            count,
            stride,
            unit,
            norms,
            gradient,
            scale,
            divisor,
            None,
            report_first,
            report,
        );
        truncate::widen(commands, sizes, gradient, level.weight, onto, whole);
    }
}

impl Truncated {
    /// Adds the buffers to a plan, if sizes have losses of their own.
    pub(super) fn plan(plan: MemoryPlan, sizes: &Sizes) -> MemoryPlan {
        if sizes.levels.is_empty() {
            return plan;
        }
        let mut plan = Rows::plan(plan, BATCH, sizes.batch, sizes.stride());
        if let Some(proxies) = sizes.proxies.as_ref().map(ProxySpec::count) {
            plan = Rows::plan(plan, PROXIES, proxies, sizes.stride());
        }
        let Some(dim) = Self::stored(sizes) else {
            return plan;
        };
        let floats = sizes.memory as u64 * stride(dim) as u64;
        match sizes.precision {
            Precision::F32 => plan.with::<f32>(Purpose::MemoryBank, MEMORY, floats),
            Precision::F16 => plan.with::<u32>(Purpose::MemoryBank, MEMORY, floats / 2),
        }
    }

    /// The largest size below the whole one of a run with a memory: rows are stored whole, and truncated for each loss.
    fn stored(sizes: &Sizes) -> Option<usize> {
        let below = sizes.levels.get(1).map(|level| level.dim);
        below.filter(|_| sizes.with_memory.is_some())
    }

    /// Takes the buffers of [`Truncated::plan`].
    pub(super) fn new(workspace: &mut Workspace, sizes: &Sizes) -> Option<Self> {
        (!sizes.levels.is_empty()).then(|| Self {
            batch: Rows::new(workspace, BATCH),
            proxies: sizes
                .proxies
                .is_some()
                .then(|| Rows::new(workspace, PROXIES)),
            memory: Self::stored(sizes)
                .map(|_| StoredRows::take(workspace, sizes.precision, MEMORY)),
        })
    }

    /// Rows of this size: those of the batch are references of each other if they are `alone`. Rows have `whole` numbers before they
    /// are truncated, and `stored` are those of the memory.
    pub(super) fn view<'a>(
        &'a mut self,
        level: Level,
        whole: usize,
        stored: Stored<'a>,
        alone: bool,
        proxies: Option<&'a Proxies>,
    ) -> View<'a> {
        let references = match &self.memory {
            _ if alone => Stored::F32(&self.batch.unit),
            Some(rows) if level.dim < whole => rows.read(),
            _ => stored,
        };
        let own = self.proxies.as_mut().zip(proxies);
        View {
            dim: level.dim,
            unit: &self.batch.unit,
            gradient: &mut self.batch.gradient,
            references,
            proxies: own.map(|(own, proxies)| ProxyView {
                unit: &own.unit,
                gradient: &mut own.gradient,
                rows: &proxies.rows,
                tags: &proxies.tags,
            }),
        }
    }
}

/// Factor of `<gradient, unit>` in the term of a row, and divisor of the gradient if it is not the number of active triplets.
pub(super) fn scale_and_divisor(rule: &MiningRule, alone: bool) -> (f32, Option<f32>) {
    // By rows the terms are losses already.
    let scale = match rule {
        MiningRule::Ranks(rule) => rule.scale(alone),
        MiningRule::Rows(_) => 0.0,
    };
    // The slopes of pairs are divided already.
    (scale, rule.pairs().map(|_| 1.0))
}

/// Rows that a loss compares: whole ones, of `whole` numbers, or those of the place's size. The rows of the batch are references of each
/// other if they are `alone`.
#[expect(
    clippy::too_many_arguments,
    reason = "parts of the buffers, so that others stay free"
)]
pub(super) fn view_of<'a>(
    place: Place<'_>,
    whole: usize,
    embedded: &'a Embedded,
    gradient: &'a mut DeviceVec<f32>,
    truncated: &'a mut Option<Truncated>,
    memory: &'a CrossBatchMemory,
    alone: bool,
    proxies: Option<&'a mut Proxies>,
) -> View<'a> {
    let stored = memory.references(alone, &embedded.unit);
    match (place.level, truncated) {
        (Some(level), Some(truncated)) => {
            let proxies = proxies.map(|proxies| &*proxies);
            truncated.view(level, whole, stored, alone, proxies)
        }
        _ => View {
            dim: whole,
            unit: &embedded.unit,
            gradient,
            references: stored,
            proxies: proxies.map(ProxyView::from),
        },
    }
}

impl Trainer {
    /// Runs miner and loss over rows of every size, and adds up their gradients with respect to whole rows of unit length. Pairs are
    /// counted of whole rows.
    pub(super) async fn mine_levels(
        &mut self,
        slices: &mut Slices<'_>,
        place: Place<'_>,
        drawn: &Drawn,
        last: bool,
    ) -> Result<()> {
        let (levels, words) = (
            self.setup.sizes.levels.clone(),
            self.setup.sizes.report_words(),
        );
        for (i, level) in levels.into_iter().enumerate() {
            let place = place.of(i, level, words);
            self.truncate(slices, level, drawn).await?;
            self.weigh_rows(slices, place, drawn).await?;
            self.mine(slices, place, drawn, last && i == 0).await?;
            self.widen(slices, place, level, drawn, i > 0).await?;
        }
        Ok(())
    }

    /// Truncates the batch, the memory and the proxies to a size.
    async fn truncate(
        &mut self,
        slices: &mut Slices<'_>,
        level: Level,
        drawn: &Drawn,
    ) -> Result<()> {
        slices.reserve(STEP_DISPATCHES).await?;
        let whole = self.model.embedding_size();
        let Some(Truncated {
            batch,
            proxies,
            memory,
        }) = &mut self.train.truncated
        else {
            return Ok(());
        };
        let of = |rows: usize| Truncation {
            rows,
            whole,
            dim: level.dim,
        };
        let commands = slices.commands();
        batch.bring(
            commands,
            &of(self.setup.sizes.batch),
            &self.train.embedded.unit,
        );
        if let (Some(own), Some(proxies)) = (proxies, &self.proxies) {
            own.bring(commands, &of(proxies.count()), &proxies.unit);
        }
        let Some(truncated) = memory
            .as_mut()
            .filter(|_| !drawn.alone && level.dim < whole)
        else {
            return Ok(());
        };
        let stored = self.memory.bank.rows.read();
        let sizes = of(drawn.references);
        truncate::truncate_stored(commands, &sizes, stored, truncated, &mut batch.norms);
        let operations = 4.0 * (drawn.references * level.dim) as f64;
        slices.recorded(operations).await
    }

    /// Adds the gradients of rows of a size to those of whole rows, or writes them there; and that of the boundary.
    async fn widen(
        &mut self,
        slices: &mut Slices<'_>,
        place: Place<'_>,
        level: Level,
        drawn: &Drawn,
        onto: bool,
    ) -> Result<()> {
        slices.reserve(STEP_DISPATCHES).await?;
        let (whole, first) = (self.model.embedding_size(), place.report_first);
        let train = &mut self.train;
        let Some(truncated) = &mut train.truncated else {
            return Ok(());
        };
        let of = |rows: usize| Truncation {
            rows,
            whole,
            dim: level.dim,
        };
        let (commands, report) = (slices.commands(), &mut train.report);
        let scale = scale_and_divisor(&self.rule, drawn.alone);
        let batch = of(self.setup.sizes.batch);
        let gradient = &mut train.gradient;
        truncated.batch.widen(
            commands, &batch, level, scale, first, report, onto, gradient,
        );
        if let (Some(own), Some(proxies)) = (&mut truncated.proxies, &mut self.proxies) {
            let (all, gradient) = (of(proxies.count()), &mut proxies.gradient);
            let scale = (0.0, Some(1.0));
            own.widen(commands, &all, level, scale, first, report, onto, gradient);
        }
        if let Some(boundary) = &mut train.boundary {
            boundary.backward(commands, level.weight, onto, first, report);
        }
        Ok(())
    }
}
