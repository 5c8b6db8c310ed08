//! [`CompareReport`]: the leaderboard for printing, with a verdict in a sentence.

use serde::{Deserialize, Serialize};

use super::judge::Interval;
use crate::base::ledger::Bytes;
use crate::search::metrics::Metrics;

/// The leaderboard so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompareReport {
    /// Version of Nearfar.
    pub version: String,
    /// `gpu` or `cpu`.
    pub engine: String,
    /// The name of the adapter.
    pub adapter: String,
    /// The name of the data.
    pub data: String,
    /// Seed of the data and its split, the same for all entries.
    pub data_seed: u64,
    /// Seeds of each entry.
    pub seeds: Vec<u64>,
    /// Folds of the rows that are not tested; 0 if the validation side is scored.
    #[serde(default)]
    pub folds: u64,
    /// Folds that are scored so far: a race may end before the last.
    #[serde(default)]
    pub folds_scored: u64,
    /// Rows that every entry is scored by, but those that a race excluded before.
    pub queries: u64,
    /// Number of classes of the queries.
    pub classes: u64,
    /// The classes of the queries were never trained on: then classes are the sample, not rows.
    pub new_classes: bool,
    /// All runs are done, and the winner's test side is scored.
    pub finished: bool,
    /// Runs done, and runs in all.
    pub runs: [u64; 2],
    /// Time of the work so far, without start-up, in milliseconds.
    pub elapsed_ms: f64,
    /// The most device memory that any run held, in bytes.
    pub peak_bytes: u64,
    /// Memory budget, in bytes.
    pub budget_bytes: u64,
    /// Seconds that it may take, if it is a search.
    #[serde(default)]
    pub seconds: Option<f64>,
    /// Parts of a search that were cut so that it ends in time, and candidates that do not fit, in sentences.
    #[serde(default)]
    pub cut: Vec<String>,
    /// Rows, best first; then those that were dropped, that failed, and that are still to come.
    pub rows: Vec<CompareRow>,
    /// Scores of the best row on the test side, which influenced nothing before.
    pub test: Option<TestScore>,
    /// The outcome in a sentence or two.
    pub verdict: String,
}

/// Kind of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowKind {
    /// The features as the heads see them.
    Raw,
    /// The linear map (LDA).
    LinearMap,
    /// An entry, which is trained.
    Head,
}

/// Comparison of a row with the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// The best row.
    Leader,
    /// Clearly worse: it would be with other queries and other seeds.
    Clear,
    /// Not clearly worse: it may be as good, or better.
    WithinNoise,
    /// Scored, but there are too few seeds or classes for a judgement.
    Unjudged,
    /// Dropped: half of the entries did better after fewer steps.
    Dropped,
    /// Broke off.
    Failed,
    /// Not scored yet.
    Waiting,
}

impl Standing {
    /// The standing in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Leader => "leader",
            Self::Clear => "clear",
            Self::WithinNoise => "within noise",
            Self::Unjudged => "not judged",
            Self::Dropped => "dropped",
            Self::Failed => "failed",
            Self::Waiting => "waiting",
        }
    }
}

/// A row of the leaderboard.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompareRow {
    /// Name that tells it from the others.
    pub name: String,
    /// Kind of the row.
    pub kind: RowKind,
    /// Differences from the settings that suit the data, `key=value` each, for `train --set`.
    pub settings: Vec<String>,
    /// Comparison with the best row.
    pub standing: Standing,
    /// Mean of precision@1 over seeds on the validation side; after the steps of the last rung if it was dropped.
    pub precision_at_1: Option<f64>,
    /// Mean of MAP@R over seeds on the validation side; after the steps of the last rung if it was dropped.
    pub mean_average_precision_at_r: Option<f64>,
    /// Standard deviation of precision@1 over seeds, if there are two.
    pub standard_deviation: Option<f64>,
    /// Scores of each seed.
    pub seeds: Vec<SeedScore>,
    /// Difference of the best row's precision@1 and its own.
    pub behind: Option<Interval>,
    /// Difference of the best head's precision@1 and its own, if something simpler than a head leads.
    #[serde(default)]
    pub behind_head: Option<Interval>,
    /// Difference of its precision@1 and that of raw features.
    pub over_raw: Option<Interval>,
    /// Difference of its precision@1 and that of the linear map.
    pub over_linear_map: Option<Interval>,
    /// Row that was the best when a race excluded this one, as clearly worse; `behind` is the difference from it.
    #[serde(default)]
    pub worse_than: Option<String>,
    /// Rows that it is scored by so far.
    #[serde(default)]
    pub queries: u64,
    /// Steps of a run, or of the last rung if it was dropped.
    pub steps: u64,
    /// The most device memory that a run of it held, in bytes.
    pub peak_bytes: u64,
    /// Reason for breaking off.
    pub error: Option<String>,
}

/// Scores of a row with one seed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeedScore {
    /// The seed; by folds that of the first fold, as every run then has a seed of its own.
    pub seed: u64,
    /// Precision@1 on the validation side.
    pub precision_at_1: f64,
    /// MAP@R on the validation side.
    pub mean_average_precision_at_r: f64,
    /// Time of training and scoring, in milliseconds.
    pub elapsed_ms: f64,
}

/// Scores of the winner on the test side, scored once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TestScore {
    /// Name of the winner.
    pub name: String,
    /// Seed of its head: the first, which was not chosen by scores.
    pub seed: u64,
    /// The scores.
    pub metrics: Metrics,
}

