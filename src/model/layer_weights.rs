//! [`LayerWeights`]: weights of a linear layer of a head on the host, and what follows it.

use crate::cpu::{Activation, Norm};
use crate::model::scaling::Scaling;

/// One layer's weights on the host, under the names that `torch.nn.Sequential` gives them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LayerWeights {
    /// Number of the layer in `torch.nn.Sequential`, which counts norms and activations too: 0, 2, 4, .. or 0, 3, 6, ..
    pub index: usize,
    /// Widths `[outputs, inputs]`.
    pub shape: [usize; 2],
    /// Weights, `[outputs, inputs]` row-major.
    pub weight: Vec<f32>,
    /// Biases, `[outputs]`.
    pub bias: Vec<f32>,
    /// Norm after it, if it is a hidden layer that has one.
    pub norm: Option<NormWeights>,
    /// Function after it and its norm, if it is a hidden layer.
    pub activation: Activation,
    /// Linear map of the head's input that is added to its outputs, `[outputs, inputs of the head]` row-major, if it is the last layer
    /// of a head with a skip.
    pub skip: Option<Vec<f32>>,
}

/// Weights of a layer norm or a batch norm on the host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NormWeights {
    /// Gains, `[outputs]`.
    pub weight: Vec<f32>,
    /// Shifts, `[outputs]`.
    pub bias: Vec<f32>,
    /// Running means and variances of batch norm, `[outputs]` each.
    pub running: Option<[Vec<f32>; 2]>,
}

impl NormWeights {
    /// Those of torch's first step: gains and variances 1, shifts and means 0.
    pub(crate) fn initial(norm: Norm, width: usize) -> Option<Self> {
        let [ones, zeros] = [1.0, 0.0].map(|value| vec![value; width]);
        let running = match norm {
            Norm::None => return None,
            Norm::LayerNorm => None,
            Norm::BatchNorm => Some([zeros.clone(), ones.clone()]),
        };
        Some(Self {
            weight: ones,
            bias: zeros,
            running,
        })
    }

    /// Layer norm or batch norm.
    pub(crate) fn norm(&self) -> Norm {
        match self.running {
            Some(_) => Norm::BatchNorm,
            None => Norm::LayerNorm,
        }
    }

    /// Its arrays, each under the name that torch gives it.
    pub(crate) fn named(&self) -> impl Iterator<Item = (&'static str, &Vec<f32>)> {
        let running = self
            .running
            .as_ref()
            .map(|[mean, variance]| [("running_mean", mean), ("running_var", variance)]);
        let learned = [("weight", &self.weight), ("bias", &self.bias)];
        learned.into_iter().chain(running.into_iter().flatten())
    }

    /// A norm of `next` arrays in the order of [`NormWeights::named`]; `None` if there is no norm.
    pub(crate) fn read<E>(
        norm: Norm,
        mut next: impl FnMut(&'static str) -> Result<Vec<f32>, E>,
    ) -> Result<Option<Self>, E> {
        if norm == Norm::None {
            return Ok(None);
        }
        Ok(Some(Self {
            weight: next("weight")?,
            bias: next("bias")?,
            running: match norm {
                Norm::BatchNorm => Some([next("running_mean")?, next("running_var")?]),
                Norm::None | Norm::LayerNorm => None,
            },
        }))
    }
}

impl LayerWeights {
    /// Makes a layer that takes scaled features take the unscaled ones:
    /// `W (x - shift) scale + b = (W scale) x + (b - (W scale) shift)`.
    pub fn fold(&mut self, scaling: &Scaling) {
        fold(&mut self.weight, &mut self.bias, scaling);
    }

    /// Makes a head that takes scaled features take the unscaled ones: its first layer, and the skip, whose offset the last layer's
    /// bias takes.
    pub(crate) fn fold_head(head: &mut [Self], scaling: &Scaling) {
        if let Some(first) = head.first_mut() {
            first.fold(scaling);
        }
        if let Some(last) = head.last_mut()
            && let Some(skip) = &mut last.skip
        {
            fold(skip, &mut last.bias, scaling);
        }
    }

    /// Resizes the outputs to this number: later ones are dropped, new ones are zero.
    pub(crate) fn resize(&mut self, outputs: usize) {
        self.weight.resize(outputs * self.shape[1], 0.0);
        self.bias.resize(outputs, 0.0);
        self.shape[0] = outputs;
    }
}

/// Makes a map of scaled features one of the unscaled ones; the bias takes what the shift adds up to.
fn fold(weight: &mut [f32], bias: &mut [f32], scaling: &Scaling) {
    let rows = weight.chunks_exact_mut(scaling.shift.len());
    for (row, bias) in rows.zip(bias) {
        let mut offset = 0.0;
        for ((weight, shift), scale) in row.iter_mut().zip(&scaling.shift).zip(&scaling.scale) {
            *weight *= scale;
            offset += f64::from(*weight) * f64::from(*shift);
        }
        *bias = (f64::from(*bias) - offset) as f32;
    }
}
