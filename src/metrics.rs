//! [`Metrics`]: precision@1, R-precision, MAP@R, MAP and MRR, from the ranks of each query's positives.
//!
//! As PML's `AccuracyCalculator` with `k=None` on unit rows: the query itself is left out, R is the number of its other
//! rows, and queries without any (*lone*) are dropped and counted. Ties go to the smaller id, where PML leaves them open.

use serde::{Deserialize, Serialize};

/// Means over queries, each between 0 and 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// Whether the nearest reference has the query's label.
    pub precision_at_1: f64,
    /// The part of the nearest R references that has it.
    pub r_precision: f64,
    /// Over the nearest R references: precision at each hit, summed, over R (Musgrave et al. 2020).
    pub mean_average_precision_at_r: f64,
    /// Over all references: precision at each hit, summed, over R.
    pub mean_average_precision: f64,
    /// One over the rank of the nearest hit.
    pub mean_reciprocal_rank: f64,
    /// Queries that were scored.
    pub queries: u64,
    /// Queries dropped because no other row has their label.
    pub lone_queries: u64,
    /// Of `precision_at_1`, over the draw of the queries.
    pub standard_error: f64,
}

impl Metrics {
    /// The names in reports, in their order there.
    pub const NAMES: [&str; 5] = [
        "precision_at_1",
        "r_precision",
        "mean_average_precision_at_r",
        "mean_average_precision",
        "mean_reciprocal_rank",
    ];
}

/// Scores of the sides that were scored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Scores {
    /// A part of the training side as large as the validation side.
    pub train: Option<Metrics>,
    /// The validation side.
    pub validation: Option<Metrics>,
    /// The test side, once the run is over.
    pub test: Option<Metrics>,
}

/// Sums over queries, one after the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct MetricsSum(Metrics);

impl MetricsSum {
    /// Adds a query by how many negatives lie in each gap between its positives, the farthest gap first.
    ///
    /// `gaps[g]` is the number of negatives nearer than the `g` farthest positives only; `gaps[0]` is not looked at. One
    /// gap more than positives; at least one positive.
    pub(crate) fn add(&mut self, gaps: &[u32]) {
        let r = gaps.len() - 1;
        let sums = &mut self.0;
        let (mut above, mut average, mut average_at_r, mut within_r) = (0u64, 0.0, 0.0, 0u64);
        for (hits, gap) in (1..).zip(gaps[1..].iter().rev()) {
            above += u64::from(*gap);
            let rank = hits + above;
            let precision = hits as f64 / rank as f64;
            if hits == 1 {
                sums.precision_at_1 += f64::from(u8::from(rank == 1));
                sums.mean_reciprocal_rank += precision;
            }
            if rank <= r as u64 {
                within_r += 1;
                average_at_r += precision;
            }
            average += precision;
        }
        sums.r_precision += within_r as f64 / r as f64;
        sums.mean_average_precision_at_r += average_at_r / r as f64;
        sums.mean_average_precision += average / r as f64;
        sums.queries += 1;
    }

    /// Counts a query without positives.
    pub(crate) fn add_lone(&mut self) {
        self.0.lone_queries += 1;
    }

    /// The means, or `None` when every query was lone.
    pub(crate) fn finish(self) -> Option<Metrics> {
        let mut means = self.0;
        let queries = means.queries as f64;
        for sum in [
            &mut means.precision_at_1,
            &mut means.r_precision,
            &mut means.mean_average_precision_at_r,
            &mut means.mean_average_precision,
            &mut means.mean_reciprocal_rank,
        ] {
            *sum /= queries;
        }
        let p = means.precision_at_1;
        means.standard_error = (p * (1.0 - p) / queries).sqrt();
        (means.queries > 0).then_some(means)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ranking_written_out_by_hand() {
        // Nearest first: hit, miss, hit, miss, miss, hit; R = 3.
        let mut sum = MetricsSum::default();
        sum.add(&[9, 2, 1, 0]);
        sum.add_lone();
        let metrics = sum.finish().expect("one query");
        assert_eq!(metrics.precision_at_1, 1.0);
        assert_eq!(metrics.mean_reciprocal_rank, 1.0);
        assert_eq!(metrics.r_precision, 2.0 / 3.0);
        assert_eq!(metrics.mean_average_precision_at_r, (1.0 + 2.0 / 3.0) / 3.0);
        assert_eq!(
            metrics.mean_average_precision,
            (1.0 + 2.0 / 3.0 + 3.0 / 6.0) / 3.0
        );
        assert_eq!((metrics.queries, metrics.lone_queries), (1, 1));
    }

    #[test]
    fn a_miss_first_has_no_precision_at_1() {
        let mut sum = MetricsSum::default();
        sum.add(&[5, 3]);
        let metrics = sum.finish().expect("one query");
        assert_eq!((metrics.precision_at_1, metrics.r_precision), (0.0, 0.0));
        assert_eq!(
            (metrics.mean_reciprocal_rank, metrics.mean_average_precision),
            (0.25, 0.25)
        );
    }

    #[test]
    fn lone_queries_alone_give_nothing() {
        let mut sum = MetricsSum::default();
        sum.add_lone();
        assert_eq!(sum.finish(), None);
    }
}
