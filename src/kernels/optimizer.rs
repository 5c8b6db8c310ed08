//! SGD and Adam over the flat vector of parameters, and clipping of gradients by their norm.

use bytemuck::{Pod, Zeroable};

use super::{Kernel, READ, READ_WRITE, groups_for, index, vec4s, wgsl::wgsl};
use crate::cpu;
pub use crate::cpu::optimizer::{OptimizerStep, SEGMENT};
use crate::engine::{Commands, DeviceVec};

/// One invocation per 4 parameters.
pub static ADAM: Kernel = Kernel {
    name: "optimizer.adam",
    source: wgsl!("optimizer.wgsl"),
    entry: "adam",
    bindings: &[
        READ, READ_WRITE, READ, READ_WRITE, READ, READ_WRITE, READ_WRITE,
    ],
    workgroup_size: 64,
    workgroup_bytes: 0,
    any_size: false,
};

/// One invocation per 4 parameters.
pub static MOMENTUM: Kernel = Kernel {
    name: "optimizer.momentum",
    entry: "momentum",
    bindings: &[READ, READ_WRITE, READ, READ_WRITE, READ, READ_WRITE],
    ..ADAM
};

/// One invocation per 4 parameters.
pub static SGD: Kernel = Kernel {
    name: "optimizer.sgd",
    entry: "sgd",
    bindings: &[READ, READ_WRITE, READ, READ_WRITE, READ],
    ..ADAM
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

/// One invocation per segment.
pub static SEGMENTS: Kernel = Kernel {
    name: "optimizer.segments",
    entry: "segments",
    ..SQUARES
};

/// One workgroup.
pub static CLIP: Kernel = Kernel {
    name: "optimizer.clip",
    entry: "clip",
    bindings: &[READ_WRITE],
    workgroup_bytes: 256,
    ..ADAM
};

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    count: u32,
    report: u32,
    clips: u32,
    max_norm: f32,
    step: OptimizerStep,
}

/// What an optimizer remembers of the gradients before, and with it the optimizer.
#[derive(Debug)]
pub enum Moments {
    /// Nothing: SGD without momentum.
    None,
    /// Running sum of the gradients: SGD with momentum.
    First(DeviceVec<f32>),
    /// Mean gradient and mean squared gradient: Adam.
    Both([DeviceVec<f32>; 2]),
}

impl Moments {
    /// The vectors, one value of each for every parameter.
    pub fn vectors(&self) -> &[DeviceVec<f32>] {
        match self {
            Self::None => &[],
            Self::First(first) => std::slice::from_ref(first),
            Self::Both(both) => both,
        }
    }

    /// The kernel of their optimizer.
    fn kernel(&self) -> &'static Kernel {
        match self {
            Self::None => &SGD,
            Self::First(_) => &MOMENTUM,
            Self::Both(_) => &ADAM,
        }
    }

    /// The vectors, to be written.
    pub fn vectors_mut(&mut self) -> &mut [DeviceVec<f32>] {
        match self {
            Self::None => &mut [],
            Self::First(first) => std::slice::from_mut(first),
            Self::Both(both) => both,
        }
    }
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
                ..Params::zeroed()
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

/// The squared length of the first `count` gradients, in one sum for each [`SEGMENT`] of them; the first one goes to `sums[first]`.
pub fn segments(
    commands: &mut Commands,
    count: usize,
    gradients: &DeviceVec<f32>,
    first: usize,
    sums: &mut DeviceVec<f32>,
) {
    let segments = count.div_ceil(SEGMENT);
    match commands {
        Commands::Gpu(gpu) => gpu.dispatch(
            &SEGMENTS,
            &Params {
                count: vec4s(count),
                report: index(first),
                ..Params::zeroed()
            },
            &[gradients.binding(), sums.binding()],
            groups_for(&SEGMENTS, segments),
        ),
        Commands::Cpu(calls) => {
            *calls += 1;
            let sums = &mut sums.slice_mut()[first..][..segments];
            cpu::optimizer::segments(&gradients.slice()[..count], sums);
        }
    }
}

/// Replaces `sums[0]` by the factor that makes gradients at most `max_norm` long together; the sums of their `segments` segments
/// follow it.
pub fn clip(commands: &mut Commands, max_norm: f32, segments: usize, sums: &mut DeviceVec<f32>) {
    match commands {
        Commands::Gpu(gpu) => gpu.dispatch(
            &CLIP,
            &Params {
                count: index(segments),
                max_norm,
                ..Params::zeroed()
            },
            &[sums.binding()],
            1,
        ),
        Commands::Cpu(calls) => {
            *calls += 1;
            let sums = sums.slice_mut();
            sums[0] = cpu::optimizer::clip(max_norm, &sums[1..][..segments]);
        }
    }
}

/// One step of the optimizer of these moments on the first `count` parameters, with gradients times `clip[0]` if given. Changes
/// nothing if `status[0]` is set; copies that word into the report.
#[expect(clippy::too_many_arguments, reason = "what a kernel reads and writes")]
pub fn update(
    commands: &mut Commands,
    step: &OptimizerStep,
    count: usize,
    gradients: &DeviceVec<f32>,
    parameters: &mut DeviceVec<f32>,
    moments: &mut Moments,
    clip: Option<&DeviceVec<f32>>,
    status: &DeviceVec<u32>,
    report_first: usize,
    report: &mut DeviceVec<u32>,
) {
    match commands {
        Commands::Gpu(gpu) => {
            let kernel = moments.kernel();
            let params = Params {
                count: vec4s(count),
                report: index(report_first),
                clips: u32::from(clip.is_some()),
                max_norm: 0.0,
                step: *step,
            };
            let mut bindings = vec![
                gradients.binding(),
                parameters.binding(),
                status.binding(),
                report.binding(),
                // Without clipping nothing is read of it.
                clip.unwrap_or(gradients).binding(),
            ];
            bindings.extend(moments.vectors().iter().map(DeviceVec::binding));
            gpu.dispatch(kernel, &params, &bindings, groups_for(kernel, count / 4));
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            let report = &mut report.slice_mut()[report_first..];
            report[super::triplet_margin::STATUS] = status.slice()[0];
            if status.slice()[0] != 0 {
                return;
            }
            let clip = clip.map_or(1.0, |clip| clip.slice()[0]);
            let parameters = &mut parameters.slice_mut()[..count];
            let gradients = gradients.slice();
            match moments {
                Moments::None => cpu::optimizer::sgd(step, clip, gradients, parameters),
                Moments::First(first) => {
                    let first = first.slice_mut();
                    cpu::optimizer::momentum(step, clip, gradients, parameters, first);
                }
                Moments::Both([first, second]) => {
                    let (first, second) = (first.slice_mut(), second.slice_mut());
                    cpu::optimizer::adam(step, clip, gradients, parameters, first, second);
                }
            }
        }
    }
}
