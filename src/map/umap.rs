//! [`Umap`]: layout of rows on a plane that keeps near rows near each other, for the map that a person looks at. Takes the nearest
//! neighbours of each row and an initial point for it, gives points that settle over some hundred epochs.
//!
//! Uniform Manifold Approximation and Projection (McInnes, Healy and Melville 2018, arXiv 1802.03426) as umap-learn 0.5 does it
//! with its defaults, whose names stand in brackets. The neighbours do not count the row itself.

use crate::base::rng;
use crate::search::knn::Neighbors;
use crate::search::near::layout::{self, Draws, Forces, Tie};
use crate::search::near::parallel;
use rand::RngExt as _;

/// Nearest rows of each row that a layout uses (`n_neighbors`).
pub(crate) const NEIGHBOURS: usize = 15;
/// Tolerance of a sum of strengths around its target (`SMOOTH_K_TOLERANCE`).
const TOLERANCE: f64 = 1e-5;
/// The least sigma, in mean distances (`MIN_K_DIST_SCALE`).
const LEAST_SIGMA: f64 = 1e-3;
const BISECTIONS: usize = 64;
/// Largest distance that counts as zero: the similarity of a row and its copy is rounded.
const COPY: f32 = 1e-6;
/// The largest absolute value of an initial point (`max_coord`), and the spread of the noise added to each (`noise`).
const START: f32 = 10.0;
const JITTER: f32 = 1e-4;

/// Scale of a row's distances to its neighbours: at distance `d` the strength is `exp(-(d - rho) / sigma)`, at most 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LocalScale {
    /// Distance of the nearest neighbour that is not a copy of the row; 0 if all are.
    pub rho: f32,
    /// Chosen so that the strengths of all `k` neighbours add up to `log2(k)`, or come as near as they can; above 0.
    pub sigma: f32,
}

/// A layout in progress.
///
/// With `n` rows and `k` neighbours each it holds at most `16 n k + 16 n` bytes, and 31 kB; while it is built, `36 n k + 24 n`. The
/// first is reached if no neighbours are mutual; `14 n k` is usual. The same input gives the same bits, natively and in a browser.
#[derive(Clone, Debug)]
pub struct Umap {
    /// Points that push one away each time it is pulled (`negative_sample_rate`): 5, unless it is set. Exactly this many each time,
    /// as in the paper; in umap-learn on average.
    pub negative_samples: u32,
    /// Start of each row's ties, `[n + 1]`.
    starts: Vec<usize>,
    /// Ties of each row, by the other row's number; each tie is stored for both of its rows.
    ties: Vec<Tie>,
    forces: Forces,
    points: Vec<[f32; 2]>,
    epoch: u64,
    draws: Draws,
}

impl Umap {
    /// `a` and `b` of the curve `1 / (1 + a d^2b)`, the strength of two points at distance `d`: fitted for points that lie at least
    /// 0.1 apart (`min_dist`) at a scale of 1 (`spread`).
    pub const CURVE: [f32; 2] = layout::CURVE;

    /// Ties rows to their neighbours, and places the initial points.
    ///
    /// `neighbors` are those of each row among the same rows, `[rows, k]`, without the row itself. `start` has a point of each row,
    /// as `project` gives them; it is scaled, and a value that is not finite counts as 0.
    ///
    /// # Panics
    /// If there are not `k` neighbours for each point, or one of them is no row.
    pub fn new(neighbors: &Neighbors, start: &[[f32; 2]], seed: u64) -> Self {
        let (rows, k) = (start.len(), neighbors.k);
        assert_eq!(neighbors.ids.len(), rows * k, "k neighbours of each point");
        let (starts, ties) = tie(neighbors, rows);
        let mut rng = rng::stream(seed, "umap");
        let finite = |value: f32| if value.is_finite() { value } else { 0.0 };
        let values = start.iter().flatten();
        let largest = values.fold(0.0f32, |most, value| most.max(finite(*value).abs()));
        let mut place = |value: f32| {
            let part = finite(value) / if largest > 0.0 { largest } else { 1.0 };
            START * part + JITTER * rng::normal(&mut rng) as f32
        };
        let points = start.iter().map(|point| point.map(&mut place)).collect();
        Self {
            negative_samples: 5,
            starts,
            ties,
            forces: Forces::of_curve(),
            points,
            epoch: 0,
            draws: Draws::new(rng.random()),
        }
    }

