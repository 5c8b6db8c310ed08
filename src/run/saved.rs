//! [`Checkpoint`]: the state of a run after a step, from which it goes on bit for bit on the same engine and adapter.

use std::path::Path;
use std::rc::Rc;

use serde::{Deserialize, Serialize};

use super::best::better_by;
use super::history::{self, Thinned};
use super::{Baseline, BestStep, MemoryReport, Run, sound};
use crate::base::error::{Error, Result};
use crate::base::memory::reserve;
use crate::base::quote::{self, quoted};
use crate::data::{Columns, Dataset, Missing};
use crate::engine::Engine;
use crate::engine::checkpoint::{self, ArrayReader, ArrayWriter, Put, damaged};
use crate::engine::device::DeviceInfo;
use crate::judge::verdict::Compared;
use crate::map::projection::Axes;
use crate::rules::config::TrainConfig;
use crate::rules::miners::{MiningCounts, Tuples};
use crate::run::warnings::Warnings;
use crate::search::metrics::Scores;
use crate::train::trainer::{self, Evaluation, StepReport, Trainer};

const LOSSES: &str = "history.loss";
const COUNTS: &str = "history.counts";
/// Numbers of a step beside its loss.
const NUMBERS: usize = 11;

/// Names of a run's data, as the user gave them: they are kept in checkpoints and decide nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// A sample, a file, or several files in a list.
    pub data: String,
    /// A column or a file of labels, if one was chosen.
    pub labels: Option<String>,
    /// The file of the test side, if there is one.
    pub test_data: Option<String>,
    /// Labels of the test side.
    pub test_labels: Option<String>,
    /// Treatment of cells without a number.
    #[serde(default)]
    pub missing: Missing,
    /// The columns of a table that are features, if they were chosen.
    #[serde(default)]
    pub columns: Columns,
}

impl Origin {
    /// The origin without the folders of its files, which are private.
    pub(crate) fn without_folders(&self) -> Self {
        let name = |text: &String| without_folders(text);
        Self {
            data: name(&self.data),
            labels: self.labels.as_ref().map(name),
            test_data: self.test_data.as_ref().map(name),
            test_labels: self.test_labels.as_ref().map(name),
            missing: self.missing,
            columns: self.columns.clone(),
        }
    }
}

/// Name of a file, and of the array in it that was chosen; text that is no absolute path stays as it is.
fn without_folders(text: &str) -> String {
    match Path::new(text).is_absolute() {
        true => file_name(text),
        false => text.to_owned(),
    }
}

/// Name of a file without its folders; an array of it may follow after a colon.
fn file_name(text: &str) -> String {
    // After the colon of a Windows drive.
    let array = text.char_indices().find(|(at, c)| *at > 1 && *c == ':');
    let (path, array) = text.split_at(array.map_or(text.len(), |(at, _)| at));
    // Elsewhere a backslash may be a part of a name.
    let is_windows = path.get(1..3) == Some(":\\") || path.starts_with("\\\\");
    let folders: &[char] = if is_windows { &['/', '\\'] } else { &['/'] };
    let name = path.rsplit(folders).next().unwrap_or(path);
    format!("{name}{array}")
}

/// A saved run: its settings, and its state after a step. [`Run::resume`] continues it.
#[derive(Debug)]
pub struct Checkpoint<'a> {
    said: Said,
    arrays: ArrayReader<'a>,
}

/// JSON part of a checkpoint: everything but the arrays.
#[derive(Debug, Serialize, Deserialize)]
struct Said {
    /// Program that saved it.
    program: String,
    engine: String,
    adapter: String,
    origin: Origin,
    data: Data,
    config: TrainConfig,
    trainer: trainer::Saved,
    run: Saved,
}

/// Identity of the data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Data {
    name: String,
    rows: usize,
    features: usize,
    classes: usize,
    fingerprint: String,
}

/// State of a run beside its trainer and the history.
#[derive(Debug, Serialize, Deserialize)]
struct Saved {
    elapsed_ms: f64,
    #[serde(deserialize_with = "history::few")]
    evaluations: Vec<Evaluation>,
    baseline: Option<Baseline>,
    head: Option<Scores>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    best: Option<BestStep>,
    verdict: Option<String>,
    #[serde(default)]
    compared: Vec<Compared>,
    warnings: Warnings,
    axes: Axes,
}

