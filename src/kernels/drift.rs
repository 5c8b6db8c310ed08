//! The part of a batch's gradient that moves all of its rows in one direction, its mean, and the steadiness of that direction.

use bytemuck::{Pod, Zeroable};

use super::{
    Kernel, MOST_ROUNDS, MOST_STEPS, READ, READ_WRITE, groups_for, index, vec4s, wgsl::wgsl,
};
use crate::cpu;
use crate::engine::{Commands, DeviceVec};

/// One workgroup per `COLUMNS` vec4s of a row.
pub static MEAN: Kernel = Kernel {
    name: "drift.mean",
    entry: "mean",
    bindings: &[READ, READ_WRITE],
    workgroup_bytes: 16 * 256,
    ..MEASURE
};

/// vec4s of a workgroup of [`MEAN`]; the shader's `COLUMNS`.
const COLUMNS: usize = 16;

/// One workgroup.
pub static MEASURE: Kernel = Kernel {
    name: "drift.measure",
    source: wgsl!("drift.wgsl"),
    entry: "measure",
    bindings: &[READ, READ_WRITE, READ_WRITE],
    workgroup_size: 256,
    workgroup_bytes: 16 * (256 + 16),
    any_size: false,
};

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    rows: u32,
    stride: u32,
    summed: u32,
}

/// The mean gradient of a batch's rows and its running average over steps, and the cosines of the two so far: their sum and their
/// number.
#[derive(Debug)]
pub struct Drift {
    /// `[2, stride]`: the mean, and the average.
    pub state: DeviceVec<f32>,
    /// `[2]`: the sum of the cosines, and their number.
    pub sums: DeviceVec<f32>,
}

/// Writes the mean of the rows of a gradient to `drift.state`; adds its cosine with the running average to `drift.sums`.
///
/// # Shapes
/// `gradient`: `[rows, stride]`
pub fn measure(
    commands: &mut Commands,
    rows: usize,
    stride: usize,
    gradient: &DeviceVec<f32>,
    drift: &mut Drift,
) {
    match commands {
        Commands::Gpu(gpu) => {
            let buffers = [
                gradient.binding(),
                drift.state.binding(),
                drift.sums.binding(),
            ];
            let mut params = Params {
                rows: index(rows),
                stride: vec4s(stride),
                summed: 0,
            };
            // One workgroup does it all, unless its invocations would have too much to add.
            let own = groups_for(&MEASURE, stride / 4) as usize;
            if rows > MOST_ROUNDS || own.saturating_mul(rows) > MOST_STEPS {
                let groups = (stride / 4).div_ceil(COLUMNS);
                gpu.dispatch(&MEAN, &params, &buffers[..2], groups as u64);
                params.summed = 1;
            }
            gpu.dispatch(&MEASURE, &params, &buffers, 1);
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            let gradient = &gradient.slice()[..rows * stride];
            let (state, sums) = (drift.state.slice_mut(), drift.sums.slice_mut());
            cpu::drift::measure(gradient, stride, state, sums);
        }
    }
}
