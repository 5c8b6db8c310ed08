//! Every triplet of a batch, counted and differentiated without being stored.

use std::array;

use pulp::{Arch, Simd, WithSimd};

use super::pair_counts::PairCounts;
use super::parallel::{map, rows_of_a_part};
use super::ranks::{Block, Panel, Row, Slices, farther, for_segments};
use super::tile::{PANEL, columns, lanes, lanes_of, similarities};
use super::{SEGMENT, add_scaled, wide};
use crate::Distance;

/// Band of valid triplets that the miner keeps, by `tm = v_ap - v_an`; bands of all triplets, as in PML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// `tm <= margin`.
    All = 0,
    /// `tm > margin`.
    Easy = 1,
    /// `0 < tm <= margin`.
    Semihard = 2,
    /// `tm <= margin` and `tm <= 0`.
    Hard = 3,
    /// Every valid triplet: no miner.
    Unmined = 4,
}

/// Rule of miner and loss: the band of triplets that is mined, and the margin of the loss. A mined triplet is active if
/// `v_an - v_ap + loss_margin > 0`. `v` is the similarity for cosine, and minus the distance for L2.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// Distance by which rows are compared.
    pub distance: Distance,
    /// Band of triplets that is kept.
    pub kind: Kind,
    /// The miner's margin, inclusive.
    pub miner_margin: f32,
    /// The loss's margin; at exactly the margin the loss is 0.
    pub loss_margin: f32,
}

impl Rule {
    /// Tells if a triplet of margin `tm = v_ap - v_an` is mined, is within the miner's margin, and is hard.
    pub(super) fn mined(&self, tm: f32) -> (bool, bool, bool) {
        let within = tm <= self.miner_margin;
        let hard = within && tm <= 0.0;
        let mined = match self.kind {
            Kind::All => within,
            Kind::Easy => !within,
            Kind::Semihard => within && !hard,
            Kind::Hard => hard,
            Kind::Unmined => true,
        };
        (mined, within, hard)
    }

    /// Factor of `<gradient, anchor>` in the sum over active triplets of `v_an - v_ap`. `alone`: the references are the anchors
    /// themselves, so that every term is in the gradient of both and counts half.
    ///
    /// For cosine the sum is just that product, summed over the anchors.
    ///
    /// For `v = -D`, `D^2 = 2 - 2 s` and weights `count / D`: `count * v = -weight * D^2 = 2 weight s - 2 weight`.
    pub fn scale(&self, alone: bool) -> f32 {
        let once = match self.distance {
            Distance::Cosine => 1.0,
            Distance::L2 => 2.0,
        };
        if alone { once / 2.0 } else { once }
    }
}

/// Triplet counts in a step's report: u64s, each in two words, low first; the number is the first word's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Total {
    /// All valid triplets.
    Valid = 0,
    /// Triplets within the miner's margin, `tm <= margin`: semihard and hard.
    Within = 2,
    /// Hard ones: `tm <= margin` and `tm <= 0`.
    Hard = 4,
    /// Triplets that the miner keeps.
    Mined = 6,
    /// Mined triplets with a loss above zero.
    Active = 8,
}

/// Word of a step's report that holds the status: not 0 once a value was not finite.
pub const STATUS: usize = 15;
/// First word of the rows' terms of the loss in a step's report, one f32 a row, as bits.
pub const TERMS: usize = 16;
impl Total {
    /// Reads the total off a step's report.
    pub fn read(self, report: &[u32]) -> u64 {
        read_total(report, self as usize)
    }

    /// Adds to the total of a step's report.
    pub fn add(self, report: &mut [u32], value: u64) {
        add_total(report, self as usize, value);
    }
}

/// Reads the u64 in two words of a report, low first.
pub(super) fn read_total(report: &[u32], at: usize) -> u64 {
    u64::from(report[at]) | u64::from(report[at + 1]) << 32
}

