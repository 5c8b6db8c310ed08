//! [`Taken`]: the exportable results of a run, before any file format. [`super::Results`] are made of it, here or in another worker
//! of a page, which receives it as a text and arrays.

use std::convert::Infallible;

use bytemuck::{Pod, cast_slice, pod_collect_to_vec};
use serde::{Deserialize, Serialize};

use super::arrays::{self, NEIGHBOURS};
use super::side_rows::{RowsOf, SideRows, is_sample};
use crate::base::error::{Error, Result};
use crate::cpu::Norm;
use crate::engine::Engine;
use crate::judge::vector_sizes::{VectorSizes, through};
use crate::model::embedder::Embedder;
use crate::model::embeddings::Embeddings;
use crate::model::layer_weights::{LayerWeights, NormWeights};
use crate::rules::config::Layers;
use crate::run::{Origin, Run, RunReport};
use crate::search::knn::{KnnIndex, Neighbors};
use crate::train::trainer::StoredMemory;

/// Exportable results of a run.
#[derive(Clone, Debug)]
pub struct Taken {
    pub(super) report: RunReport,
    /// Names of the features.
    pub(super) features: Vec<String>,
    /// Columns in which cells without a number were filled, and the values.
    pub(super) filled: Vec<(usize, f32)>,
    pub(super) layers: Vec<LayerWeights>,
    pub(super) linear: Option<LayerWeights>,
    /// Pieces that are made of a network are made of the linear map.
    pub(super) by_linear: bool,
    pub(super) memory: Option<StoredMemory>,
    /// Checkpoint of the run, if it can be continued.
    pub(super) checkpoint: Option<Vec<u8>>,
    /// Side of every row, as an NPY.
    pub(super) sides: Vec<u8>,
    /// Rows of a built-in sample.
    pub(super) sample: Option<SampleRows>,
    /// The embedded rows of a side, if they were asked for.
    pub rows: Option<SideRows>,
}

/// Rows of a built-in sample, which has no file.
#[derive(Clone, Debug)]
pub(super) struct SampleRows {
    pub(super) values: Vec<f32>,
    pub(super) dim: usize,
    pub(super) labels: Vec<u32>,
}

impl Taken {
    /// Takes the results of a run so far; rows only with [`Taken::embed`], the run itself only with [`Taken::save_run`].
    ///
    /// # Errors
    /// [`Error::Device`]; errors of reading a sample's rows.
    pub async fn of(run: &mut Run) -> Result<Self> {
        let report = run.report();
        let trainer = run.trainer();
        let layers = trainer.head().await?;
        let memory = match report.config.memory() {
            0 => None,
            _ => Some(trainer.stored_memory().await?),
        };
        let dataset = trainer.dataset();
        let sample = match is_sample(&dataset.name) {
            false => None,
            true => {
                let rows: Vec<u32> = (0..dataset.rows() as u32).collect();
                let mut values = Vec::new();
                dataset.features.read(&rows, &mut values).await?;
                Some(SampleRows {
                    values,
                    dim: dataset.features.dim(),
                    labels: dataset.labels.clone(),
                })
            }
        };
        Ok(Self {
            features: dataset.feature_names.clone(),
            filled: dataset.filled.clone(),
            layers,
            linear: trainer.linear_head(),
            by_linear: false,
            memory,
            checkpoint: None,
            sides: arrays::sides(trainer.sides(), dataset.rows()),
            sample,
            rows: None,
            report,
        })
    }

    /// Adds a checkpoint of the run, on data from `origin`, if it can be continued: not if its last step broke off.
    ///
    /// # Errors
    /// [`Error::Device`]; [`Error::NoMemory`].
    pub async fn save_run(&mut self, run: &Run, origin: &Origin) -> Result<()> {
        self.checkpoint = match run.checkpoint(&origin.without_folders()).await {
            Err(Error::Data(_)) => None,
            saved => Some(saved?),
        };
        Ok(())
    }

