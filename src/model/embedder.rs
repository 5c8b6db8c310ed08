//! [`Embedder`]: applies a trained head to any rows, tile by tile.

use crate::base::error::{Error, Result};
use crate::base::forecast::{Forecast, Rate, check_count};
use crate::base::ledger::Purpose;
use crate::base::memory::reserve;
use crate::base::plan::{MemoryPlan, Room};
use crate::cpu::Norm;
use crate::data::RowSource;
use crate::engine::{DeviceVec, Engine};
use crate::kernels::{self, normalize, stride};
use crate::model::activations::Tile;
use crate::model::architecture::Architecture;
use crate::model::embedding_model::EmbeddingModel;
use crate::model::embeddings::{Embeddings, check_direction};
use crate::model::features::pad;
use crate::model::layer_weights::{LayerWeights, NormWeights};
use crate::model::unit_rows::TILE_ROWS;
use crate::rules::config::Layers;

const ADVICE: &str = "raise the budget";
/// Rows of a table that are read at once.
const READ_ROWS: usize = 4096;
const PARAMETERS: &str = "embed.parameters";
const ACTIVATIONS: [&str; 8] = [
    "embed.batch",
    "embed.layer1",
    "embed.layer2",
    "embed.layer3",
    "embed.layer4",
    "embed.layer5",
    "embed.layer6",
    "embed.layer7",
];

/// A head on an engine, ready to embed.
#[derive(Debug)]
pub struct Embedder {
    engine: Engine,
    model: EmbeddingModel,
    tile: Tile,
    unit: DeviceVec<f32>,
    /// Rows embedded so far.
    done: u64,
}

impl Embedder {
    /// Checks that a head has one to seven layers, none of width 0, and that products with its weights stay finite.
    ///
    /// # Errors
    /// [`Error::Data`] with the tensor and the place in it.
    pub fn check(head: &[LayerWeights]) -> Result<()> {
        let layers = head.len();
        if !(1..ACTIVATIONS.len()).contains(&layers) {
            return Err(Error::Data(format!(
                "the head has {layers} layers, expected 1 to 7"
            )));
        }
        for layer in head {
            let (index, [outputs, inputs]) = (layer.index, layer.shape);
            if outputs == 0 || inputs == 0 {
                return Err(Error::Data(format!(
                    "\"{index}.weight\" has the shape ({outputs}, {inputs}): a layer of no width embeds nothing"
                )));
            }
            // The skip's own name has no number.
            let skip = layer
                .skip
                .iter()
                .map(|skip| ("skip.weight", skip, skip.len() / outputs));
            let own = [
                ("weight", &layer.weight, inputs),
                ("bias", &layer.bias, outputs),
            ];
            for (name, values, columns) in own.into_iter().chain(skip) {
                let most = f64::from(f32::MAX) / columns as f64;
                let fine = |value: &f32| f64::from(*value).powi(2) < most;
                if let Some(at) = values.iter().position(|value| !fine(value)) {
                    let (row, column) = (at / columns, at % columns);
                    let place = match name {
                        "bias" => format!("[{column}]"),
                        _ => format!("[{row}, {column}]"),
                    };
                    let name = match name {
                        "skip.weight" => name.to_owned(),
                        _ => format!("{index}.{name}"),
                    };
                    return Err(Error::Data(format!(
                        "\"{name}\" holds {:e} at {place}, which cannot be computed with: the head is damaged, or its \
                         training went wrong",
                        values[at]
                    )));
                }
            }
            if let Some(norm) = &layer.norm {
                check_norm(&(index + 1).to_string(), norm)?;
            }
        }
        Ok(())
    }

    /// Forecasts embedding `rows` rows with a head.
    ///
    /// # Errors
    /// As [`Embedder::check`]; [`Error::Data`] for more rows than can be numbered; [`Error::Refused`] and [`Error::TooLarge`], with
    /// the numbers.
    pub fn plan(head: &[LayerWeights], rows: usize, room: &Room, rate: &Rate) -> Result<Forecast> {
        Self::check(head)?;
        check_count("rows", rows)?;
        let memory = buffers(&architecture(head));
        memory.fits("embedding", room, ADVICE)?;
        let operations = architecture(head).operations() * rows as f64;
        let inputs = head.first().map_or(0, |layer| layer.shape[1]) as u64;
        let traffic_bytes = (rows as u64).saturating_mul(4 * inputs);
        Ok(Forecast {
            memory,
            block_queries: TILE_ROWS as u64,
            chunk_rows: 0,
            resident: false,
            passes: 1,
            submits: rows.div_ceil(TILE_ROWS) as u64,
            traffic_bytes,
            operations,
            predicted_ms: rate.ms(operations, traffic_bytes),
            path: None,
            batch_chunk: None,
            map_bytes: 0,
        })
    }

