//! [`Architecture`]: the shape of a head, and the places of its parameters in one vector.

use crate::base::ledger::Purpose;
use crate::base::plan::MemoryPlan;
use crate::cpu::{Activation, Norm};
use crate::kernels::gemm::Layer;
use crate::kernels::norm::NormLayer;
use crate::kernels::stride;
use crate::rules::config::{Layers, TrainConfig};

/// The most layers: six hidden ones and the last.
pub(super) const MAX_LAYERS: usize = 7;

/// Widths of a head's layers, and the parts beside them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Architecture {
    /// Widths from the features to the embedding, without padding.
    pub(crate) widths: Vec<usize>,
    /// The parts of the hidden layers.
    pub(crate) parts: Layers,
}

impl Architecture {
    /// The head of a run on rows of `inputs` features.
    pub(crate) fn of(inputs: usize, config: &TrainConfig) -> Self {
        let outputs = config.embedding_size;
        Self {
            widths: [&[inputs], &config.hidden_layers[..], &[outputs]].concat(),
            parts: config.layers,
        }
    }

    /// One linear layer.
    pub(crate) fn linear(inputs: usize, outputs: usize) -> Self {
        Self {
            widths: vec![inputs, outputs],
            parts: Layers::default(),
        }
    }

    /// Widths of the hidden layers.
    pub(crate) fn hidden(&self) -> &[usize] {
        &self.widths[1..self.widths.len() - 1]
    }

    /// Dimensions of an embedding.
    pub(crate) fn embedding_size(&self) -> usize {
        self.widths.last().copied().unwrap_or(0)
    }

    /// Tells if ReLU alone follows a hidden layer: it is a part of the product, and its slope is read off its output.
    fn is_plain(&self) -> bool {
        self.parts.activation == Activation::Relu && self.parts.norm == Norm::None
    }

    /// Tells if the linear output of a hidden layer is kept beside the layer's output.
    pub(crate) fn keeps_linear(&self) -> bool {
        !self.is_plain() && !self.hidden().is_empty()
    }

    /// Tells if a hidden layer has batch norm.
    pub(crate) fn has_batch_norm(&self) -> bool {
        self.parts.norm == Norm::BatchNorm && !self.hidden().is_empty()
    }

    /// Tells if a batch has to go through the head as a whole, in training.
    pub(crate) fn takes_whole_batches(&self) -> bool {
        self.has_batch_norm() || self.hidden().is_empty()
    }

    /// The most dispatches of a forward and a backward pass beside products of the layers and dropout.
    pub(crate) fn dispatches(&self) -> u32 {
        let of_hidden = match self.keeps_linear() {
            true => 5 * self.hidden().len() as u32,
            false => 0,
        };
        of_hidden + 3 * u32::from(self.has_skip())
    }

    /// Tells if a linear map of the input is added to the output. Without hidden layers the head is such a map by itself.
    pub(crate) fn has_skip(&self) -> bool {
        self.parts.skip && !self.hidden().is_empty()
    }

    /// That map: its weights follow those of the last layer.
    pub(crate) fn skip(&self) -> Option<Layer> {
        let last = self.layers().pop().filter(|_| self.has_skip())?;
        Some(Layer {
            inputs: stride(self.widths[0]),
            outputs: last.outputs,
            weights: last.end(),
            relu: false,
            of_relu: false,
            adds: true,
        })
    }

    /// Floats of that map, padded as it is stored.
    fn of_skip(&self) -> u64 {
        let [inputs, outputs] = [self.widths[0], self.embedding_size()];
        match self.has_skip() {
            true => (stride(inputs) as u64).saturating_mul(stride(outputs) as u64),
            false => 0,
        }
    }

    /// Multiplications and additions of one row's forward pass.
    pub(crate) fn operations(&self) -> f64 {
        let layers = self.widths.windows(2);
        let products: f64 = layers.map(|pair| 2.0 * (pair[0] * pair[1]) as f64).sum();
        match self.has_skip() {
            true => products + 2.0 * (self.widths[0] * self.embedding_size()) as f64,
            false => products,
        }
    }