/// Adds to the u64 in two words of a report, low first.
pub(super) fn add_total(report: &mut [u32], at: usize, value: u64) {
    let sum = read_total(report, at) + value;
    report[at] = sum as u32;
    report[at + 1] = (sum >> 32) as u32;
}

/// Thresholds of a row that form counted triplets with a negative: as ends and ranges of the sorted thresholds.
struct Meeting {
    /// End of the thresholds with `tm <= 0`, within the margin.
    hard: usize,
    /// End of the thresholds with `tm <= miner_margin`.
    within: usize,
    /// Thresholds whose triplets the miner keeps.
    mined: std::ops::Range<usize>,
    /// Thresholds whose triplets are mined and active.
    active: std::ops::Range<usize>,
}

/// A bound of `v_ap - v_an`.
#[derive(Clone, Copy, Debug)]
enum Bound {
    Most(f32),
    Less(f32),
}

impl Bound {
    fn holds(self, tm: f32) -> bool {
        match self {
            Self::Most(most) => tm <= most,
            Self::Less(than) => tm < than,
        }
    }
}

/// Sorted thresholds of a row, with an index: for each of many equal steps of values, the number of thresholds before it.
struct Ladder<'a> {
    thresholds: &'a [[u32; 2]],
    /// Their values, after one of minus infinity and before [`WINDOW`] of infinity.
    padded: Vec<f32>,
    distance: Distance,
    lowest: f32,
    steps_per_unit: f32,
    /// The last step.
    last: f32,
    below: Vec<u32>,
}

/// Steps of an index for each threshold, about.
const STEPS_A_THRESHOLD: usize = 2;
/// Thresholds that are compared at once: seldom does one step hold more, with the one before the step.
const WINDOW: usize = 16;
/// The most steps of an index: 16 KiB if each row's index is used for many references, fewer if the indices of all rows exist at
/// once.
const STEPS: usize = 4096;
const FEW_STEPS: usize = 64;

impl<'a> Ladder<'a> {
    fn new(thresholds: &'a [[u32; 2]], distance: Distance, most: usize) -> Self {
        let value = |[bits, _]: &[u32; 2]| distance.value(f32::from_bits(*bits));
        let mut padded = Vec::with_capacity(1 + thresholds.len() + WINDOW);
        padded.push(f32::NEG_INFINITY);
        padded.extend(thresholds.iter().map(value));
        let values = &padded[1..];
        let lowest = values.first().copied().unwrap_or(0.0);
        let highest = values.last().copied().unwrap_or(0.0);
        padded.resize(padded.len() + WINDOW, f32::INFINITY);
        let steps = (STEPS_A_THRESHOLD * thresholds.len()).next_power_of_two();
        let last = (steps.min(most) - 1) as f32;
        let mut ladder = Self {
            thresholds,
            padded,
            distance,
            lowest,
            steps_per_unit: last / (highest - lowest),
            last,
            below: vec![0; steps.min(most)],
        };
        let mut step = 0;
        for (count, threshold) in (0..).zip(thresholds) {
            let own = ladder.step(value(threshold));
            // Every step after the last one's begins here.
            while step < own {
                step += 1;
                ladder.below[step] = count;
            }
        }
        ladder.below[step + 1..].fill(thresholds.len() as u32);
        ladder
    }

    #[inline(always)]
    fn step(&self, value: f32) -> usize {
        // Added to this, a number of steps is in the last bits of the sum. NaN, which equal thresholds give, goes to
        // the first.
        const WHOLE: f32 = (1 << 23) as f32;
        let place = ((value - self.lowest) * self.steps_per_unit).max(0.0);
        ((place.min(self.last) + WHOLE).to_bits() & 0xffff) as usize
    }

    /// The step of each value.
    #[inline(always)]
    fn find_steps(&self, values: impl Iterator<Item = f32>) -> [u16; SEGMENT] {
        let mut steps = [0; SEGMENT];
        for (step, value) in steps.iter_mut().zip(values) {
            *step = self.step(value) as u16;
        }
        steps
    }

