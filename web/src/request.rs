//! Requests for data: where it comes from, and how it is read.

use nearfar::{Columns, Missing};
use web_sys::File;

use crate::offer::Offer;
use crate::words::sample_text;

/// A source of data.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Source {
    /// A sample, by its name.
    Sample(String),
    /// Files, and how they are read.
    Files(Vec<File>, Reading),
    /// An exported run, which is resumed once its data is there.
    Saved(File),
}

/// Choices by which files are read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Reading {
    /// Label column; guessed if `None`.
    pub(crate) label: Option<String>,
    /// Treatment of cells without a number.
    pub(crate) missing: Missing,
    /// Columns that are features, and those that settings name.
    pub(crate) columns: Columns,
    /// Pictures of the rows, which come with their files.
    pub(crate) pictures: Vec<File>,
}

/// A request for data that is not answered yet.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) source: Source,
    /// Settings of the link that asks for it, if a link does.
    pub(crate) sets: Option<Vec<String>>,
}

impl Source {
    /// Name of the source, as a person reads it.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Sample(name) => sample_text(name).to_owned(),
            Self::Files(files, _) => names(files),
            Self::Saved(file) => file.name(),
        }
    }
}

impl Reading {
    /// The choices by which the files of a run that can be resumed were read.
    pub(crate) fn of(offer: &Offer) -> Self {
        Self {
            label: offer.origin.labels.clone(),
            missing: offer.origin.missing,
            columns: offer.origin.columns.clone(),
            pictures: Vec::new(),
        }
    }
}

/// Names of files, with commas.
pub(crate) fn names(files: &[File]) -> String {
    let names: Vec<String> = files.iter().map(File::name).collect();
    names.join(", ")
}
