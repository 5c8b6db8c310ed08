//! The last layer of a head on a batch, on its way into the memory.

use super::gemm::{self, Layer};
use super::normalize::{self, Slots};
use super::ranks::Row;
use super::stored::{Rows, RowsMut};

/// Writes the unit embeddings of the rows of `batch` from `before` on to `unit` and to their slots of the memory, and their lengths
/// before to `norms`.
#[expect(clippy::too_many_arguments, reason = "what a kernel reads and writes")]
pub fn embed_and_store(
    layer: &Layer,
    x: Rows<'_>,
    parameters: &[f32],
    batch: &[Row],
    before: usize,
    slots: Slots,
    unit: &mut [f32],
    norms: &mut [f32],
    bank: &mut [f32],
    tags: &mut [[u32; 2]],
    status: &mut [u32],
) {
    let (batch, norms) = (&batch[before..], &mut norms[before..]);
    let unit = &mut unit[before * layer.outputs..];
    let slots = slots.after(before);
    gemm::forward(layer, batch.len(), x.into(), parameters, unit);
    let bank = RowsMut::F32(bank);
    normalize::store(
        layer.outputs,
        batch,
        0,
        slots,
        unit,
        norms,
        bank,
        tags,
        status,
    );
}
