//! Adam over the flat vector of parameters.

use bytemuck::{Pod, Zeroable};

/// The scalars of one Adam step, bias corrections included, as `torch.optim.Adam` derives them.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub struct AdamStep {
    /// `lr / (1 - beta1^t)`.
    pub step_size: f32,
    /// `sqrt(1 - beta2^t)`.
    pub sqrt_correction2: f32,
    /// Decay of the first moment.
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
}

/// Writes the sums of squares of `sums.len()` stretches of the gradients.
pub fn squares(gradients: &[f32], sums: &mut [f32]) {
    let each = gradients.len().div_ceil(sums.len()).max(1);
    sums.fill(0.0);
    for (sum, gradients) in sums.iter_mut().zip(gradients.chunks(each)) {
        *sum = gradients.iter().map(|g| g * g).sum();
    }
}

/// One step of `torch.optim.Adam`.
pub fn adam(
    step: &AdamStep,
    gradients: &[f32],
    parameters: &mut [f32],
    first: &mut [f32],
    second: &mut [f32],
) {
    for (((p, g), m), v) in parameters.iter_mut().zip(gradients).zip(first).zip(second) {
        let g = g + step.weight_decay * *p;
        *m = step.beta1 * *m + step.gain1 * g;
        *v = step.beta2 * *v + step.gain2 * g * g;
        *p -= step.step_size * *m / (v.sqrt() / step.sqrt_correction2 + step.eps);
    }
}
