//! `nearfar evaluate`: how well embeddings find their class.

use clap::Args;
use nearfar::{
    Distance, Error, EvaluationSpec, Forecast, Metrics, Rate, Result, Retrieval, Room, evaluate,
    evaluate_across, evaluate_nearest,
};

use super::columns::GroupOption;
use super::files::{LabelledFiles, LabelledRows, compare};
use super::{Common, of_work, print_json, print_line, progress};

/// Measure how well the nearest rows tell the class of a row
///
/// Every row asks once: the others are ranked by cosine similarity, and those of its class should come first. Rows that
/// are the only one of their class are left out and counted.
#[derive(Debug, Args)]
#[command(after_help = MEANINGS)]
pub(super) struct Evaluate {
    #[command(flatten)]
    rows: LabelledFiles,
    #[command(flatten)]
    group: GroupOption,
    /// Only these metrics, by name, with commas between [default: all]
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    metrics: Vec<String>,
    /// The k of recall@k and precision@k, with commas between
    #[arg(long, value_name = "K,..", value_delimiter = ',', default_value = "1,2,4,8,16,32", value_parser = clap::value_parser!(u64).range(1..))]
    at: Vec<u64>,
    #[command(flatten)]
    pub(super) common: Common,
}

const MEANINGS: &str = "\
Metrics, each a mean over all rows that ask, between 0 and 1; R is how many other rows of its class there are:
  precision_at_1               how often the nearest other row has the same class
  r_precision                  of the nearest R rows, the part that has the same class
  mean_average_precision_at_r  the same, where rows of the class that are nearer count for more (MAP@R)
  mean_average_precision       how early the rows of the class come among all rows (MAP)
  mean_reciprocal_rank         one over the place of the first row of the same class
  recall_at.K                  how often one of the nearest K rows has the same class
  precision_at.K               of the nearest K rows, the part that has the same class";

impl Evaluate {
    pub(super) fn run(&self) -> Result<()> {
        self.check_metrics()?;
        let (queries, references) = self.rows.read_grouped(&self.group)?;
        let warnings = compare(&self.rows, &queries, references.as_ref(), Distance::Cosine)?;
        let engine = self.common.open(Common::default_budget())?;
        let started = std::time::Instant::now();
        let bar = progress::Progress::new(queries.labels.len() as u64, "queries");
        let known = references.as_ref().map(LabelledRows::rows);
        let tell = |done, _| bar.set(done);
        let nearest = |name: &String| Metrics::OF_THE_NEAREST.contains(&name.as_str());
        let retrieval = if let Some(groups) = &queries.groups {
            let known = known.zip(references.as_ref().and_then(|rows| rows.groups.as_deref()));
            let retrieval = evaluate_across(&engine, queries.rows(), groups, known, &self.at, tell);
            pollster::block_on(retrieval)?
        } else if !self.metrics.is_empty() && self.metrics.iter().all(nearest) {
            let retrieval = evaluate_nearest(&engine, queries.rows(), known, &self.at, tell);
            pollster::block_on(retrieval)?
        } else {
            pollster::block_on(evaluate(&engine, queries.rows(), known, &self.at, tell))?
        };
        bar.finish();
        let elapsed_ms = started.elapsed().as_secs_f64() * 1e3;
        let asked = |name: &str| {
            self.metrics.is_empty()
                || !Metrics::NAMES.contains(&name)
                || self.metrics.iter().any(|metric| metric == name)
        };
        if !self.common.json {
            print(&retrieval, asked, self.group.group.as_deref());
            return Ok(());
        }
        let mut scores = serde_json::json!(retrieval);
        let retain = |scores: &mut serde_json::Value| {
            if let Some(scores) = scores.as_object_mut() {
                scores.retain(|name, _| asked(name));
            }
        };
        retain(&mut scores);
        retain(&mut scores["over_classes"]);
        let classes = scores["classes"].as_array_mut();
        classes.into_iter().flatten().for_each(retain);
        let mut report = of_work(scores, &engine, elapsed_ms);
        report["warnings"] = warnings.into();
        let both = std::iter::once(&queries).chain(references.as_ref());
        report["data"] = both.map(LabelledRows::said).collect();
        print_json(&report)
    }

    fn check_metrics(&self) -> Result<()> {
        let known = |name: &&String| Metrics::NAMES.contains(&name.as_str());
        match self.metrics.iter().find(|name| !known(name)) {
            None => Ok(()),
            Some(name) => Err(Error::Config(format!(
                "there is no metric \"{name}\": {}",
                Metrics::NAMES.join(", ")
            ))),
        }
    }

    /// Forecast of the evaluation; runs nothing.
    pub(super) fn plan(&self, room: &Room, rate: &Rate) -> Result<Forecast> {
        self.check_metrics()?;
        let (queries, references) = self.rows.read_grouped(&self.group)?;
        compare(&self.rows, &queries, references.as_ref(), Distance::Cosine)?;
        let known = references.as_ref().unwrap_or(&queries);
        let spec = EvaluationSpec::of_names(&known.labels, known.rows.dim(), queries.labels.len());
        spec.plan(room, rate)
    }
}

/// Prints the means over queries and over classes, and recall and precision at each k.
fn print(retrieval: &Retrieval, asked: impl Fn(&str) -> bool, group: Option<&str>) {
    let (over, classes) = (
        serde_json::json!(retrieval.metrics),
        serde_json::json!(retrieval.over_classes),
    );
    print_line(format_args!(
        "{:<28} {:>12} {:>12}",
        "", "over queries", "over classes"
    ));
    for name in Metrics::NAMES.into_iter().filter(|name| asked(name)) {
        let number = |metrics: &serde_json::Value| metrics[name].as_f64().unwrap_or(0.0);
        print_line(format_args!(
            "{name:<28} {:>12.4} {:>12.4}",
            number(&over),
            number(&classes)
        ));
    }
    for (name, at) in [
        ("recall_at", &retrieval.recall_at),
        ("precision_at", &retrieval.precision_at),
    ] {
        for (k, value) in at {
            print_line(format_args!("{:<28} {value:>12.4}", format!("{name}.{k}")));
        }
    }
    let Metrics {
        queries,
        lone_queries,
        standard_error,
        interval,
        ..
    } = retrieval.metrics;
    let (other, over) = match group {
        Some(group) => (
            "row of their label in another group",
            format!(" over the draw of groups ({group})"),
        ),
        None => ("other row of their label", String::new()),
    };
    print_line(format_args!(
        "{queries} queries of {} classes; {lone_queries} more had no {other}; precision_at_1 is +- {standard_error:.4}{over}",
        retrieval.classes.len()
    ));
    if let Some([low, high]) = interval {
        print_line(format_args!(
            "with other groups, precision_at_1 is between {low:.4} and {high:.4} in 95 of 100 cases"
        ));
    }
}
