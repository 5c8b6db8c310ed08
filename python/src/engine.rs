//! The thread that owns every engine: which one does the work of a call, and how does Python wait for it?
//!
//! Engines, the threads that share a kernel's work and a device belong to one thread, which lives as long as the process. A call sends it
//! a job and waits without Python's lock, 50 ms at a time, so that Ctrl-C is seen.

use std::any::Any;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nearfar::{Engine, EngineChoice, EngineKind, Error, MemoryLoss};
use pyo3::exceptions::{
    PyKeyboardInterrupt, PyMemoryError, PyOSError, PyRuntimeError, PyValueError,
};
use pyo3::prelude::*;

pyo3::create_exception!(
    nearfar,
    BudgetError,
    PyMemoryError,
    "The work does not fit the budget. Nothing was started."
);
pyo3::create_exception!(
    nearfar,
    DeviceError,
    PyRuntimeError,
    "There is no such device, or it failed."
);

/// Time after which signals are looked at.
pub(crate) const LOOK: Duration = Duration::from_millis(50);

/// Time for which either side looks for the other's word before it sleeps: to be woken takes longer than a small call.
const WAKE: Duration = Duration::from_micros(60);

/// Engines that stay open: one for each of the last choices.
const OPEN: usize = 4;

/// Engine of a call: kind, part of an adapter's name, and budget in bytes.
#[derive(Clone, Debug, PartialEq, Eq, FromPyObject)]
pub(crate) struct Choice(Option<String>, Option<String>, u64);

impl Choice {
    /// The budget in bytes.
    pub(crate) fn budget(&self) -> u64 {
        self.2
    }

    /// The choice as the library takes it.
    pub(crate) fn asked(&self) -> Result<EngineChoice, Error> {
        let Self(kind, adapter, _) = self;
        let kind = match kind.as_deref() {
            None => None,
            Some("cpu") => Some(EngineKind::Cpu),
            Some("gpu") => Some(EngineKind::Gpu),
            Some(other) => {
                return Err(Error::Config(format!(
                    "engine is \"{other}\": it can be \"cpu\", \"gpu\" or None, a GPU where there is one"
                )));
            }
        };
        Ok(EngineChoice {
            kind,
            adapter: adapter.clone(),
            ..EngineChoice::default()
        })
    }
}

/// What the thread owns.
#[derive(Default)]
pub(crate) struct Engines {
    /// Engines that are open, the last one used last.
    open: Vec<(Choice, Engine)>,
    /// Memories, each with an engine of its own, by number.
    pub(crate) memories: HashMap<u64, MemoryLoss>,
}

impl Engines {
    /// The engine of this choice.
    fn get(&mut self, choice: &Choice) -> Result<Engine, Error> {
        let place = self.open.iter().position(|(open, _)| open == choice);
        let (choice, engine) = match place {
            Some(place) => self.open.remove(place),
            None => {
                if self.open.len() == OPEN {
                    self.open.remove(0);
                }
                let asked = choice.asked()?;
                let opened = Engine::open(&asked, choice.budget());
                (choice.clone(), pollster::block_on(opened)?)
            }
        };
        engine.ledger().restart_peak();
        self.open.push((choice, engine.clone()));
        Ok(engine)
    }
}

pub(crate) type Job = Box<dyn FnOnce(&mut Engines) + Send>;

/// Way to the thread; none before the first call.
static JOBS: Mutex<Option<Sender<Job>>> = Mutex::new(None);

/// Set in a process that was forked from one that had the thread.
static FORKED: AtomicBool = AtomicBool::new(false);

/// Notes that this process was forked: its engines stayed with the other one.
#[pyfunction]
pub(crate) fn after_fork() {
    if let Ok(jobs) = JOBS.try_lock()
        && jobs.is_none()
    {
        return;
    }
    FORKED.store(true, Ordering::Relaxed);
}

/// Refuses a process that was forked from one that had the thread.
pub(crate) fn check_fork() -> PyResult<()> {
    if !FORKED.load(Ordering::Relaxed) {
        return Ok(());
    }
    Err(PyRuntimeError::new_err(
        "this process was forked after nearfar had started its threads, which a fork leaves behind: start workers with \
         multiprocessing.get_context(\"spawn\"), or call nearfar first in the workers",
    ))
}

