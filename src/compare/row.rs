//! [`Row`]: state of one row of the leaderboard while the comparison goes on.

use std::cmp::Ordering;

use super::contest::Entry;
use super::judge::{Found, Interval, Judge, Queries};
use super::report::{CompareRow, RowKind, SeedScore, Standing};
use crate::base::order as sorting;
use crate::model::layer_weights::LayerWeights;
use crate::rules::config::TrainConfig;
use crate::search::metrics::{Metrics, QueryScore};

/// Keys that differ between runs and are no setting of an entry.
const NO_SETTINGS: [&str; 3] = ["seed", "data_seed", "budget_bytes"];

/// A row of the leaderboard in progress.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) kind: RowKind,
    /// The settings of an entry.
    pub(super) config: Option<TrainConfig>,
    /// Differences from the settings that suit the data.
    settings: Vec<String>,
    pub(super) found: Found,
    /// Scores of each seed, in the order of `found`.
    pub(super) scores: Vec<Score>,
    /// Results of a fold that do not count yet, one of each seed so far, and the last run's score.
    of_fold: Vec<Scored>,
    pub(super) latest: Option<Score>,
    /// Steps of its last run.
    pub(super) steps: u64,
    /// Steps of a run of the last rung.
    pub(super) full: u64,
    /// Scores of the rung before, and their steps.
    before: (Vec<Score>, Vec<Vec<bool>>, u64),
    pub(super) peak_bytes: u64,
    /// Head of the first seed.
    pub(super) head: Option<Vec<LayerWeights>>,
    /// Others did better in a rung.
    dropped: bool,
    /// Set once a race goes on without the row.
    pub(super) excluded: Option<Excluded>,
    /// Reason for a missing score.
    pub(super) error: Option<String>,
}

/// A row that a race goes on without.
#[derive(Clone, Debug)]
pub(super) struct Excluded {
    /// Difference of the best row and this one.
    pub(super) behind: Interval,
    /// Name of the row that was the best.
    pub(super) than: String,
}

/// Scores of one seed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Score {
    pub(super) precision_at_1: f64,
    mean_average_precision_at_r: f64,
    pub(super) elapsed_ms: f64,
}

/// Result of a run.
#[derive(Debug)]
pub(super) struct Scored {
    score: Score,
    hits: Vec<bool>,
}

impl Scored {
    pub(super) fn new(metrics: &Metrics, queries: &[QueryScore], elapsed_ms: f64) -> Self {
        Self {
            score: Score {
                precision_at_1: metrics.precision_at_1,
                mean_average_precision_at_r: metrics.mean_average_precision_at_r,
                elapsed_ms,
            },
            hits: queries.iter().map(|query| query.hit).collect(),
        }
    }
}

impl Score {
    /// The mean of both over so many queries of each, and the time of both.
    fn and(self, own: usize, other: Self, others: usize) -> Self {
        let [own, others] = [own, others].map(|queries| queries as f64);
        let mean = |of: fn(&Self) -> f64| {
            (own * of(&self) + others * of(&other)) / (own + others).max(1.0)
        };
        Self {
            precision_at_1: mean(|score| score.precision_at_1),
            mean_average_precision_at_r: mean(|score| score.mean_average_precision_at_r),
            elapsed_ms: self.elapsed_ms + other.elapsed_ms,
        }
    }
}

impl Row {
    /// Row of raw features or of the linear map, which do not depend on the seed.
    pub(super) fn baseline(kind: RowKind) -> Self {
        let name = match kind {
            RowKind::Raw => "raw features",
            RowKind::LinearMap | RowKind::Head => "linear map (LDA)",
        };
        Self {
            name: name.to_owned(),
            kind,
            config: None,
            settings: Vec::new(),
            found: Found {
                hits: Vec::new(),
                folds: Vec::new(),
                fixed: true,
            },
            scores: Vec::new(),
            of_fold: Vec::new(),
            latest: None,
            steps: 0,
            full: 0,
            before: Default::default(),
            peak_bytes: 0,
            head: None,
            dropped: false,
            excluded: None,
            error: None,
        }
    }

    pub(super) fn head(entry: &Entry, suited: &TrainConfig) -> Self {
        let differences = entry.config.differences(suited).into_iter();
        Self {
            name: entry.name.clone(),
            kind: RowKind::Head,
            settings: differences
                .filter(|(key, _)| !NO_SETTINGS.contains(&key.as_str()))
                .map(|(key, value)| format!("{key}={value}"))
                .collect(),
            config: Some(entry.config.clone()),
            found: Found::default(),
            steps: entry.config.steps,
            full: entry.config.steps,
            ..Self::baseline(RowKind::Head)
        }
    }

