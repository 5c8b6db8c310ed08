//! Messages between the page and the worker: one in bytes ([`crate::wire`]), with files or arrays beside it that are handed over,
//! never copied.

use std::collections::BTreeMap;

use nearfar::{
    AnchorAsked, Baseline, Columns, CompareConfig, CompareForecast, CompareReport, Compared, Cure,
    DataReport, DeviceInfo, EngineKind, Error, Evaluation, FullEvaluation, MemoryAge, MemoryReport,
    Missing, Neighbourhood, OneAnchor, Origin, PairHistogram, Pictures, Piece, Reason, RowsOf,
    RowsToCheck, Scores, SelfTest, Side, StepReport, TableColumn, ThresholdReport, TrainConfig,
    VectorSizes, Warning, Working,
};
use serde::{Deserialize, Serialize};

use crate::as_json;
use crate::asked::Code;
use crate::offer::Offer;
use crate::words::time;

/// A command of the page.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Command {
    /// Opens an engine once, to report its device; later runs use the same choice.
    Open {
        /// Engine that is forced, if any.
        engine: Option<EngineKind>,
        /// GPU and tile shape that an earlier visit found to be fastest, as `remembered::tuned_text` writes it.
        tuned: Option<String>,
    },
    /// Makes a sample the data.
    Sample {
        /// Its name, without `sample:`.
        name: String,
        /// Seed of the sample.
        seed: u64,
    },
    /// Makes files the data; they come with the message.
    Files {
        /// Label column; guessed if `None`.
        label: Option<String>,
        /// Columns of a table that are features, and those that settings name.
        columns: Columns,
        /// Settings that decide which rows train: the defaults of the others suit the number of those rows.
        splitting: Vec<String>,
        /// Treatment of cells without a number.
        missing: Missing,
        /// Size in bytes from which on the features of an NPY file stay in it, and are read as they are needed.
        stream_from: u64,
    },
    /// Reads the checkpoint of an exported run; its file comes with the message.
    OpenSaved,
    /// Names the tensor that ran out of memory, from this traceback or the lines of a setup.
    Diagnose(String),
    /// Forecasts a run with these settings, while none is under way.
    Forecast {
        /// Its settings.
        #[serde(with = "as_json")]
        config: Box<TrainConfig>,
        /// Speed of earlier runs, in operations of a forecast per millisecond; measured if `None`.
        rate: Option<f64>,
    },
    /// Starts a run, in place of one under way.
    Start {
        /// Its settings.
        #[serde(with = "as_json")]
        config: Box<TrainConfig>,
        /// Steps until the run pauses; all if `None`.
        steps: Option<u64>,
    },
    /// Pauses the run after the slice of work under way; does nothing if no run goes on.
    Pause,
    /// Resumes the run, which pauses again after `steps`, if there are any; does nothing if no run waits.
    Resume {
        /// Steps until the run pauses; all if `None`.
        steps: Option<u64>,
    },
    /// Finds the rows nearest to a row, after the slice of work under way.
    Neighbours {
        /// The row's number in the data.
        row: u32,
    },
    /// Looks at an anchor of the last step, after the slice of work under way.
    Anchor(AnchorAsked),
    /// Puts the rows of a side on the map.
    ShowSide(Side),
    /// Places the rows of the map by UMAP, while no step is taken.
    PlaceByUmap,
    /// Stops placing rows by UMAP; does nothing if none are being placed.
    StopPlacing,
    /// Lists rows of the data with their classes, as a file.
    ListRows {
        /// Numbers of the rows.
        rows: Vec<u32>,
    },
    /// Names rows of the data, and gives the cells of one.
    About {
        /// Numbers of the rows.
        rows: Vec<u32>,
        /// Row whose cells are asked for.
        cells_of: Option<u32>,
    },
    /// Finds the rows that name these files.
    FilesOfRows(Vec<String>),
    /// Names the rows by this column.
    NameBy(String),
    /// Colours rows by a column.
    ColourBy {
        /// The column.
        column: String,
        /// Numbers of the rows.
        rows: Vec<u32>,
    },
    /// Finds the row of this name, or one whose name has this text in it.
    FindName {
        /// The name, or a part of it.
        name: String,
        /// Rows that are looked at first for a part of a name.
        rows: Vec<u32>,
    },
    /// Limits the test rows that are scored at the end, also while they are being scored.
    ScoreFewer {
        /// Most test rows that are scored.
        queries: usize,
    },
    /// Scores the side that the run is judged by, with every row as a query; the run goes on after it.
    EvaluateAll,
    /// Stops scoring every row; does nothing if that is not under way.
    StopEvaluating,
    /// Finds the threshold of a run that is over.
    FindThreshold {
        /// The false match rate; if `None`, the least that the pairs can tell.
        rate: Option<f64>,
    },
    /// Reports on a threshold that a person chose.
    ThresholdAt(f64),
    /// Stops the search for a threshold; does nothing if there is none.
    StopThreshold,
    /// Stops reading files: they are refused, with an empty message; does nothing if none are being read.
    StopReading,
    /// Estimates the size of each piece of a run that can be exported.
    ListPieces {
        /// Rows for the pieces that are made of rows.
        side: RowsOf,
        /// The linear map takes the place of the head.
        linear: bool,
    },
    /// Makes a piece of the run, after the slice of work under way.
    TakeHome {
        /// The piece.
        piece: Piece,
        /// Rows of the piece, if it is made of rows.
        side: RowsOf,
        /// The linear map takes the place of the head, if the piece is made of it.
        linear: bool,
    },
    /// Forecasts a comparison and a search, while nothing is under way.
    PlanComparison {
        /// The entries to compare, and their settings.
        asked: Box<CompareConfig>,
        /// The search for the recipe that does best.
        search: Box<CompareConfig>,
    },
    /// Starts a comparison, in place of the run that is over.
    Compare {
        /// The entries to compare, and their settings.
        asked: Box<CompareConfig>,
    },
    /// Stops the comparison, whose results so far stay; does nothing if none goes on.
    StopComparing,
    /// Looks for rows whose neighbours speak against their label, after the slice of work under way.
    FindRowsToCheck {
        /// Rows to look among.
        side: RowsOf,
    },
    /// Checks every row by heads that did not train on it, which are trained for that.
    CheckEveryRow,
    /// Stops checking every row; does nothing if that is not under way.
    StopChecking,
    /// Makes a file of all rows to check, as every row was checked.
    SaveSuspects(Box<RowsToCheck>),
    /// Makes a file of the rows that get another label.
    SaveChanges(Vec<(u32, String)>),
    /// Scores vectors of every size of the test rows of the run that is over.
    MeasureSizes,
    /// Stops the run and sets it aside: the next run or other data frees its memory.
    Reset,
    /// Takes back the run that was set aside: it waits, or is over as it was.
    Undo,
    /// Saves the run in the browser's storage, if there is one that is not over.
    Save,
    /// Resumes the checkpoint that comes with the message, or else the saved run of this number, on the data there is; answered as
    /// a start is.
    GoOn(u64),
    /// Deletes what was saved of the run of this number.
    Forget(u64),
    /// Looks for the saved runs that no tab holds.
    FindSaved,
}

