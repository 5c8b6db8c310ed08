//! The matrix products of a linear layer: forward, and the gradients of its input and weights.

use bytemuck::{Pod, Zeroable};

use super::{Access, Kernel, groups_for, index, vec4s, wgsl::wgsl};
use crate::cpu;
pub use crate::cpu::gemm::Layer;
use crate::engine::{Commands, DeviceVec};

const SOURCE: &[&str] = wgsl!("gemm.wgsl");

/// One invocation per 4 x 4 results.
pub static FORWARD: Kernel = Kernel {
    name: "gemm.forward",
    source: SOURCE,
    entry: "forward",
    bindings: &[Access::Read, Access::Read, Access::ReadWrite],
    workgroup_size: 64,
    workgroup_bytes: 0,
};

/// One invocation per 4 x 4 results.
pub static INPUT_GRADIENT: Kernel = Kernel {
    name: "gemm.input_gradient",
    source: SOURCE,
    entry: "input_gradient",
    bindings: &[Access::Read, Access::Read, Access::ReadWrite, Access::Read],
    workgroup_size: 64,
    workgroup_bytes: 0,
};

/// One invocation per 4 x 4 results.
pub static WEIGHT_GRADIENT: Kernel = Kernel {
    name: "gemm.weight_gradient",
    source: SOURCE,
    entry: "weight_gradient",
    bindings: &[
        Access::Read,
        Access::Read,
        Access::ReadWrite,
        Access::ReadWrite,
    ],
    workgroup_size: 64,
    workgroup_bytes: 0,
};

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    rows: u32,
    inputs: u32,
    outputs: u32,
    weights: u32,
    relu: u32,
}

fn params(layer: &Layer, rows: usize) -> Params {
    Params {
        rows: index(rows),
        inputs: vec4s(layer.inputs),
        outputs: vec4s(layer.outputs),
        weights: vec4s(layer.weights),
        relu: u32::from(layer.relu),
    }
}

/// Computes `y = x W^T + b`, through a ReLU where the layer has one.
///
/// # Shapes
/// `x`: `[rows, inputs]` · `y`: `[rows, outputs]`
pub fn forward(
    commands: &mut Commands,
    layer: &Layer,
    rows: usize,
    x: &DeviceVec<f32>,
    parameters: &DeviceVec<f32>,
    y: &mut DeviceVec<f32>,
) {
    match commands {
        Commands::Gpu(gpu) => gpu.dispatch(
            &FORWARD,
            &params(layer, rows),
            &[x.binding(), parameters.binding(), y.binding()],
            groups_for(&FORWARD, rows.div_ceil(4) * layer.outputs / 4),
        ),
        Commands::Cpu(calls) => {
            *calls += 1;
            cpu::gemm::forward(layer, rows, x.slice(), parameters.slice(), y.slice_mut());
        }
    }
}

/// Computes `dx = dy W`, zero where the input `x`, the output of a ReLU, is not positive.
///
/// # Shapes
/// `dy`: `[rows, outputs]` · `x`, `dx`: `[rows, inputs]`
pub fn input_gradient(
    commands: &mut Commands,
    layer: &Layer,
    rows: usize,
    dy: &DeviceVec<f32>,
    parameters: &DeviceVec<f32>,
    x: &DeviceVec<f32>,
    dx: &mut DeviceVec<f32>,
) {
    match commands {
        Commands::Gpu(gpu) => gpu.dispatch(
            &INPUT_GRADIENT,
            &params(layer, rows),
            &[
                dy.binding(),
                parameters.binding(),
                dx.binding(),
                x.binding(),
            ],
            groups_for(&INPUT_GRADIENT, rows.div_ceil(4) * layer.inputs / 4),
        ),
        Commands::Cpu(calls) => {
            *calls += 1;
            let (dy, x) = (dy.slice(), x.slice());
            cpu::gemm::input_gradient(layer, rows, dy, parameters.slice(), x, dx.slice_mut());
        }
    }
}

/// Computes `dW = dy^T x` and `db = sum of dy` into the layer's place in `gradients`.
///
/// A gradient of 1e18 or more, or NaN, sets `status[0]`; no kernel clears it.
///
/// # Shapes
/// `x`: `[rows, inputs]` · `dy`: `[rows, outputs]`
pub fn weight_gradient(
    commands: &mut Commands,
    layer: &Layer,
    rows: usize,
    x: &DeviceVec<f32>,
    dy: &DeviceVec<f32>,
    gradients: &mut DeviceVec<f32>,
    status: &mut DeviceVec<u32>,
) {
    match commands {
        Commands::Gpu(gpu) => gpu.dispatch(
            &WEIGHT_GRADIENT,
            &params(layer, rows),
            &[
                x.binding(),
                dy.binding(),
                gradients.binding(),
                status.binding(),
            ],
            groups_for(&WEIGHT_GRADIENT, layer.outputs * layer.inputs / 16),
        ),
        Commands::Cpu(calls) => {
            *calls += 1;
            let (x, dy) = (x.slice(), dy.slice());
            let gradients = gradients.slice_mut();
            cpu::gemm::weight_gradient(layer, rows, x, dy, gradients, status.slice_mut());
        }
    }
}
