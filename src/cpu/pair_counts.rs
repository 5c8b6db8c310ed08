//! Histogram of a step's pairs by similarity: positives and negatives.

use super::parallel::{map, rows_of_a_part};
use super::ranks::{Block, Row};
use crate::Distance;

/// Number of bins in which pairs are counted by similarity, of equal width over [-1, 1]. A bin includes its lower bound, the
/// last also 1.
pub const BINS: usize = 64;
/// Words that the counts of pairs take in a report: u64s, each in two words, low first.
pub const PAIRS: usize = 4 * BINS;

/// Counts of pairs from a report: `[positives, negatives]`, each with a count for every bin from similarity -1 to 1.
pub fn read_pairs(words: &[u32]) -> [Vec<u64>; 2] {
    let count = |words: &[u32]| u64::from(words[0]) | u64::from(words[1]) << 32;
    let counts: Vec<u64> = words[..PAIRS].chunks_exact(2).map(count).collect();
    [counts[..BINS].to_vec(), counts[BINS..].to_vec()]
}

/// Bin of a pair with this similarity. The number of bins is a power of two, which scales without rounding. Numbers outside of
/// -1 to 1, which rows that were changed in a checkpoint can give, are counted at an end.
fn bin(s: f32) -> usize {
    let half = (BINS / 2) as i32;
    let bin = ((s * half as f32).floor() as i32).saturating_add(half);
    bin.clamp(0, 2 * half - 1) as usize
}

/// Counts of some rows' pairs by bin: those of positives before those of negatives.
pub(crate) struct PairCounts([u64; 2 * BINS]);

impl PairCounts {
    /// No pair yet.
    pub(crate) const NONE: Self = Self([0; 2 * BINS]);

    /// Counts a row with a reference of this tag; a row is no pair with itself.
    pub(crate) fn count(&mut self, row: &Row, [label, id]: [u32; 2], s: f32) {
        if label != row.label {
            self.0[BINS + bin(s)] += 1;
        } else if id != row.id {
            self.0[bin(s)] += 1;
        }
    }

    /// Adds to the counts of a report.
    pub(crate) fn add_to(&self, words: &mut [u32]) {
        for (words, count) in words.chunks_exact_mut(2).zip(&self.0) {
            let sum = (u64::from(words[0]) | u64::from(words[1]) << 32) + count;
            words[0] = sum as u32;
            words[1] = (sum >> 32) as u32;
        }
    }
}

/// Adds the pairs of a block's rows and its references to the counts of a report; `values` `[rows, width]` are of `distance`.
pub fn count_pairs(
    block: &Block,
    width: usize,
    distance: Distance,
    batch: &[Row],
    tags: &[[u32; 2]],
    values: &[f32],
    words: &mut [u32],
) {
    let rows = &batch[block.batch..][..block.rows];
    let part = rows_of_a_part(block.rows, 4 * block.rows * block.references, 1);
    let parts = rows.chunks(part).zip(values.chunks(part * width));
    let counted = map(parts.collect(), |(rows, values)| {
        let mut counts = PairCounts::NONE;
        for (row, values) in rows.iter().zip(values.chunks_exact(width)) {
            for (tag, value) in tags[..block.references].iter().zip(values) {
                counts.count(row, *tag, distance.turned(*value, Distance::Cosine));
            }
        }
        counts
    });
    for counts in counted {
        counts.add_to(words);
    }
}
