//! [`Results`]: the parts of all exported files, from a run or from the folder that a run wrote.

use super::head::Head;
use super::{CHECKPOINT, RowsOf, SideRows, Taken, arrays, embeddings};
use crate::base::error::{Error, Result};
use crate::base::quote::said;
use crate::data::npy;
use crate::data::{Dataset, NamedFile};
use crate::engine::Engine;
use crate::judge::vector_sizes::{VectorSizes, through};
use crate::model::embeddings::Embeddings;
use crate::run::RunReport;

/// Names of the files that results are read from again.
pub const HISTORY: &str = "history.json";
pub(super) const HEAD: &str = "head.safetensors";
pub(super) const LINEAR: &str = "linear.safetensors";
pub(super) const MEMORY: &str = "memory.npz";
pub(super) const SIDES: &str = "sides.npy";
pub(super) const DATA: &str = "nearfar_data.npz";
const NPY: &str = "test_embeddings.npy";
const LABELS: &str = "test_labels.csv";

/// Tells by its content if a file is the history of a run; little of it is held at once.
#[cfg(not(target_family = "wasm"))]
pub fn is_history(path: &std::path::Path) -> bool {
    use serde::Deserialize;
    use serde::de::IgnoredAny;

    /// Keys that every history has.
    #[derive(Deserialize)]
    #[expect(dead_code, reason = "that they are there is all that counts")]
    struct Parts {
        steps: u64,
        config: IgnoredAny,
        history: IgnoredAny,
        evaluations: IgnoredAny,
    }
    let file = std::fs::File::open(path).map(std::io::BufReader::new);
    file.is_ok_and(|file| serde_json::from_reader::<_, Parts>(file).is_ok())
}

/// Parts that all pieces are made of.
#[derive(Clone, Debug)]
pub struct Results {
    /// Report of the run.
    pub report: RunReport,
    /// The head after the last step.
    pub head: Head,
    /// The linear baseline, if there is one.
    pub linear: Option<Head>,
    /// It stands in the place of the head, too.
    pub(super) by_linear: bool,
    /// The embedded rows of a side, if they were asked for.
    pub rows: Option<SideRows>,
    /// Contents of the memory, as an NPZ, if there is one.
    pub memory: Option<Vec<u8>>,
    /// Checkpoint of the run, if it can be continued.
    pub checkpoint: Option<Vec<u8>>,
    /// Side of every row, as an NPY; `data` has the rows of a built-in sample, as an NPZ.
    pub(super) sides: Option<Vec<u8>>,
    pub(super) data: Option<Vec<u8>>,
}

impl Results {
    /// Converts the results of a run to file formats.
    ///
    /// # Errors
    /// [`Error::Io`] if an archive cannot be written to memory.
    pub fn new(taken: Taken) -> Result<Self> {
        let Taken {
            report,
            features,
            filled,
            layers,
            linear,
            by_linear,
            memory,
            checkpoint,
            sides,
            sample,
            rows,
        } = taken;
        let head = |layers| Head {
            layers,
            features: features.clone(),
            filled: filled.clone(),
        };
        let sample = sample.map(|of| arrays::data(&of.values, of.dim, &of.labels));
        let results = Self {
            head: head(layers),
            linear: linear.map(|layer| head(vec![layer])),
            by_linear: false,
            rows: None,
            memory: memory.map(|memory| arrays::memory(&memory)).transpose()?,
            checkpoint,
            sides: Some(sides),
            data: sample.transpose()?,
            report,
        };
        let results = match by_linear {
            true => results.of_linear()?,
            false => results,
        };
        Ok(Self { rows, ..results })
    }

    /// The same results with the linear map in the place of the head, and without embedded rows, which are the head's.
    ///
    /// # Errors
    /// [`Error::Data`] if there is no linear map.
    pub fn of_linear(self) -> Result<Self> {
        let map = self.linear.clone();
        let none = || Error::Data("the run has no linear map".to_owned());
        Ok(Self {
            head: map.ok_or_else(none)?,
            by_linear: true,
            rows: None,
            ..self
        })
    }

    /// Name of a file that is made of the head, or of the linear map in its place: `head.onnx` is `linear.onnx` there, and
    /// `all_embeddings.csv` is `linear_all_embeddings.csv`.
    pub(super) fn named(&self, path: &str) -> String {
        match (self.by_linear, path.strip_prefix("head.")) {
            (false, _) => path.to_owned(),
            (true, Some(rest)) => format!("linear.{rest}"),
            (true, None) => format!("linear_{path}"),
        }
    }

