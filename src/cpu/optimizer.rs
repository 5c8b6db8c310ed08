//! SGD and Adam over the flat vector of parameters, and the factor that clips gradients by their norm.

use bytemuck::{Pod, Zeroable};

/// Gradients whose squares are added in one sum, in their order.
pub const SEGMENT: usize = 256;

/// Sums that are added one after the other, each of every `LANES`-th segment.
pub const LANES: usize = 64;

/// The scalars of one step of an optimizer, bias corrections included, as torch derives them.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub struct OptimizerStep {
    /// The learning rate; for Adam `lr / (1 - beta1^t)`.
    pub step_size: f32,
    /// `sqrt(1 - beta2^t)`.
    pub sqrt_correction2: f32,
    /// Decay of the first moment; for SGD the momentum.
    pub beta1: f32,
    /// `1 - beta1`.
    pub gain1: f32,
    /// Decay of the second moment.
    pub beta2: f32,
    /// `1 - beta2`.
    pub gain2: f32,
    /// Added to the root of the second moment.
    pub eps: f32,
    /// L2 penalty, added to the gradient.
    pub weight_decay: f32,
    /// Factor of the parameters for decoupled weight decay; 1 without.
    pub shrink: f32,
    /// Nesterov's momentum if 1.
    pub nesterov: u32,
}

/// Writes the sums of squares of `sums.len()` stretches of the gradients.
pub fn squares(gradients: &[f32], sums: &mut [f32]) {
    let each = gradients.len().div_ceil(sums.len()).max(1);
    sums.fill(0.0);
    for (sum, gradients) in sums.iter_mut().zip(gradients.chunks(each)) {
        *sum = gradients.iter().map(|g| g * g).sum();
    }
}

/// Writes the sum of squares of each [`SEGMENT`] of the gradients.
pub fn segments(gradients: &[f32], sums: &mut [f32]) {
    for (sum, gradients) in sums.iter_mut().zip(gradients.chunks(SEGMENT)) {
        *sum = gradients.iter().fold(0.0, |sum, g| sum + g * g);
    }
}

/// The factor by which `torch.nn.utils.clip_grad_norm_` multiplies gradients with these sums of squares.
pub fn clip(max_norm: f32, sums: &[f32]) -> f32 {
    let lane = |lane| sums.iter().skip(lane).step_by(LANES);
    let square = (0..LANES).fold(0.0, |square: f32, at| {
        square + lane(at).fold(0.0, |sum, square| sum + square)
    });
    (max_norm / (square.sqrt() + 1e-6)).min(1.0)
}

/// One step of `torch.optim.SGD` without momentum, after clipping by the factor `clip`.
pub fn sgd(step: &OptimizerStep, clip: f32, gradients: &[f32], parameters: &mut [f32]) {
    for (p, g) in parameters.iter_mut().zip(gradients) {
        let g = clip * g + step.weight_decay * *p;
        *p -= step.step_size * g;
    }
}

/// One step of `torch.optim.SGD` with momentum, after clipping by the factor `clip`.
pub fn momentum(
    step: &OptimizerStep,
    clip: f32,
    gradients: &[f32],
    parameters: &mut [f32],
    first: &mut [f32],
) {
    for ((p, g), b) in parameters.iter_mut().zip(gradients).zip(first) {
        let g = clip * g + step.weight_decay * *p;
        *b = step.beta1 * *b + g;
        let ahead = match step.nesterov {
            0 => *b,
            _ => g + step.beta1 * *b,
        };
        *p -= step.step_size * ahead;
    }
}

/// One step of `torch.optim.Adam` or `AdamW`, after clipping by the factor `clip`.
pub fn adam(
    step: &OptimizerStep,
    clip: f32,
    gradients: &[f32],
    parameters: &mut [f32],
    first: &mut [f32],
    second: &mut [f32],
) {
    for (((p, g), m), v) in parameters.iter_mut().zip(gradients).zip(first).zip(second) {
        let g = clip * g + step.weight_decay * *p;
        *m = step.beta1 * *m + step.gain1 * g;
        *v = step.beta2 * *v + step.gain2 * g * g;
        let moved = step.step_size * *m / (v.sqrt() / step.sqrt_correction2 + step.eps);
        *p = step.shrink * *p - moved;
    }
}
