//! Lists of triplets, written in windows.

use std::ops::Range;

use bytemuck::{Pod, Zeroable};
use pulp::Arch;

use super::parallel::{map, rows_of_a_part};
use super::triplet_margin::Kind;

/// References of a cell.
pub const CELL: usize = 2048;

/// The [`Row::own`] of an anchor that is no reference.
pub const NO_PLACE: u32 = u32::MAX;

/// Triplets of a part of a window: few enough to stay in a core's own cache.
const PART: usize = 8192;

/// Places of the set bits of each byte, ascending; the places after them have no meaning.
const SET: [[u8; 8]; 256] = {
    let mut all = [[0; 8]; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut bit, mut count) = (0, 0);
        while bit < 8 {
            all[byte][count] = bit;
            count += byte >> bit & 1;
            bit += 1;
        }
        byte += 1;
    }
    all
};

/// Larger than every similarity, and minus this is smaller.
const NOWHERE: f32 = 3.0;

/// Floating-point operations that one look at a reference counts as.
const LOOK: usize = 4;

/// An anchor, as the kernels that list triplets read it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Row {
    /// Its number in the list.
    pub anchor: u32,
    /// Start of its triplets in the window, or of its pairs in the block.
    pub offset: u32,
    /// Its class.
    pub label: u32,
    /// Start of the references of its class in the list of members.
    pub first: u32,
    /// Number of references of its class.
    pub members: u32,
    /// Its own place among them, which is no positive; [`NO_PLACE`] if it is no reference.
    pub own: u32,
}

impl Row {
    /// Number of its positives.
    pub fn positives(&self) -> u32 {
        self.members - u32::from(self.own != NO_PLACE)
    }

    /// Place of its j-th positive among the members of its class.
    pub fn place(&self, j: u32) -> usize {
        (j + u32::from(j >= self.own)) as usize
    }

    /// Number of members of its class, which ascend, before its j-th negative.
    pub fn members_before(&self, members: &[u32], j: u32) -> u32 {
        let (mut low, mut high) = (0, self.members);
        while low < high {
            let middle = (low + high) / 2;
            if members[middle as usize] - middle <= j {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

/// Band of triplets that are kept: `low < tm <= high`, with `tm` the nearness of the positive less that of the negative.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Band {
    /// The lower bound, exclusive.
    pub low: f32,
    /// The upper bound, inclusive.
    pub high: f32,
}

impl Band {
    /// The band of a kind and the miner's margin.
    pub fn of(kind: Kind, margin: f32) -> Self {
        let (low, high) = match kind {
            Kind::All => (f32::MIN, margin),
            Kind::Easy => (margin, f32::MAX),
            Kind::Semihard => (0.0, margin),
            Kind::Hard => (f32::MIN, margin.min(0.0)),
            Kind::Unmined => (f32::MIN, f32::MAX),
        };
        Self { low, high }
    }

    #[inline(always)]
    fn keeps(self, tm: f32) -> bool {
        // Without a branch.
        (tm > self.low) & (tm <= self.high)
    }
}

/// The pairs (anchor, positive) of a block, and the band of their triplets that is kept.
///
/// A pair has a cell for every [`CELL`] references, the last one for the rest; the cells of the first pair come first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Batch {
    /// Rows of the block.
    pub rows: usize,
    /// References that each of them meets.
    pub references: usize,
    /// The pair of the block whose cells come first.
    pub first_pair: usize,
    /// The band of triplets that is kept.
    pub band: Band,
}

impl Batch {
    /// Cells of a pair.
    pub fn cells_of_a_pair(references: usize) -> usize {
        references.div_ceil(CELL)
    }
}

/// Inputs of the passes, as `kernels::triplets::Inputs`.
#[derive(Clone, Copy, Debug)]
pub struct Slices<'a> {
    /// The anchors of the block, in order.
    pub rows: &'a [Row],
    /// References by class, each class ascending.
    pub members: &'a [u32],
    /// The class of each reference.
    pub labels: &'a [u32],
    /// `[rows, width]`: of each anchor to every reference.
    pub similarities: &'a [f32],
}

/// The triplets of one pair with the references of one cell.
struct Cell<'a> {
    anchor: u32,
    label: u32,
    positive: u32,
    nearness: f32,
    first: u32,
    similarities: &'a [f32],
    labels: &'a [u32],
    band: Band,
}

impl<'a> Cell<'a> {
    fn of(batch: &Batch, width: usize, inputs: Slices<'a>, cell: usize) -> Self {
        let cells = Batch::cells_of_a_pair(batch.references);
        let pair = (batch.first_pair + cell / cells) as u32;
        let (row, similarities) = row_of(&inputs.rows[..batch.rows], width, inputs, pair);
        let members = &inputs.members[row.first as usize..];
        let positive = members[row.place(pair - row.offset)];
        let first = cell % cells * CELL;
        let last = batch.references.min(first + CELL);
        Self {
            anchor: row.anchor,
            label: row.label,
            positive,
            nearness: similarities[positive as usize],
            first: first as u32,
            similarities: &similarities[first..last],
            labels: &inputs.labels[first..last],
            band: batch.band,
        }
    }

