//! Layer norm and batch norm of a hidden layer, with the activation after it, and the gradients through both.

use super::gelu::{gelu, slope};
use super::parallel::{map, rows_of_a_part};
use super::stored::Rows;
use super::{Activation, Norm, SEGMENT, wide};

/// Added to a variance, as in torch.
const EPSILON: f32 = 1e-5;
/// Part of the batch's moments in the running ones, as in torch.
const MOMENTUM: f32 = 0.1;
/// A gradient this large has no finite square.
const HUGE: f32 = 1e18;
/// Operations of one value, about.
const OPERATIONS: usize = 64;

/// The norm of a hidden layer: its columns, and its place in the flat vector of parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NormLayer {
    /// Layer norm or batch norm.
    pub norm: Norm,
    /// Columns of a row, without padding.
    pub width: usize,
    /// Floats from one row to the next.
    pub stride: usize,
    /// Start of the gains, in floats; the shifts follow them.
    pub gain: usize,
    /// Start of the running means, in floats; the running variances follow them.
    pub running: usize,
    /// The activation that follows.
    pub activation: Activation,
}

impl NormLayer {
    /// Start of the shifts, in floats.
    pub fn shift(&self) -> usize {
        self.gain + self.stride
    }

    /// Floats of the moments that a pass over `rows` rows of a batch keeps: mean and variance of each row, or of each column.
    pub fn moments(&self, rows: u64) -> u64 {
        match self.norm {
            Norm::BatchNorm => 2 * self.stride as u64,
            _ => 2 * rows,
        }
    }

    /// Gains and shifts.
    fn affine<'a>(&self, parameters: &'a [f32]) -> [&'a [f32]; 2] {
        [self.gain, self.shift()].map(|start| &parameters[start..][..self.stride])
    }
}

/// Normalized values of a column, or of a row.
#[derive(Clone, Copy)]
struct Normal {
    mean: f32,
    /// Root of the variance and epsilon.
    root: f32,
}

impl Normal {
    fn new(mean: f32, variance: f32) -> Self {
        let root = (variance + EPSILON).sqrt();
        Self { mean, root }
    }

    fn of(self, x: f32) -> f32 {
        (x - self.mean) / self.root
    }
}

#[inline(always)]
fn activated(activation: Activation, n: f32) -> f32 {
    match activation {
        Activation::Relu => n.max(0.0),
        Activation::Gelu => gelu(n),
    }
}

/// The gradient before the activation from that after it; of a ReLU that is 0 already where it has to be.
#[inline(always)]
fn through(activation: Activation, n: f32, dy: f32) -> f32 {
    match activation {
        Activation::Relu => dy,
        Activation::Gelu => dy * slope(n),
    }
}

/// Sum of `count` values, from sixteen partial sums.
#[inline(always)]
fn sum(count: usize, value: impl Fn(usize) -> f32) -> f32 {
    let mut parts = [0.0; 16];
    for first in (0..count).step_by(16) {
        for (k, part) in parts.iter_mut().enumerate().take(count - first) {
            *part += value(first + k);
        }
    }
    parts.iter().sum()
}

/// Writes `y`, and mean and variance of each row.
pub fn layer_norm(
    norm: &NormLayer,
    x: Rows<'_>,
    parameters: &[f32],
    moments: &mut [f32],
    y: &mut [f32],
) {
    let (stride, width) = (norm.stride, norm.width);
    let [gain, shift] = norm.affine(parameters);
    let rows = y.len() / stride;
    let most = rows_of_a_part(rows, OPERATIONS * y.len(), rows.max(1));
    let parts = y
        .chunks_mut(most * stride)
        .zip(moments.chunks_mut(2 * most));
    let parts = parts.enumerate().collect();
    map(
        parts,
        |(part, (y, moments)): (usize, (&mut [f32], &mut [f32]))| {
            let mut buffer = Vec::new();
            wide(
                #[inline(always)]
                || {
                    let rows = y.chunks_exact_mut(stride).zip(part * most..);
                    for ((y, row), moments) in rows.zip(moments.chunks_exact_mut(2)) {
                        let x = x.some(row * stride, stride, &mut buffer);
                        let mean = sum(width, |k| x[k]) / width as f32;
                        let off = |k: usize| (x[k] - mean) * (x[k] - mean);
                        let variance = sum(width, off) / width as f32;
                        let normal = Normal::new(mean, variance);
                        for (k, y) in y.iter_mut().enumerate() {
                            let n = gain[k] * normal.of(x[k]) + shift[k];
                            *y = activated(norm.activation, n);
                        }
                        moments.copy_from_slice(&[mean, variance]);
                    }
                },
            );
        },
    );
}

