//! Where the positives of each row stand among all references.

use std::ops::Range;

use bytemuck::{Pod, Zeroable};
use pulp::{Arch, Simd, WithSimd};

use super::SEGMENT;
use super::parallel::{map, rows_of_a_part};
use super::tile::{PANEL, nearness, number_in, similarities, similarity, words};

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
pub struct Slices<'a> {
    /// Unit rows `[_, stride]`.
    pub anchors: &'a [f32],
    /// Unit rows `[references, stride]`.
    pub references: &'a [f32],
    /// Label, id, number of positives and place of each anchor.
    pub batch: &'a [Row],
    /// `[label, id]` of each reference.
    pub tags: &'a [[u32; 2]],
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
pub fn clear(block: &Block, inputs: Slices<'_>, books: &mut [u32]) {
    for row in &inputs.batch[block.batch..][..block.rows] {
        books[row.offset as usize..][..=row.positives as usize].fill(0);
    }
}

/// Adds the positives of every row with an id in `ids` to its thresholds; its lowest book counts them.
pub fn find(
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

/// Sorts the thresholds of every row, the farthest first, and leaves them as numbers that sort by nearness for [`gaps`].
pub fn order(block: &Block, inputs: Slices<'_>, thresholds: &mut [[u32; 2]], books: &mut [u32]) {
    map(Panel::all(block, inputs, thresholds, books), |mut panel| {
        for (_, thresholds, books) in panel.rows_mut() {
            sort(thresholds);
            books[0] = 0;
        }
    });
}

/// Sorts thresholds as [`order`] leaves them.
fn sort(thresholds: &mut [[u32; 2]]) {
    for threshold in &mut *thresholds {
        *threshold = words(nearness(*threshold));
    }
    thresholds.sort_unstable_by_key(number_in);
}

/// All three, where all references are there at once; the thresholds stay `[similarity's bits, id]`.
pub fn sort_thresholds(
    block: &Block,
    inputs: Slices<'_>,
    thresholds: &mut [[u32; 2]],
    books: &mut [u32],
) {
    clear(block, inputs, books);
    find(block, 0..NO_ID, inputs, thresholds, books);
    map(Panel::all(block, inputs, thresholds, books), |mut panel| {
        for (_, thresholds, books) in panel.rows_mut() {
            sort(thresholds);
            for threshold in &mut *thresholds {
                let number = number_in(threshold);
                *threshold = [similarity(number).to_bits(), !(number as u32)];
            }
            books[0] = 0;
        }
    });
}

/// References whose similarities to a panel are there at once: a row's thresholds stay in the cache for all of them.
const RUN: usize = 16 * SEGMENT;
/// Thresholds that are searched by halves: they stay in the cache, and nothing is looked up for them.
const FEW: usize = 2048;
/// Thresholds that are looked at together: vectors that a count goes over without a branch.
const WINDOW: usize = 16;
/// Stretches of similarities that a row's thresholds are looked up by, at most.
const MOST_STRETCHES: usize = 4096;

/// Counts the negatives of each gap but the lowest.
pub fn gaps(block: &Block, inputs: Slices<'_>, thresholds: &mut [[u32; 2]], books: &mut [u32]) {
    map(Panel::all(block, inputs, thresholds, books), |mut panel| {
        let anchors = panel.anchors;
        let mut rows: Vec<_> = panel
            .rows_mut()
            .map(|(row, thresholds, books)| (row, Ladder::new(thresholds), books))
            .collect();
        // `[rows, RUN]`.
        let mut run = vec![0.0; rows.len() * RUN];
        let end = block.first_reference + block.references;
        for first in (block.first_reference..end).step_by(RUN) {
            let part = Block {
                first_reference: first,
                references: RUN.min(end - first),
                ..*block
            };
            for_segments(&part, inputs, anchors, |start, s| {
                for (lane, run) in run.chunks_exact_mut(RUN).enumerate() {
                    for (run, s) in run[start - first..].iter_mut().zip(s) {
                        *run = s[lane];
                    }
                }
            });
            let tags = &inputs.tags[first..first + part.references];
            for ((row, ladder, books), run) in rows.iter_mut().zip(run.chunks_exact(RUN)) {
                let label = row.label;
                Arch::new().dispatch(Count {
                    label,
                    ladder,
                    run,
                    tags,
                    books,
                });
            }
        }
    });
}

/// Counts the negatives of a run in the gaps of a row; compiled for what the processor has.
struct Count<'a> {
    label: u32,
    ladder: &'a Ladder<'a>,
    run: &'a [f32],
    tags: &'a [[u32; 2]],
    books: &'a mut [u32],
}

impl WithSimd for Count<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        for (s, [label, id]) in self.run.iter().zip(self.tags) {
            // Most are farther than every positive where classes lie apart.
            if *label != self.label && *s >= self.ladder.from {
                let gap = self.ladder.farther(*s, *id);
                self.books[gap] += u32::from(gap > 0);
            }
        }
    }
}

