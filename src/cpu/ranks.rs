//! Ranks of each row's positives among all references.

mod ladder;

use std::ops::Range;

use bytemuck::{Pod, Zeroable};
use pulp::{Arch, Simd, WithSimd};

use super::SEGMENT;
use super::parallel::{map, rows_of_a_part, threads};
use super::stored::Rows;
use super::tile::{
    PANEL, columns, find_near, height, lanes, lanes_of, nearness, number_in, panels_at_once,
    references_at_once, rows_at_once, similarities, similarity, sort_numbers, words,
};
use ladder::Ladder;

/// An anchor or query, as the kernels that rank positives read it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Row {
    /// Its class, and its group if it has one: see [`LabelBits`].
    pub label: u32,
    /// Its id: the reference with the same id is its own stored copy. [`NO_ID`] if it has none.
    pub id: u32,
    /// Start of its thresholds and gap counts in the block's: the sum of `positives + 1` of the block's rows before it.
    pub offset: u32,
    /// Number of its positives: references with its class and another id, of other groups.
    pub positives: u32,
}

/// Meaning of a label's bits: a class, and in the bits above it a group, if rows have groups. Rows of one group are no neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabelBits {
    /// The bits that say the class.
    pub class_mask: u32,
    /// Labels whose exclusive or is less than this are of one group; 0 without groups.
    pub own_below: u32,
}

impl LabelBits {
    /// A label is a class.
    pub const CLASSES: Self = Self {
        class_mask: u32::MAX,
        own_below: 0,
    };

    /// The lowest bits are a class, those above them a group.
    pub fn with_groups(class_bits: u32) -> Self {
        Self {
            class_mask: (1 << class_bits) - 1,
            own_below: 1 << class_bits,
        }
    }

    /// Tells if two different rows with these labels are of one class and of different groups.
    fn is_positive(self, label: u32, other: u32) -> bool {
        let difference = label ^ other;
        (difference & self.class_mask == 0) & (difference >= self.own_below)
    }

    /// Tells if rows with these labels are of one class, or of one group.
    fn is_no_negative(self, label: u32, other: u32) -> bool {
        let difference = label ^ other;
        (difference & self.class_mask == 0) | (difference < self.own_below)
    }
}

/// The id of no reference.
pub const NO_ID: u32 = u32::MAX;

/// A block of rows, and the references that they are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Number of the first row among the anchors.
    pub first_row: usize,
    /// Number of rows.
    pub rows: usize,
    /// Start of the block in `batch`.
    pub batch: usize,
    /// The first reference; 0 for the passes of `triplet_margin`.
    pub first_reference: usize,
    /// Number of references.
    pub references: usize,
    /// Floats from one row of anchors or references to the next.
    pub stride: usize,
}

impl Block {
    /// Floating-point operations of all similarities of the block.
    pub(super) fn operations(&self) -> usize {
        2 * self.rows * self.references * self.stride
    }
}

/// Number of rows that fill the lanes of all cores: a block of fewer takes as long.
pub fn rows_of_all_cores() -> usize {
    PANEL * threads()
}

/// Inputs of the pass, as `kernels::ranks::Inputs`.
#[derive(Clone, Copy, Debug)]
pub struct Slices<'a> {
    /// Unit rows `[_, stride]`.
    pub anchors: &'a [f32],
    /// Unit rows `[references, stride]`.
    pub references: Rows<'a>,
    /// Label, id, number of positives and place of each anchor.
    pub batch: &'a [Row],
    /// `[label, id]` of each reference.
    pub tags: &'a [[u32; 2]],
}

/// A few rows of the block, with their thresholds and gap counts.
pub(super) struct Panel<'a> {
    pub(super) rows: &'a [Row],
    /// Their unit rows.
    pub(super) anchors: &'a [f32],
    /// Their thresholds and gap counts, from the `offset` of the first row on.
    pub(super) thresholds: &'a mut [[u32; 2]],
    pub(super) gap_counts: &'a mut [u32],
}

impl<'a> Panel<'a> {
    /// Cuts the block into panels of [`PANEL`] rows at most, so that every core has one.
    pub(super) fn all(
        block: &Block,
        inputs: Slices<'a>,
        thresholds: &'a mut [[u32; 2]],
        gap_counts: &'a mut [u32],
    ) -> Vec<Self> {
        let most = rows_of_a_part(block.rows, block.operations(), PANEL);
        Self::parts(block, most, inputs, thresholds, gap_counts)
    }

