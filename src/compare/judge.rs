//! [`Judge`]: decides if one row of a leaderboard is clearly better than another, by the same queries over several seeds.
//!
//! A score is a mean over queries and seeds, and other queries and other seeds would give another. The variance of a difference of
//! scores is the sum of two parts: that of the differences of single queries, averaged over seeds, and that of the scores of single
//! seeds. The sum counts effects of one query with one seed twice, which errs on the safe side (Owen 2007, The pigeonhole bootstrap;
//! the two ways of clustering of Cameron, Gelbach and Miller 2011, without their third term).
//!
//! - **Queries.** If rows have groups, groups are the sample; if the judged classes were never trained on, classes are: the
//!   queries of a group or a class count as one. Else queries are, and their variance is doubled: two rows that are each other's
//!   nearest are right or wrong together. The variance over single queries is that under no difference, with two more queries that
//!   disagree (Bonett and Price 2012): a few that all say the same prove nothing. The variance over classes is never taken for less.
//! - **Seeds.** A variance over three scores is poorly known. Each row has its own, or the mean of all rows' if that is larger. By folds
//!   each run has a seed of its own: the variance is that between the runs of a fold, averaged over the folds.
//! - **Intervals** are Student's, with the degrees of freedom of Welch and Satterthwaite.
//! - **Many rows.** The leader is chosen by the same queries, as the best of many. So all pairs of rows are judged, in both
//!   directions, and together they err in 5 of 100 comparisons at most (Bonferroni).

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::base::student::upper_quantile;
use crate::search::metrics::QueryScore;

/// The most comparisons, as a part of all, in which a difference may be called clear that is none.
const ERROR: f64 = 0.05;

/// A difference of two scores, with the range of values that queries and seeds leave possible.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The first score less the second.
    pub difference: f64,
    /// Lower bound of the difference.
    pub low: f64,
    /// Upper bound of the difference.
    pub high: f64,
}

impl Interval {
    /// Tells if the first is better for every value in the range.
    pub fn is_clear(&self) -> bool {
        self.low > 0.0
    }
}

/// Classes and groups of the queries of a comparison.
#[derive(Clone, Debug, Default)]
pub(super) struct Queries {
    /// Class of each query, numbered from 0 on.
    classes: Vec<usize>,
    /// Number of classes.
    count: usize,
    /// None of these classes was trained on.
    new_classes: bool,
    /// Group of each query, numbered from 0 on; empty without groups.
    groups: Vec<usize>,
}

/// Numbers from 0 on for the different values, and the number of different values.
fn numbered(all: &mut dyn Iterator<Item = u32>) -> (Vec<usize>, usize) {
    let mut numbers = HashMap::new();
    let number = |one| {
        let next = numbers.len();
        *numbers.entry(one).or_insert(next)
    };
    let numbered = all.map(number).collect();
    (numbered, numbers.len())
}

impl Queries {
    pub(super) fn new(scores: &[QueryScore], new_classes: bool) -> Self {
        let (classes, count) = numbered(&mut scores.iter().map(|score| score.class));
        let (groups, _) = numbered(&mut scores.iter().filter_map(|score| score.group));
        Self {
            classes,
            count,
            new_classes,
            groups,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.classes.len()
    }

    pub(super) fn classes(&self) -> usize {
        self.count
    }

    /// Tells if none of these classes was trained on.
    pub(super) fn are_new(&self) -> bool {
        self.new_classes
    }

    /// Variance of the mean of `differences`, one a query, and its degrees of freedom; `None` if too few units vary.
    fn variance(&self, differences: &[f64]) -> Option<Part> {
        let count = differences.len() as f64;
        let mean = differences.iter().sum::<f64>() / count;
        let squares: f64 = differences.iter().map(|d| d * d).sum();
        let single = (squares + 2.0) / (count + 2.0).powi(2);
        let units = match self.new_classes {
            _ if !self.groups.is_empty() => &self.groups,
            true => &self.classes,
            false => &Vec::new(),
        };
        if units.is_empty() {
            return (count > 1.0).then_some(Part {
                variance: 2.0 * single,
                df: count - 1.0,
            });
        }
        // Units are numbered as they come: those of the first queries are the first.
        let units = &units[..differences.len()];
        let mut sums = vec![0.0; units.iter().max().map_or(0, |last| last + 1)];
        for (unit, difference) in units.iter().zip(differences) {
            sums[*unit] += difference - mean;
        }
        let units = sums.len() as f64;
        let squares: f64 = sums.iter().map(|sum| sum * sum).sum();
        (units > 1.0).then(|| Part {
            variance: (squares * units / (units - 1.0) / (count * count)).max(single),
            df: units - 1.0,
        })
    }
}

/// Results of a row of the leaderboard.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    /// Hits by seed and query: the nearest reference has the query's class.
    pub(super) hits: Vec<Vec<bool>>,
    /// Number of queries of each fold; none if there are no folds.
    pub(super) folds: Vec<usize>,
    /// The result does not depend on the seed.
    pub(super) fixed: bool,
}

