//! [`Piece`]: a kind of result that a run can be exported as, and its files; the page, `train --out` and `export` write these.
//!
//! Each source file here makes one piece out of [`Results`]; a new piece is such a file, a variant and its lines in [`Piece`]. The
//! command line, its help and the page then list it by themselves.

mod archive;
mod arrays;
mod card;
mod charts;
mod code;
mod embeddings;
#[cfg(feature = "hdf5")]
mod h5ad;
mod head;
mod history;
mod onnx;
#[cfg(feature = "parquet")]
mod parquet;
mod read_back;
mod report;
mod results;
mod script;
mod sentence_transformers;
mod settings;
mod side_rows;
mod svg;
mod taken;
mod text;

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use archive::NewArchive;
pub use archive::{SavedArchive, archive, saved_run};
pub use head::Head;
#[cfg(not(target_family = "wasm"))]
pub use results::is_history;
pub use results::{HISTORY, Results};
pub use settings::{IMAGINED, Link, link, link_pairs};
pub use side_rows::{RowsOf, SideRows};
pub use taken::Taken;

use crate::base::error::{Error, Result};
use crate::data::{Dataset, Shape, Side};
use crate::run::RunReport;
use crate::search::rows_to_check::RowsToCheck;

/// The name of a saved run among the files that it leaves.
pub const CHECKPOINT: &str = "checkpoint.bin";

/// A file to export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenFile {
    /// Its name, possibly in a folder: `a/b`.
    pub path: String,
    /// Its content.
    pub bytes: Vec<u8>,
}

impl TakenFile {
    /// A list of rows of the data, as CSV: `row`, the number of each, counted from 0, and `label`, its class.
    pub fn of_rows(dataset: &Dataset, rows: &[u32]) -> Self {
        embeddings::listed(dataset, rows, "picked_rows.csv", &[])
    }

    /// Rows of the data whose label a person changed, as CSV: with `label`, the class of each before, and `new_label`.
    pub fn of_changes(dataset: &Dataset, changes: &[(u32, String)]) -> Self {
        let (rows, labels): (Vec<u32>, Vec<String>) = changes.iter().cloned().unzip();
        let columns = [("new_label", labels)];
        embeddings::listed(dataset, &rows, "changed_labels.csv", &columns)
    }

    /// Rows to check among all rows of the data, as CSV, the surest first.
    pub fn of_suspects(dataset: &Dataset, check: &RowsToCheck) -> Self {
        embeddings::suspects(dataset, check)
    }

    fn new(path: impl Into<String>, bytes: Vec<u8>) -> Self {
        Self {
            path: path.into(),
            bytes,
        }
    }
}

/// Kinds of results that can be exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Piece {
    /// Everything that `train --out` writes, in one archive.
    Zip,
    /// The head for PyTorch.
    Safetensors,
    /// The head for ONNX runtimes.
    Onnx,
    /// The head for sentence-transformers.
    SentenceTransformers,
    /// The linear map that the head is compared with.
    Linear,
    /// The recipe as a PyTorch script.
    Torchrun,
    /// The run as a page.
    Report,
    /// The charts.
    Charts,
    /// The run as a model card.
    Card,
    /// Lines of code that use the head.
    Code,
    /// The settings.
    Settings,
    /// The settings as the page's link.
    Link,
    /// The run itself, to continue it.
    Checkpoint,
    /// The report of the run as JSON.
    History,
    /// The steps as a table.
    HistoryCsv,
    /// The steps as lines of JSON.
    HistoryJsonl,
    /// The contents of the cross-batch memory.
    Memory,
    /// Embeddings for NumPy.
    Npy,
    /// The classes of the exported rows.
    Labels,
    /// Embeddings as a table.
    Csv,
    /// Embeddings as a table of lists.
    Parquet,
    /// Embeddings for scanpy.
    H5ad,
    /// Embeddings for the Embedding Projector.
    Projector,
    /// The nearest rows of each row.
    Neighbours,
    /// Rows whose neighbours contradict their label.
    RowsToCheck,
}

impl Piece {
    /// All pieces, in the order of lists.
    pub const ALL: [Self; 25] = [
        Self::Zip,
        Self::Safetensors,
        Self::Onnx,
        Self::SentenceTransformers,
        Self::Linear,
        Self::Report,
        Self::Charts,
        Self::Card,
        Self::Code,
        Self::Torchrun,
        Self::Settings,
        Self::Link,
        Self::Checkpoint,
        Self::History,
        Self::HistoryCsv,
        Self::HistoryJsonl,
        Self::Memory,
        Self::Npy,
        Self::Labels,
        Self::Csv,
        Self::Parquet,
        Self::H5ad,
        Self::Projector,
        Self::Neighbours,
        Self::RowsToCheck,
    ];

