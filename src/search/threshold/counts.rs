//! [`PairCounts`]: numbers of pairs of rows by similarity, those of one class and those of two, and the rates that follow.

use crate::base::error::Result;
use crate::base::memory::zeros;

/// Bins per unit of similarity: a bin is 0.00002 wide, so that every edge has five digits.
const PER_UNIT: usize = 50_000;

/// Edges from -1 to 1; a bin begins at each, and the last holds similarities of 1 or, by rounding, above.
pub(super) const EDGES: usize = 2 * PER_UNIT + 1;

/// Similarity at which a bin begins.
pub(super) fn edge(bin: usize) -> f64 {
    (bin as f64 - PER_UNIT as f64) / PER_UNIT as f64
}

/// The bin of a similarity. Exact: an f32 times 50,000 has no more digits than an f64.
pub(super) fn bin(similarity: f32) -> usize {
    let bin = (f64::from(similarity) * PER_UNIT as f64).floor() as i64 + PER_UNIT as i64;
    bin.clamp(0, EDGES as i64 - 1) as usize
}

/// Pairs of one class and pairs of two, by the bin of their similarity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PairCounts {
    /// Pairs of one class, `[EDGES]`.
    pub(super) same: Vec<u64>,
    /// Pairs of two classes, `[EDGES]`.
    pub(super) different: Vec<u64>,
}

impl PairCounts {
    /// No pair.
    ///
    /// # Errors
    /// [`crate::Error::NoMemory`].
    pub(super) fn new() -> Result<Self> {
        let counts = || zeros(EDGES as u64, "counts of pairs");
        Ok(Self {
            same: counts()?,
            different: counts()?,
        })
    }

    /// Pairs of one class, and pairs of two.
    pub(super) fn pairs(&self) -> [u64; 2] {
        [self.same.iter().sum(), self.different.iter().sum()]
    }

    /// Pairs of two classes at or above each edge, and pairs of one class below it, by edge.
    pub(super) fn errors(&self) -> impl Iterator<Item = [u64; 2]> {
        let [_, mut let_in] = self.pairs();
        let mut missed = 0;
        let counts = self.same.iter().zip(&self.different);
        counts.map(move |(same, different)| {
            let here = [let_in, missed];
            let_in -= different;
            missed += same;
            here
        })
    }

    /// False match rate and false non-match rate, by edge; both counts of pairs are above 0.
    pub(super) fn rates(&self) -> impl Iterator<Item = [f64; 2]> {
        let [same, different] = self.pairs().map(|pairs| pairs as f64);
        self.errors()
            .map(move |[let_in, missed]| [let_in as f64 / different, missed as f64 / same])
    }

    /// Lowest edge at which at most this part of the pairs of two classes is let in.
    pub(super) fn lowest_edge(&self, rate: f64) -> Option<usize> {
        let [_, different] = self.pairs();
        // The tolerance keeps products that should be whole numbers from falling below them.
        let most = rate * different as f64 * (1.0 + 1e-12);
        self.errors().position(|[let_in, _]| let_in as f64 <= most)
    }

    /// Rate at which both rates are equal, and the similarity there: interpolated linearly between two edges.
    pub(super) fn equal_error(&self) -> (f64, f64) {
        let mut before = [1.0, 0.0];
        for (bin, [let_in, missed]) in self.rates().enumerate() {
            let (gap, gap_before) = (let_in - missed, before[0] - before[1]);
            if gap <= 0.0 {
                // The rates at the first edge are 1 and 0, so there is an edge before.
                let part = gap_before / (gap_before - gap);
                let rate = before[0] + part * (let_in - before[0]);
                let from = edge(bin.saturating_sub(1));
                return (rate, from + part * (edge(bin) - from));
            }
            before = [let_in, missed];
        }
        // Past the last edge nothing is let in and everything is missed.
        let gap = before[0] - before[1];
        (before[0] - gap / (gap + 1.0) * before[0], edge(EDGES - 1))
    }

