//! Unit rows, their copies in the cross-batch memory, and the gradient through the normalization.

use std::ops::Range;

use bytemuck::{Pod, Zeroable};

use super::stored::StoredRows;
use super::{Kernel, READ, READ_WRITE, index, vec4s, wgsl::wgsl};
use crate::cpu;
pub use crate::cpu::normalize::Slots;
use crate::cpu::ranks::Row;
use crate::engine::{Commands, DeviceVec};

const SOURCE: &[&str] = wgsl!("stored_f32.wgsl", "normalize.wgsl");
const SOURCE_F16: &[&str] = wgsl!("stored_f16.wgsl", "normalize.wgsl");
const WORKGROUP_SIZE: u32 = 64;

/// One workgroup a row.
pub static NORMALIZE: Kernel = Kernel {
    name: "normalize.normalize",
    source: SOURCE,
    entry: "normalize",
    bindings: &[READ, READ_WRITE],
    workgroup_size: WORKGROUP_SIZE,
    workgroup_bytes: 4 * WORKGROUP_SIZE,
    any_size: false,
};

/// One workgroup a row.
pub static STORE: Kernel = Kernel {
    name: "normalize.store",
    source: SOURCE,
    entry: "store",
    bindings: &[
        READ_WRITE, READ, READ_WRITE, READ_WRITE, READ_WRITE, READ_WRITE,
    ],
    workgroup_size: WORKGROUP_SIZE,
    workgroup_bytes: 4 * WORKGROUP_SIZE,
    any_size: false,
};

/// [`STORE`] over rows in half precision.
pub static STORE_F16: Kernel = Kernel {
    name: "normalize.store_f16",
    source: SOURCE_F16,
    ..STORE
};

/// One workgroup a row.
pub static BACKWARD: Kernel = Kernel {
    name: "normalize.backward",
    source: SOURCE,
    entry: "backward",
    bindings: &[READ, READ, READ_WRITE, READ_WRITE, READ],
    workgroup_size: WORKGROUP_SIZE,
    workgroup_bytes: 4 * WORKGROUP_SIZE,
    any_size: false,
};

#[repr(C)]
#[derive(Clone, Copy, Default, Pod, Zeroable)]
struct Params {
    rows: u32,
    stride: u32,
    first: u32,
    cursor: u32,
    capacity: u32,
    first_id: u32,
    report: u32,
    scale: f32,
    divisor: f32,
    before: u32,
    centered: u32,
}

/// Writes `rows[i] / max(|rows[i]|, 1e-12)` to `unit[first + i]`, for `i < count`. A zero row stays zero.
///
/// # Shapes
/// `rows`: `[count, stride]` · `unit`: `[_, stride]`
pub fn normalize(
    commands: &mut Commands,
    count: usize,
    stride: usize,
    rows: &DeviceVec<f32>,
    first: usize,
    unit: &mut DeviceVec<f32>,
) {
    match commands {
        Commands::Gpu(gpu) => gpu.dispatch(
            &NORMALIZE,
            &Params {
                rows: index(count),
                stride: vec4s(stride),
                first: index(first),
                ..Params::default()
            },
            &[rows.binding(), unit.binding()],
            count as u64,
        ),
        Commands::Cpu(calls) => {
            *calls += 1;
            let rows = &rows.slice()[..count * stride];
            cpu::normalize::normalize(rows, stride, &mut unit.slice_mut()[first * stride..]);
        }
    }
}

/// One workgroup a row.
pub static IN_PLACE: Kernel = Kernel {
    name: "normalize.in_place",
    entry: "in_place",
    bindings: &[READ_WRITE],
    ..NORMALIZE
};

/// [`normalize`] in place: `rows[first + i]` for `i < count`, with the same bits.
pub fn in_place(
    commands: &mut Commands,
    count: usize,
    stride: usize,
    first: usize,
    rows: &mut DeviceVec<f32>,
) {
    match commands {
        Commands::Gpu(gpu) => gpu.dispatch(
            &IN_PLACE,
            &Params {
                rows: index(count),
                stride: vec4s(stride),
                first: index(first),
                ..Params::default()
            },
            &[rows.binding()],
            count as u64,
        ),
        Commands::Cpu(calls) => {
            *calls += 1;
            let rows = &mut rows.slice_mut()[first * stride..][..count * stride];
            cpu::normalize::in_place(rows, stride);
        }
    }
}

/// One workgroup a row.
pub static MEASURE: Kernel = Kernel {
    name: "normalize.measure",
    source: SOURCE,
    entry: "measure",
    bindings: &[READ, READ_WRITE, READ_WRITE, READ_WRITE],
    workgroup_size: WORKGROUP_SIZE,
    workgroup_bytes: 4 * WORKGROUP_SIZE,
    any_size: false,
};