impl Found {
    /// Part of the queries that are right, by seed.
    pub(super) fn scores(&self) -> Vec<f64> {
        let score = |hits: &Vec<bool>| {
            hits.iter().filter(|hit| **hit).count() as f64 / hits.len().max(1) as f64
        };
        self.hits.iter().map(score).collect()
    }

    /// Mean over queries and seeds.
    pub(super) fn score(&self) -> Option<f64> {
        let scores = self.scores();
        (!scores.is_empty()).then(|| scores.iter().sum::<f64>() / scores.len() as f64)
    }

    /// Variance of single seeds' scores.
    pub(super) fn variance(&self) -> Option<f64> {
        let (scores, mean) = (self.scores(), self.score()?);
        let squares: f64 = scores.iter().map(|score| (score - mean).powi(2)).sum();
        (scores.len() > 1).then(|| squares / (scores.len() - 1) as f64)
    }

    /// Number of queries.
    pub(super) fn len(&self) -> usize {
        self.hits.first().map_or(0, Vec::len)
    }

    /// The results of the first queries alone.
    fn first(&self, queries: usize) -> Self {
        Self {
            hits: self
                .hits
                .iter()
                .map(|hits| hits[..queries].to_vec())
                .collect(),
            folds: {
                let mut end = 0;
                let is_within = |fold: &&usize| {
                    end += **fold;
                    end <= queries
                };
                self.folds.iter().take_while(is_within).copied().collect()
            },
            fixed: self.fixed,
        }
    }

    /// Number of folds, at least one.
    fn fold_count(&self) -> f64 {
        self.folds.len().max(1) as f64
    }

    /// Variance of the scores of single runs on a fold: that between seeds, averaged over the folds.
    fn run_variance(&self) -> Option<Part> {
        let whole = [self.len()];
        let folds = if self.folds.is_empty() {
            &whole[..]
        } else {
            &self.folds
        };
        let seeds = self.hits.len() as f64;
        let (mut begin, mut sum) = (0, 0.0);
        for fold in folds {
            let scores = self.hits.iter().map(|hits| {
                let hits = &hits[begin..begin + fold];
                hits.iter().filter(|hit| **hit).count() as f64 / *fold as f64
            });
            let mean = scores.clone().sum::<f64>() / seeds;
            sum += scores.map(|score| (score - mean).powi(2)).sum::<f64>();
            begin += fold;
        }
        let df = (seeds - 1.0) * folds.len() as f64;
        (df > 0.0).then(|| Part {
            variance: sum / df,
            df,
        })
    }

    /// Part of the seeds that are right, by query.
    fn queries(&self) -> impl Iterator<Item = f64> {
        let seeds = self.hits.len() as f64;
        (0..self.len()).map(move |query| {
            let right = self.hits.iter().filter(|hits| hits[query]).count();
            right as f64 / seeds
        })
    }
}

/// Part of a variance, with its degrees of freedom.
#[derive(Clone, Copy, Debug)]
struct Part {
    variance: f64,
    df: f64,
}

/// Judges the rows of one comparison.
#[derive(Debug)]
pub(super) struct Judge<'a> {
    queries: &'a Queries,
    /// Mean over rows of the variance over the runs of a fold; `None` if no row has two seeds.
    seeds: Option<Part>,
    /// The most comparisons, as a part of all, in which a pair of rows, in one direction, may be called clear wrongly.
    error: f64,
}

