//! Progress with rate and time left, on standard error.

use std::time::Instant;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::note_line;

/// A bar where standard error is a terminal; [`Progress::note`] prints a line in any case.
pub(super) struct Progress {
    bar: ProgressBar,
    started: Instant,
}

impl Progress {
    /// Counts to `total` of `unit`.
    pub(super) fn new(total: u64, unit: &str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
        let template = format!("{{wide_bar}} {{pos}}/{{len}} {unit}, {{per_sec}}, {{eta}} left");
        if let Ok(style) = ProgressStyle::with_template(&template) {
            bar.set_style(style);
        }
        Self {
            bar,
            started: Instant::now(),
        }
    }

    pub(super) fn set(&self, done: u64) {
        self.bar.set_position(done);
    }

    /// Prints a line above the bar, with rate and time left where there is no bar to show them.
    pub(super) fn note(&self, line: &str) {
        let (done, total) = (self.bar.position(), self.bar.length().unwrap_or(0));
        if self.bar.is_hidden() && done > 0 {
            let rate = done as f64 / self.started.elapsed().as_secs_f64();
            let left = (total - done) as f64 / rate;
            note_line(format_args!("{line}  {rate:.0}/s, {left:.0} s left"));
        } else {
            self.bar.suspend(|| note_line(line));
        }
    }

    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