/// The thresholds of a row, as [`order`] leaves them, and how many of them lie before each of many equal stretches of
/// similarities: where a similarity stands among them is found in a step or two.
struct Ladder<'a> {
    thresholds: &'a [[u32; 2]],
    /// Their similarities, and a window that nothing reaches.
    similarities: Vec<f32>,
    /// The smallest; infinite where there is none.
    from: f32,
    /// Stretches in a unit of similarity.
    scale: f32,
    before: Vec<u32>,
}

impl<'a> Ladder<'a> {
    fn new(thresholds: &'a [[u32; 2]]) -> Self {
        let mut similarities = Vec::with_capacity(thresholds.len() + WINDOW);
        similarities.extend(thresholds.iter().map(|t| similarity(number_in(t))));
        let from = similarities.first().copied().unwrap_or(f32::INFINITY);
        let width = similarities.last().map_or(0.0, |to| to - from);
        similarities.resize(thresholds.len() + WINDOW, f32::INFINITY);
        let stretches = (2 * thresholds.len() / WINDOW).next_power_of_two();
        let stretches = stretches.min(MOST_STRETCHES);
        let scale = match width > 0.0 {
            true => (stretches - 1) as f32 / width,
            false => 0.0,
        };
        let mut ladder = Self {
            thresholds,
            similarities,
            from,
            scale,
            before: vec![0; stretches],
        };
        let mut stretch = 0;
        for (place, s) in (0..).zip(&ladder.similarities[..thresholds.len()]) {
            let own = ladder.stretch(*s);
            // Every stretch after the last one's begins here.
            while stretch < own {
                stretch += 1;
                ladder.before[stretch] = place;
            }
        }
        ladder
    }

    /// The stretch of a similarity: never a later one for a smaller similarity, however it is rounded.
    #[inline(always)]
    fn stretch(&self, s: f32) -> usize {
        let stretch = ((s - self.from) * self.scale) as i32;
        (stretch as usize).min(self.before.len() - 1)
    }

    /// How many thresholds are farther than a negative of this similarity, `from` or more, and id.
    #[inline(always)]
    fn farther(&self, s: f32, id: u32) -> usize {
        if self.thresholds.len() > FEW {
            return self.looked_up(s, id);
        }
        let number = nearness([s.to_bits(), id]);
        self.thresholds.partition_point(|t| number_in(t) < number)
    }

    /// The same, by stretches.
    #[inline(always)]
    fn looked_up(&self, s: f32, id: u32) -> usize {
        let mut farther = self.before[self.stretch(s)] as usize;
        loop {
            let (windows, _) = self.similarities[farther..].as_chunks::<WINDOW>();
            let bits = windows[0].map(|threshold| threshold < s);
            let less = bits.iter().filter(|less| **less).count();
            farther += less;
            if less < WINDOW {
                break;
            }
        }
        if self.similarities[farther] == s {
            // Seldom: the ids tell.
            let number = nearness([s.to_bits(), id]);
            let tied = &self.thresholds[farther..];
            farther += tied.partition_point(|threshold| number_in(threshold) < number);
        }
        farther
    }
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

/// Puts counts together, two in a word.
pub fn pack(books: &[u32], packed: &mut [[u32; 2]]) {
    for (packed, books) in packed.iter_mut().zip(books.chunks(4)) {
        let count = |i: usize| books.get(i).copied().unwrap_or(0);
        *packed = [0, 2].map(|i| count(i) | count(i + 1) << 16);
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt as _, SeedableRng as _};

    use super::*;

    #[test]
    fn a_ladder_finds_what_a_search_of_all_thresholds_finds() {
        let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(1);
        for (count, from, to, steps) in [
            (1, -1.0, 1.0, 1 << 20),
            (31, -1.0, 1.0, 1 << 20),
            (32, 0.2, 0.2, 1),
            (500, -1.0, 1.0, 40),
            (3000, 0.999_999, 1.0, 8),
            (5000, -0.1, 0.7, 1 << 20),
        ] {
            let mut draw = |from: f32, to: f32| {
                let step = rng.random_range(0..=steps) as f32 / steps as f32;
                [(from + (to - from) * step).to_bits(), rng.random::<u32>()]
            };
            let mut numbers: Vec<u64> = (0..count).map(|_| nearness(draw(from, to))).collect();
            // One far from the others: nearly all stand in one stretch then.
            numbers.extend((count == 5000).then(|| nearness([(-1.0f32).to_bits(), 0])));
            numbers.sort_unstable();
            let thresholds: Vec<[u32; 2]> = numbers
                .iter()
                .map(|number| [*number as u32, (*number >> 32) as u32])
                .collect();
            let ladder = Ladder::new(&thresholds);
            for (from, to) in [(from, to), (-1.0, 1.0)].repeat(2000) {
                let entry = draw(from, to);
                let number = nearness(entry);
                let s = f32::from_bits(entry[0]);
                if s >= ladder.from {
                    let farther = numbers.partition_point(|threshold| *threshold < number);
                    assert_eq!(ladder.farther(s, entry[1]), farther);
                    assert_eq!(ladder.looked_up(s, entry[1]), farther);
                }
            }
        }
    }
}
