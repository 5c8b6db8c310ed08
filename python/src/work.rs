//! The functions of the package: each reads its arrays, does its work on the engine's thread, and answers with JSON.

use std::rc::Rc;
use std::time::Instant;

use nearfar::{
    Asked, Dataset, Embedder, Engine, Error, EvaluationSpec, Head, KnnIndex, KnnSpec, MemoryReport,
    Metric, MiningSpec, NamedFile, NumberedRows, Pairs, Progress, Rate, Room as Memory, RowSource,
    Rows, Run, Scoring, ThresholdConfig, TrainConfig, Trainer, Wanted, evaluate_numbered,
    find_threshold, mine_numbered, pml_bytes,
};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::{Value, json};

use crate::engine::{Choice, exception, run};
use crate::rows::{Array, Numbers, Room};

/// Rows of a call, with the number of the class of each.
pub(crate) type Labelled = (Array, Numbers);

/// The engine of a piece of work, its time, and the account of its memory, beside the result.
pub(crate) fn of_work(mut report: Value, engine: &Engine, started: Instant) -> String {
    let info = engine.info();
    report["engine"] = info.engine.clone().into();
    report["adapter"] = info.adapter.clone().into();
    report["elapsed_ms"] = (started.elapsed().as_secs_f64() * 1e3).into();
    report["memory"] = json!(MemoryReport::new(engine.ledger()));
    report.to_string()
}

/// A metric by its name.
fn metric(name: &str) -> Result<Metric, Error> {
    serde_json::from_value(name.into()).map_err(|_| {
        Error::Config(format!(
            "metric is \"{name}\": it can be \"cosine\", \"dot\" or \"l2\""
        ))
    })
}

/// The devices of this machine, best first, the CPU engine last, as JSON.
#[pyfunction]
pub(crate) fn devices(py: Python<'_>, choice: Choice) -> PyResult<String> {
    run(py, choice, |_| {
        Ok(json!(pollster::block_on(Engine::devices())).to_string())
    })
}

/// Fills the `k` nearest references of every query into two arrays `[queries, k]`.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "as Python calls it")]
pub(crate) fn knn(
    py: Python<'_>,
    choice: Choice,
    references: Array,
    queries: Option<Array>,
    k: usize,
    by: String,
    places: Option<Numbers>,
    ids: Room,
    values: Room,
) -> PyResult<String> {
    run(py, choice, move |engine| {
        let started = Instant::now();
        let references = references.source()?;
        let queries = queries.map(|queries| queries.source()).transpose()?;
        let (queries, metric) = (queries.as_ref(), metric(&by)?);
        let places = places.map(Numbers::read);
        let found = pollster::block_on(async {
            let mut index = KnnIndex::by(engine, &references, queries, k, metric).await?;
            if let Some(places) = &places {
                index = index.with_places(places)?;
            }
            index.search(queries, |_, _| {}).await
        })?;
        ids.fill(&found.ids);
        values.fill(&found.similarities);
        Ok(of_work(json!({ "k": k }), engine, started))
    })
}

/// Retrieval metrics of labelled rows.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "as Python calls it")]
pub(crate) fn evaluate(
    py: Python<'_>,
    choice: Choice,
    queries: Labelled,
    references: Option<Labelled>,
    by: String,
    at: Vec<u64>,
    nearest: bool,
    places: Option<Numbers>,
) -> PyResult<String> {
    run(py, choice, move |engine| {
        let started = Instant::now();
        let read = |(rows, labels): Labelled| Ok((rows.source()?, labels.read()));
        let queries = read(queries)?;
        let references = references.map(read).transpose()?;
        let places = places.map(Numbers::read);
        let scoring = Scoring {
            metric: metric(&by)?,
            at: &at,
            nearest,
            places: places.as_deref(),
        };
        let retrieval = pollster::block_on(evaluate_numbered(
            engine,
            numbered(&queries),
            references.as_ref().map(numbered),
            &scoring,
            |_, _| {},
        ))?;
        Ok(of_work(json!(retrieval), engine, started))
    })
}

