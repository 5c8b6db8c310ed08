//! [`Metrics`]: precision@1, R-precision, MAP@R, MAP and MRR, from the ranks of each query's positives; and [`Retrieval`], which
//! adds them by class, and recall and precision at every k that is asked for.
//!
//! Defined as in PML's `AccuracyCalculator` with `k=None` on unit rows: the query itself is left out, R is the number of other rows
//! of its class, and queries without any (*lone*) are dropped and counted. Ties go to the smaller id; PML leaves them open. Cases
//! that PML gets wrong differ: a k past the number of references, labels past 2^24, MRR alone.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::base::interval::{Unit, error_over, interval_over};
use crate::base::order;

/// Means over queries, each between 0 and 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// Part of the queries whose nearest reference has the query's label.
    pub precision_at_1: f64,
    /// Part of the nearest R references that have the query's label.
    pub r_precision: f64,
    /// Sum of the precisions at each hit among the nearest R references, over R (Musgrave et al. 2020).
    pub mean_average_precision_at_r: f64,
    /// Sum of the precisions at each hit among all references, over R.
    pub mean_average_precision: f64,
    /// One over the rank of the nearest hit.
    pub mean_reciprocal_rank: f64,
    /// Queries that were scored.
    pub queries: u64,
    /// Queries dropped because no other row has their label.
    pub lone_queries: u64,
    /// Standard error of `precision_at_1` over the draw of the queries; over the groups, if rows have groups and a row's own is
    /// left out.
    pub standard_error: f64,
    /// 95 % interval of `precision_at_1` over other groups; `None` without groups, or if all queries are of one group.
    #[serde(default)]
    pub interval: Option<[f64; 2]>,
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

    /// Names of the metrics that follow from the nearest R references.
    pub const OF_THE_NEAREST: &[&str] = Self::NAMES.split_at(3).0;

    fn values_mut(&mut self) -> [&mut f64; 5] {
        [
            &mut self.precision_at_1,
            &mut self.r_precision,
            &mut self.mean_average_precision_at_r,
            &mut self.mean_average_precision,
            &mut self.mean_reciprocal_rank,
        ]
    }

    /// Turns sums into means; `None` if nothing was summed.
    fn mean(mut self) -> Option<Self> {
        let queries = self.queries as f64;
        for sum in self.values_mut() {
            *sum /= queries;
        }
        let p = self.precision_at_1;
        self.standard_error = (p * (1.0 - p) / queries).sqrt();
        (self.queries > 0).then_some(self)
    }

    /// Adds a query.
    fn add(&mut self, ranked: &Ranked) {
        self.precision_at_1 += f64::from(u8::from(ranked.hit));
        self.r_precision += ranked.r_precision;
        self.mean_average_precision_at_r += ranked.average_precision_at_r;
        self.mean_average_precision += ranked.average_precision;
        self.mean_reciprocal_rank += ranked.reciprocal_rank;
        self.queries += 1;
    }
}

/// Scores of one query, from the ranks of its positives.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ranked {
    /// The nearest reference has the query's class.
    hit: bool,
    r_precision: f64,
    average_precision_at_r: f64,
    average_precision: f64,
    reciprocal_rank: f64,
    /// Hits among the nearest k references, by k.
    found: Vec<u64>,
}

/// All scores of a set of queries.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Retrieval {
    /// Means over queries.
    #[serde(flatten)]
    pub metrics: Metrics,
    /// Recall@k by k, as in the metric-learning papers: the part of the queries with a hit among the nearest k references.
    pub recall_at: BTreeMap<u64, f64>,
    /// Precision@k by k: hits among the nearest k references, over k.
    pub precision_at: BTreeMap<u64, f64>,
    /// Means over classes of the class means, as PML's `avg_of_avgs`.
    pub over_classes: Metrics,
    /// Each class that has queries which are not lone, by number or name.
    pub classes: Vec<ClassMetrics>,
}

