//! Unit rows, their copies in the memory, and the gradient through the normalization.

use super::parallel::{map, rows_of_a_part};
use super::ranks::Row;
use super::stored::RowsMut;
use super::tile::dot;
use super::triplet_margin::{TERMS, Total};
use super::{add_scaled, wide};

/// Slots of the memory that a batch is copied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots {
    /// The slot of the first row; the others follow, around the end.
    pub cursor: usize,
    /// Slots of the memory.
    pub capacity: usize,
    /// The id of the first row; the others count up.
    pub first_id: u32,
}

impl Slots {
    /// Slots of the rows that come after so many.
    pub fn after(self, rows: usize) -> Self {
        Self {
            cursor: (self.cursor + rows) % self.capacity,
            first_id: self.first_id.wrapping_add(rows as u32),
            ..self
        }
    }
}

/// Writes each row over its length to `unit`.
pub fn normalize(rows: &[f32], stride: usize, unit: &mut [f32]) {
    for (row, unit) in rows.chunks_exact(stride).zip(unit.chunks_exact_mut(stride)) {
        let norm = dot(row, row).sqrt().max(1e-12);
        for (unit, value) in unit.iter_mut().zip(row) {
            *unit = value / norm;
        }
    }
}

/// Divides each row by its length in place.
pub fn in_place(rows: &mut [f32], stride: usize) {
    // Each value is read and written twice.
    let count = rows.len() / stride;
    let most = rows_of_a_part(count, 8 * rows.len(), count.max(1));
    map(rows.chunks_mut(most * stride).collect(), |rows| {
        wide(
            #[inline(always)]
            || {
                for row in rows.chunks_exact_mut(stride) {
                    let norm = dot(row, row).sqrt().max(1e-12);
                    for value in row {
                        *value /= norm;
                    }
                }
            },
        );
    });
}

/// Writes each row's length to `norms`; one that is not finite sets `status[0]`.
pub fn norms(rows: &[f32], stride: usize, norms: &mut [f32], status: &mut [u32]) {
    for (row, norm) in rows.chunks_exact(stride).zip(norms) {
        *norm = dot(row, row).sqrt();
        if !norm.is_finite() {
            status[0] = 1;
        }
    }
}

/// Brings the first rows of `unit` to unit length, as the rows of the batch from `before` on: writes them to their places in `unit`,
/// their lengths before to `lengths`, and copies of them into their slots. `before` is 0, or at least the number of rows.
#[expect(clippy::too_many_arguments, reason = "what a kernel reads and writes")]
pub fn store(
    stride: usize,
    batch: &[Row],
    before: usize,
    slots: Slots,
    unit: &mut [f32],
    lengths: &mut [f32],
    mut bank: RowsMut<'_>,
    tags: &mut [[u32; 2]],
    status: &mut [u32],
) {
    let (batch, slots) = (&batch[before..], slots.after(before));
    if before > 0 {
        unit.copy_within(..batch.len() * stride, before * stride);
    }
    let unit = &mut unit[before * stride..][..batch.len() * stride];
    norms(unit, stride, &mut lengths[before..], status);
    in_place(unit, stride);
    for (i, (unit, row)) in unit.chunks_exact(stride).zip(batch).enumerate() {
        let slot = (slots.cursor + i) % slots.capacity;
        bank.store(slot * stride, unit);
        tags[slot] = [row.label, slots.first_id.wrapping_add(i as u32)];
    }
}

/// `gradient = (gradient - unit <gradient, unit>) / (active norm)`; the inner product, times `scale`, is added to the row's term if
/// `scale` is not 0. `mean` is taken off the gradient after that.
#[expect(clippy::too_many_arguments, reason = "what a kernel reads and writes")]
pub fn backward(
    unit: &[f32],
    norms: &[f32],
    stride: usize,
    gradient: &mut [f32],
    scale: f32,
    divisor: Option<f32>,
    mean: Option<&[f32]>,
    report: &mut [u32],
) {
    let by = divisor.unwrap_or_else(|| Total::Active.read(report) as f32);
    for (i, norm) in norms.iter().enumerate() {
        let unit = &unit[i * stride..][..stride];
        let gradient = &mut gradient[i * stride..][..stride];
        let along = dot(gradient, unit);
        if scale != 0.0 {
            let term = &mut report[TERMS + i];
            *term = scale.mul_add(along, f32::from_bits(*term)).to_bits();
        }
        let along = match mean {
            Some(mean) => {
                add_scaled(gradient, -1.0, mean);
                dot(gradient, unit)
            }
            None => along,
        };
        add_scaled(gradient, -along, unit);
        let divisor = by * norm;
        for gradient in gradient {
            *gradient = if divisor > 0.0 {
                *gradient / divisor
            } else {
                0.0
            };
        }
    }
}
