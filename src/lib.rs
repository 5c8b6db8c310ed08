//! Nearfar: metric learning inside a memory budget, in the browser and natively.
//!
//! Modules stand here in the order in which they build on each other: each uses those above it, never one below. The
//! figure in `CONTRIBUTING.md` shows the same.
//!
//! # The words of the house
//!
//! - **row**: one thing that was measured, as its features or as its *embedding*, which is what the *head* makes of it. A *unit
//!   row* was divided by its length.
//! - **side**: a part of the rows: training, validation or test; of an anchor, its positives or its negatives.
//! - **anchor**: a row that others are compared with. **reference**: a row that anchors are compared with: of the batch, of the
//!   memory, or a *proxy*, a learned row that stands for a class.
//! - **positive**, **negative**: a reference of the anchor's class, of another class. **triplet**: an anchor with one of each;
//!   **pair**: an anchor with one of them.
//! - **memory**, or bank: embeddings of the last batches, kept as references. **slot**: a place in it; **id**: the number of a
//!   stored row, which tells an anchor its own copy.
//! - **valid**, **mined**, **active**: all triplets or pairs there are; those that the miner keeps; those of them whose loss is
//!   above zero.
//! - **value**: what a pair is compared by, larger for nearer: the cosine similarity, or minus the distance. **slope**: `dL/dv`
//!   of a pair.
//! - **form**: the formula of a loss of pairs. **divisor**: what its sum is divided by. **round**: one way over all anchors of a
//!   batch; a loss of pairs takes two or three.
//! - **rank**: how many references are nearer than a given one. **threshold**: the similarity of a positive, by which every
//!   reference's rank is counted.
//! - **block**: the anchors that are looked at together. **segment**: 256 references, whose sum one workgroup owns. **window**:
//!   as much as one dispatch or one read takes. **cut**: how work was divided into these; the budget chooses it, never a bit of
//!   the result.
//! - **plan**: every buffer of a piece of work before it starts; **ledger**: every buffer that there is; **room**: what a plan
//!   may still take.
//! - **slice**: work that is submitted at once, some 50 ms of it. **pace**: how fast the last ones went. **forecast**: what
//!   work will hold and take.

/// The CPU side of every kernel, a package of its own.
pub use nearfar_cpu as cpu;

// What everything stands on: refusals, the account of the memory, and the plans that keep to it.
mod ledger;

mod error;

mod quote;

pub mod order;

mod groups;

mod memory;

mod plan;

mod forecast;

mod working;

// Where kernels run: two sides behind one seam.
mod device;

pub mod gpu;

pub mod host;

mod engine;

mod pace;

mod tensor_file;

mod checkpoint;

pub mod kernels;

// Settings, and the rules that they name.
mod rng;

mod miners;

mod losses;

mod samplers;

pub mod reference;

mod config;

// The chain of a training step.
mod columns;

mod dataset;

mod scaling;

mod features;

mod copies;

mod survey;

mod batches;

mod model;

mod embeddings;

mod cross_batch_memory;

mod row_pass;

mod mining_pass;

mod optimizer;

mod proxies;

mod boundary;

mod row_weights;

// What it is worth.
mod student;

mod interval;

mod metrics;

mod unit_rows;

mod by_class;

mod knn;

mod rate;

mod self_test;

mod tuning;

mod evaluation;

mod threshold;

mod mining;

mod triplets;

mod listing;

mod embedder;

mod linear;

mod diagnostics;

mod projection;

mod umap;

// The whole chain, and a run of it.
mod pml;

mod trainer;

mod verdict;
mod warnings;

mod recipes;

mod map;

mod run;

mod compare;

mod rows_to_check;

mod take_home;

// What it takes.
pub mod bench;

