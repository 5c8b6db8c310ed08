//! [`Error`]: every way the library says no.

use crate::ledger::{Bytes, OverBudget};

/// The result of everything that can be refused or fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something was refused or failed; the text says what, where, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The user's data cannot be used.
    #[error("{0}")]
    Data(String),
    /// A setting is unknown, out of range, or does not suit the data.
    #[error("{0}")]
    Config(String),
    /// The work does not fit the memory budget; nothing was started.
    #[error("{over}: {how}")]
    Refused {
        /// What was asked for and what is free.
        over: OverBudget,
        /// The change that would make it fit.
        how: String,
    },
    /// One buffer is larger than the device can bind; nothing was started.
    #[error("\"{label}\" needs {bytes}, this device binds at most {limit}: {how}")]
    TooLarge {
        /// The buffer.
        label: &'static str,
        /// Its size.
        bytes: Bytes,
        /// The device's limit.
        limit: Bytes,
        /// The change that would make it fit.
        how: String,
    },
    /// No adapter, a lost device, or an error the driver reported.
    #[error("{0}")]
    Device(String),
    /// Training met a value that is not finite; the weights of the step before are kept.
    #[error(
        "step {step}: the loss is not finite: lower `optimizer.lr` (now {lr}) or scale the features"
    )]
    NotFinite {
        /// The step whose loss or gradient was not finite.
        step: u64,
        /// The learning rate of the run.
        lr: f64,
    },
    /// A file could not be read or written.
    #[error("{what}: {source}")]
    Io {
        /// The file, and what was being done with it.
        what: String,
        /// The operating system's reason.
        source: std::io::Error,
    },
    /// The user asked to stop.
    #[error("stopped")]
    Stopped,
}

impl Error {
    /// The exit code of the command line: 2 when refused before starting, 1 when failed while running.
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::Data(_) | Self::Config(_) | Self::Refused { .. } | Self::TooLarge { .. } => 2,
            Self::Device(_) | Self::NotFinite { .. } | Self::Io { .. } | Self::Stopped => 1,
        }
    }
}