    /// Cuts the block into parts of `most` rows.
    fn parts(
        block: &Block,
        most: usize,
        inputs: Slices<'a>,
        mut thresholds: &'a mut [[u32; 2]],
        mut gap_counts: &'a mut [u32],
    ) -> Vec<Self> {
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
                    gap_counts: split(&mut gap_counts, start - taken, end - start),
                };
                taken = end;
                panel
            })
            .collect()
    }

    /// Thresholds and gap counts of each row, in their order.
    pub(super) fn rows_mut(&mut self) -> impl Iterator<Item = (Row, &mut [[u32; 2]], &mut [u32])> {
        let (mut thresholds, mut gap_counts) = (&mut *self.thresholds, &mut *self.gap_counts);
        let mut taken = self.rows[0].offset as usize;
        self.rows.iter().map(move |row| {
            let (start, positives) = (row.offset as usize, row.positives as usize);
            let skip = start - taken;
            taken = start + positives + 1;
            let own = split(&mut thresholds, skip, positives + 1);
            let gap_counts = split(&mut gap_counts, skip, positives + 1);
            (*row, &mut own[..positives], gap_counts)
        })
    }
}

/// Takes `count` elements behind `skip` off the front.
fn split<'a, T>(rest: &mut &'a mut [T], skip: usize, count: usize) -> &'a mut [T] {
    let (taken, left) = std::mem::take(rest)[skip..].split_at_mut(count);
    *rest = left;
    taken
}

/// Empties the gap counts of every row of the block.
pub fn clear(block: &Block, inputs: Slices<'_>, gap_counts: &mut [u32]) {
    for row in &inputs.batch[block.batch..][..block.rows] {
        gap_counts[row.offset as usize..][..=row.positives as usize].fill(0);
    }
}

/// Adds the positives of every row with an id in `ids` to its thresholds; its lowest book counts them.
pub fn find(
    block: &Block,
    ids: Range<u32>,
    labels: LabelBits,
    inputs: Slices<'_>,
    thresholds: &mut [[u32; 2]],
    gap_counts: &mut [u32],
) {
    let tags = &inputs.tags[block.first_reference..][..block.references];
    map(
        Panel::all(block, inputs, thresholds, gap_counts),
        |mut panel| {
            let (anchors, own) = (panel.anchors, panel.rows);
            let mut places = (block.first_reference..)
                .zip(tags)
                .filter(|(_, [label, id])| {
                    // Without a branch for each row.
                    own.iter().fold(false, |any, row| {
                        any | labels.is_positive(row.label, *label)
                    }) && ids.contains(id)
                })
                .map(|(place, _)| place);
            let anchors = lanes(anchors, block.stride);
            let mut rows: Vec<_> = panel.rows_mut().collect();
            let (mut s, mut buffer) = ([[0.0; PANEL]; SEGMENT], Vec::new());
            loop {
                let places: Vec<usize> = places.by_ref().take(SEGMENT).collect();
                if places.is_empty() {
                    break;
                }
                let mut at = places.clone();
                let (references, at) = inputs.references.at(&mut at, block.stride, &mut buffer);
                similarities(&anchors, references, at, &mut s);
                for (lane, (row, thresholds, gap_counts)) in rows.iter_mut().enumerate() {
                    for (place, s) in places.iter().zip(&s) {
                        let [label, id] = inputs.tags[*place];
                        if labels.is_positive(row.label, label) && id != row.id {
                            thresholds[gap_counts[0] as usize] = [s[lane].to_bits(), id];
                            gap_counts[0] += 1;
                        }
                    }
                }
            }
        },
    );
}

/// Sorts the thresholds of every row, the farthest first, and leaves them as numbers that sort by nearness for [`gaps`].
pub fn order(
    block: &Block,
    inputs: Slices<'_>,
    thresholds: &mut [[u32; 2]],
    gap_counts: &mut [u32],
) {
    map(
        Panel::all(block, inputs, thresholds, gap_counts),
        |mut panel| {
            for (_, thresholds, gap_counts) in panel.rows_mut() {
                sort(thresholds);
                gap_counts[0] = 0;
            }
        },
    );
}

/// Sorts thresholds as [`order`] leaves them.
fn sort(thresholds: &mut [[u32; 2]]) {
    for threshold in &mut *thresholds {
        *threshold = words(nearness(*threshold));
    }
    sort_numbers(thresholds);
}

/// [`clear`], [`find`] and [`order`] over all references at once; the thresholds stay `[similarity's bits, id]`.
pub fn sort_thresholds(
    block: &Block,
    inputs: Slices<'_>,
    thresholds: &mut [[u32; 2]],
    gap_counts: &mut [u32],
) {
    clear(block, inputs, gap_counts);
    find(
        block,
        0..NO_ID,
        LabelBits::CLASSES,
        inputs,
        thresholds,
        gap_counts,
    );
    map(
        Panel::all(block, inputs, thresholds, gap_counts),
        |mut panel| {
            for (_, thresholds, gap_counts) in panel.rows_mut() {
                sort(thresholds);
                for threshold in &mut *thresholds {
                    let number = number_in(threshold);
                    *threshold = [similarity(number).to_bits(), !(number as u32)];
                }
                gap_counts[0] = 0;
            }
        },
    );
}

