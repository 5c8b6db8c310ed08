//! Where the positives of each row stand among all references.

use std::ops::Range;

use bytemuck::{Pod, Zeroable};

use super::SEGMENT;
use super::parallel::{map, rows_of_a_part};
use super::tile::{PANEL, nearness, similarities};

/// An anchor or query, as the kernels that rank know it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Row {
    /// Its class.
    pub label: u32,
    /// Its id: the reference with the same id is its own stored copy. [`NO_ID`] where it has none.
    pub id: u32,
    /// Where its thresholds and books begin in the block's: the sum of `positives + 1` of the block's rows before it.
    pub offset: u32,
    /// Number of its positives: references with its label and another id.
    pub positives: u32,
}

/// The id of no reference.
pub const NO_ID: u32 = u32::MAX;

/// A block of rows, and the references that they are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Number of the first row among the anchors.
    pub first_row: usize,
    /// How many rows.
    pub rows: usize,
    /// Where the block begins in `batch`.
    pub batch: usize,
    /// The first reference; 0 for the passes of `triplet_margin`.
    pub first_reference: usize,
    /// How many references.
    pub references: usize,
    /// Floats from one row of anchors or references to the next.
    pub stride: usize,
}

impl Block {
    /// What all similarities take.
    pub(super) fn operations(&self) -> usize {
        2 * self.rows * self.references * self.stride
    }
}

/// What the pass reads: as `kernels::ranks::Inputs`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slices<'a> {
    pub(crate) anchors: &'a [f32],
    pub(crate) references: &'a [f32],
    pub(crate) batch: &'a [Row],
    pub(crate) tags: &'a [[u32; 2]],
}

/// A few rows of the block, and what is theirs.
pub(super) struct Panel<'a> {
    pub(super) rows: &'a [Row],
    /// Their unit rows.
    pub(super) anchors: &'a [f32],
    /// Their thresholds and books, from the `offset` of the first row on.
    pub(super) thresholds: &'a mut [[u32; 2]],
    pub(super) books: &'a mut [u32],
}

impl<'a> Panel<'a> {
    /// Cuts the block into panels of [`PANEL`] rows at most, so that every core has one.
    pub(super) fn all(
        block: &Block,
        inputs: Slices<'a>,
        mut thresholds: &'a mut [[u32; 2]],
        mut books: &'a mut [u32],
    ) -> Vec<Self> {
        let most = rows_of_a_part(block.rows, block.operations(), PANEL);
        let rows = &inputs.batch[block.batch..][..block.rows];
        let anchors = inputs.anchors[block.first_row * block.stride..].chunks(most * block.stride);
        let mut taken = 0;
        rows.chunks(most)
            .zip(anchors)
            .map(|(rows, anchors)| {
                let last = rows[rows.len() - 1];
                let start = rows[0].offset as usize;
                let end = (last.offset + last.positives) as usize + 1;
                let panel = Panel {
                    rows,
                    anchors: &anchors[..rows.len() * block.stride],
                    thresholds: split(&mut thresholds, start - taken, end - start),
                    books: split(&mut books, start - taken, end - start),
                };
                taken = end;
                panel
            })
            .collect()
    }

    /// Thresholds and books of each row, in their order.
    pub(super) fn rows_mut(&mut self) -> impl Iterator<Item = (Row, &mut [[u32; 2]], &mut [u32])> {
        let (mut thresholds, mut books) = (&mut *self.thresholds, &mut *self.books);
        let mut taken = self.rows[0].offset as usize;
        self.rows.iter().map(move |row| {
            let (start, positives) = (row.offset as usize, row.positives as usize);
            let skip = start - taken;
            taken = start + positives + 1;
            let own = split(&mut thresholds, skip, positives + 1);
            let books = split(&mut books, skip, positives + 1);
            (*row, &mut own[..positives], books)
        })
    }
}

/// Takes `count` elements behind `skip` off the front.
fn split<'a, T>(rest: &mut &'a mut [T], skip: usize, count: usize) -> &'a mut [T] {
    let (taken, left) = std::mem::take(rest)[skip..].split_at_mut(count);
    *rest = left;
    taken
}

