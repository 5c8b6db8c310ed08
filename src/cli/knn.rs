//! `nearfar knn`: the exact nearest references of every query.

use std::path::PathBuf;

use clap::Args;
use nearfar::{
    Error, Forecast, KnnIndex, KnnSpec, MemoryReport, NpzWriter, Rate, Result, Room, RowSource,
};

use super::{Common, files, print_json, print_line, progress};

/// Find the exact nearest references of every query by cosine similarity
#[derive(Debug, Args)]
pub(super) struct Knn {
    /// Rows of any length as NPY, NPZ or CSV
    #[arg(long, value_name = "FILE")]
    queries: String,
    /// What is searched; without it the queries themselves, each leaving itself out
    #[arg(long, value_name = "FILE")]
    references: Option<String>,
    /// Neighbours of each query
    #[arg(short, long)]
    k: usize,
    /// NPZ with `ids` [n, k] and `similarities` [n, k], nearest first
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
        Ok((queries.rows, references.map(|references| references.rows)))
    }

    async fn search(&self) -> Result<()> {
        let out = self.out.as_deref().ok_or_else(|| {
            Error::Config("--out FILE.npz is missing: where the neighbours go".to_owned())
        })?;
        let (queries, references) = self.rows()?;
        let engine = self.common.open(Common::default_budget())?;
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
        let mut file = NpzWriter::new(out.display().to_string(), files::Output::create(out)?);
        file.array("ids", &shape, [&found.ids])?;
        file.array("similarities", &shape, [&found.similarities])?;
        file.finish()?.finish()?;
        if self.common.json {
            let info = engine.info();
            print_json(&serde_json::json!({
                "engine": info.engine,
                "adapter": info.adapter,
                "elapsed_ms": elapsed_ms,
                "queries": queries.rows(),
                "references": known.rows(),
                "k": self.k,
                "memory": MemoryReport::new(engine.ledger()),
            }));
        } else {
            print_line(format_args!(
                "{} nearest of {} references for {} queries in {}",
                self.k,
                known.rows(),
                queries.rows(),
                out.display()
            ));
        }
        Ok(())
    }
}