    /// Takes the linear map in place of the head, if there is one, for pieces that are made of a network.
    pub fn take_linear(&mut self) {
        self.by_linear = self.linear.is_some();
    }

    /// Adds rows of a run, embedded by its head, or by the linear map if that was taken.
    ///
    /// # Errors
    /// [`Error::NoDirection`] if a row has none; as [`crate::Trainer::embed`] and [`Embedder::new`].
    pub async fn embed(&mut self, run: &mut Run, of: RowsOf) -> Result<()> {
        let engine = run.engine().clone();
        let trainer = run.trainer();
        let rows = of.of(trainer.sides());
        let embeddings = match self.linear.as_ref().filter(|_| self.by_linear) {
            Some(map) => {
                let mut embedder = Embedder::new(engine, std::slice::from_ref(map)).await?;
                let features = &trainer.dataset().features;
                embedder.embed_rows(features, &rows).await?
            }
            None => trainer.embed(&rows).await?,
        };
        embeddings.check()?;
        let (dataset, name) = (trainer.dataset(), |row: &u32| *row as usize);
        let label = |row| dataset.class_names[dataset.labels[name(row)] as usize].clone();
        self.rows = Some(SideRows {
            of,
            labels: rows.iter().map(label).collect(),
            names: dataset.names_of(&rows),
            rows,
            embeddings,
            neighbours: None,
        });
        Ok(())
    }

    /// Names the rows as their file does, whichever column a person chose to name them by.
    pub fn name_as_in_file(&mut self, run: &mut Run) {
        if let Some(rows) = &mut self.rows {
            let ids = run.trainer().dataset().ids_of(&rows.rows);
            rows.names = ids.or(rows.names.take());
        }
    }

    /// Scores vectors of every size of the run's test rows, as [`Results::vector_sizes`](crate::Results::vector_sizes) does.
    ///
    /// # Errors
    /// [`Error::Data`] without test rows; as [`Results::vector_sizes`](crate::Results::vector_sizes).
    pub async fn vector_sizes(
        &self,
        run: &mut Run,
        most: usize,
        progress: impl FnMut(u64, u64),
    ) -> Result<Vec<(String, VectorSizes)>> {
        let engine = run.engine().clone();
        let trainer = run.trainer();
        let rows = RowsOf::Test.of(trainer.sides());
        if rows.is_empty() {
            let text = "the run has no test rows, and sizes are measured on such rows";
            return Err(Error::Data(text.to_owned()));
        }
        let linear = self.linear.iter();
        let linear = linear.map(|map| ("linear map", std::slice::from_ref(map)));
        let networks: Vec<_> = linear.chain([("head", &self.layers[..])]).collect();
        through(&engine, trainer.dataset(), &rows, &networks, most, progress).await
    }

    /// Text and arrays for [`Taken::unpack`].
    pub fn pack(&self) -> (String, Vec<&[u8]>) {
        let named = |layer: &LayerWeights| (layer.index, layer.shape);
        let found = |rows: &SideRows| rows.neighbours.as_ref().map(|found| found.k);
        let text = Text {
            report: self.report.clone(),
            features: self.features.clone(),
            filled: self.filled.clone(),
            layers: self.layers.iter().map(named).collect(),
            linear: self.linear.as_ref().map(named),
            by_linear: self.by_linear,
            memory: self
                .memory
                .as_ref()
                .map(|memory| (memory.embeddings.dim, memory.queue_idx)),
            checkpoint: self.checkpoint.is_some(),
            sample: self.sample.as_ref().map(|sample| sample.dim),
            names: self.rows.as_ref().and_then(|rows| rows.names.clone()),
            rows: self.rows.as_ref().map(|rows| {
                (
                    rows.of,
                    rows.labels.clone(),
                    rows.embeddings.dim,
                    found(rows),
                )
            }),
        };
        let mut arrays: Vec<&[u8]> = Vec::new();
        for layer in self.layers.iter().chain(&self.linear) {
            arrays.extend([cast_slice(&layer.weight), cast_slice(&layer.bias)]);
            let norm = layer.norm.iter().flat_map(NormWeights::named);
            arrays.extend(norm.map(|(_, values)| cast_slice::<_, u8>(values)));
            arrays.extend(layer.skip.as_deref().map(cast_slice::<_, u8>));
        }
        if let Some(memory) = &self.memory {
            let numbers = [&memory.labels, &memory.rows, &memory.ages];
            arrays.push(cast_slice(&memory.embeddings.values));
            arrays.extend(numbers.map(|numbers| cast_slice::<_, u8>(numbers)));
        }
        arrays.extend(self.checkpoint.as_deref());
        arrays.push(&self.sides);
        if let Some(sample) = &self.sample {
            arrays.extend([cast_slice(&sample.values), cast_slice(&sample.labels)]);
        }
        if let Some(rows) = &self.rows {
            arrays.extend([cast_slice(&rows.rows), cast_slice(&rows.embeddings.values)]);
            if let Some(found) = &rows.neighbours {
                arrays.extend([cast_slice(&found.ids), cast_slice(&found.similarities)]);
            }
        }
        let text = serde_json::to_string(&text).expect("reports are plain data");
        (text, arrays)
    }

