//! `nearfar train`: from labelled features to a head and a verdict on it.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use clap::Args;
use nearfar::{
    Bytes, CHECKPOINT, Checkpoint, Columns, Dataset, DeviceInfo, Error, Forecast, Metrics,
    NamedFile, Origin, Progress, Rate, Recipe, Result, Results, Room, RowsOf, Run, RunReport,
    SAMPLES, Split, Survey, Taken, TrainConfig, Trainer,
};

use super::checkpoints::{self, Checkpoints, Found};
use super::data::{self, DataFiles};
use super::output::Folder;
use super::{Common, files, note_line, print_json, print_line, progress, saved};

const EXAMPLES: &str = "\
Examples:
  nearfar train --data flowers.csv --labels species --out run
  nearfar train --data features.npy --labels labels.npy --set steps=1000 --set batch_size=64 --seed 1
  nearfar train --resume run

Batch and memory:
  Many small classes gain from both. With 650 classes precision@1 is 0.41 at batch_size=32 without a memory, 0.74 with
  memory_size=1024; 0.97 at batch_size=512 without one; and 0.98 at batch_size=128 with memory_size=1024: in 2 to 5 MiB.
  With ten classes all of these do equally well. docs/measured.md has the table.";

/// Train a head on labelled rows, and compare it with the rows as they are
///
/// Prints precision@1 (how often the nearest other row has the same class), MAP@R and R-precision of the training,
/// validation and test rows, of the raw features and of a linear map, and says in a sentence which is better.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Train {
    #[command(flatten)]
    files: DataFiles,
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
    /// report, a PyTorch script, the test side's embeddings and labels, and the memory;
    /// while the run goes on, its checkpoints
    /// [default: nothing is saved]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Go on with the run of this folder, or of an archive that was taken home, from its newest checkpoint, with its data and
    /// settings: on the same engine and adapter the head is that of a run that was never stopped, bit for bit. A run that was
    /// done goes on with more steps, --set steps=N. --data and the others say where files are that have moved
    #[arg(long, value_name = "DIR|FILE.zip", conflicts_with_all = ["recipe", "config", "seed", "budget"])]
    resume: Option<PathBuf>,
    /// Seconds of work from one checkpoint in the folder to the next; two are kept, and none once the run is done. Ctrl-C saves
    /// one, too. 0 saves none
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = checkpoints::seconds)]
    checkpoint_every: Duration,
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
        Ok(match self.found()? {
            Some(found) => Checkpoint::read(&found.bytes)?.config().budget_bytes,
            None => self.given(TrainConfig::default())?.budget_bytes,
        })
    }

    /// Forecast of the run; trains nothing.
    pub(super) fn plan(&self, room: &Room, rate: &Rate) -> Result<Forecast> {
        let (dataset, config) = pollster::block_on(self.prepare(self.found()?.as_ref()))?;
        Ok(Forecast {
            map_bytes: Run::plan_map(&dataset, &config)?,
            ..Trainer::plan(room, &dataset, &config, rate)?
        })
    }

    /// The checkpoint to continue from, if asked for.
    fn found(&self) -> Result<Option<Found>> {
        let Some(run) = &self.resume else {
            return Ok(None);
        };
        let found = Found::newest(run)?.ok_or_else(|| {
            Error::Data(format!(
                "{}: there is no checkpoint of a run: give the folder of its --out, the archive that was taken home, or start a \
                 new run",
                run.display()
            ))
        })?;
        let (step, steps) = (found.step, self.more_steps()?);
        if steps.is_none() && Checkpoint::read(&found.bytes)?.is_finished() {
            return Err(Error::Data(format!(
                "{}: the run is done, {step} steps: --set steps=N goes on to more, and nearfar export has what it left",
                run.display()
            )));
        }
        Ok(Some(found))
    }

    /// Number of steps that a saved run is continued to, if given.
    fn more_steps(&self) -> Result<Option<u64>> {
        let group = self.files.group.group.is_some();
        if group || self.sets.iter().any(|set| !set.starts_with("steps=")) {
            return Err(Error::Config(
                "--resume has the settings of its run: it takes no --group, and --set can only give it more steps"
                    .to_owned(),
            ));
        }
        let steps = self.given(TrainConfig::default())?.steps;
        Ok((!self.sets.is_empty()).then_some(steps))
    }

    /// Origin of the data: from the options, or else from the run that continues.
    fn origin(&self, before: Option<&Origin>) -> Result<Origin> {
        let given = |option: &Option<String>, before: Option<&String>| {
            let given = option.as_deref().map(checkpoints::lasting);
            given.or_else(|| before.cloned())
        };
        let (files, is_new) = (&self.files, before.is_none());
        let before = before.cloned().unwrap_or_default();
        let data = Some(before.data).filter(|data| !data.is_empty());
        let sample = || format!("sample:{}", SAMPLES[0]);
        Ok(Origin {
            data: given(&files.data, data.as_ref()).unwrap_or_else(sample),
            labels: given(&files.labels, before.labels.as_ref()),
            test_data: given(&files.test_data, before.test_data.as_ref()),
            test_labels: given(&files.test_labels, before.test_labels.as_ref()),
            missing: match is_new {
                true => files.missing,
                false => before.missing,
            },
            columns: match files.columns.columns()? {
                columns if columns == Columns::default() => before.columns,
                columns => Columns {
                    apart: before.columns.apart,
                    ..columns
                },
            },
        })
    }

    /// Checks that an input that only the checkpoint names is no pipe, which may never end: a checkpoint may be from anywhere.
    fn check_named(&self, named: &Origin, origin: &Origin) -> Result<()> {
        let there = data::inputs(origin);
        for name in data::inputs(named)
            .into_iter()
            .filter(|name| there.contains(name))
        {
            let about = std::fs::metadata(name);
            if about.is_ok_and(|about| !about.is_file() && !about.is_dir()) {
                return Err(Error::Data(format!(
                    "{}: a pipe or a device, which the checkpoint names: name the data with --data",
                    name.escape_debug()
                )));
            }
        }
        Ok(())
    }

    /// The data and the settings.
    async fn prepare(&self, found: Option<&Found>) -> Result<(Dataset, TrainConfig)> {
        if let Some(found) = found {
            let checkpoint = Checkpoint::read(&found.bytes)?;
            let mut config = checkpoint.config().clone();
            config.steps = self.more_steps()?.unwrap_or(config.steps);
            let origin = self.origin(Some(checkpoint.origin()))?;
            self.check_named(checkpoint.origin(), &origin)?;
            return Ok((data::read(&origin, config.data_seed()).await?, config));
        }
        // The sample depends on the seed, and the defaults depend on the data: the seed is read first.
        let given = self.given(TrainConfig::default())?;
        let mut origin = self.files.origin()?;
        origin.columns = origin.columns.with(&given);
        let dataset = data::read(&origin, given.data_seed()).await?;
        let splitting = given.splitting();
        let start = dataset.default_config_for(&splitting);
        let start = match &self.recipe {
            Some(name) => {
                let train = dataset.rows_to_train(&start, &splitting);
                let train = train.unwrap_or(dataset.rows());
                Recipe::named(name)?.apply(start, train, dataset.class_names.len())?
            }
            None => start,
        };
        let mut config = self.settings(start)?;
        if self.files.test_data.is_some() {
            config.split = self.split_by_file(&dataset, &config)?;
        }
        config.budget_bytes = self
            .common
            .budget
            .map_or(config.budget_bytes, |budget| budget.0);
        Ok((dataset, config))
    }

    /// Path of the folder to save in: the one that was given, or that of the run that continues.
    fn folder_path(&self) -> Option<&Path> {
        let of_run = self.resume.as_deref().filter(|run| !run.is_file());
        self.out.as_deref().or(of_run)
    }

    /// The folder to save in; a given one may hold no run but this.
    fn folder(&self, origin: &Origin) -> Result<Option<Folder>> {
        let Some(path) = self.folder_path() else {
            return Ok(None);
        };
        let folder = Folder::create(path, nearfar::folder_names(), &data::inputs(origin))?;
        // A run that continues has its own folder.
        if self.out.is_some() {
            checkpoints::check_own(&folder)?;
        }
        Ok(Some(folder))
    }

    /// Takes a run that continues to more steps, if asked for, and says where it goes on.
    fn go_on(&self, run: &mut Run, found: &Found, checkpoint: &Checkpoint) -> Result<()> {
        if let Some(steps) = self.more_steps()? {
            run.train_to(steps)?;
        }
        found.say(run.trainer().config().steps);
        let device = run.trainer().engine().info();
        if let Some(other) = checkpoint.other_device(device) {
            note_line(other);
        }
        Ok(())
    }

    async fn train(&self) -> Result<()> {
        let found = self.found()?;
        let (dataset, config) = self.prepare(found.as_ref()).await?;
        let tasks = progress::Tasks::default();
        let survey = Survey::of_data(&dataset.features, |working| tasks.hear(&working)).await;
        tasks.finish();
        let survey = survey?;
        let heard = tasks.clone();
        let engine = self.common.open_beside_others(config.budget_bytes)?;
        let engine = engine.with_listener(move |working| heard.hear(&working));
        let checkpoint = found.as_ref().map(|found| Checkpoint::read(&found.bytes));
        let checkpoint = checkpoint.transpose()?;
        let mut origin = self.origin(checkpoint.as_ref().map(Checkpoint::origin))?;
        origin.columns = origin.columns.with(&config);
        let folder = self.folder(&origin)?;
        let _lock = folder.as_ref().map(Folder::lock);
        describe(&dataset, &config, &survey, engine.info());
        let mut run = match (&found, &checkpoint) {
            (Some(found), Some(checkpoint)) => {
                let mut run = Run::resume(engine, Rc::new(dataset), checkpoint).await?;
                // A run that continues has its warnings.
                run.see_copies(&survey);
                self.go_on(&mut run, found, checkpoint)?;
                run
            }
            _ => {
                let mut run = Run::new(engine, Rc::new(dataset), config).await?;
                run.see_survey(&survey);
                run
            }
        };
        let every = self.checkpoint_every;
        // In another folder than its own the run counts as new.
        let here = found.as_ref().filter(|_| self.out.is_none());
        let out = self.folder_path();
        let mut checkpoints = out.map(|out| Checkpoints::new(out, every, origin.clone(), here));
        // A checkpoint of an earlier version is as large as its run was long.
        drop(checkpoint);
        drop(found);
        for warning in run.warnings() {
            note_line(format_args!("warning: {warning}"));
        }
        let followed = follow(&mut run, &tasks, checkpoints.as_mut()).await;
        if let Err(error) = followed {
            return broken_off(error, &mut run, folder, checkpoints).await;
        }
        let report = run.report();
        let mut saved = match folder {
            Some(folder) => save(&mut run, &origin, &report, folder).await,
            None => Ok(()),
        };
        if saved.is_ok() {
            saved = checkpoints.map_or(Ok(()), Checkpoints::remove);
        }
        // Results are printed even if they cannot be saved.
        saved.and(match self.common.json {
            true => print_json(&report),
            false => print(&report),
        })
    }

    /// The split that keeps the test file for the end. Saved settings always name a split, maybe another one, which is ignored; one
    /// that was typed is refused.
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
    fn settings(&self, config: TrainConfig) -> Result<TrainConfig> {
        let config = self.given(config)?;
        config.check()?;
        Ok(config)
    }

    /// The settings, which may be invalid: those that depend on the data are not known yet.
    fn given(&self, mut config: TrainConfig) -> Result<TrainConfig> {
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
        config = config.with_all(self.files.sets().iter().chain(&self.sets))?;
        config.seed = self.seed.unwrap_or(config.seed);
        Ok(config)
    }
}

