//! [`Architecture`]: the shape of a head, and the places of its parameters in one vector.

use crate::base::ledger::Purpose;
use crate::base::plan::MemoryPlan;
use crate::cpu::Activation;
use crate::kernels::gemm::Layer;
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

    /// Tells if the linear output of a hidden layer is kept beside the layer's output: ReLU is a part of the product before it, and
    /// its slope is read off its output.
    pub(crate) fn keeps_linear(&self) -> bool {
        self.parts.activation != Activation::Relu && !self.hidden().is_empty()
    }

    /// Files of the kernels that its hidden layers use beside products.
    pub(crate) fn kernels(&self) -> impl Iterator<Item = &'static str> {
        let gelu = self.parts.activation == Activation::Gelu;
        [("gelu", gelu)]
            .into_iter()
            .filter_map(|(file, used)| used.then_some(file))
    }

    /// Number of a linear layer in `torch.nn.Sequential`, which counts the activations too.
    pub(crate) fn index(&self, layer: usize) -> usize {
        2 * layer
    }

    /// Floats of the padded parameters, as `u64`: possibly more than a `usize` of the browser holds.
    pub(crate) fn parameters(&self) -> u64 {
        let floats = |pair: &[usize]| {
            let (inputs, outputs) = (stride(pair[0]) as u64, stride(pair[1]) as u64);
            outputs.saturating_mul(inputs).saturating_add(outputs)
        };
        self.widths
            .windows(2)
            .map(floats)
            .fold(0, u64::saturating_add)
    }

    /// The linear layers of a head whose plan was found to fit.
    pub(crate) fn layers(&self) -> Vec<Layer> {
        let relu = self.parts.activation == Activation::Relu;
        let mut end = 0;
        self.widths
            .windows(2)
            .enumerate()
            .map(|(i, pair)| {
                let layer = Layer {
                    inputs: stride(pair[0]),
                    outputs: stride(pair[1]),
                    weights: end,
                    relu: relu && i + 2 < self.widths.len(),
                    of_relu: relu && i > 0,
                };
                end = layer.end();
                layer
            })
            .collect()
    }

    /// Adds the parameters to a plan; `label` names the model.
    pub(crate) fn plan(&self, plan: MemoryPlan, label: &'static str) -> MemoryPlan {
        plan.with::<f32>(Purpose::Weights, label, self.parameters())
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
                },
                Layer {
                    inputs: 8,
                    outputs: 4,
                    weights: 264,
                    relu: false,
                    of_relu: true,
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
}