    /// Values of the thresholds.
    #[inline(always)]
    fn values(&self) -> &[f32] {
        &self.padded[1..][..self.thresholds.len()]
    }

    /// Number of thresholds with `v_ap - v_an <= bound`, or `< bound`; `step` is the step of the bound. Rounding is monotone, so
    /// that they are the first ones. In WebAssembly not inlined: it is called in three places.
    #[cfg_attr(target_arch = "wasm32", inline(never))]
    #[cfg_attr(not(target_arch = "wasm32"), inline(always))]
    fn until<S: Simd>(&self, simd: S, step: usize, v_an: f32, bound: Bound) -> usize {
        let first = self.below[step] as usize;
        // From the threshold before the step on.
        let Some(window) = self.padded[first..].first_chunk::<WINDOW>() else {
            return self.until_of_all(v_an, bound);
        };
        let [v_an_s, one, zero] = [v_an, 1.0, 0.0].map(|value| simd.splat_f32s(value));
        // If a comparison gives a bit for each lane, the bits are counted: sooner than a sum over lanes is there.
        let of_bits = const { size_of::<S::m32s>() == size_of::<u16>() && S::F32_LANES == WINDOW };
        let (mut counts, mut bits) = (zero, 0);
        for v_ap in S::as_simd_f32s(window).0 {
            let tm = simd.sub_f32s(*v_ap, v_an_s);
            let before = match bound {
                Bound::Most(most) => simd.less_than_or_equal_f32s(tm, simd.splat_f32s(most)),
                Bound::Less(than) => simd.less_than_f32s(tm, simd.splat_f32s(than)),
            };
            if of_bits {
                bits = bytemuck::cast::<_, u16>(before).count_ones();
            } else {
                counts = simd.add_f32s(counts, simd.select_f32s(before, one, zero));
            }
        }
        let count = match of_bits {
            true => bits as usize,
            false => simd.reduce_sum_f32s(counts) as usize,
        };
        match count {
            // Seldom: more in one step, or the step was found with rounding of its own.
            0 | WINDOW => self.until_of_all(v_an, bound),
            count => first + count - 1,
        }
    }

    #[cold]
    fn until_of_all(&self, v_an: f32, bound: Bound) -> usize {
        self.values()
            .partition_point(|v_ap| bound.holds(v_ap - v_an))
    }

