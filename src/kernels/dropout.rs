//! Dropout: a part of a layer's outputs, drawn anew each step, is set to 0.

use std::ops::Range;

use bytemuck::{Pod, Zeroable};

use super::{Kernel, READ_WRITE, groups_for, index, vec4s, wgsl::wgsl};
use crate::cpu;
pub use crate::cpu::dropout::Dropout;
use crate::engine::{Commands, DeviceVec};

/// One invocation per vec4.
pub static DROP: Kernel = Kernel {
    name: "dropout.drop",
    source: wgsl!("dropout.wgsl"),
    entry: "drop",
    bindings: &[READ_WRITE],
    workgroup_size: 64,
    workgroup_bytes: 0,
    any_size: false,
};

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    count: u32,
    threshold: u32,
    scale: f32,
    key: [u32; 2],
    first: u32,
}

/// Drops from `values` in place: from a layer's outputs in the forward pass, and with the same `dropout` from their gradient in the
/// backward pass. `rows` are numbers of rows of the batch: a row has the same mask whichever rows are dropped from with it.
///
/// # Shapes
/// `values`: `[rows, stride]`
pub fn drop(
    commands: &mut Commands,
    dropout: &Dropout,
    rows: Range<usize>,
    stride: usize,
    values: &mut DeviceVec<f32>,
) {
    let (first, count) = (rows.start * stride, rows.len() * stride);
    match commands {
        Commands::Gpu(gpu) => {
            let params = Params {
                count: vec4s(count),
                threshold: dropout.threshold(),
                scale: dropout.scale(),
                key: dropout.key,
                first: vec4s(first),
            };
            let groups = groups_for(&DROP, count / 4);
            gpu.dispatch(&DROP, &params, &[values.binding()], groups);
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            cpu::dropout::drop(dropout, index(first), &mut values.slice_mut()[..count]);
        }
    }
}
