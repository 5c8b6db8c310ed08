//! `nearfar embed`: a trained head applied to any rows, a few at a time.

use std::path::PathBuf;

use clap::Args;
use nearfar::{
    Dataset, Embedder, Error, Forecast, Head, Marks, Rate, Result, Room, RowSource, add_embeddings,
    matrix_header, reserve,
};

use super::columns::MarkOptions;
use super::output::Output;
use super::{Common, files, of_work, print_json, print_line, progress, saved};

/// Rows that are read, embedded and written at once.
const CHUNK_ROWS: usize = 4096;

/// Map rows through a trained head, to embeddings of length 1
///
/// Rows are read, embedded and written a few at a time: there may be more than memory holds.
#[derive(Debug, Args)]
pub(super) struct Embed {
    /// The folder that `nearfar train --out` wrote, the ZIP archive of one, or one of its heads: linear.safetensors is the
    /// linear map
    #[arg(long, value_name = "DIR|FILE")]
    model: PathBuf,
    /// Rows of numbers with the columns that the head was trained on: CSV, JSON Lines, Parquet, NPY, NPZ, safetensors, AnnData, or a
    /// built-in sample
    #[arg(long, value_name = "FILE[:ARRAY]")]
    data: String,
    /// The file to write: an NPY of float32, one embedding a row; or, where the data is AnnData, an .h5ad: a copy of it with the
    /// embeddings as `obsm["X_nearfar"]`
    #[arg(long, value_name = "FILE.npy|FILE.h5ad")]
    out: PathBuf,
    /// The number that the random choices of a built-in sample follow from
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    marks: MarkOptions,
    #[command(flatten)]
    pub(super) common: Common,
}

impl Embed {
    pub(super) fn run(&self) -> Result<()> {
        pollster::block_on(self.embed())
    }

    /// Forecast of the embedding; embeds nothing.
    pub(super) fn plan(&self, room: &Room, rate: &Rate) -> Result<Forecast> {
        let (head, source) = self.read()?;
        Embedder::plan(&head.layers, source.rows(), room, rate)
    }

    /// The head, and rows that it takes.
    fn read(&self) -> Result<(Head, RowSource)> {
        let head = saved::head(&self.model)?;
        let inputs = head.inputs();
        let source = self.source(&head)?;
        if source.dim() != inputs {
            return Err(Error::Data(format!(
                "{}: {} features, the head takes {inputs}",
                self.data,
                source.dim()
            )));
        }
        Ok((head, source))
    }

    async fn embed(&self) -> Result<()> {
        let (head, source) = self.read()?;
        let engine = self.common.open(Common::default_budget())?;
        Embedder::plan(
            &head.layers,
            source.rows(),
            &engine.room(),
            &Rate::default(),
        )?;
        let model = [self.model.clone(), self.model.join(saved::HEAD)];
        let [file, within] = model.map(|path| path.display().to_string());
        let inputs = [self.data.as_str(), &file, &within];
        let cells = files::is_cells(&self.out).then(|| files::cells(&self.data, source.rows()));
        let cells = cells.transpose()?;
        let mut output = Output::create(&self.out, &inputs)?;
        let mut embedder = Embedder::new(engine, &head.layers).await?;
        let started = std::time::Instant::now();
        let dim = embedder.embedding_size();
        // An AnnData copy gets its embeddings at once; otherwise they are written as they come.
        if let Some(cells) = cells {
            let mut added = Vec::new();
            let count = source.rows() as u64 * dim as u64;
            reserve(&mut added, count, "the embeddings")?;
            each_chunk(&source, &mut embedder, |values| {
                added.extend(values);
                Ok(())
            })
            .await?;
            output.copy(cells)?;
            add_embeddings(output.place(), &cells.display().to_string(), &added, dim)?;
        } else {
            output.write(&matrix_header(source.rows(), dim))?;
            each_chunk(&source, &mut embedder, |values| {
                let bytes = values.iter().flat_map(|value| value.to_le_bytes());
                output.write(&bytes.collect::<Vec<u8>>())
            })
            .await?;
        }
        output.finish()?;
        let elapsed_ms = started.elapsed().as_secs_f64() * 1e3;
        if self.common.json {
            let report = serde_json::json!({
                "rows": source.rows(),
                "embedding_size": dim,
            });
            return print_json(&of_work(report, embedder.engine(), elapsed_ms));
        }
        let (rows, out) = (source.rows(), self.out.display());
        print_line(format_args!("{rows} rows of {dim} dimensions in {out}"));
        Ok(())
    }

    /// Source of the rows: an open NPY file, or an array or table in memory.
    fn source(&self, head: &Head) -> Result<RowSource> {
        if let Some(sample) = self.data.strip_prefix("sample:") {
            return Ok(Dataset::sample(sample, self.seed)?.features);
        }
        // Number format of the head's training data, unless another is given.
        let marks = match self.marks.marks()? {
            chosen if chosen == Marks::default() => saved::marks(&self.model),
            chosen => chosen,
        };
        files::rows_for(&self.data, head, marks)
    }
}

/// Embeds the rows, [`CHUNK_ROWS`] at a time, with a progress bar; `put` takes the embeddings of each chunk.
async fn each_chunk(
    source: &RowSource,
    embedder: &mut Embedder,
    mut put: impl FnMut(&[f32]) -> Result<()>,
) -> Result<()> {
    let bar = progress::Progress::new(source.rows() as u64, "rows");
    for first in (0..source.rows()).step_by(CHUNK_ROWS) {
        let rows: Vec<u32> = (first as u32..source.rows().min(first + CHUNK_ROWS) as u32).collect();
        let mut values = Vec::with_capacity(rows.len() * source.dim());
        source.read(&rows, &mut values).await?;
        let embeddings = embedder.embed(&values).await?;
        put(&embeddings.values)?;
        bar.set((first + rows.len()) as u64);
    }
    bar.finish();
    Ok(())
}