/// A message of the worker. `Open` is answered by `Device` or `NoDevice`, offered data by `Data` or `Refused`, and a start by
/// `Started` or `NotStarted`, in the order of the commands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Event {
    /// The core is up, on this device.
    Device(Running),
    /// No engine could be opened, and why.
    NoDevice(String),
    /// The GPU that the link asks for cannot be opened; the reason comes after it.
    NoGpu,
    /// The data is read.
    Data(Box<DataSummary>),
    /// Forecast of a run, or why it would be refused.
    Forecast(Result<RunForecast, Refusal>),
    /// A run begins.
    Started {
        /// Its settings.
        #[serde(with = "as_json")]
        config: Box<TrainConfig>,
        /// Its data, with the sizes of the splits.
        data: DataReport,
        /// Device that it runs on.
        running: Running,
        /// Warnings before the first step.
        warnings: Vec<Warning>,
        /// Memory that it holds.
        memory: MemoryReport,
        /// The part of it that the triplets or pairs of a step take; 0 if that is not known.
        step_bytes: u64,
    },
    /// Steps were taken.
    Steps {
        /// Reports of the steps.
        reports: Vec<StepReport>,
        /// Milliseconds that they took; 0 if they were taken before the run was opened here.
        took_ms: f64,
        /// Similarities of the pairs of the last step.
        pairs: Option<PairHistogram>,
        /// Age of the references of the last step.
        age: MemoryAge,
        /// Warnings of the run so far.
        warnings: Vec<Warning>,
        /// Memory that is held.
        memory: MemoryReport,
    },
    /// The validation side was scored.
    Evaluated {
        /// Its scores.
        evaluation: Box<Evaluation>,
        /// Scores of the raw features and of the linear map.
        baseline: Box<Baseline>,
        /// The best validation so far in words, if the settings keep it.
        best: Option<String>,
        /// The run stopped early: it was the last.
        stopped: bool,
    },
    /// Positions of rows now. Beside it come, for each row, `[x, y]` as f32, the class as u16, the number as u32, and `[x, y]` by
    /// its features as f32; and if the rows are pictures, the shade of each pixel as a byte.
    Map {
        /// Side of the rows; `None` if there is no run, and they are of all sides.
        side: Option<Side>,
        /// The classes, the largest first.
        names: Vec<String>,
        /// Width and height of a picture in pixels, if the rows are pictures.
        picture_side: Option<usize>,
        /// Numbers in their file of rows without a label, whose positions stand behind those of the others.
        aside: Vec<u32>,
    },
    /// Positions of the map's rows by UMAP so far; beside it come `[x, y]` of each as f32, by features and by embeddings.
    PlacedByUmap {
        /// Progress in epochs.
        epochs: Part,
    },
    /// UMAP places no rows, and why.
    NotPlaced(String),
    /// The rows nearest to the one that was asked for, and the pictures of them all, if rows are pictures.
    Neighbours(Box<Neighbourhood>, Option<(Vec<u32>, Pictures)>),
    /// The row that was asked for is a test row, which nobody sees before the run is over.
    Unseen(u32),
    /// The anchor that was asked for, or why it cannot be looked at; `None` before the first step here.
    Anchor(Result<Option<Box<LookedAt>>, String>),
    /// Answers [`Command::About`].
    About {
        /// Names of rows; empty where a row has none.
        names: Vec<(u32, String)>,
        /// A row with its cells by column.
        cells: Option<Cells>,
    },
    /// Answers [`Command::ColourBy`]. Beside it comes the colour of each row as u16; `u16::MAX` is an empty cell.
    Coloured {
        /// The column.
        column: String,
        /// Texts that the colours stand for; none of a scale of numbers.
        names: Vec<String>,
        /// Numbers at the ends of a scale.
        ends: [f64; 2],
    },
    /// The row of the name that was looked for.
    FoundName(Option<u32>),
    /// The row that names each of the files that were asked about, if one does.
    FoundFiles(Vec<Option<u32>>),
    /// Forecast of scoring every row of a side: sent once a run has begun, and again when it is over.
    CanEvaluateAll(EvaluationForecast),
    /// Progress of long work.
    Working {
        /// The work, and how much of it is done.
        working: Working,
        /// Estimated milliseconds left.
        left_ms: f64,
    },
    /// Number of queries scored so far, as every row is scored.
    Evaluating(Part),
    /// The scores of every row; `None` if scoring was stopped, or no row has another of its class.
    EvaluatedAll(Option<Box<FullEvaluation>>),
    /// The threshold, or why there is none; `None` if the search was stopped.
    Threshold(Result<Option<Box<ThresholdReport>>, String>),
    /// Estimated bytes of each piece of the run, `None` if there is no such piece; and lines of code that use the run.
    Pieces(Vec<(Piece, Option<u64>)>, Vec<Code>),
    /// Forecast of a comparison, or why it would be refused; estimated milliseconds of it by folds, if the first fold decides and if
    /// none does, if it can start; and estimated seconds of a search whose last recipes are trained with two seeds and with three.
    ComparisonForecast(
        Result<CompareForecast, String>,
        Option<[f64; 2]>,
        Option<[u64; 2]>,
    ),
    /// Progress of a comparison.
    Comparing(CompareState),
    /// The leaderboard so far; final if the comparison is finished or was stopped.
    Compared {
        /// The leaderboard.
        report: Box<CompareReport>,
        /// The leaderboard is final.
        over: bool,
    },
    /// The comparison cannot start, or broke off.
    NotCompared(String),
    /// The rows to check; `None` if the search was stopped. Beside them come, if rows are pictures, the shades of those that are listed.
    RowsToCheck {
        /// What was found.
        check: Option<Box<RowsToCheck>>,
        /// Width and height of a picture in pixels, if the rows are pictures.
        picture_side: Option<usize>,
    },
    /// Scores of vectors of every size: of the raw features, of the linear map if there is one, and of the head.
    Sizes(Vec<(String, VectorSizes)>),
    /// A piece as a file of this name; beside it comes its content.
    Taken(String),
    /// A piece cannot be made, and why.
    NotTaken(String),
    /// The run is paused.
    Paused,
    /// The run goes on.
    Resumed,
    /// The test side was scored.
    Finished {
        /// The head's scores.
        scores: Box<Scores>,
        /// Scores of the raw features and of the linear map.
        baseline: Box<Baseline>,
        /// Verdict on the head beside what it is compared with.
        verdict: String,
        /// The verdict in numbers.
        compared: Vec<Compared>,
        /// Step of the head, if it is not the last.
        kept_step: Option<u64>,
        /// Warnings, and what to try next.
        warnings: Vec<Warning>,
        /// Milliseconds of the work itself.
        elapsed_ms: f64,
        /// Speed of the run, in operations of a forecast per millisecond.
        rate: Option<f64>,
    },
    /// An exported run that can be resumed: beside it comes its checkpoint.
    SavedRun(Box<Offer>),
    /// Answers [`Command::Diagnose`]: lines, each with its heading.
    Diagnosed(Vec<(String, String)>),
    /// An exported run cannot be opened, and why.
    NotOpened(String),
    /// The run as it is now: beside it comes its checkpoint.
    Kept {
        /// Origin of its data.
        origin: Origin,
        /// Number of the saved run, which is deleted once this is kept; 0 if nothing was saved.
        saved: u64,
    },
    /// The run is set aside. Nothing comes from it until it is taken back.
    Reset,
    /// The data cannot be used; the data before it still is.
    Refused {
        /// The reason; empty if reading was stopped.
        message: String,
        /// The columns of the file with the labels, if naming another one may help.
        columns: Vec<String>,
        /// Choice that would make the file readable.
        cure: Cure,
    },
    /// The run cannot start with these settings, and why; there is none now.
    NotStarted(String),
    /// The run failed and is gone, and why.
    Failed(String),
    /// Runs that can be resumed after a reload or if the worker ends, the newest first; `true` if the first is the current run.
    /// Sent after the engine was opened, and whenever this changes.
    CanGoOn(Vec<Offer>, bool),
    /// Why the run is not being saved; `None` once it is again.
    NotSaved(Option<String>),
    /// A notice, in a sentence.
    Said(String),
}