    /// The best F1 of the pairs that are taken for one class, and the lowest edge that has it.
    pub(super) fn best_f1(&self) -> (f64, f64) {
        let [same, _] = self.pairs();
        let mut best = (0.0, edge(0));
        for (bin, [let_in, missed]) in self.errors().enumerate() {
            let f1 = f1(same, let_in, missed);
            if f1 > best.0 {
                best = (f1, edge(bin));
            }
        }
        best
    }

    /// Probability that a pair of one class is more similar than a pair of two; pairs in one bin count half.
    pub(super) fn area_under_curve(&self) -> f64 {
        let [same, different] = self.pairs().map(|pairs| pairs as f64);
        let (mut below, mut area) = (0.0, 0.0);
        for (same, different) in self.same.iter().zip(&self.different) {
            let here = *different as f64;
            area += *same as f64 * (below + here / 2.0);
            below += here;
        }
        area / (same * different)
    }
}

/// F1 of the pairs that are taken for one class, of which there are `same`: the harmonic mean of the part of those that are right and
/// of the part of all right ones that are among them.
pub(super) fn f1(same: u64, let_in: u64, missed: u64) -> f64 {
    let right = (same - missed) as f64;
    2.0 * right / (2.0 * right + (let_in + missed) as f64).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(same: &[f32], different: &[f32]) -> PairCounts {
        let mut counts = PairCounts::new().expect("is little");
        for s in same {
            counts.same[bin(*s)] += 1;
        }
        for s in different {
            counts.different[bin(*s)] += 1;
        }
        counts
    }

    #[test]
    fn an_edge_belongs_to_the_bin_that_begins_there() {
        for (s, expected) in [
            (-1.0, -1.0),
            (-0.5, -0.5),
            (0.0, 0.0),
            (0.03125, 0.03124),
            (1.0, 1.0),
        ] {
            assert_eq!(edge(bin(s)), expected, "{s}");
        }
        assert_eq!(edge(bin(-1e-30)), -0.00002);
        assert_eq!(edge(bin(1.000_000_1)), 1.0);
        assert_eq!(edge(bin(-1.000_000_1)), -1.0);
        assert_eq!(edge(bin(0.999_999_94)), 0.99998);
    }

    #[test]
    fn the_threshold_is_the_lowest_that_keeps_the_rate() {
        let different: Vec<f32> = (0..10).map(|i| i as f32 / 16.0).collect();
        let counts = counts(&[0.25, 0.75, 1.0], &different);
        let at = |rate| counts.lowest_edge(rate).map(edge);
        // 9/16 itself is let in; just above it nothing is.
        assert_eq!(at(0.1), Some(0.50002));
        assert_eq!(at(0.0), Some(0.56252));
        assert_eq!(at(1.0), Some(-1.0));
        let rates: Vec<_> = counts.rates().collect();
        assert_eq!(rates[bin(0.5625)], [0.1, 1.0 / 3.0]);
        assert_eq!(rates[0], [1.0, 0.0]);
        assert_eq!(rates[EDGES - 1], [0.0, 2.0 / 3.0]);
        // If a pair of different classes has similarity 1, there is no such edge.
        assert_eq!(
            super::tests::counts(&[1.0], &[1.0, 0.0]).lowest_edge(0.4),
            None
        );
    }

    #[test]
    fn the_equal_error_lies_where_the_rates_cross() {
        let (rate, at) = counts(&[0.5, 0.75], &[0.0, 0.25]).equal_error();
        assert_eq!(rate, 0.0);
        assert!((0.25..=0.5).contains(&at), "{at}");
        let (rate, at) = counts(&[0.0, 0.5], &[0.25, -0.5]).equal_error();
        assert_eq!(rate, 0.5);
        assert!((0.0..=0.25002).contains(&at), "{at}");
        // All equal: the line from the last edge to beyond.
        assert_eq!(counts(&[1.0], &[1.0]).equal_error().0, 0.5);
    }

    #[test]
    fn the_area_is_the_part_of_the_pairs_of_pairs_in_order_and_ties_count_half() {
        assert_eq!(counts(&[0.5, 0.75], &[0.0, 0.5]).area_under_curve(), 0.875);
        assert_eq!(counts(&[0.0], &[0.5]).area_under_curve(), 0.0);
    }
}
