//! Layer norm and batch norm of a hidden layer, with the activation after it, and the gradients through both.

use super::gelu::Params;
use super::stored::Stored;
use super::{Kernel, READ, READ_WRITE, groups_for, index, vec4s, wgsl::wgsl};
pub use crate::cpu::Norm;
pub use crate::cpu::norm::NormLayer;
use crate::cpu::{self, Activation};
use crate::engine::{Commands, DeviceVec};

const SOURCE_F16: &[&str] = wgsl!("stored_f16.wgsl", "gelu.wgsl", "norm.wgsl");

/// One workgroup a row.
pub static LAYER_NORM: Kernel = Kernel {
    name: "norm.layer_norm",
    source: wgsl!("stored_f32.wgsl", "gelu.wgsl", "norm.wgsl"),
    entry: "layer_norm",
    bindings: &[READ, READ_WRITE, READ, READ_WRITE],
    workgroup_size: 64,
    workgroup_bytes: 16 * 64,
    any_size: false,
};

/// One workgroup a vec4 column.
pub static LAYER_PARAMETERS: Kernel = Kernel {
    name: "norm.layer_parameters",
    entry: "layer_parameters",
    bindings: &[READ, READ_WRITE, READ, READ, READ_WRITE, READ_WRITE],
    ..LAYER_NORM
};

/// One workgroup a row.
pub static LAYER_INPUTS: Kernel = Kernel {
    name: "norm.layer_inputs",
    entry: "layer_inputs",
    bindings: &[READ, READ_WRITE, READ, READ],
    ..LAYER_NORM
};

/// One workgroup a vec4 column.
pub static BATCH_MOMENTS: Kernel = Kernel {
    name: "norm.batch_moments",
    entry: "batch_moments",
    bindings: &[READ, READ_WRITE],
    ..LAYER_NORM
};

/// One invocation per vec4.
pub static BATCH_NORM: Kernel = Kernel {
    name: "norm.batch_norm",
    entry: "batch_norm",
    bindings: &[READ, READ_WRITE, READ, READ],
    workgroup_bytes: 0,
    ..LAYER_NORM
};

/// One workgroup a vec4 column.
pub static BATCH_PARAMETERS: Kernel = Kernel {
    name: "norm.batch_parameters",
    entry: "batch_parameters",
    ..LAYER_PARAMETERS
};

/// One invocation per vec4.
pub static BATCH_INPUTS: Kernel = Kernel {
    name: "norm.batch_inputs",
    entry: "batch_inputs",
    bindings: &[READ, READ_WRITE, READ, READ, READ],
    workgroup_bytes: 0,
    ..LAYER_NORM
};

/// One invocation per vec4 column.
pub static FOLLOW: Kernel = Kernel {
    name: "norm.follow",
    entry: "follow",
    bindings: &[READ, READ_WRITE, READ],
    workgroup_bytes: 0,
    ..LAYER_NORM
};

/// [`LAYER_NORM`] of linear outputs in half precision.
pub static LAYER_NORM_F16: Kernel = LAYER_NORM.of_text("norm.layer_norm_f16", SOURCE_F16);
/// [`LAYER_PARAMETERS`] of linear outputs in half precision.
pub static LAYER_PARAMETERS_F16: Kernel =
    LAYER_PARAMETERS.of_text("norm.layer_parameters_f16", SOURCE_F16);
/// [`LAYER_INPUTS`] of linear outputs in half precision.
pub static LAYER_INPUTS_F16: Kernel = LAYER_INPUTS.of_text("norm.layer_inputs_f16", SOURCE_F16);
/// [`BATCH_MOMENTS`] of linear outputs in half precision.
pub static BATCH_MOMENTS_F16: Kernel = BATCH_MOMENTS.of_text("norm.batch_moments_f16", SOURCE_F16);
/// [`BATCH_NORM`] of linear outputs in half precision.
pub static BATCH_NORM_F16: Kernel = BATCH_NORM.of_text("norm.batch_norm_f16", SOURCE_F16);
/// [`BATCH_PARAMETERS`] of linear outputs in half precision.
pub static BATCH_PARAMETERS_F16: Kernel =
    BATCH_PARAMETERS.of_text("norm.batch_parameters_f16", SOURCE_F16);