impl<'a> Checkpoint<'a> {
    /// Reads the bytes of [`Run::checkpoint`].
    ///
    /// # Errors
    /// [`Error::Data`] for bytes that are cut or changed, for no checkpoint at all, and for a checkpoint of another version, by its
    /// number.
    pub fn read(bytes: &'a [u8]) -> Result<Self> {
        let (said, arrays) = checkpoint::read(bytes)?;
        let said: Said = serde_json::from_str(said).map_err(|error| {
            damaged(format_args!(
                "its settings do not read ({})",
                quote::said(error)
            ))
        })?;
        said.config.check()?;
        let (run, done) = (&said.run, said.trainer.step);
        if done > said.config.steps {
            return Err(damaged("it did more steps than its settings ask for"));
        }
        let baseline = run.baseline.iter();
        let baseline = baseline.flat_map(|of| [Some(&of.raw), of.linear.as_ref()]);
        let all = baseline.chain([run.head.as_ref()]).flatten();
        sound::elapsed(run.elapsed_ms)
            .and_then(|()| sound::evaluations(&run.evaluations, done))
            .and_then(|()| all.into_iter().try_for_each(sound::scores))
            .and_then(|()| run.best.iter().try_for_each(|best| sound::best(best, done)))
            .map_err(damaged)?;
        let arrays = ArrayReader::new(arrays)?;
        Ok(Self { said, arrays })
    }

    /// Tells if bytes begin as a checkpoint does, or are the start of one that was cut.
    pub fn begins(bytes: &[u8]) -> bool {
        checkpoint::begins(bytes)
    }

    /// Steps done.
    pub fn step(&self) -> u64 {
        self.said.trainer.step
    }

    /// Tells if the run was over: its test side is scored.
    pub fn is_finished(&self) -> bool {
        self.said.run.head.is_some()
    }

    /// Time of the work until then, in milliseconds: of two checkpoints of a run, the later has more.
    pub fn elapsed_ms(&self) -> f64 {
        self.said.run.elapsed_ms
    }

    /// The settings.
    pub fn config(&self) -> &TrainConfig {
        &self.said.config
    }

    /// Origin of the data.
    pub fn origin(&self) -> &Origin {
        &self.said.origin
    }

    /// The name of the data.
    pub fn data_name(&self) -> &str {
        &self.said.data.name
    }

    /// Rows of the data.
    pub fn rows(&self) -> usize {
        self.said.data.rows
    }

    /// Note for a run that goes on on another device: numbers may differ in their last bits.
    pub fn other_device(&self, device: &DeviceInfo) -> Option<String> {
        let Said {
            engine, adapter, ..
        } = &self.said;
        let same = *engine == device.engine && *adapter == device.adapter;
        (!same).then(|| {
            format!(
                "the run began on {} ({}) and goes on on {} ({}): its numbers may differ in their last bits from those of a run \
                 that was never stopped",
                quote::cut(engine),
                quote::said(adapter),
                device.engine,
                device.adapter
            )
        })
    }
}

impl Data {
    async fn of(dataset: &Dataset) -> Result<Self> {
        Ok(Self {
            name: file_name(&dataset.name),
            rows: dataset.rows(),
            features: dataset.features.dim(),
            classes: dataset.class_names.len(),
            fingerprint: dataset.fingerprint().await?,
        })
    }

    fn text(&self) -> String {
        format!(
            "{} rows of {} features and {} classes, fingerprint {}",
            self.rows, self.features, self.classes, self.fingerprint
        )
    }
}

/// A run as it is saved: a file to write.
#[derive(Debug)]
pub struct SavedRun<'a> {
    /// JSON of everything but the arrays.
    said: String,
    arrays: ArrayWriter,
    history: &'a [StepReport],
}