    /// Rebuilds the results from the output of [`Taken::pack`].
    ///
    /// # Errors
    /// [`Error::Data`] for anything else.
    pub fn unpack(text: &str, arrays: Vec<Vec<u8>>) -> Result<Self> {
        let failed = |what: &dyn std::fmt::Display| Error::Data(format!("the run: {what}"));
        let text: Text = serde_json::from_str(text).map_err(|error| failed(&error))?;
        let mut arrays = Arrays(arrays.into_iter());
        let parts = text.report.config.layers;
        let layers = arrays.layers(text.layers, parts);
        let linear = arrays.layers(text.linear, Layers::default()).pop();
        Ok(Self {
            report: text.report,
            features: text.features,
            filled: text.filled,
            layers,
            linear,
            by_linear: text.by_linear,
            memory: text.memory.map(|(dim, queue_idx)| StoredMemory {
                embeddings: Embeddings {
                    values: arrays.next(),
                    dim,
                },
                labels: arrays.next(),
                rows: arrays.next(),
                ages: arrays.next(),
                queue_idx,
            }),
            checkpoint: text.checkpoint.then(|| arrays.next()),
            sides: arrays.next(),
            sample: text.sample.map(|dim| SampleRows {
                values: arrays.next(),
                dim,
                labels: arrays.next(),
            }),
            rows: text.rows.map(|(of, labels, dim, k)| SideRows {
                of,
                rows: arrays.next(),
                labels,
                names: text.names,
                embeddings: Embeddings {
                    values: arrays.next(),
                    dim,
                },
                neighbours: k.map(|k| Neighbors {
                    k,
                    ids: arrays.next(),
                    similarities: arrays.next(),
                }),
            }),
        })
    }
}

/// Everything but the arrays: number and widths of each layer, and the sizes that the arrays do not tell.
#[derive(Deserialize, Serialize)]
struct Text {
    report: RunReport,
    features: Vec<String>,
    // Runs that a browser stored earlier have none.
    #[serde(default)]
    filled: Vec<(usize, f32)>,
    layers: Vec<(usize, [usize; 2])>,
    linear: Option<(usize, [usize; 2])>,
    #[serde(default)]
    by_linear: bool,
    memory: Option<(usize, usize)>,
    checkpoint: bool,
    sample: Option<usize>,
    rows: Option<(RowsOf, Vec<String>, usize, Option<usize>)>,
    // Runs that a browser stored earlier have none.
    #[serde(default)]
    names: Option<(String, Vec<String>)>,
}

/// Arrays in their order.
struct Arrays(std::vec::IntoIter<Vec<u8>>);

