//! `nearfar train`: from labelled features to a head and what it is worth.

use std::cell::OnceCell;
use std::path::PathBuf;
use std::rc::Rc;

use clap::Args;
use nearfar::{
    Bytes, Dataset, Error, Forecast, Metrics, NamedFile, Progress, Rate, Recipe, Result, Results,
    Room, RowsOf, Run, RunReport, Split, Survey, TrainConfig, Trainer,
};

use super::output::Folder;
use super::{Common, files, note_line, print_json, print_line, progress, saved};

const EXAMPLES: &str = "\
Examples:
  nearfar train --data flowers.csv --labels species --out run
  nearfar train --data features.npy --labels labels.npy --set steps=1000 --set batch_size=64 --seed 1";

/// Train a head on labelled rows, and compare it with the rows as they are
///
/// Prints precision@1 (how often the nearest other row has the same class), MAP@R and R-precision of the training,
/// validation and test rows, of the raw features and of a linear map, and says in a sentence which is better.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Train {
    /// Rows of numbers: a CSV with a header, an NPY, NPZ or safetensors file, each also as .gz, or a built-in sample
    /// (sample:mirrored, sample:many-classes, sample:digits, sample:cells, sample:large)
    #[arg(long, value_name = "FILE[:ARRAY]", default_value = "sample:mirrored")]
    data: String,
    /// The class of each row: a column (CSV) or array (NPZ, safetensors) of the data by its name, or another file, with a column or
    /// array of it after a colon [default: found by its name or type]
    #[arg(long, value_name = "COLUMN|FILE[:COLUMN]")]
    labels: Option<String>,
    /// Rows that are kept for the test at the end; then all rows of --data train and validate [default: part of --data]
    #[arg(long, value_name = "FILE[:ARRAY]")]
    test_data: Option<String>,
    /// The class of each test row, as for --labels
    #[arg(long, value_name = "COLUMN|FILE[:COLUMN]", requires = "test_data")]
    test_labels: Option<String>,
    /// Settings that belong together, by their name in `nearfar recipes`; --config and --set change them further
    #[arg(long, value_name = "NAME")]
    recipe: Option<String>,
    /// Settings as a JSON file: the config.json of a saved run repeats it [default: settings that suit the data]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// One setting, e.g. steps=1000 or miner.margin=0.1; overrides --config; may be given again
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// A folder to save in: the head (safetensors, ONNX, sentence-transformers), the linear map, settings, history, a model card, a
    /// report, a PyTorch script, the test side's embeddings and labels, and the memory
    /// [default: nothing is saved]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The number that all random choices follow from: the same number gives the same run [default: 0]
    #[arg(long)]
    seed: Option<u64>,
    #[command(flatten)]
    pub(super) common: Common,
    /// The file of `--config` once it was read: a pipe can be read only once.
    #[arg(skip)]
    read: OnceCell<NamedFile>,
}

impl Train {
    pub(super) fn run(&self) -> Result<()> {
        pollster::block_on(self.train())
    }

    /// The budget that the options and settings give.
    pub(super) fn budget(&self) -> Result<u64> {
        Ok(self.settings(TrainConfig::default())?.budget_bytes)
    }

    /// What a run would hold and take; trains nothing.
    pub(super) fn plan(&self, room: &Room, rate: &Rate) -> Result<Forecast> {
        let (dataset, config) = pollster::block_on(self.prepare())?;
        Trainer::plan(room, &dataset, &config, rate)
    }

    /// The data and the settings.
    async fn prepare(&self) -> Result<(Dataset, TrainConfig)> {
        // The sample depends on the seed, the defaults on the data: the seed is read first.
        let seed = self.settings(TrainConfig::default())?.seed;
        let mut dataset = files::dataset(&self.data, self.labels.as_deref(), seed)?;
        if let Some(test) = &self.test_data {
            dataset = dataset
                .append(&files::dataset(test, self.test_labels.as_deref(), seed)?)
                .await?;
        }
        let start = dataset.default_config();
        let start = match &self.recipe {
            Some(name) => Recipe::named(name)?.apply(start, dataset.class_names.len())?,
            None => start,
        };
        let mut config = self.settings(start)?;
        if self.test_data.is_some() {
            config.split = self.split_by_file(&dataset, &config)?;
        }
        config.budget_bytes = self
            .common
            .budget
            .map_or(config.budget_bytes, |budget| budget.0);
        Ok((dataset, config))
    }

