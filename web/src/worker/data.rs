//! Data: read from files or made as a sample, and summed up for the page.

use js_sys::{Array, Uint8Array, Uint16Array};
use nearfar::{
    BlobRows, Choice, Dataset, Error, Labelled, Map, NamedFile, Result, RowSource, Survey,
    TableColumn, TakenFile, TrainConfig,
};
use std::rc::Rc;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;
use web_sys::{File, Response};

use super::Core;
use crate::files::Files;
use crate::protocol::{Command, DataSummary, Event};

/// A sample that the data came from.
pub(super) struct Sample {
    pub(super) name: String,
    pub(super) seed: u64,
}

impl Core {
    /// Executes the commands that read the data, or list its rows.
    pub(super) async fn obey_about_the_data(&mut self, command: Command, files: Vec<File>) {
        match command {
            Command::Sample { name, seed } => match self.sample(&name, seed).await {
                Ok(dataset) => {
                    self.take(dataset, Some(Sample { name, seed }), Vec::new(), &[])
                        .await;
                }
                Err(error) => self.refuse(&error, Vec::new()),
            },
            Command::Files {
                label,
                columns,
                splitting,
                missing,
                stream_from,
            } => {
                let choice = Choice {
                    labels: label.as_deref(),
                    columns: Some(&columns),
                    missing: Some(missing),
                    ..Choice::default()
                };
                self.read(files, choice, &splitting, stream_from).await;
            }
            Command::ListRows { rows } => self.hand_over(|data| TakenFile::of_rows(data, &rows)),
            Command::SaveSuspects(check) => {
                self.hand_over(|data| TakenFile::of_suspects(data, &check));
            }
            Command::SaveChanges(changes) => {
                self.hand_over(|data| TakenFile::of_changes(data, &changes));
            }
            Command::ColourBy { column, rows } => {
                if let Some(data) = self.data.clone() {
                    // A file that changed says so when it is trained on.
                    let colours = data.colours(&column, &rows).await;
                    if let Ok(Some((colours, names, ends))) = colours {
                        let event = Event::Coloured {
                            column,
                            names,
                            ends,
                        };
                        let colours = Uint16Array::from(&colours[..]).buffer();
                        self.post(&event, &[colours.into()]);
                    }
                }
            }
            command => {
                if let Some(data) = &self.data {
                    about_rows(data, command)
                        .into_iter()
                        .for_each(|event| self.say(&event));
                }
            }
        }
    }

    /// Hands the page a file that is made of the data.
    fn hand_over(&self, make: impl FnOnce(&Dataset) -> TakenFile) {
        if let Some(data) = &self.data {
            let TakenFile { path, bytes } = make(data);
            let bytes = Uint8Array::from(&bytes[..]).buffer();
            self.post(&Event::Taken(path), &[bytes.into()]);
        }
    }

    /// Makes files the data.
    pub(super) async fn read(
        &mut self,
        files: Vec<File>,
        choice: Choice<'_>,
        splitting: &[String],
        stream_from: u64,
    ) {
        let names: Vec<String> = files.iter().map(File::name).collect();
        let about = |file: &File| (file.name(), file.size() as u64);
        let (data, labels) = match Labelled::pair(files, about) {
            Ok(pair) => pair,
            Err(error) => return self.refuse(&error, Vec::new()),
        };
        let mut columns = Vec::new();
        match self
            .dataset(data, labels, choice, stream_from, &mut columns)
            .await
        {
            Ok(dataset) => {
                self.columns = choice.columns.cloned().unwrap_or_default();
                self.take(dataset, None, columns, splitting).await;
            }
            Err(error) => {
                if !is_of_labels(&error, &names) {
                    columns.clear();
                }
                self.refuse(&error, columns);
            }
        }
    }

    /// Reads a file and its labels; sets `columns` to those that the labels could come from.
    pub(super) async fn dataset(
        &self,
        data: File,
        labels: Option<File>,
        choice: Choice<'_>,
        stream_from: u64,
        columns: &mut Vec<String>,
    ) -> Result<Dataset> {
        let name = data.name();
        let streams = RowSource::streams(&name, data.size() as u64, stream_from);
        self.with_files(async |files| match (labels, streams) {
            // Rows that stay in their file need labels: without any the file is not worth reading.
            (None, true) => Err(Labelled::alone(&name)),
            (Some(labels), true) => {
                let rows = BlobRows::open(name.clone(), data.into()).await?;
                let rows = RowSource::Blob(rows);
                let count = rows.rows();
                let read = files.labels(&labels, choice, &name, count, columns);
                let labels = read.await?;
                let missing = choice.missing.unwrap_or_default();
                Dataset::streamed(name, rows, labels, missing, self.working()).await
            }
            (labels, false) => {
                let read = files.rows(&data, labels.as_ref(), choice, columns);
                read.await.and_then(Dataset::new)
            }
        })
        .await
    }

    /// Makes a built-in sample; if it has a file, that is fetched from where the page came from.
    pub(super) async fn sample(&self, name: &str, seed: u64) -> Result<Dataset> {
        let Some(file) = Dataset::sample_file(name) else {
            return Dataset::sample(name, seed);
        };
        let not_there = |why: String| {
            Error::Data(format!(
                "{file} could not be fetched ({why}): try again, or choose another sample"
            ))
        };
        let fetched = async {
            let response = JsFuture::from(self.scope.fetch_with_str(file)).await?;
            let response: Response = response.dyn_into()?;
            if !response.ok() {
                return Err(JsValue::from_str(&format!("status {}", response.status())));
            }
            JsFuture::from(response.array_buffer()?).await
        };
        let bytes = fetched.await.map_err(|error| {
            let text = error.as_string();
            not_there(text.unwrap_or_else(|| "the network does not answer".to_owned()))
        })?;
        let read = async |file: NamedFile| {
            let parts = Array::of1(&Uint8Array::from(&file.bytes[..]));
            let file = File::new_with_u8_array_sequence(&parts, &file.name);
            let file = file.map_err(|_| not_there("it cannot be read".to_owned()))?;
            let choice = Choice::default();
            let rows =
                async |files: Files<'_>| files.rows(&file, None, choice, &mut Vec::new()).await;
            self.with_files(rows).await
        };
        Dataset::sample_of(name, Uint8Array::new(&bytes).to_vec(), read).await
    }

