//! `nearfar threshold`: which similarity means the same class.

use std::path::PathBuf;

use clap::Args;
use nearfar::{
    Columns, Dataset, Distance, Engine, Error, Forecast, PairRates, Rate, Result, Results, Room,
    RowSource, RowsOf, SideRows, ThresholdConfig, ThresholdReport, ThresholdSpec, find_threshold,
    find_threshold_across, group_column,
};

use super::columns::ColumnOptions;
use super::files::{LabelledRows, labelled_rows};
use super::output::Output;
use super::saved::Saved;
use super::survey::survey;
use super::{Common, of_work, print_json, print_line, progress, sides};

/// Find the similarity from which on two rows are of one class, and how often that is wrong
///
/// Every row is paired with every other. On the rows to fit, the threshold is the lowest similarity that lets in no more than a
/// given part of the pairs of different classes; what it does is then counted on other rows, the test.
#[derive(Debug, Args)]
#[command(after_help = MEANINGS)]
pub(super) struct Threshold {
    /// The rows to fit on: NPY, NPZ, safetensors, HDF5, CSV, JSON Lines or Parquet
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
    /// The rows to report on [default: those to fit on, which flatters]
    #[arg(
        long,
        value_name = "FILE[:ARRAY]",
        requires = "embeddings",
        conflicts_with = "model"
    )]
    test_embeddings: Option<String>,
    /// The class of each of those, as for --labels
    #[arg(
        long,
        value_name = "COLUMN|FILE[:COLUMN]",
        requires = "test_embeddings"
    )]
    test_labels: Option<String>,
    /// The folder or ZIP archive of a run: its validation rows are fitted on, its test rows reported on, of the columns that it
    /// was trained on
    #[arg(
        long,
        value_name = "DIR|FILE.zip",
        conflicts_with_all = ["features", "ignore", "unlabelled", "on", "decimal", "thousands"]
    )]
    model: Option<PathBuf>,
    /// The data of that run, a built-in sample excepted
    #[arg(long, value_name = "FILE[:ARRAY]", requires = "model")]
    data: Option<String>,
    /// The false match rate: the part of the pairs of different classes that may be let in, above 0 and below 1 [default: 0.001,
    /// or 0.01 or 0.1 where that would be fewer than 30 pairs]
    #[arg(long, value_name = "RATE")]
    false_match_rate: Option<f64>,
    /// The column that says which rows belong together: of one donor, subject, camera or document. Pairs are then of different
    /// groups [default: the `group` of the run]
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    #[command(flatten)]
    columns: ColumnOptions,
    /// Rows of each side that are paired with all others of it, seeded; 0 is all [default: 10000, or the `test_queries` of the run]
    #[arg(long, value_name = "ROWS")]
    queries: Option<usize>,
    /// A CSV to write: both rates at every similarity at which one of them changes
    #[arg(long, value_name = "FILE.csv")]
    out: Option<PathBuf>,
    #[command(flatten)]
    pub(super) common: Common,
}

const MEANINGS: &str = "\
Rates, as ISO/IEC 19795-1 has them:
  false match rate (FMR)      of the pairs of different classes, the part at or above the threshold: let in
  false non-match rate (FNMR) of the pairs of the same class, the part below the threshold: missed
  equal error rate (EER)      both rates where they are equal
  area under the curve (AUC)  how often a pair of the same class is more similar than one of different classes

Intervals hold the rate of other rows in 95 of 100 cases. Pairs share rows and are not independent: rows are the sample, or classes
where the test has none of those of the fit, or groups where rows have some.

JSON, with --json:
  threshold, rate             the similarity, and the false match rate that it was fitted to
  fit, test                   rows, queries, classes, same_pairs, different_pairs, false_matches, false_non_matches,
                              false_match_rate, false_non_match_rate, each with its .._interval (of the test),
                              equal_error_rate, equal_error_threshold, f1, best_f1, best_f1_threshold, area_under_curve
  new_classes                 whether the test has none of the classes of the fit
  curve                       both rates of both, every 0.005 of similarity
  data                        of each file that was given its name, its columns with what they are taken for, and notes
  sentence, notes, warnings, engine, adapter, elapsed_ms, memory

Examples:
  nearfar threshold --embeddings val.npy --labels val.csv --test-embeddings test.npy --test-labels test.csv --false-match-rate 0.001
  nearfar threshold --model run --data flowers.csv --labels species --out curve.csv";

/// Rows to fit on, rows to report on, and their names.
struct Sides {
    fit: LabelledRows,
    test: Option<LabelledRows>,
    names: Vec<String>,
}

impl Sides {
    /// The rows of each side that there is.
    fn each(&self) -> impl Iterator<Item = &LabelledRows> {
        [Some(&self.fit), self.test.as_ref()].into_iter().flatten()
    }
}