    /// Adds the result of a run with the next seed.
    pub(super) fn take(&mut self, scored: Scored) {
        self.latest = Some(scored.score);
        self.scores.push(scored.score);
        self.found.hits.push(scored.hits);
    }

    /// Adds the result of a run on a fold. It counts with those of the other rows and seeds.
    pub(super) fn take_of_fold(&mut self, scored: Scored) {
        self.latest = Some(scored.score);
        self.of_fold.push(scored);
    }

    /// Counts the results of a fold: all rows have been scored by the same queries then.
    pub(super) fn count_fold(&mut self) {
        let before = self.found.len();
        if let (Some(scored), None) = (self.of_fold.first(), &self.excluded) {
            self.found.folds.push(scored.hits.len());
        }
        for (seed, scored) in std::mem::take(&mut self.of_fold).into_iter().enumerate() {
            match self.found.hits.get_mut(seed) {
                _ if self.excluded.is_some() => {}
                Some(hits) => {
                    let (own, others) = (self.scores[seed], scored.hits.len());
                    self.scores[seed] = own.and(before, scored.score, others);
                    hits.extend(scored.hits);
                }
                None => self.take(scored),
            }
        }
    }

    /// Marks the row as failed; its earlier results do not count.
    pub(super) fn fail(&mut self, error: String) {
        (self.error, self.head) = (Some(error), None);
        self.of_fold.clear();
        self.latest = None;
    }

    /// Ends a rung: the results of the rung are cleared if the row goes on.
    pub(super) fn end_rung(&mut self, goes_on: bool) {
        self.head = None;
        self.dropped = !goes_on;
        if goes_on {
            let scores = std::mem::take(&mut self.scores);
            self.before = (scores, std::mem::take(&mut self.found.hits), self.steps);
        }
    }

    /// Takes the results of the rung before back, if this one has none.
    pub(super) fn step_back(&mut self) {
        if self.config.is_some() && self.goes_on() && self.scores.is_empty() {
            let (scores, hits, steps) = std::mem::take(&mut self.before);
            (self.scores, self.found.hits) = (scores, hits);
            (self.steps, self.full) = (steps, steps);
        }
    }

    /// The mean precision@1 of the rung before and of this one, if it rose by more than its standard error: the row still learns.
    pub(super) fn rise(&self) -> Option<[f64; 2]> {
        let mean = |scores: &[Score]| {
            let sum: f64 = scores.iter().map(|score| score.precision_at_1).sum();
            (!scores.is_empty()).then(|| sum / scores.len() as f64)
        };
        let (before, now) = (mean(&self.before.0)?, mean(&self.scores)?);
        let queries = self.found.hits.first().map_or(1, Vec::len) as f64;
        let error = (now * (1.0 - now) / queries).sqrt();
        (now - before > error).then_some([before, now])
    }

    /// Tells if the row takes part: no rung dropped it, and it did not break off.
    pub(super) fn goes_on(&self) -> bool {
        !self.dropped && self.error.is_none()
    }

    /// Tells if a race may still find the row the best.
    pub(super) fn is_open(&self) -> bool {
        self.is_ranked() && self.excluded.is_none()
    }

    /// Tells if the row was scored in full.
    pub(super) fn is_ranked(&self) -> bool {
        let full = self.config.as_ref().map_or(self.steps, |_| self.full);
        self.goes_on() && !self.scores.is_empty() && self.steps == full
    }

    fn mean(&self, of: impl Fn(&Score) -> f64) -> Option<f64> {
        let sum: f64 = self.scores.iter().map(of).sum();
        (!self.scores.is_empty()).then(|| sum / self.scores.len() as f64)
    }

    /// Compares by precision@1, then by MAP@R. Rows that a race excluded come last, as they are behind: they answered fewer queries.
    pub(super) fn best_first(&self, other: &Self) -> Ordering {
        let behind = |row: &Self| {
            row.excluded
                .as_ref()
                .map_or(0.0, |row| row.behind.difference)
        };
        let by_race = behind(other).total_cmp(&behind(self));
        if by_race.is_ne() {
            return by_race;
        }
        let key = |row: &Self| {
            let nearest = row.mean(|score| score.precision_at_1);
            (nearest, row.mean(|score| score.mean_average_precision_at_r))
        };
        let (own, others) = (key(self), key(other));
        own.partial_cmp(&others).unwrap_or(Ordering::Equal)
    }

