//! [`LayerWeights`]: weights of a linear layer of a head on the host, and what follows it.

use crate::cpu::Activation;
use crate::model::scaling::Scaling;

/// One layer's weights on the host, under the names that `torch.nn.Sequential` gives them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LayerWeights {
    /// Number of the layer in `torch.nn.Sequential`, which counts activations too: 0, 2, 4, ..
    pub index: usize,
    /// Widths `[outputs, inputs]`.
    pub shape: [usize; 2],
    /// Weights, `[outputs, inputs]` row-major.
    pub weight: Vec<f32>,
    /// Biases, `[outputs]`.
    pub bias: Vec<f32>,
    /// Function after it, if it is a hidden layer.
    pub activation: Activation,
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
