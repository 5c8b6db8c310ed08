//! `nearfar embed`: a trained head applied to any rows, a few at a time.

use std::path::PathBuf;

use clap::Args;
use nearfar::{
    Embedder, Error, Forecast, MemoryReport, Rate, Result, Room, RowSource, matrix_header,
};

use super::{Common, files, head, print_json, print_line, progress};

/// Rows that are read, embedded and written at once.
const CHUNK_ROWS: usize = 4096;

/// Apply a trained head to rows of features
#[derive(Debug, Args)]
pub(super) struct Embed {
    /// The folder that `train --out` wrote, or one of its heads: linear.safetensors is the linear map
    #[arg(long, value_name = "DIR|FILE")]
    model: PathBuf,
    /// Features: CSV, NPY or NPZ, or a sample
    #[arg(long, value_name = "FILE[:ARRAY]")]
    data: String,
    /// Unit rows as NPY
    #[arg(long, value_name = "FILE.npy")]
    out: PathBuf,
    /// Seeds a sample
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    pub(super) common: Common,
}

impl Embed {
    pub(super) fn run(&self) -> Result<()> {
        pollster::block_on(self.embed())
    }

    /// What embedding would hold and take; embeds nothing.
    pub(super) fn plan(&self, room: &Room, rate: &Rate) -> Result<Forecast> {
        let (head, features) = head::from_file(&files::read(&self.head())?)?;
        let inputs = head.first().map_or(0, |layer| layer.shape[1]);
        let rows = self.source(&features, inputs)?.rows();
        Embedder::plan(&head, rows, room, rate)
    }

    async fn embed(&self) -> Result<()> {
        let (head, features) = head::from_file(&files::read(&self.head())?)?;
        let inputs = head.first().map_or(0, |layer| layer.shape[1]);
        let source = self.source(&features, inputs)?;
        if source.dim() != inputs {
            return Err(Error::Data(format!(
                "{}: {} features, the head takes {inputs}",
                self.data,
                source.dim()
            )));
        }
        let engine = self.common.open(Common::default_budget())?;
        let mut embedder = Embedder::new(engine, &head).await?;
        let started = std::time::Instant::now();
        let mut output = files::Output::create(&self.out)?;
        output.write(&matrix_header(source.rows(), embedder.embedding_size()))?;
        let bar = progress::Progress::new(source.rows() as u64, "rows");
        for first in (0..source.rows()).step_by(CHUNK_ROWS) {
            let rows: Vec<u32> =
                (first as u32..source.rows().min(first + CHUNK_ROWS) as u32).collect();
            let mut values = Vec::with_capacity(rows.len() * inputs);
            source.read(&rows, &mut values).await?;
            let embeddings = embedder.embed(&values).await?;
            let bytes: Vec<u8> = embeddings
                .values
                .iter()
                .flat_map(|value| value.to_le_bytes())
                .collect();
            output.write(&bytes)?;
            bar.set((first + rows.len()) as u64);
        }
        bar.finish();
        output.finish()?;
        let info = embedder.engine().info();
        if self.common.json {
            print_json(&serde_json::json!({
                "engine": info.engine,
                "adapter": info.adapter,
                "elapsed_ms": started.elapsed().as_secs_f64() * 1e3,
                "rows": source.rows(),
                "embedding_size": embedder.embedding_size(),
                "memory": MemoryReport::new(embedder.engine().ledger()),
            }));
        } else {
            let (rows, size) = (source.rows(), embedder.embedding_size());
            let out = self.out.display();
            print_line(format_args!("{rows} rows of {size} dimensions in {out}"));
        }
        Ok(())
    }

    /// The file of the head.
    fn head(&self) -> PathBuf {
        match self.model.is_file() {
            true => self.model.clone(),
            false => self.model.join(head::FILE),
        }
    }

    /// Where the rows come from: an open NPY file, or an array or table in memory.
    fn source(&self, features: &[String], inputs: usize) -> Result<RowSource> {
        if self.data.starts_with("sample:") {
            return Ok(files::dataset(&self.data, None, self.seed)?.features);
        }
        files::rows_for(&self.data, features, inputs)
    }
}
