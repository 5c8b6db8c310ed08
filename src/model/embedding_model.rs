//! [`EmbeddingModel`]: linear layers with an activation between them, and dropout if asked for, from features to embeddings.
//!
//! Takes batches of features, gives rows that [`crate::kernels::normalize`] brings to unit length. Weights are initialized as
//! torch's `nn.Linear` initializes them.

use std::ops::Range;

use rand::RngExt as _;

use crate::base::error::Result;
use crate::base::rng;
use crate::cpu::Norm;
use crate::engine::{Commands, DeviceVec, Engine, Workspace};
use crate::kernels::cast;
use crate::kernels::dropout::{self, Dropout};
use crate::kernels::embed;
use crate::kernels::gelu;
use crate::kernels::gemm::{self, Input, Layer, OutputGradient};
use crate::kernels::norm::{self, NormLayer};
use crate::kernels::normalize::{self, Bank, Slots};
use crate::kernels::ranks::Row;
use crate::kernels::stored::StoredRows;
use crate::kernels::tile::Shape;
use crate::model::activations::{Activations, Tile};
use crate::model::architecture::{Architecture, MAX_LAYERS};
use crate::model::gradients::Gradients;
use crate::model::layer_weights::{LayerWeights, NormWeights};

/// Names of the random streams of dropout, layer by layer.
const DROPOUT: [&str; MAX_LAYERS - 1] = [
    "dropout1", "dropout2", "dropout3", "dropout4", "dropout5", "dropout6",
];