    /// Reads the files that a run wrote: `read` returns the content of a file by its name, if there is such a file. The rows are
    /// those of the test side.
    ///
    /// # Errors
    /// Errors of `read`; [`Error::Data`] if there is no head or no history, or a file is damaged.
    pub fn read(folder: &str, read: impl Fn(&str) -> Result<Option<Vec<u8>>>) -> Result<Self> {
        let refuse = |name: &str, problem: &str| Error::Data(format!("{folder}/{name}: {problem}"));
        let whole = |name: &str| {
            read(name)?.ok_or_else(|| {
                let text = "there is no such file: give a folder that `nearfar train --out` wrote, or its ZIP archive";
                refuse(name, text)
            })
        };
        let head = |name: &str, bytes| {
            let name = format!("{folder}/{name}");
            Head::from_safetensors(&NamedFile { name, bytes })
        };
        let report: RunReport = serde_json::from_slice(&whole(HISTORY)?).map_err(|error| {
            refuse(
                HISTORY,
                &format!("it does not read as a run: {}", said(error)),
            )
        })?;
        report
            .check()
            .map_err(|fault| refuse(HISTORY, &format!("it is no run's: {fault}")))?;
        let linear = read(LINEAR)?.map(|bytes| head(LINEAR, bytes)).transpose()?;
        let sides = read(SIDES)?;
        let mut results = Self {
            head: head(HEAD, whole(HEAD)?)?,
            linear,
            by_linear: false,
            memory: read(MEMORY)?,
            checkpoint: read(CHECKPOINT)?,
            data: read(DATA)?,
            rows: None,
            report,
            sides,
        };
        if let (Some(matrix), Some(names)) = (read(NPY)?, read(LABELS)?) {
            results.rows = Some(results.test_rows(folder, matrix, &names)?);
        }
        Ok(results)
    }

    /// Scores vectors of every size of the test rows, which are read from the data of the run: of the rows as they are, through the
    /// linear map if there is one, and through the head. The arguments are those of [`vector_sizes`](crate::vector_sizes).
    ///
    /// # Errors
    /// As [`vector_sizes`](crate::vector_sizes), [`crate::Embedder::new`] and [`crate::Embedder::embed_rows`].
    pub async fn vector_sizes(
        &self,
        dataset: &Dataset,
        engine: &Engine,
        most: usize,
        progress: impl FnMut(u64, u64),
    ) -> Result<Vec<(String, VectorSizes)>> {
        let rows = self.rows_of(RowsOf::Test, dataset.rows());
        let linear = self
            .linear
            .iter()
            .map(|map| ("linear map", &map.layers[..]));
        let networks: Vec<_> = linear.chain([("head", &self.head.layers[..])]).collect();
        through(engine, dataset, &rows, &networks, most, progress).await
    }

    /// The test side, from its matrix and its labels.
    fn test_rows(&self, folder: &str, matrix: Vec<u8>, labels: &[u8]) -> Result<SideRows> {
        let refuse = |problem: &str| Error::Data(format!("{folder}/{LABELS}: {problem}"));
        let file = NamedFile {
            name: format!("{folder}/{NPY}"),
            bytes: matrix,
        };
        // The matrix of a side without rows is empty, and readers of data refuse it.
        let (values, dim) = match self.report.data.test {
            0 => (Vec::new(), self.head.dimensions()),
            _ => {
                let matrix = npy::read_matrix(&file)?;
                (matrix.values, matrix.columns)
            }
        };
        let labels = embeddings::read_labels(labels).map_err(|error| refuse(&error))?;
        let rows = self.rows_of(RowsOf::Test, labels.len());
        if values.len() != labels.len() * dim || rows.len() != labels.len() {
            return Err(refuse(&format!(
                "{} labels for {} rows of {NPY}: the files are not of one run",
                labels.len(),
                values.len() / dim.max(1)
            )));
        }
        Ok(SideRows {
            of: RowsOf::Test,
            rows,
            labels,
            names: None,
            embeddings: Embeddings { values, dim },
            neighbours: None,
        })
    }

    /// Numbers of rows in the data, by the folder's file of sides; 0, 1, 2 .. if there is none.
    pub fn rows_of(&self, of: RowsOf, count: usize) -> Vec<u32> {
        let Some(marks) = self.marks() else {
            return (0..count as u32).collect();
        };
        let mark = match of {
            RowsOf::Train => Some(0),
            RowsOf::Validation => Some(1),
            RowsOf::Test => Some(2),
            RowsOf::All => None,
        };
        let numbered = (0..).zip(marks);
        let chosen = numbered.filter(|(_, side)| mark.is_none_or(|mark| mark == **side));
        chosen.map(|(row, _)| row).collect()
    }

