//! The commands, their common options, and their output: results on standard output, notes on standard error.

mod allocator;
mod checkpoints;
mod columns;
mod compare;
mod data;
mod device_memory;
mod devices;
mod doctor;
mod embed;
mod evaluate;
mod export;
mod files;
mod fit;
mod knn;
mod mine;
mod output;
mod pairs;
mod plan;
mod progress;
mod recipes;
mod saved;
mod shapes;
mod sides;
mod signals;
mod sizes;
mod survey;
mod temporary;
mod threshold;
mod train;
mod triplets;

use std::fmt::Display;
use std::io::{ErrorKind, Write as _};
use std::process::ExitCode;
use std::sync::Mutex;

use clap::{Args, Parser, Subcommand};
use nearfar::{
    Engine, EngineChoice, EngineKind, Error, MemoryReport, Result, TileShape, TrainConfig,
    self_test,
};

pub(crate) use allocator::Allocator;

/// Learn a similarity: train a head that brings rows of one class together, and see whether nearest neighbours got better.
///
/// A row is one thing that was measured or embedded; a head is a small network that maps rows to embeddings of length 1;
/// cosine similarity compares them. Every command stays within a memory budget, and says so before it starts where it
/// cannot. Exit code: 0 done, 1 failed while running, 2 refused (bad input, or it does not fit), 130 stopped by Ctrl-C.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  nearfar train --data flowers.csv --labels species --out run
  nearfar compare --data flowers.csv --labels species
  nearfar evaluate --embeddings run/test_embeddings.npy --labels run/test_labels.csv";

#[derive(Debug, Subcommand)]
enum Command {
    Train(train::Train),
    Compare(compare::Compare),
    Fit(fit::Fit),
    Embed(embed::Embed),
    Evaluate(evaluate::Evaluate),
    Threshold(threshold::Threshold),
    Sizes(sizes::Sizes),
    Knn(knn::Knn),
    Mine(mine::Mine),
    Loss(mine::Loss),
    Plan(plan::Plan),
    Recipes(recipes::Recipes),
    Export(export::Export),
    Devices(devices::Devices),
    Doctor(doctor::Doctor),
}

/// Options of every command that runs on an engine.
#[derive(Debug, Args)]
struct Common {
    /// The most memory that the work may take on the device, e.g. 512MiB [default: 256MiB]
    #[arg(long, value_name = "BYTES")]
    budget: Option<bytesize::ByteSize>,
    /// Where the work runs: gpu or cpu [default: a hardware GPU if there is one, else the CPU]
    #[arg(long)]
    engine: Option<EngineKind>,
    /// Run on the GPU that has this in its name, as `nearfar devices` lists it
    #[arg(long, value_name = "NAME_PART")]
    adapter: Option<String>,
    /// How a GPU cuts its work into workgroups, strip, tile or quads: no result depends on it [default: the fastest, by timing]
    #[arg(long)]
    shape: Option<TileShape>,
    /// Wait for each kernel on the GPU, which is slower: an error then names the kernel that failed, and its buffers
    #[arg(long)]
    synchronous: bool,
    /// Print the report as one JSON object on standard output, and nothing else there
    #[arg(long)]
    json: bool,
}

impl Common {
    /// The engine that the options ask for.
    fn choice(&self) -> EngineChoice {
        EngineChoice {
            kind: self.engine,
            adapter: self.adapter.clone(),
            shape: self.shape,
            synchronous: self.synchronous,
            ..EngineChoice::default()
        }
    }

    /// [`Common::open`], with a warning if the budget is more than what other programs leave of the GPU.
    fn open_beside_others(&self, default_budget: u64) -> Result<Engine> {
        device_memory::warn(self, self.budget.map_or(default_budget, |budget| budget.0));
        self.open(default_budget)
    }

    /// Opens the engine that the options ask for; Ctrl-C and similar signals then stop it between two slices of work.
    fn open(&self, default_budget: u64) -> Result<Engine> {
        let budget = self.budget.map_or(default_budget, |budget| budget.0);
        let engine = pollster::block_on(Engine::open(&self.choice(), budget))?;
        let engine = shapes::tuned(engine)?;
        if engine.info().engine == "gpu" && !engine.info().software {
            // The first slices of work are sized by the device's speed: this takes 0.2 s, and a guess would take longer.
            pollster::block_on(self_test(&engine))?;
            engine.ledger().restart_peak();
        }
        signals::set(&engine.stop_flag());
        Ok(engine)
    }

