//! `nearfar sizes`: how small vectors can be.

use std::path::PathBuf;

use clap::Args;
use nearfar::{
    Bytes, Dataset, Error, Forecast, Rate, Result, Results, Room, RowSource, Rows, RowsOf,
    VectorSizes, plan_vector_sizes, vector_sizes,
};

use super::columns::ColumnOptions;
use super::files::labelled_rows;
use super::saved::Saved;
use super::{Common, of_work, print_json, print_line, progress, sides};

/// Measure how small vectors can be: fewer numbers, fewer bits, and what either costs
///
/// Rows are cut to their first numbers, halved down to eight, and stored as f32, f16, int8 or one bit. In each size every row
/// asks the others, ranked by cosine similarity. The advice is the smallest size that loses less than the standard error of the
/// scores, in other rows of the same kind too.
#[derive(Debug, Args)]
#[command(after_help = MEANINGS)]
pub(super) struct Sizes {
    /// The rows: NPY, NPZ, safetensors, HDF5, CSV, JSON Lines or Parquet
    #[arg(
        long,
        value_name = "FILE[:ARRAY]",
        required_unless_present = "model",
        conflicts_with = "model"
    )]
    embeddings: Option<String>,
    /// The class of each row: a column or array of the same file by its name, or another file, with a column or array of it
    /// after a colon [default: found by its name or type]
    #[arg(long, value_name = "COLUMN|FILE[:COLUMN]")]
    labels: Option<String>,
    /// The folder or ZIP archive of a run: its test rows are measured as they are, through its linear map and through its head
    #[arg(
        long,
        value_name = "DIR|FILE.zip",
        conflicts_with_all = ["features", "ignore", "unlabelled", "on", "decimal", "thousands"]
    )]
    model: Option<PathBuf>,
    /// The data of that run, a built-in sample excepted
    #[arg(long, value_name = "FILE[:ARRAY]", requires = "model")]
    data: Option<String>,
    #[command(flatten)]
    columns: ColumnOptions,
    /// Rows that are chosen, seeded, and compared with each other; 0 is all, which classes of few rows want: a row whose class has
    /// no other among the chosen does not count
    #[arg(long, value_name = "ROWS", default_value_t = 10_000)]
    rows: usize,
    #[command(flatten)]
    pub(super) common: Common,
}

const MEANINGS: &str = "\
Sizes:
  f32    the numbers as they are
  f16    of a row of length 1, each number as a half-precision float
  int8   of rows of length 1, each number times 127 over the largest of all rows, rounded
  1 bit  set where the number is above 0; rows are compared by the bits that they share
Only vectors that were trained for it keep their best numbers first: what cutting costs is measured, not promised.

JSON, with --json:
  tables      of each table its name, rows, sentence, advised (a place in sizes), standard_errors (of both scores of the whole
              rows), and sizes: dim, format, bytes, precision_at_1, mean_average_precision_at_r, lost_.. of both (the loss and
              its standard error), keeps
  engine, adapter, elapsed_ms, memory

Examples:
  nearfar sizes --embeddings vectors.npy --labels classes.csv
  nearfar sizes --model run --data flowers.csv";

/// Rows of files whose sizes are measured, with their name.
struct Table {
    name: String,
    rows: RowSource,
    labels: Vec<String>,
}

impl Sizes {
    pub(super) fn run(&self) -> Result<()> {
        pollster::block_on(self.measure())
    }

    /// Forecast of the measure of the largest table; runs nothing.
    pub(super) fn plan(&self, room: &Room, rate: &Rate) -> Result<Forecast> {
        let (labels, dim) = match self.saved()? {
            Some((results, dataset)) => {
                let rows = results.rows_of(RowsOf::Test, dataset.rows());
                let widest = results.head.dimensions().max(dataset.features.dim());
                (names(&dataset, &rows), widest)
            }
            None => {
                let table = self.stored()?;
                let dim = table.rows.dim();
                (table.labels, dim)
            }
        };
        plan_vector_sizes(&labels, dim, self.rows, room, rate)
    }

