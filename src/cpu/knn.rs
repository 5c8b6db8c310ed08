//! The k nearest references of every query of a block.

use bytemuck::{Pod, Zeroable};

use super::SEGMENT;
use super::tile::{nearness, similarities_to};

/// References that one visit looks at, at most: what survives one always has room.
pub const VISIT: usize = 1024;
/// The most neighbours that one search keeps; more come in further searches, each strictly after the last.
pub const MOST_KEPT: usize = 512;
/// What stands where there is no neighbour yet: a similarity of -2 and no id, farther than every reference.
pub const NOTHING: [u32; 2] = [(-2.0f32).to_bits(), u32::MAX];

/// What a search needs to know of a query.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Asked {
    /// Its own id, which is left out; `u32::MAX` where it is no reference.
    pub id: u32,
    /// `[similarity's bits, id]`: only what is farther is looked at.
    pub after: [u32; 2],
    /// Nothing: the shader reads vec4s.
    pub padding: u32,
}

impl Asked {
    /// Asks for the nearest of all but `id`.
    pub fn first(id: u32) -> Self {
        Self::after(id, [2.0f32.to_bits(), 0])
    }

    /// Asks for the nearest of those farther than `after`.
    pub fn after(id: u32, after: [u32; 2]) -> Self {
        Self {
            id,
            after,
            padding: 0,
        }
    }
}

/// The queries and the references of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Search {
    /// The first query, in the block.
    pub first_row: usize,
    /// How many queries.
    pub rows: usize,
    /// References of the chunk.
    pub references: usize,
    /// The id of its first; the others follow.
    pub first_id: u32,
    /// Floats from one row to the next.
    pub stride: usize,
    /// Neighbours to keep, [`MOST_KEPT`] at most.
    pub k: usize,
}

/// Forgets all neighbours.
pub(crate) fn clear(search: &Search, kept: &mut [[u32; 2]]) {
    kept[search.first_row * search.k..][..search.rows * search.k].fill(NOTHING);
}

/// Lets every query look at the references of one visit, `VISIT` of the chunk in a row.
pub(crate) fn visit(
    search: &Search,
    visit: usize,
    anchors: &[f32],
    references: &[f32],
    asked: &[Asked],
    kept: &mut [[u32; 2]],
    survivors: &mut [[u32; 2]],
) {
    let Search { stride, k, .. } = *search;
    let first = visit * VISIT;
    let count = VISIT.min(search.references - first);
    let references = &references[first * stride..][..count * stride];
    for row in search.first_row..search.first_row + search.rows {
        let anchor = &anchors[row * stride..][..stride];
        let kept = &mut kept[row * k..][..k];
        let survivors = &mut survivors[row * VISIT..][..VISIT];
        let mut count = 0;
        let mut id = search.first_id + first as u32;
        for segment in references.chunks(SEGMENT * stride) {
            let mut similarities = [0.0; SEGMENT];
            similarities_to(anchor, segment, &mut similarities);
            for s in &similarities[..segment.len() / stride] {
                let entry = [s.to_bits(), id];
                if nearness(kept[k - 1], entry).is_lt()
                    && id != asked[row].id
                    && nearness(entry, asked[row].after).is_lt()
                {
                    survivors[count] = entry;
                    count += 1;
                }
                id += 1;
            }
        }
        keep(kept, &mut survivors[..count]);
    }
}

/// Merges survivors into the sorted neighbours, nearest first.
fn keep(kept: &mut [[u32; 2]], survivors: &mut [[u32; 2]]) {
    survivors.sort_unstable_by(|a, b| nearness(*b, *a));
    for entry in survivors {
        let place = kept.partition_point(|other| nearness(*entry, *other).is_lt());
        if place == kept.len() {
            break;
        }
        kept[place..].rotate_right(1);
        kept[place] = *entry;
    }
}
