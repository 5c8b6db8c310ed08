//! Peak rates of a device: arithmetic, writing, copying. The bench divides by these.

use bytemuck::{Pod, Zeroable};

use super::{Kernel, READ, READ_WRITE, groups_for, index, wgsl::wgsl};
use crate::cpu;
use crate::engine::{Commands, DeviceVec};

const SOURCE: &[&str] = wgsl!("peaks.wgsl");

/// One invocation per 8 chains of 4 floats.
pub static MULTIPLY_ADD: Kernel = Kernel {
    name: "peaks.multiply_add",
    source: SOURCE,
    entry: "multiply_add",
    bindings: &[READ_WRITE],
    workgroup_size: 256,
    workgroup_bytes: 0,
    any_size: false,
};

/// One invocation per 4 floats.
pub static FILL: Kernel = Kernel {
    name: "peaks.fill",
    source: SOURCE,
    entry: "fill",
    bindings: &[READ_WRITE],
    workgroup_size: 256,
    workgroup_bytes: 0,
    any_size: false,
};

/// One invocation per 4 floats.
pub static COPY: Kernel = Kernel {
    name: "peaks.copy",
    source: SOURCE,
    entry: "copy",
    bindings: &[READ_WRITE, READ],
    workgroup_size: 256,
    workgroup_bytes: 0,
    any_size: false,
};

/// Floating-point operations per float that [`multiply_add`] writes: 256 steps of 8 multiply-adds.
pub const OPERATIONS_PER_FLOAT: u64 = 256 * 8 * 2;

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    count: u32,
    value: f32,
}

/// Runs [`OPERATIONS_PER_FLOAT`] dependent multiply-adds for each of `count` floats (a multiple of 4) of `output`:
/// `x = x value + b` from `x = b + c` on, `b = i 1e-9` for the `i`-th four, summed over `c = 0 .. 7`.
pub fn multiply_add(
    commands: &mut Commands,
    count: usize,
    value: f32,
    output: &mut DeviceVec<f32>,
) {
    let params = Params {
        count: index(count / 4),
        value,
    };
    match commands {
        Commands::Gpu(gpu) => {
            let groups = groups_for(&MULTIPLY_ADD, count / 4);
            gpu.dispatch(&MULTIPLY_ADD, &params, &[output.binding()], groups);
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            cpu::peaks::multiply_add(&mut output.slice_mut()[..count], value);
        }
    }
}

/// Sets the first `count` floats (a multiple of 4) of `output`.
pub fn fill(commands: &mut Commands, count: usize, value: f32, output: &mut DeviceVec<f32>) {
    let params = Params {
        count: index(count / 4),
        value,
    };
    match commands {
        Commands::Gpu(gpu) => {
            gpu.dispatch(
                &FILL,
                &params,
                &[output.binding()],
                groups_for(&FILL, count / 4),
            );
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            output.slice_mut()[..count].fill(value);
        }
    }
}

/// Copies the first `count` floats (a multiple of 4) of `source`.
pub fn copy(
    commands: &mut Commands,
    count: usize,
    source: &DeviceVec<f32>,
    output: &mut DeviceVec<f32>,
) {
    let params = Params {
        count: index(count / 4),
        value: 0.0,
    };
    match commands {
        Commands::Gpu(gpu) => {
            let buffers = [output.binding(), source.binding()];
            gpu.dispatch(&COPY, &params, &buffers, groups_for(&COPY, count / 4));
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            output.slice_mut()[..count].copy_from_slice(&source.slice()[..count]);
        }
    }
}
