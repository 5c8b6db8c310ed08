//! [`EmbeddingModel`]: linear layers with ReLU between them, and dropout if asked for, from features to embeddings.
//!
//! Takes batches of features, gives rows that [`crate::kernels::normalize`] brings to unit length. Weights are initialized as
//! torch's `nn.Linear` initializes them.

use std::ops::Range;

use rand::RngExt as _;

use crate::base::error::Result;
use crate::base::ledger::Purpose;
use crate::base::plan::MemoryPlan;
use crate::base::rng;
use crate::engine::{Commands, DeviceVec, Engine, Workspace};
use crate::kernels::dropout::{self, Dropout};
use crate::kernels::gemm::{self, Input, Layer, OutputGradient};
use crate::kernels::normalize::{self, Bank, Slots};
use crate::kernels::ranks::Row;
use crate::kernels::stored::StoredRows;
use crate::kernels::tile::Shape;
use crate::kernels::{embed, stride};
use crate::model::scaling::Scaling;

/// The most layers: six hidden ones and the last.
const MAX_LAYERS: usize = 7;

/// Names of the random streams of dropout, layer by layer.
const DROPOUT: [&str; MAX_LAYERS - 1] = [
    "dropout1", "dropout2", "dropout3", "dropout4", "dropout5", "dropout6",
];

/// The layers and their weights on an engine.
#[derive(Debug)]
pub(crate) struct EmbeddingModel {
    /// Widths from the features to the embedding, without padding.
    widths: Vec<usize>,
    layers: Vec<Layer>,
    /// Tile shape of the matrix products.
    shape: Shape,
    parameters: DeviceVec<f32>,
    /// Probability that an output of a hidden layer is dropped while training.
    dropout: f32,
    /// Seed of dropout.
    seed: u64,
}

/// Purpose of a pass over rows. Random layers, such as dropout, act in training alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Training, in the step of this number: the forward and the backward pass take the same number.
    Train(u64),
    /// Everything else: a row has the same embedding each time.
    Eval,
}

/// One layer's weights on the host, under the names that `torch.nn.Sequential` gives them.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerWeights {
    /// Number of the layer in `torch.nn.Sequential`, which counts ReLUs too: 0, 2, 4, ..
    pub index: usize,
    /// Widths `[outputs, inputs]`.
    pub shape: [usize; 2],
    /// Weights, `[outputs, inputs]` row-major.
    pub weight: Vec<f32>,
    /// Biases, `[outputs]`.
    pub bias: Vec<f32>,
}

impl LayerWeights {
    /// Makes a layer that takes scaled features take the unscaled ones:
    /// `W (x - shift) scale + b = (W scale) x + (b - (W scale) shift)`.
    pub fn fold(&mut self, scaling: &Scaling) {
        let rows = self.weight.chunks_exact_mut(scaling.shift.len());
        for (row, bias) in rows.zip(&mut self.bias) {
            let mut offset = 0.0;
            for ((weight, shift), scale) in row.iter_mut().zip(&scaling.shift).zip(&scaling.scale) {
                *weight *= scale;
                offset += f64::from(*weight) * f64::from(*shift);
            }
            *bias = (f64::from(*bias) - offset) as f32;
        }
    }

    /// Resizes the outputs to this number: later ones are dropped, new ones are zero.
    pub(crate) fn resize(&mut self, outputs: usize) {
        self.weight.resize(outputs * self.shape[1], 0.0);
        self.bias.resize(outputs, 0.0);
        self.shape[0] = outputs;
    }
}

/// Output of every layer, `[rows, stride(width)]`; training keeps those of the hidden layers for the backward pass.
#[derive(Debug)]
pub(crate) struct Activations(Vec<DeviceVec<f32>>);

/// Buffers of a forward pass without a backward pass.
#[derive(Debug)]
pub(crate) struct Tile {
    input: DeviceVec<f32>,
    outputs: Activations,
}

/// Embeddings of a batch.
#[derive(Debug)]
pub(crate) struct Embedded {
    /// Divided by their length, `[rows, stride]`.
    pub(crate) unit: DeviceVec<f32>,
    /// Lengths before the division.
    pub(crate) norms: DeviceVec<f32>,
}