/// [`BATCH_INPUTS`] of linear outputs in half precision.
pub static BATCH_INPUTS_F16: Kernel = BATCH_INPUTS.of_text("norm.batch_inputs_f16", SOURCE_F16);

fn params(norm: &NormLayer, rows: usize) -> Params {
    Params {
        count: vec4s(rows * norm.stride),
        rows: index(rows),
        stride: vec4s(norm.stride),
        width: index(norm.width),
        gain: vec4s(norm.gain),
        activation: u32::from(norm.activation == Activation::Gelu),
        ..Params::default()
    }
}

/// Computes the outputs `y` of a hidden layer from its linear outputs `x`. `moments` receives the means and variances by which it
/// does so: of each row, or of the batch's columns. Batch norm without them goes by the running ones among the parameters.
///
/// # Shapes
/// `x`, `y`: `[rows, stride]` · `moments`: [`NormLayer::moments`]
pub fn forward(
    commands: &mut Commands,
    norm: &NormLayer,
    rows: usize,
    x: Stored<'_>,
    parameters: &DeviceVec<f32>,
    moments: Option<&mut DeviceVec<f32>>,
    y: &mut DeviceVec<f32>,
) {
    let Some(moments) = moments else {
        return batch_norm(commands, norm, rows, x, parameters, None, y);
    };
    if norm.norm == Norm::BatchNorm {
        batch_moments(commands, norm, rows, x, moments);
        return batch_norm(commands, norm, rows, x, parameters, Some(moments), y);
    }
    match commands {
        Commands::Gpu(gpu) => {
            let own = [
                x.binding(),
                y.binding(),
                parameters.binding(),
                moments.binding(),
            ];
            let kernel = x.choose(&LAYER_NORM, &LAYER_NORM_F16);
            gpu.dispatch(kernel, &params(norm, rows), &own, rows as u64);
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            let y = &mut y.slice_mut()[..rows * norm.stride];
            let (x, parameters) = (x.slices(), parameters.slice());
            cpu::norm::layer_norm(norm, x, parameters, moments.slice_mut(), y);
        }
    }
}

fn batch_moments(
    commands: &mut Commands,
    norm: &NormLayer,
    rows: usize,
    x: Stored<'_>,
    moments: &mut DeviceVec<f32>,
) {
    match commands {
        Commands::Gpu(gpu) => {
            let own = [x.binding(), moments.binding()];
            let groups = norm.stride as u64 / 4;
            let kernel = x.choose(&BATCH_MOMENTS, &BATCH_MOMENTS_F16);
            gpu.dispatch(kernel, &params(norm, rows), &own, groups);
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            cpu::norm::batch_moments(norm, rows, x.slices(), moments.slice_mut());
        }
    }
}

/// Batch norm by the moments of the batch; `None`: by the running ones.
fn batch_norm(
    commands: &mut Commands,
    norm: &NormLayer,
    rows: usize,
    x: Stored<'_>,
    parameters: &DeviceVec<f32>,
    moments: Option<&DeviceVec<f32>>,
    y: &mut DeviceVec<f32>,
) {
    let (from, first) = match moments {
        Some(moments) => (moments, 0),
        None => (parameters, norm.running),
    };
    match commands {
        Commands::Gpu(gpu) => {
            let params = Params {
                moments: vec4s(first),
                ..params(norm, rows)
            };
            let own = [
                x.binding(),
                y.binding(),
                parameters.binding(),
                from.binding(),
            ];
            let groups = groups_for(&BATCH_NORM, rows * norm.stride / 4);
            let kernel = x.choose(&BATCH_NORM, &BATCH_NORM_F16);
            gpu.dispatch(kernel, &params, &own, groups);
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            let y = &mut y.slice_mut()[..rows * norm.stride];
            let moments = &from.slice()[first..];
            cpu::norm::batch_norm(norm, x.slices(), parameters.slice(), moments, y);
        }
    }
}

