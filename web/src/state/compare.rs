//! Signals of a comparison, and the last one, which the browser keeps.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use leptos::prelude::*;
use nearfar::{CompareConfig, CompareForecast, CompareReport};

use crate::asked::CODE;
use crate::kept;
use crate::protocol::{CompareState, DataSummary, Event};

/// Choices of the first menu: recipes, or values of a setting.
pub(crate) const RECIPES: &str = "recipes";
pub(crate) const ALL_RECIPES: &str = "all-recipes";
pub(crate) const VALUES: &str = "values";

/// Storage key of the last comparison.
const KEPT: &str = "nearfar.comparison";

/// Hash of all that the page knows of the data, to tell it from other data. The data cannot be read from it.
fn fingerprint(data: &DataSummary) -> u64 {
    let mut hasher = DefaultHasher::new();
    postcard::to_allocvec(data)
        .unwrap_or_default()
        .hash(&mut hasher);
    hasher.finish()
}

/// A setting whose values are compared.
#[derive(Clone, Copy)]
pub(crate) struct Varied {
    /// Its path; empty if there is no such setting.
    pub(crate) key: RwSignal<&'static str>,
    /// The values, separated by commas.
    pub(crate) values: RwSignal<String>,
}

/// The signals of the board.
#[derive(Clone, Copy)]
pub(crate) struct Compare {
    /// Choice of the first menu, by its name.
    pub(crate) what: RwSignal<String>,
    /// The settings whose values are compared, each with each: one, or two.
    pub(crate) varied: [Varied; 2],
    pub(crate) seeds: RwSignal<u64>,
    /// Forecast of the comparison, or why it would be refused.
    pub(crate) forecast: RwSignal<Option<Result<CompareForecast, String>>>,
    /// Estimated milliseconds of the comparison by folds, if the first fold decides and if none does, if it can start.
    pub(crate) by_folds_ms: RwSignal<Option<[f64; 2]>>,
    /// Estimated seconds of a search whose last recipes are trained with two seeds and with three, if it can start.
    pub(crate) search_seconds: RwSignal<Option<[u64; 2]>>,
    /// Progress of the comparison, while it goes on.
    pub(crate) now: RwSignal<Option<CompareState>>,
    /// The last leaderboard.
    pub(crate) report: RwSignal<Option<CompareReport>>,
}

impl Compare {
    pub(crate) fn new() -> Self {
        Self {
            what: RwSignal::new(RECIPES.to_owned()),
            varied: ["memory_size", ""].map(|key| Varied {
                key: RwSignal::new(key),
                values: RwSignal::new(String::new()),
            }),
            seeds: RwSignal::new(CompareConfig::default().seeds),
            forecast: RwSignal::new(None),
            by_folds_ms: RwSignal::new(None),
            search_seconds: RwSignal::new(None),
            now: RwSignal::new(None),
            report: RwSignal::new(None),
        }
    }

    /// Applies an event about a comparison on this data; returns why it broke off, if it did.
    pub(crate) fn apply(&self, event: Event, data: Option<&DataSummary>) -> Option<String> {
        match event {
            Event::ComparisonForecast(forecast, by_folds_ms, search_seconds) => {
                self.forecast.set(Some(forecast));
                self.by_folds_ms.set(by_folds_ms);
                self.search_seconds.set(search_seconds);
            }
            Event::Comparing(now) => self.now.set(Some(now)),
            Event::Compared { report, over } => {
                if over {
                    self.now.set(None);
                    keep(data, &report);
                }
                self.report.set(Some(*report));
            }
            Event::NotCompared(why) => {
                self.now.set(None);
                return Some(why);
            }
            _ => {}
        }
        None
    }

    /// Shows the kept comparison if it was of this data, so that it outlives a reload.
    pub(crate) fn recall(&self, data: &DataSummary) {
        self.clear();
        self.report.set(kept(data));
    }

    /// Clears the progress, the leaderboard and the forecast of other data.
    pub(crate) fn clear(&self) {
        self.now.set(None);
        self.report.set(None);
        self.forecast.set(None);
        self.by_folds_ms.set(None);
        self.search_seconds.set(None);
    }
}

/// Has the browser keep a comparison, as text with one character per byte.
fn keep(data: Option<&DataSummary>, report: &CompareReport) {
    let bytes = data.map(|data| postcard::to_allocvec(&(CODE, fingerprint(data), report)));
    if let Some(Ok(bytes)) = bytes {
        let text: String = bytes.into_iter().map(char::from).collect();
        kept::keep(KEPT, &text);
    }
}

/// The kept comparison, if this code wrote it and it is of this data.
fn kept(data: &DataSummary) -> Option<CompareReport> {
    let text = kept::kept(KEPT)?;
    let bytes: Vec<u8> = text.chars().map(|byte| byte as u8).collect();
    let ((code, of), rest) = postcard::take_from_bytes::<(&[u8], u64)>(&bytes).ok()?;
    if code != CODE || of != fingerprint(data) {
        return None;
    }
    postcard::from_bytes(rest).ok()
}
