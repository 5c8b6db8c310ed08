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

/// Value by which rows of this similarity are compared: itself, or minus the Euclidean distance of unit rows.
pub fn value(distance: Distance, s: f64) -> f64 {
    match distance {
        Distance::Cosine => s,
        // Rounded as the engines round it: values that are equal there are equal here.
        Distance::L2 => f64::from(-(2.0 - 2.0 * s).max(0.0).sqrt() as f32),
    }
}
