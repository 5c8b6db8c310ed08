//! The matrix products of a linear layer: forward, and the gradients of its input and weights.

use bytemuck::{Pod, Zeroable};

use super::stored::Stored;
use super::tile::Shape;
use super::{Kernel, READ, READ_WRITE, groups_for, index, vec4s, wgsl::wgsl};
use crate::cpu;
pub use crate::cpu::gemm::Layer;
use crate::engine::gpu::Binding;
use crate::engine::{Commands, DeviceVec};

const SOURCE: &[&str] = wgsl!("stored_f32.wgsl", "gemm.wgsl");
const SOURCE_F16: &[&str] = wgsl!("stored_f16.wgsl", "gemm.wgsl");

/// Bytes of workgroup memory that products of a chain take, and gradients.
const CHAIN_BYTES: u32 = 2 * 16 * 17 * 16;
const GRADIENT_BYTES: u32 = 32 * (17 * 4 + 16 * 8);

/// One invocation per 4 x 4 results.
pub static FORWARD: Kernel = Kernel {
    name: "gemm.forward",
    source: SOURCE,
    entry: "forward",
    bindings: &[READ, READ, READ, READ_WRITE],
    workgroup_size: 64,
    workgroup_bytes: 0,
    any_size: false,
};

/// One workgroup per 16 x 16 results.
pub static FORWARD_TILE: Kernel = Kernel {
    name: "gemm.forward_tile",
    entry: "forward_tile",
    workgroup_size: 256,
    workgroup_bytes: CHAIN_BYTES,
    ..FORWARD
};

/// One invocation per 4 x 4 results.
pub static WEIGHT_GRADIENT: Kernel = Kernel {
    name: "gemm.weight_gradient",
    entry: "weight_gradient",
    bindings: &[READ, READ, READ, READ_WRITE, READ_WRITE],
    ..FORWARD
};

/// One workgroup per 16 x 32 results.
pub static WEIGHT_GRADIENT_TILE: Kernel = Kernel {
    name: "gemm.weight_gradient_tile",
    entry: "weight_gradient_tile",
    workgroup_size: 256,
    workgroup_bytes: GRADIENT_BYTES,
    ..WEIGHT_GRADIENT
};

/// One invocation per 4 x 4 results.
pub static BACKWARD: Kernel = Kernel {
    name: "gemm.backward",
    entry: "backward",
    bindings: &[READ, READ, READ, READ_WRITE, READ_WRITE, READ, READ_WRITE],
    ..FORWARD
};

/// One workgroup per 16 x 32 results.
pub static BACKWARD_TILE: Kernel = Kernel {
    name: "gemm.backward_tile",
    entry: "backward_tile",
    workgroup_size: 256,
    workgroup_bytes: GRADIENT_BYTES,
    ..BACKWARD
};

/// [`FORWARD`] of rows in half precision.
pub static FORWARD_F16: Kernel = FORWARD.of_text("gemm.forward_f16", SOURCE_F16);

/// [`FORWARD_TILE`] of rows in half precision.
pub static FORWARD_TILE_F16: Kernel = FORWARD_TILE.of_text("gemm.forward_tile_f16", SOURCE_F16);

/// [`BACKWARD`] with rows in half precision.
pub static BACKWARD_F16: Kernel = BACKWARD.of_text("gemm.backward_f16", SOURCE_F16);

/// [`BACKWARD_TILE`] with rows in half precision.
pub static BACKWARD_TILE_F16: Kernel = BACKWARD_TILE.of_text("gemm.backward_tile_f16", SOURCE_F16);

/// The rows that a layer takes.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// A matrix `[_, inputs]`.
    pub values: Stored<'a>,
    /// Numbers of the chosen rows, and the first place of them that counts; `None`: its first rows.
    pub chosen: Option<(&'a DeviceVec<u32>, usize)>,
}

impl<'a> From<Stored<'a>> for Input<'a> {
    fn from(values: Stored<'a>) -> Self {
        Self {
            values,
            chosen: None,
        }
    }
}

impl<'a> From<&'a DeviceVec<f32>> for Input<'a> {
    fn from(values: &'a DeviceVec<f32>) -> Self {
        Stored::F32(values).into()
    }
}