impl Arrays {
    /// Layers of these numbers and widths, with these parts between them.
    fn layers(
        &mut self,
        named: impl IntoIterator<Item = (usize, [usize; 2])>,
        parts: Layers,
    ) -> Vec<LayerWeights> {
        let mut named = named.into_iter().peekable();
        let mut layers = Vec::new();
        while let Some((index, shape)) = named.next() {
            let norm = match named.peek() {
                Some(_) => parts.norm,
                None => Norm::None,
            };
            layers.push(LayerWeights {
                index,
                shape,
                weight: self.next(),
                bias: self.next(),
                norm: NormWeights::read(norm, |_| Ok::<_, Infallible>(self.next()))
                    .unwrap_or_else(|none| match none {}),
                activation: parts.activation,
                skip: (parts.skip && !layers.is_empty() && named.peek().is_none())
                    .then(|| self.next()),
            });
        }
        layers
    }

    /// The next array; empty if there is none.
    fn next<T: Pod>(&mut self) -> Vec<T> {
        pod_collect_to_vec(&self.0.next().unwrap_or_default())
    }
}

impl SideRows {
    /// Finds the rows nearest to each; there must be two rows.
    ///
    /// # Errors
    /// As [`KnnIndex::new`] and [`KnnIndex::search`]; [`Error::Data`] if there are no two rows.
    pub async fn find_neighbours(&mut self, engine: &Engine) -> Result<()> {
        let k = NEIGHBOURS.min(self.rows.len().saturating_sub(1));
        if k == 0 {
            return Err(Error::Data(format!(
                "neighbours: there are {} {} rows, and two are needed",
                self.rows.len(),
                self.of.words()
            )));
        }
        let rows = crate::data::RowSource::Memory {
            values: self.embeddings.values.clone(),
            dim: self.embeddings.dim,
        };
        let mut index = KnnIndex::new(engine, &rows, None, k).await?;
        self.neighbours = Some(index.search(None, |_, _| {}).await?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::small_report;
    use super::*;

    #[test]
    fn what_was_packed_is_unpacked_again() {
        let layer = |index: usize| LayerWeights {
            index,
            shape: [1, 2],
            weight: vec![0.5, index as f32],
            bias: vec![-1.0],
            ..LayerWeights::default()
        };
        let embeddings = Embeddings {
            values: vec![1.0, 0.0, 0.0, 1.0],
            dim: 2,
        };
        let mut report = small_report();
        report.config.layers.norm = Norm::BatchNorm;
        let whole = Taken {
            report,
            features: vec!["width".to_owned()],
            filled: vec![(1, -0.5)],
            layers: vec![
                LayerWeights {
                    norm: NormWeights::initial(Norm::BatchNorm, 1),
                    ..layer(0)
                },
                layer(2),
            ],
            linear: Some(layer(4)),
            by_linear: true,
            memory: Some(StoredMemory {
                embeddings: embeddings.clone(),
                labels: vec![3, 4],
                rows: vec![5, 6],
                ages: vec![7, 8],
                queue_idx: 1,
            }),
            checkpoint: Some(vec![13]),
            sides: vec![0, 1, 2],
            sample: Some(SampleRows {
                values: vec![9.0],
                dim: 1,
                labels: vec![10],
            }),
            rows: Some(SideRows {
                of: RowsOf::Train,
                rows: vec![11, 12],
                labels: vec!["a".to_owned(), "b".to_owned()],
                names: Some(("id".to_owned(), vec!["x".to_owned(), "y".to_owned()])),
                embeddings,
                neighbours: Some(Neighbors {
                    k: 1,
                    ids: vec![1, 0],
                    similarities: vec![0.0, 0.25],
                }),
            }),
        };
        let bare = Taken {
            linear: None,
            memory: None,
            sample: None,
            rows: None,
            ..whole.clone()
        };
        for taken in [whole, bare] {
            let (text, arrays) = taken.pack();
            let arrays = arrays.into_iter().map(<[u8]>::to_vec).collect();
            let again = Taken::unpack(&text, arrays).expect("unpacks");
            assert_eq!(format!("{again:?}"), format!("{taken:?}"));
        }
    }
}
