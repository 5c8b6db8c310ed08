//! Candidates of a search in limited time and memory: each is planned first, and one that does not fit is shrunk until it does.

use crate::base::error::{Error, Result};
use crate::base::forecast::Rate;
use crate::base::ledger::Bytes;
use crate::base::plan::Room;
use crate::compare::contest::{Contest, Entry};
use crate::compare::rungs;
use crate::data::Dataset;
use crate::rules::config::TrainConfig;
use crate::train::trainer::{Fits, Part, Trainer};

use super::{at_random, with_steps};

impl Contest {
    /// The contest within a room: candidates of a search are shrunk until they fit, and those that nothing helps are left out. A
    /// contest that is no search stays as it is.
    ///
    /// # Errors
    /// The first refusal if no candidate fits.
    pub fn within(mut self, room: &Room, dataset: &Dataset, rate: &Rate) -> Result<Self> {
        let Some(mut search) = self.search.take() else {
            return Ok(self);
        };
        let fits = Fits::new(
            room,
            dataset,
            &dataset.default_config().with_all(self.held().iter())?,
        )?;
        let (mut refused, mut kept) = (None, Vec::<Entry>::new());
        for Entry { name, config } in std::mem::take(&mut self.entries) {
            let found = fits.shrunk(&config).and_then(|(small, bytes)| {
                let cost = cost(room, dataset, rate, &small)?;
                Ok((small, bytes, cost))
            });
            match found {
                Ok((small, ..)) if kept.iter().any(|other| other.config == small) => {
                    let reason = "the settings of another candidate".to_owned();
                    search.left_out.push((name, reason));
                }
                Ok((small, bytes, cost)) => {
                    search.sizes.push((bytes, lowered(&config, &small)));
                    search.costs.push(cost);
                    kept.push(Entry {
                        name,
                        config: small,
                    });
                }
                Err(error) => {
                    search.left_out.push((name, error.to_string()));
                    refused.get_or_insert(error);
                }
            }
        }
        let Some(first) = kept.first() else {
            return Err(
                refused.unwrap_or_else(|| Error::Config("there is no candidate".to_owned()))
            );
        };
        self.base = match fits.shrunk(&at_random(&self.base)) {
            Ok((base, _)) => base,
            Err(_) => at_random(&first.config),
        };
        self.rungs = rungs::timed(kept.len());
        (self.entries, self.search) = (kept, Some(search));
        Ok(self)
    }

    /// The settings that all entries have in common, as `key=value`.
    fn held(&self) -> Vec<String> {
        let own = self.base.differences(&TrainConfig::default()).into_iter();
        let own = own.filter(|(key, _)| !Self::may_differ(key));
        own.map(|(key, value)| format!("{key}={value}")).collect()
    }

    /// Seconds that a search may take; `None` for a comparison that is none.
    pub fn seconds(&self) -> Option<u64> {
        self.search
            .as_ref()
            .map(|search| (search.limit_ms / 1e3) as u64)
    }

    /// Candidates that a search leaves out, each with the reason.
    pub fn left_out(&self) -> &[(String, String)] {
        self.search.as_ref().map_or(&[], |search| &search.left_out)
    }

    /// Device memory of an entry's run in a search, in bytes, and the settings that were lowered so that it fits, each with its value
    /// before. `None` for an entry that is none.
    pub fn size(&self, name: &str) -> Option<&(u64, Vec<String>)> {
        let place = self.entries.iter().position(|entry| entry.name == name)?;
        self.search.as_ref()?.sizes.get(place)
    }

    /// The largest memory, batch, embedding and hidden layers with which a run of these settings fits the room, each by itself: by the
    /// plan of the run. No memory and no batch has more rows than train.
    ///
    /// # Errors
    /// As [`Trainer::plan`] for settings that do not suit the data.
    pub fn largest(room: &Room, dataset: &Dataset, config: &TrainConfig) -> Result<Vec<Largest>> {
        Largest::all(room, dataset, config)
    }

    /// The settings of an entry, for a run of its own.
    pub fn settings_of(&self, name: &str) -> Option<TrainConfig> {
        let entry = self.entries.iter().find(|entry| entry.name == name)?;
        let mut config = entry.config.clone();
        config.data_seed = config.data_seed.filter(|seed| *seed != config.seed);
        Some(config)
    }
}

/// Predicted milliseconds of a run without steps, and of each step.
fn cost(room: &Room, dataset: &Dataset, rate: &Rate, config: &TrainConfig) -> Result<[f64; 2]> {
    let of = |steps: u64| {
        let config = with_steps(config, steps);
        Trainer::plan_part(room, dataset, &config, rate, Part::Training, None)
            .map(|forecast| forecast.predicted_ms)
    };
    let full = config.steps.max(2);
    let (one, all) = (of(1)?, of(full)?);
    let step = (all - one) / (full - 1) as f64;
    Ok([(one - step).max(0.0), step])
}

/// The settings that are smaller than they were, each as `key=value, not value`.
fn lowered(before: &TrainConfig, now: &TrainConfig) -> Vec<String> {
    let own = before.settings();
    let others = now.differences(before).into_iter();
    let said = others.filter_map(|(key, value)| {
        let was = own.iter().find(|(other, _)| *other == key)?;
        Some(format!("{key}={value}, not {}", was.1))
    });
    said.collect()
}

/// The largest value of a setting with which a run fits, all others as they are.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Largest {
    /// The setting.
    pub setting: &'static str,
    /// Its largest value.
    pub value: usize,
    /// All settings that come with it, `key=value` each: a memory holds a batch at least.
    pub sets: Vec<String>,
    /// Device memory of such a run, in bytes.
    pub memory_bytes: u64,
}

impl Largest {
    /// The settings and bytes in words.
    pub fn words(&self) -> String {
        format!(
            "{} ({})",
            self.sets.join(" "),
            Bytes(self.memory_bytes).rounded_up()
        )
    }

    fn all(room: &Room, dataset: &Dataset, config: &TrainConfig) -> Result<Vec<Self>> {
        let found = Fits::new(room, dataset, config)?.largest(config);
        let named = found.into_iter().map(|(setting, value, large, bytes)| {
            let sets = large.differences(config).into_iter();
            let mut sets: Vec<String> = sets.map(|(key, value)| format!("{key}={value}")).collect();
            if sets.is_empty() {
                let own = config.settings();
                let own = own.iter().find(|(key, _)| key == setting);
                sets.extend(own.map(|(key, value)| format!("{key}={value}")));
            }
            Self {
                setting,
                value,
                sets,
                memory_bytes: bytes,
            }
        });
        Ok(named.collect())
    }
}
