//! The search for the threshold of a run.

use nearfar::ThresholdReport;

/// State of the search for the run's threshold.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Shown {
    /// No threshold was asked for.
    #[default]
    Nothing,
    /// The search is under way.
    Looking,
    /// There is no threshold, and why.
    Refused(String),
    /// The threshold was found.
    Found(Box<ThresholdReport>),
}

impl Shown {
    /// Result of a search; [`Shown::Nothing`] if it was stopped.
    pub(crate) fn of(found: Result<Option<Box<ThresholdReport>>, String>) -> Self {
        match found {
            Ok(Some(report)) => Self::Found(report),
            Ok(None) => Self::Nothing,
            Err(why) => Self::Refused(why),
        }
    }

    /// The threshold that was found, if one was.
    pub(crate) fn report(&self) -> Option<&ThresholdReport> {
        match self {
            Self::Found(report) => Some(report),
            _ => None,
        }
    }
}
