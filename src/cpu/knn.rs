//! The k nearest references of every query of a block.

use std::ops::Range;

use bytemuck::{Pod, Zeroable};
use pulp::Arch;

use super::SEGMENT;
use super::parallel::{map, rows_of_a_part};
use super::tile::{PANEL, nearness, number_in, similarities, similarity, words};

/// References of one visit, at most: what survives one always has room.
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

impl Search {
    /// How many visits the chunk is cut into: a prime number or 1, so that references that take turns, class after class,
    /// do not meet in one visit.
    pub fn visits(&self) -> usize {
        let is_prime = |n: &usize| {
            (2..)
                .take_while(|d| d * d <= *n)
                .all(|d| !n.is_multiple_of(d))
        };
        let least = self.references.div_ceil(VISIT).max(1);
        (least..).find(is_prime).unwrap_or(least)
    }
}

/// Forgets all neighbours.
pub fn clear(search: &Search, kept: &mut [[u32; 2]]) {
    kept[search.first_row * search.k..][..search.rows * search.k].fill(NOTHING);
}

/// Lets every query look at the references of these visits, so many in a row each.
pub fn search(
    search: &Search,
    visits: Range<usize>,
    queries: &[f32],
    references: &[f32],
    asked: &[Asked],
    kept: &mut [[u32; 2]],
    survivors: &mut [[u32; 2]],
) {
    let Search {
        first_row,
        rows,
        stride,
        k,
        ..
    } = *search;
    let all = search.visits() as u64;
    let start = |visit: usize| (visit as u64 * search.references as u64 / all) as usize;
    let places = start(visits.start)..start(visits.end);
    let panel = rows_of_a_part(rows, 2 * rows * places.len() * stride, PANEL);
    let queries = queries[first_row * stride..][..rows * stride].chunks(panel * stride);
    let kept = kept[first_row * k..][..rows * k].chunks_mut(panel * k);
    let survivors = survivors[first_row * VISIT..][..rows * VISIT].chunks_mut(panel * VISIT);
    let panels = queries
        .zip(asked[first_row..][..rows].chunks(panel))
        .zip(kept.zip(survivors))
        .map(|((queries, asked), (kept, survivors))| Panel {
            queries,
            asked,
            kept,
            survivors,
        });
    map(panels.collect(), |panel| {
        panel.look(search, references, places.clone());
    });
}

/// A few queries, and what is theirs.
struct Panel<'a> {
    queries: &'a [f32],
    asked: &'a [Asked],
    kept: &'a mut [[u32; 2]],
    survivors: &'a mut [[u32; 2]],
}

impl Panel<'_> {
    fn look(self, search: &Search, references: &[f32], places: Range<usize>) {
        let Search {
            stride,
            k,
            first_id,
            ..
        } = *search;
        let mut kept: Vec<_> = self.kept.chunks_mut(k).collect();
        let mut survivors: Vec<_> = self.survivors.chunks_mut(VISIT).collect();
        let mut counts = [0; PANEL];
        // The similarity of the farthest kept: a lane without a query keeps none.
        let mut farthest = [f32::INFINITY; PANEL];
        for (farthest, kept) in farthest.iter_mut().zip(&kept) {
            *farthest = f32::from_bits(kept[k - 1][0]);
        }
        let mut s = [[0.0; PANEL]; SEGMENT];
        let mut near = [false; SEGMENT];
        let (start, end) = (places.start, places.end);
        let mut places = Vec::with_capacity(SEGMENT);
        for first in (start..end).step_by(SEGMENT) {
            places.clear();
            places.extend(first..end.min(first + SEGMENT));
            similarities(self.queries, references, stride, &places, &mut s);
            near_any(&s[..places.len()], &farthest, &mut near);
            for ((place, s), near) in places.iter().zip(&s).zip(near) {
                if !near {
                    continue;
                }
                let id = first_id + *place as u32;
                for (lane, asked) in self.asked.iter().enumerate() {
                    let entry = [s[lane].to_bits(), id];
                    if s[lane] >= farthest[lane]
                        && nearness(entry) > nearness(kept[lane][k - 1])
                        && id != asked.id
                        && nearness(entry) < nearness(asked.after)
                    {
                        survivors[lane][counts[lane]] = entry;
                        counts[lane] += 1;
                    }
                }
            }
            // Until as many survived as are kept, sorting them costs more than it saves.
            for lane in 0..kept.len() {
                if counts[lane] >= k || counts[lane] + SEGMENT > VISIT {
                    keep(kept[lane], &mut survivors[lane][..counts[lane]]);
                    counts[lane] = 0;
                    farthest[lane] = f32::from_bits(kept[lane][k - 1][0]);
                }
            }
        }
        for lane in 0..kept.len() {
            keep(kept[lane], &mut survivors[lane][..counts[lane]]);
        }
    }
}

/// Tells of each reference whether it is as near to any query as that one's farthest: seldom. Without a branch for each.
fn near_any(s: &[[f32; PANEL]], farthest: &[f32; PANEL], near: &mut [bool]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for (near, s) in near.iter_mut().zip(s) {
                let pairs = s.iter().zip(farthest);
                *near = pairs.fold(false, |any, (s, farthest)| any | (s >= farthest));
            }
        },
    );
}

/// Merges survivors into the sorted neighbours, nearest first. A similarity of -0 becomes 0.
fn keep(kept: &mut [[u32; 2]], mut survivors: &mut [[u32; 2]]) {
    for entry in &mut *survivors {
        *entry = words(!nearness(*entry));
    }
    if survivors.len() > kept.len() {
        survivors.select_nth_unstable_by_key(kept.len(), number_in);
        survivors = &mut survivors[..kept.len()];
    }
    survivors.sort_unstable_by_key(number_in);
    for entry in &mut *survivors {
        let nearness = !number_in(entry);
        *entry = [similarity(nearness).to_bits(), !(nearness as u32)];
    }
    let mut merged = [NOTHING; MOST_KEPT];
    let merged = &mut merged[..kept.len()];
    let (mut old, mut new) = (kept.iter().peekable(), survivors.iter().peekable());
    for place in merged.iter_mut() {
        let newer = match (old.peek(), new.peek()) {
            (Some(old), Some(new)) => nearness(**new) > nearness(**old),
            (None, Some(_)) => true,
            _ => false,
        };
        let next = if newer { new.next() } else { old.next() };
        *place = *next.expect("there are as many old ones as places");
    }
    kept.copy_from_slice(merged);
}
