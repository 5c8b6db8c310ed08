//! What would fit? The largest value of each setting with which a run fits, all others as they are: by the plan. For a run that is
//! refused, and for a search of settings ([`Fits`]).

use super::memory::Fit;
use super::setup::Setup;
use crate::base::error::{Error, Result};
use crate::base::plan::Room;
use crate::data::Dataset;
use crate::rules::config::{InitialWeights, TrainConfig};

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
            let fit = greatest(least, now, |value| fits(name, value));
            fit.map(|fit| (name, fit))
        };
        SETTINGS.into_iter().filter_map(of).collect()
    }
}

/// The greatest of the values from `least` on, below `end`, that fits, if those that fit come before those that do not; `None` if
/// the least does not fit. The one that is returned was tried.
fn greatest(least: usize, end: usize, fits: impl Fn(usize) -> bool) -> Option<usize> {
    if least >= end || !fits(least) {
        return None;
    }
    let (mut fit, mut large) = (least, end);
    while fit + 1 < large {
        let middle = fit.midpoint(large);
        match fits(middle) {
            true => fit = middle,
            false => large = middle,
        }
    }
    Some(fit)
}

/// The fewest rows of a batch to which settings are shrunk.
const LEAST_BATCH: usize = 8;
/// Widest layer of a head, and the most rows of a batch and of a memory.
const MOST_WIDTH: usize = 1 << 16;
const MOST_BATCH: usize = 1 << 15;
const MOST_MEMORY: usize = 1 << 24;

/// Runs on the sides of one data set, in one room: those that would start.
pub(crate) struct Fits<'a> {
    room: Room,
    dataset: &'a Dataset,
    setup: Setup,
}

impl<'a> Fits<'a> {
    /// The sides are those of these settings, which may not fit.
    ///
    /// # Errors
    /// [`Error::Config`] for settings that do not suit the data.
    pub(crate) fn new(room: &Room, dataset: &'a Dataset, config: &TrainConfig) -> Result<Self> {
        Ok(Self {
            room: *room,
            dataset,
            setup: Setup::new(dataset, config)?,
        })
    }

    /// Device memory of a run, in bytes.
    ///
    /// # Errors
    /// As [`Trainer::new`](super::Trainer::new).
    fn bytes(&self, config: &TrainConfig) -> Result<u64> {
        let sizes = self.setup.sizes_with(self.dataset, config)?;
        let fit = sizes.fit_in(&self.room, self.dataset)?;
        match fit.linear {
            Err(unfit) if config.initial_weights == InitialWeights::Lda => {
                Err(Error::Config(super::baseline::no_start(&unfit)))
            }
            _ => Ok(fit.plan.total_bytes()),
        }
    }

    fn fits(&self, config: &TrainConfig) -> bool {
        self.bytes(config).is_ok()
    }

    /// The settings, and the bytes of their run, if they fit; else with as large a memory as fits, or else with as large a batch, and
    /// a memory of no more rows.
    ///
    /// # Errors
    /// The refusal of a run that no memory and no batch helps, with the budget that would do.
    pub(crate) fn shrunk(&self, config: &TrainConfig) -> Result<(TrainConfig, u64)> {
        let refused = match self.bytes(config) {
            Ok(bytes) => return Ok((config.clone(), bytes)),
            Err(refused) => refused,
        };
        let with_memory = |rows: usize| TrainConfig {
            memory_size: rows,
            ..config.clone()
        };
        let memory = greatest(config.batch_size, config.memory(), |rows| {
            self.fits(&with_memory(rows))
        });
        let unit = unit(config);
        let least = LEAST_BATCH.div_ceil(unit).max(2);
        let with_batch = |units: usize| TrainConfig {
            memory_size: match config.memory() {
                0 => config.memory_size,
                rows => rows.min(units * unit),
            },
            batch_size: units * unit,
            ..config.clone()
        };
        let batch = || {
            let end = config.batch_size.div_ceil(unit);
            greatest(least, end, |units| self.fits(&with_batch(units)))
        };
        let small = memory.map(with_memory).or_else(|| batch().map(with_batch));
        match small {
            Some(small) => self.bytes(&small).map(|bytes| (small, bytes)),
            None => match self.setup.sizes_with(self.dataset, config) {
                Ok(sizes) => Err(sizes.fit(&self.room, self.dataset).err().unwrap_or(refused)),
                Err(error) => Err(error),
            },
        }
    }

    /// Of a run that fits, each setting that its memory follows with its largest value that fits, the settings with that value, and
    /// the bytes of their run. A larger batch has a larger memory where it must; no batch and no memory has more rows than train.
    pub(crate) fn largest(
        &self,
        config: &TrainConfig,
    ) -> Vec<(&'static str, usize, TrainConfig, u64)> {
        let train = self.setup.sides.train.len();
        let (unit, own) = (unit(config), config.clone());
        let with = |setting: &str, value: usize| {
            let mut large = own.clone();
            match setting {
                "memory_size" => large.memory_size = value,
                "batch_size" => {
                    large.batch_size = value * unit;
                    if own.memory() > 0 {
                        large.memory_size = own.memory_size.max(large.batch_size);
                    }
                }
                "embedding_size" => large.embedding_size = value,
                _ => large.hidden_layers.fill(value),
            }
            large
        };
        let narrow = config.hidden_layers.iter().min().copied().unwrap_or(0);
        let ranges = [
            ("memory_size", config.memory(), train.min(MOST_MEMORY)),
            (
                "batch_size",
                config.batch_size / unit,
                train.min(MOST_BATCH) / unit,
            ),
            ("embedding_size", config.embedding_size, MOST_WIDTH),
            ("hidden_layers", narrow, MOST_WIDTH),
        ];
        let found = ranges.into_iter().filter(|(_, now, _)| *now > 0);
        let found = found.filter_map(|(setting, now, most)| {
            let value = greatest(now, now.max(most) + 1, |value| {
                self.fits(&with(setting, value))
            })?;
            let large = with(setting, value);
            let bytes = self.bytes(&large).ok()?;
            let value = if setting == "batch_size" {
                value * unit
            } else {
                value
            };
            Some((setting, value, large, bytes))
        });
        found.collect()
    }
}

/// Rows by which a batch can grow: those of a class, if the sampler draws a number of each.
fn unit(config: &TrainConfig) -> usize {
    config.sampler.rows_of_class().unwrap_or(1)
}