/// Sends a job to the thread, which starts with the first.
pub(crate) fn send(job: Job) -> PyResult<()> {
    check_fork()?;
    let mut jobs = JOBS.lock().unwrap_or_else(PoisonError::into_inner);
    let sent = match &*jobs {
        Some(jobs) => jobs.send(job),
        None => {
            let (sender, receiver) = channel::<Job>();
            std::thread::Builder::new()
                .name("nearfar".to_owned())
                .spawn(move || {
                    let mut engines = Engines::default();
                    while let Ok(job) = soon(&receiver).unwrap_or_else(|| Ok(receiver.recv()?)) {
                        job(&mut engines);
                    }
                })?;
            let sent = sender.send(job);
            *jobs = Some(sender);
            sent
        }
    };
    sent.map_err(|_| PyRuntimeError::new_err("nearfar's thread has ended: start the program again"))
}

/// What comes within [`WAKE`]; the error of a channel whose other side is gone.
fn soon<T>(receiver: &Receiver<T>) -> Option<Result<T, RecvTimeoutError>> {
    let began = Instant::now();
    while began.elapsed() < WAKE {
        match receiver.try_recv() {
            Ok(value) => return Some(Ok(value)),
            Err(TryRecvError::Disconnected) => return Some(Err(RecvTimeoutError::Disconnected)),
            Err(TryRecvError::Empty) => std::thread::yield_now(),
        }
    }
    None
}

/// Does `work` on the engine of this choice, and waits for it.
///
/// # Errors
/// Those of the work, as Python's exceptions; a panic is a `RuntimeError`; `KeyboardInterrupt`.
pub(crate) fn run<T: Send + 'static>(
    py: Python<'_>,
    choice: Choice,
    work: impl FnOnce(&Engine) -> Result<T, Error> + Send + 'static,
) -> PyResult<T> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    run_among(py, stop, move |engines| {
        let engine = engines.get(&choice)?.with_stop_flag(flag);
        work(&engine)
    })
}

/// Does `work` on the thread, and waits for it; `stop` is set if it is interrupted.
///
/// # Errors
/// As [`run`].
pub(crate) fn run_among<T: Send + 'static>(
    py: Python<'_>,
    stop: Arc<AtomicBool>,
    work: impl FnOnce(&mut Engines) -> Result<T, Error> + Send + 'static,
) -> PyResult<T> {
    let (answer, answered) = channel();
    send(Box::new(move |engines| {
        let done = catch_unwind(AssertUnwindSafe(|| work(engines)));
        if done.is_err() {
            // What it left is not to be trusted.
            engines.open.clear();
            engines.memories.clear();
        }
        answer.send(done).ok();
    }))?;
    let mut interrupted = None;
    // The receiver is moved in and out: it is no part that threads share.
    let mut answered = answered;
    let done = loop {
        let (back, received) = py.detach(move || {
            let received = soon(&answered).unwrap_or_else(|| answered.recv_timeout(LOOK));
            (answered, received)
        });
        answered = back;
        match received {
            Ok(done) => break done,
            Err(RecvTimeoutError::Timeout) => {
                if interrupted.is_none()
                    && let Err(signal) = py.check_signals()
                {
                    stop.store(true, Ordering::Relaxed);
                    interrupted = Some(signal);
                }
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("nearfar's thread has ended"));
            }
        }
    };
    if let Some(signal) = interrupted {
        return Err(signal);
    }
    match done {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(exception(&error)),
        Err(panic) => Err(PyRuntimeError::new_err(format!(
            "nearfar went wrong, and the engine was closed: {}",
            said(&*panic)
        ))),
    }
}

/// Words of a panic.
pub(crate) fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic")
}

/// The exception of an error, with the same sentence.
pub(crate) fn exception(error: &Error) -> PyErr {
    let sentence = error.to_string();
    match error {
        Error::Refused { .. } | Error::TooLarge { .. } => BudgetError::new_err(sentence),
        Error::NoMemory { .. } => PyMemoryError::new_err(sentence),
        Error::Device(_) => DeviceError::new_err(sentence),
        Error::Io { .. } => PyOSError::new_err(sentence),
        Error::Stopped => PyKeyboardInterrupt::new_err(sentence),
        Error::NotFinite { .. } | Error::NoDirection { .. } => PyRuntimeError::new_err(sentence),
        _ => PyValueError::new_err(sentence),
    }
}