/// Describes data, settings and device, and says what the survey found.
fn describe(dataset: &Dataset, config: &TrainConfig, survey: &Survey, device: &DeviceInfo) {
    data::describe(dataset, config, device);
    if !dataset.name.starts_with("sample:") {
        let proposed = Recipe::proposed(&dataset.name, dataset.shape());
        note_line(format_args!(
            "  recipe for such data: {} ({})",
            proposed.name, proposed.suits
        ));
    }
    for finding in survey.findings(&dataset.feature_names) {
        note_line(format_args!("  {finding}"));
    }
}

/// Runs to the end, with a progress bar.
async fn follow(
    run: &mut Run,
    tasks: &progress::Tasks,
    mut checkpoints: Option<&mut Checkpoints>,
) -> Result<()> {
    let steps = run.trainer().config().steps;
    let bar = progress::Progress::new(steps, "steps").after(run.step());
    let mut loss = None;
    let mut warned = run.warnings().len();
    loop {
        let progress = run.next(u64::MAX).await;
        tasks.finish();
        let progress = progress?;
        bar.hold(run.engine());
        let is_over = progress == Progress::Finished;
        match progress {
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
                let best = run
                    .best()
                    .map_or_else(String::new, |best| format!("  {}", best.words()));
                bar.note(&format!(
                    "step {:>5}  loss {loss}  precision@1 {score}{best}",
                    evaluation.step
                ));
            }
            Progress::Finished => {}
        }
        for warning in &run.warnings()[warned..] {
            bar.say(&format!("warning: {warning}"));
        }
        warned = run.warnings().len();
        if is_over {
            break;
        }
        if let Some(checkpoints) = &mut checkpoints {
            checkpoints.keep_up(run, &bar).await;
        }
    }
    bar.finish();
    Ok(())
}

