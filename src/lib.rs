//! Nearfar: metric learning inside a memory budget, in the browser and natively.
//!
//! Rooms stand here in the order in which they build on each other: each uses those above it, never one below. The first line of each
//! is the question that it answers; `CONTRIBUTING.md` has all of them in a table.
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
use nearfar_cpu as cpu;

mod base;

mod engine;

pub mod kernels;

mod rules;

pub mod reference;

mod data;

mod model;

mod search;

mod mining;

mod judge;

mod map;

mod train;

mod run;

mod compare;

mod take_home;

mod doctor;

mod speed;

pub use base::order;
pub use engine::gpu;
pub use speed::bench;

pub use base::error::{Cure, Error, Result};
pub use base::forecast::{Forecast, MiningMethod, Rate};
pub use base::ledger::{Bytes, Purpose};
#[doc(hidden)]
pub use base::memory::may_fail;
pub use base::memory::reserve;
pub use base::plan::{MemoryPlan, Room};
pub use base::working::Working;
pub use compare::recipes::Recipe;
pub use compare::{
    CompareConfig, CompareForecast, CompareProgress, CompareReport, CompareRow, Comparison,
    Contest, Preset, RowKind, Standing,
};
pub use cpu::{Activation, Distance};
#[cfg(target_arch = "wasm32")]
pub use data::BlobRows;
#[cfg(feature = "hdf5")]
pub use data::Hdf5File;
#[cfg(feature = "parquet")]
pub use data::ParquetFile;
#[cfg(all(feature = "hdf5", not(target_arch = "wasm32")))]
pub use data::add_embeddings;
#[cfg(any(feature = "hdf5", feature = "parquet"))]
pub use data::is_guarded;
pub use data::survey::Survey;
pub use data::{
    Choice, ColumnRole, Columns, Dataset, Format, Labelled, Labels, Marks, Missing, NamedFile,
    NpzWriter, Role, RowSource, SAMPLES, STREAM_FROM_BYTES, Shape, Side, Sides, Table, TableColumn,
    TableReader, Texts, group_column, look_alike, matrix_header, write_matrix,
};
#[cfg(not(target_arch = "wasm32"))]
pub use data::{HeldRows, NpyRows, triplets_header};
pub use doctor::{Diagnosis, Here, Other, diagnose};
pub use engine::device::{DeviceInfo, EngineChoice, EngineKind, Reason, TileShape};
pub use engine::{Commands, DeviceVec, Engine};
pub use judge::diagnostics::Diagnostics;
pub use judge::linear::{LinearFit, LinearMap, LinearOutputs, Unfit};
pub use judge::vector_sizes::{
    VectorFormat, VectorSize, VectorSizes, plan_vector_sizes, vector_sizes,
};
pub use judge::verdict::{Compared, Gain};
pub use map::umap::{LocalScale, Umap, smooth_knn_dist};
pub use map::{Map, Pictures};
pub use mining::listing::{ListingSpec, Windows, checksum, list};
pub use mining::triplets::Triplets;
pub use mining::{
    Asked, KeptOfAnchor, MemoryLoss, MemoryLossSpec, MemoryLossState, Mined, MiningSpec, Pairs,
    Wanted, mine, mine_into, mine_numbered,
};
pub use model::cross_batch_memory::MemoryAge;
pub use model::embedder::Embedder;
pub use model::embeddings::Embeddings;
pub use model::layer_weights::LayerWeights;
pub use model::metric::Metric;
pub use model::scaling::{Scaling, ScalingKind};
pub use rules::config::{InitialWeights, Split, Standardize, TrainConfig};
pub use rules::losses::{
    ArcFaceLoss, CircleLoss, ContrastiveLoss, CosFaceLoss, GeneralizedLiftedStructureLoss,
    LiftedStructureLoss, Loss, MarginLoss, MultiSimilarityLoss, NcaLoss, NormalizedSoftmaxLoss,
    NtXentLoss, ProxyAnchorLoss, ProxyNcaLoss, SoftTripleLoss, SubCenterArcFaceLoss, SupConLoss,
    TripletMarginLoss,
};
pub use rules::miners::{
    BatchEasyHardMiner, BatchHardMiner, DistanceWeightedMiner, FacenetSemihardMiner, Miner,
    MiningCounts, MultiSimilarityMiner, PairMarginMiner, Strategy, TripletMarginMiner, Tuples,
    TypeOfTriplets,
};
pub use rules::optimizers::{Adam, AdamW, Optimizer, Sgd};
pub use rules::pml::pml_bytes;
pub use rules::samplers::{
    ClassBalancedSampler, HierarchicalSampler, MPerClassEpochSampler, MPerClassSampler, Sampler,
    ShuffledSampler,
};
pub use rules::schedules::{Constant, CosineAnnealingLr, LinearLr, OneCycleLr, Schedule, StepLr};
pub use run::warnings::Warning;
pub use run::{
    Baseline, Checkpoint, DataReport, FullEvaluation, MemoryReport, Origin, Progress, Run,
    RunReport,
};
pub use search::evaluation::{
    EvaluationSpec, RankedQueries, Scoring, evaluate, evaluate_across, evaluate_nearest,
    evaluate_numbered, rank_queries, total_of_ranked,
};
#[cfg(not(target_arch = "wasm32"))]
pub use search::knn::search_across;
pub use search::knn::{KnnIndex, KnnSpec, Neighbors};
pub use search::metrics::{Metrics, Retrieval, Scores};
pub use search::rows::{NumberedRows, Rows};
pub use search::rows_to_check::{Confusion, RowsToCheck, Suspect};
pub use search::threshold::{
    PairRates, Threshold, ThresholdConfig, ThresholdReport, ThresholdSpec, find_threshold,
    find_threshold_across,
};
pub use speed::device_speed::{SelfTest, self_test};
pub use speed::rate::measure_rate;
pub use speed::tuning::{Tuning, tune};
#[cfg(not(target_family = "wasm"))]
pub use take_home::is_history;
pub use take_home::{
    CHECKPOINT, HISTORY, Head, IMAGINED, Link, Piece, Results, RowsOf, SavedArchive, SideRows,
    Taken, TakenFile, archive, folder, folder_names, link, link_pairs, saved_run,
};
pub use train::trainer::{
    AnchorAsked, AnchorKind, AnchorReference, AnchorStand, Evaluation, Neighbour, Neighbourhood,
    OneAnchor, PairHistogram, StepReport, StoredMemory, Trainer,
};
