//! What would fit? For a run that is refused, the largest value of each setting with which it fits, all others as they are: by the plan.

use super::Trainer;
use super::memory::Fit;
use super::setup::Setup;
use crate::base::error::{Error, Result};
use crate::base::plan::Room;
use crate::data::Dataset;
use crate::rules::config::TrainConfig;

/// Settings whose size a run's memory follows.
const SETTINGS: [&str; 3] = ["memory_size", "batch_size", "embedding_size"];

impl Trainer {
    /// Settings whose size makes this run too large for the room, each with the largest value that fits beside all others as they are.
    /// A setting that no value helps is left out; of a run that fits, all are.
    pub fn largest(
        room: &Room,
        dataset: &Dataset,
        config: &TrainConfig,
    ) -> Vec<(&'static str, usize)> {
        let Ok(setup) = Setup::new(dataset, config) else {
            return Vec::new();
        };
        match setup.sizes.fit(room, dataset) {
            Ok(_) => Vec::new(),
            Err(_) => setup.largest(room, dataset, config),
        }
    }
}

impl Setup {
    /// The plan that fits the room.
    ///
    /// # Errors
    /// As `Sizes::fit`; the refusal names the largest values that fit.
    pub(super) fn fit(&self, room: &Room, dataset: &Dataset, config: &TrainConfig) -> Result<Fit> {
        self.sizes.fit(room, dataset).map_err(|mut refused| {
            let fits = self.largest(room, dataset, config);
            if let Error::Refused { how, .. } | Error::TooLarge { how, .. } = &mut refused
                && !fits.is_empty()
            {
                let set = fits.iter().map(|(name, value)| format!("{name}={value}"));
                let set: Vec<String> = set.collect();
                how.push_str(&format!("; it fits with {}", set.join(", or with ")));
            }
            refused
        })
    }

    /// Of a run that does not fit, as [`Trainer::largest`].
    fn largest(
        &self,
        room: &Room,
        dataset: &Dataset,
        config: &TrainConfig,
    ) -> Vec<(&'static str, usize)> {
        let fits = |name: &str, value: usize| {
            let config = config.with_set(&format!("{name}={value}"));
            config.is_ok_and(|config| {
                self.sizes_with(dataset, &config)
                    .is_ok_and(|sizes| sizes.fits(room, dataset))
            })
        };
        let of = |name: &'static str| {
            let (least, now) = match name {
                "memory_size" => (config.batch_size, config.memory()),
                "batch_size" => (2, config.batch_size),
                _ => (2, config.embedding_size),
            };
            if least >= now || !fits(name, least) {
                return None;
            }
            let (mut fit, mut large) = (least, now);
            while fit + 1 < large {
                let middle = fit.midpoint(large);
                match fits(name, middle) {
                    true => fit = middle,
                    false => large = middle,
                }
            }
            Some((name, fit))
        };
        SETTINGS.into_iter().filter_map(of).collect()
    }
}
