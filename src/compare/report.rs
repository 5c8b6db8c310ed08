//! [`CompareReport`]: the leaderboard as it is printed, and in a sentence.

use serde::{Deserialize, Serialize};

use super::judge::Interval;
use crate::base::ledger::Bytes;
use crate::search::metrics::Metrics;

/// The leaderboard so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompareReport {
    /// The version of Nearfar.
    pub version: String,
    /// `gpu` or `cpu`.
    pub engine: String,
    /// The name of the adapter.
    pub adapter: String,
    /// The name of the data.
    pub data: String,
    /// What seeds the data and its split, the same for all entries.
    pub data_seed: u64,
    /// What each entry is trained with.
    pub seeds: Vec<u64>,
    /// Validation rows that every entry is scored by.
    pub queries: u64,
    /// Their classes.
    pub classes: u64,
    /// Whether these classes were never trained on: then classes are the sample, not rows.
    pub new_classes: bool,
    /// Whether all runs are done, and the winner's test side is scored.
    pub finished: bool,
    /// Runs done, and runs in all.
    pub runs: [u64; 2],
    /// The work so far, without start-up.
    pub elapsed_ms: f64,
    /// The most device memory that any run held, in bytes.
    pub peak_bytes: u64,
    /// What it must stay within.
    pub budget_bytes: u64,
    /// Best first; then those that were dropped, that failed, and that are still to come.
    pub rows: Vec<CompareRow>,
    /// The best row's test side, which nothing before has looked at.
    pub test: Option<TestScore>,
    /// The outcome in a sentence or two.
    pub verdict: String,
}

/// What a row is.
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

/// How a row stands to the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// It is the best.
    Leader,
    /// It is worse, and would be with other queries and other seeds.
    Clear,
    /// It may be as good, or better.
    WithinNoise,
    /// It was scored, and too few seeds or classes are there to say more.
    Unjudged,
    /// Half of the entries did better after fewer steps.
    Dropped,
    /// It broke off.
    Failed,
    /// It was not scored yet.
    Waiting,
}

impl Standing {
    /// In words.
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
    /// What tells it from the others.
    pub name: String,
    /// What it is.
    pub kind: RowKind,
    /// What differs from the settings that suit the data, `key=value` each: what `train --set` takes.
    pub settings: Vec<String>,
    /// How it stands to the best.
    pub standing: Standing,
    /// The mean over seeds on the validation side; after the steps of the last rung where it was dropped.
    pub precision_at_1: Option<f64>,
    /// The same.
    pub mean_average_precision_at_r: Option<f64>,
    /// The standard deviation of precision@1 over seeds, where there are two.
    pub standard_deviation: Option<f64>,
    /// Each seed by itself.
    pub seeds: Vec<SeedScore>,
    /// How far its precision@1 is behind the best.
    pub behind: Option<Interval>,
    /// How far it is before raw features, and before the linear map.
    pub over_raw: Option<Interval>,
    /// The same.
    pub over_linear_map: Option<Interval>,
    /// Steps of a run, of the last rung where it was dropped.
    pub steps: u64,
    /// The most device memory that a run of it held, in bytes.
    pub peak_bytes: u64,
    /// Why it broke off.
    pub error: Option<String>,
}

/// A seed of a row.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeedScore {
    /// The seed.
    pub seed: u64,
    /// On the validation side.
    pub precision_at_1: f64,
    /// The same.
    pub mean_average_precision_at_r: f64,
    /// Training and scoring.
    pub elapsed_ms: f64,
}

/// The winner's test side, scored once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TestScore {
    /// The winner.
    pub name: String,
    /// The seed of its head: the first, which nothing chose.
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

    /// What the scores are means of, and what they took.
    pub fn basis(&self) -> String {
        let seeds = match self.seeds.len() {
            1 => "one seed".to_owned(),
            seeds => format!("{seeds} seeds"),
        };
        let rows = match self.new_classes {
            true => format!(
                "{} rows of {} classes that were never trained on",
                self.queries, self.classes
            ),
            false => format!("{} rows", self.queries),
        };
        format!(
            "Means over {seeds} on the validation side, {rows}; all intervals hold together. In {:.1} s, within {}.",
            self.elapsed_ms / 1e3,
            Bytes(self.peak_bytes).rounded_up()
        )
    }

    /// The outcome in a sentence or two.
    pub(super) fn say(&self) -> String {
        let stopped = match (self.finished, self.runs) {
            (true, _) => String::new(),
            (false, [done, all]) => format!("Stopped: {done} of {all} runs are done. "),
        };
        let Some(leader) = self.leader() else {
            return format!("{stopped}Nothing is scored yet.");
        };
        let standing = |wanted| {
            let rows = self.rows.iter().filter(move |row| row.standing == wanted);
            rows.map(|row| row.name.as_str()).collect::<Vec<_>>()
        };
        let (near, unjudged) = (
            standing(Standing::WithinNoise),
            standing(Standing::Unjudged),
        );
        let name = &leader.name;
        let outcome = if !unjudged.is_empty() {
            format!(
                "{name} leads, and how surely cannot be said of {}: that takes two seeds or more, and two classes.",
                listed(&unjudged)
            )
        } else if near.is_empty() {
            format!("{name} is clearly better than every other row.")
        } else {
            format!(
                "{name} leads, within noise of {}: more seeds or more validation rows would tell.",
                listed(&near)
            )
        };
        let test = match (&self.test, self.finished) {
            (Some(TestScore { seed, metrics, .. }), _) => {
                let of_seed = match leader.kind {
                    RowKind::Head => format!(" with seed {seed}"),
                    RowKind::Raw | RowKind::LinearMap => String::new(),
                };
                format!(
                    " On the test rows, scored once and for it alone{of_seed}, the nearest row is right for {:.3} ± {:.3}.",
                    metrics.precision_at_1, metrics.standard_error
                )
            }
            (None, true) => " There are no test rows to score.".to_owned(),
            (None, false) => String::new(),
        };
        format!("{stopped}{outcome}{test}")
    }
}

/// Names as a sentence lists them.
fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [name] => (*name).to_owned(),
        [names @ .., last] => format!("{} and {last}", names.join(", ")),
    }
}
