//! Progress with rate and time left, on standard error.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use nearfar::{Bytes, Engine, Working};

use super::note_line;

/// All bars, so that none is drawn over another.
static BARS: LazyLock<MultiProgress> = LazyLock::new(MultiProgress::new);
/// Interval between two lines if standard error is no terminal.
const SAY_EVERY: Duration = Duration::from_secs(2);
/// Time after which a task gets a bar.
const SHOW_AFTER: Duration = Duration::from_millis(500);

/// A bar if standard error is a terminal, else a line every two seconds; [`Progress::note`] prints a line in any case.
pub(super) struct Progress {
    bar: ProgressBar,
    /// Name of the task, unless it is plain from the command.
    what: Option<String>,
    unit: String,
    started: Instant,
    /// Count at the start.
    first: u64,
    said: Cell<Instant>,
    /// Bytes that are held on the device, in words.
    held: RefCell<String>,
}

impl Progress {
    /// A bar that counts to `total` of `unit`.
    pub(super) fn new(total: u64, unit: &str) -> Self {
        Self::of(None, total, unit)
    }

    fn of(what: Option<&str>, total: u64, unit: &str) -> Self {
        let bar = BARS.add(ProgressBar::new(total));
        let template = format!(
            "{{msg}}{{wide_bar}} {{pos}}/{{len}} {unit}, {{per_sec}}, {{eta}} left{{prefix}}"
        );
        if let Ok(style) = ProgressStyle::with_template(&template) {
            bar.set_style(style);
        }
        if let Some(what) = what {
            bar.set_message(format!("{what} "));
        }
        Self {
            bar,
            what: what.map(str::to_owned),
            unit: unit.to_owned(),
            started: Instant::now(),
            first: 0,
            said: Cell::new(Instant::now()),
            held: RefCell::default(),
        }
    }

    /// Starts at this count: the time of the earlier ones is not known.
    pub(super) fn after(mut self, first: u64) -> Self {
        self.first = first;
        self.bar.set_position(first);
        self.bar.reset_eta();
        self
    }

    /// Shows the bytes that are held on the device, of the budget.
    pub(super) fn hold(&self, engine: &Engine) {
        let (live, budget) = (engine.ledger().live_bytes(), engine.ledger().budget_bytes());
        let (live, budget) = (Bytes(live).rounded_up(), Bytes(budget).rounded_down());
        let held = format!(", {live} of {budget} held");
        self.bar.set_prefix(held.clone());
        self.held.replace(held);
    }

    pub(super) fn set(&self, done: u64) {
        self.bar.set_position(done);
        if self.bar.is_hidden() && self.said.get().elapsed() >= SAY_EVERY {
            let what = self.what.as_ref().map(|what| format!("{what}: "));
            let (total, unit) = (self.bar.length().unwrap_or(0), &self.unit);
            self.note(&format!(
                "{}{done} of {total} {unit}",
                what.unwrap_or_default()
            ));
        }
    }

    /// Prints a line above the bar, with rate and time left if there is no bar to show them.
    pub(super) fn note(&self, line: &str) {
        self.said.set(Instant::now());
        let (done, total) = (self.bar.position(), self.bar.length().unwrap_or(0));
        if self.bar.is_hidden() && done > self.first {
            let rate = (done - self.first) as f64 / self.started.elapsed().as_secs_f64();
            let left = (total - done) as f64 / rate;
            let held = self.held.borrow();
            note_line(format_args!("{line}  {rate:.0}/s, {left:.0} s left{held}"));
        } else {
            self.say(line);
        }
    }

    /// Prints a line above the bar.
    pub(super) fn say(&self, line: &str) {
        BARS.suspend(|| note_line(line));
    }

    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Long tasks of an engine, one after the other: each has a bar while it lasts.
#[derive(Clone, Default)]
pub(super) struct Tasks(Rc<RefCell<Option<Task>>>);

struct Task {
    what: String,
    done: u64,
    started: Instant,
    progress: Option<Progress>,
}

impl Tasks {
    pub(super) fn hear(&self, working: &Working) {
        let mut task = self.0.borrow_mut();
        // A task may begin anew: some data is read twice.
        let is_another = |task: &Task| task.what != working.what || task.done > working.done;
        if task.as_ref().is_none_or(is_another) {
            end(task.take());
        }
        let task = task.get_or_insert_with(|| Task {
            what: working.what.clone(),
            done: 0,
            started: Instant::now(),
            progress: None,
        });
        task.done = working.done;
        if task.started.elapsed() >= SHOW_AFTER {
            let Working {
                what, unit, total, ..
            } = working;
            let begun = || Progress {
                started: task.started,
                said: Cell::new(task.started),
                ..Progress::of(Some(what), *total, unit)
            };
            task.progress.get_or_insert_with(begun).set(working.done);
        }
    }

    /// Ends the task.
    pub(super) fn finish(&self) {
        end(self.0.borrow_mut().take());
    }
}

fn end(task: Option<Task>) {
    if let Some(progress) = task.and_then(|task| task.progress) {
        progress.finish();
    }
}
