//! [`PairHistogram`]: similarities of the positive and the negative pairs of a step, which the miner's band cuts through.

use serde::{Deserialize, Serialize};

use crate::kernels::pair_counts::{BINS, read_pairs};

/// Histogram over similarity of every pair of an anchor of a batch with a reference other than its own copy.
///
/// Both lists have a count for each of 64 bins of equal width over [-1, 1]; a bin holds its lower bound, the last 1 as well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairHistogram {
    /// Step of the pairs.
    pub step: u64,
    /// Pairs of one class.
    pub positives: Vec<u64>,
    /// Pairs of two classes.
    pub negatives: Vec<u64>,
}

impl PairHistogram {
    /// Reads the counts from a step's report; `words` begins at the histogram.
    pub(super) fn read(step: u64, words: &[u32]) -> Self {
        let [positives, negatives] = read_pairs(words);
        Self {
            step,
            positives,
            negatives,
        }
    }

    /// The lower bound of a bin, or the upper one of the bin before.
    pub fn bound(bin: usize) -> f64 {
        2.0 * bin as f64 / BINS as f64 - 1.0
    }

    /// Median similarity of the positives, as if those of a bin were spread evenly over it; `None` without positives.
    pub fn median_positive(&self) -> Option<f64> {
        let half = self.positives.iter().sum::<u64>() as f64 / 2.0;
        let mut below = 0.0;
        for (bin, count) in self.positives.iter().enumerate() {
            let count = *count as f64;
            if count > 0.0 && below + count >= half {
                let part = (half - below) / count;
                return Some(Self::bound(bin) + part * 2.0 / BINS as f64);
            }
            below += count;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(positives: &[(usize, u64)]) -> PairHistogram {
        let mut counts = vec![0; BINS];
        for (bin, count) in positives {
            counts[*bin] = *count;
        }
        PairHistogram {
            step: 1,
            positives: counts,
            negatives: vec![0; BINS],
        }
    }

    #[test]
    fn half_of_the_positives_are_below_the_median() {
        assert_eq!(histogram(&[]).median_positive(), None);
        // All in [0, 1/32): the middle of it.
        assert_eq!(histogram(&[(32, 7)]).median_positive(), Some(1.0 / 64.0));
        assert_eq!(
            histogram(&[(0, 1), (63, 3)]).median_positive(),
            Some(31.0 / 32.0 + 1.0 / 96.0)
        );
        assert_eq!(
            histogram(&[(0, 5), (63, 5)]).median_positive(),
            Some(-31.0 / 32.0)
        );
    }
}