/// If fewer than one in this many pairs can count, each is looked at by itself.
const MANY: usize = 8;
/// Bytes of the ladders of a part's rows, at most: they stay in the cache with the references.
const PART_BYTES: usize = 1 << 19;

/// Counts the negatives of each gap but the lowest.
///
/// Ranks up to the larger of `depth` and the row's positives will be right; of thresholds with more negatives before them
/// not all of these are counted.
pub fn gaps(
    block: &Block,
    depth: usize,
    labels: LabelBits,
    inputs: Slices<'_>,
    thresholds: &mut [[u32; 2]],
    gap_counts: &mut [u32],
) {
    let rows = &inputs.batch[block.batch..][..block.rows];
    let positives = rows.iter().map(|row| row.positives as usize).max();
    let bytes = Ladder::bytes(positives.unwrap_or(0)) * PANEL;
    let panels = panels_at_once(block.stride).min((PART_BYTES / bytes).max(1));
    let most = rows_at_once(block.rows, block.operations(), panels);
    let parts = Panel::parts(block, most, inputs, thresholds, gap_counts);
    map(parts, |mut part| {
        let anchors = part.anchors.chunks(PANEL * block.stride);
        let mut rows = part.rows_mut();
        let mut panels: Vec<_> = anchors
            .map(|anchors| {
                let rows = rows.by_ref().take(PANEL);
                let rows = rows.map(|(row, thresholds, gap_counts)| {
                    Counter::new(row.label, labels, depth, thresholds, gap_counts)
                });
                (lanes(anchors, block.stride), rows.collect::<Vec<_>>())
            })
            .collect();
        let (mut s, mut buffer) = ([[0.0; PANEL]; SEGMENT], Vec::new());
        let end = block.first_reference + block.references;
        let step = references_at_once(block.stride);
        for first in (block.first_reference..end).step_by(step) {
            let places: Vec<usize> = (0..step.min(end - first)).collect();
            let (from, floats) = (first * block.stride, places.len() * block.stride);
            let references = inputs.references.some(from, floats, &mut buffer);
            let tags = &inputs.tags[first..][..places.len()];
            let s = &mut s[..places.len()];
            for (lanes, rows) in &mut panels {
                similarities(lanes, references, &places, s);
                count(rows, s, tags);
            }
        }
    });
}

/// Counts the negatives among a few references in the gaps of a panel's rows.
fn count(rows: &mut [Counter<'_>], s: &[[f32; PANEL]], tags: &[[u32; 2]]) {
    let mut from = [f32::INFINITY; PANEL];
    for (from, row) in from.iter_mut().zip(&*rows) {
        *from = row.from();
    }
    let near = &mut [0; SEGMENT][..s.len()];
    find_near(s, &from, near);
    let pairs: u32 = near.iter().map(|near| near.count_ones()).sum();
    if pairs as usize * MANY > s.len() * rows.len() {
        Arch::new().dispatch(CountMany { rows, s, tags });
        return;
    }
    for ((s, tag), near) in s.iter().zip(tags).zip(near) {
        for lane in lanes_of(*near) {
            rows[lane].count(s[lane], *tag);
        }
    }
    for row in rows {
        row.raise();
    }
}

/// Counts the negatives among a few references if many pairs can count; compiled for the instruction set of the processor.
struct CountMany<'a, 'b> {
    rows: &'a mut [Counter<'b>],
    s: &'a [[f32; PANEL]],
    tags: &'a [[u32; 2]],
}

impl WithSimd for CountMany<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        // Each row's similarities lie next to each other.
        let mut columns = columns(self.s);
        let mut labels = [0; SEGMENT];
        for (label, tag) in labels.iter_mut().zip(self.tags) {
            *label = tag[0];
        }
        let labels = &labels[..self.tags.len()];
        for (row, column) in self.rows.iter_mut().zip(&mut columns) {
            row.count_many(&mut column[..labels.len()], labels, self.tags);
        }
    }
}

/// A row that counts the negatives in its gaps.
struct Counter<'a> {
    label: u32,
    labels: LabelBits,
    ladder: Ladder<'a>,
    gap_counts: &'a mut [u32],
    /// Number of negatives before a threshold from which on no more are counted.
    depth: u64,
    /// The first gap that is still counted, and the number of negatives counted in it and the gaps after it.
    first: usize,
    counted: u64,
}

impl<'a> Counter<'a> {
    fn new(
        label: u32,
        labels: LabelBits,
        depth: usize,
        thresholds: &'a [[u32; 2]],
        gap_counts: &'a mut [u32],
    ) -> Self {
        let mut counter = Self {
            label,
            labels,
            ladder: Ladder::new(thresholds),
            gap_counts,
            depth: depth.max(thresholds.len()) as u64,
            first: 1,
            counted: 0,
        };
        counter.count_again();
        counter.raise();
        counter
    }