    /// Name in options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Zip => "zip",
            Self::Safetensors => "safetensors",
            Self::Onnx => "onnx",
            Self::SentenceTransformers => "sentence-transformers",
            Self::Linear => "linear",
            Self::Torchrun => "torchrun",
            Self::Report => "report",
            Self::Charts => "charts",
            Self::Card => "card",
            Self::Code => "code",
            Self::Settings => "settings",
            Self::Link => "link",
            Self::Checkpoint => "checkpoint",
            Self::History => "history",
            Self::HistoryCsv => "history-csv",
            Self::HistoryJsonl => "history-jsonl",
            Self::Memory => "memory",
            Self::Npy => "npy",
            Self::Labels => "labels",
            Self::Csv => "csv",
            Self::Parquet => "parquet",
            Self::H5ad => "h5ad",
            Self::Projector => "projector",
            Self::Neighbours => "neighbours",
            Self::RowsToCheck => "rows-to-check",
        }
    }

    /// Heading of a group of pieces, if this piece is the first of the group.
    pub fn heading(self) -> Option<&'static str> {
        match self {
            Self::Safetensors => Some("The head"),
            Self::Report => Some("To read and to show"),
            Self::Torchrun => Some("To repeat the run, or to go on"),
            Self::History => Some("Its numbers"),
            Self::Npy => Some("Embeddings and neighbours"),
            _ => None,
        }
    }

    /// Description in plain words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Zip => "All files of the run, in one archive",
            Self::Safetensors => "The head for PyTorch, as safetensors",
            Self::Onnx => "The head for ONNX runtimes: features in, unit embeddings out",
            Self::SentenceTransformers => "The head as a module chain for sentence-transformers",
            Self::Linear => "The linear map that the head is compared with, as safetensors",
            Self::Torchrun => "The recipe as a PyTorch script, for one process or many machines",
            Self::Report => "Verdict, scores and charts as one HTML page",
            Self::Charts => "The charts, each as a picture (SVG) and as a table (CSV)",
            Self::Card => "A model card: data, settings, scores, device (Markdown)",
            Self::Code => {
                "Lines of code that use it: PyTorch, ONNX Runtime, scanpy, JavaScript (Markdown)"
            }
            Self::Settings => {
                "The settings, to repeat the run with `nearfar train --config` (JSON)"
            }
            Self::Link => "These settings as the end of a link: put it after the page's address",
            Self::Checkpoint => {
                "The run itself: drop it on the page, or `nearfar train --resume` it, to look at it again and to go on"
            }
            Self::History => "All steps, scores and warnings (JSON)",
            Self::HistoryCsv => "The steps with their scores, as a table (CSV)",
            Self::HistoryJsonl => "The steps with their scores, a line each (JSON Lines)",
            Self::Memory => "What the cross-batch memory holds (NPZ)",
            Self::Npy => "Embeddings of the rows (NPY)",
            Self::Labels => "The class of each row (CSV)",
            Self::Csv => "Embeddings of the rows with their classes, as a table (CSV)",
            Self::Parquet => {
                "Embeddings of the rows with their classes, for pandas, polars and the like (Parquet)"
            }
            Self::H5ad => "Embeddings of the cells by their names, for scanpy (AnnData, .h5ad)",
            Self::Projector => "Embeddings of the rows for the Embedding Projector (TSV)",
            Self::Neighbours => "The ten nearest rows of each row (NPZ)",
            Self::RowsToCheck => {
                "Rows that are likely mislabelled, by their ten nearest rows (CSV)"
            }
        }
    }

    /// Tells if the piece is made of the rows of a side.
    pub fn is_of_rows(self) -> bool {
        matches!(
            self,
            Self::Npy
                | Self::Labels
                | Self::Csv
                | Self::Parquet
                | Self::H5ad
                | Self::Projector
                | Self::Neighbours
                | Self::RowsToCheck
        )
    }

    /// Tells if the piece is made of a network: of the head, or of the linear map in its place.
    pub fn is_of_network(self) -> bool {
        let alone = [
            Self::Safetensors,
            Self::Onnx,
            Self::SentenceTransformers,
            Self::Code,
        ];
        self.is_of_rows() || alone.contains(&self)
    }

    /// Tells if the piece is made of the neighbours of those rows, which must be searched.
    pub fn needs_neighbours(self) -> bool {
        matches!(self, Self::Neighbours | Self::RowsToCheck)
    }

    /// Files of the piece, if the results have its parts. Each was read back.
    ///
    /// # Errors
    /// [`Error::Data`] if a part is missing, or a file does not read back; [`Error::Config`] for a script of settings that PML has
    /// no counterpart for, or a head that the modules of sentence-transformers cannot make up.
    pub fn files(self, results: &Results) -> Result<Vec<TakenFile>> {
        let mut files = self.made(results)?;
        if self.is_of_network() {
            for file in &mut files {
                file.path = results.named(&file.path);
            }
        }
        files.iter().try_for_each(read_back::check)?;
        Ok(files)
    }

    fn made(self, results: &Results) -> Result<Vec<TakenFile>> {
        let Results { report, head, .. } = results;
        let (config, distance) = (&report.config, report.config.distance);
        let one = |name: &str, bytes| Ok(vec![TakenFile::new(name, bytes)]);
        let rows = || {
            let rows = results.rows.as_ref();
            let rows = rows.map(|rows| rows.in_file(&report.data.left_out));
            self.there(rows, "the embeddings of the rows are not there")
        };
        match self {
            Self::Zip => one("nearfar.zip", zip(results)?),
            Self::Safetensors => one(results::HEAD, head.to_safetensors(distance)),
            Self::Onnx => one("head.onnx", onnx::file(head, distance)),
            Self::SentenceTransformers => sentence_transformers::files(head, distance),
            Self::Linear => {
                let linear = self.there(results.linear.as_ref(), "the run has no linear map")?;
                one(results::LINEAR, linear.to_safetensors(distance))
            }
            Self::Torchrun => self.script(results),
            Self::Report => one("report.html", report::report(results)),
            Self::Charts => Ok(charts::files(report)),
            Self::Card => one("model_card.md", card::card(results)),
            Self::Code => one("code.md", code::markdown(results).into_bytes()),
            Self::Settings => one("config.json", pretty(config)),
            Self::Link => one("link.txt", link_of(report).into_bytes()),
            Self::Checkpoint => {
                let saved = self.there(results.checkpoint.clone(), "the run was saved without it");
                one(CHECKPOINT, saved?)
            }
            Self::History => one(results::HISTORY, pretty(report)),
            Self::HistoryCsv => one("history.csv", history::csv(report)),
            Self::HistoryJsonl => one("history.jsonl", history::jsonl(report)),
            Self::Memory => {
                let memory = self.there(results.memory.clone(), "the run had no memory")?;
                one(results::MEMORY, memory)
            }
            Self::Npy => Ok(vec![embeddings::npy(&*rows()?)]),
            Self::Labels => Ok(vec![embeddings::labels(&*rows()?)]),
            Self::Csv => Ok(vec![embeddings::csv(&*rows()?)]),
            #[cfg(feature = "parquet")]
            Self::Parquet => Ok(vec![parquet::file(&*rows()?)?]),
            #[cfg(feature = "hdf5")]
            Self::H5ad => Ok(vec![h5ad::file(results, &*rows()?)?]),
            // The page's own wasm only lists them.
            #[cfg(not(all(feature = "hdf5", feature = "parquet")))]
            Self::H5ad | Self::Parquet => self.there(None, "nothing here writes it"),
            Self::Projector => Ok(embeddings::projector(&*rows()?)),
            Self::Neighbours => self.neighbours(&*rows()?),
            Self::RowsToCheck => {
                let rows = rows()?;
                let check = self.there(rows.to_check(), "nobody looked for neighbours")?;
                Ok(vec![embeddings::to_check(&rows, &check)])
            }
        }
    }

    /// The part of the results that the piece is made of, or its absence as an error.
    fn there<T>(self, part: Option<T>, problem: &str) -> Result<T> {
        part.ok_or_else(|| Error::Data(format!("{}: {problem}", self.name())))
    }

    /// The nearest rows of each row.
    fn neighbours(self, rows: &SideRows) -> Result<Vec<TakenFile>> {
        let found = self.there(rows.neighbours.as_ref(), "nobody looked for them")?;
        let name = format!("{}_neighbours.npz", rows.of.name());
        Ok(vec![TakenFile::new(name, arrays::neighbours(rows, found)?)])
    }

    /// The PyTorch script with all that it reads.
    fn script(self, results: &Results) -> Result<Vec<TakenFile>> {
        let script = script::script(results)?;
        let missing =
            "sides.npy is missing, which says what trains and what is tested: train again";
        let sides = self.there(results.sides.clone(), missing)?;
        let mut files = vec![
            TakenFile::new("nearfar_train.py", script),
            TakenFile::new(results::SIDES, sides),
        ];
        let data = results.data.clone();
        files.extend(data.map(|data| TakenFile::new(results::DATA, data)));
        files.extend(Self::Safetensors.files(results)?);
        Ok(files)
    }

    /// Approximate size in bytes; `None` if the results lack its parts. The rows themselves need not be there: `of` names them.
    pub fn about_bytes(self, results: &Results, of: RowsOf) -> Option<u64> {
        let data = &results.report.data;
        let rows = |side: Side| match side {
            Side::Train => data.train,
            Side::Validation => data.validation,
            Side::Test => data.test,
        } as u64;
        let count = match of {
            RowsOf::Test => rows(Side::Test),
            RowsOf::Train => rows(Side::Train),
            RowsOf::Validation => rows(Side::Validation),
            RowsOf::All => data.rows as u64,
        };
        let dim = results.head.dimensions() as u64;
        // Bytes of a coordinate as text, with its separator; bytes of a label.
        let (number, label) = (12, 8);
        match self {
            _ if self.is_of_rows() && count == 0 => None,
            Self::Npy => Some(128 + count * dim * 4),
            Self::Parquet => Some(count * (dim * 4 + 8 + label)),
            // Offered beside a file of the same kind; most bytes of a small one are its attributes'.
            Self::H5ad => {
                results::cells(&results.report)?;
                Some(128_000 + count * (dim * 4 + 8 + 32 + label))
            }
            Self::Labels => Some(count * label),
            Self::Csv | Self::Projector => Some(count * (dim * number + label)),
            Self::Neighbours => Some(count * 4 * (1 + 2 * arrays::NEIGHBOURS as u64)),
            // The number of suspects is unknown before; mostly there are few.
            Self::RowsToCheck => Some(128 + count * label / 10),
            Self::Zip => {
                let about = |piece: &Self| piece.about_bytes(results, RowsOf::Test);
                Some(IN_FOLDER.iter().filter_map(about).sum())
            }
            // The head has a piece of its own and is counted there.
            Self::Torchrun => {
                let files = self.files(results).ok()?;
                let own = files.iter().filter(|file| file.path != results::HEAD);
                Some(own.map(|file| file.bytes.len() as u64).sum())
            }
            _ => {
                let files = self.files(results).ok()?;
                Some(files.iter().map(|file| file.bytes.len() as u64).sum())
            }
        }
    }
}