impl Threshold {
    pub(super) fn run(&self) -> Result<()> {
        pollster::block_on(self.find())
    }

    /// Forecast of the count; runs nothing.
    pub(super) fn plan(&self, room: &Room, rate: &Rate) -> Result<Forecast> {
        if let Some((results, _)) = self.saved()? {
            let data = &results.report.data;
            let queries = self.config(Some(&results)).queries;
            let counts = [data.validation, data.test];
            return ThresholdSpec::of(&counts, results.head.dimensions(), queries).plan(room, rate);
        }
        let Sides { fit, test, .. } = self.stored()?;
        let counts = [fit.rows.rows(), test.map_or(0, |test| test.rows.rows())];
        ThresholdSpec::of(&counts, fit.rows.dim(), self.config(None).queries).plan(room, rate)
    }

    async fn find(&self) -> Result<()> {
        self.config(None).check()?;
        let saved = self.saved()?;
        let config = self.config(saved.as_ref().map(|(results, _)| results));
        let stored = saved.is_none().then(|| self.stored()).transpose()?;
        let engine = self.common.open(Common::default_budget())?;
        let tasks = progress::Tasks::default();
        let heard = tasks.clone();
        let engine = engine.with_listener(move |working| heard.hear(&working));
        let file = self.out.as_ref();
        let file = file.map(|out| Output::create(out, &self.inputs()));
        let mut file = file.transpose()?;
        let started = std::time::Instant::now();
        let read = match (stored, &saved) {
            (Some(stored), _) => stored,
            (None, Some((results, dataset))) => self.embedded(results, dataset, &engine).await?,
            (None, None) => unreachable!("rows are stored or of a run"),
        };
        let Sides { fit, test, names } = &read;
        let names = names.iter().map(String::as_str);
        let named: Vec<(&str, &RowSource)> =
            names.zip(read.each().map(|side| &side.rows)).collect();
        let warnings = survey(&named, Distance::Cosine)?;
        let rows = test.as_ref().map(LabelledRows::rows);
        let threshold = match &fit.groups {
            None => find_threshold(&engine, fit.rows(), rows, &config).await?,
            Some(groups) => {
                let test_groups = test.as_ref().and_then(|test| test.groups.as_deref());
                let fit = (fit.rows(), &groups[..]);
                find_threshold_across(&engine, fit, rows.zip(test_groups), &config).await?
            }
        };
        tasks.finish();
        let elapsed_ms = started.elapsed().as_secs_f64() * 1e3;
        if let Some(file) = &mut file {
            file.write(csv(&threshold).as_bytes())?;
        }
        if let Some(file) = file {
            file.finish()?;
        }
        let report = &threshold.report;
        if !self.common.json {
            print(report);
            return Ok(());
        }
        let mut json = of_work(report, &engine, elapsed_ms);
        json["warnings"] = warnings.into();
        if saved.is_none() {
            json["data"] = read.each().map(LabelledRows::said).collect();
        }
        print_json(&json)
    }

    /// Validation and test rows of a run, embedded by its head.
    async fn embedded(
        &self,
        results: &Results,
        dataset: &Dataset,
        engine: &Engine,
    ) -> Result<Sides> {
        let side = async |side| -> Result<LabelledRows> {
            let rows = sides::embed(results, dataset, engine, side).await?;
            made(rows, dataset, self.group_of(results))
        };
        Ok(Sides {
            fit: side(RowsOf::Validation).await?,
            test: match results.report.data.test {
                0 => None,
                _ => Some(side(RowsOf::Test).await?),
            },
            names: vec!["validation".to_owned(), "test".to_owned()],
        })
    }

    /// Settings of the threshold; with a run, the number of queries is the run's.
    fn config(&self, run: Option<&Results>) -> ThresholdConfig {
        let config = run.map(|run| &run.report.config);
        let default = ThresholdConfig::default();
        let queries = config.map_or(default.queries, |config| config.test_queries);
        ThresholdConfig {
            false_match_rate: self.false_match_rate,
            queries: self.queries.unwrap_or(queries),
            seed: config.map_or(default.seed, nearfar::TrainConfig::data_seed),
        }
    }

    /// The run and its data, if a run was given.
    fn saved(&self) -> Result<Option<(Results, nearfar::Dataset)>> {
        let Some(model) = &self.model else {
            return Ok(None);
        };
        let results = Saved::open(model)?.results()?;
        sides::check(&results, model, "give --embeddings")?;
        if results.report.data.validation == 0 {
            return Err(Error::Data(format!(
                "{}: no row of the run validates, and a threshold is fitted on such rows: give --embeddings",
                model.display()
            )));
        }
        let (data, labels) = (self.data.as_deref(), self.labels.as_deref());
        let group = self.group_of(&results);
        let dataset = sides::dataset(&results, data, labels, group, RowsOf::Validation)?;
        Ok(Some((results, dataset)))
    }