impl CompareReport {
    /// The best row.
    pub fn leader(&self) -> Option<&CompareRow> {
        self.rows
            .first()
            .filter(|row| row.standing == Standing::Leader)
    }

    /// Basis of the scores: number of seeds and rows, in words.
    pub fn basis(&self) -> String {
        let seeds = match self.seeds.len() {
            1 => "one seed".to_owned(),
            seeds => format!("{seeds} seeds"),
        };
        let known = match self.new_classes {
            true => format!(" of {} classes that were never trained on", self.classes),
            false => String::new(),
        };
        let rows = match self.folds {
            0 => format!("on {} validation rows{known}", self.queries),
            folds if self.folds_scored < folds => format!(
                "over {} rows{known}: {} of {folds} folds of all rows that are not tested, each scored by heads that trained on the others",
                self.queries,
                // Raw features and the linear map count before any head is scored.
                self.folds_scored.max(1)
            ),
            folds => format!(
                "over all {} rows that are not tested{known}, each in one of {folds} folds, scored by heads that trained on the others",
                self.queries
            ),
        };
        format!(
            "Means over {seeds} {rows}. The intervals are 95 % for the whole table at once. In {:.1} s, within {}.",
            self.elapsed_ms / 1e3,
            Bytes(self.peak_bytes).rounded_up()
        )
    }

    /// What is excluded, and what is still open.
    fn outcome(&self, name: &str) -> String {
        let standing = |wanted| -> Vec<&str> {
            let rows = self.rows.iter().filter(|row| row.standing == wanted);
            rows.map(|row| row.name.as_str()).collect()
        };
        let unjudged = standing(Standing::Unjudged);
        if !unjudged.is_empty() {
            return format!(
                "{name} leads, and how surely cannot be said of {}: that takes two seeds or more, and two classes.",
                listed(&unjudged)
            );
        }
        let near = standing(Standing::WithinNoise);
        if near.is_empty() {
            return format!("{name} is clearly better than every other row.");
        }
        // A race may have excluded a row beside another that was the best then, and is still open.
        let clear = self
            .rows
            .iter()
            .filter(|row| row.standing == Standing::Clear);
        let beside = |row: &CompareRow| {
            let than = row.worse_than.as_deref().filter(|than| near.contains(than));
            than.unwrap_or(name).to_owned()
        };
        let excluded = std::iter::once(name)
            .chain(near.iter().copied())
            .filter_map(|than| {
                let rows = clear.clone().filter(|row| beside(row) == than);
                let rows: Vec<&str> = rows.map(|row| row.name.as_str()).collect();
                let said = || {
                    format!(
                        "Excluded, as clearly worse than {than}: {}. ",
                        listed(&rows)
                    )
                };
                (!rows.is_empty()).then(said)
            });
        let how = match self.folds {
            0 => "folds of all rows that are not tested would tell more",
            _ => "these rows cannot tell them apart, so take the one that suits you",
        };
        format!(
            "{}Still open: {name} leads, within noise of {}; {how}.",
            excluded.collect::<String>(),
            listed(&near)
        )
    }

    /// Verdict in a sentence or two.
    pub(super) fn say(&self) -> String {
        let stopped = match (self.finished, self.runs) {
            (true, _) => String::new(),
            (false, [done, all]) => format!("Stopped: {done} of {all} runs are done. "),
        };
        let Some(leader) = self.leader() else {
            if self.finished && self.seconds.is_some() {
                return "Nothing was scored in that time: the settings are those for data of this shape, as far as they fit."
                    .to_owned();
            }
            return format!("{stopped}Nothing is scored yet.");
        };
        let outcome = self.outcome(&leader.name);
        let heads = self.heads();
        let test = match (&self.test, self.finished) {
            (Some(TestScore { seed, metrics, .. }), _) => {
                let of_seed = match leader.kind {
                    RowKind::Head => format!(" with seed {seed}"),
                    RowKind::Raw | RowKind::LinearMap => String::new(),
                };
                format!(
                    " Only the leader is scored on the test rows, once{of_seed}: the nearest row is right for {:.3} ± {:.3}.",
                    metrics.precision_at_1, metrics.standard_error
                )
            }
            (None, true) if self.seconds.is_some() => {
                " The test rows are left for the run of these settings.".to_owned()
            }
            (None, true) => " There are no test rows to score.".to_owned(),
            (None, false) => String::new(),
        };
        format!("{stopped}{outcome}{heads}{test}")
    }

    /// Which head is first and what it is clearly better than, if something simpler leads.
    fn heads(&self) -> String {
        let mut heads = self.rows.iter().filter(|row| row.kind == RowKind::Head);
        let Some(CompareRow { name, .. }) = heads.next() else {
            return String::new();
        };
        let (mut clear, mut near) = (Vec::new(), Vec::new());
        for row in heads {
            match row.behind_head {
                Some(behind) if behind.is_clear() => clear.push(row.name.as_str()),
                Some(_) => near.push(row.name.as_str()),
                None => {}
            }
        }
        match (&clear[..], &near[..]) {
            ([], []) => String::new(),
            (clear, []) => format!(
                " Of the heads {name} is first, and clearly better than {}.",
                listed(clear)
            ),
            ([], near) => format!(
                " Of the heads {name} is first, within noise of {}.",
                listed(near)
            ),
            (clear, near) => format!(
                " Of the heads {name} is first: clearly better than {}, within noise of {}.",
                listed(clear),
                listed(near)
            ),
        }
    }
}

/// Names as a list in a sentence.
fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [name] => (*name).to_owned(),
        [names @ .., last] => format!("{} and {last}", names.join(", ")),
    }
}