    /// Tells of each of its references if it is the negative of a triplet that is kept.
    #[inline(always)]
    fn kept(&self) -> impl Iterator<Item = bool> {
        let Self {
            label,
            nearness,
            band,
            ..
        } = *self;
        let references = self.similarities.iter().zip(self.labels);
        references.map(move |(s, other)| (*other != label) & band.keeps(nearness - s))
    }

    #[inline(always)]
    fn count(&self) -> u32 {
        self.kept().map(u32::from).sum()
    }

    /// Writes the triplets from the `skip`-th on that have room.
    #[inline(always)]
    fn write(&self, skip: usize, triplets: &mut [[u32; 3]]) {
        let mut flags = [[0u8; 8]; CELL / 8];
        for (flag, kept) in flags.as_flattened_mut().iter_mut().zip(self.kept()) {
            *flag = u8::from(kept);
        }
        // Eight at a time, the kept ones first; the other places are overwritten by the next eight.
        let mut kept = [0; CELL + 8];
        let mut count = 0;
        let eights = flags.iter().take(self.labels.len().div_ceil(8));
        for (first, flags) in (self.first..).step_by(8).zip(eights) {
            // The sum of the flags, each shifted to a bit of its own at the top.
            let bits = u64::from_le_bytes(*flags).wrapping_mul(0x0102_0408_1020_4080) >> 56;
            for (kept, place) in kept[count..count + 8].iter_mut().zip(SET[bits as usize]) {
                *kept = first + u32::from(place);
            }
            count += bits.count_ones() as usize;
        }
        for (triplet, negative) in triplets.iter_mut().zip(&kept[skip..count]) {
            *triplet = [self.anchor, self.positive, *negative];
        }
    }
}

/// Counts the triplets of each cell.
pub fn count(
    batch: &Batch,
    width: usize,
    cells: Range<usize>,
    inputs: Slices<'_>,
    counts: &mut [u32],
) {
    let most = rows_of_a_part(
        cells.len(),
        cells.len().saturating_mul(CELL * LOOK),
        cells.len().max(1),
    );
    let parts = counts[cells.clone()].chunks_mut(most);
    map(
        cells.step_by(most).zip(parts).collect(),
        |(first, counts)| {
            Arch::new().dispatch(
                #[inline(always)]
                || {
                    for (cell, count) in (first..).zip(counts) {
                        *count = Cell::of(batch, width, inputs, cell).count();
                    }
                },
            );
        },
    );
}

/// Writes those triplets of the cells that lie in the window: `window.start` is the first one's number in the batch.
pub fn write(
    batch: &Batch,
    width: usize,
    cells: Range<usize>,
    window: Range<u32>,
    inputs: Slices<'_>,
    offsets: &[u32],
    triplets: &mut [[u32; 3]],
) {
    // Start of a cell's triplets in the window, cut to it.
    let place =
        |cell: usize| (offsets[cell].clamp(window.start, window.end) - window.start) as usize;
    let most = rows_of_a_part(
        cells.len(),
        cells.len().saturating_mul(CELL * LOOK),
        cells.len().max(1),
    );
    let mut rest = &mut triplets[place(cells.start)..place(cells.end)];
    let mut parts = Vec::new();
    for first in cells.clone().step_by(most) {
        let part = first..cells.end.min(first + most);
        let (own, left) = rest.split_at_mut(place(part.end) - place(part.start));
        parts.push((part, own));
        rest = left;
    }
    map(parts, |(part, mut triplets)| {
        Arch::new().dispatch(
            #[inline(always)]
            || {
                for cell in part {
                    let (own, left) = triplets.split_at_mut(place(cell + 1) - place(cell));
                    triplets = left;
                    if !own.is_empty() {
                        let skip = window.start.saturating_sub(offsets[cell]) as usize;
                        Cell::of(batch, width, inputs, cell).write(skip, own);
                    }
                }
            },
        );
    });
}

/// Writes FaceNet's triplet of each pair from `first_pair` on.
pub fn facenet(
    rows: usize,
    references: usize,
    width: usize,
    first_pair: usize,
    inputs: Slices<'_>,
    triplets: &mut [[u32; 3]],
) {
    let operations = triplets.len().saturating_mul(references * LOOK);
    let most = rows_of_a_part(triplets.len(), operations, triplets.len().max(1));
    let parts = (first_pair..).step_by(most).zip(triplets.chunks_mut(most));
    map(parts.collect(), |(first, triplets)| {
        Arch::new().dispatch(
            #[inline(always)]
            || {
                for (pair, triplet) in (first as u32..).zip(triplets) {
                    let (row, s) = row_of(&inputs.rows[..rows], width, inputs, pair);
                    let members = &inputs.members[row.first as usize..];
                    let positive = members[row.place(pair - row.offset)];
                    let s = &s[..references];
                    let negative = one_negative(row.label, positive, s, inputs.labels);
                    *triplet = [row.anchor, positive, negative];
                }
            },
        );
    });
}

