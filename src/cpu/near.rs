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
/// Values that are multiplied side by side.
const LANES: usize = 8;

/// Neighbours of each row, the nearest first.
#[derive(Clone, Debug)]
pub struct Lists {
    /// Neighbours of a row.
    pub k: usize,
    /// Their numbers, `[rows, k]`.
    pub ids: Vec<u32>,
    /// Their similarities, `[rows, k]`.
    pub similarities: Vec<f32>,
}

/// The neighbours found so far.
#[derive(Debug)]
pub struct Near {
    /// `[rows, dim]`, of unit length where they have one.
    rows: Vec<f32>,
    dim: usize,
    found: Lists,
    /// Neighbours that the last round found, `[rows, k]`: only what they bring is looked at in the next.
    fresh: Vec<bool>,
    step: u64,
    draws: Draws,
}

/// Neighbours of one row, the nearest first.
struct List<'a> {
    ids: &'a mut [u32],
    similarities: &'a mut [f32],
}

impl List<'_> {
    /// Takes in a row, unless it is known or farther than all that are.
    fn take(&mut self, id: u32, similarity: f32) {
        let last = self.ids.len() - 1;
        if similarity <= self.similarities[last] || self.ids.contains(&id) {
            return;
        }
        let place = self.similarities.partition_point(|s| *s >= similarity);
        self.ids[place..].rotate_right(1);
        self.similarities[place..].rotate_right(1);
        (self.ids[place], self.similarities[place]) = (id, similarity);
    }
}

impl Near {
    /// Steps until all is found.
    pub const STEPS: u64 = TREES + ROUNDS;

    /// Begins a search for the `k` nearest of these unit rows, `[rows, dim]`, to each: of more rows than [`LEAF`].
    pub fn new(rows: Vec<f32>, dim: usize, k: usize, seed: u64) -> Self {
        let count = k * (rows.len() / dim);
        Self {
            rows,
            dim,
            found: Lists {
                k,
                ids: vec![u32::MAX; count],
                similarities: vec![-2.0; count],
            },
            fresh: vec![true; count],
            step: 0,
            draws: Draws::new(seed),
        }
    }

    /// Takes the next step; gives the number of those done.
    pub fn advance(&mut self) -> u64 {
        match self.step < TREES {
            true => self.look_in_leaves(),
            false => self.look_around(),
        }
        self.step += 1;
        self.step
    }

    /// The neighbours, once all steps are done.
    pub fn into_lists(self) -> Lists {
        self.found
    }

    fn row(&self, row: u32) -> &[f32] {
        &self.rows[row as usize * self.dim..][..self.dim]
    }

    /// Lists of these rows, with no neighbour yet.
    fn empty(&self, rows: usize) -> Lists {
        let k = self.found.k;
        Lists {
            k,
            ids: vec![u32::MAX; rows * k],
            similarities: vec![-2.0; rows * k],
        }
    }

    /// Parts the rows once more, and compares those of each leaf.
    fn look_in_leaves(&mut self) {
        let mut order: Vec<u32> = (0..(self.rows.len() / self.dim) as u32).collect();
        let mut starts = vec![0, order.len()];
        while starts.windows(2).any(|ends| ends[1] - ends[0] > LEAF) {
            // A plane through the middle, across the line from one row to another.
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
            let middles = starts
                .windows(2)
                .flat_map(|ends| [ends[0], ends[0].midpoint(ends[1])]);
            starts = middles.chain([order.len()]).collect();
        }
        let leaves: Vec<&[u32]> = starts
            .windows(2)
            .map(|ends| &order[ends[0]..ends[1]])
            .collect();
        let near = &*self;
        let lists = parallel::map(leaves.chunks(LEAF).collect(), |leaves| {
            leaves
                .iter()
                .map(|leaf| near.compare(leaf))
                .collect::<Vec<_>>()
        });
        for (leaf, mut lists) in leaves.into_iter().zip(lists.into_iter().flatten()) {
            for (row, list) in leaf.iter().zip(lists_of(&mut lists)) {
                let mut all = list_of(&mut self.found, *row as usize);
                let found = list.ids.iter().zip(&*list.similarities);
                found
                    .filter(|(id, _)| **id != u32::MAX)
                    .for_each(|(id, s)| all.take(*id, *s));
            }
        }
    }