    /// The mark of each row of the data, by the file of sides.
    fn marks(&self) -> Option<&[u8]> {
        let bytes = self.sides.as_deref()?;
        bytes.get(bytes.len().checked_sub(self.report.data.rows)?..)
    }

    /// The side of each of these rows of the data, if the folder has a file of sides.
    #[cfg(feature = "hdf5")]
    pub(super) fn sides_of(&self, rows: &[u32]) -> Option<Vec<RowsOf>> {
        let marks = self.marks()?;
        let sides = [RowsOf::Train, RowsOf::Validation, RowsOf::Test];
        let side = |row: &u32| sides.get(*marks.get(*row as usize)? as usize).copied();
        rows.iter().map(side).collect()
    }

    /// Tells if the folder has a file of sides.
    pub fn knows_sides(&self) -> bool {
        self.sides.is_some()
    }
}

/// Name of a run's data without its folders, which are private.
pub(super) fn data_name(report: &RunReport) -> &str {
    let name = &report.data.name;
    name.rsplit(['/', '\\']).next().unwrap_or(name)
}

/// The AnnData file of a run's data; `None` if the data is of no such file.
pub(super) fn cells(report: &RunReport) -> Option<&str> {
    let name = data_name(report);
    let at = name.to_ascii_lowercase().find(".h5ad")?;
    Some(&name[..at + ".h5ad".len()])
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::head;
    use super::*;
    use crate::judge::verdict::{Compared, Gain};
    use crate::rules::config::TrainConfig;
    use crate::run::{Baseline, DataReport, MemoryReport};
    use crate::search::metrics::{Metrics, Scores};
    use crate::train::trainer::{Evaluation, StepReport};

    /// Scores of 100 queries.
    fn metrics(precision_at_1: f64) -> Option<Metrics> {
        Some(Metrics {
            precision_at_1,
            queries: 100,
            standard_error: 0.04,
            ..Metrics::default()
        })
    }

    /// Nine rows, of a file whose name, notes and column are `markup`.
    fn small_data(markup: &str) -> DataReport {
        DataReport {
            name: format!("/home/someone/{}.csv", markup.replace('/', "")),
            rows: 9,
            dim: 3,
            classes: 2,
            train: 4,
            validation: 3,
            test: 2,
            notes: vec![format!("left out the column \"{markup}\"")],
            label_column: Some(markup.to_owned()),
            ..DataReport::default()
        }
    }

    const MARKUP: &str = "<script>alert(1)</script>|*x*";

    /// A run of two steps, on a file whose name and notes are markup.
    pub(crate) fn small_report() -> RunReport {
        let step = |step, loss| StepReport {
            step,
            loss,
            mining: Default::default(),
            memory_bytes: 1 << 20,
            pml_bytes: 1 << 30,
        };
        let evaluation = |step, score| Evaluation {
            step,
            train: None,
            validation: metrics(score),
            diagnostics: Default::default(),
        };
        let gain = Gain {
            other: 0.5,
            gain: 0.25,
            low: 0.1,
            high: 0.4,
        };
        RunReport {
            version: "0.1.0".to_owned(),
            engine: "cpu".to_owned(),
            adapter: MARKUP.to_owned(),
            elapsed_ms: 12.5,
            memory: MemoryReport::default(),
            data: small_data(MARKUP),
            config: TrainConfig {
                steps: 2,
                ..TrainConfig::default()
            },
            steps: 2,
            history_one_in: 1,
            history: vec![step(1, 0.5), step(2, 0.125)],
            evaluations: vec![evaluation(0, 0.25), evaluation(2, 0.75)],
            r#final: Some(Scores {
                validation: metrics(0.75),
                test: metrics(0.7),
                ..Scores::default()
            }),
            kept_step: None,
            best: None,
            baseline: Baseline {
                raw: Scores {
                    test: metrics(0.5),
                    ..Scores::default()
                },
                ..Baseline::default()
            },
            verdict: Some(format!("Keep this head. {MARKUP}")),
            compared: vec![Compared {
                with: MARKUP.to_owned(),
                nearest: gain,
                groups: gain,
                head_alone: 1,
                other_alone: 0,
            }],
            warnings: vec![MARKUP.to_owned()],
        }
    }

    /// Results of such a run.
    pub(crate) fn small() -> Results {
        Results {
            report: small_report(),
            head: head::tests::small(),
            linear: None,
            by_linear: false,
            rows: Some(embeddings::tests::small()),
            memory: None,
            checkpoint: None,
            sides: Some(b"sides 000011122"[6..].to_vec()),
            data: None,
        }
    }
}