/// The anchor of a pair, and its similarities.
fn row_of<'a>(
    rows: &'a [Row],
    width: usize,
    inputs: Slices<'a>,
    pair: u32,
) -> (&'a Row, &'a [f32]) {
    let at = rows.partition_point(|row| row.offset <= pair) - 1;
    (&rows[at], &inputs.similarities[at * width..][..width])
}

/// The nearest negative that is strictly farther than the positive, or else the farthest; of equals the first.
#[inline(always)]
fn one_negative(label: u32, positive: u32, similarities: &[f32], labels: &[u32]) -> u32 {
    let nearness = similarities[positive as usize];
    let (mut beyond, mut farthest) = (-NOWHERE, NOWHERE);
    for (s, other) in similarities.iter().zip(labels) {
        let (v, negative) = (*s, *other != label);
        // Without a branch.
        beyond = if negative & (v < nearness) & (v > beyond) {
            v
        } else {
            beyond
        };
        farthest = if negative & (v < farthest) {
            v
        } else {
            farthest
        };
    }
    let wanted = if beyond > -NOWHERE { beyond } else { farthest };
    let is_it = |(s, other): (&f32, &u32)| *other != label && *s == wanted;
    let found = similarities.iter().zip(labels).position(is_it);
    found.expect("a pair has a negative") as u32
}

/// Writes every valid triplet of the window; the first row's begin with the positive and negative numbered `begin`.
///
/// `first` is the number in the window of the first triplet that is written.
pub fn valid(
    references: usize,
    begin: [u32; 2],
    first: usize,
    rows: &[Row],
    members: &[u32],
    triplets: &mut [[u32; 3]],
) {
    let parts = (first..).step_by(PART).zip(triplets.chunks_mut(PART));
    map(parts.collect(), |(first, mut triplets)| {
        let mut at = rows.partition_point(|row| row.offset as usize <= first) - 1;
        let mut within = first - rows[at].offset as usize;
        while !triplets.is_empty() {
            let row = &rows[at];
            let end = rows
                .get(at + 1)
                .map_or(usize::MAX, |next| next.offset as usize);
            let room = triplets.len().min(end - row.offset as usize - within);
            let (own, left) = triplets.split_at_mut(room);
            let begin = if at == 0 { begin } else { [0, 0] };
            of_row(references, begin, within, row, members, own);
            triplets = left;
            (at, within) = (at + 1, 0);
        }
    });
}

/// Writes triplets of one anchor, from the one that comes `within` after that of `begin` on.
fn of_row(
    references: usize,
    begin: [u32; 2],
    within: usize,
    row: &Row,
    members: &[u32],
    mut triplets: &mut [[u32; 3]],
) {
    let members = &members[row.first as usize..][..row.members as usize];
    let negatives = references - members.len();
    let start = begin[1] as usize + within;
    let (mut positive, mut negative) = (begin[0] + (start / negatives) as u32, start % negatives);
    while !triplets.is_empty() {
        let room = triplets.len().min(negatives - negative);
        let (own, left) = triplets.split_at_mut(room);
        let pair = [row.anchor, members[row.place(positive)]];
        of_pair(references as u32, pair, negative as u32, row, members, own);
        triplets = left;
        (positive, negative) = (positive + 1, 0);
    }
}

/// Writes triplets of one pair, from its negative with the number `negative` on; negatives are the references between its class's.
fn of_pair(
    references: u32,
    [anchor, positive]: [u32; 2],
    negative: u32,
    row: &Row,
    members: &[u32],
    mut triplets: &mut [[u32; 3]],
) {
    let before = row.members_before(members, negative);
    let mut next = negative + before;
    for end in members[before as usize..]
        .iter()
        .copied()
        .chain([references])
    {
        let run = triplets.len().min((end - next) as usize);
        let (own, left) = triplets.split_at_mut(run);
        for (triplet, negative) in own.iter_mut().zip(next..) {
            *triplet = [anchor, positive, negative];
        }
        triplets = left;
        if triplets.is_empty() {
            break;
        }
        next = end + 1;
    }
}

/// A number that changes with every triplet and with its place in the list, `first` the number of the first one.
pub fn checksum(first: u32, triplets: &[[u32; 3]]) -> u32 {
    let parts = triplets.chunks(PART).enumerate();
    let sums = map(parts.collect(), |(part, triplets)| {
        Arch::new().dispatch(
            #[inline(always)]
            || {
                let mut sum = 0u32;
                let mut number = first.wrapping_add((part * PART) as u32);
                for triplet in triplets {
                    sum = sum.wrapping_add(term(number, *triplet));
                    number = number.wrapping_add(1);
                }
                sum
            },
        )
    });
    sums.into_iter().fold(0, u32::wrapping_add)
}

/// A triplet's addend in the checksum, in arithmetic that wraps.
#[inline(always)]
fn term(number: u32, [anchor, positive, negative]: [u32; 3]) -> u32 {
    let triplet = anchor
        .wrapping_mul(0x9e37_79b1)
        .wrapping_add(positive.wrapping_mul(0x85eb_ca77))
        .wrapping_add(negative.wrapping_mul(0xc2b2_ae3d));
    triplet.wrapping_mul(number.wrapping_mul(2).wrapping_add(1))
}
