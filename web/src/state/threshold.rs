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
    /// The threshold was found, and a report on another one that the person chose is under way.
    Moved(Box<ThresholdReport>),
}

impl Shown {
    /// Takes in the result of a search: nothing if it was stopped, or what was found before.
    pub(crate) fn take(&mut self, found: Result<Option<Box<ThresholdReport>>, String>) {
        *self = match (found, std::mem::take(self)) {
            (Ok(Some(report)), _) | (Ok(None), Self::Moved(report)) => Self::Found(report),
            (Ok(None), _) => Self::Nothing,
            (Err(why), _) => Self::Refused(why),
        };
    }

    /// Keeps what was found while another report is under way.
    pub(crate) fn ask_more(&mut self) {
        *self = match std::mem::take(self) {
            Self::Found(report) => Self::Moved(report),
            other => other,
        };
    }

    /// What stays where no answer comes any more.
    pub(crate) fn settled(self) -> Self {
        match self {
            Self::Moved(report) => Self::Found(report),
            Self::Looking => Self::Nothing,
            other => other,
        }
    }

    /// The threshold that was found, if one was.
    pub(crate) fn report(&self) -> Option<&ThresholdReport> {
        match self {
            Self::Found(report) | Self::Moved(report) => Some(report),
            _ => None,
        }
    }
}
