//! The samples, built in or made from a seed, and the settings to start from with each.

mod cells;
mod digits;
mod imagined;
mod large;
mod many_classes;
mod mirrored;
mod rotation;

#[cfg(not(target_arch = "wasm32"))]
use super::Choice;
use super::{Dataset, Labelled, NamedFile};
use crate::base::error::{Error, Result};
use crate::base::quote::quoted;
use crate::rules::config::TrainConfig;

/// The built-in samples, the default first.
pub const SAMPLES: [&str; 5] = ["mirrored", "many-classes", "digits", "cells", "large"];

impl Dataset {
    /// A built-in sample, by its name without `sample:`; or, by a name like `600000x128x1000`, data of so many rows, features and
    /// classes that is only imagined, for plans.
    ///
    /// # Errors
    /// [`Error::Config`] when there is no such sample; in a browser also for one that has a file, see [`Dataset::sample_file`].
    pub fn sample(name: &str, seed: u64) -> Result<Self> {
        match name {
            "mirrored" => Ok(mirrored::generate(seed)),
            "many-classes" => Ok(many_classes::generate(seed)),
            #[cfg(not(target_arch = "wasm32"))]
            "digits" => digits::read(include_bytes!("digits.npy")),
            #[cfg(not(target_arch = "wasm32"))]
            "cells" => {
                let file = cells::file(include_bytes!("cells.npz").to_vec());
                cells::of(Labelled::read(&file, None, Choice::default())?)
            }
            #[cfg(target_arch = "wasm32")]
            "digits" | "cells" => Err(Error::Config(format!(
                "sample:{name} has a file, which the page has to fetch"
            ))),
            "large" => Ok(large::generate(seed)),
            name => imagined::named(name).unwrap_or_else(|| {
                Err(Error::Config(format!(
                    "there is no sample {}: {}",
                    quoted(name),
                    SAMPLES.map(|name| format!("sample:{name}")).join(", ")
                )))
            }),
        }
    }

    /// The file of a sample that is too large to be part of a page, which fetches it when it is asked for.
    pub fn sample_file(name: &str) -> Option<&'static str> {
        match name {
            "digits" => Some(digits::FILE),
            "cells" => Some(cells::FILE),
            _ => None,
        }
    }

    /// A sample that has a file, from that file; `read` reads a file of labelled rows.
    ///
    /// # Errors
    /// [`Error::Data`] for bytes of another file; what `read` says.
    pub async fn sample_of(
        name: &str,
        file: Vec<u8>,
        read: impl AsyncFnOnce(NamedFile) -> Result<Labelled>,
    ) -> Result<Self> {
        match name {
            "digits" => digits::read(&file),
            _ => cells::of(read(cells::file(file)).await?),
        }
    }

    /// The settings to start from with data of this name.
    pub fn default_config_of(name: &str) -> TrainConfig {
        match name {
            mirrored::NAME => mirrored::config(),
            many_classes::NAME => many_classes::config(),
            digits::NAME => digits::config(),
            cells::NAME => cells::config(),
            large::NAME => large::config(),
            _ => TrainConfig::default(),
        }
    }
}
