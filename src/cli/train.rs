//! `nearfar train`: from labelled features to a head and what it is worth.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use clap::Args;
use nearfar::{
    Bytes, Dataset, Error, Forecast, Metrics, NpzWriter, Progress, Rate, Result, Room, Run,
    RunReport, Side, Split, StoredMemory, TrainConfig, Trainer, write_matrix,
};

use super::{Common, files, head, io, note_line, print_json, print_line, progress};

/// Train an embedding head on labelled features
#[derive(Debug, Args)]
pub(super) struct Train {
    /// Features: CSV, NPY, NPZ, or sample:mirrored, sample:many-classes, sample:digits
    #[arg(long, value_name = "FILE[:ARRAY]", default_value = "sample:mirrored")]
    data: String,
    /// Labels: an NPY, a column of another CSV or array of an NPZ after a colon, or one of the data file
    #[arg(long, value_name = "FILE[:COLUMN]")]
    labels: Option<String>,
    /// Features that are only tested; the rest trains and steers
    #[arg(long, value_name = "FILE[:ARRAY]")]
    test_data: Option<String>,
    /// Their labels
    #[arg(long, value_name = "FILE[:COLUMN]", requires = "test_data")]
    test_labels: Option<String>,
    /// Settings as JSON
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[arg(skip)]
    config_file: std::cell::OnceCell<nearfar::NamedFile>,
    /// One setting, e.g. miner.margin=0.1; may be given again
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// A folder for config, history, head and test embeddings
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Seeds every random choice
    #[arg(long)]
    seed: Option<u64>,
    #[command(flatten)]
    pub(super) common: Common,
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
        let mut config = self.settings(dataset.default_config())?;
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
        let engine = self.common.open(config.budget_bytes)?;
        describe(&dataset, engine.info());
        let mut run = Run::new(engine, Rc::new(dataset), config).await?;
        for warning in run.warnings() {
            note_line(format_args!("warning: {warning}"));
        }
        follow(&mut run).await?;
        let report = run.report();
        if let Some(out) = &self.out {
            save(&mut run, &report, out).await?;
        }
        if self.common.json {
            print_json(&report);
        } else {
            print(&report);
        }
        Ok(())
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
            // Once: a pipe gives it no second time.
            let file = match self.config_file.get() {
                Some(file) => file,
                None => {
                    let file = files::read(path)?;
                    self.config_file.get_or_init(|| file)
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
async fn follow(run: &mut Run) -> Result<()> {
    let steps = run.trainer().config().steps;
    let bar = progress::Progress::new(steps, "steps");
    let mut loss = None;
    let mut warned = run.warnings().len();
    loop {
        match run.next(u64::MAX).await? {
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

/// Writes what the run leaves, each file whole.
async fn save(run: &mut Run, report: &RunReport, out: &Path) -> Result<()> {
    std::fs::create_dir_all(out).map_err(io(format!("making {}", out.display())))?;
    let json = |value: &serde_json::Value| {
        let mut text = serde_json::to_string_pretty(value).expect("reports are plain data");
        text.push('\n');
        text.into_bytes()
    };
    files::write(
        &out.join("config.json"),
        &json(&serde_json::json!(report.config)),
    )?;
    files::write(&out.join("history.json"), &json(&serde_json::json!(report)))?;
    let weights = run.trainer().head().await?;
    let features = &run.trainer().dataset().feature_names;
    files::write(&out.join(head::FILE), &head::to_bytes(&weights, features))?;
    if let Some(linear) = run.trainer().linear_head() {
        let features = &run.trainer().dataset().feature_names;
        files::write(
            &out.join(head::LINEAR_FILE),
            &head::to_bytes(&[linear], features),
        )?;
    }
    let rows = run.trainer().sides().of(Side::Test).to_vec();
    let embeddings = run.trainer().embed(&rows).await?;
    files::write(
        &out.join("test_embeddings.npy"),
        &write_matrix(&embeddings.values, embeddings.dim),
    )?;
    let mut labels = csv::Writer::from_writer(Vec::new());
    let names = run.trainer().dataset().label_names();
    let cells = rows.iter().map(|row| names[*row as usize].as_str());
    for cell in std::iter::once("label").chain(cells) {
        labels.write_record([cell]).expect("memory takes it");
    }
    files::write(
        &out.join("test_labels.csv"),
        &labels.into_inner().expect("memory takes it"),
    )?;
    if report.config.memory_size == 0 {
        return Ok(());
    }
    save_memory(
        &out.join("memory.npz"),
        &run.trainer().stored_memory().await?,
    )
}

/// Writes what the cross-batch memory holds, in the order of its slots.
fn save_memory(path: &Path, memory: &StoredMemory) -> Result<()> {
    let StoredMemory {
        embeddings,
        labels,
        rows,
        ages,
        queue_idx,
    } = memory;
    let count = labels.len();
    let mut file = NpzWriter::new(path.display().to_string(), files::Output::create(path)?);
    file.array("embeddings", &[count, embeddings.dim], [&embeddings.values])?;
    for (name, numbers) in [("labels", labels), ("rows", rows), ("ages", ages)] {
        file.array(name, &[count], [numbers])?;
    }
    file.array("queue_idx", &[1], [[*queue_idx as u32]])?;
    file.finish()?.finish()
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
