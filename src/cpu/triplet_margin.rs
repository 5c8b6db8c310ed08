//! Every triplet of a batch, counted and differentiated without being stored.

use super::ranks::{Block, Slices, farther, for_segments, rows};
use super::tile::similarities_to;
use super::{SEGMENT, add_scaled};

/// Which valid triplets are kept; `tm = s_ap - s_an`. A band of all triplets, as in PML.
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

/// What is mined, and what is active: `s_an - s_ap + loss_margin > 0`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// Which triplets are kept.
    pub kind: Kind,
    /// The miner's margin, inclusive.
    pub miner_margin: f32,
    /// The loss's margin; a triplet just at it has no loss.
    pub loss_margin: f32,
}

/// The totals of a step's report: u64s, each in two words, low first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Total {
    /// Triplets with a positive and a negative.
    Valid = 0,
    /// Those within the miner's margin: semihard and hard.
    Within = 2,
    /// Those whose negative is at least as near as the positive, within the margin.
    Hard = 4,
    /// Those the miner keeps.
    Mined = 6,
    /// Those with a loss.
    Active = 8,
}

/// The word of a step's report that holds the sticky status.
pub const STATUS: usize = 15;
/// Where in a step's report each row's term of the loss begins, as bits of an f32.
pub const TERMS: usize = 16;

impl Total {
    /// Reads the total off a step's report.
    pub fn read(self, report: &[u32]) -> u64 {
        let at = self as usize;
        u64::from(report[at]) | u64::from(report[at + 1]) << 32
    }

    /// Adds to the total of a step's report.
    pub(crate) fn add(self, report: &mut [u32], value: u64) {
        let at = self as usize;
        let sum = self.read(report) + value;
        report[at] = sum as u32;
        report[at + 1] = (sum >> 32) as u32;
    }
}

/// Which thresholds of a row a negative meets.
struct Meeting {
    /// Those before have `tm <= 0`.
    hard: usize,
    /// Those before have `tm <= miner_margin`.
    within: usize,
    /// What the miner keeps.
    mined: std::ops::Range<usize>,
    /// What is mined and active.
    active: std::ops::Range<usize>,
}

fn meet(rule: &Rule, thresholds: &[[u32; 2]], s_an: f32) -> Meeting {
    // Rounding is monotone: `tm` ascends with the thresholds.
    let tm = |threshold: &[u32; 2]| f32::from_bits(threshold[0]) - s_an;
    let within = thresholds.partition_point(|t| tm(t) <= rule.miner_margin);
    let hard = within.min(thresholds.partition_point(|t| tm(t) <= 0.0));
    let mined = match rule.kind {
        Kind::All => 0..within,
        Kind::Easy => within..thresholds.len(),
        Kind::Semihard => hard..within,
        Kind::Hard => 0..hard,
        Kind::Unmined => 0..thresholds.len(),
    };
    let end = mined
        .end
        .min(thresholds.partition_point(|t| tm(t) < rule.loss_margin));
    let active = mined.start..end.max(mined.start);
    Meeting {
        hard,
        within,
        mined,
        active,
    }
}

/// Counts triplets into the report and computes `active * d loss / d anchor`.
#[expect(clippy::too_many_arguments, reason = "what a kernel reads and writes")]
pub(crate) fn mine(
    block: &Block,
    rule: &Rule,
    capacity: usize,
    inputs: Slices<'_>,
    thresholds: &[[u32; 2]],
    books: &mut [u32],
    part: &mut [f32],
    gradient: &mut [f32],
    report: &mut [u32],
) {
    let references = inputs.references;
    let tags = inputs.tags;
    for (i, row, anchor) in rows(block, inputs) {
        let thresholds = &thresholds[row.offset as usize..][..row.positives as usize];
        let books = &mut books[row.offset as usize..][..=row.positives as usize];
        let gradient = &mut gradient[i * block.stride..][..block.stride];
        gradient.fill(0.0);
        if thresholds.is_empty() {
            continue;
        }
        let mut totals = [0u64; 5];
        for_segments(block, inputs, |start, segment| {
            let mut similarities = [0.0; SEGMENT];
            similarities_to(anchor, segment, &mut similarities);
            part.fill(0.0);
            let negatives = segment
                .chunks_exact(block.stride)
                .zip(&similarities)
                .zip(&tags[start..])
                .filter(|(_, [label, _])| *label != row.label);
            for ((reference, s_an), _) in negatives {
                let met = meet(rule, thresholds, *s_an);
                let counts = [
                    thresholds.len(),
                    met.within,
                    met.hard,
                    met.mined.len(),
                    met.active.len(),
                ];
                for (total, count) in totals.iter_mut().zip(counts) {
                    *total += count as u64;
                }
                if !met.active.is_empty() {
                    books[met.active.start] = books[met.active.start].wrapping_add(1);
                    books[met.active.end] = books[met.active.end].wrapping_sub(1);
                    add_scaled(part, met.active.len() as f32, reference);
                }
            }
            add_scaled(gradient, 1.0, part);
        });
        let kinds = [
            Total::Valid,
            Total::Within,
            Total::Hard,
            Total::Mined,
            Total::Active,
        ];
        for (kind, total) in kinds.into_iter().zip(totals) {
            kind.add(report, total);
        }
        let mut active = 0u32;
        for (thresholds, books) in thresholds.chunks(SEGMENT).zip(books.chunks_mut(SEGMENT)) {
            part.fill(0.0);
            for ([_, id], count) in thresholds.iter().zip(books) {
                active = active.wrapping_add(*count);
                *count = active;
                let slot = *id as usize % capacity;
                add_scaled(
                    part,
                    -(active as f32),
                    &references[slot * block.stride..][..block.stride],
                );
            }
            add_scaled(gradient, 1.0, part);
        }
    }
}

/// Adds `active * d loss / d reference` where the references are the batch itself.
pub(crate) fn share_with_references(
    block: &Block,
    rule: &Rule,
    inputs: Slices<'_>,
    thresholds: &[[u32; 2]],
    books: &[u32],
    part: &mut [f32],
    gradient: &mut [f32],
) {
    let references = inputs.references;
    for (r, [label, id]) in inputs.tags[..block.references].iter().enumerate() {
        let reference = &references[r * block.stride..][..block.stride];
        let gradient = &mut gradient[r * block.stride..][..block.stride];
        let anchors = inputs.anchors[block.first_row * block.stride..][..block.rows * block.stride]
            .chunks(SEGMENT * block.stride);
        for (segment, anchors) in anchors.enumerate() {
            let mut similarities = [0.0; SEGMENT];
            similarities_to(reference, anchors, &mut similarities);
            part.fill(0.0);
            let start = segment * SEGMENT;
            let rows = rows(block, inputs).skip(start);
            for ((_, row, anchor), s) in rows.zip(similarities) {
                let thresholds = &thresholds[row.offset as usize..][..row.positives as usize];
                if thresholds.is_empty() {
                    continue;
                }
                let weight = if *label != row.label {
                    meet(rule, thresholds, s).active.len() as f32
                } else if *id != row.id {
                    let place = farther(thresholds, [s.to_bits(), *id]);
                    -(books[row.offset as usize + place] as f32)
                } else {
                    continue;
                };
                add_scaled(part, weight, anchor);
            }
            add_scaled(gradient, 1.0, part);
        }
    }
}
