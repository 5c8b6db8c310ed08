//! The k nearest references of every query of a block.

#[cfg(any(not(target_arch = "wasm32"), feature = "threads"))]
mod few;

use std::ops::Range;
use std::slice::ChunksMut;

use bytemuck::{Pod, Zeroable};

use super::SEGMENT;
use super::parallel::map;
use super::tile::{
    PANEL, find_near, lanes, lanes_of, nearness, number_in, panels_at_once, references_at_once,
    rows_at_once, similarities, similarity, sort_numbers, words,
};

/// References of one visit, at most: the survivors of one visit always have room.
pub const VISIT: usize = 1024;
/// The most neighbours that one search keeps on a GPU; more come in further searches, each strictly after the last.
pub const MOST_KEPT: usize = 512;
/// Entry of a place without a neighbour yet: a similarity of -2 and no id, farther than every reference.
pub const NOTHING: [u32; 2] = [f32::MIN.to_bits(), u32::MAX];

/// Bounds of one query of a search.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct QueryBound {
    /// Its own id, which is left out; `u32::MAX` if it is no reference.
    pub id: u32,
    /// `[similarity's bits, id]`: only references farther than this are looked at.
    pub after: [u32; 2],
    /// Unused: the shader reads vec4s.
    pub padding: u32,
}

impl QueryBound {
    /// Bounds for the nearest of all references but `id`.
    pub fn first(id: u32) -> Self {
        Self::after(id, [f32::MAX.to_bits(), 0])
    }

    /// Bounds for the nearest of the references farther than `after`, but `id`.
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
    /// Number of queries.
    pub rows: usize,
    /// References of the chunk.
    pub references: usize,
    /// The id of its first; the others follow.
    pub first_id: u32,
    /// Floats from one row to the next.
    pub stride: usize,
    /// Neighbours to keep, on a GPU [`MOST_KEPT`] at most.
    pub k: usize,
}

impl Search {
    /// Number of visits that the chunk is cut into: a prime number or 1, so that references whose classes take turns do not meet in
    /// one visit.
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

/// Merges the references of these visits, a run of consecutive ones each, into the neighbours of every query.
pub fn search(
    search: &Search,
    visits: Range<usize>,
    queries: &[f32],
    references: &[f32],
    asked: &[QueryBound],
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
    #[cfg(any(not(target_arch = "wasm32"), feature = "threads"))]
    if rows <= few::FEW && k <= MOST_KEPT {
        let (queries, asked) = (&queries[first_row * stride..], &asked[first_row..]);
        let kept = &mut kept[first_row * k..][..rows * k];
        return few::search(search, places, queries, references, asked, kept);
    }
    let operations = 2 * rows * places.len() * stride;
    let most = rows_at_once(rows, operations, panels_at_once(stride));
    let queries = queries[first_row * stride..][..rows * stride].chunks(most * stride);
    // Queries that keep more than a GPU could are fewer, and have more room.
    let room = match k > MOST_KEPT {
        true => survivors.len() / (kept.len() / k),
        false => VISIT,
    };
    let kept = kept[first_row * k..][..rows * k].chunks_mut(most * k);
    let survivors = survivors[first_row * room..][..rows * room].chunks_mut(most * room);
    let parts = queries
        .zip(asked[first_row..][..rows].chunks(most))
        .zip(kept.zip(survivors));
    map(parts.collect(), |((queries, asked), (kept, survivors))| {
        let mut panels = panels(queries, asked, kept, survivors, [stride, k, room]);
        let mut s = [[0.0; PANEL]; SEGMENT];
        let step = references_at_once(stride);
        for first in places.clone().step_by(step) {
            let some: Vec<usize> = (first..places.end.min(first + step)).collect();
            let s = &mut s[..some.len()];
            for panel in &mut panels {
                similarities(&panel.lanes, references, &some, s);
                panel.look(search.first_id + first as u32, s);
            }
        }
        for panel in &mut panels {
            panel.keep_all();
        }
    });
}

/// Panels of queries; each query has `stride` floats, keeps `k` neighbours and has room for `room` survivors.
fn panels<'a>(
    queries: &[f32],
    asked: &'a [QueryBound],
    kept: &'a mut [[u32; 2]],
    survivors: &'a mut [[u32; 2]],
    [stride, k, room]: [usize; 3],
) -> Vec<Panel<'a>> {
    let queries = queries.chunks(PANEL * stride);
    queries
        .zip(asked.chunks(PANEL))
        .zip(kept.chunks_mut(PANEL * k))
        .zip(survivors.chunks_mut(PANEL * room))
        .map(|(((queries, asked), kept), survivors)| {
            Panel::new(
                lanes(queries, stride),
                asked,
                kept.chunks_mut(k),
                survivors.chunks_mut(room),
            )
        })
        .collect()
}