/// An anchor of the last step, with what is shown of it elsewhere than on its line of similarities.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LookedAt {
    pub(crate) seen: OneAnchor,
    /// Rows of its heaviest triplets, before and after the step, with their places on the plane of the map.
    pub(crate) on_map: Vec<(u32, [f32; 2])>,
    /// Rows that are shown, and their pictures, if they are pictures.
    pub(crate) pictures: Option<(Vec<u32>, Pictures)>,
}

/// Most rows to check that are listed, with their pictures; the file has all.
pub(crate) const LISTED: usize = 100;

/// A row, and its cells by column.
pub(crate) type Cells = (u32, Vec<(String, String)>);

/// Device that the core runs on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Running {
    /// The device.
    pub(crate) device: DeviceInfo,
    /// Why this device was chosen.
    pub(crate) reason: Reason,
    /// The worker has WebGPU at all, with a GPU or without.
    pub(crate) webgpu: bool,
    /// Number of threads of the CPU engine.
    pub(crate) threads: usize,
    /// Speed of the device, if it was measured.
    pub(crate) self_test: Option<SelfTest>,
}

/// Summary of the data that was read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct DataSummary {
    /// A sample's or a file's name.
    pub(crate) name: String,
    /// Number of rows.
    pub(crate) rows: usize,
    /// Number of rows that train, unless settings say otherwise.
    pub(crate) train: usize,
    /// Features of a row.
    pub(crate) dim: usize,
    /// The names of the first classes.
    pub(crate) first_classes: Vec<String>,
    /// Number of classes.
    pub(crate) classes: usize,
    /// Rows of the smallest and the largest class.
    pub(crate) class_sizes: [u32; 2],
    /// Decisions made while reading, in words.
    pub(crate) notes: Vec<String>,
    /// Findings in the rows, in words.
    pub(crate) findings: Vec<String>,
    /// Columns with their roles and first cells.
    pub(crate) columns: Vec<TableColumn>,
    /// The columns that could be the label.
    pub(crate) label_columns: Vec<String>,
    /// The column that is the label.
    pub(crate) label_column: Option<String>,
    /// Treatment of cells without a number.
    pub(crate) missing: Missing,
    /// Text columns: they can say the side, the group or the super-class of each row.
    pub(crate) split_columns: Vec<String>,
    /// The columns that can name the rows, and the one that does.
    pub(crate) naming: Vec<String>,
    pub(crate) named_by: Option<String>,
    /// The columns that rows can be coloured by, beside the label.
    pub(crate) colour_columns: Vec<String>,
    /// There are no rows: memory and time can only be planned.
    pub(crate) imagined: bool,
    /// The settings to start from.
    #[serde(with = "as_json")]
    pub(crate) default_config: TrainConfig,
}