/// Scores of each query, as bytes of f64 a line, and the number of lone queries: see [`nearfar::RankedQueries`].
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "as Python calls it")]
pub(crate) fn rank_queries<'py>(
    py: Python<'py>,
    choice: Choice,
    queries: Labelled,
    references: Labelled,
    by: String,
    at: Vec<u64>,
    nearest: bool,
    places: Numbers,
) -> PyResult<(Bound<'py, PyBytes>, u64)> {
    let ranked = run(py, choice, move |engine| {
        let read = |(rows, labels): Labelled| Ok((rows.source()?, labels.read()));
        let (queries, references) = (read(queries)?, read(references)?);
        let places = places.read();
        let scoring = Scoring {
            metric: metric(&by)?,
            at: &at,
            nearest,
            places: Some(&places),
        };
        let (queries, references) = (numbered(&queries), numbered(&references));
        let ranked = nearfar::rank_queries(engine, queries, references, &scoring, |_, _| {});
        pollster::block_on(ranked)
    })?;
    let bytes: Vec<u8> = ranked
        .lines
        .iter()
        .flat_map(|number| number.to_ne_bytes())
        .collect();
    Ok((PyBytes::new(py, &bytes), ranked.lone))
}

/// The metrics of the lines of all queries.
#[pyfunction]
pub(crate) fn total_of_ranked(at: Vec<u64>, lines: Vec<u8>, lone: u64) -> PyResult<String> {
    let numbers = lines.chunks_exact(8).map(|number| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(number);
        f64::from_ne_bytes(bytes)
    });
    let lines: Vec<f64> = numbers.collect();
    let total = nearfar::total_of_ranked(&at, &lines, lone);
    let total = total.map_err(|error| exception(&error))?;
    Ok(json!(total).to_string())
}

fn numbered((rows, labels): &(RowSource, Vec<u32>)) -> NumberedRows<'_> {
    NumberedRows { rows, labels }
}

/// Rows and the names of their classes.
pub(crate) struct Named {
    rows: RowSource,
    labels: Vec<String>,
}

impl Named {
    pub(crate) fn read((rows, labels): Labelled) -> Result<Self, Error> {
        Ok(Self {
            rows: rows.source()?,
            labels: labels.names(),
        })
    }

    pub(crate) fn rows(&self) -> Rows<'_> {
        Rows {
            rows: &self.rows,
            labels: &self.labels,
        }
    }
}

/// Output of a mining beside the counts.
#[derive(Clone, Copy, FromPyObject)]
pub(crate) struct Filled {
    /// The loss is wanted.
    loss: bool,
    /// Pairs that the miner keeps are wanted.
    pairs: bool,
    /// Gradient with respect to the anchors.
    gradient: Option<Room>,
    /// Gradient with respect to references that are proxies.
    reference_gradient: Option<Room>,
}

/// Counts of triplets and, if wanted, loss, gradient and kept pairs `(a1, p, a2, n)` as bytes of u32.
#[pyfunction]
pub(crate) fn mine<'py>(
    py: Python<'py>,
    choice: Choice,
    anchors: Labelled,
    references: Option<Labelled>,
    copies: Option<Numbers>,
    settings: String,
    filled: Filled,
) -> PyResult<(String, Vec<Bound<'py, PyBytes>>)> {
    let (report, pairs) = run(py, choice, move |engine| {
        let started = Instant::now();
        let config = TrainConfig::default().with_json(&settings)?;
        config.check()?;
        let read = |(rows, labels): Labelled| Ok((rows.source()?, labels.read()));
        let (anchors, references) = (read(anchors)?, references.map(read).transpose()?);
        let copies = copies.map(Numbers::read);
        let wanted = match filled {
            Filled { pairs: true, .. } => Wanted::Pairs,
            Filled {
                gradient: Some(_), ..
            } => Wanted::Gradient(&config.loss),
            Filled { loss: true, .. } => Wanted::Loss(&config.loss),
            _ => Wanted::Counts,
        };
        let asked = Asked {
            distances: [
                config.miner_distance.unwrap_or(config.distance),
                config.distance,
            ],
            wanted,
            copies: copies.as_deref(),
        };
        let mut pairs = Pairs::default();
        let keep = |kept: nearfar::KeptOfAnchor<'_>| {
            pairs.add(kept);
            Ok(())
        };
        let known = references.as_ref().map(numbered);
        let mined = mine_numbered(
            engine,
            numbered(&anchors),
            known,
            &config.miner,
            &asked,
            keep,
            |_, _| {},
        );
        let mined = pollster::block_on(mined)?;
        if let Some(room) = filled.gradient {
            room.fill(&mined.gradient);
        }
        if let Some(room) = filled.reference_gradient {
            room.fill(&mined.reference_gradient);
        }
        let report = json!({ "mining": mined.mining, "loss": mined.loss });
        let pairs = [pairs.a1, pairs.p, pairs.a2, pairs.n];
        Ok((of_work(report, engine, started), pairs))
    })?;
    let bytes = |numbers: &Vec<u32>| {
        let words: Vec<u8> = numbers
            .iter()
            .flat_map(|number| number.to_ne_bytes())
            .collect();
        PyBytes::new(py, &words)
    };
    Ok((report, pairs.iter().map(bytes).collect()))
}

