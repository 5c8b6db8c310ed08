//! Adam over the flat vector of parameters.

use bytemuck::{Pod, Zeroable};

use super::{Kernel, READ, READ_WRITE, groups_for, index, vec4s, wgsl::wgsl};
use crate::cpu;
pub use crate::cpu::optimizer::AdamStep;
use crate::engine::{Commands, DeviceVec};

/// One invocation per 4 parameters.
pub static ADAM: Kernel = Kernel {
    name: "optimizer.adam",
    source: wgsl!("optimizer.wgsl"),
    entry: "adam",
    bindings: &[READ, READ_WRITE, READ_WRITE, READ_WRITE, READ, READ_WRITE],
    workgroup_size: 64,
    workgroup_bytes: 0,
    any_size: false,
};

/// Number of sums that [`squares`] writes.
pub const PARTS: usize = 1024;

/// One invocation per part.
pub static SQUARES: Kernel = Kernel {
    name: "optimizer.squares",
    entry: "squares",
    bindings: &[READ, READ_WRITE],
    ..ADAM
};

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    count: u32,
    report: u32,
    step: AdamStep,
}

/// Adam's moments, one of each for every parameter.
#[derive(Debug)]
pub struct Moments {
    /// Mean gradient.
    pub first: DeviceVec<f32>,
    /// Mean squared gradient.
    pub second: DeviceVec<f32>,
}

/// The squared length of the first `count` gradients, in [`PARTS`] sums.
pub fn squares(
    commands: &mut Commands,
    count: usize,
    gradients: &DeviceVec<f32>,
    sums: &mut DeviceVec<f32>,
) {
    match commands {
        Commands::Gpu(gpu) => gpu.dispatch(
            &SQUARES,
            &Params {
                count: vec4s(count),
                report: 0,
                step: AdamStep::zeroed(),
            },
            &[gradients.binding(), sums.binding()],
            groups_for(&SQUARES, PARTS),
        ),
        Commands::Cpu(calls) => {
            *calls += 1;
            cpu::optimizer::squares(&gradients.slice()[..count], sums.slice_mut());
        }
    }
}

/// One Adam step on the first `count` parameters. Changes nothing if `status[0]` is set; copies that word into the report.
#[expect(clippy::too_many_arguments, reason = "what a kernel reads and writes")]
pub fn adam(
    commands: &mut Commands,
    step: &AdamStep,
    count: usize,
    gradients: &DeviceVec<f32>,
    parameters: &mut DeviceVec<f32>,
    moments: &mut Moments,
    status: &DeviceVec<u32>,
    report_first: usize,
    report: &mut DeviceVec<u32>,
) {
    let Moments { first, second } = moments;
    match commands {
        Commands::Gpu(gpu) => gpu.dispatch(
            &ADAM,
            &Params {
                count: vec4s(count),
                report: index(report_first),
                step: *step,
            },
            &[
                gradients.binding(),
                parameters.binding(),
                first.binding(),
                second.binding(),
                status.binding(),
                report.binding(),
            ],
            groups_for(&ADAM, count / 4),
        ),
        Commands::Cpu(calls) => {
            *calls += 1;
            let report = &mut report.slice_mut()[report_first..];
            report[super::triplet_margin::STATUS] = status.slice()[0];
            if status.slice()[0] == 0 {
                let parameters = &mut parameters.slice_mut()[..count];
                let (first, second) = (first.slice_mut(), second.slice_mut());
                cpu::optimizer::adam(step, gradients.slice(), parameters, first, second);
            }
        }
    }
}