/// Empties the books of every row of the block.
pub(crate) fn clear(block: &Block, inputs: Slices<'_>, books: &mut [u32]) {
    for row in &inputs.batch[block.batch..][..block.rows] {
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
    let tags = &inputs.tags[block.first_reference..][..block.references];
    map(Panel::all(block, inputs, thresholds, books), |mut panel| {
        let (anchors, own) = (panel.anchors, panel.rows);
        let mut places = (block.first_reference..)
            .zip(tags)
            .filter(|(_, [label, id])| {
                // Without a branch for each row.
                own.iter()
                    .fold(false, |any, row| any | (row.label == *label))
                    && ids.contains(id)
            })
            .map(|(place, _)| place);
        let mut rows: Vec<_> = panel.rows_mut().collect();
        let mut s = [[0.0; PANEL]; SEGMENT];
        loop {
            let places: Vec<usize> = places.by_ref().take(SEGMENT).collect();
            if places.is_empty() {
                break;
            }
            similarities(anchors, inputs.references, block.stride, &places, &mut s);
            for (lane, (row, thresholds, books)) in rows.iter_mut().enumerate() {
                for (place, s) in places.iter().zip(&s) {
                    let [label, id] = inputs.tags[*place];
                    if label == row.label && id != row.id {
                        thresholds[books[0] as usize] = [s[lane].to_bits(), id];
                        books[0] += 1;
                    }
                }
            }
        }
    });
}

/// Sorts the thresholds of every row, the farthest first, and leaves them as [`nearness`] numbers for [`gaps`].
pub(crate) fn order(
    block: &Block,
    inputs: Slices<'_>,
    thresholds: &mut [[u32; 2]],
    books: &mut [u32],
) {
    map(Panel::all(block, inputs, thresholds, books), |mut panel| {
        for (_, thresholds, books) in panel.rows_mut() {
            for threshold in &mut *thresholds {
                let number = nearness(*threshold);
                *threshold = [number as u32, (number >> 32) as u32];
            }
            thresholds.sort_unstable_by_key(number_in);
            books[0] = 0;
        }
    });
}

/// The number that [`order`] left.
fn number_in([low, high]: &[u32; 2]) -> u64 {
    u64::from(*low) | u64::from(*high) << 32
}

/// All three, where all references are there at once; the thresholds stay `[similarity's bits, id]`.
pub(crate) fn sort_thresholds(
    block: &Block,
    inputs: Slices<'_>,
    thresholds: &mut [[u32; 2]],
    books: &mut [u32],
) {
    clear(block, inputs, books);
    find(block, 0..NO_ID, inputs, thresholds, books);
    map(Panel::all(block, inputs, thresholds, books), |mut panel| {
        for (_, thresholds, books) in panel.rows_mut() {
            thresholds.sort_unstable_by_key(|threshold| nearness(*threshold));
            books[0] = 0;
        }
    });
}

/// Counts the negatives of each gap but the lowest.
pub(crate) fn gaps(
    block: &Block,
    inputs: Slices<'_>,
    thresholds: &mut [[u32; 2]],
    books: &mut [u32],
) {
    map(Panel::all(block, inputs, thresholds, books), |mut panel| {
        let anchors = panel.anchors;
        let mut rows: Vec<_> = panel.rows_mut().collect();
        for_segments(block, inputs, anchors, |first, s| {
            for (lane, (row, thresholds, books)) in rows.iter_mut().enumerate() {
                let lowest = thresholds.first().map_or(u64::MAX, number_in);
                for (s, [label, id]) in s.iter().zip(&inputs.tags[first..]) {
                    let number = nearness([s[lane].to_bits(), *id]);
                    // Most are farther than every positive where classes lie apart.
                    if *label != row.label && number > lowest {
                        let gap = thresholds.partition_point(|t| number_in(t) < number);
                        books[gap] += 1;
                    }
                }
            }
        });
    });
}

/// Calls `with` for each segment of the references: where its first stands, and the similarities of a panel of anchors
/// to each.
pub(super) fn for_segments(
    block: &Block,
    inputs: Slices<'_>,
    anchors: &[f32],
    mut with: impl FnMut(usize, &[[f32; PANEL]]),
) {
    let (first, end) = (
        block.first_reference,
        block.first_reference + block.references,
    );
    let mut s = [[0.0; PANEL]; SEGMENT];
    let mut places = Vec::with_capacity(SEGMENT);
    for first in (first..end).step_by(SEGMENT) {
        places.clear();
        places.extend(first..end.min(first + SEGMENT));
        similarities(anchors, inputs.references, block.stride, &places, &mut s);
        with(first, &s[..places.len()]);
    }
}

/// How many of the sorted thresholds are farther than `entry`.
pub(super) fn farther(thresholds: &[[u32; 2]], entry: [u32; 2]) -> usize {
    let s = f32::from_bits(entry[0]);
    let less = thresholds.partition_point(|[bits, _]| f32::from_bits(*bits) < s);
    let tied = |[bits, id]: &[u32; 2]| f32::from_bits(*bits) == s && *id > entry[1];
    match &thresholds[less..] {
        // Seldom: this branch costs nothing where nothing is tied.
        rest @ [first, ..] if tied(first) => less + rest.partition_point(tied),
        _ => less,
    }
}