/// Threshold at which two rows are of one class, fitted on some rows and reported on others.
#[pyfunction]
pub(crate) fn threshold(
    py: Python<'_>,
    choice: Choice,
    fit: Labelled,
    test: Option<Labelled>,
    false_match_rate: Option<f64>,
    queries: usize,
    seed: u64,
) -> PyResult<String> {
    run(py, choice, move |engine| {
        let started = Instant::now();
        let fit = Named::read(fit)?;
        let test = test.map(Named::read).transpose()?;
        let config = ThresholdConfig {
            false_match_rate,
            queries,
            seed,
        };
        let test = test.as_ref().map(Named::rows);
        let found = pollster::block_on(find_threshold(engine, fit.rows(), test, &config))?;
        Ok(of_work(json!(found.report), engine, started))
    })
}

/// The dataset of rows with named classes, and its settings with those of a JSON object over them.
pub(crate) fn dataset(
    (rows, labels): Labelled,
    names: &[String],
    settings: &str,
) -> Result<(Dataset, TrainConfig), Error> {
    let labels: Vec<String> = labels
        .read()
        .iter()
        .map(|label| names[*label as usize].clone())
        .collect();
    let dataset = Dataset::of_rows("array".to_owned(), rows.source()?, &labels)?;
    let config = dataset.default_config().with_json(settings)?;
    config.check()?;
    Ok((dataset, config))
}

/// Trains a head, and returns the report and the head as a safetensors file. `said` is called with the report of the steps so far, a
/// few times a second.
#[pyfunction]
pub(crate) fn train<'py>(
    py: Python<'py>,
    choice: Choice,
    rows: Labelled,
    names: Vec<String>,
    settings: String,
    said: Option<Py<PyAny>>,
) -> PyResult<(String, Bound<'py, PyBytes>)> {
    let (report, head) = run(py, choice, move |engine| {
        let started = Instant::now();
        let (dataset, config) = dataset(rows, &names, &settings)?;
        let distance = config.distance;
        let hear = |about: Value| match &said {
            Some(said) => Python::attach(|py| said.call1(py, (about.to_string(),)).map(drop))
                .map_err(|_| Error::Stopped),
            None => Ok(()),
        };
        pollster::block_on(async {
            let mut run = Run::new(engine.clone(), Rc::new(dataset), config).await?;
            while !run.is_finished() {
                match run.next(u64::MAX).await? {
                    Progress::Steps(steps) => {
                        if let Some(step) = steps.last() {
                            hear(json!({ "step": step.step, "loss": step.loss }))?;
                        }
                    }
                    Progress::Evaluated(scores) => hear(json!(scores))?,
                    Progress::Finished => {}
                }
            }
            let report = json!(run.report());
            let head = Head {
                layers: run.trainer().head().await?,
                features: Vec::new(),
                filled: Vec::new(),
            };
            let head = head.to_safetensors(distance);
            Ok((of_work(report, engine, started), head))
        })
    })?;
    Ok((report, PyBytes::new(py, &head)))
}

