//! [`Anchor`]: the counts of an anchor's triplets and the sum of its gradient, a segment of references at a time.

use std::array;

use pulp::{Simd, WithSimd};

use super::ladder::Ladder;
use super::rule::{Rule, Total};
use crate::stored::Rows;
use crate::tile::{PANEL, columns, lanes_of};
use crate::{Distance, SEGMENT, add_scaled};

/// Totals that are counted.
pub(super) const KINDS: [Total; 5] = [
    Total::Valid,
    Total::Within,
    Total::Hard,
    Total::Mined,
    Total::Active,
];

pub(super) fn add_counts(totals: &mut [u64; KINDS.len()], counts: [u64; KINDS.len()]) {
    for (total, count) in totals.iter_mut().zip(counts) {
        *total += count;
    }
}

/// Compares every anchor with the references of a segment; compiled for the instruction set of the processor.
pub(super) struct MeetAll<'a, 'b> {
    pub(super) anchors: &'a mut [Anchor<'b>],
    pub(super) rule: &'a Rule,
    pub(super) s: &'a [[f32; PANEL]],
    pub(super) tags: &'a [[u32; 2]],
}

impl WithSimd for MeetAll<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        for (anchor, column) in self.anchors.iter_mut().zip(&columns(self.s)) {
            anchor.meet_all(simd, self.rule, &column[..self.s.len()], self.tags);
            anchor.part.fill(0.0);
        }
    }
}

/// An anchor of a panel, with its sums over the references so far.
pub(super) struct Anchor<'a> {
    pub(super) label: u32,
    pub(super) ladder: Ladder<'a>,
    pub(super) gap_counts: &'a mut [u32],
    pub(super) part: &'a mut [f32],
    pub(super) gradient: &'a mut [f32],
    /// Weights of the references of a segment.
    pub(super) factors: [f32; SEGMENT],
    /// Sum of the weights of all references so far.
    pub(super) weights: f64,
    pub(super) totals: [u64; KINDS.len()],
}

impl Anchor<'_> {
    /// Counts the triplets with the references of a segment, and weights those, from each one's similarity and tag.
    #[inline(always)]
    pub(super) fn meet_all<S: Simd>(&mut self, simd: S, rule: &Rule, s: &[f32], tags: &[[u32; 2]]) {
        let ladder = &self.ladder;
        let positives = ladder.thresholds.len();
        if positives == 0 {
            return;
        }
        let mut values = [0.0; SEGMENT];
        for (value, s) in values.iter_mut().zip(s) {
            *value = *s;
        }
        if rule.distance == Distance::L2 {
            for value in &mut values {
                *value = Distance::L2.value(*value);
            }
        }
        let with_margin = values.iter().map(|value| value + rule.miner_margin);
        let steps = ladder.find_steps(with_margin).into_iter();
        let steps = steps.zip(ladder.find_steps(values.iter().copied()));
        self.factors.fill(0.0);
        let (mut totals, mut weights) = (self.totals, self.weights);
        let negatives = values.iter().zip(steps).zip(s).zip(tags);
        for ((((v_an, (within, hard)), s), [label, _]), factor) in negatives.zip(&mut self.factors)
        {
            if *label == self.label {
                continue;
            }
            let met = ladder.meet(simd, rule, *v_an, [within, hard].map(usize::from));
            let counts = [
                positives,
                met.within,
                met.hard,
                met.mined.len(),
                met.active.len(),
            ];
            add_counts(&mut totals, counts.map(|count| count as u64));
            if !met.active.is_empty() {
                let gap_counts = &mut *self.gap_counts;
                gap_counts[met.active.start] = gap_counts[met.active.start].wrapping_add(1);
                gap_counts[met.active.end] = gap_counts[met.active.end].wrapping_sub(1);
                *factor = met.active.len() as f32 * rule.distance.slope(*s);
                weights += f64::from(*factor);
            }
        }
        (self.totals, self.weights) = (totals, weights);
    }

    /// Turns the gap counts into each positive's number of active negatives, and adds the positives' part of the gradient. The
    /// reference with an `id` is in slot `id % capacity`.
    #[inline(always)]
    pub(super) fn pull(&mut self, references: Rows<'_>, capacity: usize, buffer: &mut Vec<f32>) {
        let (mut active, stride) = (0u32, self.part.len());
        let gap_counts = self.gap_counts.chunks_mut(SEGMENT);
        let Ladder {
            thresholds,
            distance,
            ..
        } = self.ladder;
        for (thresholds, gap_counts) in thresholds.chunks(SEGMENT).zip(gap_counts) {
            self.part.fill(0.0);
            for ([bits, id], count) in thresholds.iter().zip(gap_counts) {
                active = active.wrapping_add(*count);
                *count = active;
                let weight = -(active as f32) * distance.slope(f32::from_bits(*bits));
                self.weights += f64::from(weight);
                let slot = *id as usize % capacity;
                let row = references.some(slot * stride, stride, buffer);
                add_scaled(self.part, weight, row);
            }
            add_scaled(self.gradient, 1.0, self.part);
        }
    }
}

