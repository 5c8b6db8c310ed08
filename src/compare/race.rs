//! The race: after each fold, rows that are clearly worse than the best train no more, and the comparison ends once nothing else is open
//! (Maron and Moore 1994, Hoeffding Races; irace of López-Ibáñez et al. 2016 tests in the same way).
//!
//! Each look at the results is another chance to call a difference clear that is none. So the looks share the comparisons that may
//! err (Bonferroni): the last look has a half of them, as it has the most to tell, and those before it have the other half in equal
//! parts.

use super::judge::Judge;
use super::row::{Excluded, Row};
use super::{CompareProgress, Comparison, Job};

/// Part of the comparisons that may err which the look after the last fold has.
const LAST: f64 = 0.5;

/// Part of the comparisons that may err which the look after `scored` of so many folds has.
pub(super) fn share(scored: usize, folds: usize) -> f64 {
    match folds.saturating_sub(1) {
        0 => 1.0,
        _ if scored >= folds => LAST,
        before => (1.0 - LAST) / before as f64,
    }
}

impl Comparison {
    /// Part of the comparisons that may err which a look at the results has now.
    pub(super) fn share(&self) -> f64 {
        match self.contest.race {
            true => share(self.folds_scored, self.folds.len()),
            false => 1.0,
        }
    }

    /// Counts the results of a fold; a race goes on without the rows that are clearly worse than the best.
    pub(super) fn count_fold(&mut self) -> CompareProgress {
        self.jobs.pop_front();
        self.count();
        self.folds_scored += 1;
        let excluded = match self.contest.race {
            true => self.exclude(),
            false => Vec::new(),
        };
        CompareProgress::Fold {
            scored: self.folds_scored,
            excluded,
        }
    }

    /// Excludes the rows that are clearly worse than the best; returns their names.
    fn exclude(&mut self) -> Vec<String> {
        let order = self.order();
        let Some((best, others)) = order.split_first() else {
            return Vec::new();
        };
        let found = order.iter().map(|row| &self.rows[*row].found);
        let judge = Judge::new(&self.queries, found, self.rows.len(), self.share());
        let Row { name, found, .. } = &self.rows[*best];
        let open = others.iter().filter(|row| self.rows[**row].is_open());
        let clear = open.filter_map(|row| {
            let behind = judge.interval(found, &self.rows[*row].found)?;
            let than = name.clone();
            behind
                .is_clear()
                .then_some((*row, Excluded { behind, than }))
        });
        let clear: Vec<(usize, Excluded)> = clear.collect();
        let mut names = Vec::new();
        for (row, excluded) in clear {
            self.rows[row].excluded = Some(excluded);
            names.push(self.rows[row].name.clone());
            self.steps[0] += self.skip_runs(row);
        }
        let is_open = |row: &&usize| self.rows[**row].is_open();
        if order.iter().filter(is_open).count() == 1 {
            // The best alone is left.
            self.jobs.retain(|job| matches!(job, Job::Test));
            self.runs[1] = self.runs[0];
        }
        names
    }
}
