//! Forecasts of memory and time, and the speed that they are made by.

use nearfar::{
    MemoryPlan, MemoryReport, Purpose, Rate, Room, RowSource, Run, Side, TrainConfig, Trainer,
};

use super::Core;
use crate::protocol::{EvaluationForecast, Event, Refusal, RunForecast};

/// Number of times that the engine is timed for forecasts: first while the page still comes up, then once more.
const OFTEN: u32 = 2;

/// Speed and memory of an engine that nothing runs on.
pub(super) struct Empty {
    pub(super) rate: Rate,
    /// Memory that it holds all the same.
    pub(super) memory: MemoryReport,
    pub(super) max_buffer_bytes: u64,
}

impl Empty {
    /// Room for a plan within a budget.
    pub(super) fn room(&self, budget_bytes: u64) -> Room {
        Room {
            free_bytes: budget_bytes.saturating_sub(self.memory.live_bytes),
            budget_bytes,
            max_buffer_bytes: self.max_buffer_bytes,
        }
    }
}

impl Core {
    /// Tells the page the forecast of a run, if there is data and an engine for it.
    pub(super) async fn forecast(&mut self, config: &TrainConfig, rate: Option<f64>) {
        if self.timed < OFTEN {
            self.time(rate).await;
        }
        let (Some(data), Some(empty)) = (&self.data, &self.empty) else {
            return;
        };
        let room = empty.room(config.budget_bytes);
        let forecast = Trainer::plan(&room, data, config, &empty.rate).map(|forecast| {
            let mut by_purpose = empty.memory.by_purpose.clone();
            for (purpose, bytes) in forecast.memory.by_purpose() {
                *by_purpose.entry(purpose.name().to_owned()).or_default() += bytes;
            }
            RunForecast {
                peak_bytes: empty.memory.live_bytes + forecast.memory.total_bytes(),
                budget_bytes: config.budget_bytes,
                by_purpose,
                predicted_ms: forecast.predicted_ms,
                pml_bytes: Trainer::plan_pml(data, config),
                step_bytes: of_step(&forecast.memory),
                table_bytes: 4 * data.rows() as u64 * data.features.dim() as u64,
                text_bytes: data.text_bytes(),
                table_in_file: matches!(data.features, RowSource::Blob(_)),
                chunk: forecast
                    .batch_chunk
                    .map_or_else(String::new, |chunk| format!("{chunk}.")),
            }
        });
        let forecast = forecast.map_err(Refusal::of);
        self.say(&Event::Forecast(forecast));
    }

    /// Times the engine that no run uses, unless its speed is `known`.
    pub(super) async fn time(&mut self, known: Option<f64>) {
        let Some(engine) = self.idle.take() else {
            return;
        };
        let timed = match known {
            Some(operations_per_ms) => Ok((
                engine,
                Rate {
                    operations_per_ms,
                    ..Rate::default()
                },
            )),
            None => Trainer::measure_rate(engine).await,
        };
        // A device that is lost meanwhile is opened again by the run.
        if let Ok((engine, mut rate)) = timed {
            // Other work makes the engine slower, never faster.
            if let Some(before) = self.empty.as_ref().filter(|_| self.timed > 0) {
                rate.operations_per_ms = rate.operations_per_ms.max(before.rate.operations_per_ms);
            }
            self.timed = if known.is_some() {
                OFTEN
            } else {
                self.timed + 1
            };
            self.empty = Some(Empty {
                rate,
                memory: MemoryReport::new(engine.ledger()),
                max_buffer_bytes: engine.info().max_buffer_bytes,
            });
            self.idle = Some(engine);
        }
    }

    /// Corrects the speed for forecasts by the time that a run took.
    pub(super) fn learn(&mut self, config: &TrainConfig, elapsed_ms: f64) {
        let (Some(data), Some(empty)) = (&self.data, &mut self.empty) else {
            return;
        };
        let room = empty.room(config.budget_bytes);
        if let Ok(forecast) = Trainer::plan(&room, data, config, &empty.rate) {
            let faster = forecast.predicted_ms / elapsed_ms.max(1.0);
            empty.rate.operations_per_ms *= faster.clamp(0.1, 10.0);
            self.timed = OFTEN;
        }
    }

    /// Tells the page the forecast of scoring every row.
    pub(super) fn say_can_evaluate(&self, run: &Run) {
        let rate = self.empty.as_ref().map(|empty| empty.rate);
        let (side, forecast) = run.plan_evaluate_all(&rate.unwrap_or_default());
        let data = run.data();
        self.say(&Event::CanEvaluateAll(EvaluationForecast {
            side,
            queries: match side {
                Side::Train => data.train,
                Side::Validation => data.validation,
                Side::Test => data.test,
            } as u64,
            bytes: forecast.memory.total_bytes(),
            predicted_ms: forecast.predicted_ms,
        }));
    }

    /// Bytes that the triplets or pairs of a step take in a run with these settings; 0 if nothing was planned yet.
    pub(super) fn step_bytes(&self, config: &TrainConfig) -> u64 {
        let (Some(data), Some(empty)) = (&self.data, &self.empty) else {
            return 0;
        };
        let room = empty.room(config.budget_bytes);
        let plan = Trainer::plan(&room, data, config, &empty.rate);
        plan.map_or(0, |forecast| of_step(&forecast.memory))
    }
}

/// Bytes of what a step mines in a plan of a whole run.
fn of_step(plan: &MemoryPlan) -> u64 {
    let mined = [Purpose::Similarities, Purpose::Ranks, Purpose::Triplets];
    let buffers = plan.buffers().iter();
    let of_step =
        buffers.filter(|it| mined.contains(&it.purpose) && !it.label.starts_with("evaluate."));
    of_step.map(|it| it.bytes).sum()
}