impl<'a> Input<'a> {
    /// The buffers of the kernels that take it.
    fn bindings(&self) -> [Binding<'a>; 2] {
        let numbers = self.chosen.map(|(numbers, _)| numbers.binding());
        // The second binding must not be empty.
        [
            self.values.binding(),
            numbers.unwrap_or(self.values.binding()),
        ]
    }

    /// The rows of the CPU side.
    pub(super) fn rows(&self) -> cpu::gemm::Rows<'a> {
        cpu::gemm::Rows {
            values: self.values.slices(),
            chosen: self
                .chosen
                .map(|(numbers, first)| &numbers.slice()[first..]),
        }
    }
}

/// The gradient of a layer's outputs.
#[derive(Clone, Copy, Debug)]
pub struct OutputGradient<'a> {
    /// A matrix `[_, outputs]`.
    pub values: &'a DeviceVec<f32>,
    /// The first row of it that counts.
    pub first: usize,
}

impl<'a> From<&'a DeviceVec<f32>> for OutputGradient<'a> {
    fn from(values: &'a DeviceVec<f32>) -> Self {
        Self { values, first: 0 }
    }
}

impl<'a> OutputGradient<'a> {
    /// The rows of the CPU side.
    fn rows(&self, layer: &Layer) -> &'a [f32] {
        &self.values.slice()[self.first * layer.outputs..]
    }
}

/// The uniform of this kernel and of `embed`.
#[repr(C)]
#[derive(Clone, Copy, Default, Pod, Zeroable)]
pub(super) struct Params {
    pub(super) rows: u32,
    pub(super) inputs: u32,
    pub(super) outputs: u32,
    pub(super) weights: u32,
    pub(super) relu: u32,
    pub(super) chosen: u32,
    pub(super) first: u32,
    pub(super) weight_groups: u32,
    pub(super) cursor: u32,
    pub(super) capacity: u32,
    pub(super) first_id: u32,
    pub(super) before: u32,
    pub(super) dy: u32,
    pub(super) onto: u32,
    pub(super) adds: u32,
}

pub(super) fn params(layer: &Layer, rows: usize) -> Params {
    Params {
        rows: index(rows),
        inputs: vec4s(layer.inputs),
        outputs: vec4s(layer.outputs),
        weights: vec4s(layer.weights),
        relu: u32::from(layer.relu),
        adds: u32::from(layer.adds),
        ..Params::default()
    }
}

fn params_of(layer: &Layer, rows: usize, x: Input<'_>) -> Params {
    Params {
        chosen: u32::from(x.chosen.is_some()),
        first: x.chosen.map_or(0, |(_, first)| index(first)),
        ..params(layer, rows)
    }
}

/// Workgroups for `high` x `wide` results.
fn groups(shape: Shape, kernel: &Kernel, tile: [usize; 2], high: usize, wide: usize) -> u64 {
    match shape {
        Shape::Strip => groups_for(kernel, high.div_ceil(4) * wide / 4),
        Shape::Tile | Shape::Quads => (high.div_ceil(tile[0]) * wide.div_ceil(tile[1])) as u64,
    }
}

/// Computes `y = x W^T + b`, through a ReLU if the layer has one; of a layer that adds `y + x W^T`.
///
/// # Shapes
/// `x`: `[rows, inputs]` · `y`: `[rows, outputs]`
pub fn forward(
    commands: &mut Commands,
    layer: &Layer,
    shape: Shape,
    rows: usize,
    x: Input<'_>,
    parameters: &DeviceVec<f32>,
    y: &mut DeviceVec<f32>,
) {
    match commands {
        Commands::Gpu(gpu) => {
            let [left, numbers] = x.bindings();
            gpu.dispatch(
                x.values.choose(
                    shape.choose(&FORWARD, &FORWARD_TILE),
                    shape.choose(&FORWARD_F16, &FORWARD_TILE_F16),
                ),
                &params_of(layer, rows, x),
                &[left, numbers, parameters.binding(), y.binding()],
                groups(shape, &FORWARD, [16, 16], rows, layer.outputs),
            );
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            cpu::gemm::forward(layer, rows, x.rows(), parameters.slice(), y.slice_mut());
        }
    }
}

