//! What the page and the worker say to each other: one message in bytes ([`crate::wire`]), with files or arrays beside it that are
//! handed over, never copied.

use std::collections::BTreeMap;

use nearfar::{
    Baseline, Columns, CompareConfig, CompareForecast, CompareReport, Compared, Cure, DataReport,
    DeviceInfo, EngineKind, Evaluation, FullEvaluation, HardestTriplets, MemoryAge, MemoryReport,
    Missing, Neighbourhood, Origin, PairHistogram, Piece, Reason, RowsOf, RowsToCheck, Scores,
    SelfTest, Side, StepReport, TableColumn, ThresholdReport, TrainConfig, Warning, Working,
};
use serde::{Deserialize, Serialize};

use crate::checkpoints::Offer;
use crate::forecast::time;

/// What the page asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Command {
    /// Opens an engine once, to say what there is; later runs use the same choice.
    Open {
        /// A forced engine.
        engine: Option<EngineKind>,
        /// Which GPU an earlier visit found to be fastest with which shape of tiles, as `device::tuned_text` says it.
        tuned: Option<String>,
    },
    /// Makes a sample the data.
    Sample {
        /// Its name, without `sample:`.
        name: String,
        /// What seeds it.
        seed: u64,
    },
    /// Makes files the data; they come with the message.
    Files {
        /// The column of labels; guessed without it.
        label: Option<String>,
        /// Which columns of a table are features, and which settings name.
        columns: Columns,
        /// Settings that say which rows will train: others start from sizes that suit those rows.
        splitting: Vec<String>,
        /// What becomes of cells without a number.
        missing: Missing,
        /// Features of an NPY file of so many bytes or more stay in it, and are read as they are needed.
        stream_from: u64,
    },
    /// Looks into a run that was taken home; its file comes with the message.
    OpenSaved,
    /// Forecasts a run with these settings; there is none under way.
    Forecast {
        /// Its settings.
        #[serde(with = "as_json")]
        config: Box<TrainConfig>,
        /// How fast earlier runs were; it is measured without it.
        rate: Option<f64>,
    },
    /// Starts a run, in place of one under way.
    Start {
        /// Its settings.
        #[serde(with = "as_json")]
        config: Box<TrainConfig>,
        /// Steps until it pauses; all without it.
        steps: Option<u64>,
    },
    /// Pauses after the slice of work under way; where no run goes on, nothing happens.
    Pause,
    /// Goes on; pauses again after `steps` where there are any. Where no run waits, nothing happens.
    Resume {
        /// Steps until it pauses.
        steps: Option<u64>,
    },
    /// Finds the rows nearest to one on the map, after the slice of work under way.
    Neighbours {
        /// The row's number in the data.
        row: u32,
    },
    /// Places the rows of the map by UMAP, while no step is taken.
    PlaceByUmap,
    /// Stops that. Where nothing is placed, nothing happens.
    StopPlacing,
    /// Lists rows of the data with their classes, as a file.
    ListRows {
        /// Their numbers.
        rows: Vec<u32>,
    },
    /// Scores so many test rows at most at the end, also where that is under way.
    ScoreFewer {
        /// How many.
        queries: usize,
    },
    /// Scores the side that the map shows, every row a query; the run goes on after it.
    EvaluateAll,
    /// Stops that. Where nothing is scored, nothing happens.
    StopEvaluating,
    /// Finds the threshold of a run that is over.
    FindThreshold {
        /// The false match rate; without it the least that the pairs can tell.
        rate: Option<f64>,
    },
    /// Stops that. Where none is looked for, nothing happens.
    StopThreshold,
    /// Stops reading files: they are refused, with nothing to say. Where none are read, nothing happens.
    StopReading,
    /// Says how large the pieces are that a run leaves.
    ListPieces {
        /// The rows of those that are made of rows.
        side: RowsOf,
    },
    /// Makes one of them, after the slice of work under way.
    TakeHome {
        /// Which.
        piece: Piece,
        /// Its rows, where it is made of rows.
        side: RowsOf,
    },
    /// Forecasts a comparison; nothing is under way.
    PlanComparison {
        /// What is compared.
        asked: Box<CompareConfig>,
    },
    /// Starts a comparison, in place of the run that is over.
    Compare {
        /// What is compared.
        asked: Box<CompareConfig>,
    },
    /// Stops it; what it found stays. Where none goes on, nothing happens.
    StopComparing,
    /// Looks for rows whose neighbours speak against their label, after the slice of work under way.
    FindRowsToCheck {
        /// Among which rows.
        side: RowsOf,
    },
    /// Stops the run and sets it aside: the next run or other data gives its memory back.
    Reset,
    /// Takes the run back that was set aside; it waits, or is over as it was.
    Undo,
    /// Saves the run in the browser's storage, where there is one.
    Save,
    /// Goes on with the checkpoint that comes with the message, or else with this run that was saved, on the data there is; answered
    /// as a start is.
    GoOn(u64),
    /// Forgets what was saved of a run.
    Forget(u64),
    /// Looks for the runs that were saved and that no tab has.
    FindSaved,
}