pub use compare::{
    CompareConfig, CompareForecast, CompareProgress, CompareReport, CompareRow, Comparison,
    Contest, Entry, Interval, Preset, RowKind, SeedScore, Standing, TestScore,
};
pub use config::{Adam, InitialWeights, Optimizer, Split, Standardize, TrainConfig};
pub use cpu::Distance;
pub use cross_batch_memory::MemoryAge;
#[cfg(target_arch = "wasm32")]
pub use dataset::BlobRows;
#[cfg(feature = "hdf5")]
pub use dataset::Hdf5File;
#[cfg(feature = "parquet")]
pub use dataset::ParquetFile;
#[cfg(all(feature = "hdf5", not(target_arch = "wasm32")))]
pub use dataset::add_embeddings;
#[cfg(any(feature = "hdf5", feature = "parquet"))]
pub use dataset::is_guarded;
pub use dataset::{
    Choice, ColumnRole, Columns, Dataset, Format, Labelled, Labels, LeftOut, Marks, Missing,
    NamedFile, NpyElement, NpzWriter, Role, RowSource, SAMPLES, STREAM_FROM_BYTES, Shape, Side,
    Sides, Table, TableColumn, TableReader, Texts, group_column, look_alike, matrix_header,
    write_matrix,
};
#[cfg(not(target_arch = "wasm32"))]
pub use dataset::{NpyRows, triplets_header};
pub use device::{DeviceInfo, EngineChoice, EngineKind, Reason, TileShape};
pub use diagnostics::{COLLAPSED, Diagnostics};
pub use embedder::Embedder;
pub use embeddings::Embeddings;
pub use engine::{Commands, DeviceVec, Engine, Workspace};
pub use error::{Cure, Error, Result};
pub use evaluation::{EvaluationSpec, Rows, evaluate, evaluate_across, evaluate_nearest};
pub use forecast::{Forecast, Path, Rate};
#[cfg(not(target_arch = "wasm32"))]
pub use knn::search_across;
pub use knn::{KnnIndex, KnnSpec, Neighbors};
pub use ledger::{Bytes, MemoryLedger, OverBudget, Purpose, Reservation};
pub use linear::{LinearFit, LinearMap, LinearOutputs, Unfit};
pub use listing::{ListingSpec, Windows, checksum, list};
pub use losses::{
    ArcFaceLoss, CircleLoss, ContrastiveLoss, CosFaceLoss, GeneralizedLiftedStructureLoss,
    LiftedStructureLoss, Loss, MarginLoss, MultiSimilarityLoss, NcaLoss, NormalizedSoftmaxLoss,
    NtXentLoss, ProxyAnchorLoss, ProxyNcaLoss, SoftTripleLoss, SubCenterArcFaceLoss, SupConLoss,
    TripletMarginLoss,
};
pub use map::{Map, Pictures};
#[doc(hidden)]
pub use memory::may_fail;
pub use memory::{reserve, zeros};
pub use metrics::{ClassMetrics, Metrics, Retrieval, Scores};
pub use miners::{
    BatchEasyHardMiner, BatchHardMiner, DistanceWeightedMiner, FacenetSemihardMiner, Miner,
    MiningCounts, MultiSimilarityMiner, PairMarginMiner, Strategy, TripletMarginMiner, Tuples,
    TypeOfTriplets,
};
pub use mining::{KeptOfAnchor, Mined, MiningSpec, Pairs, Wanted, mine, mine_into};
pub use model::{EmbeddingModel, LayerWeights, Tile};
pub use plan::{MemoryPlan, PlannedBuffer, Room};
pub use pml::pml_bytes;
pub use projection::{Axes, Plane};
pub use rate::measure_rate;
pub use recipes::Recipe;
pub use row_pass::RowWork;
pub use rows_to_check::{Confusion, RowsToCheck, Suspect};
pub use run::{
    Baseline, Checkpoint, DataReport, FullEvaluation, MemoryReport, Origin, Progress, Run,
    RunReport, SavedRun,
};
pub use samplers::{
    ClassBalancedSampler, HierarchicalSampler, MPerClassEpochSampler, MPerClassSampler, Sampler,
    ShuffledSampler,
};
pub use scaling::{Scaling, ScalingKind};
pub use self_test::{SelfTest, self_test};
pub use survey::Survey;
#[cfg(not(target_family = "wasm"))]
pub use take_home::is_history;
pub use take_home::{
    CHECKPOINT, HISTORY, Head, IMAGINED, Link, Piece, Results, RowsOf, SavedArchive, SideRows,
    Taken, TakenFile, archive, folder, folder_names, link, link_pairs, saved_run,
};
pub use threshold::{
    Curve, PairRates, Threshold, ThresholdConfig, ThresholdReport, ThresholdSpec, find_threshold,
    find_threshold_across,
};
pub use trainer::{
    Evaluation, HardTriplet, HardestTriplets, Neighbour, Neighbourhood, PairHistogram, StepReport,
    StoredMemory, Trainer,
};
pub use triplets::Triplets;
pub use tuning::{Tuning, tune};
pub use umap::{LocalScale, Umap, smooth_knn_dist};
pub use verdict::{Compared, Gain};
pub use warnings::Warning;
pub use working::Working;