    /// The group column: as given, or as in the run.
    fn group_of<'a>(&'a self, run: &'a Results) -> Option<&'a str> {
        let of_run = run.report.config.group.as_deref();
        self.group.as_deref().or(of_run)
    }

    /// Rows from files.
    fn stored(&self) -> Result<Sides> {
        let embeddings = self.embeddings.as_deref().unwrap_or_default();
        let columns = Columns {
            apart: self.group.iter().cloned().collect(),
            ..self.columns.columns()?
        };
        let fit = labelled_rows(embeddings, self.labels.as_deref(), &columns, None)?;
        let test = self.test_embeddings.as_deref();
        let labels = self.test_labels.as_deref();
        let test = test.map(|test| labelled_rows(test, labels, &columns, Some(&fit)));
        let test = test.transpose()?;
        if let Some(test) = &test {
            test.rows().check_against(fit.rows())?;
        }
        let names = [&self.embeddings, &self.test_embeddings];
        Ok(Sides {
            fit,
            test,
            names: names.into_iter().flatten().cloned().collect(),
        })
    }

    /// Files that are read, as they were given.
    fn inputs(&self) -> Vec<&str> {
        let files = [
            &self.embeddings,
            &self.labels,
            &self.test_embeddings,
            &self.test_labels,
            &self.data,
        ];
        let model = self.model.as_ref().and_then(|model| model.to_str());
        let files = files.into_iter().flatten().map(String::as_str);
        files.chain(model).collect()
    }
}

fn made(side: SideRows, dataset: &Dataset, group: Option<&str>) -> Result<LabelledRows> {
    let groups = group.map(|name| group_column(&dataset.columns, name));
    let groups = groups.transpose()?;
    let of_row = |row: &u32| groups.map(|groups| groups[*row as usize].to_owned());
    let groups = side.rows.iter().map(of_row).collect();
    let rows = RowSource::Memory {
        values: side.embeddings.values,
        dim: side.embeddings.dim,
    };
    Ok(LabelledRows::made(rows, side.labels, groups))
}

/// The curve as a table.
fn csv(threshold: &nearfar::Threshold) -> String {
    let mut text = String::from("threshold,fit_false_match_rate,fit_false_non_match_rate");
    if threshold.report.test.is_some() {
        text.push_str(",test_false_match_rate,test_false_non_match_rate");
    }
    text.push('\n');
    for (at, [let_in, missed], test) in threshold.lines() {
        text.push_str(&format!("{at},{let_in},{missed}"));
        if let Some([let_in, missed]) = test {
            text.push_str(&format!(",{let_in},{missed}"));
        }
        text.push('\n');
    }
    text
}

/// Prints the sentence, the numbers of both sides, and the notes.
fn print(report: &ThresholdReport) {
    print_line(&report.sentence);
    let sides = [Some(&report.fit), report.test.as_ref()];
    let line = |name: &str, value: &dyn Fn(&PairRates) -> String| {
        let values = sides.iter().flatten().map(|side| value(side));
        let values = values.map(|value| format!(" {value:>24}"));
        print_line(format_args!("{name:<28}{}", values.collect::<String>()));
    };
    let with = |rate: f64, interval: Option<[f64; 2]>| match interval {
        Some([low, high]) => format!("{rate:.6} ({low:.6}-{high:.6})"),
        None => format!("{rate:.6}"),
    };
    let test = report.test.map(|_| format!(" {:>24}", "test"));
    print_line(format_args!(
        "{:<28} {:>24}{}",
        "",
        "fitted on",
        test.unwrap_or_default()
    ));
    line("rows", &|side| side.rows.to_string());
    line("classes", &|side| side.classes.to_string());
    line("pairs of different classes", &|side| {
        side.different_pairs.to_string()
    });
    line("pairs of the same class", &|side| {
        side.same_pairs.to_string()
    });
    line("false match rate", &|side| {
        with(side.false_match_rate, side.false_match_interval)
    });
    line("false non-match rate", &|side| {
        with(side.false_non_match_rate, side.false_non_match_interval)
    });
    line("equal error rate", &|side| {
        format!("{:.6}", side.equal_error_rate)
    });
    line("F1, and the best", &|side| {
        format!("{:.6}, {:.6}", side.f1, side.best_f1)
    });
    line("area under the curve", &|side| {
        format!("{:.6}", side.area_under_curve)
    });
    for note in &report.notes {
        print_line(note);
    }
}
