//! [`History`]: the steps of a run as far as a plot can show them. A long run does not make the page slower.

use nearfar::StepReport;

/// Most reports that are kept: several for each pixel of a plot.
const MOST: usize = 4096;

/// Reports of a run's steps: every one at first; every second, fourth and so on as they become too many; and always the last.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    kept: Vec<StepReport>,
    last: Option<StepReport>,
    /// Steps whose number has this many trailing zero bits are kept.
    zeros: u32,
}

impl History {
    pub(crate) fn push(&mut self, report: StepReport) {
        if report.step.trailing_zeros() >= self.zeros {
            self.kept.push(report.clone());
        }
        self.last = Some(report);
        if self.kept.len() > MOST {
            self.zeros += 1;
            let zeros = self.zeros;
            self.kept
                .retain(|report| report.step.trailing_zeros() >= zeros);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    pub(crate) fn last(&self) -> Option<&StepReport> {
        self.last.as_ref()
    }

    /// The report of this step, or the last one before it.
    pub(crate) fn at(&self, step: f64) -> Option<&StepReport> {
        if let Some(last) = self.last().filter(|last| last.step as f64 <= step) {
            return Some(last);
        }
        let until = self
            .kept
            .partition_point(|report| report.step as f64 <= step);
        self.kept[..until].last()
    }

    /// Kept reports in order, and the last one.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &StepReport> {
        let newest = self.kept.last().map_or(0, |report| report.step);
        let last = self.last().filter(move |last| last.step > newest);
        self.kept.iter().chain(last)
    }
}
