//! Engines: opened, measured, tuned and warmed up.

use std::sync::Arc;

use js_sys::Reflect;
use nearfar::{
    Engine, Error, MemoryReport, Rate, Result, TileShape, TrainConfig, Tuning, kernels, self_test,
    tune,
};

use super::Core;
use super::forecast::Empty;
use super::threads;
use crate::protocol::{Event, Running};
use crate::remembered::tuned_text;

impl Core {
    /// Opens an engine and measures how fast it is.
    pub(super) async fn measured(&mut self) -> Result<Engine> {
        let engine = self.open(TrainConfig::default().budget_bytes).await?;
        let tested = self_test(&engine).await?;
        let engine = self.tune(engine).await?;
        self.tested = tested.map(|tested| (engine.info().clone(), tested));
        Ok(engine)
    }

    /// Opens an engine, and reports its device, why, and how fast it is. If a GPU fails while it is measured, the CPU is opened.
    pub(super) async fn introduce(&mut self) -> Result<()> {
        let engine = match self.measured().await {
            Err(Error::Device(why)) if !self.choice.asks_for_gpu() => {
                self.choice.failed_gpu = Some(why);
                self.measured().await?
            }
            measured => measured?,
        };
        engine.ledger().restart_peak();
        self.say(&Event::Device(self.running(&engine)));
        // A run may take the engine before it is timed.
        self.empty.get_or_insert_with(|| Empty {
            rate: Rate::default(),
            memory: MemoryReport::new(engine.ledger()),
            max_buffer_bytes: engine.info().max_buffer_bytes,
        });
        self.idle = Some(engine);
        Ok(())
    }

    /// Opens an engine, or takes the idle one. Kernels that a run needs are compiled before it starts, the others while nothing
    /// else is done.
    pub(super) async fn open(&mut self, budget_bytes: u64) -> Result<Engine> {
        // An engine with another budget is dropped here: its buffers never lie beside those of the next.
        if let Some(engine) = self.idle.take()
            && engine.ledger().budget_bytes() == budget_bytes
            && engine.settle().await.is_ok()
        {
            engine.ledger().restart_peak();
            return Ok(engine);
        }
        let opened = Engine::open(&self.choice, budget_bytes).await;
        if matches!(opened, Err(Error::Device(_))) {
            self.say(&Event::NoGpu);
        }
        let engine = opened?;
        // Before any kernel runs.
        if engine.info().engine == "cpu" && self.threads.is_none() {
            self.threads = Some(threads::start(&self.scope).await);
        }
        self.cold = kernels::used_on(engine.info()).collect();
        self.cold.reverse();
        let mut shapes = TileShape::ALL.into_iter();
        let tuned = |shape: &_| self.tuned.as_deref() == Some(&tuned_text(engine.info(), *shape));
        let engine = match shapes.find(tuned) {
            Some(shape) => engine.with_tuned_shape(shape),
            None => engine,
        };
        let engine = engine.with_listener(self.working());
        Ok(engine.with_stop_flag(Arc::clone(&self.stop)))
    }

    /// Gives the engine the tile shape that it is fastest with, which is measured if no earlier visit did.
    pub(super) async fn tune(&mut self, engine: Engine) -> Result<Engine> {
        let info = engine.info();
        if !info.is_tunable() || info.tuned.is_some() {
            return Ok(engine);
        }
        let Some(Tuning { shape, .. }) = tune(&engine).await? else {
            return Ok(engine);
        };
        self.tuned = Some(tuned_text(info, shape));
        Ok(engine.with_tuned_shape(shape))
    }

    /// Compiles the next kernel that the engine may need. A kernel that does not compile is reported when work needs it.
    pub(super) async fn warm(&mut self) {
        if let (Some(engine), Some(kernel)) = (&self.idle, self.cold.pop()) {
            engine.prepare([kernel]).await.ok();
        }
    }

    /// Device of an engine, the reason for it, and its measured speed.
    pub(super) fn running(&self, engine: &Engine) -> Running {
        let tested = self
            .tested
            .as_ref()
            .filter(|(device, _)| device == engine.info());
        let gpu = Reflect::get(&self.scope.navigator(), &"gpu".into());
        Running {
            device: engine.info().clone(),
            reason: engine.reason().clone(),
            webgpu: gpu.is_ok_and(|gpu| gpu.is_object()),
            threads: self.threads.unwrap_or(1),
            self_test: tested.map(|(_, tested)| *tested),
        }
    }
}
