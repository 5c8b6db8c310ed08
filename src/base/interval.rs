//! Intervals of error rates over samples of rows: pairs share rows, and rows share classes, so that far fewer than all pairs count
//! as independent.
//!
//! - **Variance**: pairs that share a unit vary together. The residuals of all pairs of a unit are added up, and the squares of the
//!   sums are the variance (Aronow, Samii and Assenova 2015, Cluster-robust variance estimation for dyadic data; here without their
//!   second term, which errs on the safe side). A unit is a row; or a class, if the classes of the report are others than those of
//!   the fit. The variance is never taken for less than that of single pairs with two more that disagree (Bonett and Price 2012): no
//!   pair in error proves little.
//! - **Interval**: Wilson's for as many pairs as would have this variance if they were independent (Korn and Graubard 1998), with
//!   Student's quantile for the number of units.

use crate::base::student::upper_quantile;

/// Probability that an interval lies above the rate of all possible rows, and that it lies below.
const ERROR: f64 = 0.025;

/// The pairs of a unit: all, and those in error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unit {
    pub(crate) pairs: u64,
    pub(crate) errors: u64,
}

/// The 95 % interval of the rate of errors among pairs, which are more than 0. Units count a pair once for each of its two rows;
/// `within`: both rows are of one unit. `None` for fewer than two units with pairs.
pub(crate) fn interval(errors: u64, pairs: u64, units: &[Unit], within: bool) -> Option<[f64; 2]> {
    let count = units.iter().filter(|unit| unit.pairs > 0).count() as f64;
    if count < 2.0 {
        return None;
    }
    let (errors, pairs) = (errors as f64, pairs as f64);
    let rate = errors / pairs;
    let squares: f64 = units
        .iter()
        .map(|unit| (unit.errors as f64 - rate * unit.pairs as f64).powi(2))
        .sum();
    // Sums that hold each pair twice.
    let squares = if within { squares / 4.0 } else { squares };
    let clustered = squares * count / (count - 1.0) / (pairs * pairs);
    Some(around(errors, pairs, clustered, count))
}

/// The 95 % interval of the part of the queries that are right, from their groups, at least two.
pub(crate) fn interval_over(groups: &[Unit], rate: f64) -> [f64; 2] {
    let sum = |count: fn(&Unit) -> u64| groups.iter().map(count).sum::<u64>() as f64;
    let (right, queries) = (sum(|group| group.errors), sum(|group| group.pairs));
    let variance = error_over(groups, rate).powi(2);
    around(right, queries, variance, groups.len() as f64)
}

/// The interval of the rate of `errors` among `pairs`, with this variance from so many units.
fn around(errors: f64, pairs: f64, variance: f64, units: f64) -> [f64; 2] {
    let rate = errors / pairs;
    let single = (errors * (1.0 - rate) + 2.0) / (pairs + 2.0).powi(2);
    let near = (errors + 1.0) / (pairs + 2.0);
    let independent = (near * (1.0 - near) / variance.max(single)).min(pairs);
    wilson(rate, independent, upper_quantile(ERROR, units - 1.0))
}

/// The standard error of the part of the queries that are right, over the draw of their groups, at least two. Queries of a group
/// are right or wrong together. The rows of a group are queries, and references of others; about as much varies with the one as
/// with the other: the variance is doubled.
pub(crate) fn error_over(groups: &[Unit], rate: f64) -> f64 {
    let count = groups.len() as f64;
    let queries: u64 = groups.iter().map(|group| group.pairs).sum();
    let squares = groups
        .iter()
        .map(|group| (group.errors as f64 - rate * group.pairs as f64).powi(2));
    (2.0 * squares.sum::<f64>() * count / (count - 1.0)).sqrt() / queries as f64
}

