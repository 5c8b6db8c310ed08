//! [`Error`]: every refusal and failure of the library.

use serde::{Deserialize, Serialize};

use crate::base::ledger::{Bytes, OverBudget};

/// The result of everything that can be refused or fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A refusal or a failure; the text says what, where, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The user's data cannot be used.
    #[error("{0}")]
    Data(String),
    /// Cells hold no number, and the person can choose how they are read: see [`crate::Missing`].
    #[error("{0}")]
    Cells(String),
    /// Rows have no label, and the person can have them left out: see [`crate::Missing`].
    #[error("{0}")]
    NoLabel(String),
    /// Numbers can be read in two ways, and the person can choose: see [`crate::Marks`].
    #[error("{0}")]
    TwoReadings(String),
    /// A setting is unknown, out of range, or does not suit the data.
    #[error("{0}")]
    Config(String),
    /// The work does not fit the memory budget; nothing was started.
    #[error("{over}: {how}{}", with(fits))]
    Refused {
        /// The bytes asked for and the bytes that are free.
        over: OverBudget,
        /// The change that would make it fit.
        how: String,
        /// Settings with the largest value that fits, each by itself, where the plan found some.
        fits: Vec<(&'static str, usize)>,
    },
    /// One buffer is larger than the device can bind; nothing was started.
    #[error(
        "\"{label}\" needs {}, this device binds at most {}: {how}{}",
        bytes.rounded_up(),
        limit.rounded_down(),
        with(fits)
    )]
    TooLarge {
        /// The buffer.
        label: &'static str,
        /// Its size.
        bytes: Bytes,
        /// The device's limit.
        limit: Bytes,
        /// The change that would make it fit.
        how: String,
        /// As of [`Error::Refused`].
        fits: Vec<(&'static str, usize)>,
    },
    /// The system refused memory that the budget allows; nothing was started.
    #[error(
        "{what} needs {}, and the system gives this process no more: lower the budget, use less data, or end other programs",
        bytes.rounded_up()
    )]
    NoMemory {
        /// The data or phase that needs the memory.
        what: String,
        /// The memory that was asked for.
        bytes: Bytes,
    },
    /// No adapter, a lost device, or an error the driver reported.
    #[error("{0}")]
    Device(String),
    /// An embedding or a gradient of a training step was not finite, and the weights of the step before are kept.
    #[error(
        "step {step}: an embedding or a gradient is not finite{}: lower `optimizer.lr` (now {lr}) or scale the features{}",
        if *halves { ", or a hidden activation is above 65504, the most that half precision holds" } else { "" },
        if *halves { ", or set activation_precision to f32" } else { "" }
    )]
    NotFinite {
        /// The step whose embeddings or gradients were not finite.
        step: u64,
        /// The learning rate of the run.
        lr: f64,
        /// Hidden activations were stored in half precision.
        halves: bool,
    },
    /// The embedding of a row has no direction: it is not finite, or of no length.
    #[error(
        "row {row}: its embedding {}: the head does not suit this row, or is damaged",
        if *zero { "is zero or too large to square" } else { "is not finite" }
    )]
    NoDirection {
        /// The row, counted from 1.
        row: u64,
        /// The embedding counts as zero: it is, or its length is not finite. Else it is not finite.
        zero: bool,
    },
    /// A file could not be read or written.
    #[error("{what}: {source}")]
    Io {
        /// The file and the action.
        what: String,
        /// The operating system's reason.
        source: std::io::Error,
    },
    /// The user asked to stop.
    #[error("stopped")]
    Stopped,
}

/// Choice of a person by which refused data can be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum Cure {
    /// No choice helps.
    #[default]
    Nothing,
    /// The treatment of cells without a number: see [`crate::Missing`].
    Missing,
    /// To leave out the rows without a label.
    DropRows,
    /// The marks in its numbers: see [`crate::Marks`].
    Marks,
}

/// The settings that fit, behind a refusal's advice.
fn with(fits: &[(&str, usize)]) -> String {
    let set: Vec<String> = fits
        .iter()
        .map(|(setting, value)| format!("{setting}={value}"))
        .collect();
    match set.is_empty() {
        true => String::new(),
        false => format!("; it fits with {}", set.join(", or with ")),
    }
}

impl Error {
    /// The refusal of data, with the choice by which it can be read.
    pub fn of_data(message: String, cure: Cure) -> Self {
        match cure {
            Cure::Nothing => Self::Data(message),
            Cure::Missing => Self::Cells(message),
            Cure::DropRows => Self::NoLabel(message),
            Cure::Marks => Self::TwoReadings(message),
        }
    }

    /// The choice by which the data can be read.
    pub fn cure(&self) -> Cure {
        match self {
            Self::Cells(_) => Cure::Missing,
            Self::NoLabel(_) => Cure::DropRows,
            Self::TwoReadings(_) => Cure::Marks,
            _ => Cure::Nothing,
        }
    }

    /// The exit code of the command line: 2 when refused before starting, 1 when failed while running, 130 when stopped
    /// by Ctrl-C.
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::Data(_)
            | Self::Cells(_)
            | Self::NoLabel(_)
            | Self::TwoReadings(_)
            | Self::Config(_)
            | Self::Refused { .. }
            | Self::TooLarge { .. }
            | Self::NoMemory { .. } => 2,
            Self::Device(_)
            | Self::NotFinite { .. }
            | Self::NoDirection { .. }
            | Self::Io { .. } => 1,
            Self::Stopped => 130,
        }
    }
}
