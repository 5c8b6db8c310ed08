//! The weights that did best on the validation rows: they are kept on the engine beside the weights in training, and the two are
//! swapped at the end of a run. With [`EarlyStop`](crate::rules::early_stop::EarlyStop) the proxies and the boundary are kept with them.

use serde::{Deserialize, Serialize};

use super::Trainer;
use super::sizes::Sizes;
use crate::base::error::Result;
use crate::base::ledger::Purpose;
use crate::base::plan::MemoryPlan;
use crate::engine::checkpoint::{ArrayReader, ArrayWriter};
use crate::engine::pace::Slices;
use crate::engine::{DeviceVec, Engine, Workspace};
use crate::model::boundary::Boundary;
use crate::model::proxies::ProxySpec;

/// Buffers of the head's weights, of the proxies, and of the boundary.
const BUFFERS: [&str; 3] = ["model.kept", "proxies.kept", "boundary.kept"];

/// The weights of an earlier step.
#[derive(Debug)]
pub(super) struct Kept {
    /// The groups of learned parameters that are kept, in the order of `BUFFERS`, each with the number of its floats; the head's are
    /// the first.
    groups: Vec<(&'static str, DeviceVec<f32>, usize)>,
    state: KeptState,
}

/// State of the kept weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KeptState {
    /// Step of the kept weights; `None` while none are kept.
    step: Option<u64>,
    /// The model has the kept weights now, and those of the last step are stored in their place.
    in_use: bool,
}

impl Sizes {
    /// Groups of learned parameters that are kept, with the number of their floats.
    fn kept(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let all = self.keeps_all;
        let proxies = self.proxies.as_ref().filter(|_| all);
        let boundary = self.boundary_lr.filter(|_| all);
        let floats = [
            Some(self.architecture.state()),
            proxies.map(ProxySpec::floats),
            boundary.map(|_| Boundary::FLOATS as u64),
        ];
        let named = BUFFERS.into_iter().zip(floats);
        named.filter_map(|(name, floats)| Some((name, floats?)))
    }
}

impl Kept {
    pub(super) fn plan(plan: MemoryPlan, sizes: &Sizes) -> MemoryPlan {
        sizes.kept().fold(plan, |plan, (name, floats)| {
            plan.with::<f32>(Purpose::Weights, name, floats)
        })
    }

    pub(super) fn new(workspace: &mut Workspace, sizes: &Sizes) -> Self {
        let groups = sizes.kept();
        Self {
            groups: groups
                .map(|(name, floats)| (name, workspace.take(name), floats as usize))
                .collect(),
            state: KeptState::default(),
        }
    }

    /// Saves the kept weights, if there are any.
    ///
    /// # Errors
    /// As [`ArrayWriter::vector`].
    pub(super) async fn save(
        &self,
        slices: &mut Slices<'_>,
        arrays: &mut ArrayWriter,
    ) -> Result<KeptState> {
        if self.state.step.is_some() {
            for (name, kept, floats) in &self.groups {
                arrays.vector(name, slices, kept, *floats).await?;
            }
        }
        Ok(self.state)
    }

    /// Replaces the kept weights by saved ones.
    ///
    /// # Errors
    /// As [`ArrayReader::vector`].
    pub(super) async fn restore(
        &mut self,
        engine: &Engine,
        arrays: &ArrayReader<'_>,
        state: KeptState,
    ) -> Result<()> {
        if state.step.is_some() {
            for (name, kept, floats) in &mut self.groups {
                arrays.vector(name, engine, kept, *floats).await?;
            }
        }
        self.state = state;
        Ok(())
    }
}

impl Trainer {
    /// Keeps the current weights, in place of those that were kept.
    pub(crate) fn keep_weights(&mut self) {
        let engine = self.engine.clone();
        let mut commands = engine.commands();
        for (now, kept, floats) in self.learned_and_kept() {
            commands.copy(now, 0, floats as u64, kept, 0);
        }
        engine.submit(commands);
        self.kept.state.step = Some(self.step);
    }

    /// Each group of learned parameters that is kept: as it is now, as it is kept, and the number of its floats.
    fn learned_and_kept(
        &mut self,
    ) -> impl Iterator<Item = (&mut DeviceVec<f32>, &mut DeviceVec<f32>, usize)> {
        let head = Some(self.model.parameters_mut());
        let proxies = self.proxies.as_mut();
        let boundary = self.train.boundary.as_mut();
        let mut learned = [
            head,
            proxies.map(|proxies| proxies.parameters_mut()),
            boundary.map(|boundary| &mut boundary.moved),
        ];
        self.kept
            .groups
            .iter_mut()
            .map(move |(name, kept, floats)| {
                let place = BUFFERS.iter().position(|buffer| buffer == name);
                let now = place.and_then(|place| learned[place].take());
                (now.expect("what is kept is learned"), kept, *floats)
            })
    }

    /// The step whose weights are kept.
    pub(crate) fn kept_step(&self) -> Option<u64> {
        self.kept.state.step
    }

    /// Tells if the model has the kept weights, not those of the last step.
    pub(crate) fn uses_kept(&self) -> bool {
        self.kept.state.in_use
    }

    /// Gives the model the kept weights if `kept`, else those of the last step.
    ///
    /// # Errors
    /// [`crate::Error::Device`].
    pub(crate) async fn use_kept(&mut self, kept: bool) -> Result<()> {
        if kept == self.uses_kept() {
            return Ok(());
        }
        let engine = self.engine.clone();
        for (learned, stored, floats) in self.learned_and_kept() {
            let now = engine.read(learned, 0, floats as u64).await?;
            let other = engine.read(stored, 0, floats as u64).await?;
            engine.upload(learned, 0, &other).await?;
            engine.upload(stored, 0, &now).await?;
        }
        self.kept.state.in_use = kept;
        Ok(())
    }
}