/// A few queries, with their neighbours and survivors.
struct Panel<'a> {
    lanes: Vec<[f32; PANEL]>,
    asked: &'a [QueryBound],
    kept: Vec<&'a mut [[u32; 2]]>,
    survivors: Vec<&'a mut [[u32; 2]]>,
    counts: [usize; PANEL],
    /// The similarity of the farthest kept: a lane without a query keeps none.
    farthest: [f32; PANEL],
}

impl<'a> Panel<'a> {
    fn new(
        lanes: Vec<[f32; PANEL]>,
        asked: &'a [QueryBound],
        kept: ChunksMut<'a, [u32; 2]>,
        survivors: ChunksMut<'a, [u32; 2]>,
    ) -> Self {
        let kept: Vec<_> = kept.collect();
        let mut farthest = [f32::INFINITY; PANEL];
        for (farthest, kept) in farthest.iter_mut().zip(&kept) {
            *farthest = f32::from_bits(kept[kept.len() - 1][0]);
        }
        Self {
            lanes,
            asked,
            kept,
            survivors: survivors.collect(),
            counts: [0; PANEL],
            farthest,
        }
    }

    /// Looks at the similarities to references whose ids ascend from `first_id`.
    fn look(&mut self, first_id: u32, s: &[[f32; PANEL]]) {
        let mut near = [0; SEGMENT];
        find_near(s, &self.farthest, &mut near);
        for ((id, s), near) in (first_id..).zip(s).zip(near) {
            for lane in lanes_of(near) {
                let asked = &self.asked[lane];
                let entry = [s[lane].to_bits(), id];
                let (kept, count) = (&self.kept[lane], &mut self.counts[lane]);
                if admits(asked, kept[kept.len() - 1], entry) {
                    self.survivors[lane][*count] = entry;
                    *count += 1;
                }
            }
        }
        // With fewer survivors than neighbours to keep, sorting costs more than it saves.
        for lane in 0..self.kept.len() {
            let (count, room) = (self.counts[lane], self.survivors[lane].len());
            if count >= self.kept[lane].len() || count + SEGMENT > room {
                self.keep(lane);
            }
        }
    }

    fn keep_all(&mut self) {
        for lane in 0..self.kept.len() {
            self.keep(lane);
        }
    }

    fn keep(&mut self, lane: usize) {
        let kept = &mut *self.kept[lane];
        keep(kept, &mut self.survivors[lane][..self.counts[lane]]);
        self.counts[lane] = 0;
        self.farthest[lane] = f32::from_bits(kept[kept.len() - 1][0]);
    }
}

/// Tells if a reference is within a query's bounds and nearer than the last neighbour that is kept.
fn admits(asked: &QueryBound, last: [u32; 2], entry: [u32; 2]) -> bool {
    nearness(entry) > nearness(last)
        && entry[1] != asked.id
        && nearness(entry) < nearness(asked.after)
}

/// Merges survivors into the sorted neighbours, nearest first. A similarity of -0 becomes 0.
pub(super) fn keep(kept: &mut [[u32; 2]], mut survivors: &mut [[u32; 2]]) {
    for entry in &mut *survivors {
        *entry = words(!nearness(*entry));
    }
    if survivors.len() > kept.len() {
        survivors.select_nth_unstable_by_key(kept.len(), number_in);
        survivors = &mut survivors[..kept.len()];
    }
    sort_numbers(survivors);
    for entry in &mut *survivors {
        let nearness = !number_in(entry);
        *entry = [similarity(nearness).to_bits(), !(nearness as u32)];
    }
    // Each that comes in pushes the farthest out: of sorted ones, a few of the first come in.
    let nearer = |a: [u32; 2], b: [u32; 2]| nearness(a) > nearness(b);
    let all = kept.len();
    let (mut least, mut new) = (0, survivors.len());
    while least < new {
        let half = least.midpoint(new);
        match nearer(survivors[half], kept[all - 1 - half]) {
            true => least = half + 1,
            false => new = half,
        }
    }
    // From the farthest on, each is written to a place that is no longer read; the nearest stay where they are. Without a branch.
    let mut old = all - new;
    while old > 0 && new > 0 {
        let (a, b) = (kept[old - 1], survivors[new - 1]);
        let is_old = nearer(b, a);
        kept[old + new - 1] = if is_old { a } else { b };
        old -= usize::from(is_old);
        new -= usize::from(!is_old);
    }
    kept[..new].copy_from_slice(&survivors[..new]);
}
