//! Every triplet of a batch, counted and differentiated without being stored.

use super::parallel::{map, rows_of_a_part};
use super::ranks::{Block, Panel, Row, Slices, farther, for_segments};
use super::tile::{PANEL, similarities};
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
/// Bins of the counts of pairs by similarity: each holds its lower bound, the last 1 as well.
pub const BINS: usize = 64;
/// Words of those counts in a report: u64s, each in two words, low first.
pub const PAIRS: usize = 4 * BINS;

/// Reads counts of pairs, and leaves `[positives, negatives]` of each bin from similarity -1 to 1.
pub fn read_pairs(words: &[u32]) -> [Vec<u64>; 2] {
    let count = |words: &[u32]| u64::from(words[0]) | u64::from(words[1]) << 32;
    let counts: Vec<u64> = words[..PAIRS].chunks_exact(2).map(count).collect();
    [counts[..BINS].to_vec(), counts[BINS..].to_vec()]
}

/// Where pairs of this similarity are counted. A power of two scales without rounding.
fn bin(s: f32) -> usize {
    let half = (BINS / 2) as i32;
    let bin = (s * half as f32).floor() as i32 + half;
    bin.clamp(0, 2 * half - 1) as usize
}

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
    // Most negatives are too far even for the farthest positive.
    let (mut within, mut hard) = (0, 0);
    if thresholds
        .first()
        .is_some_and(|t| tm(t) <= rule.miner_margin)
    {
        within = thresholds.partition_point(|t| tm(t) <= rule.miner_margin);
        hard = thresholds[..within].partition_point(|t| tm(t) <= 0.0);
    }
    let mined = match rule.kind {
        Kind::All => 0..within,
        Kind::Easy => within..thresholds.len(),
        Kind::Semihard => hard..within,
        Kind::Hard => 0..hard,
        Kind::Unmined => 0..thresholds.len(),
    };
    // Where the last that is mined is active, all are.
    let loses = |t: &[u32; 2]| tm(t) < rule.loss_margin;
    let end = match thresholds[mined.clone()].last() {
        Some(last) if !loses(last) => {
            mined.start + thresholds[mined.clone()].partition_point(loses)
        }
        _ => mined.end,
    };
    let active = mined.start..end;
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
    let gradient = gradient[..block.rows * block.stride].chunks_mut(most * block.stride);
    let panels = panels.into_iter().zip(parts.zip(gradient)).collect();
    let totals = map(panels, |(mut panel, (parts, gradient))| {
        let (anchors, own) = (panel.anchors, panel.rows);
        let mut counted = pairs.map(|_| [0u64; 2 * BINS]);
        let mut rows: Vec<_> = panel
            .rows_mut()
            .zip(parts.chunks_exact_mut(block.stride))
            .zip(gradient.chunks_exact_mut(block.stride))
            .map(|(((row, thresholds, books), part), gradient)| Anchor {
                label: row.label,
                thresholds,
                books,
                part,
                gradient,
                totals: [0; KINDS.len()],
            })
            .collect();
        for anchor in &mut rows {
            anchor.gradient.fill(0.0);
        }
        for_segments(block, inputs, anchors, |first, s| {
            let references = inputs.references[first * block.stride..].chunks_exact(block.stride);
            let tags = &inputs.tags[first..];
            if let Some(counted) = &mut counted {
                count_pairs(own, tags, s, counted);
            }
            for (lane, anchor) in rows.iter_mut().enumerate() {
                let column = s.iter().map(|s| s[lane]);
                anchor.meet_all(rule, column.zip(tags).zip(references.clone()));
            }
        });
        let mut totals = [0; KINDS.len()];
        for anchor in &mut rows {
            anchor.pull(|id| {
                let slot = id as usize % capacity;
                &inputs.references[slot * block.stride..][..block.stride]
            });
            add_counts(&mut totals, anchor.totals);
        }
        (totals, counted)
    });
    for (totals, counted) in totals {
        if let (Some(first), Some(counted)) = (pairs, counted) {
            add_pairs(&mut report[first..], &counted);
        }
        for (kind, total) in KINDS.into_iter().zip(totals) {
            kind.add(report, total);
        }
    }
}