    /// Epochs of the whole layout (`n_epochs`): 500 for up to 10,000 rows, 200 for more; of more than 25,000, 100, where umap-learn has
    /// 200, so that a browser has it in time.
    pub fn epochs(&self) -> u64 {
        match self.points.len() {
            ..=10_000 => 500,
            10_001..=25_000 => 200,
            _ => 100,
        }
    }

    /// Number of epochs done.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Tells if all epochs are done.
    pub fn is_done(&self) -> bool {
        self.epoch >= self.epochs()
    }

    /// Runs this many epochs, or the remaining ones if they are fewer. The split into calls changes no bit.
    pub fn advance(&mut self, epochs: u64) {
        for _ in 0..epochs.min(self.epochs() - self.epoch) {
            let rate = 1.0 - self.epoch.saturating_sub(1) as f32 / self.epochs() as f32;
            layout::epoch(
                &mut self.points,
                (&self.starts, &self.ties),
                &self.forces,
                &mut self.draws,
                self.negative_samples,
                (self.epoch, rate),
            );
            self.epoch += 1;
        }
    }

    /// Runs this many epochs of two layouts, on a core each where there are two.
    pub fn advance_both(both: &mut [Self; 2], epochs: u64) {
        parallel::map(both.iter_mut().collect(), |umap: &mut Self| {
            umap.advance(epochs);
        });
    }

    /// Points of two layouts of the same rows, each with its ends equally far from 0, the second turned and mirrored so that its rows come as near
    /// as they can to their places in the first (orthogonal Procrustes, Schönemann 1966).
    ///
    /// A layout says nothing by its direction: this changes no distance in it.
    pub fn side_by_side(both: &[Self; 2]) -> [Vec<[f32; 2]>; 2] {
        let [before, after] = both.each_ref().map(|umap| around(&umap.points, mean));
        let product = |a: usize, b: usize| -> f64 {
            let pairs = after.iter().zip(&before);
            pairs.map(|(from, to)| f64::from(from[a] * to[b])).sum()
        };
        let ([xx, xy], [yx, yy]) = (
            [product(0, 0), product(0, 1)],
            [product(1, 0), product(1, 1)],
        );
        // Cosine and sine of the best turn, of the rows as they are and mirrored at the horizontal axis.
        let ways = [(xx + yy, xy - yx, 1.0), (xx - yy, xy + yx, -1.0)];
        let size = |(cos, sin, _): (f64, f64, f64)| (cos * cos + sin * sin).sqrt();
        let best = ways[usize::from(size(ways[1]) > size(ways[0]))];
        let unit = size(best).max(f64::MIN_POSITIVE);
        let (cos, sin, mirrored) = (
            (best.0 / unit) as f32,
            (best.1 / unit) as f32,
            best.2 as f32,
        );
        let turned =
            |[x, y]: &[f32; 2]| [cos * x - sin * mirrored * y, sin * x + cos * mirrored * y];
        let after: Vec<_> = after.iter().map(turned).collect();
        [around(&before, middle), around(&after, middle)]
    }

    /// Current points of the rows, `[x, y]` of each: finite, in units in which neighbours may lie 0.1 apart.
    pub fn points(&self) -> &[[f32; 2]] {
        &self.points
    }

    /// Rows that a row is tied to, ascending, with their strengths from 0 to 1: the same from both sides.
    pub fn strengths(&self, row: usize) -> impl Iterator<Item = (u32, f32)> + '_ {
        let ties = &self.ties[self.starts[row]..self.starts[row + 1]];
        ties.iter().map(|tie| (tie.to, tie.strength))
    }
}

/// The points less the place along either axis that `of` their values is.
fn around(points: &[[f32; 2]], of: fn(&mut dyn Iterator<Item = f32>) -> f32) -> Vec<[f32; 2]> {
    let place = [0, 1].map(|axis| of(&mut points.iter().map(|point| point[axis])));
    let less = |point: &[f32; 2]| [point[0] - place[0], point[1] - place[1]];
    points.iter().map(less).collect()
}