/// Sums over rows, in segments, of the values of `columns` columns from `first` on: `add` adds those of a row.
fn sums_over_rows(
    rows: usize,
    columns: usize,
    sums: &mut [f32],
    mut add: impl FnMut(usize, &mut [f32]),
) {
    let mut part = vec![0.0; columns];
    for first in (0..rows).step_by(SEGMENT) {
        part.fill(0.0);
        for row in first..rows.min(first + SEGMENT) {
            add(row, &mut part);
        }
        for (sum, part) in sums.iter_mut().zip(&part) {
            *sum += part;
        }
    }
}

/// Writes means and variances of the columns of a batch.
pub fn batch_moments(norm: &NormLayer, rows: usize, x: Rows<'_>, moments: &mut [f32]) {
    let stride = norm.stride;
    let (means, variances) = moments[..2 * stride].split_at_mut(stride);
    means.fill(0.0);
    variances.fill(0.0);
    let mut buffer = Vec::new();
    sums_over_rows(rows, stride, means, |row, part| {
        let x = x.some(row * stride, stride, &mut buffer);
        for (part, x) in part.iter_mut().zip(x) {
            *part += x;
        }
    });
    for mean in &mut *means {
        *mean /= rows as f32;
    }
    sums_over_rows(rows, stride, variances, |row, part| {
        let x = x.some(row * stride, stride, &mut buffer);
        for ((part, x), mean) in part.iter_mut().zip(x).zip(&*means) {
            *part += (x - mean) * (x - mean);
        }
    });
    for variance in variances {
        *variance /= rows as f32;
    }
}

/// Writes `y` by these means and variances of the columns.
pub fn batch_norm(
    norm: &NormLayer,
    x: Rows<'_>,
    parameters: &[f32],
    moments: &[f32],
    y: &mut [f32],
) {
    let stride = norm.stride;
    let [gain, shift] = norm.affine(parameters);
    let normals = normals(norm, moments);
    let rows = y.len() / stride;
    let most = rows_of_a_part(rows, OPERATIONS * y.len(), rows.max(1));
    let parts = y.chunks_mut(most * stride).enumerate().collect();
    map(parts, |(part, y): (usize, &mut [f32])| {
        let mut buffer = Vec::new();
        wide(
            #[inline(always)]
            || {
                for (y, row) in y.chunks_exact_mut(stride).zip(part * most..) {
                    let x = x.some(row * stride, stride, &mut buffer);
                    for (k, y) in y.iter_mut().enumerate() {
                        let n = gain[k] * normals[k].of(x[k]) + shift[k];
                        *y = activated(norm.activation, n);
                    }
                }
            },
        );
    });
}

/// The columns of batch norm, by their moments.
fn normals(norm: &NormLayer, moments: &[f32]) -> Vec<Normal> {
    let (means, variances) = moments[..2 * norm.stride].split_at(norm.stride);
    let pairs = means.iter().zip(variances);
    pairs
        .map(|(mean, variance)| Normal::new(*mean, *variance))
        .collect()
}

/// Gradients of gains and shifts; with `onto` added to those that are there. `gradient` is that of `y`.
#[expect(clippy::too_many_arguments, reason = "what a kernel reads and writes")]
pub fn parameters(
    norm: &NormLayer,
    rows: usize,
    onto: bool,
    x: Rows<'_>,
    parameters: &[f32],
    moments: &[f32],
    gradient: &[f32],
    gradients: &mut [f32],
    status: &mut [u32],
) {
    let stride = norm.stride;
    let [gain, shift] = norm.affine(parameters);
    let of_batch = match norm.norm {
        Norm::BatchNorm => normals(norm, moments),
        _ => Vec::new(),
    };
    // Those of the gains, then of the shifts.
    let own = &mut gradients[norm.gain..][..2 * stride];
    if !onto {
        own.fill(0.0);
    }
    let mut buffer = Vec::new();
    sums_over_rows(rows, 2 * stride, own, |row, part| {
        let of_row = match norm.norm {
            Norm::BatchNorm => None,
            _ => Some(Normal::new(moments[2 * row], moments[2 * row + 1])),
        };
        let (gains, shifts) = part.split_at_mut(stride);
        let at = row * stride;
        let x = x.some(at, stride, &mut buffer);
        for (k, (of_gain, of_shift)) in gains.iter_mut().zip(shifts).enumerate() {
            let h = of_row.unwrap_or_else(|| of_batch[k]).of(x[k]);
            let dn = through(norm.activation, gain[k] * h + shift[k], gradient[at + k]);
            *of_gain += dn * h;
            *of_shift += dn;
        }
    });
    // Written so that NaN counts as huge too.
    if !own.iter().all(|gradient| gradient.abs() < HUGE) {
        status[0] = 1;
    }
}

