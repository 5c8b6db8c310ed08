//! The last layer of a head on a batch: unit embeddings, and their copies in the memory.

use std::ops::Range;

use super::gemm::{self, Layer};
use super::normalize::{Bank, Slots};
use super::ranks::Row;
use super::stored::Stored;
use super::tile::Shape;
use super::{Kernel, READ, READ_WRITE, index, wgsl::wgsl};
use crate::cpu;
use crate::engine::{Commands, DeviceVec};

/// Rows of a workgroup; the shader's `ROWS`.
const ROWS: usize = 4;

const SOURCE_F16: &[&str] = wgsl!("stored_f16.wgsl", "gemm.wgsl", "embed.wgsl");

/// One workgroup per 4 rows.
pub static EMBED_AND_STORE: Kernel = Kernel {
    name: "embed.embed_and_store",
    source: wgsl!("stored_f32.wgsl", "gemm.wgsl", "embed.wgsl"),
    entry: "embed_and_store",
    bindings: &[
        READ, READ, READ, READ_WRITE, READ_WRITE, READ_WRITE, READ_WRITE, READ_WRITE,
    ],
    workgroup_size: 64,
    workgroup_bytes: 16 * 64,
    any_size: false,
};

/// One workgroup per 4 rows, one result an invocation.
pub static EMBED_AND_STORE_TILE: Kernel = Kernel {
    name: "embed.embed_and_store_tile",
    entry: "embed_and_store_tile",
    workgroup_size: 256,
    workgroup_bytes: 16 * 8 * (4 + 65) + 2 * 4 * 4 * 64,
    ..EMBED_AND_STORE
};

/// [`EMBED_AND_STORE`] of activations in half precision.
pub static EMBED_AND_STORE_F16: Kernel =
    EMBED_AND_STORE.of_text("embed.embed_and_store_f16", SOURCE_F16);

/// [`EMBED_AND_STORE_TILE`] of activations in half precision.
pub static EMBED_AND_STORE_TILE_F16: Kernel =
    EMBED_AND_STORE_TILE.of_text("embed.embed_and_store_tile_f16", SOURCE_F16);

fn kernel(x: Stored<'_>, shape: Shape) -> &'static Kernel {
    x.choose(
        shape.choose(&EMBED_AND_STORE, &EMBED_AND_STORE_TILE),
        shape.choose(&EMBED_AND_STORE_F16, &EMBED_AND_STORE_TILE_F16),
    )
}

/// Computes the embeddings of these `rows` of a batch over their length, `unit`, from the rows `x` that the layer takes, and stores
/// copies of them in the memory, which holds floats, with the labels of `batch[first ..]`: [`gemm::forward`] and [`super::normalize::store`], bit for
/// bit. `slots` are those of the whole batch.
///
/// A row whose length is not finite sets `status[0]`; no kernel clears it.
///
/// # Shapes
/// `x`: `[rows, inputs]` · `unit`: `[batch, outputs]` · `norms`: `[batch]`, the lengths before
#[expect(clippy::too_many_arguments, reason = "what a kernel reads and writes")]
pub fn embed_and_store(
    commands: &mut Commands,
    layer: &Layer,
    shape: Shape,
    rows: Range<usize>,
    x: Stored<'_>,
    parameters: &DeviceVec<f32>,
    batch: &DeviceVec<Row>,
    first: usize,
    slots: Slots,
    unit: &mut DeviceVec<f32>,
    norms: &mut DeviceVec<f32>,
    bank: &mut Bank,
    status: &mut DeviceVec<u32>,
) {
    debug_assert!(!layer.relu, "the last layer has no ReLU");
    match commands {
        Commands::Gpu(gpu) => gpu.dispatch(
            kernel(x, shape),
            &gemm::Params {
                first: index(first),
                cursor: index(slots.cursor),
                capacity: index(slots.capacity),
                first_id: slots.first_id,
                before: index(rows.start),
                ..gemm::params(layer, rows.len())
            },
            &[
                x.binding(),
                batch.binding(),
                parameters.binding(),
                unit.binding(),
                norms.binding(),
                bank.rows.read().floats().binding(),
                bank.tags.binding(),
                status.binding(),
            ],
            rows.len().div_ceil(ROWS) as u64,
        ),
        Commands::Cpu(calls) => {
            *calls += 1;
            let batch = &batch.slice()[first..first + rows.end];
            cpu::embed::embed_and_store(
                layer,
                x.slices(),
                parameters.slice(),
                batch,
                rows.start,
                slots,
                unit.slice_mut(),
                norms.slice_mut(),
                bank.rows.floats_mut().slice_mut(),
                bank.tags.slice_mut(),
                status.slice_mut(),
            );
        }
    }
}