/// What the worker has to say. `Open` is answered by `Device` or `NoDevice`, offered data by `Data` or `Refused`, and a
/// start by `Started` or `NotStarted`, in the order of the commands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Event {
    /// The core is up.
    Device(Running),
    /// There is no such engine.
    NoDevice(String),
    /// The GPU that the link asks for cannot be opened; why comes after it.
    NoGpu,
    /// The data is read.
    Data(Box<DataSummary>),
    /// What a run would hold and take; or why it would be refused.
    Forecast(Result<RunForecast, String>),
    /// A run begins.
    Started {
        /// Its settings.
        #[serde(with = "as_json")]
        config: Box<TrainConfig>,
        /// Its data, split.
        data: DataReport,
        /// What it runs on.
        running: Running,
        /// What is likely wrong, before the first step.
        warnings: Vec<Warning>,
        /// What it holds.
        memory: MemoryReport,
    },
    /// Steps were taken.
    Steps {
        /// Their reports.
        reports: Vec<StepReport>,
        /// Milliseconds that they took; 0 where that is over.
        took_ms: f64,
        /// How similar the pairs of the last one were.
        pairs: Option<PairHistogram>,
        /// Its hardest triplets, where they were picked: they never take more than a small part of the time.
        hardest: Option<HardestTriplets>,
        /// How old its references were.
        age: MemoryAge,
        /// What is likely wrong.
        warnings: Vec<Warning>,
        /// What is held.
        memory: MemoryReport,
    },
    /// The validation side was scored.
    Evaluated {
        /// Its scores.
        evaluation: Box<Evaluation>,
        /// Those of what it is compared with.
        baseline: Box<Baseline>,
    },
    /// Where rows lie now; beside it come `[x, y]` of each as f32, the class of each as u16, its number as u32, and
    /// `[x, y]` of its features; and where the rows are pictures, the shade of each pixel as a byte.
    Map {
        /// Whose rows; nothing where they are of all sides, and there is no run.
        side: Option<Side>,
        /// The classes, the largest first.
        names: Vec<String>,
        /// Pixels from left to right, and from top to bottom, where the rows are pictures.
        picture_side: Option<usize>,
    },
    /// Where UMAP places the rows of the map so far; beside it come `[x, y]` of each as f32, by features and by embeddings.
    PlacedByUmap {
        /// Of its epochs.
        epochs: Part,
    },
    /// Why it places none.
    NotPlaced(String),
    /// The rows nearest to the one that was asked for. One that is no longer on the map has no answer.
    Neighbours(Box<Neighbourhood>),
    /// What scoring every row of a side would take: once a run has begun, and again when it is over.
    CanEvaluateAll(EvaluationForecast),
    /// Long work goes on, and is so far.
    Working {
        /// What, and how far.
        working: Working,
        /// How long it goes on, about, in milliseconds.
        left_ms: f64,
    },
    /// So many queries are scored.
    Evaluating(Part),
    /// The scores of every row; nothing where it was stopped, or no row has another of its class.
    EvaluatedAll(Option<Box<FullEvaluation>>),
    /// The threshold, or why there is none; nothing where the search was stopped.
    Threshold(Result<Option<Box<ThresholdReport>>, String>),
    /// How large each piece of the run is, about; nothing where there is none.
    Pieces(Vec<(Piece, Option<u64>)>),
    /// What a comparison would take, or why it would be refused.
    ComparisonForecast(Result<CompareForecast, String>),
    /// A comparison goes on.
    Comparing(CompareState),
    /// The leaderboard so far; once it is finished or was stopped, for good.
    Compared {
        /// The leaderboard.
        report: Box<CompareReport>,
        /// Whether nothing more comes.
        over: bool,
    },
    /// The comparison cannot start, or broke off.
    NotCompared(String),
    /// The rows to check.
    RowsToCheck(Box<RowsToCheck>),
    /// A piece as a file of this name; beside it comes its content.
    Taken(String),
    /// Why a piece cannot be made.
    NotTaken(String),
    /// The run waits.
    Paused,
    /// The run goes on.
    Resumed,
    /// The test side was scored.
    Finished {
        /// The head's scores.
        scores: Box<Scores>,
        /// Those of what it is compared with.
        baseline: Box<Baseline>,
        /// The comparison in a sentence.
        verdict: String,
        /// The same in numbers.
        compared: Vec<Compared>,
        /// What is likely wrong, and what to try next.
        warnings: Vec<Warning>,
        /// The work itself, in milliseconds.
        elapsed_ms: f64,
        /// How fast it was: operations of a forecast a millisecond.
        rate: Option<f64>,
    },
    /// What was taken home can be gone on with: beside it comes its checkpoint.
    SavedRun(Box<Offer>),
    /// It cannot be opened.
    NotOpened(String),
    /// The run as it is now: beside it comes its checkpoint.
    Kept {
        /// Where its data is from.
        origin: Origin,
        /// What was saved of it is forgotten once this is kept; 0 where nothing was.
        saved: u64,
    },
    /// The run is set aside. Nothing comes from it until it is taken back.
    Reset,
    /// The data cannot be used; what was there before still is.
    Refused {
        /// Why.
        message: String,
        /// The columns of the file with the labels, where naming another one may help.
        columns: Vec<String>,
        /// What can be chosen so that the file is read.
        cure: Cure,
    },
    /// The run cannot start with these settings; there is none now.
    NotStarted(String),
    /// The run failed and is gone.
    Failed(String),
    /// What can be gone on with after a reload, or where the worker ends, the newest first: after the engine was opened, and whenever
    /// that changes. With it comes whether the first is the run that is there.
    CanGoOn(Vec<Offer>, bool),
    /// Why the run is not being saved; nothing once it is again.
    NotSaved(Option<String>),
    /// What is good to know, in a sentence.
    Said(String),
}