    /// Puts a head on the engine.
    ///
    /// # Errors
    /// As [`Embedder::check`]; [`Error::Refused`] when it does not fit the engine's budget.
    pub async fn new(engine: Engine, head: &[LayerWeights]) -> Result<Self> {
        Self::check(head)?;
        let architecture = architecture(head);
        engine.prepare(kernels::used_on(engine.info())).await?;
        let plan = buffers(&architecture);
        let mut workspace = engine.workspace("embedding", &plan, ADVICE).await?;
        Ok(Self {
            model: EmbeddingModel::new(&engine, &mut workspace, PARAMETERS, &architecture, head)
                .await?,
            tile: Tile::new(&mut workspace, &ACTIVATIONS, &architecture),
            unit: workspace.take("embed.unit"),
            done: 0,
            engine,
        })
    }

    /// Input size of the head.
    pub fn input_size(&self) -> usize {
        self.model.input_size()
    }

    /// Dimensions of an embedding.
    pub fn embedding_size(&self) -> usize {
        self.model.embedding_size()
    }

    /// The engine, with the account of its memory.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Embeds dense rows `[_, input_size]` that follow those of earlier calls: errors count rows from the first call on.
    ///
    /// # Errors
    /// [`Error::NoDirection`] if an embedding is not finite or zero; [`Error::NoMemory`]; [`Error::Device`], and [`Error::Stopped`]
    /// between tiles.
    pub async fn embed(&mut self, rows: &[f32]) -> Result<Embeddings> {
        let (inputs, dim) = (self.model.input_size(), self.model.embedding_size());
        let stride = stride(dim);
        let mut values = Vec::new();
        reserve(
            &mut values,
            (rows.len() / inputs * dim) as u64,
            "the embeddings",
        )?;
        for tile in rows.chunks(TILE_ROWS * inputs) {
            let count = tile.len() / inputs;
            let input = self.tile.input_mut();
            self.engine.upload(input, 0, &pad(tile, inputs)).await?;
            let mut commands = self.engine.commands();
            self.model.embed(&mut commands, count, &mut self.tile);
            let output = self.tile.output();
            normalize::normalize(&mut commands, count, stride, output, 0, &mut self.unit);
            self.engine.submit(commands);
            let padded = self
                .engine
                .read(&self.unit, 0, (count * stride) as u64)
                .await?;
            for row in padded.chunks_exact(stride) {
                self.done += 1;
                check_direction(&row[..dim], self.done)?;
                values.extend(&row[..dim]);
            }
            self.engine.breathe().await?;
        }
        Ok(Embeddings { values, dim })
    }

    /// Embeds rows of a table, which are read some at a time.
    ///
    /// # Errors
    /// As [`Embedder::embed`]; errors of reading.
    pub async fn embed_rows(&mut self, features: &RowSource, rows: &[u32]) -> Result<Embeddings> {
        let dim = self.model.embedding_size();
        let (mut values, mut some) = (Vec::new(), Vec::new());
        reserve(&mut values, (rows.len() * dim) as u64, "the embeddings")?;
        for rows in rows.chunks(READ_ROWS) {
            some.clear();
            features.read(rows, &mut some).await?;
            values.extend(self.embed(&some).await?.values);
        }
        Ok(Embeddings { values, dim })
    }
}

/// Checks that the arrays of a norm, whose names begin with `name`, can be computed with.
fn check_norm(name: &str, norm: &NormWeights) -> Result<()> {
    for (array, values) in norm.named() {
        let least = match array {
            "running_var" => 0.0,
            _ => -1e18,
        };
        if let Some(at) = values
            .iter()
            .position(|value| !(least..1e18).contains(value))
        {
            return Err(Error::Data(format!(
                "\"{name}.{array}\" holds {:e} at [{at}], which cannot be computed with: the head is damaged, or its training went \
                 wrong",
                values[at]
            )));
        }
    }
    Ok(())
}

/// Widths of a checked head: of the input, then of every layer's output; and its parts.
fn architecture(head: &[LayerWeights]) -> Architecture {
    let inputs = head.iter().map(|layer| layer.shape[1]);
    Architecture {
        widths: inputs
            .chain(head.last().map(|layer| layer.shape[0]))
            .collect(),
        parts: Layers {
            norm: head[0].norm.as_ref().map_or(Norm::None, NormWeights::norm),
            activation: head[0].activation,
            skip: head.last().is_some_and(|layer| layer.skip.is_some()),
        },
    }
}

fn buffers(architecture: &Architecture) -> MemoryPlan {
    let size = TILE_ROWS as u64 * stride(architecture.embedding_size()) as u64;
    let plan = architecture.plan(MemoryPlan::default(), PARAMETERS);
    Tile::plan(plan, &ACTIVATIONS, architecture, TILE_ROWS).with::<f32>(
        Purpose::Activations,
        "embed.unit",
        size,
    )
}