    /// Finds the thresholds that a negative meets: `steps` are those of `v_an` with the miner's margin, and without.
    #[inline(always)]
    fn meet<S: Simd>(&self, simd: S, rule: &Rule, v_an: f32, steps: [usize; 2]) -> Meeting {
        let tm = |v_ap: &f32| v_ap - v_an;
        // Most negatives are too far even for the farthest positive.
        let (mut within, mut hard) = (0, 0);
        let margin = rule.miner_margin;
        let values = self.values();
        if tm(&values[0]) <= margin {
            within = self.until(simd, steps[0], v_an, Bound::Most(margin));
            hard = self
                .until(simd, steps[1], v_an, Bound::Most(0.0))
                .min(within);
        }
        let all = values.len();
        let mined = match rule.kind {
            Kind::All => 0..within,
            Kind::Easy => within..all,
            Kind::Semihard => hard..within,
            Kind::Hard => 0..hard,
            Kind::Unmined => 0..all,
        };
        // If the last mined threshold has a loss, all have; if the first has none, none has.
        let loses = |v_ap: &f32| tm(v_ap) < rule.loss_margin;
        let end = if mined.is_empty() || loses(&values[mined.end - 1]) {
            mined.end
        } else if loses(&values[mined.start]) {
            {
                let step = self.step(v_an + rule.loss_margin);
                self.until(simd, step, v_an, Bound::Less(rule.loss_margin))
            }
        } else {
            mined.start
        };
        let active = mined.start..end;
        Meeting {
            hard,
            within,
            mined,
            active,
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
struct AddRows<'a, 'b> {
    anchors: &'a mut [Anchor<'b>],
    rows: &'a [f32],
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

/// Counts triplets into the report and computes `active * d loss / d anchor`.
#[expect(clippy::too_many_arguments, reason = "what a kernel reads and writes")]
pub fn mine(
    block: &Block,
    rule: &Rule,
    capacity: usize,
    inputs: Slices<'_>,
    thresholds: &mut [[u32; 2]],
    books: &mut [u32],
    parts: &mut [f32],
    gradient: &mut [f32],
    pairs: Option<usize>,
    report: &mut [u32],
) {
    let panels = Panel::all(block, inputs, thresholds, books);
    let most = panels.first().map_or(1, |panel| panel.rows.len());
    let parts = parts[..block.rows * block.stride].chunks_mut(most * block.stride);
    let mut beside = vec![0.0; block.rows];
    let gradient = gradient[..block.rows * block.stride].chunks_mut(most * block.stride);
    let outputs = parts.zip(gradient).zip(beside.chunks_mut(most));
    let panels = panels.into_iter().zip(outputs).collect();
    let totals = map(panels, |(mut panel, ((parts, gradient), beside))| {
        let (anchors, own) = (panel.anchors, panel.rows);
        let mut counted = pairs.map(|_| PairCounts::NONE);
        let mut rows: Vec<_> = panel
            .rows_mut()
            .zip(parts.chunks_exact_mut(block.stride))
            .zip(gradient.chunks_exact_mut(block.stride))
            .map(|(((row, thresholds, books), part), gradient)| Anchor {
                label: row.label,
                ladder: Ladder::new(thresholds, rule.distance, STEPS),
                books,
                part,
                gradient,
                factors: [0.0; SEGMENT],
                weights: 0.0,
                totals: [0; KINDS.len()],
            })
            .collect();
        for anchor in &mut rows {
            anchor.gradient.fill(0.0);
        }
        for_segments(block, inputs, anchors, |first, s| {
            let references = &inputs.references[first * block.stride..];
            let tags = &inputs.tags[first..];
            if let Some(counted) = &mut counted {
                for (s, tag) in s.iter().zip(tags) {
                    for (s, row) in s.iter().zip(own) {
                        counted.count(row, *tag, *s);
                    }
                }
            }
            Arch::new().dispatch(MeetAll {
                anchors: &mut rows,
                rule,
                s,
                tags,
            });
            Arch::new().dispatch(AddRows {
                anchors: &mut rows,
                rows: &references[..s.len() * block.stride],
            });
            for anchor in &mut rows {
                add_scaled(anchor.gradient, 1.0, anchor.part);
            }
        });
        let mut totals = [0; KINDS.len()];
        for (anchor, beside) in rows.iter_mut().zip(beside) {
            wide(
                #[inline(always)]
                || {
                    anchor.pull(|id| {
                        let slot = id as usize % capacity;
                        &inputs.references[slot * block.stride..][..block.stride]
                    });
                },
            );
            add_counts(&mut totals, anchor.totals);
            *beside = match rule.distance {
                Distance::Cosine => 0.0,
                Distance::L2 => -2.0 * anchor.weights as f32,
            };
        }
        (totals, counted)
    });
    for (totals, counted) in totals {
        if let (Some(first), Some(counted)) = (pairs, counted) {
            counted.add_to(&mut report[first..]);
        }
        for (kind, total) in KINDS.into_iter().zip(totals) {
            kind.add(report, total);
        }
    }
    for (term, beside) in report[TERMS + block.first_row..].iter_mut().zip(beside) {
        *term = beside.to_bits();
    }
}

/// Totals that are counted.
const KINDS: [Total; 5] = [
    Total::Valid,
    Total::Within,
    Total::Hard,
    Total::Mined,
    Total::Active,
];

fn add_counts(totals: &mut [u64; KINDS.len()], counts: [u64; KINDS.len()]) {
    for (total, count) in totals.iter_mut().zip(counts) {
        *total += count;
    }
}

/// Compares every anchor with the references of a segment; compiled for the instruction set of the processor.
struct MeetAll<'a, 'b> {
    anchors: &'a mut [Anchor<'b>],
    rule: &'a Rule,
    s: &'a [[f32; PANEL]],
    tags: &'a [[u32; 2]],
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

/// Counts the active triplets of one negative; compiled for the instruction set of the processor.
struct Meet<'a> {
    ladder: &'a Ladder<'a>,
    rule: &'a Rule,
    v_an: f32,
    steps: [usize; 2],
}

impl WithSimd for Meet<'_> {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> usize {
        let met = self.ladder.meet(simd, self.rule, self.v_an, self.steps);
        met.active.len()
    }
}