/// [`normalize`] that also writes the lengths before to `norms`. A row whose length is not finite sets `status[0]`.
///
/// # Shapes
/// `rows`, `unit`: `[count, stride]` · `norms`: `[count]`
pub fn measure(
    commands: &mut Commands,
    count: usize,
    stride: usize,
    rows: &DeviceVec<f32>,
    unit: &mut DeviceVec<f32>,
    norms: &mut DeviceVec<f32>,
    status: &mut DeviceVec<u32>,
) {
    match commands {
        Commands::Gpu(gpu) => gpu.dispatch(
            &MEASURE,
            &Params {
                rows: index(count),
                stride: vec4s(stride),
                ..Params::default()
            },
            &[
                rows.binding(),
                unit.binding(),
                norms.binding(),
                status.binding(),
            ],
            count as u64,
        ),
        Commands::Cpu(calls) => {
            *calls += 1;
            let rows = &rows.slice()[..count * stride];
            cpu::normalize::normalize(rows, stride, unit.slice_mut());
            cpu::normalize::norms(rows, stride, norms.slice_mut(), status.slice_mut());
        }
    }
}

/// The memory: unit rows `[capacity, stride]`, and each one's `[label, id]`.
#[derive(Debug)]
pub struct Bank {
    /// The stored rows.
    pub rows: StoredRows,
    /// `[label, id]` of each.
    pub tags: DeviceVec<[u32; 2]>,
}

/// Brings the first rows of `unit` to unit length, as the rows `rows` of a batch: writes them to their places in `unit`, and stores
/// copies of them in the memory, with the labels of `batch[first ..]`. `slots` are those of the whole batch, and `rows` begin at 0,
/// or at their number at least.
///
/// A row whose length is not finite sets `status[0]`; no kernel clears it.
///
/// # Shapes
/// `unit`: `[batch, stride]` · `norms`: `[batch]`, the lengths before
#[expect(clippy::too_many_arguments, reason = "what a kernel reads and writes")]
pub fn store(
    commands: &mut Commands,
    rows: Range<usize>,
    stride: usize,
    batch: &DeviceVec<Row>,
    first: usize,
    slots: Slots,
    unit: &mut DeviceVec<f32>,
    norms: &mut DeviceVec<f32>,
    bank: &mut Bank,
    status: &mut DeviceVec<u32>,
) {
    let count = rows.len();
    debug_assert!(
        rows.start == 0 || rows.start >= count,
        "no row is read that is written"
    );
    match commands {
        Commands::Gpu(gpu) => gpu.dispatch(
            bank.rows.read().choose(&STORE, &STORE_F16),
            &Params {
                rows: index(count),
                stride: vec4s(stride),
                first: index(first),
                before: index(rows.start),
                cursor: index(slots.cursor),
                capacity: index(slots.capacity),
                first_id: slots.first_id,
                ..Params::default()
            },
            &[
                unit.binding(),
                batch.binding(),
                norms.binding(),
                status.binding(),
                bank.rows.read().binding(),
                bank.tags.binding(),
            ],
            count as u64,
        ),
        Commands::Cpu(calls) => {
            *calls += 1;
            let batch = &batch.slice()[first..first + rows.end];
            let (unit, norms) = (unit.slice_mut(), norms.slice_mut());
            let (bank, tags) = (bank.rows.slices_mut(), bank.tags.slice_mut());
            let (before, status) = (rows.start, status.slice_mut());
            cpu::normalize::store(
                stride, batch, before, slots, unit, norms, bank, tags, status,
            );
        }
    }
}

/// dL/d(rows) from dL/d(unit rows), in place: undoes the normalization and divides by `divisor`.
///
/// `gradient` comes in as dL/d(unit rows) times the divisor: with `None` that is the number of active triplets, which is read from
/// the step's report. The report begins at word `report_first`; each row's term of the loss there grows by
/// `scale <gradient, unit>`. With `scale` 0 no term is touched. `mean`, if given, is taken off every row of the gradient after
/// that.
///
/// # Shapes
/// `unit`, `gradient`: `[count, stride]` · `norms`: `[count]`, as [`store`] leaves them · `mean`: `[stride]`
#[expect(clippy::too_many_arguments, reason = "what a kernel reads and writes")]
pub fn backward(
    commands: &mut Commands,
    count: usize,
    stride: usize,
    unit: &DeviceVec<f32>,
    norms: &DeviceVec<f32>,
    gradient: &mut DeviceVec<f32>,
    scale: f32,
    divisor: Option<f32>,
    mean: Option<&DeviceVec<f32>>,
    report_first: usize,
    report: &mut DeviceVec<u32>,
) {
    match commands {
        Commands::Gpu(gpu) => gpu.dispatch(
            &BACKWARD,
            &Params {
                rows: index(count),
                stride: vec4s(stride),
                report: index(report_first),
                scale,
                divisor: divisor.unwrap_or(0.0),
                centered: u32::from(mean.is_some()),
                ..Params::default()
            },
            &[
                unit.binding(),
                norms.binding(),
                gradient.binding(),
                report.binding(),
                mean.unwrap_or(unit).binding(),
            ],
            count as u64,
        ),
        Commands::Cpu(calls) => {
            *calls += 1;
            let (unit, norms) = (unit.slice(), &norms.slice()[..count]);
            let report = &mut report.slice_mut()[report_first..];
            let gradient = gradient.slice_mut();
            let mean = mean.map(|mean| &mean.slice()[..stride]);
            cpu::normalize::backward(unit, norms, stride, gradient, scale, divisor, mean, report);
        }
    }
}