/// Output of the backward pass.
#[derive(Debug)]
pub(crate) struct Gradients {
    /// Gradients of the parameters, laid out like them.
    pub(crate) parameters: DeviceVec<f32>,
    /// Sticky word: set if a gradient or an embedding is not finite.
    pub(crate) status: DeviceVec<u32>,
    /// Gradients of the hidden layers' outputs; the embeddings' own are kept elsewhere.
    between: Vec<DeviceVec<f32>>,
}

impl EmbeddingModel {
    /// Floats of the padded parameters of a model of these widths, as `u64`: possibly more than a `usize` of the browser holds.
    pub(crate) fn parameters(widths: &[usize]) -> u64 {
        let floats = |pair: &[usize]| {
            let (inputs, outputs) = (stride(pair[0]) as u64, stride(pair[1]) as u64);
            outputs.saturating_mul(inputs).saturating_add(outputs)
        };
        widths.windows(2).map(floats).fold(0, u64::saturating_add)
    }

    /// Layers of a model of these widths, whose plan was found to fit.
    pub(crate) fn layers(widths: &[usize]) -> Vec<Layer> {
        let mut end = 0;
        widths
            .windows(2)
            .enumerate()
            .map(|(i, pair)| {
                let layer = Layer {
                    inputs: stride(pair[0]),
                    outputs: stride(pair[1]),
                    weights: end,
                    relu: i + 2 < widths.len(),
                };
                end = layer.end();
                layer
            })
            .collect()
    }

    /// Adds the parameters to a plan; `label` names the model.
    pub(crate) fn plan(plan: MemoryPlan, label: &'static str, widths: &[usize]) -> MemoryPlan {
        plan.with::<f32>(Purpose::Weights, label, Self::parameters(widths))
    }

    /// Takes the parameters from the workspace, all zero.
    pub(crate) fn zeroed(
        engine: &Engine,
        workspace: &mut Workspace,
        label: &str,
        widths: &[usize],
    ) -> Self {
        Self {
            widths: widths.to_vec(),
            layers: Self::layers(widths),
            shape: Shape::of_device(engine.info()),
            parameters: workspace.take(label),
            dropout: 0.0,
            seed: 0,
        }
    }

    /// This model with dropout on the outputs of its hidden layers in training; `rate` is at least 0 and below 1.
    pub(crate) fn with_dropout(self, rate: f32, seed: u64) -> Self {
        Self {
            dropout: rate,
            seed,
            ..self
        }
    }

    /// Dropout of a layer's outputs; `None` outside training, for the last layer, or at rate 0.
    pub(crate) fn dropped(&self, layer: usize, mode: Mode) -> Option<Dropout> {
        let Mode::Train(step) = mode else {
            return None;
        };
        (self.dropout > 0.0 && self.layers[layer].relu).then(|| Dropout {
            rate: self.dropout,
            key: rng::key(self.seed, DROPOUT[layer], step),
        })
    }

    /// Takes the parameters from the workspace and uploads weights.
    ///
    /// # Errors
    /// As [`Engine::upload`].
    pub(crate) async fn new(
        engine: &Engine,
        workspace: &mut Workspace,
        label: &str,
        widths: &[usize],
        weights: &[LayerWeights],
    ) -> Result<Self> {
        let mut model = Self::zeroed(engine, workspace, label, widths);
        model.set_weights(engine, weights).await?;
        Ok(model)
    }

    /// Replaces all weights.
    ///
    /// # Errors
    /// As [`Engine::upload`].
    ///
    /// # Panics
    /// When the weights have other shapes than the layers.
    pub(crate) async fn set_weights(
        &mut self,
        engine: &Engine,
        weights: &[LayerWeights],
    ) -> Result<()> {
        let mut padded = vec![0.0; self.parameter_count()];
        assert_eq!(
            weights.len(),
            self.layers.len(),
            "each layer has its weights"
        );
        for ((layer, pair), weights) in self.layers.iter().zip(self.widths.windows(2)).zip(weights)
        {
            let [outputs, inputs] = weights.shape;
            assert_eq!([inputs, outputs], *pair, "weights have their layer's shape");
            for o in 0..outputs {
                padded[layer.weights + o * layer.inputs..][..inputs]
                    .copy_from_slice(&weights.weight[o * inputs..][..inputs]);
            }
            padded[layer.bias()..][..outputs].copy_from_slice(&weights.bias);
        }
        engine.upload(&mut self.parameters, 0, &padded).await
    }

