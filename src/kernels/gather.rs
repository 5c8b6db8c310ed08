//! Rows of a matrix, copied from or to places given by number.

use bytemuck::{Pod, Zeroable};

use super::stored::Stored;
use super::{Kernel, READ, READ_WRITE, groups_for, index, vec4s, wgsl::wgsl};
use crate::cpu;
use crate::engine::{Commands, DeviceVec};

const SOURCE: &[&str] = wgsl!("stored_f32.wgsl", "gather.wgsl");

/// One invocation per 4 floats.
pub static GATHER: Kernel = Kernel {
    name: "gather.gather",
    source: SOURCE,
    entry: "gather",
    bindings: &[READ, READ, READ_WRITE],
    workgroup_size: 64,
    workgroup_bytes: 0,
    any_size: false,
};

/// [`GATHER`] over rows in half precision.
pub static GATHER_F16: Kernel = Kernel {
    name: "gather.gather_f16",
    source: wgsl!("stored_f16.wgsl", "gather.wgsl"),
    ..GATHER
};

/// One invocation per 4 floats.
pub static SCATTER: Kernel = Kernel {
    name: "gather.scatter",
    source: SOURCE,
    entry: "scatter",
    bindings: &[READ, READ, READ_WRITE],
    workgroup_size: 64,
    workgroup_bytes: 0,
    any_size: false,
};

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    count: u32,
    stride: u32,
    first: u32,
}

/// Copies the rows `features[rows[first + i]]` to `batch[i]` as floats, for `i < count`.
///
/// # Shapes
/// `features`: `[_, stride]` · `batch`: `[count, stride]`
pub fn gather(
    commands: &mut Commands,
    features: Stored<'_>,
    rows: &DeviceVec<u32>,
    first: usize,
    count: usize,
    stride: usize,
    batch: &mut DeviceVec<f32>,
) {
    match commands {
        Commands::Gpu(gpu) => gpu.dispatch(
            features.choose(&GATHER, &GATHER_F16),
            &Params {
                count: index(count),
                stride: vec4s(stride),
                first: index(first),
            },
            &[features.binding(), rows.binding(), batch.binding()],
            groups_for(&GATHER, count * stride / 4),
        ),
        Commands::Cpu(calls) => {
            *calls += 1;
            let rows = &rows.slice()[first..first + count];
            cpu::gather::gather(features.slices(), rows, stride, batch.slice_mut());
        }
    }
}

/// Copies the rows `rows[i]` to `to[places[i]]`, for `i < count`; no two places are equal.
///
/// # Shapes
/// `rows`: `[count, stride]` · `to`: `[_, stride]`
pub fn scatter(
    commands: &mut Commands,
    rows: &DeviceVec<f32>,
    places: &DeviceVec<u32>,
    count: usize,
    stride: usize,
    to: &mut DeviceVec<f32>,
) {
    match commands {
        Commands::Gpu(gpu) => gpu.dispatch(
            &SCATTER,
            &Params {
                count: index(count),
                stride: vec4s(stride),
                first: 0,
            },
            &[rows.binding(), places.binding(), to.binding()],
            groups_for(&SCATTER, count * stride / 4),
        ),
        Commands::Cpu(calls) => {
            *calls += 1;
            let rows = &rows.slice()[..count * stride];
            cpu::gather::scatter(rows, &places.slice()[..count], stride, to.slice_mut());
        }
    }
}
