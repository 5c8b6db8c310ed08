//! A memory that lives in the engine: which of its calls does Python wait for?
//!
//! The memory itself stays on the engine's thread, with an engine of its own, so that its budget is its own and no other call changes it.
//! Python's object is its number.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use nearfar::{
    Distance, Engine, Error, Loss, MemoryLossSpec, MemoryLossState, MemoryReport, Mined, Miner,
    Rate, Room as Memory, RowSource, TrainConfig,
};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::json;

use crate::engine::{Choice, Engines, exception, run, run_among, send};
use crate::rows::{Array, Longs, Room};

/// Number of the next memory.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Miner, loss and their distances.
type Rule = (Miner, Loss, [Distance; 2]);

fn rule(settings: &str) -> Result<Rule, Error> {
    let config = TrainConfig::default().with_json(settings)?;
    config.check()?;
    let chosen_by = config.miner_distance.unwrap_or(config.distance);
    Ok((config.miner, config.loss, [chosen_by, config.distance]))
}

fn bytes<T: Copy, const N: usize>(values: &[T], bytes: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    values.iter().flat_map(|value| bytes(*value)).collect()
}

/// A memory's number.
#[pyclass(module = "nearfar._nearfar")]
pub(crate) struct MemoryLoss {
    number: u64,
    stop: Arc<AtomicBool>,
}

impl MemoryLoss {
    /// Does work on the memory, and waits for it.
    fn with<T: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut nearfar::MemoryLoss) -> Result<T, Error> + Send + 'static,
    ) -> PyResult<T> {
        let (number, stop) = (self.number, Arc::clone(&self.stop));
        run_among(py, Arc::clone(&self.stop), move |engines: &mut Engines| {
            // Of a call that was interrupted before.
            stop.store(false, Ordering::Relaxed);
            let memory = engines.memories.get_mut(&number).ok_or_else(|| {
                Error::Device(
                    "this memory was closed as nearfar went wrong: make a new one".to_owned(),
                )
            })?;
            work(memory)
        })
    }
}

#[pymethods]
impl MemoryLoss {
    #[new]
    fn new(
        py: Python<'_>,
        choice: Choice,
        settings: String,
        memory_size: usize,
        dim: usize,
        batch_size: usize,
    ) -> PyResult<Self> {
        // Starts the threads of the CPU engine, which belong to the thread that lives on.
        run(py, choice.clone(), |_| Ok(()))?;
        let (number, stop) = (NEXT.fetch_add(1, Ordering::Relaxed), Arc::default());
        let flag = Arc::clone(&stop);
        run_among(py, Arc::clone(&stop), move |engines| {
            let (miner, loss, distances) = rule(&settings)?;
            let spec = MemoryLossSpec {
                memory_size,
                dim,
                batch_size,
            };
            let made = async {
                let engine = Engine::open(&choice.asked()?, choice.budget()).await?;
                let engine = engine.with_stop_flag(flag);
                nearfar::MemoryLoss::new(&engine, spec, &miner, &loss, distances).await
            };
            engines.memories.insert(number, pollster::block_on(made)?);
            Ok(())
        })?;
        Ok(Self { number, stop })
    }

    /// Takes other settings; false if they take other buffers.
    fn set(&self, py: Python<'_>, settings: String) -> PyResult<bool> {
        self.with(py, move |memory| {
            let (miner, loss, distances) = rule(&settings)?;
            memory.set(&miner, &loss, distances)
        })
    }

    /// Stores rows.
    fn enqueue(&self, py: Python<'_>, rows: Array, labels: Longs) -> PyResult<()> {
        self.with(py, move |memory| {
            pollster::block_on(memory.enqueue(&rows.source()?, &labels.read()))
        })
    }

    /// Loss of a batch, which is stored before if `stores`, and its counts as JSON.
    fn loss(
        &self,
        py: Python<'_>,
        rows: Array,
        labels: Longs,
        stores: bool,
        gradient: Option<Room>,
    ) -> PyResult<(f64, String)> {
        self.with(py, move |memory| {
            let (rows, labels): (RowSource, _) = (rows.source()?, labels.read());
            let wanted = gradient.is_some();
            let Mined {
                mining,
                loss,
                gradient: found,
                ..
            } = pollster::block_on(async {
                match stores {
                    true => memory.step(&rows, &labels, wanted).await,
                    false => memory.loss(&rows, &labels, wanted).await,
                }
            })?;
            if let Some(room) = gradient {
                room.fill(&found);
            }
            Ok((loss, json!(mining).to_string()))
        })
    }

    /// Rows as bytes of f32, labels as bytes of i64, next slot, and steps.
    fn state<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>, usize, u64)> {
        let state = self.with(py, |memory| pollster::block_on(memory.state()))?;
        let rows = bytes(&state.rows, f32::to_ne_bytes);
        let labels = bytes(&state.labels, i64::to_ne_bytes);
        Ok((
            PyBytes::new(py, &rows),
            PyBytes::new(py, &labels),
            state.next,
            state.steps,
        ))
    }

    /// Replaces all rows.
    fn restore(
        &self,
        py: Python<'_>,
        rows: Array,
        labels: Longs,
        next: usize,
        steps: u64,
    ) -> PyResult<()> {
        self.with(py, move |memory| {
            let (rows, mut values) = (rows.source()?, Vec::new());
            let numbers: Vec<u32> = (0..rows.rows() as u32).collect();
            pollster::block_on(async {
                rows.read(&numbers, &mut values).await?;
                let state = MemoryLossState {
                    rows: values,
                    labels: labels.read(),
                    next,
                    steps,
                };
                memory.restore(state).await
            })
        })
    }

    /// Forgets every row.
    fn reset(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |memory| {
            memory.reset();
            Ok(())
        })
    }

    /// Number of stored rows, and engine, adapter and account of the memory as JSON.
    fn about(&self, py: Python<'_>) -> PyResult<(usize, String)> {
        self.with(py, |memory| {
            let engine = memory.engine();
            let info = engine.info();
            let about = json!({
                "engine": info.engine,
                "adapter": info.adapter,
                "memory": MemoryReport::new(engine.ledger()),
            });
            Ok((memory.len(), about.to_string()))
        })
    }

    /// Forecast of a memory of these sizes.
    #[staticmethod]
    fn plan(
        settings: &str,
        budget: u64,
        memory_size: usize,
        dim: usize,
        batch_size: usize,
    ) -> PyResult<String> {
        let room = Memory {
            free_bytes: budget,
            budget_bytes: budget,
            max_buffer_bytes: u64::MAX,
        };
        let spec = MemoryLossSpec {
            memory_size,
            dim,
            batch_size,
        };
        let plan = || {
            let (miner, loss, _) = rule(settings)?;
            spec.plan(&miner, &loss, &room, &Rate::default())
        };
        let forecast = plan().map_err(|error| exception(&error))?;
        let mut report = json!(forecast);
        report["total_bytes"] = forecast.memory.total_bytes().into();
        Ok(report.to_string())
    }
}

impl Drop for MemoryLoss {
    fn drop(&mut self) {
        let number = self.number;
        // In a forked child there is none.
        send(Box::new(move |engines| {
            engines.memories.remove(&number);
        }))
        .ok();
    }
}
