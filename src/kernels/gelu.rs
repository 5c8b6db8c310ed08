//! GELU after a hidden layer, and the gradient through it.

use bytemuck::{Pod, Zeroable};

use super::stored::Stored;
use super::{Kernel, READ, READ_WRITE, groups_for, vec4s, wgsl::wgsl};
use crate::cpu;
use crate::engine::{Commands, DeviceVec};

const SOURCE_F16: &[&str] = wgsl!("stored_f16.wgsl", "gelu.wgsl");

/// One invocation per vec4.
pub static FORWARD: Kernel = Kernel {
    name: "gelu.forward",
    source: wgsl!("stored_f32.wgsl", "gelu.wgsl"),
    entry: "forward",
    bindings: &[READ, READ_WRITE],
    workgroup_size: 64,
    workgroup_bytes: 0,
    any_size: false,
};

/// One invocation per vec4.
pub static BACKWARD: Kernel = Kernel {
    name: "gelu.backward",
    entry: "backward",
    ..FORWARD
};

/// [`FORWARD`] of values in half precision.
pub static FORWARD_F16: Kernel = FORWARD.of_text("gelu.forward_f16", SOURCE_F16);

/// [`BACKWARD`] through values in half precision.
pub static BACKWARD_F16: Kernel = BACKWARD.of_text("gelu.backward_f16", SOURCE_F16);

/// The uniform of this kernel and of `norm`.
#[repr(C)]
#[derive(Clone, Copy, Default, Pod, Zeroable)]
pub(super) struct Params {
    pub(super) count: u32,
    pub(super) rows: u32,
    pub(super) stride: u32,
    pub(super) width: u32,
    pub(super) gain: u32,
    pub(super) moments: u32,
    pub(super) activation: u32,
    pub(super) onto: u32,
}

/// Computes `y = x P(x)` of the first `count` values, with the distribution `P` of the standard normal, within 1e-6.
pub fn forward(commands: &mut Commands, count: usize, x: Stored<'_>, y: &mut DeviceVec<f32>) {
    match commands {
        Commands::Gpu(gpu) => {
            let params = Params {
                count: vec4s(count),
                ..Params::default()
            };
            let groups = groups_for(&FORWARD, count / 4);
            let kernel = x.choose(&FORWARD, &FORWARD_F16);
            gpu.dispatch(kernel, &params, &[x.binding(), y.binding()], groups);
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            cpu::gelu::forward(x.slices(), &mut y.slice_mut()[..count]);
        }
    }
}

/// Turns the first `count` values of `gradient`, the gradient of `y`, into that of `x`, in place.
pub fn backward(
    commands: &mut Commands,
    count: usize,
    x: Stored<'_>,
    gradient: &mut DeviceVec<f32>,
) {
    match commands {
        Commands::Gpu(gpu) => {
            let params = Params {
                count: vec4s(count),
                ..Params::default()
            };
            let bindings = [x.binding(), gradient.binding()];
            let groups = groups_for(&BACKWARD, count / 4);
            let kernel = x.choose(&BACKWARD, &BACKWARD_F16);
            gpu.dispatch(kernel, &params, &bindings, groups);
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            cpu::gelu::backward(x.slices(), &mut gradient.slice_mut()[..count]);
        }
    }
}