impl SavedRun<'_> {
    /// Bytes of the file.
    fn len(&self) -> usize {
        let (header, bytes) = self.arrays.header();
        checkpoint::len(&self.said, header.len() + bytes)
    }

    /// Calls `put` with the parts of the file, in order.
    ///
    /// # Errors
    /// Errors of `put`.
    pub fn write(&self, put: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let (header, bytes) = self.arrays.header();
        let history = |name: &str, put: &mut Put<'_>| {
            let mut reports = self.history.iter();
            match name {
                LOSSES => reports.try_for_each(|report| put(&report.loss.to_le_bytes())),
                _ => reports.try_for_each(|report| put(bytemuck::cast_slice(&numbers(report)))),
            }
        };
        let arrays = |put: &mut Put<'_>| {
            put(&header)?;
            self.arrays.write(put, history)
        };
        checkpoint::write(&self.said, header.len() + bytes, arrays, put)
    }
}

impl Run {
    /// Saves the run as it is now, between two steps: bytes that [`Checkpoint::read`] reads. The run stays as it is.
    ///
    /// Device data is read back a window of the engine's fixed buffer at a time: no memory of the budget is taken.
    ///
    /// # Errors
    /// [`Error::Data`] if the last step broke off, or the data can no longer be read; [`Error::Device`]; [`Error::NoMemory`].
    pub async fn checkpoint(&self, origin: &Origin) -> Result<Vec<u8>> {
        let saved = self.save(origin).await?;
        let mut file = Vec::new();
        reserve(&mut file, saved.len() as u64, "the checkpoint")?;
        saved.write(&mut |part| {
            file.extend_from_slice(part);
            Ok(())
        })?;
        Ok(file)
    }

    /// Saves the run as [`Run::checkpoint`] does, but as parts to write: those that grow with the run are made while they are
    /// written.
    ///
    /// # Errors
    /// As [`Run::checkpoint`].
    pub async fn save(&self, origin: &Origin) -> Result<SavedRun<'_>> {
        let mut arrays = ArrayWriter::default();
        let trainer = self.trainer.save(&mut arrays).await?;
        let steps = self.history.len();
        arrays.later::<f64>(LOSSES, steps);
        arrays.later::<u64>(COUNTS, NUMBERS * steps);
        let data = match self.data_mark.get() {
            Some(data) => data.clone(),
            None => {
                let data = Data::of(self.trainer.dataset()).await?;
                self.data_mark.get_or_init(|| data).clone()
            }
        };
        let (engine, adapter) = self.ran_on();
        let said = Said {
            program: concat!("nearfar ", env!("CARGO_PKG_VERSION")).to_owned(),
            engine,
            adapter,
            origin: origin.clone(),
            data,
            config: self.trainer.config().clone(),
            trainer,
            run: Saved {
                elapsed_ms: self.elapsed_ms,
                evaluations: self.evaluations.to_vec(),
                baseline: self.baseline,
                head: self.head,
                best: self.best,
                verdict: self.verdict.clone(),
                compared: self.compared.clone(),
                warnings: self.warnings.clone(),
                axes: self.axes.clone(),
            },
        };
        let said = serde_json::to_string(&said).expect("a run is plain data");
        Ok(SavedRun {
            said,
            arrays,
            history: &self.history,
        })
    }

    /// Continues a saved run, on an engine of its budget and the data that it began with.
    ///
    /// On the same engine and adapter all further results are bit for bit those of a run without the stop.
    ///
    /// # Errors
    /// [`Error::Data`] for other data, with both fingerprints, and for a state that no run of these settings can have; as
    /// [`Run::new`] if the run does not fit.
    pub async fn resume(
        engine: Engine,
        dataset: Rc<Dataset>,
        checkpoint: &Checkpoint<'_>,
    ) -> Result<Self> {
        let Checkpoint { said, arrays } = checkpoint;
        let here = Data::of(&dataset).await?;
        let there = Data {
            name: here.name.clone(),
            ..said.data.clone()
        };
        if here != there {
            return Err(Error::Data(format!(
                "{}: the data is not what the run began with: found {}, expected {}: give {} as it was then",
                here.name,
                here.text(),
                there.text(),
                quoted(&said.data.name)
            )));
        }
        let (done, every) = (said.trainer.step, said.config.evaluate_every);
        let mut history = taken(arrays, done)?;
        history.make_room(said.config.steps)?;
        let mut evaluations = Thinned::default();
        let better = better_by(&said.config);
        for evaluation in &said.run.evaluations {
            evaluations.push_evaluation(evaluation.clone(), every, &better);
        }
        let config = said.config.clone();
        let centres = said.trainer.centres;
        let mut trainer = Trainer::to_restore(engine, dataset, config, centres).await?;
        trainer.restore(&said.trainer, arrays).await?;
        let Saved {
            elapsed_ms,
            baseline,
            head,
            best,
            verdict,
            compared,
            warnings,
            axes,
            ..
        } = &said.run;
        Ok(Self {
            ended: head.map(|_| MemoryReport::new(trainer.engine().ledger())),
            history,
            evaluations,
            baseline: *baseline,
            head: *head,
            best: *best,
            verdict: verdict.clone(),
            compared: compared.clone(),
            warnings: warnings.clone(),
            axes: axes.clone(),
            elapsed_ms: *elapsed_ms,
            data_mark: here.into(),
            ran_on: Some((said.engine.clone(), said.adapter.clone())),
            ..Self::of(trainer)
        })
    }
}

