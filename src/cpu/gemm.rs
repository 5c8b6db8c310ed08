//! The matrix products of a linear layer.

use super::SEGMENT;

/// A gradient this large has no finite square.
const HUGE: f32 = 1e18;

/// A linear layer's place in the flat vector of parameters: `W` `[outputs, inputs]`, then `b` `[outputs]`, both sides
/// padded to 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Floats of a row of its input, padding included.
    pub inputs: usize,
    /// Floats of a row of its output, padding included.
    pub outputs: usize,
    /// Where `W` begins, in floats.
    pub weights: usize,
    /// Whether a ReLU follows.
    pub relu: bool,
}

impl Layer {
    /// Where `b` begins, in floats.
    pub fn bias(&self) -> usize {
        self.weights + self.outputs * self.inputs
    }

    /// Where the next layer begins, in floats.
    pub fn end(&self) -> usize {
        self.bias() + self.outputs
    }
}

/// `y = x W^T + b`, through a ReLU where the layer has one.
pub(crate) fn forward(layer: &Layer, rows: usize, x: &[f32], parameters: &[f32], y: &mut [f32]) {
    let weights = &parameters[layer.weights..layer.bias()];
    let bias = &parameters[layer.bias()..layer.end()];
    let rows = x
        .chunks_exact(layer.inputs)
        .zip(y.chunks_exact_mut(layer.outputs))
        .take(rows);
    for (x, y) in rows {
        // Four results at a time: each has one accumulator, and the four chains overlap.
        for ((y, w), bias) in y
            .chunks_exact_mut(4)
            .zip(weights.chunks_exact(4 * layer.inputs))
            .zip(bias.chunks_exact(4))
        {
            let mut acc = [0.0; 4];
            for (k, x) in x.iter().enumerate() {
                for (o, acc) in acc.iter_mut().enumerate() {
                    *acc += x * w[o * layer.inputs + k];
                }
            }
            for ((y, acc), bias) in y.iter_mut().zip(acc).zip(bias) {
                let sum = acc + bias;
                *y = if layer.relu { sum.max(0.0) } else { sum };
            }
        }
    }
}

/// `dx = dy W`, zero where `x` is not positive.
pub(crate) fn input_gradient(
    layer: &Layer,
    rows: usize,
    dy: &[f32],
    parameters: &[f32],
    x: &[f32],
    dx: &mut [f32],
) {
    let weights = &parameters[layer.weights..layer.bias()];
    for ((dy, x), dx) in dy
        .chunks_exact(layer.outputs)
        .zip(x.chunks_exact(layer.inputs))
        .zip(dx.chunks_exact_mut(layer.inputs))
        .take(rows)
    {
        dx.fill(0.0);
        for (dy, w) in dy.iter().zip(weights.chunks_exact(layer.inputs)) {
            super::add_scaled(dx, *dy, w);
        }
        for (dx, x) in dx.iter_mut().zip(x) {
            if *x <= 0.0 {
                *dx = 0.0;
            }
        }
    }
}

/// `dW = dy^T x` and `db = sum of dy`, rows in segments, ascending.
pub(crate) fn weight_gradient(
    layer: &Layer,
    rows: usize,
    x: &[f32],
    dy: &[f32],
    gradients: &mut [f32],
    status: &mut [u32],
) {
    let (dw, db) = gradients[layer.weights..layer.end()].split_at_mut(layer.bias() - layer.weights);
    for (o, (dw, db)) in dw
        .chunks_exact_mut(layer.inputs)
        .zip(db.iter_mut())
        .enumerate()
    {
        dw.fill(0.0);
        *db = 0.0;
        for segment in (0..rows).step_by(SEGMENT) {
            let rows = segment..rows.min(segment + SEGMENT);
            // Sixteen columns at a time keep the segment's sums in registers.
            for column in (0..layer.inputs).step_by(16) {
                let columns = column..layer.inputs.min(column + 16);
                let mut part = [0.0; 16];
                for row in rows.clone() {
                    let x = &x[row * layer.inputs..][columns.clone()];
                    super::add_scaled(&mut part[..x.len()], dy[row * layer.outputs + o], x);
                }
                for (dw, part) in dw[columns].iter_mut().zip(part) {
                    *dw += part;
                }
            }
            *db += rows.map(|row| dy[row * layer.outputs + o]).sum::<f32>();
        }
    }
    // Written so that NaN counts as huge too.
    if !gradients[layer.weights..layer.end()]
        .iter()
        .all(|gradient| gradient.abs() < HUGE)
    {
        status[0] = 1;
    }
}