/// Turns the gradient of `y` into that of `x`, each row by its moments.
pub fn layer_inputs(
    norm: &NormLayer,
    x: Rows<'_>,
    parameters: &[f32],
    moments: &[f32],
    gradient: &mut [f32],
) {
    let (stride, width) = (norm.stride, norm.width);
    let [gain, shift] = norm.affine(parameters);
    let rows = gradient.len() / stride;
    let most = rows_of_a_part(rows, OPERATIONS * gradient.len(), rows.max(1));
    let parts = { gradient.chunks_mut(most * stride) }.zip(moments.chunks(2 * most));
    let parts = parts.enumerate().collect();
    map(
        parts,
        |(part, (gradient, moments)): (usize, (&mut [f32], &[f32]))| {
            let mut buffer = Vec::new();
            wide(
                #[inline(always)]
                || {
                    let rows = gradient.chunks_exact_mut(stride).zip(part * most..);
                    for ((dx, row), moments) in rows.zip(moments.chunks_exact(2)) {
                        let x = x.some(row * stride, stride, &mut buffer);
                        let normal = Normal::new(moments[0], moments[1]);
                        for (k, g) in dx.iter_mut().enumerate() {
                            let n = gain[k] * normal.of(x[k]) + shift[k];
                            *g = gain[k] * through(norm.activation, n, *g);
                        }
                        let plain = sum(width, |k| dx[k]) / width as f32;
                        let along = sum(width, |k| dx[k] * normal.of(x[k])) / width as f32;
                        for (g, x) in dx[..width].iter_mut().zip(x) {
                            *g = (*g - plain - normal.of(*x) * along) / normal.root;
                        }
                        dx[width..].fill(0.0);
                    }
                },
            );
        },
    );
}

/// Turns the gradient of `y` into that of `x`, by the sums that [`parameters`] left in `gradients`.
pub fn batch_inputs(
    norm: &NormLayer,
    x: Rows<'_>,
    parameters: &[f32],
    moments: &[f32],
    gradients: &[f32],
    gradient: &mut [f32],
) {
    let stride = norm.stride;
    let [gain, shift] = norm.affine(parameters);
    let [along, plain] = norm.affine(gradients);
    let normals = normals(norm, moments);
    let rows = gradient.len() / stride;
    let most = rows_of_a_part(rows, OPERATIONS * gradient.len(), rows.max(1));
    let parts = gradient.chunks_mut(most * stride).enumerate().collect();
    let count = rows as f32;
    map(parts, |(part, gradient): (usize, &mut [f32])| {
        let mut buffer = Vec::new();
        wide(
            #[inline(always)]
            || {
                for (dx, row) in gradient.chunks_exact_mut(stride).zip(part * most..) {
                    let x = x.some(row * stride, stride, &mut buffer);
                    for (k, g) in dx.iter_mut().enumerate() {
                        let h = normals[k].of(x[k]);
                        let dn = through(norm.activation, gain[k] * h + shift[k], *g);
                        let dh = dn - plain[k] / count - h * (along[k] / count);
                        *g = gain[k] * dh / normals[k].root;
                    }
                }
            },
        );
    });
}

/// Moves the running moments towards those of a batch of `rows` rows, whose variance there is that of `rows - 1`.
pub fn follow(norm: &NormLayer, rows: usize, moments: &[f32], parameters: &mut [f32]) {
    let stride = norm.stride;
    let unbiased = rows as f32 / (rows as f32 - 1.0);
    let running = &mut parameters[norm.running..][..2 * stride];
    for (place, (running, own)) in running.iter_mut().zip(moments).enumerate() {
        let factor = if place < stride { 1.0 } else { unbiased };
        *running = (1.0 - MOMENTUM) * *running + MOMENTUM * (own * factor);
    }
}