/// The numbers of a step beside its loss.
fn numbers(report: &StepReport) -> [u64; NUMBERS] {
    let StepReport {
        step,
        mining,
        memory_bytes,
        pml_bytes,
        ..
    } = report;
    let MiningCounts {
        of,
        anchors,
        valid,
        easy,
        semihard,
        hard,
        mined,
        active,
    } = *mining;
    [
        *step,
        u64::from(of == Tuples::Pairs),
        anchors,
        valid,
        easy,
        semihard,
        hard,
        mined,
        active,
        *memory_bytes,
        *pml_bytes,
    ]
}

/// The saved steps of a run that did `done` steps. Earlier versions saved all of them, however many: they are read one by one.
fn taken(arrays: &ArrayReader<'_>, done: u64) -> Result<Thinned<StepReport>> {
    let losses = arrays.each::<f64>(LOSSES)?;
    let mut counts = arrays.each::<u64>(COUNTS)?;
    if counts.len() != losses.len() * NUMBERS {
        return Err(damaged(format_args!(
            "it has the losses of {} steps and {} counts",
            losses.len(),
            counts.len()
        )));
    }
    let (mut history, mut before) = (Thinned::default(), None);
    for loss in losses {
        let [
            step,
            of_pairs,
            anchors,
            valid,
            easy,
            semihard,
            hard,
            mined,
            active,
            memory_bytes,
            pml_bytes,
        ] = std::array::from_fn::<u64, NUMBERS, _>(|_| counts.next().unwrap_or_default());
        let of = match of_pairs {
            0 => Tuples::Triplets,
            _ => Tuples::Pairs,
        };
        let report = StepReport {
            step,
            loss,
            mining: MiningCounts {
                of,
                anchors,
                valid,
                easy,
                semihard,
                hard,
                mined,
                active,
            },
            memory_bytes,
            pml_bytes,
        };
        sound::step(before, &report, done).map_err(damaged)?;
        before = Some(step);
        history.push(report);
    }
    Ok(history)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_gives_away_no_folder() {
        let there = |text: &str| std::path::absolute(text).expect("is a path");
        for name in ["cells.h5ad:obsm/X_pca", "rows.csv"] {
            assert_eq!(without_folders(&there(name).display().to_string()), name);
            assert_eq!(file_name(&format!("a/b/{name}")), name);
        }
        assert_eq!(file_name("sample:digits"), "sample:digits");
        assert_eq!(file_name("C:\\data\\rows.csv"), "rows.csv");
        assert_eq!(file_name("a/\\u{1b}[31m.csv"), "\\u{1b}[31m.csv");
        // Columns, samples, and names on the page: names alone.
        for name in ["obs/cell_type", "sample:digits", "rows.csv", ""] {
            assert_eq!(without_folders(name), name);
        }
    }
}
