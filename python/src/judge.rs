//! Functions that judge labelled rows: which labels are doubtful, what does a linear map do, which settings are best?

use std::rc::Rc;
use std::time::Instant;

use nearfar::{
    CompareConfig, CompareProgress, Comparison, Contest, Distance, Error, Head, KnnIndex,
    LinearMap, Neighbors, RowsToCheck, Scaling,
};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::{Value, json};

use crate::engine::{Choice, run};
use crate::rows::Numbers;
use crate::work::{Labelled, dataset, of_work};

/// Rows whose nearest rows are of another class, as JSON. The classes are numbers.
#[pyfunction]
pub(crate) fn rows_to_check(
    py: Python<'_>,
    choice: Choice,
    rows: Labelled,
    k: usize,
) -> PyResult<String> {
    run(py, choice, move |engine| {
        let started = Instant::now();
        let (rows, labels) = (rows.0.source()?, Numbers::names(rows.1));
        let numbers: Vec<u32> = (0..labels.len() as u32).collect();
        let found = pollster::block_on(async {
            let mut index = KnnIndex::new(engine, &rows, None, k).await?;
            index.search(None, |_, _| {}).await
        });
        let found: Neighbors = found?;
        let check = RowsToCheck::new(&numbers, &labels, &found);
        Ok(of_work(json!(check), engine, started))
    })
}

/// Fits a linear map to all rows; returns a report and the map as a safetensors file.
#[pyfunction]
pub(crate) fn linear_map<'py>(
    py: Python<'py>,
    choice: Choice,
    rows: Labelled,
    names: Vec<String>,
    outputs: usize,
) -> PyResult<(String, Bound<'py, PyBytes>)> {
    let (report, head) = run(py, choice, move |engine| {
        let started = Instant::now();
        let (dataset, _) = dataset(rows, &names, "{}")?;
        let (dim, count) = (dataset.features.dim(), dataset.features.rows());
        let all: Vec<u32> = (0..count as u32).collect();
        let most = if outputs == 0 { dim } else { outputs };
        let scaling = Scaling::none(dim);
        let fit = LinearMap::fit(engine, &dataset, &scaling, &all, most);
        let map = pollster::block_on(fit)?;
        let map = map.map_err(|unfit| Error::Data(format!("no linear map: {unfit}")))?;
        let chosen = map.unchosen(most);
        let head = Head {
            layers: vec![map.cut(chosen)],
            features: Vec::new(),
            filled: Vec::new(),
        };
        let report = json!({ "outputs": chosen });
        let head = head.to_safetensors(Distance::default());
        Ok((of_work(report, engine, started), head))
    })?;
    Ok((report, PyBytes::new(py, &head)))
}

/// Trains several settings and ranks them, as JSON. `said` is called with each run that is over.
#[pyfunction]
pub(crate) fn compare(
    py: Python<'_>,
    choice: Choice,
    rows: Labelled,
    names: Vec<String>,
    asked: String,
    said: Option<Py<PyAny>>,
) -> PyResult<String> {
    run(py, choice, move |engine| {
        let asked: CompareConfig =
            serde_json::from_str(&asked).map_err(|error| Error::Config(error.to_string()))?;
        let (dataset, _) = dataset(rows, &names, "{}")?;
        let hear = |about: Value| match &said {
            Some(said) => Python::attach(|py| said.call1(py, (about.to_string(),)).map(drop))
                .map_err(|_| Error::Stopped),
            None => Ok(()),
        };
        let contest = Contest::new(&dataset, &asked)?;
        let mut comparison = Comparison::new(engine.clone(), Rc::new(dataset), contest)?;
        pollster::block_on(async {
            while !comparison.is_finished() {
                if let CompareProgress::Run {
                    name,
                    seed,
                    steps,
                    precision_at_1,
                } = comparison.next(u64::MAX).await?
                {
                    hear(json!({
                        "name": name, "seed": seed, "steps": steps, "precision_at_1": precision_at_1
                    }))?;
                }
            }
            Ok::<_, Error>(())
        })?;
        Ok(json!(comparison.report()).to_string())
    })
}
