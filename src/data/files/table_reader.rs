//! [`TableReader`]: the readers of tables behind one name. A table is pushed part by part, so that its file is read once and is
//! never held whole.

use super::csv::CsvReader;
use super::foreign;
use super::json_lines::JsonLinesReader;
use super::{Format, Table};
use crate::base::error::{Error, Result};
use crate::data::Choice;

/// Takes the bytes of a table's file, and gives the table.
#[derive(Debug)]
pub struct TableReader(Reader);

#[derive(Debug)]
enum Reader {
    Csv(Box<CsvReader>),
    JsonLines(Box<JsonLinesReader>),
}

impl TableReader {
    /// Begins a file of this name and `total` bytes, unpacked; `choice` says which column is the label, and which list of numbers
    /// the features.
    ///
    /// # Errors
    /// [`Error::Data`] when a file of this name is no table.
    pub fn new(name: &str, total: u64, choice: Choice<'_>) -> Result<Self> {
        let reader = match Format::of(name) {
            Some(Format::Table) => Reader::Csv(CsvReader::new(name, total, choice).into()),
            Some(Format::JsonLines) => {
                Reader::JsonLines(JsonLinesReader::new(name, total, choice).into())
            }
            // Parquet files are read as needed, not pushed.
            Some(Format::Parquet) => {
                let problem = "Parquet files are not read by this build (feature \"parquet\")";
                return Err(Error::Data(format!("{name}: {problem}")));
            }
            _ => {
                let read = "only CSV, JSON Lines, Parquet, NPY, NPZ, safetensors and AnnData files are read";
                let message = format!("{name}: {read}: save the data as one of these");
                return Err(Error::Data(message));
            }
        };
        Ok(Self(reader))
    }

    /// Takes the next bytes of the file.
    ///
    /// # Errors
    /// [`Error::Data`] with the line and the problem.
    pub fn push(&mut self, bytes: &[u8]) -> Result<()> {
        match &mut self.0 {
            Reader::Csv(reader) => reader.push(bytes),
            Reader::JsonLines(reader) => reader.push(bytes),
        }
    }

    /// The table, once all bytes were pushed.
    ///
    /// # Errors
    /// [`Error::Data`] for a file that is empty or ends too early.
    pub fn finish(self) -> Result<Table> {
        match self.0 {
            Reader::Csv(reader) => reader.finish(),
            Reader::JsonLines(reader) => reader.finish(),
        }
    }

    /// Begins a file whose first bytes are `start`; refuses a file of another program.
    pub(super) fn begin(name: &str, total: u64, choice: Choice<'_>, start: &[u8]) -> Result<Self> {
        match foreign::refusal(name, start) {
            Some(error) => Err(error),
            None => Self::new(name, total, choice),
        }
    }
}