/// References whose rows stay in the nearest cache while all anchors of a panel add them up.
const NEAR: usize = 32;
/// Vectors of a sum, and sums, that are added to at once: all stay in registers.
const VECTORS: usize = 4;
const SUMS: usize = 4;

/// `part += factor * row` for every anchor and row, rows ascending, factors of 0 left out; compiled for the instruction set of the
/// processor.
pub(super) struct AddRows<'a, 'b> {
    pub(super) anchors: &'a mut [Anchor<'b>],
    pub(super) rows: &'a [f32],
}

impl WithSimd for AddRows<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let stride = self.anchors[0].part.len();
        let wide = VECTORS * S::F32_LANES;
        for (first, rows) in (0..SEGMENT)
            .step_by(NEAR)
            .zip(self.rows.chunks(NEAR * stride))
        {
            for anchors in self.anchors.chunks_mut(SUMS) {
                let mut near = Near {
                    anchors,
                    first,
                    rows,
                    stride,
                };
                let added = near.added();
                let mut column = 0;
                while column + wide <= stride {
                    near.add::<S, VECTORS>(simd, added, column);
                    column += wide;
                }
                while column + S::F32_LANES <= stride {
                    near.add::<S, 1>(simd, added, column);
                    column += S::F32_LANES;
                }
                near.add_from(added, column);
            }
        }
    }
}

/// A few anchors, and a few references whose rows are added to their sums.
struct Near<'a, 'b> {
    anchors: &'a mut [Anchor<'b>],
    /// The first reference, in the segment.
    first: usize,
    rows: &'a [f32],
    stride: usize,
}

impl Near<'_, '_> {
    #[inline(always)]
    fn factors(&self, anchor: usize) -> &[f32] {
        &self.anchors[anchor].factors[self.first..][..NEAR]
    }

    /// References with a factor other than 0, as a bit each, for each anchor.
    #[inline(always)]
    fn added(&self) -> [u32; SUMS] {
        let mut added = [0; SUMS];
        for (anchor, added) in added.iter_mut().enumerate().take(self.anchors.len()) {
            let factors = (0..).zip(self.factors(anchor));
            *added = factors.fold(0, |added, (place, factor)| {
                added | u32::from(*factor != 0.0) << place
            });
        }
        added
    }

    /// Adds some vectors from this column on.
    #[inline(always)]
    fn add<S: Simd, const V: usize>(&mut self, simd: S, added: [u32; SUMS], column: usize) {
        let columns = column..column + V * S::F32_LANES;
        let vectors = |row: &[f32]| -> [S::f32s; V] {
            let vectors = S::as_simd_f32s(&row[columns.clone()]).0;
            array::from_fn(|i| vectors[i])
        };
        let count = added.iter().map(|added| added.count_ones()).sum::<u32>() as usize;
        // If most are added, those left out add zeros: the same bits.
        if self.anchors.len() == SUMS && 2 * count > SUMS * NEAR {
            let mut sums: [[S::f32s; V]; SUMS] =
                array::from_fn(|anchor| vectors(self.anchors[anchor].part));
            let factors: [&[f32]; SUMS] = array::from_fn(|anchor| self.factors(anchor));
            for (place, row) in (0..NEAR).zip(self.rows.chunks_exact(self.stride)) {
                let row = vectors(row);
                for (sums, factors) in sums.iter_mut().zip(factors) {
                    let factor = simd.splat_f32s(factors[place]);
                    for (sum, value) in sums.iter_mut().zip(row) {
                        *sum = simd.add_f32s(*sum, simd.mul_f32s(factor, value));
                    }
                }
            }
            for (anchor, sums) in self.anchors.iter_mut().zip(sums) {
                let part = S::as_mut_simd_f32s(&mut anchor.part[columns.clone()]).0;
                part.copy_from_slice(&sums);
            }
            return;
        }
        for (anchor, added) in added.into_iter().enumerate().take(self.anchors.len()) {
            let mut sums = vectors(self.anchors[anchor].part);
            let factors = self.factors(anchor);
            for place in lanes_of(added) {
                let row = vectors(&self.rows[place * self.stride..][..self.stride]);
                let factor = simd.splat_f32s(factors[place]);
                for (sum, value) in sums.iter_mut().zip(row) {
                    *sum = simd.add_f32s(*sum, simd.mul_f32s(factor, value));
                }
            }
            let part = &mut self.anchors[anchor].part[columns.clone()];
            S::as_mut_simd_f32s(part).0.copy_from_slice(&sums);
        }
    }

    /// Adds the last columns, from this one on.
    #[inline(always)]
    fn add_from(&mut self, added: [u32; SUMS], column: usize) {
        if column == self.stride {
            return;
        }
        for (anchor, added) in self.anchors.iter_mut().zip(added) {
            for place in lanes_of(added) {
                let row = &self.rows[place * self.stride..][column..self.stride];
                let factor = anchor.factors[self.first + place];
                add_scaled(&mut anchor.part[column..], factor, row);
            }
        }
    }
}
