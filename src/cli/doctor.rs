//! `nearfar doctor`: the tensor that ran out of memory, from a traceback or the lines that set up PML, faiss or torch.

use std::io::Read;
use std::path::PathBuf;

use clap::Args;
use nearfar::{Error, Result, diagnose};

use super::{io, print_json, print_line};

/// Name the tensor that ran out of memory in a training script, its bytes and the change that helps
///
/// Reads a traceback, or the lines that set up PyTorch Metric Learning, faiss or torch, from a file or from standard input. Nothing
/// runs, and nothing leaves this computer. What the text does not say is
/// assumed, and each assumption is printed. For a text that names no tensor it says what else to paste.
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

/// The most bytes of a text that count, the last ones: the end of a log is what tells.
const MOST_BYTES: usize = 1 << 20;

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

    /// The end of the text.
    fn read(&self) -> Result<String> {
        let (from, read) = match &self.file {
            Some(file) => (
                format!("reading {}", file.display()),
                std::fs::File::open(file).and_then(end_of),
            ),
            None => (
                "reading standard input".to_owned(),
                end_of(std::io::stdin()),
            ),
        };
        let bytes = read.map_err(io(from))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// The last bytes of a text, [`MOST_BYTES`] at most, whatever its length.
fn end_of(mut text: impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while text
        .by_ref()
        .take(MOST_BYTES as u64)
        .read_to_end(&mut bytes)?
        > 0
    {
        bytes.drain(..bytes.len().saturating_sub(MOST_BYTES));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_log_the_end_is_read() {
        let log: Vec<u8> = (0..3 * MOST_BYTES + 5).map(|at| at as u8).collect();
        assert_eq!(end_of(&log[..]).expect("reads"), log[2 * MOST_BYTES + 5..]);
        assert_eq!(end_of(&log[..7]).expect("reads"), log[..7]);
    }
}