    /// Files of the kernels that its hidden layers use beside products.
    pub(crate) fn kernels(&self) -> impl Iterator<Item = &'static str> {
        let norm = self.parts.norm != Norm::None;
        let gelu = !norm && self.parts.activation == Activation::Gelu;
        [("gelu", gelu), ("norm", norm)]
            .into_iter()
            .filter_map(|(file, used)| used.then_some(file))
    }

    /// Number of a linear layer in `torch.nn.Sequential`, which counts norms and activations too.
    pub(crate) fn index(&self, layer: usize) -> usize {
        match self.parts.norm {
            Norm::None => 2 * layer,
            Norm::LayerNorm | Norm::BatchNorm => 3 * layer,
        }
    }

    /// Floats of the padded parameters that are learned, as `u64`: possibly more than a `usize` of the browser holds.
    pub(crate) fn parameters(&self) -> u64 {
        let floats = |pair: &[usize]| {
            let (inputs, outputs) = (stride(pair[0]) as u64, stride(pair[1]) as u64);
            outputs.saturating_mul(inputs).saturating_add(outputs)
        };
        self.widths
            .windows(2)
            .map(floats)
            .fold(self.of_norms() + self.of_skip(), u64::saturating_add)
    }

    /// Floats of gains and shifts of the norms; as many are running means and variances, if there are any.
    fn of_norms(&self) -> u64 {
        if self.parts.norm == Norm::None {
            return 0;
        }
        let floats = |width: &usize| 2 * stride(*width) as u64;
        self.hidden().iter().map(floats).sum()
    }

    /// Floats of running means and variances, which come after the learned parameters.
    pub(crate) fn running(&self) -> u64 {
        match self.parts.norm {
            Norm::BatchNorm => self.of_norms(),
            Norm::None | Norm::LayerNorm => 0,
        }
    }

    /// The linear layers of a head whose plan was found to fit.
    pub(crate) fn layers(&self) -> Vec<Layer> {
        let relu = self.parts.activation == Activation::Relu;
        let norms = usize::from(self.parts.norm != Norm::None);
        let mut end = 0;
        self.widths
            .windows(2)
            .enumerate()
            .map(|(i, pair)| {
                let layer = Layer {
                    inputs: stride(pair[0]),
                    outputs: stride(pair[1]),
                    weights: end,
                    relu: self.is_plain() && i + 2 < self.widths.len(),
                    of_relu: relu && i > 0,
                    adds: false,
                };
                // Gains and shifts follow a hidden layer.
                end = layer.end() + norms * 2 * layer.outputs;
                layer
            })
            .collect()
    }

    /// The norms of its hidden layers, if they have norms.
    pub(crate) fn norms(&self) -> Vec<NormLayer> {
        if self.parts.norm == Norm::None {
            return Vec::new();
        }
        let layers = self.layers();
        let mut running = self.parameters() as usize;
        let hidden = layers.iter().zip(self.hidden());
        hidden
            .map(|(layer, width)| {
                let norm = NormLayer {
                    norm: self.parts.norm,
                    width: *width,
                    stride: layer.outputs,
                    gain: layer.end(),
                    running,
                    activation: self.parts.activation,
                };
                running += 2 * layer.outputs;
                norm
            })
            .collect()
    }

    /// Floats of the padded parameters, running means and variances included.
    pub(crate) fn state(&self) -> u64 {
        self.parameters().saturating_add(self.running())
    }

    /// Adds the parameters to a plan; `label` names the model.
    pub(crate) fn plan(&self, plan: MemoryPlan, label: &'static str) -> MemoryPlan {
        plan.with::<f32>(Purpose::Weights, label, self.state())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(widths: &[usize]) -> Architecture {
        Architecture {
            widths: widths.to_vec(),
            parts: Layers::default(),
        }
    }

    #[test]
    fn layers_follow_each_other_in_one_vector_and_the_last_has_no_relu() {
        let layers = of(&[30, 8, 2]).layers();
        assert_eq!(
            layers,
            [
                Layer {
                    inputs: 32,
                    outputs: 8,
                    weights: 0,
                    relu: true,
                    of_relu: false,
                    adds: false,
                },
                Layer {
                    inputs: 8,
                    outputs: 4,
                    weights: 264,
                    relu: false,
                    of_relu: true,
                    adds: false,
                }
            ]
        );
        assert_eq!(layers[1].end(), 264 + 36);
        assert_eq!(of(&[30, 8, 2]).parameters(), 264 + 36);
    }

    #[test]
    fn parameters_are_counted_past_what_32_bits_hold() {
        let most = [64, 1 << 16, 1 << 16, 64];
        let weights = (64 << 16) + (1 << 32) + (64 << 16);
        assert_eq!(of(&most).parameters(), weights + (2 << 16) + 64);
    }

    #[test]
    fn norms_follow_their_layers_and_running_moments_follow_all() {
        let with = |norm| Architecture {
            parts: Layers {
                norm,
                ..Layers::default()
            },
            ..of(&[30, 8, 6, 2])
        };
        let layer = with(Norm::LayerNorm);
        let weights: Vec<usize> = layer.layers().iter().map(|layer| layer.weights).collect();
        assert_eq!(weights, [0, 264 + 16, 280 + 72 + 16]);
        assert_eq!((layer.parameters(), layer.running()), (368 + 36, 0));
        let batch = with(Norm::BatchNorm);
        let norms = batch.norms();
        let places = |norm: &NormLayer| (norm.width, norm.stride, norm.gain, norm.running);
        assert_eq!(places(&norms[0]), (8, 8, 264, 404));
        assert_eq!(places(&norms[1]), (6, 8, 280 + 72, 420));
        assert_eq!(batch.running(), 32);
    }

    #[test]
    fn a_skip_follows_the_last_layer_and_a_linear_head_has_none() {
        let with = |widths: &[usize]| Architecture {
            parts: Layers {
                norm: Norm::BatchNorm,
                skip: true,
                ..Layers::default()
            },
            ..of(widths)
        };
        let head = with(&[30, 8, 2]);
        let skip = head.skip().expect("has one");
        assert_eq!((skip.inputs, skip.outputs, skip.weights), (32, 4, 316));
        assert_eq!((skip.bias(), skip.end()), (316 + 128, 316 + 128));
        assert_eq!(head.parameters(), skip.end() as u64);
        assert_eq!(head.norms()[0].running, skip.end());
        assert_eq!(head.operations(), 2.0 * (240.0 + 16.0 + 60.0));
        let linear = with(&[30, 2]);
        assert_eq!((linear.skip(), linear.parameters()), (None, 128 + 4));
    }
}