impl FromStr for Piece {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let piece = Self::ALL.into_iter().find(|piece| piece.name() == name);
        piece.ok_or_else(|| format!("there is no piece \"{name}\""))
    }
}

impl FromStr for RowsOf {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let rows = Self::ALL.into_iter().find(|rows| rows.name() == name);
        rows.ok_or_else(|| format!("there is no side \"{name}\""))
    }
}

/// Pieces of a folder of results, and of the archive: small files, and those of the test side. The head is the first: files that
/// cannot be made for want of memory come after it.
const IN_FOLDER: [Piece; 16] = [
    Piece::Safetensors,
    Piece::Linear,
    Piece::Onnx,
    Piece::SentenceTransformers,
    Piece::Settings,
    Piece::Link,
    Piece::Card,
    Piece::Torchrun,
    Piece::Memory,
    Piece::Checkpoint,
    Piece::Npy,
    Piece::Labels,
    Piece::Report,
    Piece::History,
    Piece::HistoryCsv,
    Piece::HistoryJsonl,
];

/// Makes the files of a folder of results, one after the other: those of each piece of it that the run has, each file once.
///
/// # Errors
/// Errors of `take`; [`Error::Io`] and [`Error::NoMemory`] if a file cannot be written to memory.
pub fn folder(results: &Results, mut take: impl FnMut(TakenFile) -> Result<()>) -> Result<()> {
    let mut taken: Vec<String> = Vec::new();
    let mut take = |file: TakenFile| match taken.contains(&file.path) {
        true => Ok(()),
        false => {
            taken.push(file.path.clone());
            take(file)
        }
    };
    for piece in IN_FOLDER {
        match piece.made(results) {
            Ok(made) => {
                made.iter().try_for_each(read_back::check)?;
                made.into_iter().try_for_each(&mut take)?;
            }
            // Pieces that the run lacks are left out.
            Err(Error::Data(_) | Error::Config(_)) => {}
            Err(error) => return Err(error),
        }
    }
    // The sides of the rows are written without a script, too.
    let sides = results.sides.as_ref();
    sides.map_or(Ok(()), |sides| {
        take(TakenFile::new(results::SIDES, sides.clone()))
    })
}

