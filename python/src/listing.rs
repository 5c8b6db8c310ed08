//! Triplets that a miner keeps, a window at a time: what is held while Python takes its time over one?
//!
//! A listing has an engine and a thread of its own, so that other calls are served between two windows. Two windows are held at most: the
//! thread waits until one is taken.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use nearfar::{Engine, Error, TrainConfig, list};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::engine::{Choice, LOOK, check_fork, exception, run, said};
use crate::work::{Labelled, Named};

/// A window as bytes of `[n, 3]` u32, or why there is none.
type Window = Result<Vec<u8>, Error>;

/// Iterator of windows.
#[pyclass(module = "nearfar._nearfar")]
pub(crate) struct Listing {
    windows: Mutex<Option<Receiver<Window>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

#[pymethods]
impl Listing {
    #[new]
    fn new(
        py: Python<'_>,
        choice: Choice,
        anchors: Labelled,
        references: Option<Labelled>,
        settings: String,
        window_bytes: u64,
    ) -> PyResult<Self> {
        // Refuses what cannot be opened, and starts the threads of the CPU engine, which belong to the thread that lives on.
        run(py, choice.clone(), |_| Ok(()))?;
        let (send, windows) = sync_channel::<Window>(1);
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let work = move || {
            let hand_over = |window: &[[u32; 3]]| {
                let numbers = window.iter().flatten();
                let words = numbers.flat_map(|number| number.to_ne_bytes()).collect();
                send.send(Ok(words)).map_err(|_| Error::Stopped)
            };
            let done = catch_unwind(AssertUnwindSafe(|| {
                let engine = pollster::block_on(Engine::open(&choice.asked()?, choice.budget()))?;
                let engine = engine.with_stop_flag(flag);
                let config = TrainConfig::default().with_json(&settings)?;
                config.check()?;
                let anchors = Named::read(anchors)?;
                let references = references.map(Named::read).transpose()?;
                pollster::block_on(list(
                    &engine,
                    anchors.rows(),
                    references.as_ref().map(Named::rows),
                    &config.miner,
                    config.miner_distance.unwrap_or(config.distance),
                    window_bytes,
                    hand_over,
                ))
            }));
            let failed = match done {
                Ok(done) => done.err(),
                Err(panic) => Some(Error::Device(format!(
                    "nearfar went wrong: {}",
                    said(&*panic)
                ))),
            };
            if let Some(error) = failed {
                send.send(Err(error)).ok();
            }
        };
        let thread = std::thread::Builder::new().name("nearfar listing".to_owned());
        Ok(Self {
            windows: Mutex::new(Some(windows)),
            stop,
            thread: Some(thread.spawn(work)?),
        })
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        check_fork()?;
        loop {
            let received = py.detach(|| {
                let windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
                let windows = windows.as_ref();
                windows.map_or(Err(RecvTimeoutError::Disconnected), |windows| {
                    windows.recv_timeout(LOOK)
                })
            });
            match received {
                Ok(Ok(window)) => return Ok(Some(PyBytes::new(py, &window))),
                Ok(Err(error)) => return Err(exception(&error)),
                Err(RecvTimeoutError::Timeout) => py.check_signals()?,
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
            }
        }
    }
}

impl Drop for Listing {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // The thread may wait for a window to be taken: none will be.
        let windows = self.windows.get_mut();
        drop(windows.unwrap_or_else(PoisonError::into_inner).take());
        // In a forked child there is no such thread to wait for.
        if check_fork().is_ok()
            && let Some(thread) = self.thread.take()
        {
            thread.join().ok();
        }
    }
}
