//! Where the positives of each row stand among all references.

use std::ops::Range;

use bytemuck::{Pod, Zeroable};

use super::SEGMENT;
use super::tile::{dot, nearness, similarities_to};

/// What the pass needs to know of an anchor or query.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Row {
    /// Its class.
    pub label: u32,
    /// Its own id: the reference with this id is itself. [`NO_ID`] where it is no reference.
    pub id: u32,
    /// Where its thresholds and books begin: the sum of `positives + 1` of the rows of the block before it.
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
    /// The first reference; 0 for the passes of `triplet_margin`.
    pub first_reference: usize,
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

/// Empties the books of every row of the block.
pub(crate) fn clear(block: &Block, inputs: Slices<'_>, books: &mut [u32]) {
    for (_, row, _) in rows(block, inputs) {
        books[row.offset as usize..][..=row.positives as usize].fill(0);
    }
}

/// Adds the positives of every row with an id in `ids` to its thresholds; its lowest book counts them.
pub(crate) fn find(
    block: &Block,
    ids: Range<u32>,
    inputs: Slices<'_>,
    thresholds: &mut [[u32; 2]],
    books: &mut [u32],
) {
    let first = block.first_reference;
    let references = inputs.references[first * block.stride..].chunks_exact(block.stride);
    let tags = &inputs.tags[first..][..block.references];
    for (_, row, anchor) in rows(block, inputs) {
        let found = &mut books[row.offset as usize];
        let positives = references
            .clone()
            .zip(tags)
            .filter(|(_, [label, id])| *label == row.label && *id != row.id && ids.contains(id));
        for (reference, [_, id]) in positives {
            let at = row.offset + *found;
            thresholds[at as usize] = [dot(anchor, reference).to_bits(), *id];
            *found += 1;
        }
    }
}

/// Sorts the thresholds of every row, the farthest first.
pub(crate) fn order(
    block: &Block,
    inputs: Slices<'_>,
    thresholds: &mut [[u32; 2]],
    books: &mut [u32],
) {
    for (_, row, _) in rows(block, inputs) {
        thresholds[row.offset as usize..][..row.positives as usize]
            .sort_unstable_by(|a, b| nearness(*a, *b));
        books[row.offset as usize] = 0;
    }
}

/// All three, where all references are there at once.
pub(crate) fn sort_thresholds(
    block: &Block,
    inputs: Slices<'_>,
    thresholds: &mut [[u32; 2]],
    books: &mut [u32],
) {
    clear(block, inputs, books);
    find(block, 0..NO_ID, inputs, thresholds, books);
    order(block, inputs, thresholds, books);
}

/// Counts the negatives of each gap but the lowest.
pub(crate) fn gaps(block: &Block, inputs: Slices<'_>, thresholds: &[[u32; 2]], books: &mut [u32]) {
    for (_, row, anchor) in rows(block, inputs) {
        let thresholds = &thresholds[row.offset as usize..][..row.positives as usize];
        let books = &mut books[row.offset as usize..];
        for_segments(block, inputs, |start, references| {
            let mut similarities = [0.0; SEGMENT];
            similarities_to(anchor, references, &mut similarities);
            let count = references.len() / block.stride;
            for (s, [label, id]) in similarities[..count].iter().zip(&inputs.tags[start..]) {
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

/// Calls `with` for each segment of the references: where its first stands, and their rows.
pub(super) fn for_segments(block: &Block, inputs: Slices<'_>, mut with: impl FnMut(usize, &[f32])) {
    let first = block.first_reference;
    let references = &inputs.references[first * block.stride..][..block.references * block.stride];
    for (segment, references) in references.chunks(SEGMENT * block.stride).enumerate() {
        with(first + segment * SEGMENT, references);
    }
}

/// How many of the sorted thresholds are farther than `entry`.
pub(super) fn farther(thresholds: &[[u32; 2]], entry: [u32; 2]) -> usize {
    thresholds.partition_point(|threshold| nearness(*threshold, entry).is_lt())
}
