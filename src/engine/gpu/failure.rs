//! Errors of a device in words: the driver's, the kernel that was running, its buffers with their bytes, and what the ledger holds.

use std::cell::Cell;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard};

use super::vec::Binding;
use super::{Gpu, Kernel};
use crate::base::error::{Error, Result};
use crate::base::ledger::{Bytes, MemoryLedger};

/// A kernel, and the labels and bytes of its buffers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    kernel: &'static str,
    buffers: [Option<(&'static str, u64)>; super::kernel::MAX_BINDINGS],
}

impl Sent {
    pub(super) fn new(kernel: &Kernel, bindings: &[Binding<'_>]) -> Self {
        let mut buffers = [None; _];
        for (buffer, binding) in buffers.iter_mut().zip(bindings) {
            *buffer = Some((binding.label, binding.buffer.size()));
        }
        let kernel = kernel.name;
        Self { kernel, buffers }
    }

    /// `gather.gather with rows (4 KiB), batch (1 MiB)`.
    fn words(&self) -> String {
        let mut words = self.kernel.to_owned();
        for (place, (label, bytes)) in self.buffers.iter().flatten().enumerate() {
            let before = if place == 0 { " with" } else { "," };
            write!(words, "{before} {label} ({})", Bytes(*bytes)).ok();
        }
        words
    }
}

/// The first error of a device, and what was sent to it.
#[derive(Debug)]
pub(super) struct Failure {
    /// The driver's words.
    fault: Arc<Mutex<Option<String>>>,
    /// They name a kernel already.
    is_placed: Cell<bool>,
    /// The last dispatch of the last submit.
    last: Cell<Option<Sent>>,
    /// Dispatches before one that fails. Set by a test alone.
    failing: Cell<Option<u64>>,
    ledger: MemoryLedger,
}

/// Place of an error.
enum At {
    /// This dispatch, or a copy.
    Here(Option<Sent>),
    /// Anything that was sent, this dispatch last.
    Before(Sent),
}

impl Failure {
    /// Keeps the first error outside a scope, or the loss of the device: without a handler wgpu panics.
    pub(super) fn watch(device: &wgpu::Device, ledger: &MemoryLedger) -> Self {
        let failure = Self {
            fault: Arc::default(),
            is_placed: Cell::default(),
            last: Cell::default(),
            failing: Cell::default(),
            ledger: ledger.clone(),
        };
        let seen = Arc::clone(&failure.fault);
        device.on_uncaptured_error(Arc::new(move |error| {
            let words = plain(&error.to_string());
            locked(&seen).get_or_insert(format!("the device reported an error: {words}"));
        }));
        let seen = Arc::clone(&failure.fault);
        device.set_device_lost_callback(move |reason, message| {
            let words = plain(&message);
            locked(&seen).get_or_insert(format!("the device was lost ({reason:?}): {words}"));
        });
        failure
    }

    /// Notes the last dispatch of a submit.
    pub(super) fn sent(&self, last: Option<Sent>) {
        self.last.set(last.or(self.last.get()));
    }

    /// Adds its place to a new error.
    fn place(&self, fault: &mut String, at: At) {
        if self.is_placed.replace(true) {
            return;
        }
        let live = Bytes(self.ledger.live_bytes());
        let added = match at {
            At::Here(Some(sent)) => {
                let words = sent.words();
                write!(
                    fault,
                    ", at the kernel {words}, while {live} are live in all"
                )
            }
            At::Here(None) => write!(fault, ", at a copy, while {live} are live in all"),
            At::Before(sent) => {
                let words = sent.words();
                let how = match cfg!(target_arch = "wasm32") {
                    true => "",
                    false => "; --synchronous finds the kernel that failed",
                };
                write!(
                    fault,
                    "; the kernel sent last is {words}, while {live} are live in all{how}"
                )
            }
        };
        added.ok();
    }

    /// The first error that the driver reported outside a scope, or the loss of the device.
    pub(super) fn check(&self) -> Result<()> {
        let mut fault = locked(&self.fault);
        let Some(fault) = fault.as_mut() else {
            return Ok(());
        };
        if let Some(last) = self.last.get() {
            self.place(fault, At::Before(last));
        }
        Err(Error::Device(fault.clone()))
    }

    /// Blames an error that is new on what was just done: this dispatch, or copies. `waited`: the outcome of the wait for it.
    pub(super) fn blame(&self, sent: Option<Sent>, waited: Result<()>) {
        let mut fault = locked(&self.fault);
        if let Err(error) = waited {
            fault.get_or_insert(error.to_string());
        }
        if let Some(fault) = fault.as_mut() {
            self.place(fault, At::Here(sent));
        }
    }

    /// Makes the dispatch after `after` more fail: for tests.
    pub(super) fn fail(&self, after: u64) {
        self.failing.set(Some(after));
    }

    /// Tells if the next dispatch is to fail.
    pub(super) fn fails_now(&self) -> bool {
        let more = self.failing.get();
        self.failing.set(more.and_then(|more| more.checked_sub(1)));
        more == Some(0)
    }
}

impl Gpu {
    /// The first error that the driver reported outside a scope, or the loss of the device.
    pub fn check(&self) -> Result<()> {
        self.failure.check()
    }

    /// Makes the dispatch after `after` more fail: for tests.
    pub fn fail_dispatch(&self, after: u64) {
        self.failure.fail(after);
    }
}

fn locked(fault: &Mutex<Option<String>>) -> MutexGuard<'_, Option<String>> {
    fault
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A driver's message on one line: wgpu writes each cause on a line of its own.
pub(super) fn plain(message: &str) -> String {
    let lines = message
        .lines()
        .map(|line| line.trim().trim_end_matches('.'));
    let said: Vec<&str> = lines
        .filter(|line| !line.is_empty() && *line != "Caused by:")
        .collect();
    said.join(": ")
}