fn mean(values: &mut dyn Iterator<Item = f32>) -> f32 {
    let (count, sum) = values.fold((0.0, 0.0), |(n, sum), value| {
        (n + 1.0, sum + f64::from(value))
    });
    (sum / f64::max(count, 1.0)) as f32
}

fn middle(values: &mut dyn Iterator<Item = f32>) -> f32 {
    let ends = values.fold(None, |ends: Option<(f32, f32)>, value| {
        let (least, most) = ends.unwrap_or((value, value));
        Some((least.min(value), most.max(value)))
    });
    ends.map_or(0.0, |(least, most)| least.midpoint(most))
}

/// Fits a scale to the neighbours of each row (`smooth_knn_dist`). A distance is 1 less the cosine similarity.
pub fn smooth_knn_dist(neighbors: &Neighbors) -> Vec<LocalScale> {
    let k = neighbors.k.max(1);
    let all = neighbors.similarities.iter();
    // The row itself, at distance 0, counts in means.
    let mean_of_all = all.map(|s| distance(*s)).sum::<f64>()
        / (neighbors.similarities.len() / k * (k + 1)).max(1) as f64;
    let target = libm::log2(k as f64);
    let scale = |similarities: &[f32]| {
        let distances = || similarities.iter().map(|s| distance(*s));
        let rho = distances().find(|d| *d > 0.0).unwrap_or(0.0);
        let (mut low, mut high, mut sigma) = (0.0, f64::INFINITY, 1.0);
        for _ in 0..BISECTIONS {
            let sum: f64 = distances().map(|d| membership(d, rho, sigma)).sum();
            if (sum - target).abs() < TOLERANCE {
                break;
            }
            if sum > target {
                high = sigma;
            } else {
                low = sigma;
            }
            sigma = if high < f64::INFINITY {
                (low + high) / 2.0
            } else {
                2.0 * sigma
            };
        }
        let mean = if rho > 0.0 {
            distances().sum::<f64>() / (k + 1) as f64
        } else {
            mean_of_all
        };
        LocalScale {
            rho: rho as f32,
            sigma: sigma.max(LEAST_SIGMA * mean) as f32,
        }
    };
    let lists = neighbors.similarities.chunks_exact(k);
    lists.map(scale).collect()
}

/// Distance of a similarity, from 0 to 2; 0 if f32 cannot tell the rows apart.
fn distance(similarity: f32) -> f64 {
    let distance = 1.0 - similarity;
    if distance > COPY {
        distance.min(2.0).into()
    } else {
        0.0
    }
}

fn membership(distance: f64, rho: f64, sigma: f64) -> f64 {
    if distance > rho {
        libm::exp((rho - distance) / sigma)
    } else {
        1.0
    }
}

/// Fuzzy union of the directed strengths between rows and their neighbours (`fuzzy_simplicial_set`): the start of each row's ties,
/// and the ties.
fn tie(neighbors: &Neighbors, rows: usize) -> (Vec<usize>, Vec<Tie>) {
    let (k, ids) = (neighbors.k, &neighbors.ids);
    let scales = smooth_knn_dist(neighbors);
    let directed: Vec<f32> = (0..rows * k)
        .map(|at| {
            let LocalScale { rho, sigma } = scales[at / k];
            let distance = distance(neighbors.similarities[at]);
            membership(distance, rho.into(), sigma.into()) as f32
        })
        .collect();
    // Each tie for both of its rows.
    let pairs = || {
        (0..rows * k).flat_map(|at| {
            let (row, to) = ((at / k) as u32, ids[at]);
            let first = to as usize * k;
            let back = ids[first..first + k].iter().position(|id| *id == row);
            let returned = back.map_or(0.0, |back| directed[first + back]);
            let strength = union(directed[at], returned);
            let tie = |to| Tie { to, strength };
            let other = back.is_none().then(|| (to, tie(row)));
            std::iter::once((row, tie(to))).chain(other)
        })
    };
    let mut starts = vec![0; rows + 1];
    pairs().for_each(|(row, _)| starts[row as usize + 1] += 1);
    (0..rows).for_each(|row| starts[row + 1] += starts[row]);
    let unsorted = scatter(&starts, pairs());
    // The matrix is symmetric; read row by row, each column comes sorted.
    let transposed = (0..rows).flat_map(|row| {
        let (to, ties) = (row as u32, &unsorted[starts[row]..starts[row + 1]]);
        ties.iter().map(move |tie| (tie.to, Tie { to, ..*tie }))
    });
    let ties = scatter(&starts, transposed);
    (starts, ties)
}

