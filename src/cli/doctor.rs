//! `nearfar doctor`: the tensor that ran out of memory, from a traceback or the lines that set up PML, faiss or torch.

use std::io::Read as _;
use std::path::PathBuf;

use clap::Args;
use nearfar::{Error, Result, diagnose};

use super::{io, print_json, print_line};

/// Name the tensor that ran out of memory in a training script, its bytes and the change that helps
///
/// Reads a traceback, or the lines that set up PyTorch Metric Learning, faiss or torch, from a file or from standard input. Nothing
/// runs, and nothing leaves this computer. What the text does not say is assumed and printed; a text that names no tensor is told so.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Doctor {
    /// The text [default: standard input]
    file: Option<PathBuf>,
    /// Print the answer as one JSON object on standard output, and nothing else there
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  python train.py 2>&1 | tail -60 | nearfar doctor
  nearfar doctor setup.py";

/// The most bytes that are read: a log's end is what tells.
const MOST_BYTES: u64 = 1 << 20;

impl Doctor {
    pub(super) fn run(&self) -> Result<()> {
        let text = self.read()?;
        if text.trim().is_empty() {
            return Err(Error::Data(
                "the text is empty: give a file with a traceback, or pipe one into standard input"
                    .to_owned(),
            ));
        }
        let diagnosis = diagnose(&text);
        if self.json {
            return print_json(&diagnosis);
        }
        for (heading, line) in diagnosis.lines() {
            print_line(format_args!("{heading:<9} {line}"));
        }
        Ok(())
    }

    fn read(&self) -> Result<String> {
        let mut bytes = Vec::new();
        let read = match &self.file {
            Some(file) => std::fs::File::open(file)
                .and_then(|file| file.take(MOST_BYTES).read_to_end(&mut bytes))
                .map_err(io(format!("reading {}", file.display()))),
            None => std::io::stdin()
                .take(MOST_BYTES)
                .read_to_end(&mut bytes)
                .map_err(io("reading standard input")),
        };
        read?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}
