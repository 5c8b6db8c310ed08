//! [`Near`]: the nearest rows of each of many rows, most of them right. Takes unit rows, gives neighbours for a layout.
//!
//! Rows are parted by random planes into leaves, several times over, and compared with those of their leaves; then each row looks among
//! the neighbours of its neighbours, as in NN-descent (Dong, Moses and Li 2011), which umap-learn uses from 4,096 rows on. To compare
//! every two of 50,000 rows takes a browser minutes.

use super::layout::Draws;
use super::parallel;

/// Times that the rows are parted, and the most rows of a leaf.
const TREES: u64 = 8;
const LEAF: usize = 64;
/// Rounds through the neighbours of neighbours.
const ROUNDS: u64 = 3;
/// Rows that a core looks at in turn.
const PART: usize = 1024;

/// The neighbours found so far.
#[derive(Debug)]
pub struct Near {
    /// `[rows, dim]`, of unit length where they have one.
    rows: Vec<f32>,
    dim: usize,
    k: usize,
    /// Neighbours of each row with their similarities, the nearest first, `[rows, k]`.
    found: Vec<(u32, f32)>,
    /// Neighbours that the last step found: only what they bring is looked at in the next round.
    fresh: Vec<bool>,
    step: u64,
    draws: Draws,
}

impl Near {
    /// Steps until all is found.
    pub const STEPS: u64 = TREES + ROUNDS;

    /// Begins a search for the `k` nearest of these unit rows, `[rows, dim]`, to each: of more rows than the 64 of a leaf.
    pub fn new(rows: Vec<f32>, dim: usize, k: usize, seed: u64) -> Self {
        let count = k * (rows.len() / dim);
        Self {
            rows,
            dim,
            k,
            found: vec![(u32::MAX, -2.0); count],
            fresh: Vec::new(),
            step: 0,
            draws: Draws::new(seed),
        }
    }

    /// Takes the next step; gives the number of those done.
    pub fn advance(&mut self) -> u64 {
        if self.step < TREES {
            let (order, leaves) = self.leaves();
            self.compare(|row, others| others.extend(&order[leaves[row].0..leaves[row].1]));
        } else {
            let (found, fresh, k) = (self.found.clone(), std::mem::take(&mut self.fresh), self.k);
            let all = self.step == TREES;
            self.compare(|row, others| {
                let known = (row * k..(row + 1) * k).filter(|at| found[*at].0 != u32::MAX);
                for at in known {
                    let there = found[at].0 as usize * k;
                    let new = (there..there + k).filter(|to| all || fresh[at] || fresh[*to]);
                    others.extend(new.map(|to| found[to].0));
                }
            });
        }
        self.step += 1;
        self.step
    }

    /// Numbers of the neighbours and their similarities, `[rows, k]`, once all steps are done.
    pub fn into_lists(self) -> (Vec<u32>, Vec<f32>) {
        self.found.into_iter().unzip()
    }

    fn row(&self, row: u32) -> &[f32] {
        &self.rows[row as usize * self.dim..][..self.dim]
    }

    /// Parts the rows: their order by leaf, and for each row the two ends of its leaf there.
    fn leaves(&mut self) -> (Vec<u32>, Vec<(usize, usize)>) {
        let count = self.rows.len() / self.dim;
        let mut order: Vec<u32> = (0..count as u32).collect();
        let mut starts = vec![0, count];
        while starts.windows(2).any(|ends| ends[1] - ends[0] > LEAF) {
            let mut planes = Vec::new();
            let mut rest = &mut order[..];
            for ends in starts.windows(2) {
                let (part, after) = rest.split_at_mut(ends[1] - ends[0]);
                rest = after;
                let [a, b] = [0, 1].map(|_| part[self.draws.below(part.len())]);
                planes.push((part, a, b));
            }
            let near = &*self;
            parallel::map(planes, |(part, a, b)| near.part(part, a, b));
            let halves = starts.windows(2);
            let halves = halves.flat_map(|ends| [ends[0], ends[0].midpoint(ends[1])]);
            starts = halves.chain([count]).collect();
        }
        let mut leaves = vec![(0, 0); count];
        for ends in starts.windows(2) {
            for row in &order[ends[0]..ends[1]] {
                leaves[*row as usize] = (ends[0], ends[1]);
            }
        }
        (order, leaves)
    }

    /// Parts rows by a plane through their middle, across the line from `a` to `b`: those towards `b` come first.
    fn part(&self, part: &mut [u32], a: u32, b: u32) {
        let line = self.row(a).iter().zip(self.row(b));
        let line: Vec<f32> = line.map(|(a, b)| a - b).collect();
        let along = part.iter().map(|row| (dot(self.row(*row), &line), *row));
        let mut along: Vec<(f32, u32)> = along.collect();
        along.select_nth_unstable_by(part.len() / 2, |a, b| {
            a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
        });
        part.iter_mut()
            .zip(along)
            .for_each(|(row, (_, at))| *row = at);
    }