    /// Weights of torch's default initialization: uniform in +-1/sqrt(inputs), biases too.
    pub(crate) fn initial_weights(widths: &[usize], seed: u64) -> Vec<LayerWeights> {
        let mut rng = rng::stream(seed, "weights");
        let layer = |(i, pair): (usize, &[usize])| {
            let (inputs, outputs) = (pair[0], pair[1]);
            let bound = 1.0 / (inputs as f32).sqrt();
            let mut draw = |count| {
                (0..count)
                    .map(|_| rng.random_range(-bound..bound))
                    .collect()
            };
            LayerWeights {
                index: 2 * i,
                shape: [outputs, inputs],
                weight: draw(outputs * inputs),
                bias: draw(outputs),
            }
        };
        widths.windows(2).enumerate().map(layer).collect()
    }

    /// Reads the weights back.
    ///
    /// # Errors
    /// As [`Engine::read`].
    pub(crate) async fn weights(&self, engine: &Engine) -> Result<Vec<LayerWeights>> {
        self.unpad(engine, &self.parameters).await
    }

    /// Reads a vector that is laid out like the parameters, such as their gradients.
    pub(crate) async fn unpad(
        &self,
        engine: &Engine,
        padded: &DeviceVec<f32>,
    ) -> Result<Vec<LayerWeights>> {
        let padded = engine
            .read(padded, 0, self.parameter_count() as u64)
            .await?;
        let layers = self.layers.iter().zip(self.widths.windows(2)).enumerate();
        let unpad = |(i, (layer, pair)): (usize, (&Layer, &[usize]))| {
            let (inputs, outputs) = (pair[0], pair[1]);
            let rows = padded[layer.weights..layer.bias()].chunks_exact(layer.inputs);
            LayerWeights {
                index: 2 * i,
                shape: [outputs, inputs],
                weight: rows
                    .take(outputs)
                    .flat_map(|row| &row[..inputs])
                    .copied()
                    .collect(),
                bias: padded[layer.bias()..][..outputs].to_vec(),
            }
        };
        Ok(layers.map(unpad).collect())
    }

    /// Floats of the padded parameters.
    pub(crate) fn parameter_count(&self) -> usize {
        self.layers.last().map_or(0, Layer::end)
    }

    /// The padded parameters.
    pub(crate) fn padded(&self) -> &DeviceVec<f32> {
        &self.parameters
    }

    /// The padded parameters, for the optimizer.
    pub(crate) fn parameters_mut(&mut self) -> &mut DeviceVec<f32> {
        &mut self.parameters
    }

    /// Dimensions of an embedding.
    pub(crate) fn embedding_size(&self) -> usize {
        self.widths.last().copied().unwrap_or(0)
    }

    /// Columns of the features.
    pub(crate) fn input_size(&self) -> usize {
        self.widths.first().copied().unwrap_or(0)
    }

    /// Computes the outputs of as many layers as there are `outputs` for these rows of a batch.
    fn forward(
        &self,
        commands: &mut Commands,
        mode: Mode,
        rows: &Range<usize>,
        input: Input<'_>,
        outputs: &mut [DeviceVec<f32>],
    ) {
        for (i, layer) in self.layers[..outputs.len()].iter().enumerate() {
            let (before, after) = outputs.split_at_mut(i);
            let input = before.last().map_or(input, Input::from);
            let output = &mut after[0];
            gemm::forward(
                commands,
                layer,
                self.shape,
                rows.len(),
                input,
                &self.parameters,
                output,
            );
            if let Some(dropped) = self.dropped(i, mode) {
                dropout::drop(commands, &dropped, rows.clone(), layer.outputs, output);
            }
        }
    }

    /// Computes the embeddings of the first `rows` rows of a tile, not yet of unit length.
    pub(crate) fn embed(&self, commands: &mut Commands, rows: usize, tile: &mut Tile) {
        let Tile { input, outputs } = tile;
        self.forward(
            commands,
            Mode::Eval,
            &(0..rows),
            Input::from(&*input),
            &mut outputs.0,
        );
    }