/// An anchor of a panel, with its sums over the references so far.
struct Anchor<'a> {
    label: u32,
    ladder: Ladder<'a>,
    books: &'a mut [u32],
    part: &'a mut [f32],
    gradient: &'a mut [f32],
    /// Weights of the references of a segment.
    factors: [f32; SEGMENT],
    /// Sum of the weights of all references so far.
    weights: f64,
    totals: [u64; KINDS.len()],
}

impl Anchor<'_> {
    /// Counts the triplets with the references of a segment, and weights those, from each one's similarity and tag.
    #[inline(always)]
    fn meet_all<S: Simd>(&mut self, simd: S, rule: &Rule, s: &[f32], tags: &[[u32; 2]]) {
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
                let books = &mut *self.books;
                books[met.active.start] = books[met.active.start].wrapping_add(1);
                books[met.active.end] = books[met.active.end].wrapping_sub(1);
                *factor = met.active.len() as f32 * rule.distance.slope(*s);
                weights += f64::from(*factor);
            }
        }
        (self.totals, self.weights) = (totals, weights);
    }

    /// Turns the books into each positive's number of active negatives, and adds the positives' part of the gradient.
    #[inline(always)]
    fn pull<'r>(&mut self, reference: impl Fn(u32) -> &'r [f32]) {
        let mut active = 0u32;
        let books = self.books.chunks_mut(SEGMENT);
        let Ladder {
            thresholds,
            distance,
            ..
        } = self.ladder;
        for (thresholds, books) in thresholds.chunks(SEGMENT).zip(books) {
            self.part.fill(0.0);
            for ([bits, id], count) in thresholds.iter().zip(books) {
                active = active.wrapping_add(*count);
                *count = active;
                let weight = -(active as f32) * distance.slope(f32::from_bits(*bits));
                self.weights += f64::from(weight);
                add_scaled(self.part, weight, reference(*id));
            }
            add_scaled(self.gradient, 1.0, self.part);
        }
    }
}

/// Place of the threshold with this id, which must be one of them: the place of its similarity, or the nearest to it with the id,
/// since a similarity that is computed again may differ in its last bits.
fn place_of(thresholds: &[[u32; 2]], [s, id]: [u32; 2]) -> usize {
    let near = farther(thresholds, [s, id]).min(thresholds.len() - 1);
    let has_id = |place: &usize| {
        thresholds
            .get(*place)
            .is_some_and(|threshold| threshold[1] == id)
    };
    (0..thresholds.len())
        .flat_map(|away| [near + away, near.wrapping_sub(away)])
        .find(has_id)
        .unwrap_or(near)
}

