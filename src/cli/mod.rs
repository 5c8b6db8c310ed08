//! Commands, the options they share, and what they print where: results on standard output, the rest beside it.

mod devices;
mod embed;
mod evaluate;
mod files;
mod head;
mod knn;
mod mine;
mod pairs;
mod plan;
mod progress;
mod train;
mod triplets;

use std::fmt::Display;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use clap::{Args, Parser, Subcommand};
use nearfar::{Engine, EngineChoice, EngineKind, Error, Result, TrainConfig};

/// Metric learning inside a memory budget: train a head, embed rows, search, measure retrieval.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Train(train::Train),
    Embed(embed::Embed),
    Evaluate(evaluate::Evaluate),
    Knn(knn::Knn),
    Mine(mine::Mine),
    Loss(mine::Loss),
    Plan(plan::Plan),
    Devices(devices::Devices),
}

/// Options of every command that runs on an engine.
#[derive(Debug, Args)]
struct Common {
    /// Device memory the command stays within, e.g. 256MiB
    #[arg(long, value_name = "BYTES")]
    budget: Option<bytesize::ByteSize>,
    /// gpu or cpu; without it a hardware GPU if there is one, else the CPU
    #[arg(long)]
    engine: Option<EngineKind>,
    /// A part of the GPU adapter's name
    #[arg(long, value_name = "NAME_PART")]
    adapter: Option<String>,
    /// Print one JSON object on standard output, and nothing else there
    #[arg(long)]
    json: bool,
}

impl Common {
    /// Opens the engine that the options ask for; Ctrl-C then stops it between two slices of work.
    fn open(&self, default_budget: u64) -> Result<Engine> {
        let choice = EngineChoice {
            kind: self.engine,
            adapter: self.adapter.clone(),
            ..EngineChoice::default()
        };
        let budget = self.budget.map_or(default_budget, |budget| budget.0);
        let engine = pollster::block_on(Engine::open(&choice, budget))?;
        let stop = engine.stop_flag();
        // A second handler in one process is the only error; the first one does the same.
        ctrlc::set_handler(move || stop.store(true, Ordering::Relaxed)).ok();
        Ok(engine)
    }

    fn default_budget() -> u64 {
        TrainConfig::default().budget_bytes
    }
}

/// Prints a line on standard output; a reader that left early misses it, and that is no error.
fn print_line(line: impl Display) {
    writeln!(std::io::stdout(), "{line}").ok();
}

/// Prints a line on standard error, likewise.
fn note_line(line: impl Display) {
    writeln!(std::io::stderr(), "{line}").ok();
}

/// Prints a report as JSON on standard output.
fn print_json(report: &impl serde::Serialize) {
    print_line(serde_json::to_string(report).expect("reports are plain data"));
}

/// Runs the command line.
pub(crate) fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Train(train) => train.run(),
        Command::Embed(embed) => embed.run(),
        Command::Evaluate(evaluate) => evaluate.run(),
        Command::Knn(knn) => knn.run(),
        Command::Mine(mine) => mine.run(),
        Command::Loss(loss) => loss.run(),
        Command::Plan(plan) => plan.run(),
        Command::Devices(devices) => devices.run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            note_line(format_args!("nearfar: {error}"));
            ExitCode::from(error.exit_code() as u8)
        }
    }
}

/// Turns an error of the file system into one that names the file.
fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Error {
    let what = what.into();
    move |source| Error::Io { what, source }
}