/// Such a folder as a ZIP archive.
fn zip(results: &Results) -> Result<Vec<u8>> {
    let mut archive = NewArchive::new();
    folder(results, |file| archive.add(&file))?;
    archive.finish()
}

/// The page's link to the settings of a run, from the `#` on, as a line.
fn link_of(report: &RunReport) -> String {
    let (name, data) = (results::data_name(report), &report.data);
    let mut defaults = Dataset::default_config_of(name);
    if !name.starts_with("sample:") {
        let shape = Shape::of(data.classes, data.dim);
        defaults = shape.over(defaults, data.train);
    }
    format!("#{}\n", link(name, &report.config, &defaults))
}

/// All names that a file of such a folder can have.
pub fn folder_names() -> Vec<String> {
    let flat = [
        "model_card.md",
        "report.html",
        "config.json",
        "link.txt",
        results::HISTORY,
        "history.csv",
        "history.jsonl",
        results::HEAD,
        "head.onnx",
        results::LINEAR,
        "nearfar_train.py",
        results::SIDES,
        results::DATA,
        results::MEMORY,
        CHECKPOINT,
        "test_embeddings.npy",
        "test_labels.csv",
    ];
    let flat = flat.map(str::to_owned).into_iter();
    flat.chain(sentence_transformers::names()).collect()
}