/// Adds `active * d loss / d reference` if the references are the batch itself.
pub fn share_with_references(
    block: &Block,
    rule: &Rule,
    inputs: Slices<'_>,
    thresholds: &[[u32; 2]],
    books: &[u32],
    gradient: &mut [f32],
) {
    let stride = block.stride;
    let rows = &inputs.batch[block.batch..][..block.rows];
    let anchors = &inputs.anchors[block.first_row * stride..][..block.rows * stride];
    let most = rows_of_a_part(block.references, block.operations(), PANEL);
    let own_thresholds = |row: &Row| &thresholds[row.offset as usize..][..row.positives as usize];
    let ladders: Vec<_> = rows
        .iter()
        .map(|row| Ladder::new(own_thresholds(row), rule.distance, FEW_STEPS))
        .collect();
    let panels = inputs.references[..block.references * stride]
        .chunks(most * stride)
        .zip(inputs.tags.chunks(most))
        .zip(gradient.chunks_mut(most * stride));
    map(panels.collect(), |((references, tags), gradient)| {
        let own = lanes(references, stride);
        let mut part = vec![0.0; stride];
        let mut s = [[0.0; PANEL]; SEGMENT];
        for start in (0..rows.len()).step_by(SEGMENT) {
            let places: Vec<usize> = (start..rows.len().min(start + SEGMENT)).collect();
            similarities(&own, anchors, &places, &mut s);
            let lanes = tags.iter().zip(gradient.chunks_exact_mut(stride));
            for (lane, ([label, id], gradient)) in lanes.enumerate() {
                part.fill(0.0);
                for (place, s) in places.iter().zip(&s) {
                    let (row, s) = (rows[*place], s[lane]);
                    let ladder = &ladders[*place];
                    if ladder.thresholds.is_empty() || *id == row.id {
                        continue;
                    }
                    let weight = if *label != row.label {
                        let v_an = rule.distance.value(s);
                        let steps =
                            [v_an + rule.miner_margin, v_an].map(|value| ladder.step(value));
                        let active = Arch::new().dispatch(Meet {
                            ladder,
                            rule,
                            v_an,
                            steps,
                        });
                        active as f32 * rule.distance.slope(s)
                    } else {
                        let place = place_of(ladder.thresholds, [s.to_bits(), *id]);
                        let s = f32::from_bits(ladder.thresholds[place][0]);
                        -(books[row.offset as usize + place] as f32) * rule.distance.slope(s)
                    };
                    add_scaled(&mut part, weight, &anchors[place * stride..][..stride]);
                }
                add_scaled(gradient, 1.0, &part);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use rand::{RngExt as _, SeedableRng as _};

    use super::*;

    /// Finds a bound's place among the thresholds.
    struct Until<'a>(&'a Ladder<'a>, f32, Bound);

    impl WithSimd for Until<'_> {
        type Output = usize;

        fn with_simd<S: Simd>(self, simd: S) -> usize {
            let Self(ladder, v_an, bound) = self;
            let (Bound::Most(value) | Bound::Less(value)) = bound;
            ladder.until(simd, ladder.step(v_an + value), v_an, bound)
        }
    }

    #[test]
    fn a_ladder_finds_what_a_search_of_all_thresholds_finds() {
        let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(2);
        for (count, from, to, steps) in [
            (1, -1.0, 1.0, 1 << 20),
            (15, -1.0, 1.0, 1 << 20),
            (16, 0.2, 0.2, 1),
            (500, -1.0, 1.0, 40),
            (3000, 0.999_999, 1.0, 8),
            (20_000, -0.1, 0.7, 1 << 20),
        ] {
            let mut draw = |from: f32, to: f32| {
                from + (to - from) * (rng.random_range(0..=steps) as f32 / steps as f32)
            };
            let mut values: Vec<f32> = (0..count).map(|_| draw(from, to)).collect();
            // One far from the others: nearly all stand in one step then.
            values.extend((count == 20_000).then_some(-1.0));
            values.sort_unstable_by(f32::total_cmp);
            let thresholds: Vec<_> = values.iter().map(|value| [value.to_bits(), 0]).collect();
            let ladder = Ladder::new(&thresholds, Distance::Cosine, STEPS);
            for (from, to) in [(from, to), (-1.0, 1.0)].repeat(1000) {
                let v_an = draw(from, to);
                for bound in [0.0, 0.2]
                    .into_iter()
                    .flat_map(|v| [Bound::Most(v), Bound::Less(v)])
                {
                    let expected = values.partition_point(|v_ap| bound.holds(v_ap - v_an));
                    let found = Arch::new().dispatch(Until(&ladder, v_an, bound));
                    assert_eq!(found, expected, "{count} thresholds, {v_an}, {bound:?}");
                }
            }
        }
    }
}