/// The layers and their weights on an engine.
#[derive(Debug)]
pub(crate) struct EmbeddingModel {
    architecture: Architecture,
    layers: Vec<Layer>,
    /// The norms of the hidden layers, if they have norms.
    norms: Vec<NormLayer>,
    /// The map of the input that is added to the output, if it has one.
    skip: Option<Layer>,
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

/// Embeddings of a batch.
#[derive(Debug)]
pub(crate) struct Embedded {
    /// Divided by their length, `[rows, stride]`.
    pub(crate) unit: DeviceVec<f32>,
    /// Lengths before the division.
    pub(crate) norms: DeviceVec<f32>,
}

impl EmbeddingModel {
    /// Takes the parameters from the workspace, all zero.
    pub(crate) fn zeroed(
        engine: &Engine,
        workspace: &mut Workspace,
        label: &str,
        architecture: &Architecture,
    ) -> Self {
        Self {
            architecture: architecture.clone(),
            layers: architecture.layers(),
            norms: architecture.norms(),
            skip: architecture.skip(),
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
        let hidden = layer + 1 < self.layers.len();
        (self.dropout > 0.0 && hidden).then(|| Dropout {
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
        architecture: &Architecture,
        weights: &[LayerWeights],
    ) -> Result<Self> {
        let mut model = Self::zeroed(engine, workspace, label, architecture);
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
        let mut padded = vec![0.0; self.state_count()];
        assert_eq!(
            weights.len(),
            self.layers.len(),
            "each layer has its weights"
        );
        for ((layer, pair), weights) in self
            .layers
            .iter()
            .zip(self.architecture.widths.windows(2))
            .zip(weights)
        {
            let [outputs, inputs] = weights.shape;
            assert_eq!([inputs, outputs], *pair, "weights have their layer's shape");
            for o in 0..outputs {
                padded[layer.weights + o * layer.inputs..][..inputs]
                    .copy_from_slice(&weights.weight[o * inputs..][..inputs]);
            }
            padded[layer.bias()..][..outputs].copy_from_slice(&weights.bias);
        }
        for (norm, layer) in self.norms.iter().zip(weights) {
            let own = layer.norm.as_ref().expect("hidden layers have norms");
            let running = norm.running;
            let places = [norm.gain, norm.shift(), running, running + norm.stride];
            for (place, (_, values)) in places.into_iter().zip(own.named()) {
                padded[place..][..norm.width].copy_from_slice(values);
            }
        }
        if let Some(layer) = &self.skip {
            let skip = weights.last().and_then(|last| last.skip.as_ref());
            let rows = skip
                .expect("a head with a skip has its weights")
                .chunks_exact(self.input_size());
            let places = padded[layer.weights..layer.end()].chunks_exact_mut(layer.inputs);
            for (place, row) in places.zip(rows) {
                place[..row.len()].copy_from_slice(row);
            }
        }
        engine.upload(&mut self.parameters, 0, &padded).await
    }

    /// Weights of torch's default initialization: uniform in +-1/sqrt(inputs), biases too. Those of a skip are drawn last.
    pub(crate) fn initial_weights(architecture: &Architecture, seed: u64) -> Vec<LayerWeights> {
        let mut rng = rng::stream(seed, "weights");
        let mut draw = |inputs: usize, count: usize| -> Vec<f32> {
            let bound = 1.0 / (inputs as f32).sqrt();
            (0..count)
                .map(|_| rng.random_range(-bound..bound))
                .collect()
        };
        let layer = |(i, pair): (usize, &[usize])| {
            let (inputs, outputs) = (pair[0], pair[1]);
            LayerWeights {
                index: architecture.index(i),
                shape: [outputs, inputs],
                weight: draw(inputs, outputs * inputs),
                bias: draw(inputs, outputs),
                norm: match i + 2 < architecture.widths.len() {
                    true => NormWeights::initial(architecture.parts.norm, outputs),
                    false => None,
                },
                activation: architecture.parts.activation,
                skip: None,
            }
        };
        let widths = &architecture.widths;
        let mut weights: Vec<LayerWeights> = widths.windows(2).enumerate().map(layer).collect();
        if let Some(last) = weights.last_mut().filter(|_| architecture.has_skip()) {
            last.skip = Some(draw(widths[0], last.shape[0] * widths[0]));
        }
        weights
    }

    /// Reads the weights back.
    ///
    /// # Errors
    /// As [`Engine::read`].
    pub(crate) async fn weights(&self, engine: &Engine) -> Result<Vec<LayerWeights>> {
        self.unpad(engine, &self.parameters, self.state_count())
            .await
    }

    /// Reads a vector of so many floats that is laid out like the parameters, such as their gradients.
    pub(crate) async fn unpad(
        &self,
        engine: &Engine,
        padded: &DeviceVec<f32>,
        floats: usize,
    ) -> Result<Vec<LayerWeights>> {
        let padded = engine.read(padded, 0, floats as u64).await?;
        let layers = self
            .layers
            .iter()
            .zip(self.architecture.widths.windows(2))
            .enumerate();
        let unpad = |(i, (layer, pair)): (usize, (&Layer, &[usize]))| {
            let (inputs, outputs) = (pair[0], pair[1]);
            let rows = padded[layer.weights..layer.bias()].chunks_exact(layer.inputs);
            LayerWeights {
                index: self.architecture.index(i),
                shape: [outputs, inputs],
                weight: rows
                    .take(outputs)
                    .flat_map(|row| &row[..inputs])
                    .copied()
                    .collect(),
                bias: padded[layer.bias()..][..outputs].to_vec(),
                norm: self.norms.get(i).map(|norm| unpadded(norm, &padded)),
                activation: self.architecture.parts.activation,
                skip: None,
            }
        };
        let mut weights: Vec<LayerWeights> = layers.map(unpad).collect();
        if let (Some(layer), Some(last)) = (&self.skip, weights.last_mut()) {
            let inputs = self.input_size();
            let rows = padded[layer.weights..layer.end()].chunks_exact(layer.inputs);
            let rows = rows.take(last.shape[0]).flat_map(|row| &row[..inputs]);
            last.skip = Some(rows.copied().collect());
        }
        Ok(weights)
    }

    /// Floats of the padded parameters that are learned.
    pub(crate) fn parameter_count(&self) -> usize {
        let skip = self.skip.as_ref();
        skip.or(self.layers.last()).map_or(0, Layer::end)
    }

    /// Floats of the padded parameters, running means and variances included.
    pub(crate) fn state_count(&self) -> usize {
        self.parameter_count() + self.architecture.running() as usize
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
        self.architecture.embedding_size()
    }

    /// Columns of the features.
    pub(crate) fn input_size(&self) -> usize {
        self.architecture.widths.first().copied().unwrap_or(0)
    }

    /// Adds the map of the input to the outputs of the last layer, if there is one.
    fn add_skip(
        &self,
        commands: &mut Commands,
        count: usize,
        input: Input<'_>,
        output: &mut DeviceVec<f32>,
    ) {
        if let Some(skip) = &self.skip {
            let (shape, parameters) = (self.shape, &self.parameters);
            gemm::forward(commands, skip, shape, count, input, parameters, output);
        }
    }

    /// Computes as many layers as there are outputs for these rows of a batch; `gradients` are those of a training batch, not yet
    /// computed.
    fn forward(
        &self,
        commands: &mut Commands,
        mode: Mode,
        rows: &Range<usize>,
        input: Input<'_>,
        activations: &mut Activations,
        mut gradients: Option<&mut Gradients>,
    ) {
        let Activations {
            outputs,
            linear,
            moments,
        } = activations;
        let hidden = self.layers.len() - 1;
        for (i, layer) in self.layers[..outputs.len()].iter().enumerate() {
            let (before, after) = outputs.split_at_mut(i);
            let input = before.last().map_or(input, |x| x.read().into());
            let (shape, parameters, count) = (self.shape, &self.parameters, rows.len());
            let values = count * layer.outputs;
            let of_all = linear.len().saturating_sub(1);
            let apart = linear.get_mut(i.min(of_all)).filter(|_| i < hidden);
            let apart = apart.map(|linear| {
                let gradients = gradients.as_deref_mut();
                store(commands, values, i, linear, gradients, |commands, y| {
                    gemm::forward(commands, layer, shape, count, input, parameters, y);
                });
                linear.read()
            });
            let of_all = moments.len().saturating_sub(1);
            let moments = moments.get_mut(i.min(of_all));
            let gradients = gradients.as_deref_mut();
            store(
                commands,
                values,
                i,
                &mut after[0],
                gradients,
                |commands, y| {
                    match (apart, self.norms.get(i)) {
                        (None, _) => {
                            gemm::forward(commands, layer, shape, count, input, parameters, y);
                        }
                        (Some(x), Some(norm)) => {
                            norm::forward(commands, norm, count, x, parameters, moments, y);
                        }
                        (Some(x), None) => gelu::forward(commands, values, x, y),
                    }
                    if let Some(dropped) = self.dropped(i, mode) {
                        dropout::drop(commands, &dropped, rows.clone(), layer.outputs, y);
                    }
                },
            );
        }
    }

    /// Computes the embeddings of the first `rows` rows of a tile, not yet of unit length.
    pub(crate) fn embed(&self, commands: &mut Commands, rows: usize, tile: &mut Tile) {
        let Tile { input, outputs } = tile;
        let input = Input::from(&*input);
        self.forward(commands, Mode::Eval, &(0..rows), input, outputs, None);
        let output = outputs.outputs.last_mut().expect("a model has an output");
        self.add_skip(commands, rows, input, output.floats_mut());
    }

    /// Computes the unit-length embeddings of these `rows` of a training batch, and stores copies of them in the memory with the
    /// labels of `batch[first ..]`. `hidden` receives the outputs of the layers before the last. An embedding whose length is not
    /// finite sets the status of `gradients`, which are not yet computed. Of a head without a hidden layer the whole batch goes at once.
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
        gradients: &mut Gradients,
    ) {
        let Embedded { unit, norms } = embedded;
        let mode = Mode::Train(step);
        self.forward(commands, mode, &rows, input, hidden, Some(&mut *gradients));
        let status = &mut gradients.status;
        let layer = self.layers.last().expect("a model has a layer");
        let (shape, parameters) = (self.shape, &self.parameters);
        let (count, stride) = (rows.len(), layer.outputs);
        let of_layer = match (hidden.outputs.last(), &bank.rows) {
            (Some(x), StoredRows::F32(_)) if self.skip.is_none() => {
                return embed::embed_and_store(
                    commands,
                    layer,
                    shape,
                    rows,
                    x.read(),
                    parameters,
                    batch,
                    first,
                    slots,
                    unit,
                    norms,
                    bank,
                    status,
                );
            }
            (Some(x), _) => x.read().into(),
            (None, _) => input,
        };
        gemm::forward(commands, layer, shape, count, of_layer, parameters, unit);
        self.add_skip(commands, count, input, unit);
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
        gradients: &mut Gradients,
    ) {
        let mode = Mode::Train(step);
        self.forward(commands, mode, rows, input, hidden, Some(gradients));
    }

    /// Moves running means and variances towards those of the batch of `rows` rows that went through the head last, unless
    /// `status[0]` is set.
    pub(crate) fn follow(
        &mut self,
        commands: &mut Commands,
        rows: usize,
        hidden: &Activations,
        status: &DeviceVec<u32>,
    ) {
        if self.architecture.running() > 0 {
            for (norm, moments) in self.norms.iter().zip(&hidden.moments) {
                norm::follow(commands, norm, rows, moments, status, &mut self.parameters);
            }
        }
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
        let last = OutputGradient {
            values: embedding_gradient,
            first: rows.start,
        };
        if let Some(skip) = &self.skip {
            gemm::weight_gradient(
                commands, skip, self.shape, count, input, last, onto, parameters, status,
            );
        }
        for (i, layer) in self.layers.iter().enumerate().rev() {
            let (before, after) = between.split_at_mut(i);
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
                hidden.outputs[i - 1].read(),
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
            self.bend_back(commands, i - 1, rows, hidden, dx, parameters, status);
        }
    }

    /// Turns `gradient`, that of the outputs of a hidden layer, into that of its linear outputs, where the product did not do so,
    /// and computes the gradients of its norm.
    #[expect(clippy::too_many_arguments, reason = "what it takes and gives")]
    fn bend_back(
        &self,
        commands: &mut Commands,
        place: usize,
        rows: &Range<usize>,
        hidden: &Activations,
        gradient: &mut DeviceVec<f32>,
        gradients: &mut DeviceVec<f32>,
        status: &mut DeviceVec<u32>,
    ) {
        let count = rows.len();
        match (hidden.linear.get(place), self.norms.get(place)) {
            (Some(linear), Some(norm)) => norm::backward(
                commands,
                norm,
                count,
                rows.start > 0,
                linear.read(),
                &self.parameters,
                &hidden.moments[place],
                gradient,
                gradients,
                status,
            ),
            (Some(linear), None) => {
                gelu::backward(
                    commands,
                    count * self.layers[place].outputs,
                    linear.read(),
                    gradient,
                );
            }
            (None, _) => {}
        }
    }
}

/// Stores `values` activations of a hidden layer as `compute` writes them: rounded, if half precision is asked for. Then the layer's
/// gradient, which is not there yet, takes them before.
fn store(
    commands: &mut Commands,
    values: usize,
    layer: usize,
    to: &mut StoredRows,
    gradients: Option<&mut Gradients>,
    compute: impl FnOnce(&mut Commands, &mut DeviceVec<f32>),
) {
    match to {
        StoredRows::F32(floats) => compute(commands, floats),
        StoredRows::F16(words) => {
            let gradients = gradients.expect("a batch that trains has gradients");
            let floats = &mut gradients.between[layer];
            compute(commands, floats);
            cast::cast(commands, values, floats, words, &mut gradients.status);
        }
    }
}

/// The weights of a norm in a vector that is laid out like the parameters, with or without running means and variances.
fn unpadded(norm: &NormLayer, padded: &[f32]) -> NormWeights {
    let of = |start: usize| padded[start..][..norm.width].to_vec();
    let has_running = norm.norm == Norm::BatchNorm && padded.len() > norm.running;
    NormWeights {
        weight: of(norm.gain),
        bias: of(norm.shift()),
        running: has_running.then(|| [of(norm.running), of(norm.running + norm.stride)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::config::Layers;

    #[test]
    fn weights_start_within_torchs_bounds() {
        let architecture = Architecture {
            widths: vec![64, 256, 64],
            parts: Layers::default(),
        };
        let weights = EmbeddingModel::initial_weights(&architecture, 0);
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