    /// Computes the unit-length embeddings of these `rows` of a training batch, and stores copies of them in the memory with the
    /// labels of `batch[first ..]`. `hidden` receives the outputs of the layers before the last. An embedding whose length is not
    /// finite sets `status[0]`. Of a head without a hidden layer the whole batch goes at once.
    #[expect(clippy::too_many_arguments, reason = "what a batch passes through")]
    pub(crate) fn embed_and_store(
        &self,
        commands: &mut Commands,
        step: u64,
        rows: Range<usize>,
        input: Input<'_>,
        hidden: &mut Activations,
        batch: &DeviceVec<Row>,
        first: usize,
        slots: Slots,
        embedded: &mut Embedded,
        bank: &mut Bank,
        status: &mut DeviceVec<u32>,
    ) {
        let Embedded { unit, norms } = embedded;
        self.forward(commands, Mode::Train(step), &rows, input, &mut hidden.0);
        let layer = self.layers.last().expect("a model has a layer");
        let (shape, parameters) = (self.shape, &self.parameters);
        let input = match (hidden.0.last(), &bank.rows) {
            (Some(x), StoredRows::F32(_)) => {
                return embed::embed_and_store(
                    commands, layer, shape, rows, x, parameters, batch, first, slots, unit, norms,
                    bank, status,
                );
            }
            (Some(x), StoredRows::F16(_)) => Input::from(x),
            (None, _) => input,
        };
        gemm::forward(commands, layer, shape, rows.len(), input, parameters, unit);
        let stride = layer.outputs;
        normalize::store(
            commands, rows, stride, batch, first, slots, unit, norms, bank, status,
        );
    }

    /// Computes the outputs of the layers before the last again, as [`EmbeddingModel::embed_and_store`] did in the same step.
    pub(crate) fn activate(
        &self,
        commands: &mut Commands,
        step: u64,
        rows: &Range<usize>,
        input: Input<'_>,
        hidden: &mut Activations,
    ) {
        self.forward(commands, Mode::Train(step), rows, input, &mut hidden.0);
    }

    /// Computes the gradients of all parameters from the gradient of these `rows` of the batch's embeddings, `[batch, stride]`, after
    /// [`EmbeddingModel::embed_and_store`] or [`EmbeddingModel::activate`] of the same rows. They are added to those of the rows before.
    #[expect(clippy::too_many_arguments, reason = "what it takes and gives")]
    pub(crate) fn backward(
        &self,
        commands: &mut Commands,
        step: u64,
        rows: &Range<usize>,
        input: Input<'_>,
        hidden: &Activations,
        embedding_gradient: &DeviceVec<f32>,
        gradients: &mut Gradients,
    ) {
        let Gradients {
            parameters,
            status,
            between,
        } = gradients;
        let (count, onto) = (rows.len(), rows.start > 0);
        for (i, layer) in self.layers.iter().enumerate().rev() {
            let (before, after) = between.split_at_mut(i);
            let last = OutputGradient {
                values: embedding_gradient,
                first: rows.start,
            };
            let dy = after.first().map_or(last, OutputGradient::from);
            let Some(dx) = before.last_mut() else {
                gemm::weight_gradient(
                    commands, layer, self.shape, count, input, dy, onto, parameters, status,
                );
                continue;
            };
            gemm::backward(
                commands,
                layer,
                self.shape,
                count,
                &hidden.0[i - 1],
                dy,
                &self.parameters,
                onto,
                parameters,
                status,
                dx,
            );
            if let Some(dropped) = self.dropped(i - 1, Mode::Train(step)) {
                dropout::drop(commands, &dropped, rows.clone(), layer.inputs, dx);
            }
        }
    }
}