    pub(super) async fn take(
        &mut self,
        dataset: Dataset,
        sample: Option<Sample>,
        label_columns: Vec<String>,
        splitting: &[String],
    ) {
        let heard = self.working();
        let looked_at = async {
            if dataset.is_imagined() {
                return Ok((Survey::default(), Vec::new()));
            }
            let survey = Survey::of_data(&dataset.features, &heard).await?;
            Ok((survey, dataset.columns_with_rows().await?))
        };
        let (survey, columns) = match looked_at.await {
            Ok(looked_at) => looked_at,
            Err(error) => return self.refuse(&error, Vec::new()),
        };
        let summary = summary(&dataset, &survey, columns, label_columns, splitting);
        self.end_run().await;
        self.data = Some(Rc::new(dataset));
        self.survey = survey;
        self.sample = sample;
        self.say(&Event::Data(Box::new(summary)));
        // The map is only a look: a file that changed says so when it is trained on.
        if let Some(data) = &self.data
            && let Ok(map) = Map::of_features(data, &mut |working| heard(working)).await
        {
            self.post_map(map);
        }
    }

    /// The data of a run; a sample is made anew for another seed.
    pub(super) async fn seeded(&mut self, config: &TrainConfig) -> Result<Rc<Dataset>> {
        if let Some(sample) = self
            .sample
            .as_mut()
            .filter(|sample| sample.seed != config.data_seed())
        {
            // A file is the same for every seed.
            if Dataset::sample_file(&sample.name).is_none() {
                let data = Dataset::sample(&sample.name, config.data_seed())?;
                self.survey = Survey::of_data(&data.features, |_| ()).await?;
                self.data = Some(Rc::new(data));
            }
            sample.seed = config.data_seed();
        }
        let data = self.data.clone();
        data.ok_or_else(|| Error::Data("choose a sample or a file first".to_owned()))
    }

    pub(super) fn refuse(&self, error: &Error, columns: Vec<String>) {
        // Stopped work has nothing to say: another command stopped it.
        let message = match error {
            Error::Stopped => String::new(),
            error => error.to_string(),
        };
        self.say(&Event::Refused {
            message,
            columns,
            cure: error.cure(),
        });
    }
}

/// Answers what is asked about the names of rows.
fn about_rows(data: &Dataset, command: Command) -> Option<Event> {
    match command {
        Command::About { rows, cells_of } => {
            let name = |row: u32| (row, data.name_of(row).unwrap_or_default().to_owned());
            Some(Event::About {
                names: rows.into_iter().map(name).collect(),
                cells: cells_of.map(|row| (row, data.cells_of(row))),
            })
        }
        Command::FindName { name, rows } => Some(Event::FoundName(data.row_named(&name, &rows))),
        Command::FilesOfRows(files) => Some(Event::FoundFiles(data.rows_of_files(&files))),
        Command::NameBy(column) => {
            data.name_by(&column);
            None
        }
        _ => unreachable!("only what is about the data comes here"),
    }
}

/// Tells if another label column may be all that the files of these names need.
fn is_of_labels(error: &Error, names: &[String]) -> bool {
    let text = error.to_string();
    let text = names
        .iter()
        .fold(text, |text, name| text.replace(name.as_str(), ""));
    text.contains("label") && !text.contains("rows of features")
}

/// Summary of data for the page; `splitting` are the settings that decide which rows train.
fn summary(
    dataset: &Dataset,
    survey: &Survey,
    columns: Vec<TableColumn>,
    label_columns: Vec<String>,
    splitting: &[String],
) -> DataSummary {
    let mut findings = survey.findings(&dataset.feature_names);
    findings.extend(survey.zero_rows_warning());
    let sizes = dataset.class_sizes();
    let default_config = dataset.default_config_for(splitting);
    let train = dataset.rows_to_train(&default_config, splitting);
    DataSummary {
        name: dataset.name.clone(),
        rows: dataset.rows(),
        train: train.unwrap_or(dataset.rows()),
        dim: dataset.features.dim(),
        first_classes: dataset.class_names.iter().take(8).cloned().collect(),
        classes: dataset.class_names.len(),
        class_sizes: [
            sizes.iter().copied().min().unwrap_or(0),
            sizes.iter().copied().max().unwrap_or(0),
        ],
        notes: dataset.notes.clone(),
        findings,
        columns,
        label_columns,
        label_column: dataset.labelled_by().cloned(),
        missing: dataset.missing,
        split_columns: dataset
            .columns
            .iter()
            .map(|(name, _)| name.clone())
            .collect(),
        naming: dataset
            .naming_columns()
            .map(|(name, _)| name.clone())
            .collect(),
        named_by: dataset.names().map(|(name, _)| name.clone()),
        colour_columns: match dataset.is_imagined() {
            true => Vec::new(),
            false => dataset.colour_columns(),
        },
        imagined: dataset.is_imagined(),
        default_config,
    }
}