/// The kernels of a norm's own gradients, and of that of its inputs.
fn gradients_of(norm: Norm, x: Stored<'_>) -> [&'static Kernel; 2] {
    match norm {
        Norm::BatchNorm => [
            x.choose(&BATCH_PARAMETERS, &BATCH_PARAMETERS_F16),
            x.choose(&BATCH_INPUTS, &BATCH_INPUTS_F16),
        ],
        _ => [
            x.choose(&LAYER_PARAMETERS, &LAYER_PARAMETERS_F16),
            x.choose(&LAYER_INPUTS, &LAYER_INPUTS_F16),
        ],
    }
}

/// Turns `gradient`, that of the outputs, into that of `x`, and computes the gradients of gains and shifts in their places of
/// `gradients`; with `onto` these are added to those of the rows before. As many rows before as whole [`super::ranks::SEGMENT`]s give
/// the same bits as all rows at once. Through a ReLU `gradient` is 0 already where an output is.
///
/// A gradient of 1e18 or more, or NaN, sets `status[0]`; no kernel clears it.
///
/// # Shapes
/// `x`, `gradient`: `[rows, stride]` · `moments`: those that [`forward`] left
#[expect(clippy::too_many_arguments, reason = "what a kernel reads and writes")]
pub fn backward(
    commands: &mut Commands,
    norm: &NormLayer,
    rows: usize,
    onto: bool,
    x: Stored<'_>,
    parameters: &DeviceVec<f32>,
    moments: &DeviceVec<f32>,
    gradient: &mut DeviceVec<f32>,
    gradients: &mut DeviceVec<f32>,
    status: &mut DeviceVec<u32>,
) {
    let of_batch = norm.norm == Norm::BatchNorm;
    match commands {
        Commands::Gpu(gpu) => {
            let params = Params {
                onto: u32::from(onto),
                ..params(norm, rows)
            };
            let inputs = [
                x.binding(),
                gradient.binding(),
                parameters.binding(),
                moments.binding(),
                gradients.binding(),
            ];
            let sums = [&inputs[..], &[status.binding()]].concat();
            let columns = norm.stride as u64 / 4;
            let [affine, own] = gradients_of(norm.norm, x);
            gpu.dispatch(affine, &params, &sums, columns);
            if of_batch {
                let groups = groups_for(own, rows * norm.stride / 4);
                gpu.dispatch(own, &params, &inputs, groups);
            } else {
                gpu.dispatch(own, &params, &inputs[..4], rows as u64);
            }
        }
        Commands::Cpu(calls) => {
            *calls += 2;
            let gradient = &mut gradient.slice_mut()[..rows * norm.stride];
            let (x, parameters, moments) = (x.slices(), parameters.slice(), moments.slice());
            let (gradients, status) = (gradients.slice_mut(), status.slice_mut());
            cpu::norm::parameters(
                norm, rows, onto, x, parameters, moments, gradient, gradients, status,
            );
            if of_batch {
                cpu::norm::batch_inputs(norm, x, parameters, moments, gradients, gradient);
            } else {
                cpu::norm::layer_inputs(norm, x, parameters, moments, gradient);
            }
        }
    }
}

/// Moves the running moments of batch norm, among the parameters, towards those of a batch of `rows` rows, unless `status[0]` is
/// set: as torch does with its momentum of 0.1, and with the variance over `rows - 1`.
pub fn follow(
    commands: &mut Commands,
    norm: &NormLayer,
    rows: usize,
    moments: &DeviceVec<f32>,
    status: &DeviceVec<u32>,
    parameters: &mut DeviceVec<f32>,
) {
    match commands {
        Commands::Gpu(gpu) => {
            let params = Params {
                moments: vec4s(norm.running),
                ..params(norm, rows)
            };
            let own = [moments.binding(), parameters.binding(), status.binding()];
            let groups = groups_for(&FOLLOW, norm.stride / 4);
            gpu.dispatch(&FOLLOW, &params, &own, groups);
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            if status.slice()[0] == 0 {
                cpu::norm::follow(norm, rows, moments.slice(), parameters.slice_mut());
            }
        }
    }
}
