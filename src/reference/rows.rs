//! Rows by themselves: products, lengths, layers, and the values by which rows are compared.

use crate::cpu::Distance;
use crate::kernels::gemm::Layer;

/// The inner product.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Rows over their lengths; zero rows stay zero.
pub fn normalize(rows: &[f64], dim: usize) -> Vec<f64> {
    let unit = |row: &[f64]| {
        let norm = dot(row, row).sqrt().max(1e-12);
        row.iter().map(|value| value / norm).collect::<Vec<_>>()
    };
    rows.chunks(dim).flat_map(unit).collect()
}

/// A stack of linear layers, applied to rows of the first one's input width, padding included.
pub fn mlp(layers: &[Layer], parameters: &[f64], rows: &[f64]) -> Vec<f64> {
    let mut values = rows.to_vec();
    for layer in layers {
        let mut next = Vec::new();
        for row in values.chunks(layer.inputs) {
            for o in 0..layer.outputs {
                let weights = &parameters[layer.weights + o * layer.inputs..][..layer.inputs];
                let y = dot(row, weights) + parameters[layer.bias() + o];
                next.push(if layer.relu { y.max(0.0) } else { y });
            }
        }
        values = next;
    }
    values
}

/// `x P(x)`, with the distribution `P` of the standard normal.
pub fn gelu(x: f64) -> f64 {
    x * 0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2)
}

/// `d gelu(x) / dx`.
pub fn gelu_slope(x: f64) -> f64 {
    let density = (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
    0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2) + x * density
}

/// Rows over their mean and standard deviation, times `gain` and plus `shift`, as `torch.nn.LayerNorm` has them.
pub fn layer_norm(rows: &[f64], gain: &[f64], shift: &[f64]) -> Vec<f64> {
    let width = gain.len();
    let mut normed = Vec::new();
    for row in rows.chunks(width) {
        let mean = row.iter().sum::<f64>() / width as f64;
        let squares: f64 = row.iter().map(|x| (x - mean) * (x - mean)).sum();
        let root = (squares / width as f64 + 1e-5).sqrt();
        for (x, (gain, shift)) in row.iter().zip(gain.iter().zip(shift)) {
            normed.push(gain * (x - mean) / root + shift);
        }
    }
    normed
}

/// Means and variances of the columns.
pub fn column_moments(rows: &[f64], width: usize) -> [Vec<f64>; 2] {
    let count = (rows.len() / width) as f64;
    let column = |c: usize| rows.iter().skip(c).step_by(width);
    let means: Vec<f64> = (0..width).map(|c| column(c).sum::<f64>() / count).collect();
    let variance = |c: usize| {
        let squares = column(c).map(|x| (x - means[c]) * (x - means[c]));
        squares.sum::<f64>() / count
    };
    let variances = (0..width).map(variance).collect();
    [means, variances]
}

/// Rows by these means and variances of the columns, times `gain` and plus `shift`, as `torch.nn.BatchNorm1d` has them.
pub fn batch_norm(
    rows: &[f64],
    gain: &[f64],
    shift: &[f64],
    [means, variances]: &[Vec<f64>; 2],
) -> Vec<f64> {
    let mut normed = Vec::new();
    for row in rows.chunks(gain.len()) {
        for (c, x) in row.iter().enumerate() {
            let h = (x - means[c]) / (variances[c] + 1e-5).sqrt();
            normed.push(gain[c] * h + shift[c]);
        }
    }
    normed
}

/// Value by which rows of this similarity are compared: itself, or minus the Euclidean distance of unit rows.
pub fn value(distance: Distance, s: f64) -> f64 {
    match distance {
        Distance::Cosine => s,
        // Rounded as the engines round it: values that are equal there are equal here.
        Distance::L2 => f64::from(-(2.0 - 2.0 * s).max(0.0).sqrt() as f32),
    }
}
