//! The search for few queries: references take the lanes, and the cores share them. The products and their order are those of many
//! queries, and the nearest of all are among the nearest that each core found: the bits are the same.

use std::ops::Range;

use super::super::parallel::{map, rows_of_a_part};
use super::super::tile::{PANEL, similarities, turn};
use super::{QueryBound, Search, admits, keep};

/// The most queries that are few: more fill the lanes by themselves.
pub(super) const FEW: usize = PANEL;

/// Merges these references into the neighbours of every query.
pub(super) fn search(
    search: &Search,
    places: Range<usize>,
    queries: &[f32],
    references: &[f32],
    asked: &[QueryBound],
    kept: &mut [[u32; 2]],
) {
    let Search {
        rows, stride, k, ..
    } = *search;
    let operations = 2 * rows * places.len() * stride;
    let most = rows_of_a_part(places.len(), operations, places.len().max(1));
    let parts = places.clone().step_by(most);
    let parts = parts.map(|first| first..places.end.min(first + most));
    let found = map(parts.collect(), |part| {
        let farthest = kept.chunks_exact(k).map(|kept| kept[k - 1]);
        let mut found: Vec<_> = farthest.map(|last| Found::new(k, last)).collect();
        let all: Vec<usize> = (0..rows).collect();
        let mut lanes = vec![[0.0; PANEL]; stride];
        let mut s = [[0.0; PANEL]; FEW];
        for first in part.clone().step_by(PANEL) {
            let some = &references[first * stride..part.end.min(first + PANEL) * stride];
            turn(some, &mut lanes);
            similarities(&lanes, queries, &all, &mut s[..rows]);
            let first_id = search.first_id + first as u32;
            for ((found, asked), s) in found.iter_mut().zip(asked).zip(&s) {
                found.look(asked, first_id, &s[..some.len() / stride]);
            }
        }
        found
    });
    for found in found {
        for (mut found, kept) in found.into_iter().zip(kept.chunks_exact_mut(k)) {
            found.settle();
            keep(kept, &mut found.kept);
        }
    }
}

/// The nearest of a query among some references.
struct Found {
    /// `k`, nearest first; free places hold the bound that all must be nearer than.
    kept: Vec<[u32; 2]>,
    survivors: Vec<[u32; 2]>,
}

impl Found {
    fn new(k: usize, farthest: [u32; 2]) -> Self {
        Self {
            kept: vec![farthest; k],
            survivors: Vec::with_capacity(k + PANEL),
        }
    }

    /// Looks at the similarities to references whose ids ascend from `first_id`.
    fn look(&mut self, asked: &QueryBound, first_id: u32, s: &[f32]) {
        let last = self.kept[self.kept.len() - 1];
        let farthest = f32::from_bits(last[0]);
        for (id, s) in (first_id..).zip(s) {
            let entry = [s.to_bits(), id];
            if *s >= farthest && admits(asked, last, entry) {
                self.survivors.push(entry);
            }
        }
        if self.survivors.len() >= self.kept.len() {
            self.settle();
        }
    }

    fn settle(&mut self) {
        keep(&mut self.kept, &mut self.survivors);
        self.survivors.clear();
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt as _, SeedableRng as _};

    use super::super::{NOTHING, VISIT, search};
    use super::*;

    #[test]
    fn a_query_finds_the_same_bytes_alone_as_among_many() {
        let (queries, references, stride) = (2 * FEW, 3 * VISIT + 5, 36);
        let mut rng = rand_pcg::Pcg32::seed_from_u64(0);
        // Of few values: many tie.
        let mut rows = |count: usize| -> Vec<f32> {
            let values = (0..count * stride).map(|_| rng.random_range(-2..=2) as f32 / 3.0);
            values.collect()
        };
        let (asking, mut known) = (rows(queries), rows(references));
        known[7 * stride] = f32::NAN;
        for k in [1, 10, 300] {
            let nearest = |at_once: usize, asked: &[QueryBound]| {
                let mut kept = vec![NOTHING; queries * k];
                let mut survivors = vec![NOTHING; queries * VISIT];
                for first_row in (0..queries).step_by(at_once) {
                    let block = Search {
                        first_row,
                        rows: at_once,
                        references,
                        first_id: 100,
                        stride,
                        k,
                    };
                    // The second look begins with what the first one kept.
                    for visits in [0..2, 2..block.visits()] {
                        let kept = &mut kept;
                        search(&block, visits, &asking, &known, asked, kept, &mut survivors);
                    }
                }
                kept
            };
            let own = |query: usize| 100 + query as u32;
            let first: Vec<QueryBound> = (0..queries)
                .map(|query| QueryBound::first(own(query)))
                .collect();
            let all = nearest(queries, &first);
            assert!(!all.contains(&NOTHING), "k {k}");
            let after = |query: usize| QueryBound::after(own(query), all[(query + 1) * k - 1]);
            let after: Vec<QueryBound> = (0..queries).map(after).collect();
            for asked in [first, after] {
                let all = nearest(queries, &asked);
                assert_eq!(nearest(1, &asked), all, "k {k}");
                assert_eq!(nearest(FEW, &asked), all, "k {k}");
            }
        }
    }
}