/// Counts the pairs of a panel's rows and a segment of the references; a row is no pair with itself.
fn count_pairs(rows: &[Row], tags: &[[u32; 2]], s: &[[f32; PANEL]], counted: &mut [u64]) {
    for (s, [label, id]) in s.iter().zip(tags) {
        for (s, row) in s.iter().zip(rows) {
            if *label != row.label {
                counted[BINS + bin(*s)] += 1;
            } else if *id != row.id {
                counted[bin(*s)] += 1;
            }
        }
    }
}

/// Adds counts of pairs to those of a report.
fn add_pairs(words: &mut [u32], counted: &[u64]) {
    for (words, count) in words.chunks_exact_mut(2).zip(counted) {
        let sum = (u64::from(words[0]) | u64::from(words[1]) << 32) + count;
        words[0] = sum as u32;
        words[1] = (sum >> 32) as u32;
    }
}

/// What is counted.
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

/// One row of a panel on its way past the references.
struct Anchor<'a> {
    label: u32,
    thresholds: &'a [[u32; 2]],
    books: &'a mut [u32],
    part: &'a mut [f32],
    gradient: &'a mut [f32],
    totals: [u64; KINDS.len()],
}

impl Anchor<'_> {
    /// Meets the references of a segment: each its similarity, its tag and its row.
    fn meet_all<'r>(
        &mut self,
        rule: &Rule,
        references: impl Iterator<Item = ((f32, &'r [u32; 2]), &'r [f32])>,
    ) {
        if self.thresholds.is_empty() {
            return;
        }
        self.part.fill(0.0);
        for ((s_an, [label, _]), reference) in references {
            if *label == self.label {
                continue;
            }
            let met = meet(rule, self.thresholds, s_an);
            let counts = [
                self.thresholds.len(),
                met.within,
                met.hard,
                met.mined.len(),
                met.active.len(),
            ];
            add_counts(&mut self.totals, counts.map(|count| count as u64));
            if !met.active.is_empty() {
                let books = &mut *self.books;
                books[met.active.start] = books[met.active.start].wrapping_add(1);
                books[met.active.end] = books[met.active.end].wrapping_sub(1);
                add_scaled(self.part, met.active.len() as f32, reference);
            }
        }
        add_scaled(self.gradient, 1.0, self.part);
    }

    /// Turns the books into each positive's active negatives, and lets those pull.
    fn pull<'r>(&mut self, reference: impl Fn(u32) -> &'r [f32]) {
        let mut active = 0u32;
        let books = self.books.chunks_mut(SEGMENT);
        for (thresholds, books) in self.thresholds.chunks(SEGMENT).zip(books) {
            self.part.fill(0.0);
            for ([_, id], count) in thresholds.iter().zip(books) {
                active = active.wrapping_add(*count);
                *count = active;
                add_scaled(self.part, -(active as f32), reference(*id));
            }
            add_scaled(self.gradient, 1.0, self.part);
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
    gradient: &mut [f32],
) {
    let stride = block.stride;
    let rows = &inputs.batch[block.batch..][..block.rows];
    let anchors = &inputs.anchors[block.first_row * stride..][..block.rows * stride];
    let most = rows_of_a_part(block.references, block.operations(), PANEL);
    let panels = inputs.references[..block.references * stride]
        .chunks(most * stride)
        .zip(inputs.tags.chunks(most))
        .zip(gradient.chunks_mut(most * stride));
    map(panels.collect(), |((references, tags), gradient)| {
        let mut part = vec![0.0; stride];
        let mut s = [[0.0; PANEL]; SEGMENT];
        for start in (0..rows.len()).step_by(SEGMENT) {
            let places: Vec<usize> = (start..rows.len().min(start + SEGMENT)).collect();
            similarities(references, anchors, stride, &places, &mut s);
            let lanes = tags.iter().zip(gradient.chunks_exact_mut(stride));
            for (lane, ([label, id], gradient)) in lanes.enumerate() {
                part.fill(0.0);
                for (place, s) in places.iter().zip(&s) {
                    let (row, s) = (rows[*place], s[lane]);
                    let thresholds = &thresholds[row.offset as usize..][..row.positives as usize];
                    if thresholds.is_empty() || *id == row.id {
                        continue;
                    }
                    let weight = if *label != row.label {
                        meet(rule, thresholds, s).active.len() as f32
                    } else {
                        let place = farther(thresholds, [s.to_bits(), *id]);
                        -(books[row.offset as usize + place] as f32)
                    };
                    add_scaled(&mut part, weight, &anchors[place * stride..][..stride]);
                }
                add_scaled(gradient, 1.0, &part);
            }
        }
    });
}
