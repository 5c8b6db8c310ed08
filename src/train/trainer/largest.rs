//! What would fit? For a run that is refused, the largest value of each setting with which it fits, all others as they are: by the plan.

use super::memory::Fit;
use super::setup::Setup;
use crate::base::error::{Error, Result};
use crate::base::plan::Room;
use crate::data::Dataset;
use crate::rules::config::TrainConfig;

/// Settings whose size a run's memory follows.
const SETTINGS: [&str; 3] = ["memory_size", "batch_size", "embedding_size"];

impl Setup {
    /// The plan that fits the room.
    ///
    /// # Errors
    /// As `Sizes::fit`; the refusal has the settings that fit.
    pub(super) fn fit(&self, room: &Room, dataset: &Dataset, config: &TrainConfig) -> Result<Fit> {
        self.sizes.fit(room, dataset).map_err(|mut refused| {
            if let Error::Refused { fits, .. } | Error::TooLarge { fits, .. } = &mut refused {
                *fits = self.largest(room, dataset, config);
            }
            refused
        })
    }

    /// Of a run that does not fit, each setting that helps with the largest value that fits; one that no value helps is left out.
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
                    .is_ok_and(|sizes| sizes.fit_in(room, dataset).is_ok())
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