/// The reason why a run is refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Refusal {
    pub(crate) message: String,
    /// Settings with the largest value with which the run fits, each by itself.
    pub(crate) fits: Vec<(String, u64)>,
}

impl Refusal {
    /// The reason by itself: the page has a button for each setting that fits.
    pub(crate) fn of(mut error: Error) -> Self {
        let found = match &mut error {
            Error::Refused { fits, .. } | Error::TooLarge { fits, .. } => std::mem::take(fits),
            _ => Vec::new(),
        };
        let named = |(setting, value): (&str, usize)| (setting.to_owned(), value as u64);
        Self {
            message: error.to_string(),
            fits: found.into_iter().map(named).collect(),
        }
    }
}

/// Forecast of a run's memory and time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunForecast {
    /// Most bytes of device memory that the run will hold.
    pub(crate) peak_bytes: u64,
    /// Bytes that the run may hold.
    pub(crate) budget_bytes: u64,
    /// Bytes by purpose.
    pub(crate) by_purpose: BTreeMap<String, u64>,
    /// Estimated milliseconds.
    pub(crate) predicted_ms: f64,
    /// Estimated bytes that PML would allocate for the triplets or pairs of the largest step.
    pub(crate) pml_bytes: u64,
    /// Bytes that are held here for the triplets or pairs of a step.
    pub(crate) step_bytes: u64,
    /// Bytes of the table's numbers.
    pub(crate) table_bytes: u64,
    /// Bytes of the table's texts: names of rows, and other columns.
    pub(crate) text_bytes: u64,
    /// The table's numbers stay in their file, and are read as they are needed.
    pub(crate) table_in_file: bool,
    /// Cut of each batch and its cost, in words; empty if all of it goes through the head at once.
    pub(crate) chunk: String,
}

