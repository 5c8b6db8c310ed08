//! The first numbers of rows of unit length, brought to unit length anew, and gradients from there back to the whole rows: what
//! Matryoshka learning (Kusupati et al. 2022) needs beside a loss.

use bytemuck::{Pod, Zeroable};

use super::stored::{Stored, StoredRows};
use super::{Kernel, READ, READ_WRITE, groups_for, index, stride, vec4s, wgsl::wgsl};
use crate::cpu;
use crate::engine::{Commands, DeviceVec};

const SOURCE: &[&str] = wgsl!("stored_f32.wgsl", "truncate.wgsl");

/// One workgroup a row.
pub static TRUNCATE: Kernel = Kernel {
    name: "truncate.truncate",
    source: SOURCE,
    entry: "truncate",
    bindings: &[READ, READ_WRITE, READ_WRITE],
    workgroup_size: 64,
    workgroup_bytes: 4 * 64,
    any_size: false,
};

/// [`TRUNCATE`] over rows in half precision.
pub static TRUNCATE_F16: Kernel = Kernel {
    name: "truncate.truncate_f16",
    source: wgsl!("stored_f16.wgsl", "truncate.wgsl"),
    ..TRUNCATE
};

/// One invocation per 4 floats.
pub static WIDEN: Kernel = Kernel {
    name: "truncate.widen",
    entry: "widen",
    bindings: &[READ, READ_WRITE],
    workgroup_bytes: 0,
    ..TRUNCATE
};

#[repr(C)]
#[derive(Clone, Copy, Default, Pod, Zeroable)]
struct Params {
    rows: u32,
    stride: u32,
    narrow: u32,
    dim: u32,
    measured: u32,
    onto: u32,
    factor: f32,
}

/// Sizes of whole rows and of truncated ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncation {
    /// Number of rows.
    pub rows: usize,
    /// Numbers of a whole row.
    pub whole: usize,
    /// Numbers of a truncated row, at most as many.
    pub dim: usize,
}

impl Truncation {
    fn params(&self) -> Params {
        Params {
            rows: index(self.rows),
            stride: vec4s(stride(self.whole)),
            narrow: vec4s(stride(self.dim)),
            dim: index(self.dim),
            ..Params::default()
        }
    }
}

/// Writes `v / max(|v|, 1e-12)` of the first numbers `v` of each unit row to `truncated`, and `|v|` to `norms`.
///
/// # Shapes
/// `unit`: `[rows, stride(whole)]` · `truncated`: `[rows, stride(dim)]` · `norms`: `[rows]`
pub fn truncate(
    commands: &mut Commands,
    sizes: &Truncation,
    unit: &DeviceVec<f32>,
    truncated: &mut DeviceVec<f32>,
    norms: &mut DeviceVec<f32>,
) {
    match commands {
        Commands::Gpu(gpu) => gpu.dispatch(
            &TRUNCATE,
            &Params {
                measured: 1,
                ..sizes.params()
            },
            &[unit.binding(), truncated.binding(), norms.binding()],
            sizes.rows as u64,
        ),
        Commands::Cpu(calls) => {
            *calls += 1;
            cpu::truncate::truncate(
                Stored::from(unit).slices(),
                sizes.rows,
                [stride(sizes.whole), stride(sizes.dim), sizes.dim],
                cpu::stored::RowsMut::F32(truncated.slice_mut()),
                Some(norms.slice_mut()),
            );
        }
    }
}

/// [`truncate`] of stored rows, in the precision of both; `scratch` is of any size and stays as it is.
pub fn truncate_stored(
    commands: &mut Commands,
    sizes: &Truncation,
    stored: Stored<'_>,
    truncated: &mut StoredRows,
    scratch: &mut DeviceVec<f32>,
) {
    match commands {
        Commands::Gpu(gpu) => gpu.dispatch(
            stored.choose(&TRUNCATE, &TRUNCATE_F16),
            &sizes.params(),
            &[
                stored.binding(),
                truncated.read().binding(),
                scratch.binding(),
            ],
            sizes.rows as u64,
        ),
        Commands::Cpu(calls) => {
            *calls += 1;
            cpu::truncate::truncate(
                stored.slices(),
                sizes.rows,
                [stride(sizes.whole), stride(sizes.dim), sizes.dim],
                truncated.slices_mut(),
                None,
            );
        }
    }
}

/// Writes `factor` times the gradient of truncated rows to the first numbers of that of the whole rows, and 0 beyond them; with `onto`
/// adds it to what is there.
///
/// # Shapes
/// `gradient`: `[rows, stride(dim)]` · `whole`: `[rows, stride(whole)]`
pub fn widen(
    commands: &mut Commands,
    sizes: &Truncation,
    gradient: &DeviceVec<f32>,
    factor: f32,
    onto: bool,
    whole: &mut DeviceVec<f32>,
) {
    let strides = [sizes.whole, sizes.dim].map(stride);
    match commands {
        Commands::Gpu(gpu) => gpu.dispatch(
            &WIDEN,
            &Params {
                onto: u32::from(onto),
                factor,
                ..sizes.params()
            },
            &[gradient.binding(), whole.binding()],
            groups_for(&WIDEN, sizes.rows * strides[0] / 4),
        ),
        Commands::Cpu(calls) => {
            *calls += 1;
            let (gradient, whole) = (gradient.slice(), whole.slice_mut());
            cpu::truncate::widen(gradient, sizes.rows, strides, factor, onto, whole);
        }
    }
}