impl Activations {
    /// Adds matrices of `rows` rows and these widths to a plan; `labels` name the phase.
    pub(crate) fn plan(
        mut plan: MemoryPlan,
        labels: &[&'static str],
        widths: &[usize],
        rows: usize,
    ) -> MemoryPlan {
        for (label, width) in labels.iter().zip(widths) {
            let floats = rows as u64 * stride(*width) as u64;
            plan = plan.with::<f32>(Purpose::Activations, label, floats);
        }
        plan
    }

    pub(crate) fn new(
        workspace: &mut Workspace,
        labels: &[&'static str],
        widths: &[usize],
    ) -> Self {
        let take = |(label, _): (&&'static str, &usize)| workspace.take(label);
        Self(labels.iter().zip(widths).map(take).collect())
    }
}

impl Tile {
    /// Takes a tile from a workspace whose plan has [`Activations::plan`] of the same labels and widths: the input, then every
    /// layer's output.
    pub(crate) fn new(
        workspace: &mut Workspace,
        labels: &[&'static str],
        widths: &[usize],
    ) -> Self {
        Self {
            input: workspace.take(labels[0]),
            outputs: Activations::new(workspace, &labels[1..], &widths[1..]),
        }
    }

    /// Input rows of the model.
    pub(crate) fn input_mut(&mut self) -> &mut DeviceVec<f32> {
        &mut self.input
    }

    /// Output rows of the model.
    pub(crate) fn output(&self) -> &DeviceVec<f32> {
        self.outputs.0.last().expect("a model has an output")
    }
}

impl Gradients {
    const PARAMETERS: &str = "train.gradients";
    const STATUS: &str = "train.status";
    const BETWEEN: [&str; MAX_LAYERS - 1] = [
        "train.delta1",
        "train.delta2",
        "train.delta3",
        "train.delta4",
        "train.delta5",
        "train.delta6",
    ];

    pub(crate) fn plan(plan: MemoryPlan, widths: &[usize], rows: usize) -> MemoryPlan {
        let parameters = EmbeddingModel::parameters(widths);
        let mut plan = plan
            .with::<f32>(Purpose::Gradients, Self::PARAMETERS, parameters)
            .with::<u32>(Purpose::Staging, Self::STATUS, 1);
        for (label, width) in Self::hidden(widths) {
            let floats = rows as u64 * stride(width) as u64;
            plan = plan.with::<f32>(Purpose::Activations, label, floats);
        }
        plan
    }

    pub(crate) fn new(workspace: &mut Workspace, widths: &[usize]) -> Self {
        Self {
            parameters: workspace.take(Self::PARAMETERS),
            status: workspace.take(Self::STATUS),
            between: Self::hidden(widths)
                .map(|(label, _)| workspace.take(label))
                .collect(),
        }
    }

    fn hidden(widths: &[usize]) -> impl Iterator<Item = (&'static str, usize)> {
        let hidden = widths[1..widths.len() - 1].to_vec();
        Self::BETWEEN.into_iter().zip(hidden)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_follow_each_other_in_one_vector_and_the_last_has_no_relu() {
        let layers = EmbeddingModel::layers(&[30, 8, 2]);
        assert_eq!(
            layers,
            [
                Layer {
                    inputs: 32,
                    outputs: 8,
                    weights: 0,
                    relu: true,
                },
                Layer {
                    inputs: 8,
                    outputs: 4,
                    weights: 264,
                    relu: false,
                }
            ]
        );
        assert_eq!(layers[1].end(), 264 + 36);
        assert_eq!(EmbeddingModel::parameters(&[30, 8, 2]), 264 + 36);
    }

    #[test]
    fn parameters_are_counted_past_what_32_bits_hold() {
        let most = [64, 1 << 16, 1 << 16, 64];
        let weights = (64 << 16) + (1 << 32) + (64 << 16);
        assert_eq!(EmbeddingModel::parameters(&most), weights + (2 << 16) + 64);
    }

    #[test]
    fn weights_start_within_torchs_bounds() {
        let weights = EmbeddingModel::initial_weights(&[64, 256, 64], 0);
        assert_eq!(weights.iter().map(|w| w.index).collect::<Vec<_>>(), [0, 2]);
        for layer in &weights {
            let bound = 1.0 / (layer.shape[1] as f32).sqrt();
            let all = || layer.weight.iter().chain(&layer.bias);
            assert!(all().all(|w| w.abs() <= bound));
            // The extremes of a uniform draw of this many come within one percent of its bounds.
            assert!(all().any(|w| *w > 0.99 * bound) && all().any(|w| *w < -0.99 * bound));
        }
    }
}
