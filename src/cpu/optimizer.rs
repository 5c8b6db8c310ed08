//! Adam over the flat vector of parameters.

use crate::kernels::optimizer::AdamStep;

/// One step of `torch.optim.Adam`.
pub(crate) fn adam(
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