fn weight_groups(layer: &Layer, shape: Shape) -> u64 {
    let kernel = &WEIGHT_GRADIENT;
    groups(shape, kernel, [16, 32], layer.outputs, layer.inputs)
}

/// Computes `dW = dy^T x` and `db = sum of dy` into the layer's place in `gradients`; with `onto` it adds them to those of the rows
/// before. As many rows before as whole [`super::ranks::SEGMENT`]s give the same bits as all rows at once.
///
/// A gradient of 1e18 or more, or NaN, sets `status[0]`; no kernel clears it.
///
/// # Shapes
/// `x`: `[rows, inputs]`, floats · `dy`: `[rows, outputs]`
#[expect(clippy::too_many_arguments, reason = "what a kernel reads and writes")]
pub fn weight_gradient(
    commands: &mut Commands,
    layer: &Layer,
    shape: Shape,
    rows: usize,
    x: Input<'_>,
    dy: OutputGradient<'_>,
    onto: bool,
    gradients: &mut DeviceVec<f32>,
    status: &mut DeviceVec<u32>,
) {
    match commands {
        Commands::Gpu(gpu) => {
            let ([_, numbers], left) = (x.bindings(), x.values.floats().binding());
            gpu.dispatch(
                shape.choose(&WEIGHT_GRADIENT, &WEIGHT_GRADIENT_TILE),
                &Params {
                    dy: vec4s(dy.first * layer.outputs),
                    onto: u32::from(onto),
                    ..params_of(layer, rows, x)
                },
                &[
                    left,
                    numbers,
                    dy.values.binding(),
                    gradients.binding(),
                    status.binding(),
                ],
                weight_groups(layer, shape),
            );
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            let (x, dy) = (x.rows(), dy.rows(layer));
            let gradients = gradients.slice_mut();
            cpu::gemm::weight_gradient(layer, rows, x, dy, onto, gradients, status.slice_mut());
        }
    }
}

/// [`weight_gradient`], and `dx = dy W`, of a ReLU's outputs `x` zero for those that are not positive.
///
/// # Shapes
/// `dy`: `[rows, outputs]` · `x`, `dx`: `[rows, inputs]`
#[expect(clippy::too_many_arguments, reason = "what a kernel reads and writes")]
pub fn backward(
    commands: &mut Commands,
    layer: &Layer,
    shape: Shape,
    rows: usize,
    x: Stored<'_>,
    dy: OutputGradient<'_>,
    parameters: &DeviceVec<f32>,
    onto: bool,
    gradients: &mut DeviceVec<f32>,
    status: &mut DeviceVec<u32>,
    dx: &mut DeviceVec<f32>,
) {
    match commands {
        Commands::Gpu(gpu) => {
            let [left, numbers] = Input::from(x).bindings();
            let weight_groups = weight_groups(layer, shape);
            let params = Params {
                weight_groups: index(weight_groups as usize),
                dy: vec4s(dy.first * layer.outputs),
                onto: u32::from(onto),
                relu: u32::from(layer.of_relu),
                ..params(layer, rows)
            };
            let input_groups = groups(shape, &BACKWARD, [16, 32], rows, layer.inputs);
            gpu.dispatch(
                x.choose(
                    shape.choose(&BACKWARD, &BACKWARD_TILE),
                    shape.choose(&BACKWARD_F16, &BACKWARD_TILE_F16),
                ),
                &params,
                &[
                    left,
                    numbers,
                    dy.values.binding(),
                    gradients.binding(),
                    status.binding(),
                    parameters.binding(),
                    dx.binding(),
                ],
                weight_groups + input_groups,
            );
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            let rows_of_x = Input::from(x).rows();
            let (x, dy, status) = (x.slices(), dy.rows(layer), status.slice_mut());
            let gradients = gradients.slice_mut();
            cpu::gemm::weight_gradient(layer, rows, rows_of_x, dy, onto, gradients, status);
            cpu::gemm::input_gradient(layer, rows, dy, parameters.slice(), x, dx.slice_mut());
        }
    }
}
