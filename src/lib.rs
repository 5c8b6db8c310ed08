//! Nearfar: metric learning inside a memory budget, in the browser and natively.
#![doc = "Modules stand in the order in which data flows; an arrow never points back."]

mod config;
pub mod cpu;
mod cross_batch_memory;
mod dataset;
mod embedder;
mod embeddings;
mod engine;
mod error;
mod evaluation;
mod features;
pub mod gpu;
pub mod kernels;
mod ledger;
mod losses;
mod metrics;
mod miners;
mod model;
mod optimizer;
mod pace;
mod plan;
mod pml;
mod projection;
pub mod reference;
mod rng;
mod run;
mod sampler;
mod trainer;
mod verdict;
mod warnings;

pub use config::{Adam, Distance, Optimizer, Split, TrainConfig};
#[cfg(not(target_arch = "wasm32"))]
pub use dataset::NpyRows;
pub use dataset::{
    CsvTable, Dataset, Labelled, NamedFile, RowSource, SAMPLES, Side, Sides, matrix_header,
    write_matrix,
};
pub use embedder::Embedder;
pub use embeddings::Embeddings;
pub use engine::{Commands, DeviceInfo, DeviceVec, Engine, EngineChoice, EngineKind, Workspace};
pub use error::{Error, Result};
pub use evaluation::evaluate;
pub use ledger::{Bytes, MemoryLedger, OverBudget, Purpose, Reservation};
pub use losses::{Loss, TripletMarginLoss};
pub use metrics::Metrics;
pub use miners::{Miner, MiningCounts, TripletMarginMiner, TypeOfTriplets};
pub use model::{Activations, EmbeddingModel, LayerWeights};
pub use plan::{MemoryPlan, PlannedBuffer};
pub use pml::pml_bytes;
pub use projection::{Axes, project};
pub use run::{Baseline, DataReport, Map, MemoryReport, Progress, Run, RunReport, Scores};
pub use trainer::{Evaluation, StepReport, Trainer};