/// What the core runs on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Running {
    /// The device.
    pub(crate) device: DeviceInfo,
    /// Why that.
    pub(crate) reason: Reason,
    /// Whether the worker has WebGPU at all, with a GPU or without.
    pub(crate) webgpu: bool,
    /// How fast it is, where that was measured.
    pub(crate) self_test: Option<SelfTest>,
}

/// What was read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct DataSummary {
    /// A sample's or a file's name.
    pub(crate) name: String,
    /// How many rows.
    pub(crate) rows: usize,
    /// How many of them train, unless settings say otherwise.
    pub(crate) train: usize,
    /// Features of a row.
    pub(crate) dim: usize,
    /// The names of the first classes.
    pub(crate) first_classes: Vec<String>,
    /// How many classes.
    pub(crate) classes: usize,
    /// Rows of the smallest and the largest class.
    pub(crate) class_sizes: [u32; 2],
    /// What was decided while reading, in words.
    pub(crate) notes: Vec<String>,
    /// What stands out in the rows, in words.
    pub(crate) findings: Vec<String>,
    /// What each column is taken for, and its first cells.
    pub(crate) columns: Vec<TableColumn>,
    /// The columns that could be the label.
    pub(crate) label_columns: Vec<String>,
    /// The one that is.
    pub(crate) label_column: Option<String>,
    /// What became of cells without a number.
    pub(crate) missing: Missing,
    /// Text columns: what can say the side of each row, or its super-class.
    pub(crate) split_columns: Vec<String>,
    /// Whether there are no rows, and memory and time can only be planned.
    pub(crate) imagined: bool,
    /// The settings to start from.
    #[serde(with = "as_json")]
    pub(crate) default_config: TrainConfig,
}