/// Fills the embeddings of rows by a trained head, a safetensors file, into an array; returns their number of dimensions if there is no
/// array yet.
#[pyfunction]
pub(crate) fn embed(
    py: Python<'_>,
    choice: Choice,
    head: Vec<u8>,
    rows: Array,
    filled: Option<Room>,
) -> PyResult<usize> {
    run(py, choice, move |engine| {
        let head = Head::from_safetensors(&NamedFile {
            name: "head".to_owned(),
            bytes: head,
        })?;
        let dimensions = head.dimensions();
        let Some(room) = filled else {
            return Ok(dimensions);
        };
        let rows = rows.source()?;
        if rows.dim() != head.inputs() {
            return Err(Error::Data(format!(
                "rows have {} columns, the head takes {}",
                rows.dim(),
                head.inputs()
            )));
        }
        let numbers: Vec<u32> = (0..rows.rows() as u32).collect();
        let mut done = 0;
        pollster::block_on(async {
            let mut embedder = Embedder::new(engine.clone(), &head.layers).await?;
            let mut part = Vec::new();
            for numbers in numbers.chunks(4096) {
                part.clear();
                rows.read(numbers, &mut part).await?;
                let values = embedder.embed(&part).await?.values;
                room.part(done, values.len()).fill(&values);
                done += values.len();
            }
            Ok::<_, Error>(())
        })?;
        Ok(dimensions)
    })
}

/// Forecast of work of these sizes within a budget; runs nothing. `work`: knn, evaluate, mine or train.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "as Python calls it")]
pub(crate) fn plan(
    work: &str,
    budget: u64,
    queries: usize,
    references: Option<usize>,
    dim: usize,
    classes: usize,
    k: usize,
    by: &str,
    settings: &str,
) -> PyResult<String> {
    let memory = Memory {
        free_bytes: budget,
        budget_bytes: budget,
        max_buffer_bytes: u64::MAX,
    };
    let known = references.unwrap_or(queries);
    let plan = || {
        let columns = dim + usize::from(metric(by)? == Metric::L2);
        let rate = Rate::default();
        let labels: Vec<u32> = (0..known)
            .map(|row| (row % classes.max(1)) as u32)
            .collect();
        let config = TrainConfig::default();
        match work {
            "knn" => KnnSpec {
                queries,
                references: known,
                dim: columns,
                k,
                own: references.is_none(),
            }
            .plan(&memory, &rate),
            "evaluate" => EvaluationSpec::of(&labels, columns, queries).plan(&memory, &rate),
            "mine" => {
                let config = config.with_json(settings)?;
                let spec = MiningSpec::of(&labels, dim, queries);
                let spec = spec.mined_by(&config.miner, Some(&config.loss));
                MiningSpec {
                    own: references.is_none(),
                    gradient: true,
                    ..spec
                }
                .plan(&memory, &rate)
            }
            "train" => {
                let dataset = Dataset::sample(&format!("{queries}x{dim}x{classes}"), 0)?;
                let config = dataset.default_config().with_json(settings)?;
                Trainer::plan(&memory, &dataset, &config, &rate)
            }
            other => Err(Error::Config(format!(
                "work is \"{other}\": it can be \"knn\", \"evaluate\", \"mine\" or \"train\""
            ))),
        }
    };
    let forecast = plan().map_err(|error| exception(&error))?;
    let mut report = json!(forecast);
    report["total_bytes"] = forecast.memory.total_bytes().into();
    Ok(report.to_string())
}

/// Bytes that PyTorch Metric Learning takes to enumerate as many triplets.
#[pyfunction]
pub(crate) fn plan_pml(anchors: u64, references: u64, triplets: u64) -> u64 {
    pml_bytes(anchors, references, triplets)
}

/// Panics on the engine's thread, for the test that this becomes an exception.
#[pyfunction]
pub(crate) fn panic_for_a_test(py: Python<'_>, choice: Choice) -> PyResult<()> {
    run(py, choice, |_| panic!("a fault that was planted"))
}