/// Wilson's interval of the rate `part` among `count` trials, `z` standard errors to each side.
fn wilson(part: f64, count: f64, z: f64) -> [f64; 2] {
    let z2 = z * z / count;
    let middle = (part + z2 / 2.0) / (1.0 + z2);
    let half = z / (1.0 + z2) * (part * (1.0 - part) / count + z2 / (4.0 * count)).sqrt();
    [(middle - half).max(0.0), (middle + half).min(1.0)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::rng::{self, Rng};

    #[test]
    fn wilson_is_that_of_statsmodels() {
        // statsmodels.stats.proportion.proportion_confint(count, nobs, method="wilson")
        let z = 1.959963984540054;
        for (errors, count, low, high) in [
            (0.0, 30.0, 0.0, 0.11351339317396225),
            (3.0, 100.0, 0.010255179373306458, 0.08451937062574917),
        ] {
            let [l, h] = wilson(errors / count, count, z);
            assert!((l - low).abs() < 1e-3 && (h - high).abs() < 1e-3, "{l} {h}");
        }
    }

    #[test]
    fn a_side_is_left_out_in_25_of_1000_cases() {
        // Of very many units the quantile is the normal one. How often intervals hold tells 95 % from 80 %, and not from 90 %.
        let [low, high] = around(5e8, 1e9, 2.5e-3, 1e9);
        let expected = wilson(0.5, 0.25 / 2.5e-3, 1.959963984540054);
        assert!(
            (low - expected[0]).abs() < 1e-6 && (high - expected[1]).abs() < 1e-6,
            "{low} {high}, expected {expected:?}"
        );
    }

    #[test]
    fn no_error_leaves_about_twice_what_the_rule_of_three_does() {
        let units = vec![
            Unit {
                pairs: 100,
                errors: 0
            };
            101
        ];
        let [low, high] = interval(0, 5050, &units, false).expect("many units");
        assert_eq!(low, 0.0);
        assert!((5.0 / 5050.0..9.0 / 5050.0).contains(&high), "{high}");
        assert_eq!(interval(0, 10, &units[..1], false), None);
    }

    /// Rows about the means of their classes in a few dimensions; with `by_class` the classes are drawn anew each time.
    struct World {
        classes: usize,
        of_a_class: usize,
        by_class: bool,
        spread: f64,
    }

    impl World {
        fn rows(&self, rng: &mut Rng, middles: &[[f64; 4]]) -> Vec<([f64; 4], usize)> {
            let unit = |v: [f64; 4]| {
                let length = v.iter().map(|x| x * x).sum::<f64>().sqrt();
                v.map(|x| x / length)
            };
            let mut rows = Vec::new();
            for (class, middle) in middles.iter().enumerate() {
                for _ in 0..self.of_a_class {
                    rows.push((
                        unit(middle.map(|x| x + self.spread * rng::normal(rng))),
                        class,
                    ));
                }
            }
            rows
        }

        fn middles(&self, rng: &mut Rng) -> Vec<[f64; 4]> {
            let middle = |_| [(); 4].map(|()| rng::normal(rng));
            (0..self.classes).map(middle).collect()
        }

        /// The rates at a threshold, and their intervals.
        fn sample(
            &self,
            rows: &[([f64; 4], usize)],
            threshold: f64,
        ) -> [(f64, Option<[f64; 2]>); 2] {
            let units = if self.by_class {
                self.classes
            } else {
                rows.len()
            };
            let mut of = [vec![Unit::default(); units], vec![Unit::default(); units]];
            let mut all = [Unit::default(); 2];
            for (i, (a, class)) in rows.iter().enumerate() {
                for (j, (b, other)) in rows[..i].iter().enumerate() {
                    let s: f64 = a.iter().zip(b).map(|(a, b)| a * b).sum();
                    let same = class == other;
                    let wrong = u64::from(same == (s < threshold));
                    let ends = if self.by_class {
                        [*class, *other]
                    } else {
                        [i, j]
                    };
                    for end in ends {
                        let unit = &mut of[usize::from(same)][end];
                        unit.pairs += 1;
                        unit.errors += wrong;
                    }
                    all[usize::from(same)].pairs += 1;
                    all[usize::from(same)].errors += wrong;
                }
            }
            [0, 1].map(|same| {
                let within = same == 1 && self.by_class;
                let Unit { pairs, errors } = all[same];
                (
                    errors as f64 / pairs as f64,
                    interval(errors, pairs, &of[same], within),
                )
            })
        }

        /// Part of the trials in which the interval holds the rate of all possible rows, for both rates.
        fn covered(&self, threshold: f64, trials: usize) -> [f64; 2] {
            let mut rng = rng::stream(0, "threshold");
            let fixed = self.middles(&mut rng);
            let samples: Vec<_> = (0..trials)
                .map(|_| {
                    let middles = if self.by_class {
                        self.middles(&mut rng)
                    } else {
                        fixed.clone()
                    };
                    self.sample(&self.rows(&mut rng, &middles), threshold)
                })
                .collect();
            [0, 1].map(|which| {
                let mean =
                    samples.iter().map(|sample| sample[which].0).sum::<f64>() / trials as f64;
                let holds = |sample: &&[(f64, Option<[f64; 2]>); 2]| {
                    sample[which]
                        .1
                        .is_some_and(|[low, high]| low <= mean && mean <= high)
                };
                samples.iter().filter(holds).count() as f64 / trials as f64
            })
        }
    }

    #[test]
    fn intervals_hold_the_rate_of_all_rows_about_as_often_as_they_say() {
        for (what, world, threshold) in [
            (
                "rows",
                World {
                    classes: 8,
                    of_a_class: 10,
                    by_class: false,
                    spread: 0.5,
                },
                0.9,
            ),
            (
                "few errors",
                World {
                    classes: 8,
                    of_a_class: 10,
                    by_class: false,
                    spread: 0.3,
                },
                0.97,
            ),
            (
                "new classes",
                World {
                    classes: 25,
                    of_a_class: 5,
                    by_class: true,
                    spread: 0.5,
                },
                0.9,
            ),
            (
                "few new classes",
                World {
                    classes: 8,
                    of_a_class: 8,
                    by_class: true,
                    spread: 0.4,
                },
                0.8,
            ),
        ] {
            let covered = world.covered(threshold, 300);
            println!("{what}: {covered:.3?}");
            assert!(
                covered.iter().all(|part| (0.88..=1.0).contains(part)),
                "{what}: {covered:?}"
            );
        }
    }
}