/// Sorts ties by row, in the order in which they come.
fn scatter(starts: &[usize], pairs: impl Iterator<Item = (u32, Tie)>) -> Vec<Tie> {
    let mut next = starts.to_vec();
    let mut ties = vec![Tie::default(); starts[starts.len() - 1]];
    for (row, tie) in pairs {
        let next = &mut next[row as usize];
        ties[*next] = tie;
        *next += 1;
    }
    ties
}

/// `a + b - a b`, with the same bits for both orders, and exactly 1 if one is 1.
fn union(a: f32, b: f32) -> f32 {
    let (low, high) = (a.min(b), a.max(b));
    high + low * (1.0 - high)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `[rows, k]` neighbours: the rows after each row; similarities fall from place to place.
    fn neighbors(rows: usize, k: usize) -> Neighbors {
        let mut rng = rng::stream(3, "test");
        let ids = (0..rows * k).map(|at| ((at / k + at % k + 1) % rows) as u32);
        let mut similarities: Vec<f32> = (0..rows * k).map(|_| rng.random()).collect();
        similarities
            .chunks_mut(k.max(1))
            .for_each(|list| list.sort_by(|a, b| b.total_cmp(a)));
        Neighbors {
            k,
            ids: ids.collect(),
            similarities,
        }
    }

    fn start(rows: usize) -> Vec<[f32; 2]> {
        let mut rng = rng::stream(4, "test");
        (0..rows).map(|_| rng.random()).collect()
    }

    /// Final layout, with this many epochs a call.
    fn laid_out(neighbors: &Neighbors, start: &[[f32; 2]], seed: u64, epochs: u64) -> Umap {
        let mut umap = Umap::new(neighbors, start, seed);
        while !umap.is_done() {
            umap.advance(epochs);
        }
        umap
    }

    #[test]
    fn the_same_input_gives_the_same_bits_however_epochs_are_cut() {
        let (neighbors, start) = (neighbors(60, 5), start(60));
        let whole = laid_out(&neighbors, &start, 1, u64::MAX);
        for epochs in [1, 7, 499, 500] {
            let cut = laid_out(&neighbors, &start, 1, epochs);
            assert_eq!(cut.points(), whole.points(), "{epochs}");
        }
        let other = laid_out(&neighbors, &start, 2, u64::MAX);
        assert_ne!(other.points(), whole.points());
        let mut over = whole.clone();
        over.advance(1);
        assert_eq!(over.points(), whole.points());
    }

    #[test]
    fn strengths_are_those_of_an_example_by_hand() {
        // All three neighbours: 1 + 2 q = log2(3), as the second and the third are equally far.
        let lists = [[1, 2, 3], [0, 2, 3], [3, 0, 1], [2, 4, 0], [3, 0, 1]];
        let neighbors = Neighbors {
            k: 3,
            ids: lists.concat(),
            similarities: [0.9, 0.7, 0.7].repeat(5),
        };
        let q = (libm::log2f(3.0) - 1.0) / 2.0;
        for scale in smooth_knn_dist(&neighbors) {
            assert!((scale.rho - 0.1).abs() < 1e-6);
            assert!((scale.sigma - 0.2 / -libm::logf(q)).abs() < 1e-5);
        }
        // Mutual ties are 2 q - q^2, one-sided ones q, and 1 if either is the nearest of the other.
        let u = 2.0 * q - q * q;
        let expected: [&[(u32, f32)]; 5] = [
            &[(1, 1.0), (2, u), (3, u), (4, q)],
            &[(0, 1.0), (2, u), (3, q), (4, q)],
            &[(0, u), (1, u), (3, 1.0)],
            &[(0, u), (1, q), (2, 1.0), (4, 1.0)],
            &[(0, q), (1, q), (3, 1.0)],
        ];
        let umap = Umap::new(&neighbors, &start(5), 0);
        for (row, expected) in expected.iter().enumerate() {
            let ties: Vec<(u32, f32)> = umap.strengths(row).collect();
            assert_eq!(ties.len(), expected.len(), "row {row}");
            for (tie, expected) in ties.iter().zip(*expected) {
                assert_eq!(tie.0, expected.0, "row {row}");
                assert!((tie.1 - expected.1).abs() < 1e-5, "row {row}: {tie:?}");
            }
        }
    }

    #[test]
    fn strengths_of_a_row_add_up_to_log2_k_and_are_the_same_from_both_sides() {
        for (rows, k) in [(40, 4), (100, 15), (16, 15)] {
            let neighbors = neighbors(rows, k);
            let scales = smooth_knn_dist(&neighbors);
            for (list, scale) in neighbors.similarities.chunks_exact(k).zip(scales) {
                let member =
                    |s: &f32| membership(distance(*s), scale.rho.into(), scale.sigma.into());
                let sum: f64 = list.iter().map(member).sum();
                assert!((sum - (k as f64).log2()).abs() < 1e-4, "{sum}");
            }
            let umap = Umap::new(&neighbors, &start(rows), 0);
            for row in 0..rows {
                for (to, strength) in umap.strengths(row) {
                    let mut back = umap.strengths(to as usize);
                    assert!(back.any(|tie| tie == (row as u32, strength)));
                }
            }
        }
    }

    #[test]
    fn few_rows_equal_rows_and_values_that_are_no_numbers_have_finite_points() {
        for (rows, k) in [
            (0, 0),
            (1, 0),
            (2, 0),
            (2, 1),
            (3, 1),
            (3, 2),
            (40, 1),
            (40, 39),
        ] {
            let own = neighbors(rows, k);
            for similarity in [
                None,
                Some(1.0),
                Some(1.0 - 6e-8),
                Some(-1.0),
                Some(f32::NAN),
            ] {
                let similarities = match similarity {
                    Some(similarity) => vec![similarity; rows * k],
                    None => own.similarities.clone(),
                };
                let neighbors = Neighbors {
                    similarities,
                    ..own.clone()
                };
                for value in [0.0, 1e-40, 1.0, f32::MAX, f32::NAN, f32::INFINITY] {
                    let umap = laid_out(&neighbors, &vec![[value, -value]; rows], 0, 100);
                    assert_eq!(umap.points().len(), rows);
                    assert!(
                        umap.points()
                            .iter()
                            .flatten()
                            .all(|value| value.is_finite())
                    );
                }
            }
        }
    }

    #[test]
    fn equal_points_part() {
        let mut points = Umap::new(&neighbors(60, 5), &[[0.5; 2]; 60], 1).points;
        assert!(
            points
                .iter()
                .flatten()
                .all(|value| (value - 10.0).abs() < 1e-3)
        );
        points.sort_by(|a, b| a[0].total_cmp(&b[0]));
        points.dedup();
        assert_eq!(points.len(), 60);
    }

    #[test]
    fn a_layout_is_turned_and_mirrored_to_the_one_beside_it_and_keeps_its_distances() {
        let of = |way: fn([f32; 2]) -> [f32; 2]| Umap {
            points: start(60).into_iter().map(way).collect(),
            ..Umap::new(&neighbors(60, 5), &start(60), 1)
        };
        let moved = of(|[x, y]| [3.0 - 2.0 * y, 2.0 * x - 7.0]);
        for second in [moved, of(|[x, y]| [2.0 * y + 1.0, 2.0 * x])] {
            let [before, after] = Umap::side_by_side(&[of(|point| point), second]);
            for (before, after) in before.as_flattened().iter().zip(after.as_flattened()) {
                assert!((after - 2.0 * before).abs() < 1e-4);
            }
        }
    }
}
