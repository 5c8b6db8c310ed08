//! `nearfar knn`: the exact nearest references of every query.

use std::path::PathBuf;

use clap::Args;
use nearfar::{
    Distance, Error, Forecast, KnnIndex, KnnSpec, NpzWriter, Rate, Result, Room, RowSource,
};

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
    pub(super) common: Common,
}

impl Knn {
    pub(super) fn run(&self) -> Result<()> {
        pollster::block_on(self.search())
    }

    /// What a search would hold and take; runs nothing.
    pub(super) fn plan(&self, room: &Room, rate: &Rate) -> Result<Forecast> {
        let (queries, references) = self.rows()?;
        let known = references.as_ref().unwrap_or(&queries);
        let spec = KnnSpec {
            queries: queries.rows(),
            references: known.rows(),
            dim: known.dim(),
            k: self.k,
            own: references.is_none(),
        };
        spec.plan(room, rate)
    }

    fn rows(&self) -> Result<(RowSource, Option<RowSource>)> {
        let queries = files::rows(&self.queries, None)?;
        let references = self.references.as_deref();
        let references = references.map(|references| files::rows(references, Some(&queries)));
        let references = references.transpose()?;
        let (queries, references) = (queries.rows, references.map(|references| references.rows));
        if let Some(references) = &references
            && references.dim() != queries.dim()
        {
            return Err(Error::Data(format!(
                "references have {} dimensions, queries {}: they must be as many",
                references.dim(),
                queries.dim()
            )));
        }
        Ok((queries, references))
    }

    async fn search(&self) -> Result<()> {
        let out = self.out.as_deref().ok_or_else(|| {
            Error::Config("--out FILE.npz is missing: where the neighbours go".to_owned())
        })?;
        let (queries, references) = self.rows()?;
        let mut named = vec![(self.queries.as_str(), &queries)];
        named.extend(self.references.as_deref().zip(references.as_ref()));
        let warnings = survey(&named, Distance::Cosine)?;
        let engine = self.common.open(Common::default_budget())?;
        let inputs: Vec<&str> = named.iter().map(|(name, _)| *name).collect();
        let file = Output::create(out, &inputs)?;
        let started = std::time::Instant::now();
        let (known, asking) = match &references {
            Some(references) => (references, Some(&queries)),
            None => (&queries, None),
        };
        let mut index = KnnIndex::new(&engine, known, asking, self.k).await?;
        let bar = progress::Progress::new(queries.rows() as u64, "queries");
        let found = index.search(asking, |done, _| bar.set(done)).await?;
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