/// JSON with indentation, and a newline at its end.
fn pretty(value: &impl Serialize) -> Vec<u8> {
    let mut text = serde_json::to_string_pretty(value).expect("reports are plain data");
    text.push('\n');
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_is_found_by_its_name_and_says_what_it_is() {
        for piece in Piece::ALL {
            assert_eq!(piece.name().parse(), Ok(piece));
            let json = serde_json::to_string(&piece).expect("plain data");
            assert_eq!(json, format!("\"{}\"", piece.name()));
            assert!(!piece.words().is_empty());
        }
        assert!("pickle".parse::<Piece>().is_err());
    }

    #[test]
    fn a_folder_has_known_names_each_once_and_its_archive_the_same_bytes() {
        let results = results::tests::small();
        let mut files = Vec::new();
        let made = folder(&results, |file| {
            files.push(file);
            Ok(())
        });
        made.expect("is made");
        assert_eq!(files[0].path, results::HEAD);
        let names = folder_names();
        let mut paths: Vec<&String> = files.iter().map(|file| &file.path).collect();
        assert!(paths.iter().all(|path| names.contains(path)), "{paths:?}");
        paths.sort();
        paths.dedup();
        assert_eq!(paths.len(), files.len());
        let archive = Piece::Zip.files(&results).expect("is made").remove(0);
        let archive = std::io::Cursor::new(&archive.bytes);
        let mut archive = zip::ZipArchive::new(archive).expect("opens");
        assert_eq!(archive.len(), files.len());
        for file in &files {
            let mut bytes = Vec::new();
            let mut member = archive.by_name(&file.path).expect("there");
            std::io::copy(&mut member, &mut bytes).expect("reads");
            assert!(bytes == file.bytes, "{}", file.path);
        }
    }

    #[test]
    fn sizes_are_about_those_of_the_files() {
        let results = results::tests::small();
        for piece in Piece::ALL.into_iter().filter(|piece| !piece.is_of_rows()) {
            let size =
                |files: Vec<TakenFile>| files.iter().map(|file| file.bytes.len()).sum::<usize>();
            let exact = piece.files(&results).ok().map(size);
            let about = piece.about_bytes(&results, RowsOf::Test);
            assert_eq!(about.is_some(), exact.is_some(), "{}", piece.name());
            if let (Some(about), Some(exact)) = (about, exact) {
                let ratio = about as f64 / exact as f64;
                assert!(
                    (0.5..1.5).contains(&ratio),
                    "{}: {about} for {exact}",
                    piece.name()
                );
            }
        }
    }
}