/// The comparison by folds, as a race: of its seeds two will do, as each is of five heads.
pub(crate) fn decided(asked: CompareConfig) -> CompareConfig {
    CompareConfig {
        folds: 5,
        race: true,
        seeds: 2,
        ..asked
    }
}

/// Progress of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct CompareState {
    /// Runs done, and runs in all.
    pub(crate) runs: [u64; 2],
    /// Steps done, and steps in all.
    pub(crate) steps: [u64; 2],
    /// Estimated milliseconds left.
    pub(crate) left_ms: f64,
}

/// Progress of long work.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Part {
    /// Units done, of `total`.
    pub(crate) done: u64,
    pub(crate) total: u64,
    /// Estimated milliseconds left.
    pub(crate) left_ms: f64,
}

impl Part {
    /// Progress after this time, if the rest goes as fast.
    pub(crate) fn after(elapsed_ms: f64, done: u64, total: u64) -> Self {
        let left = total.saturating_sub(done) as f64 / done.max(1) as f64;
        Self {
            done,
            total,
            left_ms: elapsed_ms * left,
        }
    }

    /// Time left in words; empty if less than a fiftieth is done, which tells nothing, or all.
    pub(crate) fn left(&self) -> String {
        match 50 * self.done < self.total || self.done >= self.total {
            true => String::new(),
            false => format!(", {} left", time(self.left_ms)),
        }
    }
}

/// Forecast of scoring every row of a side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct EvaluationForecast {
    /// The side.
    pub(crate) side: Side,
    /// Rows of the side.
    pub(crate) queries: u64,
    /// Bytes that the run holds for it.
    pub(crate) bytes: u64,
    /// Estimated milliseconds.
    pub(crate) predicted_ms: f64,
}
