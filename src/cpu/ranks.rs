//! Where the positives of each row stand among all references.

use std::cmp::Ordering;

use bytemuck::{Pod, Zeroable};

use super::{SEGMENT, dot};

/// What the pass needs to know of an anchor or query.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Row {
    /// Its class.
    pub label: u32,
    /// Its own id: the reference with this id is itself. [`NO_ID`] where it is no reference.
    pub id: u32,
    /// Where its thresholds begin: the sum of `positives` of the rows of the block before it.
    pub offset: u32,
    /// How many references have its label and another id.
    pub positives: u32,
}

/// The id of no reference.
pub const NO_ID: u32 = u32::MAX;

/// The rows that one pass ranks, and against how many references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The first row, in the anchors.
    pub first_row: usize,
    /// How many rows.
    pub rows: usize,
    /// Where they begin in `batch`.
    pub batch: usize,
    /// How many references.
    pub references: usize,
    /// Floats from one row of anchors or references to the next.
    pub stride: usize,
}

/// What the pass reads: as `kernels::ranks::Inputs`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slices<'a> {
    pub(crate) anchors: &'a [f32],
    pub(crate) references: &'a [f32],
    pub(crate) batch: &'a [Row],
    pub(crate) tags: &'a [[u32; 2]],
}

/// Fills and sorts the thresholds of every row of the block, the farthest first, and clears its books.
pub(crate) fn sort_thresholds(
    block: &Block,
    inputs: Slices<'_>,
    thresholds: &mut [[u32; 2]],
    books: &mut [u32],
) {
    let references = inputs.references.chunks_exact(block.stride);
    let tags = &inputs.tags[..block.references];
    for (i, row, anchor) in rows(block, inputs) {
        let thresholds = &mut thresholds[row.offset as usize..][..row.positives as usize];
        let positives = references
            .clone()
            .zip(tags)
            .filter(|(_, [label, id])| *label == row.label && *id != row.id);
        for (threshold, (reference, [_, id])) in thresholds.iter_mut().zip(positives) {
            *threshold = [dot(anchor, reference).to_bits(), *id];
        }
        thresholds.sort_unstable_by(|a, b| nearness(*a, *b));
        books[row.offset as usize + i..][..=row.positives as usize].fill(0);
    }
}

/// Counts the negatives of each gap but the lowest.
pub(crate) fn gaps(block: &Block, inputs: Slices<'_>, thresholds: &[[u32; 2]], books: &mut [u32]) {
    let tags = inputs.tags;
    for (i, row, anchor) in rows(block, inputs) {
        let thresholds = &thresholds[row.offset as usize..][..row.positives as usize];
        let books = &mut books[row.offset as usize + i..];
        for_segments(block, inputs, |start, references| {
            let mut similarities = [0.0; SEGMENT];
            similarities_to(anchor, references, &mut similarities);
            for (s, [label, id]) in similarities.iter().zip(&tags[start..block.references]) {
                if *label != row.label {
                    let gap = farther(thresholds, [s.to_bits(), *id]);
                    if gap > 0 {
                        books[gap] += 1;
                    }
                }
            }
        });
    }
}

/// The block's rows: place in the block, what is known of it, its unit row.
pub(super) fn rows<'a>(
    block: &'a Block,
    inputs: Slices<'a>,
) -> impl Iterator<Item = (usize, Row, &'a [f32])> {
    let anchors = inputs.anchors[block.first_row * block.stride..].chunks_exact(block.stride);
    let rows = &inputs.batch[block.batch..][..block.rows];
    rows.iter()
        .zip(anchors)
        .enumerate()
        .map(|(i, (row, anchor))| (i, *row, anchor))
}

/// Calls `with` for each segment of the references: its first reference, and its rows.
pub(super) fn for_segments(block: &Block, inputs: Slices<'_>, mut with: impl FnMut(usize, &[f32])) {
    let references = &inputs.references[..block.references * block.stride];
    for (segment, references) in references.chunks(SEGMENT * block.stride).enumerate() {
        with(segment * SEGMENT, references);
    }
}

/// The similarity of one row to each reference, each by [`dot`]'s sums; four at a time, so that their chains overlap.
pub(super) fn similarities_to(anchor: &[f32], references: &[f32], similarities: &mut [f32]) {
    let stride = anchor.len();
    let mut fours = references.chunks_exact(4 * stride);
    let mut out = similarities.chunks_exact_mut(4);
    for (four, out) in fours.by_ref().zip(out.by_ref()) {
        let mut sums = [0.0; 4];
        for (k, a) in anchor.iter().enumerate() {
            for (r, sum) in sums.iter_mut().enumerate() {
                *sum += a * four[r * stride + k];
            }
        }
        out.copy_from_slice(&sums);
    }
    let done = references.len() / stride / 4 * 4;
    let rest = fours.remainder().chunks_exact(stride);
    for (reference, s) in rest.zip(&mut similarities[done..]) {
        *s = dot(anchor, reference);
    }
}

/// Orders `[similarity's bits, id]`: farther first; of equal similarities the larger id is farther.
pub(super) fn nearness(a: [u32; 2], b: [u32; 2]) -> Ordering {
    let (s_a, s_b) = (f32::from_bits(a[0]), f32::from_bits(b[0]));
    s_a.partial_cmp(&s_b)
        .unwrap_or(Ordering::Equal)
        .then(b[1].cmp(&a[1]))
}

/// How many of the sorted thresholds are farther than `entry`.
pub(super) fn farther(thresholds: &[[u32; 2]], entry: [u32; 2]) -> usize {
    thresholds.partition_point(|threshold| nearness(*threshold, entry).is_lt())
}
