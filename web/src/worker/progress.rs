//! Progress of long work: what is told to the page, and when.

use std::cell::RefCell;
use std::sync::atomic::Ordering;

use nearfar::Working;
use web_time::{Duration, Instant};

use super::{Core, post};
use crate::files::Files;
use crate::protocol::{Event, Part};

/// Time between two messages on the progress of long work.
pub(super) const SAY_EVERY: Duration = Duration::from_millis(400);

/// Age of a progress message from which on it may be gone from the page.
const IS_STILL_SHOWN: Duration = Duration::from_secs(1);

impl Core {
    /// Listener that tells the page the progress of long work.
    pub(super) fn working(&self) -> impl Fn(Working) + use<> {
        let (scope, task) = (self.scope.clone(), RefCell::new(Task::default()));
        move |working| {
            if let Some(left_ms) = task.borrow_mut().is_worth_saying(&working) {
                post(&scope, &Event::Working { working, left_ms }, &[]);
            }
        }
    }

    /// Reads or writes files; the page hears of the progress, and can stop it.
    pub(super) async fn with_files<T>(&self, work: impl AsyncFnOnce(Files<'_>) -> T) -> T {
        let say = self.working();
        let goes_on = |working| {
            say(working);
            !self.stop.load(Ordering::Relaxed)
        };
        let scope = &self.scope;
        work(Files {
            scope,
            goes_on: &goes_on,
        })
        .await
    }
}

/// Long work of the engine, and what the page knows of it.
struct Task {
    what: String,
    done: u64,
    began: Instant,
    said: Instant,
    /// The page was told of it.
    is_shown: bool,
}

impl Default for Task {
    fn default() -> Self {
        let now = Instant::now();
        Self {
            what: String::new(),
            done: 0,
            began: now,
            said: now,
            is_shown: false,
        }
    }
}

impl Task {
    /// Estimated milliseconds left, if the page is to be told now. Work that is over at once is not worth a message, unless the
    /// page still shows the work before it.
    fn is_worth_saying(&mut self, working: &Working) -> Option<f64> {
        // Work may begin anew, as a second pass over the rows does.
        let mut is_due = self.said.elapsed() >= SAY_EVERY;
        if self.what != working.what || self.done > working.done {
            is_due = self.is_shown && self.said.elapsed() < IS_STILL_SHOWN;
            *self = Self {
                what: working.what.clone(),
                ..Self::default()
            };
        }
        self.done = working.done;
        if !is_due {
            return None;
        }
        (self.said, self.is_shown) = (Instant::now(), true);
        Some(Part::after(milliseconds(self.began), working.done, working.total).left_ms)
    }
}

/// Milliseconds since an instant.
pub(super) fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}