impl Retrieval {
    /// Removes scores that depend on ranks beyond R and every k: MAP and MRR become not a number.
    #[must_use]
    pub(crate) fn of_the_nearest(mut self) -> Self {
        let classes = self.classes.iter_mut().map(|class| &mut class.metrics);
        for metrics in classes.chain([&mut self.metrics, &mut self.over_classes]) {
            metrics.mean_average_precision = f64::NAN;
            metrics.mean_reciprocal_rank = f64::NAN;
        }
        self
    }
}

/// The means of one class's queries.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClassMetrics {
    /// The class's name.
    pub class: String,
    /// Means over its queries.
    #[serde(flatten)]
    pub metrics: Metrics,
}

/// Scores of one map on a side, and those of each query.
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    /// The means over queries.
    pub(crate) metrics: Metrics,
    /// The means over classes of each class's mean.
    pub(crate) over_classes: Metrics,
    /// Scores of each query, in the same order for every map.
    pub(crate) queries: Vec<QueryScore>,
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
    /// Test side with rows of a row's own group among its neighbours, if rows have groups; `test` leaves those out.
    #[serde(default)]
    pub test_own_group: Option<Metrics>,
    /// Test side without rows that are equal or nearly equal to a training row, if there are such rows.
    #[serde(default)]
    pub test_without_copies: Option<Metrics>,
    /// Mean over the classes of the test side of each class's mean: every class counts alike, however many rows it has.
    #[serde(default)]
    pub test_over_classes: Option<Metrics>,
    /// Test side with features in single precision, if the run holds them in half precision: `test` is of what was stored.
    #[serde(default)]
    pub test_unrounded: Option<Metrics>,
}

/// Scores of one query: two maps are compared by these over the same queries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct QueryScore {
    /// The query's class.
    pub(crate) class: u32,
    /// The query's group, if its own group is left out of its neighbours.
    pub(crate) group: Option<u32>,
    /// The nearest reference has the query's class.
    pub(crate) hit: bool,
    /// Average precision over the nearest R references.
    pub(crate) average_precision_at_r: f32,
}

/// Sums over queries, which are added one after the other, class by class.
#[derive(Clone, Debug, Default)]
pub(crate) struct RetrievalSum {
    total: Metrics,
    classes: Vec<(u32, Metrics)>,
    /// Queries with a hit, and hits, by k.
    at: BTreeMap<u64, (u64, u64)>,
    /// Queries, and queries whose nearest reference is right, by the number of the group.
    groups: Vec<Unit>,
    /// Rows of a row's own group are among its neighbours.
    own_group: bool,
    /// Scores of each query, if asked for.
    queries: Option<Vec<QueryScore>>,
    /// All scores of each query, if asked for.
    ranked: Option<Vec<Ranked>>,
}

impl Ranked {
    /// The scores as numbers, `found` last.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = f64> {
        let first = [
            f64::from(u8::from(self.hit)),
            self.r_precision,
            self.average_precision_at_r,
            self.average_precision,
            self.reciprocal_rank,
        ];
        let found = self.found.iter().map(|found| *found as f64);
        first.into_iter().chain(found)
    }

    /// The scores of their numbers.
    pub(crate) fn of([hit, r_precision, at_r, precision, rank]: [f64; 5], found: &[f64]) -> Self {
        Self {
            hit: hit > 0.0,
            r_precision,
            average_precision_at_r: at_r,
            average_precision: precision,
            reciprocal_rank: rank,
            found: found.iter().map(|found| *found as u64).collect(),
        }
    }
}

impl RetrievalSum {
    /// Counts hits among the nearest k references for each of these k.
    pub(crate) fn at(at: &[u64]) -> Self {
        Self {
            at: order::map_of(at.iter().map(|k| (*k, (0, 0)))),
            ..Self::default()
        }
    }

    /// Keeps the scores of each query too.
    pub(crate) fn keep_queries(self) -> Self {
        Self {
            queries: Some(Vec::new()),
            ..self
        }
    }

    /// Keeps all scores of each query too.
    pub(crate) fn keep_ranked(self) -> Self {
        Self {
            ranked: Some(Vec::new()),
            ..self
        }
    }

    /// All scores of each query, in the order in which they were added, and the number of lone queries.
    pub(crate) fn take_ranked(&mut self) -> (Vec<Ranked>, u64) {
        let ranked = self.ranked.take().unwrap_or_default();
        (ranked, self.total.lone_queries)
    }