/// What a run will hold and take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunForecast {
    /// The most it will hold, in bytes.
    pub(crate) peak_bytes: u64,
    /// What it has to stay within.
    pub(crate) budget_bytes: u64,
    /// What the bytes are for.
    pub(crate) by_purpose: BTreeMap<String, u64>,
    /// How long it takes, about.
    pub(crate) predicted_ms: f64,
    /// What PML would allocate for the triplets or pairs of its largest step, about, in bytes.
    pub(crate) pml_bytes: u64,
    /// What is held here for the same.
    pub(crate) step_bytes: u64,
    /// Bytes of the table's numbers.
    pub(crate) table_bytes: u64,
    /// Whether these stay in their file, and are read as they are needed.
    pub(crate) table_in_file: bool,
}

/// How far a comparison is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct CompareState {
    /// Runs done, and runs in all.
    pub(crate) runs: [u64; 2],
    /// Steps done, and steps in all.
    pub(crate) steps: [u64; 2],
    /// How long it goes on, about, in milliseconds.
    pub(crate) left_ms: f64,
}

/// How much of long work is done.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Part {
    /// Of all.
    pub(crate) done: u64,
    pub(crate) total: u64,
    /// How long the rest takes, about, in milliseconds.
    pub(crate) left_ms: f64,
}

impl Part {
    /// What is done after this time, where the rest goes as fast.
    pub(crate) fn after(elapsed_ms: f64, done: u64, total: u64) -> Self {
        let left = total.saturating_sub(done) as f64 / done.max(1) as f64;
        Self {
            done,
            total,
            left_ms: elapsed_ms * left,
        }
    }

    /// How long the rest takes, in words; nothing where little is done yet, which tells nothing.
    pub(crate) fn left(&self) -> String {
        match 50 * self.done < self.total || self.done >= self.total {
            true => String::new(),
            false => format!(", {} left", time(self.left_ms)),
        }
    }
}

/// What scoring every row of a side will take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct EvaluationForecast {
    /// The side.
    pub(crate) side: Side,
    /// Its rows.
    pub(crate) queries: u64,
    /// What the run holds for it, in bytes.
    pub(crate) bytes: u64,
    /// How long it takes, about.
    pub(crate) predicted_ms: f64,
}

/// Settings in a message: JSON, as a loss says by its name which arguments follow, and postcard cannot look ahead.
pub(crate) mod as_json {
    use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error as _};
    use serde::ser::{Error as _, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(it: &impl Serialize, to: S) -> Result<S::Ok, S::Error> {
        let text = serde_json::to_string(it).map_err(S::Error::custom)?;
        to.serialize_str(&text)
    }

    pub(crate) fn deserialize<'de, T: DeserializeOwned, D: Deserializer<'de>>(
        from: D,
    ) -> Result<T, D::Error> {
        let text = String::deserialize(from)?;
        serde_json::from_str(&text).map_err(D::Error::custom)
    }
}