    /// Brings those rows of a part to its first half that lie farthest from `a` towards `b`.
    fn part(&self, part: &mut [u32], a: u32, b: u32) {
        let line: Vec<f32> = self
            .row(a)
            .iter()
            .zip(self.row(b))
            .map(|(a, b)| a - b)
            .collect();
        let mut along: Vec<(f32, u32)> = part
            .iter()
            .map(|row| (dot(self.row(*row), &line), *row))
            .collect();
        let middle = part.len() / 2;
        along.select_nth_unstable_by(middle, |a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        part.iter_mut()
            .zip(along)
            .for_each(|(row, (_, at))| *row = at);
    }

    /// Lists of the rows of a leaf, compared with each other.
    fn compare(&self, leaf: &[u32]) -> Lists {
        let mut lists = self.empty(leaf.len());
        for (at, row) in leaf.iter().enumerate() {
            for (before, other) in leaf[..at].iter().enumerate() {
                let similarity = dot(self.row(*row), self.row(*other));
                list_of(&mut lists, at).take(*other, similarity);
                list_of(&mut lists, before).take(*row, similarity);
            }
        }
        lists
    }

    /// Compares each row with the neighbours of its neighbours, where the way there is new.
    fn look_around(&mut self) {
        let (near, k) = (&*self, self.found.k);
        let rows = self.rows.len() / self.dim;
        let firsts = (0..rows).step_by(PART);
        let parts: Vec<_> = firsts.map(|first| first..rows.min(first + PART)).collect();
        let found = parallel::map(parts, |part| {
            let (mut lists, mut fresh) = (near.empty(part.len()), Vec::new());
            let mut others = Vec::with_capacity(k * k);
            for (row, mut list) in part.zip(lists_of(&mut lists)) {
                let own = row * k..(row + 1) * k;
                let known = &near.found.ids[own.clone()];
                list.ids.copy_from_slice(known);
                list.similarities
                    .copy_from_slice(&near.found.similarities[own.clone()]);
                others.clear();
                let known_ones = known.iter().zip(&near.fresh[own]);
                for (id, is_fresh) in known_ones.filter(|(id, _)| **id != u32::MAX) {
                    let there = *id as usize * k;
                    let new = (there..there + k).filter(|at| *is_fresh || near.fresh[*at]);
                    others.extend(new.map(|at| near.found.ids[at]));
                }
                others.sort_unstable();
                others.dedup();
                let is_other = |id: &&u32| **id != row as u32 && **id != u32::MAX;
                for other in others.iter().filter(is_other) {
                    list.take(*other, dot(near.row(row as u32), near.row(*other)));
                }
                fresh.extend(list.ids.iter().map(|id| !known.contains(id)));
            }
            (lists, fresh)
        });
        let lists = || found.iter().map(|(lists, _)| lists);
        let ids = lists().flat_map(|lists| &lists.ids).copied().collect();
        let similarities = lists().flat_map(|lists| &lists.similarities).copied();
        (self.found.ids, self.found.similarities) = (ids, similarities.collect());
        self.fresh = found.into_iter().flat_map(|(_, fresh)| fresh).collect();
    }
}

fn list_of(lists: &mut Lists, row: usize) -> List<'_> {
    let own = row * lists.k..(row + 1) * lists.k;
    List {
        ids: &mut lists.ids[own.clone()],
        similarities: &mut lists.similarities[own],
    }
}

fn lists_of(lists: &mut Lists) -> impl Iterator<Item = List<'_>> {
    let ids = lists.ids.chunks_exact_mut(lists.k);
    ids.zip(lists.similarities.chunks_exact_mut(lists.k))
        .map(|(ids, similarities)| List { ids, similarities })
}

/// Product of two rows, the same bits in any order of threads.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0; LANES];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in a.iter().zip(b) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += a * b;
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Unit rows around 40 centres, as embeddings are; `spread` 1 leaves nothing of the centres.
    fn rows(count: usize, dim: usize, spread: f64) -> Vec<f32> {
        let mut draws = Draws::new(6);
        // Sums of three uniform numbers.
        let mut uniform = || draws.below(1 << 20) as f64 / f64::from(1 << 19) - 1.0;
        let mut normals = |count: usize| -> Vec<f64> {
            let sums = (0..count).map(|_| uniform() + uniform() + uniform());
            sums.collect()
        };
        let centres = normals(40 * dim);
        let mut rows: Vec<f32> = Vec::new();
        for row in 0..count {
            let centre = &centres[row % 40 * dim..][..dim];
            let noise = normals(dim);
            let values = centre
                .iter()
                .zip(noise)
                .map(|(c, n)| ((1.0 - spread) * c + spread * n) as f32);
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
            let found = near.into_lists();
            let mut right = 0;
            for row in (0..count).step_by(97) {
                let of = |other: usize| dot(&rows[row * dim..][..dim], &rows[other * dim..][..dim]);
                let mut others: Vec<usize> = (0..count).filter(|other| *other != row).collect();
                others.sort_by(|a, b| of(*b).total_cmp(&of(*a)));
                let own = &found.ids[row * k..][..k];
                assert!(!own.contains(&(row as u32)) && !own.contains(&u32::MAX));
                assert!(found.similarities[row * k..][..k].is_sorted_by(|a, b| a >= b));
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
        let found = near.into_lists();
        assert!(found.ids.iter().all(|id| *id < 300));
        assert!(
            found
                .similarities
                .iter()
                .all(|similarity| *similarity == 1.0)
        );
    }
}
