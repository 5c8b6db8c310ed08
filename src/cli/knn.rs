//! `nearfar knn`: the exact nearest references of every query.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use nearfar::{
    Certified, CertifiedIndex, Distance, Error, Forecast, KnnIndex, KnnSpec, NpzWriter, Rate,
    Result, Room, search_across,
};

use super::data::{ColumnOptions, GroupOption};
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
    /// How rows are compared: the neighbours and their similarities are the same, bit for bit
    #[arg(long, value_enum, default_value_t = Precision::F32)]
    precision: Precision,
    #[command(flatten)]
    columns: ColumnOptions,
    #[command(flatten)]
    group: GroupOption,
    #[command(flatten)]
    pub(super) common: Common,
}

/// What queries are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Precision {
    /// In 32-bit floating point
    F32,
    /// With the references rounded to 16 bits at first, and in f32 with those that come nearest; queries whose neighbours this
    /// leaves uncertain are searched in f32. The report says which part was certain. All references have to fit the budget, one and
    /// a half times, and k is 490 at most. On the CPU engine alone
    CertifiedF16,
}

impl Precision {
    /// The name in reports.
    fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::CertifiedF16 => "certified-f16",
        }
    }
}

impl Knn {
    pub(super) fn run(&self) -> Result<()> {
        pollster::block_on(self.search())
    }

    /// What a search would hold and take; runs nothing.
    pub(super) fn plan(&self, room: &Room, rate: &Rate) -> Result<Forecast> {
        let (queries, references) = self.rows()?;
        let (known, asking) = match &references {
            Some(references) => (&references.rows, Some(&queries.rows)),
            None => (&queries.rows, None),
        };
        let spec = KnnSpec::of(known, asking, self.k);
        match self.precision {
            Precision::F32 => spec.plan(room, rate),
            Precision::CertifiedF16 => spec.plan_certified(room, rate),
        }
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
        if across.is_some() && self.precision == Precision::CertifiedF16 {
            return Err(Error::Config(
                "--precision certified-f16 searches all references, and --group leaves some out: leave one of them out".to_owned(),
            ));
        }
        let mut named = vec![(self.queries.as_str(), queries)];
        named.extend(self.references.as_deref().zip(references));
        let warnings = survey(&named, Distance::Cosine)?;
        let engine = self.common.open(Common::default_budget())?;
        if self.precision == Precision::CertifiedF16 && engine.info().engine == "gpu" {
            return Err(Error::Config(
                "--precision certified-f16 is for the CPU engine: on a GPU the driver may leave out the rounding whose error it \
                 measures, so that a wrong neighbour could be called certain: leave --precision out, or add --engine cpu"
                    .to_owned(),
            ));
        }
        let inputs: Vec<&str> = named.iter().map(|(name, _)| *name).collect();
        let file = Output::create(out, &inputs)?;
        let started = std::time::Instant::now();
        let (known, asking) = match references {
            Some(references) => (references, Some(queries)),
            None => (queries, None),
        };
        let bar = || progress::Progress::new(queries.rows() as u64, "queries");
        let mut certified: Option<Certified> = None;
        let found = match self.precision {
            _ if let Some((queries, known)) = across => {
                let bar = bar();
                let tell = |done, _| bar.set(done);
                let found = search_across(&engine, queries, known, self.k, tell).await?;
                bar.finish();
                found
            }
            Precision::F32 => {
                let mut index = KnnIndex::new(&engine, known, asking, self.k).await?;
                let bar = bar();
                let found = index.search(asking, |done, _| bar.set(done)).await?;
                bar.finish();
                found
            }
            Precision::CertifiedF16 => {
                let mut index = CertifiedIndex::new(&engine, known, asking, self.k).await?;
                let bar = bar();
                let (found, of) = index.search(asking, |done, _| bar.set(done)).await?;
                bar.finish();
                certified = Some(of);
                found
            }
        };
        let elapsed_ms = started.elapsed().as_secs_f64() * 1e3;
        let shape = [queries.rows(), self.k];
        let mut file = NpzWriter::new(out.display().to_string(), file);
        file.array("ids", &shape, [&found.ids])?;
        file.array("similarities", &shape, [&found.similarities])?;
        file.finish()?.finish()?;
        if self.common.json {
            let mut report = serde_json::json!({
                "queries": queries.rows(),
                "references": known.rows(),
                "k": self.k,
                "precision": self.precision.name(),
                "warnings": warnings,
                "data": data,
            });
            if let Some(certified) = certified {
                report["certified"] = certified.part().into();
                report["went_on_in_f32"] = certified.went_on_in_f32.into();
            }
            return print_json(&of_work(report, &engine, elapsed_ms));
        }
        print_line(format_args!(
            "{} nearest of {} references for {} queries in {}",
            self.k,
            known.rows(),
            queries.rows(),
            out.display()
        ));
        if let Some(certified) = certified {
            print_line(sentence(&certified));
        }
        Ok(())
    }
}

/// What the search in f16 was good for.
fn sentence(certified: &Certified) -> String {
    let Certified {
        certified: certain,
        queries,
        went_on_in_f32,
    } = *certified;
    let said = format!("f16 was enough for {certain} of {queries} queries");
    match went_on_in_f32 {
        true => format!(
            "{said}: of the first 256 it left most uncertain, so that the others were searched in f32 alone"
        ),
        false if certain < queries => format!("{said}, the others were searched again in f32"),
        false => said,
    }
}
