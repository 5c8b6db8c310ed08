//! `nearfar export`: one piece of what a run left, for another program.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use nearfar::{Bytes, Error, Piece, Result, Results, RowsOf, RowsToCheck, TakenFile};
use serde_json::json;

use super::output::{Folder, Output};
use super::saved::Saved;
use super::{Common, print_json, print_line, progress, sides};

const EXAMPLES: &str = "\
Examples:
  nearfar export run --format onnx --out head.onnx
  nearfar export run --format zip --out run.zip
  nearfar export run --format rows-to-check --folds 5 --data flowers.csv --out to_check.csv
  nearfar export run --format csv --side train --data flowers.csv --labels species --out train.csv";

/// Write one piece of a saved run for another program: the head, embeddings, a report, a script
///
/// A piece of several files goes into a folder, or into a ZIP archive where --out ends in .zip.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Export {
    /// The folder that `nearfar train --out` wrote, or the ZIP archive of one
    #[arg(value_name = "DIR|FILE.zip")]
    run: PathBuf,
    /// The piece
    #[arg(long, value_name = "PIECE", value_parser = pieces())]
    format: Piece,
    /// The file or folder to write
    #[arg(long, value_name = "PATH")]
    out: PathBuf,
    /// The rows, where the piece is made of rows; all but those of the test side need --data
    #[arg(long, value_name = "SIDE", default_value = "test", value_parser = named_sides())]
    side: RowsOf,
    /// The data of the run, a built-in sample excepted
    #[arg(long, value_name = "FILE[:ARRAY]")]
    data: Option<String>,
    /// The class of each of its rows, as for `train`
    #[arg(long, value_name = "COLUMN|FILE[:COLUMN]", requires = "data")]
    labels: Option<String>,
    /// Check every row, by heads that did not train on it: as many as given here are trained anew, with the run's settings, each
    /// without its part of the rows
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(2..=20))]
    folds: Option<u64>,
    /// Take the linear map that the head is compared with, in place of the head
    #[arg(long, conflicts_with = "folds")]
    linear: bool,
    #[command(flatten)]
    common: Common,
}

/// Parses the name of a piece, and lists the pieces with their descriptions.
fn pieces() -> impl TypedValueParser<Value = Piece> {
    let values = Piece::ALL.map(|piece| PossibleValue::new(piece.name()).help(piece.words()));
    PossibleValuesParser::new(values).try_map(|name| name.parse::<Piece>())
}

fn named_sides() -> impl TypedValueParser<Value = RowsOf> {
    PossibleValuesParser::new(RowsOf::ALL.map(RowsOf::name)).try_map(|name| name.parse::<RowsOf>())
}

impl Export {
    pub(super) fn run(&self) -> Result<()> {
        pollster::block_on(self.export())
    }

    async fn export(&self) -> Result<()> {
        let mut results = Saved::open(&self.run)?.results()?;
        if self.linear {
            if !self.format.is_of_network() {
                return Err(Error::Config(format!(
                    "--linear: --format {} is made of the whole run: leave one of the two out",
                    self.format.name()
                )));
            }
            results = results.of_linear()?;
        }
        let files = match self.folds {
            Some(folds) => vec![self.check_by_folds(&results, folds as usize).await?],
            None => {
                if self.format.is_of_rows() {
                    self.bring_rows(&mut results).await?;
                }
                without_folder(self.format.files(&results)?)
            }
        };
        match &files[..] {
            [file] => {
                let mut output = Output::create(&self.out, &self.inputs())?;
                output.write(&file.bytes)?;
                output.finish()?;
            }
            several if is_zip(&self.out) => {
                let mut output = Output::create(&self.out, &self.inputs())?;
                output.write(&nearfar::archive(several)?)?;
                output.finish()?;
            }
            several => {
                let names = several.iter().map(|file| file.path.clone()).collect();
                let mut folder = Folder::create(&self.out, names, &self.inputs())?;
                for file in several {
                    folder.write(&file.path, &file.bytes)?;
                }
                folder.finish()?;
            }
        }
        let bytes = files.iter().map(|file| file.bytes.len() as u64).sum();
        let out = self.out.display().to_string();
        if self.common.json {
            let listed = files
                .iter()
                .map(|file| json!({ "path": file.path, "bytes": file.bytes.len() }));
            return print_json(&json!({
                "format": self.format.name(),
                "out": out,
                "files": listed.collect::<Vec<_>>(),
            }));
        }
        let piece = self.format.words();
        print_line(format_args!("{piece}: {} in {out}", Bytes(bytes)));
        Ok(())
    }

    /// Files that are read, as they were given.
    fn inputs(&self) -> Vec<&str> {
        let run = self.run.to_str().into_iter();
        let data = [&self.data, &self.labels].into_iter().flatten();
        run.chain(data.map(String::as_str)).collect()
    }

    /// Trains heads anew, and lists the rows that those contradict which did not train on them.
    async fn check_by_folds(&self, results: &Results, folds: usize) -> Result<TakenFile> {
        if self.format != Piece::RowsToCheck {
            return Err(Error::Config(format!(
                "--folds checks labels, and --format {} has none to check: leave it out, or ask for rows-to-check",
                self.format.name()
            )));
        }
        let (data, labels) = (self.data.as_deref(), self.labels.as_deref());
        let group = results.report.config.group.as_deref();
        let dataset = Rc::new(sides::dataset(results, data, labels, group, RowsOf::All)?);
        let config = &results.report.config;
        let tasks = progress::Tasks::default();
        let heard = tasks.clone();
        let engine = self.common.open(config.budget_bytes)?;
        let engine = engine.with_listener(move |working| heard.hear(&working));
        let check = RowsToCheck::by_folds(&engine, &dataset, config, folds).await;
        tasks.finish();
        let check = check?;
        Ok(TakenFile::of_suspects(&dataset, &check))
    }

    /// Adds the rows of a side: those in the run's folder, or those of its data, through the head.
    async fn bring_rows(&self, results: &mut Results) -> Result<()> {
        let neighbours = self.format.needs_neighbours();
        let is_there = self.data.is_none()
            && results
                .rows
                .as_ref()
                .is_some_and(|rows| rows.of == self.side);
        if is_there && !neighbours {
            return Ok(());
        }
        let engine = self.common.open(Common::default_budget())?;
        if !is_there {
            let dataset = sides::dataset(
                results,
                self.data.as_deref(),
                self.labels.as_deref(),
                None,
                self.side,
            )?;
            if self.side != RowsOf::All {
                sides::check(results, &self.run, "give --side all")?;
            }
            results.rows = Some(sides::embed(results, &dataset, &engine, self.side).await?);
        }
        match results.rows.as_mut().filter(|_| neighbours) {
            Some(rows) => rows.find_neighbours(&engine).await,
            None => Ok(()),
        }
    }
}

fn is_zip(path: &Path) -> bool {
    let ending = path.extension();
    ending.is_some_and(|ending| ending.eq_ignore_ascii_case("zip"))
}

/// Files that all lie in one folder, without it: the folder at `--out` takes its place.
fn without_folder(mut files: Vec<TakenFile>) -> Vec<TakenFile> {
    let folder = files.first().and_then(|file| file.path.split_once('/'));
    let Some(folder) = folder.map(|(folder, _)| format!("{folder}/")) else {
        return files;
    };
    if files.iter().all(|file| file.path.starts_with(&folder)) {
        for file in &mut files {
            file.path.drain(..folder.len());
        }
    }
    files
}
