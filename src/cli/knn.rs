//! `nearfar knn`: the exact nearest references of every query.

use std::path::PathBuf;

use clap::Args;
use nearfar::{
    Distance, Error, Forecast, KnnIndex, KnnSpec, NpzWriter, Rate, Result, Room, search_across,
};

use super::columns::{ColumnOptions, GroupOption};
use super::files::LabelledRows;
use super::output::Output;
use super::survey::survey;
use super::{Common, files, of_work, print_json, print_line, progress};

/// Find the nearest rows of every row, exactly, by cosine similarity
///
/// Rows that do not fit the budget are read again as they are needed: there may be more than memory holds.
#[derive(Debug, Args)]
pub(super) struct Knn {
    /// The rows that ask: NPY, NPZ, safetensors, HDF5, CSV, JSON Lines or Parquet, of any length but zero
    #[arg(long, value_name = "FILE[:ARRAY]")]
    queries: String,
    /// The rows that are searched [default: the queries, each without itself]
    #[arg(long, value_name = "FILE[:ARRAY]")]
    references: Option<String>,
    /// How many nearest rows of each query
    #[arg(short, long)]
    k: usize,
    /// The file to write: an NPZ with `ids`, the numbers of the rows found, counted from 0, and `similarities`, both
    /// [queries, k], the nearest first
    #[arg(long, value_name = "FILE.npz", required = true)]
    out: Option<PathBuf>,
    #[command(flatten)]
    columns: ColumnOptions,
    #[command(flatten)]
    group: GroupOption,
    #[command(flatten)]
    pub(super) common: Common,
}

impl Knn {
    pub(super) fn run(&self) -> Result<()> {
        pollster::block_on(self.search())
    }

    /// Forecast of the search; runs nothing.
    pub(super) fn plan(&self, room: &Room, rate: &Rate) -> Result<Forecast> {
        let (queries, references) = self.rows()?;
        let (known, asking) = match &references {
            Some(references) => (&references.rows, Some(&queries.rows)),
            None => (&queries.rows, None),
        };
        KnnSpec::of(known, asking, self.k).plan(room, rate)
    }

    fn rows(&self) -> Result<(LabelledRows, Option<LabelledRows>)> {
        let columns = self.group.apart_of(self.columns.columns()?);
        let queries = files::rows(&self.queries, &columns, None)?;
        let references = self.references.as_deref();
        let references = references.map(|name| files::rows(name, &columns, Some(&queries)));
        let references = references.transpose()?;
        if let Some(references) = &references
            && references.rows.dim() != queries.rows.dim()
        {
            return Err(Error::Data(format!(
                "references have {} dimensions, queries {}: they must be as many",
                references.rows.dim(),
                queries.rows.dim()
            )));
        }
        Ok((queries, references))
    }

    async fn search(&self) -> Result<()> {
        let out = self.out.as_deref().ok_or_else(|| {
            Error::Config("--out FILE.npz is missing: where the neighbours go".to_owned())
        })?;
        let (queries, references) = self.rows()?;
        let both = std::iter::once(&queries).chain(references.as_ref());
        let data: Vec<serde_json::Value> = both.map(LabelledRows::said).collect();
        let across = queries.groups.as_deref().map(|groups| {
            let known = references.as_ref();
            let known = known.and_then(|known| Some((&known.rows, known.groups.as_deref()?)));
            ((&queries.rows, groups), known)
        });
        let (queries, references) = (&queries.rows, references.as_ref().map(|known| &known.rows));
        let mut named = vec![(self.queries.as_str(), queries)];
        named.extend(self.references.as_deref().zip(references));
        let warnings = survey(&named, Distance::Cosine)?;
        let engine = self.common.open(Common::default_budget())?;
        let inputs: Vec<&str> = named.iter().map(|(name, _)| *name).collect();
        let file = Output::create(out, &inputs)?;
        let started = std::time::Instant::now();
        let (known, asking) = match references {
            Some(references) => (references, Some(queries)),
            None => (queries, None),
        };
        let bar = progress::Progress::new(queries.rows() as u64, "queries");
        let tell = |done, _| bar.set(done);
        let found = match across {
            Some((queries, known)) => search_across(&engine, queries, known, self.k, tell).await?,
            None => {
                let mut index = KnnIndex::new(&engine, known, asking, self.k).await?;
                index.search(asking, tell).await?
            }
        };
        bar.finish();
        let elapsed_ms = started.elapsed().as_secs_f64() * 1e3;
        let shape = [queries.rows(), self.k];
        let mut file = NpzWriter::new(out.display().to_string(), file);
        file.array("ids", &shape, [&found.ids])?;
        file.array("similarities", &shape, [&found.similarities])?;
        file.finish()?.finish()?;
        if self.common.json {
            let report = serde_json::json!({
                "queries": queries.rows(),
                "references": known.rows(),
                "k": self.k,
                "warnings": warnings,
                "data": data,
            });
            return print_json(&of_work(report, &engine, elapsed_ms));
        }
        print_line(format_args!(
            "{} nearest of {} references for {} queries in {}",
            self.k,
            known.rows(),
            queries.rows(),
            out.display()
        ));
        Ok(())
    }
}