    async fn train(&self) -> Result<()> {
        let (dataset, config) = self.prepare().await?;
        let zero_rows = Survey::of(&dataset.features).await?.zero_rows_warning();
        let tasks = progress::Tasks::default();
        let heard = tasks.clone();
        let engine = self.common.open(config.budget_bytes)?;
        let engine = engine.with_listener(move |working| heard.hear(&working));
        let folder = self.out.as_deref();
        let folder = folder.map(|out| Folder::create(out, nearfar::folder_names(), &self.inputs()));
        let folder = folder.transpose()?;
        describe(&dataset, engine.info());
        let mut run = Run::new(engine, Rc::new(dataset), config).await?;
        let warnings = run.warnings().iter().map(|warning| &warning.text);
        for warning in zero_rows.iter().chain(warnings) {
            note_line(format_args!("warning: {warning}"));
        }
        let followed = follow(&mut run, &tasks).await;
        let mut report = run.report();
        report.warnings.extend(zero_rows);
        match followed {
            Err(error @ Error::NotFinite { .. }) => {
                if let Some(folder) = folder {
                    save_what_there_is(&mut run, &report, folder).await?;
                }
                return Err(error);
            }
            followed => followed?,
        }
        let saved = match folder {
            Some(folder) => save(&mut run, &report, folder).await,
            None => Ok(()),
        };
        // What was found is said even where it cannot be saved.
        let printed = if self.common.json {
            print_json(&report)
        } else {
            print(&report);
            Ok(())
        };
        saved.and(printed)
    }

    /// The files of data, as they were given.
    fn inputs(&self) -> Vec<&str> {
        let others = [&self.labels, &self.test_data, &self.test_labels];
        let others = others.into_iter().flatten().map(String::as_str);
        std::iter::once(self.data.as_str()).chain(others).collect()
    }

    /// The split that keeps the test file for the end. Saved settings always name a split, maybe another: that one does
    /// not count, but one that was typed is refused.
    fn split_by_file(&self, dataset: &Dataset, config: &TrainConfig) -> Result<Split> {
        let split = dataset.default_config().split;
        let typed = self.sets.iter().any(|set| set.starts_with("split="));
        if typed && config.split != split {
            return Err(Error::Config(
                "split: the rows of --test-data are the test side: leave out split or --test-data"
                    .to_owned(),
            ));
        }
        Ok(split)
    }

    /// The settings: defaults, then the file, then `--set`, then `--seed`.
    fn settings(&self, mut config: TrainConfig) -> Result<TrainConfig> {
        if let Some(path) = &self.config {
            let file = match self.read.get() {
                Some(file) => file,
                None => {
                    let file = files::read(path)?;
                    self.read.get_or_init(|| file)
                }
            };
            let json = String::from_utf8_lossy(&file.bytes);
            config = config
                .with_json(&json)
                .map_err(|error| Error::Config(format!("{}: {error}", file.name)))?;
        }
        for set in &self.sets {
            config = config.with_set(set)?;
        }
        config.seed = self.seed.unwrap_or(config.seed);
        config.check()?;
        Ok(config)
    }
}

fn describe(dataset: &Dataset, device: &nearfar::DeviceInfo) {
    let software = if device.software {
        ", a software adapter: right but slow"
    } else {
        ""
    };
    note_line(format_args!(
        "{} on {} ({}{software})",
        device.engine, device.adapter, device.backend
    ));
    note_line(format_args!(
        "{}: {} rows, {} features, {} classes",
        dataset.name,
        dataset.rows(),
        dataset.features.dim(),
        dataset.class_names.len()
    ));
    for note in &dataset.notes {
        note_line(format_args!("  {note}"));
    }
}