impl<'a> Judge<'a> {
    /// `found` has the results of the rows that were scored, of `rows` rows that the best is chosen from. Of the comparisons that
    /// may err this look at the results has the part `share`.
    pub(super) fn new<'b>(
        queries: &'a Queries,
        found: impl Iterator<Item = &'b Found>,
        rows: usize,
        share: f64,
    ) -> Self {
        let (mut squares, mut df) = (0.0, 0.0);
        for found in found.filter(|found| !found.fixed) {
            if let Some(own) = found.run_variance() {
                squares += own.df * own.variance;
                df += own.df;
            }
        }
        Self {
            queries,
            seeds: (df > 0.0).then(|| Part {
                variance: squares / df,
                df,
            }),
            error: share * ERROR / (rows * rows.saturating_sub(1)).max(1) as f64,
        }
    }

    /// Interval of the difference of `a` and `b`, over the queries that both answered; `None` if a row has one seed, or if all queries
    /// are of one class that is new.
    pub(super) fn interval(&self, a: &Found, b: &Found) -> Option<Interval> {
        let queries = a.len().min(b.len());
        let (a, b) = (&a.first(queries), &b.first(queries));
        let difference = a.score()? - b.score()?;
        let differences: Vec<f64> = a.queries().zip(b.queries()).map(|(a, b)| a - b).collect();
        let parts = [
            self.queries.variance(&differences)?,
            self.seed_variance(a)?,
            self.seed_variance(b)?,
        ];
        let variance: f64 = parts.iter().map(|part| part.variance).sum();
        let unsure: f64 = parts
            .iter()
            .map(|part| part.variance * part.variance / part.df)
            .sum();
        let width = upper_quantile(self.error, variance * variance / unsure) * variance.sqrt();
        Some(Interval {
            difference,
            low: difference - width,
            high: difference + width,
        })
    }

    /// Variance of the mean over a row's seeds.
    fn seed_variance(&self, found: &Found) -> Option<Part> {
        if found.fixed {
            return Some(Part {
                variance: 0.0,
                df: 1.0,
            });
        }
        let runs = found.hits.len() as f64 * found.fold_count();
        let (own, all) = (found.run_variance()?, self.seeds?);
        let part = if own.variance > all.variance {
            own
        } else {
            all
        };
        Some(Part {
            variance: part.variance / runs,
            ..part
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::rng::{self, Rng};
    use crate::compare::race;

    use rand::RngExt as _;

    /// A simulated comparison: the log odds of a hit are a sum of normal numbers with these standard deviations.
    #[derive(Clone, Copy)]
    struct World {
        new_classes: bool,
        classes: usize,
        of_a_class: usize,
        rows: usize,
        seeds: usize,
        /// Mean of the log odds.
        mean: f64,
        /// Advantage of the second row over all others.
        better: f64,
        /// Deviation of a class and of a query, for all rows alike and for each row by itself.
        class: f64,
        query: f64,
        /// Deviation of a seed, and of a seed in a class.
        seed: f64,
        /// Ratio of the first row's seed deviation to that of the others.
        restless: f64,
        /// Number of rows, the last ones, that do not depend on the seed.
        fixed: usize,
        /// Number of folds; on each a row has other seeds.
        folds: usize,
    }

    const WORLD: World = World {
        new_classes: true,
        classes: 50,
        of_a_class: 10,
        rows: 7,
        seeds: 3,
        mean: 1.0,
        better: 0.0,
        class: 0.7,
        query: 0.7,
        seed: 0.1,
        restless: 1.0,
        fixed: 2,
        folds: 1,
    };

    impl World {
        /// Results of every row.
        fn draw(&self, rng: &mut Rng) -> (Queries, Vec<Found>) {
            let count = self.classes * self.of_a_class;
            let scores: Vec<QueryScore> = (0..count)
                .map(|query| QueryScore {
                    class: (query / self.of_a_class) as u32,
                    group: None,
                    hit: false,
                    average_precision_at_r: 0.0,
                })
                .collect();
            let normal = |rng: &mut Rng, deviation: f64| match deviation {
                0.0 => 0.0,
                deviation => deviation * rng::normal(rng),
            };
            let field = |rng: &mut Rng, class: f64, query: f64| -> Vec<f64> {
                let classes: Vec<f64> = (0..self.classes).map(|_| normal(rng, class)).collect();
                let each = (0..count).map(|q| classes[q / self.of_a_class] + normal(rng, query));
                each.collect()
            };
            let shared = field(rng, self.class, self.query);
            let row = |row: usize, rng: &mut Rng| {
                let own = field(rng, self.class, self.query);
                let fixed = row >= self.rows - self.fixed;
                let restless = match row {
                    _ if fixed => 0.0,
                    0 => self.restless,
                    _ => 1.0,
                };
                let mean = self.mean + if row == 1 { self.better } else { 0.0 };
                let seeds = if fixed { 1 } else { self.seeds };
                let folds = vec![count / self.folds; self.folds];
                let hits = (0..seeds).map(|_| {
                    let mut hits = Vec::with_capacity(count);
                    for fold in &folds {
                        let seed = normal(rng, self.seed * restless);
                        let of_seed = field(rng, self.seed, 0.0);
                        let queries = hits.len()..hits.len() + fold;
                        let odds = queries.map(|q| mean + seed + shared[q] + own[q] + of_seed[q]);
                        let hit = |odds: f64| rng.random::<f64>() < 1.0 / (1.0 + libm::exp(-odds));
                        hits.extend(odds.map(hit));
                    }
                    hits
                });
                Found {
                    hits: hits.collect(),
                    folds,
                    fixed,
                }
            };
            let found = (0..self.rows).map(|i| row(i, rng)).collect();
            (Queries::new(&scores, self.new_classes), found)
        }

        /// The leader, and the number of rows that are clearly behind it.
        fn compare(&self, rng: &mut Rng) -> (usize, usize) {
            let (queries, found) = self.draw(rng);
            let judge = Judge::new(&queries, found.iter(), found.len(), 1.0);
            let score = |row: &usize| found[*row].score().expect("was scored");
            let leader = (0..found.len()).max_by(|a, b| score(a).total_cmp(&score(b)));
            let leader = leader.expect("there are rows");
            let clear = (0..found.len()).filter(|row| *row != leader).filter(|row| {
                let behind = judge.interval(&found[leader], &found[*row]);
                behind.expect("several seeds").is_clear()
            });
            (leader, clear.count())
        }

        /// A race by five folds: number of rows that are excluded, and of folds until one row is left, or all.
        fn race(&self, rng: &mut Rng) -> (usize, usize) {
            let (queries, found) = self.draw(rng);
            let score = |found: &Found| found.score().expect("was scored");
            let mut open: Vec<usize> = (0..self.rows).collect();
            for fold in 1..=self.folds {
                let of_fold = |found: &Found| found.first(fold * queries.len() / self.folds);
                let found: Vec<Found> = found.iter().map(of_fold).collect();
                let of_open = open.iter().map(|row| &found[*row]);
                let judge = Judge::new(&queries, of_open, self.rows, race::share(fold, self.folds));
                let best = open
                    .iter()
                    .copied()
                    .max_by(|a, b| score(&found[*a]).total_cmp(&score(&found[*b])));
                let best = best.expect("one is open");
                open.retain(|row| {
                    let behind = judge.interval(&found[best], &found[*row]);
                    *row == best || !behind.expect("several seeds").is_clear()
                });
                if open.len() == 1 {
                    return (self.rows - 1, fold);
                }
            }
            (self.rows - open.len(), self.folds)
        }

        /// Over `trials` comparisons: the part in which any row is called clear, and the part in which the second is called the
        /// best.
        fn rates(&self, trials: usize) -> (f64, f64) {
            let mut rng = rng::stream(0, "judge");
            let (mut clear, mut named) = (0, 0);
            for _ in 0..trials {
                let (leader, behind) = self.compare(&mut rng);
                clear += usize::from(behind > 0);
                named += usize::from(leader == 1 && behind + 1 == self.rows);
            }
            (clear as f64 / trials as f64, named as f64 / trials as f64)
        }
    }

    /// Comparisons of each world: the rate is then known within 0.02.
    const TRIALS: usize = 500;

    #[test]
    fn of_rows_that_are_equally_good_hardly_any_is_called_clear() {
        for (what, world) in [
            ("new classes", WORLD),
            (
                "shuffled labels",
                World {
                    mean: -4.0,
                    class: 0.0,
                    query: 0.0,
                    seed: 0.0,
                    ..WORLD
                },
            ),
            (
                "known classes",
                World {
                    new_classes: false,
                    classes: 10,
                    of_a_class: 20,
                    class: 0.0,
                    ..WORLD
                },
            ),
            (
                "seeds say more than queries",
                World {
                    seed: 0.4,
                    class: 0.2,
                    query: 0.2,
                    ..WORLD
                },
            ),
            (
                "one row depends on its seed far more than others",
                World {
                    restless: 5.0,
                    ..WORLD
                },
            ),
            ("two seeds", World { seeds: 2, ..WORLD }),
            (
                "five classes",
                World {
                    classes: 5,
                    of_a_class: 60,
                    ..WORLD
                },
            ),
            ("nearly all right", World { mean: 5.0, ..WORLD }),
            (
                "folds, of which one row depends on its seeds far more",
                World {
                    seeds: 2,
                    folds: 5,
                    restless: 5.0,
                    ..WORLD
                },
            ),
            ("many rows", World { rows: 19, ..WORLD }),
        ] {
            let (clear, _) = world.rates(TRIALS);
            println!("{what}: clear in {clear}");
            assert!(clear <= 0.05, "{what}: {clear}");
        }
    }

    #[test]
    fn a_row_that_is_better_is_named() {
        for (what, world) in [
            (
                "new classes",
                World {
                    better: 2.0,
                    ..WORLD
                },
            ),
            (
                "known classes",
                World {
                    new_classes: false,
                    classes: 10,
                    of_a_class: 50,
                    class: 0.0,
                    better: 2.0,
                    ..WORLD
                },
            ),
        ] {
            let (_, named) = world.rates(TRIALS);
            println!("{what}: named in {named}");
            assert!(named >= 0.9, "{what}: {named}");
        }
    }

    #[test]
    fn a_race_excludes_hardly_any_of_equal_rows_and_ends_sooner_where_one_is_better() {
        // Rows of every class in every fold, as they are dealt, and two seeds, as the page has.
        let world = World {
            new_classes: false,
            classes: 1,
            of_a_class: 1600,
            seeds: 2,
            folds: 5,
            class: 0.0,
            ..WORLD
        };
        let mut rng = rng::stream(0, "race");
        let races = |world: World, rng: &mut Rng| -> Vec<(usize, usize)> {
            (0..TRIALS).map(|_| world.race(rng)).collect()
        };
        let equal = races(world, &mut rng);
        let excluded = equal.iter().filter(|(rows, _)| *rows > 0).count();
        println!("equal rows: some excluded in {excluded} of {TRIALS}");
        assert!(excluded * 20 <= TRIALS, "{excluded} of {TRIALS}");
        let better = World {
            better: 1.5,
            ..world
        };
        let better = races(better, &mut rng);
        let decided = better.iter().filter(|(rows, _)| *rows == 6).count();
        let folds: usize = better.iter().map(|(_, folds)| folds).sum();
        let folds = folds as f64 / TRIALS as f64;
        println!(
            "one is better: decided in {decided} of {TRIALS}, after {folds} folds on the average"
        );
        assert!(decided * 10 >= 9 * TRIALS, "{decided} of {TRIALS}");
        assert!(folds < 4.0, "{folds} folds");
    }

    fn of(hits: &[&[u8]]) -> Found {
        let seed = |seed: &&[u8]| seed.iter().map(|hit| *hit > 0).collect();
        Found {
            hits: hits.iter().map(seed).collect(),
            folds: Vec::new(),
            fixed: false,
        }
    }

    fn queries(classes: &[u32], new_classes: bool) -> Queries {
        let score = |class: &u32| QueryScore {
            class: *class,
            group: None,
            hit: false,
            average_precision_at_r: 0.0,
        };
        Queries::new(&classes.iter().map(score).collect::<Vec<_>>(), new_classes)
    }

    #[test]
    fn one_seed_or_one_new_class_is_not_judged() {
        let (a, b) = (of(&[&[1, 1], &[1, 1]]), of(&[&[0, 1], &[0, 0]]));
        let judged = |classes: &[u32], new, a: &Found, b: &Found| {
            let queries = queries(classes, new);
            Judge::new(&queries, [a, b].into_iter(), 2, 1.0).interval(a, b)
        };
        assert!(judged(&[0, 1], true, &a, &b).is_some());
        assert_eq!(judged(&[0, 0], true, &a, &b), None);
        assert!(judged(&[0, 0], false, &a, &b).is_some());
        assert_eq!(judged(&[0, 1], true, &a, &of(&[&[0, 1]])), None);
    }

    #[test]
    fn a_few_queries_that_all_say_the_same_prove_nothing_and_many_do() {
        let clear = |count: usize| {
            let classes: Vec<u32> = (0..count as u32).collect();
            let (a, b) = (vec![true; count], vec![false; count]);
            let found = |hits: Vec<bool>| Found {
                hits: vec![hits; 3],
                folds: Vec::new(),
                fixed: false,
            };
            let (a, b) = (found(a), found(b));
            let queries = queries(&classes, true);
            let judge = Judge::new(&queries, [&a, &b].into_iter(), 2, 1.0);
            judge.interval(&a, &b).expect("three seeds").is_clear()
        };
        assert_eq!((clear(4), clear(12)), (false, true));
    }
}