    async fn measure(&self) -> Result<()> {
        let saved = self.saved()?;
        let stored = saved.is_none().then(|| self.stored()).transpose()?;
        let engine = self.common.open(Common::default_budget())?;
        let started = std::time::Instant::now();
        let mut bar = None;
        let heard = |done, all| {
            let bar = bar.get_or_insert_with(|| progress::Progress::new(all, "sizes"));
            bar.set(done);
        };
        let found = match (stored, &saved) {
            (Some(Table { name, rows, labels }), _) => {
                let (rows, labels) = (&rows, &labels[..]);
                let sizes = vector_sizes(&engine, Rows { rows, labels }, self.rows, 0, heard);
                vec![(name, sizes.await?)]
            }
            (None, Some((results, dataset))) => {
                let sizes = results.vector_sizes(dataset, &engine, self.rows, heard);
                sizes.await?
            }
            (None, None) => unreachable!("rows are stored or of a run"),
        };
        if let Some(bar) = bar {
            bar.finish();
        }
        let elapsed_ms = started.elapsed().as_secs_f64() * 1e3;
        if !self.common.json {
            found.iter().for_each(|(name, sizes)| print(name, sizes));
            return Ok(());
        }
        let tables = found.iter().map(|(name, sizes)| {
            let mut table = serde_json::json!(sizes);
            table["name"] = name.as_str().into();
            table["sentence"] = sizes.sentence().into();
            table
        });
        let tables: Vec<_> = tables.collect();
        print_json(&of_work(
            serde_json::json!({ "tables": tables }),
            &engine,
            elapsed_ms,
        ))
    }

    /// Rows from files.
    fn stored(&self) -> Result<Table> {
        let name = self.embeddings.clone().unwrap_or_default();
        let columns = self.columns.columns()?;
        let read = labelled_rows(&name, self.labels.as_deref(), &columns, None)?;
        Ok(Table {
            name,
            rows: read.rows,
            labels: read.labels,
        })
    }

    /// The run and its data, if a run was given.
    fn saved(&self) -> Result<Option<(Results, Dataset)>> {
        let Some(model) = &self.model else {
            return Ok(None);
        };
        let results = Saved::open(model)?.results()?;
        sides::check(&results, model, "give --embeddings")?;
        if results.report.data.test == 0 {
            return Err(Error::Data(format!(
                "{}: the run has no test rows, and sizes are measured on such rows: give --embeddings",
                model.display()
            )));
        }
        let (data, labels) = (self.data.as_deref(), self.labels.as_deref());
        let dataset = sides::dataset(&results, data, labels, None, RowsOf::Test)?;
        Ok(Some((results, dataset)))
    }
}

/// The class of each of these rows.
fn names(dataset: &Dataset, rows: &[u32]) -> Vec<String> {
    let name = |row: &u32| dataset.class_names[dataset.labels[*row as usize] as usize].clone();
    rows.iter().map(name).collect()
}

fn print(name: &str, sizes: &VectorSizes) {
    let [nearest, groups] = sizes.standard_errors;
    print_line(format_args!(
        "{name}, {} rows; standard errors {nearest:.4} and {groups:.4}:",
        sizes.rows
    ));
    print_line(format_args!(
        "{:>8} {:>6} {:>10} {:>14} {:>12} {:>9} {:>9} {:>9}",
        "numbers", "", "bytes", "of a million", "precision@1", "lost", "MAP@R", "lost"
    ));
    // A small gain is no loss of -0.0000.
    let lost = |[lost, _]: [f64; 2]| (lost * 1e4).round() / 1e4 + 0.0;
    for (place, size) in sizes.sizes.iter().enumerate() {
        print_line(format_args!(
            "{:>8} {:>6} {:>10} {:>14} {:>12.4} {:>9.4} {:>9.4} {:>9.4}{}",
            size.dim,
            size.format.name(),
            size.bytes,
            Bytes(size.bytes_of_a_million()).to_string(),
            size.precision_at_1,
            lost(size.lost_precision_at_1),
            size.mean_average_precision_at_r,
            lost(size.lost_mean_average_precision_at_r),
            if place == sizes.advised && place > 0 {
                "  <- the smallest that keeps both"
            } else {
                ""
            }
        ));
    }
    print_line(sizes.sentence());
}