/// Runs to the end, with progress.
async fn follow(run: &mut Run, tasks: &progress::Tasks) -> Result<()> {
    let steps = run.trainer().config().steps;
    let bar = progress::Progress::new(steps, "steps");
    let mut loss = None;
    let mut warned = run.warnings().len();
    loop {
        let progress = run.next(u64::MAX).await;
        tasks.finish();
        match progress? {
            Progress::Steps(reports) => {
                loss = reports.last().map(|report| report.loss).or(loss);
                bar.set(run.step());
            }
            Progress::Evaluated(evaluation) => {
                let loss = loss.map_or_else(|| "-".to_owned(), |loss| format!("{loss:.4}"));
                let score = evaluation
                    .validation
                    .or(evaluation.train)
                    .map_or_else(|| "-".to_owned(), |m| format!("{:.3}", m.precision_at_1));
                bar.note(&format!(
                    "step {:>5}  loss {loss}  precision@1 {score}",
                    evaluation.step
                ));
            }
            Progress::Finished => break,
        }
        for warning in &run.warnings()[warned..] {
            bar.note(&format!("warning: {warning}"));
        }
        warned = run.warnings().len();
    }
    bar.finish();
    Ok(())
}

/// Writes what the run leaves. Rows of the test side whose embedding has no direction are an error, and cost only the
/// files of that side.
async fn save(run: &mut Run, report: &RunReport, folder: Folder) -> Result<()> {
    let mut results = results(run, report).await?;
    let embedded = results.embed(run, RowsOf::Test).await;
    if matches!(embedded, Ok(()) | Err(Error::NoDirection { .. })) {
        write(&results, folder)?;
    }
    embedded
}

/// Writes what a run leaves that stopped before its end: its weights are those of the last step that was finite.
async fn save_what_there_is(run: &mut Run, report: &RunReport, folder: Folder) -> Result<()> {
    let mut results = results(run, report).await?;
    // The memory holds the rows that the run ended with.
    results.memory = None;
    let path = folder.path().display().to_string();
    write(&results, folder)?;
    note_line(format_args!(
        "saved in {path}: config.json, history.json, and {} after step {}, the last that was finite",
        saved::HEAD,
        report.steps
    ));
    Ok(())
}

async fn results(run: &mut Run, report: &RunReport) -> Result<Results> {
    let mut results = Results::of(run).await?;
    results.report = report.clone();
    Ok(results)
}

fn write(results: &Results, mut folder: Folder) -> Result<()> {
    for file in nearfar::folder(results)? {
        folder.write(&file.path, &file.bytes)?;
    }
    folder.finish()
}

fn print(report: &RunReport) {
    let line = |name: &str, metrics: &Option<Metrics>| {
        if let Some(m) = metrics {
            print_line(format_args!(
                "{name:<16} precision@1 {:.3} +- {:.3}   MAP@R {:.3}   R-precision {:.3}   ({} queries)",
                m.precision_at_1,
                m.standard_error,
                m.mean_average_precision_at_r,
                m.r_precision,
                m.queries
            ));
        }
    };
    if let Some(scores) = &report.r#final {
        line("train", &scores.train);
        line("validation", &scores.validation);
        line("test", &scores.test);
        line(
            if report.data.standardized {
                "scaled features"
            } else {
                "raw features"
            },
            &report.baseline.raw.test,
        );
        line(
            "linear map (LDA)",
            &report.baseline.linear.and_then(|linear| linear.test),
        );
    }
    let (asked, rows) = (report.config.test_queries, report.data.test);
    if asked > 0 && asked < rows {
        print_line(format_args!(
            "{asked} of the {rows} test rows were scored, drawn by the seed, each against all others; --set test_queries=0 scores all"
        ));
    }
    print_line(format_args!(
        "memory {} at most, of {}; {:.1} s",
        Bytes(report.memory.peak_bytes),
        Bytes(report.memory.budget_bytes),
        report.elapsed_ms / 1e3
    ));
    if let Some(verdict) = &report.verdict {
        print_line(verdict);
    }
}
