//! `nearfar evaluate`: how well embeddings find their class.

use clap::Args;
use nearfar::{Error, MemoryReport, Metrics, Result, evaluate};

use super::{Common, files, print_json};

/// Measure retrieval: precision@1, R-precision, MAP@R, MAP, MRR
#[derive(Debug, Args)]
pub(super) struct Evaluate {
    /// Rows of any length as NPY, NPZ or CSV; every row is a query
    #[arg(long, value_name = "FILE[:ARRAY]")]
    embeddings: String,
    /// Their labels: an NPY, a column of another CSV or array of an NPZ after a colon, or one of the same file
    #[arg(long, value_name = "FILE[:COLUMN]")]
    labels: Option<String>,
    /// What is searched; without it the embeddings themselves, each leaving itself out
    #[arg(long, value_name = "FILE[:ARRAY]")]
    references: Option<String>,
    /// Their labels
    #[arg(long, value_name = "FILE[:COLUMN]", requires = "references")]
    reference_labels: Option<String>,
    /// Some of the metrics, by name, with commas; all without it
    #[arg(long, value_delimiter = ',')]
    metrics: Vec<String>,
    #[command(flatten)]
    common: Common,
}

impl Evaluate {
    pub(super) fn run(&self) -> Result<()> {
        if let Some(name) = self
            .metrics
            .iter()
            .find(|name| !Metrics::NAMES.contains(&name.as_str()))
        {
            return Err(Error::Config(format!(
                "there is no metric \"{name}\": {}",
                Metrics::NAMES.join(", ")
            )));
        }
        let queries = files::labelled(&self.embeddings, self.labels.as_deref())?;
        let references = match &self.references {
            Some(references) => Some(files::labelled(
                references,
                self.reference_labels.as_deref(),
            )?),
            None => None,
        };
        for rows in [Some(&queries), references.as_ref()].into_iter().flatten() {
            files::say(&rows.name, &rows.notes);
        }
        let engine = self.common.open(Common::default_budget())?;
        let started = std::time::Instant::now();
        let metrics = pollster::block_on(evaluate(&engine, &queries, references.as_ref()))?;
        let elapsed_ms = started.elapsed().as_secs_f64() * 1e3;
        let mut report = serde_json::json!(metrics);
        if let Some(fields) = report.as_object_mut() {
            fields.retain(|name, _| {
                self.metrics.is_empty()
                    || !Metrics::NAMES.contains(&name.as_str())
                    || self.metrics.contains(name)
            });
            if !self.common.json {
                for (name, value) in fields {
                    println!("{name:<28} {value}");
                }
                return Ok(());
            }
            let info = engine.info();
            fields.insert("engine".to_owned(), info.engine.clone().into());
            fields.insert("adapter".to_owned(), info.adapter.clone().into());
            fields.insert("elapsed_ms".to_owned(), elapsed_ms.into());
            let memory = serde_json::json!(MemoryReport::new(engine.ledger()));
            fields.insert("memory".to_owned(), memory);
        }
        print_json(&report);
        Ok(())
    }
}