    /// The least similarity that may be counted; infinite if no gap is counted any more.
    fn from(&self) -> f32 {
        let threshold = self.ladder.thresholds.get(self.first - 1);
        threshold.map_or(f32::INFINITY, |threshold| similarity(number_in(threshold)))
    }

    /// Counts a reference, if it is a negative.
    fn count(&mut self, s: f32, [label, id]: [u32; 2]) {
        if !self.labels.is_no_negative(self.label, label) {
            let ladder = &self.ladder;
            let gap = ladder.farther(usize::from(ladder.step(s)), height(s), id);
            if gap >= self.first {
                self.gap_counts[gap] += 1;
                self.counted += 1;
            }
        }
    }

    /// Counts all that are negatives.
    #[inline(always)]
    fn count_many(&mut self, s: &mut [f32], labels: &[u32], tags: &[[u32; 2]]) {
        let (own, of) = (self.label, self.labels);
        let is_out = |label: &u32| of.is_no_negative(own, *label);
        if labels.iter().fold(false, |any, label| any | is_out(label)) {
            for (s, label) in s.iter_mut().zip(labels) {
                // Below everything.
                *s = if is_out(label) { f32::NEG_INFINITY } else { *s };
            }
        }
        let ladder = &self.ladder;
        let (mut heights, mut steps) = ([0; SEGMENT], [0; SEGMENT]);
        let mut nearest = 0;
        for (to, s) in heights.iter_mut().zip(&*s) {
            *to = height(*s);
            nearest = nearest.max(*to);
        }
        // Most are farther than every positive if classes lie apart.
        if nearest < ladder.heights[0] {
            return;
        }
        ladder.find_steps(s, &mut steps);
        let gap_counts = &mut *self.gap_counts;
        let lowest = gap_counts[0];
        for ((step, height), [_, id]) in steps.iter().zip(heights).zip(tags) {
            gap_counts[ladder.farther(usize::from(*step), height, *id)] += 1;
        }
        gap_counts[0] = lowest;
        self.count_again();
        self.raise();
    }

    fn count_again(&mut self) {
        if self.depth < usize::MAX as u64 {
            let counted = self.gap_counts[self.first..]
                .iter()
                .map(|count| u64::from(*count));
            self.counted = counted.sum();
        }
    }

    /// Leaves out the gaps below thresholds that have enough negatives before them.
    fn raise(&mut self) {
        while let Some(count) = self.gap_counts.get(self.first)
            && self.counted - u64::from(*count).min(self.counted) >= self.depth
        {
            self.counted -= u64::from(*count);
            self.first += 1;
        }
    }
}

/// Calls `with` for each segment of the references, with the place of its first, its rows, and the similarities of a panel of
/// anchors to each.
pub(super) fn for_segments(
    block: &Block,
    inputs: Slices<'_>,
    anchors: &[f32],
    mut with: impl FnMut(usize, &[f32], &[[f32; PANEL]]),
) {
    let (first, end) = (
        block.first_reference,
        block.first_reference + block.references,
    );
    let anchors = lanes(anchors, block.stride);
    let (mut s, mut buffer) = ([[0.0; PANEL]; SEGMENT], Vec::new());
    let mut places = Vec::with_capacity(SEGMENT);
    for first in (first..end).step_by(SEGMENT) {
        places.clear();
        places.extend(0..SEGMENT.min(end - first));
        let (from, floats) = (first * block.stride, places.len() * block.stride);
        let references = inputs.references.some(from, floats, &mut buffer);
        similarities(&anchors, references, &places, &mut s);
        with(first, references, &s[..places.len()]);
    }
}

/// Number of sorted thresholds that are farther than `entry`.
pub(super) fn farther(thresholds: &[[u32; 2]], entry: [u32; 2]) -> usize {
    let s = f32::from_bits(entry[0]);
    let less = thresholds.partition_point(|[bits, _]| f32::from_bits(*bits) < s);
    let tied = |[bits, id]: &[u32; 2]| f32::from_bits(*bits) == s && *id > entry[1];
    match &thresholds[less..] {
        // Seldom: this branch costs nothing if nothing is tied.
        rest @ [first, ..] if tied(first) => less + rest.partition_point(tied),
        _ => less,
    }
}

/// Packs counts, 16 bits each, two in a word.
pub fn pack(gap_counts: &[u32], packed: &mut [[u32; 2]]) {
    for (packed, gap_counts) in packed.iter_mut().zip(gap_counts.chunks(4)) {
        let count = |i: usize| gap_counts.get(i).copied().unwrap_or(0);
        *packed = [0, 2].map(|i| count(i) | count(i + 1) << 16);
    }
}
