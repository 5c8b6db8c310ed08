//! Saves a trainer, and restores it bit for bit.
//!
//! Everything that a later step, score or report depends on is saved; the rest is computed anew from data and settings (sides,
//! scaling, plans) or by the next step (activations, the slopes of pairs).

use serde::{Deserialize, Serialize};

use super::Trainer;
use super::baseline::Fitted;
use super::kept::KeptState;
use crate::base::error::{Error, Result};
use crate::engine::checkpoint::{ArrayReader, ArrayWriter, damaged};
use crate::engine::pace::Slices;
use crate::kernels::drift::Drift;
use crate::kernels::stride;
use crate::model::optimizer::HEAD;

const GRADIENT: &str = "train.gradient";
const DRIFT: [&str; 2] = ["train.drift", "train.drift_sums"];
/// Running means and variances, which no optimizer moves.
const RUNNING: &str = "model.running";
const SAMPLER: &str = "sampler";
const SEEN: &str = "classes_seen";

/// The part of a trainer that is no array.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Saved {
    pub(crate) step: u64,
    /// State of the batches' generator, in hexadecimal: JSON has no numbers of 128 bits.
    generator: String,
    next_id: u32,
    drifted: [f64; 2],
    by_hand: bool,
    linear: Fitted,
    #[serde(default)]
    kept: KeptState,
    /// Features of one unit are centred; runs of earlier versions leave them unscaled.
    #[serde(default)]
    pub(crate) centres: bool,
}

impl Trainer {
    /// Saves the state after the last step, and nothing of a later one.
    ///
    /// # Errors
    /// [`Error::Data`] if the last step broke off: the state is then of no step. [`Error::Device`]; [`Error::NoMemory`].
    pub(crate) async fn save(&self, arrays: &mut ArrayWriter) -> Result<Saved> {
        if !self.whole {
            return Err(Error::Data(format!(
                "step {} broke off: what there is now is of no step, and cannot be saved",
                self.step + 1
            )));
        }
        let (mut pace, train) = (self.pace, &self.train);
        let mut slices = Slices::unstopped(&self.engine, &mut pace);
        let parameters = self.model.parameter_count();
        let (weights, moments) = (self.model.padded(), &train.moments);
        HEAD.save(&mut slices, arrays, weights, moments, parameters)
            .await?;
        let state = self.model.state_count();
        if state > parameters {
            let count = (state - parameters) as u64;
            let values = self.engine.read(weights, parameters as u64, count).await?;
            arrays.array(RUNNING, &values)?;
        }
        // The next evaluation reports the length of this gradient.
        let gradient = &train.gradients.parameters;
        arrays
            .vector(GRADIENT, &mut slices, gradient, parameters)
            .await?;
        let kept = self.kept.save(&mut slices, arrays).await?;
        let stride = stride(self.model.embedding_size());
        let Drift { state, sums, .. } = &train.drift;
        arrays
            .vector(DRIFT[0], &mut slices, state, 2 * stride)
            .await?;
        arrays.vector(DRIFT[1], &mut slices, sums, 2).await?;
        if let Some(proxies) = &self.proxies {
            proxies.save(&mut slices, arrays).await?;
        }
        if let Some(boundary) = &train.boundary {
            boundary.save(&mut slices, arrays).await?;
        }
        let next_id = self.memory.save(&mut slices, stride, arrays).await?;
        let (generator, sampler) = self.setup.sampler.save();
        arrays.array(SAMPLER, &sampler)?;
        let seen: Vec<u8> = self.seen.iter().map(|seen| u8::from(*seen)).collect();
        arrays.array(SEEN, &seen)?;
        Ok(Saved {
            step: self.step,
            generator: format!("{generator:032x}"),
            next_id,
            drifted: self.drifted,
            by_hand: self.by_hand,
            linear: self.save_linear(arrays)?,
            kept,
            centres: self.centres,
        })
    }

    /// Restores running means and variances, if there are any.
    async fn restore_running(&mut self, arrays: &ArrayReader<'_>) -> Result<()> {
        let (learned, state) = (self.model.parameter_count(), self.model.state_count());
        if state == learned {
            return Ok(());
        }
        let values: Vec<f32> = arrays.exactly(RUNNING, state - learned)?;
        let weights = self.model.parameters_mut();
        self.engine.upload(weights, learned as u64, &values).await
    }

    /// Restores a saved state, in a trainer of the same data and settings that has done nothing yet.
    ///
    /// # Errors
    /// [`Error::Data`] if no run of these settings can have this state; [`Error::Device`].
    pub(crate) async fn restore(&mut self, saved: &Saved, arrays: &ArrayReader<'_>) -> Result<()> {
        let (step, next_id, kept) = (saved.step, saved.next_id, saved.kept);
        if step > self.config.steps {
            return Err(damaged(format_args!(
                "it is at step {step} of {}",
                self.config.steps
            )));
        }
        let generator = u128::from_str_radix(&saved.generator, 16).ok();
        let sampler: Vec<u32> = arrays.array(SAMPLER)?;
        generator
            .and_then(|generator| self.setup.sampler.restore(generator, &sampler))
            .ok_or_else(|| damaged("its sampler draws from other rows"))?;
        let engine = self.engine.clone();
        let parameters = self.model.parameter_count();
        let train = &mut self.train;
        let (weights, moments) = (self.model.parameters_mut(), &mut train.moments);
        HEAD.restore(&engine, arrays, weights, moments, parameters)
            .await?;
        self.restore_running(arrays).await?;
        let train = &mut self.train;
        let gradient = &mut train.gradients.parameters;
        arrays
            .vector(GRADIENT, &engine, gradient, parameters)
            .await?;
        self.kept.restore(&engine, arrays, kept).await?;
        let stride = stride(self.model.embedding_size());
        let drift = &mut train.drift;
        arrays
            .vector(DRIFT[0], &engine, &mut drift.state, 2 * stride)
            .await?;
        arrays.vector(DRIFT[1], &engine, &mut drift.sums, 2).await?;
        if let Some(proxies) = &mut self.proxies {
            proxies.restore(&engine, arrays).await?;
        }
        if let Some(boundary) = &mut train.boundary {
            boundary.restore(&engine, arrays).await?;
        }
        let sizes = &self.setup.sizes;
        // A memory begins with the first step that uses it.
        let capacity = match self.is_alone(step.saturating_sub(1)) {
            true => sizes.batch,
            false => self.config.memory(),
        };
        let batch = if step == 0 { 1 } else { sizes.batch };
        let labels = &self.dataset.labels;
        self.memory
            .restore(&engine, stride, arrays, next_id, capacity, batch, labels)
            .await?;
        let seen: Vec<u8> = arrays.exactly(SEEN, self.seen.len())?;
        self.seen = seen.iter().map(|seen| *seen != 0).collect();
        self.restore_linear(saved.linear, arrays).await?;
        (self.step, self.drifted, self.by_hand) = (step, saved.drifted, saved.by_hand);
        Ok(())
    }
}