    fn report(&self, seeds: &[u64]) -> CompareRow {
        let score = |(seed, score): (&u64, &Score)| SeedScore {
            seed: *seed,
            precision_at_1: score.precision_at_1,
            mean_average_precision_at_r: score.mean_average_precision_at_r,
            elapsed_ms: score.elapsed_ms,
        };
        CompareRow {
            name: self.name.clone(),
            kind: self.kind,
            settings: self.settings.clone(),
            standing: match self.error {
                Some(_) => Standing::Failed,
                None if self.dropped => Standing::Dropped,
                None => Standing::Waiting,
            },
            precision_at_1: self.mean(|score| score.precision_at_1),
            mean_average_precision_at_r: self.mean(|score| score.mean_average_precision_at_r),
            standard_deviation: self.found.variance().map(f64::sqrt),
            seeds: match self.kind {
                RowKind::Head => seeds.iter().zip(&self.scores).map(score).collect(),
                RowKind::Raw | RowKind::LinearMap => Vec::new(),
            },
            behind: None,
            behind_head: None,
            over_raw: None,
            over_linear_map: None,
            worse_than: self.excluded.as_ref().map(|excluded| excluded.than.clone()),
            queries: self.found.len() as u64,
            steps: self.steps,
            peak_bytes: self.peak_bytes,
            error: self.error.clone(),
        }
    }
}

/// The leaderboard: rows in `order`, then the others, those that got furthest first. Of the comparisons that may err it has the part
/// `share`.
pub(super) fn ranked(
    rows: &[Row],
    order: &[usize],
    queries: &Queries,
    seeds: &[u64],
    share: f64,
) -> Vec<CompareRow> {
    let found = |row: &usize| &rows[*row].found;
    let judge = Judge::new(queries, order.iter().map(found), rows.len(), share);
    let over = |row: &Row, kind: RowKind| {
        let baseline = order.iter().find(|other| rows[**other].kind == kind)?;
        (row.kind != kind).then(|| judge.interval(&row.found, found(baseline)))?
    };
    let mut heads = order.iter().filter(|row| rows[**row].kind == RowKind::Head);
    // Where a head leads, `behind` says it.
    let first_head = heads.next().filter(|head| **head != order[0]);
    let mut reports = Vec::with_capacity(rows.len());
    for (place, number) in order.iter().enumerate() {
        let row = &rows[*number];
        let mut report = row.report(seeds);
        report.behind_head = first_head
            .filter(|head| row.kind == RowKind::Head && *head != number)
            .and_then(|head| judge.interval(found(head), &row.found));
        report.over_raw = over(row, RowKind::Raw);
        report.over_linear_map = over(row, RowKind::LinearMap);
        report.behind = match &row.excluded {
            _ if place == 0 => None,
            Some(excluded) => Some(excluded.behind),
            None => judge.interval(found(&order[0]), &row.found),
        };
        report.standing = match report.behind {
            _ if place == 0 => Standing::Leader,
            None => Standing::Unjudged,
            Some(behind) if behind.is_clear() => Standing::Clear,
            Some(_) => Standing::WithinNoise,
        };
        reports.push(report);
    }
    let mut others: Vec<usize> = (0..rows.len()).filter(|row| !order.contains(row)).collect();
    sorting::sort_places(&mut others, &|a, b| {
        let (a, b) = (&rows[a], &rows[b]);
        let last = |row: &Row| {
            (
                row.error.is_some(),
                !row.dropped,
                std::cmp::Reverse(row.steps),
            )
        };
        last(a).cmp(&last(b)).then(b.best_first(a))
    });
    reports.extend(others.iter().map(|row| rows[*row].report(seeds)));
    reports
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_still_learns_if_it_rose_by_more_than_its_standard_error() {
        let rise = |before: Option<f64>, now: f64, queries: usize| {
            let score = |precision_at_1| Score {
                precision_at_1,
                mean_average_precision_at_r: 0.0,
                elapsed_ms: 0.0,
            };
            let mut row = Row::baseline(RowKind::Head);
            row.before.0 = before.map(score).into_iter().collect();
            row.scores = vec![score(now)];
            row.found.hits = vec![vec![true; queries]];
            row.rise()
        };
        // Of 100 queries a score of 0.5 is known to within 0.05.
        assert_eq!(rise(Some(0.44), 0.5, 100), Some([0.44, 0.5]));
        assert_eq!(rise(Some(0.46), 0.5, 100), None);
        assert_eq!(rise(Some(0.46), 0.5, 400), Some([0.46, 0.5]));
        assert_eq!(rise(Some(0.6), 0.5, 400), None);
        assert_eq!(rise(None, 0.5, 400), None);
    }
}