    /// Keeps rows of a row's own group among its neighbours.
    pub(crate) fn with_own_group(self) -> Self {
        Self {
            own_group: true,
            ..self
        }
    }

    /// Tells if a row's own group is left out of its neighbours, if it has one.
    pub(crate) fn is_across(&self) -> bool {
        !self.own_group
    }

    /// Scores of each query, in the order in which they were added.
    pub(crate) fn take_queries(&mut self) -> Vec<QueryScore> {
        self.queries.take().unwrap_or_default()
    }

    /// Scores a query by the number of negatives that are nearer than each of its positives, ascending; one positive at least.
    /// The ranks are left in `ranks`.
    pub(crate) fn rank(
        &self,
        negatives_above: impl Iterator<Item = u64>,
        ranks: &mut Vec<u64>,
    ) -> Ranked {
        ranks.clear();
        ranks.extend((1..).zip(negatives_above).map(|(j, above)| j + above));
        let r = ranks.len();
        let (mut average, mut average_at_r, mut within_r) = (0.0, 0.0, 0u64);
        for (hits, rank) in (1u64..).zip(&*ranks) {
            let precision = hits as f64 / *rank as f64;
            if *rank <= r as u64 {
                within_r += 1;
                average_at_r += precision;
            }
            average += precision;
        }
        let within = |k: &u64| ranks.partition_point(|rank| rank <= k) as u64;
        Ranked {
            hit: ranks[0] == 1,
            r_precision: within_r as f64 / r as f64,
            average_precision_at_r: average_at_r / r as f64,
            average_precision: average / r as f64,
            reciprocal_rank: 1.0 / ranks[0] as f64,
            found: self.at.keys().map(within).collect(),
        }
    }

    /// Adds a query.
    ///
    /// Queries come in the order of their classes: sums then do not depend on the blocks.
    pub(crate) fn add(&mut self, class: u32, group: Option<u32>, ranked: &Ranked) {
        self.total.add(ranked);
        if let Some(group) = group {
            let group = group as usize;
            self.groups
                .resize(self.groups.len().max(group + 1), Unit::default());
            let group = &mut self.groups[group];
            group.pairs += 1;
            group.errors += u64::from(ranked.hit);
        }
        if let Some(queries) = &mut self.queries {
            queries.push(QueryScore {
                class,
                group,
                hit: ranked.hit,
                average_precision_at_r: ranked.average_precision_at_r as f32,
            });
        }
        if let Some(all) = &mut self.ranked {
            all.push(ranked.clone());
        }
        if self.classes.last().is_none_or(|(last, _)| *last != class) {
            self.classes.push((class, Metrics::default()));
        }
        if let Some((_, sums)) = self.classes.last_mut() {
            sums.add(ranked);
        }
        for ((queries, hits), found) in self.at.values_mut().zip(&ranked.found) {
            *queries += u64::from(*found > 0);
            *hits += found;
        }
    }

    /// Counts a query without positives.
    pub(crate) fn add_lone(&mut self) {
        self.total.lone_queries += 1;
    }

