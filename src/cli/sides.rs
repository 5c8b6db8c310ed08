//! The rows of a side of a saved run, made again from its data and embedded by its head.

use std::path::Path;

use nearfar::{Columns, Dataset, Embedder, Engine, Error, Result, Results, RowsOf, SideRows};

use super::files;

/// The data of a run: the data that was given, or the built-in sample of the run. `side` is named in the refusal.
///
/// # Errors
/// [`Error::Config`] if none was given and the run's is no sample; [`Error::Data`] if the data has other rows or features.
pub(super) fn dataset(
    results: &Results,
    data: Option<&str>,
    labels: Option<&str>,
    group: Option<&str>,
    side: RowsOf,
) -> Result<Dataset> {
    let report = &results.report;
    let name = &report.data.name;
    let data = match data {
        Some(data) => data,
        None if name.starts_with("sample:") => name,
        None => {
            return Err(Error::Config(format!(
                "--data is missing: the folder holds the embeddings of the test rows alone, so the {} rows are made again from \
                 the data of the run, {name}",
                side.words()
            )));
        }
    };
    let labels = labels.or(report.data.label_column.as_deref());
    let labels = labels.filter(|_| !data.starts_with("sample:"));
    // The columns that the head was trained on.
    let columns = Columns {
        features: results.head.features.clone(),
        apart: group.map(str::to_owned).into_iter().collect(),
        marks: report.data.marks,
        on: report.data.on.clone(),
        unlabelled: report.data.unlabelled.clone(),
        ..Columns::default()
    };
    let columns = Some(columns).filter(|_| !data.starts_with("sample:"));
    let dataset = files::dataset(
        data,
        labels,
        report.data.missing,
        &columns.unwrap_or_default(),
        report.config.data_seed(),
    )?;
    let (rows, dim) = (dataset.rows(), dataset.features.dim());
    if dim != results.head.inputs() || rows != report.data.rows {
        return Err(Error::Data(format!(
            "{data}: {rows} rows of {dim} features, expected {} of {} as the run had: give its own data",
            report.data.rows,
            results.head.inputs()
        )));
    }
    Ok(dataset)
}

/// Checks that a run has the file of its sides; `or` is the alternative, beside training again.
///
/// # Errors
/// [`Error::Data`] with the file that is missing.
pub(super) fn check(results: &Results, run: &Path, or: &str) -> Result<()> {
    if results.knows_sides() {
        return Ok(());
    }
    Err(Error::Data(format!(
        "{}/sides.npy is missing, which says which rows are on which side: train again, or {or}",
        run.display()
    )))
}

/// Embeds the rows of a side by the head.
///
/// # Errors
/// As [`Embedder::new`] and [`Embedder::embed_rows`].
pub(super) async fn embed(
    results: &Results,
    dataset: &Dataset,
    engine: &Engine,
    side: RowsOf,
) -> Result<SideRows> {
    let rows = results.rows_of(side, dataset.rows());
    let mut embedder = Embedder::new(engine.clone(), &results.head.layers).await?;
    let embeddings = embedder.embed_rows(&dataset.features, &rows).await?;
    let name = |row: &u32| dataset.class_names[dataset.labels[*row as usize] as usize].clone();
    Ok(SideRows {
        of: side,
        labels: rows.iter().map(name).collect(),
        names: dataset.names_of(&rows),
        embeddings,
        rows,
        neighbours: None,
    })
}