/// Saves what there is of a run that broke off, and returns its error.
async fn broken_off(
    error: Error,
    run: &mut Run,
    folder: Option<Folder>,
    checkpoints: Option<Checkpoints>,
) -> Result<()> {
    match error {
        Error::NotFinite { .. } => {
            if let Some(folder) = folder {
                let report = run.report();
                save_what_there_is(run, &report, folder).await?;
            }
            // The run would fail at the same step again.
            checkpoints.map_or(Ok(()), Checkpoints::remove)?;
        }
        Error::Stopped => {
            if let Some(mut checkpoints) = checkpoints {
                checkpoints.save_stopped(run).await;
            }
        }
        _ => {}
    }
    Err(error)
}

/// Writes the files of a run. Rows of the test side whose embedding has no direction are an error, and cost only the files of that
/// side.
async fn save(run: &mut Run, origin: &Origin, report: &RunReport, folder: Folder) -> Result<()> {
    let mut taken = Taken::of(run).await?;
    taken.save_run(run, origin).await?;
    let embedded = taken.embed(run, RowsOf::Test).await;
    if matches!(embedded, Ok(()) | Err(Error::NoDirection { .. })) {
        write(&results(taken, report)?, folder)?;
    }
    embedded
}

/// Writes the files of a run that broke off: its weights are those of the last step that was finite.
async fn save_what_there_is(run: &mut Run, report: &RunReport, folder: Folder) -> Result<()> {
    let mut results = results(Taken::of(run).await?, report)?;
    // The memory is that of the end of the run, past this step.
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

fn results(taken: Taken, report: &RunReport) -> Result<Results> {
    let mut results = Results::new(taken)?;
    results.report = report.clone();
    Ok(results)
}

fn write(results: &Results, mut folder: Folder) -> Result<()> {
    nearfar::folder(results, |file| {
        match folder.write(&file.path, &file.bytes) {
            // It is the largest file, and the others are as useful without it.
            Err(error) if file.path == CHECKPOINT => note_line(format_args!(
                "{CHECKPOINT} is not saved, so the run cannot go on from here: {error}"
            )),
            written => written?,
        }
        Ok(())
    })?;
    folder.finish()
}

fn print(report: &RunReport) -> Result<()> {
    if let Some(group) = &report.config.group {
        print_line(format_args!(
            "each row is searched among those of other groups ({group}), and errors are over the draw of groups"
        ));
    }
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
        line("test, own group too", &scores.test_own_group);
        line("test, without copies", &scores.test_without_copies);
        line("test, f32 rows", &scores.test_unrounded);
        if let Some([low, high]) = scores.test.and_then(|test| test.interval) {
            print_line(format_args!(
                "with other groups, precision@1 of the test is between {low:.3} and {high:.3} in 95 of 100 cases"
            ));
        }
        // If classes are uneven, the large ones dominate the mean over rows.
        let over_classes = scores.test_over_classes.filter(|over| {
            let apart = |test: Metrics| (test.precision_at_1 - over.precision_at_1).abs();
            scores.test.is_some_and(|test| apart(test) >= 0.01)
        });
        line("test, mean over classes", &over_classes);
        line(report.data.scaling.scored(), &report.baseline.raw.test);
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
    for [setting, said] in report.halved() {
        print_line(format_args!("{setting}: {said}"));
    }
    report.verdict.iter().for_each(print_line);
    Ok(())
}