    /// The means, or `None` if every query was lone. `name` names a class.
    pub(crate) fn finish(self, name: &dyn Fn(u32) -> String) -> Option<Retrieval> {
        let mut metrics = self.total.mean()?;
        let mut units = self.groups;
        units.retain(|unit| unit.pairs > 0);
        if units.len() > 1 {
            metrics.interval = Some(interval_over(&units, metrics.precision_at_1));
            metrics.standard_error = error_over(&units, metrics.precision_at_1);
        }
        let classes: Vec<ClassMetrics> = self
            .classes
            .into_iter()
            .filter_map(|(class, sums)| {
                let metrics = sums.mean()?;
                Some(ClassMetrics {
                    class: name(class),
                    metrics,
                })
            })
            .collect();
        let mut over_classes = Metrics::default();
        for mut class in classes.iter().map(|class| class.metrics) {
            for (sum, value) in over_classes
                .values_mut()
                .into_iter()
                .zip(class.values_mut())
            {
                *sum += *value / classes.len() as f64;
            }
        }
        // The classes are the sample here: the standard error of their mean.
        let spread = classes
            .iter()
            .map(|class| (class.metrics.precision_at_1 - over_classes.precision_at_1).powi(2));
        let count = classes.len() as f64;
        over_classes.standard_error =
            (spread.sum::<f64>() / (count * (count - 1.0).max(1.0))).sqrt();
        over_classes.queries = metrics.queries;
        over_classes.lone_queries = metrics.lone_queries;
        let queries = metrics.queries as f64;
        Some(Retrieval {
            metrics,
            recall_at: order::map_of(
                self.at
                    .iter()
                    .map(|(k, (some, _))| (*k, *some as f64 / queries)),
            ),
            precision_at: order::map_of(
                self.at
                    .iter()
                    .map(|(k, (_, hits))| (*k, *hits as f64 / (queries * *k as f64))),
            ),
            over_classes,
            classes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finish(sum: RetrievalSum) -> Option<Retrieval> {
        sum.finish(&|class| class.to_string())
    }

    fn add(sum: &mut RetrievalSum, class: u32, negatives_above: &[u64]) {
        let ranked = sum.rank(negatives_above.iter().copied(), &mut Vec::new());
        sum.add(class, None, &ranked);
    }

    #[test]
    fn a_ranking_written_out_by_hand() {
        // Nearest first: hit, miss, hit, miss, miss, hit; R = 3.
        let mut sum = RetrievalSum::at(&[1, 3, 100]);
        add(&mut sum, 0, &[0, 1, 3]);
        sum.add_lone();
        let retrieval = finish(sum).expect("one query");
        let metrics = retrieval.metrics;
        assert_eq!(metrics.precision_at_1, 1.0);
        assert_eq!(metrics.mean_reciprocal_rank, 1.0);
        assert_eq!(metrics.r_precision, 2.0 / 3.0);
        assert_eq!(metrics.mean_average_precision_at_r, (1.0 + 2.0 / 3.0) / 3.0);
        assert_eq!(
            metrics.mean_average_precision,
            (1.0 + 2.0 / 3.0 + 3.0 / 6.0) / 3.0
        );
        assert_eq!((metrics.queries, metrics.lone_queries), (1, 1));
        assert_eq!(retrieval.precision_at[&3], 2.0 / 3.0);
        assert_eq!(retrieval.precision_at[&100], 0.03);
        assert_eq!(retrieval.recall_at[&1], 1.0);
    }

    #[test]
    fn a_miss_first_has_no_precision_at_1() {
        let mut sum = RetrievalSum::at(&[3, 4]);
        add(&mut sum, 0, &[3]);
        let retrieval = finish(sum).expect("one query");
        let metrics = retrieval.metrics;
        assert_eq!((metrics.precision_at_1, metrics.r_precision), (0.0, 0.0));
        assert_eq!(
            (metrics.mean_reciprocal_rank, metrics.mean_average_precision),
            (0.25, 0.25)
        );
        assert_eq!(
            (retrieval.recall_at[&3], retrieval.recall_at[&4]),
            (0.0, 1.0)
        );
    }

    #[test]
    fn over_classes_a_small_class_counts_as_much_as_a_large_one() {
        let mut sum = RetrievalSum::default();
        for _ in 0..3 {
            add(&mut sum, 4, &[0]);
        }
        add(&mut sum, 9, &[1]);
        let retrieval = finish(sum).expect("four queries");
        assert_eq!(retrieval.metrics.precision_at_1, 0.75);
        assert_eq!(retrieval.over_classes.precision_at_1, 0.5);
        let names: Vec<_> = retrieval
            .classes
            .iter()
            .map(|class| &class.class[..])
            .collect();
        assert_eq!(names, ["4", "9"]);
        assert_eq!(retrieval.classes[0].metrics.queries, 3);
    }

    #[test]
    fn lone_queries_alone_give_nothing() {
        let mut sum = RetrievalSum::default();
        sum.add_lone();
        assert_eq!(finish(sum), None);
    }
}
