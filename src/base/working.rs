//! [`Working`]: progress of long work that a person waits for. The engine that does the work reports it to its listener.

use std::cell::RefCell;
use std::fmt::{Debug, Display, Formatter};
use std::rc::Rc;

use serde::{Deserialize, Serialize};
use web_time::Duration;

/// Time for which rows are read on the host before the stop flag is checked: by time, as a slow disk reads few rows in it.
pub(crate) const BREATHE_EVERY: Duration = Duration::from_millis(50);

/// Progress of an engine's work other than training steps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Working {
    /// The work in words: "scoring the test rows: linear map".
    pub what: String,
    /// The unit that is counted: "queries".
    pub unit: String,
    /// Units that are done.
    pub done: u64,
    /// Units in all.
    pub total: u64,
}

impl Display for Working {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Self {
            what,
            unit,
            done,
            total,
        } = self;
        write!(f, "{what}: {done} of {total} {unit}")
    }
}

/// Receiver of progress; none by default.
#[derive(Clone, Default)]
pub(crate) struct Listener(Option<Rc<RefCell<Heard>>>);

type Heard = dyn FnMut(Working);

impl Listener {
    pub(crate) fn new(heard: impl FnMut(Working) + 'static) -> Self {
        Self(Some(Rc::new(RefCell::new(heard))))
    }

    pub(crate) fn tell(&self, task: &Task, done: u64) {
        self.hear(Working {
            what: task.what.clone(),
            unit: task.unit.to_owned(),
            done: done.min(task.total),
            total: task.total,
        });
    }

    pub(crate) fn hear(&self, working: Working) {
        if let Some(heard) = &self.0 {
            heard.borrow_mut()(working);
        }
    }
}

impl Debug for Listener {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Listener").field(&self.0.is_some()).finish()
    }
}

/// Work whose progress is reported.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) what: String,
    pub(crate) unit: &'static str,
    pub(crate) total: u64,
}