    /// Compares each row with the others that `candidates` names, and keeps the nearest.
    fn compare(&mut self, candidates: impl Fn(usize, &mut Vec<u32>) + Send + Sync) {
        let (near, k) = (&*self, self.k);
        let rows = self.rows.len() / self.dim;
        let parts = (0..rows)
            .step_by(PART)
            .map(|first| first..rows.min(first + PART));
        let found = parallel::map(parts.collect(), |part| {
            let mut lists = near.found[part.start * k..part.end * k].to_vec();
            let (mut fresh, mut others) = (Vec::new(), Vec::new());
            for (row, list) in part.zip(lists.chunks_exact_mut(k)) {
                let known = &near.found[row * k..][..k];
                others.clear();
                candidates(row, &mut others);
                others.sort_unstable();
                others.dedup();
                let is_other = |id: &&u32| **id != row as u32 && **id != u32::MAX;
                for other in others.iter().filter(is_other) {
                    take(list, *other, dot(near.row(row as u32), near.row(*other)));
                }
                let is_new = |of: &(u32, f32)| known.iter().all(|known| known.0 != of.0);
                fresh.extend(list.iter().map(is_new));
            }
            (lists, fresh)
        });
        let (lists, fresh): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        (self.found, self.fresh) = (lists.concat(), fresh.concat());
    }
}

/// Takes a row into a list, unless it is known or farther than all that are.
fn take(list: &mut [(u32, f32)], id: u32, similarity: f32) {
    if similarity > list[list.len() - 1].1 && list.iter().all(|known| known.0 != id) {
        let place = list.partition_point(|known| known.1 >= similarity);
        list[place..].rotate_right(1);
        list[place] = (id, similarity);
    }
}

/// Product of two rows, the same bits in any order of threads.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let mut sums = [0.0; 8];
    for (a, b) in a.iter().zip(b) {
        (0..8).for_each(|lane| sums[lane] += a[lane] * b[lane]);
    }
    let rest = a_rest.iter().zip(b_rest).map(|(a, b)| a * b);
    sums.into_iter().chain(rest).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Unit rows around 40 centres, as embeddings are; `spread` 1 leaves nothing of the centres.
    fn rows(count: usize, dim: usize, spread: f32) -> Vec<f32> {
        let mut draws = Draws::new(6);
        let mut any = || draws.below(1 << 20) as f32 / (1 << 19) as f32 - 1.0;
        let centres: Vec<f32> = (0..40 * dim).map(|_| any()).collect();
        let mut rows = Vec::new();
        for row in 0..count {
            let centre = &centres[row % 40 * dim..][..dim];
            let values = centre.iter().map(|c| (1.0 - spread) * c + spread * any());
            let values: Vec<f32> = values.collect();
            let length = dot(&values, &values).sqrt();
            rows.extend(values.iter().map(|value| value / length));
        }
        rows
    }

    #[test]
    fn nine_of_ten_neighbours_are_found_among_clusters_and_most_where_there_are_none() {
        let (count, dim, k) = (5000, 32, 15);
        for (spread, least) in [(0.3, 0.97), (1.0, 0.6)] {
            let rows = rows(count, dim, spread);
            let mut near = Near::new(rows.clone(), dim, k, 1);
            while near.advance() < Near::STEPS {}
            let (ids, similarities) = near.into_lists();
            let mut right = 0;
            for row in (0..count).step_by(97) {
                let of = |other: usize| dot(&rows[row * dim..][..dim], &rows[other * dim..][..dim]);
                let mut others: Vec<usize> = (0..count).filter(|other| *other != row).collect();
                others.sort_by(|a, b| of(*b).total_cmp(&of(*a)));
                let own = &ids[row * k..][..k];
                assert!(!own.contains(&(row as u32)) && !own.contains(&u32::MAX));
                assert!(similarities[row * k..][..k].is_sorted_by(|a, b| a >= b));
                right += others[..k]
                    .iter()
                    .filter(|id| own.contains(&(**id as u32)))
                    .count();
            }
            let part = right as f64 / (count.div_ceil(97) * k) as f64;
            assert!(part > least, "{part}");
        }
    }

    #[test]
    fn rows_that_are_all_equal_have_neighbours_too() {
        let mut near = Near::new([1.0, 0.0].repeat(300), 2, 15, 1);
        while near.advance() < Near::STEPS {}
        let (ids, similarities) = near.into_lists();
        assert!(ids.iter().all(|id| *id < 300) && similarities.iter().all(|s| *s == 1.0));
    }
}