    fn default_budget() -> u64 {
        TrainConfig::default().budget_bytes
    }
}

/// Error of the first line that standard output did not take.
static UNPRINTED: Mutex<Option<std::io::Error>> = Mutex::new(None);

/// Prints a line on standard output. A reader that has left misses it, which is no error; any other failure is one at the end.
fn print_line(line: impl Display) {
    match writeln!(std::io::stdout(), "{line}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            let mut unprinted = UNPRINTED.lock().expect("nobody fails while holding it");
            unprinted.get_or_insert(error);
        }
        _ => {}
    }
}

/// Prints a line on standard error; failures are ignored.
fn note_line(line: impl Display) {
    writeln!(std::io::stderr(), "{line}").ok();
}

/// Prints a report as JSON on standard output: a program waits for all of it.
///
/// # Errors
/// [`Error::Io`] if standard output does not take it.
fn print_json(report: &impl serde::Serialize) -> Result<()> {
    let mut text = serde_json::to_string(report).expect("reports are plain data");
    text.push('\n');
    let mut output = std::io::stdout();
    let written = output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush());
    written.map_err(io("writing the report to standard output"))
}

/// A report with the common fields of all work: the engine and its adapter, the time, and the memory that was held.
fn of_work(report: impl serde::Serialize, engine: &Engine, elapsed_ms: f64) -> serde_json::Value {
    let mut report = serde_json::json!(report);
    let info = engine.info();
    report["engine"] = info.engine.clone().into();
    report["adapter"] = info.adapter.clone().into();
    report["elapsed_ms"] = elapsed_ms.into();
    report["memory"] = serde_json::json!(MemoryReport::new(engine.ledger()));
    report
}

/// Stack size of the work: as much as a process is given at its start.
const STACK_BYTES: usize = 8 << 20;

/// Memory that must be free before that thread starts: its stack, and a little without which the C library ends the process.
const HEADROOM_BYTES: u64 = STACK_BYTES as u64 + (4 << 20);

/// Runs the command line on a thread whose stack is allocated at once. The stack of the first thread grows while it is used, and
/// the process ends without a message if the system has no more memory.
pub(crate) fn main() -> ExitCode {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !nearfar::is_guarded() {
            hook(panic);
        }
    }));
    let headroom = nearfar::reserve(&mut Vec::<u8>::new(), HEADROOM_BYTES, "the stack");
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
    let started = headroom.and_then(|()| thread.spawn(run).map_err(io("starting a thread")));
    match started {
        // A thread that panicked has printed the reason.
        Ok(thread) => thread.join().unwrap_or(ExitCode::from(101)),
        Err(error) => {
            note_line(format_args!("nearfar: {error}"));
            ExitCode::from(error.exit_code() as u8)
        }
    }
}

fn run() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Train(train) => train.run(),
        Command::Compare(compare) => compare.run(),
        Command::Fit(fit) => fit.run(),
        Command::Embed(embed) => embed.run(),
        Command::Evaluate(evaluate) => evaluate.run(),
        Command::Threshold(threshold) => threshold.run(),
        Command::Sizes(sizes) => sizes.run(),
        Command::Knn(knn) => knn.run(),
        Command::Mine(mine) => mine.run(),
        Command::Loss(loss) => loss.run(),
        Command::Plan(plan) => plan.run(),
        Command::Recipes(recipes) => recipes.run(),
        Command::Export(export) => export.run(),
        Command::Devices(devices) => devices.run(),
        Command::Doctor(doctor) => doctor.run(),
    };
    let unprinted = UNPRINTED
        .lock()
        .expect("nobody fails while holding it")
        .take();
    let printed = unprinted.map_or(Ok(()), |error| Err(io("writing to standard output")(error)));
    match outcome.and(printed) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let how = match error {
                Error::Cells(_) => {
                    ": --missing drop-rows leaves out their rows, drop-columns their columns, and median fills them"
                }
                Error::TwoReadings(_) => {
                    ": --thousands , takes it for the first, --decimal , for the second"
                }
                _ => "",
            };
            note_line(format_args!("nearfar: {error}{how}"));
            // After a signal the exit code is the signal's, whatever else failed.
            ExitCode::from(signals::exit_code().unwrap_or(error.exit_code() as u8))
        }
    }
}

/// Turns an error of the file system into one that names the file.
fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Error {
    let what = what.into();
    move |source| Error::Io { what, source }
}
